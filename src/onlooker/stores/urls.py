"""The store that a URL names: a file of SQLite, a database of PostgreSQL, or memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from onlooker.domain.errors import SettingsError
from onlooker.ports import Store

if TYPE_CHECKING:
    from onlooker.stores.sqlite.key import Key

POSTGRES = ("postgresql://", "postgres://")


def make_store(
    url: str | Path | Store, key: Key | str | bytes | None, *, or_read_only: bool = False
) -> Store:
    """Make the store that a URL names; a store itself is returned unchanged. With `or_read_only`, a file that
    this user may not write can be opened as well."""
    if key is not None and not is_file(url):
        raise SettingsError("key", "…", "encrypts an SQLite file: name one, or leave the key out")
    if not isinstance(url, str | Path):
        if not callable(getattr(url, "open", None)):
            what = 'must be a file, "postgresql://USER@HOST/DATABASE", ":memory:" or a store'
            raise SettingsError("url", url, what)
        return url
    # A store is imported when it is chosen, so that the others cost nothing.
    text = str(url)
    if is_postgres(text):
        return _postgres(text)
    refuse_unknown(text)
    from onlooker.stores.sqlite import SqliteStore
    from onlooker.stores.sqlite.key import key_of

    return SqliteStore(file_of(text), key=key_of(key), or_read_only=or_read_only)


def refuse_unknown(url: str) -> None:
    """Refuse a URL that names no store: another kind of address, or a connection string of libpq.

    Raises:
        SettingsError: It is neither a file nor an address that we know.
    """
    if "://" in url.removeprefix("sqlite:///") or _CONNECTION_WORDS.search(url):
        what = 'a file, "sqlite:///FILE", "postgresql://USER@HOST/DATABASE" or ":memory:"'
        raise SettingsError("url", shown(url), f"must be {what}")


# A connection string such as `host=db password=…` would become the name of a file.
_CONNECTION_WORDS = re.compile(r"(?i)\b\w*pass\w*\s*=|\bpwd\s*=")


def shown(url: str) -> str:
    """An address for messages, without anything that may be a password: only its scheme."""
    scheme, found, _ = url.partition("://")
    return f"{scheme if found and scheme.replace('+', '').isalnum() else ''}://…"


def _postgres(url: str) -> Store:
    try:
        from onlooker.stores.postgres import PostgresStore
    except ModuleNotFoundError as error:
        raise needs_postgres("url", shown(url), error) from None
    return PostgresStore(url)


def needs_postgres(key: str, value: str, error: ModuleNotFoundError) -> SettingsError:
    """The error that says which extra to install."""
    return SettingsError(
        key, value, f'needs an extra: pip install "onlooker[postgres]" ({error.name} is missing)'
    )


def is_postgres(url: str | Path | Store) -> bool:
    return isinstance(url, str | Path) and str(url).startswith(POSTGRES)


def file_of(url: str | Path | Store) -> Path:
    """The file that a URL of SQLite names."""
    return Path(str(url).removeprefix("sqlite:///"))


def is_file(url: str | Path | Store) -> bool:
    return (
        isinstance(url, str | Path)
        and str(url) != ":memory:"
        and "://" not in str(url).removeprefix("sqlite:///")
    )
