"""Several servers of Onlooker on one PostgreSQL behave as one."""

from __future__ import annotations

import pytest

import onlooker
from onlooker.server.config import ServerConfig, Upstream
from onlooker.testing.provider import Answer, LocalProvider
from tests.postgres.server import Server
from tests.server.serving import app_of, serving

pytestmark = pytest.mark.anyio


async def test_a_conversation_goes_on_at_another_server_and_tokens_hold_at_both(server: Server) -> None:
    url = server.new_url()
    with LocalProvider(lambda _: Answer("Good day.")) as provider:
        config = ServerConfig(host="0.0.0.0", upstreams=(Upstream("openai", provider.url, "openai"),))
        async with (
            serving(onlooker.open_memory(url), config) as one,
            serving(onlooker.open_memory(url), config) as two,
        ):
            token, _ = await app_of(one).state.tokens.make("ana")
            history = list[dict[str, str]]()
            keys = set[str]()
            for turn in range(6):
                history.append({"role": "user", "content": f"Turn {turn}: my code is {turn}-7718."})
                client = (one, two)[turn % 2]
                answer = await client.post(
                    "/openai/v1/chat/completions",
                    json={"model": "m", "messages": history},
                    headers={"x-onlooker-token": token},
                )
                keys.add(answer.headers["x-onlooker-session"])
                history.append({"role": "assistant", "content": "Good day."})
            assert len(keys) == 1
            headers = {"authorization": f"Bearer {token}"}
            pages = [
                await client.get(f"/v1/sessions/{min(keys)}/messages", headers=headers)
                for client in (one, two)
            ]
            assert pages[0].json() == pages[1].json()
            assert [m["text"] for m in pages[0].json()["messages"]] == [m["content"] for m in history]
