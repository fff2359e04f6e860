"""Encrypting a file that is there, decrypting it and giving it another key: nothing is lost on the way."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from encrypted_files import HEX, OTHER, RAW, found_in, opened, record, recorded

import onlooker
from onlooker.demo import conversation
from onlooker.domain.errors import StoreError
from onlooker.policy.settings import Settings
from onlooker.stores.sqlite import SqliteStore, encryption
from onlooker.stores.sqlite.connection import connect
from onlooker.stores.sqlite.key import Key

pytestmark = [pytest.mark.anyio, pytest.mark.req(103)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


async def fill(path: Path, key: Key | None = None, messages: int = 120) -> list[str]:
    """A database with something in every table; every line that an export of it has."""
    async with onlooker.open_memory(path, key=key, settings=Settings(budget=2000)) as memory:
        session = memory.session("s", owner="ana")
        await session.record(*conversation()[:messages])
        await session.settle()
        await memory.search("reminders", owner="ana")
    return await lines(path, key)


async def lines(path: Path, key: Key | None) -> list[str]:
    target = path.with_name("export.jsonl")
    target.unlink(missing_ok=True)
    async with onlooker.open_memory(path, key=key, settings=Settings(enabled=False)) as memory:
        await memory.storage.export(target)
    content = target.read_text().splitlines()
    target.unlink()
    return content


# ------------------------------------------------------------------------------------ all is kept


async def test_an_encrypted_database_says_what_the_plain_one_said(path: Path, tmp_path: Path) -> None:
    before = await fill(path)
    assert found_in(tmp_path, ["reminders"]) == {"reminders"}
    encryption.encrypt(path, RAW)
    assert found_in(tmp_path, ["reminders", "create table"]) == set()
    assert os.listdir(tmp_path) == ["memory.db"]
    assert await lines(path, RAW) == before
    async with onlooker.open_memory(path, key=RAW) as memory:
        assert await memory.search("reminders", owner="ana")


async def test_it_can_be_decrypted_and_goes_on(path: Path) -> None:
    before = await fill(path, RAW)
    encryption.decrypt(path, RAW)
    assert await lines(path, None) == before
    async with opened(path, None) as store:
        await record(store, "more")
    assert await recorded(path, None) == ["more"]


@pytest.mark.parametrize("new", [OTHER, Key("a passphrase")], ids=["raw", "passphrase"])
async def test_with_another_key_the_old_one_opens_it_no_more(path: Path, new: Key) -> None:
    before = await fill(path, RAW)
    encryption.rekey(path, RAW, new)
    assert await lines(path, new) == before
    with pytest.raises(StoreError, match="the key does not open it"):
        await SqliteStore(path, key=RAW).open()


async def test_the_file_keeps_its_permissions_and_a_link_stays_one(tmp_path: Path) -> None:
    path, link = tmp_path / "real.db", tmp_path / "link.db"
    async with opened(path, None) as store:
        await record(store, "m1")
    os.chmod(path, 0o640)
    link.symlink_to(path)
    encryption.encrypt(link, RAW)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert await recorded(path) == ["m1"]


async def test_the_plain_bytes_are_overwritten_where_they_were(path: Path, tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    async with opened(path, None) as store:
        await record(store, "xylophone")
        for name in ("memory.db", "memory.db-wal"):  # as a process leaves them that was killed
            shutil.copy(tmp_path / name, left / name)
    with (left / "memory.db").open("rb") as old, (left / "memory.db-wal").open("rb") as log:
        assert b"xylophone" in log.read()
        encryption.encrypt(left / "memory.db", RAW)
        for file in (old, log):
            file.seek(0)
            assert set(file.read()) == {0}
    assert await recorded(left / "memory.db") == ["xylophone"]


# ------------------------------------------------------------------------------------ refusals


async def test_a_database_in_use_is_left_alone(path: Path) -> None:
    async with opened(path, None) as store:
        await record(store, "m1")
        with pytest.raises(StoreError, match="in use by another process"):
            encryption.encrypt(path, RAW)
        await record(store, "m2")
    encryption.encrypt(path, RAW)
    async with opened(path) as store:
        with pytest.raises(StoreError, match="in use by another process"):
            encryption.rekey(path, RAW, OTHER)
        await record(store, "m3")
    assert await recorded(path) == ["m1", "m2", "m3"]


async def test_a_database_in_use_by_another_process_is_left_alone(path: Path) -> None:
    async with opened(path, None) as store:
        await record(store, "m1")
        done = await asyncio.to_thread(_encrypting, path)
        assert "in use by another process" in done.communicate(timeout=60)[1]
        await record(store, "m2")
    assert await recorded(path, None) == ["m1", "m2"]


async def test_what_cannot_be_done_changes_nothing(path: Path, tmp_path: Path) -> None:
    async with opened(path) as store:
        await record(store, "m1")
    with pytest.raises(StoreError, match="already encrypted"):
        encryption.encrypt(path, RAW)
    with pytest.raises(StoreError, match="or an encrypted one"):
        encryption.encrypt(path, OTHER)
    with pytest.raises(StoreError, match="the key does not open it"):
        encryption.rekey(path, OTHER, RAW)
    with pytest.raises(StoreError, match="the key does not open it"):
        encryption.decrypt(path, OTHER)
    with pytest.raises(StoreError, match="no such file"):
        encryption.encrypt(tmp_path / "nothing.db", RAW)
    assert await recorded(path) == ["m1"]


async def test_a_plain_database_has_no_key_to_take_off_or_change(path: Path) -> None:
    async with opened(path, None) as store:
        await record(store, "m1")
    for change in (lambda: encryption.decrypt(path, RAW), lambda: encryption.rekey(path, RAW, OTHER)):
        with pytest.raises(StoreError, match="not encrypted"):
            change()
    assert await recorded(path, None) == ["m1"]


async def test_a_file_with_a_second_name_is_left_alone(path: Path, tmp_path: Path) -> None:
    async with opened(path, None) as store:
        await record(store, "m1")
    os.link(path, tmp_path / "second.db")
    with pytest.raises(StoreError, match="hard links"):
        encryption.encrypt(path, RAW)
    assert await recorded(path, None) == ["m1"]


async def test_a_copy_that_came_out_wrong_does_not_take_the_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path, None) as store:
        await record(store, "m1", "m2")
    export = encryption._export  # pyright: ignore[reportPrivateUsage]

    def damaged(db: sqlite3.Connection, part: Path, key: Key | None) -> None:
        export(db, part, key)
        with closing(connect(part, key, timeout=0)) as copy:
            copy.execute("UPDATE messages SET text = 'm3' WHERE id = 'm2'")

    monkeypatch.setattr(encryption, "_export", damaged)
    with pytest.raises(StoreError, match="differs from the database"):
        encryption.encrypt(path, RAW)
    assert [f.name for f in path.parent.iterdir()] == ["memory.db"]
    assert await recorded(path, None) == ["m1", "m2"]


# ------------------------------------------------------------------------------------ crashes


def _encrypting(path: Path) -> subprocess.Popen[str]:
    script = (
        "import sys; from pathlib import Path\n"
        "from onlooker.stores.sqlite import encryption; from onlooker.stores.sqlite.key import Key\n"
        "print(flush=True); encryption.encrypt(Path(sys.argv[1]), Key(sys.argv[2]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path), HEX],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    process.stdout.readline()
    return process


@pytest.mark.long
async def test_whenever_encrypting_is_killed_one_whole_database_is_there(path: Path) -> None:
    before = await fill(path, messages=300)
    took = await _encrypted_until(path, None)
    encryption.decrypt(path, RAW)
    for fifth in range(7):
        await _encrypted_until(path, took * fifth / 5)
        encrypted = not found_in(path.parent, ["sqlite format 3\0"])
        assert await lines(path, RAW if encrypted else None) == before
        if encrypted:
            encryption.decrypt(path, RAW)
            assert await lines(path, None) == before


async def _encrypted_until(path: Path, seconds: float | None) -> float:
    """Encrypt it, and be killed after so long; how long it took."""
    process = _encrypting(path)
    began = time.monotonic()
    if seconds is not None:
        await asyncio.sleep(seconds)
        process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(process.communicate)
    return time.monotonic() - began
