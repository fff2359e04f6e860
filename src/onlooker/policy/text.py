"""Sentences, clauses and scripts: how running text is cut without breaking what it says."""

from __future__ import annotations

import re

# Han, kana and hangul: scripts written without spaces between words, or counted by character.
CJK = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
CJK_CHARACTER = re.compile(f"[{CJK}]")

# An abbreviation, or the number of a list item.
_NO_END = re.compile(
    r"\b(?:Dr|Mr|Mrs|Ms|Prof|St|Jr|Sr|vs|approx|No|Nr|Fig|e\.g|i\.e|a\.m|p\.m|z\.B|ca|bzw|Sra?|Mme|M)\.$|(?:^|[.;:!?)]\s)\(?\d{1,2}\.$"
)
# A full stop ends a sentence only before something that can begin one.
_SENTENCE_END = re.compile(
    r"[.!?…]+[\"”’')\]]*(?=\s+[^\sa-zà-ÿ])|[。！？!?…]+[」』”’)）]*(?=\S)|[。！？]+|\n+"
)
_BULLET = re.compile(r"^\s*(?:[-*•·▪●]|\d{1,2}[.)、]|[#>]+)\s+")

_CLAUSE_BREAK = re.compile(
    r"""\s+[-–—]+\s+ | ;\s+ | …\s+ | ；
    | ,\s+(?=(?:and|but|so|which|because|since|while|though|although|plus|then)\s)
    | \s+(?=(?:and|but|so)\s+(?:i|we|he|she|they|it|my|you|it's|i'm|i've|we're|i'd|i'll)\b)
    | ,\s+(?=(?:i|we|he|she|they|it's|i'm|i've|it|we're|we've|i'd|i'll|my)\s)
    | (?<!\band)(?<!\bbut)(?<!\bso)\s+(?=(?:because|while|when|where|even\ though|so\ that|'?cause
        |after|before)\s+(?:i|we|he|she|they|it|my|it's|i'm|you|the)\b)""",
    re.I | re.X,
)
_CJK_BREAK = re.compile("[，；,;]")
# A clause that opens so says under what condition the next one holds: the two stay together.
_SUBORDINATE = re.compile(
    r"^(?:if|unless|until|when|whenever|once|since|after|before|while|as|although|though|because|even if)\b",
    re.I,
)
_MIN_WORDS = 4
_MIN_CJK = 8


def is_cjk(text: str) -> bool:
    """Whether at least a third of the letters are Han, kana or hangul."""
    letters = sum(1 for c in text if c.isalpha())
    return letters > 0 and 3 * len(CJK_CHARACTER.findall(text)) >= letters


def sentences(text: str) -> list[str]:
    """The sentences of a text, bullets taken off; a line break always ends one."""
    found: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if end[0].startswith(".") and _NO_END.search(text, max(start, end.start() - 8), end.start() + 1):
            continue
        found.append(text[start : end.end()])
        start = end.end()
    found.append(text[start:])
    trimmed = (_BULLET.sub("", part).strip() for part in found)
    return [part for part in trimmed if part]


def clauses(sentence: str) -> list[str]:
    """The clauses of a sentence that can be read alone; one with a condition stays with its condition."""
    if is_cjk(sentence):
        return _joined(sentence, _spans(sentence, _CJK_BREAK), cjk=True)
    if len(sentence.split()) <= 2 * _MIN_WORDS:
        return [sentence]
    return _joined(sentence, _spans(sentence, _CLAUSE_BREAK), cjk=False)


def _spans(sentence: str, breaks: re.Pattern[str]) -> list[tuple[int, int]]:
    """Start and end of each piece between two breaks that stand outside quotes and brackets."""
    spans: list[tuple[int, int]] = []
    start = 0
    for found in breaks.finditer(sentence):
        if not _is_inside(sentence[start : found.start()]):
            spans.append((start, found.start()))
            start = found.end()
    spans.append((start, len(sentence)))
    return [span for span in spans if span[0] < span[1]]


def _is_inside(part: str) -> bool:
    """Whether a quotation or bracket is still open at the end."""
    return (
        part.count('"') % 2 == 1
        or part.count("`") % 2 == 1
        or any(part.count(left) > part.count(right) for left, right in ("“”", "()", "「」", "（）"))
    )


def _joined(sentence: str, spans: list[tuple[int, int]], *, cjk: bool) -> list[str]:
    """Pieces too short to be read alone, and conditions, are left together with their neighbour."""
    least, size = (_MIN_CJK, len) if cjk else (_MIN_WORDS, _count_words)
    kept: list[tuple[int, int]] = []
    for start, end in spans:
        before = sentence[slice(*kept[-1])] if kept else ""
        if kept and (size(sentence[start:end]) < least or size(before) < least or _SUBORDINATE.match(before)):
            kept[-1] = (kept[-1][0], end)
        else:
            kept.append((start, end))
    return [sentence[start:end].strip() for start, end in kept]


def _count_words(text: str) -> int:
    return len(text.split())
