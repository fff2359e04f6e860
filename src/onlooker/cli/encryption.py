"""`encrypt`, `decrypt` and `rekey`: the encryption of a database file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from onlooker.cli.screen import NOT_THERE, WRONG_USE, Json, Screen, Stop
from onlooker.cli.target import DEFAULT_DATABASE, Database, Yes, chosen_key, database_path, new_key
from onlooker.stores.sqlite import ciphering
from onlooker.stores.sqlite.key import Key

NO_KEY = "say where the key is: --key-file FILE, or ONLOOKER_KEY or ONLOOKER_KEYRING in the environment"
NO_NEW_KEY = "say where the new key is: --new-key-file FILE, or ONLOOKER_NEW_KEY in the environment"
SERVER = "what a server keeps is encrypted where it keeps it: ask whoever runs it"


def encrypt(screen: Screen, db: Database = DEFAULT_DATABASE, as_json: Json = False) -> None:
    """Encrypt a database that is there. Nobody may have it open.

    A key is 64 hexadecimal digits, or a passphrase. Without it nobody reads the database again.
    """
    key = _key()
    _done(screen, db, as_json, "encrypted", lambda path: ciphering.encrypt(path, key))


def decrypt(screen: Screen, db: Database = DEFAULT_DATABASE, yes: Yes = False, as_json: Json = False) -> None:
    """Make an encrypted database a plain one again, after asking. Nobody may have it open."""
    key, path = _key(), database_path(db, SERVER)
    if not (yes or screen.confirm(f"Whoever can read {path} then reads what is in it.\nDecrypt?")):
        raise Stop("nothing was decrypted", NOT_THERE)
    _done(screen, db, as_json, "decrypted", lambda path: ciphering.decrypt(path, key))


def rekey(
    screen: Screen,
    new: Annotated[
        Path | None, typer.Option("--new-key-file", metavar="FILE", help="The new key (or ONLOOKER_NEW_KEY).")
    ] = None,
    db: Database = DEFAULT_DATABASE,
    as_json: Json = False,
) -> None:
    """Encrypt a database with another key. Nobody may have it open."""
    key, other = _key(), new_key(new)
    if other is None:
        raise Stop(NO_NEW_KEY, WRONG_USE)
    _done(screen, db, as_json, "rekeyed", lambda path: ciphering.rekey(path, key, other))


def _key() -> Key:
    key = chosen_key()
    if key is None:
        raise Stop(NO_KEY, WRONG_USE)
    return key


def _done(screen: Screen, db: str, as_json: bool, what: str, work: Callable[[Path], None]) -> None:
    path = database_path(db, SERVER)
    if not path.is_file():
        raise Stop(f"{path}: no such database (--db PATH or ONLOOKER_DB names another)", NOT_THERE)
    work(path)
    if as_json:
        screen.json({"database": str(path), "done": what})
    else:
        screen.say(f"{path} is {what}. Backups and copies made before are as they were.")
