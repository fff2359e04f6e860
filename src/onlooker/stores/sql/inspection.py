"""What a database holds, in numbers: for `onlooker doctor`. Nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from onlooker.domain.search import IndexCoverage
from onlooker.stores.sql import sessions, vectors
from onlooker.stores.sql.database import Database
from onlooker.stores.sql.sessions import Overview, Spending


@dataclass(frozen=True, slots=True)
class Inspection:
    """What to look for: how sessions stand `now`, what was spent since `since`, how far the indexes are with
    the vectors of `embedder`, and some of the store's named values."""

    now: datetime
    since: datetime
    embedder: str = ""
    values: Sequence[str] = ()

    def contents(self, db: Database) -> Contents:
        found = ((name, sessions.get_value(db, name)) for name in self.values)
        return Contents(
            sessions.overview(db, self.now),
            sessions.newest_message(db),
            sessions.spending(db, self.since),
            vectors.coverage(db, self.embedder),
            {name: value for name, value in found if value is not None},
        )


@dataclass(frozen=True, slots=True)
class Contents:
    """Sessions, spending and indexes of a store."""

    sessions: Overview
    newest_message: datetime | None
    spending: Spending
    coverage: IndexCoverage
    values: Mapping[str, str]
