"""The weight of a clause, found in the same way when it is first read and when a note is read again."""

from __future__ import annotations

from onlooker.models.extractive.clause import Clause
from onlooker.models.extractive.quality import RESOLVED, TIME, alone, quality
from onlooker.models.extractive.traffic import OUTCOME, TROUBLE, changes_something
from onlooker.models.extractive.units import units, value_units
from onlooker.policy.tokens import estimate
from onlooker.policy.values import find_values

_WHEN = 1.8  # of saying when
_VALUE = 1.5  # of an exact value in what people say
_WANTED, _UNASKED = 2.2, 1.0  # of one in a tool's answer that people or calls name too, and that nobody does
_DEED = 2.5  # of a call that changed something, once
_WORD_OF_RECORD = 0.4
_CAPTION_WORTH = 0.4
_CAPTION = "[pic: "
_MEASURE_ALONE = 0.5
_MEASURES = frozenset({"number", "time", "date", "money"})


def weigh_said(clause: Clause, names: frozenset[str], *, own: bool, role: str, answers: bool = False) -> None:
    """Weigh what somebody said, `own` if of themselves. `role` is theirs where they have no name."""
    said = RESOLVED.sub("", clause.text)
    clause.cost = estimate(clause.text) + 1
    clause.date_cost = clause.cost - estimate(said) - 1
    clause.units = units(said, names) | dict.fromkeys(value_units(said), _VALUE)
    clause.units |= {f"@{when.lower()}": _WHEN for when in TIME.findall(said)}
    clause.quality = quality(clause.text, own=own, role=role, answers=answers)
    clause.alone = alone(said) if clause.place[1] > 0 else 1.0
    if clause.text.startswith(_CAPTION):
        clause.quality = _CAPTION_WORTH


def weigh_record(clause: Clause, wanted: frozenset[str]) -> None:
    """Weigh a part of what a tool answered. `wanted` are the values that people and calls name."""
    clause.cost = estimate(clause.text) + 1
    clause.units = {unit: _WANTED if unit in wanted else _UNASKED for unit in value_units(clause.text)}
    for unit in value_units(clause.speaker):
        clause.units.setdefault(unit, _UNASKED)
    if changes_something(clause.speaker):
        clause.units["#" + clause.speaker] = _DEED
    trouble = TROUBLE.search(clause.text)
    if not clause.units or trouble:
        clause.units |= {unit: weight * _WORD_OF_RECORD for unit, weight in units(clause.text).items()}
    clause.quality = 1.4 if trouble else 1.1 if OUTCOME.search(clause.text) else 1.0
    # A price or a time says nothing without what stands before it.
    if clause.place[1] > 0 and all(value.kind in _MEASURES for value in find_values(clause.text)):
        clause.alone = _MEASURE_ALONE
