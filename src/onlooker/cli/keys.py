"""The key of an encrypted database. No option takes the key itself: whoever lists processes would see it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from onlooker.stores.sqlite.key import Key

KEY_FILE = "ONLOOKER_KEY_FILE"
KEY = "ONLOOKER_KEY"
KEYRING = "ONLOOKER_KEYRING"

_file: ContextVar[Path | None] = ContextVar("key_file", default=None)


@contextmanager
def key_file(file: Path | None) -> Generator[None]:
    """While a command runs: the file that `--key-file` names."""
    before = _file.set(file)
    try:
        yield
    finally:
        _file.reset(before)


def key_for(db: str | Path) -> Key | None:
    """The key to open a database with, where it is a file and a key was given."""
    text = str(db).removeprefix("sqlite:///")
    return None if text == ":memory:" or "://" in text else chosen_key()


def chosen_key() -> Key | None:
    """From the file, the environment or the key ring, whichever is named first."""
    if file := _file.get():
        return Key.from_file(file)
    return _from_environment(KEY, KEYRING)


def new_key(file: Path | None) -> Key | None:
    """The key that is to take the place of another."""
    return Key.from_file(file) if file else _from_environment("ONLOOKER_NEW_KEY", "ONLOOKER_NEW_KEYRING")


def _from_environment(key: str, ring: str) -> Key | None:
    if os.environ.get(key):
        return Key.from_environment(key)
    if name := os.environ.get(ring):
        service, _, user = name.partition(":")
        return Key.from_keyring(service, user) if user else Key.from_keyring(service)
    return None
