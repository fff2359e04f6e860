"""`search`, `recall` and `context --question`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from command_line import call

import onlooker
from onlooker.policy.tokens import estimator

HIT_KEYS = {
    "kind", "session_key", "owner", "id", "seq", "at", "speaker", "taken_back", "why", "score", "snippet",
    "content",
}  # fmt: skip


async def _record(path: Path) -> None:
    async with onlooker.open_memory(path, budget=1_000) as memory:
        session = memory.session("telegram:42", owner="ana")
        await session.record(onlooker.user("The locker code at the hut is 4417.", name="Ana"))
        for n in range(70):
            said = f"We passed the lake number {n} and slept near farm {n} by the river"
            await session.record(onlooker.user(said), onlooker.assistant(f"Farm {n} is noted"))
        await session.settle()
        await memory.session("b", owner="ana").record(onlooker.user("東京のロッカー"))


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("search") / "agent.db"
    asyncio.run(_record(path))
    return path


def test_search_prints_the_best_hits_first(db: Path) -> None:
    done = call("search", "locker codes", "--db", db, "--kind", "message")
    assert done.code == 0
    assert "Ana: The locker code at the hut is 4417." in done.out.splitlines()[1]
    hits = call("search", "locker codes", "--db", db, "--kind", "message", "--json").json
    assert set(hits[0]) == HIT_KEYS
    assert (hits[0]["seq"], hits[0]["session_key"], hits[0]["owner"]) == (1, "telegram:42", "ana")
    assert len(call("search", "lake", "--db", db, "--limit", 3, "--json").json) == 3
    assert {h["kind"] for h in call("search", "lake", "--db", db, "--kind", "note", "--json").json} == {
        "note"
    }
    assert [h["session_key"] for h in call("search", "ロッカー", "--db", db, "--json").json] == ["b"]
    assert call("search", "ロッカー", "--db", db, "-s", "telegram:42", "--json").json == []


def test_search_marks_what_was_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "back.db"

    async def take_back() -> None:
        async with onlooker.open_memory(path) as memory:
            session = memory.session("a")
            for answer in ("A fine boat", "A fine ship"):
                await session.prepare([onlooker.user("I own one"), onlooker.assistant(answer)])

    asyncio.run(take_back())
    lines = call("search", "fine", "--db", path).out.splitlines()
    assert [("(taken back)" in line, line.endswith("A fine boat")) for line in lines[1:]] == [
        (False, False),
        (True, True),
    ]
    assert [h["taken_back"] for h in call("search", "fine", "--db", path, "--json").json] == [False, True]
    assert "A fine boat" in call("recall", "2", "--db", path, "--session", "a").out


def test_search_says_what_it_lacks(db: Path, tmp_path: Path) -> None:
    done = call("search", "submarine", "--db", db)
    assert (done.code, done.out, done.err) == (0, "", "Nothing found.\n")
    nobody = call("search", "lake", "--db", db, "--owner", "ben", "--json")
    assert (nobody.code, nobody.out) == (1, "")
    assert "nothing is stored for owner 'ben'; `onlooker sessions` lists the owners" in nobody.err
    for query in ("", " \n"):
        empty = call("search", query, "--db", db)
        assert (empty.code, empty.out) == (2, "")
        assert "QUERY is empty: give the words to search for" in empty.err
    assert call("search", "lake", "--db", db, "-s", "nobody").code == 1
    assert call("search", "lake", "--db", db, "--after", "soon").code == 2
    assert call("search", "lake", "--db", tmp_path / "none.db").code == 1
    assert call("search", "lake", "--db", db, "--before", "2000-01-01", "--json").json == []


def test_several_owners_have_to_be_told_apart(db: Path, tmp_path: Path) -> None:
    path = tmp_path / "two.db"

    async def record() -> None:
        async with onlooker.open_memory(path) as memory:
            for owner in ("ana", "ben"):
                await memory.session("a", owner=owner).record(onlooker.user(f"a boat for {owner}"))

    asyncio.run(record())
    done = call("search", "boat", "--db", path)
    assert done.code == 2
    assert "--owner ana\n  --owner ben" in done.err
    assert [h["owner"] for h in call("search", "boat", "--db", path, "--owner", "ben", "--json").json] == [
        "ben"
    ]


def test_recall_shows_messages_and_what_notes_stand_for(db: Path) -> None:
    one = ("--db", db, "--session", "telegram:42")
    assert "Ana: The locker code at the hut is 4417." in call("recall", 1, *one).out
    around = call("recall", 5, "--neighbours", 2, *one, "--json").json["messages"]
    assert [m["seq"] for m in around] == [3, 4, 5, 6, 7]
    note = call("search", "lake river", "--kind", "note", "-n", 1, "--db", db, "--json").json[0]
    first = call("recall", note["id"], *one, "--json").json
    assert first["pages"] > 1
    assert len(first["messages"]) == 50
    second = call("recall", note["id"], "--page", 2, *one)
    assert f"Page 2 of {first['pages']}." in second.err
    assert call("recall", note["id"], "--page", 99, *one).code == 1
    missing = call("recall", "nothing", *one)
    assert (missing.code, missing.out) == (1, "")
    assert "nothing" in missing.err


def test_context_for_a_question_holds_the_answer_and_fits(db: Path) -> None:
    one = ("--db", db, "--session", "telegram:42", "--budget", 600)
    question = ("--question", "What was the code of the locker?")
    built = call("context", *one, *question, "--json").json
    assert "Ana: The locker code at the hut is 4417." in built["context"]
    assert built["stats"]["recall"] > 0
    assert 400 < estimator("default").text(built["context"]) <= 600
    messages = call("context", *one, *question, "--format", "openai").json
    # It is in a note, and what a note quotes is not recalled once more.
    assert sum(m["content"].count("4417") for m in messages) == 1
    assert call("context", *one, *question, "--as-of", "3").code == 2


def test_looking_for_something_is_for_any_shell(db: Path) -> None:
    done = call("search", "4417", "--db", db, "--kind", "message")
    assert done.code == 0
    assert "locker" in done.out
