"""The benchmark of the notes runs on any two files of the right form, and says what it lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

BENCH = Path(__file__).parents[2] / "bench" / "notes.py"


def chat() -> dict[str, Any]:
    """Two people over two evenings, in LoCoMo's form."""
    sitting = [
        {
            "dia_id": f"D{{n}}:{i}",
            "speaker": "Ana" if i % 2 else "Ben",
            "text": f"I booked the cabin at Rondane for {i} nights; ferry number {i * 11} costs {i * 40} kr.",
        }
        for i in range(1, 41)
    ]
    said: dict[str, Any] = {"speaker_a": "Ana", "speaker_b": "Ben"}
    for n, day in ((1, "7 May, 2023"), (2, "9 May, 2023")):
        said[f"session_{n}_date_time"] = f"1:56 pm on {day}"
        said[f"session_{n}"] = [turn | {"dia_id": turn["dia_id"].format(n=n)} for turn in sitting]
    return {"sample_id": "cabin", "conversation": said, "qa": []}


def call() -> dict[str, Any]:
    """One customer and an agent with a tool, in tau's form."""
    steps: list[dict[str, Any]] = [{"role": "system", "content": "You are an airline agent."}]
    for i in range(8):
        asked = {"name": "get_reservation", "arguments": json.dumps({"reservation_id": f"M05KN{i}"})}
        steps += [
            {"role": "user", "content": f"Please look at reservation M05KN{i}, seat {i}A."},
            {"role": "assistant", "content": None, "tool_calls": [_called(f"call_{i}", asked)]},
            {
                "role": "tool",
                "name": "get_reservation",
                "tool_call_id": f"call_{i}",
                "content": '{"paid": 240}',
            },
            {"role": "assistant", "content": f"Reservation M05KN{i} is paid."},
        ]
    return {"task_id": 1, "trial": 0, "traj": steps}


def _called(id: str, function: dict[str, str]) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": function}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "locomo-dev.json").write_text(json.dumps([chat()]))
    (tmp_path / "tau-airline-dev.json").write_text(json.dumps([call()]))
    return tmp_path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.req(104)
def test_every_preset_is_measured_with_a_language_model_and_without(data: Path) -> None:
    found = run("--quick", "--json", "--data", str(data))
    assert found.returncode == 0, found.stderr
    tables = json.loads(found.stdout)
    assert list(tables) == ["A language model", "The built-in model"]
    for rows in tables.values():
        assert {row["row"].split(", ")[2] for row in rows} >= {"default", "lango"}
        assert any(row["row"].endswith("zora") for row in rows)
        assert all(row["left_out"] == 0 for row in rows)
        assert all(0 < row["prefix_reuse"] <= 1 for row in rows)
        small = next(row for row in rows if row["row"].endswith("4,000"))
        assert small["observations"] > 0


def test_a_model_that_loses_values_has_them_brought_back(data: Path) -> None:
    found = run("--dropping", "--json", "--data", str(data))
    assert found.returncode == 0, found.stderr
    (rows,) = json.loads(found.stdout).values()
    kept = {row["row"]: row["agent_values"] for row in rows}
    assert kept["vague, as written"] < kept["vague, audited"]


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    found = run("--quick", "--data", str(tmp_path))
    assert found.returncode == 1
    assert f"{tmp_path / 'locomo-dev.json'} is not there: name the folder" in found.stderr
