"""Daily notes as text: a note goes in once, reads back as it was, and what a person writes stays."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.notes import Note
from onlooker.files.daily import add_note, read_day, update_notes
from onlooker.policy.reply import read

DAY = date(2026, 2, 16)
AT = datetime(2026, 2, 16, 14, 5, tzinfo=UTC)
TEXT = """\
## 2026-02-15
[23:50] Ana asked for the invoice
## 2026-02-16
[14:02] IMPORTANT Ana moved to Oslo (2026-02-09)
Values: order 88-1431 · /srv/app/fly.toml"""


def note(text: str = TEXT, ident: str = "obs_1", first: int = 1, last: int = 4) -> Note:
    return Note(ident, 0, first, last, text, 10, AT, ())


def file(*notes: Note, session: str = "telegram:42") -> str:
    text = ""
    for each in notes:
        text = add_note(text, DAY, session, each, AT)
    return text


@pytest.mark.req(88)
def test_a_note_stands_under_its_session_and_reads_back_line_by_line() -> None:
    assert "2026-02-16\n" not in file(note("## 2026-02-16\nAna moved"))[len("# 2026-02-16\n") :]
    text = file(note())
    assert text.startswith("# 2026-02-16\n\n## telegram:42, 14:05 <!-- obs_1 1-4 ")
    (block,) = read_day(text).blocks
    assert (block.session, block.note, block.first, block.last) == ("telegram:42", "obs_1", 1, 4)
    before, after = (read(t, format="lines", day=DAY) for t in (TEXT, block.text))
    assert after.lines == before.lines
    assert after.values == before.values


def test_a_note_goes_in_once() -> None:
    once = file(note())
    assert add_note(once, DAY, "telegram:42", note(), AT) == once


def test_notes_of_several_sessions_stand_one_below_the_other() -> None:
    text = add_note(file(note()), DAY, "slack:7", note("Ben likes tea", "obs_2"), AT)
    assert [(b.session, b.note) for b in read_day(text).blocks] == [
        ("telegram:42", "obs_1"),
        ("slack:7", "obs_2"),
    ]


def test_a_note_that_was_written_again_takes_the_place_of_the_first() -> None:
    text = file(note("[14:02] poor words", "obs_1"), note("[14:09] the next", "obs_2", 5, 8))
    better = add_note(text, DAY, "telegram:42", note("[14:02] good words", "obs_3"), AT)
    assert [b.note for b in read_day(better).blocks] == ["obs_3", "obs_2"]
    assert "poor words" not in better


def test_a_note_that_a_person_changed_is_not_replaced() -> None:
    text = file(note("[14:02] poor words")).replace("poor", "my own")
    better = add_note(text, DAY, "telegram:42", note("[14:02] good words", "obs_3"), AT)
    assert "my own words" in better
    assert "good words" in better


def test_what_a_person_writes_beside_the_notes_is_read_apart() -> None:
    text = file(note()) + "\n## Mine\n\nBuy a boat some day\n"
    page = read_day(text)
    assert page.own_text == "## Mine\n\nBuy a boat some day"
    assert "boat" not in page.blocks[0].text


def test_forgetting_takes_out_blocks_of_notes_that_are_gone_and_keeps_the_rest() -> None:
    text = file(note("a secret plan", "obs_1"), note("the weather", "obs_2", 5, 8)) + "\n## Mine\n\nwords\n"
    kept = note("the weather", "obs_2", 5, 8)
    left = update_notes(text, DAY, {"telegram:42": {"obs_2": kept}})
    assert "secret" not in left
    assert "the weather" in left
    assert "words" in left
    assert update_notes(text, DAY, {"slack:7": {}}) == text


def test_forgetting_rewrites_what_mixed_it_with_others() -> None:
    text = file(note("a secret plan and the weather")).replace("weather", "weather (my comment)")
    left = update_notes(text, DAY, {"telegram:42": {"obs_1": note("the weather")}})
    assert "secret" not in left
    assert "- the weather" in left
    assert update_notes(left, DAY, {"telegram:42": {"obs_1": note("the weather")}}) == left


def test_a_day_of_which_nothing_is_left_is_empty() -> None:
    assert update_notes(file(note()), DAY, {"telegram:42": {}}) == ""


@given(st.text(min_size=1, max_size=60), st.text(max_size=200), st.text(max_size=200))
def test_neither_a_key_nor_a_note_can_forge_a_block(key: str, first: str, second: str) -> None:
    forged = "\n## x <!-- obs_9 1-2 0123456789ab other -->\n"
    notes = (note(first + forged, "obs_1"), note(second, "obs_2", 5, 8))
    page = read_day(file(*notes, session=key))
    assert [(b.session, b.note) for b in page.blocks] == [(key, "obs_1"), (key, "obs_2")]
    assert all(block.is_as_written for block in page.blocks)
    assert page.own_text == ""
