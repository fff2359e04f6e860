"""With a key, nothing that was said can be found on the disk: whatever is done, and at whatever moment."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import call
from tests.contract.encrypted_files import (
    HEX,
    OTHER,
    RAW,
    found_in,
    opened,
    plant,
    planted,
    recorded,
    watched,
)

import onlooker
from onlooker.domain.errors import StoreError
from onlooker.stores.sqlite import SqliteStore, encryption
from onlooker.testing.store_contract.case import NEVER, NOW
from onlooker.types import SessionId

pytestmark = [pytest.mark.anyio, pytest.mark.req(103)]

WORDS = planted()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything is: the database, what stands beside it, and temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return tmp_path


def write(file: Path, content: str | bytes) -> Path:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def content(file: Path) -> bytes:
    return file.read_bytes()


def much(count: int) -> list[onlooker.Message]:
    """More than the database keeps in memory, with every word in each."""
    return [onlooker.user(f"{n} {' '.join(WORDS)} {'filling ' * 2000}") for n in range(count)]


@pytest.mark.parametrize("encrypted", [True, False])
async def test_no_word_is_found_while_a_database_is_used(folder: Path, encrypted: bool) -> None:
    path = folder / "memory.db"
    async with opened(path, RAW if encrypted else None) as store:
        await plant(store, WORDS)
        assert content(path.with_name("memory.db-wal"))
        session = SessionId("ana", "much")
        with watched(folder, WORDS) as found:
            await store.append(session, much(150), due_tokens=NEVER, now=NOW)  # one transaction
            while await store.index(session):
                pass
            await store.back_up(folder / "copy.db")
            await store.delete_session(session)
            await store.erase()
        # Without a key all are found: they were there to be found.
        assert found == (set() if encrypted else set(WORDS))
    assert not encrypted or found_in(folder, WORDS) == set()


async def test_no_word_is_found_whatever_a_person_does_with_the_file(folder: Path) -> None:
    path = folder / "memory.db"
    async with opened(path) as store:
        await plant(store, WORDS)
    write(folder / "key", HEX)
    write(folder / "new", "another passphrase\n")
    write(folder / "settings.toml", "[onlooker]\nretention_days = 1\n")
    old = ("--db", path, "--key-file", folder / "key")
    new = ("--db", path, "--key-file", folder / "new")
    for command in (
        ("backup", folder / "copy.db", *old),
        ("prune", "--vacuum", "--config", folder / "settings.toml", *old),
        ("rekey", *old, "--new-key-file", folder / "new"),
        ("prune", "--vacuum", "--config", folder / "settings.toml", *new),
        ("backup", folder / "second.db", *new),
        ("restore", folder / "second.db", "--replace", "--yes", *new),
        ("sessions", *new),
        ("doctor", *new),
    ):
        with watched(folder, WORDS) as found:
            done = await asyncio.to_thread(call, *command)
        assert (done.code, found) == (0, set()), (command, done.err)
    async with opened(path, onlooker.Key("another passphrase")) as store:
        assert len(await store.sessions()) == 1


@pytest.mark.parametrize("left", ["closed", "killed"])
async def test_no_word_of_a_plain_database_is_left_once_it_is_encrypted(folder: Path, left: str) -> None:
    path, files = folder / "memory.db", folder / "files"
    os.mkdir(files)
    async with opened(path, None) as store:
        await plant(store, WORDS)
        await store.append(SessionId("x", "gone"), much(20), due_tokens=NEVER, now=NOW)
        await store.delete_session(SessionId("x", "gone"))  # pages that are free by now
        if left == "killed":
            for name in ("memory.db", "memory.db-wal", "memory.db-shm"):
                shutil.copy(folder / name, files / name)
    if left == "closed":
        shutil.copy(path, files / "memory.db")
    os.unlink(path)
    assert found_in(files, WORDS) == set(WORDS)
    write(folder / "key", HEX)
    target = files / "memory.db"
    done = await asyncio.to_thread(call, "encrypt", "--db", target, "--key-file", folder / "key")
    assert done.code == 0, done.err
    assert found_in(folder, WORDS) == set()
    async with opened(target) as store:
        assert len(await store.sessions()) == 1
    with watched(folder, WORDS) as found:
        await asyncio.to_thread(encryption.rekey, target, RAW, OTHER)
    assert found == set()
    with pytest.raises(StoreError, match="the key does not open it"):
        await SqliteStore(target, key=RAW).open()


WRITER = """
import asyncio, sys
from pathlib import Path
from tests.acceptance.test_encryption import RAW, much
import onlooker
async def run():
    async with onlooker.open_memory(Path(sys.argv[1]), key=RAW) as memory:
        print("open", flush=True)
        for n in range(1000):
            await memory.session(f"s{n}").record(much(100))
asyncio.run(run())
"""


def test_a_killed_process_leaves_no_word_behind(folder: Path) -> None:
    path = folder / "memory.db"
    root = Path(__file__).parents[2]
    paths = f"{root}{os.pathsep}{root / 'tests/acceptance'}"
    for seconds in (0.1, 0.4, 0.7):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, path],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": paths},
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert content(path.with_name("memory.db-wal"))
        assert found_in(folder, WORDS) == set()
    assert asyncio.run(recorded(path)) == []


# ------------------------------------------------------------------------------------ keys


BARE = bytes(range(224, 256))


class Ring:
    """A key ring as the package keyring shows it."""

    class KeyringError(Exception):
        pass

    def get_password(self, service: str, user: str) -> str | None:
        return {"onlooker:database": BARE.hex(), "shop:memory": "a passphrase"}.get(f"{service}:{user}")


async def test_every_place_of_a_key_opens_the_same_database(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", Ring())
    monkeypatch.setitem(sys.modules, "keyring.errors", Ring)
    path = folder / "memory.db"
    async with opened(path, onlooker.Key(BARE)) as store:
        await plant(store, WORDS)
    write(folder / "hex", BARE.hex())
    write(folder / "bytes", BARE)
    ways: list[tuple[tuple[object, ...], dict[str, str]]] = [
        (("--key-file", folder / "hex"), {}),
        (("--key-file", folder / "bytes"), {}),
        ((), {"ONLOOKER_KEY_FILE": str(folder / "hex")}),
        ((), {"ONLOOKER_KEY": BARE.hex()}),
        ((), {"ONLOOKER_KEYRING": "onlooker:database"}),
        ((), {"ONLOOKER_KEYRING": "onlooker"}),
    ]
    for options, environ in ways:
        done = await asyncio.to_thread(call, "sessions", "--db", path, "--json", *options, **environ)
        assert (done.code, len(done.json)) == (0, 1)
    ring = {"ONLOOKER_KEYRING": "onlooker:database", "ONLOOKER_NEW_KEYRING": "shop:memory"}
    done = await asyncio.to_thread(call, "rekey", "--db", path, **ring)
    assert done.code == 0, done.err
    async with onlooker.open_memory(path, key=onlooker.Key.from_keyring("shop", "memory")) as memory:
        assert await memory.sessions()


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"ONLOOKER_KEY": "a guess"}, "the key does not open it"),
        ({"ONLOOKER_KEY": "a7" * 32}, "the key does not open it"),
        ({"ONLOOKER_KEYRING": "shop:memory"}, "the key does not open it"),
        ({"ONLOOKER_KEYRING": "shop:nobody"}, "keyring set shop nobody"),
        ({}, "give its key"),
    ],
)
async def test_a_wrong_key_says_what_to_do_wherever_it_comes_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], said: str
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", Ring())
    monkeypatch.setitem(sys.modules, "keyring.errors", Ring)
    path = folder / "memory.db"
    async with opened(path):
        pass
    before = content(path)
    done = await asyncio.to_thread(call, "sessions", "--db", path, **environ)
    assert done.code != 0
    assert said in done.err
    assert "a guess" not in done.err
    assert content(path) == before
