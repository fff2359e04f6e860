"""A file that is encrypted keeps the same contract, and gives nothing away."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import pickle
import subprocess
import sys
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from encrypted_files import HEX, OTHER, RAW, found_in, opened, plant, planted, record, recorded

import onlooker
from onlooker.domain.errors import SettingsError, StoreError
from onlooker.ports import Store
from onlooker.stores.sql.database import Database
from onlooker.stores.sqlite import SqliteStore
from onlooker.stores.sqlite.connection import SqliteDatabase
from onlooker.stores.sqlite.key import Key
from onlooker.testing import StoreContract

pytestmark = [pytest.mark.anyio, pytest.mark.req(103)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.mark.smoke
class TestEncryptedStore(StoreContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "deep" / "memory.db"
        self.opened: list[SqliteStore] = []

    async def make_store(self) -> Store:
        return SqliteStore(self.path, key=RAW)

    async def reopen(self, store: Store) -> Store:
        await store.close()
        again = SqliteStore(self.path, key=RAW)
        await again.open()
        self.opened.append(again)
        return again

    @pytest.fixture(autouse=True)
    async def close_what_was_reopened(self, anyio_backend: str, folder: None) -> Any:
        yield
        for store in self.opened:
            await store.close()


# ------------------------------------------------------------------------------------ no plaintext


def look_within(stored: Database, folder: Path, words: list[str]) -> set[str]:
    """Look in the middle of a transaction that is too large for memory, with a sort under way."""
    db = cast("SqliteDatabase", stored).connection
    db.execute("PRAGMA cache_size = 5")
    db.execute("UPDATE searchable SET words = words || words || words")
    db.execute("UPDATE messages SET text = text || hex(zeroblob(40000))")
    sort = db.execute("SELECT name FROM messages, (SELECT number FROM searchable) ORDER BY text || number")
    sort.fetchone()
    found = found_in(folder, words)
    sort.close()
    return found


@pytest.mark.parametrize("encrypted", [True, False])
async def test_no_word_can_be_found_in_any_file(
    encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = planted()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("SQLITE_TMPDIR", str(temporary))
    expected: set[str] = set() if encrypted else set(words)
    path = tmp_path / "memory.db"
    async with opened(path, RAW if encrypted else None) as store:
        await plant(store, words)
        assert path.with_name("memory.db-wal").stat().st_size
        assert found_in(tmp_path, words) == expected
        within = await store.write(lambda db: look_within(db, tmp_path, words))
        assert within == expected
        await store.back_up(tmp_path / "copy.db")
        await store.erase()
        assert found_in(tmp_path, words) == expected
    assert found_in(tmp_path, words) == expected


async def test_the_words_are_searched_for_all_the_same(path: Path) -> None:
    async with onlooker.open_memory(path, key=HEX) as memory:
        session = memory.session("s", owner="ana")
        await session.record(onlooker.user("The parcel went to Tromsø"))
        assert [hit.text for hit in await session.search("parcel")] == ["The parcel went to Tromsø"]


# ------------------------------------------------------------------------------------ the key


@pytest.mark.parametrize(
    "secret", ["correct horse battery", 'it\'s "quoted" -- ; é 🦜', HEX, bytes(range(32))]
)
async def test_what_was_written_with_a_key_is_read_with_it(path: Path, secret: str | bytes) -> None:
    async with opened(path, Key(secret)) as store:
        await record(store, "m1")
    assert await recorded(path, Key(secret)) == ["m1"]


async def test_bytes_and_their_digits_are_the_same_key(path: Path) -> None:
    async with opened(path, Key(bytes.fromhex(HEX))) as store:
        await record(store, "m1")
    assert await recorded(path, Key(HEX.upper())) == ["m1"]


async def test_a_passphrase_is_that_of_sqlcipher_itself(path: Path) -> None:
    from sqlcipher3 import dbapi2  # pyright: ignore

    async with opened(path, Key("correct horse")) as store:
        await record(store, "m1")
    with closing(dbapi2.connect(str(path))) as db:  # pyright: ignore
        db.execute("PRAGMA key = 'correct horse'")  # pyright: ignore
        assert db.execute("SELECT id FROM messages").fetchall() == [("m1",)]  # pyright: ignore


@pytest.mark.parametrize("wrong", [OTHER, Key("guess")])
async def test_a_wrong_key_is_an_error_that_says_so(
    path: Path, wrong: Key, capfd: pytest.CaptureFixture[str]
) -> None:
    async with opened(path) as store:
        await record(store, "m1")
    with pytest.raises(StoreError, match="the key does not open it"):
        await SqliteStore(path, key=wrong).open()
    assert capfd.readouterr() == ("", "")
    assert await recorded(path) == ["m1"]


async def test_an_encrypted_file_without_a_key_is_an_error_that_says_what_to_do(path: Path) -> None:
    async with opened(path) as store:
        await record(store, "m1")
    with pytest.raises(StoreError, match=r"or an encrypted one: give its key .*--key-file"):
        await SqliteStore(path).open()
    assert await recorded(path) == ["m1"]


async def test_a_plain_file_with_a_key_is_an_error_that_says_what_to_do(path: Path) -> None:
    async with opened(path, None) as store:
        await record(store, "m1")
    with pytest.raises(StoreError, match=r"not encrypted, but a key was given: .*onlooker encrypt"):
        await SqliteStore(path, key=RAW).open()
    assert await recorded(path, None) == ["m1"]


def test_without_the_package_the_error_says_what_to_install(path: Path) -> None:
    script = (
        "import sys, asyncio, onlooker; sys.modules['sqlcipher3'] = None\n"
        "from onlooker.stores.sqlite import SqliteStore\n"
        "try: asyncio.run(SqliteStore(sys.argv[1], key=onlooker.Key('x y z')).open())\n"
        "except onlooker.StoreError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert 'pip install "onlooker[encrypted]"' in done.stdout


@pytest.mark.parametrize("bad", ["", " \n", b"short", bytes(33), "\ud800 planted secret"])
def test_what_is_no_key_is_refused_without_being_shown(bad: str | bytes) -> None:
    with pytest.raises(SettingsError, match="key = '…'") as raised:
        Key(bad)
    assert "short" not in str(raised.value)
    assert "planted secret" not in "".join(traceback.format_exception(raised.value))


def test_only_files_can_have_a_key() -> None:
    for url in (":memory:", "postgresql://host/db"):
        with pytest.raises(SettingsError) as raised:
            onlooker.open_memory(url, key="hunter2 hunter2")
        assert "hunter2" not in str(raised.value)


async def test_nobody_is_told_the_key(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "hunter2 and more"
    key = Key(secret)
    async with opened(path, key) as store:
        await record(store, "m1")
        told = [repr(key), str(key), repr(store), f"{store.__dict__}", caplog.text]
    with pytest.raises(StoreError) as raised:
        await SqliteStore(path, key=Key(secret + "!")).open()
    told.append("".join(traceback.format_exception(raised.value)))
    with pytest.raises(TypeError):
        pickle.dumps(key)
    assert "hunter2" not in "".join(told)


@pytest.mark.parametrize("content", [b"open sesame\n", b"open sesame", b"open sesame\r\n"])
def test_a_key_file_is_read_without_the_end_of_its_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    salt = bytes(16)
    assert Key.from_file(tmp_path / "key").words(salt) == Key("open sesame").words(salt)


def test_a_key_file_may_hold_bare_bytes(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(bytes(range(224, 256)))
    salt = bytes(16)
    assert Key.from_file(tmp_path / "key").words(salt) == Key(bytes(range(224, 256))).words(salt)


def test_a_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", HEX)
    assert Key.from_environment("MY_KEY").words(bytes(16)) == RAW.words(bytes(16))
    with pytest.raises(SettingsError, match="not set"):
        Key.from_environment("NOT_MY_KEY")
    with pytest.raises(SettingsError, match="cannot be read"):
        Key.from_file("nowhere/key")


class _Ring:
    """A key ring with one entry, as the package keyring shows it."""

    class KeyringError(Exception):
        pass

    def get_password(self, service: str, user: str) -> str | None:
        if service == "locked":
            raise self.KeyringError("hunter2")
        return HEX if (service, user) == ("onlooker", "database") else None


def test_a_key_comes_from_the_key_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", _Ring())
    monkeypatch.setitem(sys.modules, "keyring.errors", _Ring)
    assert Key.from_keyring().words(bytes(16)) == RAW.words(bytes(16))
    with pytest.raises(SettingsError, match="keyring set onlooker someone"):
        Key.from_keyring("onlooker", "someone")
    with pytest.raises(SettingsError, match="cannot be read") as raised:
        Key.from_keyring("locked")
    assert "hunter2" not in str(raised.value)
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(SettingsError, match="pip install keyring"):
        Key.from_keyring()


# ------------------------------------------------------------------------------------ many processes


def _open_and_record(path: Path, barrier: Any, number: int) -> None:
    async def run() -> None:
        barrier.wait()
        async with opened(path) as store:
            await record(store, *(f"{number}-{n}" for n in range(5)))

    asyncio.run(run())


@pytest.mark.req(43)
def test_four_processes_that_begin_an_encrypted_file_at_once(path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    barrier = context.Barrier(4)
    workers = [context.Process(target=_open_and_record, args=(path, barrier, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(240)
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    assert len(asyncio.run(recorded(path))) == 20
