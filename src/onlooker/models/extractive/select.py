"""Selection: the clauses that say the most for the fewest tokens, counting what is repeated only once."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from onlooker.models.extractive.clauses import Clause

# Factors for a unit that was said before: on the same day, on another day, and for an exact value.
_AGAIN_TODAY, _AGAIN_LATER, _VALUE_AGAIN = 0.5, 0.9, 0.03
_MOST_REPEATS = 4
_LATER = tuple(_AGAIN_LATER**times for times in range(_MOST_REPEATS + 1))
_NOTHING: Mapping[str, int] = {}
_HEADING_COST = 8  # tokens
_SMALLEST_ROOM = 8
# Added to the price of every clause: of two that say as much per token, the longer one is chosen.
_CLAUSE_PRICE = 3
# Clauses of one line explain each other.
_SAME_LINE = 1.15
_SAME = 0.85  # the overlap from which two clauses say the same

# A clause of an earlier note: its speaker and its units.
Noted = tuple[str, Mapping[str, float]]


class Coverage:
    """How often each unit has been said, by day and in total."""

    def __init__(self, noted: Iterable[Mapping[str, float]] = ()) -> None:
        self._days: dict[str, dict[str, int]] = {}
        self._ever: dict[str, int] = dict(Counter(chain.from_iterable(noted)))

    def copy(self) -> Coverage:
        twin = Coverage()
        twin._days = {day: said.copy() for day, said in self._days.items()}
        twin._ever = self._ever.copy()
        return twin

    def add(self, clause: Clause) -> None:
        today, ever = self._days.setdefault(clause.day, {}), self._ever
        for unit in clause.units:
            today[unit] = today.get(unit, 0) + 1
            ever[unit] = ever.get(unit, 0) + 1

    def gain(self, clause: Clause) -> float:
        """Return the weight of what the clause adds."""
        # Most of the time of a note is spent here, so that everything is looked up once.
        said_ever, said_today = self._ever, self._days.get(clause.day, _NOTHING)
        total = 0.0
        for unit, weight in clause.units.items():
            if unit not in said_ever:
                total += weight
            elif unit[0] == "#":  # an exact value is held or it is not
                total += weight * _VALUE_AGAIN
            else:
                today = said_today.get(unit, 0)
                elsewhere = said_ever[unit] - today
                again = _LATER[elsewhere] if elsewhere < _MOST_REPEATS else _LATER[_MOST_REPEATS]
                total += weight * _AGAIN_TODAY**today * again if today else weight * again
        return total


def without_repeats(clauses: Sequence[Clause]) -> list[Clause]:
    """Keep the last of clauses with the same words. Critical lines all stay."""
    last = {(clause.speaker, clause.text.lower()): clause.place for clause in clauses}
    return [
        clause
        for clause in clauses
        if clause.priority == "CRITICAL" or last[clause.speaker, clause.text.lower()] == clause.place
    ]


def without_noted(clauses: Sequence[Clause], noted: Sequence[Noted]) -> list[Clause]:
    """Drop clauses that earlier notes have from the same speaker."""
    by_unit: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for speaker, said in noted:
        for unit in said:
            by_unit.setdefault((speaker, unit), []).append(said)
    return [clause for clause in clauses if not _is_noted(clause, by_unit)]


def _is_noted(clause: Clause, by_unit: Mapping[tuple[str, str], Sequence[Mapping[str, float]]]) -> bool:
    words = {unit: weight for unit, weight in clause.units.items() if unit[0] not in "#@"}
    if not words:
        return False
    heaviest = max(words, key=lambda unit: (words[unit], unit))
    total = sum(words.values())
    for said in by_unit.get((clause.speaker, heaviest), ()):
        if sum([weight for unit, weight in words.items() if unit in said]) / total > _SAME:
            return True
    return False


class Selection:
    """A greedy choice: take the best clause per token, then count what it said for less.

    It can run more than once, with another budget each time.
    """

    def __init__(self, clauses: Sequence[Clause], prefix_cost: Mapping[str, int], said: Coverage) -> None:
        self.clauses = clauses
        self._said = said
        self._prefix_cost = prefix_cost
        self._by_line: dict[int, list[int]] = {}
        for i, clause in enumerate(clauses):
            self._by_line.setdefault(clause.place[0], []).append(i)
        self._restart()
        self._heap = [(-self._worth(clause), i) for i, clause in enumerate(clauses)]
        heapq.heapify(self._heap)

    def _restart(self) -> None:
        self.chosen: list[Clause] = []
        self.spent = 0
        self._coverage = self._said.copy()
        self._lines: set[int] = set()
        self._days: set[str] = set()
        self._places: set[tuple[int, int]] = set()

    def run(self, budget: int) -> list[Clause]:
        """Return the chosen clauses in order. A worth in the heap may be out of date, but never too low."""
        self._restart()
        heap = self._heap.copy()
        taken: set[int] = set()
        room = budget
        while heap and room >= _SMALLEST_ROOM:
            _, i = heapq.heappop(heap)
            if i in taken:
                continue
            worth = self._worth(self.clauses[i])
            if heap and worth < -heap[0][0] - 1e-9:
                heapq.heappush(heap, (-worth, i))
                continue
            price = self._price(self.clauses[i])
            if price > room or worth <= 0:
                continue
            taken.add(i)
            room -= price
            self.spent += price
            # The clauses that this one makes cheaper, or explains, have a new worth.
            for k in self._take(i):
                if k not in taken:
                    heapq.heappush(heap, (-self._worth(self.clauses[k]), k))
        return sorted(self.chosen, key=lambda clause: clause.place)

    def _take(self, i: int) -> list[int]:
        """Choose a clause. Return those that it makes cheaper or explains."""
        clause = self.clauses[i]
        line, k = clause.place
        is_new = line not in self._lines
        self.chosen.append(clause)
        self._coverage.add(clause)
        self._lines.add(line)
        self._days.add(clause.day)
        self._places.add(clause.place)
        neighbours = self._by_line[line]
        return neighbours if is_new else [n for n in neighbours if self.clauses[n].place[1] == k + 1]

    def _worth(self, clause: Clause) -> float:
        gain = self._coverage.gain(clause) * clause.quality
        if clause.alone < 1 and (clause.place[0], clause.place[1] - 1) not in self._places:
            gain *= clause.alone
        if clause.place[0] in self._lines:
            gain *= _SAME_LINE
        return gain / (_CLAUSE_PRICE + self._line_price(clause) - clause.date_cost)

    def _line_price(self, clause: Clause) -> int:
        if clause.place[0] in self._lines:
            return clause.cost
        return clause.cost + self._prefix_cost.get(clause.speaker, 3)

    def _price(self, clause: Clause) -> int:
        return self._line_price(clause) + (0 if clause.day in self._days else _HEADING_COST)
