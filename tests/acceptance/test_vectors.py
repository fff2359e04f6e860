"""Search and recall by meaning: with vectors of what was said and noted, made in the background."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import onlooker
from onlooker import events
from onlooker.domain.errors import ModelError, SettingsError
from onlooker.engine import indexing
from onlooker.models.calling import CallError
from onlooker.models.embedding import LocalEmbedder, OpenAIEmbedder
from onlooker.policy.settings import DEFAULT, Settings
from onlooker.testing import WordEmbedder
from onlooker.testing.provider import Answer, LocalProvider

pytestmark = pytest.mark.anyio

MEANINGS = {"automobile": "car", "sedan": "car", "bought": "purchased", "acquired": "purchased"}
# Nothing happens by itself within a test: what is indexed is asked for.
QUIET = onlooker.Timing(sweep_seconds=3600.0, index_seconds=600.0, retry_seconds=0.01, recall_deadline=120.0)
KEY = "sk-test-0123456789abcdefghij"


@pytest.fixture(params=["in memory", "in a file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return ":memory:" if request.param == "in memory" else str(tmp_path / "agent.db")


@asynccontextmanager
async def opened(
    url: str, embedder: Any, *, settings: Settings = DEFAULT, timing: onlooker.Timing = QUIET
) -> AsyncGenerator[onlooker.Memory]:
    async with onlooker.open_memory(url, embedder=embedder, settings=settings, timing=timing) as memory:
        await asyncio.sleep(0.02)  # the first sweep, which finds nothing
        yield memory


async def filled(memory: onlooker.Memory, owner: str = "ana", key: str = "a") -> onlooker.Session:
    session = memory.session(key, owner=owner)
    await session.record(
        onlooker.user("I acquired a sedan in March"),
        onlooker.assistant("Congratulations!"),
        onlooker.user("The weather in Bergen is dreadful"),
        onlooker.assistant("Take an umbrella."),
    )
    return session


# ------------------------------------------------------------------------------------ finding


@pytest.mark.req(80)
async def test_what_means_the_same_is_found_though_it_shares_no_word(url: str) -> None:
    embedder = WordEmbedder(MEANINGS)
    async with opened(url, embedder) as memory:
        session = await filled(memory)
        assert await session.search("automobile purchased") == []
        assert await memory.index.catch_up() == 4
        hits = await session.search("automobile purchased")
        assert hits[0].text == "I acquired a sedan in March"
        assert await memory.index.catch_up() == 0
        together = await memory.search("dreadful automobile", owner="ana")
        assert {h.text for h in together[:2]} == {
            "I acquired a sedan in March",
            "The weather in Bergen is dreadful",
        }


@pytest.mark.req(79)
async def test_nothing_of_another_owner_or_session_is_found_by_meaning(url: str) -> None:
    async with opened(url, WordEmbedder(MEANINGS)) as memory:
        await filled(memory)
        other = memory.session("b", owner="ana")
        await other.record(onlooker.user("nothing of the kind"))
        await filled(memory, owner="ben")
        await memory.index.catch_up()
        assert {h.session for h in await memory.search("automobile", owner="ana")} == {("ana", "a")}
        assert all(h.session.owner == "ben" for h in await memory.search("automobile", owner="ben"))
        found = await other.search("automobile")
        assert all(h.session == other.id for h in found)


async def test_what_has_the_word_comes_first_and_what_is_found_by_meaning_says_so(url: str) -> None:
    async with opened(url, WordEmbedder(MEANINGS)) as memory:
        session = await filled(memory)
        await session.record(onlooker.user("My neighbour looked at an automobile, I think, or was it a bus?"))
        await memory.index.catch_up()
        hits = await session.search("automobile")
        assert "neighbour" in hits[0].text
        assert hits[0].why == "words"
        assert "sedan" in hits[1].text
        assert {h.why for h in hits[1:]} == {"meaning"}


@pytest.mark.req(80)
async def test_notes_are_found_by_meaning_once_they_are_shown(url: str) -> None:
    settings = replace(DEFAULT, budget=1000, observe_at=0.3, precompute_at=0.2, chunk_tokens=0.1)
    async with opened(url, WordEmbedder(MEANINGS), settings=settings) as memory:
        session = memory.session("a")
        for i in range(40):
            await session.record(onlooker.user(f"Order {i}: the customer acquired sedan number {i} today."))
        await memory.settle()
        await memory.index.catch_up()
        notes = {n.id for n in await session.notes()}
        hits = await session.search("automobile", kinds=["note"])
        assert notes
        assert {h.id for h in hits} <= notes
        assert hits


async def test_recall_puts_what_means_the_same_at_the_end_of_the_prompt(url: str) -> None:
    settings = replace(DEFAULT, recall="session", budget=1500)
    async with opened(url, WordEmbedder(MEANINGS), settings=settings) as memory:
        session = await filled(memory)
        for i in range(60):
            await session.record(
                onlooker.user(f"Row {i} of the table holds {i * 7} apples and pears, in good order."),
                onlooker.assistant(f"Noted row {i}."),
            )
        await memory.settle()
        await memory.index.catch_up()
        await session.history.clear()
        await session.record(onlooker.user("Which automobile was purchased this spring?"))
        context = await session.context(system="You are helpful.")
        base, *_, last = context.openai()
        assert "I acquired a sedan in March" in last["content"]
        assert "I acquired a sedan in March" not in base["content"]
    async with opened(url, None, settings=settings) as memory:
        if url != ":memory:":
            without = (await memory.session("a", owner="ana").context(system="You are helpful.")).text()
            assert "sedan" not in without


async def test_a_question_is_answered_by_meaning(url: str) -> None:
    settings = replace(DEFAULT, recall="owner")
    async with opened(url, WordEmbedder(MEANINGS), settings=settings) as memory:
        await filled(memory)
        await filled(memory, owner="ben")
        await memory.index.catch_up()
        other = memory.session("later", owner="ana")
        await other.record(onlooker.user("hello"))
        context = await other.context(question="Which automobile was purchased?", budget=2000)
        assert context.text().count("I acquired a sedan in March") == 1
        narrow = memory.session("none", owner="eve")
        await narrow.record(onlooker.user("hello"))
        asked = await narrow.context(question="Which automobile was purchased?", budget=2000)
        assert "sedan" not in asked.text()


async def test_another_embedder_finds_what_it_has_indexed_itself(tmp_path: Path) -> None:
    url = str(tmp_path / "agent.db")
    async with opened(url, WordEmbedder(MEANINGS)) as memory:
        await filled(memory)
        await memory.index.catch_up()
    other = WordEmbedder(MEANINGS, dimensions=32, name="other")
    async with opened(url, other) as memory:
        await memory.index.catch_up()
        assert await memory.search("automobile", owner="ana") != []
    assert sum(map(len, other.received)) == 5  # four texts and a query
    again = WordEmbedder(MEANINGS)
    async with opened(url, again) as memory:
        assert await memory.index.catch_up() == 0
        assert await memory.search("automobile", owner="ana") != []
    assert again.received == [("automobile",)]


async def test_what_is_forgotten_leaves_no_vector(tmp_path: Path) -> None:
    url = str(tmp_path / "agent.db")
    async with opened(url, WordEmbedder(MEANINGS)) as memory:
        session = await filled(memory)
        await memory.index.catch_up()
        said = await session.messages()
        await session.forget(said[0].id)
        assert await session.search("automobile") == []
        assert (await memory.store.coverage("words")).vectors == 3
        await memory.forget(owner="ana")
        assert (await memory.store.coverage("words")).vectors == 0


async def test_secrets_and_endless_texts_do_not_reach_an_embedder() -> None:
    embedder = WordEmbedder()
    async with opened(":memory:", embedder) as memory:
        session = memory.session("a")
        await session.record(onlooker.user(f"my key is {KEY}"), onlooker.user("word " * 10_000))
        await memory.index.catch_up()
        await session.search(f"where is {KEY}")
    sent = [text for batch in embedder.received for text in batch]
    assert len(sent) >= 3
    assert not any(KEY in text for text in sent)
    assert max(map(len, sent)) <= 6_000


# ------------------------------------------------------------------------------------ the buffer


@pytest.mark.req(34)
async def test_a_full_queue_drops_with_a_warning_and_a_counter_and_the_sweep_makes_up_for_it(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "MAX_WAITING", 10)
    heard: list[Any] = []
    async with opened(url, WordEmbedder(MEANINGS)) as memory:
        memory.subscribe(lambda e: heard.append(e) if isinstance(e, events.IndexDropped) else None)
        session = memory.session("a", owner="ana")
        with caplog.at_level(logging.WARNING, logger="onlooker"):
            said = await session.record([onlooker.user(f"car number {i}") for i in range(25)])
        assert memory.index.status.dropped == 15
        assert memory.index.status.waiting == 10
        assert memory.index.status.vectors is not None
        assert memory.index.status.vectors.dropped == 15
        warnings = [r.getMessage() for r in caplog.records if "not queued" in r.getMessage()]
        assert len(warnings) == 15
        assert all(m.id in w and "a:" in w for m, w in zip(said[10:], warnings, strict=True))
        assert [(e.session, e.index, e.target, e.dropped) for e in heard][-1] == (
            session.id,
            "vectors",
            said[-1].id,
            15,
        )
        assert await memory.index.catch_up() == 25
        assert (await memory.store.coverage("words")).vectors == 25
        assert len(await session.search("automobile", limit=30)) == 25


@pytest.mark.req(34)
async def test_a_later_process_finds_what_was_never_indexed(tmp_path: Path) -> None:
    url = str(tmp_path / "agent.db")
    async with onlooker.open_memory(url) as memory:
        await filled(memory)
    eager = onlooker.Timing(sweep_seconds=0.05, index_seconds=0.01)
    async with opened(url, WordEmbedder(MEANINGS), timing=eager) as memory:
        await _until(lambda: bool(memory.index.status.vectors and memory.index.status.vectors.done == 4))
        assert await memory.search("automobile", owner="ana") != []
        await memory.session("a", owner="ana").record(onlooker.user("An automobile, once more"))
        await _until(lambda: bool(memory.index.status.vectors and memory.index.status.vectors.done == 5))


@pytest.mark.req(34)
async def test_a_failing_embedder_leaves_search_to_the_words_and_is_made_up_for(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = WordEmbedder(MEANINGS)
    embedder.error = ModelError("out of order")
    heard: list[Any] = []
    async with opened(url, embedder) as memory:
        memory.subscribe(lambda e: heard.append(e) if isinstance(e, events.IndexFailed) else None)
        session = await filled(memory)
        assert await memory.index.catch_up() == 0
        assert memory.index.status.failed == 4
        assert memory.index.status.vectors is not None
        assert memory.index.status.vectors.error == "out of order"
        assert (heard[0].index, heard[0].texts, heard[0].error) == ("vectors", 4, "out of order")
        hits = await session.search("dreadful weather")
        assert hits[0].text == "The weather in Bergen is dreadful"
        assert (await session.context(question="How is the weather?", budget=2000)).text()
        asked = len(embedder.received)
        await session.search("umbrella")  # it failed a moment ago, and is not asked again
        assert len(embedder.received) == asked
        embedder.error = None
        assert await memory.index.catch_up() == 4
        assert memory.index.status.vectors.error == ""
    assert "searching by words alone" in caplog.text


async def test_one_text_that_an_embedder_rejects_keeps_no_other_out() -> None:
    class Picky(WordEmbedder):
        async def embed(self, texts: Any) -> list[list[float]]:
            if any("umbrella" in text for text in texts):
                raise CallError("picky: this will not do", "rejected")
            return await super().embed(texts)

    async with opened(":memory:", Picky(MEANINGS)) as memory:
        session = await filled(memory)
        assert await memory.index.catch_up() == 4
        assert await memory.index.catch_up() == 0
        assert (await session.search("automobile"))[0].seq == 1
        assert all("umbrella" not in h.text for h in await session.search("automobile"))


async def test_the_turn_never_waits_for_an_embedder_that_hangs() -> None:
    class Hanging(WordEmbedder):
        async def embed(self, texts: Any) -> list[list[float]]:
            await asyncio.sleep(3600)
            return []

    settings = replace(DEFAULT, recall="session")
    async with (
        asyncio.timeout(120),
        opened(":memory:", Hanging(), settings=settings, timing=onlooker.Timing(index_seconds=0.0)) as memory,
    ):
        session = await filled(memory)
        await session.record(onlooker.user("How is the weather in Bergen, and what about the sedan?"))
        context = await session.context(system="You are helpful.")
    assert context.messages[-1].text.endswith("what about the sedan?")


async def _until(done: Any) -> None:
    async with asyncio.timeout(120):
        while not done():  # noqa: ASYNC110  there is no event for some of it
            await asyncio.sleep(0.02)


# ------------------------------------------------------------------------------------ embedders


async def test_an_endpoint_of_openai_s_protocol_gives_the_vectors() -> None:
    with LocalProvider() as provider:
        embedder = OpenAIEmbedder(f"openai:small@{provider.url}/v1", api_key=KEY)
        assert embedder.dimensions == 0
        async with opened(":memory:", embedder) as memory:
            session = await filled(memory)
            assert await memory.index.catch_up() == 4
            hits = await session.search("sedan")
            assert hits[0].text == "I acquired a sedan in March"
        assert embedder.dimensions == 256
        assert embedder.name == f"openai:small@{provider.url}/v1"
        batch, query = provider.received
        assert batch.path == "/v1/embeddings"
        assert batch.body["model"] == "small"
        assert batch.texts[2] == "The weather in Bergen is dreadful"
        assert query.texts == ["sedan"]
        assert batch.headers["authorization"] == f"Bearer {KEY}"


async def test_an_endpoint_can_be_named_in_the_settings() -> None:
    with LocalProvider() as provider:
        settings = replace(DEFAULT, embedder=f"openai:small@{provider.url}/v1")
        async with onlooker.open_memory(":memory:", settings=settings, timing=QUIET) as memory:
            await filled(memory)
            assert await memory.index.catch_up() == 4
            assert KEY not in provider.received[0].headers["authorization"]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(status=401), "denied"),
        (Answer(status=400), "rejected"),
        (Answer(status=429), "rate"),
        (Answer(status=500), "server"),
        (Answer(fault="garbage"), "unreadable"),
        (Answer(fault="shapeless"), "unreadable"),
        (Answer(fault="reset"), "connection"),
        (Answer(seconds=3.0), "timeout"),
    ],
)
async def test_whatever_an_endpoint_does_is_one_kind_of_error_without_the_key(
    answer: Answer, kind: str
) -> None:
    with LocalProvider(answer) as provider:
        embedder = OpenAIEmbedder(f"openai:small@{provider.url}/v1", api_key=KEY, timeout=0.5)
        with pytest.raises(CallError) as raised:
            await embedder.embed(["one", "two"])
        assert raised.value.kind == kind
        assert KEY not in str(raised.value)
        assert len(provider.received) == 1
        assert len(await embedder.embed(["one", "two"])) == 2


async def test_shorter_vectors_are_another_space() -> None:
    with LocalProvider() as provider:
        name = f"openai:small@{provider.url}/v1"
        embedder = OpenAIEmbedder(name, dimensions=16)
        assert embedder.name == f"{name}#16"
        assert [len(v) for v in await embedder.embed(["one"])] == [16]


def test_an_embedder_that_cannot_work_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name, says in {
        "small": 'must be "openai:MODEL"',
        "openai:": 'must be "openai:MODEL"',
        "openai:text-embedding-3-small": "set OPENAI_API_KEY",
        "local:BAAI/bge-small-en-v1.5": "pip install fastembed",
    }.items():
        with pytest.raises(SettingsError, match=says):
            onlooker.open_memory(":memory:", embedder=name)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert OpenAIEmbedder("openai:text-embedding-3-small").dimensions == 1536


FASTEMBED = """
class TextEmbedding:
    def __init__(self, model_name, local_files_only):
        assert local_files_only
        if model_name != "there":
            raise ValueError("no such file")

    def embed(self, documents):
        for document in documents:
            yield (float(len(document)), 1.0)
"""


async def test_a_local_model_is_run_by_the_package_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fastembed.py").write_text(FASTEMBED)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    embedder = LocalEmbedder("there")
    assert (embedder.name, embedder.dimensions) == ("local:there", 0)
    assert await embedder.embed(["ab", "abcd"]) == [[2.0, 1.0], [4.0, 1.0]]
    assert embedder.dimensions == 2
    with pytest.raises(ModelError, match=r"have it download the model first \(no such file\)"):
        await LocalEmbedder("elsewhere").embed(["ab"])
    monkeypatch.delitem(sys.modules, "fastembed")
