"""Vectors and the graph in a file: of an earlier version, and with or without sqlite-vec."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from tests.contract.sqlite_files import opened

from onlooker.domain.messages import Message, SessionId
from onlooker.domain.search import Document, VectorQuery
from onlooker.stores.sqlite import SqliteStore, vectors
from onlooker.stores.sqlite.opening import APPLICATION_ID
from onlooker.stores.sqlite.rows import sid_of
from onlooker.stores.sqlite.statements import migrations, split

pytestmark = pytest.mark.anyio

ANA = SessionId("ana", "telegram:42")
NOW = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)
SPACE = "test:random"


def file_of_version(path: Path, version: int) -> None:
    """A database as it was then, with a message and a note on it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, _, script in migrations()[:version]:
            for statement in split(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        sid = sid_of(ANA)
        connection.execute(
            "INSERT INTO sessions (sid, owner, key, wake_at, used_at, last_seq, frontier, watermark,"
            " messages) VALUES (?, 'ana', 'telegram:42', 1, 1, 1, 1, 1, 1)",
            (sid,),
        )
        connection.execute(
            "INSERT INTO messages (sid, seq, id, role, tokens, at, digest, name, text)"
            " VALUES (?, 1, 'm1', 'user', 5, ?, x'00', '', 'I moved to Oslo')",
            (sid, NOW.isoformat()),
        )
        connection.execute(
            "INSERT INTO notes (sid, id, generation, first_seq, last_seq, status, tokens, made_at, model,"
            " degraded, sources, text)"
            " VALUES (?, 'o1', 0, 1, 1, 'active', 5, ?, 'x', 0, '[\"m1\"]', 'in Oslo')",
            (sid, NOW.isoformat()),
        )


@pytest.mark.req(38)
@pytest.mark.parametrize("version", [1, 3])
async def test_what_an_earlier_version_kept_lacks_both_and_gets_both(tmp_path: Path, version: int) -> None:
    path = tmp_path / "old.db"
    file_of_version(path, version)
    async with opened(path) as store:
        assert list(await store.behind()) == [ANA]
        await store.index(ANA)
        lacking = await store.lacking(SPACE)
        assert sorted(d.id for d in lacking) == ["m1", "o1"]
        assert await store.add_vectors(SPACE, [(d, (1.0, 0.0)) for d in lacking]) == 2
        notes = await store.unlinked()
        assert [(d.session, d.id, d.text) for d in notes] == [(ANA, "o1", "in Oslo")]
        assert await store.link([(notes[0], ["Oslo"])]) == 1
        assert [e.target.name for e in await store.edges("ana", kinds=("mentions",))] == ["Oslo"]


async def many(store: SqliteStore, count: int = 1500, dimensions: int = 48) -> VectorQuery:
    """Texts with random vectors, and something to look for."""
    random = Random(7)
    said = [Message("user", f"word {n}", id=f"m{n}", at=NOW, tokens=1) for n in range(count)]
    await store.append(ANA, said, due_tokens=1 << 40, now=NOW)
    while await store.behind():
        await store.index(ANA)
    documents = [Document("message", ANA, m.id, m.text) for m in said]
    pairs = [(d, [random.gauss(0, 1) for _ in range(dimensions)]) for d in documents]
    assert await store.add_vectors(SPACE, pairs) == count
    return VectorQuery("ana", "message", SPACE, tuple(pairs[7][1]), most=20)


async def test_the_closest_of_many_is_found_without_an_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_unloadable", True)
    async with opened(tmp_path / "memory.db") as store:
        found = await store.near(await many(store))
        assert (found[0][0].id, round(found[0][1], 4)) == ("m7", 1.0)
        assert len(found) == 20


async def test_sqlite_vec_chooses_the_same_where_this_python_can_load_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without it both ways are the one in Python, and the closest is found all the same.
    async with opened(tmp_path / "memory.db") as store:
        query = await many(store)
        for session in (None, ANA):
            asked = VectorQuery("ana", "message", SPACE, query.vector, session, most=20)
            found = [(m.id, c) for m, c in await store.near(asked)]
            assert found[0][0] == "m7"
            with monkeypatch.context() as patch:
                patch.setattr(vectors, "_unloadable", True)
                assert [(m.id, c) for m, c in await store.near(asked)] == found
