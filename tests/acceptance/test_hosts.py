"""Hosts and their histories: whatever a host does with its history, what was said stays, and each context
ends with its caller's newest message. What alignment decides is in tests/unit/policy/test_align.py."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.promises.checks import check_coverage

import onlooker
from onlooker.events import Noted, Reflected
from onlooker.policy.align import Rewind
from onlooker.policy.settings import Timing
from onlooker.ports import ObserveRequest
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio

History = list[dict[str, Any]]
PEANUTS = "I'm allergic to peanuts, so please never suggest them."


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


async def recorded(session: onlooker.Session) -> list[str]:
    return [m.text for m in await session.messages(archived=True)]


# ------------------------------------------------------------------------------------ a host's own hooks


@dataclass
class Agent:
    """An agent as somebody else wrote it: a loop, a provider, a tool, and hooks that others may use.

    `before_call` may change what is sent. `after_message` hears of each message. It knows of no memory.
    """

    provider: Callable[[History], dict[str, Any]]
    before_call: list[Callable[[History], Awaitable[History]]] = field(default_factory=list[Any])
    after_message: list[Callable[[dict[str, Any]], Awaitable[object]]] = field(default_factory=list[Any])
    history: History = field(default_factory=list[Any])

    async def ask(self, text: str) -> str:
        await self._add(user(text))
        while True:
            sent = list(self.history)
            for hook in self.before_call:
                sent = await hook(sent)
            answer = self.provider(sent)
            await self._add(answer)
            if not answer.get("tool_calls"):
                return answer["content"]
            for call in answer["tool_calls"]:
                found = f"The weight that {call['function']['arguments']} names is 17 kg."
                await self._add({"role": "tool", "tool_call_id": call["id"], "content": found})

    async def _add(self, message: dict[str, Any]) -> None:
        self.history.append(message)
        for hook in self.after_message:
            await hook(message)


class Provider:
    """Answers the newest message, after a look at a tool, and writes down what it was sent."""

    def __init__(self) -> None:
        self.received: list[History] = []

    def __call__(self, sent: History) -> dict[str, Any]:
        self.received.append(sent)
        # What is recalled stands behind the messages, as the system's.
        newest = next(m for m in reversed(sent) if m["role"] != "system")
        if newest["role"] == "tool":
            return assistant(f"It is 17 kg, as I saw in call {len(self.received)}.")
        call = {"id": f"c{len(self.received)}", "type": "function"}
        function = {"name": "weigh", "arguments": json.dumps({"parcel": len(self.received)})}
        return {"role": "assistant", "content": None, "tool_calls": [call | {"function": function}]}


async def talk_to(agent: Agent) -> list[str]:
    """A conversation with an agent; what it answers."""
    first = await agent.ask(PEANUTS)
    questions = (f"How heavy is parcel {n}, which went to Bergen by the late ferry?" for n in range(40))
    return [first, *[await agent.ask(question) for question in questions]]


@pytest.mark.req(84)
async def test_a_hosts_own_hooks_are_all_that_memory_needs() -> None:
    alone = Agent(Provider())
    answers = await talk_to(alone)
    async with onlooker.open_memory(":memory:", budget=1000) as memory:
        session = memory.session("a")

        async def remember(sent: History) -> History:
            return (await session.context(system="Help.")).openai()

        provider = Provider()
        agent = Agent(provider, before_call=[remember], after_message=[session.record])
        assert await talk_to(agent) == answers  # neither the loop nor the provider has changed
        assert agent.history == alone.history
        assert await recorded(session) == [m["content"] or "" for m in agent.history]
    # What the provider got: its own prompt, what was said long ago in few words, and the newest messages.
    last = provider.received[-1]
    assert len(json.dumps(last)) < len(json.dumps(agent.history)) / 2
    assert last[0]["content"].startswith("Help.\n\n## Conversation Memory\n")
    assert "allergic to peanuts" in last[0]["content"]
    raw = [m for m in last[1:] if m["role"] != "system"]  # what is recalled stands behind them
    assert raw == agent.history[-1 - len(raw) : -1]
    for sent in provider.received:
        calls = [call["id"] for m in sent for call in m.get("tool_calls") or ()]
        assert [m["tool_call_id"] for m in sent if m["role"] == "tool"] == calls


# ------------------------------------------------------------------------------------ histories


async def test_a_bot_that_was_restarted_goes_on() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("a")
        await session.prepare([user("hi"), assistant("Hello!"), user(PEANUTS)])
        context = await session.prepare([user("hi")])
        assert PEANUTS in context.text()
        assert context.openai()[-1] == user("hi")
        assert await recorded(session) == ["hi", "Hello!", PEANUTS, "hi"]


@pytest.mark.parametrize("size", [1, 2, 3, 6])
async def test_a_window_of_messages_that_repeat_keeps_them_all(size: int) -> None:
    chance = random.Random(size)
    async with onlooker.open_memory(":memory:") as memory:
        session, history, said = memory.session("a"), History(), list[str]()
        for turn in range(40):
            text = chance.choice(["yes", "go on", f"Parcel {turn} went to Bergen."])
            history.append(user(text))
            context = await session.prepare(history[-size:])
            assert context.openai()[-1] == user(text)
            answer = assistant(chance.choice(["ok", f"Noted, {turn}."]))
            history.append(answer)
            await session.record(answer)
            said += [text, answer["content"]]
        assert await recorded(session) == said


@pytest.mark.parametrize(("marker", "most"), [("Skipped {} messages.", 0), ("[~{}00 tokens left out]", 1)])
async def test_what_a_host_says_of_messages_that_it_left_out_is_not_said_by_anyone(
    marker: str, most: int
) -> None:
    said: list[dict[str, Any]] = []
    async with onlooker.open_memory(":memory:", budget=3000) as memory:
        session = memory.session("chat")
        for n in range(40):
            said.append(user(f"The code of door {n} is K-{7000 + n}, please keep it."))
            left_out = len(said) - 9
            middle = [user(marker.format(left_out))] if left_out > 1 else said[3:-6]
            context = await session.prepare([*said[:3], *middle, *said[-6:]] if left_out > 0 else said)
            assert context.messages[-1].text == said[-1]["content"]
            said.append(assistant(f"I keep K-{7000 + n}."))
        await session.record(said[-1])
        await session.settle()
        texts = await recorded(session)
        prompt = (await session.context()).text()
    own = [m["content"] for m in said]
    assert [text for text in texts if text in own] == own
    assert len(texts) - len(own) <= most
    assert prompt.count(marker.partition("{}")[0]) <= most


@pytest.mark.parametrize("marker", ["", "Skipped {} messages."])
@pytest.mark.parametrize(("head", "tail"), [(1, 6), (2, 5), (2, 6), (3, 4)])
async def test_the_first_messages_that_a_host_keeps_are_told_once_in_a_long_session_too(
    head: int, tail: int, marker: str
) -> None:
    said: list[dict[str, Any]] = []
    text = ""
    async with onlooker.open_memory(":memory:", budget=3000) as memory:
        session = memory.session("chat")
        for n in range(60):  # of a session as long as this, only the newest messages are read
            said.append(user(f"Question {n}, about parcels. {words(n)}" if n else PEANUTS))
            left_out = len(said) - head - tail
            middle = [user(marker.format(left_out))] if marker and left_out > 1 else []
            view = [*said[:head], *middle, *said[-tail:]] if left_out > 1 else said
            context = await session.prepare(view)
            assert context.preface == ()
            assert context.messages[-1].text == said[-1]["content"]
            text = context.text()
            said.append(assistant("ok" if n % 2 else f"Answer {n}. {words(n + 1)}"))
        assert text.count("allergic to peanuts") == 1
        assert await recorded(session) == [m["content"] for m in said[:-1]]


async def test_a_host_that_blanks_old_tool_results_erases_nothing() -> None:
    async with onlooker.open_memory(":memory:", budget=100_000) as memory:
        session, history = memory.session("a"), History()
        for turn in range(12):
            history.append(user(f"Where is parcel {turn}?"))
            await session.prepare(history)
            call = {"id": f"c{turn}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            history.append({"role": "assistant", "content": None, "tool_calls": [call]})
            found = f"Parcel {turn} lies in row {turn * 7} of the hall in Bergen."
            history.append({"role": "tool", "tool_call_id": f"c{turn}", "content": found})
            await session.prepare(history)
            history.append(assistant(f"In row {turn * 7}."))
            for message in history[:-4]:
                if message["role"] == "tool":
                    message["content"] = "[Old tool result content cleared]"
        results = [m.text for m in await session.messages() if m.role == "tool"]
        assert results == [f"Parcel {n} lies in row {n * 7} of the hall in Bergen." for n in range(12)]


@pytest.mark.parametrize("has_ids", [False, True])
async def test_a_host_that_keeps_tool_calls_only_until_the_answer_takes_none_back(has_ids: bool) -> None:
    said = list[str]()

    def named(message: dict[str, Any]) -> dict[str, Any]:
        said.append(message["content"] or "")
        return message | ({"id": f"m{len(said)}"} if has_ids else {})

    async with onlooker.open_memory(":memory:") as memory:
        session, history = memory.session("a"), History()
        for turn in range(4):
            history.append(named(user(f"Where is parcel {turn}, please?")))
            await session.prepare(history)
            function = {"name": "look", "arguments": "{}"}
            calls = [{"id": f"c{turn}{n}", "type": "function", "function": function} for n in range(2)]
            work = [named({"role": "assistant", "content": None, "tool_calls": calls})]
            for call in calls:
                found = f"Sheet {call['id']} says hall {turn} in Bergen."
                work.append(named({"role": "tool", "tool_call_id": call["id"], "content": found}))
            await session.prepare([*history, *work])
            history.append(named(assistant(f"It lies in hall {turn}.")))
        await session.prepare([*history, named(user("Thank you."))])
        assert await recorded(session) == said
        assert not await session.history.taken_back()


@pytest.mark.parametrize("role", ["system", "user"])
async def test_what_a_host_with_ids_sends_between_its_summary_and_what_is_known_was_said(role: str) -> None:
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("a")
        said = [f"Parcel {n} went to Bergen." for n in range(7)]
        history = [(assistant if n % 2 else user)(text) | {"id": f"m{n}"} for n, text in enumerate(said)]
        await session.prepare(history[:1])
        await session.prepare(history[2:3])
        await session.prepare([{"role": role, "content": "Summary: they spoke of parcels."}, *history[1:5]])
        # A summary with an id, as some frameworks give it.
        await session.prepare([user("Here is a summary: parcels went out.") | {"id": "s1"}, *history[4:]])
        assert await recorded(session) == said


@pytest.mark.parametrize("has_ids", [False, True])
async def test_a_host_that_keeps_its_beginning_and_only_what_is_new_takes_nothing_back(has_ids: bool) -> None:
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("a")
        said = [(assistant if n % 2 else user)(f"Parcel {n} went to Bergen.") for n in range(15)]
        history = [message | ({"id": f"m{n}"} if has_ids else {}) for n, message in enumerate(said)]
        for end in (1, 3, 9):
            await session.prepare(history[:end])
        await session.prepare([*history[:2], *history[9:]])
        assert await recorded(session) == [m["content"] for m in said]
        # But who goes another way and back has each as it was.
        await session.prepare(history)
        for end in (user("What of parcel 88-1431?"), user("Thank you.")):
            way = [*history[:4], end] if "88" in end["content"] else [*history, end]
            await session.prepare(way)
            assert await recorded(session) == [m["content"] for m in way]


async def test_an_opening_that_a_host_keeps_is_recorded_once_though_what_follows_is_short() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("a")
        said = [user(PEANUTS), user("My order is 88-1431."), assistant("ok"), user("yes")]
        await session.prepare(said)
        said += [assistant("Your parcel is on its way."), user("When will it be in Bergen?")]
        await session.prepare([said[0], *said[-4:]])
        assert await recorded(session) == [m["content"] for m in said]


async def test_an_opening_after_a_restart_is_recorded_once_too() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("a")
        before = [user(PEANUTS), assistant("Noted."), user("What can I cook?")]
        await session.prepare(before)
        said = [(assistant if n % 2 else user)(f"Parcel {n} went to Bergen.") for n in range(7)]
        for view in (said[:1], said[:3], said[2:5], [said[0], *said[3:]]):
            await session.prepare(view)
        assert await recorded(session) == [m["content"] for m in (*before, *said)]


async def test_a_short_message_under_another_id_of_the_host_was_said_again() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        for ident in ("m1", "m1", "m2"):
            await memory.session("a").prepare([user("hi") | {"id": ident}])
        assert [m.id for m in await memory.session("a").messages()] == ["m1", "m2"]


@pytest.mark.parametrize("reopened", [False, True])
async def test_a_short_message_that_is_all_a_host_has_was_said_again(tmp_path: Path, reopened: bool) -> None:
    memory = onlooker.open_memory(tmp_path / "a.db")
    await memory.session("a").prepare([user(PEANUTS), assistant("Noted."), user("yes")])
    if reopened:
        await memory.close()
        memory = onlooker.open_memory(tmp_path / "a.db")
    context = await memory.session("a").prepare([user("yes")])  # the bot was restarted
    assert context.openai()[-1] == user("yes")
    assert await recorded(memory.session("a")) == [PEANUTS, "Noted.", "yes", "yes"]
    await memory.close()


async def test_the_same_history_twice_at_once_is_recorded_once() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        session, history = memory.session("a"), History()
        for turn in range(5):
            history.append(user(f"My order is 88-{turn}."))
            contexts = await asyncio.gather(*(session.prepare(list(history)) for _ in range(4)))
            assert all(context.openai()[-1] == history[-1] for context in contexts)
            assert await recorded(session) == [m["content"] for m in history]
            history.append(assistant(f"Thanks for 88-{turn}."))


@pytest.mark.parametrize("tabs", [2, 4])
async def test_each_tab_gets_an_answer_to_its_own_question(tabs: int) -> None:
    base = [
        (user if i % 2 == 0 else assistant)(f"Line {i} of what both tabs have in common.") for i in range(10)
    ]
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("a")
        await session.prepare(base[:-1])
        histories = [list(base) for _ in range(tabs)]

        async def speak(tab: int) -> None:
            for turn in range(8):
                histories[tab].append(user(f"Tab {tab} asks question {turn}."))
                context = await session.prepare(histories[tab])
                assert context.openai()[-1] == histories[tab][-1]
                histories[tab].append(assistant(f"Tab {tab} has answer {turn}."))
                await asyncio.sleep(0)

        await asyncio.gather(*(speak(tab) for tab in range(tabs)))
        context = await session.prepare([*histories[0], user("And the end?")])
        assert all(m["content"] in context.text() for m in histories[0])
        known = {m.text for m in (*await session.messages(), *await session.history.taken_back())}
        assert {m["content"] for history in histories for m in history[:-1]} <= known


@pytest.mark.parametrize("tabs", [2, 4])
async def test_tabs_whose_conversations_need_notes_keep_them_and_see_nothing_of_each_other(tabs: int) -> None:
    common = [(user if i % 2 == 0 else assistant)(f"Line {i} of both. {words(i)}") for i in range(10)]
    async with onlooker.open_memory(":memory:", budget=2000) as memory:
        session = memory.session("a")
        await session.prepare(common[:-1])
        histories = [list(common) for _ in range(tabs)]

        async def speak(tab: int) -> None:
            for turn in range(16):
                histories[tab].append(user(f"Tab {tab} asks question {turn}. {words(turn)}"))
                context = await session.prepare(histories[tab])
                assert context.messages[-1].text == histories[tab][-1]["content"]
                assert not any(f"Tab {other}" in context.text() for other in range(tabs) if other != tab)
                assert (context.stats.left_out_messages, context.stats.left_out_notes) == (0, 0)
                histories[tab].append(assistant(f"Tab {tab} has answer {turn}. {words(turn + 1)}"))
                await asyncio.sleep(0)

        await asyncio.gather(*(speak(tab) for tab in range(tabs)))


async def test_tabs_by_turns_leave_nothing_out_on_a_machine_that_has_no_time() -> None:
    """Who comes back to a branch is shown its notes again: that takes no time from noting what is new."""
    common = [(assistant if i % 2 else user)(f"Line {i} of both. {long(i)}") for i in range(20)]
    timing, histories = Timing(on_the_spot=0.0), [list(common), list(common)]
    async with onlooker.open_memory(":memory:", budget=4_000, timing=timing) as memory:
        session = memory.session("a")
        await session.prepare(common[:-1])
        for turn in range(36):
            for tab, history in enumerate(histories):
                history.append(user(f"Tab {tab} asks question {turn}. {long(turn)}"))
                context = await session.prepare(history)
                assert context.messages[-1].text == history[-1]["content"]
                assert (context.stats.left_out_messages, context.stats.left_out_notes) == (0, 0)
                history.append(assistant(f"Tab {tab} has answer {turn}. {long(turn + 1)}"))


def long(seed: int) -> str:
    return " ".join(words(seed * 3 + part) for part in range(3))


def words(seed: int) -> str:
    known = ["boat", "ferry", "Bergen", "Oslo", "parcel", "letter", "harbour", "late"]
    return " ".join(random.Random(seed).choices(known, k=25))


async def test_who_goes_to_another_branch_and_back_pays_for_no_note_twice() -> None:
    model = ScriptedModel()
    async with onlooker.open_memory(":memory:", model=model, budget=2000) as memory:
        session, history = memory.session("a"), History()
        for turn in range(20):
            history.append(user(f"Question {turn}. {words(turn)}"))
            await session.prepare(history)
            await session.settle()
            history.append(assistant(f"Answer {turn}. {words(turn + 1)}"))
        other = [*history[:10], user("Another question, of Turin.")]
        await session.prepare(other)
        await session.settle()
        noted = [m.id for r in model.requests if isinstance(r, ObserveRequest) for m in r.messages]
        context = await session.prepare([*history, user("And the end?")])
        await session.settle()
        again = [m.id for r in model.requests if isinstance(r, ObserveRequest) for m in r.messages]
        assert again == noted
        assert context.stats.left_out_messages == 0
        assert "Turin" not in context.text()
        await check_coverage(session)


async def test_what_was_taken_back_is_counted_listed_and_brought_back() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("a")
        history = [user("Where do we meet?"), assistant("In Oslo, at the harbour."), user("And when?")]
        await session.prepare(history[:1])
        await session.prepare([*history, assistant("At noon."), user("Who brings the boat?")])
        context = await session.prepare([*history[:2], user("What do I bring?")])
        assert context.stats.retired == 3
        assert "boat" not in context.text()
        gone = await session.history.taken_back()
        assert [m.text for m in gone] == ["And when?", "At noon.", "Who brings the boat?"]
        back = await session.history.restore(gone[0].id)
        assert [m.text for m in back] == ["And when?", "At noon.", "Who brings the boat?"]
        assert await session.history.taken_back() == []
        text = (await session.context()).text()
        assert text.index("boat") < text.index("What do I bring?")
        with pytest.raises(KeyError):
            await session.history.restore(gone[0].id)


async def test_with_rewind_never_nothing_is_taken_back() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("a")
        history = [user("Where do we meet?"), assistant("In Oslo, at the harbour."), user("And when?")]
        await session.prepare(history)
        context = await session.prepare([*history[:2], user("What do I bring?")], rewind="never")
        assert context.stats.retired == 0
        assert await recorded(session) == [m["content"] for m in history] + ["What do I bring?"]
        with pytest.raises(onlooker.errors.SettingsError):
            await session.prepare(history, rewind="sometimes")  # pyright: ignore[reportArgumentType]


async def test_with_rewind_refuse_only_what_continues_is_recorded() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("a")
        history = [user("Where do we meet?"), assistant("In Oslo, at the harbour."), user("And when?")]
        await session.prepare(history[:1], rewind="refuse")
        await session.prepare(history, rewind="refuse")
        with pytest.raises(onlooker.errors.ConflictError):
            await session.prepare([*history[:2], user("What do I bring?")], rewind="refuse")
        history += [assistant("At noon."), user("Thanks.")]
        context = await session.prepare(history, rewind="refuse")
        assert [m["content"] for m in context.openai()] == [m["content"] for m in history]
        assert await recorded(session) == [m["content"] for m in history]


BERGEN, STAVANGER = "I live in Bergen, near the harbour.", "I live in Stavanger, near the church."


@pytest.mark.parametrize("rewind", ["auto", "never"])
@pytest.mark.parametrize("alone", [False, True])
async def test_an_edited_first_message_with_the_hosts_own_id_is_recorded(
    tmp_path: Path, alone: bool, rewind: Rewind
) -> None:
    rest = (
        []
        if alone
        else [assistant("How can I help?") | {"id": "m1"}, user("A train to Oslo.") | {"id": "m2"}]
    )
    before = [user(BERGEN) | {"id": "m0"}, *rest]
    edited = [user(STAVANGER) | {"id": "m0"}, *rest]
    async with onlooker.open_memory(tmp_path / "a.db") as memory:
        session = memory.session("a")
        await session.prepare(before)
        context = await session.prepare(edited, rewind=rewind)
        assert STAVANGER in context.text()
        replaced = rewind == "auto" and not alone
        assert context.stats.retired == replaced
        first = [] if replaced else [BERGEN]
        said = [*first, STAVANGER, *(m["content"] for m in rest)]
        assert sorted(await recorded(session)) == sorted(said)
        assert [hit.text for hit in await session.search("Bergen")] == [BERGEN]
    # The same again, and one more, in a process that has not seen the history before.
    async with onlooker.open_memory(tmp_path / "a.db") as memory:
        session = memory.session("a")
        await session.prepare(edited, rewind=rewind)
        await session.prepare([*edited, user("And back?") | {"id": "m3"}], rewind=rewind)
        assert sorted(await recorded(session)) == sorted([*said, "And back?"])


async def test_ids_that_begin_anew_with_each_conversation_take_nothing_back() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("a")
        await session.prepare(
            [user(BERGEN) | {"id": 0}, assistant("Noted.") | {"id": 1}, user(PEANUTS) | {"id": 2}]
        )
        context = await session.prepare([user("Which ferry goes to Bodø?") | {"id": 0}])
        assert [m.text for m in context.messages] == [BERGEN, "Noted.", PEANUTS, "Which ferry goes to Bodø?"]
        assert context.stats.retired == 0


@pytest.mark.parametrize("turns", [30, pytest.param(300, marks=pytest.mark.long)])
async def test_what_was_said_once_is_in_the_prompt_however_fast_the_rest_comes(
    turns: int, tmp_path: Path
) -> None:
    async with onlooker.open_memory(tmp_path / "memory.db", budget=2_000) as memory:
        session = memory.session("chat")
        await session.record(onlooker.user("I'm allergic to peanuts. My order is 88-1431."))
        for n in range(turns):
            await session.record(
                onlooker.user(f"Tell me about star {n}."),
                onlooker.assistant(f"Star {n} is far away. " * 20),
            )
        await session.record(onlooker.user("What should I not eat?"))
        context = await session.context(system="You are helpful.")
        assert "allergic to peanuts" in context.system
        assert context.messages[-1].text == "What should I not eat?"
        assert context.stats.total <= 2_000


# ------------------------------------------------------------------------------------ a long history

LONG_PAST = [
    (user if i % 2 == 0 else assistant)(f"Parcel {i} of order 88-{i:04} went to Bergen by the late ferry.")
    for i in range(301)
]


@pytest.mark.parametrize("workers", ["embedded", "external"])
async def test_of_a_long_past_that_comes_at_once_the_first_turn_recalls_what_is_asked(
    workers: Literal["embedded", "external"],
) -> None:
    """It takes no note of it, which is left to the workers for a while."""
    past = [(user if i % 2 == 0 else assistant)(f"Parcel {i} went to Bergen. " * 10) for i in range(300)]
    past[4] = user("My sister Eva bakes bread in Trondheim.")
    async with onlooker.open_memory(":memory:", budget=2_000, workers=workers) as memory:
        session = memory.session("a")
        context = await session.prepare([*past, user("Where does Eva bake her bread?")])
        assert "My sister Eva bakes bread in Trondheim." in context.end
        assert context.stats.left_out_messages > 200
        assert not context.stats.observations
        await memory.background.flush()
        await session.settle()
        context = await session.context()
        assert context.stats.left_out_messages == 0
        assert context.stats.total <= 2_000


@pytest.mark.parametrize("way", ["prepare", "record", "in parts"])
async def test_a_long_past_is_counted_until_it_is_noted_and_then_all_behind_notes(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("recording", "note_taker"):
        monkeypatch.setattr(f"onlooker.engine.{module}.MIN_READ", 40)
    async with onlooker.open_memory(":memory:", budget=1000, workers="external") as memory:
        session = memory.session("a")
        if way == "record":
            await session.record(LONG_PAST)
            context = await session.context()
        elif way == "prepare":
            context = await session.prepare(LONG_PAST)
        else:
            for end in (1, 151):
                await session.prepare(LONG_PAST[:end])
            context = await session.prepare(LONG_PAST)
        assert context.openai()[-1] == LONG_PAST[-1]
        assert context.stats.total <= 1000
        shown, noted = len(context.messages), sum(n.last - n.first + 1 for n in await session.notes())
        assert context.stats.left_out_messages == 301 - shown - noted > 30
        assert context.stats.pending_tokens > 1000
        await session.settle()
        await check_coverage(session)
        context = await session.prepare([*LONG_PAST, user("And where is parcel 17 now?")])
        assert context.stats.left_out_messages == context.stats.left_out_notes == 0
        assert len(await session.messages()) == 302


async def test_an_early_edit_of_a_long_past_is_counted_and_noted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("recording", "note_taker"):
        monkeypatch.setattr(f"onlooker.engine.{module}.MIN_READ", 40)
    async with onlooker.open_memory(":memory:", budget=1000, workers="external") as memory:
        session = memory.session("a")
        await session.prepare(LONG_PAST)
        await session.settle()
        edited = [*LONG_PAST[:4], user("Parcel 4 went to Bodø instead."), *LONG_PAST[5:]]
        context = await session.prepare(edited)
        assert context.openai()[-1] == LONG_PAST[-1]
        assert context.stats.left_out_messages > 100
        await session.settle()
        await check_coverage(session)
        context = await session.prepare(edited)
        assert context.stats.left_out_messages == 0
        assert [m["content"] for m in edited] == await recorded(session)


async def test_a_backlog_of_short_messages_is_read_on_until_there_is_enough_for_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onlooker.engine.note_taker.MIN_READ", 4)
    async with onlooker.open_memory(":memory:", budget=2000, workers="external") as memory:
        session = memory.session("a")
        await session.record([user(f"Parcel {n} left.") for n in range(300)])
        async with asyncio.timeout(120):  # only reading the same part again and again would take as long
            assert await session.settle()
        await check_coverage(session)
        assert (await session.notes())[-1].last > 200


# ------------------------------------------------------------------------------------ a long history at once


class WatchingClock(FrozenClock):
    """Counts who asks for the time: for each message that gets an id it is asked once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Counter[int]()

    def now(self) -> datetime:
        self.asked[threading.get_ident()] += 1
        return super().now()


@pytest.mark.parametrize("way", ["record", "prepare"])
async def test_a_long_past_handed_over_at_once_is_read_beside_the_event_loop(way: str) -> None:
    history = [(assistant if i % 2 else user)(f"Parcel {i} is in hall {i % 7}.") for i in range(2_000)]
    clock = WatchingClock()
    async with onlooker.open_memory(":memory:", workers="external", clock=clock) as memory:
        session = memory.session("k")
        await (session.record(*history) if way == "record" else session.prepare(history))
        assert len(await session.messages()) == len(history)
    assert sum(clock.asked.values()) > len(history)
    assert clock.asked[threading.get_ident()] < 100


@pytest.mark.parametrize("way", ["record", "prepare"])
async def test_a_turn_waits_for_few_notes_of_a_long_past(way: str) -> None:
    words = "of order 88-1431 with the blue boxes went to Bergen by the late ferry and came back by train"
    history = [(assistant if i % 2 else user)(f"Parcel {i} {words}, says clerk {i}.") for i in range(801)]
    taken: list[Noted | Reflected] = []
    async with onlooker.open_memory(":memory:", budget=8000) as memory:
        memory.subscribe(lambda e: taken.append(e) if isinstance(e, Noted | Reflected) else None)
        session = memory.session("k")
        if way == "record":
            await session.record(*history)
        for turn in range(4):
            before = len(taken)
            if way == "record":
                await session.record(user(f"And in turn {turn}?"))
                context = await session.context()
            else:
                history += [assistant(f"Yes, {turn}."), user(f"And in turn {turn}?")]
                context = await session.prepare(history)
            # There are about fifty to take. It waited for all of them.
            assert len(taken) - before <= 8
            assert context.stats.left_out_notes == 0
        await session.settle()
        context = await session.context()
        assert context.stats.left_out_messages == context.stats.left_out_notes == 0


async def test_a_prompt_continues_its_own_conversation_though_another_tab_goes_another_way() -> None:
    base = [(assistant if i % 2 else user)(f"Line {i} of what both tabs have in common.") for i in range(12)]
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("a")
        await session.prepare(base[:-1])
        for turn in range(3):
            ours = [*base, user(f"Which ferry goes to Bodø, and is turn {turn} a good time?")]
            edited = user(f"Line 4, said in other words in turn {turn}.")
            theirs = [*base[:4], edited, *base[5:], user(f"Who brings the boat in turn {turn}?")]

            async def other_tab(theirs: History = theirs) -> str:
                await session.prepare(theirs)
                return "What was learned."

            # While a layer is filled, the other tab edits a message: all that follows it moves.
            context = await session.prepare(ours, knowledge={"learnings": lambda _: other_tab()})
            assert context.openai()[1:] == ours
            known = {m.text for m in (*await session.messages(), *await session.history.taken_back())}
            assert {m["content"] for m in (*ours, *theirs)} <= known


async def test_a_prompt_has_notes_of_all_that_does_not_fit_though_another_tab_went_another_way() -> None:
    base = [
        (assistant if i % 2 else user)(
            f"Parcel 88-{i:03} weighs {i} kg and goes to Bergen by the late ferry. " * 3
        )
        for i in range(24)
    ]
    async with onlooker.open_memory(":memory:", budget=1_000, workers="external") as memory:
        session = memory.session("a")
        await session.prepare(base[:1])
        ours = [*base, user("Which ferry goes to Bodø?")]
        theirs = [base[0], base[1], user("Parcel 88-002 goes to Oslo instead."), *base[3:]]

        async def other_tab() -> str:
            await session.prepare([*theirs, user("Who brings the boat?")])
            return "What was learned."

        context = await session.prepare(ours, knowledge={"learnings": lambda _: other_tab()})
        assert context.openai()[-1] == ours[-1]
        assert context.stats.total <= 1_000
        assert (context.stats.left_out_messages, context.stats.left_out_notes) == (0, 0)
        assert "88-001" in context.system
        assert "boat" not in context.text()
        # What was noted for that prompt alone is not the other tab's memory.
        await session.settle()
        await check_coverage(session)
        assert "Bodø" not in (await session.prepare([*theirs, user("Who brings the boat?")])).text()


# ------------------------------------------------------------------------------------ at the same moment


async def test_programs_that_write_at_the_same_moment_each_get_their_own_context_and_record_both(
    tmp_path: Path,
) -> None:
    """A prompt is made while its messages are written. Of two, the second is made again."""
    said = [user("Hello there."), assistant("Good day.")]
    one, other = onlooker.open_memory(tmp_path / "a.db"), onlooker.open_memory(tmp_path / "a.db")
    async with one, other:
        sessions = one.session("a"), other.session("a")
        for session in sessions:
            await session.prepare(said)
        texts = "My code is 7718.", "My hall is 12."
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as third:
            third.execute("BEGIN IMMEDIATE")
            asked = [
                asyncio.ensure_future(session.prepare([*said, user(text)]))
                for session, text in zip(sessions, texts, strict=True)
            ]
            done, _ = await asyncio.wait(asked, timeout=0.3)
            assert not done  # what is returned is on disk
            third.execute("ROLLBACK")
        contexts = await asyncio.gather(*asked)
        for text, context in zip(texts, contexts, strict=True):
            assert context.messages[-1].text == text
        assert sorted(await recorded(sessions[0])) == sorted(["Hello there.", "Good day.", *texts])
        assert sum(t in m.text for m in (await sessions[1].context()).messages for t in texts) == 2


async def test_a_prompt_ends_with_its_own_question_though_another_program_has_noted_it_by_then(
    tmp_path: Path,
) -> None:
    base = [(assistant if i % 2 else user)(f"Parcel 88-{i:03} goes to Bergen. {words(i)}") for i in range(8)]
    ours = [*base, user("Which ferry goes to Bodø?")]
    later = [(user if i % 2 else assistant)(f"Hall {i} is full. {words(i)}") for i in range(30)]
    one = onlooker.open_memory(tmp_path / "a.db", budget=1_000, workers="external")
    other = onlooker.open_memory(tmp_path / "a.db", budget=1_000)
    async with one, other:
        await one.session("a").prepare(base[:-1])

        async def go_on() -> str:
            await other.session("a").prepare([*ours, *later])
            await other.session("a").settle()
            return "What was learned."

        context = await one.session("a").prepare(ours, knowledge={"learnings": lambda _: go_on()})
        assert [m.text for m in context.messages][-1:] == [ours[-1]["content"]]
        assert "Bodø" in context.text()
