"""The part of a text that speaks of what was asked for."""

from __future__ import annotations

import re
from collections.abc import Collection

from onlooker.policy.searching.words import tokens

ELLIPSIS = "…"
MOST_SNIPPET = 240
_WORD = re.compile(r"\S+")


def snippet(
    text: str, terms: Collection[str], *, most: int = MOST_SNIPPET, marks: tuple[str, str] = ("", "")
) -> str:
    """At most `most` characters where the terms stand closest, each found word between the marks.

    >>> snippet("We moved to Oslo", {"oslo"}, marks=("[", "]"))
    'We moved to [Oslo]'
    """
    if len(text) <= most and marks == ("", ""):
        return text
    spans = [m.span() for m in _WORD.finditer(text) if not set(tokens(m[0])).isdisjoint(terms)]
    start, end = _window(text, spans, most)
    parts: list[str] = []
    at = start
    for left, right in spans if marks != ("", "") else ():
        if start <= left and right <= end:
            parts += [text[at:left], marks[0], text[left:right], marks[1]]
            at = right
    shown = "".join([*parts, text[at:end]]).strip()
    return (ELLIPSIS if start else "") + shown + (ELLIPSIS if end < len(text) else "")


def _window(text: str, spans: list[tuple[int, int]], most: int) -> tuple[int, int]:
    if len(text) <= most:
        return 0, len(text)
    if not spans:
        return 0, _at_a_space(text, most)
    # The window that begins at a found word and holds the most of them, with a little before it.
    first = max(
        spans, key=lambda s: (sum(s[0] <= left and right <= s[0] + most for left, right in spans), -s[0])
    )
    start = max(0, min(first[0] - most // 5, len(text) - most))
    if start:
        start = text.find(" ", start, first[0]) + 1 or start
    return start, _at_a_space(text, start + most)


def _at_a_space(text: str, end: int) -> int:
    if end >= len(text):
        return len(text)
    return text.rfind(" ", end - 40, end) if " " in text[end - 40 : end] else end
