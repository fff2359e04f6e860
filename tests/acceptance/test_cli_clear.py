"""`clear`: it asks, and only yes means yes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import call, make_database, run


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_database(tmp_path_factory.mktemp("clear"), "a", "b", messages=80)


@pytest.fixture
def db(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "agent.db"))


def notes(db: Path, key: str = "a") -> list[str]:
    return [n["id"] for n in call("list", "--db", db, "--session", key, "--all", "--json").json]


@pytest.mark.req(69)
@pytest.mark.parametrize("answer", ["", None, "\n", "n\n", "maybe\n"], ids=repr)
def test_anything_but_yes_deletes_nothing(db: Path, answer: str | None) -> None:
    before = notes(db)
    done = run("clear", "--db", db, "--session", "a", cwd=db.parent, input=answer)
    assert done.code == 1
    assert "This deletes" in done.err
    assert "nothing was deleted" in done.err
    assert notes(db) == before != []


@pytest.mark.req(37, 69)
def test_yes_deletes_the_notes_of_that_session_alone(db: Path) -> None:
    other = notes(db, "b")
    done = call("clear", "--db", db, "--session", "a", input="y\n")
    assert done.code == 0
    assert notes(db) == []
    assert notes(db, "b") == other
    assert "## Recent messages" not in call("context", "--db", db, "--session", "a").out
    assert call("context", "--db", db, "--session", "a").out.strip()


def test_one_kind_can_be_cleared(tmp_path: Path) -> None:
    # Short enough that its observations are not condensed yet.
    db = make_database(tmp_path, "a", messages=50)
    done = call("clear", "--db", db, "--session", "a", "--kind", "observations", "--yes", "--json")
    assert done.json["cleared"] is True
    assert done.json["reflections"] == 0 < done.json["observations"]
    kinds = {n["kind"] for n in call("list", "--db", db, "--session", "a", "--all", "--json").json}
    assert "observation" not in kinds


def test_clearing_twice_is_harmless_and_asks_nothing(db: Path) -> None:
    assert call("clear", "--db", db, "--session", "a", "--yes").code == 0
    done = call("clear", "--db", db, "--session", "a")
    assert done.code == 0
    assert "There were no notes." in done.err


def test_with_messages_the_whole_session_goes(db: Path) -> None:
    assert call("clear", "--db", db, "--session", "a", "--messages", input="n\n").code == 1
    assert call("clear", "--db", db, "--session", "a", "--messages", "--yes").code == 0
    assert [s["session_key"] for s in call("sessions", "--db", db, "--json").json] == ["b"]


def test_a_kind_of_note_and_the_whole_session_exclude_each_other(db: Path) -> None:
    done = call("clear", "--db", db, "--session", "a", "--messages", "--kind", "reflections", "--yes")
    assert done.code == 2
    assert notes(db) != []


def test_with_json_a_refusal_is_a_document_too(db: Path) -> None:
    done = call("clear", "--db", db, "--session", "a", "--json", input="")
    assert done.code == 1
    assert done.json["cleared"] is False
