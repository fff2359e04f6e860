"""The built-in model condensing notes."""

from __future__ import annotations

from datetime import date

import pytest
from tests.unit.models.extractive_requests import reflect

from onlooker.domain.notes import NoteFormat
from onlooker.policy.reply import read
from onlooker.policy.tokens import estimate

FIRST = (
    "## 2026-02-16\nAna: I moved to Oslo last week (2026-W07). I adopted a dog called Rex.\n"
    "CRITICAL Ana: I'm allergic to peanuts.\n"
    "Ben: I had a nice day. I'm starting a pottery class next month (2026-03).\n"
    "Values: 88-1431 · /srv/app/fly.toml"
)
SECOND = (
    "## 2026-02-17\nIMPORTANT Ben: We decided to sell the boat.\n"
    "Ana: I feel good about everything. Rex chewed the sofa.\n"
    "CRITICAL deploy failed: missing env DATABASE_URL; fixed by setting it in fly.toml\nValues: v2.3.1"
)


@pytest.mark.parametrize(
    ("format", "line"),
    [
        ("lines", "Ana: Look at this! [pic: it stands in the harbour with her crew]"),
        ("lines", "Ana: Here's the boat. [pic: a sign that says look at this]"),
        ("prose", "On 2026-02-16, Ana: I bought a boat in Bergen; [pic: red boat] Look at this."),
    ],
)
def test_what_a_picture_shows_needs_nothing_that_points_at_it(format: NoteFormat, line: str) -> None:
    """Two pieces that each needed the other were looked for without end."""
    more = "Ben: I sold the cabin in Rondane last week." if format == "prose" else FIRST
    text = reflect(line if format == "prose" else f"## 2026-02-16\n{line}", more, tokens=200, format=format)
    assert line.partition("[")[2] in text


@pytest.mark.req(26, 98)
@pytest.mark.parametrize("tokens", [10, 60, 90])
def test_critical_lines_are_kept_word_for_word(tokens: int) -> None:
    text = reflect(FIRST, SECOND, tokens=tokens)
    assert "CRITICAL Ana: I'm allergic to peanuts." in text
    assert "CRITICAL deploy failed: missing env DATABASE_URL; fixed by setting it in fly.toml" in text


@pytest.mark.req(22, 26)
def test_a_reflection_keeps_facts_before_feelings() -> None:
    text = reflect(FIRST, SECOND, tokens=100)
    assert estimate(text) <= 100
    assert "Oslo" in text
    assert "sell the boat" in text
    assert "feel good about everything" not in text


def test_days_stay_with_their_lines() -> None:
    lines = {line.text: line.day for line in read(reflect(FIRST, SECOND, tokens=120), format="lines").lines}
    assert lines["Ana: I'm allergic to peanuts."] == date(2026, 2, 16)
    assert lines["Ben: We decided to sell the boat."] == date(2026, 2, 17)


@pytest.mark.req(98)
def test_the_ledger_is_carried_on() -> None:
    text = reflect(FIRST, SECOND, tokens=180)
    assert text.splitlines()[-1].startswith("Values: ")
    for value in ("88-1431", "/srv/app/fly.toml", "v2.3.1"):
        assert value in text


@pytest.mark.req(26)
def test_critical_lines_do_not_fill_a_reflection_in_time() -> None:
    failed = [f"CRITICAL shell: build {n} failed because of file number {n}" for n in range(100)]
    rest = [f"Ana: I moved house {n} to Oslo in my van." for n in range(20)]
    text = reflect("\n".join(["## 2026-02-16", *failed, *rest]), tokens=400)
    assert estimate(text) <= 400
    assert all(line in text for line in failed[-5:])
    assert "my van" in text


@pytest.mark.req(26)
def test_a_note_that_fits_is_left_as_it_is() -> None:
    text = "## 2026-02-16\nAna: I moved to Oslo. I adopted a dog.\nBen: I'm starting a pottery class."
    assert reflect(text, tokens=200) == text


@pytest.mark.req(22)
def test_prose_is_condensed_to_prose() -> None:
    prose = "Ana moved to Oslo last week (2026-W07). She adopted a dog called Rex. Ben feels good. " * 3
    text = reflect(prose, tokens=40, format="prose")
    assert "##" not in text
    assert "Oslo" in text
    assert estimate(text) <= 40


@pytest.mark.req(22)
def test_prose_of_many_turns_becomes_eight_sentences_at_most_and_nobody_says_what_another_did() -> None:
    prose = "On 2026-02-16, " + " ".join(
        f"ana: carried crates to {place}; slept in {place}. ben: sold tulips in {place}; went home."
        for place in ("Oslo", "Turin", "Ghent", "Cork", "Graz", "Lyon", "Bonn", "Bari")
    )
    text = reflect(prose, tokens=160, format="prose")
    assert text.startswith("On 2026-02-16, ")
    said = text.removeprefix("On 2026-02-16, ").rstrip(".").split(". ")
    assert len(said) == 8
    for sentence in said:
        assert ("sold" in sentence or "home" in sentence) == sentence.startswith("ben: "), text


def test_lines_of_a_language_model_are_condensed_too() -> None:
    written = (
        "## 2026-02-16\n[14:02] IMPORTANT Ana moved to Oslo (2026-02-09)\n"
        "[14:05] The weather was discussed at length.\n"
        "[14:09] NOTE Ana's order 88-1431 for €1,240.50 was shipped to Storgata 5, Oslo."
    )
    text = reflect(written, tokens=62)
    assert "[14:02] IMPORTANT Ana moved to Oslo (2026-02-09)" in text
    assert "88-1431" in text


@pytest.mark.req(22)
@pytest.mark.parametrize(
    ("before", "after", "merged"),
    [
        ("Ana: My budget is 42k.", "Ana: My budget is 45k.", "Ana: My budget is 45k (was 42k)."),
        ("Ana: My budget is 45k (was 42k).", "Ana: My budget is 50k.", "Ana: My budget is 50k (was 45k)."),
        ("Ana: 我的预算是4万。", "Ana: 我的预算是5万。", "Ana: 我的预算是5万 (was 4万)。"),
    ],
)
def test_a_later_statement_wins_and_says_what_it_was(before: str, after: str, merged: str) -> None:
    assert (
        reflect(f"## 2026-02-16\n{before}", f"## 2026-02-18\n{after}", tokens=100)
        == f"## 2026-02-18\n{merged}"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Ana: I ran 5 km along the river.", "Ana: I ran 8 km along the river."),  # two runs
        ("Ana: My budget is 42k.", "Ben: My budget is 45k."),  # two people
        ("Ana: I paid the rent of flat 42.", "Ana: My budget is 45k."),
        ("Alex: P95=1.1s", "Alex: P95=1.3s"),  # of two services, for all we know
        ("user: The order is 88-1439.", "user: The order is 88-1441."),  # two orders
        ("search(JFK): HAT134, leaves 05:00", "search(JFK): HAT144, leaves 07:00"),
        ("search(JFK): prices economy 78", "search(JFK): prices economy 66"),  # of two flights
        ("get_order(88-1431): total 120", "get_order(88-1431): total 140"),
    ],
)
def test_two_things_are_not_taken_for_one(before: str, after: str) -> None:
    text = reflect(f"## 2026-02-16\n{before}", f"## 2026-02-18\n{after}", tokens=100)
    assert before in text
    assert after in text


def test_reflecting_nothing_is_empty() -> None:
    assert reflect("", tokens=50) == ""


@pytest.mark.parametrize("format", ["lines", "prose", "stamped"])
@pytest.mark.parametrize(
    ("notes", "kept"),
    [
        (["Standing instruction: Always use tabs."], "Standing instruction: Always use tabs."),
        (["Open request: fix the login"], "Open request: fix the login"),
        (["Open request: fix the login", "Open request: none"], "Open request: none"),
        (["Values: 88-1431", "Values: v2.3.1"], "v2.3.1"),
    ],
)
def test_notes_without_a_line_of_their_own_are_not_condensed_to_nothing(
    notes: list[str], kept: str, format: NoteFormat
) -> None:
    assert kept in reflect(*notes, tokens=50, format=format)


def speakers(text: str) -> list[str]:
    return [line.partition(": ")[0] for line in text.splitlines()]


def test_what_one_speaker_said_at_two_times_is_not_one_line() -> None:
    said = "## 2026-02-16\nAna: I sold the boat in Bergen.\nAna: I rented the garage at Nygata 3."
    assert reflect(said, tokens=400) == said


def test_an_item_of_a_list_stays_with_what_announces_it() -> None:
    said = "assistant: These reservations are on your profile: OWZ4XL. 8WMF4C. ZX7K2Q."
    days = [f"## 2026-02-{day}\n{said.replace('OWZ4XL', f'OWZ4X{day}')}" for day in range(10, 20)]
    text = reflect(*days, tokens=60)
    assert all(
        "These reservations are on your profile:" in line for line in text.splitlines() if "8WM" in line
    )
    assert not any(line.endswith("profile:") for line in text.splitlines())


@pytest.mark.parametrize(
    "between",
    [
        "user: I want the invoices of January as PDF.",
        "assistant: changed address on invoices to Storgata 14",
        "shell(ls /srv): invoices-2026.pdf",
        "Ben: Which harbour charges least for 40 days?",
        "Ben: I rented a kayak in Turin.",
    ],
)
def test_nothing_changes_places_with_what_was_done_or_asked_in_between(between: str) -> None:
    said = (
        f"## 2026-02-16\nAna: sold boat in Bergen for 9,200 kroner\n{between}\nAna: rented garage at Nygata 3"
    )
    text = reflect(said, tokens=400)
    assert speakers(text) == speakers(said)


def test_a_line_that_is_dropped_leaves_its_ids_to_the_ledger() -> None:
    nine = range(9)
    booked = "\n".join(f"get_order(A-10{n}): customer ana_berg_20{n}, paid with card_7712{n}" for n in nine)
    said = "\n".join(f"Ana: I walked along the harbour of Bergen and met friend {n} there" for n in nine)
    text = reflect(f"## 2026-02-16\n{booked}\n{said}", tokens=160)
    dropped = [n for n in range(9) if f"get_order(A-10{n})" not in text]
    assert dropped
    ledger = text.splitlines()[-1]
    assert ledger.startswith("Values: ")
    assert any(f"card_7712{n}" in ledger for n in dropped)
