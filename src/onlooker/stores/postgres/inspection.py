"""A server's database, inspected for `onlooker doctor`. Nothing is changed, and no schema upgraded."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg

from onlooker.domain.errors import StoreError
from onlooker.domain.frozen import frozen
from onlooker.stores.postgres.connection import address, store_error
from onlooker.stores.postgres.database import PACKAGE, PostgresDatabase
from onlooker.stores.postgres.schema import version_of
from onlooker.stores.sql.database import migrations
from onlooker.stores.sql.inspection import Contents, Inspection


@frozen
class ServerReport:
    """The state of a server and our schema on it. `contents` is None if this program cannot read them."""

    name: str  # the address, without secrets
    server_version: tuple[int, int]
    tls: bool
    schema: str
    version: int  # 0: there is no schema yet
    newest: int  # the newest version that this program knows
    problem: str  # why the schema cannot be used, if it is too new
    workers: int
    contents: Contents | None


def inspect_server(url: str, inspection: Inspection) -> ServerReport:
    """Connect to the server, and check it.

    Raises:
        StoreError: The server cannot be reached, or refuses.
        SettingsError: The address is wrong.
    """
    where = address(url)
    with closing(where.connect()) as connection:
        try:
            version, problem = _version(connection, where)
            newest = migrations(PACKAGE)[-1].number
            usable = not problem and version >= newest
            db = PostgresDatabase(connection, writing=False)
            return ServerReport(
                where.shown,
                divmod(connection.info.server_version, 10_000),
                connection.pgconn.ssl_in_use,
                where.schema,
                version,
                newest,
                problem,
                len(db.run("workers").fetchall()) if usable else 0,
                inspection.contents(db) if usable else None,
            )
        except psycopg.Error as error:
            raise store_error(error, where.shown) from error


def _version(connection: psycopg.Connection[Any], where: Any) -> tuple[int, str]:
    try:
        return version_of(connection, where), ""
    except StoreError as error:
        return 0, str(error)
