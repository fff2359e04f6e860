"""The full-text index of an SQLite file: of an earlier version, of many, and after forgetting."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.contract.sqlite_files import opened, record

from onlooker.domain.messages import SessionId
from onlooker.engine.searching import Search, catch_up
from onlooker.stores.sqlite.opening import APPLICATION_ID
from onlooker.stores.sqlite.rows import message_row, sid_of
from onlooker.stores.sqlite.statements import migrations, split
from onlooker.testing.store_contract.case import ANA, BEN, said

pytestmark = pytest.mark.anyio


def file_of_version_3(path: Path) -> None:
    """A database as it was before there was an index, with two messages in it."""
    with closing(sqlite3.connect(path)) as db, db:
        for number, _, script in migrations()[:3]:
            for statement in split(script):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(
            "INSERT INTO sessions (sid, owner, key, last_seq, wake_at, used_at) VALUES (?, ?, ?, 2, 9, 1)",
            (sid_of(ANA), ANA.owner, ANA.key),
        )
        for seq, text in enumerate(("an old boat", "a new boat"), 1):
            message = said(f"m{seq}", text, seq=seq)
            db.execute(
                "INSERT INTO messages (sid, seq, id, role, tokens, at, digest, summary, name, extra, text)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                message_row(sid_of(ANA), message, message.digest),
            )


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


@pytest.mark.req(38)
async def test_what_an_earlier_version_recorded_is_found(tmp_path: Path) -> None:
    file_of_version_3(tmp_path / "old.db")
    async with opened(tmp_path / "old.db") as store:
        await record(store, said("m3", "the third boat"))
        hits = await Search("ana").run(store, "boat")
        assert sorted(h.text for h in hits) == ["a new boat", "an old boat", "the third boat"]


async def test_recording_leaves_the_index_alone(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await record(store, said("m1", "a boat"))
        assert list(await store.unindexed("ana")) == [ANA]
        assert list(await store.unindexed("ana", session=SessionId("ana", "other"))) == []
        await catch_up(store, "ana")
        assert list(await store.unindexed("ana")) == []


async def test_forgotten_words_are_in_the_files_no_more(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path) as store:
        await record(store, said("m1", "the passphrase xylophonequartz"))
        await record(store, said("m1", "something else"), session=BEN)
        for owner in ("ana", "ben"):
            await catch_up(store, owner)
        assert b"xylophonequartz" in everything_in(tmp_path)
        await store.delete_session(ANA)
        await store.erase()
        assert await Search("ben").run(store, "something")
    assert b"xylophonequartz" not in everything_in(tmp_path)


async def test_owners_of_strange_names_are_told_apart(tmp_path: Path) -> None:
    strange = ["", "a b", "a_b", "A_B", '"', "\0", "\ud800", "東京", "a" * 5000]
    async with opened(tmp_path / "a.db") as store:
        for n, owner in enumerate(strange):
            await record(store, said("m1", f"boat number{n}"), session=SessionId(owner, "s"))
        for n, owner in enumerate(strange):
            hits = await Search(owner).run(store, "boat")
            assert [h.text for h in hits] == [f"boat number{n}"]
            assert hits[0].session == SessionId(owner, "s")
