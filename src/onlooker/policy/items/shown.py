"""The items that stand in a session's prompt, and how."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from onlooker.domain.items import Item
from onlooker.domain.messages import DEFAULT_OWNER
from onlooker.policy.settings import Settings

_MOST_NAME = 60
_DATED = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b|\b\d{4}-W\d\d\b")


def remembers(settings: Settings, owner: str) -> bool:
    """Whether sessions of this owner share what they know. Those that were opened without an owner may be
    anybody's, so that by default they do not."""
    if not settings.enabled or not settings.cross_session_limit or settings.cross_session == "off":
        return False
    return settings.cross_session == "all" or owner != DEFAULT_OWNER


def heading(owner: str) -> str:
    """The heading of the items; an owner's name cannot be more than a name in it."""
    name = re.sub(r"[\s#]+", " ", owner).strip()[:_MOST_NAME] or DEFAULT_OWNER
    return f"### About {'the user' if owner == DEFAULT_OWNER else name}"


def line_of(item: Item) -> str:
    """The item as it stands in a prompt: one line, with the day since when it holds."""
    summary = re.sub(r"\s+", " ", item.summary).strip()
    day = item.valid_from
    if day is None or (_DATED.search(summary) and not item.replaces):
        return f"- {summary}"
    return f"- {summary} ({'since ' if item.replaces else ''}{day:%Y-%m-%d})"


def about(owner: str, items: Sequence[Item], most: int, count: Callable[[str], int]) -> str:
    """The section: as many of the items, in their order, as the tokens allow; empty where none does."""
    lines: list[str] = []
    left = most - count(heading(owner)) - 1
    for item in items:
        line = line_of(item)
        cost = count(line) + 1
        if cost <= left:
            lines.append(line)
            left -= cost
    return "\n".join([heading(owner), *lines]) if lines else ""
