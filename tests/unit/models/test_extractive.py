"""The built-in observer, through the requests that the engine makes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.growth import assert_not_quadratic
from tests.unit.models.extractive_requests import MODEL, SESSION, START, TALK, note, observe, role

from onlooker.domain.messages import Message, Role, ToolCall
from onlooker.domain.notes import NoteFormat
from onlooker.engine.writer import Source, judge_reply
from onlooker.errors import ModelError
from onlooker.models.extractive.process import ExtractiveProcess
from onlooker.policy.pace import paced
from onlooker.policy.render import text_lines
from onlooker.policy.reply.judge import Accepted, judge
from onlooker.policy.tokens import estimate, estimator
from onlooker.ports import ObserveRequest, Reply

_SIZES: list[tuple[int, NoteFormat]] = [(80, "lines"), (300, "stamped"), (200, "prose")]

# ------------------------------------------------------------------------------------ observing


@pytest.mark.req(3, 10)
def test_what_people_say_of_themselves_is_kept_under_its_day() -> None:
    text = observe(*TALK, tokens=160)
    assert text.startswith("## 2026-02-16\n")
    for fact in ("Oslo", "Rex", "border collie", "pottery", "Carla"):
        assert fact in text


@pytest.mark.req(6)
@pytest.mark.parametrize("tokens", [90, 1000])
def test_greetings_and_praise_are_left_out(tokens: int) -> None:
    text = observe(*TALK, tokens=tokens)
    for filler in ("Good to see you", "awesome", "amazing", "talk soon", "Hey"):
        assert filler not in text


@pytest.mark.parametrize(
    "asked", ["How can I help my son with his fractions?", "What can I do for you to see my side?"]
)
def test_a_question_that_only_begins_like_an_offer_is_kept(asked: str) -> None:
    said = (role("user", asked), role("assistant", "How can I help you today?"))
    text = observe(*said, tokens=200)
    assert asked.split()[-1] in text
    assert "today" not in text


@pytest.mark.req(14)
def test_relative_dates_are_resolved_beside_the_phrase() -> None:
    text = observe(*TALK, tokens=90)
    assert "moved to Oslo last week.\n" in text  # the heading says which
    assert "yesterday (2026-02-15)" in text
    assert "next month (2026-03)" in text


def test_every_line_names_who_said_it() -> None:
    lines = observe(*TALK, tokens=120).splitlines()[1:]
    assert lines
    assert all(line.removeprefix("IMPORTANT ").startswith(("Ana: ", "Ben: ")) for line in lines)


def test_negations_and_conditions_survive() -> None:
    text = observe(*TALK, tokens=120)
    assert "doesn't like cats unless they" in text
    assert "must not eat grapes" in text


@pytest.mark.req(12)
def test_numbers_stand_to_the_letter() -> None:
    assert "1,240.50 euros" in observe(*TALK, tokens=120)


def test_a_short_answer_keeps_what_it_answers() -> None:
    assert "Ben: What kind of dog is he?\nAna: A border collie. " in observe(*TALK, tokens=160)


@pytest.mark.req(11)
@pytest.mark.parametrize("tokens", [20, 40, 60, 80, 120])
def test_the_target_is_an_upper_limit(tokens: int) -> None:
    assert 0 < estimate(observe(*TALK, tokens=tokens)) <= tokens


@pytest.mark.req(13)
def test_what_the_notes_say_already_gives_way_to_what_is_new() -> None:
    told = note(
        "## 2026-02-16\nAna: moved to Oslo last week (2026-W07); "
        "adopted dog called Rex yesterday (2026-02-15)"
    )
    text = observe(*TALK, tokens=40, notes=(told,))
    assert "moved to Oslo" not in text
    assert "pottery class" in text


@pytest.mark.req(5, 12, 16)
def test_a_tool_result_becomes_a_record_of_its_values() -> None:
    call = ToolCall("c1", "get_reservation", '{"reservation_id":"M05KNL"}')
    result = {
        "reservation_id": "M05KNL",
        "user_id": "aarav_garcia_1177",
        "flights": [{"flight_number": "HAT227", "date": "2024-05-23", "price": 1936}],
        "insurance": None,
    }
    text = observe(
        role("user", "Please change my reservation M05KNL."),
        Message("assistant", "", at=START, calls=(call,)),
        Message("tool", json.dumps(result), at=START, answers="c1", name="get_reservation"),
        tokens=70,
    )
    assert "get_reservation(M05KNL): " in text
    for value in ("aarav_garcia_1177", "HAT227", "2024-05-23", "1936"):
        assert value in text
    assert "{" not in text


@pytest.mark.req(16)
def test_an_error_in_tool_output_comes_before_its_noise() -> None:
    noise = "\n".join(f"collecting item {n} of the long list" for n in range(200))
    call = ToolCall("c1", "bash", '{"command":"make test"}')
    text = observe(
        Message("assistant", "I'll run the tests.", at=START, calls=(call,)),
        Message(
            "tool",
            f"{noise}\nE  KeyError: 'DATABASE_URL' in src/app/config.py\n1 failed",
            at=START,
            answers="c1",
        ),
        tokens=60,
    )
    assert "bash(make test): " in text
    assert "KeyError: 'DATABASE_URL' in src/app/config.py" in text


def test_values_that_found_no_room_in_a_line_stand_in_the_ledger() -> None:
    paths = " ".join(f"src/app/module_{n}.py" for n in range(60))
    text = observe(
        role("user", f"Rename all of these, please: {paths}. The report is in /srv/out/report.pdf"),
        tokens=120,
    )
    assert "Values: " in text


def test_a_long_system_prompt_takes_little_room() -> None:
    prompt = (
        "You are an airline agent. " + "Always confirm each change with the user before you book it. " * 40
    )
    text = observe(role("system", prompt), role("user", "I want to fly to Oslo on 2026-03-01."), tokens=300)
    assert estimate(text) < 70
    assert "Oslo" in text


def test_secrets_are_not_copied() -> None:
    key = "sk-proj-" + "a1B2" * 8
    call = ToolCall("c", "login", json.dumps({"api_key": key}))
    text = observe(
        role(
            "user",
            f"My key is {key}, the card 4111 1111 1111 1111 and password: hunter22x for the Oslo server",
        ),
        Message("assistant", "", at=START, calls=(call,)),
        Message("tool", json.dumps({"token": key, "user": "ana_42"}), at=START, answers="c"),
    )
    for secret in (key, "4111", "hunter22x"):
        assert secret not in text
    assert "[secret]" in text


@pytest.mark.req(105)
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("下周我会去北京旅游。我是四川人，最喜欢火锅，但是我对花生过敏。谢谢你！", "火锅"),
        ("先週の金曜日に大阪へ引っ越しました。犬の名前はポチです。よろしくお願いします。", "大阪"),
        ("지난주에 부산으로 이사했어요. 강아지 이름은 초코예요. 고마워요!", "부산"),
        (
            "Letzte Woche bin ich nach Hamburg gezogen. Mein Hund heißt Waldi und frisst keine Trauben.",
            "Hamburg",
        ),
        ("На прошлой неделе я переехал в Казань. Мою собаку зовут Шарик.", "Шарик"),
    ],
)
def test_it_writes_in_the_language_of_the_conversation(text: str, kept: str) -> None:
    written = observe(role("user", text), role("user", "好的" if kept == "火锅" else "ok"), tokens=60)
    assert kept in written


@pytest.mark.req(7)
def test_prose_is_a_few_sentences_without_headings() -> None:
    text = observe(*TALK, tokens=120, format="prose")
    assert "##" not in text
    assert "\n" not in text
    assert text.endswith(".")
    assert "Oslo" in text


# ------------------------------------------------------------------------------------ anything goes


@pytest.mark.parametrize(
    "message",
    [
        role("user", "hi"),
        role("user", "ok."),
        role("user", "😀😀"),
        role("user", "  "),
        role("user", "???"),
        role("assistant", "…"),
        Message("user", attachments=("[image 3f2a91: image/png]",), at=START),
        Message("tool", "", answers="c1", name="ping", at=START),
        Message("tool", "null", answers="c1", name="ping", at=START),
        Message("assistant", "", calls=(ToolCall("c1", "ping"),), at=START),
        Message("user", "I live in Oslo"),
        role("user", "\x00\ud800 NUL and a lone surrogate in Oslo"),
    ],
)
@pytest.mark.parametrize("format", ["lines", "prose"])
def test_the_smallest_source_gives_a_note(message: Message, format: NoteFormat) -> None:
    text = observe(message, tokens=50, format=format)
    assert text.strip()
    assert estimate(text) <= max(50, estimator("default").message(message))
    text.encode()


@pytest.mark.parametrize(
    "parts",
    [
        ("", "x", ""),
        ("", "word ", ""),
        ("", "a b c\n", ""),
        ("", " ", "Oslo"),
        ("", "[", ""),
        ("", '"a ', ""),
        ("", "and I ", ""),
        ("", "a/", ""),
        ("", "1, 2; ", ""),
        ('{"a": [', "1,", "1]}"),
    ],
    ids=lambda parts: "".join(parts)[:8],
)
def test_a_giant_message_is_noted_in_bounded_time(parts: tuple[str, str, str]) -> None:
    begin, unit, end = parts

    def noted(length: int) -> None:
        text = begin + unit * (length // len(unit)) + end
        assert observe(role("user", text))
        assert observe(Message("tool", text, answers="c1", at=START))

    assert_not_quadratic(noted, 200_000)


def test_the_same_request_gives_the_same_text_in_every_process() -> None:
    program = (
        "from tests.unit.models.extractive_requests import TALK, observe; import sys; "
        "sys.stdout.buffer.write(observe(*TALK, tokens=60).encode())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(p for p in sys.path if p)},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert outputs == {observe(*TALK, tokens=60).encode()}


WORDS = st.text(
    alphabet=st.sampled_from("abcdefg ABC.,;:!?'\"()[]{}\n0123456789-_/@#$%`我你上周的。，のはか한글·→😀"),
    max_size=120,
)


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "tool", "system"]), WORDS), min_size=1, max_size=6
    ),
    st.integers(8, 120),
)
@example([*[("user", ":?0か")] * 4, ("user", "0:0:")], 39)
@example([("assistant", "0 0- "), ("assistant", "10.00:01 x00 0 "), ("system", "0 0,0")], 81)
@example([("system", "\n é -0:00 ")], 22)
def test_whatever_was_said_the_note_is_one_that_its_judge_accepts(
    said: list[tuple[Role, str]], tokens: int
) -> None:
    messages = [Message(role, text, at=START, answers="c1" if role == "tool" else "") for role, text in said]
    source = "\n".join(message.text for message in messages)
    text = observe(*messages, tokens=tokens)
    verdict = judge(
        text,
        source_text=source,
        source_tokens=sum(estimator("default").message(message) for message in messages),
        format="lines",
        day=START.date(),
        count=estimate,
    )
    assert isinstance(verdict, Accepted), (verdict, text)


# ------------------------------------------------------------------------------------ as a model


@pytest.mark.anyio
async def test_it_answers_as_any_model_does() -> None:
    request = ObserveRequest(SESSION, TALK, (), 80)
    reply = await MODEL.write(request)
    assert reply.text == MODEL.compose(request)
    assert reply.finish == "stop"
    assert MODEL.name == "extractive"
    assert MODEL.window >= 1_000_000


@pytest.mark.anyio
async def test_a_process_beside_this_one_writes_the_same() -> None:
    model = ExtractiveProcess()
    requests = [ObserveRequest(SESSION, TALK, (), tokens, format) for tokens, format in _SIZES]
    replies = await asyncio.gather(*(model.write(request) for request in requests))
    assert [r.text for r in replies] == [MODEL.compose(request) for request in requests]
    model.close()
    # It may be opened again.
    assert (await model.write(requests[0])).text == replies[0].text
    model.close()
    model.close()


@pytest.mark.anyio
async def test_a_process_that_is_closed_gives_up_its_note() -> None:
    model = ExtractiveProcess()
    long = ObserveRequest(SESSION, TALK * 2_000, (), 5_000)
    writing = [asyncio.create_task(model.write(long)) for _ in range(3)]
    await asyncio.sleep(0)  # each has asked
    model.close()
    for answer in await asyncio.gather(*writing, return_exceptions=True):
        assert isinstance(answer, ModelError)


@pytest.mark.parametrize("judging", [False, True])
def test_it_and_its_judge_let_other_threads_run_while_they_work(judging: bool) -> None:
    # A busy machine may not come to the other thread in each of the pauses: there must be many.
    request = ObserveRequest(SESSION, TALK * (200 if judging else 50), (), 200)
    work: Callable[[], object] = partial(MODEL.compose, request)
    if judging:
        source = Source(text_lines(request.messages), {}, 5_000, START.date())
        work = partial(judge_reply, Reply(MODEL.compose(request)), request, source, estimate)
    worker = threading.Thread(target=paced, args=(work,))
    before = sys.getswitchinterval()
    # No thread is interrupted: others run only where the model gives way.
    sys.setswitchinterval(100.0)
    turns = 0
    try:
        worker.start()
        while worker.is_alive():
            time.sleep(0)
            turns += 1
    finally:
        sys.setswitchinterval(before)
        worker.join()
    assert turns > 10
