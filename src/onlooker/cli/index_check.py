"""What the doctor looks at in the indexes: vectors and the graph. Nothing is changed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from onlooker.cli.settings_file import load_settings
from onlooker.cli.surface import Stop
from onlooker.domain.errors import SettingsError
from onlooker.engine.indexing import COUNTS
from onlooker.stores.sqlite import vectors

INDEXES_SINCE = 7  # the schema that has them

# (name, what was found)
Found = tuple[str, str]


def indexes(connection: sqlite3.Connection, config: Path | None) -> Iterator[Found]:
    """How far the indexes are, and what was dropped on the way."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < INDEXES_SINCE:
        return
    try:
        embedder = load_settings(config).embedder
    except (SettingsError, Stop):
        embedder = ""  # said elsewhere
    covered = vectors.coverage(connection, embedder)
    yield "graph", f"{covered.linked} of {covered.notes} notes{_counts(connection, 'graph')}"
    if embedder:
        have = f"{covered.vectors} of {covered.texts} texts have one of {embedder}"
        yield "vectors", f"{have}{_counts(connection, 'vectors')}; {_compared()}"


def _counts(connection: sqlite3.Connection, index: str) -> str:
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (COUNTS.format(index),)).fetchone()
    counts: dict[str, int] = json.loads(row[0]) if row else {}
    said = [f"{counts[what]} {what} so far" for what in ("dropped", "failed") if counts.get(what)]
    return f" ({', '.join(said)}; the sweep makes up for it)" if said else ""


def _compared() -> str:
    if vectors.extension():
        return "compared by sqlite-vec"
    if not vectors.loads_extensions():
        return "compared in Python, since this one's SQLite loads no extensions"
    return 'compared in Python; pip install "onlooker[vectors]" for large memories'
