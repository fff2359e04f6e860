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
