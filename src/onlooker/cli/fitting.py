"""A context whose text fits the budget.

A provider's prompt and a text cost about the same, but not exactly: the text carries dates and
names, one per message. So the text itself is counted here, and asked for smaller until it fits.
Nothing stored changes by it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from onlooker.domain.context import RuntimeContext
from onlooker.domain.errors import BudgetError
from onlooker.domain.notes import State
from onlooker.policy.assemble import ELISION, Layout, assemble, lay_out
from onlooker.policy.context import Context, Sections
from onlooker.policy.frame import Counting, PromptRequest
from onlooker.policy.settings import SMALLEST_BUDGET, Settings

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
