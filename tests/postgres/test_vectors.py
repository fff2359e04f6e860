"""Vectors on PostgreSQL: with pgvector's index, without it, and where it may not be had."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL

from onlooker.domain.messages import Message, SessionId
from onlooker.domain.search import Document, VectorQuery
from onlooker.ports import Store
from onlooker.stores.postgres import PostgresStore
from onlooker.stores.postgres import store as postgres
from onlooker.stores.postgres.database import PostgresDatabase
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, later
from onlooker.testing.store_contract.search import VectorContract
from tests.postgres.server import Server

pytestmark = [pytest.mark.anyio, pytest.mark.req(80)]

SPACE = "test:random"
INDEXES = "SELECT indexname::text FROM pg_indexes WHERE indexname LIKE 'vector_signs_near%' ORDER BY 1"


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the index asked however few there are."""
    monkeypatch.setattr(postgres, "LARGE", 0)


@pytest.fixture
def plain_url(server: Server) -> str:
    """A database of its own, and a user who may use pgvector there, but not put it there."""
    name = f"d{secrets.token_hex(6)}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = 'plain'").fetchone():
            admin.execute("CREATE ROLE plain LOGIN")
        admin.execute(f"CREATE DATABASE {name} OWNER plain".encode())
    return server.new_url().replace("postgres@/postgres?", f"plain@/{name}?")


async def many(
    store: Store, count: int = 2000, dimensions: int = 60, session: SessionId = ANA
) -> Sequence[Sequence[float]]:
    """Texts with vectors around a few topics, as real ones are; those vectors."""
    random = Random(session.key)
    topics = [[random.gauss(0, 1) for _ in range(dimensions)] for _ in range(20)]
    made = [[x + random.gauss(0, 0.7) for x in topics[n % 20]] for n in range(count)]
    said = [Message("user", f"word {n}", id=f"m{n}", at=later(n), tokens=1) for n in range(count)]
    await store.append(session, said, due_tokens=NEVER, now=NOW)
    while await store.index(session):
        pass
    documents = [Document("message", session, m.id, m.text) for m in said]
    assert await store.add_vectors(SPACE, list(zip(documents, made, strict=True))) == count
    return made


async def ids_near(store: Store, vector: Sequence[float], **more: Any) -> list[str]:
    query = VectorQuery(
        more.pop("owner", "ana"), "message", SPACE, tuple(vector), more.pop("session", None), **more
    )
    return [match.id for match, _ in await store.nearest(query)]


async def indexes(store: PostgresStore) -> list[str]:
    return await store.run(lambda db: [row[0] for row in db.connection.execute(_here(INDEXES)).fetchall()])


def _here(text: str) -> bytes:
    return text.replace(" ORDER", " AND schemaname = current_schema() ORDER").encode()


class TestWithPgvector(VectorContract):
    """What the contract says of vectors, by way of the index."""

    @pytest.fixture(autouse=True)
    def address(self, server: Server, always: None) -> None:
        self.url = server.new_url(pool="4")

    async def make_store(self) -> Store:
        return PostgresStore(self.url)


async def test_the_index_finds_what_comparing_all_finds(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(server.new_url()) as store:
        made = await many(store)
        assert await indexes(store) == ["vector_signs_near_1_64"]
        for asked in (3, 77, 1999):
            every = await ids_near(store, made[asked], limit=20)
            with monkeypatch.context() as patch:
                patch.setattr(postgres, "LARGE", 0)
                found = await ids_near(store, made[asked], limit=20)
            assert found[0] == every[0] == f"m{asked}"
            assert len(set(found) & set(every)) >= 19


@pytest.mark.usefixtures("always")
async def test_owners_sessions_and_times_are_kept_apart_by_the_index(server: Server) -> None:
    async with opened(server.new_url()) as store:
        ben, other = SessionId("ben", "s"), SessionId("ana", "other")
        made = await many(store, 300)
        await many(store, 300, session=ben)
        await many(store, 300, session=other)
        found = await store.nearest(VectorQuery("ben", "message", SPACE, tuple(made[7]), limit=100))
        assert found
        assert {match.session for match, _ in found} == {ben}
        found = await store.nearest(VectorQuery("ana", "message", SPACE, tuple(made[7]), other, limit=100))
        assert {match.session for match, _ in found} == {other}
        early = await ids_near(store, made[7], session=ANA, before=later(50), limit=100)
        assert early[0] == "m7"
        assert all(int(ident[1:]) < 50 for ident in early)


@pytest.mark.long
@pytest.mark.usefixtures("always")
async def test_the_server_goes_by_the_index_where_an_owner_has_many(server: Server) -> None:
    async with opened(server.new_url()) as store:
        await many(store, 10)

        def plan(db: PostgresDatabase) -> str:
            db.connection.execute("SET LOCAL statement_timeout = 0")  # however busy the machine is
            db.connection.execute(
                "INSERT INTO vector_signs (space, owner, kind, sid, number, at, signs)"
                " SELECT 1, 'ana', 'message', '', n, n, substr(decode(md5(n::text), 'hex'), 1, 8)"
                " FROM generate_series(100, 5000) AS n"
            )
            db.connection.execute("ANALYZE vector_signs")
            wanted: dict[str, Any] = {"space": 1, "owner": "ana", "kind": "message", "sid": None}
            wanted |= {"any_time": True, "signs": bytes(8), "limit": 100}
            asked = postgres._closest(wanted, 64, "public")  # pyright: ignore[reportPrivateUsage]
            rows = db.connection.execute(SQL("EXPLAIN ") + asked, wanted).fetchall()
            return "\n".join(row[0] for row in rows)

        assert "Index Scan using vector_signs_near_1_64" in await store.run(plan)


@pytest.mark.usefixtures("always")
async def test_vectors_of_another_size_get_an_index_of_their_size(server: Server) -> None:
    async with opened(server.new_url()) as store:
        await many(store, 20)
        made = [[float(n == place) for place in range(10)] for n in range(10)]
        documents = [Document("message", ANA, f"m{n}", f"word {n}") for n in range(10)]
        assert await store.add_vectors(SPACE, list(zip(documents, made, strict=True))) == 10
        assert await indexes(store) == ["vector_signs_near_1_16"]
        assert (await ids_near(store, made[4]))[0] == "m4"


@pytest.mark.usefixtures("always")
async def test_without_pgvector_the_same_is_found(plain_url: str) -> None:
    async with opened(plain_url) as store:
        made = await many(store, 500)
        assert await indexes(store) == []
        assert (await ids_near(store, made[77]))[0] == "m77"


@pytest.mark.usefixtures("always")
async def test_a_space_from_before_pgvector_goes_on_and_a_later_one_gets_the_index(
    server: Server, plain_url: str
) -> None:
    async with opened(plain_url) as store:
        made = await many(store, 200)
        database = plain_url.partition("@/")[2].partition("?")[0]
        with psycopg.connect(server.url().replace("/postgres?", f"/{database}?"), autocommit=True) as admin:
            admin.execute("CREATE SCHEMA extensions; GRANT USAGE ON SCHEMA extensions TO plain")
            admin.execute("CREATE EXTENSION vector SCHEMA extensions")
        assert (await ids_near(store, made[77]))[0] == "m77"
        lacking = await store.without_vectors("test:later")
        pairs = [(document, made[int(document.id[1:])]) for document in lacking]
        assert await store.add_vectors("test:later", pairs) == len(pairs) > 50
        assert await indexes(store) == ["vector_signs_near_2_64"]
        ident = pairs[5][0].id
        found = await store.nearest(VectorQuery("ana", "message", "test:later", tuple(pairs[5][1])))
        assert found[0][0].id == ident


@pytest.mark.parametrize("old", ["0.4.4", "0.6.0", "0.7.4"])
async def test_a_pgvector_that_is_too_old_is_as_good_as_none(
    server: Server, plain_url: str, old: str
) -> None:
    database = plain_url.split("@/")[1].split("?")[0]
    with psycopg.connect(server.url().replace("/postgres?", f"/{database}?"), autocommit=True) as admin:
        admin.execute("CREATE EXTENSION vector")
        admin.execute("UPDATE pg_extension SET extversion = %s WHERE extname = 'vector'", (old,))
    async with opened(plain_url) as store:
        made = await many(store, 50)
        assert await indexes(store) == []
        assert (await ids_near(store, made[7]))[0] == "m7"


async def test_whoever_may_not_use_pgvector_goes_without(server: Server, plain_url: str) -> None:
    database = plain_url.split("@/")[1].split("?")[0]
    with psycopg.connect(server.url().replace("/postgres?", f"/{database}?"), autocommit=True) as admin:
        admin.execute("CREATE SCHEMA apart; CREATE EXTENSION vector SCHEMA apart")
    async with opened(plain_url) as store:
        made = await many(store, 50)
        assert await indexes(store) == []
        assert (await ids_near(store, made[7]))[0] == "m7"
