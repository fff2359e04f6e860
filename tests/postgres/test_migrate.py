"""`onlooker migrate` to a server and back, and the other commands that take a server's address."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import onlooker
from onlooker import blocking
from onlooker.domain.errors import StoreError
from onlooker.stores.postgres.connection import address
from onlooker.testing import FrozenClock
from onlooker.testing.store_contract.case import ANA
from onlooker.types import MigrationProgress
from tests.acceptance.command_line import call, make_database
from tests.acceptance.moves import STILL, exported, fill, killed_in_the_middle, many_sessions, record
from tests.acceptance.old_notes import talked
from tests.postgres.server import Server


@pytest.fixture
def src(tmp_path: Path) -> Path:
    path = tmp_path / "src.db"
    asyncio.run(fill(path))
    return path


@pytest.fixture
def url(server: Server) -> str:
    return server.new_url()


def execute(url: str, statement: str) -> None:
    with address(url).connect() as connection:
        connection.execute(statement.encode())


def sessions_in(url: str) -> int:
    with address(url).connect() as connection:
        try:
            row = connection.execute("SELECT count(*) FROM sessions").fetchone()
        except psycopg.errors.UndefinedTable:
            return 0
        return row[0] if row else 0


def has_schema(url: str) -> bool:
    where = address(url)
    with where.connect() as connection:
        row = connection.execute("SELECT to_regnamespace(%s)", (where.schema,)).fetchone()
        return row is not None and row[0] is not None


# ------------------------------------------------------------------------------------ there and back


@pytest.mark.req(42)
def test_there_and_back_everything_is_the_same_byte_for_byte(src: Path, url: str, tmp_path: Path) -> None:
    done = call("migrate", src, url, "--json")
    assert done.code == 0, done.err
    assert done.json["copied"] == 3
    original = exported(src, tmp_path / "a")
    assert exported(url, tmp_path / "b") == original
    done = call("migrate", url, tmp_path / "back.db", "--json")
    assert done.code == 0, done.err
    assert exported(tmp_path / "back.db", tmp_path / "c") == original


def test_an_encrypted_database_moves_to_a_server_and_back(src: Path, url: str, tmp_path: Path) -> None:
    secret, back = tmp_path / "secret.db", tmp_path / "back.db"
    assert call("migrate", src, secret, ONLOOKER_NEW_KEY="5d" * 32).code == 0
    assert call("migrate", secret, url, ONLOOKER_KEY="5d" * 32).code == 0
    assert call("migrate", url, back, ONLOOKER_NEW_KEY="a7" * 32).code == 0
    assert exported(back, tmp_path / "a", key="a7" * 32) == exported(src, tmp_path / "b")
    done = call("migrate", src, url, "--new-key-file", tmp_path / "key")
    assert done.code == 2
    assert "DST is a server" in done.err


def test_one_schema_moves_into_another(src: Path, server: Server, tmp_path: Path) -> None:
    first, second = server.new_url(), server.new_url()
    assert blocking.migrate(src, first).complete
    assert blocking.migrate(first, second).complete
    assert exported(second, tmp_path / "a") == exported(src, tmp_path / "b")


@pytest.mark.req(44)
def test_the_prompt_of_a_moved_session_is_the_same(url: str, tmp_path: Path) -> None:
    db = make_database(tmp_path, "demo", "other", messages=70)
    assert call("migrate", db, url).code == 0
    assert call("migrate", url, tmp_path / "back.db").code == 0
    for session in ("demo", "other"):
        places = (db, url, tmp_path / "back.db")
        prompts = [call("context", "--db", place, "--session", session).out for place in places]
        assert "## Conversation Memory" in prompts[0]
        assert prompts[0] == prompts[1] == prompts[2]
    found = [call("search", "Oslo", "--db", place, "--json").json for place in (db, url)]
    assert found[0]
    assert found[0] == found[1]


def test_a_session_goes_on_after_it_was_moved_as_it_would_have(url: str, tmp_path: Path) -> None:
    db = make_database(tmp_path, "demo", messages=70)
    assert call("migrate", db, url).code == 0
    contexts: list[str] = []
    for place in (str(db), url):
        clock = FrozenClock()
        with blocking.open_memory(place, budget=2000, clock=clock) as memory:
            session = memory.session("demo")
            before = {note.id for note in session.notes()}
            for number in range(30):
                at = clock.advance(60)
                text = f"Order 88-{number} goes to the harbour, {number} loaves of rye for the crew. " * 4
                session.record(onlooker.user(text, id=f"new-{number}", at=at))
                memory.settle()
            assert {note.id for note in session.notes()} - before
            contexts.append(session.context().text())
    assert "Order 88-29" in contexts[0]
    assert contexts[0] == contexts[1]


# ------------------------------------------------------------------------------------ interrupted


@pytest.mark.req(43)
@pytest.mark.long
def test_killed_in_the_middle_it_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    src, url = tmp_path / "many.db", server.new_url()
    many_sessions(src, 80)
    there = killed_in_the_middle(src, url, lambda: sessions_in(url), 10, tmp_path)
    assert 10 <= there < 80
    done = call("migrate", src, url, "--json")
    assert done.code == 0, done.err
    # What it was about to commit when it was killed, the server may have committed a moment later.
    assert done.json["same"] >= there
    assert done.json["same"] + done.json["copied"] == 80
    assert done.json["updated"] == 0
    original = exported(src, tmp_path / "a")
    assert exported(url, tmp_path / "b") == original
    back = tmp_path / "back.db"
    there = killed_back(url, back, tmp_path)
    assert call("migrate", url, back, "--json").json["same"] == there
    assert exported(back, tmp_path / "b") == original


def killed_back(url: str, back: Path, folder: Path) -> int:
    def there() -> int:
        try:
            with closing(sqlite3.connect(f"{back.as_uri()}?mode=ro", uri=True)) as connection:
                return connection.execute("SELECT count(*) FROM sessions").fetchone()[0]
        except sqlite3.OperationalError:
            return 0

    return killed_in_the_middle(url, str(back), there, 20, folder)


def test_what_went_on_in_the_source_is_copied_anew(src: Path, url: str, tmp_path: Path) -> None:
    record(src, ANA._replace(key="fresh"), "f1")
    assert call("migrate", src, url).code == 0
    record(src, ANA._replace(key="fresh"), "f2")
    assert call("migrate", src, url, "--dry-run", "--json").json["updated"] == 1
    done = call("migrate", src, url, "--json")
    assert (done.code, done.json["updated"], done.json["same"]) == (0, 1, 3)
    with blocking.open_memory(url, settings=STILL) as memory:
        assert [m.id for m in memory.session("fresh", owner="ana").messages()] == ["f1", "f2"]


def test_a_dry_run_writes_nothing(src: Path, url: str) -> None:
    assert call("migrate", src, url, "--dry-run", "--json").json["copied"] == 3
    assert not has_schema(url)


# ------------------------------------------------------------------------------------ verified


def test_a_message_that_was_tampered_with_is_told_by_name(src: Path, url: str, tmp_path: Path) -> None:
    assert call("migrate", src, url).code == 0
    execute(url, "UPDATE messages SET text = 'tampered' WHERE id = 'm3'")
    done = call("migrate", src, url)
    assert done.code == 1
    assert "session 'telegram:42' of 'ana' not copied: message 'm3' is different in the target" in done.err
    assert call("migrate", src, url, "--replace").code == 0
    assert call("migrate", src, url, "--json").json["same"] == 3


def test_a_message_that_is_tampered_with_while_it_is_moved_is_an_error(src: Path, url: str) -> None:
    def spoil(step: MigrationProgress) -> None:
        if step.phase == "copying":
            execute(url, "UPDATE messages SET text = 'tampered' WHERE id = 'm3'")

    with pytest.raises(
        StoreError, match="session 'telegram:42' of 'ana': as many rows, but with different content"
    ):
        blocking.migrate(src, url, progress=spoil)


def test_the_source_is_only_read(src: Path, server: Server, url: str, tmp_path: Path) -> None:
    assert blocking.migrate(src, url).complete
    execute(url, f"ALTER SCHEMA {address(url).schema} OWNER TO postgres")
    # Whoever may only read can move it away.
    schema = address(url).schema
    execute(
        url,
        f"CREATE ROLE reader_{schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO reader_{schema}; "
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader_{schema}",
    )
    reader = url.replace("postgres@", f"reader_{schema}@")
    moved = blocking.migrate(reader, tmp_path / "dst.db")
    assert moved.complete
    assert exported(tmp_path / "dst.db", tmp_path / "a") == exported(src, tmp_path / "b")


# ------------------------------------------------------------------------------------ other commands


def test_import_takes_a_file_into_a_server(src: Path, server: Server, tmp_path: Path) -> None:
    url = server.new_url()
    assert call("export", tmp_path / "all.jsonl", "--db", src).code == 0
    done = call("import", tmp_path / "all.jsonl", "--all-owners", "--db", url, "--json")
    assert done.code == 0, done.err
    assert done.json["rows"]["session"] == 3
    assert exported(url, tmp_path / "a") == (tmp_path / "all.jsonl").read_bytes()


def test_the_doctor_looks_at_a_server_and_changes_nothing(src: Path, url: str, server: Server) -> None:
    done = call("doctor", "--db", url, "--json")
    assert done.code == 0, done.out
    found = {f["name"]: f["found"] for f in done.json}
    assert "does not exist yet" in found["schema"]
    assert not has_schema(url)
    assert call("migrate", src, url).code == 0
    execute(url, "UPDATE sessions SET failures = 3, due_at = 1 WHERE owner = 'ben'")
    done = call("doctor", "--db", url, "--json")
    assert done.code == 1
    findings = {f["name"]: f for f in done.json}
    assert findings["server"]["found"].startswith("PostgreSQL ")
    assert findings["sessions"]["found"].startswith("3; 1 due")
    assert not findings["failures"]["ok"]
    assert findings["failures"]["found"] == "notes failed in 1 session"
    assert "$0.7500 by one owner" in findings["spend"]["found"]
    assert findings["graph"]["found"] == "5 of 5 notes"
    away = server.url(host="/nowhere")
    done = call("doctor", "--db", away)
    assert done.code == 1
    assert "check that the server runs" in done.out


def test_consolidate_works_on_a_server(url: str, tmp_path: Path) -> None:
    asyncio.run(talked(tmp_path, "is allergic to peanuts."))
    assert call("migrate", tmp_path / "a.db", url).code == 0
    done = call("consolidate", "--db", url, "--folder", tmp_path / "notes")
    assert done.code == 0, done.err
    assert "2026-02-16" in done.out
    listed = call("items", "--owner", "ana", "--db", url, "--json").json
    assert any("peanuts" in item["summary"] for item in listed)


def test_what_is_for_files_only_says_what_to_do_instead(src: Path, url: str, tmp_path: Path) -> None:
    assert call("migrate", src, url).code == 0
    for arguments, code, says in (
        (["backup", tmp_path / "copy.db"], 1, "use pg_dump, or `onlooker migrate` into a file"),
        (["restore", src], 2, f"`onlooker migrate {src} postgresql://"),
        (["encrypt"], 2, "operator of the server"),
    ):
        done = call(*arguments, "--db", url, ONLOOKER_KEY="secret")
        assert done.code == code, done.err
        assert says in done.err, done.err
