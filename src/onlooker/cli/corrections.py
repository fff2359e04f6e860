"""`edit`, `pin`, `undo`, `history`, `diff`, `forget`, `forgotten`, `clear`, `prune`: correct or delete."""

from __future__ import annotations

import getpass
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from onlooker.cli.screen import Column, CommandError, Json, Screen, UsageError, View, count, iso, minute
from onlooker.cli.sessions import KindOption
from onlooker.cli.target import (
    DryRun,
    NoteId,
    SessionTarget,
    Target,
    Yes,
    database_path,
    is_server,
)
from onlooker.domain.history import ForgetResult, SessionRetention
from onlooker.domain.notes import LIVE, Note
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session


def _session_fields(session: Session) -> View:
    return {"session_key": session.key, "owner": session.owner}


# ------------------------------------------------------------------------------------ edit


async def edit(
    screen: Screen,
    target: SessionTarget,
    note: NoteId,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="The new text; - reads standard input.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="The editor's name; by default your own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Change the text of a note, in your editor or with --text.

    The editor is $VISUAL or $EDITOR. Prompts and later reflections use the new text. The old text is kept:
    see `onlooker history`.
    """
    if text == "-":
        text = sys.stdin.read()
    by = by or user_name()
    async with target.open() as memory:
        session, found = await target.find_note(memory, note)
        if found.status not in LIVE:
            raise UsageError(f"note {note!r} is {found.status}: only live notes can be edited")
        if text is None:
            text = _edit_text(found.text)
        if text.strip("\n") == found.text.strip("\n"):
            raise CommandError("nothing was changed")
        # Another process may have changed the note while the editor was open.
        after = await session.history.edit(note, text, by=by, was=found.text)
        version = (await session.history.of(note)).versions[-1].number
    view = {"id": after.id, **_session_fields(session), "version": version, "by": by}
    view |= {"content": after.text, "token_count": after.tokens}
    screen.result(view, as_json, f"{note} is now at version {version}.")


def user_name() -> str:
    """Who runs the command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a process without a user, as in some containers
        return ""


def _edit_text(text: str) -> str:
    """Open the text in the user's editor and return the result."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="onlooker-") as folder:
        path = Path(folder) / "note.md"
        path.write_text(text + "\n", encoding="utf-8", errors="surrogatepass")
        try:
            done = subprocess.run([*shlex.split(command), str(path)], check=False)
        except (OSError, ValueError) as error:
            message = f"cannot run the editor {command!r} ({error}): set EDITOR, or use --text"
            raise CommandError(message) from None
        if done.returncode:
            raise CommandError(
                f"the editor {command!r} exited with code {done.returncode}; nothing was changed"
            )
        return path.read_text(encoding="utf-8", errors="surrogatepass")


# ------------------------------------------------------------------------------------ pin


async def pin(
    screen: Screen,
    target: SessionTarget,
    ident: Annotated[
        str, typer.Argument(metavar="NOTE|SEQ", help="The id of a note, or the number of a message.")
    ],
    off: Annotated[bool, typer.Option("--off", help="Unpin it.")] = False,
    as_json: Json = False,
) -> None:
    """Keep a note or message in every prompt of its session."""
    async with target.open() as memory:
        session = await _session_with(memory, target, [ident])
        found = await _message_or_note_id(session, ident)
        await session.pin(found, on=not off)
    view = {"id": found, **_session_fields(session), "pinned": not off}
    screen.result(view, as_json, f"{'Unpinned' if off else 'Pinned'} {ident} in session {session.key!r}.")


# ------------------------------------------------------------------------------------ history


async def history(screen: Screen, target: SessionTarget, note: NoteId, as_json: Json = False) -> None:
    """Show the versions of a note and its status over time."""
    async with target.open() as memory:
        session, _ = await target.find_note(memory, note)
        found = await session.history.of(note)
    view: View = {
        "id": note,
        **_session_fields(session),
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
    if as_json:
        screen.json(view)
        return
    columns = (Column("version", right=True), Column("at"), Column("by"), Column("text", text=True))
    screen.table(columns, [[str(v.number), minute(v.at), v.by or "-", v.text] for v in found.versions])
    steps = [f"{status} since {minute(at)}" for at, status in found.statuses]
    steps += [f"condensed into {reflection}" for reflection in found.made_into]
    if steps:
        screen.say("; ".join(steps) + ".")


async def diff(
    screen: Screen,
    target: SessionTarget,
    note: NoteId,
    other: Annotated[
        str | None, typer.Argument(metavar="[OTHER]", help="Another note to compare with.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the lines that a note kept, dropped and added.

    A reflection is compared with its sources, an edited note with its previous text, or a note with another.
    """
    async with target.open() as memory:
        session, found = await target.find_note(memory, note)
        changes = await session.history.diff(note, other)
    before = note if other else "sources" if found.generation else "previous text"
    view: View = {
        "id": note,
        "other": other,
        **_session_fields(session),
        "kept": list(changes.kept),
        "dropped": list(changes.dropped),
        "added": list(changes.added),
        "patch": changes.unified(before, other or note),
    }
    if view["patch"] and not as_json:
        screen.text(view["patch"])
    kept = count(len(changes.kept), "line")
    screen.result(view, as_json, f"{kept} kept, {len(changes.dropped)} dropped, {len(changes.added)} added.")


# ------------------------------------------------------------------------------------ undo


async def undo(
    screen: Screen,
    target: SessionTarget,
    note: Annotated[
        str | None, typer.Argument(metavar="[NOTE]", help="The id of the reflection; by default the last.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Undo a reflection and show its sources again.

    Refused if there is no room for them, because they would be condensed again at once.
    """
    async with target.open() as memory:
        session, found = await _find_reflection(memory, target, note)
        await session.history.undo(found.id, dry_run=True)
        view: View = {"id": found.id, **_session_fields(session), "generation": found.generation}
        view |= {"notes": list(found.sources), "undone": False}
        question = f"This undoes {found.id}, made from {count(len(found.sources), 'note')}.\nUndo?"
        if not dry_run and (yes or screen.confirm(question)):
            restored = await session.history.undo(found.id)
            view |= {"notes": [n.id for n in restored], "undone": True}
    declined = not (view["undone"] or dry_run)
    if as_json or not declined:
        sources = count(len(view["notes"]), "note")
        verb = "Would undo" if dry_run else "Undid"
        screen.result(view, as_json, f"{verb} {found.id}, made from {sources}.")
    if declined:
        raise CommandError("nothing was undone")


async def _find_reflection(memory: Memory, target: SessionTarget, note: str | None) -> tuple[Session, Note]:
    if note is not None:
        return await target.find_note(memory, note)
    session, _ = await target.find(memory)
    reflections = await session.notes(kind="reflection")
    if not reflections:
        raise CommandError(f"session {session.key!r} has no reflection")
    return session, max(reflections, key=lambda n: n.made_at)


# ------------------------------------------------------------------------------------ forget


async def forget(
    screen: Screen,
    target: SessionTarget,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Ids of notes, and ids or numbers of messages."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything in the session or of the owner.")
    ] = False,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="The name to record; by default your own.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Forget messages, or all that a note covers, without a trace.

    Notes derived from them are deleted, or rewritten if they cover other messages too. Nothing remains in any
    table, index, journal or file. `onlooker forgotten` lists who forgot what kind of thing, and when. The
    command asks for confirmation; anything but yes means no.
    """
    if bool(ids) == everything:
        raise UsageError("name messages or notes, or use --all with --session or --owner")
    if everything and target.session is None and target.owner is None:
        raise UsageError("--all needs --session KEY or --owner NAME")
    async with target.open() as memory:
        if ids:
            view = await _forget_some(screen, memory, target, ids, by or user_name(), dry_run, yes)
        else:
            view = await _forget_all(screen, memory, target, by or user_name(), dry_run, yes)
    declined = not (view["forgotten"] or dry_run)
    if as_json or not declined:
        screen.result(view, as_json, _forget_sentence("Would forget" if dry_run else "Forgot", view))
    if declined:
        raise CommandError("nothing was forgotten")


async def _forget_some(
    screen: Screen,
    memory: Memory,
    target: SessionTarget,
    given: Sequence[str],
    by: str,
    dry_run: bool,
    yes: bool,
) -> View:
    session = await _session_with(memory, target, given)
    ids = [await _message_or_note_id(session, text) for text in given]
    # If a language model writes the notes, it also rewrites them, later. This command calls no model.
    later = bool(target.settings().model)
    view = _session_fields(session) | asdict(await session.forget(*ids, dry_run=True, rewrite_later=later))
    if dry_run or not (yes or _confirm_forget(screen, view)):
        return view | {"forgotten": False}
    done = await session.forget(*ids, rewrite_later=later, by=by)
    return view | asdict(done) | {"forgotten": True}


async def _session_with(memory: Memory, target: SessionTarget, ids: Sequence[str]) -> Session:
    """Return the session named, the only one, or the one that has the first note named."""
    if target.session is None and len(await memory.sessions(owner=target.owner, limit=2)) > 1:
        for text in ids:
            if text.startswith(("obs_", "ref_")):
                return (await target.find_note(memory, text))[0]
    return (await target.find(memory))[0]


async def _message_or_note_id(session: Session, text: str) -> str:
    """Return the id. A number is the number of a message, unless it is an id."""
    if not text.isdecimal():
        return text
    messages = await session.messages(archived=True)
    if any(m.id == text for m in messages):
        return text
    return next((m.id for m in messages if m.seq == int(text)), text)


async def _forget_all(
    screen: Screen, memory: Memory, target: SessionTarget, by: str, dry_run: bool, yes: bool
) -> View:
    key, owner = target.session, target.owner
    if key is not None:
        session, _ = await target.find(memory)
        owner = session.owner
    assert owner is not None
    found = await memory.sessions(owner=owner, key=key)
    items = [i for i in await memory.items.list(owner) if key in (None, i.session)]
    if not found and not items:
        raise CommandError(f"nothing is stored for owner {owner!r}")
    expected = ForgetResult(sum(s.messages for s in found), items=len(items), sessions=len(found))
    view: View = {"session_key": key, "owner": owner} | asdict(expected)
    if dry_run or not (yes or _confirm_forget(screen, view)):
        return view | {"forgotten": False}
    return view | asdict(await memory.forget(owner=owner, session=key, by=by)) | {"forgotten": True}


def _confirm_forget(screen: Screen, view: View) -> bool:
    return screen.confirm(f"{_forget_sentence('This forgets', view)}\nForget?")


_LATE = (
    " Some data is still in files. It goes when other readers of the database finish, when the database "
    "is opened with the settings of its journal and notes (--config), or by VACUUM FULL on PostgreSQL."
)


def _forget_sentence(verb: str, view: View) -> str:
    messages = count(view["messages"], "message")
    if not view["sessions"]:
        deleted, rewritten = count(view["deleted_notes"], "note"), view["rewritten_notes"]
        what = f"{messages} ({deleted} deleted, {rewritten:,} rewritten)"
    elif view["session_key"] is None:
        what = f"everything of owner {view['owner']!r}: {count(view['sessions'], 'session')}, {messages}"
    else:
        what = f"session {view['session_key']!r} of owner {view['owner']!r}: {messages}"
    late = "" if view["erased"] else _LATE
    return f"{verb} {what}, {count(view['items'], 'item')}.{late}"


# ------------------------------------------------------------------------------------ forgotten


async def forgotten(
    screen: Screen,
    target: Target,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Only the records of this owner.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List who forgot what kind of thing, and when.

    No content is kept. Owners and sessions are stored as hashes; use --owner to see those of one owner.
    """
    async with target.open() as memory:
        records = await memory.storage.forgotten(owner=owner)
    views: list[View] = [asdict(record) | {"at": iso(record.at)} for record in records]
    screen.results(views, as_json, _FORGOTTEN_COLUMNS, _forgotten_row, empty="Nothing was forgotten.")


_FORGOTTEN_COLUMNS = (Column("when"), Column("by"), Column("what"), Column("owner"), Column("session"))


def _forgotten_row(view: View) -> list[str]:
    what = view["what"] if view["what"] in ("session", "owner") else f"{view['count']:,} {view['what']}"
    return [minute(view["at"]), view["by"] or "-", what, view["owner"][:12], view["session"][:12] or "-"]


# ------------------------------------------------------------------------------------ clear


async def clear(
    screen: Screen,
    target: SessionTarget,
    kind: KindOption = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="Delete the whole session with its messages.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete the notes of a session. Recent messages stay.

    The command says what it deletes and asks for confirmation. Anything but yes means no.
    """
    if messages and kind:
        raise UsageError("--messages deletes the whole session: it cannot be combined with --kind")
    note_kind = kind.note if kind else None
    async with target.open() as memory:
        session, summary = await target.find(memory)
        notes = await session.notes(statuses=LIVE, kind=note_kind)
        view: View = {
            **_session_fields(session),
            "observations": sum(n.kind == "observation" for n in notes),
            "reflections": sum(n.kind == "reflection" for n in notes),
            "note_tokens": sum(n.tokens for n in notes),
            "messages": summary.messages if messages else 0,
            "message_tokens": summary.message_tokens if messages else 0,
        }
        # Without notes there is nothing to confirm.
        agreed = yes or not (messages or notes) or screen.confirm(f"{_clear_sentence(view)}\nDelete?")
        if agreed and messages:
            await session.delete(by=user_name())
        elif agreed:
            await session.history.clear(note_kind)
    if as_json or agreed:
        sentence = "Deleted." if messages or notes else "There were no notes."
        screen.result(view | {"cleared": agreed}, as_json, sentence)
    if not agreed:
        raise CommandError("nothing was deleted")


def _clear_sentence(view: View) -> str:
    observations, reflections = (
        count(view["observations"], "observation"),
        count(view["reflections"], "reflection"),
    )
    notes = f"{observations} and {reflections} ({view['note_tokens']:,} tokens)"
    session = f"session {view['session_key']!r} of owner {view['owner']!r}"
    if not view["messages"]:
        return f"This deletes {notes} of {session}. The recent messages stay."
    said = f"{count(view['messages'], 'message')} ({view['message_tokens']:,} tokens)"
    return f"This deletes {session}: {said}, {notes}."


# ------------------------------------------------------------------------------------ prune

# The settings that limit how long messages are kept.
_LIMITS = (
    "retention_archive_days",
    "retention_archive_messages",
    "retention_delete_days",
    "retention_delete_messages",
    "retention_owner_messages",
)


async def prune(
    screen: Screen,
    target: Target,
    older_than: Annotated[
        float | None,
        typer.Option("--older-than", min=0, metavar="DAYS", help="The age; by default `retention_days`."),
    ] = None,
    vacuum: Annotated[bool, typer.Option("--vacuum", help="Return free space to the disk.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Purge superseded notes, and messages as the settings say.

    Messages that the host took back are purged too. Sources of live notes stay, unless `retention_delete_…`
    says otherwise. Messages that are not noted always stay.
    """
    settings = target.settings()
    days = older_than if older_than is not None else settings.retention_days or None
    if days is None and not vacuum and not any(getattr(settings, name) for name in _LIMITS):
        raise UsageError("nothing to do: use --older-than DAYS, or set a retention_… setting")
    vacuum = vacuum and not dry_run
    size = _file_size(target.db)
    async with target.open() as memory:
        retained = await memory.retention.apply(dry_run=dry_run)
        rows = 0
        if days is not None:
            before = datetime.now(UTC) - timedelta(days=days)
            rows = await memory.store.prune(before=before, dry_run=dry_run)
        if vacuum:
            await memory.store.erase()
    view: View = {
        "rows": rows,
        "older_than_days": days,
        "archived_messages": retained.archived,
        "deleted_messages": retained.deleted,
        "sessions": [_retained_view(one) for one in retained.sessions],
        "pruned": not dry_run,
    }
    if vacuum and size is not None:
        view["freed_bytes"] = size - (_file_size(target.db) or 0)
    if dry_run and view["sessions"] and not as_json:
        screen.table(_RETAINED_COLUMNS, [_retained_row(one) for one in view["sessions"]])
    screen.result(view, as_json, _prune_sentence(view))


def _retained_view(one: SessionRetention) -> View:
    return {
        "session_key": one.session.key,
        "owner": one.session.owner,
        "archived_messages": one.archived,
        "deleted_messages": one.deleted,
    }


_RETAINED_COLUMNS = (
    Column("session", text=True),
    Column("owner", text=True),
    Column("archived", right=True),
    Column("deleted", right=True),
)


def _retained_row(view: View) -> list[str]:
    counts = (f"{view[key]:,}" for key in ("archived_messages", "deleted_messages"))
    return [view["session_key"], view["owner"], *counts]


def _file_size(db: str) -> int | None:
    """Return the size of the file and its log; None for a server, which keeps free space for later rows."""
    if is_server(db):
        return None
    path = database_path(db)
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _prune_sentence(view: View) -> str:
    verbs = ("Purged", "deleted", "archived") if view["pruned"] else ("Would purge", "delete", "archive")
    text = f"{verbs[0]} {count(view['rows'], 'row')}"
    if view["deleted_messages"]:
        text += f", {verbs[1]} {count(view['deleted_messages'], 'message')}"
    if view["archived_messages"]:
        text += f", {verbs[2]} {count(view['archived_messages'], 'message')}"
    if "freed_bytes" in view:
        text += f"; {count(view['freed_bytes'], 'byte')} freed"
    return text + "."
