"""What goes into a context, in which order, and within which limits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from conversations import call, conversations, counting, message, note, numbered, result, state
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.context import RuntimeContext
from onlooker.domain.errors import BudgetError
from onlooker.domain.messages import Message, tokens_of
from onlooker.domain.notes import Note, State
from onlooker.policy.assemble import (
    ELISION,
    MAX_DAYS,
    Counting,
    PromptRequest,
    assemble,
    assemble_without_memory,
    limits_beside_items,
    relative_days,
)
from onlooker.policy.render import Context
from onlooker.policy.settings import DEFAULT, LANGO, OFF, SECTION_TOKENS, ZORA, Settings, limits_for
from onlooker.policy.tokens import MARGIN, Calibration, estimator, margin

# -- What goes into a context, in which order, and within which limits

PLAIN = counting("lango")  # four characters are a token


def context(
    now: State, request: PromptRequest | None = None, settings: Settings = LANGO, counted: Counting = PLAIN
) -> Context:
    return assemble(now, request or PromptRequest(), settings, counted, None)


def counted_message(seq: int, tokens: int) -> Message:
    """A message whose text is as long as its count says."""
    made = message(seq, text="x" * 4 * max(0, tokens - 4))
    return replace(made, tokens=PLAIN.estimator.message(made))


def lines(first: int, count: int, tokens: int = 100, *, generation: int = 0) -> list[Note]:
    """Notes that say which they are and are as long as their count says."""
    made: list[Note] = []
    for i in range(first, first + count):
        text = f"{'observation' if not generation else 'reflection'} {i}."
        text += "x" * (4 * tokens - len(text))
        made.append(note(i, i, tokens, generation=generation, text=text))
    return made


def which(found: Context, kind: str = "observation") -> list[int]:
    return [i for i in range(1, 200) if f"{kind} {i}." in found.memory]


def test_of_a_note_that_is_too_long_the_lines_of_most_worth_stay_with_their_days() -> None:
    days = [
        f"## 2026-02-{day:02}\nuser: please do task {day} before the others\n"
        + f"row {day} of the table\n" * 20
        for day in range(1, 6)
    ]
    text = "\n".join([*days[:3], "CRITICAL never delete the table", *days[3:]])
    long = note(1, 1, PLAIN.text(text), generation=1, text=text)
    found = context(state(numbered(0, 5), [long]), settings=replace(LANGO, memory_limit=200)).memory
    assert "CRITICAL never delete the table" in found
    assert [day for day in range(1, 6) if f"do task {day} " in found] == [1, 2, 3, 4, 5]
    assert [day for day in range(1, 6) if f"## 2026-02-{day:02}" in found] == [1, 2, 3, 4, 5]
    assert "row 5 of the table" in found
    assert "row 1 of the table" not in found
    assert found.index("## 2026-02-03") < found.index("CRITICAL") < found.index("## 2026-02-04")


def test_headings_of_many_days_are_paid_for() -> None:
    days = "\n".join(f"## 2026-{1 + n // 28:02}-{1 + n % 28:02}\nuser: n{n}" for n in range(200))
    found = context(
        state(numbered(0, 5), [note(1, 1, 900, text=days)]), settings=replace(LANGO, memory_limit=300)
    )
    assert "user: n199" in found.memory
    assert 100 < PLAIN.text(found.memory) <= 300


REQUEST = "Please book the late ferry to Bergen for all of us."


@pytest.mark.parametrize(("tail_start", "told"), [(3, True), (1, False)])
def test_a_request_that_stands_raw_is_not_told_again(tail_start: int, told: bool) -> None:
    said = (message(1, text=REQUEST), message(2, role="assistant"), message(3))
    noted = note(1, 2, 40, text=f"Open request: {REQUEST}\n## 2026-02-16\nuser: a ferry")
    found = context(state(said, [noted], tail_start=tail_start))
    assert ("### Now" in found.memory) == told
    assert found.text().count(REQUEST) == 1


def test_a_request_that_is_not_told_again_stays_when_the_tail_is_cut() -> None:
    said = (
        message(1, text=REQUEST),
        message(2, role="assistant", text="All of you? " * 40),
        call(3, "c"),
        replace(result(4, "c"), text="ferry " * 400),
    )
    said = tuple(replace(m, tokens=PLAIN.estimator.message(m)) for m in said)
    noted = note(1, 2, 40, text=f"Open request: {REQUEST}\n## 2026-02-16\nuser: a ferry")
    now = state(said, [noted], tail_start=1)
    for limit in (650, 800, 1_200):
        found = context(now, settings=replace(LANGO, message_limit=limit))
        assert found.text().count(REQUEST) == 1
        assert [m.seq for m in found.messages][-2:] == [3, 4]
        assert tokens_of(found.messages) <= limit


@pytest.mark.parametrize("line", [f"user: {REQUEST}", f"[09:01] IMPORTANT ana: {REQUEST[:-1]}"])
def test_a_note_does_not_repeat_what_stands_under_now(line: str) -> None:
    noted = note(1, 2, 40, text=f"Open request: {REQUEST}\n## 2026-02-16\n{line}\n## 2026-02-17\nuser: yes")
    found = context(state(numbered(0, 5), [noted]))
    assert found.text().count(REQUEST) == 1
    assert "## 2026-02-16" not in found.memory
    assert "## 2026-02-17\nuser: yes" in found.memory
    # A note that says nothing else is not left out.
    only = note(1, 2, 40, text=f"Open request: {REQUEST}\n## 2026-02-16\n{line}")
    found = context(state(numbered(0, 5), [only]))
    assert found.text().count(REQUEST) == 1
    assert "### Observations" not in found.memory
    assert found.stats.left_out_notes == 0


def test_what_was_asked_for_leaves_most_of_the_memory_to_the_notes() -> None:
    rules = "\n".join(
        f"Standing instruction: Always write figure {n} in words, never in digits." for n in range(60)
    )
    noted = note(1, 1, 900, text=f"{rules}\n## 2026-02-16\nuser: a ferry")
    found = context(state(numbered(0, 5), [noted]), settings=replace(LANGO, memory_limit=500))
    assert "figure 59 in words" in found.memory  # the newest
    assert "user: a ferry" in found.memory
    assert 100 < PLAIN.text(found.sections.now) <= 0.4 * 500


def test_notes_are_condensed_by_what_is_shown_of_them_beside_items_and_requests() -> None:
    asked = f"Open request: {REQUEST}\n## 2026-02-16\nuser: a ferry"
    noted = note(1, 1, PLAIN.text(asked), text=asked)
    limits = limits_for(LANGO, 0)
    assert limits_beside_items(limits, state(notes=[note(1, 1, 50)]), PLAIN.text) == limits
    beside = limits_beside_items(limits, state(notes=[noted]), PLAIN.text)
    unshown = noted.tokens - PLAIN.text("## 2026-02-16\nuser: a ferry")
    assert unshown > 10
    assert beside.reflect_at == limits.reflect_at + unshown
    # Where memory is full, what stands beside the notes takes from their room.
    full = replace(limits, memory_limit=limits.reflect_at + SECTION_TOKENS)
    told = context(state(notes=[noted])).stats.now
    less = limits_beside_items(full, state(notes=[noted]), PLAIN.text)
    left = limits.reflect_at - told - 1  # one for joining the note
    assert left <= less.reflect_at - unshown < left + 3


def test_where_notes_do_not_fit_lines_go_by_worth_and_not_by_age() -> None:
    said = ["user: allergic to peanuts", *(f"user: tell me about star {i}" for i in range(200))]
    texts = [f"## 2026-02-16\n{line}\nassistant: star {i} is far away" for i, line in enumerate(said)]
    notes = [note(i, i, PLAIN.text(text), text=text) for i, text in enumerate(texts, 1)]
    short = replace(LANGO, max_observations=0, memory_limit=2000)
    found = context(state(numbered(*[0] * 201, 5), notes), settings=short)
    assert "## 2026-02-16\nuser: allergic to peanuts" in found.memory
    assert "star 199" in found.memory
    assert found.stats.left_out_notes + found.stats.shortened_notes > 0
    assert 1800 < found.stats.observations + found.stats.reflections <= 2000


def test_of_lines_that_are_not_shown_the_exact_values_stay() -> None:
    hidden = "assistant: the fault is in src/command_parser.py, see order AB-1001, " + "and so on " * 300
    old = f"## 2026-02-16\n{hidden}\nuser: it rained\nValues: card_77120"
    new = "## 2026-02-17\nuser: please go on"
    notes = [note(1, 1, PLAIN.text(old), text=old), note(2, 2, PLAIN.text(new), text=new)]
    found = context(state(numbered(0, 0, 5), notes), settings=replace(LANGO, memory_limit=500))
    assert "the fault is in" not in found.memory
    assert "Values: AB-1001 · src/command_parser.py · card_77120\n## 2026-02-17" in found.memory
    assert found.stats.observations <= 500


# ------------------------------------------------------------------------------------ order


@pytest.mark.req(44, 45, 102)
def test_the_prompt_is_base_knowledge_reflections_observations_then_messages() -> None:
    notes = [*lines(1, 2, generation=1), *lines(3, 2)]
    request = PromptRequest("BASE", {"docs": "KNOWLEDGE"}, end="END")
    found = context(state(numbered(0, 0, 0, 0, 5), notes), request)
    places = [
        found.text().index(part)
        for part in (
            "BASE",
            "KNOWLEDGE",
            "## Conversation Memory",
            "### Reflections",
            "reflection 1.",
            "reflection 2.",
            "### Observations",
            "observation 3.",
            "observation 4.",
            "message 5",
            "END",
        )
    ]
    assert places == sorted(places)
    assert found.text().count("## Conversation Memory") == 1
    roles = [m["role"] for m in found.openai()]
    assert roles == ["system", "user", "system"]


@pytest.mark.req(46)
def test_with_nothing_stored_there_is_no_memory_section() -> None:
    found = context(state(numbered(5, 5)), PromptRequest("BASE"))
    assert found.memory == ""
    assert found.system == "BASE"
    assert [m["content"] for m in found.openai()] == ["BASE", "message 1", "message 2"]


@pytest.mark.req(62, 77)
def test_switched_off_what_went_in_comes_out() -> None:
    said = numbered(*[9000] * 20)
    found = context(state(said, [note(1, 3)], tail_start=1), PromptRequest("BASE", budget=1000), OFF)
    assert found.memory == ""
    assert found.messages == said
    assert found.stats.total == 180_000 + 1


def test_knowledge_stands_in_what_is_left_untouched() -> None:
    found = assemble_without_memory(PromptRequest("BASE", {"docs": "KNOWLEDGE"}), numbered(5), PLAIN)
    assert found.system == "BASE\n\nKNOWLEDGE"
    assert found.stats.total == PLAIN.text("BASE\n\nKNOWLEDGE") + 5


# ------------------------------------------------------------------------------------ notes


@pytest.mark.req(47, 48)
def test_the_newest_five_reflections_and_twenty_observations_are_shown_in_order() -> None:
    found = context(state(notes=[*lines(1, 9, 10, generation=1), *lines(30, 31, 10)]))
    assert which(found, "reflection") == [5, 6, 7, 8, 9]
    assert which(found) == list(range(41, 61))
    assert found.stats.left_out_notes == 4 + 11


@pytest.mark.req(48)
def test_zero_is_no_limit() -> None:
    unlimited = replace(LANGO, max_reflections=0, max_observations=0)
    found = context(state(notes=[*lines(1, 9, 10, generation=1), *lines(30, 31, 10)]), settings=unlimited)
    assert which(found, "reflection") == list(range(1, 10))
    assert which(found) == list(range(30, 61))


@pytest.mark.req(47, 49)
def test_over_budget_the_newest_observations_win() -> None:
    found = context(state(notes=lines(1, 20, 300)))
    assert which(found) == list(range(8, 21))  # 13 × 300 and the headings are within 4,000
    assert found.stats.reflections + found.stats.observations <= 4000


@pytest.mark.req(50)
def test_reflections_come_first_and_observations_fill_what_is_left() -> None:
    found = context(state(notes=[*lines(1, 3, 1000, generation=1), *lines(4, 8, 300)]))
    assert which(found, "reflection") == [1, 2, 3]
    assert which(found) == [9, 10, 11]
    assert found.stats.left_out_notes == 5


@pytest.mark.req(49)
def test_many_short_notes_do_not_add_up_to_more_than_the_budget() -> None:
    notes = [note(i, i, PLAIN.text("a short"), text="a short") for i in range(1, 400)]
    found = context(state(notes=notes), settings=replace(LANGO, max_observations=0, memory_limit=200))
    assert 150 < found.stats.reflections + found.stats.observations <= 200


@pytest.mark.req(50)
def test_where_reflections_exceed_the_budget_no_observation_is_shown() -> None:
    found = context(state(notes=[*lines(1, 5, 1500, generation=1), *lines(6, 3, 10)]))
    assert which(found, "reflection") == [4, 5]
    assert which(found) == []


@pytest.mark.req(47, 50)
def test_choosing_stops_at_the_first_that_does_not_fit() -> None:
    notes = [*lines(1, 1, 10), *lines(2, 1, 3900), *lines(3, 1, 300)]
    assert which(context(state(notes=notes))) == [3]


def test_one_note_too_large_for_the_section_is_shown_in_part() -> None:
    text = "\n".join(f"line {i} " + "x" * 80 for i in range(400))
    found = context(state(notes=[note(1, 1, PLAIN.text(text), text=text)]))
    assert "line 399 " in found.memory
    assert "line 1 " not in found.memory
    assert 3500 < found.stats.observations + found.stats.reflections <= 4000


def test_where_not_one_note_fits_there_is_no_heading_either() -> None:
    tiny = replace(LANGO, memory_limit=30)
    found = context(state(numbered(5, 5), lines(1, 1, 500), tail_start=1), settings=tiny)
    assert found.memory == ""
    assert found.stats.left_out_notes == 1


def test_a_day_that_goes_on_has_one_heading() -> None:
    notes = [
        note(1, 1, text="## 2026-02-16\nNOTE a"),
        note(2, 2, text="## 2026-02-16\nNOTE b\n## 2026-02-17\nNOTE c"),
    ]
    shown = context(state(notes=notes)).layers["observations"]
    assert shown.endswith("## 2026-02-16\nNOTE a\nNOTE b\n## 2026-02-17\nNOTE c")


@pytest.mark.req(53)
def test_the_memory_section_stays_the_same_byte_for_byte_while_messages_are_added() -> None:
    notes = [*lines(1, 3, generation=1), *lines(4, 6)]
    said = numbered(*[50] * 200)
    shown = [context(state(said[:n], notes)) for n in range(10, 200, 7)]
    assert len({c.memory for c in shown}) == 1
    assert len({c.system for c in shown}) == 1


@pytest.mark.req(53)
def test_a_new_observation_only_appends() -> None:
    before = context(state(notes=[*lines(1, 3, generation=1), *lines(4, 6)])).sections
    after = context(state(notes=[*lines(1, 3, generation=1), *lines(4, 7)])).sections
    assert after.reflections == before.reflections
    assert after.observations[: len(before.observations)] == before.observations
    assert len(after.observations) > len(before.observations)


# ------------------------------------------------------------------------------------ pins


def test_pinned_messages_stand_in_the_memory_section() -> None:
    found = context(state(numbered(5, 5, 5), [note(1, 2)], pinned=[message(1, text="never forget this")]))
    assert "### Pinned" in found.memory
    assert "never forget this" in found.memory
    assert found.stats.pinned > 0


def test_pinned_notes_come_before_newer_ones() -> None:
    notes = lines(1, 20, 300)
    assert 1 not in which(context(state(notes=notes)))
    found = context(state(notes=notes, pins=[notes[0].id]))
    assert which(found) == [1, *range(9, 21)]


def test_a_pinned_observation_survives_any_number_of_reflections() -> None:
    notes = [*lines(1, 5, 900, generation=1), *lines(6, 2, 300)]
    found = context(state(notes=notes, pins=[notes[5].id]))
    assert which(found) == [6]
    assert which(found, "reflection") == [2, 3, 4, 5]


def test_a_pinned_note_counts_towards_the_number_shown() -> None:
    notes = lines(1, 30, 10)
    assert which(context(state(notes=notes, pins=[notes[0].id]))) == [1, *range(12, 31)]


# ------------------------------------------------------------------------------------ messages


@pytest.mark.req(54)
def test_recent_messages_are_the_newest_within_their_budget() -> None:
    found = context(state(tuple(counted_message(i, 100) for i in range(1, 101))))
    assert [m.seq for m in found.messages] == list(range(21, 101))
    assert found.stats.messages == 8000
    assert found.stats.left_out_messages == 20


@pytest.mark.req(55)
def test_there_is_no_limit_on_the_number_of_messages() -> None:
    found = context(state(tuple(message(i, 2, text="ok") for i in range(1, 3001))))
    assert len(found.messages) == len(found.openai()) == 3000


def test_noted_messages_that_are_shown_again_are_not_missed_when_they_do_not_fit() -> None:
    said = tuple(counted_message(i, 1000) for i in range(1, 11))
    found = context(state(said, [note(1, 8)], tail_start=1))
    assert [m.seq for m in found.messages] == list(range(3, 11))
    assert found.stats.left_out_messages == 0


def test_the_newest_message_is_kept_however_large_it_is() -> None:
    found = context(state((counted_message(1, 50), counted_message(2, 20_000))))
    assert [m.seq for m in found.messages] == [2]
    assert found.messages[0].text == "x" * 4 * 19_996
    assert found.stats.left_out_messages == 1


def test_a_giant_result_keeps_its_call_in_short_form() -> None:
    said = (replace(call(1, "a"), text="thinking " * 8000, tokens=18_000), result(2, "a", 20_000))
    found = context(state(said))
    assert [m.seq for m in found.messages] == [1, 2]
    assert found.messages[1] == said[1]
    assert ELISION.strip() in found.messages[0].text
    assert found.stats.shortened == 1
    # The result alone is beyond what messages may take; its call adds a quarter of that at most.
    assert tokens_of(found.messages[:1]) <= 2000


def test_a_call_that_cannot_be_shortened_enough_leaves_its_result_alone() -> None:
    asks = call(1, *(f"ident-of-call-{n}" for n in range(3000)), tokens=30_000)
    found = context(state((asks, result(2, "ident-of-call-7", 7000))))
    assert [m.seq for m in found.messages] == [2]
    assert (found.stats.shortened, found.stats.left_out_messages) == (0, 1)


def test_a_result_that_fits_is_not_pushed_over_the_budget_by_its_call() -> None:
    said = (replace(call(1, "a"), text="thinking " * 8000, tokens=18_000), result(2, "a", 7000))
    found = context(state(said))
    assert [m.seq for m in found.messages] == [1, 2]
    assert found.stats.messages <= 8000


@pytest.mark.parametrize("tokens", range(200, 250))
def test_a_result_that_just_fits_by_itself_is_not_pushed_over_a_small_budget_by_its_call(tokens: int) -> None:
    said = real([call(1, "a"), result(2, "a", tokens)], 0)
    found = context(state(said), PromptRequest(budget=256), DEFAULT)
    assert found.messages[-1] == said[-1]
    assert found.stats.total <= 256 * (1 - MARGIN) or as_sent(said[-1]) > 256 * (1 - MARGIN)


def as_sent(newest: Message) -> int:
    """The tokens of a message by itself: a result without its call says so, a call has a result to say that
    there is none."""
    return newest.tokens + PLAIN.stand_ins([newest])


def test_what_stands_in_for_missing_calls_and_results_is_counted() -> None:
    said = (message(1), call(2, "a", "b"), result(3, "a"), message(4), result(5, "z"))
    found = context(state(said))
    missing, orphan = "[no result was recorded]", "[result of z, recorded without its call]"
    stand_ins = sum(PLAIN.estimator.message(Message("user", text)) for text in (missing, orphan))
    assert found.stats.messages == tokens_of(said) + stand_ins
    assert found.stats.total == found.stats.messages
    sent = [m["content"] for m in found.openai()]
    assert sum(missing == text for text in sent) == 1
    assert sum(orphan in text for text in sent if text) == 1


# ------------------------------------------------------------------------------------ budgets


def test_a_base_prompt_beyond_the_budget_is_an_error_that_says_so() -> None:
    with pytest.raises(BudgetError, match="a budget of 300 tokens cannot hold the base prompt") as caught:
        context(state(), PromptRequest("x" * 4000, budget=300), DEFAULT)
    assert (caught.value.budget, caught.value.needed) == (300, 1000)


def test_a_budget_that_holds_nothing_beside_the_base_prompt_says_what_it_needs() -> None:
    with pytest.raises(BudgetError, match="what goes around a prompt") as caught:
        context(state(), PromptRequest(budget=10), DEFAULT)
    assert caught.value.needed >= caught.value.budget


def test_the_margin_and_what_usage_has_taught_are_left_free() -> None:
    said = tuple(counted_message(i, 10) for i in range(1, 2001))
    plain = context(state(said), PromptRequest(budget=10_000), DEFAULT)
    assert plain.stats.total <= 10_000 * (1 - MARGIN)
    taught = Counting(estimator("lango"), Calibration(1.5, 10, 1.5))
    dearer = context(state(said), PromptRequest(budget=10_000), DEFAULT, taught)
    assert dearer.stats.total * 1.5 <= 10_000 * (1 - MARGIN)


def notes_of(sizes: list[int]) -> list[Note]:
    made = [
        note(i, i, 0, generation=1 if i < len(sizes) // 3 else 0, text="y" * n)
        for i, n in enumerate(sizes, 1)
    ]
    return [replace(n, tokens=PLAIN.text(n.text)) for n in made]


def real(messages: list[Message], after: int) -> tuple[Message, ...]:
    """The same with texts as long as their counts say."""
    texts = (replace(m, seq=m.seq + after, text="x" * 4 * m.tokens, tokens=0) for m in messages)
    return tuple(replace(m, tokens=PLAIN.estimator.message(m)) for m in texts)


def test_lines_that_take_more_together_than_one_by_one_keep_to_the_limit_of_memory() -> None:
    notes = notes_of([201, 0, 299, 222, 33, 3028, 0, 169, 0, 33, 59, 115, 2041, 35, 51])
    request = PromptRequest("x" * 300, budget=1213)
    found = context(state(real([message(1, 1)], len(notes)), notes), request, ZORA).stats
    limit = limits_for(ZORA, PLAIN.room(request, ZORA)).memory_limit
    assert limit // 2 < found.reflections + found.observations <= limit


@pytest.mark.req(49, 52)
@given(
    conversations(longest=25, max_tokens=3000),
    st.lists(st.integers(0, 4000), max_size=30),
    st.integers(256, 12_000),
    st.sampled_from((DEFAULT, LANGO, ZORA)),
    st.sampled_from(("", "x" * 300)),
    st.data(),
)
def test_no_context_exceeds_its_budget_except_by_the_newest_message(
    said: list[Message], sizes: list[int], budget: int, settings: Settings, system: str, data: st.DataObject
) -> None:
    notes = notes_of(sizes)
    pins = data.draw(st.sets(st.sampled_from([n.id for n in notes]), max_size=3)) if notes else set[str]()
    now = state(real(said, len(notes)), notes, pins=pins)
    request = PromptRequest(system, budget=budget)
    found = context(now, request, settings)
    limits = limits_for(settings, PLAIN.room(request, settings))
    remembered = found.stats.pinned + found.stats.reflections + found.stats.observations
    if found.stats.left_out_notes or settings is not DEFAULT:
        assert remembered <= max(limits.memory_limit, limits.budget - found.stats.messages)
    if settings is not DEFAULT:
        assert remembered <= limits.memory_limit
    newest = found.messages[-1]
    assert newest == now.messages[-1]
    usable = int(budget * (1 - margin(settings.estimator)))
    beside = found.stats.total - found.stats.messages
    # Over only where the newest message does not fit by itself.
    assert found.stats.total <= usable or beside + as_sent(newest) > usable
    assert found.stats.messages <= max(limits.message_limit, as_sent(newest) + limits.message_limit // 4)
    assert beside <= usable
    shown = {m.seq for m in found.messages}
    assert found.stats.left_out_messages == len([m for m in now.unshown if m.seq not in shown])


@given(conversations(longest=25, max_tokens=600), st.integers(0, 3), st.integers(400, 4000))
def test_statistics_add_up(said: list[Message], preface: int, budget: int) -> None:
    notes = [*lines(1, 2, generation=1), *lines(3, 3)]
    front = tuple(Message("user", "before") for _ in range(preface))
    lead = (Message("system", "LEAD"),)
    request = PromptRequest("BASE", {"docs": "KNOWLEDGE", "rules": "RULES"}, lead, front, "END", budget)
    now = state(real(said, 5), notes, pinned=[message(1, text="pinned words")])
    stats = context(now, request, DEFAULT).stats
    parts = (stats.system, stats.knowledge, stats.pinned, stats.reflections, stats.observations)
    assert stats.total == sum(parts) + stats.messages + stats.end
    own = {"observations": stats.observations, "reflections": stats.reflections}
    assert stats.by_layer == {"docs": 2, "rules": 1} | own
    assert 0 <= stats.knowledge - 3 <= 2  # and the blank lines between them
    assert stats.pending_tokens == tokens_of(now.unnoted)
    assert 0 <= stats.cacheable <= 1
    assert stats.budget == budget


def test_statistics_say_what_waits() -> None:
    said = state(numbered(100, 100, 100), [note(1, 1, status="buffered")])
    stats = context(said).stats
    assert (stats.pending_tokens, stats.buffered_notes) == (200, 1)


@pytest.mark.req(78)
def test_a_context_says_which_conversation_it_is_of() -> None:
    runtime = RuntimeContext.of("slack:9")
    assert assemble(state(), PromptRequest(), LANGO, PLAIN, runtime).runtime is runtime


# -- How long ago the days in the notes are

NOW = datetime(2026, 2, 16, 14, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "ago"),
    [
        (-2, "in 2 days"),
        (-1, "tomorrow"),
        (0, "today"),
        (1, "yesterday"),
        (2, "2 days ago"),
        (13, "13 days ago"),
        (14, "2 weeks ago"),
        (59, "8 weeks ago"),
        (60, "2 months ago"),
        (729, "24 months ago"),
        (730, "2 years ago"),
        (3650, "10 years ago"),
    ],
)
def test_a_day_is_told_as_people_tell_it(days: int, ago: str) -> None:
    day = (NOW - timedelta(days=days)).date().isoformat()
    said = relative_days([note(1, 1, text=f"## {day}\nNOTE something")], NOW)
    assert said == f"Now: 2026-02-16 14:05 (Monday). In the notes: {day} {ago}."


def test_without_dated_notes_only_today_is_told() -> None:
    assert relative_days([], NOW) == "Now: 2026-02-16 14:05 (Monday)."
    assert relative_days([note(1, 1, text="on 2026-01-01 something")], NOW) == relative_days([], NOW)


def test_each_day_is_told_once_and_only_the_last_ones() -> None:
    days = [f"2026-01-{i:02}" for i in range(1, 29)]
    notes = [note(i, i, text=f"## {d}\nNOTE a\n## {d}\nNOTE b") for i, d in enumerate(days, 1)]
    said = relative_days([*notes, *notes], NOW)
    assert [d for d in days if d in said] == days[-MAX_DAYS:]
    assert said.count(days[-1]) == 1


def test_a_day_that_is_in_no_calendar_breaks_nothing() -> None:
    said = relative_days([note(1, 1, text="## 2026-02-31\nNOTE a\n## 2026-02-15\nNOTE b")], NOW)
    assert said.endswith("In the notes: 2026-02-15 yesterday.")


def test_notes_that_do_not_fit_even_with_the_room_of_messages_stay_the_same_as_messages_come() -> None:
    """The section uses room that messages leave only if every note fits; else each message changes it."""
    notes = [note(i, i, 60, text=f"n{i} " + "x" * 236) for i in range(1, 9)]
    said = tuple(message(i, 10, text="x" * 36) for i in range(9, 15))
    request = PromptRequest(budget=400)
    settings = replace(DEFAULT, estimator="lango")
    shown = [
        assemble(state(said[:n], notes, tail_start=9), request, settings, counting("lango"), None)
        for n in range(1, len(said) + 1)
    ]
    assert shown[0].stats.left_out_notes
    assert {context.memory for context in shown} == {shown[0].memory}
