"""Names of marks that frameworks' own tests use."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "benchmark: of LangChain's tests, which measure nothing here")
