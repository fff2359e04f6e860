"""The SQL, by name, from the .sql files beside this one."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from onlooker.stores.migrating import Migration, migrations_in
from onlooker.stores.sqlite import statements as of_sqlite

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def _here() -> Traversable:
    return resources.files("onlooker.stores.postgres")


@cache
def statements() -> dict[str, str]:
    """Every named statement."""
    found: dict[str, str] = {}
    for file in sorted((_here() / "queries").iterdir(), key=lambda f: f.name):
        _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
        found |= zip(parts[::2], (p.strip() for p in parts[1::2]), strict=True)
    return found


@cache
def sql(name: str) -> str:
    """One statement."""
    return statements()[name]


@cache
def _names() -> dict[str, str]:
    """The names of the SQLite store's statements, by their text."""
    return {text: name for name, text in of_sqlite.statements().items()}


@cache
def twin(text: str, *, writing: bool) -> str:
    """What a statement of the SQLite store is here.

    One that has a name there has the same name here. The few that have none are plain enough to be the
    same in both, but for the placeholders.
    """
    name = _names().get(text)
    if name is None:
        return text.replace("?", "$1")
    # SQLite has one writer at a time. Here a session's writers wait for each other, and no others.
    return sql("lock_session" if writing and name == "session" else name)


@cache
def migrations() -> list[Migration]:
    """Every migration, in order."""
    return migrations_in(_here() / "migrations")
