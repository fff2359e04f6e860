"""Whose words a text is made of: the user's own, what they quoted or attached, an assistant's, or a tool's.

The author of the text is not relied on: a page may have told a model that the user said so. Each line's words
are looked for in what everybody said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property, lru_cache
from itertools import chain

from onlooker.domain.items import Origin
from onlooker.domain.messages import Message
from onlooker.policy.instructions import own_and_quoted
from onlooker.policy.pace import give_way
from onlooker.policy.reply.note_text import QUOTED_BY
from onlooker.policy.search.words import telling_tokens, tokens
from onlooker.policy.text import bounded, regex, sentences
from onlooker.policy.vocabulary import COMMON_WORDS

_SPEAKER = regex(r"(?P<who>[\w.-]+\([^\n]*?\)|[^\s:：][^:：;]{0,40}?)\s?[:：]\s+(?=\S)")


def speaker_of(text: str) -> tuple[str, str]:
    """Split a line into its speaker, empty if there is none, and the rest."""
    match = _SPEAKER.match(text)
    return (match["who"], text[match.end() :]) if match else ("", text)


def origin_of(speaker: str) -> Origin:
    """Return the origin of a line by its speaker. A call such as `search(x)` is a tool's, and what someone
    quotes counts as one."""
    if speaker.endswith(")") or speaker.startswith(("tool", "→", QUOTED_BY)):
        return "tool"
    return "agent" if speaker.casefold() in ("assistant", "system") else "user"


class Part:
    """What someone said, and how a line that repeats it names them. Most are not looked at, so their words
    are found when they are first asked for."""

    def __init__(self, origin: Origin, label: str, text: str) -> None:
        self.origin: Origin = origin
        self.label = label
        self._text = text

    @cached_property
    def words(self) -> frozenset[str]:
        give_way()
        return frozenset(tokens(self._text))


def parts_of(messages: Iterable[Message]) -> Iterator[Part]:
    """Yield the texts of messages, each with whose words it is. What a user quotes counts as a tool's."""
    for message in messages:
        give_way()
        if message.role == "user":
            for is_own, text in own_and_quoted(bounded(message.body)):
                label = message.speaker if is_own else f"{QUOTED_BY}{message.speaker}"
                yield Part("user" if is_own else "tool", label, text)
        else:
            text = bounded(message.body)
            is_agent = message.role == "assistant"
            yield Part("agent", message.speaker, text) if is_agent else Part("tool", "tool", text)
        for call in message.calls:
            yield Part("tool", "tool", bounded(call.arguments))


def noted_parts(notes: Iterable[str]) -> Iterator[Part]:
    """Yield the lines of notes. A line that names nobody was found to be the user's, or nobody's, before."""
    for note in notes:
        yield from _noted(note)


@lru_cache(maxsize=64)  # each note is read again with every note after it
def _noted(note: str) -> list[Part]:
    parts: list[Part] = []
    for line in note.splitlines():
        if (found := _LINE.match(line)) and (said := found["text"]):
            who, rest = speaker_of(said)
            origin = origin_of(who)
            label = {"user": "user", "agent": "assistant", "tool": "tool"}[origin]
            parts.append(Part(origin, who if who.startswith(QUOTED_BY) else label, rest))
    return parts


# -- Facts


def whose_words(summary: str, parts: Iterable[Part]) -> Origin:
    """Return whose words a summary is made of, by the part that holds most of them.

    An assistant repeats what the user says, so its words count only if the user said little of it.
    """
    wanted = set(telling_tokens(summary)) - _ROLES
    by_origin: dict[Origin, list[Part]] = {"user": [], "tool": [], "agent": []}
    for part in parts:
        by_origin[part.origin].append(part)

    def most(origin: Origin, enough: int) -> int:
        """The most of the words in one part. No more parts are read once that is enough."""
        best = 0
        for part in by_origin[origin]:
            if best >= enough:
                break
            best = max(best, len(wanted & part.words))
        return best

    said = most("user", len(wanted))
    if said < len(wanted) and most("tool", said + 1) > said:
        return "tool"
    return "agent" if 2 * said < len(wanted) and most("agent", 2 * said + 1) > 2 * said else "user"


# -- Lines of notes

_LINE = regex(
    r"^(?P<stamp>(?:\[[^\]\n]{0,30}\] |On \d{4}-\d\d-\d\d, )?)(?P<priority>(?:CRITICAL |IMPORTANT |NOTE )?)"
    r"(?!#|Values:)(?P<text>\S.*)$",
    re.M,
)
_ROLES = frozenset({"user", "assistant"})
_OF_THE_USER = regex(r"(?:the )?user\b|(?:i|i['’]m|i['’]ve|my|we|our)\b", re.I)
# A word that every conversation has says little about whose line it is: a fifth of another. In whole numbers,
# whose sum is the same in any order: a set has another one in each process.
_WEIGHT, _COMMON_WEIGHT = 5, 1
# How many times as much of a line someone else must have said, and the user not, for it to be theirs.
_TIMES = 2


@cache
def _common() -> frozenset[str]:
    return frozenset(tokens(COMMON_WORDS))


def _weight(words: frozenset[str]) -> int:
    return _WEIGHT * len(words) - (_WEIGHT - _COMMON_WEIGHT) * len(words & _common())


def reattributed(note: str, parts: Iterable[Part], noted: Iterable[Part] = (), *, prose: bool = False) -> str:
    """Attribute the lines of a note to those who said them, in messages or in the notes that the model was
    shown.

    A line that is given to the user, or to nobody, and of which the user said next to nothing, gets the name
    of who said it before it: a tool, an assistant, or the person who quoted it. If it was said to be the
    user's, its priority goes; any other line of a tool's is at most important.
    """
    said = list(parts)
    if all(part.origin == "user" for part in said):
        said, noted = [*said, *noted], ()
    own = [part for part in said if part.origin == "user"]
    others = [part for part in said if part.origin != "user"]
    if not others:
        return note

    def own_in_notes() -> Iterator[Part]:
        for part in noted:
            (own if part.origin == "user" else others).append(part)
            if part.origin == "user":
                yield part

    # Most lines come from the messages: then the notes are not read.
    unheard = chain(tuple(own), own_in_notes())
    people = {part.label.casefold() for part in own} | {"user"}
    heard: set[str] = set()

    def never_said(wanted: frozenset[str]) -> frozenset[str]:
        """The words that the user never said. Most lines come from the first messages, so no others are
        read."""
        left = wanted - heard
        while left and (part := next(unheard, None)):
            heard.update(part.words)
            left -= part.words
        return left

    def attribute(line: re.Match[str]) -> str:
        who, text = speaker_of(line["text"])
        claims_user = who.casefold() in people or bool(_OF_THE_USER.match(line["text"]))
        if not claims_user and origin_of(who) != "user":
            return line[0]
        wanted = frozenset(telling_tokens(text if claims_user else line["text"])) - _ROLES
        if not (unsaid := never_said(wanted)):
            return line[0]
        # Most share no word: then there is nothing to weigh.
        said_by = [(_weight(both), p.origin, p.label) for p in others if (both := unsaid & p.words)]
        if not said_by:
            return line[0]
        share, origin, label = max(said_by)
        if share <= _TIMES * max([_weight(both) for p in own if (both := wanted & p.words)], default=0):
            return line[0]
        if origin == "agent" and (label != "assistant" or not claims_user):
            return line[0]  # of two people who talk, one has the assistant's role
        if claims_user:
            return f"{line['stamp']}{label}: {text if who.casefold() == 'user' else line['text']}"
        priority = line["priority"].replace("CRITICAL", "IMPORTANT")
        return f"{line['stamp']}{priority}{label}: {line['text']}"

    if prose:
        return " ".join(_LINE.sub(attribute, sentence) for sentence in sentences(note))
    return _LINE.sub(attribute, note)
