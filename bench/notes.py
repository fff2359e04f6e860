"""What notes cost and what they keep: `python bench/notes.py [--dropping] [--quick] [--json]`.

Whole conversations are gone through as live sessions. A language model has a stand-in: it is sent the
prompts that a model would be sent, which are counted, and writes a note of the usual length. Tables are
printed as they stand in docs/notes.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from _conversations import Conversation, Data, in_one_session, load, of_the_demo
from _kept import RECENT, Questions, cuts, values_kept
from _live import Live, Writes
from _writers import as_written, faithful, vague, without_values
from onlooker.policy.settings import DEFAULT, LANGO, ZORA, Settings

# Where the sets are, unless another folder is named: beside the checkout.
DATA = Path(__file__).parents[2] / "shared" / "data"
CHAT_BUDGET = 4000
AGENT_BUDGET = 1000
QUICK = (1, 12)  # conversations of LoCoMo and of tau

Figures = dict[str, float]


@dataclass(frozen=True)
class Column:
    """A figure, its heading, and how it is written."""

    key: str
    title: str
    form: str = ".2f"

    def cell(self, figures: Figures) -> str:
        value = figures.get(self.key)
        return "" if value is None else format(value, self.form)


@dataclass(frozen=True)
class Table:
    """Rows with what is measured of each, and the columns that are shown of that."""

    title: str
    first: str
    columns: Sequence[Column]
    rows: Iterator[tuple[str, Figures]]

    def print(self) -> None:
        """Row by row as they are measured, since some take their time."""
        print(f"{self.title}\n")
        print(f"| {self.first} | " + " | ".join(c.title for c in self.columns) + " |")
        print("|---|" + "---:|" * len(self.columns))
        for name, figures in self.rows:
            print(f"| {name} | " + " | ".join(c.cell(figures) for c in self.columns) + " |", flush=True)
        print()

    def all_figures(self) -> list[dict[str, str | float]]:
        return [{"row": name, **figures} for name, figures in self.rows]


# ------------------------------------------------------------------------------------ what they cost

SHAPE = (
    Column("note_compression", "notes", ".1f"),
    Column("compression", "context", ".1f"),
    Column("prefix_reuse", "reused", ".1%"),
    Column("appended", "appended to", ".1%"),
    Column("rewritten", "rewritten", ".1%"),
    Column("left_out", "left out", ".0f"),
)
READ_BY_MODEL = (
    Column("observer_per_said", "observer reads"),
    Column("observer_per_noted", "for each noted"),
    Column("reflector_per_said", "reflector reads"),
    Column("written_per_said", "written"),
    *SHAPE,
    Column("refused", "refused", ".0f"),
)
TAKEN_BY_BUILTIN = (
    Column("said", "tokens said", ",.0f"),
    Column("messages", "messages", ",.0f"),
    Column("observer_per_said", "looked at", ".1f"),
    *SHAPE,
    Column("ms_per_message", "ms a message"),
    Column("seconds_writing", "s in all", ".1f"),
)


@dataclass(frozen=True)
class Case:
    name: str
    conversations: Sequence[Conversation]
    settings: Settings


def cost_cases(data: Data) -> Iterator[Case]:
    if not data.locomo:
        demo = [of_the_demo()]
        for settings in (DEFAULT, LANGO, ZORA):
            yield Case(f"demo, {settings.preset}", demo, settings)
        return
    sessions = f"LoCoMo, {len(data.locomo)} in turn"
    yield Case(f"{sessions}, default", data.locomo, DEFAULT)
    yield Case(f"{sessions}, default, {CHAT_BUDGET:,}", data.locomo, replace(DEFAULT, budget=CHAT_BUDGET))
    yield Case(f"{sessions}, lango", data.locomo, LANGO)
    chats = [in_one_session("LoCoMo", data.locomo)]
    calls = [in_one_session("tau", [c.spoken for c in data.tau])]
    for name, conversations in (("LoCoMo, one session", chats), ("tau, one session", calls)):
        for settings in (DEFAULT, LANGO, ZORA):
            yield Case(f"{name}, {settings.preset}", conversations, settings)


def costs(data: Data, writes: Writes | None) -> Iterator[tuple[str, Figures]]:
    for case in cost_cases(data):
        figures, _ = measured(case.settings, case.conversations, writes)
        yield case.name, figures


def measured(
    settings: Settings, conversations: Sequence[Conversation], writes: Writes | None
) -> tuple[Figures, list[str]]:
    live = Live(settings, writes)
    texts = asyncio.run(live.run_all(conversations))
    return live.tally.figures(), texts


# ------------------------------------------------------------------------------------ what they keep


@dataclass(frozen=True)
class Keeping:
    """What is kept of chats and of agents' work, in contexts several times shorter."""

    data: Data
    questions: Questions | None

    def columns(self) -> tuple[Column, ...]:
        asked = ("d_hit", "D-hit"), ("evq_hit", "evq-hit"), ("kept", "kept")
        chat = [Column(key, f"{title}, {CHAT_BUDGET:,}", ".3f") for key, title in asked if self.questions]
        future = [Column("future", f"future, {AGENT_BUDGET:,}", ".3f")] if self.questions else []
        return (
            *chat,
            Column("chat_values", f"values, {CHAT_BUDGET:,}", ".3f"),
            *future,
            Column("agent_values", f"tau values, {AGENT_BUDGET:,}", ".3f"),
        )

    def chats(self, texts: Sequence[str]) -> Figures:
        asked = self.questions.about(texts) if self.questions else {}
        return asked | {"chat_values": values_kept(self.data.locomo, texts)}

    def agents(self, texts: Sequence[str]) -> Figures:
        future = {"future": self.questions.future(self._places, texts)} if self.questions else {}
        return future | {"agent_values": values_kept(self.past, texts)}

    @property
    def _places(self) -> list[tuple[int, int]]:
        return cuts(self.data.tau)

    @property
    def past(self) -> list[Conversation]:
        """The agents' work up to a little before each cut."""
        tau = self.data.tau
        return [replace(tau[i], messages=tau[i].messages[: cut - RECENT]) for i, cut in self._places]


# ------------------------------------------------------------------------------------ dropping


def dropping(keeping: Keeping) -> Iterator[tuple[str, Figures]]:
    """A model that loses values, with its notes as it wrote them and as they became notes of ours."""
    for name, writes in (("without values", without_values), ("vague", vague), ("faithful", faithful)):
        chat, chats = measured(replace(DEFAULT, budget=CHAT_BUDGET), keeping.data.locomo, writes)
        agent, past = measured(replace(DEFAULT, budget=AGENT_BUDGET), keeping.past, writes)
        if writes is not faithful:  # which writes a ledger itself
            bare = [as_written(text) for text in chats], [as_written(text) for text in past]
            yield f"{name}, as written", keeping.chats(bare[0]) | keeping.agents(bare[1])
        refused = {"refused": chat["refused"] + agent["refused"]}
        yield f"{name}, audited", keeping.chats(chats) | keeping.agents(past) | refused


# ------------------------------------------------------------------------------------ the command


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dropping", action="store_true", help="models that lose values, and the audit")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the two sets are")
    parser.add_argument("--quality", type=Path, metavar="DIR", help="where score.py is; else no questions")
    parser.add_argument("--quick", action="store_true", help="less of everything, under a minute")
    parser.add_argument("--json", action="store_true", help="all figures, for a program")
    return parser.parse_args()


def _data(folder: Path | None, *, needed: bool) -> Data:
    try:
        return load(folder or DATA)
    except FileNotFoundError as error:
        if folder or needed:
            raise SystemExit(
                f"{error.filename} is not there: name the folder of the two sets with --data; "
                "docs/notes.md says where they come from"
            ) from error
    print("LoCoMo and tau are not there (--data DIR): only the demo is measured", file=sys.stderr)
    return Data()


def _questions(quality: Path | None, data: Path) -> Questions | None:
    if quality is None:
        return None
    try:
        return Questions(quality, data)
    except ModuleNotFoundError as error:
        raise SystemExit(f"{quality} has no score.py and metrics.py: {error}") from error


def _tables(chosen: argparse.Namespace) -> Iterator[Table]:
    data = _data(chosen.data, needed=chosen.dropping)
    if chosen.quick:
        data = data.first(*QUICK)
    if not chosen.dropping:
        first = "conversations, preset"
        yield Table("A language model", first, READ_BY_MODEL, costs(data, faithful))
        yield Table("The built-in model", first, TAKEN_BY_BUILTIN, costs(data, None))
        return
    keeping = Keeping(data, _questions(chosen.quality, chosen.data or DATA))
    columns = (*keeping.columns(), Column("refused", "refused", ".0f"))
    yield Table("Models that lose values", "notes", columns, dropping(keeping))


def main() -> int:
    chosen = _arguments()
    logging.getLogger("onlooker").setLevel(logging.ERROR)  # refused replies are counted instead
    tables = _tables(chosen)
    if chosen.json:
        print(json.dumps({table.title: table.all_figures() for table in tables}, indent=2))
        return 0
    for table in tables:
        table.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
