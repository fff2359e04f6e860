"""What memory adds to an agent, beside Mastra's observational memory: `python bench/beside_mastra.py`.

Both hold the same conversation, with models that answer at once, and both keep it in a file: Onlooker in
SQLite, Mastra in libSQL. The same loop with a plain list in place of a memory is subtracted. Each run is a
process of its own. The Node packages are installed from `bench/mastra` into `.bench/mastra` by npm.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Literal, TypedDict

import onlooker
from _figures import FOLDER, Figure, head, resident, scratch, show
from _talk import QuickModel, Talk, cpu_seconds
from onlooker.domain.notes import Note
from onlooker.models.extractive import ExtractiveModel
from onlooker.models.llm import prompt_of
from onlooker.policy.tokens import estimate
from onlooker.ports import Model, Reply, Request

SOURCES = Path(__file__).parent / "mastra"
INSTALLED = FOLDER / "mastra"
SYSTEM = "You are a helpful assistant."
TURNS, ROUNDS = 200, 3
# A turn has 700 tokens: 500 of the user's and 200 of the agent's.
USER, ASSISTANT = 500, 200
# How many messages the plain list sends: 14,000 tokens, near to Onlooker's default budget of 16,000.
KEEP = 40

# What Mastra holds by default, 30,000 tokens of messages and 40,000 of observations, as one budget.
AS_MASTRA = 70_000

How = Literal["list", "memory", "as-mastra", "as-mastra-alone", "built-in"]


NAMES = {
    "Mastra list": "Mastra's agent with a plain list",
    "Mastra memory": "Mastra's agent with observational memory",
    "Onlooker list": "A loop with a plain list",
    "Onlooker memory": "A loop with Onlooker, a model that answers at once",
    "Onlooker as-mastra": f"The same with a budget of {AS_MASTRA:,} tokens, as Mastra has",
    "Onlooker as-mastra-alone": "And without recall and items, which Mastra's does not have",
    "Onlooker built-in": "A loop with Onlooker, the built-in model",
}


class Run(TypedDict):
    """What one run took: CPU in milliseconds, the most resident memory in MB, and how often a model wrote."""

    cpu: float
    peak: float
    observed: int
    reflected: int


# ------------------------------------------------------------------------------------ what is said


def conversation(turns: int) -> list[tuple[str, str]]:
    talk = Talk()
    return [(_text(talk, USER), _text(talk, ASSISTANT)) for _ in range(turns)]


def _text(talk: Talk, tokens: int) -> str:
    texts: list[str] = []
    while sum(map(estimate, texts)) < tokens:
        texts.append(talk.next().text)
    return " ".join(texts)


# ------------------------------------------------------------------------------------ ours


class Instant(QuickModel):
    """A language model that answers at once; its prompt is written as for any other."""

    async def write(self, request: Request) -> Reply:
        prompt_of(request)
        return await super().write(request)


async def ours(turns: Sequence[tuple[str, str]], database: Path, how: How) -> Run:
    """The same loop as `mastra/agent.mjs`."""
    if how != "list":  # as there, every module is loaded before the clock starts
        await _with_memory(turns[:1], Path(":memory:"), Instant(), how)
        ExtractiveModel()
    began, notes = cpu_seconds(), list[Note]()
    if how == "list":
        _with_list(turns)
    else:
        model = None if how == "built-in" else Instant()
        notes = await _with_memory(turns, database, model, how)
    if any(note.degraded for note in notes):
        raise SystemExit("the built-in model had to stand in: these would be figures of something else")
    written = [note.kind for note in notes]
    return Run(
        cpu=(cpu_seconds() - began) * 1000,
        peak=resident(),
        observed=written.count("observation"),
        reflected=written.count("reflection"),
    )


def _with_list(turns: Sequence[tuple[str, str]]) -> None:
    history: list[dict[str, str]] = []
    for user, assistant in turns:
        history.append({"role": "user", "content": user})
        _send([{"role": "system", "content": SYSTEM}, *history[-KEEP:]])
        history.append({"role": "assistant", "content": assistant})


async def _with_memory(
    turns: Sequence[tuple[str, str]], database: Path, model: Model | None, how: How
) -> Sequence[Note]:
    budget = AS_MASTRA if how in ("as-mastra", "as-mastra-alone") else None
    alone = how == "as-mastra-alone"
    settings = onlooker.Settings(recall="off") if alone else None
    async with onlooker.open_memory(database, model=model, budget=budget, settings=settings) as memory:
        # Items, facts for other sessions, are made for an owner.
        session = memory.session("bench", owner=None if alone else "ana")
        for user, assistant in turns:
            await session.record(onlooker.user(user))
            context = await session.context(system=SYSTEM)
            _send(context.openai())
            await session.record(onlooker.assistant(assistant))
            # A person and a model take longer than notes; what waits uses no CPU.
            await memory.background.flush()
        return await session.notes(statuses=("active", "superseded", "buffered"))


def _send(messages: Sequence[object]) -> None:
    """An agent's model that answers at once is sent the messages and does nothing with them."""
    if not messages:
        raise SystemExit("nothing was sent to the model: these would be figures of something else")


# ------------------------------------------------------------------------------------ side by side


def install(npm: str) -> Path:
    """Mastra and the Node that it needs, as locked; return Node's program."""
    lock, done = SOURCES / "package-lock.json", INSTALLED / "installed.json"
    if not done.exists() or done.read_bytes() != lock.read_bytes():
        print(f"installing Mastra into {INSTALLED}", file=sys.stderr, flush=True)
        shutil.rmtree(INSTALLED, ignore_errors=True)
        shutil.copytree(SOURCES, INSTALLED)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=INSTALLED, check=True, stdout=subprocess.DEVNULL)
        shutil.copy(lock, done)
    shutil.copy(SOURCES / "agent.mjs", INSTALLED)
    # Where the lock has no Node for the platform, the machine's own must do.
    ours = sorted(INSTALLED.glob("node_modules/node-*/bin/node"))
    return ours[0].resolve() if ours else Path(shutil.which("node") or "node")


def run(command: Sequence[str | Path]) -> Run:
    # It would send a report of its use.
    environment = {**os.environ, "MASTRA_TELEMETRY_DISABLED": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout)


def side_by_side(node: Path, turns: int, rounds: int) -> bool:
    """Print the table; True if a goal was missed."""
    found: dict[str, list[Run]] = {}
    for done in range(rounds):  # in turn about, so that all see the same machine
        with scratch() as name:
            said = Path(name, "turns.json")
            said.write_text(json.dumps({"turns": conversation(turns), "keep": KEEP}))
            for how in ("list", "memory"):
                theirs = [node, INSTALLED / "agent.mjs", said, Path(name, f"mastra-{how}.db"), how]
                found.setdefault(f"Mastra {how}", []).append(run(theirs))
            # The built-in model takes as long as all others together, and is there for comparison.
            for how in ("list", "memory", "as-mastra", "as-mastra-alone", *(() if done else ("built-in",))):
                mine = [sys.executable, __file__, "--run", said, Path(name, f"onlooker-{how}.db"), how]
                found.setdefault(f"Onlooker {how}", []).append(run(mine))
    for name, runs in found.items():
        if "list" not in name and not all(r["observed"] for r in runs):
            raise SystemExit(f"{name}: nothing was observed, so these would be figures of something else")
    return _table(found, turns)


def _table(found: dict[str, list[Run]], turns: int) -> bool:
    # What else the machine does only ever adds CPU time: the least is the nearest.
    cpu = {name: min(r["cpu"] for r in runs) / turns for name, runs in found.items()}
    peak = {name: median(r["peak"] for r in runs) for name, runs in found.items()}
    added = {name: cpu[name] - cpu[f"{name.split()[0]} list"] for name in cpu}
    head()
    for name, runs in found.items():
        figures = [Figure("CPU per turn", cpu[name], "ms"), Figure("resident memory, peak", peak[name], "MB")]
        if "list" not in name:
            figures += [
                Figure("CPU that memory adds to a turn", added[name], "ms"),
                Figure("observations written", runs[-1]["observed"], ""),
                Figure("reflections written", runs[-1]["reflected"], ""),
            ]
        show(NAMES[name], figures)
    theirs, ours = "Mastra memory", "Onlooker memory"
    return show(
        "Mastra against Onlooker, each as it is set up by default",
        [
            Figure("CPU that memory adds", added[theirs] / added[ours], "×", least=10),
            Figure("  with Mastra's window", added[theirs] / added["Onlooker as-mastra"], "×"),
            Figure("  and its work alone", added[theirs] / added["Onlooker as-mastra-alone"], "×"),
            Figure("resident memory, peak", peak[theirs] / peak[ours], "×"),
        ],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="60 turns, once")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a goal is missed")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        said, database, how = arguments.run
        turns = json.loads(Path(said).read_text())["turns"]
        print(json.dumps(asyncio.run(ours(turns, Path(database), how))))
        return 0
    npm = shutil.which("npm")
    if npm is None:
        print("skipped: Mastra is installed with npm, and there is no npm here")
        return 0
    missed = side_by_side(install(npm), *((60, 1) if arguments.quick else (TURNS, ROUNDS)))
    return 1 if arguments.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
