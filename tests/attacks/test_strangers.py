"""Strangers: what is not theirs they neither read nor write."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

import onlooker
from onlooker import user
from onlooker.domain.errors import ModelError
from onlooker.models.embedding import embedder_named
from tests.acceptance.command_line import call, write_transcript

pytestmark = pytest.mark.anyio


async def test_sessions_without_an_owner_reach_nothing_of_each_other() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        other = memory.session("telegram:1001")
        await other.record(user("My locker code is 4417-Quokka.", id="1"))
        own = memory.session("telegram:1002")
        await own.record(user("What is my locker code?"))
        tools = own.tools()
        seen = [
            await tools.call("memory_search", {"query": "locker code"}),
            await tools.call("recall", {"id": "1", "session": "telegram:1001"}),
            (await own.context(system="S")).text(),
            (await own.context(system="S", question="What is the locker code?")).text(),
        ]
    assert not [text for text in seen if "Quokka" in text]


async def test_an_import_for_one_owner_writes_nothing_of_another(tmp_path: Path) -> None:
    async with onlooker.open_memory(tmp_path / "a.db") as memory:
        for owner in ("mallory", "bob"):
            await memory.session("k", owner=owner).record(user(f"I am {owner}."))
            await memory.items.save(f"The user {owner} likes tea in the morning", owner=owner)
        await memory.storage.export(tmp_path / "all.jsonl")
    async with onlooker.open_memory(tmp_path / "b.db") as memory:
        counts = await memory.storage.import_file(tmp_path / "all.jsonl", owner="mallory")
        assert counts["message"] == counts["item"] == 1
        assert {s.progress.session.owner for s in await memory.sessions()} == {"mallory"}
        assert not await memory.items.list("bob")
    arguments = ("import", tmp_path / "all.jsonl", "--owner", "bob", "--db", tmp_path / "c.db")
    assert (await asyncio.to_thread(call, *arguments)).code == 0
    async with onlooker.open_memory(tmp_path / "c.db") as memory:
        assert {s.progress.session.owner for s in await memory.sessions()} == {"bob"}


def test_a_replay_writes_a_file_of_its_own(tmp_path: Path) -> None:
    others = tmp_path / "others.txt"
    others.write_text("not yours")
    out = tmp_path / "context.txt"
    out.symlink_to(others)
    transcript = write_transcript(tmp_path / "t.jsonl", [{"role": "user", "content": "Hi there."}])
    done = call("replay", transcript, "--db", tmp_path / "a.db", "--context", out)
    assert done.code == 0, done.err
    assert others.read_text() == "not yours"
    assert not out.is_symlink()
    assert "Hi there." in out.read_text()
    if os.name == "posix":
        assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.fixture
def redirecting() -> Iterator[tuple[str, list[str]]]:
    """A server that sends everyone elsewhere on itself, and the paths that it was asked for."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", asked
    server.shutdown()
    thread.join()
    server.server_close()


async def test_an_embedder_follows_no_redirect(redirecting: tuple[str, list[str]]) -> None:
    address, asked = redirecting
    embedder = embedder_named(f"openai:test@{address}")
    with pytest.raises(ModelError, match="307"):
        await embedder.embed(["My locker code is 4417."])
    assert asked == ["/v1/embeddings"]
