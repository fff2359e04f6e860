"""From a request to its note."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice

from onlooker.domain.messages import Message
from onlooker.domain.notes import Note, NoteFormat
from onlooker.models.extractive.clauses import (
    GENERAL,
    RESOLVED,
    ROLES,
    Clause,
    is_call,
    is_courtesy,
    is_own,
    is_question,
    names_of,
    opens_question,
    priority,
    units,
    value_units,
    was_own,
    weigh_record,
    weigh_said,
)
from onlooker.models.extractive.lists import is_list, listed
from onlooker.models.extractive.page import Page, prefix_cost, read_notes, render, render_prose
from onlooker.models.extractive.select import Coverage, Selection, Told, new_to, without_repeats
from onlooker.models.extractive.sentences import Asked, begun, tighten, topic, vocatives
from onlooker.models.extractive.tool_calls import Exchanges, Said
from onlooker.models.extractive.tool_results import bounded
from onlooker.policy.dates import annotate, obvious
from onlooker.policy.text import clauses as split_clauses
from onlooker.policy.text import sentences
from onlooker.policy.tokens import estimate, estimator
from onlooker.policy.values import NAMING, audit, holds, mask, values_line
from onlooker.ports import ObserveRequest, ReflectRequest, Reply, Request

# -- From messages to the clauses that an observation can be made of

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


# -- A later statement wins over an earlier one, and says what it was: "budget 45k (was 42k)"

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


# -- From notes to the clauses that a reflection can be made of

_IMPORTANT_WORTH = 3.0


def weighed(notes: Sequence[Note], format: NoteFormat) -> Page:
    """What the notes say, with the weight of each clause."""
    page = read_notes((note.text for note in notes), format)
    page.clauses = supersede(page.clauses)
    names = names_of({clause.speaker for clause in page.clauses if not is_call(clause.speaker)})
    wanted = frozenset(
        unit
        for clause in page.clauses
        for unit in value_units(clause.speaker if is_call(clause.speaker) else clause.text)
    )
    for clause in page.clauses:
        if is_call(clause.speaker):
            weigh_record(clause, wanted)
        else:
            role = clause.speaker if clause.speaker in ROLES else ""
            weigh_said(clause, names, own=was_own(clause.text), role=role)
        if clause.priority == "IMPORTANT":
            clause.quality *= _IMPORTANT_WORTH
    return page


# -- From a request to its note

_LEDGER_SHARE = 0.1
_CRITICAL_SHARE = 0.25
_CLOSE_ENOUGH = 8  # tokens that may stay unused
_TRIES = 4
_LONGEST_SOURCE = 24_000  # characters of one message
_JSON_KEY = re.compile(r'"(\w{1,60})"\s?:')
_SENTENCES = {"observation": 5, "reflection": 8}  # at most, in the prose format
# A source shorter than this is counted with what a provider puts around each message.
_TINY_SOURCE = 24

# Signs that nothing ends with.
_OPEN = " ,，、;；:({[（「『“+=→-–—&"

_UNENDED = re.compile(rf"[{re.escape(_OPEN)}][`'\"*_]*$|\[[^\]\n]{{0,20}}$")

Write = Callable[[Sequence[Clause]], str]


def compose(request: Request) -> str:
    """The note that a request asks for."""
    text = _observe(request) if isinstance(request, ObserveRequest) else _reflect(request)
    # A note that ends so would be taken for one that was cut off.
    return text + "." if _UNENDED.search(text) else text


# ------------------------------------------------------------------------------------ observing


def _observe(request: ObserveRequest) -> str:
    told = [clause for note in request.notes for clause in _told(note.text, request.format)]
    read = Reader(request.messages, "\n".join(note.text for note in request.notes))
    clauses = without_repeats(read.clauses())
    limit = max(1, min(request.target_tokens, _source_tokens(request.messages) - 1))
    _ration_critical(clauses, limit)
    clauses = new_to(told, clauses) or clauses
    said = Coverage(units for _, units in told)
    if request.format == "prose":
        text = _fitted(clauses, limit, said, lambda chosen: render_prose(chosen, _SENTENCES["observation"]))
    else:
        text = _with_values(clauses, limit, said, request.messages)
    return text or _last_resort(request.messages, clauses, limit)


@lru_cache(maxsize=64)
def _told(text: str, format: NoteFormat) -> Sequence[Told]:
    """What a note says. Remembered, since every observation of a session is told the same notes."""
    return [(clause.speaker, units(clause.text)) for clause in read_notes((text,), format).clauses]


def _source_tokens(messages: Sequence[Message]) -> int:
    words = sum(
        estimate(m.body) + sum(estimate(c.name) + estimate(c.arguments) for c in m.calls) for m in messages
    )
    if words >= _TINY_SOURCE:
        return words
    return sum(estimator("default").message(message) for message in messages)


def _ration_critical(clauses: Sequence[Clause], limit: int) -> None:
    """A critical line stays for ever: what goes beyond a share of the note is only important."""
    room = limit * _CRITICAL_SHARE
    for clause in clauses:
        if clause.priority == "CRITICAL":
            room -= clause.cost
            if room < 0:
                clause.priority = "IMPORTANT"


def _with_values(clauses: Sequence[Clause], limit: int, said: Coverage, messages: Sequence[Message]) -> str:
    """Lines, and beneath them the values that the lines have no room for."""
    source = "\n".join(bounded(text, _LONGEST_SOURCE) for message in messages for text in _texts(message))
    # The names of fields come last: whoever made the call knows them.
    keys = frozenset(_JSON_KEY.findall(source))
    wanted = sorted(audit("", source, NAMING), key=lambda value: value in keys)
    return _with_ledger(wanted, limit, lambda room: _fitted(clauses, room, said, render))


def _with_ledger(values: Sequence[str], limit: int, lines: Callable[[int], str]) -> str:
    """The lines, shortened by as much as the ledger of what they do not hold takes, within its share."""
    text = lines(limit)
    lacking = [value for value in values if not holds(text, value)]
    if not lacking or not text:
        return text
    wanted = min(int(limit * _LEDGER_SHARE), estimate(values_line(lacking, limit)) + 1)
    text = lines(limit - wanted) or text
    ledger = values_line([v for v in values if not holds(text, v)], limit - estimate(text) - 1)
    return f"{text}\n{ledger}" if ledger else text


def _texts(message: Message) -> list[str]:
    return [message.text, *(call.arguments for call in message.calls)]


def _last_resort(messages: Sequence[Message], clauses: Sequence[Clause], limit: int) -> str:
    """What is left to say of a source too short, too plain or too strange to choose from."""
    for clause in sorted(clauses, key=lambda c: -c.quality * sum(c.units.values()) / max(1, c.cost)):
        for text in (render([clause]), f"{clause.speaker}: {clause.text}"):
            if estimate(text) <= limit:
                return text
    words = [" ".join(plain(message.body).split()) for message in messages]
    first = next((i for i, text in enumerate(words) if text), 0)
    text = bounded(words[first], min(120, max(12, 3 * limit))).strip(_OPEN) if words else ""
    named = f"{messages[first].speaker}: {text or '…'}" if messages else ""
    return named if estimate(named) <= limit or not text else text


# ------------------------------------------------------------------------------------ reflecting


def _reflect(request: ReflectRequest) -> str:
    page = weighed(request.notes, request.format)
    page.clauses = without_repeats(page.clauses)
    if request.format == "prose":
        write: Write = lambda chosen: render_prose(chosen, _SENTENCES["reflection"])  # noqa: E731
        return _fitted(page.clauses, request.target_tokens, Coverage(), write) or write(page.clauses[:1])
    lists = listed(page.clauses, request.target_tokens)
    told = [clause for clause in page.clauses if not is_list(clause)]
    critical = [clause for clause in told if clause.priority == "CRITICAL"]
    others = [clause for clause in told if clause.priority != "CRITICAL"]
    said = Coverage()
    for clause in critical:
        said.add(clause)

    def lines(chosen: Sequence[Clause]) -> str:
        return render([*lists, *sorted([*critical, *chosen], key=lambda clause: clause.place)])

    def fitted(room: int) -> str:
        return _fitted(others, room, said, lines) or lines(others[:1])

    return _with_ledger(list(dict.fromkeys(reversed(page.values))), request.target_tokens, fitted)


# ------------------------------------------------------------------------------------ fitting


def _fitted(clauses: Sequence[Clause], limit: int, said: Coverage, write: Write) -> str:
    """Choose, write and count; choose again with what was left over or lacking. Empty: nothing fits."""
    costs = {clause.speaker: prefix_cost(clause.speaker) for clause in clauses}
    room = limit
    best = ""
    for _ in range(_TRIES):
        selection = Selection(clauses, costs, said.copy())
        chosen = selection.run(room)
        text = write(chosen)
        over = estimate(text) - limit
        if over <= 0 and len(text) > len(best) and chosen:
            best = text
        if -_CLOSE_ENOUGH < over <= 0 or (over <= 0 and len(chosen) == len(clauses)):
            break
        # What was spent and not what was offered, so that at least one clause gives way.
        room = (selection.spent if over > 0 else room) - over
    return best


# -- The model as the engine sees it


class ExtractiveModel:
    """Writes notes out of the words that were said: no key, no network, no download.

    Its answer depends on the request alone, and is the same in every process.
    """

    name = "extractive"
    window = 10_000_000

    async def write(self, request: Request) -> Reply:
        """Answer the request on a thread of its own."""
        return Reply(await asyncio.to_thread(self.compose, request))

    def compose(self, request: Request) -> str:
        """The note, on the spot."""
        # With the first note, and not when the package is imported: its patterns take a while to compile.
        return compose(request)
