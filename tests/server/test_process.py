"""The server as a process: it starts, says where everything is, and stops cleanly."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.command_line import call
from tests.server.process import started
from tests.server.serving import said


def test_it_starts_serves_and_stops_cleanly_on_a_signal(tmp_path: Path) -> None:
    with started(tmp_path / "a.db") as server:
        assert any("REST" in line and f"{server.url}/v1" in line for line in server.printed)
        answer = httpx2.post(f"{server.url}/v1/sessions/a/messages", json=said(1))
        assert len(answer.json()["recorded"]) == 1
        assert server.stop(signal.SIGTERM) == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""
    with started(tmp_path / "a.db") as server:
        messages = httpx2.get(f"{server.url}/v1/sessions/a/messages").json()["messages"]
        assert [m["id"] for m in messages] == ["m1"]


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with started(tmp_path / "a.db") as server:
        port = server.url.rpartition(":")[2]
        with (
            pytest.raises(AssertionError, match=f"cannot listen on 127.0.0.1 port {port}"),
            started(tmp_path / "b.db", "--port", port),
        ):
            pass


def test_tokens_are_made_listed_and_revoked(tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    made = call("token", "make", "--db", db, "--owner", "ana", "--expires", "30", "--note", "laptop")
    assert made.out.startswith("onl_")
    listed = call("token", "list", "--db", db, "--json")
    (token,) = listed.json["tokens"]
    assert (token["owner"], token["note"]) == ("ana", "laptop")
    assert made.out.strip() not in listed.out
    assert call("token", "revoke", token["id"], "--db", db).code == 0
    assert call("token", "list", "--db", db, "--json").json == {"tokens": []}
    assert call("token", "revoke", token["id"], "--db", db).code == 1
    assert call("token", "make", "--db", db).code == 2
    assert call("token", "revoke", "--db", db).code == 2


def test_what_is_wrong_in_the_section_of_the_server_is_said(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    for text, says in (
        ("[server]\nport = 70000\n", "server.port = 70000: must be an integer from 0 to 65535"),
        ("[server]\nhots = []\n", "server.hots"),
        ('[server.upstreams.v1]\nurl = "http://x"\n', "server.upstreams.v1"),
        ('[server.upstreams.own]\nurl = "file:///etc"\n', "must be an address such as"),
    ):
        file.write_text(text)
        done = call("serve", "--db", tmp_path / "a.db", "--config", file)
        assert done.code == 2, done.err
        assert says in done.err


def test_a_start_imports_nothing_that_only_some_requests_need() -> None:
    """The SDK of MCP alone took as long as all the rest, and a model's layer longer than that."""
    late = {"mcp", "pydantic_ai", "openai", "anthropic"}
    code = f"import sys, onlooker.server.app; print(*{late} & {{*sys.modules}})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
