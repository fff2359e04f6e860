"""What outlives a session: made when it ends, once, and in the prompts of the same owner's other sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import onlooker
from onlooker.domain.errors import ModelError, NotFoundError, StoreError
from onlooker.domain.events import Event, ItemsForgotten, ItemsMade
from onlooker.domain.items import Item
from onlooker.errors import SettingsError
from onlooker.policy.settings import DEFAULT, LANGO, ZORA
from onlooker.ports import ItemsRequest, ObserveRequest, Request
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio

DAY = 86_400
ANA = (
    ("Hi, I'm Ana and I live in Oslo.", "I'm allergic to peanuts.", "I prefer short answers."),
    ("We decided to use PostgreSQL for the ledger.", "I'm so tired right now."),
    ("What shall I cook tonight?",),
)
BEN = (
    ("I'm Ben. I have a dog called Rex.", "I never eat meat."),
    ("My sister Eva lives in Rome.",),
    ("Where do I live?",),
)


@pytest.fixture(params=["in memory", "in a file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return ":memory:" if request.param == "in memory" else str(tmp_path / "agent.db")


async def talk(session: onlooker.Session, *said: str) -> onlooker.Context:
    """A conversation as an agent has it: a context before each answer."""
    context = await session.context(system="Help.")
    for text in said:
        await session.record(onlooker.user(text))
        context = await session.context(system="Help.")
        await session.record(onlooker.assistant("I see."))
    return context


def about(context: onlooker.Context) -> list[str]:
    """The lines of the section about the owner."""
    parts = context.system.split("### About ", 1)
    return parts[1].split("\n\n")[0].splitlines()[1:] if len(parts) > 1 else []


# ------------------------------------------------------------------------------------ two owners


@pytest.mark.req(25, 79, 86)
async def test_two_owners_know_what_they_said_and_nothing_of_each_other(url: str, tmp_path: Path) -> None:
    clock = FrozenClock()
    settings = onlooker.Settings(journal=str(tmp_path / "journal"))
    async with onlooker.open_memory(url, settings=settings, clock=clock) as memory:
        contexts: dict[str, list[onlooker.Context]] = {"ana": [], "ben": []}
        for number, (of_ana, of_ben) in enumerate(zip(ANA, BEN, strict=True)):
            for owner, said in (("ana", of_ana), ("ben", of_ben)):
                # The same key for both: only the owner tells them apart.
                session = memory.session(f"chat:{number}", owner=owner)
                contexts[owner].append(await talk(session, *said))
                await session.end()
            clock.advance(DAY)
        last = contexts["ana"][2]
        assert about(last) == [
            '- Ana said: "We decided to use PostgreSQL for the ledger" (2026-02-17)',
            "- The user's name is Ana (2026-02-16)",
            "- Ana lives in Oslo (2026-02-16)",
            "- Ana is allergic to peanuts (2026-02-16)",
            "- Ana prefers short answers (2026-02-16)",
        ]
        assert last.stats.items > 0
        assert about(contexts["ana"][0]) == about(contexts["ben"][0]) == []
        shown = "\n".join(about(contexts["ben"][2]))
        assert "Rex" in shown
        assert "Rome" in shown
        for word in ("Oslo", "peanut", "PostgreSQL", "Ana"):
            for context in contexts["ben"]:
                assert word not in context.text()
            answer = (
                await memory.session("chat:2", owner="ben").tools().call("memory_search", {"query": word})
            )
            assert answer.startswith("Nothing is remembered")
        for context in contexts["ana"]:
            assert not any(word in context.text() for word in ("Rex", "Rome", "Eva", "Ben"))
        assert not {i.id for i in await memory.items.list("ana")} & {
            i.id for i in await memory.items.list("ben")
        }
        for owner in ("ana", "ben"):
            await memory.storage.export(tmp_path / f"{owner}.jsonl", owner=owner)
    alone = {owner: (tmp_path / f"{owner}.jsonl").read_text(encoding="utf-8") for owner in ("ana", "ben")}
    assert "peanut" in alone["ana"]
    assert "Rex" in alone["ben"]
    assert not any(word in alone["ben"] for word in ("Oslo", "peanut", "PostgreSQL"))
    assert not any(word in alone["ana"] for word in ("Rex", "Rome", "Eva"))
    # A line of the journal is of one owner, and a session's file of one session.
    journal = [file for file in (tmp_path / "journal").rglob("*") if file.is_file()]
    lines = [line for file in journal for line in file.read_text(encoding="utf-8").splitlines()]
    assert any("peanut" in line for line in lines)
    assert any("Rex" in line for line in lines)
    assert not [line for line in lines if "peanut" in line and "Rex" in line]
    of_sessions = [f.read_text(encoding="utf-8") for f in journal if '"message"' in f.read_text("utf-8")]
    assert len(of_sessions) >= 6
    assert not [text for text in of_sessions if "peanut" in text and "Rex" in text]


async def test_sessions_without_an_owner_share_nothing_unless_asked_to(url: str) -> None:
    async with onlooker.open_memory(url) as memory:
        await talk(memory.session("of somebody"), "I'm allergic to peanuts.")
        assert await memory.session("of somebody").end() == ()
        await memory.items.save("Somebody is allergic to peanuts")
        assert about(await talk(memory.session("of somebody else"), "Hello")) == []
        refused = (
            await memory.session("of somebody").tools().call("memory_save", {"summary": "Ana likes tea"})
        )
        assert "no owner" in refused
        found = await memory.session("of somebody else").tools().call("memory_search", {"query": "peanuts"})
        assert found.startswith("Nothing is remembered")


@pytest.mark.req(85, 86)
@pytest.mark.parametrize(("settings", "shared"), [(LANGO, False), (ZORA, True)])
async def test_a_preset_says_whether_sessions_share(settings: onlooker.Settings, shared: bool) -> None:
    async with onlooker.open_memory(":memory:", settings=settings) as memory:
        await talk(memory.session("one"), "I'm allergic to peanuts.")
        await memory.session("one").end()
        context = await talk(memory.session("two"), "What shall I cook?")
        assert ("- The user is allergic to peanuts" in context.system) is shared
        assert ("### About the user" in context.system) is shared


# ------------------------------------------------------------------------------------ what changes


async def test_what_changed_ends_the_old_item_and_says_since_when(url: str) -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(url, clock=clock) as memory:
        await talk(memory.session("one", owner="ana"), "I live in Oslo and work as a nurse.")
        await memory.session("one", owner="ana").end()
        clock.advance(3 * DAY)
        await talk(memory.session("two", owner="ana"), "I moved from Oslo to Bergen last week.")
        (moved,) = await memory.session("two", owner="ana").end()
        context = await talk(memory.session("three", owner="ana"), "Hello")
        assert about(context) == [
            "- The user moved from Oslo to Bergen last week (since 2026-02-09)",
            "- The user works as a nurse (2026-02-16)",
        ]
        history = await memory.items.history(moved.id, owner="ana")
        assert [(i.summary, i.status) for i in history] == [
            ("The user lives in Oslo", "ended"),
            ("The user moved from Oslo to Bergen last week", "live"),
        ]
        assert history[0].superseded_by == moved.id
        assert history[0].ended_at == clock.now()


@pytest.mark.parametrize(
    ("before", "now", "gone", "shown"),
    [
        ("I'm allergic to peanuts.", "I'm no longer allergic to peanuts.", "is allergic",
         "The user is no longer allergic to peanuts"),
        ("I'm allergic to peanuts.", "Actually I'm not allergic to peanuts any more.", "is allergic",
         "The user is not allergic to peanuts any more"),
        ("I work as a nurse.", "Actually, I'm not a nurse any more!", "works as",
         "The user is not a nurse any more"),
        ("I work as a nurse.", "Forget that I work as a nurse. I now work as a teacher.", "nurse",
         "The user now works as a teacher"),
        ("I work as a nurse.", "Please forget that I work as a nurse.", "nurse", ""),
        ("I have a dog called Rex.", "I don't have a dog any more.", "Rex",
         "The user does not have a dog any more"),
        ("Ich arbeite als Krankenschwester.",
         "Vergiss, dass ich als Krankenschwester arbeite. Ich arbeite jetzt als Lehrerin.",
         "Krankenschwester",
         'The user said: "Ich arbeite jetzt als Lehrerin"'),
        ("Ich bin allergisch gegen Nüsse.", "Ich bin nicht mehr allergisch gegen Nüsse.", "bin allergisch",
         'The user said: "Ich bin nicht mehr allergisch gegen Nüsse"'),
        ("Je travaille comme infirmière.", "Oublie que je travaille comme infirmière.", "infirmière", ""),
        ("Soy alérgica a las nueces.", "Ya no soy alérgica a las nueces.", '"Soy',
         'The user said: "Ya no soy alérgica a las nueces"'),
        ("我对花生过敏。", "我不再对花生过敏。", "我对", 'The user said: "我不再对花生过敏"'),
        ("I'm vegetarian.", "I eat meat again since January.", "vegetarian",
         "The user eats meat again since January"),
        ("I work at Google as an engineer.", "I quit my job at Google and joined a startup.", "Google",
         "The user quit their job at Google and joined a startup"),
        ("My phone number is 555-0101.", "My new phone number is 555-0199.", "555-0101",
         "The user's new phone number is 555-0199"),
        ("Ich wohne in Berlin.", "Ich bin nach Hamburg gezogen.", "Berlin",
         'The user said: "Ich bin nach Hamburg gezogen"'),
        ("J'habite à Lyon.", "J'ai déménagé à Nantes.", "Lyon", 'The user said: "J\'ai déménagé à Nantes"'),
        ("Vivo en Madrid.", "Me mudé a Sevilla.", "Madrid", 'The user said: "Me mudé a Sevilla"'),
        ("東京に住んでいます。", "大阪に引っ越しました。", "東京", 'The user said: "大阪に引っ越しました"'),
        ("저는 서울에 살고 있어요.", "저는 부산으로 이사했어요.", "서울",
         'The user said: "저는 부산으로 이사했어요"'),
    ],
)  # fmt: skip
async def test_what_is_no_longer_so_leaves_the_prompts_of_other_sessions(
    before: str, now: str, gone: str, shown: str
) -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(":memory:", clock=clock) as memory:
        await memory.items.save("The user likes tea", owner="ana")
        for key, said in (("one", before), ("two", now)):
            await talk(memory.session(key, owner="ana"), said)
            await memory.session(key, owner="ana").end()
            clock.advance(DAY)
        found = [
            line.split(" (")[0] for line in about(await talk(memory.session("three", owner="ana"), "Hi"))
        ]
        assert sorted(found) == sorted(filter(None, ["- The user likes tea", shown and f"- {shown}"]))
        ended = await memory.items.list("ana", statuses=("ended",))
        assert [gone in item.summary for item in ended] == [True]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("My dog is called Rex.", "Rex died yesterday."),
        ("My wife's name is Julia.", "Julia and I got divorced in March."),
        ("I'm allergic to peanuts.", "The doctor says I'm not allergic to peanuts after all."),
        ("Mein Hund heißt Rex, ich mag ihn sehr.", "Rex ist gestorben."),
        ("我女儿叫小雨。", "小雨上周离婚了。"),
    ],
)
async def test_what_happened_to_something_known_is_known_as_well(before: str, now: str) -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(":memory:", clock=clock) as memory:
        for key, said in (("one", before), ("two", f"{now} A friend's shop is sold. Nora got divorced.")):
            await talk(memory.session(key, owner="ana"), said)
            await memory.session(key, owner="ana").end()
            clock.advance(DAY)
        news, old = about(await talk(memory.session("three", owner="ana"), "Hi"))
        assert news.startswith(f'- The user said: "{now.rstrip(".。")}"')
        assert before.rstrip(".。").split()[-1] in old


@pytest.mark.parametrize(
    "said",
    [
        "I'm no longer sure I'm allergic to peanuts.",
        "If I were no longer allergic to peanuts, I would eat them.",
        "My sister is no longer allergic to peanuts.",
        "Am I no longer allergic to peanuts?",
        'The doctor wrote "I am no longer allergic to peanuts".',
        "Don't forget that I'm allergic to peanuts.",
        "I'm no longer allergic to cats.",
    ],
)
async def test_what_only_sounds_like_a_change_ends_nothing(said: str) -> None:
    async with onlooker.open_memory(":memory:", clock=FrozenClock()) as memory:
        for key, text in (("one", "I'm allergic to peanuts."), ("two", said)):
            await talk(memory.session(key, owner="ana"), text)
            await memory.session(key, owner="ana").end()
        shown = about(await talk(memory.session("three", owner="ana"), "Hi"))
        assert "- The user is allergic to peanuts (2026-02-16)" in shown


async def test_items_are_sentences_with_the_name_that_a_person_gave_in_any_session() -> None:
    async with onlooker.open_memory(":memory:", clock=FrozenClock()) as memory:
        said = ("I live in Town3.", "Hi, I'm Mia Berg.", "I work as a nurse.", "I moved to Oslo.")
        for number, text in enumerate(said):
            await talk(memory.session(f"s{number}", owner="telegram:7"), text)
            await memory.session(f"s{number}", owner="telegram:7").end()
        shown = about(await talk(memory.session("last", owner="telegram:7"), "Hello"))
        # Where she lives was said before her name was known, and has changed since.
        assert {line.split(" (")[0] for line in shown} == {
            "- The user's name is Mia Berg",
            "- Mia Berg works as a nurse",
            "- Mia Berg moved to Oslo",
        }


async def test_saving_by_hand_refuses_what_is_known_and_what_contradicts_it(url: str) -> None:
    async with onlooker.open_memory(url) as memory:
        oslo = await memory.items.save("Ana lives in Oslo", owner="ana")
        for other, why in (
            ("The user lives in Oslo.", "already says it"),
            ("Ana moved to Bergen", "contradicts"),
        ):
            with pytest.raises(SettingsError, match=why) as refused:
                await memory.items.save(other, owner="ana")
            assert f'supersedes="{oslo.id}"' in str(refused.value)
        assert [i.id for i in await memory.items.list("ana")] == [oslo.id]
        await memory.items.save("Ana moved to Bergen", owner="ben")  # another owner's
        moved = await memory.items.save("Ana moved to Bergen", owner="ana", supersedes=oslo.id)
        shown = about(await talk(memory.session("one", owner="ana"), "Hello"))
        assert [line.split(" (")[0] for line in shown] == ["- Ana moved to Bergen"]
        assert [i.status for i in await memory.items.history(moved.id, owner="ana")] == ["ended", "live"]


async def test_a_language_without_built_in_facts_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    russian = (
        "У меня аллергия на арахис, и я живу в Осло уже семь лет, а работаю медсестрой в больнице у моря. "
    )
    dutch = "Ik ben allergisch voor pinda's en ik woon in Gent, maar het werk is niet ver van de zee. "
    english = "I am allergic to peanuts, and the hospital that I work for is not far from the sea. "
    async with onlooker.open_memory(":memory:") as memory:
        for owner, text in (("a", russian), ("a", russian), ("b", dutch * 2), ("c", english * 2)):
            session = memory.session("one", owner=owner)
            await session.record(onlooker.user(text * 2))
            await session.end()
    told = [r.getMessage() for r in caplog.records if "docs/items.md" in r.getMessage()]
    assert [("Cyrillic" in line, "Dutch" in line) for line in told] == [(True, False), (False, True)]


async def test_said_again_it_is_used_and_not_doubled(url: str) -> None:
    async with onlooker.open_memory(url) as memory:
        for number in range(3):
            session = memory.session(f"s{number}", owner="ana")
            await talk(session, "I'm allergic to peanuts.")
            await session.end()
        (item,) = await memory.items.list("ana")
        assert item.uses == 2


async def test_what_expired_is_no_longer_shown(url: str) -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(url, clock=clock) as memory:
        await talk(memory.session("one", owner="ana"), "The deadline is 2026-02-20.")
        await memory.session("one", owner="ana").end()
        clock.advance(5 * DAY)
        assert "deadline" in (await talk(memory.session("two", owner="ana"), "Hello")).system
        clock.advance(20 * DAY)
        assert "deadline" not in (await talk(memory.session("three", owner="ana"), "Hello")).system


async def test_by_hand_items_are_saved_pinned_and_forgotten(url: str) -> None:
    events: list[Event] = []
    async with onlooker.open_memory(url) as memory:
        memory.subscribe(events.append)
        tea = await memory.items.save("Ana likes tea", owner="ana", type="behavior", tags=["drinks"])
        rule = await memory.items.save("Never call Ana before ten", owner="ana", pinned=True)
        coffee = await memory.items.save("Ana likes coffee now", owner="ana", supersedes=tea.id)
        session = memory.session("one", owner="ana")
        assert [line.split(" (")[0] for line in about(await talk(session, "Hello"))] == [
            "- Never call Ana before ten",
            "- Ana likes coffee now",
        ]
        await memory.items.pin(coffee.id, owner="ana")
        await memory.items.pin(rule.id, owner="ana", on=False)
        assert [i.id for i in await memory.items.list("ana")] == [coffee.id, rule.id]
        gone = await memory.items.forget(coffee.id, owner="ana")
        assert {i.id for i in gone} == {coffee.id, tea.id}
        # It leaves the prompt of a session that shows it at once.
        assert [line.split(" (")[0] for line in about(await session.context())] == [
            "- Never call Ana before ten"
        ]
        with pytest.raises(NotFoundError, match=coffee.id):
            await memory.items.forget(coffee.id, owner="ana")
        with pytest.raises(NotFoundError):
            await memory.items.forget(rule.id, owner="ben")
        with pytest.raises(NotFoundError):
            await memory.items.history("unknown", owner="ana")
        archived = await memory.items.list("ana", statuses=("archived",))
        assert {i.id for i in archived} == {coffee.id, tea.id}
        with pytest.raises(SettingsError):
            await memory.items.save("tea", owner="ana")
        with pytest.raises(SettingsError):
            await memory.items.save("Ana likes tea", owner="ana", supersedes=coffee.id)
        with pytest.raises(SettingsError):
            await memory.items.save("Ana likes tea", owner="ben", supersedes=rule.id)
        with pytest.raises(KeyError):
            await memory.items.pin(coffee.id, owner="ana")
    assert [type(e) for e in events if isinstance(e, ItemsMade | ItemsForgotten)] == [ItemsMade] * 3 + [
        ItemsForgotten
    ]


# ------------------------------------------------------------------------------------ the prompt


@pytest.mark.req(53)
async def test_what_a_session_shows_stays_for_its_length_and_across_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with onlooker.open_memory(path) as memory:
        await memory.items.save("Ana likes tea", owner="ana")
        session = memory.session("one", owner="ana")
        before = await talk(session, "Hello")
        late = await memory.items.save("Ana has a dog", owner="ana", pinned=True)
        assert (await session.context(system="Help.")).system == before.system
    async with onlooker.open_memory(path) as memory:
        session = memory.session("one", owner="ana")
        assert (await session.context(system="Help.")).system == before.system
        assert late in await session.refresh_items()
        assert about(await session.context(system="Help."))[0].startswith("- Ana has a dog")


async def test_a_session_does_not_show_its_own_items(url: str) -> None:
    async with onlooker.open_memory(url) as memory:
        session = memory.session("one", owner="ana")
        await session.record(onlooker.user("I'm allergic to peanuts."))
        await session.end()
        assert about(await session.context()) == []


@pytest.mark.req(46, 62)
async def test_with_nothing_known_the_prompt_is_what_it_was(url: str) -> None:
    async with onlooker.open_memory(url) as memory:
        session = memory.session("one", owner="ana")
        assert (await session.context(system="Help.")).openai() == [{"role": "system", "content": "Help."}]
        assert await memory.sessions() == []
        await session.record(onlooker.user("Hello"))
        assert (await session.context()).openai() == [{"role": "user", "content": "Hello"}]


@pytest.mark.req(81)
async def test_items_keep_within_their_share_and_notes_get_what_they_leave() -> None:
    clock = FrozenClock()
    settings = replace(DEFAULT, budget=2000, cross_session_limit=100)
    async with onlooker.open_memory(":memory:", settings=settings, clock=clock) as memory:
        for number in range(40):
            await memory.items.save(f"Ana keeps {number} tins of paint in the cellar", owner="ana")
        contexts: list[onlooker.Context] = []
        for owner in ("ana", "ben"):
            session = memory.session("long", owner=owner)
            context = await session.context()
            for number in range(120):
                await session.record(
                    onlooker.user(f"Parcel {number} of order 88-{number:04} went to Bergen.")
                )
                await session.settle()
                context = await session.context(system="Help.", budget=2000)
                assert context.stats.total <= 2000
                assert context.stats.left_out_notes == context.stats.left_out_messages == 0
            contexts.append(context)
        with_items, without = contexts
        assert 0 < with_items.stats.items <= 101
        assert without.stats.items == 0
        assert without.stats.observations >= with_items.stats.observations > 0


async def test_notes_are_condensed_while_they_fit_beside_the_items() -> None:
    settings = replace(DEFAULT, budget=2000, memory_limit=0.5, reflect_at=0.45, cross_session_limit=400)
    largest: dict[str, int] = {}
    async with onlooker.open_memory(":memory:", settings=settings, clock=FrozenClock()) as memory:
        for number in range(40):
            await memory.items.save(f"Ana keeps {number} tins of paint in the cellar", owner="ana")
        for owner in ("ana", "ben"):
            session = memory.session("long", owner=owner)
            await session.context(budget=2000)
            for number in range(60):
                await chat(session, number)
                await session.settle()
                stats = (await session.context(system="Help.", budget=2000)).stats
                assert stats.left_out_notes == stats.shortened_notes == 0
                memory_tokens = stats.items + stats.observations + stats.reflections
                largest[owner] = max(largest.get(owner, 0), memory_tokens)
    # Together they keep within the memory's half of the budget, which notes alone nearly fill.
    assert 700 < largest["ana"] <= 1000
    assert 700 < largest["ben"] <= 1000


@pytest.mark.parametrize("failing", ["items", "show_items"])
async def test_storage_that_cannot_choose_items_costs_the_items_alone(failing: str) -> None:
    async def fail(*args: object, **options: object) -> None:
        raise StoreError("the disk is full")

    class Forgetful(SqliteStore): ...

    async with onlooker.open_memory(Forgetful(":memory:")) as memory:
        await memory.items.save("Ana likes tea", owner="ana")
        setattr(Forgetful, failing, fail)
        context = await talk(memory.session("one", owner="ana"), "Hello")
        # Those that can be read are shown, though the choice cannot be stored.
        assert bool(about(context)) == (failing == "show_items")
        assert context.messages[-1].text == "Hello"


# ------------------------------------------------------------------------------------ ending


@pytest.mark.req(27)
async def test_a_session_ends_once_and_later_only_what_is_new_counts(url: str) -> None:
    async with onlooker.open_memory(url) as memory:
        session = memory.session("one", owner="ana")
        await talk(session, "I'm allergic to peanuts.")
        first = await session.end()
        assert [i.summary for i in first] == ["The user is allergic to peanuts"]
        assert await session.end() == ()
        await talk(session, "I prefer short answers.")
        assert [i.summary for i in await session.end()] == ["The user prefers short answers"]
        assert [i.uses for i in await memory.items.list("ana")] == [0, 0]
        await session.delete()
        assert list(await memory.items.list("ana")) == []


async def test_two_who_end_a_session_at_once_make_its_items_once(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with onlooker.open_memory(path) as one, onlooker.open_memory(path) as other:
        for number in range(8):
            key = f"s{number}"
            await one.session(key, owner="ana").record(
                onlooker.user(f"My sister number {number} lives in Rome.")
            )
            await asyncio.gather(*(m.session(key, owner="ana").end() for m in (one, other, one)))
        made = await one.items.list("ana", statuses=("live", "ended", "archived"))
        assert len({i.session for i in made}) == len(made)


@pytest.mark.req(27)
async def test_an_idle_session_ends_by_itself(url: str) -> None:
    clock = FrozenClock()
    settings = replace(DEFAULT, idle_minutes=10)
    async with onlooker.open_memory(
        url, clock=clock, settings=settings, timing=onlooker.Timing(sweep_seconds=0.05)
    ) as memory:
        await talk(memory.session("one", owner="ana"), "I'm allergic to peanuts.")
        assert await memory.background.end_idle() == 0
        clock.advance(11 * 60)
        assert await memory.background.end_idle() == 1
        assert await memory.background.end_idle() == 0
        assert len(await memory.items.list("ana")) == 1
        await talk(memory.session("two", owner="ana"), "I prefer short answers.")
        assert await memory.background.end_idle(idle=timedelta(0)) == 1


async def test_a_later_process_ends_what_an_earlier_one_left(tmp_path: Path) -> None:
    path, clock = tmp_path / "agent.db", FrozenClock()
    settings = replace(DEFAULT, idle_minutes=10)
    timing = onlooker.Timing(stop_deadline=0)
    async with onlooker.open_memory(path, clock=clock, settings=settings, timing=timing) as memory:
        await talk(memory.session("one", owner="ana"), "I'm allergic to peanuts.")
    clock.advance(3600)
    async with onlooker.open_memory(path, clock=clock, settings=settings, timing=timing) as memory:
        await eventually(lambda: memory.items.list("ana"))
        assert [i.summary for i in await memory.items.list("ana")] == ["The user is allergic to peanuts"]


async def eventually(found: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not await found():  # noqa: ASYNC110  # pyright: ignore[reportGeneralTypeIssues]
            await asyncio.sleep(0.02)


@pytest.mark.req(27, 30)
async def test_a_process_that_stops_ends_what_it_has_used(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with onlooker.open_memory(path) as memory:
        await talk(memory.session("one", owner="ana"), "I'm allergic to peanuts.")
    async with onlooker.open_memory(path) as memory:
        assert [i.summary for i in await memory.items.list("ana")] == ["The user is allergic to peanuts"]


async def test_stopping_waits_for_no_model_beyond_its_deadline(tmp_path: Path) -> None:
    async def hang(request: Request) -> str:
        if isinstance(request, ItemsRequest):
            await asyncio.sleep(3600)
        return ""

    timing = onlooker.Timing(stop_deadline=0.2)
    path = tmp_path / "agent.db"
    async with asyncio.timeout(120):
        async with onlooker.open_memory(path, model=ScriptedModel(hang), timing=timing) as memory:
            await talk(memory.session("one", owner="ana"), "I'm allergic to peanuts.")
    async with onlooker.open_memory(path, settings=replace(DEFAULT, idle_minutes=0)) as memory:
        assert list(await memory.items.list("ana")) == []
        assert len(await memory.session("one", owner="ana").end()) == 1


async def test_nothing_ends_by_itself_where_that_is_switched_off(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with onlooker.open_memory(path, settings=replace(DEFAULT, idle_minutes=0)) as memory:
        await talk(memory.session("one", owner="ana"), "I'm allergic to peanuts.")
    async with onlooker.open_memory(path, settings=replace(DEFAULT, idle_minutes=0)) as memory:
        assert about(await talk(memory.session("two", owner="ana"), "Hello")) == []
        assert list(await memory.items.list("ana")) == []


# ------------------------------------------------------------------------------------ with the notes

NEVER = replace(DEFAULT, idle_minutes=0)


async def chat(session: onlooker.Session, *numbers: int) -> None:
    """Talk that says nothing about the person, enough of it for notes."""
    for number in numbers:
        told = f"Customer {number} from street {number * 7} ordered {number + 3} loaves for {number}.50"
        await session.record(onlooker.user(f"{told}, and complained about parcel 88-{number:04}."))
        await session.record(onlooker.assistant(f"Noted the complaint about parcel 88-{number:04}."))


@pytest.mark.req(25, 27)
async def test_facts_reach_other_sessions_with_the_notes_and_without_an_end(url: str) -> None:
    async with onlooker.open_memory(url, settings=NEVER, budget=800, clock=FrozenClock()) as memory:
        session = memory.session("one", owner="ana")
        await session.record(onlooker.user("I'm allergic to peanuts."))
        await chat(session, *range(40))
        await session.settle()
        assert await session.notes()
        assert about(await talk(memory.session("two", owner="ana"), "Hello")) == [
            "- The user is allergic to peanuts (2026-02-16)"
        ]
        assert about(await talk(memory.session("two", owner="ben"), "Hello")) == []
        # Each message is read once: the end makes items of what was said since the last note.
        state = await session.history.state()
        assert state is not None
        assert state.progress.ended == state.progress.frontier
        await session.record(onlooker.user("I prefer short answers."))
        assert [i.summary for i in await session.end()] == ["The user prefers short answers"]


async def test_of_a_long_chat_the_newest_is_known_to_the_next_session_at_once(url: str) -> None:
    async with onlooker.open_memory(url, clock=FrozenClock()) as memory:
        first = memory.session("one", owner="ana")
        await first.record(onlooker.user("My sister is called Carla."))
        await first.record(*(onlooker.user(f"Parcel {n} weighs {n} grams.") for n in range(50)))
        await first.record(onlooker.user("I'm allergic to peanuts."))
        known = "- The user is allergic to peanuts (2026-02-16)"
        assert about(await talk(memory.session("two", owner="ana"), "Hello")) == [known]
        made = await first.end()  # nothing is left out, and nothing is there twice
        assert ["Carla" in item.summary for item in made] == [True]


@pytest.mark.req(25)
@pytest.mark.parametrize("asked", [False, True])
async def test_what_was_said_a_minute_ago_is_known_to_the_next_session(url: str, asked: bool) -> None:
    clock, model = FrozenClock(), ScriptedModel() if asked else None
    async with onlooker.open_memory(url, model=model, clock=clock) as memory:
        first = memory.session("one", owner="ana")
        await talk(first, "I'm allergic to peanuts.")
        clock.advance(60)
        second = memory.session("two", owner="ana")
        before = await talk(second, "Hello")
        assert about(before) == ["- The user is allergic to peanuts (2026-02-16)"]
        assert about(await talk(memory.session("two", owner="ben"), "Hello")) == []
        # What changes while both go on changes no prompt that is there already, and reaches the next one.
        await talk(first, "Actually, I'm not allergic to peanuts any more.")
        assert (await talk(second, "Go on")).system == before.system
        third = await talk(memory.session("three", owner="ana"), "Hello")
        assert about(third) == ["- The user is not allergic to peanuts any more (since 2026-02-16)"]
        assert model is None or not model.calls  # until the session ends
        await memory.session("two", owner="ana").end()
        assert len(await memory.items.list("ana")) == 1


async def test_facts_of_notes_that_a_turn_takes_itself_reach_other_sessions(url: str) -> None:
    settings = replace(NEVER, precompute=False, observe_at=0.8, keep_recent=0.3)
    async with onlooker.open_memory(url, settings=settings, clock=FrozenClock()) as memory:
        session = memory.session("one", owner="ana")
        await session.record(onlooker.user("I'm allergic to peanuts."))
        await chat(session, *range(40))
        assert not await session.notes()
        # The budget of this call makes the turn take notes, and nothing is left to note in the background.
        await session.context(budget=800)
        assert await session.notes()
        await memory.background.flush()
        assert [i.summary for i in await memory.items.list("ana")] == ["The user is allergic to peanuts"]


async def test_a_running_session_shows_new_facts_when_its_notes_change_and_not_before(url: str) -> None:
    async with onlooker.open_memory(url, settings=NEVER, budget=800, clock=FrozenClock()) as memory:
        running, shown = memory.session("running", owner="ana"), list[list[str]]()
        await running.record(onlooker.user("Hello"))
        before = await running.context(system="Help.", budget=800)
        assert about(before) == []
        other = memory.session("other", owner="ana")
        await talk(other, "I'm allergic to peanuts.")
        await other.end()
        for number in range(60):
            await chat(running, number)
            await running.settle()
            context = await running.context(system="Help.", budget=800)
            shown.append(about(context))
            if not context.stats.observations + context.stats.reflections:
                assert context.system == before.system  # the notes have not changed: neither do the items
        assert [] in shown
        assert shown[-1] == ["- The user is allergic to peanuts (2026-02-16)"]
        # What ended since leaves in the same way.
        third = memory.session("third", owner="ana")
        await talk(third, "I'm no longer allergic to peanuts.")
        await third.end()
        for number in range(60, 120):
            await chat(running, number)
            await running.settle()
        assert about(await running.context(system="Help.", budget=800)) == [
            "- The user is no longer allergic to peanuts (since 2026-02-16)"
        ]


@pytest.mark.req(53)
async def test_a_prompt_changes_for_new_facts_only_where_it_changes_for_notes(tmp_path: Path) -> None:
    # Notes are written ahead here, which changes no prompt.
    ahead = replace(NEVER, precompute=True, precompute_at=0.1)
    given: dict[str, Any] = {"settings": ahead, "model": ScriptedModel(), "clock": FrozenClock()}
    path = tmp_path / "agent.db"
    notes: list[tuple[onlooker.Note, ...]] = []
    systems: list[str] = []
    async with onlooker.open_memory(path, **given) as memory:
        running = memory.session("running", owner="ana")
        for number in range(40):
            await memory.items.save(f"Ana keeps {number} tins of paint in the cellar", owner="ana")
            await chat(running, number)
            await running.settle()
            await running.context(budget=1500)
            notes.append(tuple(await running.notes()))
            # As another process reads it, without what this one has cached.
            async with onlooker.open_memory(path, **given) as other:
                context = await other.session("running", owner="ana").context(budget=1500)
            systems.append(context.system)
    changes = [one != other for one, other in pairwise(notes)]
    assert 0 < sum(changes) < 39
    assert [one != other for one, other in pairwise(systems)] == changes


# ------------------------------------------------------------------------------------ language models


def items_model(reply: str | BaseException) -> ScriptedModel:
    return ScriptedModel(lambda request: reply if isinstance(request, ItemsRequest) else None)


async def ended_with(model: ScriptedModel) -> tuple[list[Item], onlooker.Memory]:
    async with onlooker.open_memory(":memory:", model=model) as memory:
        await memory.items.save("Ana has a dog", owner="ana")
        session = memory.session("one", owner="ana")
        await talk(session, "I'm Ana.", "I moved to Bergen last week, order 88-1431.")
        return list(await session.end()), memory


@pytest.mark.req(8, 25)
async def test_a_language_model_is_asked_once_and_what_it_invents_is_dropped() -> None:
    model = items_model(
        '{"type": "profile", "summary": "Ana lives in Bergen", "since": "2026-02-09", "said_by": "user"}\n'
        '{"type": "event", "summary": "Ana paid order 99-9999"}'
    )
    made, _ = await ended_with(model)
    assert [(i.summary, i.origin, len(i.sources)) for i in made] == [("Ana lives in Bergen", "user", 1)]
    (asked,) = [r for r in model.requests if isinstance(r, ItemsRequest)]
    assert asked.known == ("Ana has a dog",)
    assert next(m.text for m in asked.messages if m.role == "user") == "I'm Ana."


@pytest.mark.req(24)
@pytest.mark.parametrize("reply", [ModelError("down"), "", "I can't help with that.", TimeoutError("slow")])
async def test_a_model_that_fails_leaves_the_built_in_choice(reply: str | BaseException) -> None:
    made, _ = await ended_with(items_model(reply))
    assert "Ana moved to Bergen last week, order 88-1431" in [i.summary for i in made]


async def test_of_a_model_that_keeps_everything_only_the_first_and_most_useful_are_kept() -> None:
    towns = ("Oslo", "Bergen", "Rome", "Paris", "Berlin", "Madrid", "Lisbon", "Vienna", "Prague", "Athens")
    made = [f'{{"type": "event", "summary": "Ana saw {n} boats in {t}"}}' for n in (3, 4) for t in towns]
    async with onlooker.open_memory(":memory:", model=items_model("\n".join(made))) as memory:
        session = memory.session("one", owner="ana")
        await talk(session, f"I saw three boats each in {', '.join(towns)}, then four.")
        found = await session.end()
    assert [i.summary for i in found] == [f"Ana saw {n} boats in {t}" for n in (3, 4) for t in towns][:12]


async def test_where_a_model_fails_at_the_end_nothing_that_changed_comes_back() -> None:
    """The built-in choice reads messages when they are noted, and again if the model does not answer."""
    model = ScriptedModel(lambda r: ModelError("down") if isinstance(r, ItemsRequest) else None)
    clock = FrozenClock()
    async with onlooker.open_memory(
        ":memory:", settings=NEVER, model=model, budget=1200, clock=clock
    ) as memory:
        session = memory.session("one", owner="ana")
        for number, said in enumerate(("I live in Oslo.", "I moved to Bergen.", "I'm allergic to nuts.")):
            await session.record(onlooker.user(said))
            await chat(session, *range(number * 20, number * 20 + 20))
            await session.settle()
            clock.advance(DAY)
        before = await memory.items.list("ana", statuses=("live", "ended"))
        assert [(i.summary, i.status) for i in before if "Oslo" in i.summary] == [
            ("The user lives in Oslo", "ended")
        ]
        await session.end()
        assert await memory.items.list("ana", statuses=("live", "ended")) == before
        shown = about(await talk(memory.session("two", owner="ana"), "Hello"))
        assert {line.split(" (")[0] for line in shown} == {
            "- The user moved to Bergen",
            "- The user is allergic to nuts",
        }


async def test_a_model_that_finds_nothing_is_believed() -> None:
    made, _ = await ended_with(items_model("NONE"))
    assert made == []


@pytest.mark.req(25, 27)
async def test_on_overflow_the_reflector_is_asked_for_items_and_not_at_every_note() -> None:
    def reply(request: Request) -> str | None:
        if isinstance(request, ItemsRequest) and any("harbour" in note.text for note in request.notes):
            return '{"type": "profile", "summary": "Ana rents a boat in the harbour", "said_by": "user"}'
        if isinstance(request, ObserveRequest):
            said = [m.text for m in request.messages if m.role == "user"]
            return "\n".join(f"[12:00] Ana: {text}" for text in said)
        return "NONE" if isinstance(request, ItemsRequest) else None

    model = ScriptedModel(reply)
    async with onlooker.open_memory(
        ":memory:", settings=NEVER, model=model, budget=1200, clock=FrozenClock()
    ) as memory:
        session = memory.session("long", owner="ana")
        await session.record(onlooker.user("There is a boat in the harbour that costs 40 a month."))
        await session.record(onlooker.user("I'm allergic to peanuts."))
        asked = 0
        for number in range(60):
            await chat(session, number)
            await session.settle()
            asked = sum(isinstance(r, ItemsRequest) for r in model.requests)
            if not await session.notes(kind="reflection"):
                assert not asked
        notes = sum(isinstance(r, ObserveRequest) for r in model.requests)
        assert 0 < asked < notes
        shown = about(await talk(memory.session("two", owner="ana"), "Hello"))
        # What the model chose, and what the built-in choice made of the messages before that.
        assert {line.split(" (")[0] for line in shown} == {
            "- Ana rents a boat in the harbour",
            "- The user is allergic to peanuts",
        }


KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize("asked", [False, True])
async def test_a_secret_is_in_no_item_whoever_makes_it(asked: bool) -> None:
    """By a language model, by the built-in choice, by hand and by the agent's tool."""
    made = f'{{"type": "profile", "summary": "Ana works with {KEY}", "tags": ["{KEY}"], "said_by": "user"}}'
    model = items_model(made) if asked else None
    async with onlooker.open_memory(":memory:", model=model) as memory:
        session = memory.session("one", owner="ana")
        await talk(session, f"I'm Ana. I work at Acme with {KEY} and I like {KEY} a lot.")
        await session.end()
        by_hand = await memory.items.save(f"Ana likes {KEY} at the bakery", owner="ana", tags=[KEY])
        saved = await session.tools().call("memory_save", {"summary": f"Ana unlocks the office with {KEY}"})
        assert (saved.startswith("Saved"), "[secret]" in by_hand.summary) == (True, True)
        found = await memory.items.list("ana")
        assert len(found) >= 3
        assert sum("[secret]" in item.summary for item in found) >= 3
        shown = about(await talk(memory.session("two", owner="ana"), "Hello"))
        assert "sk-proj" not in f"{found} {shown}"
        assert any("[secret]" in line for line in shown)


async def test_what_it_costs_is_recorded() -> None:
    model = items_model('{"type": "profile", "summary": "Ana lives in Bergen"}')
    async with onlooker.open_memory(":memory:", model=model) as memory:
        await talk(memory.session("one", owner="ana"), "I moved to Bergen.")
        await memory.session("one", owner="ana").end()
        assert [(u.purpose, u.verdict) for u in await memory.usage()] == [("items", "accepted")]


async def test_what_changed_takes_nothing_else_along(url: str) -> None:
    async with onlooker.open_memory(url, clock=FrozenClock()) as memory:
        await memory.items.save("The user lives in Oslo, is allergic to hazelnuts", owner="ana")
        first = memory.session("one", owner="ana")
        await talk(first, "I live in Oslo and I'm allergic to peanuts.")
        await first.end()
        second = memory.session("two", owner="ana")
        await talk(second, "I moved from Oslo to Bergen last week.")
        await second.end()
        shown = "\n".join(about(await talk(memory.session("three", owner="ana"), "Hello")))
        assert "Bergen" in shown
        assert "allergic to peanuts" in shown
        assert "allergic to hazelnuts" in shown
