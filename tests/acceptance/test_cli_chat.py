"""`onlooker chat`: a chat with memory through a pipe and a terminal, with the echo and with a provider."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.acceptance.command_line import Done, call, environment

from onlooker import Message
from onlooker.blocking import open_memory
from onlooker.testing.provider import Answer, LocalProvider, Received


def chat(db: Path, *said: str, options: tuple[str, ...] = ()) -> Done:
    return call("chat", "--db", db, *options, input="".join(f"{line}\n" for line in said))


def recorded(db: Path, key: str = "chat", owner: str = "me") -> list[tuple[str, str]]:
    def plain(message: Message) -> tuple[str, str]:
        return message.role, message.text

    with open_memory(db, workers="external") as memory:
        return [plain(m) for m in memory.session(key, owner=owner).messages(archived=True)]


def asked(provider: LocalProvider) -> list[Received]:
    """The requests of the chat; those for notes are not streamed."""
    return [r for r in provider.received if r.body.get("stream")]


# ------------------------------------------------------------------------------------ the echo, in a pipe


def test_the_echo_answers_and_everything_is_recorded(tmp_path: Path) -> None:
    db = tmp_path / "chat.db"
    done = chat(db, "I moved to Oslo.", "", "Where do I live?")
    assert done.code == 0, done.err
    assert done.out == "You said: I moved to Oslo.\nYou said: Where do I live?\n"
    assert recorded(db) == [
        ("user", "I moved to Oslo."),
        ("assistant", "You said: I moved to Oslo."),
        ("user", "Where do I live?"),
        ("assistant", "You said: Where do I live?"),
    ]


def test_a_chat_with_memory_off_says_so(tmp_path: Path) -> None:
    (tmp_path / "off.toml").write_text("[onlooker]\nenabled = false\n")
    done = chat(tmp_path / "chat.db", "Hello.", options=("--config", str(tmp_path / "off.toml")))
    assert (done.code, done.out) == (0, "You said: Hello.\n")
    assert "memory is off in the settings file" in done.err


def test_a_chat_goes_on_where_it_ended(tmp_path: Path) -> None:
    db = tmp_path / "chat.db"
    chat(db, "I moved to Oslo.", options=("--session", "trip", "--owner", "ana"))
    shown = chat(db, "/context", options=("--session", "trip", "--owner", "ana")).out
    assert "user: I moved to Oslo." in shown
    assert "assistant: You said: I moved to Oslo." in shown
    assert recorded(db, "trip", "ana")
    # Another session of the same person knows what is said of them; another person's does not.
    assert "moved to Oslo" in chat(db, "/context", options=("--session", "new", "--owner", "ana")).out
    assert "Oslo" not in chat(db, "/context", options=("--session", "new", "--owner", "ben")).out


def test_notes_are_shown_and_what_is_forgotten_is_gone(tmp_path: Path) -> None:
    db = tmp_path / "chat.db"
    assert "no notes yet" in chat(db, "/notes").out
    chat(db, "My name is Ana and I live in Oslo.")
    assert "Oslo" in chat(db, "/notes").out
    done = chat(db, "My code is 4711.", "/forget", "/context")
    assert done.code == 0, done.err
    assert "4711" not in done.out.partition("\n")[2]
    assert "Oslo" in done.out
    assert not any("4711" in text for _, text in recorded(db))
    assert "onlooker: " in chat(db, "/forget nothing-of-that-name").err


def test_commands_are_listed_and_quit_leaves(tmp_path: Path) -> None:
    done = chat(tmp_path / "chat.db", "/help", "/nonsense", "/quit", "Not heard.")
    for command in ("/context", "/notes", "/forget", "/quit"):
        assert command in done.out
    assert "/nonsense: no such command" in done.err
    assert "Not heard" not in done.out
    assert recorded(tmp_path / "chat.db") == []


# ------------------------------------------------------------------------------------ a provider


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("name", ["openai:test@{url}/v1", "anthropic:claude-haiku-4-5@{url}"])
def test_a_provider_is_sent_what_memory_makes_of_the_chat(tmp_path: Path, name: str) -> None:
    with LocalProvider(
        lambda r: Answer("It is far away. " * 40) if r.body.get("stream") else Answer()
    ) as provider:
        model = ("--model", name.format(url=provider.url), "--budget", "1200", "--system", "Be kind.")
        said = [
            "I'm allergic to peanuts. My order is 88-1431.",
            *(f"Tell me of star {n}." for n in range(14)),
        ]
        done = chat(tmp_path / "chat.db", *said, "What should I not eat?", options=model)
        assert done.code == 0, done.err
        assert done.out.count("It is far away.") == 40 * 16
        last = asked(provider)[-1]
        assert "Be kind." in last.system
        assert "allergic to peanuts" in last.system + last.user
        assert "What should I not eat?" in last.user
        assert len(asked(provider)) == 16
        whole = sum(len(text) for _, text in recorded(tmp_path / "chat.db"))
        assert len(last.system + last.user) < whole / 2
        assert recorded(tmp_path / "chat.db")[-1] == ("assistant", ("It is far away. " * 40).strip())


def test_a_provider_that_fails_costs_no_message(tmp_path: Path) -> None:
    with LocalProvider(
        Answer(status=401), Answer("Now I am here."), Answer("A long answer. " * 50, fault="reset")
    ) as p:
        model = ("--model", f"openai:test@{p.url}/v1")
        done = chat(tmp_path / "chat.db", "Are you there?", "And now?", "And then?", options=model)
    assert done.code == 1
    assert "401" in done.err
    found = recorded(tmp_path / "chat.db")
    assert found[:3] == [("user", "Are you there?"), ("user", "And now?"), ("assistant", "Now I am here.")]
    # Of an answer that broke off, what was shown is recorded.
    assert found[3] == ("user", "And then?")
    assert found[4][1].startswith("A long answer.")


def test_a_model_without_its_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = chat(tmp_path / "chat.db", "Hello?", options=("--model", "openai:gpt-5-mini"))
    assert done.code == 2
    assert "OPENAI_API_KEY" in done.err


# ------------------------------------------------------------------------------------ a terminal


class Terminal:
    """`onlooker chat` at a terminal."""

    def __init__(self, db: Path, *options: str) -> None:
        command = [sys.executable, "-m", "onlooker", "chat", "--db", str(db), *options]
        self._process, self._terminal = pty.fork()
        if self._process == 0:  # pragma: no cover
            os.execvpe(command[0], command, environment(TERM="dumb"))
        self.seen = ""

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + 300
        while text not in self.seen:
            assert time.monotonic() < until, self.seen
            if select.select([self._terminal], [], [], 1)[0]:
                self.seen += os.read(self._terminal, 4096).decode("utf-8", "replace")

    def type(self, text: str) -> None:
        self.seen = ""
        os.write(self._terminal, text.encode())

    def interrupt(self) -> None:
        os.kill(self._process, signal.SIGINT)

    def interrupt_until_heard(self) -> None:
        """Press Ctrl-C until something happens: one that comes just before the terminal is read is not heard
        until a key is pressed."""
        until = time.monotonic() + 300
        while not select.select([self._terminal], [], [], 0)[0]:
            assert time.monotonic() < until, self.seen
            self.interrupt()
            select.select([self._terminal], [], [], 1)

    def ended(self) -> int:
        """Wait for the end, and return the exit code."""
        until = time.monotonic() + 300
        with suppress(OSError):  # a terminal that nobody has open
            while not select.select([self._terminal], [], [], 1)[0] or os.read(self._terminal, 4096):
                if time.monotonic() > until:
                    os.kill(self._process, signal.SIGKILL)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])


@pytest.mark.long
def test_a_terminal_gets_a_prompt_and_ctrl_c_leaves_it(tmp_path: Path) -> None:
    at = Terminal(tmp_path / "chat.db")
    at.wait_for("> ")
    assert "echo" in at.seen
    at.type("I moved to Oslo.\n")
    at.wait_for("You said: I moved to Oslo.")
    at.wait_for("\n> ")
    at.interrupt_until_heard()
    assert at.ended() == 0
    assert [role for role, _ in recorded(tmp_path / "chat.db")] == ["user", "assistant"]


@pytest.mark.long
def test_ctrl_c_breaks_off_an_answer_and_the_chat_goes_on(tmp_path: Path) -> None:
    def answer(received: Received) -> Answer:
        return Answer(fault="hang") if "star" in received.user.splitlines()[-1] else Answer("It is far away.")

    with LocalProvider(answer) as provider:
        at = Terminal(tmp_path / "chat.db", "--model", f"openai:test@{provider.url}/v1")
        at.wait_for("> ")
        at.type("Tell me of the star.\n")
        while not asked(provider):
            time.sleep(0.02)
        at.interrupt()
        at.wait_for("interrupted")
        at.wait_for("> ")
        at.type("And of the moon?\n")
        at.wait_for("It is far away.")
        at.wait_for("\n> ")
        at.type("\x04")
        assert at.ended() == 0
    assert recorded(tmp_path / "chat.db") == [
        ("user", "Tell me of the star."),
        ("user", "And of the moon?"),
        ("assistant", "It is far away."),
    ]
    assert not re.search("Traceback", at.seen)
