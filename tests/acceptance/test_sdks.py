"""The official SDKs of OpenAI and Anthropic, talking to a server on this machine: what a context renders to
is accepted by their types and arrives whole, however the host keeps its history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
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


def question(turn: int, tab: str = "") -> dict[str, Any]:
    return {"role": "user", "content": f"Parcel {fact(turn, tab)} went from Oslo to the hall in row {turn}."}


def answered(received: Received) -> Answer:
    return Answer(f"Noted: {received.user.splitlines()[-1][:60]}")


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
async def test_sixty_turns_with_restarts_windows_and_tabs_lose_no_fact(sdk: Sdk) -> None:
    with LocalProvider(answered) as provider:
        async with onlooker.open_memory(":memory:", budget=4000) as memory, client_of(sdk, provider) as ask:
            session, said = memory.session("a"), list[str]()

            async def turn(history: History, sent: History, newest: dict[str, Any]) -> None:
                context = await session.prepare(sent, system="You help.")
                # What recall adds may stand behind it.
                last = next(m for m in reversed(context.openai()) if m["role"] != "system")
                assert newest["content"] in str(last["content"])
                answer = {"role": "assistant", "content": await ask(session, context)}
                history.append(answer)
                await session.record(answer)

            history = History()
            for number in range(20):  # the whole history, and a restart after ten turns
                history = History() if number == 10 else history
                history.append(question(number))
                await turn(history, history, history[-1])
                said.append(fact(number))
            for number in range(20, 40):  # a window of three
                history.append(question(number))
                await turn(history, history[-3:], history[-1])
                said.append(fact(number))

            async def tab(name: str) -> None:
                own = list(history)
                for number in range(40, 50):
                    own.append(question(number, name))
                    await turn(own, own, own[-1])
                    said.append(fact(number, name))

            await asyncio.gather(tab("A"), tab("B"))
            live = " ".join(m.text for m in await session.messages(archived=True))
            gone = " ".join(m.text for m in await session.history.taken_back())
            assert [f for f in said if f not in live and f not in gone] == []
            assert [f for f in said[:40] if f not in live] == []
            await session.settle()
            context = await session.context(system="You help.")
            behind = {m.text for note in await session.notes() for m in await session.recall(note.id)}
            shown = " ".join([*behind, *(m.text for m in context.messages)])
            assert [f for f in said if f in live and f not in shown] == []
            assert len(provider.received) == 60
