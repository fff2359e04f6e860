"""MCP with the SDK's own client: on stdin and stdout, and over HTTP."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

import onlooker
from onlooker.server.mcp import make_mcp
from tests.server.serving import BASE, PUBLIC, app_of, serving

pytestmark = pytest.mark.anyio

TOOLS = {"memory_search", "memory_save", "memory_forget", "recall", "record", "context"}


async def use(client: Client, tool: str, **arguments: Any) -> str:
    done: Any = await client.call_tool(tool, arguments)
    assert not done.is_error, done
    return done.content[0].text


async def everything_works(client: Client) -> None:
    assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
    saved = await use(client, "memory_save", summary="Ana is allergic to peanuts.")
    assert saved.startswith("Saved as itm_")
    ident = saved.removeprefix("Saved as ").rstrip(".")
    assert "peanuts" in await use(client, "memory_search", query="allergic peanuts")
    assert (await use(client, "record", text="I moved to Oslo last week.", session="talk")).startswith(
        "Recorded"
    )
    assert "I moved to Oslo" in await use(client, "context", session="talk")
    assert "I moved to Oslo" in await use(client, "memory_search", query="Oslo")
    assert "talk" in str(await client.read_resource("onlooker://sessions"))
    assert "No notes yet" in str(await client.read_resource("onlooker://sessions/talk/notes"))
    assert "I moved to Oslo" in str(await client.get_prompt("memory", {"session": "talk"}))
    assert "peanuts" in await use(client, "memory_forget", id=ident)
    assert "Nothing found" in await use(client, "recall", id="obs_none")


async def test_every_tool_resource_and_prompt_works_in_process() -> None:
    async with onlooker.open_memory(":memory:") as memory, Client(make_mcp(memory, owner="ana")) as client:
        await everything_works(client)


async def test_the_command_speaks_it_on_stdin_and_stdout(tmp_path: Path) -> None:
    arguments = ["-m", "onlooker", "mcp", "--db", str(tmp_path / "a.db"), "--owner", "ana"]
    async with Client(StdioServerParameters(command=sys.executable, args=arguments)) as client:
        await everything_works(client)


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("memory_search", {}, "memory_search needs 'query'."),
        ("memory_search", {"query": "x", "limit": 99}, "'limit' must be from 1 to 20."),
        ("memory_search", {"query": 3}, "'query' must be of type string."),
        ("record", {"text": ""}, "'text' must be text that is not empty."),
        ("record", {"text": "x", "role": "robot"}, "'role' must be one of user, assistant."),
        ("context", {"budget": 5}, "'budget' must be from 100 to 1000000."),
        ("memory_save", {"summary": "Ana likes tea", "tags": [1]}, "'tags' must be a list of strings."),
        ("recall", {"id": "x", "page": 0}, "'page' must be from 1 on."),
        ("recall", {"id": "x", "page": "two", "session": []}, "'page' must be of type integer."),
    ],
)
async def test_a_wrong_argument_is_named_in_one_sentence(
    tool: str, arguments: dict[str, Any], says: str
) -> None:
    async with onlooker.open_memory(":memory:") as memory, Client(make_mcp(memory, owner="ana")) as client:
        done: Any = await client.call_tool(tool, arguments)
    assert done.is_error
    assert done.content[0].text == f"Not done: {says}"


async def test_a_store_that_cannot_write_says_why(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with onlooker.open_memory(path) as memory, Client(make_mcp(memory, owner="ana")) as client:
        await use(client, "record", text="I moved to Oslo.")
        path.rename(tmp_path / "elsewhere.db")
        done: Any = await client.call_tool("record", {"text": "And then to Bergen."})
        path.with_name("elsewhere.db").rename(path)
    assert done.is_error
    assert "the file was deleted or replaced while it was open" in done.content[0].text


async def test_over_http_the_owner_is_that_of_the_token() -> None:
    async with serving(config=PUBLIC) as http:
        app = app_of(http)
        for owner in ("ana", "ben"):
            token, _ = await app.state.tokens.make(owner)
            headers = {"authorization": f"Bearer {token}"}
            transport = httpx2.ASGITransport(app=app)
            async with (
                httpx2.AsyncClient(transport=transport, base_url=BASE, headers=headers, timeout=30) as own,
                Client(streamable_http_client(f"{BASE}/mcp", http_client=own)) as client,
            ):
                assert "nothing" in (await use(client, "memory_search", query="code")).lower()
                await use(client, "memory_save", summary=f"The code of {owner} is {owner}-7718.")
                assert f"{owner}-7718" in await use(client, "memory_search", query="code")
        items = [len(await app.state.memory.items.list(owner)) for owner in ("ana", "ben", "me")]
        assert items == [1, 1, 0]
    await asyncio.sleep(0)
