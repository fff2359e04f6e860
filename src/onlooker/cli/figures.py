"""What a replayed conversation came to: the demo's figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from onlooker.cli.plot import Point
from onlooker.demo import Value
from onlooker.domain.messages import Message
from onlooker.domain.notes import State
from onlooker.policy.context import Context
from onlooker.policy.tokens import Estimator


@dataclass(slots=True)
class Figures:
    """Gathered while the conversation goes on."""

    estimator: Estimator
    raw: int = 0
    context: int = 0
    points: list[Point] = field(default_factory=list[Point])
    _prompt: str = ""
    _sent: int = 0
    _reused: int = 0

    def said(self, message: Message) -> None:
        self.raw += self.estimator.message(message)

    def built(self, context: Context, at: datetime) -> None:
        """Count a prompt, and how much of it a provider's cache would have had already."""
        prompt = "\n".join(json.dumps(m, ensure_ascii=False) for m in context.openai())
        if self._prompt:
            self._sent += self.estimator.text(prompt)
            self._reused += self.estimator.text(prompt[: shared_prefix(self._prompt, prompt)])
        self._prompt = prompt
        self.context = context.stats.total
        self.points.append(Point(f"{at:%Y-%m-%d}", self.raw, self.context))

    @property
    def prefix_reuse(self) -> float:
        """Share of all prompt tokens that began as the prompt before had begun, byte for byte."""
        return self._reused / self._sent if self._sent else 0.0

    @property
    def compression(self) -> float:
        return self.raw / self.context if self.context else 1.0


def shared_prefix(a: str, b: str) -> int:
    """How many characters two texts begin with in common."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def kept(values: tuple[Value, ...], text: str) -> int:
    """How many of the values stand in the text, word for word."""
    return sum(v.value in text for v in values)


def lost(messages: Sequence[Message], state: State) -> int:
    """Messages that neither stand raw in the tail nor are covered by a note that is shown."""
    covered = {seq for note in state.active for seq in range(note.first, note.last + 1)}
    return sum(m.seq < state.progress.tail_start and m.seq not in covered for m in messages)
