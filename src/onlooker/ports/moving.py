"""A store's part for giving everything out and taking it in, and a store that is only read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from onlooker.domain.history_rows import EVERYTHING, Row, Scope


class Moving(Protocol):
    """Out of the store and into it."""

    def dump(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        """What the store holds, as rows, all of one moment and in an order that every store keeps: each
        session with what belongs to it, then items, what calls cost, and values of the store."""
        ...

    async def restore(
        self, rows: AsyncIterator[Row], *, replace: bool = False, renew: bool = False
    ) -> dict[str, int]:
        """Take rows in, those of one session after the other and each session in one transaction; how
        many of each kind. A row that says the same thing as one before counts instead of it.

        A session that is there makes way with the items that were made in it and what it cost (`replace`),
        or without them (`renew`).

        Raises:
            ConflictError: A session is there already, and was not to make way.
            StoreError: The rows of a session do not say where it stands.
        """
        ...

    async def back_up(self, target: Path) -> None:
        """Copy the store to a new file while it is in use.

        Raises:
            StoreError: It is no file, or the target exists or cannot be written.
        """
        ...


class Reading(Protocol):
    """A store as it is at one moment, for whoever only reads: nothing of it is created or upgraded."""

    @property
    def name(self) -> str:
        """Where it is, without secrets."""
        ...

    async def open(self) -> bool:
        """Take hold of this moment; False where nothing is stored there yet.

        Raises:
            StoreError: It cannot be read, or not by this version.
        """
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...

    async def mark(self) -> tuple[int, ...]:
        """How many sessions there are, and other numbers, which are others when sessions were used."""
        ...

    def rows(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        """As `Store.dump`."""
        ...
