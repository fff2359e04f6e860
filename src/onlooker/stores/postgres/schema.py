"""The schema: creating and migrating it. Any number of processes may start at once, while others of the
previous version keep working."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any, cast

import psycopg
from psycopg import errors
from psycopg.abc import Query

from onlooker.stores.postgres.connection import Address, lock_number, store_error
from onlooker.stores.postgres.database import PACKAGE
from onlooker.stores.sql.database import Migration, failed, migrations, refuse_newer

# Seconds to wait while another process migrates a large table or uses one that has to change.
PATIENCE = 600.0
# Seconds that a change of a table waits for transactions that use it. Later ones queue behind it meanwhile.
LOCK_SECONDS = 2.0

_PASSING = (errors.LockNotAvailable, errors.DeadlockDetected)
# Errors that the migration itself cannot cause.
_OF_THE_SERVER = (psycopg.OperationalError, psycopg.InterfaceError, errors.InsufficientPrivilege)


def migrate(address: Address, steps: Sequence[Migration] | None = None) -> None:
    """Run the migrations that have not run yet, all or none. A second process finds them done.

    Raises:
        StoreError: The server cannot be reached, the schema is too new for this version, or a migration
            failed.
    """
    steps = migrations(PACKAGE) if steps is None else steps
    deadline = time.monotonic() + PATIENCE
    with address.connect() as connection:
        try:
            while version_of(connection, address, steps) < steps[-1].number:
                try:
                    _migrate(connection, address, steps)
                except _PASSING:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(random.uniform(0.2, 1.0))  # let those that queued behind it go first
        except psycopg.Error as error:
            raise store_error(error, address.shown) from error


def _migrate(connection: psycopg.Connection[Any], address: Address, steps: Sequence[Migration]) -> None:
    with connection.transaction():
        _set(connection, "statement_timeout", 0)
        _set(connection, "lock_timeout", PATIENCE)
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("schema", address.schema),))
        _set(connection, "lock_timeout", LOCK_SECONDS)
        _create_schema(connection, address)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migrations (number bigint PRIMARY KEY, works_with bigint NOT NULL)"
        )
        version = version_of(connection, address, steps)
        for step in steps:
            if step.number > version:
                _run(connection, address, step)


def _create_schema(connection: psycopg.Connection[Any], address: Address) -> None:
    # Not IF NOT EXISTS: that needs the right to create schemas even if an administrator has created this one.
    there = connection.execute("SELECT to_regnamespace(%s)", (address.schema,)).fetchone()
    if there is None or there[0] is None:
        connection.execute(f"CREATE SCHEMA {address.schema}".encode())


def _set(connection: psycopg.Connection[Any], name: str, seconds: float) -> None:
    connection.execute(f"SET LOCAL {name} = '{int(seconds * 1000)}ms'".encode())


def _run(connection: psycopg.Connection[Any], address: Address, step: Migration) -> None:
    try:
        connection.execute(cast("Query", step.script))
    except (*_PASSING, *_OF_THE_SERVER):
        raise
    except psycopg.Error as error:
        raise failed(address.shown, step, error) from error
    connection.execute(
        "INSERT INTO migrations (number, works_with) VALUES (%s, %s)", (step.number, step.works_with)
    )


def version_of(
    connection: psycopg.Connection[Any], address: Address, steps: Sequence[Migration] | None = None
) -> int:
    """The number of the last migration that has run; 0 if none has.

    Raises:
        StoreError: The schema is too new for this version.
    """
    table = f"{address.schema}.migrations"
    there = connection.execute("SELECT to_regclass(%s)", (table,)).fetchone()
    if there is None or there[0] is None:
        return 0
    ran = connection.execute("SELECT number, works_with FROM migrations").fetchall()
    refuse_newer(address.shown, ran, (steps or migrations(PACKAGE))[-1].number)
    return max((number for number, _ in ran), default=0)
