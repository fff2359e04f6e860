"""From notes to the clauses that a reflection can be made of, weighed again by their wording."""

from __future__ import annotations

from collections.abc import Sequence

from onlooker.domain.notes import Note
from onlooker.models.extractive.clause import Clause
from onlooker.models.extractive.page import Page, read_notes
from onlooker.models.extractive.quality import LEANING, RESOLVED, quality
from onlooker.models.extractive.traffic import OUTCOME, TROUBLE
from onlooker.models.extractive.units import names_of, units, value_units
from onlooker.policy.reading import NoteFormat
from onlooker.policy.tokens import estimate

_ROLES = ("user", "assistant", "system")
_IMPORTANT_WORTH = 2.0
_CAPTION_WORTH = 0.6


def weighed(notes: Sequence[Note], format: NoteFormat) -> Page:
    """What the notes say, with the weight of each clause."""
    page = read_notes((note.text for note in notes), format)
    names = names_of({clause.speaker for clause in page.clauses if not is_tool(clause.speaker)})
    wanted = frozenset(
        unit
        for clause in page.clauses
        for unit in value_units(clause.speaker if is_tool(clause.speaker) else clause.text)
    )
    for clause in page.clauses:
        _weigh(clause, names, wanted)
    return page


def is_tool(speaker: str) -> bool:
    return speaker.endswith(")")


def _weigh(clause: Clause, names: frozenset[str], wanted: frozenset[str]) -> None:
    said = RESOLVED.sub("", clause.text)
    clause.cost = estimate(clause.text) + 1
    clause.date_cost = clause.cost - estimate(said) - 1
    if is_tool(clause.speaker):
        _weigh_record(clause, wanted)
        return
    clause.units = units(said, names) | dict.fromkeys(value_units(said), 1.5)
    clause.quality = quality(clause.text, role=clause.speaker if clause.speaker in _ROLES else "")
    clause.leans = clause.place[1] > 0 and bool(LEANING.match(said))
    if clause.text.startswith("[pic: "):
        clause.quality = _CAPTION_WORTH
    elif clause.priority == "IMPORTANT":
        clause.quality *= _IMPORTANT_WORTH


def _weigh_record(clause: Clause, wanted: frozenset[str]) -> None:
    clause.units = {unit: 2.2 if unit in wanted else 1.0 for unit in value_units(clause.text)}
    for unit in value_units(clause.speaker):
        clause.units.setdefault(unit, 1.0)
    if not clause.units or TROUBLE.search(clause.text):
        clause.units |= {unit: weight * 0.4 for unit, weight in units(clause.text).items()}
    clause.quality = 1.4 if TROUBLE.search(clause.text) else 1.1 if OUTCOME.search(clause.text) else 1.0
