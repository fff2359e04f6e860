"""Inspecting a database file: what the doctor prints comes from here."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.contract.sqlite_files import opened, record

from onlooker.domain.errors import StoreError
from onlooker.domain.notes import Usage
from onlooker.stores.sql.inspection import Inspection
from onlooker.stores.sqlite.backup import inspect_file
from onlooker.stores.sqlite.key import Key
from onlooker.testing.store_contract.case import ANA, BEN, NOW, later, talk

pytestmark = pytest.mark.anyio

INSPECTION = Inspection(later(60), NOW, "e", ("calibration", "unknown"))


async def test_a_report_has_sessions_spending_and_indexes(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path) as store:
        await record(store, *talk(1, 4))
        await store.append(BEN, talk(1, 3), due_tokens=5, now=NOW)
        assert await store.lease(BEN, holder="w", now=NOW, until=later(90)) is not None
        for session, cost, at in ((ANA, 0.25, later(1)), (BEN, 0.5, NOW - timedelta(1)), (ANA, None, NOW)):
            await store.record_usage(session, Usage("m:x", "observe", 10, 5, "accepted", at, cost))
        await store.set_value("calibration", "{}")
    before = path.read_bytes()
    report = inspect_file(path, None, INSPECTION)
    assert (report.integrity, report.is_ours, report.is_too_new, report.journal) == ("ok", True, False, "wal")
    assert report.version == report.newest
    assert report.size == len(before)
    contents = report.contents
    assert contents is not None
    assert (contents.sessions.sessions, contents.sessions.due, contents.sessions.leased) == (2, 1, 1)
    assert contents.sessions.due_since == NOW
    assert contents.newest_message == later(4)
    assert tuple(contents.spending) == (0.25, 0.5, 0.5, 1)
    assert contents.values == {"calibration": "{}"}
    assert path.read_bytes() == before


async def test_a_file_that_is_not_ours_or_too_new_is_reported_without_its_contents(tmp_path: Path) -> None:
    foreign, newer = tmp_path / "foreign.db", tmp_path / "newer.db"
    with closing(sqlite3.connect(foreign)) as db:
        db.execute("CREATE TABLE t (x)")
    report = inspect_file(foreign, None, INSPECTION)
    assert (report.is_ours, report.contents) == (False, None)
    async with opened(newer):
        pass
    with closing(sqlite3.connect(newer)) as db:
        db.execute("PRAGMA user_version = 9999")
    report = inspect_file(newer, None, INSPECTION)
    assert (report.is_too_new, report.version, report.contents) == (True, 9999, None)


async def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_text("no database at all " * 100)
    with pytest.raises(StoreError, match="not a database"):
        inspect_file(path, None, INSPECTION)
    async with opened(tmp_path / "plain.db"):
        pass
    with pytest.raises(StoreError, match="not encrypted"):
        inspect_file(tmp_path / "plain.db", Key("secret"), INSPECTION)
