"""The server as a process: it starts, says where everything is, and stops cleanly."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.command_line import call, run
from tests.server.process import Server, started
from tests.server.serving import said


def children(process: int) -> list[int]:
    """The processes that this one has started and that still run."""
    found: list[int] = []
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            found += map(int, listed.read_text().split())
    return found


def is_running(process: int) -> bool:
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    return False


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within 30 seconds")


def noted(server: Server, session: str) -> list[str]:
    """Have a conversation that has to be noted, and the texts of its notes."""
    facts = [f"Parcel ZQ{n:05}K went from Oslo to hall {n}, and Ana signed for it." for n in range(600)]
    turns = [{"role": "user", "content": fact, "created_at": "2026-02-16T14:00Z"} for fact in facts]
    where = f"{server.url}/v1/sessions/{session}"
    httpx2.post(f"{where}/messages", json={"messages": turns}, timeout=60).raise_for_status()
    httpx2.post(f"{where}/settle", timeout=60).raise_for_status()
    return [note["text"] for note in httpx2.get(f"{where}/notes").json()["notes"]]


def test_it_starts_serves_and_stops_cleanly_on_a_signal(tmp_path: Path) -> None:
    with started(tmp_path / "a.db") as server:
        for what, where in (
            ("inspector", "/"),
            ("REST", "/v1"),
            ("proxy, openai", "/openai/v1"),
            ("proxy, anthropic", "/anthropic"),
            ("MCP", "/mcp"),
            ("health", "/healthz"),
        ):
            assert any(
                line.strip().startswith(what) and server.url + where in line for line in server.printed
            )
        answer = httpx2.post(f"{server.url}/v1/sessions/a/messages", json=said(1))
        assert len(answer.json()["recorded"]) == 1
        noted(server, "b")
        (beside,) = children(server.process.pid)
        assert server.stop(signal.SIGTERM) == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""
        assert not is_running(beside)
    with started(tmp_path / "a.db") as server:
        messages = httpx2.get(f"{server.url}/v1/sessions/a/messages").json()["messages"]
        assert [m["id"] for m in messages] == ["m1"]


def test_no_command_shows_the_password_of_an_upstream(tmp_path: Path) -> None:
    url = "http://ana:open-s3same-9@gateway.example:8080"
    file = tmp_path / "onlooker.toml"
    file.write_text(f'[server.upstreams.gateway]\nurl = "{url}"\n')
    with started(tmp_path / "a.db", "--config", str(file), "--upstream", f"two={url}/v1") as server:
        shown = "\n".join([*server.printed, httpx2.get(f"{server.url}/v1/settings").text])
        shown += (
            httpx2.get(f"{server.url}/inspect/settings").text
            + httpx2.get(f"{server.url}/inspect/health").text
        )
    assert "http://gateway.example:8080" in shown
    shown += call("doctor", "--db", tmp_path / "a.db", "--config", file).out
    for wrong in (url, f"two={url.replace('http', 'ftp')}", "two=http://ana:open-s3same-9@"):
        refused = call("serve", "--db", tmp_path / "b.db", "--upstream", wrong)
        assert refused.code == 2
        shown += refused.out + refused.err
    file.write_text('[server.upstreams.gateway]\nurl = "ftp://ana:open-s3same-9@gateway.example"\n')
    shown += call("serve", "--db", tmp_path / "b.db", "--config", file).err
    shown += call("doctor", "--db", tmp_path / "a.db", "--config", file).out
    assert "must be an address" in shown
    assert "s3same" not in shown


def test_notes_are_written_in_a_process_beside_it_that_lives_no_longer(tmp_path: Path) -> None:
    with started(tmp_path / "a.db") as server:
        first = noted(server, "a")
        assert any("ZQ00000K" in text for text in first)
        (beside,) = children(server.process.pid)
        os.kill(beside, signal.SIGTERM)  # as service managers do; the server says when it ends
        assert noted(server, "b") == first
        assert children(server.process.pid) == [beside]
        os.kill(beside, signal.SIGKILL)
        assert noted(server, "c") == first
        assert noted(server, "d") == first
        (again,) = children(server.process.pid)
        assert again != beside
        server.stop(signal.SIGKILL)
        wait_until(lambda: not is_running(again))
    with started(tmp_path / "a.db", "--workers", "embedded") as server:
        assert noted(server, "e") == first
        assert children(server.process.pid) == []


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with started(tmp_path / "a.db") as server:
        port = server.url.rpartition(":")[2]
        with (
            pytest.raises(AssertionError, match=f"cannot listen on 127.0.0.1 port {port}.*--port"),
            started(tmp_path / "b.db", "--port", port),
        ):
            pass


def test_a_database_that_cannot_be_opened_is_said_without_a_traceback(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE songs (title)")
    other.close()
    (tmp_path / "text.db").write_text("not a database, but long enough to look at" * 50)
    for name, says in (("other.db", "a database of another application"), ("text.db", "not a database")):
        done = run("serve", "--port", "0", "--db", name, cwd=tmp_path)
        assert (done.code, done.out) == (1, "")
        assert says in done.err
        assert done.err.count("\n") == 1


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


def test_a_command_loads_no_other_and_collects_garbage_afterwards() -> None:
    code = (
        "import gc, sys; sys.argv = ['onlooker', 'serve', '--help']\n"
        "from onlooker.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 10_000)\n"
        "print(*sorted(m for m in sys.modules if m.startswith('onlooker.cli.')))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    collects, loaded = found.stdout.splitlines()[-2:]
    assert collects == "True True"
    assert {"onlooker.cli.serve"} <= set(loaded.split())
    assert not {"onlooker.cli.demo", "onlooker.cli.chat", "onlooker.cli.transfer"} & set(loaded.split())
