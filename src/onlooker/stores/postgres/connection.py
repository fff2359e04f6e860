"""Connections: addresses, TLS, timeouts, and what errors mean."""

from __future__ import annotations

import hashlib
import re
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import conninfo_to_dict

from onlooker.domain.errors import ConflictError, SettingsError, StoreError
from onlooker.domain.frozen import frozen
from onlooker.stores.sql.database import OUTGROWN
from onlooker.stores.urls import shown

DEFAULT_SCHEMA = "onlooker"

# The time limits of a statement, of waiting for a lock, and of an idle transaction. A worker that is stopped
# within a transaction must not lock its session forever.
STATEMENT_SECONDS = 30
LOCK_SECONDS = 15
IDLE_SECONDS = 60

_CONNECT: dict[str, Any] = {
    "connect_timeout": 10,
    # A server that disappears without closing the connection is noticed within half a minute.
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "onlooker",
}
_OURS = ("schema", "pool", "wait")

_NO_CONNECTION = (
    "the server has no connection left; use fewer (pool=N in the address), or raise its max_connections"
)
_NO_ANSWER = "the server does not respond; check that it runs, and check host and port"
_NOT_ACCEPTED = "the user or the password is not accepted; check the address"

_READ_ONLY = (
    "the server is read-only: if it is a standby, connect to the primary, or name all hosts with "
    "target_session_attrs=read-write"
)

_ADVICE: tuple[tuple[type[psycopg.Error], str], ...] = (
    (
        errors.QueryCanceled,
        "a statement took too long and was cancelled; try again when the server is less busy",
    ),
    (errors.LockNotAvailable, "another transaction held a lock for too long; try again"),
    (errors.DiskFull, "the server's disk is full; free some space and try again"),
    (errors.TooManyConnections, _NO_CONNECTION),
    (errors.InvalidPassword, _NOT_ACCEPTED),
    (errors.InvalidAuthorizationSpecification, "the user is not accepted; check the address"),
    (errors.InvalidCatalogName, "the database does not exist; create it first"),
    (errors.InsufficientPrivilege, "the user lacks a privilege; grant it, or use another user"),
    (errors.ReadOnlySqlTransaction, _READ_ONLY),
    (errors.IdleInTransactionSessionTimeout, "the transaction was idle for too long; try again"),
    (errors.UndefinedColumn, OUTGROWN),
    (errors.UndefinedTable, OUTGROWN),
    (errors.NotNullViolation, OUTGROWN),
    (errors.AdminShutdown, "the server is shutting down; the next call connects again"),
    (errors.CannotConnectNow, "the server is starting or stopping; the next call connects again"),
)
# The same for errors while connecting, for which libpq gives only a text.
_WHILE_CONNECTING: tuple[tuple[str, str], ...] = (
    (
        "server does not support SSL",
        "the server offers no TLS, which is required for other machines: enable it there (ssl = on), or add "
        "sslmode=disable to the address if the network is trusted",
    ),
    (
        "does not match host name",
        "the server's certificate is for another host; check the address, or use the name in the certificate",
    ),
    (
        "certificate verify failed",
        "the server's certificate is not trusted; give that of its authority with sslrootcert=FILE",
    ),
    ("root certificate file", "the authority's certificate cannot be read; check sslrootcert=FILE"),
    ("too many c", _NO_CONNECTION),
    ("remaining connection slots", _NO_CONNECTION),
    ("password authentication failed", _NOT_ACCEPTED),
    ("no password supplied", _NOT_ACCEPTED),
    ("no pg_hba.conf entry", "the server does not accept this user from this host; see its pg_hba.conf"),
    ("does not exist", "the database or the user does not exist; create it first"),
    ("failed to resolve host", "the host does not exist; check the address"),
    ("Connection refused", _NO_ANSWER),
    ("No such file or directory", _NO_ANSWER),
)
_LOST = "the connection was lost, or cannot be established; the next call connects again"


@frozen
class Address:
    """Where the store is: the parameters of libpq, the schema of its tables, the most connections that a
    process uses, and the seconds that a call waits for one."""

    conninfo: dict[str, Any]
    schema: str = DEFAULT_SCHEMA
    pool: int = 10
    wait: float = 10.0
    shown: str = ""  # without the password

    def connect(self, **more: Any) -> psycopg.Connection[Any]:
        """A configured connection.

        Raises:
            StoreError: The server cannot be reached, or refuses the connection.
        """
        try:
            connection = psycopg.connect(**self.conninfo, autocommit=True, **more)
            configure(connection, self.schema)
        except psycopg.Error as error:
            raise store_error(error, self.shown) from error
        return connection


def address(url: str) -> Address:
    """Parse a postgresql:// address. `schema`, `pool` and `wait` in its query are Onlooker's; all others are
    libpq's.

    Raises:
        SettingsError: The address is invalid.
    """
    base, _, asked = url.partition("?")
    query = parse_qsl(asked, keep_blank_values=True)
    ours = {key: value for key, value in query if key in _OURS}
    rest = urlencode([(k, v) for k, v in query if k not in _OURS], quote_via=quote)
    try:
        found = conninfo_to_dict(f"{base}?{rest}" if rest else base)
    except psycopg.Error:
        found = None
    if found is None or not _is_whole(found):
        # libpq's message quotes the address, and an unreadable part of that may be a password.
        raise SettingsError("url", shown(url), _FORM)
    schema = ours.get("schema", DEFAULT_SCHEMA)
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
        raise SettingsError("schema", schema, "must be lower-case letters, digits and underscores")
    pool = _number("pool", ours.get("pool", "10"), 2, 1000)
    wait = _number("wait", ours.get("wait", "10"), 0.01, 600)
    return Address(_with_defaults(found), schema, int(pool), wait, _shown(found))


def _number(name: str, text: str, least: float, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise SettingsError(name, text, f"must be a number from {least:g} to {most:g}")
    return number


def _with_defaults(found: dict[str, Any]) -> dict[str, Any]:
    conninfo = _CONNECT | found
    if "sslmode" not in found and not _is_local(found):
        # libpq's default continues without encryption if the server offers no TLS.
        conninfo["sslmode"] = "require"
    return conninfo


def _is_local(found: dict[str, Any]) -> bool:
    """Whether every host that libpq would try is this machine. libpq also uses PGHOST."""
    known = {o.keyword.decode(): (o.val or b"").decode() for o in pq.Conninfo.get_defaults()}
    hosts = found.get("hostaddr") or found.get("host") or known.get("hostaddr") or known.get("host") or ""
    names = str(hosts).split(",")
    return all(h in ("", "localhost", "::1") or h.startswith(("/", "@", "127.")) for h in names)


_FORM = (
    "must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE; in the password write % as %25, @ as %40, "
    "/ as %2F, ? as %3F and # as %23, and in the query only names that libpq knows"
)


def _is_whole(found: dict[str, Any]) -> bool:
    """Whether the address was parsed as intended: a raw "@", "/" or "?" in a password would turn a part of it
    into a host, a port or a database."""
    host, port, name = (str(found.get(key) or "") for key in ("host", "port", "dbname"))
    ports = port.split(",")
    return not {"@", "#", "?"} & {*host[1:], *name} and all(p.isdigit() or not p for p in ports)


def _shown(found: dict[str, Any]) -> str:
    """The address for messages: only user, host, port and database."""
    user, host, port, name = (str(found.get(key) or "") for key in ("user", "host", "port", "dbname"))
    where = f"{host}:{port}" if port else host
    return f"postgresql://{user}{'@' if user else ''}{where}" + (f"/{name}" if name else "")


def configure(connection: psycopg.Connection[Any], schema: str) -> None:
    """Set what applies to every connection."""
    connection.autocommit = True
    connection.execute(settings_of(schema))


def settings_of(schema: str) -> bytes:
    """The statement for that."""
    # Every statement has an index to use. A plan made while a table was small, which scans all of it, would
    # be kept while the table grows.
    return (
        f"SET search_path TO {schema}; SET timezone TO 'UTC'; SET client_encoding TO 'UTF8'; "
        "SET enable_seqscan TO off; SET enable_hashjoin TO off; SET enable_mergejoin TO off; "
        f"SET statement_timeout TO '{STATEMENT_SECONDS}s'; SET lock_timeout TO '{LOCK_SECONDS}s'; "
        f"SET idle_in_transaction_session_timeout TO '{IDLE_SECONDS}s'"
    ).encode()


def store_error(error: psycopg.Error, shown: str) -> StoreError:
    """The error as a `StoreError`, with advice."""
    if isinstance(error, errors.UniqueViolation):
        return ConflictError(f"{shown}: another worker was first ({_first_line(error)})")
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            return StoreError(f"{shown}: {advice} ({_first_line(error)})")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        advice = next((advice for text, advice in _WHILE_CONNECTING if text in str(error)), _LOST)
        return StoreError(f"{shown}: {advice} ({_first_line(error)})")
    return StoreError(f"{shown}: {_first_line(error)}")


def _first_line(error: psycopg.Error) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def lock_number(what: str, name: str) -> int:
    """The number of an advisory lock."""
    text = f"onlooker {what} {name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big", signed=True)
