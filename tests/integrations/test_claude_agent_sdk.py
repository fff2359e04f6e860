"""Agents of the Claude Agent SDK with memory: Claude Code itself, against a local provider.

Claude Code makes its own prompts, so `AdapterContract` does not apply. What of it can be asked here is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    InMemorySessionStore,
    ResultMessage,
    SessionStore,
)
from claude_agent_sdk.testing import run_session_store_conformance

from onlooker.blocking import open_memory
from onlooker.integrations.claude_agent_sdk import OnlookerMemory, OnlookerStore
from onlooker.integrations.framework import Host
from onlooker.policy.settings import Timing
from onlooker.testing.adapter_contract import wait_for
from onlooker.testing.models import Fault, FaultyModel
from onlooker.testing.provider import Answer, LocalProvider, Received, note_for
from tests.integrations import examples

ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "sk-ant-test-0123456789",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",
}
FACT = "Parcel ZQ003K belongs to Ana, and stands in hall 7."


class Claude:
    """What the model says: to requests with tools what a test wants, and a note to those for notes."""

    def __init__(self) -> None:
        self.next: list[Answer] = []
        self.prompts: list[str] = []
        self.notes: list[Received] = []

    def __call__(self, received: Received) -> Answer:
        if "the memory of a conversation" in received.system:
            self.notes.append(received)
            return Answer(note_for(received.user))
        if not received.body.get("tools"):
            return Answer("A depot.")
        self.prompts.append(json.dumps(received.body["messages"], ensure_ascii=False))
        return self.next.pop(0) if self.next else Answer("Noted.")


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Claude]:
    claude = Claude()
    with LocalProvider(claude) as provider:
        given = {"ANTHROPIC_BASE_URL": provider.url, "HOME": str(tmp_path), **ENVIRONMENT}
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        yield claude


def say(memory: OnlookerMemory, folder: Path, *texts: str, resume: str | None = None) -> list[str]:
    """Say it in one session, and return the answers."""

    async def run() -> list[str]:
        options = memory.options(ClaudeAgentOptions(cwd=folder, setting_sources=[], resume=resume))
        answers: list[str] = []
        async with ClaudeSDKClient(options) as client:
            for text in texts:
                await client.query(text)
                async for message in client.receive_response():
                    if isinstance(message, ResultMessage):
                        answers.append(message.result or "")
        return answers

    return asyncio.run(run())


class Smallest(InMemorySessionStore):
    """A store that leaves out what it may."""

    list_session_summaries = SessionStore.list_session_summaries
    list_subkeys = SessionStore.list_subkeys


@pytest.mark.parametrize("store", [InMemorySessionStore, Smallest])
def test_the_store_is_as_the_sdk_wants_it(store: type[SessionStore]) -> None:
    lacks = {"list_subkeys"} if store is Smallest else set[str]()
    with open_memory(":memory:") as memory:

        def make() -> SessionStore:
            return OnlookerStore(Host(memory), store())

        asyncio.run(run_session_store_conformance(make, skip_optional=frozenset(lacks)))


def test_what_one_session_said_reaches_the_next(tmp_path: Path, claude: Claude) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with open_memory(tmp_path / "m.db") as opened:
        memory = OnlookerMemory(opened, owner="ana")
        assert say(memory, work, FACT, "Thank you.") == ["Noted.", "Noted."]
        (first,) = opened.sessions(owner="ana")
        recorded = opened.session(first.progress.session.key, owner="ana").messages()
        assert [(m.role, m.text) for m in recorded] == [
            ("user", FACT),
            ("assistant", "Noted."),
            ("user", "Thank you."),
            ("assistant", "Noted."),
        ]
        # What the agent still has in its own context is not told to it again.
        assert claude.prompts[-1].count("ZQ003K") == 1
        say(memory, work, "Whose parcel is ZQ003K?")
        assert "belongs to Ana" in claude.prompts[-1]
        assert "Memory of earlier sessions" in claude.prompts[-1]
        # What memory told is not recorded as the user's word.
        newest = opened.sessions(owner="ana")[0].progress.session.key
        said = [m.text for m in opened.session(newest, owner="ana").messages() if m.role == "user"]
        assert said == ["Whose parcel is ZQ003K?"]


def test_the_memorys_tools_are_the_agents_own(tmp_path: Path, claude: Claude) -> None:
    with open_memory(tmp_path / "m.db") as opened:
        memory = OnlookerMemory(opened, owner="ana")
        call = {"mcp__memory__memory_save": {"summary": "Ana likes to bike to work"}}
        claude.next = [Answer(calls=call), Answer("Kept.")]
        assert say(memory, tmp_path, "Remember that I like to bike.") == ["Kept."]
        assert [i.summary for i in opened.items.list(owner="ana")] == ["Ana likes to bike to work"]


ROWS = [
    " ".join(f"Shelf {row}-{n} holds {n * 7 + row} boxes for customer C{row}{n}." for n in range(80))
    for row in range(8)
]


def test_projects_stay_apart(tmp_path: Path, claude: Claude) -> None:
    with open_memory(tmp_path / "m.db") as opened:
        for name, said in (
            ("one", FACT),
            ("two", "Whose parcel is ZQ003K?"),
            ("one", "Whose parcel is ZQ003K?"),
        ):
            (tmp_path / name).mkdir(exist_ok=True)
            say(OnlookerMemory(opened), tmp_path / name, said)
        assert "belongs to Ana" not in claude.prompts[-2]
        assert "belongs to Ana" in claude.prompts[-1]


def test_a_session_that_is_resumed_after_a_restart_is_recorded_once(tmp_path: Path, claude: Claude) -> None:
    kept = InMemorySessionStore()
    with open_memory(tmp_path / "m.db") as opened:
        say(OnlookerMemory(opened, owner="ana", store=kept), tmp_path, FACT)
        key = opened.sessions(owner="ana")[0].progress.session.key
    with open_memory(tmp_path / "m.db") as opened:
        say(OnlookerMemory(opened, owner="ana", store=kept), tmp_path, "Thank you.", resume=key)
        (found,) = opened.sessions(owner="ana")
        messages = opened.session(found.progress.session.key, owner="ana").messages()
        assert [m.text for m in messages] == [FACT, "Noted.", "Thank you.", "Noted."]


@pytest.mark.parametrize("fault", ["error", "hang", "refusal"])
def test_an_observer_that_fails_leaves_every_run_intact(tmp_path: Path, claude: Claude, fault: Fault) -> None:
    observer = FaultyModel(fault)
    with open_memory(
        tmp_path / "m.db", budget=4_000, model=observer, timing=Timing(stop_deadline=0.1)
    ) as opened:
        memory = OnlookerMemory(opened, owner="ana")
        assert say(memory, tmp_path, FACT, *ROWS) == ["Noted."] * (1 + len(ROWS))
        wait_for(lambda: observer.misbehaved > 0)
        assert say(memory, tmp_path, "Whose parcel is ZQ003K?") == ["Noted."]
        assert "belongs to Ana" in claude.prompts[-1]


def test_claude_writes_the_notes(tmp_path: Path, claude: Claude) -> None:
    memory = OnlookerMemory(tmp_path / "own.db", owner="ana")
    say(memory, tmp_path, FACT, *ROWS)
    wait_for(lambda: bool(claude.notes))
    with open_memory(tmp_path / "own.db", workers="external") as opened:
        (found,) = opened.sessions(owner="ana")
        session = opened.session(found.progress.session.key, owner="ana")
        wait_for(lambda: any(n.model == "host" for n in session.notes(statuses=("active", "buffered"))))
    memory.close()
    # A call for a note has none of the agent's tools and settings.
    assert not claude.notes[0].body.get("tools")


def test_a_memory_that_fails_leaves_the_run_as_it_would_be_without(tmp_path: Path, claude: Claude) -> None:
    opened = open_memory(tmp_path / "m.db")
    memory = OnlookerMemory(opened, owner="ana")
    opened.close()
    assert say(memory, tmp_path, FACT) == ["Noted."]
    assert "Memory of earlier sessions" not in claude.prompts[-1]


def test_the_example_runs(tmp_path: Path, claude: Claude) -> None:
    assert examples.run("claude_agent_sdk", tmp_path, key="") == list(examples.QUESTIONS)
