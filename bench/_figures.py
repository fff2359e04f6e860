"""Lines of a benchmark's table, some with a goal; where a benchmark writes, and the memory it takes."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# Beside the project, since a temporary folder may be in memory, where a sync costs nothing.
FOLDER = Path(".bench")


@dataclass(frozen=True)
class Figure:
    """One line of the table. Without `most` and `least`, its goal, it is there for comparison.

    A `limit` is what was reached once and must hold, where the goal is not reached yet.
    """

    name: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None
    limit: float | None = None

    @property
    def missed(self) -> bool:
        above = self.most is not None and self.value > self.most
        return above or (self.least is not None and self.value < self.least)

    @property
    def failed(self) -> bool:
        return self.missed if self.limit is None else self.value > self.limit

    def __str__(self) -> str:
        goal = verdict = ""
        if self.most is not None or self.least is not None:
            bound = f"≤ {self.most:,g}" if self.most is not None else f"≥ {self.least:,g}"
            goal, verdict = f"{bound} {self.unit}", "missed" if self.missed else "met"
        if self.limit is not None:
            verdict = f"{verdict:7} ≤ {self.limit:,g} {self.unit} {'FAILED' if self.failed else 'holds'}"
        whole = self.value >= 1000 or not self.unit
        shown = f"{self.value:,.0f}" if whole else f"{self.value:,.2f}"
        return f"{self.name:52}{shown:>10} {self.unit:3}{goal:>12}  {verdict}"


def head(*, limits: bool = False) -> None:
    print(f"{'':52}{'measured':>10} {'':3}{'goal':>12}  {'         limit' if limits else ''}".rstrip())


def show(name: str, figures: Iterable[Figure]) -> bool:
    """Print one part of a table; True if a limit, or a goal without one, was missed."""
    print(name)
    failed = False
    for figure in figures:
        print(f"  {figure}".rstrip(), flush=True)
        failed |= figure.failed
    return failed


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder on the project's own disk, gone after use."""
    FOLDER.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(dir=FOLDER)


def resident() -> float:
    """The most that this process has had resident, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux getrusage counts what the parent had as well
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
