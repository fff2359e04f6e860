"""`replay`: record a conversation from a file, with notes as a live session would have taken them."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from onlooker import atomic
from onlooker.cli.screen import Column, CommandError, Json, Screen, UsageError, View
from onlooker.cli.settings import ConfigFile, load_settings
from onlooker.cli.target import DEFAULT_DATABASE, Budget, Database, SystemPrompt, key_for
from onlooker.domain.errors import MessageError
from onlooker.domain.events import Event, Noted, Reflected
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import DEFAULT_OWNER, GENERATED_ID_PREFIX, Message
from onlooker.engine.memory import Memory
from onlooker.engine.preview import ContextBuilder
from onlooker.engine.session import Session
from onlooker.integrations.coding_agents import is_transcript_line, message_in
from onlooker.policy.assemble import PromptRequest
from onlooker.policy.cost import PRICES, Bill, DropHalf, Transcript, bill_host, full_history, request_blocks
from onlooker.policy.intake import intake, placed_chat
from onlooker.policy.render import Context
from onlooker.policy.settings import MAX_TOKENS, check, time_zone
from onlooker.policy.settings import preset as preset_named
from onlooker.wiring import open_memory


async def replay(
    screen: Screen,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON lines or one JSON list; - reads standard input.")
    ],
    db: Database = DEFAULT_DATABASE,
    session: Annotated[
        str, typer.Option("--session", "-s", metavar="KEY", help="The session to record into.")
    ] = "replay",
    owner: Annotated[
        str, typer.Option("--owner", metavar="NAME", help="The owner of the session.")
    ] = DEFAULT_OWNER,
    budget: Budget = None,
    context: Annotated[
        Path | None, typer.Option("--context", "-o", metavar="OUT", help="Write the final context here.")
    ] = None,
    system: SystemPrompt = "",
    preset: Annotated[
        str | None,
        typer.Option("--preset", metavar="NAME", help="default, lango or zora, instead of a settings file."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model that writes the notes.")
    ] = None,
    config: ConfigFile = None,
    cost: Annotated[
        bool,
        typer.Option(
            "--cost", help="Print what its answers would have cost with a prompt cache; record nothing."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Replay a conversation and print its final context.

    The file has OpenAI or Anthropic messages, each with an optional `id`, `name` and ISO `created_at`: one
    per line, as a JSON list, or as `messages` of an object. Items of OpenAI's Responses API and transcripts
    of Claude Code and Codex are read too. Messages are recorded at their own times, and notes are taken as in
    a live session with that budget. The final context is a text within the budget. A message that is already
    recorded is not recorded again.

    With `--cost`, every answer is billed: with the whole history, with a host that drops the older half when
    the budget is full, and with this memory, including what its model reads and writes. Nothing is recorded
    in the database, and the context is not printed.
    """
    started = time.perf_counter()
    if cost:
        db = ":memory:"  # a memory that had the conversation already would be billed for other prompts
    settings = preset_named(preset) if preset else load_settings(config)
    if not settings.enabled:
        raise UsageError("memory is off in the settings file: turn it on, or use --preset")
    if budget is not None:
        settings = check(replace(settings, budget=budget))
    messages = read_transcript(file, time_zone(settings.tz))
    if not messages:
        raise CommandError(f"{file}: there are no messages to replay")
    if context is not None:
        try:
            atomic.make_folder(context.parent)
        except OSError as error:
            raise CommandError(f"{context}: cannot be written: {error.strerror or error}") from error
    clock = ReplayClock(messages)
    bills = [Bill(prices) for prices in PRICES]
    async with open_memory(db, settings=settings, model=model, clock=clock, key=key_for(db)) as memory:
        recorded = memory.session(session, owner=owner)
        before = await recorded.history.state()
        memory.subscribe(lambda event: _bill_model(event, bills))
        with _progress(screen, len(messages)) as progress:
            async for turn in replay_messages(memory, recorded, clock, messages, system):
                progress.update(progress.task_ids[0], completed=turn.number)
                if cost and turn.context and turn.number > 1:
                    prompt = list(request_blocks(turn.context.anthropic()))
                    for bill in bills:
                        bill.add(prompt, turn.message.at or clock.now())
        state = await recorded.history.state()
        assert state is not None  # it has messages
        counting = memory.counting
        request = PromptRequest(system, budget=settings.budget)
        final = ContextBuilder(state, settings, counting).build_text(request)
        report: View = {
            "session_key": session,
            "owner": owner,
            "messages": len(messages),
            "recorded": state.progress.last_seq - (before.progress.last_seq if before else 0),
            **await _measure(memory, recorded, final, settings.budget, counting.text(final.text())),
            "seconds": round(time.perf_counter() - started, 2),
        }
    if cost:
        report["cost"] = _costs(messages, system, settings.budget, bills)
    if context is not None:
        _write(screen, context, final.text(), report, as_json)
    elif as_json:
        report["text"] = final.text()
    elif not cost:
        screen.text(final.text())
    if as_json:
        screen.json(report)
    elif cost:
        _print_costs(screen, report["cost"])


# The columns of the cost table. Costs are in tokens at the price of an uncached one.
_COSTS = {
    "full_history": "full history",
    "drop_half": "drop half",
    "onlooker": "onlooker",
    "of_full_history": "of full history",
}


def _costs(
    messages: Sequence[Message], system: str, budget: int, bills: Sequence[Bill]
) -> dict[str, dict[str, float]]:
    said = Transcript(messages, system)
    whole, half = bill_host(said, full_history, budget), bill_host(said, DropHalf(), budget or MAX_TOKENS)
    costs: dict[str, dict[str, float]] = {}
    for bill, all_, dropped in zip(bills, whole, half, strict=True):
        share = bill.billed / all_.billed if all_.billed else 1.0
        found = (round(all_.billed), round(dropped.billed), round(bill.billed), round(share, 2))
        costs[bill.prices.name] = dict(zip(_COSTS, found, strict=True))
    return costs


def _print_costs(screen: Screen, billed: dict[str, dict[str, float]]) -> None:
    columns = [Column("provider"), *(Column(title, right=True) for title in _COSTS.values())]
    screen.table(columns, [[name, *map(_shown, costs.values())] for name, costs in billed.items()])


def _shown(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}"


def _bill_model(event: Event, bills: Sequence[Bill]) -> None:
    for call in event.calls if isinstance(event, Noted | Reflected) else ():
        for bill in bills:
            bill.add_model(call.input_tokens, call.output_tokens)


def _write(screen: Screen, out: Path, text: str, report: View, as_json: bool) -> None:
    try:
        atomic.write(out, text.encode("utf-8", "replace"))  # a new file, never through a link
    except OSError as error:
        raise CommandError(f"{out}: cannot be written: {error.strerror or error}") from error
    if not as_json:
        raw, context = (f"{report[key]:,}" for key in ("raw_tokens", "context_tokens"))
        screen.say(f"Wrote {out}: {context} tokens, from {raw} tokens of messages.")


async def _measure(memory: Memory, session: Session, final: Context, budget: int, tokens: int) -> View:
    (summary,) = await memory.sessions(owner=session.owner, key=session.key)
    return {
        "raw_tokens": summary.message_tokens,
        "budget": budget,
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


# ------------------------------------------------------------------------------------ replaying


class ReplayClock:
    """A clock that shows the time of the message being replayed. It never goes back."""

    def __init__(self, messages: Sequence[Message]) -> None:
        first = next((m.at for m in messages if m.at), None)
        self._now = first or datetime.now(UTC)

    def now(self) -> datetime:
        return self._now

    def move_to(self, at: datetime | None) -> None:
        if at and at > self._now:
            self._now = at


@frozen
class Turn:
    """A recorded message. An assistant's message comes with the context that it would have been given."""

    number: int
    message: Message
    context: Context | None


async def replay_messages(
    memory: Memory, session: Session, clock: ReplayClock, messages: Sequence[Message], system: str = ""
) -> AsyncIterator[Turn]:
    """Record each message at its own time and take the notes that are due.

    As in a live session, the host asks for a context before each answer, and the notes are ready before the
    next message.
    """
    # The first context tells the planner the budget.
    await session.context(system=system)
    for number, message in enumerate(messages, 1):
        context = await session.context(system=system) if message.role == "assistant" else None
        clock.move_to(message.at)
        await session.record(message)
        await memory.background.flush()
        yield Turn(number, message, context)
    await session.settle()


# ------------------------------------------------------------------------------------ the file


def read_transcript(file: str, tz: tzinfo) -> list[Message]:
    """Read all messages of a file, or of standard input for "-". An error names the line or the message.

    A time without a zone is in `tz`. A message without a time gets that of the message before it. A message
    without an id gets one that is the same each time the file is read.
    """
    name = "standard input" if file == "-" else file
    messages: list[Message] = []
    seen: Counter[bytes] = Counter()
    at = datetime.now(tz)
    for where, item in _chat(_said(_read_items(_read_lines(file, name), name))):
        try:
            read = intake(item, at=messages[-1].at or at if messages else at, tz=tz)
        except MessageError as error:
            raise CommandError(f"{where}: {error}\n{EXPECTED}") from error
        messages.extend(_with_id(m, seen) for m in read)
    return messages


# Where requests to a provider have their messages; the last is an answer's.
LISTS = ("messages", "input", "output")


EXPECTED = (
    'A message is an object such as {"role": "user", "content": "Hi"}, one on each line or in a JSON list; '
    "`onlooker replay --help` names the other forms."
)


def _read_items(lines: Sequence[str], name: str) -> list[tuple[str, Any]]:
    """The messages of one JSON document, or else one for each line; each with its place in the file."""
    text = "\n".join(lines)
    try:
        whole: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("["):
            raise CommandError(f"{name}: not JSON: {error}") from error
        whole = None
    if isinstance(whole, dict):
        request = cast("dict[str, Any]", whole)
        whole = next((request[key] for key in LISTS if isinstance(request.get(key), list)), None)
    if isinstance(whole, list):
        return [(f"{name}, message {n}", item) for n, item in enumerate(cast("list[Any]", whole), 1)]
    items: list[tuple[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            items.append((where, json.loads(line)))
        except json.JSONDecodeError as error:
            problem = f"not JSON: {error.msg} at character {error.pos + 1}"
            raise CommandError(f"{where}: {problem}\n{EXPECTED}") from error
        except (ValueError, RecursionError) as error:
            raise CommandError(f"{where}: {error}") from error
    return items


def _chat(items: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The messages, also where some are items of OpenAI's Responses API."""
    try:
        return [(items[n][0], message) for n, message in placed_chat([item for _, item in items])]
    except MessageError:
        return items  # reading them one by one says where the fault is


def _said(items: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The messages. In a transcript of a coding agent, other lines say what it did."""
    if not any(is_transcript_line(item) for _, item in items):
        return items
    found = [
        (where, message_in(cast("dict[str, Any]", item), number) if isinstance(item, dict) else None)
        for number, (where, item) in enumerate(items)
    ]
    return [(where, message) for where, message in found if message is not None]


def _read_lines(file: str, name: str) -> list[str]:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror or error}") from error
    lines: list[str] = []
    # Not splitlines: JSON strings may contain other line ends.
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            lines.append(line.decode())
        except UnicodeDecodeError as error:
            raise CommandError(f"{name}, line {number}: not UTF-8 text\n{EXPECTED}") from error
    return lines


def _with_id(message: Message, seen: Counter[bytes]) -> Message:
    if message.id:
        return message
    digest = message.digest
    seen[digest] += 1
    return replace(message, id=f"{GENERATED_ID_PREFIX}{digest.hex()}_{seen[digest]}")
