"""The built-in model: from a request to its note.

A request's messages, or its notes, are cut into weighed clauses. The clauses that say the most fit into the
note, below what the user asked for, and the exact values that they leave out go into a ledger below them.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import chain, islice

from onlooker.domain.messages import Message
from onlooker.domain.notes import Note, NoteFormat
from onlooker.models.extractive.clauses import (
    RESOLVED,
    ROLES,
    Clause,
    OpenQuestion,
    is_call,
    is_courtesy,
    is_own,
    is_question,
    opens_question,
    priority,
    set_first_letter,
    tighten,
    topic,
    vocatives,
    was_own,
    weigh_record,
    weigh_speech,
)
from onlooker.models.extractive.page import (
    Coverage,
    Noted,
    Page,
    Selection,
    prefix_cost,
    read_notes,
    render,
    render_prose,
    without_noted,
    without_repeats,
)
from onlooker.models.extractive.tool_calls import Record, ToolTraffic
from onlooker.models.extractive.words import (
    GENERAL,
    MAX_TEXT_LENGTH,
    UNPRINTABLE,
    keep_ends,
    name_units,
    units,
    value_units,
)
from onlooker.policy.asked import of_messages, of_notes
from onlooker.policy.dates import annotate, obvious_dates
from onlooker.policy.reply import SMALL_NOTE
from onlooker.policy.reply.note_text import STANDING
from onlooker.policy.secrets import mask
from onlooker.policy.text import clauses as split_clauses
from onlooker.policy.text import regex, sentences
from onlooker.policy.tokens import estimate, estimator
from onlooker.policy.values import NAMING, audit, holds, values_line
from onlooker.ports import ObserveRequest, ReflectRequest, Request

_OBSERVATION_IN_PROSE = partial(render_prose, least=2, most=5)
_REFLECTION_IN_PROSE = partial(render_prose, least=3, most=8)
_CRITICAL_SHARE = 0.25  # of a note
# Characters that nothing ends with.
_OPEN = " ,，、;；:({[（「『“+=→-–—&"

_UNENDED = regex(rf"[{re.escape(_OPEN)}][`'\"*_]*$|\[[^\]\n]{{0,20}}$")

Write = Callable[[Sequence[Clause]], str]

_PIECE, _PAUSE = 0.001, 0.0002  # seconds


class _Paused(threading.local):
    at = 0.0


_paused = _Paused()


def _give_way() -> None:
    """Let other threads run for a moment, after each millisecond of work.

    A thread that computes without a pause keeps each other thread waiting for 5 ms whenever it needs the
    interpreter, and a turn needs it several times.
    """
    if time.perf_counter() - _paused.at > _PIECE:
        time.sleep(_PAUSE)
        _paused.at = time.perf_counter()


def compose(request: Request) -> str:
    """Return the note that a request asks for. It depends only on the request."""
    notes = [note.text for note in request.notes]
    is_observation = isinstance(request, ObserveRequest)
    asked = of_messages(request.messages, notes) if is_observation else of_notes(notes)
    text = _observe(request, asked) if is_observation else _reflect(request, asked)
    # A note with such an end would be taken for one that was cut off.
    return text + "." if _UNENDED.search(text) else text


def _below(asked: Sequence[str], text: str) -> str:
    """Write the lines of a note below what the user asked for."""
    return "\n".join([*asked, text]) if text else ""


# -- An observation: messages

# A shorter source is counted with what a provider adds to each message.
_TINY_SOURCE = 24  # tokens
_JSON_KEY = regex(r'"(\w{1,60})"\s?:')


def _observe(request: ObserveRequest, asked: Sequence[str]) -> str:
    noted = [clause for note in request.notes for clause in _noted(note.text, request.format)]
    reader = _Reader(request.messages, "\n".join(note.text for note in request.notes))
    clauses = without_repeats(reader.clauses())
    source = _source_tokens(request.messages)
    limit = max(1, min(request.target_tokens, source - 1))
    # All together, the note is no longer than what it stands for.
    left = max(source, SMALL_NOTE) - estimate("\n".join(asked)) - 1
    # Standing instructions stay above the lines for good, so the lines do not repeat them. Nor do they repeat
    # a request where there is little room.
    above = [line for line in asked if line.startswith(STANDING) or left < limit]
    limit = max(1, min(limit, left)) if asked else limit
    _ration_critical(clauses, limit)
    users = {m.speaker for m in request.messages if m.role == "user"}
    told = [(user, units(line)) for line in above for user in users]
    clauses = without_noted(clauses, [*noted, *told]) or clauses
    said = Coverage(units for _, units in noted)
    if request.format == "prose":
        text = _fit(_selection(clauses, said), limit, _OBSERVATION_IN_PROSE)
    else:
        selection = _selection(clauses, said)
        text = _fit_with_ledger(
            _values(request.messages), limit, lambda room: _fit(selection, room, render), asked
        )
    return _below(asked, text or _last_resort(request.messages, clauses, limit))


@lru_cache(maxsize=32)
def _noted(text: str, format: NoteFormat) -> Sequence[Noted]:
    # Cached, since every observation of a session gets the same notes.
    _give_way()
    return [(clause.speaker, _units(clause.text)) for clause in read_notes((text,), format).clauses]


# Of clauses, since a reflection keeps most of those that the one before it had.
_units = lru_cache(maxsize=2_048)(units)


def _source_tokens(messages: Sequence[Message]) -> int:
    tokens = sum(
        estimate(m.body) + sum(estimate(c.name) + estimate(c.arguments) for c in m.calls) for m in messages
    )
    if tokens >= _TINY_SOURCE:
        return tokens
    return sum(estimator("default").message(message) for message in messages)


def _ration_critical(clauses: Sequence[Clause], limit: int) -> None:
    """Lower the priority of critical lines beyond their share, since they stay for ever."""
    room = limit * _CRITICAL_SHARE
    for clause in clauses:
        if clause.priority == "CRITICAL":
            room -= clause.cost
            if room < 0:
                clause.priority = "IMPORTANT"


def _values(messages: Sequence[Message]) -> list[str]:
    """Return the exact values of the messages, the names of JSON fields last."""
    texts = (text for m in messages for text in (m.text, *(call.arguments for call in m.calls)))
    source = "\n".join(keep_ends(text, MAX_TEXT_LENGTH) for text in texts)
    keys = frozenset(_JSON_KEY.findall(source))
    return sorted(audit("", source, NAMING), key=lambda value: value in keys)


def _last_resort(messages: Sequence[Message], clauses: Sequence[Clause], limit: int) -> str:
    """Return something for a source that is too short, too plain or too strange to choose from."""
    for clause in sorted(clauses, key=lambda c: -c.quality * sum(c.units.values()) / max(1, c.cost)):
        for text in (render([clause]), f"{clause.speaker}: {clause.text}"):
            if estimate(text) <= limit:
                return text
    words = [" ".join(_running_text(message.body).split()) for message in messages]
    first = next((i for i, text in enumerate(words) if text), 0)
    text = keep_ends(words[first], min(120, max(12, 3 * limit))).strip(_OPEN) if words else ""
    named = f"{messages[first].speaker}: {text or '…'}" if messages else ""
    return named if estimate(named) <= limit or not text else text


# -- From messages to clauses

_MAX_CLAUSE_LENGTH = 400  # characters
_CAPTION = regex(r"\s?\[(?:shares|shared|image|photo|picture)[: ]\s*([^\]]+)\]\s*$", re.I)
_CAPTION_OPENING = regex(
    r"^(?:an? )?(?:close[- ]up )?(?:photo(?:graphy|graph)?|picture|image|screenshot) of (?:an? )?", re.I
)
_CODE_BLOCK = regex(r"```[^\n]*\n(.*?)(?:```|\Z)", re.S)
_MARKUP = regex(
    r"\*\*|(?<!\w)__(?=\S)|(?<=\S)__(?!\w)|^#{1,6}\s+|^\s*[|>]\s*|^\s*</?[A-Za-z_]+>\s*$"
    r"|\[([^\]\n\[]{1,200})\]\(https?[^)\s]{1,500}\)|</?[a-z_]+>",
    re.M,
)
# A clause must have a letter, or a number longer than that of a bullet.
_SAYS = regex(r"[^\W\d_]|\d{2}")
_SPACES = regex(r"[^\S\n]+")
# "xxxxxxxx…", "word word word …": once is enough.
_STUTTER = regex(r"(\S{1,8}?|\b\S{1,20}\s)\1{9,}")
_LONG_PROMPT = 400  # characters
_PROMPT_CLAUSES = 2
_MAX_WORD_LENGTH = 100
_SYSTEM_WORTH = 0.15
_SHORTEST = 2  # characters of a clause
# Places within a message: words first, then pictures, then calls.
_FIRST_PICTURE, _FIRST_CALL = 1000, 2000


class _Reader:
    """Reads messages in order, and keeps track of open questions and of the keys that were shown."""

    def __init__(self, messages: Sequence[Message], noted: str) -> None:
        self._messages = messages
        people = frozenset(m.name for m in messages if m.name and m.role != "tool")
        self._vocatives = vocatives(people)
        self._names = name_units(people)
        self._traffic = ToolTraffic(messages, noted)
        self._question = OpenQuestion()
        # Values that people and arguments name are likely to be needed again.
        self._wanted = frozenset(
            unit
            for m in messages
            if m.role in ("user", "assistant")
            for text in (m.text[:MAX_TEXT_LENGTH], *(call.arguments[:MAX_TEXT_LENGTH] for call in m.calls))
            for unit in value_units(text)
        )

    def clauses(self) -> list[Clause]:
        """Return everything that could be in the note, in order."""
        found: list[Clause] = []
        for i, message in enumerate(self._messages):
            _give_way()
            found.extend(self._of_message(message, i))
        found = [clause for clause in found if clause.units]
        # Praise and courtesies are left out even where there is room.
        return [c for c in found if max(c.units.values()) > GENERAL and not is_courtesy(c.text)] or found

    def _of_message(self, message: Message, i: int) -> list[Clause]:
        if message.role == "tool":
            return list(self._recorded(message, i, self._traffic.result_records(message), 0))
        text = _running_text(message.text)
        found = chain(self._said(message, i, text), self._pictured(message, i, text))
        # The host sends a long system prompt again with every call.
        long = message.role == "system" and len(message.text) > _LONG_PROMPT
        said = list(islice(found, _PROMPT_CLAUSES) if long else found)
        asks = bool(said) and is_question(said[-1].text)
        self._question = (
            OpenQuestion(said[-1], topic(RESOLVED.sub("", said[-1].text))) if asks else OpenQuestion()
        )
        calls = self._traffic.call_records(message)
        return [*said, *self._recorded(message, i, calls, _FIRST_CALL)]

    def _said(self, message: Message, i: int, text: str) -> Iterable[Clause]:
        role = "" if message.name else message.role
        asked = self._question.clause
        answers = asked is not None and asked.speaker != message.speaker
        k = 0
        for sentence in sentences(_CAPTION.sub("", text)):
            parts = split_clauses(sentence)
            for n, part in enumerate(parts, 1):
                _give_way()
                asks = is_question(sentence) and (n == len(parts) or opens_question(part))
                tight = tighten(keep_ends(part, _MAX_CLAUSE_LENGTH), self._vocatives)
                if len(tight) < _SHORTEST or not _SAYS.search(tight):
                    continue
                about = self._question.topic_for(tight, k) if answers and not asks else ""
                tight = about + tight if about else set_first_letter(tight, part)
                clause = self._clause(
                    message, (i, k), tight + ("?" if asks and not is_question(tight) else "")
                )
                weigh_speech(clause, self._names, own=is_own(part), role=role, answers=answers and not asks)
                clause.quality *= _SYSTEM_WORTH if role == "system" else 1.0
                clause.priority = priority(tight, asks=asks, by_host=role in ("assistant", "system"))
                yield clause
                k += 1

    def _pictured(self, message: Message, i: int, text: str) -> Iterable[Clause]:
        caption = _CAPTION.search(text)
        shown = [f"[pic: {tighten(_CAPTION_OPENING.sub('', caption[1]))}]"] if caption else []
        for k, shown_text in enumerate([*shown, *message.attachments], _FIRST_PICTURE):
            clause = self._clause(message, (i, k), shown_text)
            weigh_speech(clause, self._names, own=False, role="")
            yield clause

    def _clause(self, message: Message, place: tuple[int, int], text: str) -> Clause:
        if message.at is None:
            return Clause(text, message.speaker, "", place)
        dated = annotate(text, message.at, but_not=obvious_dates(message.at))
        return Clause(dated, message.speaker, message.at.date().isoformat(), place)

    def _recorded(self, message: Message, i: int, records: Sequence[Record], first: int) -> Iterable[Clause]:
        day = message.at.date().isoformat() if message.at else ""
        for k, record in enumerate(records, first):
            _give_way()
            clause = Clause(record.text, record.speaker, day, (i, k))
            weigh_record(clause, self._wanted)
            yield clause


def _running_text(text: str) -> str:
    """Return a message without secrets and markup, its code cut to the first lines."""
    text = _SPACES.sub(" ", mask(UNPRINTABLE.sub("", keep_ends(text, MAX_TEXT_LENGTH))))
    words = text.split()
    if 3 * len(set(words)) < len(words) or any(len(word) > _MAX_WORD_LENGTH for word in words):
        text = _STUTTER.sub(r"\1…", text)
    text = _CODE_BLOCK.sub(lambda block: "\n".join(block[1].splitlines()[:3]) + "\n", text)
    return _MARKUP.sub(lambda found: found[1] or "", text)


# -- A reflection: notes

_IMPORTANT_WORTH = 3.0


def _reflect(request: ReflectRequest, asked: Sequence[str]) -> str:
    # Only reflections need its many patterns, and they take a while to compile.
    from onlooker.models.extractive.lists import is_list, write_lists

    page = _weigh_notes(request.notes, request.format)
    page.clauses = without_repeats(page.clauses)
    # What was asked for goes first, but does not take all.
    limit = max(request.target_tokens - estimate("\n".join(asked)), request.target_tokens // 2)
    if request.format == "prose":
        text = _fit(_selection(page.clauses, Coverage()), limit, _REFLECTION_IN_PROSE)
        return _below(asked, text or _REFLECTION_IN_PROSE(page.clauses[:1]))
    lists = write_lists(page.clauses, limit)
    clauses = [clause for clause in page.clauses if not is_list(clause)]
    critical = [clause for clause in clauses if clause.priority == "CRITICAL"]
    others = [clause for clause in clauses if clause.priority != "CRITICAL"]
    said = Coverage()
    for clause in critical:
        said.add(clause)

    selection = _selection(others, said)

    def lines(chosen: Sequence[Clause]) -> str:
        return render([*lists, *sorted([*critical, *chosen], key=lambda clause: clause.place)])

    def fit(room: int) -> str:
        return _fit(selection, room, lines) or lines(others[:1])

    return _below(asked, _fit_with_ledger(list(dict.fromkeys(reversed(page.values))), limit, fit, asked))


def _weigh_notes(notes: Sequence[Note], format: NoteFormat) -> Page:
    """Read the notes, drop what is out of date, and weigh each clause."""
    page = read_notes((note.text for note in notes), format)
    page.clauses = _supersede(page.clauses)
    names = name_units({clause.speaker for clause in page.clauses if not is_call(clause.speaker)})
    wanted = frozenset(
        unit
        for clause in page.clauses
        for unit in value_units(clause.speaker if is_call(clause.speaker) else clause.text)
    )
    for clause in page.clauses:
        _give_way()
        if is_call(clause.speaker):
            weigh_record(clause, wanted)
        else:
            role = clause.speaker if clause.speaker in ROLES else ""
            weigh_speech(clause, names, own=was_own(clause.text), role=role)
        if clause.priority == "IMPORTANT":
            clause.quality *= _IMPORTANT_WORTH
    return page


# -- A later statement wins over an earlier one: "budget 45k (was 42k)"

_VALUE = regex(r"(?<![A-Za-z0-9_])(?:[$€£¥]?\d[\d.,:/]*\d[\w%]*|[$€£¥]?\d[\w%]*)")
_WAS = regex(r" \(was [^()]*\)")
_DATE = regex(r" ?\(\d{4}[^()]*\)|\b\d{4}-\d\d-\d\d\b")
# Statements of a state, not of an act: runs of 5 and 8 km are two runs.
_STATE = regex(
    r"[=:]|\b(?:is|are|now|budget|price|cost|deadline|due|total|threshold|weight|weighs?|version|count"
    r"|score|rate"
    r"|limit|target|size|balance|salary|rent|port|timeout|quota|status|p\d\d)\b|现在|预算|价格|截止"
    r"|目标|阈值|予算|価格|예산|가격",
    re.I,
)
# One call may list many things of a kind. Only these words describe the thing that was asked about.
_STATE_OF_RECORD = regex(r"\b(?:status|state|total|balance)\b", re.I)
_SHORTEST_TEMPLATE = 5


def _supersede(clauses: Sequence[Clause]) -> list[Clause]:
    """Drop clauses that a later one of the same speaker repeats with other values."""
    newest: dict[tuple[str, str], Clause] = {}
    gone: set[tuple[int, int]] = set()
    for clause in clauses:
        key = (clause.speaker, _template(clause.text))
        if clause.priority == "CRITICAL" or len(key[1]) < _SHORTEST_TEMPLATE or not _is_state(clause):
            continue
        before = newest.get(key)
        if before is None or _are_alternatives(before, clause):
            _give_way()
        elif was := _changed(before.text, clause.text):
            gone.add(before.place)
            clause.text = f"{_WAS.sub('', clause.text)} (was {was})"
        newest[key] = clause
    return [clause for clause in clauses if clause.place not in gone]


def _are_alternatives(before: Clause, clause: Clause) -> bool:
    """Whether an assistant lists alternatives: it gives both values at almost the same time."""
    return clause.speaker == "assistant" and clause.place[0] - before.place[0] <= 1


def _is_state(clause: Clause) -> bool:
    if is_call(clause.speaker):
        return not clause.speaker.endswith("()") and bool(_STATE_OF_RECORD.search(clause.text))
    return bool(_STATE.search(clause.text))


def _template(text: str) -> str:
    """Return the wording around the values, or "" if there are none."""
    bare = _DATE.sub("", _WAS.sub("", text)).lower()
    template = _VALUE.sub("#", bare)
    return template if template != bare else ""


def _changed(before: str, after: str) -> str:
    """Return the values that are no longer the same."""
    old = _VALUE.findall(_DATE.sub("", _WAS.sub("", before)))
    new = _VALUE.findall(_DATE.sub("", _WAS.sub("", after)))
    return ", ".join(value for value, now in zip(old, new, strict=False) if value != now)


# -- Fitting clauses and values into the limit

_LEDGER_SHARE = 0.1
_CLOSE_ENOUGH = 8  # tokens that may stay unused
_TRIES = 4


def _selection(clauses: Sequence[Clause], said: Coverage) -> Selection:
    return Selection(
        clauses, {speaker: prefix_cost(speaker) for speaker in {c.speaker for c in clauses}}, said
    )


def _fit(selection: Selection, limit: int, write: Write) -> str:
    """Choose, write and count, then choose again with more or less room. Return "" if nothing fits."""
    room = limit
    best = ""
    for _ in range(_TRIES):
        _give_way()
        chosen = selection.run(room)
        text = write(chosen)
        over = estimate(text) - limit
        if over <= 0 and len(text) > len(best) and chosen:
            best = text
        if -_CLOSE_ENOUGH < over <= 0 or (over <= 0 and len(chosen) == len(selection.clauses)):
            break
        # Start from what was spent, not from what was offered, so that at least one clause is dropped.
        room = (selection.spent if over > 0 else room) - over
    # What is written besides the clauses may keep each of these too long. Less of them is better than none.
    while not best and room > _CLOSE_ENOUGH:
        room = room * 3 // 4
        chosen = selection.run(room)
        text = write(chosen)
        best = text if chosen and estimate(text) <= limit else ""
    return best


def _fit_with_ledger(
    values: Sequence[str], limit: int, fit: Callable[[int], str], asked: Sequence[str]
) -> str:
    """Fit the lines, and below them a ledger of the values that they leave out, within its share."""
    # A value in a request counts as missing: the request will be finished one day.
    above = "\n".join(line for line in asked if line.startswith(STANDING))
    values = [value for value in values if not holds(above, value)] if above else values
    text = fit(limit)
    missing = [value for value in values if not holds(text, value)]
    if not missing or not text:
        return text
    wanted = min(int(limit * _LEDGER_SHARE), estimate(values_line(missing, limit)) + 1)
    text = fit(limit - wanted) or text
    ledger = values_line([v for v in values if not holds(text, v)], limit - estimate(text) - 1)
    return f"{text}\n{ledger}" if ledger else text
