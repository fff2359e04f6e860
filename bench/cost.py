"""What whole conversations cost with a provider's prompt cache: `python bench/cost.py [--quick] [--json]`.

Every call of an agent is billed: what the provider has cached, what it writes into its cache, and the rest.
The cached full history is 1. Beside it stand a sliding window, a host that drops the older half when it is
full, and Onlooker with recall and without, with the built-in model and with a language model's stand-in, its
prompts alone and with the tokens of its own work, at the price of the agent's model and at that of the
provider's smaller one. `--parts` prints what a call sends outside the cache, and
why, `--frontier` what other thresholds would cost and answer, and `--plot FILE` draws the bills.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import onlooker
from _conversations import PATIENT, Conversation, in_one_session, load, load_agents
from _live import Tally, stand_in
from _talk import Talk
from _writers import faithful
from onlooker.cli.replay import ReplayClock
from onlooker.domain.messages import Message
from onlooker.engine.runtime import Runtime
from onlooker.models.extractive import ExtractiveModel
from onlooker.policy.cost import (
    PRICES,
    Bill,
    DropHalf,
    Prompt,
    Transcript,
    bill_host,
    full_history,
    request_blocks,
    sliding_window,
    tokens,
)
from onlooker.policy.settings import DEFAULT, Settings
from onlooker.policy.tokens import estimate
from recall import Recorded, Scores, every_turn, unasked

DATA = Path(__file__).parents[2] / "shared" / "data"
SYSTEM = "You are a helpful assistant. Answer in the user's language, briefly, and say what you do not know."


# ------------------------------------------------------------------------------------ Onlooker


@dataclass
class Changes:
    """How often the prefix changed: by new notes at its end, or where something stood (`Stats.changed`)."""

    calls: int = 0
    appended: int = 0
    rewritten: int = 0
    ends: int = 0  # tokens that stand behind the prefix by design: recall, and relative time

    def see(self, changed: str, end: int) -> None:
        self.calls += 1
        self.ends += end
        self.appended += changed == "messages"
        self.rewritten += changed not in ("", "messages")


@dataclass
class Parts:
    """Tokens that calls sent, and those that Anthropic did not read from its cache, by the reason."""

    calls: int = 0
    sent: int = 0
    short: int = 0  # the prompt has too few to be cached
    recalled: int = 0
    new: int = 0  # said since the call before
    again: int = 0  # after a change of the prefix, or from a cold cache

    def see(self, prompt: Prompt, read: int, recalled: int, new: int) -> None:
        size = sum(tokens(block.text) for block in prompt)
        rest = size - read - recalled
        self.calls += 1
        self.sent += size
        self.recalled += recalled
        if size < PRICES[0].smallest:
            self.short += rest
            return
        self.new += min(rest, new)
        self.again += max(0, rest - new)


async def bill_onlooker(
    conversation: Conversation, settings: Settings, *, language_model: bool, parts: Parts | None = None
) -> tuple[list[Bill], Changes, Tally]:
    bills = [Bill(prices) for prices in PRICES]
    changes, tally = Changes(), Tally()
    said, last = Transcript(conversation.messages, ""), 0
    clock = ReplayClock(conversation.messages)
    builtin = ExtractiveModel()
    model = stand_in(tally, faithful) if language_model else builtin
    store = onlooker.open_memory(":memory:").store
    runtime = Runtime(
        store,
        settings=settings,
        observer=model,
        reflector=model,
        builtin=builtin,
        clock=clock,
        tz=UTC,
        timing=PATIENT,
    )
    async with onlooker.Memory(runtime) as memory:
        session = memory.session("bench")
        await session.context(system=SYSTEM)  # tells the planner which budget the notes are for
        for n, message in enumerate(conversation.messages):
            if message.role == "assistant" and n:
                context = await session.context(system=SYSTEM)
                changes.see(context.stats.changed, context.stats.end)
                prompt = list(request_blocks(context.anthropic()))
                known = bills[0].reused
                for bill in bills:
                    bill.add(prompt, message.at or clock.now())
                if parts:
                    new, last = said.size(last, n), n
                    parts.see(prompt, bills[0].reused - known, context.stats.recall, new)
            clock.move_to(message.at)
            await session.record(message)
            await memory.background.flush()
    return bills, changes, tally


# ------------------------------------------------------------------------------------ conversations


def long_answers(exchanges: int = 94) -> Conversation:
    """A user who asks something short, and an assistant that answers with a page."""
    talk, at = Talk(), datetime(2026, 2, 16, 9, tzinfo=UTC)
    messages: list[Message] = []
    for n in range(exchanges):
        for role, size in (("user", 60), ("assistant", 1000)):
            text = ""
            while estimate(text) < size:
                text += talk.next().text + " "
            message = replace(talk.next(), role=role, text=text.strip(), id=f"m{len(messages)}", at=at)
            messages.append(message)
            at += timedelta(seconds=40)
        if n % 30 == 29:
            at += timedelta(hours=14)  # the next day: every cache is cold
    return Conversation("long answers", tuple(messages))


def in_one_sitting(conversation: Conversation) -> Conversation:
    """The conversation without pauses: no cache gets cold."""
    messages: list[Message] = []
    before, at = conversation.messages[0].at, conversation.messages[0].at
    for message in conversation.messages:
        assert message.at
        assert before
        assert at
        at += min(max(message.at - before, timedelta()), timedelta(minutes=2))
        messages.append(replace(message, at=at))
        before = message.at
    return replace(conversation, messages=tuple(messages))


def conversations(data: Path, *, quick: bool) -> dict[str, tuple[Conversation, tuple[int, ...]]]:
    """Each kind of conversation, with the budgets to bill it at."""
    found: dict[str, tuple[Conversation, tuple[int, ...]]] = {
        "long answers": (
            long_answers(40 if quick else 94),
            (8_000,) if quick else (8_000, 16_000, 32_000, 64_000),
        ),
    }
    try:
        sets, agents = load(data), load_agents(data)
    except FileNotFoundError as missing:
        print(f"without LoCoMo and agents: {missing.filename} is not there", file=sys.stderr)
        return found
    chat = max((c.spoken for c in sets.locomo), key=lambda c: len(c.messages))
    if quick:
        chat = replace(chat, messages=chat.messages[:200])
    found["LoCoMo"] = (in_one_sitting(chat), (4_000,) if quick else (4_000, 8_000, 16_000))
    if not quick:
        found["LoCoMo, on 29 days"] = (chat, (8_000,))
    loops = [c.spoken for c in agents["openhands"]]
    found["coding agent"] = (
        loops[0] if quick else in_one_session("openhands", loops),
        (8_000,) if quick else (8_000, 16_000, 32_000),
    )
    if not quick:
        calls = [c.spoken for c in agents["tau"][:20]]
        found["customers, with tools"] = (in_one_session("tau", calls), (8_000, 16_000))
    return found


# ------------------------------------------------------------------------------------ the table


def _row(
    name: str,
    budget: int,
    how: str,
    ratios: Sequence[float],
    reuse: Sequence[float],
    changes: Changes | None,
) -> str:
    cells = [*(f"{ratio:.2f}" for ratio in ratios), *(f"{share:.3f}" for share in reuse)]
    counts = (changes.appended, changes.rewritten) if changes else ()
    cells += [f"{100 * count / max(1, changes.calls):.0f}" for count in counts if changes] or ["", ""]
    return f"| {name} | {budget:,} | {how} | {' | '.join(cells)} |"


async def table(data: Path, *, quick: bool, only: str) -> list[dict[str, Any]]:
    heads = " | ".join(prices.name for prices in PRICES)
    reused = "reused of the prompt | reused of the prefix"
    print(f"| conversation | budget | how | {heads} | {reused} | appended per 100 | rewritten per 100 |")
    print("|---|---:|---|" + "---:|" * (len(PRICES) + 4))
    rows: list[dict[str, Any]] = []
    for name, (conversation, budgets) in conversations(data, quick=quick).items():
        if only and only not in name:
            continue
        said = Transcript(conversation.messages, SYSTEM)
        whole = bill_host(said, full_history, 0)
        for budget in budgets:
            settings = replace(DEFAULT, budget=budget)
            found: list[tuple[str, list[Bill], Changes | None]] = [
                ("sliding window", bill_host(said, sliding_window, budget), None),
                ("drop half", bill_host(said, DropHalf(), budget), None),
            ]
            for how, chosen in (
                ("Onlooker", settings),
                ("Onlooker, no recall", replace(settings, recall="off")),
            ):
                bills, changes, _ = await bill_onlooker(conversation, chosen, language_model=False)
                found.append((how, bills, changes))
            bills, changes, tally = await bill_onlooker(conversation, settings, language_model=True)
            found.append(("a language model's prompts", bills, changes))
            read, written = tally.observer + tally.reflector, tally.written
            per_said = [tokens / said.size(0, len(conversation.messages)) for tokens in (read, written)]
            work = "its own work: {:.2f} read, {:.2f} written".format(*per_said)
            with_work, by_smaller = ([copy(bill) for bill in bills] for _ in range(2))
            for one, other in zip(with_work, by_smaller, strict=True):
                one.add_model(read, written)
                other.add_model(read, written, other.prices.small)
            found += [(f"with {work}", with_work, changes)]
            found += [("with its own work by the smaller model", by_smaller, changes)]
            for how, bills, changes in found:
                ratios = [bill.billed / base.billed for bill, base in zip(bills, whole, strict=True)]
                sent = max(1, bills[0].sent)
                reuse = [bills[0].reused / n for n in (sent, sent - (changes.ends if changes else 0))]
                print(_row(name, budget, how, ratios, reuse, changes), flush=True)
                by_provider = {prices.name: ratio for prices, ratio in zip(PRICES, ratios, strict=True)}
                rows.append(
                    {"conversation": name, "budget": budget, "how": how, "reuse": reuse[0], **by_provider}
                )
    return rows


async def print_parts(data: Path, *, quick: bool, only: str) -> None:
    """Print, per call, what a prompt has and what of it is not read from the cache."""
    titles = ("prompt", "new", "too short", "recalled", "again", "whole history, billed", "bill", "reused")
    print(f"| conversation | budget | {' | '.join(titles)} |")
    print("|---|---:|" + "---:|" * len(titles))
    for name, (conversation, budgets) in conversations(data, quick=quick).items():
        if only and only not in name:
            continue
        whole = bill_host(Transcript(conversation.messages, SYSTEM), full_history, 0)[0]
        for budget in budgets:
            parts, settings = Parts(), replace(DEFAULT, budget=budget)
            (bill, *_), _, _ = await bill_onlooker(conversation, settings, language_model=False, parts=parts)
            sums = (parts.sent, parts.new, parts.short, parts.recalled, parts.again, whole.billed)
            cells = [f"{value / max(1, parts.calls):,.0f}" for value in sums]
            cells += [f"{bill.billed / whole.billed:.2f}", f"{bill.reused / max(1, bill.sent):.3f}"]
            print(f"| {name} | {budget:,} | {' | '.join(cells)} |", flush=True)


# ------------------------------------------------------------------------------------ the plot

BARS = {"drop half": "#b8b8b8", "Onlooker": "#1f6feb", "a language model's prompts": "#8ab4f8"}
LEFT, WIDE, HIGH = 210, 440, 9  # pixels: before the bars, of a bill of 1, and of a bar


def plot(rows: Sequence[dict[str, Any]]) -> str:
    """Draw what each way to send a conversation costs with Anthropic's prices, as SVG."""
    shapes: list[str] = []
    y = 34
    for n, (how, colour) in enumerate(BARS.items()):
        shapes.append(f'<rect x="{LEFT + 150 * n}" y="8" width="10" height="10" fill="{colour}"/>')
        shapes.append(f'<text x="{LEFT + 15 + 150 * n}" y="17">{how}</text>')
    cases = dict.fromkeys((row["conversation"], row["budget"]) for row in rows)
    for name, budget in cases:
        shapes.append(f'<text x="{LEFT - 8}" y="{y + 19}" text-anchor="end">{name}, {budget:,}</text>')
        for how, colour in BARS.items():
            of = (
                r["Anthropic"]
                for r in rows
                if (r["conversation"], r["budget"], r["how"]) == (name, budget, how)
            )
            for bill in of:
                size = f'width="{WIDE * bill:.0f}" height="{HIGH - 1}"'
                shapes.append(f'<rect x="{LEFT}" y="{y}" {size} fill="{colour}"/>')
                shapes.append(
                    f'<text x="{LEFT + WIDE * bill + 4:.0f}" y="{y + 8}" class="small">{bill:.2f}</text>'
                )
            y += HIGH
        y += 10
    whole = f'<line x1="{LEFT + WIDE}" x2="{LEFT + WIDE}" y1="28" y2="{y}" stroke="#d1242f"/>'
    said = f'<text x="{LEFT + WIDE}" y="{y + 14}" text-anchor="middle">the whole history, cached</text>'
    style = "<style>text{font:12px sans-serif}.small{font-size:9px}</style>"
    canvas = f'width="{LEFT + WIDE + 110}" height="{y + 24}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {canvas}>{style}<rect {canvas} fill="white"/>',
            *shapes,
            whole,
            said,
            "</svg>\n",
        ]
    )


# ------------------------------------------------------------------------------------ the frontier

# The default, and each threshold with another value.
VARIANTS: tuple[dict[str, float], ...] = (
    {},
    {"observe_at": 0.25},
    {"chunk_tokens": 0.07},
    {"keep_recent": 0.1},
    {"precompute_at": 0.1},
    {"reflect_at": 0.45},
    {"reflect_to": 0.25},
    {"reflect_to": 0.4},
)
ASKED_BUDGET = 4_000


async def frontier(data: Path, quality: Path, *, quick: bool) -> None:
    """Print what other thresholds cost, what a context with recall answers with them, and what it
    holds before anything is asked."""
    kinds = conversations(data, quick=quick)
    billed = {name: (conversation, budgets[0]) for name, (conversation, budgets) in kinds.items()}
    scores, said = Scores(quality, data), load(data).locomo[: 2 if quick else None]
    names = " | ".join(f"{name}, {budget:,}" for name, (_, budget) in billed.items())
    print(f"| changed | {names} | D-hit, {ASKED_BUDGET:,} | who | evq-hit | D-hit, unasked |")
    print("|---|" + "---:|" * (len(billed) + 4))
    for changed in VARIANTS:
        settings = replace(DEFAULT, **changed)
        cells = [
            f"{await _share_of_full(conversation, replace(settings, budget=budget)):.2f}"
            for conversation, budget in billed.values()
        ]
        with tempfile.TemporaryDirectory() as folder:
            memory = Recorded(Path(folder), "owner", ASKED_BUDGET, settings)
            await memory.record(said)
            before = await memory.tally(scores, len(said), unasked, apart=False)
            tally = await memory.tally(scores, len(said), every_turn, apart=True)
        cells += [f"{tally.share(score):.3f}" for score in ("D-hit", "who", "evq-hit")]
        cells.append(f"{before.share('D-hit'):.3f}")
        name = ", ".join(f"`{key}` {value:g}" for key, value in changed.items()) or "default"
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


async def _share_of_full(conversation: Conversation, settings: Settings) -> float:
    bills, _, _ = await bill_onlooker(conversation, settings, language_model=False)
    whole = bill_host(Transcript(conversation.messages, SYSTEM), full_history, 0)
    return bills[0].billed / whole[0].billed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the sets")
    parser.add_argument("--quick", action="store_true", help="one budget, and shorter conversations")
    parser.add_argument("--only", default="", help="a conversation's name, or a part of it")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, too")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw them into this file, too")
    parser.add_argument("--parts", action="store_true", help="what a call sends outside the cache, and why")
    parser.add_argument("--frontier", action="store_true", help="other thresholds: the bill, and the answers")
    parser.add_argument("--quality", type=Path, default=DATA.parent / "quality", help="where score.py is")
    chosen = parser.parse_args()
    if chosen.frontier:
        asyncio.run(frontier(chosen.data, chosen.quality, quick=chosen.quick))
        return
    if chosen.parts:
        asyncio.run(print_parts(chosen.data, quick=chosen.quick, only=chosen.only))
        return
    rows = asyncio.run(table(chosen.data, quick=chosen.quick, only=chosen.only))
    if chosen.json:
        print(json.dumps(rows))
    if chosen.plot:
        chosen.plot.write_text(plot(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
