"""`forget`: messages, notes, a session or an owner, with everything that comes from them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.naming import DryRun, Yes, find_note
from onlooker.cli.opening import chosen_settings, existing, find
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json, Owner, SessionKey
from onlooker.cli.screen import Screen
from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.domain.history import Forgot
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session


def forget(
    screen: Screen,
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Messages (by id or number) and notes (by id), any number."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All of the session named, or else of the owner named.")
    ] = False,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Forget messages, or what notes stand for, with everything derived from them.

    Notes that mixed them with others are written again without them. Nothing is left in any table,
    index, journal or file. It asks first; anything but yes means no.
    """
    if bool(targets) == everything:
        raise Stop("name messages or notes, or give --all with --session or --owner", WRONG_USE)
    if everything and session is None and owner is None:
        raise Stop("--all needs --session KEY or --owner NAME", WRONG_USE)
    wanted = (session, owner)
    if targets:
        done = asyncio.run(_some(screen, db, config, wanted, targets, dry_run, yes))
    else:
        done = asyncio.run(_all(screen, db, config, wanted, dry_run, yes))
    if as_json:
        screen.json(done)
    elif done["forgotten"] or dry_run:
        screen.say(_sentence("Would forget" if dry_run else "Forgot", done))
    if not done["forgotten"] and not dry_run:
        raise Stop("nothing was forgotten", NOT_THERE)


async def _some(
    screen: Screen,
    db: str,
    config: Path | None,
    wanted: tuple[str | None, str | None],
    targets: Sequence[str],
    dry_run: bool,
    yes: bool,
) -> dict[str, Any]:
    settings = chosen_settings(config)
    async with existing(db, settings) as memory:
        session = await _session(memory, targets, wanted)
        ids = [await _identified(session, target) for target in targets]
        # Where a model writes the notes, it should write these again; this command asks none.
        later = bool(settings.model)
        try:
            would = await session.forget(*ids, dry_run=True, rewrite_later=later)
            view = _view(would, session)
            if dry_run or not (yes or screen.confirm(f"{_sentence('This forgets', view)}\nForget?")):
                return view | {"forgotten": False}
            return _view(await session.forget(*ids, rewrite_later=later), session) | {"forgotten": True}
        except KeyError as error:
            raise Stop(
                f"no message or note {error.args[0]!r} in session {session.key!r}", NOT_THERE
            ) from None


async def _session(memory: Memory, targets: Sequence[str], wanted: tuple[str | None, str | None]) -> Session:
    """The session named, the only one, or the one that has the first note named."""
    if wanted[0] is None and len(await memory.sessions(owner=wanted[1], limit=2)) > 1:
        for target in targets:
            if target.startswith(("obs_", "ref_")):
                return (await find_note(memory, target, *wanted))[0]
    return (await find(memory, *wanted))[0]


async def _identified(session: Session, target: str) -> str:
    """The id that is meant: a number is that of a message, unless something has it as its id."""
    if not target.isdecimal():
        return target
    messages = await session.messages(archived=True)
    if any(m.id == target for m in messages):
        return target
    return next((m.id for m in messages if m.seq == int(target)), target)


async def _all(
    screen: Screen,
    db: str,
    config: Path | None,
    wanted: tuple[str | None, str | None],
    dry_run: bool,
    yes: bool,
) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        key, owner = wanted
        if key is not None:
            session, _ = await find(memory, key, owner)
            owner = session.owner
        assert owner is not None
        found = await memory.sessions(owner=owner, key=key)
        items = [i for i in await memory.items(owner) if key in (None, i.session)]
        if not found and not items:
            raise Stop(f"nothing is stored for the owner {owner!r}", NOT_THERE)
        would = Forgot(sum(s.messages for s in found), items=len(items), sessions=len(found))
        view: dict[str, Any] = {"session_key": key, "owner": owner} | asdict(would)
        if dry_run or not (yes or screen.confirm(f"{_sentence('This forgets', view)}\nForget?")):
            return view | {"forgotten": False}
        done = await memory.forget(owner=owner, session=key)
        return view | asdict(done) | {"forgotten": True}


def _view(done: Forgot, session: Session) -> dict[str, Any]:
    return {"session_key": session.key, "owner": session.owner} | asdict(done)


def _sentence(verb: str, view: dict[str, Any]) -> str:
    if view["sessions"]:
        whole = f"everything of the owner {view['owner']!r}"
        if view["session_key"] is not None:
            whole = f"all of session {view['session_key']!r} (owner {view['owner']!r})"
        what = f"{whole}: {view['sessions']:,} sessions, {view['messages']:,} messages"
    else:
        notes = f"{view['deleted_notes']:,} notes go and {view['rewritten_notes']:,} are written again"
        what = f"{view['messages']:,} messages; {notes}"
    late = "" if view["erased"] else ". The bytes go from the file when its readers have finished"
    return f"{verb} {what}; {view['items']:,} items{late}."
