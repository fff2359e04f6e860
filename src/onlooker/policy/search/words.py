"""The tokenizer of search, shared by every index and every query.

Words are lower-cased, stripped of diacritics and reduced to their stem. Scripts without spaces between
words are split into single characters and pairs; a query uses the pairs, and a character only if it stands
alone. An identifier, a path or a number is kept whole (`src/app.py` as `src_app_py`) and in parts. A token
consists of letters, digits and underscores only, so no index splits it further.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise

from onlooker.domain.messages import Message
from onlooker.policy.text import CJK, regex

# -- Tokens

# Characters of one text that are read. Anything beyond is data that nobody searches for.
MAX_CHARACTERS = 200_000
# The longest token. Anything longer is not a word.
MAX_TOKEN_LENGTH = 64

# Scripts without spaces between words: CJK with rare characters, Thai, Lao, Burmese, Khmer.
_UNSPACED = f"{CJK}\u3005-\u3007\U00020000-\U0003ffff\u0e01-\u0e4e\u0e81-\u0ecd\u1000-\u109f\u1780-\u17d3"
# Marks that are part of a word but not of Python's \w.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u0900-\u0963\u0966-\u0dff"
)
_LETTER = f"[^\\W_{_UNSPACED}]"
_PART = f"{_LETTER}++(?:[{_MARKS}]{_LETTER}*+)*+"
_JOINT = r"(?:[_./\\:@#+&=~-]+|['’](?=\w))"
_SPACED_RUN = f"{_PART}(?:{_JOINT}{_PART})*"
_RUN = regex(f"(?P<unspaced>[{_UNSPACED}]+)|{_SPACED_RUN}")
_PARTS = regex(_PART)
# The same for texts of ASCII alone: the ranges above take milliseconds to compile, and a run without a group
# is found in half the time.
_ASCII_PARTS = regex(r"[A-Za-z0-9]++")
_ASCII_RUN = regex(rf"[A-Za-z0-9]++(?:{_JOINT}[A-Za-z0-9]++)*")
# Signs that keyboards do not have, as others that part words alike. With them gone, most texts are ASCII.
_PLAIN_SIGNS = str.maketrans({"’": "'"} | dict.fromkeys("‘“”„‚«»‹›–—−·•→←×€£§°", " "))
_SLASH = regex(r"[/\\]")
_HUMPS = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_GROUPED = regex(r"[,'’\u202f\u00a0](?<=\d.)(?=\d{3}(?!\d))")
# Parts after an apostrophe in English, or before it in French and Italian.
_CLITICS = frozenset("s t d m re ve ll l n c j qu dell nell all un".split())  # noqa: SIM905
# Diacritics of Latin, Greek and Cyrillic, vowel points of Hebrew and Arabic.
_FOLDED = regex("[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u064b-\u0652\u0670]")

# Words that say nothing about the topic of a question. The index contains them, so that a question of
# nothing else still finds something.
STOP_WORDS = frozenset(
    """a about after again all also although am an and any are as at be because been before being between
    both but by can could did do does doing done don during each ever few for from had has have having he
    her here hers herself him himself his how i if in into is isn it its itself just let like likely many
    may me might more most much must my myself no nor not of off on once one only or other our ours out
    over own per please same shall she should since so some such tell than that the their theirs them
    themselves then there these they this those though through to too under until up upon us very was we
    were what whatever when where whether which while who whom whose why will with within without would
    yes you your yours yourself""".split()  # noqa: SIM905
)


def tokens(text: str) -> list[str]:
    """Return the tokens of a text as an index stores them, in order, with repetitions."""
    return list(_tokens(text, asking=False))


def query_tokens(text: str) -> list[str]:
    """Return the distinct tokens of a query, in order, without stop words unless there is nothing else."""
    found = list(dict.fromkeys(_tokens(text, asking=True)))
    return [t for t in found if is_telling(t)] or found


def telling_tokens(text: str) -> list[str]:
    """Return the distinct tokens of a query, in order, without stop words."""
    return [t for t in dict.fromkeys(_tokens(text, asking=True)) if is_telling(t)]


def is_telling(token: str) -> bool:
    """Return whether a token is not a stop word."""
    return token not in _STOP_TOKENS


def _tokens(text: str, *, asking: bool) -> Iterable[str]:
    text = text[:MAX_CHARACTERS]
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = (_GROUPED.sub("", text) if _GROUPED.search(text) else text).translate(_PLAIN_SIGNS)
    # No token goes beyond a blank, most texts say what others have said, and one dash or quotation mark makes
    # no other word foreign.
    parts = text.split()
    if text.isascii():
        return chain.from_iterable(map(_ascii_tokens.__getitem__, parts))
    return chain.from_iterable(
        [_ascii_tokens[part] if part.isascii() else _runs(part, asking) for part in parts]
    )


class _Tokens(dict[str, tuple[str, ...]]):
    """The tokens of what stands between two blanks, in ASCII."""

    def __missing__(self, part: str) -> tuple[str, ...]:
        bare = _GROUPED.sub("", part) if _GROUPED.search(part) else part
        found = tuple(chain.from_iterable(map(_words.__wrapped__, _ASCII_RUN.findall(bare))))
        if len(part) <= CACHED_RUN:
            if len(self) >= _MOST_CACHED:
                self.clear()
            self[part] = found
        return found


_MOST_CACHED = 8_192
_ascii_tokens = _Tokens()


def _runs(text: str, asking: bool) -> Iterator[str]:
    for run in _RUN.finditer(text):
        if run.lastgroup:
            yield from _characters(run[0], asking)
        else:
            word = run[0]
            yield from _words(word) if len(word) <= CACHED_RUN else _words.__wrapped__(word)


def _characters(run: str, asking: bool) -> Iterator[str]:
    if not asking or len(run) == 1:
        yield from run
    for left, right in pairwise(run):
        yield left + right


# Longer runs are data, which no other text has.
CACHED_RUN = 64


@lru_cache(maxsize=8_192)
def _words(run: str) -> tuple[str, ...]:
    """Return the parts of a run, and the whole if there are several."""
    if run.isalpha() and (run.islower() or run[1:].islower() or run.isupper()):
        return (stem(_folded(run)),)
    pattern = _ASCII_PARTS if run.isascii() else _PARTS
    parts = pattern.findall(run)
    if "'" in run or "’" in run:
        parts = [p for p in parts if p.lower() not in _CLITICS] or parts
    found = [t for part in parts for t in _humps(part)]
    if len(parts) > 1:
        found.append(_joined(parts))
        if "/" in run or "\\" in run:
            # Each name in a path is a token too: people search for `main.py`.
            names = [pattern.findall(name) for name in _SLASH.split(run)]
            found += [_joined(name) for name in names if 1 < len(name) < len(parts)]
    return tuple(found)


def _joined(parts: Sequence[str]) -> str:
    return "_".join(map(_folded, parts))[:MAX_TOKEN_LENGTH]


def _humps(part: str) -> list[str]:
    """Return a word, and the words inside a name such as `getUserName` or GitHub."""
    whole = stem(_folded(part))
    if not part.isascii() or not part.isalpha() or part.islower() or part.isupper():
        return [whole]
    humps = _HUMPS.findall(part)
    return [whole] if len(humps) == 1 else [*(stem(h.lower()) for h in humps), whole]


def _folded(word: str) -> str:
    word = word[:MAX_TOKEN_LENGTH].lower()
    if word.isascii():
        return word
    plain = _FOLDED.sub("", unicodedata.normalize("NFD", word))
    return unicodedata.normalize("NFC", plain).replace("ß", "ss").replace("ø", "o").replace("ł", "l")


# -- Searchable text

# Characters of a call's arguments that can be found. Anything beyond is data.
MAX_ARGUMENTS_LENGTH = 2_000
# Notes whose tokens are cached: at most 8 MB of them, and as much of tokens.
CACHED_TEXTS = 1_024
CACHED_LENGTH = 8_000


def text_of(message: Message) -> str:
    """Return the searchable text of a message, including its tool calls."""
    if not message.calls:
        return message.body
    calls = (f"→ {c.name}({c.arguments[:MAX_ARGUMENTS_LENGTH]})" for c in message.calls)
    return "\n".join(t for t in (message.body, *calls) if t)


def words_of(text: str) -> str:
    """Return the tokens of a text as an index stores them, joined by spaces."""
    return _words_of(text) if len(text) <= CACHED_LENGTH else _words_of.__wrapped__(text)


@lru_cache(maxsize=CACHED_TEXTS)
def _words_of(text: str) -> str:
    return " ".join(tokens(text))


# -- A light stemmer for English: "hiking", "hiked" and "hikes" have one stem

# Irregular verbs and plurals.
_IRREGULAR = {
    form: stem
    for stem, forms in {
        "go": "went gone goes going",
        "buy": "bought",
        "bring": "brought",
        "think": "thought",
        "teach": "taught",
        "catch": "caught",
        "feel": "felt",
        "keep": "kept",
        "sleep": "slept",
        "leave": "left",
        "meet": "met",
        "tell": "told",
        "sell": "sold",
        "find": "found",
        "get": "got gotten",
        "give": "gave given",
        "take": "took taken",
        "make": "made",
        "come": "came",
        "become": "became",
        "begin": "began begun",
        "run": "ran",
        "sing": "sang sung",
        "swim": "swam swum",
        "drink": "drank drunk",
        "write": "wrote written",
        "ride": "rode ridden",
        "drive": "drove driven",
        "speak": "spoke spoken",
        "break": "broke broken",
        "choose": "chose chosen",
        "wear": "wore worn",
        "grow": "grew grown",
        "know": "knew known",
        "draw": "drew drawn",
        "fly": "flew flown",
        "see": "saw seen",
        "eat": "ate eaten",
        "fall": "fell fallen",
        "forget": "forgot forgotten",
        "win": "won",
        "lose": "lost",
        "build": "built",
        "send": "sent",
        "spend": "spent",
        "pay": "paid",
        "say": "said",
        "hear": "heard",
        "hold": "held",
        "stand": "stood",
        "understand": "understood",
        "child": "children",
        "man": "men",
        "woman": "women",
        "foot": "feet",
        "mouse": "mice",
        "life": "lives",
        "wife": "wives",
        "person": "people",
    }.items()
    for form in forms.split()
}
# Words that only seem to have an ending.
_AS_THEY_ARE = frozenset(
    ("news", "always", "perhaps", "during", "nothing", "something", "anything", "morning")
)
_VOWELS = frozenset("aeiouy")
_DOUBLED = frozenset("bdgmnprt")


@lru_cache(maxsize=8_192)
def stem(word: str) -> str:
    """Return the stem of a lower-case word. A word with other than plain Latin letters is unchanged."""
    if len(word) < 3 or word in _AS_THEY_ARE or not (word.isascii() and word.isalpha()):
        return word
    word = _IRREGULAR.get(word, word)
    word = _without_tense(_without_plural(word))
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    return _without_last_vowel(word)


def _without_plural(word: str) -> str:
    if not word.endswith("s") or len(word) < 4 or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def _without_tense(word: str) -> str:
    if word.endswith("ied") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and not _VOWELS.isdisjoint(rest):
            # "planned" comes from "plan", but "called" from "call".
            return rest[:-1] if rest[-1] == rest[-2] and rest[-1] in _DOUBLED else rest
    return word


def _without_last_vowel(word: str) -> str:
    """Make "hike" and "hik(ing)" equal, as well as "study" and "studi(ed)"."""
    if len(word) > 3 and word.endswith("e"):
        return word[:-1]
    if len(word) > 3 and word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "i"
    return word


_STOP_TOKENS = STOP_WORDS | {stem(w) for w in STOP_WORDS}
