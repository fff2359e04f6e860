"""Two servers on one PostgreSQL behave as one, and the services of the compose file work together."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

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

            def settle(place: str) -> None:
                # False while the other server takes the notes: it was woken by what was recorded there.
                path = f"{place}/v1/sessions/s/settle"
                while not http.post(path).raise_for_status().json()["settled"]:
                    time.sleep(0.05)

            # What is recorded at one is noted, shown and found at the other.
            many = [{"role": "user", "content": said(n), "id": f"m{n}"} for n in range(600)]
            http.post(f"{one.url}/v1/sessions/s/messages", json={"messages": many}).raise_for_status()
            settle(two.url)
            assert "ZQ003K" in str(get(one.url, "sessions/s/context", format="text"))
            assert get(two.url, "search", q="ZQ003K", session="s")["hits"]
            # What one forgets, the other has forgotten, and an item of one is shown by the other.
            forgotten = http.post(f"{one.url}/v1/sessions/s/forget", json={"targets": ["m3"]})
            assert forgotten.raise_for_status().json()["messages"] == 1
            for at in (one.url, two.url):
                settle(at)
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


DEPLOY = Path(__file__).parents[2] / "deploy"
PROGRAM = (sys.executable, "-m", "onlooker")


@pytest.mark.long
def test_the_commands_of_the_compose_file_work_together(server: Server, tmp_path: Path) -> None:
    services: Any = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    serve, *options = services["server"]["command"]
    assert serve == "serve"
    environment = {**os.environ, "ONLOOKER_DB": server.new_url()}
    worker = subprocess.Popen([*PROGRAM, *services["worker"]["command"]], env=environment, cwd=tmp_path)
    try:
        with started("", *options, folder=tmp_path, ONLOOKER_DB=environment["ONLOOKER_DB"]) as serving:
            address = serving.url.replace("0.0.0.0", "127.0.0.1")
            made = subprocess.run(
                [*PROGRAM, "token", "make", "--all"],
                env=environment,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=True,
            )
            headers = {"authorization": f"Bearer {made.stdout.strip()}"}
            assert httpx2.get(f"{address}/v1/sessions").status_code == 401
            with httpx2.Client(headers=headers, timeout=120) as http:
                many = [{"role": "user", "content": said(n), "id": f"m{n}"} for n in range(1_500)]
                told = http.post(f"{address}/v1/sessions/s/messages", json={"messages": many})
                assert len(told.raise_for_status().json()["recorded"]) == 1_500
                until = time.monotonic() + 120
                while not http.get(f"{address}/v1/sessions/s/notes").json()["notes"]:
                    assert time.monotonic() < until, "the worker takes no notes"
                    time.sleep(0.2)
            # What the container asks to know whether it is healthy.
            text = (DEPLOY / "Containerfile").read_text("utf-8")
            (asks,) = re.findall(r"^  CMD (\[.*\])$", text, re.MULTILINE)
            _, *code = json.loads(asks.replace("http://127.0.0.1:8787", address))
            assert subprocess.run([sys.executable, *code], check=False).returncode == 0
            assert serving.stop() == 0
            assert subprocess.run([sys.executable, *code], check=False, stderr=subprocess.DEVNULL).returncode
        worker.terminate()
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        worker.wait()
