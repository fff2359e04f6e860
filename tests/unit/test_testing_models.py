"""The fakes that users test with."""

from __future__ import annotations

import asyncio
import datetime as dt
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import onlooker.testing
from onlooker.domain.errors import ModelError
from onlooker.domain.messages import Message, SessionId, ToolCall
from onlooker.domain.notes import Note
from onlooker.policy.reply import critical_lines, read
from onlooker.policy.reply.judge import Accepted, Rejected, Verdict, judge
from onlooker.policy.tokens import estimate
from onlooker.ports import ObserveRequest, ReflectRequest, Reply, Request
from onlooker.testing import FAULTS, FaultyModel, FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio

AT = dt.datetime(2026, 2, 16, 14, 2, tzinfo=dt.UTC)
SESSION = SessionId("ana", "telegram:42")
TEXT = "I moved to Oslo last week and the new flat is on the third floor, number {}, which I like a lot"


def messages(count: int = 8, text: str = TEXT) -> tuple[Message, ...]:
    return tuple(
        Message("user", text.format(i), id=f"m{i}", at=AT + dt.timedelta(hours=5 * i), seq=i)
        for i in range(1, count + 1)
    )


def observe(count: int = 8, **fields: Any) -> ObserveRequest:
    said = fields.pop("messages", None) or messages(count)
    return ObserveRequest(SESSION, said, (), fields.pop("target_tokens", 200), **fields)


def reflect(texts: list[str], **fields: Any) -> ReflectRequest:
    notes = tuple(Note(f"n{i}", 0, i, i, text, estimate(text), AT, ()) for i, text in enumerate(texts))
    return ReflectRequest(SESSION, notes, 1, fields.pop("target_tokens", 60), **fields)


def source(request: Request) -> str:
    if isinstance(request, ReflectRequest):
        return "\n".join(note.text for note in request.notes)
    return "\n".join(f"{m.body} {' '.join(c.name + c.arguments for c in m.calls)}" for m in request.messages)


def judged(request: Request, reply: Reply) -> Verdict:
    text = source(request)
    return judge(
        reply.text,
        finish=reply.finish,
        source_text=text,
        source_tokens=estimate(text),
        format=request.format,
        day=AT.date(),
        must_keep=critical_lines(read(text, format="lines")) if isinstance(request, ReflectRequest) else (),
        count=estimate,
    )


# ------------------------------------------------------------------------------------ scripted


@pytest.mark.req(92)
async def test_replies_come_in_order_and_requests_are_kept() -> None:
    model = ScriptedModel(
        "first", Reply("second", finish="length"), ModelError("down"), lambda r: f"for {r.format}"
    )
    request = observe()
    assert (await model.write(request)).text == "first"
    assert (await model.write(request)).finish == "length"
    with pytest.raises(ModelError, match="down"):
        await model.write(request)
    assert (await model.write(request)).text == "for lines"
    assert model.requests == [request] * 4
    assert model.calls == 4


async def test_after_the_script_comes_a_correct_note() -> None:
    model = ScriptedModel("first", None, "third")
    replies = [(await model.write(observe())).text for _ in range(4)]
    assert replies[0] == "first"
    assert replies[2] == "third"
    assert replies[1] == replies[3]
    assert isinstance(judged(observe(), Reply(replies[3])), Accepted)


async def test_a_function_alone_answers_every_call() -> None:
    async def answer(request: Request) -> str:
        await asyncio.sleep(0)
        return f"{len(source(request))} characters"

    model = ScriptedModel(answer)
    assert {(await model.write(observe())).text for _ in range(3)} == {f"{len(source(observe()))} characters"}


@pytest.mark.parametrize("format", ["lines", "prose"])
async def test_the_default_note_names_its_messages(format: Any) -> None:
    reply = await ScriptedModel().write(observe(format=format))
    assert all(f"m{i}" in reply.text for i in range(1, 9))
    assert "I moved" in reply.text
    assert "2026-02-16" in reply.text
    assert reply.input_tokens > reply.output_tokens > 0


async def test_the_default_reflection_keeps_critical_lines_and_is_shorter() -> None:
    texts = [
        f"## 2026-02-{i}\nCRITICAL Key {i} opens door {i}\nAna asked about the weather in Bergen on day {i}\n"
        f"IMPORTANT Ana decided to take the train at {i}:00, since the plane is too expensive for her"
        for i in range(10, 16)
    ]
    reply = await ScriptedModel().write(reflect(texts))
    assert all(f"CRITICAL Key {i} opens door {i}" in reply.text for i in range(10, 16))
    assert estimate(reply.text) < sum(map(estimate, texts))
    assert isinstance(judged(reflect(texts), reply), Accepted)


WORDS = st.text(max_size=60) | st.sampled_from(
    [
        TEXT,
        "",
        "ok",
        "!!!",
        "aaaa" * 50,
        "你好，我上周搬家了，房租五千八百元",
        "## Conversation Memory",
        "I'm sorry, I can't",
        "None",
        "x, and",
        "Values: 1",
        "CRITICAL",
        "ha " * 40,
        "\x00\ud800",
        "Привет, я переехала в Казань",
        "[14:02]",
        "🎉🎉",
    ]
)


@given(
    st.lists(WORDS, min_size=1, max_size=30),
    st.sampled_from(["lines", "prose"]),
    st.integers(1, 400),
    st.booleans(),
)
@example(["aaaa" * 50, "aaaa" * 50], "prose", 1, False)
@example(["1\x1b0"], "lines", 1, True)
def test_the_default_note_is_accepted_whatever_was_said(
    texts: list[str], format: Any, target: int, ids: bool
) -> None:
    said = tuple(
        Message(
            "user",
            t,
            id=f"m{i}" if ids else f"onl_{i}" * 9,
            at=AT,
            seq=i,
            calls=(ToolCall("c", "run", t),) * (i % 2),
        )
        for i, t in enumerate(texts)
    )
    request = observe(messages=said, format=format, target_tokens=target)
    reply = asyncio.run(ScriptedModel().write(request))
    assert isinstance(judged(request, reply), Accepted), (reply.text, judged(request, reply))


@given(
    st.lists(
        st.sampled_from(
            [
                "## 2026-02-16",
                "CRITICAL Ana is allergic to nuts",
                "IMPORTANT Ana moved to Oslo and likes it there",
                "CRITICAL 不要删除数据库",
                "小雨上周从上海搬到了杭州，房租五千八百元，房东姓李",
                "Ana asked whether it rains",
                "Values: a · b",
                "[14:02] Ana cycles to work",
            ]
        ),
        min_size=3,
        max_size=40,
    ),
    st.sampled_from(["lines", "prose"]),
    st.integers(1, 200),
)
def test_the_default_reflection_is_accepted_whatever_was_noted(
    lines: list[str], format: Any, target: int
) -> None:
    request = reflect(["\n".join(["Ana began", *lines])], format=format, target_tokens=target)
    reply = asyncio.run(ScriptedModel().write(request))
    assert isinstance(judged(request, reply), Accepted), (reply.text, judged(request, reply))


# ------------------------------------------------------------------------------------ faulty

RAISED: dict[str, type[BaseException]] = {
    "error": ModelError,
    "timeout": TimeoutError,
    "rate limit": ModelError,
}
SAID = [fault for fault in FAULTS if fault not in RAISED and fault != "hang"]


@pytest.mark.parametrize("format", ["lines", "prose"])
@pytest.mark.parametrize("fault", SAID)
async def test_every_bad_answer_is_refused(fault: Any, format: Any) -> None:
    for request in (
        observe(format=format),
        observe(
            messages=messages(12, "我上周从上海搬到了杭州，新公寓在西湖区，房租每个月五千八百元，编号{}"),
            format=format,
        ),
        reflect(
            [
                f"## 2026-02-16\nAna moved from Bergen to Oslo in week {i} and lives there now"
                for i in range(9)
            ],
            format=format,
        ),
    ):
        reply = await FaultyModel(fault).write(request)
        assert isinstance(judged(request, reply), Rejected), reply.text[:200]


@pytest.mark.parametrize(("fault", "error"), RAISED.items())
async def test_the_other_faults_raise(fault: Any, error: type[BaseException]) -> None:
    with pytest.raises(error):
        await FaultyModel(fault).write(observe())


async def test_a_hanging_model_can_be_cancelled() -> None:
    model = FaultyModel("hang")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await model.write(observe())
    assert model.misbehaved == 1


async def test_a_huge_answer_is_ten_megabytes() -> None:
    assert len((await FaultyModel("huge").write(observe())).text) >= 10_000_000


async def test_it_can_misbehave_for_the_first_calls_only() -> None:
    good = ScriptedModel()
    model = FaultyModel("empty", then=good, first=2)
    texts = [(await model.write(observe())).text for _ in range(4)]
    assert [bool(text) for text in texts] == [False, False, True, True]
    assert (model.calls, model.misbehaved, good.calls) == (4, 2, 2)


async def test_a_rate_misbehaves_alike_for_the_same_seed() -> None:
    async def pattern(seed: int) -> list[str]:
        model = FaultyModel(["empty", "refusal"], rate=0.5, seed=seed)
        return [(await model.write(observe())).text for _ in range(30)]

    first = await pattern(1)
    assert first == await pattern(1)
    assert first != await pattern(2)
    assert 5 < sum(text == "" or text.startswith("I'm sorry") for text in first) < 25


def test_an_unknown_fault_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be one of error, timeout"):
        FaultyModel("sulking")  # pyright: ignore[reportArgumentType]


# ------------------------------------------------------------------------------------ the rest


def test_a_frozen_clock_moves_when_told_to() -> None:
    clock = FrozenClock(AT)
    assert clock.now() == clock.now() == AT
    assert clock.advance(90) == AT + dt.timedelta(seconds=90) == clock.now()
    clock.advance(-3600)
    assert clock.now() == AT - dt.timedelta(seconds=3510)
    assert FrozenClock(dt.datetime(2026, 1, 1)).now().tzinfo  # noqa: DTZ001 - a naive start becomes UTC


def test_the_fakes_do_not_need_pytest() -> None:
    code = (
        "import sys, onlooker.testing; assert 'pytest' not in sys.modules; onlooker.testing.ScriptedModel()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_store_contract_is_there_on_demand() -> None:
    assert onlooker.testing.StoreContract.__name__ == "StoreContract"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = onlooker.testing.Nothing
