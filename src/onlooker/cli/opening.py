"""Finding the database, the settings and the session that a command is about."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote

from onlooker.cli.keys import key_for
from onlooker.cli.settings_file import load_settings
from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.domain.notes import SessionSummary
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.policy.settings import Settings, preset
from onlooker.wiring import POSTGRES, open_memory

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
