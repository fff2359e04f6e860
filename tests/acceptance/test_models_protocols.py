"""The real SDKs of OpenAI and Anthropic against a server on this machine: what is sent, what comes back,
and what becomes of every fault."""

from __future__ import annotations

import asyncio

import pytest
from tests.acceptance.providers import KEY, NAMES, model_at, observation, observe, reflect

from onlooker.domain.errors import ModelError
from onlooker.models.calling import CallError, Price, Retries
from onlooker.models.llm import LanguageModel, prompt_of
from onlooker.ports import Reply
from onlooker.testing.provider import Answer, LocalProvider

pytestmark = pytest.mark.anyio
every_protocol = pytest.mark.parametrize("protocol", NAMES)

ASKED = observe("I moved to Oslo last week", "Welcome to Oslo!", "My order is 88-1431")
NOTE = "## 2026-02-16\nIMPORTANT Ana moved to Oslo (2026-02-09); her order is 88-1431"


async def failure(answer: Answer, protocol: str, **options: object) -> CallError:
    with LocalProvider(answer) as provider:
        with pytest.raises(ModelError) as caught:
            await model_at(provider, protocol, **options).write(ASKED)
        assert len(provider.received) == 1, "one attempt, which others may repeat"
    assert isinstance(caught.value, CallError)
    assert KEY not in str(caught.value)
    return caught.value


async def reply(answer: Answer, protocol: str) -> Reply:
    with LocalProvider(answer) as provider:
        return await model_at(provider, protocol).write(ASKED)


# ------------------------------------------------------------------------------------ what is sent


@every_protocol
async def test_the_request_carries_our_prompt_and_nothing_else(protocol: str) -> None:
    with LocalProvider() as provider:
        model = model_at(provider, protocol)
        for request in (ASKED, reflect("Ana lives in Oslo", "Ana has a cat")):
            await model.write(request)
            received, prompt = provider.received[-1], prompt_of(request)
            assert received.system == prompt.system
            assert received.user == prompt.user
            assert received.headers["authorization"] == f"Bearer {KEY}"


async def test_a_chat_completion_is_asked_for_with_exactly_this() -> None:
    with LocalProvider() as provider:
        await model_at(provider, "chat").write(ASKED)
        prompt = prompt_of(ASKED)
        assert provider.received[0].path == "/v1/chat/completions"
        assert provider.received[0].body == {
            "model": "gpt-5-mini",
            "stream": False,
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.user},
            ],
            "max_completion_tokens": 4_700,
            "reasoning_effort": "minimal",
        }


async def test_a_message_of_anthropic_s_is_asked_for_with_exactly_this() -> None:
    with LocalProvider() as provider:
        await model_at(provider, "anthropic").write(ASKED)
        prompt = prompt_of(ASKED)
        assert provider.received[0].path == "/v1/messages"
        body = provider.received[0].body
        assert body.pop("system") in (prompt.system, [{"type": "text", "text": prompt.system}])
        assert body == {
            "model": "claude-haiku-4-5",
            "stream": False,
            "messages": [{"role": "user", "content": [{"type": "text", "text": prompt.user}]}],
            "max_tokens": 4_700,
        }


async def test_a_server_of_one_s_own_gets_no_option_that_it_may_not_know() -> None:
    with LocalProvider() as provider:
        await model_at(provider, "ollama").write(ASKED)
        assert set(provider.received[0].body) == {"model", "stream", "messages", "max_completion_tokens"}


async def test_the_responses_interface_is_told_to_keep_nothing() -> None:
    with LocalProvider() as provider:
        await model_at(provider, "responses").write(ASKED)
        assert provider.received[0].body["store"] is False


def test_one_model_serves_many_calls_at_once_and_one_event_loop_after_another() -> None:
    with LocalProvider() as provider:
        model = model_at(provider)

        async def calls() -> set[str]:
            return {reply.finish for reply in await asyncio.gather(*(model.write(ASKED) for _ in range(8)))}

        assert [asyncio.run(calls()) for _ in range(2)] == [{"stop"}, {"stop"}]
        assert len(provider.received) == 16


async def test_options_reach_the_provider() -> None:
    with LocalProvider() as provider:
        await model_at(provider, "ollama", options={"temperature": 0.2, "max_tokens": 300}).write(ASKED)
        body = provider.received[0].body
        assert (body["temperature"], body["max_completion_tokens"]) == (0.2, 300)


async def test_the_key_of_openai_is_not_sent_to_another_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with LocalProvider() as provider:
        await model_at(provider, "chat", api_key=None).write(ASKED)
        assert KEY not in str(provider.received[0].headers)


# ------------------------------------------------------------------------------------ what comes back


@every_protocol
async def test_a_good_answer_comes_back_with_what_it_used(protocol: str) -> None:
    got = await reply(Answer(NOTE), protocol)
    assert (got.text, got.finish) == (NOTE, "stop")
    assert got.input_tokens > 250
    assert 10 < got.output_tokens < 60


@every_protocol
async def test_an_answer_that_was_cut_off_says_so(protocol: str) -> None:
    got = await reply(Answer("Ana moved to", finish="length"), protocol)
    assert (got.text, got.finish) == ("Ana moved to", "length")


@every_protocol
async def test_a_refusal_is_one_whatever_it_says(protocol: str) -> None:
    assert (await reply(Answer("I would rather not", finish="refused"), protocol)).finish == "refused"


@every_protocol
async def test_an_empty_answer_is_empty(protocol: str) -> None:
    assert (await reply(Answer(""), protocol)).text == ""


@every_protocol
async def test_a_huge_answer_comes_back_whole_for_the_judge_to_refuse(protocol: str) -> None:
    huge = "The user said something.\n" * 100_000
    assert (await reply(Answer(huge), protocol)).text == huge


async def test_a_call_costs_what_the_price_list_says_or_what_we_say() -> None:
    listed = await reply(Answer(NOTE), "anthropic")
    assert listed.cost == pytest.approx(Price(1.0, 5.0).of(listed.input_tokens, listed.output_tokens))
    assert (await reply(Answer(NOTE), "ollama")).cost is None
    with LocalProvider() as provider:
        got = await model_at(provider, "ollama", price=Price(10.0, 20.0)).write(ASKED)
    assert got.cost == Price(10.0, 20.0).of(got.input_tokens, got.output_tokens)


# ------------------------------------------------------------------------------------ what goes wrong


@every_protocol
async def test_a_rate_limit_says_how_long_to_wait(protocol: str) -> None:
    error = await failure(Answer(status=429, retry_after="7"), protocol)
    assert (error.kind, error.retry_after) == ("rate", 7.0)
    assert str(error).endswith("the provider answered 429: too many requests; retry after 7 s")


@every_protocol
@pytest.mark.parametrize("status", [500, 502, 503, 529])
async def test_a_fault_of_the_server_is_the_server_s(protocol: str, status: int) -> None:
    error = await failure(Answer(status=status), protocol)
    assert error.kind == "server"
    assert f"the provider answered {status}" in str(error)


@every_protocol
async def test_a_wrong_key_is_said_plainly_and_not_quoted(protocol: str) -> None:
    error = await failure(Answer(status=401), protocol)  # the server's own answer quotes it
    assert error.kind == "denied"
    assert "the key is invalid" in str(error)
    assert error.__cause__ is None


@every_protocol
@pytest.mark.parametrize(("status", "says"), [(400, "test error 400"), (404, "no such model")])
async def test_a_request_that_is_not_taken_says_why(protocol: str, status: int, says: str) -> None:
    error = await failure(Answer(status=status), protocol)
    assert error.kind == "rejected"
    assert says in str(error)


@every_protocol
async def test_a_provider_that_hangs_is_given_up_on(protocol: str) -> None:
    error = await failure(Answer(fault="hang"), protocol, timeout=0.5)
    assert error.kind == "timeout"


@every_protocol
async def test_a_slow_provider_is_given_up_on(protocol: str) -> None:
    error = await failure(Answer(NOTE, seconds=8), protocol, timeout=2)
    assert error.kind == "timeout"


@every_protocol
async def test_a_connection_that_is_reset_in_the_middle_of_the_answer_is_no_answer(protocol: str) -> None:
    error = await failure(Answer(NOTE, fault="reset"), protocol)
    assert error.kind == "connection"


@every_protocol
@pytest.mark.parametrize("fault", ["garbage", "shapeless"])
async def test_an_answer_that_is_none_is_a_failure_worth_another_try(protocol: str, fault: str) -> None:
    error = await failure(Answer(NOTE, fault=fault), protocol)  # pyright: ignore[reportArgumentType]
    assert error.kind == "unreadable"


@every_protocol
async def test_a_provider_that_is_not_there_is_a_connection_that_failed(protocol: str) -> None:
    with LocalProvider() as provider:
        model = model_at(provider, protocol)
    with pytest.raises(CallError) as caught:
        await model.write(ASKED)
    assert caught.value.kind == "connection"


@every_protocol
async def test_asking_again_gets_the_note_after_a_rate_limit_and_a_fault(protocol: str) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    faults = (Answer(status=429, retry_after="7"), Answer(status=500), Answer(NOTE))
    with LocalProvider(*faults) as provider:
        model = Retries(model_at(provider, protocol), sleep=sleep, chance=lambda: 0.0)
        assert (await model.write(ASKED)).text == NOTE
    assert slept == [7.0, 1.0]


# ------------------------------------------------------------------------------------ notes so far


def test_an_observer_is_shown_the_newest_notes_as_far_as_they_go() -> None:
    old = observation(1, "## 2026-02-14\n" + "\n".join(f"Ana named thing {n}" for n in range(60)), 400)
    new = observation(2, "## 2026-02-15\nAna has a cat\nAna bought a lamp", 15)
    shown = prompt_of(observe(*["Ana speaks of Oslo. " * 20] * 20, notes=(old, new), tokens=100)).user
    assert "## 2026-02-15\nAna has a cat\nAna bought a lamp" in shown
    assert "## 2026-02-14\nAna named thing" in shown  # the last lines, under their heading
    assert "Ana named thing 59\n## 2026-02-15" in shown
    assert "Ana named thing 0\n" not in shown


def test_an_observer_is_shown_what_matters_for_its_messages_first() -> None:
    """Lines on the same topics, so that it can say what changed, and the last important ones; no ledger."""
    lines = [f"Ana named thing {n}" for n in range(60)]
    text = "\n".join(
        ("IMPORTANT Ana's deadline is Friday", "Ana rents a flat in Bergen", *lines, "Values: K-77")
    )
    notes = (observation(1, f"## 2026-02-14\n{text}", 500),)
    shown = prompt_of(observe(*["I gave up the flat. " * 8] * 12, notes=notes, tokens=60)).user
    assert "Ana rents a flat in Bergen" in shown
    assert "IMPORTANT Ana's deadline is Friday" in shown
    assert "Ana named thing 0\n" not in shown
    assert "Values:" not in shown


def test_the_setting_is_the_only_limit_of_a_call_s_time() -> None:
    with LocalProvider() as provider:
        model = LanguageModel(f"openai:test@{provider.url}/v1")
        sent: dict[str, object] = {**model._settings(ASKED)}  # pyright: ignore[reportPrivateUsage]
    assert sent["request_timeout"] == 3600  # what `model_deadline` can be at most


def test_an_observer_with_little_to_note_is_shown_little() -> None:
    notes = (observation(1, "## 2026-02-14\n" + "Ana named a thing\n" * 60, 400),)
    assert "Ana named a thing" not in prompt_of(observe("I moved to Oslo", notes=notes)).user
