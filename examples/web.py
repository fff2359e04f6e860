"""A web service with many users, with FastAPI: one memory, and a session for each conversation.

pip install onlooker fastapi uvicorn
uvicorn --app-dir examples web:app
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Header
from pydantic import BaseModel

import onlooker

# One for the whole process: it takes the notes of every session in the background. Several processes, or
# machines, can share a database.
memory = onlooker.open_memory("web.db")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with memory:
        yield


app = FastAPI(lifespan=lifespan)


class Said(BaseModel):
    text: str


async def answer(context: onlooker.Context) -> str:
    """Stand in for your model, which you give `context.openai()` or `context.anthropic()`."""
    return f"You said: {', '.join(m.text for m in context.messages if m.role == 'user')}"


@app.post("/chats/{chat}")
async def say(chat: str, said: Said, user: Annotated[str, Header()]) -> Said:
    # The owner comes from whoever signed in, never from the address: it decides whose memory this is.
    session = memory.session(f"web:{chat}", owner=user)
    await session.record(onlooker.user(said.text))
    reply = await answer(await session.context(system="You are helpful.", budget=16_000))
    await session.record(onlooker.assistant(reply))
    return Said(text=reply)
