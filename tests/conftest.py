"""What every test shares: the event loop, and how hard hypothesis looks."""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, settings

# In CI the same examples each time, so that a change is judged by what it changed.
settings.register_profile("default", max_examples=60, deadline=None, derandomize="CI" in os.environ)
# Many examples, and the first that fails is enough.
settings.register_profile(
    "mutation", max_examples=400, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("ONLOOKER_HYPOTHESIS", "default"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
