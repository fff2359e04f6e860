"""The text of a note: date headings, lines of clauses, the ledger of values. It is read and written here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby

from onlooker.domain.notes import NoteFormat
from onlooker.models.extractive.clauses import ROLES, Clause, is_call
from onlooker.policy.reply import Line, read
from onlooker.policy.text import regex, sentences
from onlooker.policy.tokens import estimate

# A longer line is hard to read, and shorter ones repeat the speaker more often.
_LONGEST_LINE = 80  # tokens
_LONG_CLAUSE = 160  # characters

_SPEAKER = regex(r"^(?P<speaker>[\w.-]+\([^\n]*?\)|[^\s:;.,(\[\"][^:;,.\n(]{0,40}?): (?=\S)")
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
        lines = note.lines if format == "lines" else chain.from_iterable(map(_sentences, note.lines))
        for line in lines:
            page.clauses.extend(_clauses(line, number))
            number += 1
        page.values.extend(note.values)
    return page


def _sentences(prose: Line) -> Iterable[Line]:
    for sentence in sentences(prose.text):
        yield Line(_DATED_SENTENCE.sub("", sentence).rstrip("."))


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
        and sum(c.cost for c in run) + clause.cost <= _LONGEST_LINE
    )


def _line(run: Sequence[Clause]) -> str:
    first = run[0]
    head = f"[{first.time}] " if first.time else ""
    head += f"{first.priority} " if first.priority != "NOTE" else ""
    return head + _subject(first.speaker) + _joined(clause.text for clause in run)


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


def render_prose(clauses: Sequence[Clause], most: int) -> str:
    """Write a note as at most `most` sentences, one for each run of a speaker. A new day is named once."""
    text = ""
    day = ""
    for run in _few_runs(clauses, most):
        dated = f"On {run[0].day}, " if run[0].day and run[0].day != day else ""
        day = run[0].day or day
        sentence = dated + _subject(run[0].speaker) + _joined(clause.text for clause in run)
        text += (" " if text else "") + sentence + ("" if sentence[-1] in _ENDS else ".")
    return text


def _few_runs(clauses: Sequence[Clause], most: int) -> list[list[Clause]]:
    """Group clauses by speaker, and drop the groups that say least until there are few enough."""
    grouped = [list(run) for _, run in groupby(clauses, key=lambda clause: (clause.day, clause.speaker))]
    while len(grouped) > most:
        grouped.remove(min(grouped, key=_weight))
    return grouped


def _weight(run: Sequence[Clause]) -> float:
    return sum(clause.quality * sum(clause.units.values()) for clause in run)
