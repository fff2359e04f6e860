"""`doctor`: check the installation, the settings and the database. Nothing is changed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from onlooker.atomic import read
from onlooker.cli.screen import CommandError, Json, Screen, count, printable
from onlooker.cli.settings import load_settings, settings_path
from onlooker.cli.target import Target, database_path, is_server, key_for
from onlooker.domain.errors import SettingsError, StoreError
from onlooker.engine.indexing import COUNTS
from onlooker.files.folder import Folder, owners_in
from onlooker.files.markdown import damage
from onlooker.policy.settings import Settings
from onlooker.stores.sql import sessions
from onlooker.stores.sql.database import Database as Stored
from onlooker.stores.sql.migrations import migrations
from onlooker.stores.sql.vectors import coverage
from onlooker.stores.sqlite import vectors
from onlooker.stores.sqlite.connection import (
    APPLICATION_ID,
    OLDEST_SQLITE,
    PACKAGE,
    SqliteDatabase,
    code_of,
    connect,
    errors,
    version_of,
)

if TYPE_CHECKING:
    from onlooker.stores.postgres.connection import Address

LOCK_TIMEOUT = 5.0
LEAST_SPACE = 100 * 1024 * 1024
# The clock of a machine is wrong if it is before this was written.
EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)
# A message may be this far in the future.
SLACK = timedelta(days=1)
OLDEST_SERVER = 14
# How many paths a finding lists.
MOST_LISTED = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with advice if something is wrong."""

    name: str
    ok: bool
    found: str
    advice: str = ""


def doctor(screen: Screen, target: Target, as_json: Json = False) -> None:
    """Check the installation, the settings and the database.

    Nothing is changed. Each problem is printed with advice, and the exit code is then 1.
    """
    settings, finding = _load(target.config)
    if is_server(target.db):
        findings = [*_check_machine(settings, finding), *_check_server(target.db, settings)]
    else:
        path = database_path(target.db)
        findings = [*_check_machine(settings, finding), *_check_file(path, settings)]
    if as_json:
        screen.json([asdict(f) for f in findings])
    else:
        screen.show(*(_line(f, drawn=screen.can_draw) for f in findings))
    if not all(f.ok for f in findings):
        raise typer.Exit(CommandError.exit_code)


def _line(finding: Finding, *, drawn: bool) -> Text:
    good, bad = ("✓", "✗") if drawn else ("ok ", "BAD")
    line = Text(good if finding.ok else bad, style="green" if finding.ok else "bold red", overflow="fold")
    line.append(f" {finding.name}: {printable(finding.found)}", style="default")
    if not finding.ok:
        line.append(f"\n  -> {finding.advice}", style="default")
    return line


# ------------------------------------------------------------------------------------ the machine


def _check_machine(settings: Settings | None, finding: Finding) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")
    installed = find_spec("tiktoken") is not None
    yield Finding("tiktoken", True, "installed" if installed else "not installed; tokens are estimated")
    yield finding
    if settings and settings.notes_folder:
        yield _check_notes_folder(Path(settings.notes_folder).expanduser())
    now = datetime.now(UTC)
    yield Finding("clock", now > EARLIEST, f"{now:%Y-%m-%d %H:%M} UTC", "set the clock of this machine")


def _load(config: Path | None) -> tuple[Settings | None, Finding]:
    """Load the settings. Checks that need them are skipped if they are invalid."""
    try:
        settings = load_settings(config)
    except (SettingsError, CommandError) as error:
        return None, Finding(
            "settings", False, str(error), "correct the file, or use `onlooker settings set`"
        )
    path = settings_path(config)
    if path is None:
        return settings, Finding("settings", True, "no file; the default preset")
    state = f"preset {settings.preset}" if settings.enabled else "memory is off"
    return settings, Finding("settings", True, f"{path}: {state}")


def _size(number: int) -> str:
    size = float(number)
    for unit in ("B", "kB", "MB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"


# ------------------------------------------------------------------------------------ the notes folder


def _check_notes_folder(root: Path) -> Finding:
    name = "notes folder"
    if not root.exists():
        return Finding(name, True, f"{root} does not exist yet; it is created at first use")
    if not root.is_dir():
        return Finding(name, False, f"{root} is not a folder", "name another folder in notes_folder")
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        advice = "give this user permission to read and write the folder"
        return Finding(name, False, f"{root} is not readable and writable", advice)
    try:
        folders = [Folder(root, owner) for owner in owners_in(root)]
        exposed = [str(p) for f in folders for p in (f.path, *f.path.rglob("*")) if _is_exposed(p)]
        if exposed:
            advice = "remove the permissions of others (chmod go=)"
            return Finding(name, False, f"readable by others: {_list(exposed)}", advice)
        edited = [folder for folder in folders if _is_edited(folder)]
        damaged = [str(f.memory) for f in edited if damage(read(f.memory) or b"")]
        if damaged:
            advice = "repair the file; otherwise it is rewritten, and a copy is kept"
            return Finding(name, False, f"damaged: {_list(damaged)}", advice)
        days = sum(len(folder.days()) for folder in folders)
    except OSError as error:
        return Finding(
            name, False, f"{root}: {error}", "give this user permission to the folder and its files"
        )
    found = f"{root}: {count(len(folders), 'owner')}, {count(days, 'daily file')}"
    if edited:
        found += f"; {len(edited)} MEMORY.md changed by hand and not read yet"
    return Finding(name, True, found)


def _is_exposed(path: Path) -> bool:
    return os.name == "posix" and bool(stat.S_IMODE(path.lstat().st_mode) & 0o077) and not path.is_symlink()


def _is_edited(folder: Folder) -> bool:
    return folder.memory.exists() and not folder.is_as_written()


def _list(paths: list[str]) -> str:
    more = f" and {len(paths) - MOST_LISTED} more" if len(paths) > MOST_LISTED else ""
    return f"{', '.join(paths[:MOST_LISTED])}{more}"


# ------------------------------------------------------------------------------------ a database file


def _check_file(db: Path, settings: Settings | None) -> Iterator[Finding]:
    oldest = ".".join(map(str, OLDEST_SQLITE))
    new_enough = sqlite3.sqlite_version_info >= OLDEST_SQLITE
    advice = f"use a Python with SQLite {oldest} or newer"
    yield Finding("sqlite", new_enough, sqlite3.sqlite_version, advice)
    with closing(sqlite3.connect(":memory:")) as connection:
        options = {row[0] for row in connection.execute("PRAGMA compile_options")}
    # Nothing needs FTS5, so its absence is not a problem.
    yield Finding("full text", True, "FTS5" if "ENABLE_FTS5" in options else "this SQLite has no FTS5")
    yield from _check_disk(db)
    if db.is_file():
        yield from _check_database(db, settings)
    else:
        yield Finding("database", True, f"{db} does not exist yet; it is created at first use")


def _check_disk(db: Path) -> Iterator[Finding]:
    folder = db.resolve().parent
    while not folder.exists():
        folder = folder.parent
    place = db if db.exists() else folder
    writable = os.access(place, os.W_OK) and os.access(folder, os.W_OK)
    yield Finding(
        "writable", writable, str(place), "give this user permission to write the file and its folder"
    )
    free = shutil.disk_usage(folder).free
    advice = f"free some space, or move the database: at least {_size(LEAST_SPACE)} is needed"
    yield Finding("disk space", free >= LEAST_SPACE, f"{_size(free)} free", advice)


def _check_database(db: Path, settings: Settings | None) -> Iterator[Finding]:
    restore = "restore it from a backup, or move the file away"
    try:
        key = key_for(db)
        with closing(connect(db.resolve(), key, timeout=LOCK_TIMEOUT, read_only=True)) as connection:
            kind = "" if key is None else ", encrypted"
            yield Finding("database", True, f"{db}, {_size(db.stat().st_size)}{kind}")
            verdict: str = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            yield Finding("integrity", verdict == "ok", verdict, restore)
            version: int = connection.execute("PRAGMA user_version").fetchone()[0]
            schema = _check_schema(connection, db, version)
            yield schema
            if schema.ok:
                stored = SqliteDatabase(connection)
                yield from _check_sessions(stored)
                if settings:
                    yield _check_spend(stored, settings)
                yield from _check_indexes(stored, settings.embedder if settings else "")
    except errors() as error:
        encrypted = code_of(error) == sqlite3.SQLITE_NOTADB
        advice = f"{restore}, or give its key (--key-file)" if encrypted else restore
        yield Finding("database", False, f"{db}: {error}", advice)
    except (StoreError, SettingsError) as error:  # of the key
        advice = "give the key of this database with --key-file, or none if it is not encrypted"
        yield Finding("database", False, str(error), advice)


def _check_schema(connection: sqlite3.Connection, db: Path, version: int) -> Finding:
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    journal: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
    newest = migrations(PACKAGE)[-1].number
    if application != APPLICATION_ID:
        return Finding("schema", False, "a database of another application", "name another file with --db")
    try:
        version_of(connection, db)
    except StoreError:
        return Finding("schema", False, f"version {version}, newer than {newest}", "upgrade onlooker")
    note = ""
    if version < newest:
        note = f"; upgraded to version {newest} when next opened"
    elif version > newest:
        note = f"; this program knows version {newest} and can use it"
    found = f"version {version}, journal {journal}{note}"
    return Finding("schema", journal == "wal", found, "open it once with `onlooker sessions`")


def _check_sessions(db: Stored) -> Iterator[Finding]:
    now = datetime.now(UTC)
    found = sessions.overview(db, now)
    yield Finding("sessions", True, f"{found.sessions}; {found.due} due, {found.leased} in work")
    advice = "run with -v to see why the model does not answer; nothing is lost meanwhile"
    yield Finding("failures", not found.failing, f"notes failed in {count(found.failing, 'session')}", advice)
    latest = sessions.newest_message(db)
    if latest:
        advice = "set the clock of this machine, or of the one that recorded it"
        yield Finding("last message", latest - now < SLACK, f"{latest:%Y-%m-%d %H:%M}", advice)


def _check_spend(db: Stored, settings: Settings) -> Finding:
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    spent = sessions.spending(db, midnight)
    return _spend_finding(settings, spent[:3], spent.unknown)


def _spend_finding(settings: Settings, dollars: Sequence[float], unknown: int) -> Finding:
    """Compare what was spent today, by one owner and in one session with the limits."""
    limits = (settings.spend_per_day, settings.spend_per_owner, settings.spend_per_session)
    sums = list(zip(("today", "by one owner", "in one session"), dollars, limits, strict=True))
    shown = [f"${spent:.4f} {what}" + (f" of ${limit:g}" if limit else "") for what, spent, limit in sums]
    if unknown:
        shown.append(f"{count(unknown, 'call')} of unknown price")
    reached = any(limit and spent >= limit for _, spent, limit in sums)
    advice = "raise the limit (spend_per_…); until then the built-in model writes the notes"
    return Finding("spend", not reached, ", ".join(shown), advice)


def _check_indexes(db: Stored, embedder: str) -> Iterator[Finding]:
    covered = coverage(db, embedder)
    graph = f"{covered.linked} of {count(covered.notes, 'note')}"
    yield Finding("graph", True, graph + _index_failures(db, "graph"))
    if embedder:
        found = f"{covered.vectors} of {count(covered.texts, 'text')} by {embedder}"
        found += _index_failures(db, "vectors")
        yield Finding("vectors", True, f"{found}; {_comparison()}")


def _index_failures(db: Stored, index: str) -> str:
    value = sessions.get_value(db, COUNTS.format(index))
    counts: dict[str, int] = json.loads(value) if value else {}
    shown = [f"{counts[what]} {what} so far" for what in ("dropped", "failed") if counts.get(what)]
    return f" ({', '.join(shown)}; they are indexed later)" if shown else ""


def _comparison() -> str:
    if vectors.extension():
        return "compared by sqlite-vec"
    if not vectors.loads_extensions():
        return "compared in Python, because this SQLite loads no extensions"
    return 'compared in Python; pip install "onlooker[vectors]" for large memories'


# ------------------------------------------------------------------------------------ a server


def _check_server(url: str, settings: Settings | None) -> Iterator[Finding]:
    try:
        from onlooker.stores.postgres.connection import address
    except ModuleNotFoundError as error:
        advice = 'pip install "onlooker[postgres]"'
        yield Finding("postgres", False, f"{error.name} is not installed", advice)
        return
    try:
        yield from _check_connection(address(url), settings)
    except (StoreError, SettingsError) as error:
        yield Finding("server", False, str(error), "check that the server runs and the address is right")


def _check_connection(address: Address, settings: Settings | None) -> Iterator[Finding]:
    import psycopg

    from onlooker.stores.postgres.connection import store_error
    from onlooker.stores.postgres.database import PostgresDatabase

    with closing(address.connect()) as connection:
        try:
            yield _check_version(connection, address)
            schema, usable = _check_server_schema(connection, address)
            yield schema
            if usable:
                server = PostgresDatabase(connection, writing=False)
                yield from _check_server_sessions(server)
                if settings:
                    yield _check_spend(server, settings)
                yield from _check_server_indexes(server, settings.embedder if settings else "")
        except psycopg.Error as error:
            raise store_error(error, address.shown) from error


def _check_version(connection: Any, address: Address) -> Finding:
    number: int = connection.info.server_version
    tls = ", with TLS" if connection.pgconn.ssl_in_use else ""
    found = f"PostgreSQL {number // 10_000}.{number % 10_000}{tls}: {address.shown}"
    advice = f"use PostgreSQL {OLDEST_SERVER} or newer"
    return Finding("server", number // 10_000 >= OLDEST_SERVER, found, advice)


def _check_server_schema(connection: Any, address: Address) -> tuple[Finding, bool]:
    """Return the finding, and whether the schema can be read."""
    from onlooker.stores.postgres import database
    from onlooker.stores.postgres.schema import version_of

    newest = migrations(database.PACKAGE)[-1].number
    try:
        version = version_of(connection, address)
    except StoreError as error:
        return Finding("schema", False, str(error), "upgrade onlooker"), False
    if not version:
        found = f"{address.schema} does not exist yet; it is created at first use"
        return Finding("schema", True, found), False
    note = f"; upgraded to version {newest} when next opened" if version < newest else ""
    return Finding("schema", True, f"{address.schema}, version {version}{note}"), version >= newest


def _check_server_sessions(server: Stored) -> Iterator[Finding]:
    now = datetime.now(UTC)
    found = sessions.overview(server, now)
    lag = "" if found.due_since is None else f" (for up to {(now - found.due_since).total_seconds():.0f} s)"
    yield Finding("sessions", True, f"{found.sessions}; {found.due} due{lag}, {found.leased} in work")
    advice = "run `onlooker worker` with -v to see why the model does not answer; nothing is lost meanwhile"
    yield Finding("failures", not found.failing, f"notes failed in {count(found.failing, 'session')}", advice)
    workers = len(server.run("workers").fetchall())
    yield Finding("workers", True, f"{workers} known; `onlooker status --workers` lists them")


def _check_server_indexes(server: Stored, embedder: str) -> Iterator[Finding]:
    covered = coverage(server, embedder)
    yield Finding("graph", True, f"{covered.linked} of {count(covered.notes, 'note')}")
    if embedder:
        found = f"{covered.vectors} of {count(covered.texts, 'text')} by {embedder}"
        yield Finding("vectors", True, found)
