"""What no conversation should contain, and some do: no date and no text makes a session unusable."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlooker
from onlooker.domain.events import StepFailed
from onlooker.domain.messages import Message
from onlooker.errors import ClosedError, MessageError, SettingsError, StoreError
from onlooker.policy.settings import Settings, Timing
from onlooker.ports import Reply, Request
from onlooker.testing import FaultyModel, FrozenClock, ScriptedModel

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


async def test_half_of_a_character_reaches_no_prompt_that_a_client_has_to_send() -> None:
    cut = "The weather in Oslo is fine, says the tool that cuts \ud83d"
    async with onlooker.open_memory(":memory:", budget=2000) as memory:
        session, other = memory.session("a", owner="ana"), memory.session("b", owner="ana")
        for n in range(30):
            call = {"id": f"c{n}", "type": "function", "function": {"name": "say", "arguments": {"x": cut}}}
            await session.record({"role": "user", "content": f"And now, for the {n}th time? {cut}"})
            await session.record({"role": "assistant", "content": None, "tool_calls": [call]})
            await session.record({"role": "tool", "tool_call_id": f"c{n}", "content": cut})
        await session.settle()
        await other.record(onlooker.user("What is the weather in Oslo like?"))
        contexts = [await each.context(system="Be brief.") for each in (session, other)]
        contexts.append(await memory.session("c").prepare([{"role": "user", "content": cut}]))
        contexts.append(await session.context(system=cut, knowledge={"page": cut}, end=cut))
        assert [m.text for m in await session.messages(archived=True)].count(cut) == 30
    assert "says the tool" in str(contexts[1].openai())  # recalled
    for context in contexts:
        for prompt in (context.openai(), context.anthropic(), context.text()):
            json.dumps(prompt, ensure_ascii=False).encode()


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_an_answer_that_the_host_began_stays_last(provider: str) -> None:
    history = [
        {"role": "user", "content": "Where does order 88-1 go? Answer in JSON."},
        {"role": "assistant", "content": "{"},
    ]
    async with onlooker.open_memory(":memory:") as memory:
        context = await memory.session("a").prepare(history, end="It is Monday.")
    sent = context.openai() if provider == "openai" else context.anthropic()["messages"]
    assert sent[-1]["role"] == "assistant"
    assert "{" in str(sent[-1]["content"])
    assert "It is Monday." in str(sent[-2]["content"])


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
        await memory.store.append(session.id, old, due_tokens=1, now=datetime.now(UTC))
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


# ------------------------------------------------------------------------------------ models


class Broken:
    """A model of a user's own, which returns or raises what none should."""

    name, window = "mine", 100_000

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.calls = 0

    async def write(self, request: Any) -> Any:
        self.calls += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


ANSWERS = {
    "none": None,
    "text": "## 2026-02-16\n[14:00] user: x",
    "reply of none": Reply(None),  # pyright: ignore[reportArgumentType]
    "reply of bytes": Reply(b"x"),  # pyright: ignore[reportArgumentType]
    "no finish": Reply("x", finish=None),  # pyright: ignore[reportArgumentType]
    "no tokens": Reply("x", input_tokens=None),  # pyright: ignore[reportArgumentType]
    "cost in words": Reply("x", cost="1 $"),  # pyright: ignore[reportArgumentType]
    "cancelled": asyncio.CancelledError(),
    "stop": StopAsyncIteration(),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_a_model_that_answers_with_no_reply_is_a_model_that_failed(answer: Any, tmp_path: Path) -> None:
    model, failed = Broken(answer), list[StepFailed]()
    threads, files = set(threading.enumerate()), _open_files(tmp_path)
    async with onlooker.open_memory(
        tmp_path / "a.db", model=model, budget=1000, timing=Timing(stop_deadline=120.0)
    ) as memory:
        memory.subscribe(lambda event: failed.append(event) if isinstance(event, StepFailed) else None)
        session = memory.session("a", owner="ana")
        for i in range(30):
            await session.record(onlooker.user(f"value {i * 37} " + "word " * 40))
        await memory.background.flush()
        assert failed
        assert failed[0].retry_in > 0
        before = model.calls
        await memory.background.tick()
        await memory.background.flush()
        assert model.calls == before  # it backs off
        assert await session.settle() is False
        assert (await session.context()).messages[-1].text.startswith("value 1073")
        await session.end()
        await session.record(onlooker.user("More for closing to do."))
    assert set(threading.enumerate()) <= threads | _pool_threads()
    assert _open_files(tmp_path) == files


@pytest.mark.parametrize("swallowed", [1, 3])
async def test_closing_does_not_wait_for_a_model_that_swallows_its_cancellation(swallowed: int) -> None:
    class Deaf(ScriptedModel):
        async def write(self, request: Request) -> Reply:
            for _ in range(swallowed):
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(3600)
            return await super().write(request)

    memory = onlooker.open_memory(":memory:", model=Deaf(), budget=1000, timing=Timing(stop_deadline=0.1))
    for n in range(20):
        await memory.session("a").record(onlooker.user(f"Parcel {n} went to Bergen. " * 20))
    async with asyncio.timeout(60):
        await memory.close()
    with pytest.raises(ClosedError):
        await memory.session("a").record(onlooker.user("Too late"))


async def test_a_task_that_is_cancelled_while_a_model_writes_stays_cancelled() -> None:
    asked = asyncio.Event()

    class Slow(Broken):
        async def write(self, request: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

    async with onlooker.open_memory(
        ":memory:", model=Slow(None), budget=1000, workers="external", timing=Timing(stop_deadline=0.1)
    ) as memory:
        session = memory.session("a", owner="ana")
        for i in range(30):
            await session.record(onlooker.user(f"value {i * 37} " + "word " * 40))
        settling = asyncio.create_task(session.settle())
        await asked.wait()
        settling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await settling


def _pool_threads() -> set[threading.Thread]:
    """The event loop's own pool, which lives as long as the loop."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("asyncio_")}


def _open_files(folder: Path) -> set[str]:
    found: set[str] = set()
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if (target := str(fd.readlink())).startswith(str(folder)):
                found.add(target)
    return found


# ------------------------------------------------------------------------------------ time zones


@pytest.mark.parametrize("tz", ["America/Los_Angeles", ZoneInfo("America/Los_Angeles")])
@pytest.mark.parametrize("way", ["argument", "setting", "session"])
async def test_the_day_of_a_message_without_a_time_is_the_one_in_its_time_zone(
    tz: str | ZoneInfo, way: str
) -> None:
    clock = FrozenClock(datetime(2026, 2, 17, 3, 0, tzinfo=UTC))  # still the 16th in Los Angeles
    chosen = Settings(budget=1000, tz="America/Los_Angeles" if way == "setting" else "UTC")
    given = tz if way == "argument" else None
    async with onlooker.open_memory(":memory:", settings=chosen, clock=clock, tz=given) as memory:
        session = memory.session("a", owner="ana", tz=tz if way == "session" else None)
        await session.record({"role": "user", "content": "I moved to Oslo yesterday."})
        await session.prepare([{"role": "user", "content": "I moved to Oslo yesterday."}] * 2)
        assert {m.at.date() for m in await session.messages() if m.at} == {date(2026, 2, 16)}
        for _ in range(20):
            await session.record({"role": "user", "content": "The parcel arrived yesterday, all of it. " * 5})
        await session.settle()
        context = await session.context(relative_time=True)
        assert "(2026-02-15)" in context.text()
        assert "(2026-02-16)" not in context.text()
        assert "Now: 2026-02-16 19:00" in context.text()


@pytest.mark.parametrize("tz", ["Europe/Olso", "", "../etc/passwd", "\x00", 3, timedelta(hours=1), b"UTC"])
async def test_what_is_no_time_zone_is_refused_at_once(tz: Any) -> None:
    with pytest.raises(SettingsError, match="must be the name of a time zone, such as UTC or Europe/Oslo"):
        onlooker.open_memory(":memory:", tz=tz)
    with pytest.raises(SettingsError, match="tz"):
        onlooker.open_memory(":memory:", settings=Settings(tz=tz))
    async with onlooker.open_memory(":memory:") as memory:
        with pytest.raises(SettingsError, match="tz"):
            memory.session("a", tz=tz)


# ------------------------------------------------------------------------------------ clocks


async def test_notes_go_on_when_a_clock_that_was_a_year_ahead_comes_back() -> None:
    clock = FrozenClock()
    model = FaultyModel("error")
    async with onlooker.open_memory(
        ":memory:", settings=Settings(budget=1000, idle_minutes=0), model=model, clock=clock
    ) as memory:
        session = memory.session("a", owner="ana")
        clock.advance(365 * 86_400)
        await talk(session, 20)
        await memory.background.flush()
        state = await session.history.state()
        assert state is not None
        due = state.progress.due_at
        assert due is not None
        assert due > clock.now()
        calls = len(model.requests)
        clock.advance(-365 * 86_400)
        await talk(session, 1)
        await memory.background.flush()
        assert len(model.requests) > calls


# ------------------------------------------------------------------------------------ files


async def talk(session: onlooker.Session, turns: int) -> None:
    for i in range(turns):
        await session.record(onlooker.user(f"The parcel {i} weighs {i * 37} grams. " + "It is heavy. " * 20))


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_file_that_is_gone_is_noticed_by_record(how: str, tmp_path: Path) -> None:
    path, other = tmp_path / "a.db", tmp_path / "b.db"
    async with onlooker.open_memory(other) as memory:
        await memory.session("a").record(onlooker.user("Another conversation"))
    async with onlooker.open_memory(path) as memory:
        session = memory.session("a")
        await session.record(onlooker.user("Before"))
        await session.context()  # opens what it reads from
        if how == "deleted":
            path.unlink()
        else:
            other.replace(path)
        for _ in range(2):
            with pytest.raises(StoreError, match=r"deleted or replaced while it was open.*open it again"):
                await session.record(onlooker.user("Into nowhere"))
        assert (await session.context()).messages[-1].text == "Before"
        # More at once than there are connections: none can be opened any more, and those that are read on.
        for messages in await asyncio.gather(*(session.messages() for _ in range(8))):
            assert [m.text for m in messages][-1] == "Before"


async def test_a_file_is_found_again_when_it_is_put_back(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    async with onlooker.open_memory("a.db") as memory:
        session = memory.session("a")
        await session.record(onlooker.user("Before"))
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(elsewhere)
        await session.record(onlooker.user("In another working directory"))
        (tmp_path / "a.db").rename(tmp_path / "b.db")
        with pytest.raises(StoreError):
            await session.record(onlooker.user("Into nowhere"))
        (tmp_path / "b.db").rename(tmp_path / "a.db")
        await session.record(onlooker.user("After"))
        assert len(await session.messages()) == 3
    assert not list(elsewhere.iterdir())
