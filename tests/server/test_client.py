"""`onlooker.connect`: a program moves from the library to a server by one line."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import httpx2
import pytest

import onlooker
from onlooker import blocking
from onlooker.client import RemoteMemory, RemoteSession
from onlooker.errors import BudgetError, MessageError, NotFoundError, SettingsError, StoreError
from tests.server.process import started
from tests.server.serving import app_of, serving

TOOL_TALK: list[Any] = [
    {"role": "user", "content": "Which rows are full?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"row": 7}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "Row 7 is full."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "And this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        ],
    },
]


@pytest.mark.anyio
async def test_a_session_of_a_server_gives_what_one_of_the_library_gives() -> None:
    settings: dict[str, Any] = {"budget": 3_000}
    async with (
        serving(onlooker.open_memory(":memory:", **settings)) as http,
        RemoteMemory(http) as remote,
        onlooker.open_memory(":memory:", **settings) as local,
    ):
        found = list[Any]()
        for memory in (remote, local):
            session: Any = memory.session("telegram/42", owner="ana")
            for n in range(40):
                text = (
                    f"Parcel ZQ{n:03}K went from Oslo to hall {n} in the morning, and Ana signed for it. " * 3
                )
                await session.record(
                    onlooker.user(text, id=f"u{n}"), onlooker.assistant("Noted.", id=f"a{n}")
                )
            assert await session.settle()
            context = await session.context(system="You help.", question="Where is ZQ003K?")
            prepared = await session.prepare(TOOL_TALK, system="You help.", rewind="never")
            (hit, *_) = await session.search("ZQ005K")
            notes = await session.notes()
            recalled = await session.recall(notes[0].id)
            pinned = await session.pin("u1")
            messages = await session.messages()
            forgotten = await session.forget("u2")
            found.append(
                [
                    context.openai()[0],
                    context.anthropic()["messages"],
                    prepared.openai()[-4:],
                    prepared.stats.total,
                    (hit.id, hit.session.key, hit.text),
                    notes[0].kind,
                    [m.id for m in recalled][:5],
                    pinned,
                    [(m.role, m.text, m.calls, m.answers) for m in messages],
                    (forgotten.messages, forgotten.erased),
                    len(await session.end()),
                    await session.delete(),
                    await session.delete(),
                ]
            )
        for ours, theirs in zip(*found, strict=True):
            assert ours == theirs


# What a server's memory has of its own: requests for everything else, and jobs that say how far they are.
OWN_METHODS = {"call", "consolidate", "export", "import_file"}
OWN_PARAMETERS = {"progress"}


@pytest.mark.parametrize(
    ("remote", "local"), [(RemoteMemory, onlooker.Memory), (RemoteSession, onlooker.Session)]
)
def test_what_both_have_is_called_alike(remote: type, local: type) -> None:
    compared = 0
    for name, method in inspect.getmembers(remote, inspect.isfunction):
        if name.startswith("_") or name in OWN_METHODS:
            continue
        ours, theirs = (
            inspect.signature(method).parameters,
            inspect.signature(getattr(local, name)).parameters,
        )
        for parameter in ours.values():
            if parameter.name not in OWN_PARAMETERS:
                other = theirs[parameter.name]
                assert (parameter.kind, parameter.default) == (other.kind, other.default), (name, parameter)
                compared += 1
    assert compared > 5


@pytest.mark.anyio
async def test_errors_are_those_of_the_library() -> None:
    async with serving() as http, RemoteMemory(http, owner="ana") as memory:
        session = memory.session("a")
        await session.record({"role": "user", "content": "Hello there."})
        with pytest.raises(MessageError, match="king"):
            await session.record({"role": "king", "content": "x"})
        with pytest.raises(BudgetError):
            await session.context(system="You help a lot. " * 20, budget=3)
        with pytest.raises(NotFoundError, match="obs_none"):
            await session.recall("obs_none")
        with pytest.raises(SettingsError, match="function"):
            await session.context(knowledge={"tools": lambda _: "x"})  # type: ignore[dict-item]


@pytest.mark.anyio
async def test_a_request_whose_answer_was_lost_is_sent_again_and_recorded_once() -> None:
    class Losing(httpx2.ASGITransport):
        lost = 0

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            answer = await super().handle_async_request(request)
            if request.method == "POST" and self.lost < 2:
                self.lost += 1
                raise httpx2.ReadError("the connection is gone", request=request)
            return answer

    async with serving() as http:
        transport = Losing(app=app_of(http))
        async with RemoteMemory(
            httpx2.AsyncClient(transport=transport, base_url=str(http.base_url))
        ) as memory:
            await memory.session("a").record({"role": "user", "content": "Hello there."})
            assert transport.lost == 2
            assert [m.text for m in await memory.session("a").messages()] == ["Hello there."]


def test_without_await_against_a_real_server(tmp_path: Path) -> None:
    with started(tmp_path / "a.db") as server, blocking.connect(server.url) as memory:
        session = memory.session("telegram:42", owner="ana")
        session.record(onlooker.user("I moved to Oslo last week"))
        context = session.context(system="You are helpful.", budget=16_000)
        assert context.openai()[-1]["content"] == "I moved to Oslo last week"
    with pytest.raises(StoreError, match="cannot be reached"), blocking.connect(server.url):
        pass
