"""The page of a note: which clauses are on it, and how they are written and read again.

Chosen are the clauses that say the most for the fewest tokens, counting what is repeated only once. They are
written under date headings, one line for each run of a speaker's clauses.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import accumulate, chain, groupby

from onlooker.domain.notes import NoteFormat
from onlooker.models.extractive.clauses import ROLES, Clause, is_call
from onlooker.policy.reply import Line, read
from onlooker.policy.reply.note_text import reads_as_asked
from onlooker.policy.text import regex, sentences
from onlooker.policy.tokens import estimate

# -- Choosing

# Factors for a unit that was said before: on the same day, on another day, and for an exact value.
_AGAIN_TODAY, _AGAIN_LATER, _VALUE_AGAIN = 0.5, 0.9, 0.03
_MAX_REPEATS = 4
_LATER = tuple(_AGAIN_LATER**times for times in range(_MAX_REPEATS + 1))
_NOTHING: Mapping[str, int] = {}
_HEADING_COST = 8  # tokens
_MIN_ROOM = 8
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
                again = _LATER[elsewhere] if elsewhere < _MAX_REPEATS else _LATER[_MAX_REPEATS]
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
    words = [{unit: weight for unit, weight in c.units.items() if unit[0] not in "#@"} for c in clauses]
    heaviest = [max(said, key=lambda unit: (said[unit], unit)) if said else "" for said in words]
    # By speaker and heaviest unit, so that each clause is compared with few of the many in earlier notes.
    earlier: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    for clause, unit in zip(clauses, heaviest, strict=True):
        earlier.setdefault(clause.speaker, {}).setdefault(unit, [])
    for speaker, said in noted:
        if wanted := earlier.get(speaker):
            for unit in wanted.keys() & said.keys():
                wanted[unit].append(said)
    return [
        clause
        for clause, said, unit in zip(clauses, words, heaviest, strict=True)
        if not _is_noted(said, earlier[clause.speaker][unit])
    ]


def _is_noted(words: Mapping[str, float], earlier: Sequence[Mapping[str, float]]) -> bool:
    if not earlier:
        return False
    total = sum(words.values())
    heaviest_first = accumulate(sorted(words.values(), reverse=True))
    # No fewer units can make up the overlap; counting them is quicker than weighing them.
    fewest = next(n for n, weight in enumerate(heaviest_first, 1) if weight > _SAME * total - 1e-9)
    for said in earlier:
        if len(words.keys() & said.keys()) >= fewest:
            same = sum([weight for unit, weight in words.items() if unit in said])
            if same / total > _SAME:
                return True
    return False


class _Chosen:
    """What a selection has taken so far, and what is left to take from."""

    def __init__(self, said: Coverage) -> None:
        self.clauses: list[Clause] = []
        self.spent = 0
        self.coverage = said.copy()
        self.lines: set[int] = set()
        self.days: set[str] = set()
        self.places: set[tuple[int, int]] = set()
        self.taken: set[int] = set()
        self.heap: list[tuple[float, int]] = []

    def copy(self) -> _Chosen:
        twin = _Chosen(self.coverage)
        twin.clauses, twin.spent, twin.heap = self.clauses.copy(), self.spent, self.heap.copy()
        twin.lines, twin.days = self.lines.copy(), self.days.copy()
        twin.places, twin.taken = self.places.copy(), self.taken.copy()
        return twin


class Selection:
    """A greedy choice: take the best clause per token, then count what it said for less.

    It can run more than once, with another budget each time. Until the room is scarce, every budget makes the
    same choice, so that later runs go on from there.
    """

    def __init__(self, clauses: Sequence[Clause], prefix_cost: Mapping[str, int], said: Coverage) -> None:
        self.clauses = clauses
        self._prefix_cost = prefix_cost
        self._by_line: dict[int, list[int]] = {}
        for i, clause in enumerate(clauses):
            self._by_line.setdefault(clause.place[0], []).append(i)
        self._now = first = _Chosen(said)
        first.heap = [(-self._worth(clause), i) for i, clause in enumerate(clauses)]
        heapq.heapify(first.heap)
        self._first = first
        self._late: _Chosen | None = None
        self._dearest = max((self._price(clause) for clause in clauses), default=0)

    @property
    def spent(self) -> int:
        return self._now.spent

    def run(self, budget: int) -> list[Clause]:
        """Return the chosen clauses in order. A worth in the heap may be out of date, but never too low."""
        late = self._late
        # Only a clause that does not fit makes a difference, and until then each did.
        start = late if late and budget - late.spent >= self._dearest else self._first
        self._now = now = start.copy()
        scarce = max(2 * self._dearest, budget // 4)
        heap, taken, clauses = now.heap, now.taken, self.clauses
        while heap and budget - now.spent >= _MIN_ROOM:
            if self._late is None and budget - now.spent < scarce:
                self._late = now.copy()
            _, i = heapq.heappop(heap)
            if i in taken:
                continue
            worth = self._worth(clauses[i])
            if heap and worth < -heap[0][0] - 1e-9:
                heapq.heappush(heap, (-worth, i))
                continue
            price = self._price(clauses[i])
            if price > budget - now.spent or worth <= 0:
                continue
            taken.add(i)
            now.spent += price
            # The clauses that this one makes cheaper, or explains, have a new worth.
            for k in self._take(i):
                if k not in taken:
                    heapq.heappush(heap, (-self._worth(clauses[k]), k))
        return sorted(now.clauses, key=lambda clause: clause.place)

    def _take(self, i: int) -> list[int]:
        """Choose a clause. Return those that it makes cheaper or explains."""
        clause, now = self.clauses[i], self._now
        line, k = clause.place
        is_new = line not in now.lines
        now.clauses.append(clause)
        now.coverage.add(clause)
        now.lines.add(line)
        now.days.add(clause.day)
        now.places.add(clause.place)
        neighbours = self._by_line[line]
        return neighbours if is_new else [n for n in neighbours if self.clauses[n].place[1] == k + 1]

    def _worth(self, clause: Clause) -> float:
        now = self._now
        gain = now.coverage.gain(clause) * clause.quality
        line, k = clause.place
        if clause.alone < 1 and (line, k - 1) not in now.places:
            gain *= clause.alone
        if line in now.lines:
            gain *= _SAME_LINE
        return gain / (_CLAUSE_PRICE + self._line_price(clause) - clause.date_cost)

    def _line_price(self, clause: Clause) -> int:
        if clause.place[0] in self._now.lines:
            return clause.cost
        return clause.cost + self._prefix_cost.get(clause.speaker, 3)

    def _price(self, clause: Clause) -> int:
        return self._line_price(clause) + (0 if clause.day in self._now.days else _HEADING_COST)


# -- Writing and reading

# A longer line is hard to read, and shorter ones repeat the speaker more often.
_MAX_LINE_TOKENS = 80
_LONG_CLAUSE = 160  # characters

_SPEAKER = regex(r"^(?P<speaker>[\w.-]+\([^\n]*?\)|[^\s:;.,(\[\"][^:;,.\n(]{0,40}?): (?=\S)")
# A name in small letters, such as `user`, begins no sentence by itself.
_BEFORE_SPEAKER = regex(r"(?<=[.?？。！!…\]]) (?=(?:[\w.-]+\([^\n]*?\)|[^\s:;.,(\[\"]+): )")
_BETWEEN_CLAUSES = regex(r"; |(?<=[?？。！!…\]]) ")
_ENDS = "?？。！!…]"
_PAIRS = (("(", ")"), ("“", "”"), ("[", "]"))
_DATED_SENTENCE = regex(r"^On (\d{4}-\d\d-\d\d), ")


@dataclass(slots=True)
class Page:
    """The clauses and values of some notes."""

    clauses: list[Clause] = field(default_factory=list[Clause])
    values: list[str] = field(default_factory=list[str])


def read_notes(texts: Iterable[str], format: NoteFormat = "lines") -> Page:
    """Read notes, in order. Places count on from one note to the next."""
    page = Page()
    number = 0
    for text in texts:
        note = read(text, format=format)
        lines = note.lines if format != "prose" else chain.from_iterable(map(_sentences, note.lines))
        for line in lines:
            page.clauses.extend(_clauses(line, number))
            number += 1
        page.values.extend(note.values)
    return page


def _sentences(prose: Line) -> Iterable[Line]:
    """Take prose apart as `render_prose` writes it. A day holds until the next one is named."""
    day = None
    for sentence in chain.from_iterable(map(_BEFORE_SPEAKER.split, sentences(prose.text))):
        dated = _DATED_SENTENCE.match(sentence)
        day = date.fromisoformat(dated[1]) if dated else day
        yield Line(_DATED_SENTENCE.sub("", sentence).rstrip("."), day=day)


def _clauses(line: Line, number: int) -> Iterable[Clause]:
    found = _SPEAKER.match(line.text)
    text = line.text[found.end() :] if found else line.text
    # A critical line is kept whole.
    parts = [text] if line.priority == "CRITICAL" else _split(text)
    for k, part in enumerate(parts):
        yield Clause(
            text=part,
            speaker=found["speaker"] if found else "",
            day=line.day.isoformat() if line.day else "",
            place=(number, k),
            time=f"{line.time:%H:%M}" if line.time else "",
            priority=line.priority,
        )


def _split(text: str) -> list[str]:
    """Split a line into clauses. A separator inside quotes or brackets does not count."""
    parts: list[str] = []
    start = 0
    for found in _BETWEEN_CLAUSES.finditer(text):
        piece = text[start : found.start()]
        if (
            piece.count('"') % 2 == 0
            and piece.count("`") % 2 == 0
            and all(piece.count(left) <= piece.count(right) for left, right in _PAIRS)
        ):
            parts.append(piece)
            start = found.end()
    parts.append(text[start:])
    # A language model may write a paragraph on one line.
    return [
        clause
        for part in parts
        if part.strip()
        for clause in (sentences(part) if len(part) > _LONG_CLAUSE else [part])
    ]


def render(clauses: Sequence[Clause], values_line: str = "") -> str:
    """Write a note as lines: a heading for each day, a line for each run of one speaker's clauses."""
    lines: list[str] = []
    for day, of_day in groupby(clauses, key=lambda clause: clause.day):
        if day:
            lines.append(f"## {day}")
        lines.extend(_line(run) for run in _runs(_by_person(of_day)))
    if values_line:
        lines.append(values_line)
    return "\n".join(lines)


def _by_person(clauses: Iterable[Clause]) -> Iterable[Clause]:
    """Put each person's clauses of a day together, so that the name is written once.

    The clauses of users, assistants and tools stay in order, and so do the clauses before and after them.
    """
    for in_turn, stretch in groupby(clauses, key=_goes_in_turn):
        if in_turn:
            yield from stretch
            continue
        people: dict[str, list[Clause]] = {}
        for clause in stretch:
            people.setdefault(clause.speaker, []).append(clause)
        for of_person in people.values():
            yield from of_person


def _goes_in_turn(clause: Clause) -> bool:
    return (
        not clause.speaker
        or clause.speaker in ROLES
        or is_call(clause.speaker)
        or clause.text.endswith(("?", "？"))
        or clause.time != ""
    )


def _runs(clauses: Iterable[Clause]) -> Iterable[list[Clause]]:
    """Yield the clauses of each line: of one speaker and priority, up to a length."""
    run: list[Clause] = []
    for clause in clauses:
        if run and not _goes_on(run, clause):
            yield run
            run = []
        run.append(clause)
    if run:
        yield run


def _goes_on(run: Sequence[Clause], clause: Clause) -> bool:
    return (
        run[-1].speaker == clause.speaker
        and run[-1].priority == clause.priority != "CRITICAL"
        and run[0].time == clause.time
        and sum(c.cost for c in run) + clause.cost <= _MAX_LINE_TOKENS
    )


def _line(run: Sequence[Clause]) -> str:
    first = run[0]
    head = f"[{first.time}] " if first.time else ""
    head += f"{first.priority} " if first.priority != "NOTE" else ""
    text = _subject(first.speaker) + _joined(clause.text for clause in run)
    # Nobody's name or words may pass for what the user asked for.
    return f"NOTE {text}" if not head and reads_as_asked(text) else head + text


def _subject(speaker: str) -> str:
    return f"{speaker}: " if speaker else ""


def _joined(texts: Iterable[str]) -> str:
    """Join clauses so that they can be split again."""
    out = ""
    for text in texts:
        out += ((" " if out[-1] in _ENDS else "; ") if out else "") + text
    return out


def prefix_cost(speaker: str) -> int:
    return estimate(_subject(speaker)) + 1


def render_prose(clauses: Sequence[Clause], least: int, most: int) -> str:
    """Write a note as `least` to `most` sentences, one for each run of a speaker. A new day is named once.

    Only of fewer clauses it makes fewer sentences.
    """
    text = ""
    day = ""
    for run in _few_runs(clauses, least, most):
        dated = f"On {run[0].day}, " if run[0].day and run[0].day != day else ""
        day = run[0].day or day
        sentence = dated + _subject(run[0].speaker) + _joined(clause.text for clause in run)
        text += (" " if text else "") + sentence + ("" if sentence[-1] in _ENDS else ".")
    return text


def _few_runs(clauses: Sequence[Clause], least: int, most: int) -> list[list[Clause]]:
    """Group clauses by speaker. Drop the groups that say least until there are few enough, and halve the
    longest until there are enough."""
    grouped = [list(run) for _, run in groupby(clauses, key=lambda clause: (clause.day, clause.speaker))]
    while len(grouped) > most:
        grouped.remove(min(grouped, key=_weight))
    while len(grouped) < min(least, len(clauses)):
        longest = max(range(len(grouped)), key=lambda i: len(grouped[i]))
        run = grouped[longest]
        grouped[longest : longest + 1] = [run[: len(run) // 2], run[len(run) // 2 :]]
    return grouped


def _weight(run: Sequence[Clause]) -> float:
    return sum(clause.quality * sum(clause.units.values()) for clause in run)
