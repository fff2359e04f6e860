"""The benchmark of recall says what it lacks, and breaks no run of all benchmarks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

BENCH = Path(__file__).parents[2] / "bench" / "recall.py"


def test_without_the_files_there_is_nothing_to_measure(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH), "--data", str(tmp_path), "--quality", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "--quality" in done.stderr
