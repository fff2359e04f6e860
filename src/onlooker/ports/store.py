"""A store as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from onlooker.domain.messages import SessionId
from onlooker.domain.notes import (
    SessionSummary,
    Usage,
)
from onlooker.domain.retention import Retained, Retention
from onlooker.ports.conversations import Messages, Notes
from onlooker.ports.finding import Meaning, Search
from onlooker.ports.hand import Hand
from onlooker.ports.items import Items
from onlooker.ports.moving import Moving


class Store(Messages, Notes, Items, Search, Meaning, Hand, Moving, Protocol):
    """Where sessions live. `onlooker.testing.StoreContract` is this protocol as tests."""

    async def open(self) -> None:
        """Make it ready: create or migrate what it needs. Opening twice is harmless."""
        ...

    async def close(self) -> None:
        """Finish what was begun and let go of files and connections. Closing twice is harmless."""
        ...

    # -- work

    async def lease(self, session: SessionId, *, holder: str, now: datetime, until: datetime) -> int | None:
        """Take the session for one worker, or extend what it holds; None while another has it.

        Returns the fencing token: the same when extended, a higher one each time it changes hands.
        """
        ...

    async def release(
        self,
        session: SessionId,
        *,
        fence: int,
        last_seq: int,
        due_at: datetime | None,
        wake_at: int,
        failures: int,
    ) -> None:
        """Give the session back and say when it is due next. Nothing happens where the fence is no
        longer current. `due_at=None` (settled) keeps a due time that an append after `last_seq`
        has set meanwhile, and makes the session due where such an append reached `wake_at`."""
        ...

    async def due(self, now: datetime, *, limit: int = 1000) -> Sequence[SessionId]:
        """Sessions whose due time has come, longest due first."""
        ...

    async def record_usage(self, session: SessionId, usage: Usage) -> None:
        """Keep what a model call cost."""
        ...

    async def usage(self, session: SessionId | None = None) -> Sequence[Usage]:
        """What model calls cost, oldest first; of all sessions, deleted ones too, where none is named."""
        ...

    async def spent(
        self, *, session: SessionId | None = None, owner: str | None = None, since: datetime | None = None
    ) -> float:
        """What recorded calls cost together, in dollars: of one session, of all sessions of an owner, or
        of all (deleted ones included in the latter two); from `since` on. Calls without a known cost
        count as nothing."""
        ...

    # -- the whole store

    async def sessions(
        self, *, owner: str | None = None, key: str | None = None, limit: int | None = None
    ) -> Sequence[SessionSummary]:
        """Sessions, most recently used first."""
        ...

    async def prune(self, *, before: datetime, dry_run: bool = False) -> int:
        """Delete superseded and retired notes made before then, and retired messages said before
        then; return how many rows went, or would go. Live notes and everything they lead back to stay."""
        ...

    async def retain(self, session: SessionId, limits: Retention, *, dry_run: bool = False) -> Retained:
        """Put messages that have outlived the limits into the archive, and delete others for good, with their
        index entries; how many, or how many it would be.

        Notes stay, and so does whatever `stores.retaining.outlived` spares: above all what no active note
        stands for. What is archived is as compaction with `archive` leaves it, without a summary.
        """
        ...

    async def get_value(self, name: str) -> str | None:
        """A named value of the store itself (calibration, schema facts)."""
        ...

    async def set_value(self, name: str, value: str) -> None:
        """Set it."""
        ...
