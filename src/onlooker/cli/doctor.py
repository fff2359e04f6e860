"""`doctor`: check the installation, the settings and the database."""

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
from onlooker.cli.screen import NOT_THERE, Json, Screen, Stop, printable
from onlooker.cli.settings import ConfigFile, load_settings, settings_path
from onlooker.cli.target import DEFAULT_DATABASE, Database, database_path, key_for
from onlooker.domain.errors import SettingsError, StoreError
from onlooker.engine.indexing import COUNTS
from onlooker.files.folder import Folder, owners_in
from onlooker.files.markdown import damage
from onlooker.policy.settings import Settings
from onlooker.stores.sqlite import driver, vectors
from onlooker.stores.sqlite.opening import APPLICATION_ID, OLDEST_SQLITE, version_of
from onlooker.stores.sqlite.statements import migrations
from onlooker.wiring import POSTGRES

if TYPE_CHECKING:
    from onlooker.stores.postgres.database import Database as Server
    from onlooker.stores.postgres.opening import Address


def doctor(
    screen: Screen, db: Database = DEFAULT_DATABASE, config: ConfigFile = None, as_json: Json = False
) -> None:
    """Look for what could be wrong, and say what to do about it.

    Nothing is changed. The exit code is 1 where something is wrong.
    """
    if db.startswith(POSTGRES):
        findings = list(examine_server(db, config))
    else:
        findings = list(examine(database_path(db), config))
    if as_json:
        screen.json([asdict(f) for f in findings])
    else:
        screen.show(*(_line(f, drawn=screen.can_draw) for f in findings))
    if not all(f.ok for f in findings):
        raise typer.Exit(NOT_THERE)


def _line(finding: Finding, *, drawn: bool) -> Text:
    good, bad = ("✓", "✗") if drawn else ("ok ", "BAD")
    line = Text(good if finding.ok else bad, style="green" if finding.ok else "bold red", overflow="fold")
    line.append(f" {finding.name}: {printable(finding.found)}", style="default")
    if not finding.ok:
        line.append(f"\n  -> {finding.advice}", style="default")
    return line


# ------------------------------------------------------------------------------------ checks


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


# ------------------------------------------------------------------------------------ folder check


# (what was found, what to do about it); no advice where nothing is wrong
FolderFound = tuple[str, str]
MOST_NAMED = 3


def notes_folder(config: Path | None) -> FolderFound | None:
    """What there is to say about the folder; None where there is none in the settings."""
    try:
        named = load_settings(config).notes_folder
    except (SettingsError, Stop):
        return None  # said elsewhere
    if not named:
        return None
    root = Path(named).expanduser()
    if not root.exists():
        return f"{root} is not there yet; it is made at first use", ""
    if not root.is_dir():
        return f"{root} is no folder", "name another folder in notes_folder"
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return f"{root} cannot be read and written", "give this user permission to the folder"
    try:
        return _inside(root)
    except OSError as error:
        return f"{root}: {error}", "give this user permission to the folder and what is in it"


def _inside(root: Path) -> FolderFound:
    folders = [Folder(root, owner) for owner in owners_in(root)]
    open_to_others = [str(path) for path in _all_paths(folders) if _is_open(path)]
    if open_to_others:
        return _name_some(
            "readable by others", open_to_others
        ), "take the permissions of others away (chmod go=)"
    changed = [folder for folder in folders if _is_changed(folder)]
    damaged = [str(folder.memory) for folder in changed if damage(read(folder.memory) or b"")]
    if damaged:
        return _name_some("damaged", damaged), "mend the file; else it is written anew, and a copy kept"
    days = sum(len(folder.days()) for folder in folders)
    found = f"{root}: {len(folders)} owners, {days} daily files"
    if changed:
        found += f"; {len(changed)} MEMORY.md changed by hand and not taken in yet"
    return found, ""


def _all_paths(folders: list[Folder]) -> Iterator[Path]:
    for folder in folders:
        yield folder.path
        yield from folder.path.rglob("*")


def _is_open(path: Path) -> bool:
    return os.name == "posix" and bool(stat.S_IMODE(path.lstat().st_mode) & 0o077) and not path.is_symlink()


def _is_changed(folder: Folder) -> bool:
    return folder.memory.exists() and not folder.is_as_written()


def _name_some(what: str, paths: list[str]) -> str:
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return f"{what}: {', '.join(paths[:MOST_NAMED])}{more}"


# ------------------------------------------------------------------------------------ index check


INDEXES_SINCE = 7  # the schema that has them

# (name, what was found)
IndexFound = tuple[str, str]


def indexes(connection: sqlite3.Connection, config: Path | None) -> Iterator[IndexFound]:
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


# ------------------------------------------------------------------------------------ server check


OLDEST_SERVER = 14
NO_DRIVER = 'pip install "onlooker[postgres]"'

_SERVER_SESSIONS = "SELECT COUNT(*), COUNT(*) FILTER (WHERE lease_until > $1) FROM sessions"
_SERVER_SPENT = (
    "SELECT (SELECT COALESCE(SUM(cost), 0) FROM usage WHERE spent_at >= $1),"
    " (SELECT COALESCE(MAX(s), 0) FROM (SELECT SUM(cost) AS s FROM usage GROUP BY owner) AS owners),"
    " (SELECT COALESCE(MAX(s), 0) FROM"
    " (SELECT SUM(cost) AS s FROM usage WHERE sid <> ''::bytea GROUP BY sid) AS sessions),"
    " (SELECT COUNT(*) FROM usage WHERE cost IS NULL)"
)


def examine_server(url: str, config: Path | None) -> Iterator[Finding]:
    """Everything there is to look at, in order."""
    yield from of_machine(config)
    try:
        from onlooker.stores.postgres.opening import address
    except ModuleNotFoundError as error:
        yield Finding("postgres", False, f"{error.name} is not installed", NO_DRIVER)
        return
    try:
        yield from _server(address(url), config)
    except (StoreError, SettingsError) as error:
        yield Finding("server", False, str(error), "see that the server runs and the address is right")


def _server(address: Address, config: Path | None) -> Iterator[Finding]:
    import psycopg

    from onlooker.stores.postgres.database import Database as Server
    from onlooker.stores.postgres.opening import store_error

    with closing(address.connect()) as connection:
        try:
            yield _reached(connection, address)
            schema, usable = _server_schema(connection, address)
            yield schema
            if usable:
                db = Server(connection, writing=False)
                yield from _server_sessions(db)
                yield from _server_spend(db, config)
                yield from _server_indexes(db, config)
        except psycopg.Error as error:
            raise store_error(error, address.shown) from error


def _reached(connection: Any, address: Address) -> Finding:
    number: int = connection.info.server_version
    tls = ", by TLS" if connection.pgconn.ssl_in_use else ""
    found = f"PostgreSQL {number // 10_000}.{number % 10_000}{tls}: {address.shown}"
    advice = f"use PostgreSQL {OLDEST_SERVER} or newer"
    return Finding("server", number // 10_000 >= OLDEST_SERVER, found, advice)


def _server_schema(connection: Any, address: Address) -> tuple[Finding, bool]:
    from onlooker.stores.postgres.migrating import version_of
    from onlooker.stores.postgres.statements import migrations

    newest = migrations()[-1].number
    try:
        version = version_of(connection, address)
    except StoreError as error:
        return Finding("schema", False, str(error), "upgrade onlooker"), False
    if not version:
        return Finding("schema", True, f"{address.schema} is not there yet; it is made at first use"), False
    later = f"; version {newest} comes with the next opening" if version < newest else ""
    return Finding("schema", True, f"{address.schema}, version {version}{later}"), version >= newest


def _server_sessions(db: Server) -> Iterator[Finding]:
    now = datetime.now(UTC)
    instant = int(now.timestamp() * 1_000_000)
    total, held = db.execute(_SERVER_SESSIONS, (instant,)).fetchone() or (0, 0)
    due, since, failing = db.named("backlog", (instant,)).fetchone() or (0, None, 0)
    lag = "" if since is None else f" (for up to {(instant - since) / 1e6:.0f} s)"
    yield Finding("sessions", True, f"{total}, of which {due} due{lag} and {held} being noted now")
    advice = "run `onlooker worker` with -v and see why the model does not answer; nothing is lost meanwhile"
    yield Finding("failures", not failing, f"{failing} sessions whose last notes failed", advice)
    workers = len(db.named("workers").fetchall())
    yield Finding("workers", True, f"{workers} known; `onlooker status --workers` says more")


def _server_spend(db: Server, config: Path | None) -> Iterator[Finding]:
    try:
        settings = load_settings(config)
    except (SettingsError, Stop):
        return  # said above
    row = db.execute(_SERVER_SPENT, (midnight(),)).fetchone() or (0, 0, 0, 0)
    yield spending(settings, row[:3], row[3])


def _server_indexes(db: Server, config: Path | None) -> Iterator[Finding]:
    try:
        embedder = load_settings(config).embedder
    except (SettingsError, Stop):
        embedder = ""  # said above
    covered = vectors.coverage(db.as_sqlite, embedder)
    yield Finding("graph", True, f"{covered.linked} of {covered.notes} notes")
    if embedder:
        yield Finding("vectors", True, f"{covered.vectors} of {covered.texts} texts have one of {embedder}")
