"""From messages to the clauses that an observation can be made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice

from onlooker.domain.messages import Message
from onlooker.models.extractive.answers import Asked, topic
from onlooker.models.extractive.clause import Clause
from onlooker.models.extractive.exchanges import Exchanges, Said
from onlooker.models.extractive.output import bounded
from onlooker.models.extractive.priority import priority
from onlooker.models.extractive.quality import RESOLVED, is_courtesy, is_own, is_question, opens_question
from onlooker.models.extractive.units import GENERAL, names_of, value_units
from onlooker.models.extractive.weighing import weigh_record, weigh_said
from onlooker.models.extractive.wording import begun, tighten, vocatives
from onlooker.policy.dates import annotate, obvious
from onlooker.policy.text import clauses as split_clauses
from onlooker.policy.text import sentences
from onlooker.policy.values import mask

_LONGEST_TEXT = 24_000  # characters of one message that are looked through
_LONGEST_CLAUSE = 400
_CAPTION = re.compile(r"\s?\[(?:shares|shared|image|photo|picture)[: ]\s*([^\]]+)\]\s*$", re.I)
_CAPTION_OPENING = re.compile(
    r"^(?:an? )?(?:close[- ]up )?(?:photo(?:graphy|graph)?|picture|image|screenshot) of (?:an? )?", re.I
)
_CODE_BLOCK = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.S)
_MARKUP = re.compile(
    r"\*\*|(?<!\w)__(?=\S)|(?<=\S)__(?!\w)|^#{1,6}\s+|^\s*[|>]\s*|^\s*</?[A-Za-z_]+>\s*$"
    r"|\[([^\]\n\[]{1,200})\]\(https?[^)\s]{1,500}\)|</?[a-z_]+>",
    re.M,
)
# A clause without a letter, or a number that is more than a bullet, says nothing.
_SAYS = re.compile(r"[^\W\d_]|\d{2}")
_SPACES = re.compile(r"[^\S\n]+")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
# "xxxxxxxx…", "word word word …": said once is said.
_STUTTER = re.compile(r"(\S{1,8}?|\b\S{1,20}\s)\1{9,}")
_LONG_PROMPT = 400  # characters
_PROMPT_CLAUSES = 2
_LONGEST_WORD = 100
_SYSTEM_WORTH = 0.15
_SHORTEST = 2  # characters of a clause


class Reader:
    """Reads messages in order, remembering what was asked and which keys have been shown."""

    def __init__(self, messages: Sequence[Message], told: str = "") -> None:
        self._messages = messages
        people = frozenset(m.name for m in messages if m.name and m.role != "tool")
        self._vocatives = vocatives(people)
        self._names = names_of(people)
        self._exchanges = Exchanges(messages, told)
        self._asked = Asked()
        # What people and arguments name will be wanted again.
        self._wanted = frozenset(
            unit
            for m in messages
            if m.role in ("user", "assistant")
            for text in (m.text[:_LONGEST_TEXT], *(call.arguments[:_LONGEST_TEXT] for call in m.calls))
            for unit in value_units(text)
        )

    def clauses(self) -> list[Clause]:
        """Everything that could stand in the note, in order."""
        found: list[Clause] = []
        for i, message in enumerate(self._messages):
            found.extend(self._of_message(message, i))
        found = [clause for clause in found if clause.units]
        # Praise and politeness are left out even where there is room for them.
        return [c for c in found if max(c.units.values()) > GENERAL and not is_courtesy(c.text)] or found

    def _of_message(self, message: Message, i: int) -> list[Clause]:
        if message.role == "tool":
            return self._results(message, i)
        text = plain(message.text)
        found = chain(self._said(message, i, text), self._pictured(message, i, text))
        # A long prompt the host sends again with every call.
        long = message.role == "system" and len(message.text) > _LONG_PROMPT
        said = list(islice(found, _PROMPT_CLAUSES) if long else found)
        asks = bool(said) and is_question(said[-1].text)
        self._asked = Asked(said[-1], topic(RESOLVED.sub("", said[-1].text))) if asks else Asked()
        return [*said, *self._called(message, i)]

    # -- what people say

    def _said(self, message: Message, i: int, text: str) -> Iterable[Clause]:
        role = "" if message.name else message.role
        asked = self._asked.question
        answers = asked is not None and asked.speaker != message.speaker
        k = 0
        for sentence in sentences(_CAPTION.sub("", text)):
            parts = split_clauses(sentence)
            for n, part in enumerate(parts, 1):
                asks = is_question(sentence) and (n == len(parts) or opens_question(part))
                tight = tighten(bounded(part, _LONGEST_CLAUSE), self._vocatives)
                if len(tight) < _SHORTEST or not _SAYS.search(tight):
                    continue
                about = self._asked.topic_for(tight, k) if answers and not asks else ""
                tight = about + tight if about else begun(tight, part)
                clause = self._clause(
                    message, (i, k), tight + ("?" if asks and not is_question(tight) else "")
                )
                weigh_said(clause, self._names, own=is_own(part), role=role, answers=answers and not asks)
                clause.quality *= _SYSTEM_WORTH if role == "system" else 1.0
                clause.priority = priority(tight, asks=asks, by_host=role in ("assistant", "system"))
                yield clause
                k += 1

    def _pictured(self, message: Message, i: int, text: str) -> Iterable[Clause]:
        caption = _CAPTION.search(text)
        shown = [f"[pic: {tighten(_CAPTION_OPENING.sub('', caption[1]))}]"] if caption else []
        for k, shown_text in enumerate([*shown, *message.attachments], 1000):
            clause = self._clause(message, (i, k), shown_text)
            weigh_said(clause, self._names, own=False, role="")
            yield clause

    def _clause(self, message: Message, place: tuple[int, int], text: str) -> Clause:
        if message.at is None:
            return Clause(text, message.speaker, "", place)
        dated = annotate(text, message.at, but_not=obvious(message.at))
        return Clause(dated, message.speaker, message.at.date().isoformat(), place)

    # -- what tools are asked and answer

    def _called(self, message: Message, i: int) -> Iterable[Clause]:
        for k, said in enumerate(self._exchanges.of_calls(message), 2000):
            yield self._record(message, (i, k), said)

    def _results(self, message: Message, i: int) -> list[Clause]:
        records = self._exchanges.of_result(message)
        return [self._record(message, (i, k), said) for k, said in enumerate(records)]

    def _record(self, message: Message, place: tuple[int, int], said: Said) -> Clause:
        day = message.at.date().isoformat() if message.at else ""
        clause = Clause(said.text, said.speaker, day, place)
        weigh_record(clause, self._wanted)
        return clause


def plain(text: str) -> str:
    """A message as running text: secrets masked, markup gone, code reduced to its first lines."""
    text = _SPACES.sub(" ", mask(_UNPRINTABLE.sub("", bounded(text, _LONGEST_TEXT))))
    words = text.split()
    if 3 * len(set(words)) < len(words) or any(len(word) > _LONGEST_WORD for word in words):
        text = _STUTTER.sub(r"\1…", text)
    text = _CODE_BLOCK.sub(lambda block: "\n".join(block[1].splitlines()[:3]) + "\n", text)
    return _MARKUP.sub(lambda found: found[1] or "", text)
