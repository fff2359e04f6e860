"""What a person may do to a session, and ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note

if TYPE_CHECKING:
    from onlooker.domain.history import ForgetResult, NoteHistory
    from onlooker.engine.core import Core
    from onlooker.engine.hand import Hand, Moment
    from onlooker.policy.history import Diff


class Handled:
    """The part of `Session` that is about a person's hand."""

    __slots__ = ()

    core: Core
    id: SessionId

    async def edit(self, note: str, text: str, *, by: str = "", was: str | None = None) -> Note:
        """Give a note another text, which is what the prompt shows and later reflections go by. The text
        before is kept as a version, with who wrote it and when; see `history`. `was` is the text that was
        edited, where it must still be that one.

        Raises:
            KeyError: There is no live note with that id.
            ConflictError: The note's text is not `was`.
        """
        await self.core.ready()
        return await self._hand.edit(note, text, by, was)

    async def undo(self, note: str | None = None) -> Sequence[Note]:
        """Undo a reflection, the last one where none is named: the notes that it was made from are shown
        again, and returned.

        Raises:
            KeyError: There is no such reflection, or it was condensed itself.
            BudgetError: There is no room for them, so that they would be condensed again at once.
            ConflictError: Notes that it was made from are gone, or others change the notes just now.
        """
        await self.core.ready()
        return await self._hand.undo(note)

    async def forget(
        self, *targets: str, dry_run: bool = False, rewrite_later: bool | None = None
    ) -> ForgetResult:
        """Forget messages, by id, and what notes stand for, with everything derived from them: notes that
        mixed them with others are written again without them (on the spot, and by the model when it is
        due), and nothing of them is left in any table, index, journal or file. A host that hands over
        whole histories must take them out there as well.

        `dry_run` only counts. `rewrite_later` says whether a model writes those notes again; where a model
        is configured it does.

        Raises:
            KeyError: There is no message or note with that id.
        """
        from onlooker.engine.forgetting import Forgetter

        await self.core.ready()
        forgetter = Forgetter(self.core, self.id)
        return await forgetter.forget(targets, dry_run=dry_run, rewrite_later=rewrite_later)

    async def history(self, note: str) -> NoteHistory:
        """What became of a note: its texts with who wrote them and when, its status over time, and the notes
        that were made from it.

        Raises:
            KeyError: There is no note with that id.
        """
        await self.core.ready()
        return await self._hand.history(note)

    async def as_of(self, point: int | datetime) -> Moment:
        """The memory as it was when the message with that seq was the newest, or at that time."""
        await self.core.ready()
        return await self._hand.as_of(point)

    async def diff(self, note: str, other: str | None = None) -> Diff:
        """What a note kept, dropped and added: against what it was made from (a reflection) or its text
        before (an edited note); with `other`, what that note did against this one.

        Raises:
            KeyError: There is no note with that id.
        """
        await self.core.ready()
        return await self._hand.diff(note, other)

    async def neighbours(self, note: str) -> Sequence[Note]:
        """Notes of this owner that are tied to a note, the closest first: by a name or an id that both
        mention, since one condenses the other, or since one follows the other.

        Raises:
            KeyError: There is no note with that id.
        """
        from onlooker.engine.fusing import neighbours

        await self.core.ready()
        return await neighbours(self.core.store, self.id, note)

    @property
    def _hand(self) -> Hand:
        from onlooker.engine.hand import Hand

        return Hand(self.core, self.id)
