"""A store's part for what a person changes."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from onlooker.domain.history import Forgetting
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import (
    Note,
    Progress,
)


class Hand(Protocol):
    """Edit, undo, forget."""

    async def edit(
        self,
        session: SessionId,
        note_id: str,
        text: str,
        *,
        tokens: int,
        by: str,
        now: datetime,
        was: str | None = None,
    ) -> Note:
        """Give a live note another text, and keep the one before as a version. Notes in the making are
        void: `revision` grows.

        Raises:
            KeyError: The session has no live note with that id.
            ConflictError: `was` is given, and the note's text is another by now.
        """
        ...

    async def undo(self, session: SessionId, note_id: str, *, prompt_version: int, now: datetime) -> Progress:
        """Retire an active reflection; the notes that it was made from are active again.

        Raises:
            KeyError: The session has no active reflection with that id.
            ConflictError: `prompt_version` moved since it was read, or notes that it was made from are gone.
        """
        ...

    async def forget(self, session: SessionId, change: Forgetting, *, now: datetime) -> Progress:
        """Delete messages, wherever they are kept, with every version, extraction, pin, summary and index
        entry that comes from them, and put notes that were made without them in the place of those that
        mixed them with others. What a dropped summary stood for comes back from the archive.

        Raises:
            ConflictError: Notes changed since that was decided.
        """
        ...

    async def forget_owner(self, owner: str) -> int:
        """Delete every session and item of an owner; how many sessions there were. What calls cost stays
        counted for the day, without saying for whom."""
        ...

    async def erase(self) -> bool:
        """Make sure that nothing deleted can be read from the store's files any more; False where that
        waits for others who read them now."""
        ...
