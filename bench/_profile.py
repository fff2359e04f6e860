"""Where the CPU time of a turn goes, by what is done.

Every thread has a profile of its own, on its own CPU clock, so that waiting counts nowhere. Profiling slows
small functions down more than large ones: the shares are its own, the time they are shares of is measured
without it.
"""

from __future__ import annotations

import cProfile
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import cast

# The first that is part of a file's path names what its functions do. A function of Python or its libraries
# counts for its caller, except those of the next list.
_BY_FILE = (
    ("onlooker/models", "writing notes"),
    ("onlooker/policy/dates", "writing notes"),
    ("onlooker/policy/text", "writing notes"),
    ("onlooker/policy/reply", "checking notes"),
    ("onlooker/policy/values", "checking notes"),
    ("onlooker/policy/tokens", "counting tokens"),
    ("onlooker/policy/assemble", "layout of the context"),
    ("onlooker/policy/layers", "layout of the context"),
    ("onlooker/policy/render", "layout of the context"),
    ("onlooker/policy/search", "recall and items"),
    ("onlooker/policy/items", "recall and items"),
    ("onlooker/engine/recall", "recall and items"),
    ("onlooker/engine/items", "recall and items"),
    ("onlooker/engine/indexing", "recall and items"),
    ("onlooker/policy", "other decisions"),
    ("onlooker/domain", "other decisions"),
    ("onlooker/stores", "the store, in Python"),
    ("onlooker/engine", "the engine"),
    ("onlooker", "other"),
    ("/json/", "JSON"),
    ("/asyncio/", "hand-over between tasks and threads"),
    ("/concurrent/", "hand-over between tasks and threads"),
    ("/threading.py", "hand-over between tasks and threads"),
    ("/queue.py", "hand-over between tasks and threads"),
    ("/selectors.py", "hand-over between tasks and threads"),
    ("/contextlib.py", "hand-over between tasks and threads"),
)
_BY_NAME = (("sqlite3", "SQLite: statements"), ("json", "JSON"))
# The function that begins a transaction and commits it.
_TRANSACTION = ("onlooker/stores/sqlite/", "_transaction")

Function = tuple[str, int, str]
# Calls without and with those of itself, the time of its own, and the time with those it calls.
Timing = tuple[int, int, float, float]
Functions = dict[Function, tuple[int, int, float, float, dict[Function, Timing]]]


class Profile:
    """Of all threads that are started while it is on, and of the one that starts it."""

    def __init__(self) -> None:
        self._profiles: list[tuple[str, cProfile.Profile]] = []

    def __enter__(self) -> Profile:
        threading.setprofile(self._begin)
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        threading.setprofile(None)  # pyright: ignore[reportArgumentType]
        for _name, profile in self._profiles:
            profile.disable()

    def _begin(self, *_: object) -> None:
        profile = cProfile.Profile(time.thread_time)
        self._profiles.append((threading.current_thread().name, profile))
        profile.enable()

    def shares(self) -> dict[str, float]:
        """What part of the CPU time went into what, the largest first."""
        spent: dict[str, float] = defaultdict(float)
        for _, functions in self._threads():
            for function, (_, _, own, _, callers) in functions.items():
                if function[0] != "~" and (group := _group(function)):
                    spent[group] += own
                    continue
                # What Python itself does, it does for whoever calls it.
                for caller, timing in callers.items():
                    spent[_built_in(function, caller)] += timing[2]
        return _parts(spent)

    def threads(self) -> dict[str, float]:
        """What part of it each kind of thread took."""
        spent: dict[str, float] = defaultdict(float)
        for name, functions in self._threads():
            spent[re.sub(r"[_-]?\d+.*", "", name)] += sum(timing[2] for timing in functions.values())
        return _parts(spent)

    def top(self) -> dict[str, float]:
        """The functions, by the time of their own."""
        spent: dict[str, float] = defaultdict(float)
        for _, functions in self._threads():
            for function, timing in functions.items():
                spent[_shown(function)] += timing[2]
        return _parts(spent)

    def _threads(self) -> list[tuple[str, Functions]]:
        found: list[tuple[str, Functions]] = []
        for name, profile in self._profiles:
            profile.create_stats()
            found.append((name, cast("Functions", profile.stats)))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        return found


def _parts(spent: dict[str, float]) -> dict[str, float]:
    whole = sum(spent.values())
    return {name: seconds / whole for name, seconds in sorted(spent.items(), key=lambda item: -item[1])}


def _group(function: Function) -> str | None:
    return _first(_BY_FILE, function[0])


def _built_in(function: Function, caller: Function) -> str:
    if _TRANSACTION[0] in caller[0] and caller[2] == _TRANSACTION[1] and "sqlite3" in function[2]:
        return "SQLite: begin and commit"
    return _first(_BY_NAME, function[2]) or _group(caller) or "Python itself and its libraries"


def _first(table: tuple[tuple[str, str], ...], text: str) -> str | None:
    return next((group for part, group in table if part in text), None)


def _shown(function: Function) -> str:
    file, line, name = function
    return name if file == "~" else f"{'/'.join(file.split('/')[-2:])}:{line} {name}"


def profiled(work: Callable[[], None]) -> Profile:
    with Profile() as profile:
        work()
    return profile
