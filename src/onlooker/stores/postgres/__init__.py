"""Sessions in PostgreSQL: durable, shared by any number of processes on any number of machines."""

from onlooker.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
