"""Untrusted text as HTML: escaped, with invisible characters made visible, long text cut, and the words that
a note quotes marked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup, escape

# How many characters of a message a page shows at first.
MAX_SHOWN = 4_000

# Characters that reverse other text or are invisible. Tab and newline stay.
_ODD = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_WORD = re.compile(r"\w+")
# This many words in a row are a quote.
RUN = 3


def visible(text: str) -> Markup:
    """Escape a text, with a sign in place of each character that is invisible or reverses others."""
    pieces: list[str] = []
    end = 0
    for found in _ODD.finditer(text):
        pieces.append(str(escape(text[end : found.start()])))
        if found[0] != "\r":
            pieces.append(_sign(found[0]))
        end = found.end()
    pieces.append(str(escape(text[end:])))
    return Markup("".join(pieces))


def _sign(character: str) -> str:
    name = unicodedata.name(character, "control character").lower()
    code = f"U+{ord(character):04X}"
    return f'<span class="odd" title="{escape(name)}">{code}</span>'


def cut(text: str, most: int = MAX_SHOWN) -> str:
    return text if len(text) <= most else text[:most]


def gist(note: str) -> str:
    """The beginning of a note in one line, without the headings of its days."""
    return cut(" ".join(line for line in note[:2_000].splitlines() if not line.startswith("#")), 220)


def size(characters: int) -> str:
    """Format a number of characters: "1.0 MB"."""
    if characters < 1_000:
        return f"{characters} characters"
    return f"{characters / 1_000:.0f} kB" if characters < 1_000_000 else f"{characters / 1_000_000:.1f} MB"


# ------------------------------------------------------------------------------------ marks


def words_of(lines: Iterable[str]) -> Mapping[tuple[str, ...], int]:
    """Every run of words in these lines, with the number of the first line that has it. Headings with a day
    are skipped."""
    runs: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(lines):
        if line.startswith("#"):
            continue
        words = [w[0].lower() for w in _WORD.finditer(line)]
        for start in range(len(words) - RUN + 1):
            runs.setdefault(tuple(words[start : start + RUN]), number)
    return runs


def marked(text: str, runs: Mapping[tuple[str, ...], int]) -> Markup:
    """Mark the words of a text that a line also has, with the number of the line."""
    found = list(_WORD.finditer(text))
    lines: list[int | None] = [None] * len(found)
    for start in range(len(found) - RUN + 1):
        line = runs.get(tuple(w[0].lower() for w in found[start : start + RUN]))
        if line is not None:
            for place in range(start, start + RUN):
                lines[place] = line if lines[place] is None else lines[place]
    return _joined(text, found, lines)


def _joined(text: str, words: Sequence[re.Match[str]], lines: Sequence[int | None]) -> Markup:
    pieces: list[Markup] = []
    end = place = 0
    while place < len(words):
        line = lines[place]
        if line is None:
            place += 1
            continue
        last = place
        while last + 1 < len(words) and lines[last + 1] == line:
            last += 1
        pieces.append(visible(text[end : words[place].start()]))
        quoted = visible(text[words[place].start() : words[last].end()])
        pieces.append(Markup('<mark data-line="{}">{}</mark>').format(line, quoted))
        end, place = words[last].end(), last + 1
    return Markup("").join([*pieces, visible(text[end:])])
