"""`export`, `import`, `backup`, `restore` and `prune` on the command line."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.acceptance.command_line import call, make_database, run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_database(tmp_path_factory.mktemp("made"), "demo", "other", messages=120)


@pytest.fixture
def db(made: Path, tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    path.write_bytes(made.read_bytes())
    return path


def test_a_database_goes_through_a_file_and_comes_out_the_same(db: Path, tmp_path: Path) -> None:
    done = call("export", tmp_path / "all.jsonl", "--db", db, "--json")
    assert done.json["rows"] > 100
    done = call("import", tmp_path / "all.jsonl", "--db", tmp_path / "new.db", "--json")
    assert done.json["rows"]["session"] == 2
    assert done.json["problems"] == []
    assert call("export", tmp_path / "again.jsonl", "--db", tmp_path / "new.db").code == 0
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "all.jsonl").read_bytes()
    context = [call("context", "--db", d, "--session", "demo").out for d in (db, tmp_path / "new.db")]
    assert context[0] == context[1]


def test_it_goes_through_a_pipe(db: Path, tmp_path: Path) -> None:
    out = run("export", "-", "--db", db, "--session", "demo", cwd=tmp_path)
    assert out.code == 0, out.err
    assert out.out.splitlines()[0] == '{"kind":"onlooker","format":1}'
    done = run("import", "-", "--db", tmp_path / "new.db", cwd=tmp_path, input=out.out)
    assert done.code == 0, done.err
    assert "Took in 1 sessions" in done.err
    again = run("export", "-", "--db", tmp_path / "new.db", "--session", "demo", cwd=tmp_path)
    assert again.out == out.out


def test_what_cannot_be_exported_or_imported_is_said_clearly(db: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.jsonl"
    assert call("export", target, "--db", db).code == 0
    for arguments, code, says in (
        (["export", target, "--db", db], 1, "the file exists"),
        (["export", tmp_path / "x.jsonl", "--db", db, "--owner", "nobody"], 1, "nothing is stored"),
        (["export", tmp_path / "x.jsonl", "--db", db, "--session", "nobody"], 1, "no session 'nobody'"),
        (["export", tmp_path / "x.jsonl", "--db", tmp_path / "no.db"], 1, "no such database"),
        (["import", target, "--db", db], 1, "is there already"),
        (["import", tmp_path / "no.jsonl", "--db", db], 1, "cannot be read"),
        (["import", db, "--db", tmp_path / "y.db"], 1, "not an Onlooker export"),
        (["import", "--db", db], 2, "name a FILE"),
        (["import", target, "--journal", tmp_path, "--db", db], 2, "name a FILE"),
        (["import", "--journal", tmp_path / "no", "--db", db], 1, "no such folder"),
    ):
        done = call(*arguments)
        assert done.code == code, (arguments, done.err)
        assert says in done.err, done.err
    assert call("import", target, "--db", db, "--replace").code == 0


def test_a_database_is_built_from_a_journal_with_its_bad_lines_reported(made: Path, tmp_path: Path) -> None:
    config = tmp_path / "onlooker.toml"
    config.write_text(f'[onlooker]\nenabled = true\njournal = "{tmp_path / "journal"}"\nbudget = 2000\n')
    transcript = made.parent / "begin.jsonl"
    done = call("replay", transcript, "--db", tmp_path / "a.db", "--config", config, "--json")
    assert done.code == 0, done.err
    file = next((tmp_path / "journal").glob("session-*"))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], b"nonsense\n", *lines[1:]]))
    done = call("import", "--journal", tmp_path / "journal", "--db", tmp_path / "b.db")
    assert done.code == 0, done.err
    assert f"{file.name}, line 2: no JSON" in done.err
    context = [call("context", "--db", tmp_path / name).out for name in ("a.db", "b.db")]
    assert context[0] == context[1]


def test_a_backup_is_made_and_put_back(db: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(db)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM messages LIMIT 1").fetchall()
        assert call("backup", copy, "--db", db, "--json").json["bytes"] > 10_000
        in_use = call("restore", copy, "--db", db, "--replace", "--yes")
        assert in_use.code == 1
        assert "in use" in in_use.err
    assert call("backup", copy, "--db", db).code == 1
    call("clear", "--db", db, "--session", "demo", "--messages", "--yes")
    assert call("restore", copy, "--db", db).code == 1
    declined = call("restore", copy, "--db", db, "--replace", input="")
    assert declined.code == 1
    assert len(call("sessions", "--db", db, "--json").json) == 1
    assert call("restore", copy, "--db", db, "--replace", "--yes").code == 0
    assert len(call("sessions", "--db", db, "--json").json) == 2
    assert call("restore", tmp_path / "nothing.db", "--db", tmp_path / "x.db").code == 1


@pytest.mark.req(41, 99)
def test_old_notes_are_purged_and_a_dry_run_purges_none(db: Path) -> None:
    everything = ["list", "--db", db, "--session", "demo", "--all", "--json"]
    before = call(*everything).json
    needs = call("prune", "--db", db)
    assert needs.code == 2
    assert "--older-than" in needs.err
    would = call("prune", "--db", db, "--older-than", "0", "--dry-run", "--json").json
    assert call(*everything).json == before
    done = call("prune", "--db", db, "--older-than", "0", "--json").json
    assert (done["rows"], done["pruned"]) == (would["rows"], True)
    assert len(call(*everything).json) <= len(before)
