"""Between rows and the domain's nouns.

SQLite's text is UTF-8, which has no lone surrogates, and its JSON functions end a string at NUL. Text
that holds either is stored as a mark and its JSON form; all other text as it is, so that it can be
searched.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from onlooker.domain.messages import Message, SessionId, ToolCall
from onlooker.domain.notes import Note, Progress, Usage

# Every message's number lies between these: sessions lie 2^28 apart in the file, each amid a part of its own.
FIRST_SEQ, LAST_SEQ = -(2**27), 2**27 - 1

# A code point that is no character, so that no text begins with it by chance.
MARK = "\ufdd0"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def pack(text: str) -> str:
    """Text as SQLite can keep it. Equal texts pack alike, different ones differently."""
    if text.isascii() and "\0" not in text:
        return text
    return text if _plain(text) else MARK + json.dumps(text)


def _plain(text: str) -> bool:
    if "\0" in text or text[:1] == MARK:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unpack(text: str) -> str:
    """What `pack` was given."""
    return json.loads(text[1:]) if text[:1] == MARK else text


def ids_json(ids: Iterable[str]) -> str:
    """Ids for `json_each`."""
    return json.dumps([pack(i) for i in ids], ensure_ascii=False)


def _ids(text: str) -> tuple[str, ...]:
    """What `ids_json` was given. A load reads hundreds, and hardly ever a packed one."""
    ids = json.loads(text)
    return tuple(map(unpack, ids) if MARK in text else ids)


def instant(at: datetime) -> int:
    """Microseconds since 1970 in UTC: a time that compares right in SQL."""
    return (at - EPOCH) // _MICROSECOND


def instant_of_text(at: str | None) -> int | None:
    """The same of an ISO date; an SQL function."""
    if at is None:
        return None
    time = datetime.fromisoformat(at)
    return instant(time if time.tzinfo else time.replace(tzinfo=UTC))


def from_instant(instant: int) -> datetime:
    return EPOCH + instant * _MICROSECOND


def within(seq: int) -> int:
    """A number that a caller gave, or the nearest that a message can have."""
    return min(max(seq, FIRST_SEQ), LAST_SEQ)


def sid_of(session: SessionId) -> bytes:
    return bytes.fromhex(session.sid)


# ------------------------------------------------------------------------------------ messages


def message_row(sid: bytes, message: Message, digest: bytes, *, summary: bool = False) -> tuple[Any, ...]:
    """The parameters of `add_message`."""
    return (
        sid,
        message.seq,
        pack(message.id),
        message.role,
        message.tokens,
        message.at.isoformat() if message.at else None,
        digest,
        int(summary),
        pack(message.name),
        _extra(message),
        pack(message.text),
    )


def _extra(message: Message) -> str | None:
    if not (message.calls or message.answers or message.attachments):
        return None
    calls = [[c.id, c.name, c.arguments] for c in message.calls]
    return pack(json.dumps([calls, message.answers, message.attachments], ensure_ascii=False))


def to_message(row: tuple[Any, ...]) -> Message:
    """From (seq, id, role, tokens, at, name, extra, text, …)."""
    seq, ident, role, tokens, at, name, extra, text, *_ = row
    calls: tuple[ToolCall, ...] = ()
    answers, attachments = "", ()
    if extra is not None:
        raw_calls, answers, raw_attachments = json.loads(unpack(extra))
        calls = tuple(ToolCall(*call) for call in raw_calls)
        attachments = tuple(raw_attachments)
    said_at = None if at is None else datetime.fromisoformat(at)
    # By place, which is quicker than by name: a load makes dozens.
    return Message(
        role, unpack(text), unpack(ident), said_at, unpack(name), calls, answers, attachments, seq, tokens
    )


# Most messages of a tail were there the turn before, and making them anew takes most of a load. These are the
# tails of some 300 sessions, 12 MB; long messages are made anew, for the space they take.
KEPT_MESSAGES = 16_384
KEPT_LENGTH = 1_000


def to_tail(rows: Iterable[tuple[Any, ...]]) -> tuple[Message, ...]:
    """Messages that the next turn asks for again."""
    return tuple(_kept_message(tuple(r)) if _is_short(r) else to_message(r) for r in rows)


def _is_short(row: tuple[Any, ...]) -> bool:
    extra, text = row[6], row[7]
    return len(text) <= KEPT_LENGTH and (extra is None or len(extra) <= KEPT_LENGTH)


_kept_message = lru_cache(maxsize=KEPT_MESSAGES)(to_message)


def forget_kept() -> None:
    """Let go of what was read before: some of it is to be forgotten."""
    _kept_message.cache_clear()


# ------------------------------------------------------------------------------------ notes


def note_row(sid: bytes, note: Note) -> tuple[Any, ...]:
    """The parameters of `add_note`."""
    return (
        sid,
        pack(note.id),
        note.generation,
        note.first,
        note.last,
        note.status,
        note.tokens,
        note.made_at.isoformat(),
        pack(note.model),
        int(note.degraded),
        ids_json(note.sources),
        pack(note.text),
    )


def to_note(row: sqlite3.Row | tuple[Any, ...]) -> Note:
    """From (id, generation, first_seq, …, text)."""
    ident, generation, first, last, status, tokens, made_at, model, degraded, sources, text = row
    return Note(
        id=unpack(ident),
        generation=generation,
        first=first,
        last=last,
        text=unpack(text),
        tokens=tokens,
        made_at=datetime.fromisoformat(made_at),
        sources=_ids(sources),
        status=status,
        model=unpack(model),
        degraded=bool(degraded),
    )


# ------------------------------------------------------------------------------------ sessions


def to_session(row: sqlite3.Row) -> SessionId:
    return SessionId(unpack(row["owner"]), unpack(row["key"]))


# A session's marks, in the order of `Progress`.
# fmt: off
_MARKS = (
    "last_seq", "frontier", "watermark", "tail_start", "unnoted_tokens", "revision", "prompt_version",
    "budget", "history_hash", "due_at", "wake_at", "failures", "ended_seq",
)
# fmt: on


def to_progress(row: sqlite3.Row, session: SessionId | None = None) -> Progress:
    return progress_of(session or to_session(row), [row[name] for name in _MARKS])


def progress_of(session: SessionId, marks: Sequence[Any]) -> Progress:
    """From (last_seq, …, ended_seq), all of them, in the order of `Progress`."""
    (
        last_seq,
        frontier,
        watermark,
        tail_start,
        unnoted,
        revision,
        prompt_version,
        budget,
        history_hash,
        *work,
    ) = marks
    due_at, wake_at, failures, ended = work
    due = None if due_at is None else from_instant(due_at)
    # fmt: off
    return Progress(
        session, last_seq, frontier, watermark, tail_start, unnoted, revision, prompt_version, budget,
        history_hash, due, wake_at, failures, ended,
    )
    # fmt: on


def usage_row(session: SessionId, usage: Usage) -> tuple[Any, ...]:
    """The parameters of `record_usage`."""
    return (
        sid_of(session),
        pack(session.owner),
        pack(usage.model),
        usage.purpose,
        usage.input_tokens,
        usage.output_tokens,
        pack(usage.verdict),
        usage.at.isoformat(),
        instant(usage.at),
        usage.cost,
    )


def to_usage(row: sqlite3.Row) -> Usage:
    model, purpose, read, written, verdict, at, cost = row
    return Usage(unpack(model), purpose, read, written, unpack(verdict), datetime.fromisoformat(at), cost)
