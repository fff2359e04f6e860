"""Who takes notes in the background."""

from __future__ import annotations

from typing import Protocol

from onlooker.domain.messages import SessionId


class Workers(Protocol):
    """Who takes the notes of sessions that are due: tasks of this process, or others elsewhere.

    What is due is in the store. Whoever is told of a session loads it, decides and commits; that it is told
    twice, late or in vain does no harm.
    """

    @property
    def here(self) -> bool:
        """Whether this process is one that works in the background. One that is not takes no notes by itself,
        indexes nothing, ends no sessions, keeps no files: others do all of that."""
        ...

    @property
    def pending(self) -> int:
        """Sessions that this process was told of and has not settled."""
        ...

    async def start(self) -> None:
        """Begin: what was due before, and what comes."""
        ...

    def wake(self, session: SessionId) -> None:
        """Say that the session may have something due. Returns at once, and raises nothing."""
        ...

    async def tick(self) -> int:
        """Take up every session that the store says is due; how many those were."""
        ...

    async def flush(self) -> None:
        """Wait until everything taken up so far is settled or has been put off."""
        ...

    async def stop(self, deadline: float) -> bool:
        """Take nothing new, and let work in progress complete; False where the deadline cut it off."""
        ...
