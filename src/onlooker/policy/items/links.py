"""What an item leads to: what came before it, and what goes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from onlooker.domain.items import Item


def history(items: Sequence[Item], ident: str) -> list[Item]:
    """The item with everything that it replaced and everything that replaced it, oldest first."""
    by_id = {item.id: item for item in items}
    found = _reach(
        by_id, ident, lambda item: (*item.replaces, item.superseded_by, *_replaced_by(item, by_id))
    )
    return sorted(found, key=lambda i: (i.word_of, i.made_at, len(_before(by_id, i)), i.id))


def cascade(items: Sequence[Item], ident: str) -> list[Item]:
    """What is forgotten with an item: what it replaced, and what was made of any of these."""
    by_id = {item.id: item for item in items}
    made_of: dict[str, list[str]] = {}
    for item in items:
        for source in item.derived_from:
            made_of.setdefault(source, []).append(item.id)
    return _reach(by_id, ident, lambda item: (*item.replaces, *made_of.get(item.id, ())))


def _before(by_id: Mapping[str, Item], item: Item) -> list[Item]:
    """The item and what it replaced, however often."""
    return _reach(by_id, item.id, lambda i: i.replaces)


def _replaced_by(item: Item, by_id: Mapping[str, Item]) -> list[str]:
    """Items that say they were replaced by this one, where it does not say so itself."""
    return [other.id for other in by_id.values() if other.superseded_by == item.id]


def _reach(by_id: Mapping[str, Item], ident: str, links: Callable[[Item], Iterable[str]]) -> list[Item]:
    """The item, and whatever can be reached from it, each once."""
    found: dict[str, Item] = {}
    waiting = [ident]
    while waiting:
        item = by_id.get(waiting.pop(0))
        if item is not None and item.id not in found:
            found[item.id] = item
            waiting += links(item)
    return list(found.values())
