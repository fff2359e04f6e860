"""Ids of notes, messages and items."""

from __future__ import annotations

import os
import random
from datetime import datetime

# The operating system's random source releases the interpreter lock, and under load every `record` would wait
# for it again. A generator of our own, since hosts seed the shared one; reseeded after a fork.
_random = random.Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def new_id(kind: str, at: datetime) -> str:
    """A readable id that sorts by time, such as `obs_20260216T090000000000_1f2e3d4c5b6a`."""
    return f"{kind}_{at:%Y%m%dT%H%M%S%f}_{_random.getrandbits(48):012x}"
