"""An answer keeps what it answers: "style of dance: contemporary", "pets: Oscar, guinea pig".

What people look for later is as often the question's word as the answer's, and the question itself is not
worth a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from onlooker.models.extractive.clause import Clause
from onlooker.models.extractive.lexicon import GENERIC_STEMS, TOPICLESS_STEMS
from onlooker.models.extractive.quality import is_courtesy
from onlooker.models.extractive.units import units, word_unit
from onlooker.policy.text import is_cjk

_WORD = re.compile(r"[\w'’-]+")
_JOINING = frozenset({"of", "for", "in", "at", "to", "and"})
_MOST_WORDS = 4
_TELLING = 0.5  # weight from which a unit says something
_FIRST_CLAUSES = 3  # an answer comes early in a reply, or not at all


def topic(question: str) -> str:
    """What a question is about: its longest run of words that say something, the last of equals."""
    if is_cjk(question):  # whose words cannot be told apart
        return ""
    best: list[str] = []
    run: list[str] = []
    for word in (*_WORD.findall(question), ""):
        if _says(word) or (run and word.lower() in _JOINING):
            run.append(word)
            continue
        run = _without_joining(run)
        best = max(run, best, key=lambda words: sum(map(_says, words)))
        run = []
    return " ".join(_without_joining(best[-_MOST_WORDS:]))


def _says(word: str) -> bool:
    unit = word_unit(word) if word else ""
    return bool(unit) and unit not in GENERIC_STEMS and unit not in TOPICLESS_STEMS


def _without_joining(words: list[str]) -> list[str]:
    while words and words[-1].lower() in _JOINING:
        words = words[:-1]
    while words and words[0].lower() in _JOINING:
        words = words[1:]
    return words


@dataclass(slots=True)
class Asked:
    """A question that waits for its answer, and what it is about."""

    question: Clause | None = None
    about: str = ""

    def topic_for(self, clause: str, place: int) -> str:
        """The question's topic, if the clause is the answer and does not name it."""
        said = units(clause)
        if not self.about or place >= _FIRST_CLAUSES or set(units(self.about)) & said.keys():
            self.about = ""
            return ""
        if is_courtesy(clause) or not any(weight >= _TELLING for weight in said.values()):
            return ""
        if self.question is not None:
            self.question.units = {}  # it says nothing any more that its answer does not
        about, self.about = self.about, ""
        return f"{about}: "
