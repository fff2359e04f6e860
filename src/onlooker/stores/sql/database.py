"""The database of a transaction: its named statements, and the migrations of its schema.

Statements are in .sql files: those that all databases share in `stores/sql/queries`, the others in the
package of each database, under the same names. Parameters are written `:name`, lists of values as `SELECT
value FROM json_each(:name)`, and the empty blob as `x''`, which is SQLite's syntax; another database
translates that once, when the statements are loaded.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from onlooker.domain.errors import StoreError
from onlooker.domain.messages import SessionId

T = TypeVar("T")


class Result(Protocol):
    """The result of a statement. Rows are sequences whose columns can also be read by name."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Database(ABC):
    """A connection inside a transaction."""

    @abstractmethod
    def run(self, name: str, /, **values: Any) -> Result:
        """Run the statement of that name."""

    @abstractmethod
    def run_many(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run it once for each row of values."""

    def lock_session(self, session: SessionId) -> None:  # noqa: B027
        """Keep other transactions from changing the session until this one ends. Needed where a transaction
        changes the session without finding it first. A database with one writer at a time does nothing."""

    def lock_owner(self, owner: str) -> None:  # noqa: B027
        """The same for the items of an owner."""

    def value(self, name: str, /, **values: Any) -> Any:
        """The first column of the first row."""
        return self.run(name, **values).fetchone()[0]


# A transaction: what it does with the database, and what it returns.
Job = Callable[[Database], T]


# ------------------------------------------------------------------------------------ statements

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT_LINE = re.compile(r"^\s*--.*\n", re.MULTILINE)


def _folder(package: str) -> Path:
    # `importlib.resources` would do the same, but imports modules for zip files and archives.
    return Path(str(import_module(package).__file__)).parent


@cache
def statements(package: str) -> dict[str, str]:
    """The statements of a database by name: the shared ones, and those of its own package."""
    found: dict[str, str] = {}
    for folder in ("onlooker.stores.sql", package):
        for file in sorted((_folder(folder) / "queries").iterdir()):
            _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
            for name, text in zip(parts[::2], parts[1::2], strict=True):
                if name in found:
                    raise ValueError(f"{package}: the statement {name!r} is there twice")
                found[name] = _COMMENT_LINE.sub("", text).strip().removesuffix(";")
    return found


# ------------------------------------------------------------------------------------ migrations

# Several versions of the program may use one database while processes are upgraded one after another. The
# version of a database is the number of the last migration that has run; the version that a program knows is
# the number of the last migration that it contains. Each migration declares the lowest version that a program
# must know to work with the database afterwards. The database stores that in its table `migrations`, and an
# older program refuses to open it.

_WORKS_WITH = re.compile(r"^-- works with: (\d+)$", re.MULTILINE)
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
# Statements that an older program does not notice. Triggers and unique indexes affect what such a program
# writes, so a migration that adds one has to declare what it works with.
_ADDS = re.compile(
    r"CREATE TABLE|CREATE INDEX|ALTER TABLE \w+ ADD COLUMN (?!.*\bNOT NULL\b)", re.IGNORECASE | re.DOTALL
)


class Migration(NamedTuple):
    """A step from one version of the schema to the next."""

    number: int
    works_with: int  # the lowest version that a program must know once this has run
    script: str


@cache
def migrations(package: str) -> list[Migration]:
    """The migrations of a database, in order."""
    scripts = sorted((_folder(package) / "migrations").glob("*.sql"))
    return [migration(int(f.name[:4]), f.read_text(encoding="utf-8")) for f in scripts]


def migration(number: int, script: str) -> Migration:
    """A migration by its text.

    It works with the version named in a line `-- works with: N`; without such a line, with the version before
    it if it only adds things, else with no earlier one.
    """
    named = _WORKS_WITH.search(script)
    works_with = int(named[1]) if named else number - only_adds(script)
    return Migration(number, works_with, script)


def only_adds(script: str) -> bool:
    """Whether every statement adds a table, an index or an optional column."""
    statements = [s.strip() for s in _COMMENT.sub("", script).split(";")]
    return all(_ADDS.match(s) for s in statements if s)


def refuse_newer(where: object, ran: Iterable[tuple[int, int]], known: int) -> None:
    """Check that a program that knows the version `known` can work with a database.

    Args:
        where: The database, for the error message.
        ran: Number and `works_with` of the migrations that have run.
        known: The last migration that this program contains.

    Raises:
        StoreError: A migration has run that needs a newer program.
    """
    newer = [step for step in ran if step[0] > known]
    needed = max((works_with for _, works_with in newer), default=0)
    if needed > known:
        raise StoreError(
            f"{where}: was upgraded by a newer version of onlooker (to schema version {max(newer)[0]}, which "
            f"needs a program that knows version {needed}; this one knows {known}); upgrade onlooker and "
            "start again"
        )


def refuse_older(where: str, version: int, known: int) -> None:
    """Check that a database that is only read has the current schema, since reading does not upgrade it.

    Raises:
        StoreError: It has an older one.
    """
    if version < known:
        raise StoreError(
            f"{where}: has the schema of an earlier version of onlooker ({version}; this one reads {known}), "
            "and reading does not upgrade it; open it once with this version (`onlooker sessions --db …`), "
            "or upgrade a copy"
        )


# For a program that was running while the database was upgraded beyond it.
OUTGROWN = (
    "the schema is not the one that this version of onlooker knows; if a newer version has upgraded it, "
    "upgrade onlooker and start again"
)


def failed(where: object, migration: Migration, error: Exception) -> StoreError:
    """The error for a migration that failed."""
    return StoreError(
        f"{where}: migration {migration.number} failed and nothing was changed; the previous version still "
        f"works; fix the cause and open the store again ({str(error).splitlines()[0]})"
    )
