"""Between rows and the domain's nouns.

SQLite's text is UTF-8, which has no lone surrogates, and its JSON functions end a string at NUL. Text
that holds either is stored as a mark and its JSON form; all other text as it is, so that it can be
searched.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from onlooker.domain.messages import Message, SessionId, ToolCall
from onlooker.domain.notes import Note, Progress, Usage

# A code point that is no character, so that no text begins with it by chance.
MARK = "\ufdd0"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def pack(text: str) -> str:
    """Text as SQLite can keep it. Equal texts pack alike, different ones differently."""
    return text if _plain(text) else MARK + json.dumps(text)


def _plain(text: str) -> bool:
    if "\0" in text or text[:1] == MARK:
        return False
    if text.isascii():
        return True
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


# Most messages of a tail were read the turn before. Long ones are read anew, for the space they take.
KEPT_MESSAGES = 1024
KEPT_LENGTH = 2_000


def to_message(row: tuple[Any, ...]) -> Message:
    """From (seq, id, role, tokens, at, name, extra, text, …)."""
    extra, text = row[6], row[7]
    if len(text) > KEPT_LENGTH or (extra is not None and len(extra) > KEPT_LENGTH):
        return _to_message(row)
    return _kept_message(row)


@lru_cache(maxsize=KEPT_MESSAGES)
def _kept_message(row: tuple[Any, ...]) -> Message:
    return _to_message(row)


def forget_kept() -> None:
    """Let go of what was read before: some of it is to be forgotten."""
    _kept_message.cache_clear()


def _to_message(row: tuple[Any, ...]) -> Message:
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


def to_progress(row: sqlite3.Row, session: SessionId | None = None) -> Progress:
    return Progress(
        session=session or to_session(row),
        last_seq=row["last_seq"],
        frontier=row["frontier"],
        watermark=row["watermark"],
        tail_start=row["tail_start"],
        unnoted_tokens=row["unnoted_tokens"],
        branch=row["branch"],
        epoch=row["epoch"],
        budget=row["budget"],
        chain=row["chain"],
        due_at=None if row["due_at"] is None else from_instant(row["due_at"]),
        wake_at=row["wake_at"],
        failures=row["failures"],
        ended=row["ended_seq"],
    )


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
