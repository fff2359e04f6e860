"""Sessions, messages, notes and what was extracted with them, as fields of a line and back."""

from __future__ import annotations

from datetime import datetime

from onlooker.domain.history_rows import ExtractionRow, MessageRow, NoteRow, SessionRow
from onlooker.domain.messages import Message, ToolCall
from onlooker.domain.notes import Extraction, Note, Progress
from onlooker.policy.lines.fields import (
    Fields,
    iso,
    moment,
    named,
    number,
    one_of,
    session_in,
    text,
    texts,
    time_or_none,
    utc,
)

# ------------------------------------------------------------------------------------ sessions

_MARKS = (
    "last_seq",
    "frontier",
    "watermark",
    "tail_start",
    "unnoted_tokens",
    "revision",
    "prompt_version",
    "budget",
    "wake_at",
    "failures",
    "ended",
)


def from_session(row: SessionRow) -> Fields:
    p = row.progress
    return {
        **named("session", p.session),
        **{name: getattr(p, name) for name in _MARKS},
        "history_hash": p.history_hash.hex(),
        "due_at": utc(p.due_at),
        "used_at": utc(row.used_at),
        "changes": row.changes,
        "pins": list(row.pins),
        "shown_items": None if row.shown_items is None else list(row.shown_items),
    }


def to_session(line: Fields) -> SessionRow:
    marks = {name: number(line[name]) for name in _MARKS}
    history_hash, due = bytes.fromhex(line["history_hash"]), time_or_none(line["due_at"])
    progress = Progress(session_in(line), history_hash=history_hash, due_at=due, **marks)
    used, pins, shown = moment(line["used_at"]), texts(line["pins"]), line["shown_items"]
    shown = None if shown is None else texts(shown)
    return SessionRow(progress, used, number(line["changes"]), pins, shown)


# ------------------------------------------------------------------------------------ messages


def from_message(row: MessageRow) -> Fields:
    m = row.message
    return {
        **named("message", row.session),
        "seq": m.seq,
        "id": m.id,
        "role": m.role,
        "name": m.name,
        "at": iso(m.at),
        "tokens": m.tokens,
        "place": row.place,
        "summary": row.summary,
        "text": m.text,
        "calls": [[c.id, c.name, c.arguments] for c in m.calls],
        "answers": m.answers,
        "attachments": list(m.attachments),
    }


def to_message(line: Fields) -> MessageRow:
    message = Message(
        role=one_of(line["role"], "system", "user", "assistant", "tool"),
        text=text(line["text"]),
        id=text(line["id"]),
        # As the host gave it, with or without a time zone.
        at=None if line["at"] is None else datetime.fromisoformat(line["at"]),
        name=text(line["name"]),
        calls=tuple(ToolCall(text(c[0]), text(c[1]), text(c[2])) for c in line["calls"]),
        answers=text(line["answers"]),
        attachments=texts(line["attachments"]),
        seq=number(line["seq"]),
        tokens=number(line["tokens"]),
    )
    place = one_of(line["place"], "live", "compacted", "cleared", "retired")
    return MessageRow(session_in(line), message, place, bool(line["summary"]))


# ------------------------------------------------------------------------------------ notes


def from_note(row: NoteRow) -> Fields:
    n = row.note
    return {
        **named("note", row.session),
        "id": n.id,
        "tier": "session",
        "generation": n.generation,
        "first": n.first,
        "last": n.last,
        "status": n.status,
        "made_at": iso(n.made_at),
        "model": n.model,
        "degraded": n.degraded,
        "tokens": n.tokens,
        "text": n.text,
        "sources": list(n.sources),
    }


def to_note(line: Fields) -> NoteRow:
    note = Note(
        id=text(line["id"]),
        generation=number(line["generation"]),
        first=number(line["first"]),
        last=number(line["last"]),
        text=text(line["text"]),
        tokens=number(line["tokens"]),
        made_at=moment(line["made_at"]),
        sources=texts(line["sources"]),
        status=one_of(line["status"], "buffered", "active", "superseded", "retired"),
        model=text(line["model"]),
        degraded=bool(line["degraded"]),
    )
    return NoteRow(session_in(line), note)


def from_extraction(row: ExtractionRow) -> Fields:
    e = row.extraction
    return {
        **named("extraction", row.session),
        "note": e.note,
        "number": row.number,
        "type": e.type,
        "value": e.text,
        "seqs": list(e.seqs),
        "said_at": iso(e.said_at),
        "made_at": iso(e.made_at),
    }


def to_extraction(line: Fields) -> ExtractionRow:
    session, seqs = session_in(line), tuple(map(number, line["seqs"]))
    times = moment(line["said_at"]), moment(line["made_at"])
    found = Extraction(text(line["type"]), text(line["value"]), text(line["note"]), session, seqs, *times)
    return ExtractionRow(session, number(line["number"]), found)
