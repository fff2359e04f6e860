"""`encrypt`, `decrypt` and `rekey`: the encryption of a database file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from onlooker.cli.screen import CommandError, Json, Screen, UsageError
from onlooker.cli.target import (
    DEFAULT_DATABASE,
    Database,
    Yes,
    database_path,
    existing_database,
    given_key,
    given_new_key,
)
from onlooker.stores.sqlite import encryption
from onlooker.stores.sqlite.key import Key

NO_KEY = "no key: use --key-file FILE, or set ONLOOKER_KEY or ONLOOKER_KEYRING in the environment"
NO_NEW_KEY = "no new key: use --new-key-file FILE, or set ONLOOKER_NEW_KEY in the environment"
SERVER = "encryption is up to the operator of the server"

NewKeyFile = Annotated[
    Path | None, typer.Option("--new-key-file", metavar="FILE", help="The new key (or ONLOOKER_NEW_KEY).")
]


def encrypt(screen: Screen, db: Database = DEFAULT_DATABASE, as_json: Json = False) -> None:
    """Encrypt a database file that no process has open.

    A key is 64 hexadecimal digits, or a passphrase. Without it, the database cannot be read again.
    """
    key = _key()
    _change(screen, db, as_json, "encrypted", lambda path: encryption.encrypt(path, key))


def decrypt(screen: Screen, db: Database = DEFAULT_DATABASE, yes: Yes = False, as_json: Json = False) -> None:
    """Decrypt a database file that no process has open.

    The command asks for confirmation.
    """
    key, path = _key(), database_path(db, advice=SERVER)
    question = f"Everyone with access to {path} will be able to read its content.\nDecrypt?"
    if not (yes or screen.confirm(question)):
        raise CommandError("nothing was decrypted")
    _change(screen, db, as_json, "decrypted", lambda path: encryption.decrypt(path, key))


def rekey(
    screen: Screen, new: NewKeyFile = None, db: Database = DEFAULT_DATABASE, as_json: Json = False
) -> None:
    """Change the key of a database file that no process has open."""
    key, other = _key(), given_new_key(new)
    if other is None:
        raise UsageError(NO_NEW_KEY)
    _change(screen, db, as_json, "rekeyed", lambda path: encryption.rekey(path, key, other))


def _key() -> Key:
    key = given_key()
    if key is None:
        raise UsageError(NO_KEY)
    return key


def _change(screen: Screen, db: str, as_json: bool, done: str, work: Callable[[Path], None]) -> None:
    path = database_path(db, advice=SERVER)
    existing_database(db)
    work(path)
    view = {"database": str(path), "done": done}
    screen.result(view, as_json, f"{path} is {done}. Backups and copies made before are unchanged.")
