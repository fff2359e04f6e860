"""The benchmark beside LangChain's own middleware, small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "beside_langchain.py"


@pytest.mark.long
def test_a_short_run_measures_each_middleware(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH), "--turns", "40", "--speed", "3000"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    rows = {line.split(" | ")[0]: line.split(" | ") for line in done.stdout.splitlines()[2:]}
    history, summary, ours = (rows[f"| {name}"] for name in _NAMES)
    assert [row[6] for row in (history, summary, ours)] == ["4 of 4"] * 3
    # The one rewrites what the graph stores, the other does not.
    assert summary[7].startswith("88 of 88") is False
    assert ours[7].startswith("88 of 88")
    # Both wrote something, and ours stays in its budget.
    assert " in 0" in history[4]
    assert " in 0" not in summary[4]
    assert " in 0" not in ours[4]
    assert int(ours[3].partition("at most ")[2].rstrip(")").replace(",", "")) <= 4_000


_NAMES = ("the whole history", "SummarizationMiddleware", "OnlookerMiddleware")
