"""Messages that leave the session: compaction and retention. All inside a transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from onlooker.domain.errors import StoreError
from onlooker.domain.frozen import frozen
from onlooker.domain.history import RetentionLimits, RetentionResult
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import LIVE, Note, Progress
from onlooker.stores.sql import sessions
from onlooker.stores.sql.database import (
    FIRST_SEQ,
    Database,
    clamp,
    instant,
    message_values,
    pack,
    to_note,
    unpack,
)
from onlooker.stores.sql.sessions import StoredSession, check_revision

# ------------------------------------------------------------------------------------ compaction


def compact(
    db: Database,
    session: SessionId,
    *,
    up_to: int,
    summary: Message,
    archive: bool,
    now: datetime,
    revision: int | None = None,
) -> Progress:
    stored = sessions.find_or_create(db, session, now)
    sid, progress, up_to = stored.sid, stored.progress, clamp(up_to)
    check_revision(progress, revision)
    last, count, tokens = db.run("taken_out", sid=sid, up_to=up_to).fetchone()
    # The same summary again is a retry: the first one is not an original to archive.
    again = db.run("delete_summary", sid=sid, id=pack(summary.id), up_to=up_to).rowcount > 0
    if db.run("known_id", sid=sid, id=pack(summary.id)).fetchone():
        raise StoreError(f"the summary's id {summary.id!r} is that of another message; give it its own")
    unnoted = db.value("any_between", sid=sid, after=progress.frontier, up_to=up_to)
    if archive:
        db.run("delete_older_summaries", sid=sid, up_to=up_to)
        db.run("archive_range", sid=sid, first=FIRST_SEQ, last=up_to, reason="compacted")
    else:
        db.run("unpin_range", sid=sid, up_to=up_to)
    changed = db.run("delete_range", sid=sid, first=FIRST_SEQ, last=up_to).rowcount > 0 or not again
    if last is None:  # all that it stands for is in the archive
        last = db.value("last_compacted", sid=sid, up_to=up_to)
    if last is None:
        first = db.value("first_live", sid=sid)
        last = progress.last_seq if first is None else first - 1
        # The messages that it replaces may be deleted. After the noted messages, it would be noted as if
        # someone had said it.
        last = clamp(min(last, progress.frontier or last))
    placed = replace(summary, seq=last)
    db.run("add_message", **message_values(sid, placed, placed.digest, summary=True))
    progress = replace(
        progress,
        unnoted_tokens=sessions.unnoted_tokens(db, sid, progress.frontier),
        revision=progress.revision + unnoted,
        prompt_version=progress.prompt_version + changed,
    )
    saved = replace(stored, progress=progress, used_at=instant(now))
    if not archive:
        saved = replace(
            saved, messages=stored.messages - count, message_tokens=stored.message_tokens - tokens
        )
    sessions.save(db, saved)
    return saved.progress


# ------------------------------------------------------------------------------------ retention


@frozen
class DatedMessage:
    """A message of the current conversation, without its text."""

    seq: int
    id: str
    at: datetime | None
    live: bool


@frozen
class RetentionPlan:
    """The messages to archive, and those to delete."""

    archive: tuple[DatedMessage, ...]
    delete: tuple[DatedMessage, ...]

    @property
    def counts(self) -> RetentionResult:
        return RetentionResult(len(self.archive), len(self.delete))


def plan_retention(
    messages: Sequence[DatedMessage],
    limits: RetentionLimits,
    progress: Progress,
    *,
    pins: Collection[str],
    notes: Iterable[Note],
) -> RetentionPlan:
    """Decide which messages of the conversation, given in order, are beyond the limits.

    A message stays if no active note covers it, if it is shown raw in the prompt, if it is pinned, or if a
    note that still has to be rewritten covers it.
    """
    last = min(progress.watermark, progress.tail_start - 1)
    unfinished = [n for n in notes if n.degraded and n.status in LIVE]

    def may_go(message: DatedMessage) -> bool:
        if message.seq > last or message.id in pins:
            return False
        return not any(n.first <= message.seq <= n.last for n in unfinished)

    archive: list[DatedMessage] = []
    delete: list[DatedMessage] = []
    for index, message in enumerate(messages):
        newer = len(messages) - index - 1
        if not may_go(message):
            continue
        if _is_beyond(message, newer, limits.delete_before, limits.delete_beyond):
            delete.append(message)
        elif message.live and _is_beyond(message, newer, limits.archive_before, limits.archive_beyond):
            archive.append(message)
    return RetentionPlan(tuple(archive), tuple(delete))


def _is_beyond(message: DatedMessage, newer: int, before: datetime | None, beyond: int | None) -> bool:
    """Whether it is older than the limit, or has at least `beyond` messages after it."""
    if before is not None and message.at is not None and message.at < before:
        return True
    return beyond is not None and newer >= beyond


def retain(
    db: Database, session: SessionId, limits: RetentionLimits, *, dry_run: bool = False
) -> RetentionResult:
    stored = sessions.find(db, session)
    if stored is None:
        return RetentionResult()
    found = _plan_retention(db, stored, limits)
    if not dry_run and found.counts != RetentionResult():
        _remove(db, stored.sid, found)
        count, tokens = sessions.totals(db, stored.sid)
        sessions.save(db, replace(stored, messages=count, message_tokens=tokens))
    return found.counts


def _plan_retention(db: Database, stored: StoredSession, limits: RetentionLimits) -> RetentionPlan:
    messages = [
        DatedMessage(seq, unpack(ident), datetime.fromisoformat(at) if at else None, bool(live))
        for seq, ident, at, live in db.run("conversation_times", sid=stored.sid)
    ]
    pins = {unpack(row[0]) for row in db.run("pins", sid=stored.sid)}
    notes = map(to_note, db.run("live_notes", sid=stored.sid))
    return plan_retention(messages, limits, stored.progress, pins=pins, notes=notes)


def _remove(db: Database, sid: bytes, found: RetentionPlan) -> None:
    for message in found.archive:
        db.run("archive_range", sid=sid, first=message.seq, last=message.seq, reason="compacted")
        db.run("delete_range", sid=sid, first=message.seq, last=message.seq)
    for message in found.delete:
        if message.live:
            db.run("delete_range", sid=sid, first=message.seq, last=message.seq)
        else:
            db.run("delete_archived", sid=sid, seq=message.seq, id=pack(message.id))
