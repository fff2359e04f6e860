"""A chat with OpenAI's SDK, or with any server that speaks its protocol.

pip install onlooker openai
OPENAI_API_KEY=… python examples/openai_chat.py "Where do I live?"
"""

from __future__ import annotations

import asyncio
import sys

from openai import AsyncOpenAI

import onlooker


async def turn(session: onlooker.Session, client: AsyncOpenAI, question: str) -> str:
    """Answer one question, and remember both."""
    await session.record(onlooker.user(question))
    context = await session.context(system="You are a helpful assistant.", budget=16_000)
    reply = await client.chat.completions.create(model="gpt-5-mini", messages=context.openai())
    await session.record(reply.choices[0].message)
    return reply.choices[0].message.content or ""


async def main(questions: list[str]) -> None:
    async with onlooker.open_memory("openai.db") as memory, AsyncOpenAI() as client:
        session = memory.session("terminal", owner="me")
        for question in questions:
            print(await turn(session, client, question))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
