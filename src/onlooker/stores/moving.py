"""Moving rows into a store: the order they must come in, and what is refused, the same in every store."""

from __future__ import annotations

from typing import NamedTuple

from onlooker.domain.errors import ConflictError, StoreError
from onlooker.domain.history_rows import Row
from onlooker.domain.messages import SessionId


class OnConflict(NamedTuple):
    """What becomes of a session that is there already: it makes way with its items and what it cost, or
    alone; with neither it is an error."""

    replace: bool = False
    renew: bool = False


def kind_of(row: Row) -> str:
    """As it is counted."""
    return type(row).__name__.removesuffix("Row").lower()


def already_there(session: SessionId) -> ConflictError:
    return ConflictError(
        f"session {session.key!r} of {session.owner!r} is there already; replace it, or leave it out"
    )


def incomplete(session: SessionId) -> StoreError:
    return StoreError(
        f"session {session.key!r} of {session.owner!r}: the rows do not say where it stands, so they are "
        "not all there"
    )
