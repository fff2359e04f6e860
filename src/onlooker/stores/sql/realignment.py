"""Realignment: a session becomes the conversation that the host now has.

First the decision, as plain functions over what is known of each message; then the transaction that applies
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest
from typing import Any

from onlooker.domain.errors import ConflictError
from onlooker.domain.frozen import frozen
from onlooker.domain.history import MessagePlace
from onlooker.domain.messages import GENERATED_ID_PREFIX, Message, SessionId
from onlooker.domain.notes import AppendResult, Note, NoteStatus, Progress, Realignment
from onlooker.policy.align import is_telling
from onlooker.policy.history import Rollback, returning, roll_back
from onlooker.stores.sql import sessions
from onlooker.stores.sql.database import (
    LAST_SEQ,
    NO_LIMIT,
    Database,
    instant,
    message_values,
    note_values,
    pack,
    to_message,
    to_note,
    unpack,
)
from onlooker.stores.sql.sessions import StoredSession, check_realignment, made_due

# ------------------------------------------------------------------------------------ the decision


@frozen
class Known:
    """A recorded message or summary, without its text."""

    seq: int
    id: str
    digest: bytes
    status: MessagePlace
    summary: bool = False

    @property
    def is_current(self) -> bool:
        """Whether it is part of the current conversation."""
        return self.status != "retired" and not self.summary


@frozen
class Placement:
    """What happens to the messages after `keep`.

    `move` gives recorded messages, whatever their status, a new seq among the live ones. `add` are new
    messages with their seq. `drop` are summaries of messages that are no longer part of the conversation.
    `fresh` are the messages that the host gave as new, by their new seq, whether added or revived.
    """

    retire: tuple[Known, ...]
    move: tuple[tuple[Known, int], ...]
    add: tuple[Message, ...]
    drop: tuple[Known, ...]
    fresh: Mapping[int, Message]
    last_seq: int

    @property
    def revives(self) -> bool:
        """Whether messages come back that were taken back before."""
        return any(message.status == "retired" for message, _ in self.move)

    def original(self, message: Message) -> Mapping[str, Any] | None:
        """The host's own form of a fresh message."""
        return self.fresh[message.seq].original


@frozen
class RolledBack:
    """The frontier after and before a rollback: messages between the two are no longer noted."""

    frontier: int
    before: int

    def stale(self, summary: Known, known: Sequence[Known], keep: int) -> bool:
        """Whether a summary is deleted with the note whose text it is. It stays if there are no originals to
        bring back."""
        if not self.frontier < summary.seq <= min(keep, self.before):
            return False
        kept = (k.seq for k in known if k.status == "compacted" and k.is_current)
        return any(self.frontier < seq <= summary.seq for seq in kept)


def place(known: Sequence[Known], change: Realignment, rolled_back: RolledBack) -> Placement:
    """Decide what happens to each message.

    Raises:
        ConflictError: `follow` names a message that is not after `keep`.
    """
    after = {k.seq: k for k in known if k.is_current and k.seq > change.keep}
    named = {item for item in change.follow if isinstance(item, int)}
    if missing := named - after.keys():
        raise ConflictError(f"there is no message {min(missing)} after {change.keep}")
    drop = tuple(
        k for k in known if k.summary and (k.seq > change.keep or rolled_back.stale(k, known, change.keep))
    )
    leaving = [k for seq, k in after.items() if seq not in named]
    out = {id(k) for k in (*leaving, *drop)}
    ids = {k.id for k in known if k.status != "retired" and id(k) not in out}
    past = _Retired((*(k for k in known if k.status == "retired" and not k.summary), *leaving))
    return _follow(change, after, leaving, drop, ids, past)


def _follow(
    change: Realignment,
    after: Mapping[int, Known],
    leaving: Sequence[Known],
    drop: tuple[Known, ...],
    ids: set[str],
    past: _Retired,
) -> Placement:
    moves: dict[int, tuple[Known, int]] = {}  # by the old seq: a message named twice moves once
    add: list[Message] = []
    fresh: dict[int, Message] = {}
    seq, before = change.last_seq, change.keep
    for item, then in zip_longest(change.follow, change.follow[1:]):
        if isinstance(item, int):
            found = after[item]
        elif item.id in ids:
            continue
        else:
            found = past.take(item, ids, beside={before + 1, *past.places_before(then)})
        if found is not None and found.seq in moves:
            continue
        seq, before = seq + 1, found.seq if found else -1
        if isinstance(item, Message):
            fresh[seq] = item
        if found is not None:
            moves[found.seq] = (found, seq)
            ids.add(found.id)
        elif isinstance(item, Message):
            add.append(replace(item, seq=seq, original=None))
            ids.add(item.id)
    retire = tuple(k for k in leaving if k.seq not in moves)
    return Placement(retire, tuple(moves.values()), tuple(add), drop, fresh, seq)


class _Retired:
    """Retired messages, of now and before, that may be revived."""

    def __init__(self, retired: Iterable[Known]) -> None:
        self._by_digest: dict[bytes, list[Known]] = {}
        for message in sorted(retired, key=lambda k: k.seq):
            self._by_digest.setdefault(message.digest, []).append(message)

    def places_before(self, item: int | Message | None) -> list[int]:
        """The position of a retired message that this one follows, if that is no coincidence."""
        if not isinstance(item, Message) or not is_telling(item):
            return []
        return [k.seq - 1 for k in self._by_digest.get(item.digest, [])]

    def take(self, message: Message, ids: set[str], beside: set[int]) -> Known | None:
        """The retired message that is the same. The same id with another text is an edit, and so a new
        message. A short one that is in none of the places `beside` was said a second time."""
        alike = self._by_digest.get(message.digest, [])
        given = message.id.startswith(GENERATED_ID_PREFIX)
        # Two live messages cannot have the same id, so a revived one, or one whose id is in use again, is not
        # revived.
        fits = [k for k in alike if k.id not in ids and (given or k.id == message.id)]
        if not is_telling(message):
            fits = [k for k in fits if k.id == message.id or k.seq in beside]
        if not fits:
            return None
        # The same id first, else the oldest, so that equal messages are revived in order.
        return min(fits, key=lambda k: (k.id != message.id, k.seq))


def restored(known: Sequence[Known], keep: int, rolled_back: RolledBack) -> list[Known]:
    """Compacted messages that become live again, since no note covers them any more.

    Messages that a summary up to `keep` replaces stay archived. The summary itself becomes live again if a
    later compaction archived it.
    """
    summaries = [
        k
        for k in known
        if k.summary
        and k.seq <= keep
        and k.status in ("live", "compacted")
        and not rolled_back.stale(k, known, keep)
    ]
    newest = max(summaries, key=lambda k: (k.seq, k.status == "live"), default=None)
    covered = max(rolled_back.frontier, newest.seq) if newest else rolled_back.frontier
    back = [k for k in known if k.status == "compacted" and k.is_current and covered < k.seq <= keep]
    if newest and newest.status == "compacted" and newest.seq > rolled_back.frontier:
        back.insert(0, newest)
    return back


def floor_of(known: Iterable[Known]) -> int:
    """The last message that was cleared with its notes."""
    return max((k.seq for k in known if k.status == "cleared"), default=0)


def retired_and_revived(decision: Rollback, back: Iterable[Note]) -> list[tuple[str, NoteStatus]]:
    """The notes that a realignment changes; `back` are those whose messages came back."""
    retired: NoteStatus = "retired"
    active: NoteStatus = "active"
    return [
        *((i, retired) for i in decision.retire),
        *((i, active) for i in decision.revive),
        *((note.id, note.status) for note in back),
    ]


def due_with(progress: Progress, back: Sequence[Note], due_tokens: int, now: datetime) -> Progress:
    """Due from now on, if there is enough to note, or if notes are back that may have to be shown."""
    return made_due(progress, 0 if back else due_tokens, now)


# ------------------------------------------------------------------------------------ the transaction


def realign(
    db: Database, session: SessionId, change: Realignment, *, due_tokens: int, now: datetime
) -> AppendResult:
    found = sessions.find(db, session)
    check_realignment(found.progress if found else Progress(session), change)
    stored = found or sessions.find_or_create(db, session, now)
    sid = stored.sid
    known = known_messages(db, sid)
    notes = _notes_not_retired(db, sid)
    decision = roll_back(notes, change.keep, floor_of(known))
    rolled_back = RolledBack(decision.frontier, stored.progress.frontier)
    placement = place(known, change, rolled_back)
    _apply_placement(db, sid, placement)
    for message in restored(known, change.keep, rolled_back):
        bring_back(db, sid, message, message.seq)
    back = _returning(db, sid, decision.frontier) if placement.revives else ()
    statuses = retired_and_revived(decision, back)
    db.run_many("set_status", [{"sid": sid, "id": pack(i), "status": s} for i, s in statuses])
    for note in back:
        db.run("change_note", **note_values(sid, note))
    decision = replace(decision, frontier=back[-1].last) if back else decision
    progress = due_with(_realigned(db, stored, placement, decision, notes), back, due_tokens, now)
    count, tokens = sessions.totals(db, sid)
    saved = replace(stored, progress=progress, messages=count, message_tokens=tokens, used_at=instant(now))
    sessions.save(db, saved)
    taken = (change.keep, stored.progress.last_seq)
    sessions.log(db, sid, progress, now, statuses, taken)
    return AppendResult(progress, _fresh(db, sid, change.last_seq, placement))


def known_messages(db: Database, sid: bytes) -> list[Known]:
    """Every message of a session and its archive."""
    return [
        Known(seq, unpack(ident), digest, status, bool(summary))
        for seq, ident, digest, status, summary in db.run("known_messages", sid=sid)
    ]


def bring_back(db: Database, sid: bytes, message: Known, seq: int) -> None:
    """Make an archived message live again, with that seq."""
    archived: dict[str, Any] = {"sid": sid, "seq": message.seq, "id": pack(message.id)}
    db.run("bring_back", new_seq=seq, **archived)
    db.run("delete_archived", **archived)


def _notes_not_retired(db: Database, sid: bytes) -> list[Note]:
    wanted: dict[str, Any] = {"statuses": '["buffered", "active", "superseded"]', "limit": NO_LIMIT}
    return [to_note(row) for row in db.run("notes", sid=sid, lowest=0, highest=NO_LIMIT, **wanted)]


def _returning(db: Database, sid: bytes, frontier: int) -> tuple[Note, ...]:
    wanted: dict[str, Any] = {"statuses": '["retired"]', "lowest": 0, "highest": 0, "limit": NO_LIMIT}
    retired = [to_note(row) for row in db.run("notes", sid=sid, **wanted)]
    # What was extracted with a note names its messages by their old seqs.
    extracted = {unpack(row[0]) for row in db.run("notes_with_extractions", sid=sid)}
    rows = db.run("messages", sid=sid, after=frontier, up_to=LAST_SEQ, limit=NO_LIMIT)
    unnoted = [(m.seq, m.id) for m in map(to_message, rows)]
    return returning([n for n in retired if n.id not in extracted], unnoted)


def _apply_placement(db: Database, sid: bytes, placement: Placement) -> None:
    for message in placement.drop:
        if message.status == "live":
            db.run("delete_range", sid=sid, first=message.seq, last=message.seq)
        else:
            db.run("delete_archived", sid=sid, seq=message.seq, id=pack(message.id))
    for message in placement.retire:
        if message.status == "live":
            db.run("archive_range", sid=sid, first=message.seq, last=message.seq, reason="retired")
            db.run("delete_range", sid=sid, first=message.seq, last=message.seq)
        else:
            db.run("retire_archived", sid=sid, seq=message.seq, id=pack(message.id))
    for message, seq in placement.move:
        if message.status == "live":
            db.run("move_live", sid=sid, seq=message.seq, new_seq=seq)
        else:
            bring_back(db, sid, message, seq)
    db.run_many("add_message", [message_values(sid, m, m.digest) for m in placement.add])


def _realigned(
    db: Database, stored: StoredSession, placement: Placement, decision: Rollback, notes: Sequence[Note]
) -> Progress:
    shown = {n.id for n in notes if n.status == "active"}
    changed = bool(decision.revive) or not shown.isdisjoint(decision.retire)
    return replace(
        stored.progress,
        last_seq=placement.last_seq,
        frontier=decision.frontier,
        watermark=decision.watermark,
        tail_start=min(stored.progress.tail_start, decision.watermark + 1),
        unnoted_tokens=sessions.unnoted_tokens(db, stored.sid, decision.frontier),
        revision=stored.progress.revision + 1,
        prompt_version=stored.progress.prompt_version + changed,
        history_hash=sessions.history_hash(db, stored.sid),
    )


def _fresh(db: Database, sid: bytes, after: int, placement: Placement) -> tuple[Message, ...]:
    """The messages that the host gave as new, as recorded, with the host's own form."""
    rows = db.run("messages", sid=sid, after=after, up_to=LAST_SEQ, limit=NO_LIMIT)
    new = (m for m in map(to_message, rows) if m.seq in placement.fresh)
    return tuple(replace(m, original=placement.original(m)) for m in new)
