"""Promises 1 to 5, over random conversations, settings, faults and interleavings."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given

from onlooker.policy.settings import Settings
from onlooker.stores.sqlite import SqliteStore
from onlooker.stores.sqlite.key import Key
from tests.contract.model_store import ModelStore
from tests.promises.host import run
from tests.promises.programs import Prepare, Program, Say, Settle, programs

pytestmark = pytest.mark.req(9, 42, 43, 52, 53)

# A host goes another way between a call and its results, and comes back once the call alone was noted.
APART = Program(
    Settings(budget=400),
    fault="",
    rate=1.0,
    operations=(Say(1, (1, 1)), Settle(), Prepare("branch", 2), Settle(), Prepare("back", 0), Settle()),
)


@example(APART)
@given(programs())
def test_promises_hold_on_the_store_in_memory(program: Program) -> None:
    store = ModelStore()
    run(program, lambda: store)


@given(programs(most=14))
def test_promises_hold_on_sqlite(program: Program) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(program, lambda: SqliteStore(Path(folder) / "memory.db"))


@pytest.mark.long
@pytest.mark.req(103)
@given(programs(most=14))
def test_promises_hold_on_an_encrypted_file(program: Program) -> None:
    key = Key("5d" * 32)
    with tempfile.TemporaryDirectory() as folder:
        run(program, lambda: SqliteStore(Path(folder) / "memory.db", key=key))
