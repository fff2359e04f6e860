"""`demo`: what a stranger sees first."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from command_line import call, environment, run

from onlooker.cli.demo import ASCII, CODE, Point, plot


def test_the_demo_works_in_a_pipe_at_60_columns_and_in_ascii_and_can_keep_its_database(
    tmp_path: Path,
) -> None:
    piped = run("demo", "--keep", "kept.db", cwd=tmp_path, COLUMNS="60", PYTHONIOENCODING="ascii")
    assert piped.code == 0, piped.err
    picture, _, rest = piped.out.partition("The memory at the end")
    opening = (
        "493 messages in nine days, and a prompt of at most 8,000 tokens. What does Ana's assistant still"
    )
    assert picture.replace("\n", " ").startswith(opening)
    still = re.search(r"Since 2026-02-09 it knows (.+)\)\.", picture.replace("\n", " "))
    assert still, picture
    prompt = call("context", "--db", tmp_path / "kept.db").out
    assert [value in prompt for value in re.findall(r"\(([^)]+)", still[1])] == [True] * 3
    assert "\x1b" not in piped.out
    assert max(len(line) for line in picture.splitlines()) <= 60
    assert ". raw tokens   # context tokens" in picture
    assert "## Conversation Memory" in rest
    assert "493, 0 lost" in rest
    asked = rest.partition("And what if Ana asks now?")[2].replace("\n", " ")
    assert '"What do we never do on Fridays?"' in asked
    assert (
        "tokens, has the answer, from 2026-02-09:     CRITICAL Ana: One rule: we never deploy on Fridays."
        in asked
    )
    assert re.search(r"\d+/493 messages  raw [\d,]+  context [\d,]+", piped.err)
    assert "onlooker list --db kept.db" in piped.out
    (kept,) = call("status", "--db", tmp_path / "kept.db", "--json").json
    assert (kept["session_key"], kept["messages"]) == ("demo", 493)


def test_the_demo_keeps_no_database_over_another(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("precious")
    done = call("demo", "--keep", tmp_path / "x.db")
    assert done.code == 2
    assert (tmp_path / "x.db").read_text() == "precious"


def test_the_demo_keeps_its_budget_and_loses_nothing() -> None:
    done = call("demo", "--json")
    report: dict[str, Any] = done.json
    assert done.err == ""
    assert report["messages"] == 493
    assert report["messages_lost"] == 0
    assert report["most_context_tokens"] <= 8000 < report["raw_tokens"]
    assert report["compression"] > 4
    assert report["prefix_reuse"] > 0.7
    assert report["values_kept"] / report["values"] >= 0.7
    assert report["seconds"] > 0
    assert "we never deploy on Fridays" in report["asked"]["line"]
    assert report["asked"]["tokens"] <= 8000


@pytest.mark.long
def test_the_demo_draws_on_a_terminal(tmp_path: Path) -> None:
    process, terminal = pty.fork()
    if process == 0:
        command = [sys.executable, "-m", "onlooker", "demo"]
        os.execve(sys.executable, command, environment(TERM="xterm-256color", PYTHONIOENCODING="utf-8"))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 90, 0, 0))
    seen = b""
    try:
        while chunk := os.read(terminal, 65536):
            seen += chunk
    except OSError:  # what Linux says when the other side has gone
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    shown = seen.decode()
    assert "of 493" in shown  # the live view
    assert "░ raw tokens   █ context tokens" in shown
    assert "\x1b[1m" in shown


def test_the_three_lines_at_its_end_work_as_pasted(tmp_path: Path) -> None:
    assert CODE.count("\n") == 3
    pasted = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=True
    )
    assert "I moved to Oslo" in pasted.stdout
    assert pasted.stderr == ""
    assert call("status", "--db", tmp_path / "agent.db", "--json").json[0]["messages"] == 1


def test_the_picture_shows_what_was_said_behind_what_was_received() -> None:
    points = [Point(f"2026-02-{1 + i // 10:02}", 100 * i, min(100 * i, 500)) for i in range(1, 31)]
    lines = plot(points, width=40, height=6, ink=ASCII).splitlines()
    assert max(map(len, lines)) <= 40
    area = [line.partition("|")[2] for line in lines[:6]]
    assert area[0].endswith(".")
    assert "#" not in "".join(area[:5])
    assert set(area[5]) == {"#"}
    assert lines[-2].split() == ["02-01", "02-02", "02-03"]
