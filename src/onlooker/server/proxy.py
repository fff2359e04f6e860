"""The chat proxy: an agent that sends its requests here has memory, with no code.

A client sends its whole conversation with every request. What is new in it is recorded, what is old is
replaced by memory, and the rest goes to the provider as it came. The answer goes back as it comes, and is
recorded before its end is passed on, so that the client's next request finds it. If memory fails, the request
goes through unchanged.

    Requests        a request as it comes, of which only what is new is read
    Conversations   which session a conversation belongs to
    Proxy           one request, from the client to the provider and back
    Passing         an answer as it comes
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast
from urllib.parse import quote

import httpx2
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from onlooker.domain.errors import OnlookerError
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import EMPTY_HISTORY_HASH, SessionId, extend_history_hash
from onlooker.engine.memory import Memory
from onlooker.engine.recording import DivergedError, Recent
from onlooker.engine.session import Session
from onlooker.policy.align import Rewind
from onlooker.server.auth import Principal, Receive, Scope, Send
from onlooker.server.config import ServerConfig, Upstream
from onlooker.wire import PROTOCOLS, Conversation, Reply, Wire, messages_of, without_injected

log = logging.getLogger("onlooker.server")

# Headers in which clients name their conversation, the surest first.
SESSION_HEADERS = (
    "x-onlooker-session",
    "x-session-id",
    "session-id",
    "thread-id",
    "x-claude-code-session-id",
    "x-litellm-session-id",
)
# The one of them that is of an agent with tools. What it asks without them, such as a title for the
# conversation, it asks for itself.
AGENT_HEADER = "x-claude-code-session-id"
# Headers of agents that Claude Code or Codex started. They have conversations of their own, with the session
# of the agent that started them, and only that one speaks to them.
SUBAGENT_HEADERS = ("x-claude-code-agent-id", "x-openai-subagent")
# Headers that are about one connection, and those that are ours.
_NOT_RETURNED = frozenset(("connection", "keep-alive", "transfer-encoding", "upgrade", "trailer", "te"))
_NOT_PASSED = _NOT_RETURNED | {"host", "content-length", "proxy-authorization", "accept-encoding", "expect"}
MAX_KEY = 500


# ------------------------------------------------------------------------------------ requests as they come

# Requests that are kept to compare the next ones with, and their bytes in all. What continues one that was
# dropped is read whole, once.
MAX_KEPT = 100
MAX_KEPT_BYTES = 8_000_000
# How many of a request's last items the next one may change and still continue it: agents mark their newest
# messages for the provider's cache, and take the marks off again.
MAX_CHANGED = 8


@frozen
class Kept:
    """A request to compare the next ones with: its bytes up to the end of its last item, of which the first
    `first` stand before its items; where its last items end; its items, and the conversation that they
    are."""

    owner: str
    wire: Wire
    start: bytes
    first: int
    ends: list[int]
    items: list[Any]
    conversation: Conversation

    def shared_with(self, raw: bytes) -> Kept | None:
        """The part of this request that another one begins with; None if that is less than all but a few of
        its items."""
        if raw.startswith(self.start):
            return self
        # Others are mostly other conversations, which is soon seen.
        probe = min(self.first + 1_000, self.ends[0])
        if raw[:probe] != self.start[:probe]:
            return None
        for changed, end in enumerate(reversed(self.ends[:-1]), 1):
            known = len(self.items) - changed
            part = self.conversation.part(known)
            if part is not None and raw.startswith(start := self.start[:end]):
                ends = self.ends[:-changed]
                return Kept(self.owner, self.wire, start, self.first, ends, self.items[:known], part)
        return None


@frozen
class Asked:
    """A request that was read. `start`, `first` and `ends` are as in what is kept of it; `start` is empty if
    the next request has to be read whole. `continues` is what was known of it, of the request that it
    `replaces`."""

    owner: str
    wire: Wire
    body: dict[str, Any]
    start: bytes = b""
    first: int = 0
    ends: Sequence[int] = ()
    continues: Kept | None = None
    replaces: Kept | None = None


class Requests:
    """Reads requests. A client sends its whole conversation with each of them: what has the same bytes as the
    last time is not read again."""

    def __init__(self) -> None:
        self._kept: list[Kept] = []  # the newest first

    def read(self, owner: str, wire: Wire, raw: bytes) -> Asked | None:
        """The request; None if it is not a JSON object."""
        known = before = None
        for kept in self._kept:
            part = kept.shared_with(raw) if kept.owner == owner and kept.wire is wire else None
            if part and (known is None or len(part.start) > len(known.start)):
                known, before = part, kept
        try:
            text = _from_new(raw, known) if known else raw
            body, first, after = _read_object(text, wire.field)
        except (ValueError, RecursionError):
            whole = _parsed(raw)
            return None if whole is None else Asked(owner, wire, whole)
        ends = [len(raw) - left for left in after]
        start = raw[: ends[-1]] if ends else b""
        if known:
            body[wire.field] = [*known.items, *body[wire.field]]
            ends, start = [*known.ends, *ends][-MAX_CHANGED:], start or known.start
        return Asked(owner, wire, body, start, first, ends, known, before)

    def conversation(self, asked: Asked, items: list[Any]) -> Conversation:
        """The conversation that the items of a request are. The next request may continue it."""
        known = asked.continues
        found = without_injected(
            items,
            system_is_injected=asked.wire.system_is_injected,
            before=known.conversation if known else None,
            first=len(known.items) if known else 0,
        )
        if asked.start:
            now = Kept(asked.owner, asked.wire, asked.start, asked.first, [*asked.ends], items, found)
            self._kept = [now, *(k for k in self._kept if k is not asked.replaces)][:MAX_KEPT]
            while len(self._kept) > 1 and sum(len(k.start) for k in self._kept) > MAX_KEPT_BYTES:
                self._kept.pop()
        return found


def _from_new(raw: bytes, known: Kept) -> bytes:
    """The request without the items that are known."""
    rest = raw[len(known.start) :].lstrip(_BLANKS)
    if rest.startswith(b"]"):
        return raw[: known.first] + rest
    new = rest[1:].lstrip(_BLANKS)
    if not rest.startswith(b",") or new.startswith(b"]"):
        raise ValueError
    return raw[: known.first] + new


_BLANKS = b" \t\n\r"
_blanks = re.compile(r"[ \t\n\r]*")
_value = json.JSONDecoder().raw_decode


def _read_object(raw: bytes, field: str) -> tuple[dict[str, Any], int, list[int]]:
    """A JSON object; how many bytes stand before the items of its list `field`, and how many after each of
    its last items.

    Raises:
        ValueError: It has no such list, or two. Or it is not JSON, and `json` says what is wrong.
    """
    text = raw.decode("utf-8", "surrogatepass")
    found: dict[str, Any] = {}
    first, ends = 0, list[int]()

    def sign(at: int, wanted: str) -> tuple[str, int]:
        """The sign that comes next, and the place after it and its blanks."""
        at = cast("re.Match[str]", _blanks.match(text, at)).end()
        if not (it := text[at : at + 1]) or it not in wanted:
            raise ValueError
        return it, cast("re.Match[str]", _blanks.match(text, at + 1)).end()

    comes, at = sign(0, "{")
    while comes != "}":
        key, at = _value(text, at)
        _, at = sign(at, ":")
        if not isinstance(key, str) or (key == field and field in found):
            raise ValueError
        if key != field:
            found[key], at = _value(text, at)
        else:
            found[field] = items = list[Any]()
            comes, at = sign(at, "[")
            first = at
            if text.startswith("]", at):
                comes, at = "]", at + 1
            while comes != "]":
                item, end = _value(text, at)
                items.append(item)
                ends.append(end)
                comes, at = sign(end, ",]")
        comes, at = sign(at, ",}")
    if at != len(text) or not first:
        raise ValueError

    def size(part: str) -> int:
        return len(part.encode("utf-8", "surrogatepass"))

    return found, size(text[:first]), [size(text[end:]) for end in ends[-MAX_CHANGED:]]


# ------------------------------------------------------------------------------------ conversations

# Sessions of conversations that nobody named begin with this.
DERIVED = "chat-"
# How many of an owner's sessions are looked at to find one that an earlier process began.
MAX_KNOWN = 1_000
MAX_ENDS = 100_000
# Answers whose session the store knows, about.
MAX_RESPONSES = 50_000
# Bytes of the conversations that were seen last.
MAX_BYTES = 32_000_000


@frozen
class _Seen:
    """What a client sent last, before the answer by which it is known."""

    key: str
    items: list[Any]


class Conversations:
    """Which session a conversation belongs to that has no name.

    It is one whose whole record the client sent back: the hash of all its messages is known. So nothing of
    it can be new to the client. Another with the same beginning is another conversation, and what was edited
    is a new one, with the history that came along. Other servers may use the same database: what is known
    here is compared with it.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        # The sessions by the hash of all that is recorded in them, and the other way round.
        self._by_end: dict[tuple[str, bytes], list[str]] = {}
        self._end_of: dict[SessionId, bytes] = {}
        # Sessions that a request is using: no other may have them meanwhile.
        self._busy: set[SessionId] = set()
        self._seen: Recent[tuple[str, bytes], _Seen] = Recent(MAX_BYTES)
        self._last: dict[SessionId, bytes] = {}
        self._responses: Recent[tuple[str, str], str] = Recent(1_000_000)

    async def claim(self, owner: str, wire: Wire, items: list[Any], now: datetime) -> str:
        """The session's key, a new one if the conversation is not known. It is not given to others until
        `release`."""
        ends = cache(lambda: _chain(items, now)[::-1])
        has_read = not _known_part(items)
        while True:
            session = self._find(owner, wire, items, now, ends)
            if session is not None and await self._is_current(session):
                return session.key
            if session is None and has_read:
                break
            if session is None:
                await self._read(owner)
                has_read = True
        session = SessionId(owner, DERIVED + secrets.token_hex(8))
        self._busy.add(session)
        return session.key

    def _find(
        self, owner: str, wire: Wire, items: list[Any], now: datetime, ends: Callable[[], Sequence[bytes]]
    ) -> SessionId | None:
        """The session that the conversation belongs to, as far as this process knows. `ends` are the hashes
        of the conversation after each message, the last one first."""
        if known := _known_part(items):
            start = wire.unit(items, known)
            seen = self._seen.get((owner, _digest(items[start:known], now)))
            if seen and SessionId(owner, seen.key) not in self._busy and items[:start] == seen.items:
                return SessionId(owner, seen.key)
        found = (SessionId(owner, key) for end in ends() for key in self._by_end.get((owner, end), ()))
        return next((session for session in found if session not in self._busy), None)

    async def _is_current(self, session: SessionId) -> bool:
        """Whether a session is as it is known here: then it is claimed. If another server continued it, that
        is known now."""
        self._busy.add(session)  # nobody else may have it while it is looked at
        is_current = False
        try:
            state = await self._memory.store.load(session, newest=1)
            end = state.progress.history_hash if state else b""
            is_current = end == self._end_of.get(session)
        finally:
            if not is_current:
                self._busy.discard(session)
        if not is_current:
            self._unsee(session)
            self._put(session, end)
        return is_current

    async def release(self, session: Session, turn: Turn, reply: list[Any], now: datetime) -> None:
        """Know the conversation again by what it has now."""
        try:
            state = await self._memory.store.load(session.id, newest=1)
            if state is not None:
                self._put(session.id, state.progress.history_hash)
        finally:
            self._busy.discard(session.id)
        self._unsee(session.id)
        if reply:
            digest = _digest(reply, now)
            self._last[session.id] = digest
            self._seen.put((session.owner, digest), _Seen(session.key, turn.items), turn.size)
            if len(self._last) > 2 * len(self._seen) + 100:
                kept = set(self._seen)
                self._last = {s: d for s, d in self._last.items() if (s.owner, d) in kept}

    def _unsee(self, session: SessionId) -> None:
        if (before := self._last.pop(session, None)) is not None:
            self._seen.pop((session.owner, before))

    def _put(self, session: SessionId, end: bytes) -> None:
        before = self._end_of.pop(session, None)
        if before is not None and session.key in (others := self._by_end.get((session.owner, before), [])):
            others.remove(session.key)
            if not others:
                del self._by_end[session.owner, before]
        if len(self._end_of) > MAX_ENDS:
            self._by_end.clear()  # they are read again from the store
            self._end_of.clear()
        self._end_of[session] = end
        self._by_end.setdefault((session.owner, end), []).append(session.key)

    async def answered(self, owner: str, response: str, key: str) -> None:
        """Know the session of an answer's id, also after a restart, and at other servers on the database. Who
        names the session does so with each request."""
        if key.startswith(DERIVED):
            self._responses.put((owner, response), key, 200)
            place, digest = _place_of(owner, response)
            await self._memory.store.set_value(place, f"{digest} {key}")

    async def of_response(self, owner: str, response: str) -> str | None:
        """The session of a `previous_response_id`."""
        if key := self._responses.get((owner, response)):
            return key
        place, digest = _place_of(owner, response)
        found, _, key = (await self._memory.store.get_value(place) or "").partition(" ")
        return key if found == digest else None

    async def _read(self, owner: str) -> None:
        """Read what earlier processes, or others, recorded."""
        for summary in await self._memory.sessions(owner=owner, limit=MAX_KNOWN):
            session = summary.progress.session
            if session.key.startswith(DERIVED) and summary.progress.history_hash:
                self._put(session, summary.progress.history_hash)


def _place_of(owner: str, response: str) -> tuple[str, str]:
    """The value of the store that has the session of an answer, and how the answer is called there. A later
    answer may take its place."""
    digest = hashlib.blake2b(f"{owner}\0{response}".encode("utf-8", "replace"), digest_size=16).hexdigest()
    return f"proxy response {int(digest, 16) % MAX_RESPONSES}", digest


def _known_part(items: Sequence[Any]) -> int:
    """How many of the items must be known if the conversation is: all up to the model's last answer."""
    for i in range(len(items), 0, -1):
        item = items[i - 1]
        if item.get("role") == "assistant" or (
            "role" not in item and not str(item.get("type", "")).endswith("_output")
        ):
            return i
    return 0


def _digest(items: Sequence[Any], now: datetime) -> bytes:
    return b"".join(m.digest for m in messages_of(items, now))


def _chain(items: Sequence[Any], now: datetime) -> list[bytes]:
    """The hash of the conversation after each of its messages."""
    hashes = [EMPTY_HISTORY_HASH]
    for message in messages_of(items, now):
        hashes.append(extend_history_hash(hashes[-1], message.digest))
    return hashes[1:]


# ------------------------------------------------------------------------------------ one request


@dataclass(slots=True)
class Turn:
    """What memory did with a request: its new body, and where the answer is recorded. Without a session, the
    request goes through unchanged; `why` says why."""

    body: bytes
    session: Session | None = None
    why: str = "on"
    items: list[Any] = field(default_factory=list[Any])
    tokens_in: int = 0
    tokens_saved: int = 0
    derived: bool = False
    size: int = 0

    def headers(self) -> dict[str, str]:
        """What memory did, for the client."""
        found = {"x-onlooker-memory": self.why.encode("ascii", "replace").decode()[:200]}
        if self.session:
            found["x-onlooker-session"] = quote(self.session.key, safe=":/-_.@ ")
            found["x-onlooker-tokens-in"] = str(self.tokens_in)
            found["x-onlooker-tokens-saved"] = str(self.tokens_saved)
        return found


class Skip(Exception):
    """Memory does nothing for this request, which goes through unchanged."""


class Proxy:
    """Passes requests on to providers, with memory."""

    def __init__(
        self, memory: Memory, config: ServerConfig, on_turn: Callable[[str, float, int], None]
    ) -> None:
        self._memory = memory
        self._config = config
        self._on_turn = on_turn  # called with what memory did, the seconds it took, and the tokens saved
        self._requests = Requests()
        self._conversations = Conversations(memory)
        self._recording: set[asyncio.Task[None]] = set()
        self._with_tools: Recent[str, bool] = Recent(1_000_000)  # sessions of agents that sent tools
        self._client = httpx2.AsyncClient(
            follow_redirects=False,
            # A model may think for long; whoever asks decides when it is too long.
            timeout=httpx2.Timeout(None, connect=30),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
            # Proxies and keys of the environment are not the client's.
            trust_env=False,
        )

    async def close(self) -> None:
        """Wait for answers that are being recorded, and close the connections."""
        while self._recording:
            await asyncio.wait(self._recording)
        await self._client.aclose()

    async def handle(self, request: Request, name: str, path: str) -> Response:
        """Pass a request on, and its answer back."""
        raw = await request.body()
        principal: Principal = request.state.principal
        if (
            principal.owner is not None
            and request.headers.get("x-onlooker-owner", principal.owner) != principal.owner
        ):
            return JSONResponse({"error": {"message": "no such owner"}}, 404)
        wire = PROTOCOLS.get(path) if request.method == "POST" else None
        asked = self._requests.read(self._owner(request), wire, raw) if wire else None
        upstream = self._config.upstream(name, str(asked.body.get("model", "")) if asked else "")
        if upstream is None:
            known = ", ".join(f"/{u.name}/v1" for u in self._config.upstreams)
            return JSONResponse({"error": {"message": f"no upstream {name!r}; there are {known}"}}, 404)
        turn = Turn(raw, why="off")
        if wire and asked and upstream.protocol == wire.provider:
            began = time.perf_counter()
            turn = await self._turn(request, asked, raw)
            self._on_turn(turn.why, time.perf_counter() - began, turn.tokens_saved)
        return await self._send(request, upstream, path, wire, turn)

    # -- memory

    async def _turn(self, request: Request, asked: Asked, raw: bytes) -> Turn:
        """What memory makes of the request. It never raises: without memory the request goes through."""
        try:
            async with asyncio.timeout(self._config.memory_deadline):
                return await self._remember(request, asked, raw)
        except Skip as reason:
            return Turn(raw, why=f"off: {reason}")
        except (OnlookerError, TimeoutError) as error:
            log.warning("a request goes through without memory: %r", error)
            return Turn(raw, why=f"failed: {str(error) or 'it took too long'}")
        except Exception as error:  # a bug of ours must not cost the client its answer
            log.exception("a request goes through without memory: this is a bug in Onlooker")
            return Turn(raw, why=f"failed: {type(error).__name__}")

    async def _remember(self, request: Request, asked: Asked, raw: bytes) -> Turn:
        owner, wire, body = asked.owner, asked.wire, asked.body
        items = wire.items(body)
        if not items:
            raise Skip("there are no messages")
        conversation = self._requests.conversation(asked, items)
        if not conversation.items:
            raise Skip("nobody said anything")
        now = datetime.now(UTC)
        key = _named(request, body)
        previous = body.get("previous_response_id")
        if body.get("conversation") and key is not None:
            # The provider has the conversation, and would go on to send all of it.
            session = self._memory.session(key[:MAX_KEY], owner=owner)
            await session.record(conversation.items)
            return Turn(raw, session, "recorded: the provider keeps this conversation")
        if isinstance(previous, str) and key is None:
            key = await self._conversations.of_response(owner, previous)
            if key is None:
                raise Skip("the previous response is not known here")
        self._check_is_a_turn(request, body, conversation, key)
        while True:
            name = key or await self._conversations.claim(owner, wire, conversation.items, now)
            session = self._memory.session(name[:MAX_KEY], owner=owner)
            turn = Turn(raw, session, items=conversation.items, derived=key is None, size=len(raw))
            try:
                turn.body, total = await self._rebuild(wire, body, items, conversation, turn, now)
                break
            except DivergedError:  # another server continued it at the same moment
                await self._conversations.release(session, turn, [], now)
            except BaseException:
                self.record_later(turn, None)
                raise
        turn.tokens_in = total
        turn.tokens_saved = max(0, round(total * (len(raw) - len(turn.body)) / max(1, len(turn.body))))
        return turn

    def _check_is_a_turn(
        self, request: Request, body: Mapping[str, Any], conversation: Conversation, key: str | None
    ) -> None:
        """Skip what an agent asks for itself, beside the conversation whose session it names."""
        if any(header in request.headers for header in SUBAGENT_HEADERS):
            raise Skip("an agent asks another one, not its user")
        if key is None or AGENT_HEADER not in request.headers:
            return
        if body.get("tools"):
            self._with_tools.put(key, True, len(key))
        elif len(conversation.items) == 1 or self._with_tools.get(key):
            raise Skip("the agent asks for itself, not for its user")

    async def _rebuild(
        self,
        wire: Wire,
        body: dict[str, Any],
        items: list[Any],
        conversation: Conversation,
        turn: Turn,
        now: datetime,
    ) -> tuple[bytes, int]:
        """The request as it goes to the provider, and the tokens of its conversation."""
        session, budget = cast("Session", turn.session), self._config.proxy_budget or None
        if body.get("previous_response_id"):
            await session.record(conversation.items)
            context = await session.context(budget=budget)
        else:
            rewind: Rewind = "refuse" if turn.derived else "auto"
            context = await session.prepare(conversation.items, budget=budget, rewind=rewind)
        changed = wire.with_memory(body, items, conversation, context, now)
        out = json.dumps(changed, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        return out, context.stats.total

    def _owner(self, request: Request) -> str:
        principal: Principal = request.state.principal
        return principal.owner or request.headers.get("x-onlooker-owner") or self._memory.session("-").owner

    # -- the provider

    async def _send(
        self, request: Request, upstream: Upstream, path: str, wire: Wire | None, turn: Turn
    ) -> Response:
        headers = [
            (key, value)
            for key, value in request.headers.items()
            if key not in _NOT_PASSED and not key.startswith("x-onlooker-")
        ]
        # An answer that is packed could not be read on its way.
        headers.append(("accept-encoding", "identity"))
        url = f"{upstream.url.rstrip('/').removesuffix('/v1')}/v1/{quote(path, safe='/:@!$&()*+,;=~%')}"
        if request.url.query:
            url += f"?{request.url.query}"
        sent = self._client.build_request(request.method, url, headers=headers, content=turn.body)
        try:
            answer = await self._client.send(sent, stream=True)
        except httpx2.TransportError as error:
            what = f"{upstream.name} cannot be reached: {type(error).__name__}"
            failed = {"error": {"type": "api_error", "message": what, "code": None}}
            self.record_later(turn, None)
            return JSONResponse({"type": "error", **failed}, 502, turn.headers())
        reply = wire.reply(answer.headers.get("content-type", "")) if wire and turn.session else None
        if answer.status_code != 200:
            reply = None
        returned = [
            (key, value)
            for key, value in answer.headers.multi_items()
            if key.lower() not in _NOT_RETURNED and not key.lower().startswith("x-onlooker-")
        ]
        returned += turn.headers().items()
        return Passing(self, answer, returned, reply, turn)

    async def record(self, turn: Turn, reply: Reply | None) -> None:
        """Record what the model answered, if it did, and release the session. A failure is logged: the
        client's next request brings the answer again."""
        if turn.session is None:
            return
        items = reply.items() if reply else []
        try:
            if items:
                await turn.session.record(items)
            if reply and reply.id:
                await self._conversations.answered(turn.session.owner, reply.id, turn.session.key)
        except OnlookerError as error:
            log.warning("an answer was not recorded: %s", error)
        except Exception:
            log.exception("an answer was not recorded: this is a bug in Onlooker")
        if turn.derived:
            with suppress(OnlookerError):
                await self._conversations.release(turn.session, turn, items, datetime.now(UTC))

    def record_later(self, turn: Turn, reply: Reply | None) -> None:
        """The same for a request that is over."""
        task = asyncio.ensure_future(self.record(turn, reply))
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        found: object = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


_SESSION_IN_USER = re.compile(r"_session_([0-9a-f-]{36})$")


def _named(request: Request, body: Mapping[str, Any]) -> str | None:
    """The session that the client names; None if it names none."""
    for header in SESSION_HEADERS:
        if value := request.headers.get(header, "").strip():
            return value
    metadata = body.get("metadata")
    about: Mapping[str, Any] = cast("Mapping[str, Any]", metadata) if isinstance(metadata, Mapping) else {}
    for name in ("session_id", "thread_id", "conversation_id"):
        if isinstance(value := about.get(name), str) and value:
            return value
    conversation = body.get("conversation")
    if isinstance(conversation, Mapping):
        conversation = cast("Mapping[str, Any]", conversation).get("id")
    if isinstance(conversation, str) and conversation:
        return conversation
    return _of_user(about.get("user_id")) or _of_user(body.get("user"))


def _of_user(user: object) -> str | None:
    """The session in what a client says of its user, or the user where there is none."""
    if not isinstance(user, str) or not user:
        return None
    if found := _SESSION_IN_USER.search(user):
        return found[1]
    if user.startswith("{"):
        about = _parsed(user.encode("utf-8", "replace")) or {}
        session = about.get("session_id")
        return session if isinstance(session, str) and session else None
    return user


# ------------------------------------------------------------------------------------ an answer as it comes


class Passing(Response):
    """An answer of a provider, passed on piece by piece.

    If the provider breaks off, so does this. If the client does, the provider is told by a closed connection,
    and what was sent is recorded.
    """

    def __init__(
        self,
        proxy: Proxy,
        answer: httpx2.Response,
        headers: Sequence[tuple[str, str]],
        reply: Reply | None,
        turn: Turn,
    ) -> None:
        self.status_code = answer.status_code
        self.background = None
        self._proxy = proxy
        self._answer = answer
        self._reply = reply
        self._recorded = False
        self._turn = turn
        self._packed = "content-encoding" in answer.headers
        dropped = ("content-encoding", "content-length") if self._packed else ()
        self.raw_headers = [
            (k.lower().encode("latin-1"), v.encode("latin-1", "replace"))
            for k, v in headers
            if k.lower() not in dropped
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        gone = asyncio.ensure_future(_disconnected(receive))
        pieces = self._answer.aiter_bytes() if self._packed else self._answer.aiter_raw()
        try:
            if await self._pass(pieces, gone, send):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            if not self._recorded:
                self._proxy.record_later(self._turn, self._reply)
            await asyncio.shield(self._answer.aclose())

    async def _pass(self, pieces: AsyncIterator[bytes], gone: asyncio.Future[None], send: Send) -> bool:
        """Pass on every piece; False if either side broke off."""
        held: list[bytes] = []
        while True:
            coming = asyncio.ensure_future(_next(pieces))
            await asyncio.wait((coming, gone), return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not coming.done():
                coming.cancel()
                return False
            try:
                piece = await coming
            except httpx2.TransportError as error:
                log.info("a provider broke off: %r", error)
                self._reply = None if self._reply and self._reply.whole else self._reply
                await send({"type": "http.response.body", "body": b"".join(held), "more_body": True})
                return False
            if piece is None:
                await self._complete()
                await send({"type": "http.response.body", "body": b"".join(held), "more_body": True})
                return True
            if self._reply is not None and not self._recorded and self._reply.read(piece):
                await self._complete()
            if self._reply is not None and self._reply.whole:
                held.append(piece)
                continue
            await send({"type": "http.response.body", "body": piece, "more_body": True})

    async def _complete(self) -> None:
        """Record the answer before the client can know that it is complete."""
        if not self._recorded:
            self._recorded = True
            await self._proxy.record(self._turn, self._reply)


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    async for piece in pieces:
        return piece
    return None


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
