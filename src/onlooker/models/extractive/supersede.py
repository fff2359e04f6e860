"""A later statement wins over an earlier one, and says what it was: "budget 45k (was 42k)"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from onlooker.models.extractive.clause import Clause, is_call

_VALUE = re.compile(r"(?<![A-Za-z0-9_])(?:[$€£¥]?\d[\d.,:/]*\d[\w%]*|[$€£¥]?\d[\w%]*)")
_WAS = re.compile(r" \(was [^()]*\)")
_DATE = re.compile(r" ?\(\d{4}[^()]*\)|\b\d{4}-\d\d-\d\d\b")
# What something is, rather than what somebody did: two runs of 5 and 8 km are two runs.
_STATE = re.compile(
    r"[=:]|\b(?:is|are|now|budget|price|cost|deadline|due|total|threshold|weight|weighs?|version|count"
    r"|score|rate"
    r"|limit|target|size|balance|salary|rent|port|timeout|quota|status|p\d\d)\b|现在|预算|价格|截止"
    r"|目标|阈值|予算|価格|예산|가격",
    re.I,
)
# A tool lists many things of one kind under one call; only these say how the one thing asked about stands.
_STATE_OF_RECORD = re.compile(r"\b(?:status|state|total|balance)\b", re.I)
_SHORTEST_TEMPLATE = 5


def supersede(clauses: Sequence[Clause]) -> list[Clause]:
    """The clauses without those that a later one of the same speaker says anew with other values."""
    newest: dict[tuple[str, str], Clause] = {}
    gone: set[tuple[int, int]] = set()
    for clause in clauses:
        key = (clause.speaker, _template(clause.text))
        if clause.priority == "CRITICAL" or len(key[1]) < _SHORTEST_TEMPLATE or not _is_state(clause):
            continue
        before = newest.get(key)
        if before is None or _is_list(before, clause):
            pass
        elif was := _changed(before.text, clause.text):
            gone.add(before.place)
            clause.text = f"{_WAS.sub('', clause.text)} (was {was})"
        newest[key] = clause
    return [clause for clause in clauses if clause.place not in gone]


def _is_list(before: Clause, clause: Clause) -> bool:
    """An assistant that says two values in one breath offers two things."""
    return clause.speaker == "assistant" and clause.place[0] - before.place[0] <= 1


def _is_state(clause: Clause) -> bool:
    if is_call(clause.speaker):  # a call and what it was about
        return not clause.speaker.endswith("()") and bool(_STATE_OF_RECORD.search(clause.text))
    return bool(_STATE.search(clause.text))


def _template(text: str) -> str:
    """The wording around the values; empty where there are none."""
    bare = _DATE.sub("", _WAS.sub("", text)).lower()
    template = _VALUE.sub("#", bare)
    return template if template != bare else ""


def _changed(before: str, after: str) -> str:
    """The values that were before and are not any more."""
    old = _VALUE.findall(_DATE.sub("", _WAS.sub("", before)))
    new = _VALUE.findall(_DATE.sub("", _WAS.sub("", after)))
    return ", ".join(value for value, now in zip(old, new, strict=False) if value != now)
