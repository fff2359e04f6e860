"""Migrations, and which versions work beside each other while processes are upgraded one by one.

The number of the last migration that has run is the version of a database; that of the last one that a
program brings is the version it knows. Each migration says from which version on a program goes on working
once it has run, the database keeps that in its table `migrations`, and a program that is older refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources.abc import Traversable
from typing import NamedTuple

from onlooker.domain.errors import StoreError

_WORKS_WITH = re.compile(r"^-- works with: (\d+)$", re.MULTILINE)
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
# What a program that knows nothing of it cannot stumble over. Triggers and unique indexes act on what such a
# program writes; whoever adds one has to say whether that is all right.
_ADDS = re.compile(
    r"CREATE TABLE|CREATE INDEX|ALTER TABLE \w+ ADD COLUMN (?!.*\bNOT NULL\b)", re.IGNORECASE | re.DOTALL
)


class Migration(NamedTuple):
    """A step from one version of the schema to the next."""

    number: int
    works_with: int  # the lowest version that a program must know to go on working once it has run
    script: str


def migrations_in(folder: Traversable) -> list[Migration]:
    """Those of a folder, in order."""
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [migration(int(f.name[:4]), f.read_text(encoding="utf-8")) for f in files]


def migration(number: int, script: str) -> Migration:
    """A migration by its text: it works with the version that a line `-- works with: N` names; without
    one, with the version before it where it only adds, else with none before itself."""
    named = _WORKS_WITH.search(script)
    works_with = int(named[1]) if named else number - only_adds(script)
    return Migration(number, works_with, script)


def only_adds(script: str) -> bool:
    """Whether every statement adds a table, an index or a column that may be left out."""
    statements = [s.strip() for s in _COMMENT.sub("", script).split(";")]
    return all(_ADDS.match(s) for s in statements if s)


def refuse_newer(where: object, ran: Iterable[tuple[int, int]], known: int) -> None:
    """See that a program which knows the version `known` can work with a database.

    Args:
        where: The database, as the error names it.
        ran: Number and `works_with` of the migrations that have run.
        known: The last migration that this program brings.

    Raises:
        StoreError: One has run that needs a newer program.
    """
    newer = [step for step in ran if step[0] > known]
    needed = max((works_with for _, works_with in newer), default=0)
    if needed > known:
        raise StoreError(
            f"{where}: was upgraded by a newer version of onlooker; its schema is version {max(newer)[0]}, "
            f"for programs that know version {needed} or later, and this one knows {known}: "
            "upgrade onlooker here, and start again"
        )


# What a program says that was running while the database was upgraded beyond it.
OUTGROWN = (
    "the schema is not the one that this version of onlooker knows: if a newer version has upgraded it, "
    "upgrade onlooker, and start again"
)


def unfinished(where: object, migration: Migration, error: Exception) -> StoreError:
    """What to say of a migration that failed."""
    return StoreError(
        f"{where}: migration {migration.number} failed, and nothing was changed: the version before goes on "
        f"working; mend what it says, and open it again ({str(error).splitlines()[0]})"
    )
