"""What a call asks for, and how tokens are counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onlooker.domain.errors import BudgetError
from onlooker.domain.messages import Message
from onlooker.policy.settings import Settings
from onlooker.policy.tokens import Calibration, Estimator

MEMORY_HEADING = "## Conversation Memory"
MEMORY_INTRO = "Notes on what was said before the messages that follow, oldest first."


_OURS = f"{MEMORY_HEADING}\n{MEMORY_INTRO}"


def without_memory(prompt: str) -> str:
    """A prompt without the memory section at its end: a host may hand back what it got from us."""
    return prompt.split(_OURS, 1)[0].rstrip() if _OURS in prompt else prompt


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """What a call asks for: everything in a context that is not memory or messages."""

    system: str = ""
    knowledge: Mapping[str, str] = field(default_factory=dict[str, str])
    lead: tuple[Message, ...] = ()  # system messages at the head of a history: part of the base prompt
    preface: tuple[Message, ...] = ()
    end: str = ""
    budget: int = 0
    # Layers that change from call to call. They stand in `end` already; here for the statistics.
    volatile: Mapping[str, str] = field(default_factory=dict[str, str])
    cut: Mapping[str, int] = field(default_factory=dict[str, int])  # tokens that a layer lost
    missing: tuple[str, ...] = ()  # layers that did not answer
    kept: int = 0  # tokens that recall may take, and nothing else
    question: str = ""  # what the context is built for, where the call says so
    recalled: str = ""  # stands in `end` already; here for the statistics
    reserved: int = 0  # tokens that the end may take without changing what there is for memory

    @property
    def prompt(self) -> str:
        """The base prompt without the knowledge, and without any memory of ours in it."""
        texts = (self.system, *(m.text for m in self.lead))
        return "\n\n".join(t for t in map(without_memory, texts) if t)

    @property
    def base(self) -> str:
        return "\n\n".join(t for t in (self.prompt, *self.knowledge.values()) if t)


@dataclass(frozen=True, slots=True)
class Counting:
    """How tokens are counted: the estimator, and what providers' usage has taught about its error."""

    estimator: Estimator
    calibration: Calibration

    def text(self, text: str) -> int:
        return self.estimator.text(text) if text else 0

    def messages(self, messages: Sequence[Message]) -> int:
        return sum(m.tokens or self.estimator.message(m) for m in messages)

    def frame(self, frame: PromptRequest) -> int:
        return self.text(frame.base) + self.messages(frame.preface) + self.text(frame.end)

    def room(self, frame: PromptRequest, settings: Settings) -> int:
        """Tokens for all but the base prompt, by our count; 0: no budget.

        What changes from turn to turn takes no part in it, so that the limits of memory stay put.

        Raises:
            BudgetError: The base prompt alone is larger, or leaves nothing beside the end.
        """
        if not frame.budget:
            return 0
        usable = self.usable(frame, settings)
        base, end = self.text(frame.base), self.text(frame.end)
        if base + end >= usable:
            raise BudgetError(frame.budget, base + end, "the base prompt")
        return max(1, usable - base - frame.reserved - frame.kept)

    def usable(self, frame: PromptRequest, settings: Settings) -> int:
        """The budget by our count, less the margin for its error."""
        return int(frame.budget * (1 - settings.margin) / self.calibration.ratio)
