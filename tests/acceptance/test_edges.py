"""What no conversation should contain, and some do: no date and no text makes a session unusable."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onlooker
from onlooker.domain.messages import Message
from onlooker.errors import MessageError
from onlooker.testing import FrozenClock

pytestmark = pytest.mark.anyio

FIRST, LAST = datetime.min, datetime.max  # noqa: DTZ901
WORDS = "the order 88-1431 arrives tomorrow, last week and in two weeks, on 9999-12-31 and 0001-01-01 " * 3


async def use(session: onlooker.Session, memory: onlooker.Memory) -> None:
    """Everything that reads what was recorded."""
    await session.settle()
    await session.context(system="Be brief.", relative_time=True)
    await session.context(question="What arrives on 9999-12-31, last week, in 1 AD or tomorrow?")
    await session.search("order 9999-12-31")
    await session.end()
    with tempfile.TemporaryDirectory() as folder:
        await memory.storage.export(Path(folder) / "all.jsonl")


@pytest.mark.parametrize(
    "at",
    [
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-12:00",
        "0001-01-01",
        -62_135_596_800,
        FIRST,
        LAST,
    ],
)
async def test_a_placeholder_for_a_time_is_no_time(at: Any) -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(":memory:", budget=1000, clock=clock) as memory:
        session = memory.session("a", owner="ana")
        await session.record({"role": "user", "content": WORDS, "timestamp": at})
        for _ in range(20):
            await session.record({"role": "user", "content": WORDS})
        assert (await session.messages())[0].at == clock.now()
        await use(session, memory)
        assert await session.notes()


@pytest.mark.parametrize("year", [1, 9999])
async def test_such_a_time_that_an_earlier_version_stored_stops_nothing(year: int) -> None:
    at = datetime(year, 12, 31, 23, 59, tzinfo=UTC) if year > 1 else datetime(1, 1, 1, tzinfo=UTC)
    async with onlooker.open_memory(":memory:", budget=1000) as memory:
        session = memory.session("a", owner="ana")
        await memory.open()
        old = [Message("user", f"I live in Oslo. {WORDS}", id=f"m{i}", at=at, tokens=100) for i in range(30)]
        await session.runtime.store.append(session.id, old, due_tokens=1, now=datetime.now(UTC))
        await use(session, memory)
        assert await session.notes()


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
TEXTS: Any = st.one_of(
    st.text(st.characters(), max_size=200),
    st.sampled_from(
        [WORDS, "\x00", "\ud800 \udfff", "\u202e\u2028", "## 9999-12-31\n[23:59] CRITICAL x", "("]
    ),
    st.from_regex(r"(in|last|next) \d{1,12} (days|weeks|months|years|年|週間) ?(ago|前)?", fullmatch=True),
    st.dates().map(lambda day: f"My birthday is on {day}, a week from tomorrow."),
)
ZONES = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
TIMES: Any = st.one_of(
    st.sampled_from(["0001-01-01T00:00:00Z", "9999-12-31T00:00:00Z", FIRST, LAST, 0, -1e11]),
    st.datetimes(timezones=st.none() | ZONES),
    st.datetimes(timezones=st.none() | ZONES).map(datetime.isoformat),
    st.integers(-(10**15), 10**15),
    st.floats(),
    JSON,
)
BLOCKS: Any = st.lists(
    st.one_of(
        st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}),
        st.fixed_dictionaries(
            {"type": st.just("tool_result"), "tool_use_id": st.just("c1"), "content": TEXTS}
        ),
        st.fixed_dictionaries({"type": TEXTS, "source": JSON}),
    ),
    max_size=3,
)
FUNCTIONS: Any = st.fixed_dictionaries({"name": TEXTS, "arguments": TEXTS | JSON})
CALLS: Any = st.lists(st.fixed_dictionaries({"id": TEXTS | JSON, "function": FUNCTIONS}), max_size=2)
ITEMS: Any = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": TEXTS | BLOCKS | JSON},
    optional={
        "id": TEXTS | JSON,
        "name": TEXTS | JSON,
        "timestamp": TIMES,
        "created_at": TIMES,
        "tool_calls": CALLS | JSON,
        "tool_call_id": TEXTS | JSON,
        "refusal": TEXTS | JSON,
        "extra": JSON,
    },
)


@given(st.lists(ITEMS, min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
def test_no_field_of_a_message_makes_a_session_unusable(items: list[dict[str, Any]]) -> None:
    """Each is recorded or refused as no message; either way the session goes on."""

    async def live() -> None:
        async with onlooker.open_memory(":memory:", budget=600, clock=FrozenClock()) as memory:
            session, other = memory.session("a", owner="ana"), memory.session("b", owner="ana")
            recorded: list[dict[str, Any]] = []
            for item in items:
                try:
                    await session.record(item)
                except MessageError:
                    continue
                recorded.append(item)
            before = len(await session.messages())
            for _ in range(8):
                await session.record({"role": "user", "content": WORDS})
            await use(session, memory)
            if recorded:
                (await other.prepare([*recorded, {"role": "user", "content": "And now?"}])).openai()
                await use(other, memory)
            context = await session.context()
            assert context.openai()
            assert context.anthropic()
            assert len(await session.messages()) == before + 8

    asyncio.run(live())
