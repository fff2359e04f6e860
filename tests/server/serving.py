"""What the tests of the server share: the application in this process, called as over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

import onlooker
from onlooker.server.app import make_app
from onlooker.server.config import ServerConfig, Upstream
from onlooker.server.inspector.overview import Installation

BASE = "http://127.0.0.1:8787"
# A server that others can reach, and that therefore demands tokens.
PUBLIC = ServerConfig(host="0.0.0.0", upstreams=(Upstream("openai", "http://127.0.0.1:9", "openai"),))


@asynccontextmanager
async def serving(
    memory: onlooker.Memory | None = None,
    config: ServerConfig | None = None,
    installation: Installation | None = None,
    **headers: str,
) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of the application over a memory, by default an empty one."""
    app = make_app(memory or onlooker.open_memory(":memory:", budget=4_000), config, installation)
    # The transport sends no lifespan events.
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app), base_url=BASE, headers=headers, timeout=60
        ) as client,
    ):
        setattr(client, "app", app)  # noqa: B010  for tests that look inside
        yield client


def app_of(client: httpx2.AsyncClient) -> Any:
    return getattr(client, "app")  # noqa: B009


def said(number: int, text: str = "") -> dict[str, Any]:
    role = "user" if number % 2 else "assistant"
    return {
        "role": role,
        "content": text or f"Parcel ZQ{number:03}K went to hall {number}.",
        "id": f"m{number}",
    }
