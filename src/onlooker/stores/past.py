"""A session's history and what a person's hand does to it, decided once for every store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from onlooker.domain.errors import ConflictError
from onlooker.domain.history import Change, Forgetting, Version
from onlooker.domain.notes import LIVE, Commit, Note, NoteStatus, Progress
from onlooker.policy.history import Rollback
from onlooker.stores.realigning import Known

# What stands in the place of a model beside a note that was edited.
PERSON = "person"


def change_of(
    progress: Progress,
    number: int,
    at: datetime,
    statuses: Iterable[tuple[str, NoteStatus]] = (),
    taken: tuple[int, int] | None = None,
) -> Change:
    """The line of history for a session that now stands there."""
    p = progress
    return Change(number, at, p.last_seq, p.frontier, p.watermark, p.tail_start, tuple(statuses), taken)


def changed_by(change: Commit) -> list[tuple[str, NoteStatus]]:
    """The notes that a commit changes, with their status after it."""
    superseded: NoteStatus = "superseded"
    active: NoteStatus = "active"
    return [
        *((ident, superseded) for ident in change.supersede),
        *((ident, active) for ident in change.activate),
        *((note.id, note.status) for note in change.add),
    ]


def rolled_back(decision: Rollback) -> list[tuple[str, NoteStatus]]:
    """The notes that a realignment changes, with their status after it."""
    retired: NoteStatus = "retired"
    active: NoteStatus = "active"
    return [*((i, retired) for i in decision.retire), *((i, active) for i in decision.revive)]


def gone(notes: Iterable[str]) -> list[tuple[str, NoteStatus]]:
    """Notes that are deleted, as history has it."""
    return [(ident, "retired") for ident in notes]


def time_of(change: Commit, fallback: datetime) -> datetime:
    """When a commit happened."""
    return change.at or max((note.made_at for note in change.add), default=fallback)


# ------------------------------------------------------------------------------------ a person's hand


def edited(note: Note | None, ident: str, was: str | None, text: str, tokens: int, by: str) -> Note:
    """The note with its new text.

    Raises:
        KeyError: There is no such note, or it is no longer live.
        ConflictError: Its text is no longer the one that was edited.
    """
    if note is None or note.status not in LIVE:
        raise KeyError(ident)
    if was is not None and was != note.text:
        raise ConflictError(f"note {ident!r} was changed meanwhile; read it again")
    # No longer the built-in model's, so no model is asked to write it again.
    return replace(note, text=text, tokens=tokens, model=f"{PERSON}:{by}" if by else PERSON, degraded=False)


def versions_after(before: Note, after: Note, known: int, change: Change, by: str) -> list[Version]:
    """The versions that an edit adds to those `known`: the first text as well, where this is the first."""
    first = [Version(before.id, 1, 0, before.text, before.tokens, before.model, before.made_at)]
    number = max(known, 1) + 1
    return [
        *(first if not known else ()),
        Version(after.id, number, change.number, after.text, after.tokens, by, change.at),
    ]


def undone(notes: Mapping[str, Note], ident: str) -> list[tuple[str, NoteStatus]]:
    """What becomes of a reflection and its sources when it is undone.

    Raises:
        KeyError: There is no such reflection, or it is no longer active.
        ConflictError: Notes that it was made from are gone.
    """
    note = notes.get(ident)
    if note is None or not note.generation or note.status != "active":
        raise KeyError(ident)
    if any(s not in notes or notes[s].status != "superseded" for s in note.sources):
        raise ConflictError(f"notes that {ident!r} was made from are gone, so it cannot be undone")
    active: NoteStatus = "active"
    return [(ident, "retired"), *((source, active) for source in note.sources)]


def check_prompt_version(progress: Progress, prompt_version: int) -> None:
    """Refuse what was decided on other notes than are shown now."""
    if prompt_version != progress.prompt_version:
        raise ConflictError(
            f"notes changed meanwhile (version {prompt_version} became {progress.prompt_version})"
        )


def check_forgetting(progress: Progress, last_change: int, change: Forgetting) -> None:
    """Refuse what was decided on another state of the session."""
    if change.revision != progress.revision or change.change != last_change:
        raise ConflictError("notes changed meanwhile; decide again what is to be forgotten")


def without_summaries(known: Sequence[Known], change: Forgetting) -> tuple[list[Known], list[Known]]:
    """Summaries that stand for what is forgotten, or tell of it, and what comes back in their place: the
    messages that they stand for, and the summary before them."""
    going = set(change.messages)
    aside = [k.seq for k in known if k.id in going and k.place != "live"]
    if going - {k.id for k in known}:  # deleted when it was compacted; only its note's range is known
        aside += [n.first for n in change.rewritten]
    drop = [k for k in known if k.summary and (k.id in change.summaries or (aside and k.seq >= min(aside)))]
    if not drop:
        return [], []
    left = [k for k in known if k.summary and k not in drop and k.place in ("live", "compacted")]
    newest = max(left, key=lambda k: (k.seq, k.place == "live"), default=None)
    after = newest.seq if newest else min(k.seq for k in known) - 1
    back = [k for k in known if k.place == "compacted" and k.stands and k.seq > after and k.id not in going]
    if newest and newest.place == "compacted":
        back.insert(0, newest)
    return drop, back
