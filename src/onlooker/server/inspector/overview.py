"""Pages about the whole store: search, items, cost, settings, health, and what REST takes."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import chain, zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from markupsafe import Markup

from onlooker import atomic
from onlooker.checkup import Finding
from onlooker.domain.errors import ModelError, OnlookerError, SettingsError
from onlooker.domain.events import (
    Event,
    FileFailed,
    IndexFailed,
    JournalFailed,
    ReplyRejected,
    SpendLimitReached,
    StepFailed,
)
from onlooker.domain.frozen import frozen
from onlooker.domain.items import ITEM_TYPES, ItemStatus, ItemType
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import NOTE_STATUSES, Note
from onlooker.domain.search import Hit, Why
from onlooker.engine.memory import Memory
from onlooker.files.folder import Folder
from onlooker.policy import model_names
from onlooker.policy.cost import PRICES
from onlooker.policy.items.choose import rank_items
from onlooker.policy.search.rank import snippet
from onlooker.policy.search.words import query_tokens, tokens
from onlooker.policy.settings import DEFAULT, KEYS, about, allowed, choices
from onlooker.ports import ObserveRequest
from onlooker.server.auth import Principal, decoded
from onlooker.server.inspector import figures, text
from onlooker.server.inspector.layout import OwnForm, address, page, redirect
from onlooker.server.inspector.pages import MAX_OWNERS
from onlooker.server.rest import Actor, Asker, OneOwner, UsedMemory, need_all, owner_of
from onlooker.settings_file import change_file, load_settings, parse_value, sources

router = APIRouter(include_in_schema=False)

MAX_HITS = 40
# How many owners are searched for a token of all owners, and sessions whose savings are computed.
SEARCHED = 20
MEASURED = 8
MAX_TROUBLES = 50
MAX_WAITING = 100
# How many days of cost are shown.
DAYS_COUNTED = 30
# The default price, in dollars per million input tokens.
PRICE = 3.0
DAYS_SHOWN = 7
# The message of which a model is asked for a note, to test it.
PROBE = "I moved to Oslo last week, and my order 88-1431 has arrived."


@frozen
class Installation:
    """The installation of a server that was started from the command line: its settings file, and its
    checks."""

    settings_file: Path
    check: Callable[[], Sequence[Finding]]


def _installation(request: Request) -> Installation | None:
    return request.app.state.installation


async def _owners(memory: Memory, principal: Principal) -> list[str]:
    if principal.owner is not None:
        return [principal.owner]
    return list(await memory.store.owners(limit=MAX_OWNERS))


# ------------------------------------------------------------------------------------ search

# Put around the words that were found. They are private-use characters, which texts do not contain.
_MARKS = ("\ue000", "\ue001")
_FOUND_WORD = re.compile(f"{_MARKS[0]}(.*?){_MARKS[1]}", re.DOTALL)
_WHY: dict[Why, str] = {
    "words": "contains words of the query",
    "meaning": "is close in meaning",
    "graph": "mentions the same names as other results",
}


@frozen
class Found:
    """A search result as shown: `look` is the kind that gives it its colour, `what` and `place` are what it
    is and where."""

    look: str
    what: str
    place: str
    address: str
    speaker: str
    at: datetime | None
    snippet: Markup
    why: str
    taken_back: bool = False


@router.get("/inspect/search")
async def search(
    request: Request,
    memory: UsedMemory,
    principal: Asker,
    q: Annotated[str, Query(max_length=10_000)] = "",
    owner: str = "",
    kind: Literal["", "message", "note", "item"] = "",
) -> Response:
    """Search messages, notes and items."""
    known = owner_of(principal, owner or None)
    owners = await _owners(memory, principal)
    hits: list[Found] = []
    if q.strip():
        # The scores of different searches cannot be compared, so the best of each come first.
        each = [await _search(memory, name, q, kind) for name in ([known] if known else owners[:SEARCHED])]
        hits = [hit for hit in chain(*zip_longest(*each)) if hit is not None][:MAX_HITS]
    return page(request, "search.html", q=q, owner=owner, kind=kind, owners=owners, hits=hits)


async def _search(memory: Memory, owner: str, q: str, kind: str) -> list[Found]:
    items = [] if kind not in ("", "item") else await _search_items(memory, owner, q)
    if kind == "item":
        return items
    kinds = (kind,) if kind else ("message", "note")
    hits = await memory.search(q, owner=owner, kinds=kinds, limit=MAX_HITS, marks=_MARKS)  # pyright: ignore[reportArgumentType]
    found: dict[int, Found] = {}
    for session in {hit.session for hit in hits}:
        here = [(place, hit) for place, hit in enumerate(hits) if hit.session == session]
        names = [hit.id for _, hit in here if hit.kind == "note"]
        notes = {n.id: n for n in await memory.store.notes(session, statuses=NOTE_STATUSES, ids=names)}
        seqs = [hit.seq for _, hit in here if hit.kind == "message"]
        said = {m.seq: m for m in await memory.store.around(session, seqs, 0, retired=True)}
        for place, hit in here:
            note = notes.get(hit.id) if hit.kind == "note" else None
            found[place] = _found_note(q, hit, note) if note else _found_message(q, hit, said.get(hit.seq))
    in_order = [found[place] for place in sorted(found)]
    return [hit for pair in zip_longest(in_order, items) for hit in pair if hit is not None]


def _found_note(q: str, hit: Hit, note: Note) -> Found:
    return Found(
        note.kind,
        note.kind,
        f"{hit.session.key} · {note.first:,}–{note.last:,}",
        address(hit.session, "notes", note=hit.id),
        "",
        note.made_at,
        _marked(hit.snippet),
        _why(q, hit.snippet, hit.why),
    )


def _found_message(q: str, hit: Hit, message: Message | None) -> Found:
    return Found(
        "raw",
        "message",
        f"{hit.session.key} · {hit.seq:,}",
        f"{address(hit.session, seq=hit.seq)}#m{hit.seq}",
        message.speaker if message else hit.speaker,
        hit.at,
        _marked(hit.snippet),
        _why(q, hit.snippet, hit.why),
        hit.taken_back,
    )


async def _search_items(memory: Memory, owner: str, q: str) -> list[Found]:
    # Not `items.search`, which counts as a use.
    live = [item for item in await memory.items.list(owner) if item.holds(datetime.now(UTC))]
    terms = query_tokens(q)
    found: list[Found] = []
    for ranked in rank_items(live, q, datetime.now(UTC))[:MAX_HITS]:
        item, shown = ranked.item, snippet(ranked.item.summary, terms, marks=_MARKS)
        where = f"/inspect/items?{urlencode({'owner': owner, 'q': q}, errors='replace')}#{item.id}"
        found.append(
            Found(
                "item",
                "item",
                f"about {owner}",
                where,
                item.type,
                item.stated_at,
                _marked(shown),
                _why(q, shown, "words"),
            )
        )
    return found


def _why(q: str, shown: str, why: Why) -> str:
    """Why a text was found: the words of the query that it contains, or another reason."""
    has = {token for word in _FOUND_WORD.findall(shown) for token in tokens(word)}
    named = [word for word in dict.fromkeys(q.split()) if not has.isdisjoint(query_tokens(word))]
    return f"has {', '.join(named)}" if why == "words" and named else _WHY[why]


def _marked(snippet: str) -> Markup:
    shown = str(text.visible(snippet))
    return Markup(shown.replace(_MARKS[0], "<mark>").replace(_MARKS[1], "</mark>"))


# ------------------------------------------------------------------------------------ items


@router.get("/inspect/items")
async def items(
    request: Request,
    memory: UsedMemory,
    principal: Asker,
    owner: str = "",
    q: Annotated[str, Query(max_length=10_000)] = "",
    status: ItemStatus = "live",
) -> Response:
    """An owner's items, and the files that people edit."""
    owners = await _owners(memory, principal)
    known = owner_of(principal, owner or None) or next(iter(owners), memory.session("-").owner)
    now = datetime.now(UTC)
    found = list(await memory.items.list(known, statuses=(status,)))
    if q.strip():
        found = [ranked.item for ranked in rank_items(found, q, now)]
    return page(
        request,
        "items.html",
        owner=known,
        owners=sorted({*owners, known}),
        q=q,
        status=status,
        items=found[:500],
        now=now,
        types=ITEM_TYPES,
        name=SessionId,
        scope=urlencode({"owner": known}, errors="replace"),
        files=await _files(memory, known),
    )


async def _files(memory: Memory, owner: str) -> list[tuple[str, str]] | None:
    """MEMORY.md and the newest daily notes of an owner; None without a notes folder."""
    if not memory.settings.notes_folder:
        return None
    folder = Folder(memory.files.root, owner)

    def read() -> list[tuple[str, str]]:
        paths = [folder.memory, *reversed(folder.days()[-DAYS_SHOWN:])]
        found = [(path.name, atomic.read(path)) for path in paths]
        return [(name, data.decode("utf-8", "replace")) for name, data in found if data is not None]

    return await asyncio.to_thread(read)


def _to_items(owner: str, done: str) -> Response:
    return redirect("/inspect/items?" + urlencode({"owner": owner, "done": done}, errors="replace"))


@router.post("/inspect/items", dependencies=[OwnForm])
async def save_item(
    memory: UsedMemory,
    owner: OneOwner,
    summary: Annotated[str, Form(max_length=10_000)] = "",
    type: Annotated[ItemType, Form()] = "knowledge",
    supersedes: Annotated[str, Form(max_length=200)] = "",
    expires: Annotated[str, Form(pattern=r"^(\d{4}-\d\d-\d\d)?$")] = "",
) -> Response:
    """Save a fact, or replace one. The old version is kept."""
    at = datetime.combine(datetime.fromisoformat(expires), time.max, UTC) if expires else None
    kept = await _one(memory, owner, supersedes) if supersedes else None
    await memory.items.save(
        summary,
        owner=owner,
        type=type,
        tags=kept.tags if kept else (),
        supersedes=supersedes,
        expires_at=at,
        pinned=kept.pinned if kept else False,
    )
    return _to_items(owner, "The fact is saved.")


async def _one(memory: Memory, owner: str, ident: str) -> Any:
    found = await memory.store.items(owner, ids=[ident])
    if not found:
        raise SettingsError("item", ident, "must be a live item of this owner")
    return found[0]


@router.post("/inspect/items/{item}/pin", dependencies=[OwnForm])
async def pin_item(
    memory: UsedMemory, owner: OneOwner, item: str, on: Annotated[bool, Form()] = True
) -> Response:
    """Pin or unpin an item. A pinned item is shown first in every new session."""
    await memory.items.pin(decoded(item), owner=owner, on=on)
    return _to_items(owner, "The item is pinned." if on else "The item is no longer pinned.")


@router.post("/inspect/items/{item}/expire", dependencies=[OwnForm])
async def expire_item(memory: UsedMemory, owner: OneOwner, item: str) -> Response:
    """Expire an item now: no new session shows it."""
    kept = await _one(memory, owner, decoded(item))
    await memory.items.save(
        kept.summary,
        owner=owner,
        type=kept.type,
        tags=kept.tags,
        origin=kept.origin,
        supersedes=kept.id,
        expires_at=datetime.now(UTC),
    )
    return _to_items(owner, "The item has expired.")


@router.post("/inspect/items/{item}/forget", dependencies=[OwnForm])
async def forget_item(memory: UsedMemory, owner: OneOwner, item: str, by: Actor) -> Response:
    """Archive an item, with those it replaced and those made from it."""
    gone = await memory.items.forget(decoded(item), owner=owner, by=by or "inspector")
    return _to_items(owner, f"{len(gone)} item{'s' if len(gone) > 1 else ''} removed from every prompt.")


# ------------------------------------------------------------------------------------ cost


@router.get("/inspect/cost")
async def cost(
    request: Request,
    memory: UsedMemory,
    principal: Asker,
    owner: str = "",
    provider: Literal["Anthropic", "OpenAI", "Gemini"] = "Anthropic",
    price: Annotated[float, Query(ge=0, le=10_000)] = PRICE,
    all: bool = False,
) -> Response:
    """What notes cost, and what contexts saved."""
    known = owner_of(principal, owner or None)
    settings, store = memory.settings, memory.store
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    since = None if all else today - timedelta(days=DAYS_COUNTED - 1)
    prices = next(p for p in PRICES if p.name == provider)
    measured: list[tuple[SessionId, figures.Bills]] = []
    for summary in await memory.sessions(owner=known, limit=MEASURED):
        session = summary.progress.session
        line = await figures.timeline(store, session, marks=False)
        budget = summary.progress.budget or settings.budget or DEFAULT.budget
        used = await store.usage_by_day(session=session)
        measured.append((session, figures.bills(line, used, budget, prices)))
    return page(
        request,
        "cost.html",
        days=await store.usage_by_day(owner=known, since=since),
        since=since,
        spent=await store.spent(owner=known, since=since),
        today=await store.spent(owner=known, since=today),
        limits={
            "day": settings.spend_per_day,
            "owner": settings.spend_per_owner,
            "session": settings.spend_per_session,
        },
        measured=measured,
        total=sum((bills for _, bills in measured), figures.Bills()),
        owners=await _owners(memory, principal),
        asked={"owner": owner, "provider": provider, "price": price, "all": all},
        prices=prices,
        providers=[p.name for p in PRICES],
    )


# ------------------------------------------------------------------------------------ settings


@frozen
class Setting:
    """A setting, as it is shown."""

    key: str
    about: str
    allowed: str
    value: str
    default: str
    source: str
    from_file: bool
    choices: Sequence[str]


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)|`([^`]*)`")


def _settings(memory: Memory, file: Path | None) -> tuple[list[Setting], list[str]]:
    """The settings of the file, and the keys that differ from those the server runs with."""
    chosen = load_settings(file) if file and file.exists() else memory.settings
    where = sources(file if file and file.exists() else None, chosen)
    shown = [
        Setting(
            key,
            _LINK.sub(lambda found: found[1] or found[2], about(key)),
            allowed(key),
            _as_text(getattr(chosen, key)),
            _as_text(getattr(DEFAULT, key)),
            "file" if where[key] == str(file) else where[key],
            where[key] == str(file),
            choices(key),
        )
        for key in KEYS
    ]
    changed = [key for key in KEYS if getattr(chosen, key) != getattr(memory.settings, key)]
    return shown, changed


def _settings_page(request: Request, memory: Memory, code: int = 200, /, **values: Any) -> Response:
    installed = _installation(request)
    file = installed.settings_file if installed else None
    error = ""
    try:
        shown, changed = _settings(memory, file)
    except SettingsError as wrong:  # the file was changed to something invalid
        error, (shown, changed) = str(wrong), _settings(memory, None)
    values = {"error": error, "tested": None, "model": memory.settings.model, **values}
    return page(request, "settings.html", code, settings=shown, changed=changed, file=file, **values)


@router.get("/inspect/settings")
async def settings(request: Request, memory: UsedMemory) -> Response:
    """Every setting with its meaning and source."""
    return _settings_page(request, memory)


@router.post("/inspect/settings", dependencies=[OwnForm])
async def save_setting(
    request: Request,
    memory: UsedMemory,
    principal: Asker,
    key: Annotated[str, Form(max_length=100)] = "",
    value: Annotated[str, Form(max_length=10_000)] = "",
    unset: Annotated[str, Form()] = "",
) -> Response:
    """Set a setting in the file, or remove it. Comments and everything else stay."""
    need_all(principal)
    installed = _installation(request)
    if installed is None:
        raise SettingsError(key, value, "this server has no settings file")
    try:
        if unset:
            await asyncio.to_thread(change_file, installed.settings_file, {}, remove=key)
        else:
            change = {key: parse_value(value)}
            await asyncio.to_thread(change_file, installed.settings_file, change)
    except SettingsError as error:
        return _settings_page(request, memory, 422, error=str(error))
    done = f"{key} is {'no longer set' if unset else 'saved'}. Restart the server to use it."
    return redirect(f"/inspect/settings?{urlencode({'done': done})}#{key if key in KEYS else ''}")


@frozen
class Tested:
    ok: bool
    said: str


@router.post("/inspect/settings/model", dependencies=[OwnForm])
async def ask_model(
    request: Request,
    memory: UsedMemory,
    principal: Asker,
    model: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Ask a model for a note on one message. Nothing is recorded."""
    need_all(principal)
    tested = await _ask(model.strip(), memory.settings.model_deadline)
    return _settings_page(request, memory, tested=tested, model=model)


async def _ask(name: str, seconds: float) -> Tested:
    if name in ("", model_names.BUILT_IN):
        return Tested(True, "The built-in model writes the notes. It needs no network.")
    said = Message("user", PROBE, "m1", datetime.now(UTC))
    request = ObserveRequest(SessionId("inspector", "test"), (replace(said, seq=1, tokens=20),), (), 60)
    began = asyncio.get_running_loop().time()
    try:
        from onlooker.models.llm import LanguageModel

        async with asyncio.timeout(seconds):
            reply = await LanguageModel(name).write(request)
    except ModuleNotFoundError as error:
        return Tested(False, f'{error.name} is missing: pip install "onlooker[llm]"')
    except TimeoutError:
        return Tested(False, f"no answer within {seconds:g} seconds (model_deadline)")
    except (ModelError, OnlookerError) as error:
        return Tested(False, str(error))
    took = asyncio.get_running_loop().time() - began
    price = "" if reply.cost is None else f", ${reply.cost:.5f}"
    return Tested(
        True, f"{took:.1f} s, {reply.input_tokens} + {reply.output_tokens} tokens{price}: {reply.text[:500]}"
    )


# ------------------------------------------------------------------------------------ health


@frozen
class Trouble:
    """A failure, and what to do."""

    at: datetime
    session: SessionId | None
    owner: str
    what: str
    advice: str


class Troubles:
    """The failures of this process, newest first."""

    def __init__(self) -> None:
        self._kept: deque[Trouble] = deque(maxlen=MAX_TROUBLES)

    def on_event(self, event: Event) -> None:
        """Keep an event that reports a failure."""
        found = _trouble(event)
        if found is not None:
            what, advice = found
            session = getattr(event, "session", None)
            named = session if isinstance(session, SessionId) else None
            self._kept.appendleft(Trouble(event.at, named, str(getattr(event, "owner", "")), what, advice))

    @property
    def newest(self) -> Sequence[Trouble]:
        return list(self._kept)


def _trouble(event: Event) -> tuple[str, str] | None:
    match event:
        case StepFailed(step=step, error=error, retry_in=again):
            advice = (
                f"It is retried after {again:.0f} s, and nothing is lost. Test the model in the settings."
            )
            return f"{step}: {error}", advice
        case ReplyRejected(model=model, reason=reason, detail=detail):
            return f"{model} gave no usable note: {reason}: {detail}", "If this continues, use another model."
        case SpendLimitReached(scope=scope, limit=limit):
            return f"the spend limit of the {scope} is reached (${limit:g})", "Raise it in the settings."
        case IndexFailed(index=index, error=error):
            return f"index {index}: {error}", "It is retried. Check the embedder."
        case JournalFailed(file=file, error=error) | FileFailed(file=file, error=error):
            return f"{file}: {error}", "Give this user permission to write there, or free some space."
        case _:
            return None


@router.get("/inspect/health")
async def health(request: Request, memory: UsedMemory, principal: Asker, checks: bool = False) -> Response:
    """Workers, backlog, failures with what to do, and the checks of `onlooker doctor`."""
    need_all(principal)
    now = datetime.now(UTC)
    installed = _installation(request)
    # A failed session becomes due again after a while.
    waiting = await memory.store.due(now + timedelta(days=1), limit=MAX_WAITING)
    progress = [s.progress for w in waiting for s in await memory.sessions(owner=w.owner, key=w.key)]
    troubles: Troubles = request.app.state.troubles
    read_workforce: Any = getattr(memory.store, "workforce", None)
    return page(
        request,
        "health.html",
        here=memory.background.takes_notes,
        # A database file does not list its workers.
        workers=(await read_workforce(now)).workers if read_workforce else None,
        pending=memory.background.pending,
        due=[p for p in progress if p.due_at and p.due_at <= now and not p.failures],
        failing=[p for p in progress if p.failures],
        troubles=troubles.newest,
        checkable=installed is not None,
        findings=await asyncio.to_thread(installed.check) if installed and checks else None,
    )


# ------------------------------------------------------------------------------------ REST


@router.get("/docs")
async def rest_reference(request: Request) -> Response:
    """The addresses under `/v1`, for people. It needs no script from elsewhere, and so no network."""
    described = request.app.openapi()
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in described["paths"].items():
        for method, about_it in methods.items():
            asked = [p["name"] for p in about_it.get("parameters", ()) if p["in"] == "query"]
            groups.setdefault(about_it["tags"][0], []).append(
                {
                    "method": method.upper(),
                    "path": path,
                    "what": about_it.get("description") or about_it["summary"],
                    "query": asked,
                    "body": _body_fields(described, about_it),
                }
            )
    return page(request, "rest.html", groups=groups)


def _body_fields(described: Mapping[str, Any], operation: Mapping[str, Any]) -> list[str]:
    """The names of the fields that an operation takes in its body; those of an example where it takes any."""
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    fields = described["components"]["schemas"].get(name, schema).get("properties")
    return list(fields or next(iter(schema.get("examples", ())), ()))
