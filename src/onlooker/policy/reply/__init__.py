"""Reading a model's reply, and judging whether it may become a note.

`judge` is not imported here: it reads dates and names, which code that only reads notes need not load.
"""

from __future__ import annotations

from onlooker.policy.reply.note_text import Line, NoteText, Priority, critical_lines, read, with_times

__all__ = ["Line", "NoteText", "Priority", "critical_lines", "read", "with_times"]
