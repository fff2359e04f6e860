"""PgQueuer's tables beside ours, and the trigger that puts a session into its queue.

A session is announced in the transaction that made it due, whichever that was. Its key in the queue is the
session and the fence of its lease: triggers come together in one job, and a job that is just about to finish
does not swallow the next.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from pgqueuer.adapters.drivers.psycopg import PsycopgDriver
from pgqueuer.adapters.persistence.qb import (
    QueryBuilderEnvironment,
    QueryQueueBuilder,
    QuerySchedulerBuilder,
)
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel
from psycopg import AsyncConnection

from onlooker.domain.messages import SessionId
from onlooker.stores.postgres.opening import Address, settings_of
from onlooker.stores.sqlite.rows import unpack

ENTRYPOINT = "onlooker"

# How long no worker may have been seen for sessions still to be announced.
_AWAY = "1 day"

_ANNOUNCE = """
CREATE OR REPLACE FUNCTION announce(sid bytea, owner text, key text, fence bigint, due_at bigint)
RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $function$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM workers WHERE seen_at > now() - interval '{away}') THEN
        RETURN;
    END IF;
    EXECUTE $enqueue$ {enqueue} $enqueue$ USING
        ARRAY[0],
        ARRAY['{entrypoint}'],
        ARRAY[convert_to(json_build_array(owner, key)::text, 'UTF8')],
        ARRAY[GREATEST(to_timestamp(due_at / 1000000.0) - clock_timestamp(), interval '0')],
        ARRAY[encode(sid, 'hex') || ':' || fence],
        ARRAY[NULL]::jsonb[];
EXCEPTION WHEN OTHERS THEN
    -- Recording must not fail with the queue: the sweep finds what is due.
    RAISE WARNING 'session not announced to workers: %', SQLERRM;
END $function$;

CREATE OR REPLACE FUNCTION announce_due() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $function$
BEGIN
    -- As it stands when the transaction ends: what was due for a moment in the middle of it is not.
    PERFORM announce(s.sid, s.owner, s.key, s.fence, s.due_at) FROM sessions AS s
    WHERE s.sid = NEW.sid AND s.due_at IS NOT NULL AND s.lease_holder IS NULL;
    RETURN NULL;
END $function$;
"""

# Whoever has a session's lease sees what comes meanwhile, and announces it when the lease is given back.
_TRIGGER = """
CREATE CONSTRAINT TRIGGER sessions_due AFTER UPDATE OF due_at, lease_holder ON sessions
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.due_at IS NOT NULL AND NEW.lease_holder IS NULL
    AND (OLD.due_at IS DISTINCT FROM NEW.due_at OR OLD.lease_holder IS NOT NULL))
EXECUTE FUNCTION announce_due()
"""


def queue_settings(schema: str) -> DBSettings:
    """PgQueuer's names, all of them given: it would take others from the environment."""
    return DBSettings(
        prefix="",
        db_schema=schema,
        channel=Channel(f"onlooker_{schema}"),
        function="fn_pgqueuer_changed",
        statistics_table="pgqueuer_statistics",
        queue_status_type="pgqueuer_status",
        queue_table="pgqueuer",
        queue_table_log="pgqueuer_log",
        trigger="tg_pgqueuer_changed",
        schedules_table="pgqueuer_schedules",
        durability=Durability.durable,
    )


def queries(driver: PsycopgDriver, settings: DBSettings) -> Queries:
    """PgQueuer with our names."""
    found = Queries(driver)
    found.qbe = QueryBuilderEnvironment(settings)
    found.qbq = QueryQueueBuilder(settings)
    found.qbs = QuerySchedulerBuilder(settings)
    return found


@asynccontextmanager
async def connected(address: Address) -> AsyncGenerator[AsyncConnection[Any]]:
    """A connection for the queue alone."""
    connection = await AsyncConnection.connect(**address.conninfo, autocommit=True)
    try:
        await connection.execute(settings_of(address.schema))
        yield connection
    finally:
        await connection.close()


async def install(connection: AsyncConnection[Any], address: Address, lock: int) -> None:
    """Make the queue what this version needs; any number of workers may start at once."""
    settings = queue_settings(address.schema)
    queue = queries(PsycopgDriver(connection), settings)
    await connection.execute("SELECT pg_advisory_lock(%s)", (lock,))
    try:
        if await queue.schema_is_installed():
            await queue.upgrade()
        else:
            await queue.install(create_schema=False)
        enqueue = QueryQueueBuilder(settings).build_enqueue_query("skip")
        script = _ANNOUNCE.format(away=_AWAY, enqueue=enqueue, entrypoint=ENTRYPOINT)
        await connection.execute(script.encode())
        found = await connection.execute(
            "SELECT 1 FROM pg_trigger WHERE tgname = 'sessions_due' AND tgrelid = 'sessions'::regclass"
        )
        if await found.fetchone() is None:
            await connection.execute(_TRIGGER.encode())
    finally:
        await connection.execute("SELECT pg_advisory_unlock(%s)", (lock,))


def session_of(payload: bytes | None) -> SessionId:
    """The session that a job is about."""
    owner, key = json.loads(payload or b"")
    return SessionId(unpack(owner), unpack(key))
