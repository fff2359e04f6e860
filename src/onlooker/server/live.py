"""Live events of a memory as server-sent events, and metrics for Prometheus."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, MutableMapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from onlooker.domain.events import Event, ModelReplied, Recorded
from onlooker.domain.frozen import frozen
from onlooker.domain.items import Item
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Note
from onlooker.engine.memory import Memory
from onlooker.server.auth import App, Receive, Scope, Send
from onlooker.server.rest import Asker, Owner, need_all, owner_of
from onlooker.server.views import PROBLEMS

router = APIRouter(responses=PROBLEMS)

# How many events are kept for clients that reconnect.
MAX_KEPT = 5_000
# After this many seconds without an event a line is sent, to notice a closed connection.
HEARTBEAT = 15.0
# Fields that hold words of people or models. Events are kept for a while, and must not repeat what is
# forgotten meanwhile: clients that may read it request it by its id.
WORDS = ("query", "detail", "value", "text", "summary")
# The most characters of any other text.
MAX_TEXT = 500


# ------------------------------------------------------------------------------------ events


@frozen
class _Sent:
    number: int
    owner: str
    session: str
    text: str


class Live:
    """The events of this process, numbered, the newest kept."""

    def __init__(self) -> None:
        # Numbers start again with each process, and another process has other events.
        self.run = secrets.token_hex(4)
        self._kept: deque[_Sent] = deque(maxlen=MAX_KEPT)
        self._number = 0
        self._came = asyncio.Event()

    def on_event(self, event: Event) -> None:
        """Keep an event, and wake waiting clients."""
        self._number += 1
        found: Any = getattr(event, "session", "")
        session = found.key if isinstance(found, SessionId) else str(found)
        owner = str(getattr(event, "owner", ""))
        body: dict[str, Any] = {"type": type(event).__name__, "owner": owner, "session": session}
        for each in fields(event):
            if each.name not in ("session", "owner", *WORDS):
                body[each.name] = _brief(getattr(event, each.name))
        self._kept.append(_Sent(self._number, owner, session, json.dumps(body)))
        self._came.set()
        self._came = asyncio.Event()

    async def follow(
        self, owner: str | None, session: str | None, last: str, stopping: asyncio.Event
    ) -> AsyncGenerator[bytes]:
        """Yield events from now on, or after the last one that a client received."""
        run, _, number = last.partition("-")
        seen = self._number
        if last:
            known = run == self.run and number.isdecimal()
            oldest = self._kept[0].number if self._kept else self._number + 1
            seen = int(number) if known else oldest - 1
            if not known or seen < oldest - 1:
                yield b"event: missed\ndata: {}\n\n"  # some are lost: the client must read the state again
        else:
            yield b": events from now on\n\n"
        while not stopping.is_set():
            came = self._came
            for sent in [s for s in self._kept if s.number > seen]:
                seen = sent.number
                if owner in (None, sent.owner) and session in (None, sent.session):
                    yield f"id: {self.run}-{sent.number}\ndata: {sent.text}\n\n".encode()
            waits = [asyncio.ensure_future(came.wait()), asyncio.ensure_future(stopping.wait())]
            done, left = await asyncio.wait(waits, timeout=HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
            for wait in left:
                wait.cancel()
            if not done:
                yield b": nothing new\n\n"


def _brief(value: Any) -> Any:
    """A value of an event as JSON, without anybody's words."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return value[:MAX_TEXT]
        case datetime():
            return value.isoformat()
        case SessionId():
            return {"owner": value.owner, "key": value.key}
        case Message():
            return {"id": value.id, "seq": value.seq, "role": value.role, "tokens": value.tokens}
        case Note():
            return {"id": value.id, "kind": value.kind, "tokens": value.tokens}
        case Item():
            return {"id": value.id, "type": value.type, "status": value.status}
        case tuple() | list():
            return [_brief(each) for each in value[:100]]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {str(key): _brief(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _ if is_dataclass(value):
            named = [each.name for each in fields(value) if each.name not in WORDS]
            return {name: _brief(getattr(value, name)) for name in named}
        case _:
            return str(value)[:MAX_TEXT]


@router.get(
    "/v1/events",
    tags=["operation"],
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    request: Request,
    principal: Asker,
    owner: Owner = None,
    session: Annotated[
        str | None, Query(min_length=1, description="Only of the session with this key.")
    ] = None,
    last_event_id: Annotated[str, Header(max_length=100)] = "",
) -> StreamingResponse:
    """Server-sent events: messages recorded, notes written, contexts built. A client that reconnects with
    `Last-Event-ID` gets what it missed; an event `missed` says that some of it is lost.
    """
    live: Live = request.app.state.live
    stream = live.follow(owner_of(principal, owner), session, last_event_id, request.app.state.stopping)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


# ------------------------------------------------------------------------------------ metrics


class Metrics:
    """Counts for Prometheus, of this process."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.registry = CollectorRegistry()
        made: Any = {"registry": self.registry, "namespace": "onlooker"}
        self._events = Counter("events", "Events of the memory.", ["type"], **made)
        self._messages = Counter("messages", "Messages recorded.", **made)
        self._cost = Counter("model_cost_dollars", "Cost of model calls.", ["model"], **made)
        self._model_tokens = Counter("model_tokens", "Tokens of model calls.", ["model", "direction"], **made)
        self._seconds = Histogram(
            "request_seconds",
            "Duration of requests, until the answer was complete.",
            ["method", "route", "status"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
            **made,
        )
        self._memory_seconds = Histogram(
            "proxy_memory_seconds",
            "Time that memory added to a proxied request.",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
            **made,
        )
        self._proxied = Counter(
            "proxied_requests", "Proxied requests by what memory did.", ["memory"], **made
        )
        self._saved = Counter("proxied_tokens_saved", "Tokens that were not sent, estimated.", **made)
        pending = Gauge("sessions_pending", "Sessions whose notes are being taken.", **made)
        pending.set_function(lambda: memory.background.pending)

    def on_event(self, event: Event) -> None:
        """Count an event."""
        self._events.labels(type(event).__name__).inc()
        if isinstance(event, Recorded):
            self._messages.inc(len(event.messages))
        elif isinstance(event, ModelReplied):
            used = event.usage
            self._model_tokens.labels(used.model, "in").inc(used.input_tokens)
            self._model_tokens.labels(used.model, "out").inc(used.output_tokens)
            self._cost.labels(used.model).inc(used.cost or 0)

    def proxied(self, what: str, seconds: float, saved: int) -> None:
        """Count a proxied request."""
        self._proxied.labels(what.partition(":")[0]).inc()
        self._memory_seconds.observe(seconds)
        self._saved.inc(saved)

    def measured(self, app: App) -> App:
        """Measure the time of each request to the application."""

        async def measure(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began, status = time.perf_counter(), 500

            async def sending(message: MutableMapping[str, Any]) -> None:
                nonlocal status
                status = message.get("status", status)
                await send(message)

            try:
                await app(scope, receive, sending)
            finally:
                # The pattern, never the path, which contains session keys.
                route = getattr(scope.get("route"), "path", "(none)")
                took = time.perf_counter() - began
                self._seconds.labels(scope["method"], route, str(status)).observe(took)

        return measure


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request, principal: Asker) -> Response:
    """Metrics for Prometheus. Requires a token for all owners."""
    need_all(principal)
    found: Metrics = request.app.state.metrics
    return Response(generate_latest(found.registry), media_type=CONTENT_TYPE_LATEST)
