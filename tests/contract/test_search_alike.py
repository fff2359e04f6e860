"""Both stores find the same in the same order, whatever was done to them, and whenever it was indexed."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.model_store import ModelStore
from tests.contract.sqlite_files import opened
from tests.contract.test_alike import Script

from onlooker import demo
from onlooker.domain.errors import StoreError
from onlooker.domain.messages import SessionId
from onlooker.domain.search import Query, TextKind
from onlooker.engine.recall import PromptContent, Recall, Search, catch_up
from onlooker.policy.intake import intake_all
from onlooker.policy.search.recall import of_question
from onlooker.ports import Store
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing.store_contract.case import ANA, NEVER, NOW

WORDS = ("yes", "text", "strang", "short", "far", "about", "7", "o3")


async def _found(store: Store, kind: TextKind) -> tuple[object, ...]:
    found = await store.search(Query("ana", kind, dict.fromkeys(WORDS, 1.0)))
    matches = sorted((m.session, m.id, m.seq, m.text, m.words, m.at) for m in found.matches)
    return found.docs, found.length, dict(found.holders), matches


@given(st.integers(0, 2**32))
def test_both_stores_find_the_same_whatever_is_done(seed: int) -> None:
    async def run(folder: Path) -> None:
        script, random = Script(seed), Random(seed)
        memory, sqlite = ModelStore(), SqliteStore(folder / "memory.db")
        await asyncio.gather(memory.open(), sqlite.open())
        try:
            for _ in range(20):
                step = await script.next(memory)
                for store in (memory, sqlite):
                    with suppress(StoreError, KeyError):  # both refuse the same: test_alike.py
                        await step(store)
                if random.random() < 0.5:
                    continue  # what is indexed late is found all the same
                await catch_up(sqlite, "ana")
                for kind in ("message", "note", "retired"):
                    assert await _found(sqlite, kind) == await _found(memory, kind)
        finally:
            await sqlite.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


@pytest.mark.anyio
async def test_both_stores_rank_alike(tmp_path: Path) -> None:
    at = datetime(2026, 2, 16, 9, tzinfo=UTC)
    said = intake_all(demo.conversation(), at=at, tz=UTC)
    assert len(said) > 50
    questions = [m.text for m in said if "?" in m.text][::3]
    memory = ModelStore()
    await memory.open()
    async with opened(tmp_path / "memory.db") as sqlite:
        for store in (memory, sqlite):
            for session in (ANA, SessionId("ana", "again")):
                await store.append(session, said, due_tokens=NEVER, now=NOW)
        assert len(questions) > 5
        for question in questions:
            for session in (ANA, None):
                search = Search("ana", session, limit=30)
                one, other = [await search.run(store, question) for store in (memory, sqlite)]
                assert one == other
            asked, shown = of_question(question, at), PromptContent((), "")
            recalls = [await Recall(s, ANA, False, at).find(question, asked, shown) for s in (memory, sqlite)]
            assert dict(recalls[0].worth) == pytest.approx(dict(recalls[1].worth))
