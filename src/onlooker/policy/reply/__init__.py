"""Reading a model's reply, and judging whether it may become a note."""

from __future__ import annotations

from onlooker.policy.reply.judge import SMALL_NOTE, Accepted, Reason, Rejected, Verdict, judge
from onlooker.policy.reply.note_text import Line, NoteText, Priority, critical_lines, read, with_times

__all__ = [
    "SMALL_NOTE",
    "Accepted",
    "Line",
    "NoteText",
    "Priority",
    "Reason",
    "Rejected",
    "Verdict",
    "critical_lines",
    "judge",
    "read",
    "with_times",
]
