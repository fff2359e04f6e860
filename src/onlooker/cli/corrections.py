"""`edit`, `undo`, `history`, `diff`, `forget`, `clear` and `prune`: correct and delete what is stored."""

from __future__ import annotations

import asyncio
import getpass
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.screen import NOT_THERE, WRONG_USE, Column, Json, Screen, Stop
from onlooker.cli.sessions import Kind, minute
from onlooker.cli.settings import ConfigFile
from onlooker.cli.target import (
    DEFAULT_DATABASE,
    Database,
    DryRun,
    NoteId,
    Owner,
    SessionKey,
    Yes,
    chosen_settings,
    database_path,
    existing,
    find,
    find_note,
    no_note,
)
from onlooker.domain.history import ForgetResult, SessionRetention
from onlooker.domain.notes import LIVE, Note, SessionSummary
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.policy.settings import Settings
from onlooker.wiring import POSTGRES


def edit(
    screen: Screen,
    note: NoteId,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Its new text; - is standard input.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who edits it; you.")] = None,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Give a note another text; without --text, in your editor ($VISUAL or $EDITOR).

    The prompt shows the new text, and reflections go by it. The old one is kept: see `history`.
    """
    given = sys.stdin.read() if text == "-" else text
    done = asyncio.run(_edit(db, config, (session, owner), note, given, by or _me()))
    if as_json:
        screen.json(done)
    else:
        screen.say(f"Version {done['version']} of {note}.")


def _me() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a process without a user, as in some containers
        return ""


def _in_editor(text: str) -> str:
    """What the person makes of the text."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="onlooker-") as folder:
        path = Path(folder) / "note.md"
        path.write_text(text + "\n", encoding="utf-8", errors="surrogatepass")
        try:
            done = subprocess.run([*shlex.split(command), str(path)], check=False)
        except (OSError, ValueError) as error:
            raise Stop(
                f"the editor {command!r} cannot be run ({error}): set EDITOR, or give --text"
            ) from None
        if done.returncode:
            raise Stop(f"the editor {command!r} ended with code {done.returncode}; nothing was changed")
        return path.read_text(encoding="utf-8", errors="surrogatepass")


async def _edit(
    db: str,
    config: Path | None,
    wanted: tuple[str | None, str | None],
    ident: str,
    given: str | None,
    by: str,
) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        session, note = await find_note(memory, ident, *wanted)
        if note.status not in LIVE:
            raise Stop(f"note {ident!r} is {note.status}: only a note that is shown can be edited", WRONG_USE)
        text = given if given is not None else _in_editor(note.text)
        if text.strip("\n") == note.text.strip("\n"):
            raise Stop("nothing was changed", NOT_THERE)
        # Someone may have changed it while the editor was open.
        after = await session.history.edit(ident, text, by=by, was=note.text)
        versions = (await session.history.of(ident)).versions
        return {
            "id": after.id,
            "session_key": session.key,
            "owner": session.owner,
            "version": versions[-1].number,
            "by": by,
            "content": after.text,
            "token_count": after.tokens,
        }


# ------------------------------------------------------------------------------------ undo


def undo(
    screen: Screen,
    note: Annotated[
        str | None, typer.Argument(metavar="[NOTE]", help="The reflection's id; the last one.")
    ] = None,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Undo a reflection: the notes that it was made from are shown again.

    It is refused where there is no room for them, since they would be condensed again at once.
    """
    done = asyncio.run(_undo(screen, db, config, (session, owner), note, dry_run, yes))
    if as_json:
        screen.json(done)
    elif done["undone"] or dry_run:
        verb = "Would undo" if dry_run else "Undid"
        screen.say(f"{verb} {done['id']}: {len(done['notes'])} notes are shown again.")
    if not done["undone"] and not dry_run:
        raise Stop("nothing was undone", NOT_THERE)


async def _undo(
    screen: Screen,
    db: str,
    config: Path | None,
    wanted: tuple[str | None, str | None],
    ident: str | None,
    dry_run: bool,
    yes: bool,
) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        session, note = await _reflection(memory, ident, wanted)
        view: dict[str, Any] = {
            "id": note.id,
            "session_key": session.key,
            "owner": session.owner,
            "generation": note.generation,
            "notes": list(note.sources),
        }
        question = f"This undoes {note.id}, made from {len(note.sources)} notes.\nUndo?"
        if dry_run or not (yes or screen.confirm(question)):
            return view | {"undone": False}
        try:
            back = await session.history.undo(note.id)
        except KeyError:
            raise Stop(f"note {note.id!r} is no reflection that is shown", NOT_THERE) from None
        return view | {"notes": [n.id for n in back], "undone": True}


async def _reflection(
    memory: Memory, ident: str | None, wanted: tuple[str | None, str | None]
) -> tuple[Session, Note]:
    if ident is not None:
        return await find_note(memory, ident, *wanted)
    session, _ = await find(memory, *wanted)
    reflections = await session.notes(kind="reflection")
    if not reflections:
        raise Stop(f"session {session.key!r} has no reflection", NOT_THERE)
    return session, max(reflections, key=lambda n: n.made_at)


# ------------------------------------------------------------------------------------ history


def history(
    screen: Screen,
    note: NoteId,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show what became of a note: its texts, who wrote them and when, and its status over time."""
    found = asyncio.run(_history(db, config, (session, owner), note))
    if as_json:
        screen.json(found)
        return
    columns = [Column("version", right=True), Column("at"), Column("by"), Column("text", text=True)]
    rows = [[str(v["version"]), minute(v["at"]), v["by"] or "-", v["content"]] for v in found["versions"]]
    screen.table(columns, rows)
    steps = [f"{s['status']} since {minute(s['at'])}" for s in found["statuses"]]
    steps += [f"made into {ident}" for ident in found["made_into"]]
    if steps:
        screen.say("; ".join(steps) + ".")


async def _history(
    db: str, config: Path | None, wanted: tuple[str | None, str | None], ident: str
) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        session, _ = await find_note(memory, ident, *wanted)
        found = await session.history.of(ident)
        return {
            "id": ident,
            "session_key": session.key,
            "owner": session.owner,
            "versions": [
                {
                    "version": v.number,
                    "at": v.at.isoformat(),
                    "by": v.by,
                    "content": v.text,
                    "token_count": v.tokens,
                }
                for v in found.versions
            ],
            "statuses": [{"at": at.isoformat(), "status": status} for at, status in found.statuses],
            "made_into": list(found.made_into),
        }


def diff(
    screen: Screen,
    note: NoteId,
    other: Annotated[str | None, typer.Argument(metavar="[OTHER]", help="A note to compare it with.")] = None,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show what a note kept, dropped and added: a reflection against what it was made from, an edited
    note against its text before, or one note against another."""
    found = asyncio.run(_diff(db, config, (session, owner), note, other))
    if as_json:
        screen.json(found)
        return
    if found["patch"]:
        screen.text(found["patch"])
    kept, dropped, added = (len(found[name]) for name in ("kept", "dropped", "added"))
    screen.say(f"{kept} lines kept, {dropped} dropped, {added} added.")


async def _diff(
    db: str, config: Path | None, wanted: tuple[str | None, str | None], ident: str, other: str | None
) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        session, note = await find_note(memory, ident, *wanted)
        try:
            found = await session.history.diff(ident, other)
        except KeyError as error:
            raise no_note(error.args[0]) from None
        before = ident if other else "what it was made from" if note.generation else "before"
        return {
            "id": ident,
            "other": other,
            "session_key": session.key,
            "owner": session.owner,
            "kept": list(found.kept),
            "dropped": list(found.dropped),
            "added": list(found.added),
            "patch": found.unified(before, other or ident),
        }


# ------------------------------------------------------------------------------------ forget


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
        done = asyncio.run(_forget_some(screen, db, config, wanted, targets, dry_run, yes))
    else:
        done = asyncio.run(_forget_all(screen, db, config, wanted, dry_run, yes))
    if as_json:
        screen.json(done)
    elif done["forgotten"] or dry_run:
        screen.say(_forget_sentence("Would forget" if dry_run else "ForgetResult", done))
    if not done["forgotten"] and not dry_run:
        raise Stop("nothing was forgotten", NOT_THERE)


async def _forget_some(
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
        session = await _session_of(memory, targets, wanted)
        ids = [await _identified(session, target) for target in targets]
        # Where a model writes the notes, it should write these again; this command asks none.
        later = bool(settings.model)
        try:
            would = await session.forget(*ids, dry_run=True, rewrite_later=later)
            view = _forget_view(would, session)
            if dry_run or not (yes or screen.confirm(f"{_forget_sentence('This forgets', view)}\nForget?")):
                return view | {"forgotten": False}
            return _forget_view(await session.forget(*ids, rewrite_later=later), session) | {
                "forgotten": True
            }
        except KeyError as error:
            raise Stop(
                f"no message or note {error.args[0]!r} in session {session.key!r}", NOT_THERE
            ) from None


async def _session_of(
    memory: Memory, targets: Sequence[str], wanted: tuple[str | None, str | None]
) -> Session:
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


async def _forget_all(
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
        items = [i for i in await memory.items.list(owner) if key in (None, i.session)]
        if not found and not items:
            raise Stop(f"nothing is stored for the owner {owner!r}", NOT_THERE)
        would = ForgetResult(sum(s.messages for s in found), items=len(items), sessions=len(found))
        view: dict[str, Any] = {"session_key": key, "owner": owner} | asdict(would)
        if dry_run or not (yes or screen.confirm(f"{_forget_sentence('This forgets', view)}\nForget?")):
            return view | {"forgotten": False}
        done = await memory.forget(owner=owner, session=key)
        return view | asdict(done) | {"forgotten": True}


def _forget_view(done: ForgetResult, session: Session) -> dict[str, Any]:
    return {"session_key": session.key, "owner": session.owner} | asdict(done)


def _forget_sentence(verb: str, view: dict[str, Any]) -> str:
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


# ------------------------------------------------------------------------------------ clear


def clear(
    screen: Screen,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    kind: Annotated[Kind | None, typer.Option("--kind", help="Only notes of this kind.")] = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="The whole session, with everything that was said.")
    ] = False,
    yes: Yes = False,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Delete the notes of a session; the recent messages stay.

    It asks first and says what will go. Anything but yes, the end of input too, means no.
    """
    if messages and kind:
        raise Stop("--messages deletes the whole session: leave out --kind", WRONG_USE)
    done = asyncio.run(_clear(screen, db, config, (session, owner), kind, messages, yes))
    if as_json:
        screen.json(done)
    elif done["cleared"]:
        screen.say("Deleted." if messages or done["note_tokens"] else "There were no notes.")
    if not done["cleared"]:
        raise Stop("nothing was deleted", NOT_THERE)


async def _clear(
    screen: Screen,
    db: str,
    config: Path | None,
    wanted: tuple[str | None, str | None],
    kind: Kind | None,
    messages: bool,
    yes: bool,
) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        session, summary = await find(memory, *wanted)
        going = await _going(session, summary, kind, messages)
        # Only what is in the list is deleted: with no notes there is nothing to ask about.
        agreed = yes or not (messages or going["observations"] or going["reflections"])
        if not agreed:
            agreed = screen.confirm(f"{_clear_sentence(session, going, messages)}\nDelete?")
        if agreed and messages:
            await session.delete()
        elif agreed:
            await session.history.clear(kind.note if kind else None)
        return going | {"cleared": agreed}


async def _going(
    session: Session, summary: SessionSummary, kind: Kind | None, messages: bool
) -> dict[str, Any]:
    notes = await session.notes(statuses=LIVE, kind=kind.note if kind else None)
    return {
        "session_key": session.key,
        "owner": session.owner,
        "observations": sum(n.kind == "observation" for n in notes),
        "reflections": sum(n.kind == "reflection" for n in notes),
        "note_tokens": sum(n.tokens for n in notes),
        "messages": summary.messages if messages else 0,
        "message_tokens": summary.message_tokens if messages else 0,
    }


def _clear_sentence(session: Session, going: dict[str, Any], messages: bool) -> str:
    notes = (
        f"{going['observations']} observations and {going['reflections']} reflections "
        f"({going['note_tokens']:,} tokens)"
    )
    whose = f"of session {session.key!r} (owner {session.owner!r})"
    if not messages:
        return f"This deletes {notes} {whose}. The recent messages stay."
    said = f"{going['messages']:,} messages ({going['message_tokens']:,} tokens)"
    return f"This deletes {said} and {notes} {whose}: everything, for good."


# ------------------------------------------------------------------------------------ prune


# Settings that say how long messages are kept.
LIMITS = (
    "retention_archive_days",
    "retention_archive_messages",
    "retention_delete_days",
    "retention_delete_messages",
    "retention_owner_messages",
)
NOTHING_TO_DO = "say how old with --older-than DAYS, or set retention_days or another retention_… setting"


@dataclass(frozen=True, slots=True)
class Pruning:
    """What to do."""

    days: float | None  # of superseded notes; None: they stay
    dry_run: bool
    vacuum: bool


def prune(
    screen: Screen,
    older_than: Annotated[
        float | None,
        typer.Option("--older-than", min=0, metavar="DAYS", help="How old; that of `retention_days`."),
    ] = None,
    vacuum: Annotated[bool, typer.Option("--vacuum", help="Make the file as small as it can be.")] = False,
    db: Database = DEFAULT_DATABASE,
    dry_run: DryRun = False,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Purge what is old enough: superseded notes, what hosts took back, and messages by the settings.

    What a live note leads back to stays, unless `retention_delete_…` says otherwise. Messages that no note
    stands for always stay.
    """
    settings = chosen_settings(config)
    days = older_than if older_than is not None else settings.retention_days or None
    if days is None and not vacuum and not any(getattr(settings, name) for name in LIMITS):
        raise Stop(NOTHING_TO_DO, WRONG_USE)
    size = _size_of(db)
    done = asyncio.run(_prune(db, settings, Pruning(days, dry_run, vacuum and not dry_run)))
    if vacuum and not dry_run and size is not None:
        done["freed_bytes"] = size - (_size_of(db) or 0)
    if as_json:
        screen.json(done)
        return
    if dry_run and done["sessions"]:
        screen.table(_PRUNE_COLUMNS, [_prune_row(session) for session in done["sessions"]])
    screen.say(_prune_sentence(done))


async def _prune(db: str, settings: Settings, wanted: Pruning) -> dict[str, Any]:
    async with existing(db, settings) as memory:
        kept = await memory.retention.apply(dry_run=wanted.dry_run)
        done: dict[str, Any] = {
            "rows": await _superseded(memory, wanted),
            "older_than_days": wanted.days,
            "archived_messages": kept.archived,
            "deleted_messages": kept.deleted,
            "sessions": [_prune_view(session) for session in kept.sessions],
            "pruned": not wanted.dry_run,
        }
        if wanted.vacuum:
            await memory.store.erase()
        return done


async def _superseded(memory: Memory, wanted: Pruning) -> int:
    if wanted.days is None:
        return 0
    before = datetime.now(UTC) - timedelta(days=wanted.days)
    return await memory.store.prune(before=before, dry_run=wanted.dry_run)


def _prune_view(kept: SessionRetention) -> dict[str, Any]:
    return {
        "session_key": kept.session.key,
        "owner": kept.session.owner,
        "archived_messages": kept.archived,
        "deleted_messages": kept.deleted,
    }


_PRUNE_COLUMNS = (
    Column("session", text=True),
    Column("owner", text=True),
    Column("archive", right=True),
    Column("delete", right=True),
)


def _prune_row(session: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{value:,}" if isinstance(value, int) else value for value in session.values())


def _size_of(db: str) -> int | None:
    """Of the file and its log. A server keeps the room that is free in its tables for what comes."""
    if db.startswith(POSTGRES):
        return None
    path = database_path(db)
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _prune_sentence(done: dict[str, Any]) -> str:
    words = ("Purged", "deleted", "archived") if done["pruned"] else ("Would purge", "delete", "archive")
    text = f"{words[0]} {done['rows']:,} rows"
    if done["deleted_messages"]:
        text += f", {words[1]} {done['deleted_messages']:,} messages"
    if done["archived_messages"]:
        text += f", {words[2]} {done['archived_messages']:,} messages"
    if "freed_bytes" in done:
        text += f"; {done['freed_bytes']:,} bytes freed"
    return text + "."
