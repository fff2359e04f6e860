"""`sessions`, `list`, `status` and `context`: looking at what is stored."""

from __future__ import annotations

import asyncio
import re
import shutil
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import call, make_database

import onlooker
from onlooker.policy.tokens import estimator

NOTE_KEYS = {
    "id",
    "session_key",
    "owner",
    "kind",
    "tier",
    "generation",
    "content",
    "token_count",
    "source_start_index",
    "source_end_index",
    "source_message_range",
    "created_at",
    "model",
    "status",
    "degraded",
}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one session."""
    return make_database(tmp_path_factory.mktemp("one"), "telegram:42")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two sessions."""
    return make_database(tmp_path_factory.mktemp("two"), "a", "b", messages=3)


@pytest.mark.req(35, 40, 67)
def test_list_prints_each_note_with_its_documented_keys(one: Path) -> None:
    notes = call("list", "--db", one, "--json").json
    assert notes
    for note in notes:
        assert set(note) == NOTE_KEYS
        assert note["tier"] == "session"
        assert note["kind"] == ("reflection" if note["generation"] else "observation")
        start, end = note["source_message_range"]
        assert (start, end) == (note["source_start_index"], note["source_end_index"] + 1)
        assert datetime.fromisoformat(note["created_at"]).tzinfo
        assert note["token_count"] == estimator("default").text(note["content"])
        # A readable id: what it is, when it was made, and what sets it apart.
        made = datetime.fromisoformat(note["created_at"]).astimezone(UTC)
        kind = {"observation": "obs", "reflection": "ref"}[note["kind"]]
        assert re.fullmatch(rf"{kind}_{made:%Y%m%dT%H%M%S%f}_[0-9a-z]{{12}}", note["id"])
    # Oldest first, and each message under one note alone.
    ranges = [n["source_message_range"] for n in notes]
    assert ranges[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(ranges))


@pytest.mark.req(40)
def test_ids_sort_as_their_notes_and_items_were_made(one: Path, tmp_path: Path) -> None:
    notes = call("list", "--db", one, "--all", "--json").json
    for kind in ("observation", "reflection"):
        made = sorted((n["created_at"], n["id"]) for n in notes if n["kind"] == kind)
        assert len(made) > 1
        assert [ident for _, ident in made] == sorted(ident for _, ident in made)
    db = shutil.copy(one, tmp_path / "items.db")
    for text in ("Ana lives in Oslo.", "Ana has a dog called Rex."):
        assert call("items", "add", text, "--db", db, "--owner", "ana").code == 0
    items = call("items", "--db", db, "--owner", "ana", "--json").json
    assert {item["tier"] for item in items} == {"cross-session"}
    made = sorted((datetime.fromisoformat(item["created_at"]), item["id"]) for item in items)
    assert len(made) == 2
    assert all(at.tzinfo for at, _ in made)
    assert [ident for _, ident in made] == sorted(item["id"] for item in items)


@pytest.mark.req(67)
def test_list_shows_the_whole_text_of_a_note_in_a_table(one: Path) -> None:
    shown = call("list", "--db", one).out
    for note in call("list", "--db", one, "--json").json:
        assert note["id"] in shown
        for line in note["content"].splitlines():
            assert line in shown


@pytest.mark.req(72)
def test_positions_are_right_after_the_conversation_went_another_way(tmp_path: Path) -> None:
    db = tmp_path / "x.db"
    history = asyncio.run(edited_conversation(db))
    notes = call("list", "--db", db, "--json").json
    assert len(notes) > 3

    async def sources(note: str) -> list[str]:
        async with onlooker.open_memory(db) as memory:
            return [m.text for m in await memory.session("s").recall(note)]

    for note in notes:
        start, end = note["source_message_range"]
        assert asyncio.run(sources(note["id"])) == [m["content"] for m in history[start:end]]


async def edited_conversation(db: Path) -> list[dict[str, str]]:
    """A host edits a message in the middle, so that messages get new numbers from there on."""
    said = [f"Parcel {i} went to warehouse {i * 7} on day {i} for {i * 13} kroner." for i in range(80)]
    history = [{"role": "user" if i % 2 == 0 else "assistant", "content": t} for i, t in enumerate(said)]
    changed = [*history[:40], {"role": "user", "content": "No: parcel 40 went to Bergen."}, *history[41:70]]
    async with onlooker.open_memory(db, budget=2500) as memory:
        for version in (history, changed):
            await memory.session("s").prepare(version)
            await memory.session("s").settle()
    return changed


def test_list_can_be_narrowed_and_widened(one: Path) -> None:
    live = call("list", "--db", one, "--json").json
    everything = call("list", "--db", one, "--all", "--json").json
    reflections = call("list", "--db", one, "--kind", "reflections", "--all", "--json").json
    newest = call("list", "--db", one, "--recent", 2, "--json").json
    assert newest == live[-2:]
    assert {n["id"] for n in live} < {n["id"] for n in everything}
    assert reflections == [n for n in everything if n["kind"] == "reflection"] != []


@pytest.mark.req(67)
def test_an_empty_list_is_two_brackets(two: Path) -> None:
    assert call("list", "--db", two, "--session", "a", "--json").out == "[]\n"
    assert call("sessions", "--db", two, "--owner", "nobody", "--json").out == "[]\n"
    assert call("status", "--db", two, "--owner", "nobody", "--json").out == "[]\n"


@pytest.mark.req(68)
def test_status_counts_what_the_session_holds(one: Path) -> None:
    (status,) = call("status", "--db", one, "--json").json
    notes = call("list", "--db", one, "--json").json
    buffered = [n for n in notes if n["status"] == "buffered"]
    active = [n for n in notes if n["status"] == "active"]
    assert status["messages"] == 120
    assert status["observations"] + status["reflections"] == len(active)
    assert status["observation_tokens"] + status["reflection_tokens"] == sum(n["token_count"] for n in active)
    assert status["buffered"] == len(buffered)
    standing = sum(n["token_count"] for n in active) + status["tail_tokens"]
    assert status["compression"] == round(status["message_tokens"] / standing, 2) > 2
    shown = call("status", "--db", one).out
    assert f"{status['message_tokens']:,}" in shown
    assert f"{status['compression']:.1f}x" in shown


def test_sessions_are_listed_with_the_last_used_first(two: Path) -> None:
    listed = call("sessions", "--db", two, "--json").json
    assert {s["session_key"] for s in listed} == {"a", "b"}
    assert [s["session_key"] for s in call("sessions", "--db", two, "--limit", 1, "--json").json] == [
        listed[0]["session_key"]
    ]


@pytest.mark.parametrize("command", ["list", "context", "clear"])
def test_with_several_sessions_it_says_which_there_are(two: Path, command: str) -> None:
    done = call(command, "--db", two)
    assert done.code == 2
    assert "--session a" in done.err
    assert "--session b" in done.err
    assert done.out == ""


@pytest.mark.parametrize("command", ["sessions", "list", "status", "context", "clear"])
def test_a_database_that_is_not_there_is_not_made(tmp_path: Path, command: str) -> None:
    done = call(command, "--db", tmp_path / "none.db")
    assert done.code == 1
    assert "none.db: no such database" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_is_not_there_is_exit_code_1(one: Path) -> None:
    done = call("list", "--db", one, "--session", "nobody", "--json")
    assert (done.code, done.out) == (1, "")
    assert "no session 'nobody'; `onlooker sessions` lists them" in done.err


def test_a_folder_in_the_place_of_a_database_is_said(tmp_path: Path) -> None:
    done = call("sessions", "--db", tmp_path)
    assert done.code == 1
    assert f"{tmp_path}: is a folder" in done.err


def test_a_file_that_is_no_database_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("not a database, but long enough to look at" * 50)
    done = call("status", "--db", tmp_path / "x.db")
    assert done.code == 1
    assert done.err.startswith("onlooker: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", ["list", "status", "sessions", "doctor"])
def test_at_60_columns_nothing_is_cut_off(one: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(one.parent)
    done = call(command, "--db", one.name, COLUMNS="60")
    assert done.code == 0, done.err
    assert max(len(line) for line in done.out.splitlines()) <= 60
    assert "\x1b" not in done.out
    if command != "list":
        assert "…" not in done.out
        return
    flat = "".join(done.out.split())
    for note in call("list", "--db", one.name, "--json").json:
        assert note["id"] in flat
        assert "".join(note["content"].split()) in flat


def test_the_database_and_the_session_may_come_from_the_environment(one: Path) -> None:
    assert call("status", "--json", ONLOOKER_DB=str(one)).json[0]["session_key"] == "telegram:42"


def test_what_was_said_cannot_steer_the_terminal(tmp_path: Path) -> None:
    from onlooker.cli.screen import printable

    assert printable("\x1b]0;owned\x07red\x1b[31m\r\nnext\tcell\x9b") == "]0;ownedred[31m\nnext\tcell"


# ------------------------------------------------------------------------------------ context


def test_the_context_fits_the_budget_that_is_asked_for(one: Path) -> None:
    for budget in (300, 700, 1500):
        text = call("context", "--db", one, "--budget", budget).out
        assert estimator("default").text(text) <= budget


def test_without_a_budget_the_context_is_the_one_that_the_agent_had(one: Path) -> None:
    stats = call("context", "--db", one, "--json").json["stats"]
    assert stats["budget"] == 2000


def test_looking_at_a_context_changes_nothing(one: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(one, tmp_path / "copy.db"))
    before = call("list", "--db", copy, "--all", "--json").out
    assert call("context", "--db", copy, "--budget", 300).code == 0
    assert call("list", "--db", copy, "--all", "--json").out == before


@pytest.mark.req(44, 45)
def test_the_context_comes_in_the_form_that_a_provider_takes(one: Path) -> None:
    openai = call("context", "--db", one, "--format", "openai", "--system", "Be brief.").json
    assert openai[0]["role"] == "system"
    assert openai[0]["content"].startswith("Be brief.\n\n## Conversation Memory")
    anthropic = call("context", "--db", one, "--format", "anthropic", "--system", "Be brief.").json
    assert anthropic["system"][0]["text"] == "Be brief."
    document = call("context", "--db", one, "--format", "openai", "--json").json
    assert set(document) == {"session_key", "owner", "format", "context", "stats"}


def test_statistics_stand_beside_the_text_not_in_it(one: Path) -> None:
    done = call("context", "--db", one, "--stats")
    assert done.out == call("context", "--db", one).out
    assert "observations" in done.err
    assert "left out messages" in done.err


def test_a_session_without_its_option_is_shown_the_option() -> None:
    for command in ("status", "list", "context"):
        done = call(command, "telegram:42")
        assert done.code == 2
        assert "extra argument(s) (telegram:42); name a session with --session KEY" in done.err
