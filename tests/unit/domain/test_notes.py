"""Notes, and the views that a state gives of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Commit, Guard, Note, Progress, State

NOW = datetime(2026, 2, 16, tzinfo=UTC)


def note(name: str, last: int, generation: int = 0, **fields: object) -> Note:
    made = Note(name, generation, last, last, name, 1, NOW, ())
    return replace(made, **fields)


NOTES = (
    note("reflection", 1, 1),
    note("observation", 2),
    note("ahead", 3, status="buffered"),
)
STATE = State(
    Progress(SessionId("default", "s"), last_seq=6, frontier=3, watermark=2),
    NOTES,
    tuple(Message("user", str(i), seq=i) for i in range(2, 7)),
)


def test_a_state_tells_notes_apart_by_what_they_are_for() -> None:
    assert STATE.active == NOTES[:2]
    assert STATE.buffered == NOTES[2:]
    assert STATE.observations == NOTES[1:2]
    assert STATE.reflections == NOTES[:1]


def test_a_buffered_note_covers_its_messages_but_does_not_show_them() -> None:
    assert [m.seq for m in STATE.unnoted] == [4, 5, 6]
    assert [m.seq for m in STATE.unshown] == [3, 4, 5, 6]


@pytest.mark.req(19, 35)
def test_generation_makes_the_kind() -> None:
    assert [n.kind for n in NOTES] == ["reflection", "observation", "observation"]


def test_a_note_written_ahead_does_not_change_the_prompt() -> None:
    guard = Guard(0, 0)
    assert not Commit(guard, add=(NOTES[2],)).changes_prompt
    assert Commit(guard, add=(NOTES[1],)).changes_prompt
    assert Commit(guard, activate=("ahead",)).changes_prompt
    assert Commit(guard, supersede=("observation",)).changes_prompt
    assert not Commit(guard, frontier=5).changes_prompt


def test_progress_is_kept_under_its_session() -> None:
    assert STATE.progress.sid == SessionId("default", "s").sid
