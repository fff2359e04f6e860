"""A conversation gone through again, message by message, as if it happened now."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from onlooker.domain.messages import Message
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.policy.context import Context


class ReplayClock:
    """The time of the message being replayed. It never goes back."""

    def __init__(self, messages: Sequence[Message]) -> None:
        first = next((m.at for m in messages if m.at), None)
        self._now = first or datetime.now(UTC)

    def now(self) -> datetime:
        return self._now

    def move_to(self, at: datetime | None) -> None:
        if at and at > self._now:
            self._now = at


@dataclass(frozen=True, slots=True)
class Moment:
    """One message recorded; for an answer, with the context that it would have been given for."""

    number: int
    message: Message
    context: Context | None


@dataclass(frozen=True, slots=True)
class Replay:
    """A session that is spoken into with the times of a conversation of the past."""

    memory: Memory
    session: Session
    clock: ReplayClock
    system: str = ""
    budget: int | None = None

    async def moments(self, messages: Sequence[Message]) -> AsyncIterator[Moment]:
        """Record each message and take the notes that are due then, as in a live session: the host
        asks for a context before each answer, and notes are there before the next message."""
        # The first asking tells the planner which budget the notes are for.
        await self._context()
        for number, message in enumerate(messages, 1):
            context = await self._context() if message.role == "assistant" else None
            self.clock.move_to(message.at)
            await self.session.record(message)
            await self.memory.flush()
            yield Moment(number, message, context)
        await self.session.settle()

    async def _context(self) -> Context:
        return await self.session.context(system=self.system, budget=self.budget)
