"""Three processes that take notes and two that record, on one SQLite file, killed and stopped at random."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.acceptance.chaos import chaos, length

pytestmark = [pytest.mark.long, pytest.mark.alone]


@pytest.mark.req(42, 43, 97)
def test_processes_on_one_file_lose_nothing_however_they_are_killed_and_stopped(tmp_path: Path) -> None:
    seconds = length()
    with chaos(tmp_path, str(tmp_path / "memory.db"), workers="embedded", lease=_lease(seconds)) as running:
        running.torment(seconds)
        figures = running.figures
    assert min(figures.kills.total(), figures.stops.total()) >= seconds / 12
    # Notes were taken all along; how many depends on what the machine has time for.
    assert figures.chunks > figures.messages / 20


def _lease(seconds: float) -> float:
    """Short enough that several run out in the time there is."""
    return 2.0 if seconds < 60 else 6.0
