"""Reading a model's reply, and judging whether it may become a note.

`judge` is imported by those who judge: it reads dates and names, and whoever only reads notes waits for none
of that.
"""

from __future__ import annotations

from onlooker.policy.reply.note_text import Line, NoteText, Priority, critical_lines, read, with_times

__all__ = ["Line", "NoteText", "Priority", "critical_lines", "read", "with_times"]
