"""The budget as a provider counts it: final prompts in tokens of cl100k, whatever the messages contain."""

from __future__ import annotations

import base64
import difflib
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, cast

import pytest
from tests.cl100k import tokens

import onlooker
from onlooker.policy.settings import DEFAULT, LANGO, ZORA
from onlooker.policy.tokens import estimator

pytestmark = pytest.mark.anyio

SYSTEM = "You are helpful."
SENTENCE = (
    "we moved the office last week and nobody found the keys for the old door so please ask the owner if "
    "a new lock is cheaper than another visit and tell me what it costs before Friday thanks a lot"
)
WORDS = SENTENCE.split()
FIELDS = (
    "id",
    "name",
    "status",
    "price",
    "createdAt",
    "updated_at",
    "tags",
    "owner",
    "amount",
    "error",
    "email",
)
HAN = "我们上周搬到新办公室没有人找到旧门的钥匙请问房东换一把锁是不是比再来一次便宜谢谢"
KANA = "先週新しい事務所に引っ越しました。古いドアの鍵が見つかりません。"
HANGUL = "지난주에 새 사무실로 이사했는데 아무도 열쇠를 찾지 못했습니다. "
EMOJI = "😀🚀🎉👍❤️😂✅🔥🤷🏽‍♀️🇳🇴"

Make = Callable[[random.Random], str]


def prose(r: random.Random, most: int = 40) -> str:
    return " ".join(r.choices(WORDS, k=r.randrange(3, most)))


def letters(r: random.Random, length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(r.choices(alphabet, k=length))


def hexadecimal(r: random.Random, length: int) -> str:
    return letters(r, length, "0123456789abcdef")


def moment(r: random.Random) -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=r.randrange(200_000_000))


def value(r: random.Random) -> Any:
    return r.choice(
        [
            lambda: r.randrange(10 ** r.randrange(1, 9)),
            r.random,
            lambda: r.choice([True, False, None, ""]),
            lambda: str(uuid.UUID(int=r.getrandbits(128))),
            lambda: moment(r).isoformat(),
            lambda: prose(r, 8),
            lambda: [r.randrange(99) for _ in range(r.randrange(4))],
            lambda: {"k": r.randrange(99)},
        ]
    )()


def records(r: random.Random) -> list[dict[str, Any]]:
    return [{k: value(r) for k in r.sample(FIELDS, r.randrange(2, 6))} for _ in range(r.randrange(1, 7))]


def code(r: random.Random) -> list[str]:
    return [
        f"{'    ' * r.randrange(3)}{r.choice(['self.', 'if ', 'return ', ''])}{r.choice(FIELDS)}"
        f"{r.choice([' = ', '(', '.', ' != '])}{r.choice(FIELDS)}_{r.randrange(9)}\n"
        for _ in range(r.randrange(4, 16))
    ]


def diff(r: random.Random) -> str:
    before = code(r)
    after = [line if r.random() < 0.8 else f"    {prose(r, 6)}\n" for line in before]
    return "".join(difflib.unified_diff(before, after, "a/app/main.py", "b/app/main.py"))


def log(r: random.Random) -> str:
    return "\n".join(
        f"{moment(r).isoformat()}Z {r.choice(['INFO', 'ERROR'])} [pid={r.randrange(9999)}] "
        f"/srv/{r.choice(FIELDS)}.py:{r.randrange(999)} 0x{hexadecimal(r, 8)} {prose(r, 8)}"
        for _ in range(r.randrange(1, 6))
    )


def table(r: random.Random) -> str:
    columns = r.randrange(3, 9)
    cells = [lambda: str(r.randrange(10**6)), lambda: f"{r.random():.4f}", lambda: r.choice(WORDS)]
    row = r.choices(cells, k=columns)
    return "\n".join(",".join(cell() for cell in row) for _ in range(r.randrange(2, 12)))


def ids(r: random.Random) -> str:
    kind = r.choice(
        [
            lambda: str(uuid.UUID(int=r.getrandbits(128))),
            lambda: hexadecimal(r, 40),
            lambda: "call_" + letters(r, 24),
            lambda: letters(r, 26, string.ascii_uppercase + string.digits),
        ]
    )
    return r.choice([" ", "\n", ", "]).join(kind() for _ in range(r.randrange(2, 14)))


def signs(r: random.Random) -> str:
    return "".join(r.choices(string.punctuation, k=r.randrange(20, 300)))


KINDS: dict[str, Make] = {
    "prose": lambda r: prose(r, 120),
    "minified JSON": lambda r: json.dumps(records(r), separators=(",", ":")),
    "pretty JSON": lambda r: json.dumps(records(r)[:3], indent=r.choice([2, 4, 8, "\t"])),
    "base64": lambda r: base64.b64encode(r.randbytes(r.randrange(60, 400))).decode(),
    "hex": lambda r: " ".join(hexadecimal(r, r.choice([2, 32, 64])) for _ in range(r.randrange(3, 12))),
    "CSV": table,
    "ids": ids,
    "logs": log,
    "diffs": diff,
    "code": lambda r: "".join(code(r)),
    "Chinese": lambda r: "".join(r.choices(HAN, k=r.randrange(10, 200))),
    "Japanese": lambda r: KANA * r.randrange(1, 6),
    "Korean": lambda r: HANGUL * r.randrange(1, 6),
    "emoji": lambda r: "".join(r.choices(EMOJI, k=r.randrange(5, 80))) + prose(r, 10),
    "signs": signs,
    "random words": lambda r: " ".join(
        letters(r, r.randrange(2, 12), string.ascii_lowercase) for _ in range(r.randrange(5, 60))
    ),
}
KINDS["mixed"] = lambda r: "\n".join(make(r) for make in r.sample(list(KINDS.values())[:-1], 2))

# ------------------------------------------------------------------------------------ hosts

Turn = list[dict[str, Any]]


def said(r: random.Random, make: Make, numbers: Iterator[int]) -> Turn:
    return [{"role": "user", "content": make(r)}, {"role": "assistant", "content": make(r)}]


def tool_calls(r: random.Random, make: Make, numbers: Iterator[int]) -> Turn:
    """OpenAI's form, with arguments as a person would write them and a model's reasoning."""
    call = f"call_{next(numbers)}"
    arguments = json.dumps({"list": [[[1, 2], [3]]] * r.randrange(1, 5), "text": make(r)[:200]}, indent=8)
    function = {"name": "look", "arguments": arguments}
    asked = {"id": call, "type": "function", "function": function}
    return [
        {"role": "user", "content": prose(r)},
        {"role": "assistant", "content": None, "reasoning_content": make(r), "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": call, "content": make(r)},
    ]


def thinking(r: random.Random, make: Make, numbers: Iterator[int]) -> Turn:
    """Anthropic's form, with extended thinking before each call."""
    call = f"toolu_{next(numbers)}"
    thought = {
        "type": "thinking",
        "thinking": make(r),
        "signature": base64.b64encode(r.randbytes(60)).decode(),
    }
    use = {"type": "tool_use", "id": call, "name": "look", "input": {"text": make(r)[:200]}}
    result = {"type": "tool_result", "tool_use_id": call, "content": make(r)}
    return [
        {"role": "user", "content": prose(r)},
        {"role": "assistant", "content": [thought, use]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": prose(r)}]},
    ]


def unanswered(r: random.Random, make: Make, numbers: Iterator[int]) -> Turn:
    """Calls that never got a result, and results without a call: both are filled in."""
    asked = [
        {"id": f"call_{next(numbers)}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        for _ in range(3)
    ]
    return [
        {"role": "user", "content": make(r)[:100]},
        {"role": "assistant", "content": None, "tool_calls": asked},
        {"role": "tool", "tool_call_id": f"nobody_{next(numbers)}", "content": make(r)[:100]},
    ]


HOSTS = {"text": said, "calls": tool_calls, "thinking": thinking, "unanswered": unanswered}

# ------------------------------------------------------------------------------------ as a provider counts

EACH = 4  # what a provider adds to each message, call and result


def counted_openai(context: onlooker.Context) -> int:
    total = 3
    for message in context.openai():
        total += EACH + text_tokens(message.get("content")) + tokens(message.get("reasoning_content") or "")
        for call in message.get("tool_calls") or ():
            total += EACH + tokens(call["function"]["name"]) + tokens(call["function"]["arguments"])
    return total


def counted_anthropic(context: onlooker.Context) -> int:
    request = context.anthropic()
    return (
        3
        + text_tokens(request.get("system"))
        + sum(EACH + text_tokens(m["content"]) for m in request["messages"])
    )


def text_tokens(content: object) -> int:
    if content is None or isinstance(content, str):
        return tokens(content or "")
    return sum(map(block_tokens, cast("Sequence[Mapping[str, Any]]", content)))


def block_tokens(block: Mapping[str, Any]) -> int:
    match block["type"]:
        case "text":
            return tokens(block["text"])
        case "thinking":
            return tokens(block["thinking"]) + tokens(block["signature"])
        case "tool_use":
            written = json.dumps(block["input"], ensure_ascii=False)
            return EACH + tokens(block["name"]) + tokens(written)
        case "tool_result":
            return EACH + text_tokens(block["content"])
        case other:
            raise AssertionError(other)


async def most_sent(kind: str, host: str, budget: int, *, prepare: bool, seed: int, fill: float) -> int:
    """Talk until `fill` budgets were said, and return the size of the largest prompt."""
    r = random.Random(f"{kind} {host} {budget} {seed}")

    def short(r: random.Random) -> str:
        """The newest message is always kept whole, so none may be larger than a fraction of the budget."""
        text = KINDS[kind](r)
        while tokens(text) > budget // 8:
            text = text[: len(text) * 2 // 3]
        return text or "ok"

    history: list[dict[str, Any]] = []
    numbers = count()
    spoken, most = 0, 0
    async with onlooker.open_memory(":memory:", budget=budget) as memory:
        session = memory.session("chat")
        while spoken < fill * budget:
            turn = HOSTS[host](r, short, numbers)
            spoken += sum(tokens(json.dumps(m, ensure_ascii=False)) for m in turn)
            history += turn
            if prepare:
                context = await session.prepare(history, system=SYSTEM)
            else:
                await session.record(*turn)
                context = await session.context(system=SYSTEM)
            most = max(most, counted_openai(context), counted_anthropic(context))
    return most


@pytest.mark.req(49, 57, 60)
@pytest.mark.parametrize("kind", KINDS)
async def test_no_prompt_exceeds_its_budget_whatever_the_messages_contain(kind: str) -> None:
    for budget, prepare in ((500, True), (3000, False)):
        sent = await most_sent(kind, "text", budget, prepare=prepare, seed=1, fill=2.0)
        assert sent <= budget


@pytest.mark.req(49, 57, 60)
@pytest.mark.parametrize("host", ["calls", "thinking", "unanswered"])
@pytest.mark.parametrize("kind", ["prose", "minified JSON", "base64", "mixed"])
async def test_what_goes_out_beside_the_text_is_counted(kind: str, host: str) -> None:
    for budget in (800, 4000):
        sent = await most_sent(kind, host, budget, prepare=True, seed=1, fill=2.0)
        assert sent <= budget


@pytest.mark.req(49, 57)
async def test_the_total_counts_what_stands_in_for_missing_calls_and_results() -> None:
    said: list[dict[str, Any]] = []
    for n in range(30):
        function = {"name": "find", "arguments": json.dumps({"order": n})}
        calls = [{"id": f"a{n}", "type": "function", "function": function}]
        said.append({"role": "assistant", "content": None, "tool_calls": calls})
        said.append({"role": "tool", "tool_call_id": f"b{n}", "name": "look", "content": f"order {n}: sent"})
    async with onlooker.open_memory(":memory:") as memory:
        context = await memory.session("chat").prepare(said, budget=16_000)
    assert len(context.messages) == 60
    for sent in (counted_openai(context), counted_anthropic(context)):
        assert sent <= context.stats.total <= sent * 1.35


@pytest.mark.long
@pytest.mark.req(49, 57, 60)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("kind", KINDS)
async def test_the_budget_holds_from_500_to_32_000(kind: str, host: str) -> None:
    r = random.Random(f"budgets {kind} {host}")
    budgets = [500, *(int(500 * 16 ** r.random()) for _ in range(6))]
    # What a budget takes grows with it: of the largest each kind has one, and each host some.
    if list(KINDS).index(kind) % len(HOSTS) == list(HOSTS).index(host):
        budgets.append(32_000)
    for seed, budget in enumerate(budgets):
        sent = await most_sent(kind, host, budget, prepare=seed % 2 == 0, seed=seed, fill=2.0)
        assert sent <= budget


@pytest.mark.req(60)
@pytest.mark.parametrize("preset", ["default", "lango", "zora"])
async def test_messages_observations_and_reflections_are_counted_as_the_preset_counts(preset: str) -> None:
    settings = {
        "default": replace(DEFAULT, budget=1200, reflect_at=0.2),
        "lango": replace(LANGO, observe_at=200, precompute_at=200, overlap=0, reflect_at=150),
        "zora": replace(
            ZORA, observe_at=300, precompute_at=240, message_limit=600, block_after=0, reflect_at=150,
            memory_limit=900,
        ),
    }[preset]  # fmt: skip
    count = estimator(preset)
    r = random.Random(preset)
    async with onlooker.open_memory(":memory:", settings=settings) as memory:
        session = memory.session("chat")
        for _ in range(60):
            await session.record({"role": "user", "content": prose(r, 30)})
            await session.settle()
        context = await session.context(system=SYSTEM)
        messages, notes = await session.messages(), await session.notes()
    assert [m.tokens for m in messages] == [count.message(m) for m in messages]
    assert {note.kind for note in notes} >= {"reflection"}
    assert [note.tokens for note in notes] == [count.text(note.text) for note in notes]
    # The parts of the prompt add up, and each is counted as it stands there.
    stats = context.stats
    assert stats.messages == sum(m.tokens for m in context.messages)
    memory = stats.reflections + stats.observations + stats.now
    assert stats.total == stats.system + memory + stats.messages + stats.recall
    assert memory == pytest.approx(count.text(context.memory), abs=6)
