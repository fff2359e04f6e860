"""Making the schema what this version needs; any number of processes may start at once."""

from __future__ import annotations

from typing import Any, cast

import psycopg
from psycopg.abc import Query

from onlooker.domain.errors import StoreError
from onlooker.stores.postgres.opening import Address, lock_number, store_error
from onlooker.stores.postgres.statements import migrations

# Another process may be migrating a large table.
PATIENCE = "10min"


def migrate(address: Address) -> None:
    """Run the migrations that the schema has not seen. Whoever comes second finds them done.

    Raises:
        StoreError: The server cannot be reached, or the schema is one that this version cannot use.
    """
    with address.connect() as connection:
        try:
            if _version(connection, address) < migrations()[-1][0]:
                _migrate(connection, address)
        except psycopg.Error as error:
            raise store_error(error, address.shown) from error


def _migrate(connection: psycopg.Connection[Any], address: Address) -> None:
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{PATIENCE}'; SET LOCAL statement_timeout = 0".encode())
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("schema", address.schema),))
        connection.execute(
            f"CREATE SCHEMA IF NOT EXISTS {address.schema}; CREATE TABLE IF NOT EXISTS migrations "
            "(number bigint PRIMARY KEY, works_with bigint NOT NULL)".encode()
        )
        version = _version(connection, address)
        for number, works_with, script in migrations():
            if number > version:
                connection.execute(cast("Query", script))
                connection.execute("INSERT INTO migrations VALUES (%s, %s)", (number, works_with))


def _version(connection: psycopg.Connection[Any], address: Address) -> int:
    """The number of the last migration that has run, where this version can work with it."""
    table = f"{address.schema}.migrations"
    there = connection.execute("SELECT to_regclass(%s)", (table,)).fetchone()
    if there is None or there[0] is None:
        return 0
    row = connection.execute("SELECT number, works_with FROM migrations ORDER BY number DESC").fetchone()
    number, works_with = row or (0, 0)
    # A version that is one behind goes on working while the others are upgraded, where the migration says so.
    if works_with > migrations()[-1][0]:
        raise StoreError(f"{address.shown}: written by a newer version of onlooker; upgrade to open it")
    return number
