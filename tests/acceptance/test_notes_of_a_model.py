"""What a language model is shown, what of its replies is believed, and what then stands in the final prompt:
through real SDK calls to a server on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.acceptance.command_line import run
from tests.acceptance.providers import KEY, NAMES, START, model_at

import onlooker
from onlooker.domain.events import Event, ReplyRejected
from onlooker.domain.messages import ToolCall
from onlooker.testing import FrozenClock
from onlooker.testing.provider import Answer, LocalProvider, Received

pytestmark = pytest.mark.anyio

SETTINGS = onlooker.Settings(budget=4_000)
_PARCEL = re.compile(r"Parcel \d+ came from \w+ by lorry")
CITIES = ("Oslo", "Lisbon", "Turin", "Ghent", "Split", "Cork", "Graz")


def parcels(first: int, last: int) -> list[onlooker.Message]:
    return [
        onlooker.user(
            f"Parcel {n} came from {CITIES[n % 7]} by lorry and stands in row {n % 9} until somebody has the "
            "time to carry it to the gate, which may be tomorrow."
        )
        for n in range(first, last + 1)
    ]


def noting(*lines: tuple[str, str]) -> Callable[[Received], Answer]:
    """Answer with those of the lines whose sign is among the new messages, and else with the first parcel."""

    def answer(received: Received) -> Answer:
        said = (
            received.user.rpartition("Notes so far")[2] if "Notes so far" in received.user else received.user
        )
        new = said.partition("</notes>")[2] or said
        chosen = [line for sign, line in lines if sign in new]
        chosen += _PARCEL.findall(new)[:1]
        return Answer("## 2026-02-16\n" + "\n".join(chosen))

    return answer


async def talk(
    answer: Callable[[Received], Answer], said: list[onlooker.Message], settings: onlooker.Settings = SETTINGS
) -> tuple[str, list[Received], list[Event]]:
    """The final prompt, the calls, and what happened."""
    events: list[Event] = []
    clock = FrozenClock(START)
    with LocalProvider(answer) as provider:
        async with onlooker.open_memory(
            ":memory:", model=model_at(provider), settings=settings, clock=clock
        ) as memory:
            memory.subscribe(events.append)
            session = memory.session("telegram:42")
            for message in said:
                await session.record(message)
                await session.settle()
                clock.advance(60)
            prompt = json.dumps((await session.context()).openai(), ensure_ascii=False)
        return prompt, list(provider.received), events


def refusals(events: list[Event]) -> list[ReplyRejected]:
    return [event for event in events if isinstance(event, ReplyRejected)]


@pytest.mark.req(20, 52)
async def test_each_call_is_shown_the_important_notes_so_far_and_may_use_what_only_they_say() -> None:
    first = "IMPORTANT user's kitchen budget is 4,200 euros, order KX-7731"
    later = "IMPORTANT user's kitchen budget is now 4,800 euros (was 4,200), order KX-7731"
    prompt, calls, events = await talk(
        noting(("4,200 euros", first), ("4,800 euros", later)),
        [
            onlooker.user("My budget for the kitchen is 4,200 euros, and the order is KX-7731."),
            *parcels(1, 60),
            onlooker.user("The kitchen budget is 4,800 euros from now on."),
            *parcels(61, 90),
        ],
    )
    assert refusals(events) == []
    with_first = [call for call in calls[1:] if "KX-7731" in call.user]
    assert len(with_first) == len(calls) - 1 >= 4, "every later call is shown the important line"
    assert later in prompt


@pytest.mark.req(52)
async def test_at_a_larger_budget_it_is_shown_long_lines_of_weight_and_what_is_on_the_same_topic() -> None:
    weighty = (
        "IMPORTANT user's sister Ingrid runs the bakery in Grünerløkka with her husband Tarek, opens at six "
        "in the morning, and pays 18,400 a month for the rooms behind it"
    )
    topic = "user keeps the spare keys of the allotment shed in the blue biscuit tin"
    answer = noting(("Ingrid", weighty), ("biscuit tin", topic))
    said = [
        onlooker.user("The spare keys of the allotment shed are in the blue biscuit tin."),
        *parcels(1, 30),
        onlooker.user(
            "My sister Ingrid runs the bakery in Grünerløkka with her husband Tarek. They open at six in the "
            "morning and pay 18,400 a month for the rooms behind it."
        ),
        *parcels(31, 200),
        onlooker.user("I lost the keys of the allotment shed; are there any others?"),
        *parcels(201, 260),
    ]
    _, calls, events = await talk(answer, said, replace(SETTINGS, budget=8_000))
    assert refusals(events) == []
    (first,) = (n for n, call in enumerate(calls) if "My sister Ingrid" in call.user)
    assert len(calls) - first > 4
    assert all(weighty in call.user for call in calls[first + 1 :])
    (lost,) = (call for call in calls if "I lost the keys" in call.user)
    assert topic in lost.user


async def test_notes_are_longer_while_there_is_room_for_them() -> None:
    def as_long_as_asked(received: Received) -> Answer:
        most = re.search(r"at most (\d+) words", received.user)
        assert most
        lines = _PARCEL.findall(received.user.rpartition("<<< MESSAGES")[2])
        return Answer("\n".join(["## 2026-02-16", *lines[: int(most[1]) // len(lines[0].split())]]))

    prompt, _, events = await talk(as_long_as_asked, parcels(1, 70))
    assert refusals(events) == []
    assert [n for n in range(1, 71) if f"Parcel {n} came" not in prompt] == []


@pytest.mark.req(54)
async def test_a_refusal_names_what_is_invented_and_at_the_second_it_is_struck_out() -> None:
    wrong = "user's order KX-7731 is for the kitchen (1985-05-05), says Leopold"
    prompt, calls, events = await talk(
        noting(("KX-7731", wrong)), [onlooker.user("My order is KX-7731 for the kitchen."), *parcels(1, 40)]
    )
    refused = [call for call in calls if "1985-05-05" in call.user and "Leopold" in call.user]
    assert len(refused) == len(refusals(events)) == 1
    assert "1985-05-05" not in prompt
    assert "Leopold" not in prompt
    assert "KX-7731" in prompt


@pytest.mark.req(55)
async def test_the_audit_adds_no_title_twice_no_share_of_agreement_and_no_names_of_fields() -> None:
    lookup = onlooker.Message("assistant", "", calls=(ToolCall("c1", "get_user", '{"user_id":"ana_9"}'),))
    record = json.dumps({"user_id": "ana_9", "payment_methods": [{"payment_id": "visa_4417"}]})
    prompt, _, events = await talk(
        noting(("Witcher", 'user plays "The Witcher 3" as ana_9, card visa_4417')),
        [
            onlooker.user('I 100% agree. My favourite game is "The Witcher 3." Look up my account, please.'),
            lookup,
            onlooker.Message("tool", record, answers="c1", name="get_user"),
            *parcels(1, 40),
        ],
    )
    assert refusals(events) == []
    assert 'user plays \\"The Witcher 3\\" as ana_9' in prompt
    ledger = "".join(re.findall(r"Values: ([^\\]*)", prompt))
    assert not [junk for junk in ("100%", "Witcher 3.", "payment_methods", "payment_id") if junk in ledger]


@pytest.mark.req(59)
@pytest.mark.parametrize(("deadline", "writes"), [(0.4, False), (60, True)])
def test_the_time_that_a_model_has_is_a_setting_of_the_command_line_too(
    deadline: float, writes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that needs seconds gets its note if the settings file gives it the time."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    said = [*parcels(1, 9)]
    transcript = tmp_path / "said.jsonl"
    transcript.write_text(
        "".join(json.dumps({"role": "user", "content": message.text}) + "\n" for message in said)
    )

    def slow(received: Received) -> Answer:
        return Answer(noting()(received).text, seconds=1.0)

    with LocalProvider(slow) as provider:
        config = tmp_path / "onlooker.toml"
        config.write_text(
            f'model = "{NAMES["chat"].format(url=provider.url)}"\nmodel_deadline = {deadline}\n'
            "budget = 1000\nobserve_at = 0.3\nkeep_recent = 0.1\nchunk_tokens = 0.2\n"
        )
        out = tmp_path / "context.txt"
        done = run(
            "replay", str(transcript), "--db", str(tmp_path / "a.db"), "--config", str(config),
            "--budget", "1000", "--context", str(out), "--quiet", cwd=tmp_path,
        )  # fmt: skip
    assert done.code == 0, done.err
    memory = out.read_text(encoding="utf-8").partition("## Recent messages")[0]
    by_the_model = [line for line in memory.splitlines() if _PARCEL.fullmatch(line)]
    assert bool(by_the_model) is writes
    assert "Parcel 1 came from" in memory, "else the built-in model's"


def asking(received: Received) -> Answer:
    """Note what was asked last, and nothing else."""
    return Answer("Open request: " + re.findall(r"Could you [^?]*\?", received.user)[-1])


SMALL_CHUNKS = replace(SETTINGS, budget=1_000, observe_at=0.3, keep_recent=0.1, chunk_tokens=0.08)


@pytest.mark.req(55)
async def test_where_the_user_only_asks_a_note_of_the_request_alone_is_accepted() -> None:
    said = [
        message
        for n in range(30)
        for message in (
            onlooker.user(f"Could you order paint number {n} for the gate?"),
            onlooker.assistant("Of course, right away."),
        )
    ]
    prompt, calls, events = await talk(asking, said, SMALL_CHUNKS)
    observed = [call for call in calls if "Of course, right away." in call.user]
    assert len(observed) > 5
    assert refusals(events) == []
    assert "Could you order paint number 29 for the gate?" in prompt


@pytest.mark.req(55)
async def test_a_note_of_the_request_alone_does_not_stand_for_a_long_answer() -> None:
    answer = "The gate was painted in 1987 by Berit Hansen, who mixed the green from copper and linseed oil. "
    said = [
        onlooker.user("Could you tell me about the gate?"),
        onlooker.assistant(answer * 3),
        *parcels(1, 9),
    ]
    _, calls, events = await talk(asking, said, SMALL_CHUNKS)
    of_the_answer = [call for call in calls if "Berit Hansen" in call.user]
    assert len(of_the_answer) > 1
    assert {event.reason for event in refusals(events)} == {"empty"}
    assert "it held no note" in of_the_answer[1].user + of_the_answer[1].system
