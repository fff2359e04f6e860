"""`sessions`, `list`, `status` and `extracted`: what a database holds."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from onlooker.cli.screen import Column, Json, Screen, View, iso, minute
from onlooker.cli.target import PartTarget, SessionTarget, Target
from onlooker.cli.worker import show_workers
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import tokens_of
from onlooker.domain.notes import LIVE, NOTE_STATUSES, Extraction, Note, NoteKind, SessionSummary, State
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session

# ------------------------------------------------------------------------------------ sessions


async def list_sessions(
    screen: Screen,
    target: Target,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Only the sessions of this owner.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Only the N last used.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the sessions of a database, last used first."""
    async with target.open() as memory:
        views = [session_view(s) for s in await memory.sessions(owner=owner, limit=limit)]
    screen.results(views, as_json, _SESSION_COLUMNS, _session_row, empty="No sessions.")


def session_view(summary: SessionSummary) -> View:
    return {
        "session_key": summary.progress.session.key,
        "owner": summary.progress.session.owner,
        "messages": summary.messages,
        "message_tokens": summary.message_tokens,
        "observations": summary.observations,
        "observation_tokens": summary.observation_tokens,
        "reflections": summary.reflections,
        "reflection_tokens": summary.reflection_tokens,
        "started_at": iso(summary.started_at),
        "last_at": iso(summary.last_at),
    }


_SESSION_COLUMNS = (
    Column("session"),
    Column("owner"),
    Column("messages", right=True),
    Column("tokens", right=True),
    Column("observations", right=True),
    Column("reflections", right=True),
    Column("first message"),
    Column("last message"),
)


def _session_row(view: View) -> list[str]:
    counts = [f"{view[k]:,}" for k in ("messages", "message_tokens", "observations", "reflections")]
    return [view["session_key"], view["owner"], *counts, minute(view["started_at"]), minute(view["last_at"])]


# ------------------------------------------------------------------------------------ list


class Kind(StrEnum):
    """The two kinds of note, as an option names them."""

    observations = "observations"
    reflections = "reflections"

    @property
    def note(self) -> NoteKind:
        return "observation" if self is Kind.observations else "reflection"


KindOption = Annotated[Kind | None, typer.Option("--kind", help="Only notes of this kind.")]


async def list_notes(
    screen: Screen,
    target: SessionTarget,
    kind: KindOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Include superseded and retired notes.")] = False,
    recent: Annotated[
        int | None, typer.Option("--recent", min=1, metavar="N", help="Only the N newest.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the notes of a session, oldest first."""
    statuses = NOTE_STATUSES if everything else LIVE
    async with target.open() as memory:
        session, summary = await target.find(memory)
        notes = await session.notes(kind=kind.note if kind else None, recent=recent, statuses=statuses)
        positions = await _read_positions(memory, summary)
    views = [note_view(note, session, positions) for note in notes]
    # Most lists hold only active notes and need no status column.
    with_status = any(view["status"] != "active" for view in views)
    columns = [c for c in _NOTE_COLUMNS if with_status or c.title != "status"]
    # A note of any status would have covered messages.
    raw = not summary.observations and not summary.reflections
    empty = "No notes yet: every message is in the prompt, word for word." if raw else "No notes."
    screen.results(views, as_json, columns, lambda view: _note_row(view, with_status), empty=empty)


def note_view(note: Note, session: Session, positions: Positions) -> View:
    first, last = positions.of(note)
    return {
        "id": note.id,
        "session_key": session.key,
        "owner": session.owner,
        "kind": note.kind,
        "tier": "session",
        "generation": note.generation,
        "content": note.text,
        "token_count": note.tokens,
        "source_start_index": first,
        "source_end_index": last,
        "source_message_range": [first, last + 1],
        "created_at": note.made_at.isoformat(),
        "model": note.model,
        "status": note.status,
        "degraded": note.degraded,
    }


_NOTE_COLUMNS = (
    Column("id"),
    Column("kind"),
    Column("gen", right=True),
    Column("status"),
    Column("messages"),
    Column("tokens", right=True),
    Column("created"),
    Column("model"),
    Column("text", text=True),
)


def _note_row(view: View, with_status: bool) -> list[str]:
    start, end = view["source_message_range"]
    return [
        view["id"],
        view["kind"],
        str(view["generation"]),
        *([view["status"]] if with_status else []),
        f"{start + 1}-{end}",
        f"{view['token_count']:,}",
        minute(view["created_at"]),
        view["model"] + (" (degraded)" if view["degraded"] else ""),
        view["content"],
    ]


@frozen
class Positions:
    """The positions of messages in the conversation, counted from 0.

    The number of a message never changes. After the host took messages back, numbers and positions differ.
    """

    seqs: Sequence[int]  # empty where they do not differ

    def of(self, note: Note) -> tuple[int, int]:
        """Return the first and the last position that the note covers, inclusive."""
        if not self.seqs:
            return note.first - 1, note.last - 1
        first = bisect_left(self.seqs, note.first)
        return first, max(first, bisect_right(self.seqs, note.last) - 1)


async def _read_positions(memory: Memory, summary: SessionSummary) -> Positions:
    if not summary.progress.revision:
        return Positions(())
    return Positions([d.seq for d in await memory.store.digests(summary.progress.session)])


# ------------------------------------------------------------------------------------ status


async def status(
    screen: Screen,
    target: PartTarget,
    workers: Annotated[
        bool, typer.Option("--workers", help="Show the workers, their backlog and failures instead.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Count the messages, notes and tokens of each session.

    Compression is the size of all messages divided by the size of the notes and messages in their place.
    """
    if workers:
        await show_workers(screen, target, as_json)
        return
    views = await _statuses(target)
    # The column is left out if nothing was spent and there is no limit.
    paid = any(view["spent"] or view["spend_limit"] for view in views)
    columns = (*_STATUS_COLUMNS, Column("spent", right=True)) if paid else _STATUS_COLUMNS
    screen.results(views, as_json, columns, lambda view: _status_row(view, paid), empty="No sessions.")


async def _statuses(target: SessionTarget) -> list[View]:
    limit = target.settings().spend_per_session
    views: list[View] = []
    async with target.open() as memory:
        if target.session is None:
            summaries = await memory.sessions(owner=target.owner)
        else:
            summaries = [(await target.find(memory))[1]]
        for summary in summaries:
            session = summary.progress.session
            spent = await memory.store.spent(session=session)
            if state := await memory.store.load(session):
                views.append(_status_view(summary, state, spent, limit))
    return views


def _status_view(summary: SessionSummary, state: State, spent: float, limit: float) -> View:
    tail = [m for m in state.messages if m.seq >= state.progress.tail_start]
    size = sum(n.tokens for n in state.active) + tokens_of(tail)
    return session_view(summary) | {
        "unnoted_tokens": state.progress.unnoted_tokens,
        "buffered": len(state.buffered),
        "buffered_tokens": sum(n.tokens for n in state.buffered),
        "tail_messages": len(tail),
        "tail_tokens": tokens_of(tail),
        "budget": state.progress.budget,
        "compression": round(summary.message_tokens / size, 2) if size else 1.0,
        "due_at": iso(state.progress.due_at),
        "failures": state.progress.failures,
        "spent": round(spent, 6),
        "spend_limit": limit or None,
    }


_STATUS_COLUMNS = (
    Column("session"),
    Column("owner"),
    Column("messages", right=True),
    Column("raw tokens", right=True),
    Column("observations", right=True),
    Column("reflections", right=True),
    Column("not noted", right=True),
    Column("buffered", right=True),
    Column("budget", right=True),
    Column("compression", right=True),
)


def _status_row(view: View, paid: bool) -> list[str]:
    row = [
        view["session_key"],
        view["owner"],
        f"{view['messages']:,}",
        f"{view['message_tokens']:,}",
        f"{view['observations']:,} ({view['observation_tokens']:,} t)",
        f"{view['reflections']:,} ({view['reflection_tokens']:,} t)",
        f"{view['unnoted_tokens']:,} t",
        f"{view['buffered']:,} ({view['buffered_tokens']:,} t)",
        f"{view['budget']:,} t" if view["budget"] else "-",
        f"{view['compression']:.1f}x",
    ]
    if paid:
        limit = view["spend_limit"]
        row.append(f"${view['spent']:.4f}" + (f" of ${limit:g}" if limit else ""))
    return row


# ------------------------------------------------------------------------------------ extracted


async def extracted(
    screen: Screen,
    target: SessionTarget,
    type: Annotated[
        str | None, typer.Option("--type", metavar="NAME", help="Only values of this type.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the values extracted into your own types, oldest first.

    Each is shown with the note it was written with and the messages it came from.
    """
    async with target.open() as memory:
        session, _ = await target.find(memory)
        views = [_extraction_view(found) for found in await session.history.extractions(type)]
    screen.results(views, as_json, _EXTRACTION_COLUMNS, _extraction_row, empty="Nothing extracted.")


def _extraction_view(extraction: Extraction) -> View:
    return {
        "session_key": extraction.session.key,
        "owner": extraction.session.owner,
        "type": extraction.type,
        "value": extraction.value,
        "note_id": extraction.note,
        "source_seqs": list(extraction.seqs),
        "said_at": extraction.said_at.isoformat(),
        "created_at": extraction.made_at.isoformat(),
    }


_EXTRACTION_COLUMNS = (
    Column("type"),
    Column("said at"),
    Column("messages"),
    Column("note"),
    Column("value", text=True),
)


def _extraction_row(view: View) -> list[str]:
    return [
        view["type"],
        minute(view["said_at"]),
        ", ".join(map(str, view["source_seqs"])),
        view["note_id"],
        json.dumps(view["value"], ensure_ascii=False),
    ]
