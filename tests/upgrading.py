"""Made-up next versions of the schema, for tests of programs that are one behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import onlooker
from onlooker.stores.sql.database import Migration, migration

# fmt: off
TABLES = (
    "sessions", "messages", "archive", "notes", "pins", "extractions", "usage", "store_values", "beginnings",
    "changes", "versions", "items", "shown_items", "searchable", "search_totals", "spaces", "vector_signs",
    "vectors", "entities", "mentions", "unlinked",
)
# fmt: on


def next_version(steps: Sequence[Migration]) -> list[Migration]:
    """What a version after this one may well do: a column more in every table, and a table more."""
    more = [f"ALTER TABLE {table} ADD COLUMN colour TEXT;" for table in TABLES]
    more.append("CREATE TABLE colours (name TEXT PRIMARY KEY, shade TEXT);")
    more.append("CREATE INDEX messages_colour ON messages (colour);")
    return [*steps, migration(steps[-1].number + 1, "-- Colours.\n" + "\n".join(more))]


def failing_version(steps: Sequence[Migration]) -> list[Migration]:
    """One that changes much before it finds that it cannot go on."""
    *_, good = next_version(steps)
    return [*steps, migration(good.number, f"{good.script}\nCREATE TABLE sessions (twice TEXT);")]


def breaking_version(steps: Sequence[Migration]) -> list[Migration]:
    """One that the version before it cannot work with."""
    return [*steps, migration(steps[-1].number + 1, "ALTER TABLE messages RENAME COLUMN text TO words;")]


async def edited(session: onlooker.Session) -> None:
    """Edit a note; another where the background has just condensed it."""
    for _ in range(20):
        note = (await session.notes())[-1]
        try:
            await session.history.edit(note.id, f"{note.text}\nBy hand", by="ana")
        except KeyError:
            continue
        return
    raise AssertionError("no note stood still")


async def settled(session: onlooker.Session) -> None:
    """Wait for its notes; another process that shares the database may be at them."""
    async with asyncio.timeout(120):
        while not await session.settle():  # noqa: ASYNC110  the other process sends no event
            await asyncio.sleep(0.05)


async def use(memory: onlooker.Memory, name: str) -> None:
    """Do with a session what programs do: record, take notes, build contexts, search, edit, look back."""
    session = memory.session(name, owner="ana")
    said = [f"{name} {n}: parcel {n * 7919} goes to street {n}, house {n % 9}, 東京都" for n in range(24)]
    for text in said:
        await session.record(onlooker.user(text))
    await settled(session)
    context = await session.context(system="You are helpful.", budget=1_000)
    assert "## Conversation Memory" in context.text()
    assert said[-1] in context.text()
    assert [m.text for m in await session.messages(archived=True)] == said
    assert said[1] in [hit.text for hit in await session.search("7919")]
    assert await session.search("東京")
    note = (await session.notes())[0]
    assert [m.text for m in await session.recall(note.id)] == said[note.first - 1 : note.last]
    await edited(session)
    # A fact that resembles no other: those that do are refused.
    await memory.items.save(f"{name}-1 {name}-2 {name}-3 {name}-4 {name}-5", owner="ana")
    assert any(name in item.summary for item in await memory.items.list("ana"))
