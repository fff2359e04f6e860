"""Coding agents and OpenAI's SDK for Node through the proxy, and the agents with hooks.

`make test-agents` installs them from npm.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from onlooker.blocking import open_memory
from onlooker.testing.provider import Answer, LocalProvider, Received
from tests.server.process import Server, started

FOLDER = os.environ.get("ONLOOKER_AGENTS", "")
pytestmark = [pytest.mark.long, pytest.mark.agents]


@pytest.fixture(autouse=True)
def installed() -> None:
    assert FOLDER, "`make test-agents` installs the agents, and runs this"


TURNS = 20
FIRST = "Parcel ZQ003K belongs to Ana, and stands in hall 7. Look into every row."
SECOND = "Whose parcel is ZQ003K?"
RULE = "Always use tabs in this depot."


def call(tools: list[str], row: int) -> dict[str, Any]:
    """A call of the tool that an agent has for commands."""
    look = f"echo row {row} is full"
    known: dict[str, Any] = {
        "Bash": {"command": look, "description": "Look into a row"},
        "exec_command": {"cmd": look},
        "shell": {"command": ["bash", "-c", look]},
        "look": {"row": row},
    }
    name = next(name for name in known if name in tools)
    return {name: known[name]}


def run_in(home: Path, work: Path, *command: str, **environment: str) -> str:
    """What an agent prints that has this home, in this folder."""
    hidden = ("ANTHROPIC", "CLAUDE", "OPENAI", "CODEX", "ONLOOKER")
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(hidden) and not k.lower().endswith("_proxy")
    }
    binaries = f"{FOLDER}/node_modules/.bin:{env.get('PATH', '')}"
    done = subprocess.run(
        command,
        cwd=work,
        env={**env, "HOME": str(home), "PATH": binaries, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, (done.stdout[-2_000:], done.stderr[-2_000:])
    return done.stdout


class Depot:
    """A provider that calls a tool some times, then answers."""

    def __init__(self, turns: int = TURNS) -> None:
        self.turns = turns
        self.turn = 0

    def __call__(self, received: Received) -> Answer:
        tools = [t.get("name") or t.get("function", {}).get("name") for t in received.body.get("tools") or ()]
        if not tools:
            return Answer("A depot.")
        self.turn += 1
        if self.turn % (self.turns + 1):
            return Answer(calls=call(tools, self.turn))
        return Answer("All rows are looked at, and the parcel is on top.")


class Desk:
    """An agent's home, the server, and the provider behind it."""

    def __init__(self, home: Path, server: Server, provider: LocalProvider) -> None:
        self.home = home
        self.server = server
        self.provider = provider
        self.work = home / "work"
        self.work.mkdir()
        for name in ("CLAUDE.md", "AGENTS.md"):
            (self.work / name).write_text(f"{RULE}\n")

    def run(self, *command: str, **environment: str) -> str:
        return run_in(self.home, self.work, *command, **environment)

    def recorded(self) -> list[Any]:
        """The messages of the one session that there is."""
        (session,) = httpx2.get(f"{self.server.url}/v1/sessions").json()["sessions"]
        address = f"{self.server.url}/v1/sessions/{session['key']}/messages?limit=1000&archived=true"
        return httpx2.get(address).json()["messages"]

    def check(self) -> None:
        """The whole conversation is remembered, and nothing that the agent said by itself."""
        recorded = self.recorded()
        assert [m["text"] for m in recorded if m["role"] == "user"] == [FIRST, SECOND]
        assert RULE not in json.dumps(recorded)
        results = [m["text"] for m in recorded if m["role"] == "tool"]
        assert len(results) == 2 * TURNS
        assert all(f"row {n} is full" in text for n, text in zip(self.shown(), results, strict=True))
        # What it said by itself still reaches the model, and so does what was said first.
        sent = [r for r in self.provider.received if r.body.get("tools")]
        last = json.dumps(sent[-1].body)
        assert RULE in last
        assert "ZQ003K belongs to Ana" in last
        whole = sum(len(json.dumps(m)) for m in recorded)
        size = len(json.dumps(sent[-1].body.get("messages") or sent[-1].body["input"]))
        lead = len(json.dumps(sent[0].body.get("messages") or sent[0].body["input"]))
        assert size - lead < whole

    def shown(self) -> list[int]:
        return [*range(1, TURNS + 1), *range(TURNS + 2, 2 * TURNS + 2)]


@contextmanager
def desk(tmp_path: Path) -> Generator[Desk]:
    (tmp_path / "s.toml").write_text("[onlooker]\n[server]\nproxy_budget = 2500\n")
    with LocalProvider(Depot()) as provider:
        upstreams = [f"--upstream={name}={provider.url}" for name in ("openai", "anthropic")]
        with started(tmp_path / "a.db", "--config", str(tmp_path / "s.toml"), *upstreams) as server:
            yield Desk(tmp_path, server, provider)


CLAUDE = {
    "ANTHROPIC_API_KEY": "sk-ant-test-0123456789",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",
}


def codex_settings(home: Path, url: str) -> None:
    """Let Codex ask a provider at this address, and nobody for permission."""
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(
        'model = "gpt-5-mini"\nmodel_provider = "onlooker"\napproval_policy = "never"\n'
        'sandbox_mode = "danger-full-access"\n[model_providers.onlooker]\nname = "Onlooker"\n'
        f'base_url = "{url}"\nwire_api = "responses"\nenv_key = "OPENAI_API_KEY"\n'
    )


def test_claude_code_works_and_resumes_through_the_proxy(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        environment = {"ANTHROPIC_BASE_URL": f"{at.server.url}/anthropic", **CLAUDE}
        ident = str(uuid.uuid4())
        ask = ("claude", "-p", "--allowedTools", "Bash", "--output-format", "json")
        assert "on top" in at.run(*ask, "--session-id", ident, FIRST, **environment)
        assert "on top" in at.run(*ask, "--resume", ident, SECOND, **environment)
        at.check()
        # It asked for a title as well, by the same session.
        assert [r for r in at.provider.received if "title" in json.dumps(r.body) and not r.body.get("tools")]


def test_an_agent_that_claude_code_starts_has_a_conversation_of_its_own(tmp_path: Path) -> None:
    task = "Count the parcels in hall 9."

    def answer(received: Received) -> Answer:
        said = json.dumps(received.body["messages"])
        if not received.body.get("tools"):
            return Answer("A depot.")
        if FIRST in said and "There are 12" in said:
            return Answer("All rows are looked at, and the parcel is on top.")
        if FIRST in said:
            asked = {"description": "Count", "prompt": task, "subagent_type": "claude"}
            return Answer(calls={"Agent": asked})
        return Answer("There are 12.") if "row 7 is full" in said else Answer(calls=call(["Bash"], 7))

    with (
        LocalProvider(answer) as provider,
        started(tmp_path / "a.db", f"--upstream=anthropic={provider.url}") as server,
    ):
        (tmp_path / "work").mkdir()
        environment = {"ANTHROPIC_BASE_URL": f"{server.url}/anthropic", **CLAUDE}
        ask = ("claude", "-p", "--allowedTools", "Bash", "--output-format", "json")
        assert "on top" in run_in(tmp_path, tmp_path / "work", *ask, FIRST, **environment)
        (session,) = httpx2.get(f"{server.url}/v1/sessions").json()["sessions"]
        messages = httpx2.get(f"{server.url}/v1/sessions/{session['key']}/messages").json()["messages"]
        assert [m["text"] for m in messages if m["role"] == "user"] == [FIRST]
        assert "There are 12." in json.dumps([m["text"] for m in messages if m["role"] == "tool"])
        of_it = [r.body["messages"] for r in provider.received if "x-claude-code-agent-id" in r.headers]
        assert len(of_it) == 2
        assert all(task in json.dumps(sent) and FIRST not in json.dumps(sent) for sent in of_it)


@pytest.mark.parametrize(
    ("program", "agent", "says"), [("Claude Code", "claude", "Connected"), ("Codex", "codex", "enabled")]
)
def test_the_documented_command_adds_memory_to_an_agent(
    tmp_path: Path, program: str, agent: str, says: str
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text("utf-8")
    (command,) = re.findall(rf"^\| {program} \| `(.*)` \|$", page, re.MULTILINE)
    path = f"{Path(sys.executable).parent}:{FOLDER}/node_modules/.bin:{os.environ['PATH']}"
    run_in(tmp_path, tmp_path, "bash", "-c", command, PATH=path)
    listed = run_in(tmp_path, tmp_path, agent, "mcp", "list", PATH=path)
    assert "onlooker" in listed
    assert says in listed


def test_codex_works_and_resumes_through_the_proxy(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        codex_settings(tmp_path, f"{at.server.url}/openai/v1")
        ask = ("codex", "exec", "--skip-git-repo-check")
        assert "on top" in at.run(*ask, FIRST, OPENAI_API_KEY="sk-test-0123456789")
        assert "on top" in at.run(*ask, "resume", "--last", SECOND, OPENAI_API_KEY="sk-test-0123456789")
        at.check()


NODE = """
import OpenAI from "openai";
import { readFileSync, writeFileSync, existsSync } from "node:fs";
const [url, file, said] = process.argv.slice(2);
const client = new OpenAI({ baseURL: url, apiKey: "sk-test-0123456789" });
const messages = existsSync(file) ? JSON.parse(readFileSync(file)) : [];
messages.push({ role: "user", content: said });
const parameters = { type: "object", properties: { row: { type: "integer" } } };
const tools = [{ type: "function", function: { name: "look", parameters } }];
for (;;) {
  const stream = client.chat.completions.stream({ model: "gpt-5-mini", messages, tools });
  const { message } = (await stream.finalChatCompletion()).choices[0];
  messages.push(message);
  if (!message.tool_calls?.length) { console.log(message.content); break; }
  for (const call of message.tool_calls) {
    const { row } = JSON.parse(call.function.arguments);
    messages.push({ role: "tool", tool_call_id: call.id, content: `row ${row} is full` });
  }
}
writeFileSync(file, JSON.stringify(messages));
"""


def test_the_sdk_for_node_works_through_the_proxy(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        script = Path(FOLDER) / "client.mjs"
        script.write_text(NODE)
        address = f"{at.server.url}/openai/v1"
        for said in (FIRST, SECOND):  # each a process of its own, with the history that the last one kept
            assert "on top" in at.run("node", str(script), address, str(tmp_path / "history.json"), said)
        recorded = at.recorded()
        assert [m["text"] for m in recorded if m["role"] == "user"] == [FIRST, SECOND]
        assert len([m for m in recorded if m["role"] == "tool"]) == 2 * TURNS
        assert "ZQ003K" in json.dumps(at.provider.received[-1].body)


# ------------------------------------------------------------------------------------ hooks


def hooked(home: Path, agent: str, scope: str) -> Path:
    """A project of a user whose agent has our hooks."""
    work = home / "work"
    work.mkdir()
    (work / "CLAUDE.md").write_text(f"{RULE}\n")
    (work / "AGENTS.md").write_text(f"{RULE}\n")
    (work / ".git").mkdir()  # without it, Codex reads no settings of a project
    # Agents may run two that are equal once, so these are not.
    for deadline, place in (("60", "user"), ("61", "project")):
        if scope in (place, "both"):
            options = ("--agent", agent, "--deadline", deadline, "--scope", place)
            run_in(home, work, sys.executable, "-m", "onlooker", "hook", "install", *options)
    return work


def told(received: Received) -> bool:
    """Whether the request has what memory told the agent."""
    body = json.dumps(received.body)
    return "kept by Onlooker" in body and "ZQ003K belongs to Ana" in body


def check_hooked(home: Path, work: Path, provider: LocalProvider) -> None:
    """The second session was told what the first one said, and only what people said is recorded."""
    first, second = provider.received[0], provider.received[-1]
    assert not told(first)
    assert told(second)
    # When it started and with the prompt, once each.
    assert json.dumps(second.body).count("kept by Onlooker") == 2
    wait_for_notes(home)
    with open_memory(home / ".onlooker" / "memory.db", workers="external") as memory:
        summaries = memory.sessions(owner=os.path.realpath(work))
        keys = [s.progress.session.key for s in summaries]
        messages = [list(memory.session(k, owner=os.path.realpath(work)).messages()) for k in keys]
    said = [[m.text for m in each if m.role == "user"] for each in messages]
    assert sorted(said) == sorted([[FIRST], [SECOND]])
    everything = "\n".join(m.text for each in messages for m in each)
    assert RULE not in everything
    assert "kept by Onlooker" not in everything
    assert all("on top" in each[-1].text and any(m.role == "tool" for m in each) for each in messages)
    assert not (home / ".onlooker" / "hook.log").exists()


def wait_for_notes(home: Path) -> None:
    """Wait for the process that records the session; it works in the folder that hooks share."""
    until = time.monotonic() + 120
    while any(_works_in(home / ".onlooker", entry) for entry in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < until
        time.sleep(0.1)


def _works_in(folder: Path, process: Path) -> bool:
    try:
        return Path(os.readlink(process / "cwd")) == folder
    except OSError:
        return False


@pytest.mark.parametrize("scope", ["project", "user", "both"])
def test_claude_code_is_told_what_an_earlier_session_said(tmp_path: Path, scope: str) -> None:
    work = hooked(tmp_path, "claude", scope)
    with LocalProvider(Depot(2)) as provider:
        environment = {"ANTHROPIC_BASE_URL": provider.url, **CLAUDE}
        ask = ("claude", "-p", "--allowedTools", "Bash", "--output-format", "json")
        for said in (FIRST, SECOND):  # each a session of its own
            assert "on top" in run_in(tmp_path, work, *ask, said, **environment)
        check_hooked(tmp_path, work, provider)


@pytest.mark.parametrize("scope", ["user", "both"])
def test_codex_is_told_what_an_earlier_session_said(tmp_path: Path, scope: str) -> None:
    with LocalProvider(Depot(2)) as provider:
        codex_settings(tmp_path, f"{provider.url}/v1")
        work = hooked(tmp_path, "codex", scope)
        # Nobody can review the hooks here.
        ask = ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust")
        for said in (FIRST, SECOND):
            assert "on top" in run_in(tmp_path, work, *ask, said, OPENAI_API_KEY="sk-test-0123456789")
        check_hooked(tmp_path, work, provider)
