"""`encrypt`, `decrypt`, `rekey` and `--key-file` on the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from command_line import call

import onlooker

pytestmark = pytest.mark.req(103)

SECRET = "hunter2 hunter2"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    (tmp_path / "key").write_text("5d" * 32 + "\n")
    (tmp_path / "pass").write_text(SECRET + "\n")
    path = tmp_path / "memory.db"

    async def fill() -> None:
        async with onlooker.open_memory(path) as memory:
            await memory.session("s", owner="ana").record(onlooker.user("I moved to Oslo"))

    asyncio.run(fill())
    return path


def sessions(db: Path, *options: object, **environ: str) -> int:
    """How many there are, for whoever has that key; the exit code below zero where it does not open."""
    done = call("sessions", "--db", db, "--json", *options, **environ)
    return len(done.json) if done.code == 0 else -done.code


def test_a_database_is_encrypted_given_another_key_and_decrypted(db: Path, tmp_path: Path) -> None:
    key, other = tmp_path / "key", tmp_path / "pass"
    done = call("encrypt", "--db", db, "--key-file", key, "--json")
    assert done.json == {"database": str(db), "done": "encrypted"}
    assert b"Oslo" not in db.read_bytes()
    assert (sessions(db), sessions(db, "--key-file", other), sessions(db, "--key-file", key)) == (-1, -1, 1)
    assert call("rekey", "--db", db, "--key-file", key, "--new-key-file", other).code == 0
    assert (sessions(db, "--key-file", key), sessions(db, "--key-file", other)) == (-1, 1)
    assert call("decrypt", "--db", db, "--key-file", other, "--yes").code == 0
    assert (sessions(db), sessions(db, "--key-file", other)) == (1, -1)


def test_the_key_may_come_from_the_environment(db: Path, tmp_path: Path) -> None:
    assert call("encrypt", "--db", db, ONLOOKER_KEY=SECRET).code == 0
    assert sessions(db, ONLOOKER_KEY=SECRET) == 1
    assert sessions(db, ONLOOKER_KEY_FILE=str(tmp_path / "pass")) == 1
    assert call("rekey", "--db", db, ONLOOKER_KEY=SECRET, ONLOOKER_NEW_KEY="another one").code == 0
    assert sessions(db, ONLOOKER_KEY="another one") == 1
    # The file that is named goes before the variable.
    assert sessions(db, "--key-file", tmp_path / "pass", ONLOOKER_KEY="another one") == -1


def test_every_command_works_on_an_encrypted_database(db: Path, tmp_path: Path) -> None:
    key = ("--db", db, "--key-file", tmp_path / "key")
    call("encrypt", *key)
    copy = tmp_path / "copy.db"
    for command in (
        ("status",),
        ("list",),
        ("context",),
        ("doctor",),
        ("export", tmp_path / "all.jsonl"),
        ("backup", copy),
        ("prune", "--vacuum"),
        ("forget", "--all", "--owner", "ana", "--yes"),
        ("restore", copy, "--replace", "--yes"),
    ):
        done = call(*command, *key)
        assert done.code == 0, (command, done.out, done.err)
    assert sessions(*key[1:]) == 1
    assert b"Oslo" not in db.read_bytes() + copy.read_bytes()
    call("decrypt", *key, "--yes")
    assert call("doctor", "--db", db).code == 0


def test_decrypting_asks_and_takes_anything_but_yes_for_no(db: Path, tmp_path: Path) -> None:
    call("encrypt", "--db", db, "--key-file", tmp_path / "key")
    done = call("decrypt", "--db", db, "--key-file", tmp_path / "key", input="")
    assert (done.code, b"Oslo" in db.read_bytes()) == (1, False)


@pytest.mark.parametrize("command", ["encrypt", "decrypt", "rekey"])
def test_without_a_key_a_command_says_where_to_put_it(db: Path, command: str) -> None:
    done = call(command, "--db", db)
    assert done.code == 2
    assert "--key-file" in done.err


def test_what_is_wrong_with_a_key_is_said_without_saying_the_key(db: Path, tmp_path: Path) -> None:
    call("encrypt", "--db", db, "--key-file", tmp_path / "key")
    wrong = call("sessions", "--db", db, "-vv", ONLOOKER_KEY=SECRET)
    assert "the key does not open it" in wrong.err
    assert "hunter2" not in wrong.err + wrong.out
    missing = call("sessions", "--db", db, "--key-file", tmp_path / "nothing")
    assert (missing.code, "cannot be read" in missing.err) == (2, True)
    doctor = call("doctor", "--db", db, ONLOOKER_KEY=SECRET)
    assert (doctor.code, "the key does not open it" in doctor.out) == (1, True)
    new = call("rekey", "--db", db, "--key-file", tmp_path / "key")
    assert (new.code, "--new-key-file" in new.err) == (2, True)
