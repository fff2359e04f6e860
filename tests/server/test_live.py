"""Events as they happen, and metrics."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from onlooker.server.live import Live
from tests.server.serving import PUBLIC, app_of, said, serving

pytestmark = pytest.mark.anyio


async def read(
    live: Live, count: int, last: str = "", owner: str | None = None, session: str | None = None
) -> list[Any]:
    """The next events, each with its id."""
    found = list[Any]()
    async with asyncio.timeout(30):
        async for piece in live.follow(owner, session, last, asyncio.Event()):
            parts = [line.partition(": ") for line in piece.decode().strip().split("\n")]
            lines = {name: value for name, _, value in parts}
            if "event" in lines:
                found.append(lines["event"])
            elif "data" in lines:
                found.append({**json.loads(lines["data"]), "id": lines["id"]})
            if len(found) == count:
                break
    return found


async def test_events_are_filtered_and_resumed_after_the_last_one_that_arrived() -> None:
    async with serving() as client:
        live: Live = app_of(client).state.live
        waiting = asyncio.ensure_future(read(live, 2, owner="ana"))
        await asyncio.sleep(0)
        for n, owner in enumerate(("ana", "ben", "ana"), 1):
            await client.post(f"/v1/sessions/s{n}/messages?owner={owner}", json=said(n))
        first, second = await waiting
        assert [first["type"], first["session"], second["session"]] == ["Recorded", "s1", "s3"]
        assert first["messages"] == [
            {"id": "m1", "seq": 1, "role": "user", "tokens": first["messages"][0]["tokens"]}
        ]
        missed = await read(live, 2, last=first["id"])
        assert [e["session"] for e in missed] == ["s2", "s3"]
        assert [e["session"] for e in await read(live, 1, last=first["id"], session="s3")] == ["s3"]
        # Events of another process are not here: the client is told, and gets what there is.
        assert (await read(live, 2, last="other-7"))[0] == "missed"


async def test_a_stream_ends_when_the_server_stops_and_says_that_it_lives() -> None:
    async with serving() as client:
        app = app_of(client)
        asking = asyncio.ensure_future(client.get("/v1/events"))
        await asyncio.sleep(0.05)
        await client.post("/v1/sessions/a/messages", json=said(1))
        await asyncio.sleep(0.05)
        app.state.stopping.set()
        async with asyncio.timeout(30):
            answer = await asking
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert '"type": "Recorded"' in answer.text


async def test_metrics_count_requests_by_route_and_what_memory_did() -> None:
    async with serving() as client:
        await client.post("/v1/sessions/secret-key/messages", json={"messages": [said(1), said(2)]})
        await client.get("/v1/sessions/none")
        text = (await client.get("/metrics")).text
        assert "onlooker_messages_total 2.0" in text
        assert 'onlooker_events_total{type="Recorded"} 1.0' in text
        assert (
            'onlooker_request_seconds_count{method="GET",route="/v1/sessions/{key}",status="404"} 1.0' in text
        )
        assert "secret-key" not in text


async def test_whoever_comes_back_gets_what_it_missed_over_http() -> None:
    async with serving() as client:
        app = app_of(client)

        async def heard(*texts: str, **headers: str) -> list[tuple[str, str]]:
            """The ids and texts of events that a request hears until the server stops."""
            app.state.stopping.clear()
            asking = asyncio.ensure_future(client.get("/v1/events?session=a", headers=headers))
            await asyncio.sleep(0.05)
            for text in texts:
                await app.state.memory.session("a").record(said(1, text) | {"id": text})
            await asyncio.sleep(0.05)
            app.state.stopping.set()
            pairs = [each.split("\ndata: ") for each in (await asking).text.split("\n\n") if "data: " in each]
            return [(ident.removeprefix("id: "), text) for ident, text in pairs if "Recorded" in text]

        first = await heard("one", "two")
        assert [json.loads(text)["messages"][0]["id"] for _, text in first] == ["one", "two"]
        await app.state.memory.session("a").record(said(1) | {"id": "three"})
        again = await heard("four", **{"last-event-id": first[0][0]})
        assert [json.loads(text)["messages"][0]["id"] for _, text in again] == ["two", "three", "four"]


async def test_events_have_nothing_of_what_was_said() -> None:
    async with serving() as client:
        live: Live = app_of(client).state.live
        waiting = asyncio.ensure_future(read(live, 1))
        await asyncio.sleep(0)
        told = [
            said(n, f"I am allergic to peanuts, and my code is ZQ{n:03}K. " * 8) for n in range(1, 121, 2)
        ]
        await client.post("/v1/sessions/a/messages?owner=ana", json={"messages": told})
        await client.post("/v1/sessions/a/end?owner=ana")
        await client.post("/v1/items?owner=ana", json={"summary": "Ana lives in Oslo, with peanuts."})
        await client.get("/v1/search?owner=ana&q=peanuts")
        (first,) = await waiting
        kinds = {"Noted", "ItemsMade", "Searched"}
        heard = list[Any]()
        while not kinds <= {event["type"] for event in heard}:
            heard = await read(live, len(heard) + 1, last=first["id"])
        (note,) = [event["note"]["id"] for event in heard if event["type"] == "Noted"][:1]
        assert "peanuts" in (await client.get(f"/v1/sessions/a/notes/{note}?owner=ana")).text
        everything = json.dumps(heard)
        assert "peanuts" not in everything
        assert "ZQ0" not in everything


async def test_an_owner_hears_of_its_own_sessions_and_sees_no_counts() -> None:
    async with serving(config=PUBLIC) as client:
        app = app_of(client)
        token, _ = await app.state.tokens.make("ana")
        headers = {"authorization": f"Bearer {token}"}
        asking = asyncio.ensure_future(client.get("/v1/events", headers=headers))
        await asyncio.sleep(0.05)
        for owner in ("ben", "ana"):
            await app.state.memory.session("a", owner=owner).record(said(1))
        await asyncio.sleep(0.05)
        app.state.stopping.set()
        assert '"owner": "ben"' not in (await asking).text
        assert '"owner": "ana"' in (await asking).text
        assert (await client.get("/metrics", headers=headers)).status_code == 404
