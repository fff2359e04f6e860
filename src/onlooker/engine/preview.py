"""Previews: contexts as an agent would receive them, built without storing anything. No note is taken, and no
budget or choice of items is stored."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from onlooker.domain.context import RuntimeContext
from onlooker.domain.errors import BudgetError
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Progress, State
from onlooker.engine.items import ShownItems
from onlooker.engine.recall import Reminder
from onlooker.engine.recording import load_newest
from onlooker.policy.assemble import ELISION, Counting, Layout, PromptRequest, assemble, lay_out
from onlooker.policy.render import Context, Sections
from onlooker.policy.settings import MIN_BUDGET, Settings
from onlooker.policy.tokens import PROMPT_OVERHEAD, margin
from onlooker.ports import Store, SystemClock


async def preview(
    store: Store,
    session: SessionId,
    settings: Settings,
    counting: Counting,
    *,
    system: str = "",
    budget: int | None = None,
    words: str = "",
) -> Context:
    """The context for the next turn, if the user said these words. The budget is the one that the agent last
    asked for, or that of the settings."""
    now = SystemClock().now()
    state = await load_newest(store, session, settings.budget if budget is None else budget)
    state = state or State(Progress(session))
    if budget is None:
        budget = last_budget(state.progress.budget, system, counting, settings)
    if words:
        said = Message("user", words, "preview", now, seq=state.progress.last_seq + 1)
        said = replace(said, tokens=counting.estimator.message(said))
        state = replace(state, messages=(*state.messages, said))
    request = PromptRequest(system, budget=budget)
    state = await with_items(store, state, settings, counting, counting.room(request, settings))
    builder = ContextBuilder(state, settings, counting)
    if settings.recall == "off":
        return builder.build(request)
    reminder = Reminder(store, session, settings, counting, now)
    return await builder.build_with_recall(request, reminder.remind, as_text=False)


def last_budget(room: int, system: str, counting: Counting, settings: Settings) -> int:
    """The budget that leaves `room` tokens for memory and messages; if 0, that of the settings."""
    if not room:
        return settings.budget
    tokens = room + counting.request(PromptRequest(system))
    spare = margin(settings.estimator)
    around = PROMPT_OVERHEAD if spare else 0
    return math.ceil(tokens * counting.calibration.ratio / (1 - spare)) + around


async def with_items(store: Store, state: State, settings: Settings, counting: Counting, room: int) -> State:
    """Add the items that the session shows, or would show if its agent asked now."""
    session = state.progress.session
    if not settings.shares_items(session.owner):
        return replace(state, items=())
    if state.items is not None:
        return state
    items = ShownItems(store, settings, counting.text, SystemClock())
    return replace(state, items=tuple(await items.choice(session, room)))


# ------------------------------------------------------------------------------------ fitting a text

Remind = Callable[[State, PromptRequest, Layout], Awaitable[tuple[PromptRequest, Layout]]]


@frozen
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
