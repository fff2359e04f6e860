"""What a transaction works with: named statements on some database.

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
from importlib import resources
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


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

    def value(self, name: str, /, **values: Any) -> Any:
        """The first column of the first row."""
        return self.run(name, **values).fetchone()[0]


# A transaction: what it does with the database, and what it returns.
Job = Callable[[Database], T]


@cache
def statements(package: str) -> dict[str, str]:
    """The statements of a database by name: the shared ones, and those of its own package."""
    found: dict[str, str] = {}
    for folder in ("onlooker.stores.sql", package):
        for file in sorted((resources.files(folder) / "queries").iterdir(), key=lambda f: f.name):
            _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
            for name, text in zip(parts[::2], parts[1::2], strict=True):
                if name in found:
                    raise ValueError(f"{package}: the statement {name!r} is there twice")
                found[name] = _COMMENT.sub("", text).strip().removesuffix(";")
    return found
