"""What is left of a memory when messages are forgotten: which notes and items go, and which are made
again from what remains."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from onlooker.domain.items import Item
from onlooker.domain.messages import Message
from onlooker.domain.notes import LIVE, Note
from onlooker.policy.searching.words import tokens
from onlooker.policy.values import find_values, holds

# An item that names no source is taken for one of a forgotten message when so much of it was said there.
MOST_SAID = 0.8


@dataclass(frozen=True, slots=True)
class Remaking:
    """`delete` are notes that nothing is left for, or that nothing leads to any more. `remake` are notes to
    be written again, those first that others are made from, each with the sources that are left."""

    delete: tuple[str, ...]
    remake: tuple[Note, ...]


def told_by(note: Note, notes: Mapping[str, Note], gone: Collection[str], seqs: Collection[int]) -> bool:
    """Whether a note was made from any of the messages that go, through any number of generations."""
    if not note.generation:
        return any(source in gone for source in note.sources)
    if lacks_sources(note, notes) and any(note.first <= seq <= note.last for seq in seqs):
        return True  # its range still says what it stands for
    return any(told_by(notes[s], notes, gone, seqs) for s in note.sources if s in notes)


def lacks_sources(note: Note, notes: Mapping[str, Note]) -> bool:
    """Whether notes that a reflection was made from were purged."""
    return note.generation > 0 and any(source not in notes for source in note.sources)


def above(notes: Mapping[str, Note], touched: Collection[str]) -> set[str]:
    """Everything that was made from any of these notes, through any number of generations."""
    found = set(touched)
    while more := {n.id for n in notes.values() if n.generation and found & set(n.sources)} - found:
        found |= more
    return found


def remaking(
    notes: Mapping[str, Note],
    touched: Collection[str],
    left: Collection[str],
    by_range: Collection[str] = (),
) -> Remaking:
    """What becomes of the `touched` notes when of the messages they stand for only `left` are there.

    `by_range` are reflections that lack sources and have messages left in their range.
    """
    reached = _reached(notes)
    delete = {ident for ident in touched if ident not in reached}
    remake: list[Note] = []
    for note in sorted((notes[i] for i in touched if i in reached), key=lambda n: (n.generation, n.first)):
        if note.generation:
            sources = tuple(s for s in note.sources if s not in delete)
        else:
            sources = tuple(s for s in note.sources if s in left)
        stands = any(s in notes for s in sources) if note.generation else bool(sources)
        if stands or note.id in by_range:
            remake.append(replace(note, sources=sources))
        else:
            delete.add(note.id)
    return Remaking(tuple(sorted(delete)), tuple(remake))


def _reached(notes: Mapping[str, Note]) -> set[str]:
    """Live notes, and everything that they were made from."""
    reached: set[str] = set()
    layer = [n for n in notes.values() if n.status in LIVE]
    while layer:
        reached |= {n.id for n in layer}
        layer = [
            notes[s] for n in layer if n.generation for s in n.sources if s in notes and s not in reached
        ]
    return reached


def exact_values(text: str) -> frozenset[str]:
    """The values in a text that are found again to the letter."""
    return frozenset(value.text for value in find_values(text))


def tells_more(note: Note, values: Collection[str], own: Iterable[Message]) -> bool:
    """Whether a note holds any of these values, which are said in what is forgotten, though its own
    messages do not. A model is shown the notes before, and may have taken it from there."""
    shared = [value for value in values if holds(note.text, value)]
    if not shared:
        return False
    said = "\n".join(text_of(m) for m in own)
    return any(not holds(said, value) for value in shared)


def tells_of(text: str, values: Collection[str], notes: Iterable[str]) -> bool:
    """Whether a summary tells of what is forgotten: it holds the text of a note that was made from it, or a
    value that was said there."""
    return any(note.strip() and note.strip() in text for note in notes) or any(
        holds(text, value) for value in values
    )


def text_of(message: Message) -> str:
    """Everything that a message says."""
    parts = (message.body, message.name, *(text for c in message.calls for text in (c.name, c.arguments)))
    return "\n".join(part for part in parts if part)


# ------------------------------------------------------------------------------------ items


def items_to_go(
    items: Sequence[Item],
    *,
    session: str,
    touched: Collection[str],
    gone: Collection[str],
    forgotten: str,
    remaining: str,
) -> tuple[str, ...]:
    """The items of a session that come from what is forgotten, and those made of them.

    One whose every word is still said in `remaining`, the notes and messages that stay, holds without it.
    """
    sources = {*touched, *gone}
    words, kept = set(tokens(forgotten)), set(tokens(remaining))
    going: set[str] = set()
    for item in items:
        if item.session != session:
            continue
        told = set(tokens(item.summary))
        if item.sources:
            comes_from = bool(sources & set(item.sources)) and not told <= kept
        else:
            comes_from = bool(told) and len(told & words) >= MOST_SAID * len(told)
        if comes_from:
            going.add(item.id)
    return tuple(sorted(_with_derived(items, going)))


def _with_derived(items: Sequence[Item], going: set[str]) -> set[str]:
    while more := {i.id for i in items if going & set(i.derived_from)} - going:
        going = going | more
    return going
