"""Which session a call belongs to, and over which channel."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from onlooker.domain.context import RuntimeContext, current_session, use_session
from onlooker.domain.messages import DEFAULT_OWNER, SessionId

pytestmark = pytest.mark.anyio


@pytest.mark.req(78)
@pytest.mark.parametrize(
    ("key", "channel"),
    [
        ("telegram:42:7", "telegram"),
        ("discord:9", "discord"),
        ("slack:C1:U2", "slack"),
        ("Telegram:42", "telegram"),
        ("telegram", "telegram"),
        ("whatsapp:1", "direct"),
        ("telegrams:1", "direct"),
        ("cli", "direct"),
        (":telegram:1", "direct"),
        ("user:telegram:1", "direct"),
        ("", "direct"),
    ],
)
def test_the_channel_is_what_the_key_begins_with(key: str, channel: str) -> None:
    assert RuntimeContext.of(key) == RuntimeContext(key, channel)


@pytest.mark.req(78)
def test_a_runtime_context_is_made_per_call_and_cannot_be_changed() -> None:
    one, other = RuntimeContext.of("slack:1"), RuntimeContext.of("slack:1")
    assert one is not other
    with pytest.raises(AttributeError):
        one.session_key = "slack:2"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.req(76, 77)
def test_the_session_is_the_one_named_innermost() -> None:
    assert current_session() is None
    with use_session("a") as outer:
        assert outer == current_session() == SessionId(DEFAULT_OWNER, "a")
        with use_session("b", owner="ana"):
            assert current_session() == SessionId("ana", "b")
        assert current_session() == outer
    assert current_session() is None


@pytest.mark.req(76)
def test_it_is_let_go_of_when_something_fails() -> None:
    with pytest.raises(RuntimeError, match="broken"), use_session("a"):
        raise RuntimeError("broken")
    assert current_session() is None


@pytest.mark.req(76, 78)
async def test_concurrent_calls_do_not_see_each_others_session() -> None:
    async def one_request(key: str) -> list[str]:
        seen: list[str] = []
        with use_session(key):
            for _ in range(5):
                await asyncio.sleep(0)
                found = current_session()
                seen.append(found.key if found else "none")
        return seen

    keys = [f"telegram:{i}" for i in range(20)]
    found = await asyncio.gather(*(one_request(k) for k in keys))
    assert found == [[k] * 5 for k in keys]
    assert current_session() is None


@pytest.mark.req(76)
async def test_a_task_keeps_the_session_that_it_was_started_in() -> None:
    async def later() -> SessionId | None:
        await asyncio.sleep(0)
        return current_session()

    with use_session("a"):
        task = asyncio.create_task(later())
    with use_session("b"):
        assert await task == SessionId(DEFAULT_OWNER, "a")
        assert await asyncio.to_thread(current_session) == SessionId(DEFAULT_OWNER, "b")


@pytest.mark.req(78)
def test_threads_do_not_share_it() -> None:
    with use_session("a"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(current_session).result() is None
        assert pool.submit(copy_context().run, current_session).result() == SessionId(DEFAULT_OWNER, "a")
