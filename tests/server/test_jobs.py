"""Long jobs say how far they are, and end when their client leaves."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

import onlooker
from onlooker import blocking
from onlooker.client import RemoteMemory
from onlooker.errors import ConflictError, SettingsError, StoreError
from onlooker.testing import FrozenClock
from tests.acceptance.old_notes import LATER, talked
from tests.acceptance.people_files import NOON, SETTINGS
from tests.server.process import started
from tests.server.serving import said, serving

pytestmark = pytest.mark.anyio

SESSIONS, MESSAGES = 50, 100


def lines_of(answer: httpx2.Response) -> list[dict[str, Any]]:
    assert answer.headers["content-type"] == "application/jsonl"
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_an_import_says_how_far_it_is() -> None:
    async with serving() as client, serving() as other:
        for key in "abc":
            await client.post(f"/v1/sessions/{key}/messages", json={"messages": [said(n) for n in range(9)]})
        exported = (await client.get("/v1/export")).content
        lines = lines_of(await other.post("/v1/import?progress=true", content=exported))
        assert lines[0] == {"done": 0, "total": None}
        assert lines[-1]["result"]["rows"]["message"] == 27
        again = lines_of(await other.post("/v1/import?progress=true", content=exported))
        assert again[-1]["error"] == "ConflictError"
        cut = await other.post("/v1/import?progress=true", content=exported[:-80])
        assert cut.status_code == 422


async def test_taking_notes_says_how_far_it_is(tmp_path: Path) -> None:
    # Recorded where nobody takes notes.
    async with onlooker.open_memory(tmp_path / "a.db", workers="external", budget=2_000) as memory:
        for n in range(12):
            talk = [onlooker.user(f"Parcel {n}-{k} goes to hall {k} in the morning.") for k in range(150)]
            await memory.session(f"s{n}").record(*talk)
        assert len(await memory.store.due(datetime.now(UTC))) == 12
    async with serving(onlooker.open_memory(tmp_path / "a.db", budget=2_000)) as client:
        lines = lines_of(await client.post("/v1/settle?progress=true"))
        assert lines[-1] == {"result": {"settled": True}}
        assert max(line.get("total") or 0 for line in lines) > 0
        for n in range(12):
            assert (await client.get(f"/v1/sessions/s{n}/notes")).json()["notes"]


async def test_old_days_become_items(tmp_path: Path) -> None:
    await talked(tmp_path, "I moved to Oslo.", "I am allergic to peanuts.")
    settings = replace(SETTINGS, enabled=False)
    memory = onlooker.open_memory(
        tmp_path / "a.db", settings=settings, notes_folder=tmp_path / "notes", clock=FrozenClock(LATER)
    )
    async with serving(memory) as client:
        lines = lines_of(await client.post("/v1/consolidate?owner=ana&progress=true"))
        (day,) = lines[-1]["result"]["days"]
        assert (day["owner"], day["day"], day["problem"]) == ("ana", str(NOON.date()), "")
        found = (await client.get("/v1/items?owner=ana")).json()["items"]
        assert "peanuts" in str([item["summary"] for item in found])
    async with serving() as client:
        assert (await client.post("/v1/consolidate")).status_code == 422  # there is no folder


async def test_a_client_that_leaves_cancels_its_import(tmp_path: Path) -> None:
    async with onlooker.open_memory(":memory:", workers="external") as memory:
        for n in range(SESSIONS):
            await memory.session(f"s{n}").record([said(k) for k in range(MESSAGES)])
        await memory.storage.export(tmp_path / "export.jsonl")
    exported = (tmp_path / "export.jsonl").read_bytes()
    with started(tmp_path / "to.db") as server:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            async with client.stream("POST", "/v1/import?progress=true", content=exported) as answer:
                async for line in answer.aiter_lines():
                    if json.loads(line).get("done", 0) > 0:
                        break
            seen: list[list[str]] = []
            while len(seen) < 2 or seen[-1] != seen[-2]:
                await asyncio.sleep(1)
                listed = (await client.get("/v1/sessions?limit=1000")).json()["sessions"]
                seen.append([session["key"] for session in listed])
            assert len(seen[-1]) < SESSIONS
            for key in seen[-1]:  # what is there is whole
                page = (await client.get(f"/v1/sessions/{key}/messages?limit=1000")).json()
                assert len(page["messages"]) == MESSAGES
            # The rest can follow.
            done = (await client.post("/v1/import?replace=true", content=exported)).json()
            assert done["rows"]["message"] == MESSAGES * SESSIONS


async def test_a_client_runs_jobs_and_hears_how_far_they_are(tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    async with (
        serving() as http,
        serving() as other,
        RemoteMemory(http) as memory,
        RemoteMemory(other) as copy,
    ):
        for key in "abc":
            await memory.session(key, owner="ana").record([said(n) for n in range(9)])
        rows = await memory.export(file)
        heard: list[tuple[int, int | None]] = []

        def hear(done: int, total: int | None) -> None:
            heard.append((done, total))

        with pytest.raises(SettingsError, match="ana"):
            await copy.import_file(file)
        done = await copy.import_file(file, all_owners=True, progress=hear)
        assert sum(done.values()) == rows
        assert done["message"] == 27
        assert heard[0] == (0, None)
        assert len(await copy.session("b", owner="ana").messages()) == 9
        with pytest.raises(ConflictError):
            await copy.import_file(file, all_owners=True)
        assert (await copy.import_file(file, owner="ana", replace=True))["session"] == 3
        with pytest.raises(StoreError, match="exists"):
            await memory.export(file)
        file.write_text("nonsense")
        with pytest.raises(SettingsError):
            await copy.import_file(file)
        with pytest.raises(StoreError):
            await copy.import_file(tmp_path / "nowhere.jsonl")
        await copy.settle()
        with pytest.raises(SettingsError, match="notes_folder"):
            await copy.consolidate(dry_run=True)


async def test_a_job_whose_server_is_gone_is_an_error_and_leaves_no_half_file(tmp_path: Path) -> None:
    memory = RemoteMemory(httpx2.AsyncClient(base_url="http://127.0.0.1:9"))
    for job in (memory.settle(), memory.export(tmp_path / "export.jsonl")):
        with pytest.raises(StoreError, match="cannot be reached"):
            await job
    await memory.close()
    assert not (tmp_path / "export.jsonl").exists()


def test_a_program_without_await_runs_jobs_too(tmp_path: Path) -> None:
    with started(tmp_path / "a.db") as server, blocking.connect(server.url) as memory:
        memory.session("s", owner="ana").record(said(1))
        memory.settle()
        file = tmp_path / "export.jsonl"
        assert memory.export(file, owner="ana") >= 2
        assert memory.import_file(file, owner="ana", replace=True)["message"] == 1
