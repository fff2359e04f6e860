"""Lines of a benchmark's table, some with a goal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of the table. Without `most` and `least` it is there for comparison."""

    name: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None

    @property
    def missed(self) -> bool:
        above = self.most is not None and self.value > self.most
        return above or (self.least is not None and self.value < self.least)

    def __str__(self) -> str:
        goal = verdict = ""
        if self.most is not None or self.least is not None:
            bound = f"≤ {self.most:,g}" if self.most is not None else f"≥ {self.least:,g}"
            goal, verdict = f"{bound} {self.unit}", "missed" if self.missed else "met"
        shown = f"{self.value:,.0f}" if self.value >= 1000 else f"{self.value:,.2f}"
        return f"{self.name:52}{shown:>10} {self.unit:3}{goal:>12}  {verdict}"
