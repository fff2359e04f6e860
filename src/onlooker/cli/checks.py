"""What the doctor looks at. Each check says what it found, and what to do where something is wrong."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

from onlooker.cli.folder_check import notes_folder
from onlooker.cli.index_check import indexes
from onlooker.cli.keys import key_for
from onlooker.cli.settings_file import load_settings, settings_path
from onlooker.cli.surface import Stop
from onlooker.domain.errors import SettingsError, StoreError
from onlooker.policy.settings import Settings
from onlooker.stores.sqlite import driver
from onlooker.stores.sqlite.opening import APPLICATION_ID, OLDEST_SQLITE, version_of
from onlooker.stores.sqlite.statements import migrations

DOCTOR_WAITS = 5.0
LEAST_SPACE = 100 * 1024 * 1024
# No machine's clock should say that it is before this was written.
EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)
SLACK = timedelta(days=1)

SPEND_SINCE = 3  # the schema that says whose calls they were
_SPENT_TODAY = "SELECT total(cost) FROM usage WHERE spent_at >= ?"
_MOST_BY_OWNER = "SELECT coalesce(max(s), 0.0) FROM (SELECT total(cost) AS s FROM usage GROUP BY owner)"
_MOST_IN_SESSION = (
    "SELECT coalesce(max(s), 0.0) FROM (SELECT total(cost) AS s FROM usage WHERE sid <> x'' GROUP BY sid)"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    name: str
    ok: bool
    found: str
    advice: str = ""


def examine(db: Path, config: Path | None) -> Iterator[Finding]:
    """Everything there is to look at, in order."""
    yield _python()
    yield _sqlite()
    yield _full_text()
    yield _tiktoken()
    yield _settings(config)
    yield from _notes_folder(config)
    yield from _place(db)
    yield _clock()
    if db.is_file():
        yield from _database(db, config)
    else:
        yield Finding("database", True, f"{db} is not there yet; it is made at first use")


def of_machine(config: Path | None) -> Iterator[Finding]:
    """What matters wherever the database is."""
    yield _python()
    yield _tiktoken()
    yield _settings(config)
    yield from _notes_folder(config)
    yield _clock()


# ------------------------------------------------------------------------------------ the machine


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")


def _sqlite() -> Finding:
    oldest = ".".join(map(str, OLDEST_SQLITE))
    new_enough = sqlite3.sqlite_version_info >= OLDEST_SQLITE
    return Finding(
        "sqlite", new_enough, sqlite3.sqlite_version, f"use a Python with SQLite {oldest} or newer"
    )


def _full_text() -> Finding:
    with closing(sqlite3.connect(":memory:")) as connection:
        options = {row[0] for row in connection.execute("PRAGMA compile_options")}
    # Nothing here needs it, so that its absence is a fact and no fault.
    return Finding("full text", True, "FTS5" if "ENABLE_FTS5" in options else "no FTS5 in this SQLite")


def _tiktoken() -> Finding:
    there = find_spec("tiktoken") is not None
    return Finding("tiktoken", True, "installed" if there else "not installed; tokens are estimated")


def _settings(config: Path | None) -> Finding:
    path = settings_path(config)
    try:
        settings = load_settings(config)
    except (SettingsError, Stop) as error:
        return Finding("settings", False, str(error), "correct that line, or `onlooker settings set`")
    if path is None:
        return Finding("settings", True, "no file; the default preset")
    state = f"preset {settings.preset}" if settings.enabled else "memory is off"
    return Finding("settings", True, f"{path}: {state}")


def _notes_folder(config: Path | None) -> Iterator[Finding]:
    if (found := notes_folder(config)) is not None:
        yield Finding("notes folder", not found[1], *found)


def _place(db: Path) -> Iterator[Finding]:
    folder = db.resolve().parent
    while not folder.exists():
        folder = folder.parent
    target = db if db.exists() else folder
    writable = os.access(target, os.W_OK) and os.access(folder, os.W_OK)
    yield Finding(
        "writable", writable, str(target), "give this user write permission to the file and its folder"
    )
    free = shutil.disk_usage(folder).free
    advice = f"free some space, or move the database: below {_size(LEAST_SPACE)} is too little"
    yield Finding("disk space", free >= LEAST_SPACE, f"{_size(free)} free", advice)


def _clock() -> Finding:
    now = datetime.now(UTC)
    return Finding("clock", now > EARLIEST, f"{now:%Y-%m-%d %H:%M} UTC", "set the machine's clock")


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return ""


# ------------------------------------------------------------------------------------ the database


def _database(db: Path, config: Path | None) -> Iterator[Finding]:
    restore = "restore it from a backup, or move the file away"
    try:
        key = key_for(db)
        with closing(driver.connect(db.resolve(), key, timeout=DOCTOR_WAITS, read_only=True)) as connection:
            kind = "" if key is None else ", encrypted"
            yield Finding("database", True, f"{db}, {_size(db.stat().st_size)}{kind}")
            verdict: str = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            yield Finding("integrity", verdict == "ok", verdict, restore)
            schema = _schema(connection, db)
            yield schema
            if schema.ok:
                yield from _sessions(connection)
                yield from _spend(connection, config)
                yield from (Finding(name, True, found) for name, found in indexes(connection, config))
    except driver.errors() as error:
        locked = driver.code_of(error) == sqlite3.SQLITE_NOTADB
        yield Finding(
            "database",
            False,
            f"{db}: {error}",
            f"{restore}, or give its key (--key-file)" if locked else restore,
        )
    except (StoreError, SettingsError) as error:  # of the key
        yield Finding(
            "database",
            False,
            str(error),
            "give the key of this database with --key-file, or none where it has none",
        )


def _schema(connection: sqlite3.Connection, db: Path) -> Finding:
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    journal: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
    newest = migrations()[-1].number
    if application != APPLICATION_ID:
        return Finding("schema", False, "a database of another application", "name another file with --db")
    try:
        version_of(connection, db)
    except StoreError:
        return Finding("schema", False, f"version {version}, newer than {newest}", "upgrade onlooker")
    later = f"; version {newest} comes with the next opening" if version < newest else ""
    if version > newest:
        later = f"; this program knows {newest}, and works with it"
    found = f"version {version}, journal {journal}{later}"
    return Finding("schema", journal == "wal", found, "open it once with `onlooker sessions`")


def _sessions(connection: sqlite3.Connection) -> Iterator[Finding]:
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    total, due, failing, held = connection.execute(
        "SELECT count(*), coalesce(sum(due_at <= ?1), 0), coalesce(sum(failures > 0), 0),"
        " coalesce(sum(lease_until > ?1), 0) FROM sessions",
        (now,),
    ).fetchone()
    yield Finding("sessions", True, f"{total}, of which {due} due and {held} being noted now")
    advice = "run with -v and see why the model does not answer; nothing is lost meanwhile"
    yield Finding("failures", not failing, f"{failing} sessions whose last notes failed", advice)
    latest: str | None = connection.execute("SELECT max(at) FROM messages").fetchone()[0]
    if latest:
        ahead = datetime.fromisoformat(latest) - datetime.now(UTC)
        advice = "set the clock of this machine, or of the one that recorded it"
        yield Finding("last message", ahead < SLACK, latest[:16].replace("T", " "), advice)


def _spend(connection: sqlite3.Connection, config: Path | None) -> Iterator[Finding]:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    try:
        settings = load_settings(config)
    except (SettingsError, Stop):
        return  # said above
    if version < SPEND_SINCE:
        return
    row = [
        connection.execute(_SPENT_TODAY, (midnight(),)).fetchone()[0],
        connection.execute(_MOST_BY_OWNER).fetchone()[0],
        connection.execute(_MOST_IN_SESSION).fetchone()[0],
    ]
    unknown: int = connection.execute("SELECT count(*) FROM usage WHERE cost IS NULL").fetchone()[0]
    yield spending(settings, row, unknown)


def midnight() -> int:
    """When today began, in the microseconds of a database."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return int(today.timestamp() * 1_000_000)


def spending(settings: Settings, dollars: Sequence[float], unknown: int) -> Finding:
    """What was spent today, and at most by one owner and in one session, against what may be."""
    limits = (settings.spend_per_day, settings.spend_per_owner, settings.spend_per_session)
    sums = list(zip(("today", "by one owner", "in one session"), dollars, limits, strict=True))
    shown = [f"${spent:.4f} {what}" + (f" of ${limit:g}" if limit else "") for what, spent, limit in sums]
    if unknown:
        shown.append(f"{unknown} calls of unknown price")
    reached = any(limit and spent >= limit for _, spent, limit in sums)
    advice = "raise the limit (spend_per_…); until then the built-in model notes what no longer fits"
    return Finding("spend", not reached, ", ".join(shown), advice)
