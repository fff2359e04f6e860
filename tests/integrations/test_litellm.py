"""The recipe for LiteLLM's proxy, run by the proxy itself in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from onlooker.blocking import open_memory
from onlooker.testing.adapter_contract import FACT, wait_for
from onlooker.testing.provider import Answer, LocalProvider

ROOT = Path(__file__).parents[2]
ANSWER = "Noted. " + "The list of parcels is long, and it grows. " * 40
TURNS = 40
KEY = "sk-a-key-of-the-proxy-0123456789"
# The proxy imports for ten seconds on a quiet machine, and for three minutes on one that is very busy.
PATIENCE = 900.0


@dataclass
class Proxy:
    """LiteLLM's proxy with the recipe, and the provider behind it."""

    url: str
    folder: Path
    provider: LocalProvider

    def ask(self, messages: list[Any], *, stream: bool = False, **more: Any) -> str:
        body = {"model": "gpt-5-mini", "messages": messages, "stream": stream, **more}
        headers = {"authorization": f"Bearer {KEY}"}
        where = f"{self.url}/v1/chat/completions"
        answer = httpx2.post(where, json=body, headers=headers, timeout=PATIENCE)
        answer.raise_for_status()
        if not stream:
            return answer.json()["choices"][0]["message"]["content"]
        lines = [
            line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")
        ]
        chunks = [choice for line in lines for choice in json.loads(line)["choices"]]
        return "".join(choice["delta"].get("content") or "" for choice in chunks)

    def recorded(self, key: str) -> list[tuple[str, str]]:
        with open_memory(self.folder / "litellm.db", workers="external") as memory:
            return [(m.role, m.text.strip()) for m in memory.session(key, owner="ana").messages()]


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    binaries = os.environ.get("ONLOOKER_LITELLM")
    assert binaries, "`make test-frameworks` makes LiteLLM's environment, and runs this"
    folder = tmp_path_factory.mktemp("litellm")
    for file in (ROOT / "examples" / "litellm").iterdir():
        shutil.copy(file, folder)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    hidden = ("OPENAI", "LITELLM")
    env = {k: v for k, v in os.environ.items() if not k.startswith(hidden) and "proxy" not in k.lower()}
    with LocalProvider(lambda _: Answer(ANSWER)) as provider:
        given = {
            "LITELLM_MASTER_KEY": KEY,
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": f"{provider.url}/v1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # it would be downloaded
            "PYTHONPATH": str(ROOT / "src"),
        }
        program = str(Path(binaries).absolute() / "litellm")
        command = [program, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
        log = folder / "proxy.log"
        with log.open("wb") as out:
            process = subprocess.Popen(command, cwd=folder, env={**env, **given}, stdout=out, stderr=out)
        try:
            url = f"http://127.0.0.1:{port}"
            until = time.monotonic() + PATIENCE
            while not _is_up(url):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.2)
            yield Proxy(url, folder, provider)
        finally:
            process.kill()
            process.wait()


def _is_up(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health/liveliness", timeout=5).status_code == 200
    except httpx2.HTTPError:
        return False


def test_a_long_conversation_keeps_what_was_said_first(proxy: Proxy) -> None:
    history: list[Any] = []
    named: Any = {"litellm_session_id": "long", "user": "ana"}
    for turn in range(TURNS):
        said = FACT if turn == 2 else f"Parcel {turn} weighs {turn * 3 + 1} kg. Which locker code do I have?"
        history.append({"role": "user", "content": said})
        answer = proxy.ask(history, stream=bool(turn % 2), **named)
        assert answer == ANSWER
        history.append({"role": "assistant", "content": answer})
    told = [(m["role"], m["content"].strip()) for m in history]
    # LiteLLM tells of an answer after it has given it.
    wait_for(lambda: proxy.recorded("long") == told)
    sent = proxy.provider.received[-1].body["messages"]
    assert "## Conversation Memory" in sent[0]["content"]
    assert "4711-B" in json.dumps(sent)
    assert len(json.dumps(sent)) < len(json.dumps(history)) / 1.5


def test_a_request_of_no_session_goes_out_as_it_is(proxy: Proxy) -> None:
    said = [{"role": "user", "content": "Hello there."}]
    assert proxy.ask(said) == ANSWER
    assert proxy.provider.received[-1].body["messages"] == said
