"""The official SDKs of OpenAI and Anthropic, talking to a server on this machine: what a context renders to
is accepted by their types and arrives whole, however the host keeps its history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

import onlooker
from onlooker.testing.provider import Answer, LocalProvider, Received

pytestmark = pytest.mark.anyio

History = list[dict[str, Any]]
Sdk = Literal["openai", "anthropic"]
Ask = Callable[[onlooker.Session, onlooker.Context], Awaitable[str]]
KEY = "sk-test-0123456789abcdefghij"


@asynccontextmanager
async def client_of(sdk: Sdk, provider: LocalProvider) -> AsyncGenerator[Ask]:
    """Sends a context as it is, with the memory's tools, and returns the answer."""
    if sdk == "openai":
        async with AsyncOpenAI(base_url=f"{provider.url}/v1", api_key=KEY) as openai:

            async def ask_openai(session: onlooker.Session, context: onlooker.Context) -> str:
                tools = session.tools().openai()
                answer = await openai.chat.completions.create(
                    model="gpt-5-mini", messages=context.openai(), tools=tools
                )
                return answer.choices[0].message.content or ""

            yield ask_openai
        return
    async with AsyncAnthropic(base_url=provider.url, api_key=KEY) as anthropic:

        async def ask_anthropic(session: onlooker.Session, context: onlooker.Context) -> str:
            answer = await anthropic.messages.create(
                model="claude-haiku-4-5",
                max_tokens=100,
                tools=session.tools().anthropic(),
                **context.anthropic(),
            )
            return "".join(block.text for block in answer.content if block.type == "text")

        yield ask_anthropic


def fact(turn: int, tab: str = "") -> str:
    return f"ZQ{tab}{turn:03}K"


# What else is said: enough that the conversation does not fit, and most of it must be noted.
TALK = (
    "It rained the whole way, and the driver was glad to be home at last.",
    "I had a coffee with the people there, who talked about their holidays.",
    "The radio was on, and somebody sang along with every song that was played.",
    "On the way back we got lost twice, and laughed a lot about the old map.",
)


def question(turn: int, tab: str = "") -> dict[str, Any]:
    said = f"Parcel {fact(turn, tab)} went from Oslo to the hall in row {turn}. {TALK[turn % 4]}"
    return {"role": "user", "content": f"{said} {TALK[(turn + 1) % 4]}"}


def answered(received: Received) -> Answer:
    return Answer(f"That sounds like quite a day. {TALK[len(received.user) % 4]} Tell me about the next one.")


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
async def test_sixty_turns_with_restarts_windows_and_tabs_lose_no_fact(sdk: Sdk, tmp_path: Path) -> None:
    with LocalProvider(answered) as provider:
        async with AsyncExitStack() as running, client_of(sdk, provider) as ask:

            async def started() -> onlooker.Session:
                """The program is started, again if it runs: what it held of the conversation is gone."""
                await running.aclose()
                memory = await running.enter_async_context(
                    onlooker.open_memory(tmp_path / "a.db", budget=4000)
                )
                return memory.session("a")

            async def turn(history: History, newest: dict[str, Any], window: int = 0) -> str:
                """One turn; the whole prompt as the provider received it."""
                history.append(newest)
                context = await session.prepare(history[-window:], system="You help.")
                # What recall adds may stand behind it.
                last = next(m for m in reversed(context.openai()) if m["role"] != "system")
                assert newest["content"] in str(last["content"])
                history.append({"role": "assistant", "content": await ask(session, context)})
                await session.record(history[-1])
                return next(sent for r in provider.received if newest["content"] in (sent := str(r.body)))

            session, history = await started(), History()
            for number in range(20):  # the whole history, and a restart after ten turns
                if number == 10:
                    session, history = await started(), History()
                await turn(history, question(number))
            for number in range(20, 40):  # a window of three, and a restart in the middle of it
                session = await started() if number == 30 else session
                await turn(history, question(number), window=3)
            tabs = {name: list(history) for name in "AB"}

            async def tab(name: str) -> None:
                for number in range(40, 50):
                    await turn(tabs[name], question(number, name))

            await asyncio.gather(*map(tab, tabs))
            assert len(provider.received) == 60
            assert await session.notes()
            common = [fact(number) for number in range(40)]
            said = {name: [fact(number, name) for number in range(40, 50)] for name in tabs}
            live = " ".join(m.text for m in await session.messages(archived=True))
            gone = " ".join(m.text for m in await session.history.taken_back())
            assert [f for f in common if f not in live] == []
            assert [f for f in (*said["A"], *said["B"]) if f not in live and f not in gone] == []
            for name, history in tabs.items():
                prompt = await turn(history, {"role": "user", "content": f"Where is all of it, {name}?"})
                assert [f for f in (*common, *said[name]) if f not in prompt] == []
            await running.aclose()
