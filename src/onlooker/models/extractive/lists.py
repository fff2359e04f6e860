"""Running lists per person: "Ana speaks of: cities: Oslo, Bergen; pets: cat Miso".

A question such as "which cities" is answered by words from many days. A list holds them in one place, for
two tokens each, where the lines that they come from would not all be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onlooker.models.extractive.clause import Clause, is_call
from onlooker.models.extractive.kinds import things_in
from onlooker.policy.tokens import estimate

_SPEAKS_OF = " speaks of"
_MOST_OF_A_KIND = 8
_FEWEST = 3  # things of a person: fewer say no more in a list than in their lines
_SHARE = 0.10  # of a reflection

# Things by speaker and kind, each with the place where it was last named.
_Things = dict[str, dict[str, dict[str, tuple[int, int]]]]


def is_list(clause: Clause) -> bool:
    return clause.speaker.endswith(_SPEAKS_OF)


def listed(clauses: Sequence[Clause], limit: int) -> list[Clause]:
    """The lists of everybody who speaks in these clauses, the lists among them carried on.

    Where all that was said still fits, none are begun.
    """
    if not any(map(is_list, clauses)) and sum(clause.cost for clause in clauses) <= limit:
        return []
    things = _gathered(clauses)
    kinds = [of_kind for of_person in things.values() for of_kind in of_person.values()]
    lists = list(_written(things))
    while sum(clause.cost for clause in lists) > limit * _SHARE:
        longest = max(kinds, key=len)
        del longest[min(longest, key=lambda thing: longest[thing])]
        lists = list(_written(things))
    return lists


def _gathered(clauses: Sequence[Clause]) -> _Things:
    things: _Things = {}
    lines: dict[int, str] = {}
    for clause in clauses:
        lines[clause.place[0]] = f"{lines.get(clause.place[0], '')} {clause.text}"
    for clause in clauses:
        for kind, thing in _named(clause, lines[clause.place[0]]):
            of_kind = things.setdefault(clause.speaker.removesuffix(_SPEAKS_OF), {}).setdefault(kind, {})
            of_kind[_known(of_kind, thing)] = clause.place
    return things


def _named(clause: Clause, line: str) -> Iterable[tuple[str, str]]:
    if is_list(clause):
        kind, _, names = clause.text.partition(": ")
        return [(kind, name) for name in names.split(", ")] if names else []
    # A call names what it was called with, and an assistant what everybody might like.
    if not clause.speaker or is_call(clause.speaker) or clause.speaker in ("assistant", "system"):
        return []
    return things_in(clause.text, line)


def _known(of_kind: dict[str, tuple[int, int]], thing: str) -> str:
    """The name under which a thing stands already, if only its capitals differ."""
    return next((name for name in of_kind if name.lower() == thing.lower()), thing)


def _written(things: _Things) -> Iterable[Clause]:
    for n, (person, kinds) in enumerate(things.items()):
        if sum(map(len, kinds.values())) < _FEWEST:
            continue
        for k, (kind, of_kind) in enumerate(kinds.items()):
            newest = sorted(of_kind, key=lambda thing: of_kind[thing])[-_MOST_OF_A_KIND:]
            text = f"{kind}: {', '.join(newest)}"
            if newest:  # before everything that has a day
                yield Clause(text, person + _SPEAKS_OF, "", (n - 1_000_000, k), cost=estimate(text) + 1)
