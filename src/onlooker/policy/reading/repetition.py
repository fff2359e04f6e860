"""A text that repeats itself, or repeats another.

Both are measured by windows: runs of a few words (characters, where a script has no spaces). Every
window is looked at once, so the time grows with the text and not with its square.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from onlooker.policy.reading.notetext import Line

WINDOW = 8
_UNIT = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0e7f]|[^\W_]+")
# A short run of letters, over and over: "hahahaha…". Rules, dots and zeros are not meant.
_STUTTER = re.compile(r"([^\W\d_]{1,8}?|(?:[^\W\d_]{1,12}[ ,.!\n]{1,2}){1,2}?)\1{15,}")

_MIN_UNITS = 40  # below this a repetition is a manner of speaking
_REPEATED_SHARE = 0.4
_REPEATED_RUN = 80
_SAME_LINES = 4
_ECHO_UNITS = 60
# A short note of a short source may well say the same, and a reflection may keep most of its lines: a
# copy is literal, and far longer than what was asked for.
_COPY_SHARE = 0.85
_COPY_SOURCE = 150
_COPY_AT_LEAST = 0.6
_COPY_AT_MOST = 0.95
_BEYOND_TARGET = 1.5
_PROMPT_SHARE = 0.3


def units(text: str) -> list[str]:
    """The words of a text, or its characters where words are not divided."""
    return _UNIT.findall(text.lower())


def degenerate(text: str, lines: Sequence[Line]) -> str:
    """How the text repeats itself, or ""."""
    if match := _STUTTER.search(text):
        return f"repeats {match[1].strip()[:24]!r}"
    if repeated := _repeated_line(lines):
        return f"repeats the line {repeated[:60]!r}"
    words = units(text)
    if len(words) < _MIN_UNITS:
        return ""
    seen: set[tuple[str, ...]] = set()
    again = run = longest = 0
    for window in windows(words):
        run = run + 1 if window in seen else 0
        again += run > 0
        longest = max(longest, run)
        seen.add(window)
    share = again / (len(words) - WINDOW + 1)
    if share > _REPEATED_SHARE or (longest > _REPEATED_RUN and share > _REPEATED_SHARE / 2):
        return f"{share:.0%} of it is said before in it"
    return ""


def copies(text: str, source: str, asked: float) -> bool:
    """Whether the text is the source over again, where a note of the `asked` share of it was wanted."""
    words, original = units(text), units(source)
    length = max(_COPY_AT_LEAST, min(_COPY_AT_MOST, _BEYOND_TARGET * asked))
    if len(original) < _COPY_SOURCE or len(words) < length * len(original):
        return False
    return shared(words, set(windows(original))) > _COPY_SHARE


def repeats_prompt(text: str, prompt: str) -> bool:
    """Whether a good part of the text is what the model was told."""
    words = units(text)
    if len(words) < WINDOW or not prompt:
        return False
    share = shared(words, set(windows(units(prompt))))
    return share > _PROMPT_SHARE or share * len(words) > _ECHO_UNITS


def shared(words: Sequence[str], known: Collection[tuple[str, ...]]) -> float:
    """The share of the windows that are among the known ones."""
    own = windows(words)
    return sum(window in known for window in own) / max(1, len(own))


def windows(words: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(*(words[i:] for i in range(WINDOW)), strict=False))


def _repeated_line(lines: Sequence[Line]) -> str:
    counts = Counter(line.text.casefold() for line in lines)
    if not counts:
        return ""
    text, times = counts.most_common(1)[0]
    return text if times >= _SAME_LINES and times > 0.3 * len(lines) else ""
