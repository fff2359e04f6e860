"""Which notes still stand when a host takes messages back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onlooker.domain.notes import LIVE, Note


@dataclass(frozen=True, slots=True)
class Rollback:
    """Notes to retire and to revive, and where the session then stands."""

    retire: tuple[str, ...]
    revive: tuple[str, ...]
    frontier: int
    watermark: int


def roll_back(notes: Sequence[Note], keep: int, floor: int) -> Rollback:
    """Undo every note that reaches beyond message `keep`.

    `notes` are all of the session's notes that are not retired. A reflection that reaches beyond
    gives way to those of its sources that do not, so that as little as possible is noted again.
    `floor` is the last message that a person cleared away with its notes: nothing before it is
    noted again.
    """
    by_id = {n.id: n for n in notes}
    live = [n for n in notes if n.status in LIVE]
    standing: dict[str, Note] = {}
    for note in live:
        for survivor in _survivors(note, keep, by_id):
            standing[survivor.id] = survivor
    retire = {n.id for n in _reaching_beyond(live, keep, by_id)}
    floor = min(floor, keep)
    in_order = sorted(standing.values(), key=lambda n: (n.first, n.last))
    return Rollback(
        retire=tuple(sorted(retire)),
        revive=tuple(n.id for n in in_order if n.status not in LIVE),
        frontier=max((floor, *(n.last for n in in_order))),
        watermark=max((floor, *(n.last for n in in_order if n.status != "buffered"))),
    )


def _survivors(note: Note, keep: int, by_id: dict[str, Note]) -> Iterable[Note]:
    """The note itself, or those of its sources that do not reach beyond `keep`."""
    if note.last <= keep:
        yield note
        return
    if note.generation:
        for source in note.sources:
            if source in by_id:
                yield from _survivors(by_id[source], keep, by_id)


def _reaching_beyond(live: Iterable[Note], keep: int, by_id: dict[str, Note]) -> Iterable[Note]:
    for note in live:
        if note.last > keep:
            yield note
            if note.generation:
                yield from _reaching_beyond((by_id[s] for s in note.sources if s in by_id), keep, by_id)
