"""The benchmark of scale runs on both stores, says everything that it should, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

BENCH = Path(__file__).parents[2] / "bench" / "scale.py"


@pytest.fixture
def folder() -> Iterator[Path]:
    # pytest's own folders are closed to the user that the server runs as.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_quick_run_measures_every_part(store: str, folder: Path, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = _run("--quick", "--store", store, "--folder", str(folder), "--json", str(figures))
    assert done.returncode == 0, done.stderr
    parts = json.loads(figures.read_text())["stores"][store]
    found = {figure["name"]: figure["value"] for part in parts.values() for figure in part}
    for call in ("append", "load", "record", "context"):
        assert 0 < found[f"{call}, p50"] <= found[f"{call}, p99"]
        assert found[f"{call}, p50 against the small database"] > 0
    for writers in ("1 writer", "8 writers", "32 writers"):
        for who in (
            "appends",
            "  each to another session",
            "  record, each to another session",
            "  bare driver",
        ):
            assert found[f"{who}, {writers}"] > 0
    assert found["on the disk, for each message"] > found["  of which its text"] > 0
    assert [value > 0 for name, value in found.items() if name.startswith("notes, ")] == [True, True]
    assert all(name in done.stdout for name in found)
    assert not list(folder.iterdir())


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(tmp_path: Path) -> None:
    done = _run("--store", "sqlite", "--messages", str(10**15), "--folder", str(tmp_path / "new"))
    assert done.returncode == 1
    assert "GB are free" in done.stderr
    assert "--folder" in done.stderr
    assert not list((tmp_path / "new").iterdir())
