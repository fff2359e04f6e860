"""The parts of a line: times, names, and what a field must be."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from onlooker.domain.messages import SessionId

Fields = dict[str, Any]


def utc(at: datetime | None) -> str | None:
    """A time of work, which stores keep as a moment only."""
    return None if at is None else at.astimezone(UTC).isoformat()


def iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def time_or_none(text: str | None) -> datetime | None:
    return None if text is None else moment(text)


def moment(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def named(kind: str, session: SessionId) -> Fields:
    return {"kind": kind, "owner": session.owner, "session": session.key}


def session_in(line: Fields) -> SessionId:
    return SessionId(text(line["owner"]), text(line["session"]))


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no whole number")
    return value


def texts(values: Any) -> tuple[str, ...]:
    return tuple(map(text, values))


def one_of(value: Any, *allowed: str) -> Any:
    if value not in allowed:
        raise ValueError(f"{value!r} is none of {', '.join(allowed)}")
    return value
