"""Three workers and two writers on one PostgreSQL, killed and stopped at random; and the server itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.acceptance.chaos import Chaos, chaos, length
from tests.postgres.server import Server

pytestmark = [pytest.mark.long, pytest.mark.alone]

# A disk that is told to keep what it is given, as in production.
DURABLE = ("shared_buffers=32MB", "max_connections=120", "log_min_messages=fatal")
ROUNDS = 4


@pytest.mark.req(42, 43, 97)
def test_workers_and_writers_lose_nothing_however_they_are_killed_and_stopped(
    server: Server, tmp_path: Path
) -> None:
    seconds = length()
    lease = 2.0 if seconds < 60 else 6.0  # short enough that several run out in the time there is
    with chaos(tmp_path, server.new_url(pool="4"), workers="queue", lease=lease) as running:
        running.torment(seconds)
        figures = running.figures
    assert min(figures.kills.total(), figures.stops.total()) >= seconds / 12
    # Notes were taken all along; how many depends on what the machine has time for.
    assert figures.chunks > figures.messages / 20


@pytest.mark.req(42, 97)
def test_no_acknowledged_append_is_lost_when_the_server_is_killed_again_and_again(tmp_path: Path) -> None:
    with Server(DURABLE) as own:
        url = own.url(schema="onlooker", pool="4", wait="2")
        with chaos(tmp_path, url, workers="queue", lease=2.0, pause=0.005) as running:
            for _ in range(ROUNDS):
                _go_on_for(running, 150)
                own.kill()
                time.sleep(0.5)
                own.start()
            # Nobody was started anew: writers and workers found their way back by themselves.
            _go_on_for(running, 150)
            figures = running.figures
        assert figures.messages > 150 * ROUNDS


def _go_on_for(running: Chaos, calls: int) -> None:
    enough, deadline = running.acknowledged + calls, time.monotonic() + 120
    while running.acknowledged < enough:
        assert time.monotonic() < deadline, "writers do not find back"
        time.sleep(0.05)
