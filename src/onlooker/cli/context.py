"""`context`: the context that an agent would receive now, within a budget."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer

from onlooker.cli.screen import Column, CommandError, Json, Screen, UsageError
from onlooker.cli.target import Budget, SessionTarget, SystemPrompt, parse_point
from onlooker.domain.context import RuntimeContext, Stats
from onlooker.domain.errors import BudgetError
from onlooker.domain.notes import State
from onlooker.engine.items import ShownItems
from onlooker.engine.memory import Memory
from onlooker.engine.recall import Reminder
from onlooker.policy.assemble import ELISION, Counting, Layout, PromptRequest, assemble, lay_out
from onlooker.policy.render import Context, Sections
from onlooker.policy.settings import MIN_BUDGET, Settings
from onlooker.policy.tokens import PROMPT_OVERHEAD, margin
from onlooker.ports import SystemClock


class Format(StrEnum):
    """Who reads the context."""

    text = "text"
    openai = "openai"
    anthropic = "anthropic"


async def context(
    screen: Screen,
    target: SessionTarget,
    system: SystemPrompt = "",
    budget: Budget = None,
    format: Annotated[
        Format, typer.Option("--format", help="A text, or the messages for a provider.")
    ] = Format.text,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="WHEN", help="As it was: the number of a message, or a time."),
    ] = None,
    question: Annotated[
        str, typer.Option("--question", metavar="TEXT", help="Include messages that help to answer this.")
    ] = "",
    stats: Annotated[
        bool, typer.Option("--stats", help="Print the size of each part, in tokens, to stderr.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the context that an agent would receive now.

    The budget is the one the agent last asked for, or that of the settings. Nothing is changed, and no
    notes are taken. --as-of shows the context when that message was the newest, or at that time
    (2026-02-16T14:00, or a day, which means its end).
    """
    if question and as_of is not None:
        raise UsageError("--question searches all messages: it cannot be combined with --as-of")
    settings = target.settings()
    async with target.open() as memory:
        session, _ = await target.find(memory)
        state = await session.history.state()
        if state is None:
            raise CommandError(f"no session {session.key!r}")
        if as_of is not None:
            state = replace((await session.history.as_of(parse_point("--as-of", as_of))).state, items=())
        counting = memory.counting
        if budget is None:
            budget = _last_budget(state.progress.budget, system, counting, settings)
        request = PromptRequest(system, budget=budget, question=question)
        state = await _with_items(memory, state, settings, counting.room(request, settings))
        builder = ContextBuilder(state, settings, counting)
        as_text = format is Format.text
        if question or (settings.recall != "off" and as_of is None):
            reminder = Reminder(memory.store, session.id, settings, counting, SystemClock().now())
            built = await builder.build_with_recall(request, reminder.remind, as_text=as_text)
        else:
            built = builder.build_text(request) if as_text else builder.build(request)
    shown: Any = {
        Format.text: built.text,
        Format.openai: built.openai,
        Format.anthropic: built.anthropic,
    }[format]()
    if as_json:
        named = {"session_key": session.key, "owner": session.owner, "format": format.value}
        screen.json(named | {"context": shown, "stats": asdict(built.stats)})
        return
    if as_text:
        screen.text(shown)
    else:
        screen.json(shown)
    if stats:
        _print_stats(screen, built.stats)


def _last_budget(room: int, system: str, counting: Counting, settings: Settings) -> int:
    """Return the budget that leaves `room` tokens for memory and messages; that of the settings without."""
    if not room:
        return settings.budget
    tokens = room + counting.request(PromptRequest(system))
    spare = margin(settings.estimator)
    around = PROMPT_OVERHEAD if spare else 0
    return math.ceil(tokens * counting.calibration.ratio / (1 - spare)) + around


async def _with_items(memory: Memory, state: State, settings: Settings, room: int) -> State:
    """Add the items that the session shows, or would show if its agent asked now."""
    session = state.progress.session
    if not settings.shares_items(session.owner):
        return replace(state, items=())
    if state.items is not None:
        return state
    items = ShownItems(memory.store, settings, memory.counting.text, SystemClock())
    return replace(state, items=tuple(await items.choice(session, room)))


def _print_stats(screen: Screen, stats: Stats) -> None:
    rows = [
        [name.replace("_", " "), f"{value:.3f}" if isinstance(value, float) else f"{value:,}"]
        for name, value in asdict(stats).items()
        if isinstance(value, int | float)
    ]
    aside = Screen(screen.err, screen.err, screen.quiet)
    aside.table([Column("part"), Column("tokens", right=True)], rows)


# ------------------------------------------------------------------------------------ fitting a text

Remind = Callable[[State, PromptRequest, Layout], Awaitable[tuple[PromptRequest, Layout]]]


@dataclass(frozen=True, slots=True)
class ContextBuilder:
    """Builds contexts of one session's state, without changing anything stored.

    A text costs a little more than a provider's prompt, because it has dates and names. So a context that is
    shown as text is counted as text, and made smaller until it fits the budget.
    """

    state: State
    settings: Settings
    counting: Counting

    def build(self, request: PromptRequest) -> Context:
        """Build the context, counted as a provider's prompt."""
        runtime = RuntimeContext.of(self.state.progress.session.key)
        return assemble(self.state, request, self.settings, self.counting, runtime)

    async def build_with_recall(self, request: PromptRequest, remind: Remind, *, as_text: bool) -> Context:
        """Build the context with what is recalled for the request's question, or for the last turn."""
        most = self._most(request)
        runtime = RuntimeContext.of(self.state.progress.session.key)
        while True:
            layout = lay_out(self.state, request, self.settings, self.counting)
            reminded, layout = await remind(self.state, request, layout)
            context = assemble(self.state, reminded, self.settings, self.counting, runtime, layout)
            over = self._tokens(context) - most if as_text and request.budget else 0
            if over <= 0 or request.budget - over < MIN_BUDGET:
                return context
            request = replace(request, budget=request.budget - over)

    def build_text(self, request: PromptRequest) -> Context:
        """Build the largest context whose text fits the budget.

        Raises:
            BudgetError: The base prompt alone is larger.
        """
        context = self.build(request)
        most = self._most(request)
        if not request.budget or self._tokens(context) <= most:
            return context

        def attempt(budget: int) -> Context | None:
            try:
                smaller = self.build(replace(request, budget=budget))
            except BudgetError:
                return None
            return smaller if self._tokens(smaller) <= most else None

        # A budget below the base prompt and one token holds nothing, so the search ends there.
        least = min(request.budget, self.counting.request(request) + 1)
        return _largest(attempt, least, request.budget) or self._cut(context, most)

    def _most(self, request: PromptRequest) -> int:
        return int(request.budget * (1 - margin(self.settings.estimator)) / self.counting.calibration.ratio)

    def _tokens(self, context: Context) -> int:
        return self.counting.text(context.text())

    def _cut(self, context: Context, most: int) -> Context:
        """Cut the newest message in the middle, if it alone is larger than the budget.

        The notes stay if they leave room for it.
        """
        bare = replace(context, sections=replace(context.sections, reflections=(), observations=(), now=""))
        if not context.messages:
            return bare
        newest = replace(context.messages[-1], calls=(), attachments=())

        def attempt(characters: int, sections: Sections) -> Context | None:
            start, end = characters * 2 // 3, characters // 3
            text = newest.text[:start] + ELISION + newest.text[len(newest.text) - end :]
            shorter = replace(context, sections=sections, messages=(replace(newest, text=text.strip()),))
            return shorter if self._tokens(shorter) <= most else None

        for sections in (context.sections, bare.sections):
            if found := _largest(partial(attempt, sections=sections), 0, len(newest.text)):
                return found
        return replace(bare, messages=())


def _largest(attempt: Callable[[int], Context | None], low: int, high: int) -> Context | None:
    """Return the attempt with the largest number that succeeds. Every smaller number succeeds too."""
    best: Context | None = None
    while low <= high:
        middle = (low + high) // 2
        found = attempt(middle)
        if found is None:
            high = middle - 1
        else:
            best, low = found, middle + 1
    return best
