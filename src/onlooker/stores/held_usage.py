"""What model calls cost, held in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Usage

# What a call cost: for which owner, and which session unless that was deleted.
Spent = tuple[str, SessionId | None, Usage]


class HeldUsage:
    """All owners' calls. What was paid stays paid: it outlives the session and the owner it was for."""

    def __init__(self) -> None:
        self._spent: list[Spent] = []

    def record(self, session: SessionId, usage: Usage) -> None:
        self._spent.append((session.owner, session, usage))

    def of(self, session: SessionId | None) -> list[Usage]:
        """The calls for one session, or all."""
        return [usage for _, whose, usage in self._spent if session in (None, whose)]

    def cost(self, session: SessionId | None, owner: str | None, since: datetime | None) -> float:
        return sum(
            usage.cost or 0.0
            for payer, whose, usage in self._spent
            if session in (None, whose) and owner in (None, payer) and (since is None or usage.at >= since)
        )

    def leave_session(self, session: SessionId) -> None:
        """It was deleted: its calls stay its owner's."""
        self._spent = [(owner, None if s == session else s, usage) for owner, s, usage in self._spent]

    def leave_owner(self, owner: str) -> None:
        """They were forgotten: their calls are nobody's."""
        self._spent = [("" if payer == owner else payer, s, usage) for payer, s, usage in self._spent]

    # -- moving

    def every(self) -> Sequence[Spent]:
        return tuple(self._spent)

    def put(self, spent: Spent) -> None:
        self._spent.append(spent)

    def drop(self, session: SessionId) -> None:
        """Another copy of the session comes, with its own."""
        self._spent = [spent for spent in self._spent if spent[1] != session]
