"""`replay`: record a conversation from a file as a live session would have."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from onlooker.cli.screen import NOT_THERE, WRONG_USE, Json, Screen, Stop
from onlooker.cli.settings import ConfigFile
from onlooker.cli.target import (
    DEFAULT_DATABASE,
    Budget,
    Database,
    Preset,
    SystemPrompt,
    chosen_settings,
    key_for,
)
from onlooker.domain.context import RuntimeContext
from onlooker.domain.errors import BudgetError, MessageError
from onlooker.domain.messages import DEFAULT_OWNER, GENERATED_ID_PREFIX, Message
from onlooker.domain.notes import State
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.policy.assemble import ELISION, Counting, Layout, PromptRequest, assemble, lay_out
from onlooker.policy.intake import intake
from onlooker.policy.render import Context, Sections
from onlooker.policy.settings import SMALLEST_BUDGET, Settings, check
from onlooker.wiring import open_memory


def read_transcript(file: str) -> list[Message]:
    """The messages of a file, or of standard input for "-": all of them, or an error that says where.

    A message without a time was said when the one before it was; one without an id gets one that is
    the same each time the file is read.
    """
    name = "standard input" if file == "-" else file
    messages: list[Message] = []
    seen: Counter[bytes] = Counter()
    at = datetime.now(UTC)
    for number, line in enumerate(_lines(file), 1):
        if not line.strip():
            continue
        try:
            read = intake(json.loads(line), at=messages[-1].at or at if messages else at, tz=UTC)
        except (ValueError, RecursionError, MessageError) as error:
            raise Stop(f"{name}, line {number}: {_reason(error)}", NOT_THERE) from error
        messages.extend(_with_id(m, seen) for m in read)
    return messages


def _lines(file: str) -> list[str]:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise Stop(f"{file}: {error.strerror or error}", NOT_THERE) from error
    # Not splitlines: JSON may hold other line ends than this one inside its strings.
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    try:
        return [line.decode() for line in lines]
    except UnicodeDecodeError as error:
        number = next(n for n, line in enumerate(lines, 1) if not _is_utf8(line))
        raise Stop(f"{file}, line {number}: not UTF-8: {error.reason}", NOT_THERE) from error


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at character {error.pos + 1}"
    return str(error)


def _with_id(message: Message, seen: Counter[bytes]) -> Message:
    if message.id:
        return message
    digest = message.digest
    seen[digest] += 1
    return replace(message, id=f"{GENERATED_ID_PREFIX}{digest.hex()}_{seen[digest]}")


# ------------------------------------------------------------------------------------ replaying


class ReplayClock:
    """The time of the message being replayed. It never goes back."""

    def __init__(self, messages: Sequence[Message]) -> None:
        first = next((m.at for m in messages if m.at), None)
        self._now = first or datetime.now(UTC)

    def now(self) -> datetime:
        return self._now

    def move_to(self, at: datetime | None) -> None:
        if at and at > self._now:
            self._now = at


@dataclass(frozen=True, slots=True)
class Moment:
    """One message recorded; for an answer, with the context that it would have been given for."""

    number: int
    message: Message
    context: Context | None


@dataclass(frozen=True, slots=True)
class Replay:
    """A session that is spoken into with the times of a conversation of the past."""

    memory: Memory
    session: Session
    clock: ReplayClock
    system: str = ""
    budget: int | None = None

    async def moments(self, messages: Sequence[Message]) -> AsyncIterator[Moment]:
        """Record each message and take the notes that are due then, as in a live session: the host
        asks for a context before each answer, and notes are there before the next message."""
        # The first asking tells the planner which budget the notes are for.
        await self._context()
        for number, message in enumerate(messages, 1):
            context = await self._context() if message.role == "assistant" else None
            self.clock.move_to(message.at)
            await self.session.record(message)
            await self.memory.background.flush()
            yield Moment(number, message, context)
        await self.session.settle()

    async def _context(self) -> Context:
        return await self.session.context(system=self.system, budget=self.budget)


# ------------------------------------------------------------------------------------ fitting


Remind = Callable[[State, PromptRequest, Layout], Awaitable[tuple[PromptRequest, Layout]]]


@dataclass(frozen=True, slots=True)
class Fitting:
    """One session's state, to be shown within a budget."""

    state: State
    settings: Settings
    counting: Counting

    def context(self, frame: PromptRequest) -> Context:
        """What an agent would receive, counted as a provider's prompt."""
        runtime = RuntimeContext.of(self.state.progress.session.key)
        return assemble(self.state, frame, self.settings, self.counting, runtime)

    async def answering(self, frame: PromptRequest, remind: Remind, *, as_text: bool) -> Context:
        """What an agent would receive to answer the frame's question with."""
        most = self._most(frame)
        runtime = RuntimeContext.of(self.state.progress.session.key)
        while True:
            layout = lay_out(self.state, frame, self.settings, self.counting)
            reminded, layout = await remind(self.state, frame, layout)
            context = assemble(self.state, reminded, self.settings, self.counting, runtime, layout)
            over = self._tokens(context) - most if as_text and frame.budget else 0
            if over <= 0 or frame.budget - over < SMALLEST_BUDGET:
                return context
            frame = replace(frame, budget=frame.budget - over)

    def text_context(self, frame: PromptRequest) -> Context:
        """The same, as much of it as has a text within the budget.

        Raises:
            BudgetError: The base prompt alone is larger.
        """
        context = self.context(frame)
        most = self._most(frame)
        if not frame.budget or self._tokens(context) <= most:
            return context

        def smaller(budget: int) -> Context | None:
            try:
                tried = self.context(replace(frame, budget=budget))
            except BudgetError:
                return None
            return tried if self._tokens(tried) <= most else None

        # Less than the base prompt with one message holds nothing, so the search ends there.
        least = min(frame.budget, self.counting.frame(frame) + 1)
        return _largest(smaller, least, frame.budget) or self._cut(context, most)

    def _most(self, frame: PromptRequest) -> int:
        return int(frame.budget * (1 - self.settings.margin) / self.counting.calibration.ratio)

    def _tokens(self, context: Context) -> int:
        return self.counting.text(context.text())

    def _cut(self, context: Context, most: int) -> Context:
        """The notes, and begin and end of the newest message, where that alone is larger than the budget.

        Without the notes where they leave it nothing.
        """
        bare = replace(context, sections=replace(context.sections, reflections="", observations=""))
        if not context.messages:
            return bare
        newest = replace(context.messages[-1], calls=(), attachments=())

        def keeping(characters: int, sections: Sections) -> Context | None:
            start, end = characters * 2 // 3, characters // 3
            text = newest.text[:start] + ELISION + newest.text[len(newest.text) - end :]
            tried = replace(context, sections=sections, messages=(replace(newest, text=text.strip()),))
            return tried if self._tokens(tried) <= most else None

        for sections in (context.sections, bare.sections):
            if found := _largest(partial(keeping, sections=sections), 0, len(newest.text)):
                return found
        return replace(bare, messages=())


def _largest(attempt: Callable[[int], Context | None], low: int, high: int) -> Context | None:
    """The attempt with the largest number that succeeds, where a smaller number always does too."""
    best: Context | None = None
    while low <= high:
        middle = (low + high) // 2
        found = attempt(middle)
        if found is None:
            high = middle - 1
        else:
            best, low = found, middle + 1
    return best


# ------------------------------------------------------------------------------------ replay


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What a replay was asked for."""

    db: str
    key: str
    owner: str
    settings: Settings
    system: str
    model: str | None


def replay(
    screen: Screen,
    file: Annotated[str, typer.Argument(help="An OpenAI message per line; - is standard input.")],
    db: Database = DEFAULT_DATABASE,
    session: Annotated[
        str, typer.Option("--session", "-s", metavar="KEY", help="The session to record into.")
    ] = "replay",
    owner: Annotated[str, typer.Option("--owner", metavar="NAME", help="Whose session.")] = DEFAULT_OWNER,
    budget: Budget = None,
    context: Annotated[
        Path | None, typer.Option("--context", "-o", metavar="OUT", help="Where the final context goes.")
    ] = None,
    system: SystemPrompt = "",
    preset: Preset = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="What writes the notes.")
    ] = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Replay a conversation and print the context it ends with.

    Each line of the file is an OpenAI message with `id`, `name` and ISO `created_at`. They are
    recorded at their own times, notes are taken as a live session with that budget would have, and
    the final context is written as text, never longer than the budget. What is recorded already is
    not recorded twice.
    """
    settings = chosen_settings(config, preset)
    if not settings.enabled:
        raise Stop("memory is off in the settings file: turn it on, or name a --preset", WRONG_USE)
    if budget is not None:
        settings = check(replace(settings, budget=budget))
    if context is not None and not context.parent.is_dir():
        raise Stop(f"{context}: there is no folder {context.parent}", NOT_THERE)
    messages = read_transcript(file)
    wanted = ReplayRequest(db, session, owner, settings, system, model)
    final, report = asyncio.run(_replay(screen, wanted, messages))
    text = final.text()
    if context is not None:
        _write_context(context, text)
    elif as_json:
        report["text"] = text
    else:
        screen.text(text)
    if as_json:
        screen.json(report)


async def _replay(
    screen: Screen, wanted: ReplayRequest, messages: list[Message]
) -> tuple[Context, dict[str, Any]]:
    started = time.perf_counter()
    clock = ReplayClock(messages)
    key = key_for(wanted.db)
    async with open_memory(
        wanted.db, settings=wanted.settings, model=wanted.model, clock=clock, key=key
    ) as memory:
        session = memory.session(wanted.key, owner=wanted.owner)
        before = await session.history.state()
        run = Replay(memory, session, clock, wanted.system)
        with _progress(screen, len(messages)) as progress:
            async for moment in run.moments(messages):
                progress.update(progress.task_ids[0], completed=moment.number)
        state = await session.history.state()
        if state is None:
            raise Stop("there is no message in it", NOT_THERE)
        fitting = Fitting(state, wanted.settings, session.core.counting)
        final = fitting.text_context(PromptRequest(wanted.system, budget=wanted.settings.budget))
        report = {
            "session_key": wanted.key,
            "owner": wanted.owner,
            "messages": len(messages),
            "recorded": state.progress.last_seq - (before.progress.last_seq if before else 0),
            **await _figures(memory, wanted, final),
            "seconds": round(time.perf_counter() - started, 2),
        }
    return final, report


async def _figures(memory: Memory, wanted: ReplayRequest, final: Context) -> dict[str, Any]:
    summary = (await memory.sessions(owner=wanted.owner, key=wanted.key))[0]
    session = memory.session(wanted.key, owner=wanted.owner)
    tokens = session.core.counting.text(final.text())
    return {
        "raw_tokens": summary.message_tokens,
        "budget": wanted.settings.budget,
        "context_tokens": tokens,
        "compression": round(summary.message_tokens / tokens, 2) if tokens else 1.0,
        "observations": summary.observations,
        "observation_tokens": summary.observation_tokens,
        "reflections": summary.reflections,
        "reflection_tokens": summary.reflection_tokens,
        "tail_messages": len(final.messages),
        "left_out_messages": final.stats.left_out_messages,
        "left_out_notes": final.stats.left_out_notes,
    }


@contextmanager
def _progress(screen: Screen, total: int) -> Generator[Progress]:
    columns = (
        TextColumn("Replaying"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen.err, transient=True, disable=not screen.is_live) as progress:
        progress.add_task("", total=total)
        yield progress


def _write_context(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise Stop(f"{path}: cannot be written: {error.strerror or error}", NOT_THERE) from error
