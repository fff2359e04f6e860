"""Streams through the proxy over real sockets: they pass event by event, and break off on either side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import uvicorn

import onlooker
from onlooker.server.app import make_app
from onlooker.server.config import ServerConfig, Upstream

pytestmark = pytest.mark.anyio

# How long a test waits for what must come.
PATIENCE = 60


def chunk(text: str) -> bytes:
    delta = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    return f"data: {json.dumps(delta)}\n\n".encode()


class Hand:
    """A provider that streams what the test puts in, piece by piece. `None` ends the answer, and an exception
    cuts the connection."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.gone = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        closed = asyncio.ensure_future(reader.read())
        try:
            while True:
                coming = asyncio.ensure_future(self.pieces.get())
                await asyncio.wait((coming, closed), return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()
                    self.gone.set()
                    return
                piece = coming.result()
                if isinstance(piece, Exception):
                    writer.transport.abort()
                    return
                writer.write(b"%x\r\n%s\r\n" % (len(piece or b""), piece or b""))
                await writer.drain()
                if piece is None:
                    return
        finally:
            closed.cancel()
            writer.close()


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.01)


@asynccontextmanager
async def streaming() -> AsyncGenerator[tuple[Hand, httpx2.AsyncClient, uvicorn.Server]]:
    hand = Hand()
    provider = await asyncio.start_server(hand.serve, "127.0.0.1", 0)
    hand.url = "http://127.0.0.1:{1}".format(*provider.sockets[0].getsockname()[:2])
    config = ServerConfig(upstreams=(Upstream("openai", hand.url, "openai"),))
    app = make_app(onlooker.open_memory(":memory:"), config)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    serving = asyncio.ensure_future(server._serve())  # type: ignore[reportPrivateUsage]  # without signals
    async with asyncio.timeout(PATIENCE):
        await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            yield hand, client, server
    finally:
        server.should_exit = True
        await serving
        provider.close()


ASKED: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "Count for me, please."}],
}


@asynccontextmanager
async def asking(client: httpx2.AsyncClient) -> AsyncGenerator[AsyncIterator[bytes]]:
    headers = {"x-onlooker-session": "a"}
    async with client.stream("POST", "/openai/v1/chat/completions", json=ASKED, headers=headers) as answer:
        assert answer.headers["x-onlooker-session"] == "a"
        yield answer.aiter_raw()


async def texts(client: httpx2.AsyncClient, count: int = 0) -> list[str]:
    """What is recorded, as soon as there are so many messages."""
    found = list[str]()
    while len(found) < max(1, count):
        found = [m["text"] for m in (await client.get("/v1/sessions/a/messages")).json()["messages"]]
    return found


async def test_each_event_arrives_before_the_next_is_there_and_the_answer_is_recorded_before_its_end() -> (
    None
):
    async with streaming() as (hand, client, _), asyncio.timeout(PATIENCE), asking(client) as events:
        for word in ("one ", "two ", "three"):
            hand.pieces.put_nowait(chunk(word))
            assert word in (await anext(events)).decode()
        hand.pieces.put_nowait(b"data: [DONE]\n\n")
        assert b"[DONE]" in await anext(events)
        assert await texts(client) == ["Count for me, please.", "one two three"]
        hand.pieces.put_nowait(None)


async def test_what_was_sent_is_recorded_when_the_client_breaks_off_and_the_provider_is_told() -> None:
    async with streaming() as (hand, client, _), asyncio.timeout(PATIENCE):
        async with asking(client) as events:
            hand.pieces.put_nowait(chunk("one two "))
            await anext(events)
        await hand.gone.wait()
        assert await texts(client, 2) == ["Count for me, please.", "one two "]


async def test_a_stream_that_the_provider_breaks_off_breaks_off_for_the_client() -> None:
    async with streaming() as (hand, client, _), asyncio.timeout(PATIENCE):
        async with asking(client) as events:
            hand.pieces.put_nowait(chunk("one two "))
            await anext(events)
            hand.pieces.put_nowait(OSError())
            with pytest.raises(httpx2.RemoteProtocolError):
                await anext(events)
        assert await texts(client, 2) == ["Count for me, please.", "one two "]


async def test_a_stop_lets_a_running_answer_complete() -> None:
    async with streaming() as (hand, client, server), asyncio.timeout(PATIENCE), asking(client) as events:
        hand.pieces.put_nowait(chunk("one "))
        await anext(events)
        server.should_exit = True
        await asyncio.sleep(0.2)
        hand.pieces.put_nowait(chunk("two"))
        hand.pieces.put_nowait(b"data: [DONE]\n\n")
        hand.pieces.put_nowait(None)
        rest = b"".join([piece async for piece in events])
        assert b"two" in rest
        assert b"[DONE]" in rest
