"""What one attack adds to the process must not change the next."""

from __future__ import annotations

import pytest

from tests.postgres.conftest import server

__all__ = ["server"]


@pytest.fixture(autouse=True)
def added_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onlooker.policy.secrets._more", {})
