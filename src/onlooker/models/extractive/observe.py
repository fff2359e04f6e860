"""From messages to the clauses that an observation can be made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from onlooker.domain.messages import Message, ToolCall
from onlooker.models.extractive.answers import is_elliptic, topic
from onlooker.models.extractive.clause import Clause
from onlooker.models.extractive.priority import priority
from onlooker.models.extractive.quality import is_question, opens_question
from onlooker.models.extractive.traffic import label, records_of, rest_of_call
from onlooker.models.extractive.units import GENERAL, names_of, value_units
from onlooker.models.extractive.weighing import weigh_record, weigh_said
from onlooker.models.extractive.wording import tighten, vocatives
from onlooker.policy.dates import annotate, obvious
from onlooker.policy.text import clauses as split_clauses
from onlooker.policy.text import sentences
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
_MOST_ARGUMENTS = 20


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
        self._topic = ""
        self._question = Clause("", "", "", (0, 0))
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
        return [clause for clause in found if max(clause.units.values()) > GENERAL] or found

    def _of_message(self, message: Message, i: int) -> list[Clause]:
        if message.role == "tool":
            return self._results(message, i)
        text = plain(message.text)
        said = [*self._said(message, i, text), *self._pictured(message, i, text)]
        if message.role == "system" and len(message.text) > _LONG_PROMPT:
            said = said[:_PROMPT_CLAUSES]  # the host sends it again with every call
        self._asked_by = message.speaker if said and is_question(said[-1].text) else ""
        self._topic = topic(said[-1].text) if self._asked_by else ""
        self._question = said[-1] if self._topic else self._question
        return [*said, *self._called(message, i)]

    # -- what people say

    def _said(self, message: Message, i: int, text: str) -> Iterable[Clause]:
        role = "" if message.name else message.role
        answers = bool(self._asked_by) and self._asked_by != message.speaker
        k = 0
        for sentence in sentences(_CAPTION.sub("", text)):
            parts = split_clauses(sentence)
            for n, part in enumerate(parts, 1):
                asks = is_question(sentence) and (n == len(parts) or opens_question(part))
                tight = tighten(bounded(part), self._vocatives)
                if len(tight) < _SHORTEST or not _SAYS.search(tight):
                    continue
                if answers and not asks and k == 0 and self._topic and is_elliptic(tight):
                    tight = f"{self._topic}: {tight}"
                    self._question.units = {}  # answered
                clause = self._clause(
                    message, (i, k), tight + ("?" if asks and not is_question(tight) else "")
                )
                weigh_said(clause, self._names, role=role, answers=answers and not asks)
                clause.quality *= _SYSTEM_WORTH if role == "system" else 1.0
                clause.priority = priority(tight, asks=asks, by_host=role in ("assistant", "system"))
                yield clause
                k += 1

    def _pictured(self, message: Message, i: int, text: str) -> Iterable[Clause]:
        caption = _CAPTION.search(text)
        shown = [f"[pic: {tighten(_CAPTION_OPENING.sub('', caption[1]))}]"] if caption else []
        for k, shown_text in enumerate([*shown, *message.attachments], 1000):
            clause = self._clause(message, (i, k), shown_text)
            weigh_said(clause, self._names, role="")
            yield clause

    def _clause(self, message: Message, place: tuple[int, int], text: str) -> Clause:
        if message.at is None:
            return Clause(text, message.speaker, "", place)
        dated = annotate(text, message.at, but_not=obvious(message.at))
        return Clause(dated, message.speaker, message.at.date().isoformat(), place)

    # -- what tools are asked and answer

    def _called(self, message: Message, i: int) -> Iterable[Clause]:
        """Calls whose arguments say more than the label of their result can."""
        answered = {m.answers for m in self._messages if m.role == "tool"}
        for k, call in enumerate(_masked(message)):
            records = rest_of_call(call)[:_MOST_ARGUMENTS]
            if call.id not in answered and not records:
                records = ["called"]
            for n, record in enumerate(records):
                yield self._record(message, (i, 2000 + 100 * k + n), label(call), record)

    def _results(self, message: Message, i: int) -> list[Clause]:
        call = self._calls.get(message.answers)
        speaker = label(call) if call else f"{message.name or 'tool'}()"
        # Whole where it is JSON of a bearable size, since half an object cannot be read.
        most = _LONGEST_JSON if message.text.lstrip()[:1] in ("{", "[") else _LONGEST_TEXT
        text = mask(_UNPRINTABLE.sub("", bounded(message.text, most)))
        records = records_of(text, self._shown_keys) or ["done"]
        return [self._record(message, (i, k), speaker, record) for k, record in enumerate(records)]

    def _record(self, message: Message, place: tuple[int, int], speaker: str, text: str) -> Clause:
        day = message.at.date().isoformat() if message.at else ""
        clause = Clause(text, speaker, day, place)
        weigh_record(clause, self._wanted)
        return clause


def _masked(message: Message) -> list[ToolCall]:
    return [
        replace(call, arguments=_UNPRINTABLE.sub("", mask(bounded(call.arguments, _LONGEST_JSON))))
        for call in message.calls
    ]


def plain(text: str) -> str:
    """A message as running text: secrets masked, markup gone, code reduced to its first lines."""
    text = _SPACES.sub(" ", mask(_UNPRINTABLE.sub("", bounded(text, _LONGEST_TEXT))))
    words = text.split()
    if 3 * len(set(words)) < len(words) or any(len(word) > _LONGEST_WORD for word in words):
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
