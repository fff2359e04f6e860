"""Reading what a model answered, and judging whether it may become a note."""

from onlooker.policy.reading.judging import SMALL_NOTE, Accepted, Reason, Refused, Verdict, judge
from onlooker.policy.reading.notetext import Line, NoteText, critical_lines, read
from onlooker.policy.reading.stamps import Priority

__all__ = [
    "SMALL_NOTE",
    "Accepted",
    "Line",
    "NoteText",
    "Priority",
    "Reason",
    "Refused",
    "Verdict",
    "critical_lines",
    "judge",
    "read",
]
