"""Traces each word of a built-in note to the sentence that it was copied from.

Written apart from the model: it knows the words that may be cut and those that may not, and none of the
model's patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from onlooker.domain.messages import Message
from onlooker.policy.reply import read
from onlooker.policy.text import sentences

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\ud7af]+(?:['’][^\W\d_]+)?")
_DATE = re.compile(r" ?\((?:19|20)\d\d[-/\dW]*\)")
_ADDED = re.compile(r"\[\d+ lines of code[^\]]*\]|\[pic: | \(was [^()]*\)")
# Words at the edges of a sentence that may be cut.
_OPENINGS = (
    "wow whoa woo woohoo phew oof yay yikes ugh whew geez gosh omg oh ooh aw aww ah haha hahaha hah lol "
    "hm hmm hey hi hello there btw and also plus good morning evening guess what by the way anyway well so "
    "you know man dude okay ok alright congrats congratulations thanks thank much a lot bunch again very "
    "cool nice awesome great amazing sweet no problem worries of course for sure honestly to be honest "
    "yeah yep yup yes sure absolutely definitely totally exactly right true certainly same here i agree"
)
FILLERS = frozenset(_OPENINGS.split())
# What is said with one of these is not said without it.
_GOVERNS = (
    "if unless until when whenever while whether because although though but however except instead "
    "never nor neither without hardly barely cannot think guess guessing hope maybe perhaps probably "
    "possibly apparently seems might could would should only not wish"
)
GOVERNING = frozenset(_GOVERNS.split())
_CJK_GOVERNING = re.compile(
    "如果|除非|因为|但|不|没|也许|可能|もし|から|ない|ません|かもしれ|만약|때문|않|아니|지만"
)
_FEW_WORDS = 5
_PERSONS = frozenset({"he", "she", "they", "him", "them"})
# A sentence that speaks of somebody: by a name, or by what they are to the speaker.
_SEVERAL = re.compile(r"\b(?!(?:this|was|has|does|its|yes)\b)\w{3,}(?<!s)s\b|\bpeople\b|\bcrew\b", re.I)
# Where somebody went is nobody, nor is a month, nor a pronoun with a capital.
_NO_NAME = r"(?!(?:He|She|They|It|We|You|My|This|That|What|Who|How|May)\b)"
_SOMEBODY = re.compile(
    rf"(?<=[a-z,] )(?<!to )(?<!in ){_NO_NAME}[A-Z][a-z]+|^{_NO_NAME}"
    r"[A-Z][a-z]+ (?:[a-z]+ed|met|sold|ran|paid|read|like|is|was|has)\b"
    r"|\b(?:cousin|aunt|uncle|woman|man|sister|brother|friend|vet|mom|mum|dad|mother|father|son|daughter|wife|husband|kid|dog|cat|puppy"
    r"|pup|doctor|teacher|coach|partner|girlfriend|boyfriend|someone|people)s?\b"
)


class Sentence(NamedTuple):
    """A sentence of a message, as words."""

    message: int
    words: tuple[str, ...]
    text: str
    opens: bool  # nothing before it in its message says anything


class Run(NamedTuple):
    """Words of a note that are a run of words of one sentence."""

    sentence: Sentence
    start: int
    end: int


def words(text: str) -> tuple[str, ...]:
    return tuple(word.lower().replace("’", "'") for word in _TOKEN.findall(text))


def untraced(note: str, messages: Sequence[Message], exempt: frozenset[str] = frozenset()) -> list[str]:
    """Return what is wrong with a note: each line with words that nobody said so, and why.

    `exempt` are the names by which speakers address each other.
    """
    said: dict[str, list[Sentence]] = {}
    everything: list[Sentence] = []
    for i, message in enumerate(messages):
        opens = True
        for sentence in (part for line in message.text.split("\n") for part in sentences(line)):
            everything.append(Sentence(i, words(sentence), sentence, opens))
            said.setdefault(message.speaker, []).append(everything[-1])
            opens = opens and len(words(sentence)) < _FEW_WORDS
    wrong: list[str] = []
    before: list[Run | None] = [None]  # what the run before may be, if it was said several times
    noted_before: set[Sentence] = set()
    for speaker, text in _quoted(note):
        # By sentence: two of them may have the words of one that somebody said.
        noted = [words(_ADDED.sub(" ", _DATE.sub("", part))) for part in sentences(text)]
        found = [_runs(part, said.get(speaker, [])) for part in noted]
        runs, rest = [run for each, _ in found for run in each], [word for _, left in found for word in left]
        if rest:
            wrong.append(f"{speaker}: {' '.join(rest)!r} was not said: {text}")
        for candidates in runs:
            faults = {
                run: min(
                    (
                        [
                            *_faults(
                                run,
                                one,
                                text,
                                exempt,
                                _meant(run, everything, exempt) in noted_before,
                                next(s.message for s in everything if s.words == run.sentence.words),
                            )
                        ]
                        for one in before
                    ),
                    key=len,
                )
                for run in candidates
            }
            fewest = min(faults.values(), key=len)
            before = [run for run in candidates if len(faults[run]) == len(fewest)]
            wrong.extend(f"{reason}: {text}" for reason in fewest)
            noted_before |= {run.sentence for run in candidates}
    return wrong


def _quoted(note: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a note that quote somebody, with their speaker."""
    for line in read(note, format="lines").lines:
        speaker, colon, text = line.text.partition(": ")
        if colon and not speaker.endswith(")"):
            yield speaker, text


def _runs(noted: Sequence[str], said: Sequence[Sentence]) -> tuple[list[list[Run]], list[str]]:
    """Cover the words by the longest runs of one sentence each: for each run, every sentence that has it.
    Return what is left, too."""
    runs: list[list[Run]] = []
    rest: list[str] = []
    at = 0
    while at < len(noted):
        found = list(_matches(noted, at, said))
        longest = max((run.end - run.start for run in found), default=0)
        if longest:
            runs.append([run for run in found if run.end - run.start == longest])
        else:
            rest.append(noted[at])
        at += max(1, longest)
    return runs, rest


def _matches(noted: Sequence[str], at: int, said: Iterable[Sentence]) -> Iterator[Run]:
    for sentence in said:
        for start, word in enumerate(sentence.words):
            if word == noted[at]:
                end = start
                while end < len(sentence.words) and noted[at + end - start : at + end - start + 1] == (
                    sentence.words[end],
                ):
                    end += 1
                yield Run(sentence, start, end)


def _meant(run: Run, everything: Sequence[Sentence], exempt: frozenset[str]) -> Sentence | None:
    """Return the last sentence before that speaks of somebody, beside the speakers, or of several. What was
    said twice means the same both times."""
    earlier = [one for one in everything[: everything.index(run.sentence)] if one.words != run.sentence.words]
    if run.sentence.words[run.start] in ("they", "them"):
        return next((one for one in reversed(earlier) if _SEVERAL.search(one.text)), None)
    return next(
        (
            one
            for one in reversed(earlier)
            if any(name.lower() not in exempt for name in _SOMEBODY.findall(one.text))
        ),
        None,
    )


def _faults(
    run: Run, before: Run | None, text: str, exempt: frozenset[str], is_named: bool, first: int
) -> Iterator[str]:
    """Yield what is wrong with a run; `first` is the message in which its words were said first."""
    all_words = run.sentence.words
    lost = [*all_words[: run.start], *all_words[run.end :]]
    serious = [word for word in lost if word not in FILLERS and word not in exempt]
    governed = GOVERNING & {*all_words} or any(word.endswith("n't") for word in all_words)
    if len(all_words) - len(lost) == 1 and len(serious) > 1:
        yield f"{all_words[run.start]!r} alone of {run.sentence.text!r}"
    if serious and (governed or _CJK_GOVERNING.search(run.sentence.text)) and "…" not in text:
        yield f"{' '.join(serious)!r} was cut from {run.sentence.text!r}"
    opens_all = run.sentence.message == 0 and run.sentence.opens  # nobody has said who is meant
    if all_words[run.start] in _PERSONS and run.sentence.text[:1].isupper() and not opens_all:
        near = (0, 1) if run.sentence.opens else (0,)
        follows = before is not None and any(
            said - before.sentence.message in near for said in (run.sentence.message, first)
        )
        if not follows and not is_named:
            yield f"nobody says who {all_words[run.start]!r} is"
