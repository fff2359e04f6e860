"""From messages to the clauses that an observation can be made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from onlooker.domain.messages import Message, ToolCall
from onlooker.models.extractive.clause import Clause
from onlooker.models.extractive.priority import priority
from onlooker.models.extractive.quality import LEANING, is_question, opens_question, quality
from onlooker.models.extractive.traffic import OUTCOME, TROUBLE, label, records_of, rest_of_call
from onlooker.models.extractive.units import names_of, units, value_units
from onlooker.models.extractive.wording import tighten, vocatives
from onlooker.policy.dates import annotate, obvious
from onlooker.policy.text import clauses as split_clauses
from onlooker.policy.text import sentences
from onlooker.policy.tokens import estimate
from onlooker.policy.values import mask

_LONGEST_TEXT = 24_000  # characters of one message that are looked through
_LONGEST_JSON = 200_000
_LONGEST_CLAUSE = 400
_CAPTION = re.compile(r"\s?\[(?:shares|shared|image|photo|picture)[: ]\s*([^\]]+)\]\s*$", re.I)
_CAPTION_OPENING = re.compile(
    r"^(?:an? )?(?:close[- ]up )?(?:photo(?:graphy|graph)?|picture|image|screenshot) of (?:an? )?", re.I
)
_CODE_BLOCK = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.S)
_MARKUP = re.compile(
    r"\*\*|__(?=\S)|(?<=\S)__|^#{1,6}\s+|^\s*[|>]\s*|\[([^\]\n\[]{1,200})\]\(https?[^)\s]{1,500}\)"
    r"|</?[a-z_]+>",
    re.M,
)
_SPACES = re.compile(r"[^\S\n]+")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
# "xxxxxxxx…", "word word word …": said once is said.
_STUTTER = re.compile(r"(\S{1,8}?|\b\S{1,20}\s)\1{9,}")
_LONG_PROMPT = 400  # characters
_PROMPT_CLAUSES = 2
_SYSTEM_WORTH = 0.15
_CAPTION_WORTH = 0.6


class Reader:
    """Reads messages in order, remembering what was asked and which keys have been shown."""

    def __init__(self, messages: Sequence[Message], told: str = "") -> None:
        self._messages = messages
        people = frozenset(m.name for m in messages if m.name and m.role != "tool")
        self._vocatives = vocatives(people)
        self._names = names_of(people)
        self._calls = {call.id: call for message in messages for call in _masked(message)}
        self._shown_keys: set[str] = set(re.findall(r"\b[a-z]+_\w+\b", told))
        self._asked_by = ""
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
            found.extend(clause for clause in self._of_message(message, i) if clause.units)
        return found

    def _of_message(self, message: Message, i: int) -> list[Clause]:
        if message.role == "tool":
            return self._results(message, i)
        said = [*self._said(message, i), *self._pictured(message, i)]
        if message.role == "system" and len(message.text) > _LONG_PROMPT:
            said = said[:_PROMPT_CLAUSES]  # the host sends it again with every call
        for clause in said:
            clause.units |= dict.fromkeys(value_units(clause.text), 1.5)
        self._asked_by = message.speaker if said and is_question(said[-1].text) else ""
        return [*said, *self._called(message, i)]

    # -- what people say

    def _said(self, message: Message, i: int) -> Iterable[Clause]:
        role = "" if message.name else message.role
        answers = bool(self._asked_by) and self._asked_by != message.speaker
        text = _CAPTION.sub("", plain(message.text))
        k = 0
        for sentence in sentences(text):
            parts = split_clauses(sentence)
            for n, part in enumerate(parts, 1):
                asks = is_question(sentence) and (n == len(parts) or opens_question(part))
                tight = tighten(bounded(part), self._vocatives)
                if len(tight) < 2:
                    continue
                tight += "?" if asks and not is_question(tight) else ""
                clause = self._clause(message, (i, k), tight)
                clause.quality = quality(clause.text, role=role, answers=answers and not asks)
                clause.quality *= _SYSTEM_WORTH if role == "system" else 1.0
                clause.priority = priority(tight, asks=asks, by_assistant=role in ("assistant", "system"))
                clause.leans = k > 0 and bool(LEANING.match(tight))
                yield clause
                k += 1

    def _pictured(self, message: Message, i: int) -> Iterable[Clause]:
        caption = _CAPTION.search(plain(message.text))
        shown = [tighten(_CAPTION_OPENING.sub("", caption[1]))] if caption else []
        texts = [f"[pic: {text}]" for text in shown] + list(message.attachments)
        for k, text in enumerate(texts, 1000):
            clause = self._clause(message, (i, k), text)
            clause.quality = _CAPTION_WORTH
            yield clause

    def _clause(self, message: Message, place: tuple[int, int], text: str) -> Clause:
        day = message.at.date().isoformat() if message.at else ""
        dated = annotate(text, message.at, but_not=obvious(message.at)) if message.at else text
        return Clause(
            text=dated,
            speaker=message.speaker,
            day=day,
            place=place,
            units=units(text, self._names),
            cost=estimate(dated) + 1,
            date_cost=estimate(dated) - estimate(text) if dated != text else 0,
        )

    # -- what tools are asked and answer

    def _called(self, message: Message, i: int) -> Iterable[Clause]:
        """Calls whose arguments say more than the label of their result can."""
        answered = {m.answers for m in self._messages if m.role == "tool"}
        for k, call in enumerate(_masked(message)):
            records = rest_of_call(call)
            if call.id not in answered and not records:
                records = ["called"]
            for n, record in enumerate(records[:20]):
                yield self._record(message, (i, 2000 + 100 * k + n), label(call), record, worth=1.2)

    def _results(self, message: Message, i: int) -> list[Clause]:
        call = self._calls.get(message.answers)
        speaker = label(call) if call else f"{message.name or 'tool'}()"
        records = records_of(self._result_text(message), self._shown_keys)
        found: list[Clause] = []
        for k, record in enumerate(records):
            worth = 1.4 if TROUBLE.search(record) else 1.1 if OUTCOME.search(record) else 1.0
            found.append(self._record(message, (i, k), speaker, record, worth=worth))
        return found or [self._record(message, (i, 0), speaker, "done", worth=0.5)]

    def _result_text(self, message: Message) -> str:
        """Whole where it is JSON of a bearable size, since half an object cannot be read."""
        most = _LONGEST_JSON if message.text.lstrip()[:1] in ("{", "[") else _LONGEST_TEXT
        return mask(_UNPRINTABLE.sub("", bounded(message.text, most)))

    def _record(
        self, message: Message, place: tuple[int, int], speaker: str, text: str, *, worth: float
    ) -> Clause:
        day = message.at.date().isoformat() if message.at else ""
        weights = {unit: 2.2 if unit in self._wanted else 1.0 for unit in value_units(text)}
        for unit in value_units(speaker):
            weights.setdefault(unit, 1.0)
        if not weights or TROUBLE.search(text):
            weights |= {unit: weight * 0.4 for unit, weight in units(text).items()}
        return Clause(
            text=text,
            speaker=speaker,
            day=day,
            place=place,
            quality=worth,
            units=weights,
            cost=estimate(text) + 1,
        )


def _masked(message: Message) -> list[ToolCall]:
    return [
        replace(call, arguments=_UNPRINTABLE.sub("", mask(bounded(call.arguments, _LONGEST_JSON))))
        for call in message.calls
    ]


def plain(text: str) -> str:
    """A message as running text: secrets masked, markup gone, code reduced to its first lines."""
    text = _SPACES.sub(" ", mask(_UNPRINTABLE.sub("", bounded(text, _LONGEST_TEXT))))
    text = _STUTTER.sub(r"\1…", text)
    text = _CODE_BLOCK.sub(lambda block: "\n".join(block[1].splitlines()[:3]) + "\n", text)
    return _MARKUP.sub(lambda found: found[1] or "", text)


def bounded(text: str, most: int = _LONGEST_CLAUSE) -> str:
    """Both ends of a text that is too long, cut between words where there are any."""
    if len(text) <= most:
        return text
    head, tail = text[: most * 3 // 4], text[-most // 4 :]
    if " " in head[-80:]:
        head = head[: head.rfind(" ")]
    if " " in tail[:80]:
        tail = tail[tail.find(" ") :]
    return f"{head} … {tail.strip()}"
