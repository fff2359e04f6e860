"""The SQL, by name, from the .sql files beside this one."""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from onlooker.stores.migrating import Migration, migrations_in

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def _here() -> Traversable:
    return resources.files("onlooker.stores.sqlite")


@cache
def statements() -> dict[str, str]:
    """Every named statement."""
    found: dict[str, str] = {}
    for file in (_here() / "queries").iterdir():
        _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
        found |= zip(parts[::2], (p.strip() for p in parts[1::2]), strict=True)
    return found


@cache
def sql(name: str) -> str:
    """One statement."""
    return statements()[name]


@cache
def migrations() -> list[Migration]:
    """Every migration, in order."""
    return migrations_in(_here() / "migrations")


def split(script: str) -> list[str]:
    """The statements of a script. (`executescript` would commit the transaction that it runs in.)"""
    found: list[str] = []
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            found.append(text.strip())
            text = ""
    return found
