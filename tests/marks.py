"""Which of many values of one test every change is tried with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

# Those that `make test` leaves to `make test-all`.
LONG = pytest.mark.long


def first(values: Iterable[Any], *, count: int = 1) -> list[Any]:
    """The first values for every change, the others for `make test-all`."""
    return [v if n < count else pytest.param(v, marks=LONG) for n, v in enumerate(values)]
