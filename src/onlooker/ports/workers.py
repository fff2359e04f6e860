"""Workers: they take notes in the background."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from onlooker.domain.messages import SessionId

# Takes every note of a session that is due; False if another worker has it, or a model failed.
Advance = Callable[[SessionId], Awaitable[bool]]


class Workers(Protocol):
    """Takes the notes of sessions that are due, in tasks of this process or in other processes.

    The store knows what is due. A worker that is woken for a session loads it, plans and commits. Waking it
    twice, late or for nothing is harmless.
    """

    @property
    def takes_notes(self) -> bool:
        """Whether this process takes notes. If not, other processes take notes, index, end sessions and write
        files."""
        ...

    @property
    def pending(self) -> int:
        """How many sessions this process was woken for and has not settled."""
        ...

    async def start(self) -> None:
        """Start working: first on what is already due, then on what comes."""
        ...

    def wake(self, session: SessionId) -> None:
        """Announce that the session may be due. Returns at once and never raises."""
        ...

    async def tick(self) -> int:
        """Start work on every session that the store says is due; return how many."""
        ...

    async def flush(self) -> None:
        """Wait until all work started so far is settled or postponed."""
        ...

    async def stop(self, deadline: float) -> bool:
        """Start nothing new and let work in progress complete; False if the deadline interrupted it."""
        ...
