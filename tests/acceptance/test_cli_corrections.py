"""`edit`, `history`, `diff`, `undo`, `forget`, `clear`, `prune`, and `context --as-of`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command_line import Done, call, make_database, run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_database(tmp_path_factory.mktemp("made"), "demo", messages=150)


@pytest.fixture
def db(made: Path, tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    path.write_bytes(made.read_bytes())
    return path


def notes(db: Path, *options: str) -> list[dict[str, Any]]:
    return call("list", "--db", db, "--json", *options).json


def texts(db: Path) -> str:
    done = call("export", db.parent / "look.jsonl", "--db", db)
    assert done.code == 0, done.err
    text = (db.parent / "look.jsonl").read_text(encoding="utf-8")
    (db.parent / "look.jsonl").unlink()
    return text


# ------------------------------------------------------------------------------------ edit


def test_a_note_is_edited_and_its_texts_are_kept(db: Path) -> None:
    first = notes(db)[0]
    done = call("edit", first["id"], "--db", db, "--text", "Ana has moved.", "--by", "ben", "--json")
    assert done.json["version"] == 2
    assert notes(db)[0]["content"] == "Ana has moved."
    assert "Ana has moved." in call("context", "--db", db).out
    history = call("history", first["id"], "--db", db, "--json").json
    assert [(v["version"], v["by"]) for v in history["versions"]] == [(1, "extractive"), (2, "ben")]
    assert history["versions"][0]["content"] == first["content"]
    shown = call("history", first["id"], "--db", db)
    assert "Ana has moved." in shown.out
    assert "active since" in shown.err
    diff = call("diff", first["id"], "--db", db, "--json").json
    assert diff["added"] == ["Ana has moved."]


def test_a_text_comes_from_standard_input_or_an_editor(db: Path, tmp_path: Path) -> None:
    ident = notes(db)[0]["id"]
    done = call("edit", ident, "--db", db, "--text", "-", input="from a pipe\n")
    assert done.code == 0, done.err
    assert notes(db)[0]["content"] == "from a pipe"
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "%s" "from an editor" > "$1"\n')
    editor.chmod(0o700)
    done = call("edit", ident, "--db", db, EDITOR=str(editor), VISUAL="")
    assert done.code == 0, done.err
    assert notes(db)[0]["content"] == "from an editor"
    for command, says in (
        ("true", "nothing was changed"),
        ("false", "exited with code"),
        ("/no/such", "EDITOR"),
    ):
        done = call("edit", ident, "--db", db, EDITOR=command, VISUAL="")
        assert done.code == 1
        assert says in done.err


def test_what_cannot_be_edited_is_said_clearly(db: Path) -> None:
    shown = notes(db)[0]
    old = next(n for n in notes(db, "--all") if n["status"] == "superseded")
    for ident, code, says in (
        ("obs_nobody", 1, "no note 'obs_nobody'"),
        (old["id"], 2, "superseded"),
        (shown["id"], 1, "nothing was changed"),
    ):
        done = call("edit", ident, "--db", db, "--text", shown["content"])
        assert done.code == code
        assert says in done.err
    assert call("history", "nobody", "--db", db).code == 1
    assert call("diff", "nobody", "--db", db).code == 1


# ------------------------------------------------------------------------------------ undo, diff, as of


def test_a_reflection_is_compared_and_undone(db: Path) -> None:
    reflection = notes(db, "--kind", "reflections")[0]
    found = call("diff", reflection["id"], "--db", db)
    assert found.out.startswith("--- sources\n")
    assert "lines kept" in found.err
    # With less and less room, until what is shown just fits and what it was made from does not.
    config = db.parent / "full.toml"
    shown = sum(n["token_count"] for n in notes(db))
    for room in range(shown, shown // 2, -10):
        config.write_text(f"[onlooker]\nreflect_at = {room}\n")
        if call("undo", "--db", db, "--config", config, "--dry-run").code:
            break
    for option in ("--dry-run", "--yes"):
        refused = call("undo", "--db", db, "--config", config, option)
        assert "cannot hold" in refused.err
        assert "ask for a context with a larger budget first" in refused.err
        assert refused.code == 2
    assert notes(db, "--kind", "reflections")


def test_the_context_is_shown_as_it_was(db: Path) -> None:
    early = call("context", "--db", db, "--as-of", "4", "--json").json
    assert len(early["context"]) < len(call("context", "--db", db, "--json").json["context"])
    day = call("sessions", "--db", db, "--json").json[0]["started_at"][:10]
    first_day = call("context", "--db", db, "--as-of", day)
    assert first_day.code == 0
    assert day in first_day.out
    bad = call("context", "--db", db, "--as-of", "yesterday")
    assert bad.code == 2
    assert "2026-02-16T14:00" in bad.err


def test_a_dry_run_says_what_an_undo_does(tmp_path: Path) -> None:
    db = make_database(tmp_path, "demo", messages=150)
    # Room for more, as after the host asked for a larger context.
    assert call("replay", tmp_path / "begin.jsonl", "--db", db, "--session", "demo", "-b", 16_000).code == 0
    dry = call("undo", "--db", db, "--dry-run", "--json").json
    declined = call("undo", "--db", db, input="n\n")
    assert declined.code == 1
    assert notes(db, "--kind", "reflections")[-1]["id"] == dry["id"]
    done = call("undo", "--db", db, "--yes", "--json").json
    assert (dry["undone"], done["undone"]) == (False, True)
    assert (done["id"], sorted(done["notes"])) == (dry["id"], sorted(dry["notes"]))
    assert dry["id"] not in [n["id"] for n in notes(db)]


# ------------------------------------------------------------------------------------ pin


def test_a_note_or_a_message_is_pinned_and_unpinned(db: Path) -> None:
    first = first_message(db)["text"]
    assert first not in call("context", "--db", db).out
    done = call("pin", "1", "--db", db)
    assert (done.code, done.err) == (0, "Pinned 1 in session 'demo'.\n")
    assert first in call("context", "--db", db).out
    assert call("pin", "1", "--off", "--db", db, "--json").json["pinned"] is False
    assert first not in call("context", "--db", db).out
    note = notes(db)[0]["id"]
    assert call("pin", note, "--db", db, "--json").json == {
        "id": note,
        "session_key": "demo",
        "owner": "default",
        "pinned": True,
    }


@pytest.mark.parametrize(
    "arguments", ["history", "diff", "edit --text x", "undo", "pin", "recall", "forget -y"]
)
def test_an_unknown_id_is_the_same_error_everywhere(db: Path, arguments: str) -> None:
    command, *options = arguments.split()
    done = call(command, "obs_nobody", *options, "--db", db)
    assert (done.code, done.out) == (1, "")
    assert re.fullmatch(r"onlooker: no [a-z ]*'obs_nobody'(; .*)?\n", done.err)


# ------------------------------------------------------------------------------------ forget


def first_message(db: Path) -> dict[str, str]:
    lines = [json.loads(line) for line in texts(db).splitlines()]
    return next(line for line in lines if line["kind"] == "message")


def test_a_message_is_forgotten_by_its_number_after_asking(db: Path) -> None:
    text = first_message(db)["text"]
    assert text in texts(db)
    dry = call("forget", "1", "--db", db, "--dry-run", "--json").json
    assert (dry["messages"], dry["forgotten"]) == (1, False)
    for answer in ("n\n", "", "perhaps\n"):
        declined = call("forget", "1", "--db", db, input=answer)
        assert declined.code == 1
        assert "nothing was forgotten" in declined.err
    assert text in texts(db)
    done = call("forget", "1", "--db", db, input="yes\n")
    assert done.code == 0, done.err
    assert "rewritten" in done.err
    assert text not in texts(db)
    assert text.encode() not in db.read_bytes()
    again = call("forget", "1", "--db", db, "--yes")
    assert again.code == 1
    assert "no message or note '1'" in again.err


def test_what_a_note_stands_for_is_forgotten(db: Path) -> None:
    note = notes(db)[-1]
    done = call("forget", note["id"], "--db", db, "--yes", "--json").json
    start, end = note["source_message_range"]
    assert done["messages"] >= end - start - 1
    assert done["deleted_notes"] >= 1
    assert note["id"] not in [n["id"] for n in notes(db, "--all")]


def test_a_session_or_an_owner_is_forgotten_whole(made: Path, tmp_path: Path) -> None:
    db = tmp_path / "two.db"
    for owner in ("ana", "ben"):
        for key in ("one", "two"):
            done = _replayed(made, db, key, owner)
            assert done.code == 0, done.err
    for wrong in (["forget"], ["forget", "--all"], ["forget", "1", "--all", "--owner", "ana"]):
        assert call(*wrong, "--db", db).code == 2
    assert call("forget", "--all", "--owner", "nobody", "--db", db, "--yes").code == 1
    dry = call("forget", "--all", "--owner", "ana", "--db", db, "--dry-run")
    assert "everything of owner 'ana': 2 sessions" in dry.err
    assert call("forget", "--all", "--session", "one", "--owner", "ana", "--db", db, "--yes").code == 0
    left = {(s["owner"], s["session_key"]) for s in call("sessions", "--db", db, "--json").json}
    assert left == {("ana", "two"), ("ben", "one"), ("ben", "two")}
    done = call("forget", "--all", "--owner", "ana", "--db", db, "--yes", "--json").json
    assert (done["sessions"], done["forgotten"], done["erased"]) == (1, True, True)
    left = {(s["owner"], s["session_key"]) for s in call("sessions", "--db", db, "--json").json}
    assert left == {("ben", "one"), ("ben", "two")}


def _replayed(made: Path, db: Path, key: str, owner: str) -> Done:
    transcript = made.parent / "begin.jsonl"
    short = db.parent / "short.jsonl"
    short.write_text("".join(transcript.read_text(encoding="utf-8").splitlines(keepends=True)[:30]))
    return call("replay", short, "--db", db, "--session", key, "--owner", owner, "--json")


# ------------------------------------------------------------------------------------ clear


@pytest.fixture(scope="module")
def made_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_database(tmp_path_factory.mktemp("clear"), "a", "b", messages=80)


@pytest.fixture
def pair(made_pair: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made_pair, tmp_path / "agent.db"))


def ids(pair: Path, key: str = "a") -> list[str]:
    return [n["id"] for n in call("list", "--db", pair, "--session", key, "--all", "--json").json]


@pytest.mark.req(69)
@pytest.mark.parametrize("answer", ["", None, "\n", "n\n", "maybe\n"], ids=repr)
def test_anything_but_yes_deletes_nothing(pair: Path, answer: str | None) -> None:
    before = ids(pair)
    arguments = ("clear", "--db", pair, "--session", "a")
    # Only a process of its own can have its standard input closed.
    done = run(*arguments, cwd=pair.parent, input=None) if answer is None else call(*arguments, input=answer)
    assert done.code == 1
    assert "This deletes" in done.err
    assert "nothing was deleted" in done.err
    assert ids(pair) == before != []


@pytest.mark.req(37, 69)
def test_yes_deletes_the_notes_of_that_session_alone(pair: Path) -> None:
    other = ids(pair, "b")
    done = call("clear", "--db", pair, "--session", "a", input="y\n")
    assert done.code == 0
    assert ids(pair) == []
    assert ids(pair, "b") == other
    assert "## Recent messages" not in call("context", "--db", pair, "--session", "a").out
    assert call("context", "--db", pair, "--session", "a").out.strip()


def test_one_kind_can_be_cleared(tmp_path: Path) -> None:
    # Short enough that its observations are not condensed yet.
    pair = make_database(tmp_path, "a", messages=30)
    done = call("clear", "--db", pair, "--session", "a", "--kind", "observations", "--yes", "--json")
    assert done.json["cleared"] is True
    assert done.json["reflections"] == 0 < done.json["observations"]
    kinds = {n["kind"] for n in call("list", "--db", pair, "--session", "a", "--all", "--json").json}
    assert "observation" not in kinds


def test_clearing_twice_is_harmless_and_asks_nothing(pair: Path) -> None:
    assert call("clear", "--db", pair, "--session", "a", "--yes").code == 0
    done = call("clear", "--db", pair, "--session", "a")
    assert done.code == 0
    assert "There were no notes." in done.err


def test_with_messages_the_whole_session_goes(pair: Path) -> None:
    assert call("clear", "--db", pair, "--session", "a", "--messages", input="n\n").code == 1
    assert call("clear", "--db", pair, "--session", "a", "--messages", "--yes").code == 0
    assert [s["session_key"] for s in call("sessions", "--db", pair, "--json").json] == ["b"]


def test_a_kind_of_note_and_the_whole_session_exclude_each_other(pair: Path) -> None:
    done = call("clear", "--db", pair, "--session", "a", "--messages", "--kind", "reflections", "--yes")
    assert done.code == 2
    assert ids(pair) != []


def test_with_json_a_refusal_is_a_document_too(pair: Path) -> None:
    done = call("clear", "--db", pair, "--session", "a", "--json", input="")
    assert done.code == 1
    assert done.json["cleared"] is False


# ------------------------------------------------------------------------------------ prune


@pytest.mark.req(41, 99)
def test_old_notes_are_purged_and_a_dry_run_purges_none(pair: Path) -> None:
    everything = ["list", "--db", pair, "--session", "a", "--all", "--json"]
    before = call(*everything).json
    needs = call("prune", "--db", pair)
    assert needs.code == 2
    assert "--older-than" in needs.err
    would = call("prune", "--db", pair, "--older-than", "0", "--dry-run", "--json").json
    assert call(*everything).json == before
    done = call("prune", "--db", pair, "--older-than", "0", "--json").json
    assert (done["rows"], done["pruned"]) == (would["rows"], True)
    assert len(call(*everything).json) <= len(before)
