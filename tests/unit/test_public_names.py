"""What `import onlooker` gives, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import onlooker

PUBLIC = [
    "Context",
    "Item",
    "Key",
    "Layer",
    "Memory",
    "Message",
    "Note",
    "OnlookerError",
    "Session",
    "Settings",
    "StoreError",
    "Timing",
    "assistant",
    "connect",
    "from_mapping",
    "migrate",
    "open_memory",
    "preset",
    "system",
    "tool",
    "use_session",
    "user",
]

# What only the command line, a test or an extra needs, or is slow to import.
HEAVY = ("typer", "rich", "tomlkit", "tiktoken", "click", "pytest", "hypothesis", "onlooker.cli", "numpy")


def test_the_public_names_are_these_and_no_others() -> None:
    assert onlooker.__all__ == PUBLIC


def test_each_of_them_is_there() -> None:
    assert all(hasattr(onlooker, name) for name in PUBLIC)


def test_a_name_is_public_in_one_place_besides_the_errors() -> None:
    assert not set(onlooker.types.__all__) & {*PUBLIC, *onlooker.errors.__all__}


def test_importing_brings_in_nothing_that_only_the_command_line_needs() -> None:
    script = f"import sys, onlooker; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_blocking_facade_brings_in_no_more() -> None:
    script = f"import sys, onlooker.blocking; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
