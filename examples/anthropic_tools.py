"""An agent with tools whose answers are streamed, with Anthropic's SDK.

pip install onlooker anthropic
ANTHROPIC_API_KEY=… python examples/anthropic_tools.py "What is the weather in Oslo?"
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from anthropic import AsyncAnthropic

import onlooker

WEATHER: Any = {
    "name": "weather",
    "description": "The weather in a city now.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


async def run_tool(session: onlooker.Session, name: str, arguments: Any) -> str:
    """Run a tool of our own, or one of the memory's."""
    if name == "weather":
        return f"{arguments['city']}: 4 °C, light rain"
    return await session.tools().call(name, arguments)


async def turn(session: onlooker.Session, client: AsyncAnthropic, question: str) -> None:
    """Print the answer to one question as it is written. Everything is recorded when it is complete."""
    await session.record(onlooker.user(question))
    while True:
        # Built anew for each call: it has the results so far, and it fits however long they are.
        context = await session.context(system="You are a helpful assistant.", budget=16_000)
        async with client.messages.stream(
            model="claude-haiku-4-5",
            max_tokens=1024,
            tools=[WEATHER, *session.tools().anthropic()],
            **context.anthropic(),
        ) as stream:
            async for text in stream.text_stream:
                print(text, end="", flush=True)
            reply = await stream.get_final_message()
        await session.record(reply)
        results = [
            {
                "type": "tool_result",
                "tool_use_id": block.id,
                "content": await run_tool(session, block.name, block.input),
            }
            for block in reply.content
            if block.type == "tool_use"
        ]
        if not results:
            print()
            return
        await session.record({"role": "user", "content": results})


async def main(questions: list[str]) -> None:
    async with onlooker.open_memory("tools.db") as memory, AsyncAnthropic() as client:
        session = memory.session("terminal", owner="me")
        for question in questions:
            await turn(session, client, question)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
