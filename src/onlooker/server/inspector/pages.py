"""The pages about sessions, under `/` and `/inspect/sessions`. All their figures come from the methods that
REST uses."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from onlooker import demo
from onlooker.domain.context import RuntimeContext
from onlooker.domain.errors import BudgetError, ConflictError, NotFoundError, OnlookerError, SettingsError
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import NOTE_STATUSES, SessionSummary, State
from onlooker.engine.memory import Memory
from onlooker.engine.preview import last_budget, preview
from onlooker.engine.session import Session
from onlooker.policy.render import Context
from onlooker.policy.settings import MAX_TOKENS, MIN_BUDGET, PRESETS, Settings
from onlooker.server import live
from onlooker.server.auth import decoded
from onlooker.server.inspector import figures, text
from onlooker.server.inspector.layout import SAFE_HEADERS, OwnForm, address, ago, page, redirect
from onlooker.server.rest import (
    MAX_SEQ,
    Actor,
    Asker,
    Cursor,
    KnownSession,
    Owner,
    UsedMemory,
    make_cursor,
    owner_of,
    session_cursor,
    state_of,
)

log = logging.getLogger("onlooker.server")

router = APIRouter(include_in_schema=False)
# The stream of /v1/events, for pages, which send the cookie.
router.add_api_route("/inspect/events", live.events)

# Sessions on a page, how many are searched for a channel, and owners to choose from.
SESSIONS = 25
MAX_SEARCHED = 500
MAX_OWNERS = 200
# How many messages are shown next to a note.
BESIDE = 30


# ------------------------------------------------------------------------------------ sessions


@frozen
class Listed:
    """A session in the list: its summary and its problems."""

    summary: SessionSummary
    context: int
    troubles: Sequence[str]

    @property
    def id(self) -> SessionId:
        return self.summary.progress.session


@router.get("/")
async def sessions(
    request: Request,
    memory: UsedMemory,
    principal: Asker,
    owner: str = "",
    q: Annotated[str, Query(max_length=1_000)] = "",
    channel: str = "",
    cursor: Cursor = "",
) -> Response:
    """The sessions, most recently used first."""
    known = owner_of(principal, owner or None)
    shown, behind = await _wanted(memory, known, q.strip(), channel, session_cursor(cursor))
    owners = [principal.owner] if principal.owner else await memory.store.owners(limit=MAX_OWNERS)
    return page(
        request,
        "sessions.html",
        sessions=[_listed(s) for s in shown],
        owners=owners,
        asked={"q": q, "owner": owner, "channel": channel, "cursor": cursor},
        next=behind,
        empty=not (shown or cursor) and not await memory.sessions(owner=principal.owner, limit=1),
        origin=str(request.base_url).rstrip("/"),
        query=urlencode({"q": q, "owner": owner, "channel": channel}, errors="replace"),
    )


async def _wanted(
    memory: Memory, owner: str | None, q: str, channel: str, after: tuple[datetime, str] | None
) -> tuple[list[SessionSummary], str | None]:
    """A page of sessions, and the cursor of the next one. Channels are not indexed: a limited number of
    sessions that match the words is searched, and the next page continues after them."""
    matching = q or (channel if channel != "direct" else "")
    found: list[SessionSummary] = []
    for _ in range(MAX_SEARCHED // SESSIONS):
        some = await memory.store.sessions(owner=owner, limit=SESSIONS, after=after, matching=matching)
        for place, summary in enumerate(some):
            if not channel or RuntimeContext.of(summary.progress.session.key).channel == channel:
                found.append(summary)
            after = summary.used_at, summary.progress.sid
            if len(found) == SESSIONS and place + 1 < len(some):
                return found, make_cursor(after)
        if len(some) < SESSIONS:
            return found, None
        if len(found) >= SESSIONS:
            break
    assert after is not None
    more = await memory.store.sessions(owner=owner, limit=1, after=after, matching=matching)
    return found, make_cursor(after) if more else None


def _listed(summary: SessionSummary) -> Listed:
    progress = summary.progress
    held = summary.observation_tokens + summary.reflection_tokens + progress.unnoted_tokens
    return Listed(summary, held, _troubles(summary))


def _troubles(summary: SessionSummary) -> list[str]:
    found: list[str] = []
    failures, due_at = summary.progress.failures, summary.progress.due_at
    if failures:
        found.append(f"the model failed {failures} times in a row" if failures > 1 else "the model failed")
    if summary.degraded:
        found.append(f"{summary.degraded} degraded note{'s' if summary.degraded > 1 else ''}")
    lag = (datetime.now(UTC) - due_at).total_seconds() if due_at else 0
    if lag > 5:
        found.append(f"notes were due {ago(due_at)}")
    return found


# ------------------------------------------------------------------------------------ one session

LoadedState = Annotated[State, Depends(state_of)]
Seq = Annotated[int | None, Query(ge=0, le=MAX_SEQ)]


async def _head(memory: Memory, session: Session, state: State) -> dict[str, Any]:
    """The head of every page of a session."""
    (summary,) = await memory.sessions(owner=session.owner, key=session.key, limit=1)
    return {"session": session.id, "summary": summary, "state": state, "troubles": _troubles(summary)}


@router.get("/inspect/sessions/{key}")
async def conversation(
    request: Request,
    memory: UsedMemory,
    session: KnownSession,
    state: LoadedState,
    to: Seq = None,
    seq: Seq = None,
    note: str = "",
) -> Response:
    """A session: its sizes over time, and its messages with their places."""
    context = await preview(memory.store, session.id, memory.settings, memory.counting)
    chosen = next((n for n in state.notes if n.id == note), None)
    if to is None and (seq or chosen):
        to = (seq or (chosen.first if chosen else 0)) + figures.PAGE // 2
    shown = await figures.page_of(memory.store, state, context, to)
    picked = next((m for m in shown.messages if m.message.seq == seq), None)
    return page(
        request,
        "session.html",
        **await _head(memory, session, state),
        shown=shown,
        to=to,
        seq=seq,
        note=chosen or (picked.note if picked else None),
        context=context,
    )


@router.get("/inspect/sessions/{key}/timeline")
async def timeline(memory: UsedMemory, session: KnownSession, state: LoadedState) -> Response:
    """The chart's figures."""
    line = await figures.timeline(memory.store, session.id)
    # No context exceeds its budget, even where notes came late.
    budget = last_budget(state.progress.budget, "", memory.counting, memory.settings)
    body = {
        "seq": [p.seq for p in line.points],
        "at": [p.at.isoformat() if p.at else None for p in line.points],
        "raw": [p.raw for p in line.points],
        "context": [min(p.context, budget or MAX_TOKENS) for p in line.points],
        "marks": [_mark(mark) for mark in line.marks],
        "budget": budget,
    }
    return JSONResponse(body, headers=SAFE_HEADERS)


def _mark(mark: figures.Mark) -> dict[str, Any]:
    tokens = sum(n.tokens for n in mark.notes)
    first, last = min(n.first for n in mark.notes), max(n.last for n in mark.notes)
    what = f"{len(mark.notes)} {mark.kind}{'s' if len(mark.notes) > 1 else ''}"
    if mark.kind == "reflection":
        about = f"{what} of {tokens:,} tokens in place of notes of {mark.replaced:,}"
    else:
        about = f"{what} of {tokens:,} tokens in place of messages {first:,} to {last:,}"
    return {"seq": mark.seq, "kind": mark.kind, "note": mark.notes[-1].id, "about": about}


@router.get("/inspect/sessions/{key}/messages/{seq}")
async def message(
    request: Request, memory: UsedMemory, session: KnownSession, seq: Annotated[int, Path(ge=0, le=MAX_SEQ)]
) -> Response:
    """A whole message, however long it is."""
    found = await session.recall(seq)
    return page(request, "message.html", session=session.id, message=found[0])


# ------------------------------------------------------------------------------------ what the model will see


@frozen
class Part:
    """A part of a prompt: what it is, its text, and its tokens."""

    kind: str
    name: str
    text: str
    tokens: int


def _parts(context: Context) -> list[Part]:
    """The parts of a prompt, in the order in which they are sent."""
    stats, sections = context.stats, context.sections
    reflections, first = sections.layer("reflections"), "\n".join(sections.reflections)
    above = first[: len(first) - len(reflections)]
    closing = sections.texts()[-1] if context.memory else ""
    known = stats.items + stats.pinned
    found = [
        Part("system", "Base prompt", sections.base, stats.system + stats.knowledge),
        # A heading is counted with what follows it.
        Part("item", "Heading, items and pins" if known else "Heading", above, known),
        Part("reflection", "Reflections", reflections, stats.reflections),
        Part("observation", "Observations", "\n".join(sections.observations), stats.observations),
        Part("item", "Now: what the user asked for", closing, stats.now),
    ]
    found += [
        Part("raw", f"{m.speaker} · {m.at:%Y-%m-%d %H:%M}" if m.at else m.speaker, m.body, m.tokens)
        for m in (*context.preface, *context.messages)
    ]
    found.append(Part("recall", "Recall for this turn", context.end, stats.end))
    return [p for p in found if p.text or p.tokens]


@frozen
class Seen:
    """What a model would see with these settings."""

    preset: str
    context: Context
    parts: Sequence[Part]

    @property
    def sizes(self) -> list[tuple[str, str, int]]:
        """What the prompt is made of, and the tokens of each, in the order in which it is sent."""
        stats = self.context.stats
        return [
            ("system", "base prompt and knowledge", stats.system + stats.knowledge),
            ("item", "items of other sessions", stats.items),
            ("item", "pinned", stats.pinned),
            ("reflection", "reflections", stats.reflections),
            ("observation", "observations", stats.observations),
            ("item", "what the user asked for", stats.now),
            ("raw", "raw messages", stats.messages),
            ("recall", "recall and end", stats.end),
        ]


Words = Annotated[str, Query(max_length=20_000)]
Budget = Annotated[int | None, Query(ge=0, le=MAX_TOKENS)]
PresetName = Literal["", "default", "lango", "zora"]


def _preset(memory: Memory, name: str) -> Settings:
    """The settings of a preset, for the same models; without a name those of the server."""
    if not name:
        return memory.settings
    return replace(PRESETS[name], free_models=memory.settings.free_models)


async def _seen(memory: Memory, session: Session, name: str, budget: int | None, words: str) -> Seen | str:
    """What a model would see, or the error if there is no context."""
    settings = _preset(memory, name)
    try:
        context = await preview(
            memory.store, session.id, settings, memory.counting, budget=budget, words=words
        )
    except BudgetError as error:
        return str(error)
    return Seen(name, context, _parts(context))


@router.get("/inspect/sessions/{key}/prompt")
async def prompt(
    request: Request,
    memory: UsedMemory,
    session: KnownSession,
    state: LoadedState,
    budget: Budget = None,
    words: Words = "",
    preset: PresetName = "",
    compared: PresetName = "",
) -> Response:
    """The context exactly as it would be sent, for a next message of the user."""
    usual = last_budget(state.progress.budget, "", memory.counting, memory.settings)
    chosen = usual if budget is None else max(MIN_BUDGET, budget)
    columns = [await _seen(memory, session, preset, chosen, words)]
    if compared:
        columns.append(await _seen(memory, session, compared, chosen, words))
    seen = [column for column in columns if isinstance(column, Seen)]
    return page(
        request,
        "prompt.html",
        **await _head(memory, session, state),
        columns=columns,
        # Each column has the same rows, so that they can be compared.
        rows={name for column in seen for _, name, tokens in column.sizes if tokens},
        budget=chosen,
        usual=usual,
        most=max(32_000, 2 * usual, chosen),
        least=MIN_BUDGET,
        words=words,
        preset=preset,
        compared=compared,
        presets=list(PRESETS),
        query={"budget": chosen, "words": words},
    )


@router.get("/inspect/sessions/{key}/prompt.json")
async def prompt_json(
    memory: UsedMemory,
    session: KnownSession,
    format: Literal["openai", "anthropic"] = "openai",
    budget: Budget = None,
    words: Words = "",
    preset: PresetName = "",
) -> Response:
    """The prompt as JSON for a provider, to copy."""
    seen = await _seen(memory, session, preset, budget, words)
    if isinstance(seen, str):
        raise SettingsError("budget", budget, seen)
    body: Any = {"messages": seen.context.openai()} if format == "openai" else dict(seen.context.anthropic())
    found = json.dumps(body, ensure_ascii=False, indent=2).encode("utf-8", "replace")
    return Response(found, headers=SAFE_HEADERS, media_type="application/json")


# ------------------------------------------------------------------------------------ notes


@router.get("/inspect/sessions/{key}/notes")
async def notes(
    request: Request,
    memory: UsedMemory,
    session: KnownSession,
    state: LoadedState,
    note: str = "",
    then: Seq = None,
    other: str = "",
    confirm: Literal["", "forget", "undo"] = "",
) -> Response:
    """Observations and reflections, now or at an earlier time, and one of them next to its source."""
    roots = state.notes if then is None else await memory.store.notes_at(session.id, then)
    if not note and roots:
        note = max(roots, key=lambda n: n.last).id
    return page(
        request,
        "notes.html",
        **await _head(memory, session, state),
        roots=sorted(roots, key=lambda n: -n.last),
        then=then,
        confirm=confirm,
        other=other,
        **await _chosen_note(memory, session, note, other, confirm),
    )


async def _chosen_note(
    memory: Memory, session: Session, ident: str, other: str, confirm: str
) -> dict[str, Any]:
    """A note with its source, versions and differences."""
    if not ident:
        return {"note": None}
    history = await session.history.of(ident)
    note = history.note
    source = await memory.store.messages(
        session.id, after=note.first - 1, up_to=note.last, limit=BESIDE, archived=True
    )
    found: dict[str, Any] = {
        "note": note,
        "history": history,
        "lines": [(number, *_line(line)) for number, line in enumerate(note.text.splitlines())],
        "source": source,
        "runs": text.words_of(note.text.splitlines()),
        "sources": [],
        "diff": None,
        "going": None,
        "refusal": "",
    }
    if note.generation:
        found["sources"] = await memory.store.notes(session.id, statuses=NOTE_STATUSES, ids=note.sources)
    if other or note.generation or len(history.versions) > 1:
        found["diff"] = await session.history.diff(ident, other or None)
    try:
        if confirm == "forget":
            found["going"] = await session.forget(ident, dry_run=True)
        elif confirm == "undo":
            found["going"] = await session.history.undo(ident, dry_run=True)
    except OnlookerError as error:
        found["refusal"] = str(error)
    return found


@router.get("/inspect/sessions/{key}/notes/{note}/sources")
async def note_sources(
    request: Request,
    memory: UsedMemory,
    session: KnownSession,
    state: LoadedState,
    note: Annotated[str, Path(min_length=1, max_length=300)],
    then: Seq = None,
) -> Response:
    """The notes that a reflection was made from: a branch of the tree."""
    found = await memory.store.notes(session.id, statuses=NOTE_STATUSES, ids=[decoded(note)])
    if not found:
        raise NotFoundError("note", decoded(note))
    ids = found[0].sources if found[0].generation else ()
    return page(
        request,
        "branch.html",
        session=session.id,
        note=found[0].id,
        sources=await memory.store.notes(session.id, statuses=NOTE_STATUSES, ids=ids),
        pins=state.pins,
        then=then,
    )


_PRIORITIES = ("CRITICAL", "IMPORTANT", "INFO")


def _line(line: str) -> tuple[str, str]:
    """The kind of a line, which decides its style, and its text."""
    if line.startswith("#"):
        return "day", line.lstrip("# ")
    if line.startswith("Values:"):
        return "values", line
    for priority in _PRIORITIES:
        if priority in line[:40]:
            return priority.lower(), line
    return "line", line


def _back(session: Session, done: str, *parts: str, **query: str) -> Response:
    return redirect(address(session.id, *(parts or ("notes",)), done=done, **query))


NoteId = Annotated[str, Path(min_length=1, max_length=300)]


@router.post("/inspect/sessions/{key}/notes/{note}/edit", dependencies=[OwnForm])
async def edit_note(
    session: KnownSession,
    note: NoteId,
    words: Annotated[str, Form(max_length=1_000_000)] = "",
    was: Annotated[str | None, Form()] = None,
) -> Response:
    """Replace a note's text. The old one is kept as a version."""
    # A browser sends \r\n for the end of each line.
    words, was = words.replace("\r\n", "\n"), None if was is None else was.replace("\r\n", "\n")
    await session.history.edit(decoded(note), words, by="inspector", was=was)
    return _back(session, "The note is changed. The old text is kept.", note=decoded(note))


@router.post("/inspect/sessions/{key}/pins/{target}", dependencies=[OwnForm])
async def pin(session: KnownSession, target: NoteId, on: Annotated[bool, Form()] = True) -> Response:
    """Pin a note or message, or unpin it."""
    target = decoded(target)
    await session.pin(target, on=on)
    said = "It is pinned: every context shows it." if on else "It is no longer pinned."
    return _back(session, said, note=target)


@router.post("/inspect/sessions/{key}/notes/{note}/forget", dependencies=[OwnForm])
async def forget_note(session: KnownSession, note: NoteId, by: Actor) -> Response:
    """Forget the messages behind a note, with everything made from them."""
    done = await session.forget(decoded(note), by=by or "inspector")
    return _back(session, f"{done.messages} messages and everything made from them are forgotten.")


@router.post("/inspect/sessions/{key}/notes/{note}/undo", dependencies=[OwnForm])
async def undo_note(session: KnownSession, note: NoteId) -> Response:
    """Undo a reflection."""
    back = await session.history.undo(decoded(note))
    return _back(session, f"The reflection is undone: {len(back)} notes replace it.")


@router.post("/inspect/sessions/{key}/forget", dependencies=[OwnForm])
async def forget_session(memory: UsedMemory, session: KnownSession, by: Actor) -> Response:
    """Forget a session with everything in it."""
    await memory.forget(owner=session.owner, session=session.key, by=by or "inspector")
    return redirect("/?" + urlencode({"done": "The session is forgotten."}))


# ------------------------------------------------------------------------------------ the demo

DEMO = "demo"
DEMO_OWNER = "ana"
DEMO_BUDGET = 8_000
DEMO_SYSTEM = "You are Ana's assistant. Be brief and exact."
# Seconds between two messages: the whole conversation takes about half a minute.
DEMO_PACE = 0.06


class Player:
    """Plays the demo conversation into the memory, as an agent would record it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._task: asyncio.Task[None] | None = None

    @property
    def is_playing(self) -> bool:
        return self._task is not None and not self._task.done()

    def play(self, owner: str) -> SessionId:
        session = self._memory.session(DEMO, owner=owner)
        if not self.is_playing:
            self._task = asyncio.create_task(self._play(session), name="onlooker demo")
        return session.id

    async def _play(self, session: Session) -> None:
        try:
            for said in demo.conversation():
                if said["role"] == "assistant":
                    await session.context(system=DEMO_SYSTEM, budget=DEMO_BUDGET)
                await session.record(said)
                await asyncio.sleep(DEMO_PACE)
        except OnlookerError as error:
            log.warning("the demo stopped: %s", error)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


@router.post("/inspect/demo", dependencies=[OwnForm])
async def play_demo(request: Request, memory: UsedMemory, principal: Asker, owner: Owner = None) -> Response:
    """Play the demo conversation into an empty store."""
    known = owner_of(principal, owner)
    if await memory.sessions(owner=principal.owner, limit=1):
        raise ConflictError("the demo needs an empty store, but there are sessions")
    session = request.app.state.player.play(known or DEMO_OWNER)
    for _ in range(100):
        if await memory.sessions(owner=session.owner, key=session.key, limit=1):
            return redirect(address(session))
        await asyncio.sleep(0.02)
    raise NotFoundError("session", session.key)
