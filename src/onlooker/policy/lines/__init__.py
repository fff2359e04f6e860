"""Rows of a store as lines of JSON, and back: the form of exports and journals.

A line is an object whose `kind` comes first. Times are ISO 8601; text that UTF-8 cannot hold (lone
surrogates) makes its whole line ASCII, with escapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from onlooker.domain.history_rows import (
    ChangeRow,
    ExtractionRow,
    ItemRow,
    MessageRow,
    NoteRow,
    RestartRow,
    Row,
    SessionRow,
    UsageRow,
    ValueRow,
    VersionRow,
)
from onlooker.policy.lines import others, sessions
from onlooker.policy.lines.fields import Fields

__all__ = ["dumps", "from_fields", "from_line", "to_line"]


def to_line(row: Row) -> str:
    """One line, without its end."""
    return dumps(_TO[type(row)](row))


def from_line(text: str) -> Row:
    """The row of a line.

    Raises:
        ValueError: It is none, and why.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON ({error})") from None
    return from_fields(found)


def from_fields(found: Any) -> Row:
    """The row of a line that was read as JSON.

    Raises:
        ValueError: It is none, and why.
    """
    kind: object = found.get("kind") if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(kind, str) or kind not in _FROM:
        raise ValueError("not a line of ours: its `kind` is missing or unknown")
    try:
        return _FROM[kind](cast("Fields", found))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError(f"a {kind} that lacks something ({type(error).__name__}: {error})") from None


def dumps(document: Mapping[str, Any]) -> str:
    """JSON on one line, always the same for the same document."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":"))
    # A reader that splits at every kind of line end must still find one line.
    return json.dumps(document, separators=(",", ":")) if len(text.splitlines()) > 1 else text


_TO: dict[type, Callable[[Any], Fields]] = {
    SessionRow: sessions.from_session,
    MessageRow: sessions.from_message,
    NoteRow: sessions.from_note,
    ExtractionRow: sessions.from_extraction,
    VersionRow: others.from_version,
    ChangeRow: others.from_change,
    RestartRow: others.from_restart,
    ItemRow: others.from_item,
    UsageRow: others.from_usage,
    ValueRow: others.from_value,
}
_FROM: dict[str, Callable[[Fields], Row]] = {
    "session": sessions.to_session,
    "message": sessions.to_message,
    "note": sessions.to_note,
    "extraction": sessions.to_extraction,
    "version": others.to_version,
    "change": others.to_change,
    "restart": others.to_restart,
    "item": others.to_item,
    "usage": others.to_usage,
    "value": others.to_value,
}
