"""`doctor`, and what holds for the command line as a whole."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import call, make_database, run, write_transcript

import onlooker
import onlooker.blocking
from onlooker.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return make_database(tmp_path, "a", messages=30)


def wrong(*arguments: object) -> tuple[int, dict[str, str]]:
    """The exit code, and what is wrong by name with the advice."""
    done = call("doctor", *arguments, "--json")
    return done.code, {f["name"]: f["found"] + " " + f["advice"] for f in done.json if not f["ok"]}


def test_a_healthy_database_gets_a_clean_bill(db: Path) -> None:
    done = call("doctor", "--db", db)
    assert done.code == 0
    names = [line.split()[1].rstrip(":") for line in done.out.splitlines()]
    assert {"python", "sqlite", "settings", "database", "integrity", "schema", "sessions"} <= set(names)
    assert all(line.startswith("✓") for line in done.out.splitlines())


def test_a_database_that_is_not_there_yet_is_no_fault(tmp_path: Path) -> None:
    assert wrong("--db", tmp_path / "none.db") == (0, {})
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_without_marks_gets_words(tmp_path: Path) -> None:
    (tmp_path / "onlooker.db").write_text("no database at all " * 100)
    done = run("doctor", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.code == 1
    assert "ok  python" in done.out
    assert "BAD database: onlooker.db: " in done.out
    assert "file is not a database" in done.out
    assert "-> restore it from a backup" in done.out


def test_a_damaged_database_is_found(db: Path) -> None:
    content = bytearray(db.read_bytes())
    for start in range(8192, len(content) - 2048, 4096):
        content[start : start + 2048] = b"\x55" * 2048
    db.write_bytes(content)
    code, found = wrong("--db", db)
    assert code == 1
    assert {"integrity", "database"} & set(found)


# As someone whom permissions bind. The first call imports what this user may not read afterwards.
FORBIDDEN = """
import os, sys
from typer.testing import CliRunner
from onlooker.cli.app import app

folder, arguments = sys.argv[1], ["doctor", "--db", sys.argv[1] + "/memory.db"]
CliRunner().invoke(app(), arguments)
os.chmod(folder + "/memory.db", 0o444)
os.chmod(folder, 0o555)
if os.geteuid() == 0:
    os.setuid(65534)
print(CliRunner().invoke(app(), arguments).stdout)
"""


def test_a_file_that_may_not_be_written_needs_permission_and_no_backup() -> None:
    with tempfile.TemporaryDirectory() as folder:  # which anyone may enter
        with onlooker.blocking.open_memory(f"{folder}/memory.db") as memory:
            memory.session("a").record(onlooker.user("Hello."))
        try:
            done = subprocess.run(
                [sys.executable, "-c", FORBIDDEN, folder], capture_output=True, text=True, check=True
            )
        finally:
            os.chmod(folder, 0o755)
    assert "give this user permission to write the file and its folder" in done.stdout
    assert "restore it from a backup" not in done.stdout


def test_a_database_of_another_application_is_found(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute("CREATE TABLE cats (name TEXT)")
    assert wrong("--db", tmp_path / "x.db")[1].keys() == {"schema"}


def test_settings_that_cannot_work_are_found(db: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("[onlooker]\nbudget = -1\n")
    code, found = wrong("--db", db, "--config", tmp_path / "s.toml")
    assert code == 1
    assert "budget = -1" in found["settings"]


def test_a_message_from_the_future_is_found(tmp_path: Path) -> None:
    later = (datetime.now(UTC) + timedelta(days=400)).isoformat()
    said = [{"id": "1", "role": "user", "content": "hello", "created_at": later}]
    transcript = write_transcript(tmp_path / "t.jsonl", said)
    assert call("replay", transcript, "--db", tmp_path / "x.db").code == 0
    assert "clock" in wrong("--db", tmp_path / "x.db")[1]["last message"]


# ------------------------------------------------------------------------------------ as a whole


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app())
    return dict(group.commands)


def section(name: str) -> str:
    """What the page says under the command's own heading, and what holds for all of them."""
    text = PAGE.read_text(encoding="utf-8")
    shared = text.partition("## What all commands share")[2].partition("\n## demo")[0]
    own = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert own, f"docs/cli.md has no section for the command {name}"
    # What only some commands take must stand in their own section.
    always = shared.partition("Most take these as well")[0]
    return own[1] + always


@pytest.mark.parametrize("name", list(commands()))
def test_every_command_and_option_is_documented(name: str) -> None:
    text = section(name)
    for parameter in commands()[name].params:
        for option in parameter.opts:
            if option.startswith("-"):
                assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text), f"{name} {option}"


@pytest.mark.parametrize("name", list(commands()))
def test_no_option_is_documented_that_is_not_there(name: str) -> None:
    there = {option for parameter in commands()[name].params for option in parameter.opts} | {"--help"}
    assert set(re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", section(name))) <= there


@pytest.mark.parametrize("name", list(commands()))
def test_every_command_has_help(name: str) -> None:
    done = call(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: onlooker {name}")
    assert "..." not in re.sub(r"\[(ARGS|ID)\]\.\.\.", "", done.out)


def test_every_summary_fits_80_columns(tmp_path: Path) -> None:
    done = run("--help", cwd=tmp_path, COLUMNS="80")
    assert "..." not in done.out.replace("[ARGS]...", "")


def test_the_help_lists_the_commands_in_groups() -> None:
    listed = call("--help").out
    titles = re.findall(r"^(\w+):$", listed, re.MULTILINE)
    assert titles == ["Options", "Try", "Look", "Correct", "Move", "Run"]
    rows = re.findall(r"^  ([a-z]+)  +\S", listed, re.MULTILINE)
    assert sorted(rows) == sorted(commands())
    page = re.findall(r"^\| \[`(\w+)`\]", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert page == rows


@pytest.mark.parametrize("name", list(commands()))
def test_help_has_no_words_of_pythons_types(name: str) -> None:
    shown = call(name, "--help").out
    assert not re.search(r"[{}]|list\[|<(str|int|float)|\[\[", shown)


@pytest.mark.parametrize("arguments", [(), ("replay",)], ids=repr)
def test_help_fits_60_columns(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, "--help", cwd=tmp_path, COLUMNS="60")
    assert max(len(line) for line in done.out.splitlines()) <= 60


def test_the_version_is_that_of_the_package() -> None:
    assert call("--version").out == f"onlooker {onlooker.__version__}\n"


def test_an_unknown_command_or_option_is_exit_code_2() -> None:
    assert call("remember").code == 2
    assert call("list", "--colour").code == 2


def test_importing_the_library_imports_nothing_of_the_command_line() -> None:
    code = (
        "import sys, onlooker; print(sorted({'typer', 'rich', 'tomlkit', 'onlooker.cli'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_reader_that_leaves_early_is_no_error(db: Path) -> None:
    command = f'"{sys.executable}" -m onlooker list --all --db "{db}" | head -n 1'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_verbose_logs_what_happens(db: Path, tmp_path: Path) -> None:
    assert call("status", "--db", db, "-vv").code == 0
    quiet = call("sessions", "--db", db, "--owner", "nobody", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
