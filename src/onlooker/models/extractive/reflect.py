"""From notes to the clauses that a reflection can be made of, weighed again by their wording."""

from __future__ import annotations

from collections.abc import Sequence

from onlooker.domain.notes import Note, NoteFormat
from onlooker.models.extractive.clause import ROLES, is_call
from onlooker.models.extractive.page import Page, read_notes
from onlooker.models.extractive.quality import was_own
from onlooker.models.extractive.supersede import supersede
from onlooker.models.extractive.units import names_of, value_units
from onlooker.models.extractive.weighing import weigh_record, weigh_said

_IMPORTANT_WORTH = 3.0


def weighed(notes: Sequence[Note], format: NoteFormat) -> Page:
    """What the notes say, with the weight of each clause."""
    page = read_notes((note.text for note in notes), format)
    page.clauses = supersede(page.clauses)
    names = names_of({clause.speaker for clause in page.clauses if not is_call(clause.speaker)})
    wanted = frozenset(
        unit
        for clause in page.clauses
        for unit in value_units(clause.speaker if is_call(clause.speaker) else clause.text)
    )
    for clause in page.clauses:
        if is_call(clause.speaker):
            weigh_record(clause, wanted)
        else:
            role = clause.speaker if clause.speaker in ROLES else ""
            weigh_said(clause, names, own=was_own(clause.text), role=role)
        if clause.priority == "IMPORTANT":
            clause.quality *= _IMPORTANT_WORTH
    return page
