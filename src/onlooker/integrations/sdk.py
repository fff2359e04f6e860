"""OpenAI's and Anthropic's SDKs with memory: a wrapper around their HTTP client.

    client = with_memory(OpenAI(), "agent.db", session="telegram:42")

A request is changed on its way out, and the answer is read on its way back, as the chat proxy does
(`onlooker.wire`). So everything that an SDK can do works: streams, tools, parsed answers, raw responses.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar, cast, get_args

import httpx2

from onlooker.domain.errors import SettingsError
from onlooker.integrations.framework import AnyMemory, Ask, Host, Session, on_loop
from onlooker.policy.render import Context
from onlooker.wire import PROTOCOLS, Item, Protocol, Reply, Wire, messages_of, without_injected

C = TypeVar("C")

# A request may name its session and owner: `extra_headers={"x-onlooker-session": "telegram:42"}`.
SESSION_HEADER = "x-onlooker-session"
OWNER_HEADER = "x-onlooker-owner"
# The most tokens of a note, for providers that require a limit.
MAX_NOTE = 4_096


def with_memory(
    client: C, memory: AnyMemory, *, session: str = "", owner: str = "", budget: int | None = None
) -> C:
    """Add memory to a client: chat completions, responses and Anthropic's messages, with streams and tools.

    Send the whole conversation with each request, a part of it, or only what is new. New messages are
    recorded, and the request is sent with memory and the newest messages. The answer is recorded as well.

    Args:
        client: A client of OpenAI's or Anthropic's SDK, blocking or async. It is not changed.
        memory: A file or a URL, so that the model of the requests writes the notes as well; or what
            `onlooker.open_memory` or `onlooker.blocking.open_memory` returned.
        session: The conversation. `onlooker.use_session` names another one for the calls inside it, and the
            header `x-onlooker-session` for one request. Without a session, a request has no memory.
        owner: The owner of the conversation.
        budget: Tokens for a prompt; by default the memory's own.
    """
    given: Any = client
    provider = _provider_of(client)
    http: httpx2.Client | httpx2.AsyncClient = given._client
    turns = _Turns(Host(memory, owner=owner, budget=budget), provider, session, http)
    wrapped = _AsyncClient(http, turns) if isinstance(http, httpx2.AsyncClient) else _Client(http, turns)
    return given.copy(http_client=wrapped)


def _provider_of(client: object) -> Protocol:
    packages = {kind.__module__.partition(".")[0] for kind in type(client).__mro__}
    for provider in get_args(Protocol):
        if provider in packages:
            return provider
    raise SettingsError("client", type(client).__name__, "must be a client of OpenAI's or Anthropic's SDK")


# ------------------------------------------------------------------------------------ requests and answers


@dataclass(slots=True)
class _Turn:
    """A request with memory: its session, and the reader of its answer."""

    session: Session
    wire: Wire
    request: httpx2.Request
    loop: asyncio.AbstractEventLoop | None = None  # the program's, if it has one
    reply: Reply | None = None
    recorded: bool = False

    def read(self, response: httpx2.Response) -> None:
        """Read the answer from now on, unless the request failed."""
        if response.status_code == 200:
            self.reply = self.wire.reply(response.headers.get("content-type", ""))


class _Turns:
    """Adds memory to requests, and records answers."""

    def __init__(
        self, host: Host, provider: Protocol, session: str, http: httpx2.Client | httpx2.AsyncClient
    ) -> None:
        self.host = host
        self._provider: Protocol = provider
        self._session = session
        self._http = http

    def start(self, request: httpx2.Request) -> _Turn | None:
        """Start the turn of a request; None if it is not a conversation or has no session."""
        key = request.headers.pop(SESSION_HEADER, "") or self._session
        owner = request.headers.pop(OWNER_HEADER, "")
        wire = next((w for path, w in PROTOCOLS.items() if request.url.path.endswith("/" + path)), None)
        if request.method != "POST" or wire is None or wire.provider != self._provider:
            return None
        session = self.host.session(key, owner)
        return _Turn(session, wire, request) if session else None

    async def begin(self, turn: _Turn) -> None:
        """Add memory to the request; if that fails, it is sent unchanged."""
        body = _parsed(turn.request.content)
        if self.host.wants_model and body.get("model"):
            self.host.bind(self._make_ask(turn, str(body["model"])))
        if changed := await self.host.safely(turn.session.key, self._with_memory(turn, body)):
            content = json.dumps(changed, ensure_ascii=False).encode("utf-8", "surrogatepass")
            headers = dict(turn.request.headers) | {"content-length": str(len(content))}
            # A compressed answer could not be read as it passes.
            headers["accept-encoding"] = "identity"
            more = turn.request.extensions
            url = turn.request.url
            turn.request = httpx2.Request("POST", url, headers=headers, content=content, extensions=more)

    async def _with_memory(self, turn: _Turn, body: Item) -> Item | None:
        wire, session = turn.wire, turn.session
        items = wire.items(body)
        conversation = without_injected(items, system_is_injected=wire.system_is_injected)
        if not conversation.items:
            return None
        if body.get("conversation"):
            await session.record(conversation.items)
            return None  # the provider stores the conversation, and would send all of it anyway
        context: Context
        if body.get("previous_response_id"):
            await session.record(conversation.items)
            context = await session.context(budget=self.host.budget)
        else:
            context = await session.prepare(conversation.items, budget=self.host.budget)
        return wire.with_memory(body, items, conversation, context, datetime.now(UTC))

    async def end(self, turn: _Turn) -> None:
        """Record the answer, once."""
        if turn.reply is not None and not turn.recorded:
            turn.recorded = True
            await self.host.record(turn.session, turn.reply.items())

    def _make_ask(self, turn: _Turn, model: str) -> Ask:
        """Ask the same model for a note, in a separate request."""
        url, wire = turn.request.url, turn.wire
        ours = ("content-length", "accept-encoding")
        headers = {k: v for k, v in turn.request.headers.items() if k.lower() not in ours}
        http = self._http

        async def ask(system: str, user: str) -> str:
            body = wire.question(model, system, user, MAX_NOTE)
            request = http.build_request("POST", url, headers=headers, json=body)
            if isinstance(http, httpx2.AsyncClient):
                response = await http.send(request)
            else:
                response = await asyncio.to_thread(http.send, request)
            response.raise_for_status()
            reply = wire.reply("application/json")
            assert reply is not None
            reply.read(response.content)
            return "\n".join(m.text for m in messages_of(reply.items(), datetime.now(UTC)))

        return on_loop(turn.loop, ask) if turn.loop else ask


def _parsed(raw: bytes) -> Item:
    try:
        found: object = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return cast("Item", found) if isinstance(found, dict) else {}


# ------------------------------------------------------------------------------------ without await


class _UnusedTransport(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Never used: the wrapped client sends the requests."""


class _Client(httpx2.Client):
    def __init__(self, http: httpx2.Client, turns: _Turns) -> None:
        super().__init__(transport=_UnusedTransport(), timeout=http.timeout)
        self._http = http
        self._turns = turns

    @property
    def is_closed(self) -> bool:
        return self._http.is_closed

    def close(self) -> None:
        self._http.close()
        self._turns.host.close()

    def build_request(self, *args: Any, **options: Any) -> httpx2.Request:
        return self._http.build_request(*args, **options)

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        turn = self._turns.start(request)
        if turn is None:
            return self._http.send(request, **options)
        run = self._turns.host.run_blocking
        run(self._turns.begin(turn), None)
        response = self._http.send(turn.request, **options)
        turn.read(response)
        if options.get("stream"):
            response.stream = _RecordedStream(response.stream, turn, self._turns)
        elif turn.reply is not None:
            turn.reply.read(response.content)
            run(self._turns.end(turn), None)
        return response


class _RecordedStream(httpx2.SyncByteStream):
    """An answer that is recorded before its end is passed on, or when it is closed."""

    def __init__(self, pieces: Any, turn: _Turn, turns: _Turns) -> None:
        self._pieces = pieces
        self._turn = turn
        self._turns = turns

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if self._turn.reply is not None and self._turn.reply.read(piece):
                self._end()
            yield piece
        self._end()

    def close(self) -> None:
        self._pieces.close()
        self._end()

    def _end(self) -> None:
        self._turns.host.run_blocking(self._turns.end(self._turn), None)


# ------------------------------------------------------------------------------------ with await


class _AsyncClient(httpx2.AsyncClient):
    def __init__(self, http: httpx2.AsyncClient, turns: _Turns) -> None:
        super().__init__(transport=_UnusedTransport(), timeout=http.timeout)
        self._http = http
        self._turns = turns

    @property
    def is_closed(self) -> bool:
        return self._http.is_closed

    async def aclose(self) -> None:
        await self._http.aclose()
        self._turns.host.close()

    def build_request(self, *args: Any, **options: Any) -> httpx2.Request:
        return self._http.build_request(*args, **options)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        turn = self._turns.start(request)
        if turn is None:
            return await self._http.send(request, **options)
        turn.loop = asyncio.get_running_loop()
        run = self._turns.host.run
        await run(self._turns.begin(turn), None)
        response = await self._http.send(turn.request, **options)
        turn.read(response)
        if options.get("stream"):
            response.stream = _AsyncRecordedStream(response.stream, turn, self._turns)
        elif turn.reply is not None:
            turn.reply.read(response.content)
            await run(self._turns.end(turn), None)
        return response


class _AsyncRecordedStream(httpx2.AsyncByteStream):
    """The same for an async program."""

    def __init__(self, pieces: Any, turn: _Turn, turns: _Turns) -> None:
        self._pieces = pieces
        self._turn = turn
        self._turns = turns

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            if self._turn.reply is not None and self._turn.reply.read(piece):
                await self._end()
            yield piece
        await self._end()

    async def aclose(self) -> None:
        await self._pieces.aclose()
        await self._end()

    async def _end(self) -> None:
        await self._turns.host.run(self._turns.end(self._turn), None)
