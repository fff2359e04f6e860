"""Ids of messages and notes that come without one: no two alike, whatever the host does."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest

from onlooker.domain.messages import new_id

AT = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)

_FORK = """
import os
from datetime import UTC, datetime
from onlooker.domain.messages import new_id

at = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)
child = os.fork()
os.write(1, f"{new_id('obs', at)}\\n".encode())
if child:
    os.waitpid(child, 0)
"""


def test_ids_of_one_moment_differ_and_say_when_it_was() -> None:
    made = [new_id("obs", AT) for _ in range(1_000)]
    assert len(set(made)) == 1_000
    assert all(ident.startswith("obs_20260216T140000000000_") for ident in made)
    assert {len(ident) for ident in made} == {len("obs_20260216T140000000000_") + 12}


@pytest.mark.req(40)
def test_ids_sort_by_time_in_whatever_zone_a_clock_tells_it() -> None:
    hours = (14, 3, 0, -5, -11)
    times = [AT.astimezone(timezone(timedelta(hours=h))) + timedelta(seconds=n) for n, h in enumerate(hours)]
    made = [new_id("obs", at) for at in times]
    assert made == sorted(made)


def test_a_host_that_seeds_its_chance_gets_no_id_twice() -> None:
    state = random.getstate()
    try:
        random.seed(1)
        first = new_id("obs", AT)
        random.seed(1)
        assert new_id("obs", AT) != first
    finally:
        random.setstate(state)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_process_and_its_fork_make_different_ids() -> None:
    made = subprocess.check_output([sys.executable, "-c", _FORK], text=True).split()
    assert len(made) == len(set(made)) == 2
