"""What the doctor looks at on a server. Nothing is changed: not even the schema is upgraded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlooker.cli.checks import Finding, midnight, of_machine, spending
from onlooker.cli.settings_file import load_settings
from onlooker.cli.surface import Stop
from onlooker.domain.errors import SettingsError, StoreError
from onlooker.stores.sqlite import vectors

if TYPE_CHECKING:
    from onlooker.stores.postgres.database import Database
    from onlooker.stores.postgres.opening import Address

OLDEST_SERVER = 14
NO_DRIVER = 'pip install "onlooker[postgres]"'

_SESSIONS = "SELECT COUNT(*), COUNT(*) FILTER (WHERE lease_until > $1) FROM sessions"
_SPENT = (
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

    from onlooker.stores.postgres.database import Database
    from onlooker.stores.postgres.opening import store_error

    with closing(address.connect()) as connection:
        try:
            yield _reached(connection, address)
            schema, usable = _schema(connection, address)
            yield schema
            if usable:
                db = Database(connection, writing=False)
                yield from _sessions(db)
                yield from _spend(db, config)
                yield from _indexes(db, config)
        except psycopg.Error as error:
            raise store_error(error, address.shown) from error


def _reached(connection: Any, address: Address) -> Finding:
    number: int = connection.info.server_version
    tls = ", by TLS" if connection.pgconn.ssl_in_use else ""
    found = f"PostgreSQL {number // 10_000}.{number % 10_000}{tls}: {address.shown}"
    advice = f"use PostgreSQL {OLDEST_SERVER} or newer"
    return Finding("server", number // 10_000 >= OLDEST_SERVER, found, advice)


def _schema(connection: Any, address: Address) -> tuple[Finding, bool]:
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


def _sessions(db: Database) -> Iterator[Finding]:
    now = datetime.now(UTC)
    instant = int(now.timestamp() * 1_000_000)
    total, held = db.execute(_SESSIONS, (instant,)).fetchone() or (0, 0)
    due, since, failing = db.named("backlog", (instant,)).fetchone() or (0, None, 0)
    lag = "" if since is None else f" (for up to {(instant - since) / 1e6:.0f} s)"
    yield Finding("sessions", True, f"{total}, of which {due} due{lag} and {held} being noted now")
    advice = "run `onlooker worker` with -v and see why the model does not answer; nothing is lost meanwhile"
    yield Finding("failures", not failing, f"{failing} sessions whose last notes failed", advice)
    workers = len(db.named("workers").fetchall())
    yield Finding("workers", True, f"{workers} known; `onlooker status --workers` says more")


def _spend(db: Database, config: Path | None) -> Iterator[Finding]:
    try:
        settings = load_settings(config)
    except (SettingsError, Stop):
        return  # said above
    row = db.execute(_SPENT, (midnight(),)).fetchone() or (0, 0, 0, 0)
    yield spending(settings, row[:3], row[3])


def _indexes(db: Database, config: Path | None) -> Iterator[Finding]:
    try:
        embedder = load_settings(config).embedder
    except (SettingsError, Stop):
        embedder = ""  # said above
    covered = vectors.coverage(db.as_sqlite, embedder)
    yield Finding("graph", True, f"{covered.linked} of {covered.notes} notes")
    if embedder:
        yield Finding("vectors", True, f"{covered.vectors} of {covered.texts} texts have one of {embedder}")
