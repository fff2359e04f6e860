"""`chat`: a terminal chat with memory, for any provider, or with a built-in model that echoes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from onlooker.blocking import Memory, Session, open_memory
from onlooker.cli.corrections import user_name
from onlooker.cli.screen import CommandError, Screen, printable
from onlooker.cli.settings import MEMORY_IS_OFF, ConfigFile, load_settings
from onlooker.cli.target import (
    DEFAULT_DATABASE,
    Budget,
    Database,
    SystemPrompt,
    database_path,
    is_server,
    key_for,
)
from onlooker.domain.errors import NotFoundError, OnlookerError
from onlooker.policy.intake import assistant, user
from onlooker.policy.render import Context

if TYPE_CHECKING:
    from onlooker.domain.messages import Message

PROMPT = "> "
COMMANDS = {
    "/context": "show what is sent to the model",
    "/notes": "show the notes of this session and what is known about you",
    "/forget": "forget the last message and its answer, or the message or note with this id",
    "/help": "list these commands",
    "/quit": "leave; so does Ctrl-D",
}
ECHO = "the built-in echo, which only repeats what you say; use --model openai:gpt-5-mini for a real model"


class Responder(Protocol):
    """What answers: a language model, or the echo."""

    def answer(self, context: Context) -> AsyncIterator[str]:
        """Yield the answer, piece by piece."""
        ...


class Echo:
    """Repeats the last message. It shows what memory does without a key."""

    async def answer(self, context: Context) -> AsyncIterator[str]:
        yield f"You said: {context.messages[-1].text}"


def chat(
    screen: Screen,
    model: Annotated[
        str,
        typer.Option("--model", metavar="PROVIDER:NAME", help="The model that answers; or an echo."),
    ] = "",
    session: Annotated[
        str, typer.Option("--session", "-s", metavar="KEY", help="The session to start or continue.")
    ] = "chat",
    owner: Annotated[str, typer.Option("--owner", metavar="NAME", help="Who you are.")] = "me",
    system: SystemPrompt = "You are a helpful assistant.",
    budget: Budget = None,
    db: Database = DEFAULT_DATABASE,
    config: ConfigFile = None,
) -> None:
    """Chat with a model that remembers, in this terminal.

    Without --model, a built-in echo answers, so you can try memory without an API key. Commands begin
    with a slash; /help lists them. The model also writes the notes, unless the settings name another.
    """
    place = db if is_server(db) else database_path(db)
    responder = _responder(model)
    settings = load_settings(config)
    if not settings.enabled:
        screen.say(MEMORY_IS_OFF)
    with open_memory(
        place, settings=settings, model=model or None, budget=budget, key=key_for(place)
    ) as memory:
        loop = ChatLoop(screen, memory, memory.session(session, owner=owner), responder, system)
        loop.run(model or ECHO)
    if loop.failed and not loop.is_live:
        raise CommandError("not every message was answered")


def _responder(model: str) -> Responder:
    if not model:
        return Echo()
    from onlooker.models.llm import ChatModel

    return ChatModel(model)


class ChatLoop:
    """Reads lines and answers them until the input ends."""

    def __init__(
        self, screen: Screen, memory: Memory, session: Session, responder: Responder, system: str
    ) -> None:
        self._screen = screen
        self._memory = memory
        self._session = session
        self._responder = responder
        self._system = system
        self.is_live = sys.stdin.isatty()
        self.failed = False

    def run(self, model: str) -> None:
        """Answer until the input ends. Ctrl-C interrupts an answer; at the prompt it quits."""
        if self.is_live:
            self._screen.say(f"Session {self._session.key!r}, answered by {model}. /help lists the commands.")
            _enable_editing()
        while (line := self._read()) is not None:
            try:
                if line.startswith("/"):
                    if not self._run_command(line):
                        return
                elif line:
                    self._turn(line)
            except OnlookerError as error:
                self.failed = True
                self._screen.error(str(error))

    def _read(self) -> str | None:
        """Read a line and strip it; None at the end of the input."""
        try:
            if self.is_live:
                return input(PROMPT).strip()
            line = sys.stdin.readline()
        except (EOFError, KeyboardInterrupt):
            self._screen.say("")
            return None
        return line.strip() if line else None

    # -- a turn

    def _turn(self, text: str) -> None:
        """Record the message, answer it, and record as much of the answer as was shown."""
        self._session.record(user(text))
        context = self._session.context(system=self._system)
        shown: list[str] = []
        try:
            asyncio.run(self._answer(context, shown.append))
        except KeyboardInterrupt:
            self._screen.say(" (interrupted)")
        finally:
            if answer := "".join(shown).strip():
                self._print("\n")
                self._session.record(assistant(answer))

    async def _answer(self, context: Context, keep: Callable[[str], None]) -> None:
        async for piece in self._responder.answer(context):
            self._print(piece)
            keep(piece)

    def _print(self, text: str) -> None:
        out = self._screen.out
        out.file.write(printable(text) if out.is_terminal else text)
        out.file.flush()

    # -- commands

    def _run_command(self, line: str) -> bool:
        """Run a slash command. Return False to quit."""
        command, _, argument = line.partition(" ")
        match command:
            case "/quit" | "/exit":
                return False
            case "/context":
                self._screen.text(self._session.context(system=self._system).text())
            case "/notes":
                self._show_notes()
            case "/forget":
                self._forget(argument.strip())
            case "/help":
                self._screen.text("\n".join(f"{name:<10}{about}" for name, about in COMMANDS.items()))
            case _:
                self._screen.error(f"{command}: no such command; use {', '.join(COMMANDS)}")
        return True

    def _show_notes(self) -> None:
        notes = [f"[{note.id}]\n{note.text}" for note in self._session.notes()]
        items = [f"- {item.summary}" for item in self._memory.items.list(self._session.owner)]
        known = [f"About {self._session.owner}:", *items] if items else []
        self._screen.text("\n".join([*notes, *known]) or "There are no notes yet.")

    def _forget(self, target: str) -> None:
        ids = [target] if target else [message.id for message in self._last_exchange()]
        if not ids:
            self._screen.say("There is nothing to forget.")
            return
        try:
            done = self._session.forget(*ids, by=user_name())
        except NotFoundError as error:
            self._screen.error(str(error))
            return
        self._screen.say(f"Forgotten: {done.messages} messages.")

    def _last_exchange(self) -> list[Message]:
        messages = list(self._session.messages())
        last = next(
            (i for i in range(len(messages) - 1, -1, -1) if messages[i].role == "user"), len(messages)
        )
        return messages[last:]


def _enable_editing() -> None:
    """Enable arrow keys and the history of lines, if Python has readline."""
    with suppress(ImportError):
        import_module("readline")
