"""Whether a context holds the answer to a question: `python bench/recall.py --quality DIR [--json]`.

The conversations of LoCoMo are recorded as live sessions with default settings. Then a context is built for
each question about them, and scored without a language model; beside it stand what notes alone keep, plain
BM25, and the whole conversation. Tables are printed as they stand in docs/recall.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import onlooker
from _conversations import LOCOMO, Conversation, load
from onlooker.domain.messages import Message
from onlooker.engine.recall import Search
from onlooker.policy.render import text_lines
from onlooker.policy.search import recall as recalling
from onlooker.policy.tokens import margin

HERE = Path(__file__).parents[2] / "shared"
SUPPORTED = 0.75  # of an answer's words stand close together, near what was asked
SHARES = (0.15, 0.25, 0.5, recalling.QUESTION_SHARE)
CATEGORIES = ("single-hop", "multi-hop", "temporal", "open-domain")

# What is asked of a session, and the text that is to hold the answer.
Answering = Callable[[onlooker.Session, str], Any]


@dataclass
class Tally:
    """Hits and questions, by score and by category."""

    hits: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    asked: dict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))
    tokens: int = 0
    seconds: float = 0.0
    contexts: int = 0

    def add(self, score: str, category: str, hit: float) -> None:
        for key in (score, f"{score} {category}"):
            self.hits[key] += hit
            self.asked[key] += 1

    def share(self, key: str) -> float:
        return self.hits[key] / max(1, self.asked[key])

    def figures(self) -> dict[str, float]:
        shares = {key: round(self.share(key), 3) for key in sorted(self.asked)}
        each = max(1, self.contexts)
        return shares | {"tokens": self.tokens / each, "ms": 1000 * self.seconds / each}


class Scores:
    """The questions of LoCoMo, and whether a text answers one; see `score.py` in the quality folder."""

    def __init__(self, quality: Path, data: Path) -> None:
        sys.path.insert(0, str(quality))
        self._score: Any = import_module("score")
        self._metrics: Any = import_module("metrics")
        self.conversations: list[Any] = self._score.load_locomo(str(data / LOCOMO))

    def questions(self, conversation: Any) -> Iterator[Any]:
        return (q for q in conversation.questions if q.answer and not q.abstain)

    def tally(self, conversation: Any, answers: dict[str, str], tally: Tally) -> None:
        idf = self._metrics.conv_idf(conversation)
        derivable, by_id = self._score.derivable(conversation, idf), conversation.by_id()
        names = {m.speaker.lower() for m in conversation.messages()}
        for question in self.questions(conversation):
            index = self._metrics.Index(answers[question.id])
            if question.id in derivable:
                hit = self._answered(question, index, idf)
                tally.add("D-hit", question.category, hit)
                named = [n for n in names if re.search(rf"\b{n}\b", question.question.lower())]
                if len(named) == 1:
                    who = hit and self._answered(question, index, idf, who=named[0])
                    tally.add("who", question.category, who)
            if found := self._metrics.evidence_recall(question, by_id, index, idf):
                tally.add("evq-hit", question.category, found["q_hit"])
            tally.tokens += self._score.count_tokens(answers[question.id])
            tally.contexts += 1

    def _answered(self, question: Any, index: Any, idf: Any, **who: str) -> bool:
        found = self._metrics.answer_in_context(question.question, question.answer, index, idf, **who)
        return found.sup >= SUPPORTED


# ------------------------------------------------------------------------------------ ways to answer


def with_question(budget: int, share: float) -> Answering:
    async def context(session: onlooker.Session, question: str) -> str:
        recalling.QUESTION_SHARE = share
        return (await session.context(budget=budget, question=question)).text()

    return context


def notes_alone(budget: int) -> Answering:
    async def context(session: onlooker.Session, question: str) -> str:
        return (await session.context(budget=budget)).text()

    return context


def plain_ranking(memory: onlooker.Memory, budget: int) -> Answering:
    """The messages that match best, as many as fit, and nothing else."""

    async def context(session: onlooker.Session, question: str) -> str:
        search = Search(session.owner, session.id, ("message",), limit=300)
        hits = await search.run(memory.store, question)
        by_seq = {m.seq: m for m in await session.messages()}
        chosen: list[Message] = []
        for hit in hits:
            text = text_lines(sorted([*chosen, by_seq[hit.seq]], key=lambda m: m.seq))
            if memory.counting.text(text) > budget * (1 - margin(memory.settings.estimator)):
                break
            chosen.append(by_seq[hit.seq])
        return text_lines(sorted(chosen, key=lambda m: m.seq))

    return context


def whole_history() -> Answering:
    async def context(session: onlooker.Session, question: str) -> str:
        return text_lines(await session.messages())

    return context


# ------------------------------------------------------------------------------------ measuring


async def measured(
    scores: Scores, said: Sequence[Conversation], budget: int
) -> AsyncIterator[tuple[str, Tally]]:
    with tempfile.TemporaryDirectory() as folder:
        async with onlooker.open_memory(Path(folder) / "memory.db", budget=budget) as memory:
            for conversation in said:
                # An owner each: none is to know what another was told.
                session = memory.session(conversation.name, owner=conversation.name)
                for message in conversation.messages:
                    await session.record(message)
                await session.settle()
            rows = {f"question, {share:.0%} recalled": with_question(budget, share) for share in SHARES}
            rows |= {
                "notes alone": notes_alone(budget),
                "plain BM25": plain_ranking(memory, budget),
                "whole conversation": whole_history(),
            }
            for name, answering in rows.items():
                yield name, await _tally(scores, memory, len(said), answering)


async def _tally(scores: Scores, memory: onlooker.Memory, count: int, answering: Answering) -> Tally:
    tally = Tally()
    for conversation in scores.conversations[:count]:
        session = memory.session(conversation.id, owner=conversation.id)
        began = time.perf_counter()
        answers = {q.id: await answering(session, q.question) for q in scores.questions(conversation)}
        tally.seconds += time.perf_counter() - began
        scores.tally(conversation, answers, tally)
    return tally


def _cells(tally: Tally) -> list[str]:
    by_category = [f"{tally.share(f'evq-hit {c}'):.2f}" for c in CATEGORIES]
    hits = [f"{tally.share(score):.3f}" for score in ("D-hit", "who", "evq-hit")]
    return [*hits, *by_category, f"{tally.tokens / tally.contexts:,.0f}", _milliseconds(tally)]


def _milliseconds(tally: Tally) -> str:
    return f"{1000 * tally.seconds / tally.contexts:.0f}"


async def _print(scores: Scores, said: Sequence[Conversation], budget: int) -> None:
    titles = ["D-hit", "who", "evq-hit", *CATEGORIES, "tokens", "ms"]
    print(f"| context of {budget:,} | " + " | ".join(titles) + " |")
    print("|---|" + "---:|" * len(titles))
    async for name, tally in measured(scores, said, budget):
        print(f"| {name} | " + " | ".join(_cells(tally)) + " |", flush=True)


async def _all_figures(scores: Scores, said: Sequence[Conversation], budget: int) -> dict[str, Any]:
    return {name: tally.figures() async for name, tally in measured(scores, said, budget)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE / "data", metavar="DIR", help="where LoCoMo is")
    parser.add_argument(
        "--quality", type=Path, default=HERE / "quality", metavar="DIR", help="where score.py is"
    )
    parser.add_argument("--budget", type=int, default=4000, help="tokens of a context")
    parser.add_argument("--quick", action="store_true", help="one conversation")
    parser.add_argument("--json", action="store_true", help="all figures, for a program")
    chosen = parser.parse_args()
    try:
        scores, said = Scores(chosen.quality, chosen.data), load(chosen.data).locomo
    except (ModuleNotFoundError, FileNotFoundError) as error:
        print(f"nothing to measure on ({error}): see --data and --quality", file=sys.stderr)
        return 0
    said = said[:1] if chosen.quick else said
    if chosen.json:
        print(json.dumps(asyncio.run(_all_figures(scores, said, chosen.budget)), indent=2))
    else:
        asyncio.run(_print(scores, said, chosen.budget))
    return 0


if __name__ == "__main__":
    sys.exit(main())
