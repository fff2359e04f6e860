"""Check an installation, its settings and its database. Nothing is changed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from onlooker.atomic import read
from onlooker.domain.errors import SettingsError, StoreError
from onlooker.domain.frozen import frozen
from onlooker.engine.indexing import COUNTS
from onlooker.files.folder import Folder, owners_in
from onlooker.files.markdown import damage
from onlooker.policy.settings import Settings
from onlooker.policy.text import count
from onlooker.settings_file import load_settings, settings_path
from onlooker.stores.sql.inspection import Contents, Inspection, Spending
from onlooker.stores.sqlite.backup import FileReport, has_full_text, inspect_file
from onlooker.stores.sqlite.connection import OLDEST_SQLITE
from onlooker.stores.sqlite.key import Key
from onlooker.stores.sqlite.store import loads_extensions, vector_extension

if TYPE_CHECKING:
    from onlooker.stores.postgres.store import ServerReport

MIN_SPACE = 100 * 1024 * 1024
# A clock before this date is wrong.
EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)
# Messages may be this far in the future.
SLACK = timedelta(days=1)
OLDEST_SERVER = 14
# How many paths a finding lists.
MAX_LISTED = 3

KeyOf = Callable[[Path], Key | None]


@frozen
class Finding:
    """The result of one check, with advice if something is wrong."""

    name: str
    ok: bool
    found: str
    advice: str = ""


def check(db: str | Path, config: Path | None, key_of: KeyOf) -> list[Finding]:
    """Check the machine, the settings, and a database: a file, or the address of a server. It blocks.

    `key_of` returns the key of an encrypted file, or raises `SettingsError`.
    """
    settings, finding = _load(config)
    about = _check_server(db, settings) if isinstance(db, str) else _check_file(db, settings, key_of)
    return [*_check_machine(settings, finding), *about]


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
    except SettingsError as error:
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
    more = f" and {len(paths) - MAX_LISTED} more" if len(paths) > MAX_LISTED else ""
    return f"{', '.join(paths[:MAX_LISTED])}{more}"


# ------------------------------------------------------------------------------------ a database file


def _check_file(db: Path, settings: Settings | None, key_of: KeyOf) -> Iterator[Finding]:
    oldest = ".".join(map(str, OLDEST_SQLITE))
    new_enough = sqlite3.sqlite_version_info >= OLDEST_SQLITE
    advice = f"use a Python with SQLite {oldest} or newer"
    yield Finding("sqlite", new_enough, sqlite3.sqlite_version, advice)
    # Nothing needs FTS5, so its absence is not a problem.
    yield Finding("full text", True, "FTS5" if has_full_text() else "this SQLite has no FTS5")
    yield from _check_disk(db)
    if db.is_dir():
        yield Finding(
            "database", False, f"{db} is a folder", "name a file in it with --db PATH or ONLOOKER_DB"
        )
    elif db.is_file():
        yield from _check_database(db, settings, key_of)
    else:
        yield Finding("database", True, f"{db} does not exist yet; it is created at first use")


PERMIT = "give this user permission to write the file and its folder"


def _is_writable(place: Path) -> bool:
    """Whether this user may write a file and its folder, or a folder."""
    folder = place if place.is_dir() else place.resolve().parent
    return os.access(place, os.R_OK | os.W_OK) and os.access(folder, os.W_OK)


def _check_disk(db: Path) -> Iterator[Finding]:
    folder = db.resolve().parent
    while not folder.exists():
        folder = folder.parent
    place = db if db.exists() else folder
    yield Finding("writable", _is_writable(place), str(place), PERMIT)
    free = shutil.disk_usage(folder).free
    advice = f"free some space, or move the database: at least {_size(MIN_SPACE)} is needed"
    yield Finding("disk space", free >= MIN_SPACE, f"{_size(free)} free", advice)


def _check_database(db: Path, settings: Settings | None, key_of: KeyOf) -> Iterator[Finding]:
    restore = "restore it from a backup, or move the file elsewhere"
    try:
        key = key_of(db)
        report = inspect_file(db, key, _inspection(settings))
    except (StoreError, SettingsError) as error:
        advice = f"{restore}; if it is encrypted, give its key with --key-file, otherwise give none"
        if not _is_writable(db):  # then the file itself may be fine
            advice = PERMIT
        yield Finding("database", False, str(error), advice)
        return
    kind = "" if key is None else ", encrypted"
    yield Finding("database", True, f"{db}, {_size(report.size)}{kind}")
    yield Finding("integrity", report.integrity == "ok", report.integrity, restore)
    yield _check_schema(report)
    if report.contents:
        advice = "run with -v to see why the model does not answer; nothing is lost meanwhile"
        yield from _check_sessions(report.contents, advice)
        latest = report.contents.newest_message
        if latest:
            advice = "set the clock of this machine, or of the one that recorded it"
            on_time = latest - datetime.now(UTC) < SLACK
            yield Finding("last message", on_time, f"{latest:%Y-%m-%d %H:%M}", advice)
        yield from _check_contents(report.contents, settings, f"; {_comparison()}")


def _check_schema(report: FileReport) -> Finding:
    if not report.is_ours:
        return Finding("schema", False, "a database of another application", "name another file with --db")
    if report.is_too_new:
        found = f"version {report.version}, newer than {report.newest}"
        return Finding("schema", False, found, "upgrade onlooker")
    note = ""
    if report.version < report.newest:
        note = f"; upgraded to version {report.newest} when next opened"
    elif report.version > report.newest:
        note = f"; this program knows version {report.newest} and can use it"
    found = f"version {report.version}, journal {report.journal}{note}"
    return Finding("schema", report.journal == "wal", found, "open it once with `onlooker sessions`")


def _comparison() -> str:
    if vector_extension() and loads_extensions():
        return "compared by sqlite-vec"
    if not loads_extensions():
        return "compared in Python, because this SQLite loads no extensions"
    return 'compared in Python; pip install "onlooker[vectors]" for large memories'


# ------------------------------------------------------------------------------------ a server


def _check_server(url: str, settings: Settings | None) -> Iterator[Finding]:
    try:
        from onlooker.stores.postgres.store import inspect_server
    except ModuleNotFoundError as error:
        advice = 'pip install "onlooker[postgres]"'
        yield Finding("postgres", False, f"{error.name} is not installed", advice)
        return
    try:
        report = inspect_server(url, _inspection(settings))
    except (StoreError, SettingsError) as error:
        yield Finding("server", False, str(error), "check that the server runs and the address is right")
        return
    major, minor = report.server_version
    found = f"PostgreSQL {major}.{minor}{', with TLS' if report.tls else ''}: {report.name}"
    yield Finding("server", major >= OLDEST_SERVER, found, f"use PostgreSQL {OLDEST_SERVER} or newer")
    yield _check_server_schema(report)
    if report.contents:
        advice = (
            "run `onlooker worker` with -v to see why the model does not answer; nothing is lost meanwhile"
        )
        yield from _check_sessions(report.contents, advice)
        yield Finding("workers", True, f"{report.workers} known; `onlooker status --workers` lists them")
        yield from _check_contents(report.contents, settings)


def _check_server_schema(report: ServerReport) -> Finding:
    if report.problem:
        return Finding("schema", False, report.problem, "upgrade onlooker")
    if not report.version:
        return Finding("schema", True, f"{report.schema} does not exist yet; it is created at first use")
    note = f"; upgraded to version {report.newest} when next opened" if report.version < report.newest else ""
    return Finding("schema", True, f"{report.schema}, version {report.version}{note}")


# ------------------------------------------------------------------------------------ what it holds


def _inspection(settings: Settings | None) -> Inspection:
    now = datetime.now(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    failures = [COUNTS.format(index) for index in ("graph", "vectors")]
    return Inspection(now, midnight, settings.embedder if settings else "", failures)


def _check_sessions(contents: Contents, advice: str) -> Iterator[Finding]:
    found = contents.sessions
    since = found.due_since
    lag = "" if since is None else f" (for up to {(datetime.now(UTC) - since).total_seconds():.0f} s)"
    yield Finding("sessions", True, f"{found.sessions}; {found.due} due{lag}, {found.leased} in work")
    yield Finding("failures", not found.failing, f"notes failed in {count(found.failing, 'session')}", advice)


def _check_contents(contents: Contents, settings: Settings | None, comparison: str = "") -> Iterator[Finding]:
    if settings:
        yield _check_spending(contents.spending, settings)
    covered = contents.coverage
    graph = f"{covered.linked} of {count(covered.notes, 'note')}"
    yield Finding("graph", True, graph + _index_failures(contents, "graph"))
    if settings and settings.embedder:
        found = f"{covered.vectors} of {count(covered.texts, 'text')} by {settings.embedder}"
        yield Finding("vectors", True, found + _index_failures(contents, "vectors") + comparison)


def _check_spending(spending: Spending, settings: Settings) -> Finding:
    """Compare what was spent today, by one owner and in one session with the limits."""
    limits = (settings.spend_per_day, settings.spend_per_owner, settings.spend_per_session)
    sums = list(zip(("today", "by one owner", "in one session"), spending[:3], limits, strict=True))
    shown = [f"${spent:.4f} {what}" + (f" of ${limit:g}" if limit else "") for what, spent, limit in sums]
    if spending.unknown:
        shown.append(f"{count(spending.unknown, 'call')} of unknown price")
    reached = any(limit and spent >= limit for _, spent, limit in sums)
    advice = "raise the limit (spend_per_…); until then the built-in model writes the notes"
    return Finding("spend", not reached, ", ".join(shown), advice)


def _index_failures(contents: Contents, index: str) -> str:
    counts: dict[str, int] = json.loads(contents.values.get(COUNTS.format(index), "{}"))
    shown = [f"{counts[what]} {what} so far" for what in ("dropped", "failed") if counts.get(what)]
    return f" ({', '.join(shown)}; they are indexed later)" if shown else ""
