"""What all integrations share. Each of them only translates its framework's messages.

    Host        a memory as a framework uses it: with and without `await`, and without raising
    Prompt      what the model sees on this call
    HostModel   the framework's own model, which writes the notes

A framework passes its messages with every model call. They are aligned with the recorded ones, new ones are
recorded, and the model sees memory and the newest messages instead. What the framework stores is not changed.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar, cast

from onlooker import blocking
from onlooker.domain.context import current_session
from onlooker.domain.errors import ModelError, OnlookerError, SettingsError
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import DEFAULT_OWNER, Message, SessionId, ToolCall
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.models.calling import guarded
from onlooker.models.llm import prompt_of
from onlooker.policy.items.tools import DEFINITIONS, Definition
from onlooker.policy.render import CONTINUES, NO_RESULT, Exchange, turns
from onlooker.ports import Reply, Request
from onlooker.wire import Item, verbatim

__all__ = ["CONTINUES", "DEFINITIONS", "Definition", "Exchange", "Item", "Message", "Session", "ToolCall"]

log = logging.getLogger("onlooker")
T = TypeVar("T")
M = TypeVar("M")

# A memory, or the file or database of one: then the framework's own model writes the notes.
AnyMemory = str | Path | Memory | blocking.Memory
# Asks the framework's model with a system prompt and a user message, and returns the text of the answer.
Ask = Callable[[str, str], Awaitable[str]]

# How many seconds memory may take in a model call; after that the call continues without it.
DEADLINE = 10.0


# ------------------------------------------------------------------------------------ the prompt


@frozen
class Prompt(Generic[M]):
    """What the model sees on this call instead of the framework's whole history.

    `system` is the framework's own system prompt followed by memory, and `memory` only what is added.
    `messages` are the framework's. `note` is only for this call, and comes last, in a user message: few
    providers accept a system message there.
    """

    system: str
    memory: str
    messages: list[M]
    note: str


def message_of(turn: Message | Exchange) -> Message:
    """The message of an exchange with a tool, or the message itself."""
    return turn.message if isinstance(turn, Exchange) else turn


def calls_of(turn: Message | Exchange) -> tuple[ToolCall, ...]:
    """The calls that a message makes."""
    return turn.calls if isinstance(turn, Exchange) else ()


def results_of(turn: Message | Exchange) -> list[tuple[ToolCall, str]]:
    """The result of each call of an exchange."""
    said = {r.answers: r.body for r in turn.results} if isinstance(turn, Exchange) else {}
    return [(call, said.get(call.id, NO_RESULT)) for call in calls_of(turn)]


def role_and_text(turn: Message | Exchange) -> tuple[Literal["user", "assistant"], str]:
    """The role and the text of a message. The application's messages have the user's role, with a mark."""
    message = message_of(turn)
    if message.role == "assistant":
        return "assistant", message.body
    return "user", f"[system] {message.body}" if message.role == "system" else message.body


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call as an object, even if the model wrote something else."""
    try:
        found: object = json.loads(call.arguments)
    except (ValueError, RecursionError):
        found = None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {"arguments": call.arguments}


# ------------------------------------------------------------------------------------ the framework's model


class HostModel:
    """The framework's own model, which is known after its first call."""

    name = "host"
    window = 16_000

    def __init__(self) -> None:
        self._ask: Ask | None = None

    def bind(self, ask: Ask) -> None:
        """Use this model from now on."""
        self._ask = ask

    async def write(self, request: Request) -> Reply:
        if self._ask is None:
            raise ModelError("the host's model is not known before its first call")
        prompt = prompt_of(request)
        # In an empty context: in the context variables of a turn, a framework keeps the stream and the trace
        # that a call belongs to.
        asking = asyncio.create_task(
            _text(self._ask, prompt.system, prompt.user), context=_EMPTY_CONTEXT.copy()
        )
        try:
            return Reply(await asking)
        except asyncio.CancelledError:
            if asking.cancelled() and not _is_cancelled():
                raise ModelError("the host's event loop ended during the call") from None
            asking.cancel()
            raise


_EMPTY_CONTEXT = contextvars.Context()


async def _text(ask: Ask, system: str, user: str) -> str:
    return await ask(system, user)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return bool(task and task.cancelling())


def on_loop(loop: asyncio.AbstractEventLoop, ask: Ask) -> Ask:
    """Ask on the framework's event loop while it runs, because its clients have their connections there."""

    async def asked(system: str, user: str) -> str:
        if not loop.is_running() or loop is asyncio.get_running_loop():
            return await ask(system, user)
        work = _text(ask, system, user)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    return asked


# ------------------------------------------------------------------------------------ the memory


class Host:
    """A memory as a framework uses it.

    `memory` is a memory, a file or the URL of a database. A file or URL is opened with the framework's own
    model, on an event loop in a thread, so that sync and async programs and any number of event loops can use
    it; `close` closes it.
    """

    def __init__(self, memory: AnyMemory, *, owner: str = "", budget: int | None = None) -> None:
        self.owner = owner
        self.budget = budget
        self._model = HostModel()
        self._opened: blocking.Memory | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._warned = False
        if isinstance(memory, str | Path):
            memory = self._opened = blocking.open_memory(memory, model=guarded(self._model))
        if isinstance(memory, Memory):
            self._memory, self._portal = memory, None
            self._loop = _running_loop()
        elif isinstance(memory, blocking.Memory):  # pyright: ignore[reportUnnecessaryIsInstance]
            opened: Any = memory
            self._memory, self._portal = opened._inner, opened._portal
        else:
            raise SettingsError("memory", memory, "must be a file, a URL, or what open_memory returns")

    # -- with and without await

    def run_blocking(self, work: Coroutine[Any, Any, T], otherwise: T) -> T:
        """Run it from a program without `await`; return `otherwise` if memory cannot be reached."""
        try:
            if self._portal is not None:
                return self._portal.call(work)
            if self._loop is not None and self._loop.is_running() and self._loop is not _running_loop():
                return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except Exception:
            log.exception("memory cannot be reached")
            return otherwise
        work.close()
        self._warn("this program does not use await: open the memory with onlooker.blocking.open_memory")
        return otherwise

    async def run(self, work: Coroutine[Any, Any, T], otherwise: T) -> T:
        """Run it from a program with an event loop; on the memory's own loop if that is another."""
        here = asyncio.get_running_loop()
        try:
            if self._portal is not None:
                return await self._portal.call_async(work)
            if self._loop is None or not self._loop.is_running():
                self._loop = here
            if self._loop is here:
                return await work
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        except Exception:
            log.exception("memory cannot be reached")
            return otherwise

    def close(self) -> None:
        """Close the memory if it was opened here."""
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- what an integration asks for

    def bind(self, ask: Ask) -> None:
        """Use this model for notes from now on, unless the memory has its own."""
        self._model.bind(ask)

    @property
    def memory(self) -> Memory:
        """The memory. Await its methods through `run` or `run_blocking`."""
        return self._memory

    @property
    def wants_model(self) -> bool:
        """Whether the framework's model writes the notes."""
        return self._opened is not None

    def session(self, key: object, owner: object = "") -> Session | None:
        """The session of a call: the one that `use_session` names, or the framework's. None if there is
        neither: then the call continues without memory."""
        named = current_session()
        if named is None:
            if not isinstance(key, str) or not key:
                self._warn("this conversation has no id, so it has no memory; see onlooker.use_session")
                return None
            user = owner if isinstance(owner, str) and owner else self.owner
            named = SessionId(user or DEFAULT_OWNER, key)
        return self._memory.session(named.key, owner=named.owner)

    async def prepare(
        self,
        session: Session,
        messages: Sequence[M],
        system: str = "",
        *,
        read: Callable[[M], Sequence[Item]],
        write: Callable[[Message | Exchange], Iterable[M]],
    ) -> Prompt[M] | None:
        """What the model sees on this call; None if memory failed, and the call continues without it.

        `read` translates a message of the framework into OpenAI's form, as several messages or none; `write`
        translates our messages into the framework's.
        """

        async def prepared() -> Prompt[M] | None:
            history = [read(message) for message in messages]
            items = [item for message in history for item in message]
            if not items:
                return None
            context = await session.prepare(items, system=system, budget=self.budget)
            ends = list(accumulate(map(len, history)))
            starts = {end: end - len(part) for end, part in zip(ends, history, strict=True) if part}
            kept = verbatim(items, context.messages, starts.__getitem__, datetime.now(UTC))
            first = next((n for n, end in enumerate(ends) if end > len(items) - kept.items), len(history))
            shown = context.messages[: len(context.messages) - kept.messages]
            past = [m for turn in turns((*context.preface, *shown)) for m in write(turn)]
            note = f"[system] {context.end}" if context.end.strip() else ""
            added = context.system.removeprefix(system).lstrip("\n")
            return Prompt(context.system, added, [*past, *messages[first:]], note)

        return await self.safely(session.key, prepared())

    async def record(self, session: Session, items: Iterable[Item]) -> None:
        """Record what the model said. If this fails, the next call passes it again."""
        if said := list(items):
            await self.safely(session.key, session.record(said))

    async def safely(self, whose: str, work: Coroutine[Any, Any, T]) -> T | None:
        """Run it within the deadline; on failure, log it with the session's key and return None."""
        try:
            async with asyncio.timeout(DEADLINE):
                return await work
        except (OnlookerError, TimeoutError) as error:
            log.warning("%s: a call continues without memory: %r", whose, error)
        except Exception:
            log.exception("%s: a call continues without memory: this is a bug in Onlooker", whose)
        return None

    async def call_tool(self, session: Session | None, name: str, arguments: Mapping[str, Any]) -> str:
        """Run one of the memory's tools."""
        if session is None:
            return "Not done: this conversation has no memory. Continue without it."
        given = {key: value for key, value in arguments.items() if value is not None}
        return await session.tools().call(name, given)

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning(what)


UNREACHABLE = "Not done: memory cannot be reached. Continue without it."


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


# ------------------------------------------------------------------------------------ in OpenAI's form


def chat(role: str, text: Any, calls: Sequence[tuple[str, str, Any]] = (), **more: Any) -> Item:
    """A message with the calls that it makes, each as id, name and arguments."""
    made = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls]
    return {"role": role, "content": text, **({"tool_calls": made} if made else {}), **more}


def result(call_id: str, text: Any, **more: Any) -> Item:
    """A tool's result."""
    return {"role": "tool", "tool_call_id": call_id, "content": text, **more}
