"""REST under `/v1`: the library's features for any other program.

A session is named by its key in the path (with a slash as %2F) and its owner, by default that of the token.
For an owner other than the token's, every request answers 404.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path as FilePath
from typing import Annotated, Any, cast

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter

from onlooker.domain.errors import NotFoundError, SettingsError, StoreError
from onlooker.domain.events import Event, FileConsolidated
from onlooker.domain.history import Scope
from onlooker.domain.items import Item, ItemStatus
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import NoteKind, NoteStatus, State, Usage
from onlooker.domain.search import HitKind
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.files.export import lines_of, read_export
from onlooker.policy.render import Context
from onlooker.policy.settings import KEYS
from onlooker.server.auth import Principal, decoded
from onlooker.server.jobs import JSON_LINES, PAUSE, Report, run_job
from onlooker.server.views import (
    MAX_MESSAGES,
    PROBLEMS,
    ConsolidatedDay,
    ConsolidatedDays,
    ContextRequest,
    ContextView,
    Edit,
    Forget,
    ForgetLog,
    ForgetRecordView,
    ForgetView,
    Format,
    Hits,
    HitView,
    Imported,
    Items,
    ItemView,
    MessagePage,
    Messages,
    MessageView,
    NewItem,
    NoteHistoryView,
    NotePage,
    Notes,
    NoteView,
    Pins,
    PrepareRequest,
    Recorded,
    Restore,
    SessionName,
    SessionPage,
    SessionView,
    Settled,
    Spend,
    Undo,
    UsageView,
)

router = APIRouter(prefix="/v1", responses=PROBLEMS)

MAX_PAGE = 1_000
# The largest number that every store can hold.
MAX_SEQ = (1 << 62) - 1
# At most this many due sessions are counted.
MAX_DUE = 10_000


# ------------------------------------------------------------------------------------ who asks, for what

# Coroutines, though none of them waits: FastAPI calls plain functions in threads, which takes longer than the
# functions themselves.


async def memory_of(request: Request) -> Memory:
    return request.app.state.memory


async def principal_of(request: Request) -> Principal:
    return request.state.principal


UsedMemory = Annotated[Memory, Depends(memory_of)]
Asker = Annotated[Principal, Depends(principal_of)]
Owner = Annotated[
    str | None, Query(min_length=1, max_length=1_000, description="The owner; by default the token's.")
]


async def actor_of(
    principal: Asker,
    by: Annotated[str, Query(max_length=100, description="The name to record in `/v1/forgotten`.")] = "",
) -> str:
    """Who forgets something: the token of the request, and the name in `by`. It cannot name another token."""
    return " ".join(filter(None, (by, f"(token {principal.token})" if principal.token else "")))


Actor = Annotated[str, Depends(actor_of)]


def owner_of(principal: Principal, asked: str | None) -> str | None:
    """The owner that a request is about; None if it names none and may see all.

    Raises:
        NotFoundError: The token is another owner's.
    """
    if principal.owner is not None and asked not in (None, principal.owner):
        raise NotFoundError("owner", asked)
    return asked or principal.owner


async def named_owner(memory: UsedMemory, principal: Asker, owner: Owner = None) -> str:
    """The owner that a request is about, by default the memory's own."""
    return owner_of(principal, owner) or memory.session("-").owner


OneOwner = Annotated[str, Depends(named_owner)]


async def any_session(
    memory: UsedMemory,
    principal: Asker,
    key: Annotated[str, Path(min_length=1, max_length=3_000)],
    owner: Owner = None,
) -> Session:
    """The session of the path, whether or not anything was recorded in it."""
    known = owner_of(principal, owner)
    key = decoded(key)
    return memory.session(key) if known is None else memory.session(key, owner=known)


AnySession = Annotated[Session, Depends(any_session)]


async def state_of(memory: UsedMemory, session: AnySession) -> State:
    state = await memory.store.load(session.id, newest=1)
    if state is None:
        raise NotFoundError("session", session.key)
    return state


async def known_session(session: AnySession, _: Annotated[State, Depends(state_of)]) -> Session:
    """The session of the path, if anything was recorded in it."""
    return session


KnownSession = Annotated[Session, Depends(known_session)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many to return.")]
Cursor = Annotated[
    str, Query(max_length=4_000, pattern=r"^[A-Za-z0-9_-]*$", description="`next` of the previous page.")
]


def make_cursor(place: Sequence[object]) -> str:
    """The cursor of the next page: the sort key of the last entry. So nothing is repeated or skipped if
    entries are added before it."""
    text = json.dumps([p.isoformat() if isinstance(p, datetime) else p for p in place])
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(cursor: str, kinds: Sequence[type]) -> list[Any] | None:
    if not cursor:
        return None
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    if not isinstance(found, list) or [type(p) for p in cast("list[Any]", found)] != list(kinds):
        raise SettingsError("cursor", cursor[:100], "must be `next` of the page before")
    return cast("list[Any]", found)


def session_cursor(cursor: str) -> tuple[datetime, str] | None:
    """The `after` of `Store.sessions`."""
    found = _read_cursor(cursor, (str, str))
    if found is None:
        return None
    try:
        at, sid = datetime.fromisoformat(found[0]), bytes.fromhex(found[1])
        # Adding a zone to the first or last possible year may overflow.
        return at.astimezone(UTC), sid.hex()
    except (ValueError, OverflowError):
        raise SettingsError("cursor", cursor[:100], "must be `next` of the page before") from None


def note_cursor(cursor: str) -> tuple[int, int, str] | None:
    """The `after` of `Store.notes`."""
    found = _read_cursor(cursor, (int, int, str))
    return None if found is None else (found[0], found[1], found[2])


# ------------------------------------------------------------------------------------ contexts

CONTEXT: TypeAdapter[Context] = TypeAdapter(Context)


def _context_view(session: SessionId, context: Context, format: Format) -> ContextView:
    view = ContextView(
        session=SessionName.model_validate(session, from_attributes=True), format=format, stats=context.stats
    )
    match format:
        case "openai":
            view.messages = context.openai()
        case "anthropic":
            prompt = context.anthropic()
            view.system, view.messages = prompt.get("system"), prompt["messages"]
        case "text":
            view.text = context.text()
        case "parts":
            view.parts = CONTEXT.dump_python(context, mode="json", exclude={"stats"})
    return view


async def _context(session: Session, asked: ContextRequest) -> ContextView:
    given: Any = asked.model_dump(exclude={"format"}, exclude_defaults=True)
    context = await session.context(**given)
    return _context_view(session.id, context, asked.format)


# ------------------------------------------------------------------------------------ sessions


@router.get("/sessions", tags=["sessions"])
async def list_sessions(
    memory: UsedMemory, principal: Asker, owner: Owner = None, limit: Limit = 100, cursor: Cursor = ""
) -> SessionPage:
    """List sessions, most recently used first. One that is used meanwhile moves to the first page."""
    found = await memory.store.sessions(
        owner=owner_of(principal, owner), limit=limit + 1, after=session_cursor(cursor)
    )
    last = found[:limit][-1] if len(found) > limit else None
    return SessionPage(
        sessions=[SessionView.of(summary) for summary in found[:limit]],
        next=last and make_cursor((last.used_at, last.progress.sid)),
    )


@router.get("/sessions/{key}", tags=["sessions"])
async def session_status(memory: UsedMemory, session: KnownSession) -> SessionView:
    """A session and the progress of its notes."""
    found = await memory.sessions(owner=session.owner, key=session.key, limit=1)
    if not found:
        raise NotFoundError("session", session.key)
    return SessionView.of(found[0])


@router.delete("/sessions/{key}", tags=["sessions"])
async def delete_session(memory: UsedMemory, session: KnownSession, by: Actor) -> ForgetView:
    """Forget a session with everything derived from it, down to the bytes in the files."""
    done = await memory.forget(owner=session.owner, session=session.key, by=by)
    return ForgetView.model_validate(done)


@router.post("/sessions/{key}/messages", tags=["sessions"])
async def record(
    session: AnySession,
    body: Annotated[
        dict[str, Any],
        Body(
            description='A message, or `{"messages": [...]}`: in the form of OpenAI or Anthropic.',
            examples=[{"role": "user", "content": "I moved to Oslo last week", "id": "m1"}],
        ),
    ],
) -> Recorded:
    """Record one message, or many in one transaction. They are durable when this returns.

    A message whose `id` is already recorded is skipped, so that a request can be repeated.
    """
    if "role" in body:
        items: object = [body]
    elif set(body) == {"messages"}:
        items = body["messages"]
    else:
        raise SettingsError("body", sorted(body)[:10], 'must be a message or {"messages": [...]}')
    if not isinstance(items, list) or len(cast("list[Any]", items)) > MAX_MESSAGES:
        raise SettingsError(
            "messages", type(body["messages"]).__name__, f"must be a list of at most {MAX_MESSAGES} messages"
        )
    recorded = await session.record(cast("list[Any]", items))
    return Recorded(recorded=[MessageView.model_validate(m) for m in recorded])


@router.get("/sessions/{key}/messages", tags=["sessions"])
async def list_messages(
    memory: UsedMemory,
    session: KnownSession,
    limit: Limit = 100,
    cursor: Cursor = "",
    archived: Annotated[bool, Query(description="Also messages that a summary replaced.")] = False,
) -> MessagePage:
    """The messages, oldest first."""
    (after,) = _read_cursor(cursor, (int,)) or (0,)
    found = await memory.store.messages(session.id, after=after, limit=limit + 1, archived=archived)
    shown = [MessageView.model_validate(m) for m in found[:limit]]
    return MessagePage(messages=shown, next=make_cursor((shown[-1].seq,)) if len(found) > limit else None)


@router.post("/sessions/{key}/prepare", tags=["sessions"])
async def prepare(session: AnySession, asked: PrepareRequest) -> ContextView:
    """Record what is new in a host's whole history, and return the context to send instead."""
    given: Any = asked.model_dump(exclude={"format", "messages"}, exclude_defaults=True)
    context = await session.prepare(asked.messages, **given)
    return _context_view(session.id, context, asked.format)


@router.get("/sessions/{key}/context", tags=["sessions"], response_model=ContextView)
async def context(
    response: Response,
    session: AnySession,
    asked: Annotated[ContextRequest, Depends()],
    if_none_match: Annotated[str | None, Header()] = None,
) -> Any:
    """The context for the next turn. Its `ETag` changes when the context does."""
    view = await _context(session, asked)
    shown = view.model_dump_json(exclude={"stats": {"changed", "changes_per_100"}})  # of the calls before it
    tag = f'"{hashlib.blake2b(shown.encode(), digest_size=16).hexdigest()}"'
    if if_none_match is not None and tag in [t.strip().removeprefix("W/") for t in if_none_match.split(",")]:
        return Response(status_code=304, headers={"etag": tag})
    response.headers["etag"] = tag
    return view


@router.post("/sessions/{key}/context", tags=["sessions"])
async def context_of(session: AnySession, asked: ContextRequest) -> ContextView:
    """The same as a POST, for prompts that are too long for a URL."""
    return await _context(session, asked)


@router.get("/sessions/{key}/as-of", tags=["sessions"])
async def as_of(
    session: KnownSession,
    seq: Annotated[
        int | None, Query(ge=0, le=MAX_SEQ, description="When this message was the newest.")
    ] = None,
    at: Annotated[datetime | None, Query(description="At this time.")] = None,
    system: str = "",
    budget: Annotated[int | None, Query(ge=0, le=100_000_000)] = None,
    format: Format = "openai",
) -> ContextView:
    """The context as it would have been then, with today's settings."""
    point = seq if at is None else at
    if point is None:
        raise SettingsError("as-of", None, "needs `seq` or `at`")
    moment = await session.history.as_of(point)
    return _context_view(session.id, moment.context(system=system, budget=budget), format)


@router.post("/sessions/{key}/settle", tags=["sessions"])
async def settle(session: KnownSession) -> Settled:
    """Take every note that is due before returning."""
    return Settled(settled=await session.settle())


@router.post("/sessions/{key}/end", tags=["sessions"])
async def end(session: KnownSession) -> Items:
    """End the conversation. Returns the items made for the owner's other sessions."""
    return _items(await session.end())


# ------------------------------------------------------------------------------------ notes


@router.get("/sessions/{key}/notes", tags=["notes"])
async def list_notes(
    memory: UsedMemory,
    session: KnownSession,
    kind: NoteKind | None = None,
    status: Annotated[list[NoteStatus], Query()] = ["active"],  # noqa: B006  FastAPI copies it
    limit: Limit = 100,
    cursor: Cursor = "",
) -> NotePage:
    """Observations and reflections, oldest first."""
    found = await memory.store.notes(
        session.id, kind=kind, statuses=status, limit=limit + 1, after=note_cursor(cursor)
    )
    last = found[:limit][-1] if len(found) > limit else None
    return NotePage(
        notes=[NoteView.model_validate(n) for n in found[:limit]],
        next=last and make_cursor((last.first, last.generation, last.id)),
    )


@router.get("/sessions/{key}/notes/{note}", tags=["notes"])
async def note_history(session: KnownSession, note: str) -> NoteHistoryView:
    """A note with all its versions."""
    return NoteHistoryView.model_validate(await session.history.of(decoded(note)))


@router.put("/sessions/{key}/notes/{note}", tags=["notes"])
async def edit_note(session: KnownSession, note: str, edit: Edit) -> NoteView:
    """Replace a note's text. The old one is kept as a version."""
    after = await session.history.edit(decoded(note), edit.text, by=edit.by, was=edit.was)
    return NoteView.model_validate(after)


@router.post("/sessions/{key}/undo", tags=["notes"])
async def undo(session: KnownSession, asked: Undo) -> Notes:
    """Undo a reflection: show the notes it was made from again."""
    back = await session.history.undo(asked.note, dry_run=asked.dry_run)
    return Notes(notes=[NoteView.model_validate(n) for n in back])


@router.post("/sessions/{key}/forget", tags=["notes"])
async def forget(session: KnownSession, asked: Forget, by: Actor) -> ForgetView:
    """Forget messages, with everything derived from them."""
    done = await session.forget(*asked.targets, dry_run=asked.dry_run, by=by)
    return ForgetView.model_validate(done)


@router.get("/sessions/{key}/taken-back", tags=["notes"])
async def taken_back(session: KnownSession) -> Messages:
    """The messages that the host took back: a regenerated answer, an edit, a branch."""
    return _messages(await session.history.taken_back())


@router.post("/sessions/{key}/restore", tags=["notes"])
async def restore(session: KnownSession, asked: Restore) -> Messages:
    """Restore messages that the host took back."""
    return _messages(await session.history.restore(asked.message))


@router.get("/sessions/{key}/recall", tags=["search"])
async def recall(
    session: KnownSession,
    note: Annotated[str | None, Query(description="The id of a note.")] = None,
    seq: Annotated[int | None, Query(ge=0, le=MAX_SEQ, description="The seq of a message.")] = None,
    neighbours: Annotated[int, Query(ge=0, le=1_000)] = 0,
    page: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> Messages:
    """The messages behind a note, or around a message, word for word."""
    target = note if note is not None else seq
    if target is None:
        raise SettingsError("recall", None, "needs `note` or `seq`")
    return _messages(await session.recall(target, neighbours=neighbours, page=page))


# ------------------------------------------------------------------------------------ pins


@router.get("/sessions/{key}/pins", tags=["notes"])
async def list_pins(state: Annotated[State, Depends(state_of)]) -> Pins:
    """The ids of pinned notes and messages, which every context shows."""
    return Pins(pins=sorted(state.pins))


@router.put("/sessions/{key}/pins/{target}", tags=["notes"], status_code=204)
async def pin(session: KnownSession, target: str) -> None:
    """Keep a note or message in every context."""
    await session.pin(decoded(target))


@router.delete("/sessions/{key}/pins/{target}", tags=["notes"], status_code=204)
async def unpin(session: KnownSession, target: str) -> None:
    """Unpin it."""
    await session.pin(decoded(target), on=False)


# ------------------------------------------------------------------------------------ search


@router.get("/search", tags=["search"])
async def search(
    memory: UsedMemory,
    owner: OneOwner,
    q: Annotated[str, Query(max_length=10_000)],
    session: Annotated[
        str | None, Query(min_length=1, description="Only in the session with this key.")
    ] = None,
    kind: Annotated[list[HitKind], Query()] = ["message", "note"],  # noqa: B006  FastAPI copies it
    limit: Limit = 20,
    after: datetime | None = None,
    before: datetime | None = None,
) -> Hits:
    """Search an owner's messages and notes."""
    hits = await memory.search(
        q, owner=owner, session=session, kinds=kind, limit=limit, after=_zoned(after), before=_zoned(before)
    )
    return Hits(hits=[HitView.model_validate(hit) for hit in hits])


# ------------------------------------------------------------------------------------ items


@router.get("/items", tags=["items"])
async def list_items(
    memory: UsedMemory,
    owner: OneOwner,
    q: Annotated[str | None, Query(max_length=10_000, description="Only those that match.")] = None,
    status: Annotated[list[ItemStatus], Query()] = ["live"],  # noqa: B006  FastAPI copies it
    limit: Limit = 100,
) -> Items:
    """An owner's items: pinned ones first, then the last used."""
    if q is not None:
        return _items([found.item for found in await memory.items.search(q, owner=owner, limit=limit)])
    return _items((await memory.items.list(owner, statuses=status))[:limit])


@router.post("/items", tags=["items"], status_code=201)
async def save_item(memory: UsedMemory, owner: OneOwner, item: NewItem) -> ItemView:
    """Save a fact for all sessions of an owner."""
    given: Any = item.model_dump() | {"expires_at": _zoned(item.expires_at)}
    return ItemView.model_validate(await memory.items.save(owner=owner, **given))


@router.delete("/items/{item}", tags=["items"])
async def forget_item(memory: UsedMemory, owner: OneOwner, item: str, by: Actor) -> Items:
    """Archive an item, with those it replaced and those made from it."""
    return _items(await memory.items.forget(decoded(item), owner=owner, by=by))


@router.put("/items/{item}/pin", tags=["items"], status_code=204)
async def pin_item(memory: UsedMemory, owner: OneOwner, item: str) -> None:
    """Show an item first in every new session."""
    await memory.items.pin(decoded(item), owner=owner)


@router.delete("/items/{item}/pin", tags=["items"], status_code=204)
async def unpin_item(memory: UsedMemory, owner: OneOwner, item: str) -> None:
    """Unpin it."""
    await memory.items.pin(decoded(item), owner=owner, on=False)


# ------------------------------------------------------------------------------------ the whole


@router.delete("/owners/{owner}", tags=["owners"])
async def forget_owner(
    memory: UsedMemory,
    principal: Asker,
    owner: Annotated[str, Path(min_length=1, max_length=3_000)],
    by: Actor,
) -> ForgetView:
    """Forget everything of an owner."""
    known = owner_of(principal, decoded(owner))
    assert known is not None
    return ForgetView.model_validate(await memory.forget(owner=known, by=by))


@router.get("/forgotten", tags=["operation"])
async def forgotten(memory: UsedMemory, principal: Asker, owner: Owner = None) -> ForgetLog:
    """Who forgot what kind of thing, and when, oldest first: of an owner, or of all. The content is not kept,
    and names are hashes."""
    records = await memory.storage.forgotten(owner=owner_of(principal, owner))
    return ForgetLog(forgotten=[ForgetRecordView.model_validate(each) for each in records])


@router.get("/usage", tags=["operation"])
async def usage(
    memory: UsedMemory,
    principal: Asker,
    owner: Owner = None,
    session: Annotated[str | None, Query(min_length=1, description="The key of one session.")] = None,
    limit: Limit = 100,
) -> Spend:
    """What model calls cost: of a session, an owner, or all. `calls` lists the newest."""
    known = owner_of(principal, owner)
    one = None
    calls: Sequence[Usage] = ()
    if session is not None:
        one = memory.session(session) if known is None else memory.session(session, owner=known)
        calls = await memory.store.usage(one.id)
    elif known is None:
        calls = await memory.usage()
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    scope: Mapping[str, Any] = {"session": one.id} if one else {"owner": known}
    return Spend(
        calls=[UsageView.model_validate(u) for u in calls[-limit:]],
        spent=await memory.store.spent(**scope),
        spent_today=await memory.store.spent(**scope, since=today),
    )


@router.get("/settings", tags=["operation"])
async def settings(memory: UsedMemory) -> dict[str, Any]:
    """The settings that the server runs with."""
    return {key: getattr(memory.settings, key) for key in KEYS}


WithProgress = Annotated[
    bool,
    Query(description="Answer with JSON lines that report the progress. Closing the connection cancels it."),
]


# A job answers with its result, or with lines that report its progress.
LINES: dict[int | str, dict[str, Any]] = {200: {"content": {JSON_LINES: {"schema": {"type": "string"}}}}}


@router.post("/settle", tags=["operation"], response_model=Settled, responses=LINES)
async def settle_all(memory: UsedMemory, principal: Asker, progress: WithProgress = False) -> Any:
    """Take every note that is due in every session, including those that a model failed to write. Requires a
    token for all owners."""
    need_all(principal)

    async def job(report: Report) -> Settled:
        async def look() -> None:
            most = 0
            while True:
                left = len(await memory.store.due(datetime.now(UTC), limit=MAX_DUE))
                most = max(most, left)
                report(most - left, most)
                await asyncio.sleep(PAUSE)

        looking = asyncio.create_task(look())
        try:
            await memory.settle()
        finally:
            looking.cancel()
        return Settled(settled=True)

    return await run_job(job, progress=progress)


@router.post("/consolidate", tags=["operation"], response_model=ConsolidatedDays, responses=LINES)
async def consolidate(
    memory: UsedMemory,
    principal: Asker,
    owner: Owner = None,
    older_than: Annotated[float, Query(ge=0, le=36_500, description="The minimum age, in days.")] = 7,
    dry_run: bool = False,
    progress: WithProgress = False,
) -> Any:
    """Make items of old daily notes, and archive their files."""
    known = owner_of(principal, owner)

    async def job(report: Report) -> ConsolidatedDays:
        done = 0

        def count(event: Event) -> None:
            nonlocal done
            done += isinstance(event, FileConsolidated)
            report(done, None)

        leave = memory.subscribe(count)
        try:
            age = timedelta(days=older_than)
            days = await memory.files.consolidate(owner=known, older_than=age, dry_run=dry_run)
        finally:
            leave()
        return ConsolidatedDays(days=[ConsolidatedDay.model_validate(day) for day in days])

    return await run_job(job, progress=progress)


@router.get(
    "/export",
    tags=["operation"],
    response_class=Response,
    responses={200: {"content": {JSON_LINES: {"schema": {"type": "string"}}}}},
)
async def export(
    memory: UsedMemory,
    principal: Asker,
    owner: Owner = None,
    session: Annotated[str | None, Query(min_length=1, description="The key of one session.")] = None,
) -> StreamingResponse:
    """Export everything, one owner, or one session, as JSON lines for `/v1/import` and `onlooker import`."""
    known = owner_of(principal, owner)
    scope = Scope(owner=known)
    if session is not None:
        one = memory.session(session) if known is None else memory.session(session, owner=known)
        if await memory.store.load(one.id, newest=1) is None:
            raise NotFoundError("session", session)
        scope = Scope(session=one.id)

    async def lines() -> AsyncGenerator[bytes]:
        rows = lines_of(memory.store.dump(scope))
        async with aclosing(rows):  # pyright: ignore[reportArgumentType]
            async for line in rows:
                yield f"{line}\n".encode()

    return StreamingResponse(lines(), media_type=JSON_LINES)


@router.post(
    "/import",
    tags=["operation"],
    response_model=Imported,
    responses=LINES,
    openapi_extra={
        "requestBody": {"content": {JSON_LINES: {"schema": {"type": "string"}}}, "required": True}
    },
)
async def import_export(
    request: Request,
    memory: UsedMemory,
    principal: Asker,
    owner: Owner = None,
    all_owners: Annotated[bool, Query(description="Import the data of all owners.")] = False,
    replace: bool = False,
    progress: WithProgress = False,
) -> Any:
    """Import an export of `/v1/export`: one owner, or everything with `all_owners`. Each session is imported
    whole or not at all. Requires a token for all owners."""
    need_all(principal)
    folder = tempfile.TemporaryDirectory(prefix="onlooker-import-")
    path, rows = FilePath(folder.name) / "export.jsonl", 0
    try:
        with path.open("wb") as file:
            async for piece in request.stream():
                await asyncio.to_thread(file.write, piece)
        async for _ in read_export(path):
            rows += 1
    except BaseException as error:
        folder.cleanup()
        if isinstance(error, StoreError):
            # Not an error of the storage: the request is not an export, or not a complete one.
            raise SettingsError("body", "", str(error).removeprefix(f"{path.name}: ")) from error
        raise

    async def job(report: Report) -> Imported:
        with folder:
            done = await memory.storage.import_file(
                path,
                owner=owner,
                all_owners=all_owners,
                replace=replace,
                progress=lambda n: report(n, rows),
            )
            return Imported(rows=done)

    return await run_job(job, progress=progress)


def need_all(principal: Principal) -> None:
    """Refuse the token of one owner."""
    if principal.owner is not None:
        raise NotFoundError("route for the tokens of one owner:", "ask with a token for all owners")


def _items(items: Sequence[Item]) -> Items:
    return Items(items=[ItemView.model_validate(i) for i in items])


def _messages(messages: Sequence[Message]) -> Messages:
    return Messages(messages=[MessageView.model_validate(m) for m in messages])


def _zoned(at: datetime | None) -> datetime | None:
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at
