"""What a person's hand does to a session held in memory.

Every function checks before it changes anything, so that one that raises has changed nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from onlooker.domain.history import Forgetting
from onlooker.domain.notes import Note, Progress
from onlooker.stores.held import Held
from onlooker.stores.past import (
    check_forgetting,
    check_prompt_version,
    edited,
    undone,
    versions_after,
    without_summaries,
)
from onlooker.stores.past import gone as gone_notes


def edit(held: Held, ident: str, text: str, tokens: int, by: str, now: datetime, was: str | None) -> Note:
    before = held.notes.get(ident)
    after = edited(before, ident, was, text, tokens, by)
    assert before is not None
    held.notes[ident] = after
    p = held.progress
    # A note in the making may have been told the old text.
    held.progress = replace(
        p, revision=p.revision + 1, prompt_version=p.prompt_version + (after.status == "active")
    )
    change = held.log(now, [(after.id, after.status)])
    known = sum(v.note == ident for v in held.versions)
    held.versions.extend(versions_after(before, after, known, change, by))
    return after


def undo(held: Held, ident: str, prompt_version: int, now: datetime) -> Progress:
    check_prompt_version(held.progress, prompt_version)
    statuses = undone(held.notes, ident)
    held.notes |= {note: replace(held.notes[note], status=status) for note, status in statuses}
    held.pins.discard(ident)
    p = held.progress
    held.progress = replace(p, revision=p.revision + 1, prompt_version=p.prompt_version + 1)
    held.log(now, statuses)
    return held.progress


def forget(held: Held, change: Forgetting, now: datetime) -> Progress:
    last = held.changes[-1].number if held.changes else 0
    check_forgetting(held.progress, last, change)
    records = [*held.live, *held.aside]
    gone = set(change.messages)
    seqs = {r.seq for r in records if r.message.id in gone}
    drop, back = without_summaries([r.known for r in records], change)
    out, again = {id(k) for k in drop}, {id(k) for k in back}
    held.set_records(
        r.at(r.seq, "live") if id(r.known) in again else r
        for r in records
        if r.message.id not in gone and id(r.known) not in out
    )
    held.notes = {i: n for i, n in held.notes.items() if i not in change.deleted}
    held.notes |= {n.id: n for n in change.rewritten}
    rewritten = {n.id for n in change.rewritten}
    held.versions = [v for v in held.versions if v.note not in rewritten]
    held.extractions = [e for e in held.extractions if e.note in held.notes and seqs.isdisjoint(e.seqs)]
    held.drop_loose()
    p = held.progress
    held.progress = replace(
        p,
        history_hash=held.history_hash(),
        unnoted_tokens=held.unnoted(p.frontier),
        revision=p.revision + 1,
        prompt_version=p.prompt_version + 1,
        due_at=now if change.due and p.due_at is None else p.due_at,
    )
    held.log(now, gone_notes(change.deleted))
    return held.progress
