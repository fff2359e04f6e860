"""What a command is about: its database, key, session and note."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from onlooker.cli.screen import NOT_THERE, WRONG_USE, Stop
from onlooker.cli.settings import load_settings
from onlooker.domain.notes import Note, NoteStatus, SessionSummary
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.policy.settings import Settings, preset
from onlooker.stores.sqlite.key import Key
from onlooker.wiring import POSTGRES, open_memory

DEFAULT_DATABASE = "onlooker.db"

Database = Annotated[
    str,
    typer.Option(
        "--db", envvar="ONLOOKER_DB", metavar="PATH", help="The database file, or a server: postgresql://…."
    ),
]
SessionKey = Annotated[
    str | None,
    typer.Option("--session", "-s", metavar="KEY", help="The session; not needed where there is only one."),
]
Owner = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Whose sessions.")]
Preset = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="default, lango or zora, in place of a settings file."),
]
Budget = Annotated[
    int | None, typer.Option("--budget", "-b", min=0, metavar="TOKENS", help="The most a context may cost.")
]
SystemPrompt = Annotated[
    str, typer.Option("--system", metavar="TEXT", help="The base prompt, before the memory.")
]


# ------------------------------------------------------------------------------------ keys


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


# ------------------------------------------------------------------------------------ opening


# How many sessions are named where one has to be chosen.
MOST_NAMED = 20


def chosen_settings(config: Path | None, named: str | None = None) -> Settings:
    """A preset by name, or the settings file, or the default preset."""
    return preset(named) if named else load_settings(config)


def database_path(db: str, instead: str = "") -> Path:
    """The file that `--db` names; `instead` says what to do with a server."""
    if db == ":memory:":
        raise Stop("--db :memory: keeps nothing to look at: name a file", WRONG_USE)
    if db.startswith(POSTGRES):
        advice = f"; {instead}" if instead else ""
        raise Stop(f"this command works on files, and --db names a server{advice}", WRONG_USE)
    return Path(db.removeprefix("sqlite:///"))


def there(db: str) -> str | Path:
    """What `--db` names, where it is a server, or a file that is there."""
    if db.startswith(POSTGRES):
        return db
    path = database_path(db)
    if not path.is_file():
        raise Stop(f"{path}: no such database (--db PATH or ONLOOKER_DB names another)", NOT_THERE)
    return path


@asynccontextmanager
async def existing(db: str, settings: Settings, *, by_meaning: bool = False) -> AsyncGenerator[Memory]:
    """The memory of a database that is there already, to be looked at.

    Looking creates no file, takes no notes and asks no model, whatever is due; only an embedder, for what is
    looked for `by_meaning`.
    """
    embedder = settings.embedder if by_meaning else ""
    still = replace(settings, enabled=False, model="", reflector_model="", embedder=embedder)
    place = there(db)
    async with open_memory(place, settings=still, key=key_for(place)) as memory:
        yield memory


async def find(memory: Memory, key: str | None, owner: str | None) -> tuple[Session, SessionSummary]:
    """The session that is meant: the one named, or the only one there is."""
    found = await memory.sessions(owner=owner, key=key, limit=MOST_NAMED + 1)
    if not found:
        which = "no session" if key is None else f"no session {key!r}"
        raise Stop(which + (f" of the owner {owner!r}" if owner else ""), NOT_THERE)
    if len(found) > 1:
        raise Stop(_choice(found, key), WRONG_USE)
    session = found[0].progress.session
    return memory.session(session.key, owner=session.owner), found[0]


def _choice(summaries: Sequence[SessionSummary], key: str | None) -> str:
    option = "--session KEY" if key is None else "--owner NAME"
    lines = [f"several sessions; say which with {option}:"]
    for summary in summaries[:MOST_NAMED]:
        session = summary.progress.session
        lines.append(f"  --session {quote(session.key)} --owner {quote(session.owner)}")
    if len(summaries) > MOST_NAMED:
        lines.append("  … and more: see `onlooker sessions`")
    return "\n".join(lines)


# ------------------------------------------------------------------------------------ naming


EVERY: tuple[NoteStatus, ...] = ("buffered", "active", "superseded", "retired")
# How many sessions are looked through for a note when no session is named.
MOST_SESSIONS = 1_000

NoteId = Annotated[str, typer.Argument(metavar="NOTE", help="The note's id.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


async def find_note(memory: Memory, note: str, key: str | None, owner: str | None) -> tuple[Session, Note]:
    """The note with that id, in the session named, or in the one that has it."""
    if key is not None:
        session, _ = await find(memory, key, owner)
        candidates = [session]
    else:
        summaries = await memory.sessions(owner=owner, limit=MOST_SESSIONS)
        ids = [summary.progress.session for summary in summaries]
        candidates = [memory.session(s.key, owner=s.owner) for s in ids]
    for session in candidates:
        for found in await session.notes(statuses=EVERY):
            if found.id == note:
                return session, found
    raise no_note(note)


def point(text: str) -> int | datetime:
    """A message's number, or a time; a day means its end."""
    if text.isdecimal():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Stop(
            f"--as-of {text!r}: a message's number, or a time such as 2026-02-16T14:00", WRONG_USE
        ) from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return at + timedelta(days=1, microseconds=-1) if len(text) <= len("2026-02-16") else at


def no_note(note: str) -> Stop:
    return Stop(f"no note {note!r}: `onlooker list --all` shows them", NOT_THERE)
