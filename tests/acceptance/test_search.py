"""Finding what was said, leading back to it, and being reminded of it in the prompt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

import onlooker
from onlooker import assistant, user
from onlooker.domain.errors import SettingsError, StoreError
from onlooker.domain.messages import Message
from onlooker.domain.search import MessageRef, Pick, Query
from onlooker.policy.settings import RECALL_SHARE
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 2, 16, 12, tzinfo=UTC)
SECRET = "The locker code at the hut is 4417."
ASKED = "What was the code of the locker at the hut?"
SYSTEM = "You are helpful."
RECALL = replace(onlooker.preset("default"), recall="session", budget=2_000)
# Its notes have nothing that recall would then leave out.
VAGUE = "They talked about several things and agreed on what to do next."
# No deadline that a busy machine could miss.
PATIENT = onlooker.Timing(recall_deadline=120)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(NOON)


@pytest.fixture(params=["memory", "sqlite"])
async def memory(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FrozenClock
) -> AsyncIterator[onlooker.Memory]:
    url = ":memory:" if request.param == "memory" else tmp_path / "agent.db"
    async with onlooker.open_memory(
        url, model=ScriptedModel(VAGUE), settings=RECALL, clock=clock, timing=PATIENT
    ) as memory:
        yield memory


def walk(n: int) -> tuple[onlooker.Message, onlooker.Message]:
    said = f"On stage {n} we walked past the lake number {n} and slept in a tent by the river near farm {n}."
    return user(said, name="Ana"), assistant(f"Stage {n} is written down, and so is farm {n}.")


async def told(session: onlooker.Session, stages: int = 60) -> onlooker.Session:
    """Something worth remembering, and much that comes after it."""
    await session.record(user(SECRET, name="Ana"), assistant("Noted."))
    for n in range(stages):
        await session.record(*walk(n))
    await session.settle()
    return session


# ------------------------------------------------------------------------------------ search


async def test_what_was_said_is_found_at_once_and_led_back_to(memory: onlooker.Memory) -> None:
    session = await told(memory.session("a", owner="ana"))
    hits = await memory.search("locker codes", owner="ana", kinds=["message"], marks=("<", ">"))
    assert (hits[0].seq, hits[0].session.key, hits[0].speaker) == (1, "a", "Ana")
    assert hits[0].snippet == "The <locker> <code> at the hut is 4417."
    assert [m.seq for m in await session.recall(hits[0], neighbours=1)] == [1, 2]
    assert [m.text for m in await session.recall(1)] == [SECRET]
    await session.record(user("The ferry to Bergen leaves at nine"))
    assert [h.text for h in await session.search("ferry")] == ["The ferry to Bergen leaves at nine"]


async def test_notes_are_found_and_lead_back_page_by_page() -> None:
    memory = onlooker.open_memory(":memory:", settings="lango")
    session = memory.session("a", owner="ana")
    await session.record([m for n in range(60) for m in walk(n)])
    await session.settle()
    await session.record(user("The end."), assistant("Fine."))
    hit = (await session.search("lake river tent", kinds=["note"], limit=1))[0]
    whole = await session.recall(hit)
    assert list(whole) == list(await session.recall(hit.id))
    assert len(whole) > 50
    pages = [await session.recall(hit, page=page) for page in (1, 2, 3, 4)]
    assert len(pages[0]) == 50
    assert [m for page in pages for m in page] == list(whole)
    wider = await session.recall(hit, neighbours=2)
    assert wider[0].seq == max(1, whole[0].seq - 2)
    assert wider[-1].seq == whole[-1].seq + 2
    assert len({m.id for m in wider}) == len(wider)
    await memory.close()


@pytest.mark.req(79)
async def test_nothing_of_another_owner_or_session_is_found_or_recalled(memory: onlooker.Memory) -> None:
    await told(memory.session("a", owner="ana"), 3)
    ben = memory.session("a", owner="ben")
    await ben.record(user("I lost the code of my locker"))
    assert await memory.search("hut 4417", owner="ben") == []
    # By time alone, after all of both is indexed.
    assert await ben.search("locker")
    for owner, other in (("ana", "I lost"), ("ben", "4417")):
        then = await memory.search("", owner=owner, after=NOON - timedelta(days=1))
        assert then
        assert not any(other in hit.text for hit in then)
    assert await memory.search("4417", owner="an") == []
    assert await memory.search("4417", owner="ana", session="b") == []
    assert await memory.session("b", owner="ana").search("4417") == []
    hit = (await memory.search("4417", owner="ana"))[0]
    with pytest.raises(SettingsError):
        await ben.recall(hit)
    assert [m.text for m in await memory.session("b", owner="ana").recall(hit)] == [SECRET]
    assert "4417" not in (await ben.context(question=ASKED)).text()


async def test_a_search_can_be_bounded_in_time_and_number(
    memory: onlooker.Memory, clock: FrozenClock
) -> None:
    session = memory.session("a")
    for day in range(4):
        await session.record(user(f"tea on day {day}"))
        clock.advance(86_400)
    found = await session.search("tea", after=NOON + timedelta(days=1), before=NOON + timedelta(days=3))
    assert sorted(h.seq for h in found) == [2, 3]
    assert [h.seq for h in await session.search("", after=NOON + timedelta(days=2))] == [4, 3]
    assert len(await session.search("tea", limit=1)) == 1
    assert await session.search("") == []
    with pytest.raises(SettingsError):
        await session.search("tea", kinds=["letter"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(SettingsError):
        await session.search("tea", limit=0)
    with pytest.raises(SettingsError):
        await session.recall(1, neighbours=-1)
    with pytest.raises(SettingsError):
        await session.recall(1, page=0)


async def test_what_was_taken_back_is_found_and_marked_and_in_no_prompt(memory: onlooker.Memory) -> None:
    session = memory.session("a")
    first = {"role": "user", "content": "I own a boat"}
    await session.prepare([first, {"role": "assistant", "content": "A fine boat"}])
    assert [h.taken_back for h in await session.search("boat")] == [False, False]
    await session.prepare([first, {"role": "assistant", "content": "A fine ship"}])
    assert [(h.text, h.taken_back) for h in await session.search("fine")] == [
        ("A fine ship", False),
        ("A fine boat", True),
    ]
    gone = (await memory.search("fine boat"))[0]
    assert (gone.kind, gone.text, gone.taken_back) == ("message", "A fine boat", True)
    for target in (gone, gone.seq):
        assert [m.text for m in await session.recall(target)] == ["A fine boat"]
    assert [m.text for m in await session.recall(gone, neighbours=1)][:2] == ["I own a boat", "A fine boat"]
    assert "A fine boat" not in (await session.context(question="fine boat")).text()
    assert "A fine boat" not in await session.tools().call("memory_search", {"query": "fine boat"})
    await session.history.restore(gone.id)
    assert [h.taken_back for h in await session.search("fine")] == [False, False]
    await session.delete()
    assert await memory.search("boat ship") == []


async def test_an_edited_message_is_found_as_it_was(memory: onlooker.Memory) -> None:
    session = memory.session("a")
    greeting = {"role": "assistant", "content": "Hello! What do you do on holidays?", "id": "m0"}
    for text in ("I own a boat", "I own a kite", "I own a cat"):
        await session.prepare([greeting, {"role": "user", "content": text, "id": "m1"}])
    found = await session.search("own")
    assert [(h.id, h.text, h.taken_back) for h in found] == [
        ("m1", "I own a cat", False),
        ("m1", "I own a kite", True),
        ("m1", "I own a boat", True),
    ]


def test_search_works_without_await(tmp_path: Path) -> None:
    with onlooker.blocking.open_memory(tmp_path / "agent.db") as memory:
        session = memory.session("a", owner="ana")
        session.record(user(SECRET))
        hit = memory.search("locker", owner="ana")[0]
        assert hit == session.search("locker")[0]
        assert session.recall(hit)[0].text == SECRET
        assert session.context(question=ASKED).stats.recall == 0  # it stands in the prompt already


# ------------------------------------------------------------------------------------ recall


async def test_a_question_finds_its_answer_in_the_prompt_word_for_word(memory: onlooker.Memory) -> None:
    session = await told(memory.session("a", owner="ana"))
    context = await session.context(system=SYSTEM, question=ASKED, budget=1_000)
    assert f"## 2026-02-16\nAna: {SECRET}" in context.end
    assert context.openai()[-1] == {"role": "system", "content": context.end}
    assert context.stats.recall == context.stats.end > 50
    assert context.messages[-1].text.startswith("Stage 59")
    assert context.stats.total <= 1_000
    lakes = await session.context(system=SYSTEM, question="At which lakes did we sleep?", budget=1_000)
    assert 700 < lakes.stats.recall < lakes.stats.total <= 1_000


async def test_a_question_leaves_everything_else_as_it_was(memory: onlooker.Memory) -> None:
    session = await told(memory.session("a", owner="ana"))
    await session.context(system=SYSTEM)
    await session.settle()  # what the budget has made due
    before, state = await session.context(system=SYSTEM), await session.history.state()
    await session.context(system=SYSTEM, question=ASKED)
    assert await session.context(system=SYSTEM) == before
    assert await session.history.state() == state


@pytest.mark.req(53)
async def test_every_turn_is_reminded_and_the_prefix_stays(memory: onlooker.Memory) -> None:
    session = await told(memory.session("a", owner="ana"))
    asked = ["Where is lake number 7?", ASKED, "Which farm was near stage 20?"]
    prompts: list[onlooker.Context] = []
    for question in (*asked, *asked):
        await session.record(user(question))
        await session.settle()
        prompts.append(await session.context(system=SYSTEM))
    same = [(p, q) for p, q in pairwise(prompts) if p.stats.prompt_version == q.stats.prompt_version]
    assert same  # no note came between
    for before, after in same:
        assert after.system == before.system
        assert after.messages[: len(before.messages)] == before.messages
    assert "lake number 7 " in prompts[0].end
    assert SECRET in prompts[1].end
    assert "farm 20" in prompts[2].end
    for prompt in prompts:
        assert 0 < prompt.stats.recall <= 2 * RECALL_SHARE * 2_000
        assert prompt.stats.total <= 2_000
        assert prompt.stats.left_out_messages == 0


async def test_what_the_prompt_shows_is_not_repeated(memory: onlooker.Memory) -> None:
    session = memory.session("a")
    await session.record(user(SECRET), assistant("Noted."), user(ASKED))
    context = await session.context(system=SYSTEM)
    assert context.end == ""
    assert context.text().count("4417") == 1


async def test_a_turn_that_asks_nothing_is_reminded_of_nothing(memory: onlooker.Memory) -> None:
    session = await told(memory.session("a"))
    await session.record(user("And what was it then?"), assistant("What?"), user("you know which"))
    assert (await session.context()).end == ""


async def test_what_the_host_puts_at_the_end_stays_there(memory: onlooker.Memory) -> None:
    session = await told(memory.session("a"))
    context = await session.context(question=ASKED, end="Answer in one line.", relative_time=True)
    assert context.end.startswith("## Recalled\n")
    assert context.end.endswith("\nAnswer in one line.")
    assert "Now: 2026-02-16" in context.end


async def test_other_sessions_of_the_owner_are_recalled_where_that_is_wanted(tmp_path: Path) -> None:
    for scope in ("session", "owner"):
        settings = replace(RECALL, recall=scope)
        async with onlooker.open_memory(
            tmp_path / f"{scope}.db", settings=settings, timing=PATIENT
        ) as memory:
            await memory.session("old", owner="ana").record(user(SECRET))
            await memory.session("hers", owner="eva").record(user("My locker code is 9999"))
            today = memory.session("new", owner="ana")
            await today.record(user(ASKED))
            context = await today.context(system=SYSTEM)
            assert ("4417" in context.end) == (scope == "owner")
            assert "9999" not in context.text()


@pytest.mark.parametrize(("owner", "limit"), [("", 0.1), ("ana", 0)])
async def test_sessions_that_share_no_facts_recall_nothing_of_each_other(owner: str, limit: float) -> None:
    settings = replace(RECALL, recall="owner", cross_session_limit=limit)
    async with onlooker.open_memory(":memory:", settings=settings, timing=PATIENT) as memory:
        of_owner = {"owner": owner} if owner else {}
        await memory.session("old", **of_owner).record(user(SECRET))
        today = memory.session("new", **of_owner)
        await today.record(user(ASKED))
        assert "4417" not in (await today.context(system=SYSTEM)).text()


async def test_a_context_for_a_question_has_what_was_noted_last() -> None:
    async with onlooker.open_memory(":memory:", settings=replace(RECALL, budget=2_000)) as memory:
        session = memory.session("a")
        for n in range(80):
            said = f"On day {n} we walked past lake {n} and slept in hut {n}, where the keeper {n} had soup."
            await session.record(user(said, name="Ana"), assistant("Good."))
            await session.settle()
        newest = (await session.notes())[-1].text.splitlines()[-1]
        context = await session.context(question="Which lake did we walk past, and who had soup in the hut?")
        assert context.stats.recall > context.stats.observations + context.stats.reflections
        assert context.stats.shortened_notes + context.stats.left_out_notes > 0
        assert newest in context.system


class Troubled(SqliteStore):
    """Searching fails, or never ends."""

    trouble = "none"
    searches = 0

    async def search_around(
        self, queries: Sequence[Query], pick: Pick, reach: int
    ) -> Mapping[MessageRef, Message]:
        self.searches += 1
        if self.trouble == "failing":
            raise StoreError("the index is damaged")
        if self.trouble == "broken":
            raise RuntimeError("a bug")
        if self.trouble == "slow":
            await asyncio.sleep(3600)
        return await super().search_around(queries, pick, reach)


@pytest.mark.parametrize("trouble", ["failing", "broken", "slow"])
async def test_no_failure_of_recall_reaches_the_turn(trouble: str, caplog: pytest.LogCaptureFixture) -> None:
    store = Troubled(":memory:")
    timing = onlooker.Timing(recall_deadline=1) if trouble == "slow" else PATIENT
    async with onlooker.open_memory(
        store, model=ScriptedModel(VAGUE), settings=RECALL, timing=timing
    ) as memory:
        session = await told(memory.session("a"))
        await session.record(user(ASKED))
        await session.context(system=SYSTEM)  # the first one tells the budget, which may call for notes
        await session.settle()
        well = await session.context(system=SYSTEM)
        store.trouble = trouble
        with caplog.at_level(logging.WARNING, "onlooker"):
            async with asyncio.timeout(120):
                context = await session.context(system=SYSTEM)
    if trouble != "slow":  # a busy machine may miss its short deadline the first time as well
        assert "4417" in well.end
    assert context.end == ""
    assert (context.system, context.messages) == (well.system, well.messages)
    assert "recall" in caplog.text


async def test_every_turn_recalls_unless_that_is_turned_off(tmp_path: Path) -> None:
    for recall in ("owner", "off"):
        settings = replace(onlooker.preset("default"), budget=2_000, recall=recall)
        async with onlooker.open_memory(
            tmp_path / f"{recall}.db", model=ScriptedModel(VAGUE), settings=settings, timing=PATIENT
        ) as memory:
            session = await told(memory.session("a"))
            await session.record(user(ASKED))
            assert ("4417" in (await session.context(system=SYSTEM)).end) == (recall == "owner")
            assert "4417" in (await session.context(system=SYSTEM, question=ASKED)).end
    assert onlooker.preset("default").recall == "owner"


async def test_thanks_recall_nothing_and_a_short_follow_up_is_understood(memory: onlooker.Memory) -> None:
    session = await told(memory.session("a"))
    await session.record(user(ASKED), assistant("The locker code is 4417."), user("Thanks!"))
    assert (await session.context(system=SYSTEM)).stats.recall == 0
    await session.record(assistant("Anything else about the locker?"), user("Where is it?"))
    assert SECRET in (await session.context(system=SYSTEM)).end


async def test_no_note_leaves_the_prompt_for_what_a_turn_recalls(tmp_path: Path) -> None:
    """What is set aside for recall is planned for: notes are condensed to leave it, and come first."""
    async with onlooker.open_memory(tmp_path / "agent.db", budget=2_000, timing=PATIENT) as memory:
        session = memory.session("a")
        recalled = 0
        for n in range(120):
            await session.record(*walk(n))
            if n % 7 == 0:
                await session.record(user(f"Which farm was near stage {n // 2}?"))
                stats = (await session.context(system=SYSTEM)).stats
                assert (stats.left_out_notes, stats.shortened_notes, stats.left_out_messages) == (0, 0, 0)
                assert stats.total <= 2_000
                recalled += stats.recall > 0
            await session.settle()
        assert recalled > 5


async def test_a_session_that_the_prompt_shows_whole_is_not_searched(tmp_path: Path) -> None:
    store = Troubled(":memory:")
    store.trouble = "broken"
    async with onlooker.open_memory(store) as memory:
        session = memory.session("a")
        await session.record(user(SECRET), assistant("Noted."), user(ASKED))
        assert (await session.context(system=SYSTEM)).end == ""
        assert store.searches == 0


async def test_recall_works_without_a_budget(tmp_path: Path) -> None:
    for preset in ("lango", "zora"):
        settings = replace(onlooker.preset(preset), recall="session")
        async with onlooker.open_memory(
            tmp_path / f"{preset}.db", settings=settings, timing=PATIENT
        ) as memory:
            session = await told(memory.session("a"), 300)
            await session.record(user(ASKED))
            context = await session.context(system=SYSTEM)
            assert "4417" in context.text()
            assert context.stats.recall <= 2_400


async def test_a_host_that_hands_over_its_history_is_reminded_too(memory: onlooker.Memory) -> None:
    session = memory.session("a")
    history = [{"role": "user", "content": SECRET}, {"role": "assistant", "content": "Noted."}]
    for n in range(60):
        asked, answered = walk(n)
        history += [{"role": "user", "content": asked.text}, {"role": "assistant", "content": answered.text}]
    await session.prepare(history)
    await session.settle()
    history.append({"role": "user", "content": "Let us see."})
    assert SECRET in (await session.prepare(history, question=ASKED)).end


async def after_much_else(session: onlooker.Session, *said: onlooker.Message) -> onlooker.Session:
    """These messages, and what pushes them out of the messages that stand raw."""
    await session.record(*said)
    for n in range(60):
        await session.record(*walk(n))
    await session.settle()
    return session


async def test_what_is_recalled_begins_after_its_greeting_and_keeps_its_yes(memory: onlooker.Memory) -> None:
    session = await after_much_else(
        memory.session("chat"),
        user("Hey! Thanks so much! The telescope stands in the attic.", name="Ana"),
        assistant("Yes! The telescope needs a cover, too."),
    )
    await session.record(user("Where does the telescope stand, and what does it need?"))
    end = (await session.context(system=SYSTEM)).end
    assert "Ana: The telescope stands in the attic." in end
    assert "assistant: Yes! The telescope needs a cover, too." in end


async def test_who_is_named_is_recalled_where_many_others_say_the_word(
    memory: onlooker.Memory,
) -> None:
    others = [user(f"A telescope, {n}.", name="Ben") for n in range(40)]
    session = memory.session("chat")
    await session.record(
        user("My telescope is from Jena, as my father told me.", name="Cleo"), *walk(100), *walk(101)
    )
    await after_much_else(session, *others)
    await session.record(user("Where is the telescope of Cleo from?"))
    assert "from Jena" in (await session.context(system=SYSTEM)).end
