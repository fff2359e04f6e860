"""The full-text index of an SQLite file, and its vectors with and without sqlite-vec."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import cast

import pytest
from tests.contract.sqlite_files import opened, record

from onlooker.domain.messages import Message, SessionId
from onlooker.domain.search import Document, Query, VectorQuery
from onlooker.engine.recall import Search, catch_up
from onlooker.stores.sqlite import SqliteStore
from onlooker.stores.sqlite import store as sqlite
from onlooker.stores.sqlite.connection import SqliteDatabase
from onlooker.stores.sqlite.key import Key
from onlooker.testing.store_contract.case import ANA, BEN, NOW, said

pytestmark = pytest.mark.anyio

SPACE = "test:random"


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


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


async def test_a_frequent_word_is_looked_up_in_the_newest_texts_and_its_number_estimated(
    tmp_path: Path,
) -> None:
    texts = [said(f"m{n}", "a boat" if n % 2 else "a hut") for n in range(200)]
    async with opened(tmp_path / "a.db") as store:
        await record(store, *texts)
        await catch_up(store, "ana")
        found = await store.search(Query("ana", "message", {"boat": 1.0}, max_holders=10))
        assert {m.id for m in found.matches} == {f"m{n}" for n in range(181, 200, 2)}
        assert 90 < found.holders["boat"] < 110
        assert found.docs == 200


async def many(store: SqliteStore, count: int = 1500, dimensions: int = 48) -> VectorQuery:
    """Texts of two owners with random vectors, the same for both, and something of Ana's to look for."""
    wanted: list[float] = []
    for session in (ANA, BEN):
        random = Random(7)
        said = [Message("user", f"word {n}", id=f"m{n}", at=NOW, tokens=1) for n in range(count)]
        await store.append(session, said, due_tokens=1 << 40, now=NOW)
        while await store.unindexed_anywhere():
            await store.index(session)
        documents = [Document("message", session, m.id, m.text) for m in said]
        pairs = [(d, [random.gauss(0, 1) for _ in range(dimensions)]) for d in documents]
        assert await store.add_vectors(SPACE, pairs) == count
        wanted = pairs[7][1]
    return VectorQuery("ana", "message", SPACE, tuple(wanted), limit=20)


async def test_the_closest_of_many_is_found_without_an_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_unloadable", True)
    async with opened(tmp_path / "memory.db") as store:
        found = await store.nearest(await many(store))
        assert (found[0][0].id, round(found[0][1], 4)) == ("m7", 1.0)
        assert len(found) == 20


@pytest.mark.req(79)
async def test_sqlite_vec_chooses_the_same_of_the_same_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In an encrypted file: SQLCipher loads extensions, and the SQLite of many Pythons does not.
    async with opened(SqliteStore(tmp_path / "memory.db", key=Key("5d" * 32))) as store:
        query = await many(store)
        assert await store.read(lambda db: sqlite.has_vector_extension(cast("SqliteDatabase", db).connection))
        for session in (None, ANA):
            asked = VectorQuery("ana", "message", SPACE, query.vector, session, limit=20)
            found = [(m.session, m.id, c) for m, c in await store.nearest(asked)]
            assert found[0][:2] == (ANA, "m7")
            assert {owner for (owner, _), _, _ in found} == {"ana"}
            with monkeypatch.context() as patch:
                patch.setattr(sqlite, "_unloadable", True)
                assert [(m.session, m.id, c) for m, c in await store.nearest(asked)] == found
