"""What people mistype: a command says plainly what is wrong and what to do, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import call, make_database

import onlooker
import onlooker.blocking


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_database(tmp_path_factory.mktemp("made"), "demo", messages=20)


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database, an empty file, junk, another folder, and conversations in other formats."""
    (tmp_path / "a.db").write_bytes(made.read_bytes())
    (tmp_path / "empty").touch()
    (tmp_path / "junk").write_bytes(b"\x00\xff\xfe junk" * 100)
    (tmp_path / "folder").mkdir()
    (tmp_path / "chat.txt").write_text("Ana: hi\nBot: hello\n")
    (tmp_path / "other.json").write_text(json.dumps([{"from": "human", "value": "hi"}]))
    (tmp_path / "nothing.json").write_text("[]")
    monkeypatch.chdir(tmp_path)
    return tmp_path


MISTAKES = {
    "search x --db ''": (2, "--db is empty: name a file"),
    "sessions --db empty": (1, "empty: is empty, and no database"),
    "sessions --db junk": (1, "not a database, or an encrypted one"),
    "sessions --db folder": (1, "folder: is a folder; name a database file in it"),
    "sessions --db none.db": (1, "none.db: no such database (set --db PATH or ONLOOKER_DB)"),
    "serve --db mysql://host/x": (2, "--db mysql://…: must be a file"),
    "serve --db folder": (1, "is a folder; name a database file in it"),
    "migrate a.db folder": (1, "is a folder; name a database file in it"),
    "doctor --db folder": (1, "database: folder is a folder"),
    "token list --db none.db": (1, "none.db: no such database"),
    "token revoke x --db none.db": (1, "none.db: no such database"),
    "token make --db none.db": (2, "use --owner NAME, or --all for all owners"),
    "restore none --db a.db": (1, "none: no such file; name a backup"),
    "restore folder --db none.db": (1, "folder: is a folder; name a backup"),
    "status --db a.db --config junk": (2, "is not a text file in UTF-8"),
    "context --db a.db --budget x": (2, "must be an integer\n"),
    "context --db a.db --format xml": (2, "'xml' is not one of 'text', 'openai', 'anthropic'"),
    "search x --db a.db -n 0": (2, "must be at least 1\n"),
    "serve --port 99999": (2, "must be at most 65535\n"),
    "replay chat.txt --db none.db": (1, 'A message is an object such as {"role": "user", "content": "Hi"}'),
    "replay other.json --db none.db": (1, 'A message is an object such as {"role": "user", "content": "Hi"}'),
    "replay junk --db none.db": (1, "junk, line 1: not UTF-8 text"),
    "replay nothing.json --db none.db": (1, "nothing.json: there are no messages to replay"),
    "replay empty --db none.db": (1, "empty: there are no messages to replay"),
}


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_named_and_leaves_nothing_behind(place: Path, command: str) -> None:
    before = files(place)
    done = call(*(word.strip("'") for word in command.split()))
    code, says = MISTAKES[command]
    assert says in (done.out if command.startswith("doctor") else done.err)
    assert done.code == code
    for jargon in ("Value error", "Input should", "codec", "Traceback", "url ="):
        assert jargon not in done.err
    assert files(place) == before


def files(place: Path) -> dict[str, int]:
    """The files and their sizes, without what SQLite keeps beside a file that it reads."""
    return {p.name: p.stat().st_size for p in place.iterdir() if not p.name.endswith(("-shm", "-wal"))}


def test_a_database_without_anything_says_so(tmp_path: Path) -> None:
    with onlooker.blocking.open_memory(tmp_path / "new.db"):
        pass
    for command in ("context", "list", "search"):
        done = call(command, *(["x"] if command == "search" else []), "--db", tmp_path / "new.db")
        assert (done.code, done.err) == (1, "onlooker: nothing is recorded in this database yet\n")
    assert "No tokens." in call("token", "list", "--db", tmp_path / "new.db").err
    with onlooker.blocking.open_memory(tmp_path / "new.db") as memory:
        memory.session("a").record(onlooker.user("Hello."))
    listed = call("list", "--db", tmp_path / "new.db")
    assert listed.err == "No notes yet: every message is in the prompt, word for word.\n"
