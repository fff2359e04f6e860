"""The chat proxy: an agent that sends its requests here has memory, with no code.

A client sends its whole conversation with every request. What is new in it is recorded, what is old is
replaced by memory, and the rest goes to the provider as it came. The provider reads the request while its new
messages are written to disk; the client gets no answer before they are there. The answer is passed on piece
by piece, and is recorded before its end is passed on, so that the client's next request finds it. If memory
fails, the request goes through unchanged.

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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
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
from onlooker.engine.histories import Recent
from onlooker.engine.memory import Memory
from onlooker.engine.recording import DivergedError
from onlooker.engine.session import Session, prepare_ahead
from onlooker.policy import pace
from onlooker.policy.align import Rewind
from onlooker.policy.render import Context
from onlooker.server.auth import Principal, Receive, Scope, Send, is_ours
from onlooker.server.config import ServerConfig, Upstream
from onlooker.server.requests import Asked, Requests, parsed
from onlooker.wire import PROTOCOLS, Conversation, Reply, Wire, messages_of

log = logging.getLogger("onlooker.server")

# Headers in which clients name their conversation, the most reliable first.
SESSION_HEADERS = (
    "x-onlooker-session",
    "x-session-id",
    "session-id",
    "thread-id",
    "x-claude-code-session-id",
    "x-litellm-session-id",
)
# The header of Claude Code, whose conversations have tools. A request without tools, such as one for a title,
# is not part of the conversation.
AGENT_HEADER = "x-claude-code-session-id"
# Headers of agents that Claude Code or Codex started. They name the session of the agent that started them,
# but have conversations of their own, with that agent alone.
SUBAGENT_HEADERS = ("x-claude-code-agent-id", "x-openai-subagent")
# Headers that are about one connection, and those that the proxy sets itself.
_NOT_RETURNED = frozenset(("connection", "keep-alive", "transfer-encoding", "upgrade", "trailer", "te"))
_NOT_PASSED = _NOT_RETURNED | {"host", "content-length", "proxy-authorization", "accept-encoding", "expect"}
MAX_KEY = 500
# How long a connection to a provider may take to open.
CONNECT_SECONDS = 30.0


# ------------------------------------------------------------------------------------ conversations

# The beginning of session keys for conversations without a name.
DERIVED = "chat-"
# How many of an owner's sessions are looked at to find one that an earlier process began.
MAX_KNOWN = 1_000
MAX_ENDS = 100_000
# About how many answers the store knows the session of.
MAX_RESPONSES = 50_000
# Bytes of the conversations that were seen last.
MAX_BYTES = 32_000_000


@frozen
class _Seen:
    """What a client sent last. It is found by the hash of the answer to it."""

    key: str
    items: list[Any]


class Conversations:
    """Finds the session of a conversation without a name. It is the session whose whole record the client
    sent back, which its history hash shows. A conversation with only the same beginning, or with an edited
    message, is a new session, with the history that the client sent. Other servers may use the same database.
    If one of them has continued the session otherwise, `prepare` refuses it, and this server learns its new
    history hash.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        # The sessions by history hash, and the history hash of each session.
        self._by_end: dict[tuple[str, bytes], list[str]] = {}
        self._end_of: dict[SessionId, bytes] = {}
        # Sessions that a request is using, which no other request may use meanwhile.
        self._busy: set[SessionId] = set()
        self._seen: Recent[tuple[str, bytes], _Seen] = Recent(MAX_BYTES)
        self._last: dict[SessionId, bytes] = {}
        self._responses: Recent[tuple[str, str], str] = Recent(1_000_000)

    async def claim(self, owner: str, wire: Wire, items: list[Any], now: datetime) -> str:
        """The session's key, a new one if the conversation is not known. It is not given to others until
        `release`."""
        ends = cache(lambda: _chain(items, now)[::-1])
        session = self._find(owner, wire, items, now, ends)
        if session is None and _known_part(items):
            await self._read(owner)
            session = self._find(owner, wire, items, now, ends)
        session = session or SessionId(owner, DERIVED + secrets.token_hex(8))
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

    async def release(self, session: Session, turn: Turn, reply: list[Any], now: datetime) -> None:
        """Learn the new history hash of the conversation."""
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
        """Store the session of an answer's id, for this server after a restart and for others on the
        database. A client that names its session does so with each request, and does not need it."""
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
    """The name of the store's value that holds the session of an answer, and the hash of the answer's id in
    it. A later answer may overwrite it."""
    digest = hashlib.blake2b(f"{owner}\0{response}".encode("utf-8", "replace"), digest_size=16).hexdigest()
    return f"proxy response {int(digest, 16) % MAX_RESPONSES}", digest


def _known_part(items: Sequence[Any]) -> int:
    """How many of the items a known conversation must have: all up to the model's last answer."""
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
    """What memory did with a request: its new body, and the session in which the answer is recorded. Without
    a session the request goes through unchanged, and `why` is the reason."""

    body: bytes
    session: Session | None = None
    why: str = "on"
    items: list[Any] = field(default_factory=list[Any])
    tokens_in: int = 0
    tokens_saved: int = 0
    derived: bool = False
    size: int = 0
    # Begins to write to disk what the client said, and waits until it is there; None if nothing is new.
    begin: Callable[[], None] | None = None
    storing: Callable[[], Awaitable[object]] | None = None

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
        # Not a client, which adds headers, cookies and redirects of its own.
        self._connections = httpx2.AsyncHTTPTransport(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
            # Proxies and keys in this process's environment are not meant for the client's requests.
            trust_env=False,
        )

    async def close(self) -> None:
        """Wait for answers that are being recorded, and close the connections."""
        while self._recording:
            await asyncio.wait(self._recording)
        await self._connections.aclose()

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
        if wire is None or asked is None or upstream.protocol != wire.provider:
            return await self._send(request, upstream, path, wire, Turn(raw, why="off"))
        began = time.perf_counter()
        turn = await self._turn(request, asked, raw)
        took = time.perf_counter() - began
        with ExitStack() as until_sent:
            # Not before: a turn may wait for a note.
            until_sent.enter_context(pace.turn())
            if turn.begin:
                until_sent.callback(turn.begin)
            response = await self._send(request, upstream, path, wire, turn, until_sent.close)
        self._on_turn(turn.why, took, turn.tokens_saved)
        return response

    # -- memory

    async def _turn(self, request: Request, asked: Asked, raw: bytes) -> Turn:
        """The turn for a request. Never raises: if memory fails, the request goes through unchanged."""
        try:
            async with asyncio.timeout(self._config.memory_deadline):
                return await self._remember(request, asked, raw)
        except Skip as reason:
            return Turn(raw, why=f"off: {reason}")
        except Exception as error:  # noqa: BLE001  a bug of ours must not cost the client its answer
            return Turn(raw, why=_failure(error))

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
            # The provider stores this conversation, and would add all of it to the prompt.
            session = self._memory.session(key[:MAX_KEY], owner=owner)
            await session.record(conversation.items)
            return Turn(raw, session, "recorded: the provider keeps this conversation")
        if isinstance(previous, str) and key is None:
            key = await self._conversations.of_response(owner, previous)
            if key is None:
                raise Skip("the previous response is not known here")
        self._check_is_a_turn(request, body, conversation, key)
        turn = Turn(raw, items=conversation.items, derived=key is None, size=len(raw))
        try:
            context = await self._prepare(asked, conversation, key, turn, now)
            changed = wire.with_memory(body, items, conversation, context, now)
            text = json.dumps(changed, ensure_ascii=False, separators=(",", ":"))
        except BaseException:
            self.record_later(turn, None)
            raise
        turn.body = text.encode("utf-8", "surrogatepass")
        turn.tokens_in = total = context.stats.total
        turn.tokens_saved = max(0, round(total * (len(raw) - len(turn.body)) / max(1, len(turn.body))))
        return turn

    async def _prepare(
        self, asked: Asked, conversation: Conversation, key: str | None, turn: Turn, now: datetime
    ) -> Context:
        """Find the session of the turn, and prepare to record what is new. Returns the context to send."""
        budget = self._config.proxy_budget or None
        while True:
            name = key or await self._conversations.claim(asked.owner, asked.wire, conversation.items, now)
            turn.session = session = self._memory.session(name[:MAX_KEY], owner=asked.owner)
            if asked.body.get("previous_response_id"):
                await session.record(conversation.items)
                return await session.context(budget=budget)
            rewind: Rewind = "refuse" if turn.derived else "auto"
            try:
                prepared = await prepare_ahead(session, conversation.items, budget=budget, rewind=rewind)
                break
            except DivergedError:  # another server continued it
                await self._conversations.release(session, turn, [], now)

        async def stored() -> None:
            try:
                await prepared.stored()
            except DivergedError:  # another server continued it at the same moment
                await self._conversations.release(session, turn, [], now)
                await self._prepare(asked, conversation, key, turn, now)
                await self._stored(turn)

        turn.begin, turn.storing = prepared.begin, stored
        return prepared.context

    async def _stored(self, turn: Turn) -> None:
        """Wait until the client's messages are on disk. If that fails, the turn goes on without memory."""
        storing, turn.storing = turn.storing, None
        if storing is None:
            return
        try:
            async with asyncio.timeout(self._config.memory_deadline):
                await storing()
        except Exception as error:  # noqa: BLE001  a bug of ours must not cost the client its answer
            why = _failure(error)
            await self.record(turn, None)
            turn.why, turn.session = why, None

    def _check_is_a_turn(
        self, request: Request, body: Mapping[str, Any], conversation: Conversation, key: str | None
    ) -> None:
        """Skip requests that an agent makes for itself, outside of the conversation whose session it
        names."""
        if any(header in request.headers for header in SUBAGENT_HEADERS):
            raise Skip("a conversation of a subagent")
        if key is None or AGENT_HEADER not in request.headers:
            return
        if body.get("tools"):
            self._with_tools.put(key, True, len(key))
        elif len(conversation.items) == 1 or self._with_tools.get(key):
            raise Skip("a request outside of the conversation, such as for a title")

    def _owner(self, request: Request) -> str:
        principal: Principal = request.state.principal
        return principal.owner or request.headers.get("x-onlooker-owner") or self._memory.session("-").owner

    # -- the provider

    async def _send(
        self,
        request: Request,
        upstream: Upstream,
        path: str,
        wire: Wire | None,
        turn: Turn,
        sent: Callable[[], None] | None = None,
    ) -> Response:
        """Pass a request on, and its answer back. `sent` is called when the provider has the request."""
        login = upstream.authorization
        dropped = {*_NOT_PASSED, "authorization"} if login else _NOT_PASSED
        headers = [
            (key, value)
            for key, value in request.headers.items()
            if key not in dropped and not is_ours(key, value)
        ]
        if login:
            headers.append(("authorization", login))
        # A compressed answer could not be read while it is passed on.
        headers.append(("accept-encoding", "identity"))
        url = f"{upstream.address.removesuffix('/v1')}/v1/{quote(path, safe='/:@!$&()*+,;=~%')}"
        if request.url.query:
            url += f"?{request.url.query}"
        # A model may think for a long time; the client has its own timeout.
        waits = {"timeout": {"connect": CONNECT_SECONDS}}
        asking = httpx2.Request(request.method, url, headers=headers, content=turn.body, extensions=waits)
        asking.stream = _Body(turn.body, sent)
        try:
            answer = await self._connections.handle_async_request(asking)
        except httpx2.TransportError as error:
            await self._stored(turn)
            what = f"{upstream.name} at {upstream.address} cannot be reached: {type(error).__name__}"
            failed = {"error": {"type": "api_error", "message": what, "code": None}}
            self.record_later(turn, None)
            return JSONResponse({"type": "error", **failed}, 502, turn.headers())
        await self._stored(turn)
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
        """Record the model's answer, if there is one, and release the session. A failure is logged: the
        client's next request contains the answer."""
        await self._stored(turn)
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


def _failure(error: Exception) -> str:
    """Log a failure of memory, and return what the client is told of it."""
    if isinstance(error, OnlookerError | TimeoutError):
        log.warning("a request goes through without memory: %r", error)
        return f"failed: {str(error) or 'it took too long'}"
    log.error("a request goes through without memory: this is a bug in Onlooker", exc_info=error)
    return f"failed: {type(error).__name__}"


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
    """The session in a client's `user` field, or the user if there is none."""
    if not isinstance(user, str) or not user:
        return None
    if found := _SESSION_IN_USER.search(user):
        return found[1]
    if user.startswith("{"):
        about = parsed(user.encode("utf-8", "replace")) or {}
        session = about.get("session_id")
        return session if isinstance(session, str) and session else None
    return user


@dataclass(slots=True)
class _Body(httpx2.AsyncByteStream):
    """The body of a request to a provider, which says when it was sent."""

    body: bytes
    sent: Callable[[], None] | None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self.body:
            yield self.body
        if self.sent:
            self.sent()


# ------------------------------------------------------------------------------------ an answer as it comes


class Passing(Response):
    """An answer of a provider, passed on piece by piece. If the provider breaks off, so does this. If the
    client does, the connection to the provider is closed, and what was sent is recorded.
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
