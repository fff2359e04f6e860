"""The database, key, settings, session and note that a command works on."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from onlooker.cli.screen import CommandError, UsageError
from onlooker.cli.settings import ConfigFile, load_settings
from onlooker.domain.errors import SettingsError
from onlooker.domain.items import ITEM_STATUSES
from onlooker.domain.notes import NOTE_STATUSES, Note, SessionSummary
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.policy.settings import Settings
from onlooker.stores.sqlite.key import Key
from onlooker.stores.urls import POSTGRES, make_store, refuse_unknown
from onlooker.wiring import open_memory

DEFAULT_DATABASE = "onlooker.db"

Database = Annotated[
    str,
    typer.Option(
        "--db", envvar="ONLOOKER_DB", metavar="PATH", help="The database file, or a postgresql:// address."
    ),
]
NoteId = Annotated[str, typer.Argument(metavar="NOTE", help="The id of the note.")]
Budget = Annotated[
    int | None, typer.Option("--budget", "-b", min=0, metavar="TOKENS", help="The limit of the context.")
]
SystemPrompt = Annotated[
    str, typer.Option("--system", metavar="TEXT", help="The base prompt, placed before the memory.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")]

# How many sessions an error message lists.
MAX_LISTED = 20
# How many sessions are searched for a note or an owner if no session is named.
MAX_SESSIONS = 10_000


# ------------------------------------------------------------------------------------ the database


def database_path(db: str, *, advice: str = "") -> Path:
    """Return the file that `--db` names. `advice` says what to do with a server instead."""
    if db == ":memory:":
        raise UsageError("--db :memory: stores nothing: name a file")
    if not db:
        raise UsageError("--db is empty: name a file")
    if is_server(db):
        raise UsageError("--db names a server, and this command needs a file" + (advice and f"; {advice}"))
    try:
        refuse_unknown(db)
    except SettingsError as error:
        raise UsageError(f"--db {error.value}: {error.allowed}") from None
    return Path(db.removeprefix("sqlite:///"))


def existing_database(db: str) -> str | Path:
    """Return what `--db` names: a server, or a file that exists."""
    if is_server(db):
        return db
    path = database_path(db)
    if path.is_dir():
        raise CommandError(f"{path}: is a folder; name a database file in it with --db PATH or ONLOOKER_DB")
    if not path.is_file():
        raise CommandError(f"{path}: no such database (set --db PATH or ONLOOKER_DB)")
    if not path.stat().st_size:
        raise CommandError(f"{path}: is empty, and no database (set --db PATH or ONLOOKER_DB)")
    return path


def is_server(db: str) -> bool:
    """Whether `--db` names a PostgreSQL server and not a file."""
    return db.startswith(POSTGRES)


@asynccontextmanager
async def open_without_notes(
    place: str | Path, settings: Settings, *, models: bool = False, embedder: bool = False
) -> AsyncGenerator[Memory]:
    """Open a database without taking notes that are due, and without calling models. One that this user may
    only read is opened too.

    `models` and `embedder` allow those that the settings name.
    """
    settings = replace(settings, enabled=False)
    if not models:
        settings = replace(settings, model="", reflector_model="")
    if not embedder:
        settings = replace(settings, embedder="")
    store = make_store(place, key_for(place), or_read_only=True)
    async with open_memory(store, settings=settings) as memory:
        yield memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An existing database, and the settings to open it with.

    Each field is an option. A command that takes a target gets its options.
    """

    db: Database = DEFAULT_DATABASE
    config: ConfigFile = None

    def settings(self) -> Settings:
        """Load the settings file."""
        return load_settings(self.config)

    @asynccontextmanager
    async def open(self, *, embedder: bool = False) -> AsyncGenerator[Memory]:
        """Open the database to look at or correct it. Creates no file, takes no notes, calls no model."""
        settings = self.settings()
        async with open_without_notes(existing_database(self.db), settings, embedder=embedder) as memory:
            yield memory


# ------------------------------------------------------------------------------------ the session


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTarget(Target):
    """A session of an existing database."""

    session: Annotated[
        str | None,
        typer.Option("--session", "-s", metavar="KEY", help="The session; optional if there is only one."),
    ] = None
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="The owner of the session.")
    ] = None

    async def find(self, memory: Memory) -> tuple[Session, SessionSummary]:
        """Return the session named, or the only one."""
        found = await memory.sessions(owner=self.owner, key=self.session, limit=MAX_LISTED + 1)
        if not found:
            raise await no_such_session(memory, self.session, self.owner)
        if len(found) > 1:
            raise UsageError(_choices(found, self.session))
        session = found[0].progress.session
        return memory.session(session.key, owner=session.owner), found[0]

    async def find_note(self, memory: Memory, note: str) -> tuple[Session, Note]:
        """Return the note and its session. Without --session, every session is searched."""
        if self.session is not None:
            sessions = [(await self.find(memory))[0]]
        else:
            summaries = await memory.sessions(owner=self.owner, limit=MAX_SESSIONS)
            ids = [summary.progress.session for summary in summaries]
            sessions = [memory.session(i.key, owner=i.owner) for i in ids]
        for session in sessions:
            for found in await session.notes(statuses=NOTE_STATUSES):
                if found.id == note:
                    return session, found
        raise no_such_note(note)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTarget(SessionTarget):
    """An existing database, or only one owner or session of it."""

    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="KEY", help="Only this session.")
    ] = None
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this owner.")] = None


def _choices(summaries: Sequence[SessionSummary], key: str | None) -> str:
    option = "--session KEY" if key is None else "--owner NAME"
    lines = [f"several sessions; choose one with {option}:"]
    for summary in summaries[:MAX_LISTED]:
        session = summary.progress.session
        lines.append(f"  --session {quote(session.key)} --owner {quote(session.owner)}")
    if len(summaries) > MAX_LISTED:
        lines.append("  … and more: see `onlooker sessions`")
    return "\n".join(lines)


async def find_owner(
    memory: Memory, owner: str | None, session: str | None = None, *, default: str | None = None
) -> str:
    """Return the owner named, or the only one, or the default if there are no sessions."""
    if owner is not None and session is None:
        return owner
    summaries = await memory.sessions(owner=owner, key=session, limit=MAX_SESSIONS)
    owners = sorted({summary.progress.session.owner for summary in summaries})
    if len(owners) > 1:
        lines = ["several owners; choose one:", *(f"  --owner {quote(o)}" for o in owners[:MAX_LISTED])]
        raise UsageError("\n".join(lines))
    if owners:
        return owners[0]
    if default is None:
        raise await no_such_session(memory, session, owner)
    return default


async def no_such_session(memory: Memory, session: str | None, owner: str | None) -> CommandError:
    """The error for a session that does not exist."""
    if not await memory.sessions(limit=1):
        return CommandError("nothing is recorded in this database yet")
    which = "no session" if session is None else f"no session {session!r}"
    whose = f" of owner {owner!r}" if owner else ""
    return CommandError(f"{which}{whose}; `onlooker sessions` lists them")


async def check_owner(memory: Memory, owner: str) -> None:
    """Refuse an owner of whom nothing is stored: the name is probably mistyped."""
    if not (
        await memory.sessions(owner=owner, limit=1) or await memory.items.list(owner, statuses=ITEM_STATUSES)
    ):
        raise CommandError(f"nothing is stored for owner {owner!r}; `onlooker sessions` lists the owners")


def no_such_note(note: str) -> CommandError:
    """The error for a note id that does not exist."""
    return CommandError(f"no note {note!r}; `onlooker list --all` lists them")


# ------------------------------------------------------------------------------------ points in time


def parse_time(option: str, text: str) -> datetime:
    """Parse a day or a time. Without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        message = f"{option} {text!r}: must be a time such as 2026-02-16 or 2026-02-16T14:00"
        raise UsageError(message) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def parse_point(option: str, text: str) -> int | datetime:
    """Parse the number of a message, or a time. A day means its end."""
    if text.isdecimal():
        return int(text)
    at = parse_time(option, text)
    return at + timedelta(days=1, microseconds=-1) if len(text) <= len("2026-02-16") else at


# ------------------------------------------------------------------------------------ the key

# No option takes the key itself: other users of the machine can see the arguments of a process.
KEY_FILE = "ONLOOKER_KEY_FILE"

_key_file: ContextVar[Path | None] = ContextVar("key_file", default=None)


@contextmanager
def use_key_file(file: Path | None) -> Generator[None]:
    """Read keys from the file that `--key-file` names, while a command runs."""
    before = _key_file.set(file)
    try:
        yield
    finally:
        _key_file.reset(before)


def key_for(db: str | Path) -> Key | None:
    """Return the key for a database, if it is a file and a key is given."""
    text = str(db).removeprefix("sqlite:///")
    return None if text == ":memory:" or "://" in text else given_key()


def given_key() -> Key | None:
    """Return the key from the file, the environment or the key ring, in that order."""
    if file := _key_file.get():
        return Key.from_file(file)
    return _environment_key("ONLOOKER_KEY", "ONLOOKER_KEYRING")


def given_new_key(file: Path | None) -> Key | None:
    """Return the key that replaces another, from the same places."""
    return Key.from_file(file) if file else _environment_key("ONLOOKER_NEW_KEY", "ONLOOKER_NEW_KEYRING")


def _environment_key(key: str, ring: str) -> Key | None:
    if os.environ.get(key):
        return Key.from_environment(key)
    if name := os.environ.get(ring):
        service, _, user = name.partition(":")
        return Key.from_keyring(service, user) if user else Key.from_keyring(service)
    return None
