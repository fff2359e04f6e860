"""Two servers on one PostgreSQL behave as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2

from onlooker.testing.provider import Answer, LocalProvider
from tests.acceptance.command_line import call
from tests.postgres.server import Server
from tests.server.process import started


def said(number: int) -> str:
    return f"Parcel ZQ{number:03}K went from Oslo to hall {number}, and Ana signed for it."


def test_what_one_server_does_the_other_knows(server: Server, tmp_path: Path) -> None:
    url = server.new_url()
    with LocalProvider(lambda _: Answer("Noted.")) as provider:
        options = ("--upstream", f"openai={provider.url}")
        with (
            started(url, *options, folder=tmp_path) as one,
            started(url, *options, folder=tmp_path) as two,
            httpx2.Client(timeout=120) as http,
        ):

            def get(place: str, path: str, **params: str) -> Any:
                return http.get(f"{place}/v1/{path}", params=params).raise_for_status().json()

            # A conversation through the proxy, without a name, each turn at the other server.
            history = list[Any]()
            keys = set[str]()
            for turn in range(6):
                history.append({"role": "user", "content": said(turn)})
                at = (one, two)[turn % 2].url
                body = {"model": "m", "messages": history}
                answer = http.post(f"{at}/openai/v1/chat/completions", json=body).raise_for_status()
                assert answer.headers["x-onlooker-memory"] == "on"
                keys.add(answer.headers["x-onlooker-session"])
                history.append(answer.json()["choices"][0]["message"])
            (key,) = keys
            for at in (one.url, two.url):
                texts = [m["text"] for m in get(at, f"sessions/{key}/messages")["messages"]]
                assert texts == [m["content"] for m in history]
            # What is recorded at one is noted, shown and found at the other.
            many = [{"role": "user", "content": said(n), "id": f"m{n}"} for n in range(600)]
            http.post(f"{one.url}/v1/sessions/s/messages", json={"messages": many}).raise_for_status()
            http.post(f"{two.url}/v1/sessions/s/settle").raise_for_status()
            assert "ZQ003K" in str(get(one.url, "sessions/s/context", format="text"))
            assert get(two.url, "search", q="ZQ003K", session="s")["hits"]
            # What one forgets, the other has forgotten, and an item of one is shown by the other.
            forgotten = http.post(f"{one.url}/v1/sessions/s/forget", json={"targets": ["m3"]})
            assert forgotten.raise_for_status().json()["messages"] == 1
            for at in (one.url, two.url):
                http.post(f"{at}/v1/sessions/s/settle").raise_for_status()
                assert "ZQ003K" not in str(get(at, "sessions/s/context", format="text"))
                assert not [
                    h for h in get(at, "search", q="ZQ003K", session="s")["hits"] if "ZQ003K" in str(h)
                ]
            item = {"summary": "Ana is allergic to peanuts."}
            http.post(f"{two.url}/v1/items", json=item, params={"owner": "ana"}).raise_for_status()
            assert "peanuts" in str(get(one.url, "sessions/new/context", owner="ana"))
            http.delete(f"{two.url}/v1/sessions/s").raise_for_status()
            assert http.get(f"{one.url}/v1/sessions/s").status_code == 404
            # A token that is made beside them is known to both.
            made = call("token", "make", "--db", url, "--owner", "ana").out.strip()
            for at in (one.url, two.url):
                mine = http.get(f"{at}/v1/sessions", headers={"authorization": f"Bearer {made}"})
                assert {s["owner"] for s in mine.raise_for_status().json()["sessions"]} == {"ana"}
            assert (one.stop(), two.stop()) == (0, 0)
