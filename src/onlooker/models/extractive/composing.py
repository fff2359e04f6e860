"""From a request to its note."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from onlooker.domain.messages import Message
from onlooker.domain.notes import NoteFormat
from onlooker.models.extractive.clause import Clause
from onlooker.models.extractive.lists import is_list, listed
from onlooker.models.extractive.observe import Reader, bounded, plain
from onlooker.models.extractive.page import prefix_cost, read_notes, render, render_prose
from onlooker.models.extractive.reflect import weighed
from onlooker.models.extractive.select import Coverage, Selection, Told, new_to, without_repeats
from onlooker.models.extractive.units import units
from onlooker.policy.tokens import estimate, estimator
from onlooker.policy.values import NAMING, audit, holds, values_line
from onlooker.ports import ObserveRequest, ReflectRequest, Request

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
