"""A server is read out in portions, whatever there is much of."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from onlooker.domain.history import Row, Scope, UsageRow
from onlooker.domain.items import Item, ItemChange
from onlooker.domain.notes import Commit, Extraction, Guard, Usage
from onlooker.stores.postgres import PostgresStore
from onlooker.stores.postgres.connection import address
from onlooker.stores.postgres.database import PORTION, PostgresSnapshot
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, note, said
from tests.marks import first
from tests.postgres.server import Server

MANY = 30_000
LONG = "x" * 500
# More than all of it takes that is needed for one portion, and much less than all rows do.
ROOM = 16 * 1024  # kibibytes

READING = """
import asyncio, resource, sys
from onlooker.domain.history import Scope
from onlooker.stores.postgres.connection import address
from onlooker.stores.postgres.database import PostgresSnapshot

async def main(url: str, kind: str) -> None:
    reading = PostgresSnapshot(address(url))
    assert await reading.open()
    await reading.mark()
    [row async for row in reading.rows(Scope(kinds=frozenset({"value"})))]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count = 0
    async for _ in reading.rows(Scope(kinds=frozenset({kind}))):
        count += 1
    await reading.close()
    print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)

asyncio.run(main(*sys.argv[1:]))
"""


async def one_of_each(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.append(ANA, [said("m1", LONG)], due_tokens=NEVER, now=NOW)
    found = (Extraction("Order", f'"{LONG}"', "o1", ANA, (1,), NOW, NOW),)
    await store.commit(ANA, Commit(Guard(0, 0, None), add=(note("o1", 1, 1),), frontier=1, extractions=found))
    await store.edit(ANA, "o1", LONG, tokens=3, by="ana", now=NOW)
    await store.record_usage(ANA, Usage(LONG, "observe", 10, 5, "accepted", NOW, 0.25))
    item = Item("ana", "i1", "profile", LONG, NOW, session=ANA.key)
    await store.change_items(ItemChange("ana", NOW, add=(item,)))
    await store.close()


# What tells two rows of a table apart.
KINDS = {
    "message": ("messages", "'seq', n + 1, 'id', 'm' || n + 1"),
    "note": ("notes", "'id', 'n' || n, 'status', 'superseded'"),
    "extraction": ("extractions", "'number', n"),
    "version": ("versions", "'number', n + 9"),
    "change": ("changes", "'number', n + 9"),
    "item": ("items", "'id', 'x' || n"),
    "usage": ("usage", "'number', -n"),
}


def multiply(url: str, kind: str, times: int) -> None:
    table, others = KINDS[kind]
    statement = (
        f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT copy.* "
        f"FROM {table}, generate_series(1, {times}) n, "
        f"jsonb_populate_record({table}, jsonb_build_object({others})) copy "
        f"WHERE {table}.ctid = (SELECT ctid FROM {table} LIMIT 1)"
    )
    with address(url).connect() as connection:
        connection.execute(statement.encode())


@pytest.mark.parametrize("kind", first(KINDS))
def test_no_more_than_a_portion_of_any_kind_is_held_at_once(server: Server, kind: str) -> None:
    url = server.new_url()
    asyncio.run(one_of_each(url))
    multiply(url, kind, MANY)
    done = subprocess.run(
        [sys.executable, "-c", READING, url, kind], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    count, grown = map(int, done.stdout.split())
    assert count > MANY
    assert grown < ROOM


@pytest.mark.anyio
@pytest.mark.parametrize("times", [PORTION - 2, PORTION - 1, PORTION, 2 * PORTION, 3 * PORTION + 7])
async def test_no_row_is_left_out_or_doubled_where_one_portion_ends(server: Server, times: int) -> None:
    url = server.new_url()
    await one_of_each(url)
    for kind in KINDS:
        await asyncio.to_thread(multiply, url, kind, times)
    reading = PostgresSnapshot(address(url))
    assert await reading.open()
    try:
        rows = [row async for row in reading.rows()]
        again = [row async for row in reading.rows()]
    finally:
        await reading.close()
    assert rows == again
    for kind in KINDS:
        # One was there before; edited notes have two versions, and changes.
        found = [row for row in rows if type(row).__name__ == f"{kind.title()}Row"]
        assert len(found) - times in (1, 2), kind
        if kind != "usage":  # those are told apart by nothing
            assert len(set(map(repr, found))) == len(found)


@pytest.mark.anyio
async def test_another_question_may_be_asked_before_all_of_it_was_taken(server: Server) -> None:
    url = server.new_url()
    await one_of_each(url)
    await asyncio.to_thread(multiply, url, "usage", 5 * PORTION)
    reading = PostgresSnapshot(address(url))
    assert await reading.open()
    try:
        calls = reading.rows(Scope(kinds=frozenset({"usage"})))
        taken: list[Row] = [await anext(calls)]
        assert (await reading.mark())[0] == 1
        others = [row async for row in reading.rows()]
        taken += [row async for row in calls]
    finally:
        await reading.close()
    assert len(taken) == 5 * PORTION + 1
    assert taken == [row for row in others if isinstance(row, UsageRow)]
