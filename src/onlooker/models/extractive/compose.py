"""The built-in model: from a request to its note.

A request's messages, or its notes, are cut into weighed pieces. The pieces that say the most fit into the
note, below what the user asked for, and the exact values that they leave out go into a ledger below them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from onlooker.domain.messages import Message
from onlooker.domain.notes import Note, NoteFormat
from onlooker.models.extractive.page import (
    Coverage,
    Noted,
    Page,
    Selection,
    prefix_cost,
    read_notes,
    render,
    render_prose,
    with_needed,
    without_noted,
    without_repeats,
)
from onlooker.models.extractive.pieces import (
    ROLES,
    Piece,
    Quote,
    announces,
    asked_before,
    is_call,
    is_exclaimed,
    is_question,
    link,
    only_asks,
    quotes,
    run_on,
    split,
    vocatives,
    weigh_record,
    weigh_speech,
    without_code,
)
from onlooker.models.extractive.tool_calls import Record, ToolTraffic, thought
from onlooker.models.extractive.tool_results import shorten
from onlooker.models.extractive.words import (
    GENERAL,
    MAX_TEXT_LENGTH,
    UNPRINTABLE,
    answers_unseen,
    goes_on,
    is_attempt,
    is_courtesy,
    keep_ends,
    name_units,
    priority,
    refers_back,
    units,
    value_units,
)
from onlooker.policy.asked import NONE, of_messages, of_notes
from onlooker.policy.dates import annotate, obvious_dates
from onlooker.policy.instructions import own_and_quoted
from onlooker.policy.pace import give_way
from onlooker.policy.references import shows
from onlooker.policy.reply.judge import SMALL_NOTE
from onlooker.policy.reply.note_text import CRITICAL_SHARE, QUOTED_BY, STANDING
from onlooker.policy.secrets import mask
from onlooker.policy.text import is_cjk, regex
from onlooker.policy.tokens import estimate, estimator
from onlooker.policy.values import NAMING, audit, holds, said_first, values_line
from onlooker.ports import ObserveRequest, ReflectRequest, Request

_OBSERVATION_IN_PROSE = partial(render_prose, least=2, most=5)
_REFLECTION_IN_PROSE = partial(render_prose, least=3, most=8)
_CRITICAL_SHARE = 0.25  # of a note
# Characters that nothing ends with.
_OPEN = " ,，、;；:({[（「『“+=→-–—&"

_UNENDED = regex(rf"[{re.escape(_OPEN)}][`'\"*_]*$|\[[^\]\n]{{0,20}}$")

Write = Callable[[Sequence[Piece]], str]


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
    return "\n".join([*asked, text] if text else asked)


# -- An observation: messages


def _observe(request: ObserveRequest, asked: Sequence[str]) -> str:
    noted = [piece for note in request.notes for piece in _noted(note.text, request.format)]
    standing = [line.removeprefix(STANDING) for line in asked if line.startswith(STANDING)]
    reader = _Reader(request.messages, "\n".join(note.text for note in request.notes), standing)
    pieces = without_repeats(reader.pieces())
    source = _source_tokens(request.messages)
    limit = max(1, min(request.target_tokens, source - 1))
    # All together, the note is no longer than what it stands for.
    left = max(source, SMALL_NOTE) - estimate("\n".join(asked)) - 1
    # Standing instructions stay above the lines for good, so the lines do not repeat them. Nor do they repeat
    # a request where there is little room.
    repeated = [line for line in asked if line.startswith(STANDING) or left < limit]
    limit = max(1, min(limit, left)) if asked else limit
    _ration_critical(pieces, limit)
    users = {m.speaker for m in request.messages if m.role == "user"}
    told = [(user, units(line)) for line in repeated for user in users]
    pieces = without_noted(pieces, [*noted, *told]) or pieces
    said = Coverage(units for _, units in noted)
    if request.format == "prose":
        values: list[str] = []
        text = _fit(_selection(pieces, said), limit, _OBSERVATION_IN_PROSE)
    else:
        values = _values(request.messages, reader.unsaid)
        selection = _selection(pieces, said)
        text = _fit_with_ledger(values, limit, lambda room: _fit(selection, room, render), asked)
    if text:
        return _below(asked, text)
    above = "\n".join(line for line in asked if not line.endswith(f": {NONE}"))
    # What the request says is not said again, in whole or in part.
    last = _last_resort(pieces, _not_said_in(above, reader.spoken()), limit, left)
    words = last.rpartition(": ")[2]
    if above and (last.endswith("…") or is_exclaimed(words) or is_courtesy(words)):
        last = ""
    note = _below(asked, last)
    missing = [value for value in values if not holds(note, value)]
    room = max(_MIN_LEDGER, int(limit * _LEDGER_SHARE))
    ledger = values_line(missing, min(left - estimate(last) - 1, room))
    return f"{note}\n{ledger}" if ledger else note


@lru_cache(maxsize=32)
def _noted(text: str, format: NoteFormat) -> Sequence[Noted]:
    # Cached, since every observation of a session gets the same notes.
    give_way()
    return [(piece.speaker, _units(piece.text)) for piece in read_notes((text,), format).pieces]


# Of pieces, since a reflection keeps most of those that the one before it had.
_units = lru_cache(maxsize=2_048)(units)


def _source_tokens(messages: Sequence[Message]) -> int:
    return sum(estimator("default").message(message) for message in messages)


def _ration_critical(pieces: Sequence[Piece], limit: int) -> None:
    """Lower the priority of critical lines beyond their share, since they stay for ever."""
    room = limit * _CRITICAL_SHARE
    for piece in pieces:
        if piece.priority == "CRITICAL":
            room -= piece.cost
            if room < 0:
                piece.priority = "IMPORTANT"


def _values(messages: Sequence[Message], unsaid: frozenset[str]) -> list[str]:
    """Return the exact values of the messages, but for settings that say nothing."""
    texts = [
        (m.role == "tool", keep_ends(text, MAX_TEXT_LENGTH))
        for m in messages
        for text in (m.text, *(call.arguments for call in m.calls))
    ]
    source = "\n".join(text for _, text in texts)
    found = [value for value in audit("", source, NAMING) if value not in unsaid]
    # What people and calls name is needed again more often than what only a result shows, such as a file.
    said = "\n".join(text for is_result, text in texts if not is_result)
    return sorted(found, key=lambda value: not holds(said, value))


def _last_resort(pieces: Sequence[Piece], spoken: Sequence[Piece], limit: int, most: int) -> str:
    """Return something for a source that is too short, too plain or too strange to choose from: `spoken`
    messages that follow each other, or a piece, whole even if it exceeds the limit, up to what it stands for;
    or else the beginning of a message. Its speaker is always named.
    """
    alone = [piece for piece in pieces if piece.needs is None and piece.quality > 0]
    alone.sort(key=lambda piece: -piece.quality * sum(piece.units.values()) / max(1, piece.cost))
    short = max(limit, min(most, SMALL_NOTE))
    # Of messages that follow each other, only the first may mean something that nobody sees.
    clearest = max((piece.quality for piece in spoken), default=0)
    is_clear = clearest == _CLEAR
    firsts = [n for n, piece in enumerate(spoken) if piece.quality == clearest]
    starts, least = (firsts, 1) if is_clear else (sorted({_asked(spoken, n) for n in firsts}), 2)
    runs = [run for n in starts if (run := _run(spoken, n, short, least, most))]
    runs.sort(key=lambda run: -_says(run))
    whole = [[piece] for piece in alone]
    calls = [[piece] for piece in alone if is_call(piece.speaker)]
    # Without its heading, a line would be read as said on the day of the note before.
    for headed in (True, False):
        clear = runs if is_clear else []
        for room, choice in ((limit, whole), (most, calls), (most, clear), (most, whole), (most, runs)):
            for chosen in choice:
                text = render(chosen if headed else [replace(piece, day="") for piece in chosen])
                if estimate(text) <= room:
                    return text
    if not spoken:
        return ""
    piece = spoken[firsts[0]]
    # Its beginning alone: the end of a sentence without its "if" says something else.
    longest = min(120, max(_SHORTEST, 3 * limit))
    for heading in (f"## {piece.day}\n" if piece.day else "", ""):
        for length in range(longest, _SHORTEST, -_SHORTEST):
            text = f"{heading}{piece.speaker}: {_beginning(piece.text, length)}"
            if estimate(text) <= max(limit, most):
                return text
    return f"{piece.speaker}: {_beginning(piece.text, _SHORTEST)}"


def _not_said_in(text: str, spoken: Sequence[Piece]) -> list[Piece]:
    said = units(text)
    return [piece for piece in spoken if not text or piece.units.keys() - said.keys()]


def _asked(spoken: Sequence[Piece], n: int) -> int:
    """Return the message that asks what this one may answer, or else the one before."""
    near = range(n, max(-1, n - 4), -1)
    return next((k for k in near if is_question(spoken[k].text)), max(0, n - 1))


def _run(spoken: Sequence[Piece], start: int, room: int, least: int, most: int) -> list[Piece]:
    """Return as many messages as fit, one after the other: the first `least` of them into `most`."""
    run: list[Piece] = []
    cost = 0
    for piece in spoken[start:]:
        cost += piece.cost + prefix_cost(piece.speaker) + (0 if run and piece.day == run[-1].day else 8)
        if cost > (most if len(run) < least else room):
            break
        run.append(piece)
    return run


def _says(run: Sequence[Piece]) -> float:
    return sum({unit: weight for piece in run for unit, weight in piece.units.items()}.values())


def _beginning(words: str, length: int) -> str:
    """Return the beginning of a text: its first sentences, or else clauses or words of the first."""
    short = shorten(words, length)
    if len(short) < len(words):
        if whole := _WHOLE_SENTENCES.match(short):
            return whole[0]
        if is_cjk(short) and (clauses := _WHOLE_CLAUSES.match(short)):
            return f"{clauses[1]}…"
    return short.strip(_OPEN) or "…"


# -- From messages to pieces

_CAPTION = regex(r"\s?\[(?:shares|shared|image|photo|picture)[: ]\s*([^\]]+)\]\s*$", re.I)
_CAPTION_OPENING = regex(
    r"^(?:an? )?(?:close[- ]up )?(?:photo(?:graphy|graph)?|picture|image|screenshot) of (?:an? )?", re.I
)
_MARKUP = regex(
    # Of `__init__.py` the underscores are part of the name: only several words can be bold.
    r"\*\*|(?<![\w/`.])__(?=\S)([^_\n]{1,100} [^_\n]{0,100})(?<=\S)__(?![\w/`.(])"
    r"|^#{1,6} +|^ *[|>] *|^ *</?[A-Za-z_]+> *$"
    r"|\[([^\]\n\[]{1,200})\]\(https?[^)\s]{1,500}\)",
    re.M,
)
# A line that is a heading announces what is below it.
_HEADING = regex(r"^(?:#{1,6} +(?:\*\*)?|\*\*)([^*\n]{1,80}[^*\s.!?。！？:：])(?:\*\*)?[:：]? *$", re.M)
# "Feels like yesterday" does not name a day, and "this weekend", said of the past, may be the one before.
_UNCLEAR_DATE = regex(
    r"\b(?:feels?|felt|seems?) like (?:it was )?(?:just |only )?(?:yesterday|last)\b"
    r"|\b(?:went|had|was|were|did|got|took|saw|made|[a-z]{3,}ed)\b.*\bthis weekend\b"
    # How long it takes, not when.
    r"|\b(?:accomplish|complet|finish|deliver|achiev|don|do|made|make|built|build|learn)(?:e|ed|t|ing)?\b[^,.;]{0,30}"
    r"\bin (?:an?|one|two|three|four|five|six|ten|\d+) (?:day|week|month|year)s?\b",
    re.I,
)
# A piece must have a letter, or a number longer than that of a bullet.
_SAYS = regex(r"[^\W\d_]|\d{2}")
_SPACES = regex(r"(?<=\S)[^\S\n]+")
# "xxxxxxxx…", "word word word …": once is enough.
_STUTTER = regex(r"(\S{1,8}?|\b\S{1,20}\s)\1{9,}")
_LONG_PROMPT = 400  # characters
_PROMPT_PIECES = 2
_RECENT = 8  # pieces among which a pronoun finds whom it means
_MAX_WORD_LENGTH = 100
_SHORTEST = 12  # characters of a last resort
_CLEAR = 2  # what a message is worth that can be understood without what was said before it
_LONG_ENOUGH = 24  # of a message that can be understood in part without what was said before it
# Not after the number of a list's next item.
_WHOLE_SENTENCES = regex(r".{12,}(?:[.!?](?=\s)|[。！？])(?<!\d\.)", re.S)
_WHOLE_CLAUSES = regex(r"(.{8,})[，、；;]", re.S)
# A sign between programs, such as ###STOP###.
_MARKER = regex(r"[#<\[|*=_-]{2,}[A-Z_ ]{2,20}[#>\]|*=_-]{2,}\.?$")
_SYSTEM_WORTH = 0.15
_PRIORITY_WORTH = {"CRITICAL": 2.0, "IMPORTANT": 1.5, "NOTE": 1.0}
# Places within a message: words first, then pictures, then calls.
_FIRST_PICTURE, _FIRST_CALL = 1000, 2000


class _Reader:
    """Reads messages in order, and keeps track of what was said last and of the keys that were shown."""

    def __init__(self, messages: Sequence[Message], noted: str, standing: Sequence[str]) -> None:
        self._messages = messages
        self._standing = standing
        people = frozenset(m.name for m in messages if m.name and m.role != "tool")
        self._vocatives = vocatives(people)
        self._names = name_units(people)
        self._traffic = ToolTraffic(messages, noted)
        self.unsaid = self._traffic.unsaid  # values that say nothing
        self._recent: list[Piece] = []  # what was said last, since the last result of a tool
        self._goes_before = bool(noted)  # whether something was said before that
        self._dependent: set[int] = set()  # messages that mean something said before them
        # Values that people and arguments name are likely to be needed again.
        self._wanted = frozenset(
            unit
            for m in messages
            if m.role in ("user", "assistant")
            for text in (m.text[:MAX_TEXT_LENGTH], *(call.arguments[:MAX_TEXT_LENGTH] for call in m.calls))
            for unit in value_units(text)
        )

    def pieces(self) -> list[Piece]:
        """Return everything that could be in the note, in order."""
        found: list[Piece] = []
        for i, message in enumerate(self._messages):
            give_way()
            found.extend(self._of_message(message, i))
        # What a call was given says nothing without what came of it.
        outcomes: dict[str, tuple[int, int]] = {}
        for piece in reversed(found):
            if is_call(piece.speaker) and piece.place[1] < _FIRST_CALL:
                outcomes[piece.speaker] = piece.place
            elif is_call(piece.speaker):
                piece.needs = outcomes.get(piece.speaker)
        return found

    def spoken(self) -> list[Piece]:
        """Return the messages that say something, whole: what tools return only where nobody says anything.
        They are worth 2 if they can be understood without what was said before, or 1 if in part, or 0."""
        found: dict[bool, list[Piece]] = {True: [], False: []}
        for i, message in enumerate(self._messages):
            for who, text in _parts(message, message.body):
                said = [quote.text for quote in quotes(_CAPTION.sub("", text), whole=True)]
                words = run_on([*said, *map(_described, _CAPTION.finditer(text))] or [" ".join(text.split())])
                if not words or _MARKER.match(words):
                    continue
                piece = self._piece(message, (i, len(found)), words, who)
                piece.cost, piece.units = estimate(piece.text) + 1, units(words)
                piece.quality = self._clearness(words, i)
                found[message.role == "tool"].append(piece)
        everything = found[False] or found[True]
        everything = [*{(piece.speaker, piece.text): piece for piece in reversed(everything)}.values()][::-1]
        said = [piece for piece in everything if not all(map(is_courtesy, split(piece.text)))]
        return said or everything or [self._piece(m, (0, 0), "…", m.speaker) for m in self._messages[:1]]

    def _clearness(self, text: str, message: int) -> int:
        said = split(text)
        says_something = not is_courtesy(text) and max(units(text).values(), default=0.0) > GENERAL
        if not said or refers_back(said[0]) or not says_something:
            return 0
        depends = message in self._dependent or answers_unseen(said[0]) or goes_on(said[0])
        if not (depends or any(map(refers_back, said))):
            return _CLEAR
        return int(len(text) > _LONG_ENOUGH)

    def _of_message(self, message: Message, i: int) -> list[Piece]:
        if message.role == "tool":
            found = self._recorded(message, i, self._traffic.result_records(message), 0)
            self._recent, self._goes_before = found[-1:], False
            return found
        # A tool to think with is told what would else be said.
        thoughts = [words for call in message.calls if (words := thought(call))]
        parts = _parts(message, "\n".join([message.text, *thoughts]))
        pictured = self._pictured(message, i, parts[-1] if parts else (message.speaker, ""))
        said = self._said(message, i, parts, pictured)
        # The host sends a long system prompt again with every call.
        if message.role == "system" and len(message.text) > _LONG_PROMPT:
            said = said[:_PROMPT_PIECES]
        calls = self._recorded(message, i, self._traffic.call_records(message), _FIRST_CALL)
        return [*said, *pictured, *calls]

    def _said(
        self, message: Message, i: int, parts: Sequence[tuple[str, str]], pictured: Sequence[Piece]
    ) -> list[Piece]:
        """Return what a message says, without praise, courtesies, and what nobody could understand."""
        role = "" if message.name else message.role
        if self._recent and message.at and self._recent[-1].day != message.at.date().isoformat():
            self._recent, self._goes_before = [], False
        asked = asked_before(self._recent, message.speaker, i) is not None
        found: dict[int, Piece] = {}
        # A standing instruction has a line of its own, so that the rest of its message must do without.
        whole = role == "user" and not any(line.rstrip(".…") in message.text for line in self._standing)
        skipped = False  # whether the sentence before was left out
        unclear: set[int] = set()  # what nobody could understand
        for k, who, quote in self._quotes(parts, answers=asked, whole=whole):
            give_way()
            was_skipped, skipped = skipped, False
            tries = role == "assistant" and is_attempt(quote.text, with_call=bool(message.calls))
            # "Let's consider flight HAT271": what is said next may be of that.
            if tries and (message.calls or not value_units(quote.text)):
                skipped = True
                unclear.add(k)
                continue
            if was_skipped and refers_back(quote.text):
                continue
            piece = self._piece(message, (i, k), quote.text, who)
            weigh_speech(piece, self._names, role=role, answers=asked)
            if not _says_something(piece):
                may_be_meant = piece.units or announces(quote.text) or is_question(quote.text)
                if is_courtesy(quote.text) or not may_be_meant:
                    continue
                # Worth nothing alone, but it may announce what follows, or say what a pronoun means.
                piece.quality = 0.0
            elif tries or (not asked and is_exclaimed(quote.text)):
                piece.quality = 0.0
            if quote.needs in found:
                piece.needs, piece.depth = found[quote.needs].place, found[quote.needs].depth + 1
            elif pictured and shows(quote.text):
                piece.needs, piece.depth = pictured[0].place, 1
            elif quote.needs in unclear or not link(piece, self._recent, goes_before=self._goes_before):
                unclear.add(k)
                self._dependent.add(i)
                self._recent = [*self._recent, piece][-_RECENT:]
                continue
            elif piece.needs is not None and piece.needs[0] != i:
                self._dependent.add(i)
            piece.quality *= _SYSTEM_WORTH if role == "system" else 1.0
            others = role in ("assistant", "system") or who != message.speaker
            piece.priority = priority(quote.text, asks=only_asks(quote.text), by_others=others)
            piece.quality *= _PRIORITY_WORTH[piece.priority]
            found[k] = piece
            self._recent = [*self._recent, piece][-_RECENT:]
        return list(found.values())

    def _quotes(
        self, parts: Sequence[tuple[str, str]], *, answers: bool, whole: bool
    ) -> Iterator[tuple[int, str, Quote]]:
        """Yield the quotes of a message, numbered, each with who says it."""
        first = 0
        for who, text in parts:
            found = quotes(_CAPTION.sub("", text), self._vocatives, answers=answers, whole=whole)
            for k, quote in enumerate(found, first):
                yield k, who, quote if quote.needs is None else quote._replace(needs=first + quote.needs)
            first += len(found)

    def _pictured(self, message: Message, i: int, last: tuple[str, str]) -> list[Piece]:
        who, text = last
        caption = _CAPTION.search(text)
        shown = [_described(caption)] if caption else []
        pieces: list[Piece] = []
        for k, shown_text in enumerate([*shown, *message.attachments], _FIRST_PICTURE):
            piece = self._piece(message, (i, k), shown_text, who)
            weigh_speech(piece, self._names, role="")
            pieces.append(piece)
        return [piece for piece in pieces if _says_something(piece)]

    def _piece(self, message: Message, place: tuple[int, int], text: str, who: str) -> Piece:
        if message.at is None:
            return Piece(text, who, "", place)
        unclear = _UNCLEAR_DATE.search(text)
        dated = text if unclear else annotate(text, message.at, but_not=obvious_dates(message.at))
        return Piece(dated, who, message.at.date().isoformat(), place)

    def _recorded(self, message: Message, i: int, records: Sequence[Record], first: int) -> list[Piece]:
        day = message.at.date().isoformat() if message.at else ""
        pieces: list[Piece] = []
        for k, record in enumerate(records, first):
            give_way()
            piece = Piece(record.text, record.speaker, day, (i, k))
            weigh_record(piece, self._wanted)
            pieces.append(piece)
        return [piece for piece in pieces if piece.units]


def _described(caption: re.Match[str]) -> str:
    return f"[pic: {_CAPTION_OPENING.sub('', caption[1]).strip()}]"


def _says_something(piece: Piece) -> bool:
    return (
        max(piece.units.values(), default=0.0) > GENERAL
        and not is_courtesy(piece.text)
        and bool(_SAYS.search(piece.text))
        and not _MARKER.match(piece.text)
    )


def _parts(message: Message, text: str) -> list[tuple[str, str]]:
    """Return a text of a message without secrets, in parts with who says each: what a user quotes, attaches
    or pastes is not their word."""
    text = without_code(mask(UNPRINTABLE.sub("", keep_ends(text, MAX_TEXT_LENGTH)).expandtabs(4)))
    text = _HEADING.sub(r"\1:", text)
    if message.role != "user":
        return [(message.speaker, _running_text(text))]
    return [
        (message.speaker if is_own else f"{QUOTED_BY}{message.speaker}", _running_text(part))
        for is_own, part in own_and_quoted(text)
    ]


def _running_text(text: str) -> str:
    """Return a text without markup, stutter and long blanks."""
    text = _SPACES.sub(" ", text)
    words = text.split()
    if 3 * len(set(words)) < len(words) or any(len(word) > _MAX_WORD_LENGTH for word in words):
        text = _STUTTER.sub(r"\1…", text)
    return _MARKUP.sub(lambda found: found[1] or found[2] or "", text)


# -- A reflection: notes

# How much more a piece counts that has a priority; a CRITICAL one only beyond the share that stays anyway.
_MARKED_WORTH = 3.0


def _reflect(request: ReflectRequest, asked: Sequence[str]) -> str:
    page = _weigh_notes(request.notes, request.format)
    page.pieces = without_repeats(page.pieces)
    # What was asked for goes first, but does not take all.
    limit = max(request.target_tokens - estimate("\n".join(asked)), request.target_tokens // 2)
    if request.format == "prose":
        text = _fit(_selection(page.pieces, Coverage()), limit, _REFLECTION_IN_PROSE)
        return _below(asked, text or _REFLECTION_IN_PROSE(page.pieces[:1])) or request.notes[-1].text
    critical = with_needed(page.pieces, _newest_critical(page.pieces, limit))
    stays = {piece.place for piece in critical}
    others = [piece for piece in page.pieces if piece.place not in stays]
    said = Coverage()
    for piece in critical:
        said.add(piece)

    selection = _selection(others, said)

    def lines(chosen: Sequence[Piece]) -> str:
        return render(sorted([*critical, *chosen], key=lambda piece: piece.place))

    alone = [piece for piece in others if piece.needs is None] or others

    def fit(room: int) -> str:
        return _fit(selection, room, lines) or lines(alone[:1])

    values = _noted_values(request.notes)
    text = _below(asked, _fit_with_ledger(values, limit, fit, asked))
    # Notes may have no line besides what was asked for, and none of that may be open still.
    return text or values_line(values, limit) or request.notes[-1].text


# The name of a field before its value, in a line of a call.
_NOTED_KEY = regex(r"(?:\): |[,;] |^)(?:[a-z]+ )?([a-z]+(?:_[a-z]+)+) (?=[\w$-])", re.M)


def _noted_values(notes: Sequence[Note]) -> list[str]:
    """Return the exact values of notes, of their lines and ledgers: a line that is dropped leaves its values
    to the ledger. The names of fields are none."""
    text = "\n".join(note.text for note in notes)
    lines = text.splitlines()
    keys = {*_NOTED_KEY.findall("\n".join(line for line in lines if "): " in line))}
    return said_first([value for value in audit("", text, NAMING) if value not in keys], lines)


# Tokens that CRITICAL pieces have in any case: the smallest reflection has room for a few.
_MIN_CRITICAL = 64


def _newest_critical(pieces: Sequence[Piece], limit: int) -> Iterator[Piece]:
    """Yield the newest CRITICAL pieces, within their share."""
    room = max(limit * CRITICAL_SHARE, _MIN_CRITICAL)
    for piece in reversed(pieces):
        if piece.priority == "CRITICAL" and room > 0:
            room -= estimate(f"CRITICAL {piece.speaker}: {piece.text}\n")
            yield piece


def _weigh_notes(notes: Sequence[Note], format: NoteFormat) -> Page:
    """Read the notes, drop what is out of date, and weigh each piece."""
    page = read_notes((note.text for note in notes), format)
    page.pieces = _supersede(page.pieces)
    names = name_units({piece.speaker for piece in page.pieces if not is_call(piece.speaker)})
    wanted = frozenset(
        unit
        for piece in page.pieces
        for unit in value_units(piece.speaker if is_call(piece.speaker) else piece.text)
    )
    for piece in page.pieces:
        give_way()
        if is_call(piece.speaker):
            weigh_record(piece, wanted)
        else:
            role = piece.speaker if piece.speaker in ROLES else ""
            weigh_speech(piece, names, role=role)
        if piece.priority != "NOTE":
            piece.quality *= _MARKED_WORTH
    return page


# -- A later statement wins over an earlier one where its words say so: "My budget is now 45k (was 42k)."

_VALUE = regex(r"(?<![A-Za-z0-9_])(?:[$€£¥]?\d[\d.,:/]*\d[\w%]*|[$€£¥]?\d[\w%]*)")
_WAS = regex(r" \(was [^()]*\)")
_DATE = regex(r" ?\(\d{4}[^()]*\)|\b\d{4}-\d\d-\d\d\b")
# "My budget is 45k" is said of one thing. Of other sentences only some say that something changed.
_ONE_THING = regex(
    r"(?:my|our) [\w ]{1,40} (?:is|are)\b|\b(?:is|are) now\b|我们?的[^，。]{1,10}(?:是|为)|现在"
    r"|改[成为]|私の|今は|이제",
    re.I,
)


def _supersede(pieces: Sequence[Piece]) -> list[Piece]:
    """Drop pieces that a later one of the same speaker repeats with other values."""
    newest: dict[tuple[str, str], Piece] = {}
    gone: set[tuple[int, int]] = set()
    for piece in pieces:
        template = _template(piece.text)
        if piece.priority == "CRITICAL" or is_call(piece.speaker) or not _ONE_THING.match(template):
            continue
        before = newest.get((piece.speaker, template))
        if before is not None and (was := _changed(before.text, piece.text)):
            gone.add(before.place)
            bare = _WAS.sub("", piece.text)
            said = bare.rstrip(".。!")
            piece.text = f"{said} (was {was}){bare[len(said) :]}"
        newest[piece.speaker, template] = piece
    needed = {piece.needs for piece in pieces}
    return [piece for piece in pieces if piece.place not in gone or piece.place in needed]


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


# -- Fitting pieces and values into the limit

_LEDGER_SHARE, _MIN_LEDGER = 0.1, 16
_CLOSE_ENOUGH = 8  # tokens that may stay unused
_TRIES = 4


def _selection(pieces: Sequence[Piece], said: Coverage) -> Selection:
    return Selection(pieces, {speaker: prefix_cost(speaker) for speaker in {c.speaker for c in pieces}}, said)


def _fit(selection: Selection, limit: int, write: Write) -> str:
    """Choose, write and count, then choose again with more or less room. Return "" if nothing fits."""
    room = limit
    best = ""
    for _ in range(_TRIES):
        give_way()
        chosen = selection.run(room)
        text = write(chosen)
        over = estimate(text) - limit
        if over <= 0 and len(text) > len(best) and chosen:
            best = text
        if -_CLOSE_ENOUGH < over <= 0 or (over <= 0 and len(chosen) == len(selection.pieces)):
            break
        # Start from what was spent, not from what was offered, so that at least one piece is dropped.
        room = (selection.spent if over > 0 else room) - over
    # What is written besides the pieces may keep each of these too long. Less of them is better than none.
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
