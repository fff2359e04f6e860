"""Patterns, sentences, clauses, scripts and languages of running text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, AnyStr, cast

from onlooker.policy.pace import give_way


class _Regex:
    """Stands for a pattern until it is first used."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        give_way()  # compiling takes milliseconds, and a first note needs many patterns
        value = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, value)  # so that the next use finds it at once
        return value


def regex(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled when it is first used, since compiling takes most of an import."""
    return cast("re.Pattern[AnyStr]", _Regex(source, flags))


# How many characters of one text are read: a pasted file is not read to its end.
MAX_READ = 100_000
_BLANKS = regex(r"\s\s{4,}")  # a pattern that begins with one character is found several times faster


def plain_problem(message: str) -> str:
    """What a validator says of an argument, in our words: "must be an integer"."""
    message = re.sub(r"\b(?:Input|Value|String|List) should (be|have) ", r"must \1 ", message)
    message = re.sub(r"\bValue error, ", "", message)
    message = re.sub(r", unable to (?:parse|interpret) .*$", "", message)
    for theirs, ours in _PLAIN.items():
        message = message.replace(theirs, ours)
    return message


_PLAIN = {
    "a valid integer": "an integer",
    "a valid number": "a number",
    "a valid string": "text",
    "a valid boolean": "true or false",
    "a valid list": "a list",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "Field required": "is missing",
    "Extra inputs are not permitted": "is not known here",
}


def count(number: int, noun: str) -> str:
    """Format a number with its noun: "1 note", "2,000 notes"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def bounded(text: str, limit: int = MAX_READ) -> str:
    """Keep both ends of a text that is too long to read, and of long blanks a line break or a few spaces.

    Patterns that begin with blanks take a time that grows with the square of their number.
    """
    if len(text) > limit:
        text = f"{text[: limit // 2]}\n{text[-limit // 2 :]}"
    return _BLANKS.sub(lambda found: "\n\n" if "\n" in found[0] else "    ", text)


def beginning(text: str) -> str:
    """The part of a text that is read, up to the end of a word: half of a secret would not be recognised."""
    if len(text) <= MAX_READ:
        return text
    end = max(text.rfind(blank, MAX_READ - 1_000, MAX_READ) for blank in " \n")
    return text[: end if end > 0 else MAX_READ]


# Characters that end a line, and invisible ones: controls, zero-width, bidirectional and tag characters.
_LINE_ENDS = regex("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_UNSEEN = regex(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\U000e0000-\U000e007f]+"
)
# What would make a name read as a speaker and their words, a heading, a label or a priority.
_NO_PART_OF_A_NAME = regex(r"[:：;\[\]#<>|*`\s]+")
_MARK = regex(r"\b(?:CRITICAL|IMPORTANT|NOTE|Values)\b")
UNNAMED = "unnamed"
_NAME_END = regex("(?<=\\w)\\s*[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029:：;]")
MAX_NAME_LENGTH = 60


_SURROGATE = regex("[\ud800-\udfff]")


def encodable(text: str) -> str:
    """A text that UTF-8 can hold: half of a character becomes the sign for an unknown one."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def seen(text: str) -> str:
    """A text without invisible characters."""
    return _UNSEEN.sub("", text)


def as_name(text: str) -> str:
    """A name that someone chose, made safe to put before their words. It ends at a line end, a colon, a
    semicolon, or a word that marks a note.
    """
    given = seen(text[: 4 * MAX_NAME_LENGTH]).strip()
    plain = _MARK.split(_NAME_END.split(given, maxsplit=1)[0], maxsplit=1)[0]
    name = " ".join(_NO_PART_OF_A_NAME.sub(" ", plain).split())[:MAX_NAME_LENGTH].rstrip()
    # Without a name, their words would count as the user's.
    return name or (UNNAMED if given else "")


def indented(text: str) -> str:
    """A text whose lines after the first are indented, so that none passes for a heading or a message."""
    if text.isascii() and text.isprintable():  # as most texts are
        return text
    return seen(_LINE_ENDS.sub("\n  ", text))


# Han, kana and hangul: written without spaces between words, or counted by character.
CJK = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
CJK_CHARACTER = regex(f"[{CJK}]")

# An abbreviation, or the number of a list item.
_NO_END = regex(
    r"\b(?:Dr|Mr|Mrs|Ms|Prof|St|Jr|Sr|vs|approx|No|Nr|Fig|e\.g|i\.e|a\.m|p\.m|z\.B|ca|bzw|Sra?|Mme|M|[A-Z]\.[A-Z])\.$|(?:^|[.;:!?)]\s)\(?\d{1,2}\.$"
)
# A full stop ends a sentence only before something that can begin one.
# Without a space after it, a mark of ASCII ends one only before such a script: not in `a != b` or a URL.
# A run of marks is looked at from its first one only, or a long run would be read again from each.
_SENTENCE_END = regex(
    rf"[.!?…。！？\n](?:(?<=[.!?…])(?<![.!?…]{{2}})[.!?…]*[\"”’')\]]*(?=\s+[^\sa-zà-ÿ])"
    rf"|(?<=[。！？])[。！？!?…]*[」』”’)）]*"
    rf"|(?<=[!?…])(?<![!?…]{{2}})[!?…]*[」』”’)）]*(?=[{CJK}])|(?<=\n)\n*)"
)
_BULLET = regex(r"^\s*(?:[-*•·▪●]|\d{1,2}[.)、]|[#>]+)\s+")

# It begins with one character, since such a pattern is found several times faster.
_CLAUSE_BREAK = regex(
    r"""[\s;…；,](?:(?<=\s)\s*[-–—]+\s+ | (?<=[;…])\s+ | (?<=；)
    | (?<=,)\s+(?=(?:and|but|so|which|because|since|while|though|although|plus|then)\s)
    | (?<=\s)\s*(?=(?:and|but|so)\s+(?:i|we|he|she|they|it|my|you|it's|i'm|i've|we're|i'd|i'll)\b)
    | (?<=,)\s+(?=(?:i|we|he|she|they|it's|i'm|i've|it|we're|we've|i'd|i'll|my)\s)
    | (?<=\s)(?<!\band\s)(?<!\bbut\s)(?<!\bso\s)\s*(?=(?:because|while|when|where|even\ though|so\ that
        |'?cause|after|before)\s+(?:i|we|he|she|they|it|my|it's|i'm|you|the)\b))""",
    re.I | re.X,
)
_CJK_BREAK = regex("[，；,;]")
# A clause that begins with one of these is a condition of the next one, so the two stay together.
_SUBORDINATE = regex(
    r"^(?:if|unless|until|when|whenever|once|since|after|before|while|as|although|though|because|even if)\b",
    re.I,
)
_MIN_WORDS = 4
_MIN_CJK = 8


def has_cjk(text: str) -> bool:
    """Return whether any character is Han, kana or hangul."""
    return not text.isascii() and max(text) >= CJK[0] and CJK_CHARACTER.search(text) is not None


def is_cjk(text: str) -> bool:
    """Return whether at least a third of the letters are Han, kana or hangul."""
    if text.isascii() or max(text) < CJK[0]:  # their pattern takes milliseconds to compile
        return False
    letters = sum(map(str.isalpha, text))
    return letters > 0 and 3 * len(CJK_CHARACTER.findall(text)) >= letters


def sentences(text: str) -> list[str]:
    """Split a text into sentences, without bullets. A line break always ends a sentence."""
    found: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if end[0].startswith(".") and _NO_END.search(text, max(start, end.start() - 8), end.start() + 1):
            continue
        found.append(text[start : end.end()])
        start = end.end()
    found.append(text[start:])
    trimmed = (_BULLET.sub("", part).strip() for part in found)
    return [part for part in trimmed if part]


# Letters that are not plain: no punctuation, dash, emoji or sign.
_FOREIGN = regex("[^\x00-\xbf\u2000-\u2bff\ufe0f\U0001f000-\U0001faff]")
# Lower case, and a space for all but letters. In a text of ASCII this splits words several times faster.
_ASCII_LETTERS = {i: c.lower() if (c := chr(i)).isalpha() else " " for i in range(128)}


@lru_cache(maxsize=8)  # a sentence is asked about several times in a row
def plain_words(text: str) -> frozenset[str] | None:
    """Return the words of a text in small letters, split at all but letters; None if it has other letters
    than plain ones, or a CJK character."""
    if not text.isascii():
        if _FOREIGN.search(text):
            return None
        text = text.encode("ascii", "replace").decode()
    return frozenset(text.translate(_ASCII_LETTERS).split())


@lru_cache(maxsize=2)  # a source is searched in several ways in a row
def said_once(text: str) -> frozenset[str]:
    """Return the parts of a text between its spaces, in small letters, each once. Texts repeat most of them,
    so a part of a word is found sooner among these."""
    return frozenset(text.lower().split())


class Phrases:
    """A pattern of whole words, and words of which each of its matches has one.

    Looking for the words of a text among these is much quicker than looking for the pattern in it, and most
    texts have none. Matches with other than plain letters need no word: such texts are always searched.
    """

    def __init__(self, pattern: str, words: str, flags: int = 0) -> None:
        self.pattern = regex(pattern, flags)
        self.words = frozenset(words.split())

    def may_be_in(self, words: frozenset[str] | None) -> bool:
        return words is None or not self.words.isdisjoint(words)

    def search(self, text: str, words: frozenset[str] | None) -> re.Match[str] | None:
        """Search a text, whose words are given (`plain_words`)."""
        return self.pattern.search(text) if self.may_be_in(words) else None


def clauses(sentence: str) -> list[str]:
    """Split a sentence into clauses that can be read alone. A condition stays with its clause."""
    return [*each_clause(sentence)]


def each_clause(sentence: str) -> Iterator[str]:
    """The same one by one, for callers that need only the first of a long sentence."""
    if is_cjk(sentence):
        return _joined(sentence, _spans(sentence, _CJK_BREAK), cjk=True)
    if len(sentence.split()) <= 2 * _MIN_WORDS:
        return iter((sentence,))
    return _joined(sentence, _spans(sentence, _CLAUSE_BREAK), cjk=False)


def _spans(sentence: str, breaks: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Find the pieces between breaks that are outside quotes and brackets."""
    start = 0
    for found in breaks.finditer(sentence):
        if not _is_inside(sentence[start : found.start()]):
            if start < found.start():
                yield start, found.start()
            start = found.end()
    if start < len(sentence):
        yield start, len(sentence)


def _is_inside(part: str) -> bool:
    """Return whether a quotation or bracket is open at the end."""
    return (
        part.count('"') % 2 == 1
        or part.count("`") % 2 == 1
        or any(part.count(left) > part.count(right) for left, right in ("“”", "()", "「」", "（）"))
    )


def _joined(sentence: str, spans: Iterator[tuple[int, int]], *, cjk: bool) -> Iterator[str]:
    """Join pieces that are too short to be read alone, and conditions, with their neighbour."""
    least, size = (_MIN_CJK, len) if cjk else (_MIN_WORDS, _count_words)
    first = last = 0  # the piece before
    for start, end in spans:
        before = sentence[first:last]
        if not before:
            first = start
        elif size(sentence[start:end]) >= least and size(before) >= least and not _SUBORDINATE.match(before):
            yield before.strip()
            first = start
        last = end
    if last:
        yield sentence[first:last].strip()


def _count_words(text: str) -> int:
    return len(text.split())


# -- Language, by script and common words

SAMPLE = 20_000  # characters, enough to tell the language of a text of any size

_SCRIPTS: dict[str, str] = {
    "latin": "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
    "han": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f",
    "kana": "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "cyrillic": "\u0400-\u052f",
    "arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff",
    "hebrew": "\u0590-\u05ff",
    "greek": "\u0370-\u03ff",
    "devanagari": "\u0900-\u097f",
    "bengali": "\u0980-\u09ff",
    "tamil": "\u0b80-\u0bff",
    "thai": "\u0e00-\u0e7f",
}
_LETTERS = {name: regex(f"[{letters}]") for name, letters in _SCRIPTS.items()}
# A character of these scripts carries as much as several letters of an alphabet.
_WEIGHT = {"han": 3.0, "kana": 2.0, "hangul": 2.0}

_CODE = regex(r"```.*?(?:```|\Z)|`[^`\n]*`", re.S)
# Names, paths, ids, addresses and role names are the same in every language: runs of ASCII with a digit or a
# sign of code, or a dot or colon inside; in capitals; a role. The first class is what else a run may have.
_NO_WORD = regex(
    r"(?<![!-~])(?:[!\"'*+,\-;?A-Z^`a-z]*+(?:[0-9_/\\@=<>{}()\[\]#$%&|~]|[.:][!-~])[!-~]*+"
    r"|(?:[A-Z]{2,}|user|assistant|tool|system)[!-/:-@\[-^`{-~]*+(?![!-~]))"
)

_COMMON_WORDS: dict[str, str] = {
    "english": "the and is was to of that for with it you are have this not be they she he will from has had",
    "german": "der die und das ist nicht ich ein eine zu mit sie den von auf dem für wir auch sich wurde hat",
    "french": "le la les et est pas je une des pour dans que qui vous nous avec ce sur au elle il sont été",
    "spanish": "el los las es una que por para con no se lo su como más pero muy está yo del fue han",
    "portuguese": "o os as uma que para com não se por mais mas você está do da em no na foi um são",
    "italian": "il gli che è una per con non si di sono come più ma anche della nel ha ho questo stato",
    "dutch": "de het een en van is niet ik dat op te zijn voor met je ook maar hij ze werd heeft wordt",
    "norwegian": "og er det jeg ikke på som en til av med for har vi den et å men skal ble ved hun",
    "swedish": "och är det jag inte på som en till av med för har vi den ett att men ska blev hon",
    "polish": "i w nie na się jest to z że do jak ale co tak już dla tym czy przez był są",
    "turkish": "ve bir bu için çok ne da de ile ama var ben mi gibi daha olarak değil olan sonra kadar",
    "indonesian": "dan yang di untuk dengan ini itu tidak saya ada akan dari ke juga sudah bisa pada karena",
    "vietnamese": "và là của có không tôi cho được trong một này với đã các để người khi những thì cũng",
}
_WORD_SETS = {language: frozenset(words.split()) for language, words in _COMMON_WORDS.items()}
_LANGUAGES_OF = {
    word: [language for language, known in _WORD_SETS.items() if word in known]
    for word in " ".join(_COMMON_WORDS.values()).split()
}
_WORD = regex(r"[^\W\d_]+")
_NO_ASCII_LETTERS = bytes(i for i in range(128) if not chr(i).isalpha())
_NOT_ASCII = regex(r"[^\x00-\x7f]+")

_ENOUGH_LETTERS = 24.0
_ENOUGH_SOURCE = 100.0
_ENOUGH_WORDS = 10


def language_of(text: str) -> str:
    """Return the language of a text, or its script if that is not Latin; "" if it is unclear."""
    text = text[:SAMPLE]
    scripts = _scripts(_prose_of(text))
    if sum(scripts.values()) < _ENOUGH_SOURCE:
        return ""
    main = max(scripts, key=lambda script: scripts[script])
    return _language(text) if main == "latin" else main


def wrong_language(note: str, source: str) -> str:
    """Say how the note's language differs from its source's; "" if it does not, or if that is unclear."""
    note, source = note[:SAMPLE], source[:SAMPLE]
    if note.isascii() and source.isascii():  # both are in the Latin script
        return _words_differ(note, source)
    difference = _script_differs(_scripts(_prose_of(note)), _scripts(_prose_of(source)))
    return difference or _words_differ(note, source)


def _script_differs(note: dict[str, float], source: dict[str, float]) -> str:
    if sum(note.values()) < _ENOUGH_LETTERS or sum(source.values()) < _ENOUGH_SOURCE:
        return ""
    # Japanese uses both Han and kana, and a note may have little of either.
    theirs, ours = _share(source), _share(note)
    if theirs.get("kana", 0) > 0.2 and ours.get("han", 0) > 0.6 and ours.get("kana", 0) < 0.02:
        return "in Chinese, of a conversation in Japanese"
    for shares in (theirs, ours):
        shares["han"] = shares.get("han", 0.0) + shares.pop("kana", 0.0)
    main = max(theirs, key=lambda script: theirs[script])
    written = max(ours, key=lambda script: ours[script])
    # If the conversation uses both scripts, a note may use only one of them.
    if (
        main != written
        and theirs[main] > 0.6
        and theirs.get(written, 0.0) < 0.3
        and ours.get(main, 0.0) < 0.1
    ):
        return f"in {written} script, of a conversation in {main} script"
    return ""


def _words_differ(note: str, source: str) -> str:
    ours = _language(note)
    theirs = _language(source) if ours else ""
    if theirs and theirs != ours and {theirs, ours} != {"norwegian", "swedish"}:
        return f"in {ours}, of a conversation in {theirs}"
    return ""


@lru_cache(maxsize=4)  # a source is compared with the note of it, and then asked for its language
def _language(text: str) -> str:
    """Return the language whose common words clearly dominate in the prose of a text, or ""."""
    hits: Counter[str] = Counter()
    for word, times in _common_words(text):
        for language in _LANGUAGES_OF[word]:
            hits[language] += times
    first, second = ([*hits.most_common(2), ("", 0), ("", 0)])[:2]
    return first[0] if first[1] >= _ENOUGH_WORDS and first[1] >= 2.5 * second[1] else ""


def _common_words(text: str) -> Iterator[tuple[str, int]]:
    """Find the common words of any language in the prose of a text, and how often they are said."""
    if not text.isascii():
        words = _WORD.findall(_prose_of(text).lower())
        yield from Counter(filter(_LANGUAGES_OF.__contains__, words)).items()
        return
    # Much is said again and again: each word is looked at once.
    for run, times in Counter((_CODE.sub(" ", text) if "`" in text else text).split()).items():
        for word in _common_in[run]:
            yield word, times


class _CommonIn(dict[str, tuple[str, ...]]):
    """The common words in what stands between two blanks, in ASCII."""

    def __missing__(self, run: str) -> tuple[str, ...]:
        if run.isalpha():
            words = [] if run.isupper() and len(run) > 1 else [run.lower()]
        else:
            words = _NO_WORD.sub(" ", run).translate(_ASCII_LETTERS).split()
        found = tuple(filter(_LANGUAGES_OF.__contains__, words))
        if len(run) <= _LONGEST_KEPT:
            if len(self) >= _MOST_KEPT:
                self.clear()
            self[run] = found
        return found


_MOST_KEPT, _LONGEST_KEPT = 2_048, 32
_common_in = _CommonIn((word, (word,)) for word in _LANGUAGES_OF)


@lru_cache(maxsize=4)
def _prose_of(text: str) -> str:
    return _NO_WORD.sub(" ", _CODE.sub(" ", text))


def _scripts(text: str) -> dict[str, float]:
    """Count letters by script, weighted."""
    latin = len(text.encode("ascii", "ignore").translate(None, _NO_ASCII_LETTERS))
    if text.isascii():  # the patterns below take milliseconds to compile
        return {"latin": float(latin)} if latin else {}
    # A text has few characters that differ, so each of them is looked up once.
    times = Counter("".join(_NOT_ASCII.findall(text)))
    # Of many, all are accents and signs: the patterns of the other scripts take milliseconds to compile.
    others = "".join(c for c in times if c >= "\u00c0" and not "\u2000" <= c <= "\u2bff")
    letters = _LETTERS if max(others, default="") > "\u024f" else {"latin": _LETTERS["latin"]}
    found = {name: sum(times[c] for c in those.findall(others)) for name, those in letters.items()}
    found["latin"] += latin
    return {name: number * _WEIGHT.get(name, 1.0) for name, number in found.items() if number}


def _share(weights: dict[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}
