"""One server for all tests of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres.server import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server
