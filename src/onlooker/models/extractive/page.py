"""The page of a note: which pieces are on it, and how they are written and read again.

Chosen are the pieces that say the most for the fewest tokens, counting what is repeated only once. They are
written under date headings, a line for each message: sentences of two messages on one line would read as one.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import accumulate, chain, groupby

from onlooker.domain.notes import NoteFormat
from onlooker.models.extractive.pieces import (
    Piece,
    announces,
    is_call,
    link,
    passages,
    split,
    whole_parts,
)
from onlooker.models.extractive.tool_results import TROUBLE
from onlooker.models.extractive.words import DENIAL
from onlooker.policy.references import shows
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
# Added to the price of every piece: of two that say as much per token, the longer one is chosen.
_PIECE_PRICE = 3
_SAME = 0.85  # the overlap from which two pieces say the same

_SHORTEST_NAMING = 8  # characters of a piece that may name something
_RECENT = 8  # pieces among which one is looked for that another needs

# A piece of an earlier note: its speaker and its units.
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

    def add(self, piece: Piece) -> None:
        today, ever = self._days.setdefault(piece.day, {}), self._ever
        for unit in piece.units:
            today[unit] = today.get(unit, 0) + 1
            ever[unit] = ever.get(unit, 0) + 1

    def gain(self, piece: Piece) -> float:
        """Return the weight of what the piece adds."""
        # Most of the time of a note is spent here, so that everything is looked up once.
        said_ever, said_today = self._ever, self._days.get(piece.day, _NOTHING)
        total = 0.0
        for unit, weight in piece.units.items():
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


def without_repeats(pieces: Sequence[Piece]) -> list[Piece]:
    """Keep the last of pieces with the same words, or an earlier one of that day which others need. Critical
    lines all stay."""
    last = {(piece.speaker, piece.text.lower()): piece.place for piece in pieces}
    kept = [
        piece
        for piece in pieces
        if piece.priority == "CRITICAL" or last[piece.speaker, piece.text.lower()] == piece.place
    ]
    stay = with_needed(pieces, kept)
    needed = {piece.needs for piece in stay}
    said = {
        (piece.day, piece.speaker, piece.text.lower()): piece.place
        for piece in reversed(stay)
        if piece.priority != "CRITICAL"
    }
    return [
        piece
        for piece in stay
        if piece.place in needed
        or said.get((piece.day, piece.speaker, piece.text.lower()), piece.place) == piece.place
    ]


def with_needed(pieces: Sequence[Piece], kept: Iterable[Piece]) -> list[Piece]:
    """Return the pieces that are kept, and those without which they cannot be understood, in order. A piece
    that is worth nothing alone stays only where it is needed."""
    by_place = {piece.place: piece for piece in pieces}
    stays: set[tuple[int, int]] = set()
    for piece in kept:
        place = piece.place if piece.quality else None
        while place is not None and place not in stays:
            stays.add(place)
            place = by_place[place].needs if place in by_place else None
    return [piece for piece in pieces if piece.place in stays]


def without_noted(pieces: Sequence[Piece], noted: Sequence[Noted]) -> list[Piece]:
    """Drop pieces that earlier notes have from the same speaker."""
    words = [{unit: weight for unit, weight in c.units.items() if unit[0] not in "#@"} for c in pieces]
    heaviest = [max(said, key=lambda unit: (said[unit], unit)) if said else "" for said in words]
    # By speaker and heaviest unit, so that each piece is compared with few of the many in earlier notes.
    earlier: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    for piece, unit in zip(pieces, heaviest, strict=True):
        earlier.setdefault(piece.speaker, {}).setdefault(unit, [])
    for speaker, said in noted:
        if wanted := earlier.get(speaker):
            for unit in wanted.keys() & said.keys():
                wanted[unit].append(said)
    new = [
        piece
        for piece, said, unit in zip(pieces, words, heaviest, strict=True)
        if not _is_noted(said, earlier[piece.speaker][unit])
    ]
    return with_needed(pieces, new)


def _is_noted(words: Mapping[str, float], earlier: Sequence[Mapping[str, float]]) -> bool:
    if not earlier:
        return False
    total = sum(words.values())
    denied = DENIAL in words
    heaviest_first = accumulate(sorted(words.values(), reverse=True))
    # No fewer units can make up the overlap; counting them is quicker than weighing them.
    fewest = next(n for n, weight in enumerate(heaviest_first, 1) if weight > _SAME * total - 1e-9)
    for said in earlier:
        if (DENIAL in said) == denied and len(words.keys() & said.keys()) >= fewest:
            same = sum([weight for unit, weight in words.items() if unit in said])
            if same / total > _SAME:
                return True
    return False


class _Chosen:
    """What a selection has taken so far, and what is left to take from."""

    def __init__(self, said: Coverage) -> None:
        self.pieces: list[Piece] = []
        self.spent = 0
        self.coverage = said.copy()
        self.lines: set[int] = set()
        self.days: set[str] = set()
        self.taken: set[int] = set()
        self.heap: list[tuple[float, int]] = []

    def copy(self) -> _Chosen:
        twin = _Chosen(self.coverage)
        twin.pieces, twin.spent, twin.heap = self.pieces.copy(), self.spent, self.heap.copy()
        twin.lines, twin.days = self.lines.copy(), self.days.copy()
        twin.taken = self.taken.copy()
        return twin


class Selection:
    """A greedy choice: take the best piece per token, then count what it said for less.

    A piece is taken together with those that it needs. It can run more than once, with another budget each
    time. Until the room is scarce, every budget makes the same choice, so that later runs go on from there.
    """

    def __init__(self, pieces: Sequence[Piece], prefix_cost: Mapping[str, int], said: Coverage) -> None:
        self.pieces = pieces
        self._prefix_cost = prefix_cost
        self._at = {piece.place: i for i, piece in enumerate(pieces)}
        self._by_line: dict[int, list[int]] = {}
        # Those that need a piece, by its place.
        self._needing: dict[tuple[int, int], list[int]] = {}
        for i, piece in enumerate(pieces):
            self._by_line.setdefault(piece.place[0], []).append(i)
            if piece.needs is not None:
                self._needing.setdefault(piece.needs, []).append(i)
        self._now = first = _Chosen(said)
        first.heap = [(-self._worth(i), i) for i in range(len(pieces))]
        heapq.heapify(first.heap)
        self._first = first
        self._late: _Chosen | None = None
        self._dearest = max((self._price(self._bundle(i)) for i in range(len(pieces))), default=0)

    @property
    def spent(self) -> int:
        return self._now.spent

    def run(self, budget: int) -> list[Piece]:
        """Return the chosen pieces in order. A worth in the heap may be out of date, but never too low."""
        late = self._late
        # Only a piece that does not fit makes a difference, and until then each did.
        start = late if late and budget - late.spent >= self._dearest else self._first
        self._now = now = start.copy()
        scarce = max(2 * self._dearest, budget // 4)
        heap, taken = now.heap, now.taken
        while heap and budget - now.spent >= _MIN_ROOM:
            if self._late is None and budget - now.spent < scarce:
                self._late = now.copy()
            _, i = heapq.heappop(heap)
            if i in taken:
                continue
            worth = self._worth(i)
            if heap and worth < -heap[0][0] - 1e-9:
                heapq.heappush(heap, (-worth, i))
                continue
            bundle = self._bundle(i)
            price = self._price(bundle)
            if price > budget - now.spent or worth <= 0:
                continue
            now.spent += price
            # The pieces that these make cheaper, or explain, have a new worth.
            for k in {k for n in bundle for k in self._take(n)}:
                if k not in taken:
                    heapq.heappush(heap, (-self._worth(k), k))
        return sorted(now.pieces, key=lambda piece: piece.place)

    def _bundle(self, i: int) -> list[int]:
        """Return a piece and those that it needs and that are not chosen yet, the first one first."""
        bundle = [i]
        needs = self.pieces[i].needs
        # What is not among the pieces is in the note already.
        while (needed := self._at.get(needs) if needs else None) is not None:
            if needed in self._now.taken or needed in bundle:
                break
            bundle.insert(0, needed)
            needs = self.pieces[needed].needs
        return bundle

    def _take(self, i: int) -> list[int]:
        """Choose a piece. Return those that it makes cheaper or explains."""
        piece, now = self.pieces[i], self._now
        line = piece.place[0]
        is_new = line not in now.lines
        now.taken.add(i)
        now.pieces.append(piece)
        now.coverage.add(piece)
        now.lines.add(line)
        now.days.add(piece.day)
        needing = self._needing.get(piece.place, [])
        return self._by_line[line] + needing if is_new else needing

    def _worth(self, i: int) -> float:
        now = self._now
        gain, price = 0.0, _PIECE_PRICE
        lines: set[int] = set()
        for n in self._bundle(i):
            piece = self.pieces[n]
            line = piece.place[0]
            opened = line in now.lines or line in lines
            lines.add(line)
            gain += now.coverage.gain(piece) * piece.quality
            price += piece.cost - piece.date_cost + (0 if opened else self._prefix(piece))
        return gain / price

    def _prefix(self, piece: Piece) -> int:
        return self._prefix_cost.get(piece.speaker, 3)

    def _price(self, bundle: Sequence[int]) -> int:
        now = self._now
        price = 0
        lines: set[int] = set()
        days: set[str] = set()
        for n in bundle:
            piece = self.pieces[n]
            line = piece.place[0]
            price += piece.cost
            price += 0 if line in now.lines or line in lines else self._prefix(piece)
            price += 0 if piece.day in now.days or piece.day in days else _HEADING_COST
            lines.add(line)
            days.add(piece.day)
        return price


# -- Writing and reading

# A longer line is hard to read, and shorter ones repeat the speaker more often.
_MAX_LINE_TOKENS = 80

_SPEAKER = regex(r"^(?P<speaker>[\w.-]+\([^\n]*?\)|[^\s:;.,(\[\"][^:;,.\n(]{0,40}?): (?=\S)")
# A name in small letters, such as `user`, begins no sentence by itself.
_BEFORE_SPEAKER = regex(r"(?<=[.?？。！!…\]]) (?=(?:[\w.-]+\([^\n]*?\)|[^\s:;.,(\[\"]+): )")
# In prose, where pieces are one sentence. A semicolon of their own is followed by a small letter.
_BETWEEN_PIECES = regex(r"; (?![a-z])")
_AROUND_PICTURES = regex(r" (?=\[pic: )|(?<=\]) ")
_ENDS = "?？.。！!…:：]"
# An item of a list that is written in one line: what announces the list is before the first.
_LATER_ITEM = regex(r"\(?(?:[2-9]|1\d)[.)、]\s*\D")
_DATED_SENTENCE = regex(r"^On (\d{4}-\d\d-\d\d), ")


@dataclass(slots=True)
class Page:
    """The pieces and values of some notes."""

    pieces: list[Piece] = field(default_factory=list[Piece])
    values: list[str] = field(default_factory=list[str])


def read_notes(texts: Iterable[str], format: NoteFormat = "lines") -> Page:
    """Read notes, in order. Places count on from one note to the next."""
    page = Page()
    number = 0
    for text in texts:
        note = read(text, format=format)
        lines = note.lines if format != "prose" else [line for part in note.lines for line in _prose(part)]
        for line in lines:
            page.pieces.extend(_pieces(line, number, page.pieces, format))
            number += 1
        page.values.extend(note.values)
    return page


def _prose(prose: Line) -> Iterable[Line]:
    """Take prose apart as `render_prose` writes it. A day and a speaker hold until the next one is named."""
    day, speaker = None, ""
    for sentence in chain.from_iterable(map(_BEFORE_SPEAKER.split, sentences(prose.text))):
        dated = _DATED_SENTENCE.match(sentence)
        day = date.fromisoformat(dated[1]) if dated else day
        text = _DATED_SENTENCE.sub("", sentence)
        named = _speaker(text)
        speaker = named or speaker
        yield Line(text if named or not speaker else f"{speaker}: {text}", day=day)


def _speaker(line: str) -> str:
    found = _SPEAKER.match(line)
    return found["speaker"] if found else ""


def _pieces(line: Line, number: int, before: Sequence[Piece], format: NoteFormat) -> Iterable[Piece]:
    speaker = _speaker(line.text)
    text = line.text[len(speaker) + 2 :] if speaker else line.text
    # A critical line is kept whole, and so is what the user says to the assistant.
    whole = line.priority == "CRITICAL" or (speaker == "user" and format != "prose")
    day = line.day.isoformat() if line.day else ""
    last = before[-1].place if before else None
    recent = [
        piece
        for piece in before[-_RECENT:]
        if piece.day == day and (piece.place == last or not is_call(piece.speaker))
    ]
    heading: Piece | None = None  # what announces the rest of the line
    parts = [text] if whole else _split(text, speaker, format)
    picture = next((k for k, part in enumerate(parts) if part.startswith("[pic: ")), None)
    # What a call was given says nothing without its error.
    error = next((k for k, part in enumerate(parts) if is_call(speaker) and TROUBLE.search(part)), None)
    for k, part in enumerate(parts):
        piece = Piece(
            text=part,
            speaker=speaker,
            day=day,
            place=(number, k),
            time=f"{line.time:%H:%M}" if line.time else "",
            priority=line.priority,
        )
        if heading is not None:
            piece.needs, piece.depth = heading.place, heading.depth + 1
        elif error is not None and k != error:
            piece.needs, piece.depth = (number, error), 1
        elif k and _LATER_ITEM.match(part):
            piece.needs, piece.depth = (number, 0), 1
        elif k == picture:
            pass  # what points at it needs it, so it needs nothing
        elif picture is not None and shows(part):
            piece.needs, piece.depth = (number, picture), 1
        elif not is_call(speaker) and not link(piece, recent) and recent:
            said = recent[-1]
            piece.needs, piece.depth = said.place, said.depth  # it was noted, so it stays with what it means
        if heading is None and not is_call(speaker) and announces(part):
            heading = piece
        # What a pronoun means is in no picture alone, and in no "Awww!".
        if not part.startswith("[pic: ") and (" " in part or len(part) > _SHORTEST_NAMING):
            recent.append(piece)
        yield piece


def _split(text: str, speaker: str, format: NoteFormat) -> list[str]:
    if is_call(speaker):
        return [part for part in whole_parts(text.split("; "), "; ") if part.strip()]
    if format == "prose":
        parts = _BETWEEN_PIECES.split(text)
        return [part if part[-1] in _ENDS else part + "." for part in parts if part.strip()]
    return [part for shown in _AROUND_PICTURES.split(text) for part in passages(split(shown))]


def render(pieces: Sequence[Piece], values_line: str = "") -> str:
    """Write a note as lines: a heading for each day, a line for each message or call."""
    lines: list[str] = []
    for day, of_day in groupby(pieces, key=lambda piece: piece.day):
        if day:
            lines.append(f"## {day}")
        lines.extend(_line(run) for run in _runs(of_day))
    if values_line:
        lines.append(values_line)
    return "\n".join(lines)


def _runs(pieces: Iterable[Piece]) -> Iterable[list[Piece]]:
    """Yield the pieces of each line: of one message or call and one priority, up to a length."""
    run: list[Piece] = []
    for piece in pieces:
        if run and not _goes_on(run, piece):
            yield run
            run = []
        run.append(piece)
    if run:
        yield run


def _goes_on(run: Sequence[Piece], piece: Piece) -> bool:
    return (
        _is_same_source(run[-1], piece)
        and "CRITICAL" not in (run[-1].priority, piece.priority)
        and (run[-1].priority == piece.priority or piece.needs == run[-1].place)
        and run[0].time == piece.time
        # What ends in a colon announces only what needs it.
        and (piece.needs == run[-1].place or not announces(run[-1].text))
        and (piece.needs == run[-1].place or sum(c.cost for c in run) + piece.cost <= _MAX_LINE_TOKENS)
    )


def _is_same_source(before: Piece, piece: Piece) -> bool:
    """Whether two pieces are of one message, or of one call: its arguments, then its result."""
    if before.speaker != piece.speaker:
        return False
    if is_call(piece.speaker):
        return before.place[0] == piece.place[0] or piece.place == before.needs
    return before.place[0] == piece.place[0]


def _line(run: Sequence[Piece]) -> str:
    first = run[0]
    head = f"[{first.time}] " if first.time else ""
    priority = next((piece.priority for piece in run if piece.priority != "NOTE"), "NOTE")
    head += f"{priority} " if priority != "NOTE" else ""
    text = _subject(first.speaker) + _joined([piece.text for piece in run])
    # Nobody's name or words may pass for what the user asked for.
    return f"NOTE {text}" if not head and reads_as_asked(text) else head + text


def _subject(speaker: str) -> str:
    return f"{speaker}: " if speaker else ""


def _joined(texts: Sequence[str]) -> str:
    """Write pieces one after the other. Each has its end; what tools say has none."""
    out = texts[0]
    for text in texts[1:]:
        out += (" " if out[-1] in _ENDS else "; ") + text
    return out


def prefix_cost(speaker: str) -> int:
    return estimate(_subject(speaker)) + 1


def render_prose(pieces: Sequence[Piece], least: int, most: int) -> str:
    """Write a note as `least` to `most` sentences, one for each run of a speaker. A new day is named once.

    Only of fewer pieces it makes fewer sentences.
    """
    text = ""
    day = ""
    for run in _few_runs(pieces, least, most):
        dated = f"On {run[0].day}, " if run[0].day and run[0].day != day else ""
        day = run[0].day or day
        sentence = dated + _subject(run[0].speaker) + _joined([piece.text.removesuffix(".") for piece in run])
        text += (" " if text else "") + sentence + ("" if sentence[-1] in _ENDS else ".")
    return text


def _few_runs(pieces: Sequence[Piece], least: int, most: int) -> list[list[Piece]]:
    """Group pieces by speaker. Drop the groups that say least until there are few enough, and halve the
    longest until there are enough."""
    grouped = [list(run) for _, run in groupby(pieces, key=lambda piece: (piece.day, piece.speaker))]
    while len(grouped) > most:
        grouped.remove(min(grouped, key=_weight))
    while len(grouped) < min(least, len(pieces)):
        longest = max(range(len(grouped)), key=lambda i: len(grouped[i]))
        run = grouped[longest]
        grouped[longest : longest + 1] = [run[: len(run) // 2], run[len(run) // 2 :]]
    return grouped


def _weight(run: Sequence[Piece]) -> float:
    return sum(piece.quality * sum(piece.units.values()) for piece in run)
