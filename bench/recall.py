"""Whether a context holds the answer to a question: `python bench/recall.py --data DIR --quality DIR`.

The conversations of LoCoMo are recorded as live sessions with default settings. Then each question about them
is what the user says next, and the context of that turn is scored without a language model; beside it stand
memory without recall, plain BM25, and the whole conversation. Then what recall costs a turn: tokens, reuse of
the prefix, and time. Tables are printed as they stand in docs/recall.md.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, Literal

import onlooker
from _conversations import LOCOMO, PATIENT, Conversation, load
from onlooker.domain.messages import Message
from onlooker.policy.cost import shared_prefix
from onlooker.policy.render import text_lines
from onlooker.policy.settings import DEFAULT, Settings
from onlooker.policy.tokens import estimator, margin
from overhead import a_piece

HERE = Path(__file__).parents[2] / "shared"
SUPPORTED = 0.75  # of an answer's words stand close together, near what was asked
OWNER = "ana"
CATEGORIES = ("single-hop", "multi-hop", "temporal", "open-domain")

# What is asked of a session, and the text that is to hold the answer.
Answering = Callable[[onlooker.Session, str], Awaitable[str]]


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


async def every_turn(session: onlooker.Session, question: str) -> str:
    """What the user says is the question. Its own words do not count as an answer."""
    await session.record(onlooker.user(question))
    context = await session.context()
    return replace(context, messages=context.messages[:-1]).text()


async def unasked(session: onlooker.Session, question: str) -> str:
    """The context as it stands before anything is asked: notes and the last messages."""
    return (await session.context()).text()


async def for_the_question(session: onlooker.Session, question: str) -> str:
    return (await session.context(question=question)).text()


def plain_ranking(budget: int) -> Answering:
    """The messages that match best, as many as fit, and nothing else."""
    count = estimator("default").text

    async def context(session: onlooker.Session, question: str) -> str:
        by_seq = {m.seq: m for m in await session.messages()}
        chosen: list[Message] = []
        for hit in await session.search(question, kinds=["message"], limit=300):
            text = text_lines(sorted([*chosen, by_seq[hit.seq]], key=lambda m: m.seq))
            if count(text) > budget * (1 - margin("default")):
                break
            chosen.append(by_seq[hit.seq])
        return text_lines(sorted(chosen, key=lambda m: m.seq))

    return context


async def whole_history(session: onlooker.Session, question: str) -> str:
    return text_lines(await session.messages())


# ------------------------------------------------------------------------------------ measuring


class Recorded:
    """Conversations recorded live with one value of `recall`, each in a file of its own."""

    def __init__(
        self, folder: Path, recall: Literal["owner", "off"], budget: int, settings: Settings = DEFAULT
    ) -> None:
        self._folder = folder / recall
        self._folder.mkdir()
        self._settings = replace(settings, recall=recall, budget=budget)
        self.turns = Turns()

    def open(self, name: str) -> onlooker.Memory:
        return onlooker.open_memory(self._folder / name, settings=self._settings, timing=PATIENT)

    async def record(self, said: Sequence[Conversation]) -> None:
        for conversation in said:
            async with self.open(conversation.name) as memory:
                # An owner each: none is to know what another was told.
                session = memory.session(conversation.name, owner=conversation.name)
                before = ""
                for message in conversation.messages:
                    await session.record(message)
                    await session.settle()
                    if message.role == "user":
                        before = await self.turns.measure(memory, session, before)

    async def tally(self, scores: Scores, count: int, answering: Answering, *, apart: bool) -> Tally:
        """Ask every question; `apart`: each of a copy of the memory, since asking changes it."""
        tally = Tally()
        for conversation in scores.conversations[:count]:
            answers: dict[str, str] = {}
            for question in scores.questions(conversation):
                name = conversation.id
                if apart:
                    name = "asked"
                    shutil.copy(self._folder / conversation.id, self._folder / name)
                async with self.open(name) as memory:
                    session = memory.session(conversation.id, owner=conversation.id)
                    began = time.perf_counter()
                    answers[question.id] = await answering(session, question.question)
                    tally.seconds += time.perf_counter() - began
                if apart:
                    (self._folder / name).unlink()
            scores.tally(conversation, answers, tally)
        return tally


@dataclass
class Turns:
    """What the turns of live conversations sent, and how much of it the turn before had sent."""

    count: int = 0
    sent: int = 0
    recalled: int = 0
    reused: int = 0
    times: list[float] = field(default_factory=list[float])

    async def measure(self, memory: onlooker.Memory, session: onlooker.Session, before: str) -> str:
        began = time.perf_counter()
        context = await session.context()
        self.times.append(time.perf_counter() - began)
        text = context.text()
        tokens = memory.counting.text(text)
        self.count += 1
        self.sent += tokens
        self.recalled += context.stats.recall
        self.reused += max(0, tokens - memory.counting.text(text[shared_prefix(before, text) :]))
        return text

    @property
    def cells(self) -> list[str]:
        shares = [f"{self.sent / self.count:,.0f}", f"{self.recalled / self.count:,.0f}"]
        return [*shares, f"{self.reused / self.sent:.1%}", *_percentiles(self.times)]


def _percentiles(times: Sequence[float]) -> list[str]:
    ordered = sorted(times)
    return [f"{1000 * ordered[int(len(ordered) * share)]:.1f}" for share in (0.5, 0.99)]


async def latency(scores: Scores, said: Sequence[Conversation], messages: int, folder: Path) -> list[str]:
    """What a context takes with recall and without, of an owner of so many messages: p50 and p99 in
    milliseconds, and p50 of CPU time in pieces of work, which a busy machine changes less."""
    source = [m for c in said for m in c.messages]
    questions = [q.question for c in scores.conversations for q in scores.questions(c)][::4][:200]
    cells: list[str] = []
    for recall in ("owner", "off"):
        settings = replace(onlooker.preset("default"), recall=recall)
        path = folder / f"{messages}.db"
        times: list[float] = []
        used: list[float] = []
        pieces: list[float] = []
        async with onlooker.open_memory(path, settings=settings) as memory:
            await _fill(memory, source, messages)
            session = memory.session(f"asking, {recall}", owner=OWNER)
            for question in questions:
                await session.record(onlooker.user(question))
                began, cpu = time.perf_counter(), time.process_time()
                await session.context()
                times.append(time.perf_counter() - began)
                used.append(time.process_time() - cpu)
                pieces.append(a_piece())
                await session.record(onlooker.assistant("Let me see."))
        cells += [*_percentiles(times), f"{median(used) / median(pieces):.1f} ×"]
    return cells


async def _fill(memory: onlooker.Memory, source: Sequence[Message], messages: int) -> None:
    """Sessions of a thousand messages, straight into the store and its index."""
    await memory.session("warm", owner="nobody").record(onlooker.user("Hello"))
    for number in range(messages // 1000):
        session = memory.session(f"s{number}", owner=OWNER).id
        first = number * 997 % max(1, len(source) - 1000)
        texts = [
            replace(m, id=f"{number}-{i}", tokens=len(m.text) // 4 + 4)
            for i, m in enumerate(source[first : first + 1000])
        ]
        await memory.store.append(session, texts, due_tokens=1 << 60, now=datetime.now(UTC))
        while await memory.store.index(session, limit=1000) >= 1000:
            pass


def _cells(tally: Tally) -> list[str]:
    by_category = [f"{tally.share(f'evq-hit {c}'):.2f}" for c in CATEGORIES]
    hits = [f"{tally.share(score):.3f}" for score in ("D-hit", "who", "evq-hit")]
    return [*hits, *by_category, f"{tally.tokens / tally.contexts:,.0f}", _milliseconds(tally)]


def _milliseconds(tally: Tally) -> str:
    return f"{1000 * tally.seconds / tally.contexts:.0f}"


async def _run(scores: Scores, said: Sequence[Conversation], budget: int) -> None:
    titles = ["D-hit", "who", "evq-hit", *CATEGORIES, "tokens", "ms"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        default, off = Recorded(folder, "owner", budget), Recorded(folder, "off", budget)
        await default.record(said)
        await off.record(said)
        _head(f"context of {budget:,}", titles)

        async def row(name: str, memory: Recorded, answering: Answering, *, apart: bool = False) -> None:
            tally = await memory.tally(scores, len(said), answering, apart=apart)
            print(f"| {name} | " + " | ".join(_cells(tally)) + " |", flush=True)

        await row("every turn, by default", default, every_turn, apart=True)
        await row("recall off", off, every_turn, apart=True)
        await row("`question=`", default, for_the_question)
        await row("plain BM25", default, plain_ranking(budget))
        await row("whole conversation", default, whole_history)
        _head("turns", ["tokens", "recalled", "prefix reused", "p50 ms", "p99 ms"])
        for how, recorded in (("with recall", default), ("without", off)):
            print(f"| {how} | " + " | ".join(recorded.turns.cells) + " |", flush=True)


async def _latencies(scores: Scores, said: Sequence[Conversation]) -> None:
    titles = ["p50 ms", "p99 ms", "CPU p50"]
    _head("messages of an owner", [*titles, *(f"{title} without" for title in titles)])
    with tempfile.TemporaryDirectory() as name:
        for messages in (1_000, 100_000):
            cells = await latency(scores, said, messages, Path(name))
            print(f"| {messages:,} | " + " | ".join(cells) + " |", flush=True)


def _head(first: str, titles: Sequence[str]) -> None:
    print(f"\n| {first} | " + " | ".join(titles) + " |")
    print("|---|" + "---:|" * len(titles))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE / "data", metavar="DIR", help="where LoCoMo is")
    parser.add_argument(
        "--quality", type=Path, default=HERE / "quality", metavar="DIR", help="where score.py is"
    )
    parser.add_argument("--budget", type=int, default=4000, help="tokens of a context")
    parser.add_argument("--latency", action="store_true", help="only what a context takes")
    parser.add_argument("--quick", action="store_true", help="one conversation")
    chosen = parser.parse_args()
    try:
        scores, said = Scores(chosen.quality, chosen.data), load(chosen.data).locomo
    except (ModuleNotFoundError, FileNotFoundError) as error:
        print(f"nothing to measure on ({error}): see --data and --quality", file=sys.stderr)
        return 0
    said = said[:1] if chosen.quick else said
    if not chosen.latency:
        asyncio.run(_run(scores, said, chosen.budget))
    asyncio.run(_latencies(scores, said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
