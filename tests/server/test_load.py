"""The server under load, killed in the middle, and asked whatever its OpenAPI document allows."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error  # pyright: ignore[reportUnknownVariableType]
from schemathesis.specs.openapi.checks import (
    content_type_conformance,  # pyright: ignore[reportUnknownVariableType]
    response_schema_conformance,  # pyright: ignore[reportUnknownVariableType]
)

import onlooker
from onlooker.server.app import make_app
from onlooker.testing.provider import Answer, LocalProvider
from tests.server.process import started

pytestmark = pytest.mark.long


def text(session: int, turn: int) -> str:
    return f"Session {session} says that code {session}-{turn} is in use at gate {turn}."


def test_sessions_at_once_lose_and_mix_nothing_though_the_server_is_killed(tmp_path: Path) -> None:
    """What was acknowledged is there after `kill -9`, in its own session and once; the clients go on."""
    sessions, turns = 40, 25
    acknowledged: list[list[int]] = [[] for _ in range(sessions)]
    place: dict[str, str] = {}
    ready = threading.Event()

    async def converse(client: httpx2.AsyncClient, number: int) -> None:
        for turn in range(turns):
            message = {"role": "user", "content": text(number, turn), "id": f"{number}-{turn}"}
            while True:
                try:
                    answer = await client.post(f"{place['url']}/v1/sessions/s{number}/messages", json=message)
                    if answer.status_code == 200:
                        break
                except httpx2.TransportError:
                    pass
                await asyncio.sleep(0.05)
            acknowledged[number].append(turn)
            if sum(map(len, acknowledged)) == sessions * turns // 2:
                ready.set()

    async def clients() -> None:
        limits = httpx2.Limits(max_connections=32)
        async with httpx2.AsyncClient(timeout=120, limits=limits) as client:
            await asyncio.gather(*(converse(client, n) for n in range(sessions)))

    db = tmp_path / "a.db"
    talking = threading.Thread(target=lambda: asyncio.run(clients()), daemon=True)
    with started(db) as server:
        place["url"] = server.url
        talking.start()
        assert ready.wait(300)
        server.stop(signal.SIGKILL)
    port = server.url.rpartition(":")[2]
    with started(db, "--port", port) as server:
        talking.join(300)
        assert not talking.is_alive()
        for number in range(sessions):
            page = httpx2.get(f"{server.url}/v1/sessions/s{number}/messages?limit=1000&archived=true").json()
            assert [m["text"] for m in page["messages"]] == [text(number, turn) for turn in range(turns)]
        assert server.stop() == 0


def test_conversations_through_the_proxy_go_on_after_a_kill(tmp_path: Path) -> None:
    with LocalProvider(lambda _: Answer("Noted.")) as provider:
        upstream = ("--upstream", f"openai={provider.url}")
        history = list[Any]()

        def turn(url: str, number: int) -> str:
            history.append({"role": "user", "content": text(1, number)})
            body = {"model": "m", "messages": history}
            answer = httpx2.post(f"{url}/openai/v1/chat/completions", json=body, timeout=60)
            history.append(answer.json()["choices"][0]["message"])
            return answer.headers["x-onlooker-session"]

        with started(tmp_path / "a.db", *upstream) as server:
            keys = {turn(server.url, n) for n in range(10)}
            server.stop(signal.SIGKILL)
        with started(tmp_path / "a.db", *upstream) as server:
            keys |= {turn(server.url, n) for n in range(10, 20)}
            assert len(keys) == 1
            page = httpx2.get(f"{server.url}/v1/sessions/{keys.pop()}/messages?limit=1000").json()
            assert [m["text"] for m in page["messages"]][::2] == [text(1, n) for n in range(20)]


SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


@schemathesis.serializer("application/jsonl")
def as_lines(_: Any, value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


def test_no_request_that_the_document_allows_is_a_server_error_and_answers_match_it() -> None:
    app = make_app(onlooker.open_memory(":memory:"))
    checks: list[Any] = [not_a_server_error, response_schema_conformance, content_type_conformance]
    schema: Any = schemathesis.openapi.from_asgi("/openapi.json", app, headers={"host": "127.0.0.1"})
    tried = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path == "/v1/events":
            continue  # a stream that goes on

        @given(case=operation.as_strategy())
        @settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
        def requests(case: Any) -> None:
            answer = case.call(headers={"host": "127.0.0.1"})
            case.validate_response(answer, checks=checks)

        requests()
        tried += 1
    assert tried > 30
