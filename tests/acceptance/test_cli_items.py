"""`items`: listing, adding, forgetting, pinning, and their history."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from command_line import call

import onlooker


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"

    async def talk() -> None:
        async with onlooker.open_memory(path) as memory:
            session = memory.session("one", owner="ana")
            await session.record(onlooker.user("I live in Oslo. I'm allergic to peanuts."))
            await session.end()

    asyncio.run(talk())
    return path


def test_items_are_listed_with_where_they_come_from(db: Path) -> None:
    listed = call("items", "--db", db, "--json").json
    assert [i["summary"] for i in listed] == ["user: lives in Oslo", "user: is allergic to peanuts"]
    assert {(i["owner"], i["session_key"], i["tier"], i["status"]) for i in listed} == {
        ("ana", "one", "cross-session", "live")
    }
    assert all(i["source_ids"] for i in listed)
    table = call("items", "--db", db).out
    assert "allergic to peanuts" in table
    assert call("items", "--db", db, "--owner", "ben", "--json").json == []
    assert "No items" in call("items", "--db", db, "--owner", "ben").err


def test_one_is_added_pinned_superseded_and_forgotten(db: Path) -> None:
    (added,) = call(
        "items", "add", "Ana likes tea", "--type", "behavior", "--tag", "drinks", "--db", db, "--json"
    ).json
    assert (added["type"], added["origin"], added["tags"][0]) == ("behavior", "user", "drinks")
    assert call("items", "pin", added["id"], "--db", db, "--json").json[0]["pinned"]
    assert call("items", "--db", db, "--json").json[0]["id"] == added["id"]
    assert not call("items", "unpin", added["id"], "--db", db, "--json").json[0]["pinned"]
    taking = ("--supersedes", added["id"], "--expires", "2030-01-31")
    (later,) = call("items", "add", "Ana likes coffee", *taking, "--db", db, "--json").json
    assert later["expires_at"].startswith("2030-02-01")
    history = call("items", "history", later["id"], "--db", db, "--json").json
    assert [(i["id"], i["status"]) for i in history] == [(added["id"], "ended"), (later["id"], "live")]
    gone = call("items", "forget", later["id"], "--db", db)
    assert gone.code == 0
    assert "Forgotten." in gone.err
    assert len(call("items", "--db", db, "--json").json) == 2
    assert len(call("items", "--all", "--db", db, "--json").json) == 4


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("add",), 2, "needs TEXT"),
        (("forget",), 2, "needs ID"),
        (("list", "x"), 2, "takes no"),
        (("add", "tea"), 2, "too short"),
        (("add", "Ana likes tea", "--supersedes", "nothing"), 2, "must be an item"),
        (("forget", "nothing"), 1, "no item 'nothing'"),
        (("pin", "nothing"), 1, "no item 'nothing'"),
        (("history", "nothing"), 1, "no item 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_said(db: Path, arguments: tuple[str, ...], code: int, why: str) -> None:
    done = call("items", *arguments, "--db", db)
    assert (done.code, why in done.err) == (code, True), done.err


def test_of_several_owners_one_has_to_be_named(db: Path) -> None:
    with onlooker.blocking.open_memory(db) as memory:
        memory.session("one", owner="ben").record(onlooker.user("Hello"))
    done = call("items", "--db", db)
    assert done.code == 2
    assert "--owner ana" in done.err
    assert "--owner ben" in done.err


def test_a_context_shows_what_the_session_would_show(db: Path) -> None:
    with onlooker.blocking.open_memory(db) as memory:
        memory.session("two", owner="ana").record(onlooker.user("Hello"))
    shown = call("context", "--db", db, "--session", "two", "--owner", "ana").out
    assert "### About ana\n- user: lives in Oslo" in shown
    again = call("context", "--db", db, "--session", "two", "--owner", "ana", "--json").json
    assert again["stats"]["items"] > 0
    assert "About ana" not in call("context", "--db", db, "--session", "one", "--owner", "ana").out
