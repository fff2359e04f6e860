"""Moving one store into another: what is said of it on the way, and at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onlooker.domain.messages import SessionId

# comparing: in a dry run; copying: sessions, and the rest of the store with the last of them; verifying: both
# sides are read again and compared; indexing: what was copied is made findable.
MovePhase = Literal["comparing", "copying", "verifying", "indexing"]


@dataclass(frozen=True, slots=True)
class MoveStep:
    """How far a move is: so many sessions of all."""

    phase: MovePhase
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A session that was left as it is in the target, and why."""

    session: SessionId
    why: str


@dataclass(frozen=True, slots=True)
class Moved:
    """What a move did, or what it would do.

    `sessions` is how many the source has. Each was `copied`; `renewed`, where the target had it from before;
    the `same` already; or `refused`.
    """

    source: str
    target: str
    sessions: int
    copied: int = 0
    renewed: int = 0
    same: int = 0
    refused: tuple[Refused, ...] = ()
    others: int = 0  # sessions that only the target has; nothing was done to them
    kept_items: int = 0  # items that were used or changed in the target since, and stay as they are there
    forgotten_items: int = 0  # items that the source had before, and no more
    rows: Mapping[str, int] = field(default_factory=dict[str, int])  # found the same on both sides, by kind
    changed: bool = False  # the source was used meanwhile: move again, and what is new comes along
    dry_run: bool = False

    @property
    def complete(self) -> bool:
        """Whether the target has all that the source had when it began."""
        return not self.refused and not self.dry_run
