"""What of a conversation a context still holds.

One measure is our own: the exact values. The others ask questions, and come from a folder with
`score.py` and `metrics.py`, where one is named.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from _conversations import LOCOMO, TAU, Conversation
from onlooker.policy.values import find_values, holds

# Of what an agent goes on to use, whatever it saw in its last messages is not memory's doing.
RECENT = 6
_LONG_ENOUGH = 24
_CUTS = (0.5, 0.75)
_SUPPORTED = 0.75  # of an answer's words stand close together, near what was asked
_KINDS = ("date", "number", "quoted", "entity")


def values_kept(conversations: Sequence[Conversation], texts: Sequence[str]) -> float:
    """Share of the exact values that were said which stand in the contexts, word for word."""
    found = kept = 0
    for conversation, text in zip(conversations, texts, strict=True):
        said = _values(conversation)
        found += len(said)
        kept += sum(holds(text, value) for value in said)
    return kept / found if found else 1.0


def _values(conversation: Conversation) -> set[str]:
    parts = (part for m in conversation.messages for part in (m.text, *(c.arguments for c in m.calls)))
    # A small number says nothing without its sentence, and stands in every text.
    return {v.text for part in parts for v in find_values(part) if not (v.text.isdigit() and len(v.text) < 3)}


def cuts(conversations: Sequence[Conversation]) -> list[tuple[int, int]]:
    """Which conversations are cut where: those long enough, in the middle and later."""
    sizes = [len(c.messages) for c in conversations]
    return [(i, int(n * cut)) for i, n in enumerate(sizes) if n >= _LONG_ENOUGH for cut in _CUTS]


class Questions:
    """What is asked about the two sets, and whether a context answers it."""

    def __init__(self, quality: Path, data: Path) -> None:
        """Raises ModuleNotFoundError where the folder has no such score."""
        sys.path.insert(0, str(quality))
        self._score: Any = import_module("score")
        self._metrics: Any = import_module("metrics")
        self._locomo: list[Any] = self._score.load_locomo(str(data / LOCOMO))
        self._tau: list[Any] = self._score.load_agents(str(data / TAU))
        self._asked: dict[str, tuple[Any, set[str]]] = {}

    def about(self, texts: Sequence[str]) -> dict[str, float]:
        """Answers and evidence in the final contexts of the first LoCoMo conversations."""
        answered: list[bool] = []
        evidence: list[float] = []
        kept = found = 0
        for conversation, text in zip(self._locomo, texts, strict=False):
            idf, derivable = self._known(conversation)
            index, by_id = self._metrics.Index(text), conversation.by_id()
            for question in conversation.questions:
                if question.abstain or not question.answer:
                    continue
                if question.id in derivable:
                    answered.append(self._answers(question, index, idf))
                if recall := self._metrics.evidence_recall(question, by_id, index, idf):
                    evidence.append(recall["q_hit"])
            held = self._metrics.retention(conversation.messages(), index)
            kept += sum(held[kind][0] for kind in _KINDS if kind in held)
            found += sum(held[kind][1] for kind in _KINDS if kind in held)
        return {
            "d_hit": sum(answered) / max(1, len(answered)),
            "evq_hit": sum(evidence) / max(1, len(evidence)),
            "kept": kept / max(1, found),
        }

    def _known(self, conversation: Any) -> tuple[Any, set[str]]:
        """What a word is worth in the conversation, and which questions its own text answers."""
        if conversation.id not in self._asked:
            idf = self._metrics.conv_idf(conversation)
            self._asked[conversation.id] = idf, self._score.derivable(conversation, idf)
        return self._asked[conversation.id]

    def _answers(self, question: Any, index: Any, idf: Any) -> bool:
        found = self._metrics.answer_in_context(question.question, question.answer, index, idf)
        return found.sup >= _SUPPORTED

    def future(self, places: Sequence[tuple[int, int]], texts: Sequence[str]) -> float:
        """Share of the identifiers that the agent goes on to use which the context at the cut holds."""
        shares: list[float] = []
        for (i, cut), text in zip(places, texts, strict=True):
            messages = list(self._tau[i].messages())
            kept, needed = self._metrics.future_use(messages, cut, text, recent=RECENT)
            if needed:
                shares.append(kept / needed)
        return sum(shares) / max(1, len(shares))
