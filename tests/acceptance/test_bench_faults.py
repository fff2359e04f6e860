"""The table of faults, small: nothing is lost, doubled or left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

BENCH = Path(__file__).parents[2] / "bench" / "faults.py"


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH), "--check", "--turns", "25", "--budget", "2000", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=folder)


def test_no_fault_of_a_model_loses_or_doubles_a_message(tmp_path: Path) -> None:
    done = run(folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    assert {tuple(row[1:4]) for row in rows} == {("0", "0", "0")}
    assert all(int(row[5].rstrip("| ")) for row in rows)
