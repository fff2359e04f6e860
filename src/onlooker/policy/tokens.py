"""Token counts: estimators, and their calibration by what providers report."""

from __future__ import annotations

import json
import math
import threading
from codecs import charmap_build, charmap_encode
from collections.abc import Callable
from functools import cache
from itertools import filterfalse
from typing import TYPE_CHECKING, Protocol, cast

from onlooker.domain.errors import SettingsError
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message
from onlooker.policy.intake import arguments_as_given, only_in_original
from onlooker.policy.text import CJK, regex
from onlooker.policy.vocabulary import COMMON_HAN, COMMON_HANGUL, COMMON_WIDE, COMMON_WORDS

if TYPE_CHECKING:
    from tiktoken import Encoding


# -- The default token count
#
# A tokenizer splits a text into words, numbers, runs of punctuation and space, and then each of them into the
# longest pieces that it knows. Digits go in threes, so numbers are counted exactly. For the rest, classes of
# bytes are counted and weighted. How many words it knows is looked up in a sample. All weights were fitted to
# cl100k over prose, code, JSON, CSV, logs, diffs, hex, base64, ids and 45 languages, and lean to the high
# side; `bench/tokens.py` shows the error of each kind.

_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_LETTERS = _LOWER + _LOWER.upper()
_DIGITS = b"0123456789"
_VOWELS = b"aeiouyAEIOUY"
_LINE_ENDS = b"\r\n"
_BLANKS = bytes(code for code in range(33) if code not in _LINE_ENDS) + b"\x7f"
# Second and later bytes of UTF-8: without them, one byte is one character.
_CONTINUATION = bytes(range(0x80, 0xC0))


def _classes(*members: tuple[bytes, bytes], ascii: bytes, high: bytes) -> bytes:
    """Return a table for `bytes.translate` that maps each byte to its class."""
    table = bytearray(ascii * 128 + high * 128)
    for codes, name in members:
        for code in codes:
            table[code] = name[0]
    return bytes(table)


# ------------------------------------------------------------------------------------ words

# In a long text, words and characters are looked up in a third of it, in pieces near to each other, so that
# none of its parts is missed.
_LONG = 16_000
_SAMPLED = 128
_SAMPLED_OF = 384
_WORDS_CUT = 0.97  # what words cut at the edges of the sample add is taken off again
# A capital begins a new piece inside an identifier.
_PIECE = regex(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ONLY_LETTERS = bytes(code if code in _LETTERS else 32 for code in range(256))
_KINDS_OF_LETTER = _classes(
    (_VOWELS, b"v"), (bytes(c for c in _LETTERS if c not in _VOWELS), b"c"), ascii=b" ", high=b" "
)
_RARE_LETTERS = _classes((b"qxzjQXZJ", b"r"), ascii=b" ", high=b" ")
_HARD_LETTERS = _classes((b"qxzjkwvbQXZJKWVB", b"r"), ascii=b" ", high=b" ")
_NAMES = 8  # so many letters of unknown words are names, in a text whose words are mostly known
_UPPER_WORDS = 2000  # of the common words: those that are one token in capitals too


@cache
def _common_words() -> frozenset[bytes]:
    words = COMMON_WORDS.encode().split()
    return frozenset((*words, *map(bytes.title, words), *map(bytes.upper, words[:_UPPER_WORDS])))


def _sample(text: str) -> str:
    """Return the text, or pieces of it at equal distances if it is long."""
    if len(text) <= _LONG:
        return text
    return "\n".join([text[i : i + _SAMPLED] for i in range(0, len(text), _SAMPLED_OF)])


class _Weights(dict[bytes, complex]):
    """What words weigh that are not common as they are, and as the imaginary part the letters in them that
    belong to no common word. Most of them come again and again."""

    def __missing__(self, word: bytes) -> complex:
        found = sum(map(_piece_weight, _PIECE.findall(word)), 0j)
        if len(word) <= _LONGEST_KEPT:
            if len(self) >= _MOST_KEPT:
                self.clear()
            self[word] = found
        return found


_MOST_KEPT, _LONGEST_KEPT = 4_096, 32
_weights = _Weights()


def _piece_weight(piece: bytes) -> complex:
    if piece in _common_words():
        return 0.967
    size = len(piece)
    if size < 3:
        return 0.89 if size == 1 else 2.22
    weight = 0.94 + (0.062 + 0.07 * piece.isupper()) * size
    # What nobody can pronounce has no long pieces.
    weight += 0.70 * piece.translate(_KINDS_OF_LETTER).count(b"cccc")
    weight += 0.53 * piece.translate(_RARE_LETTERS).count(b"r")
    weight += 1.04 * piece.translate(_HARD_LETTERS).count(b"rr")
    return complex(weight, size)


def _words_weight(data: bytes, letters: int) -> float:
    """Estimate the tokens of the words in a text, which has so many letters."""
    words = data.translate(_ONLY_LETTERS).split()
    # Only words that are not known as they are can have pieces.
    rest = list(filterfalse(_common_words().__contains__, words))
    unknown = sum(map(_weights.__getitem__, rest), 0j)
    weight = 0.967 * (len(words) - len(rest)) + unknown.real
    # A text whose words are mostly unknown is in another language, or random.
    return weight + 0.41 * max(0.0, unknown.imag - 0.5 * letters - _NAMES)


# ------------------------------------------------------------------------------------ numbers, signs, space

_SHAPE = _classes(
    (_LETTERS, b"a"), (_DIGITS, b"0"), (_LINE_ENDS, b"n"), (_BLANKS, b" "), ascii=b".", high=b"h"
)
# "!": signs that are rarely next to another sign; ",": what separates cells, and stands for itself.
_SIGNS = _classes(
    (_LETTERS, b"a"),
    (_DIGITS + _LINE_ENDS + _BLANKS, b" "),
    (b"\t", b"t"),
    (b"~^%$#@\\`?", b"!"),
    (b",;|", b","),
    ascii=b".",
    high=b"h",
)
_BLANK = _classes((_BLANKS, b" "), ascii=b"a", high=b"a")
# Four of one sign in a row, and what they weigh: of most, a token has up to 64.
_LINES_DRAWN = (*((bytes([code]) * 4, 4 / 64) for code in b"-=*#_."), (b"^^^^", 1.3))
# The escape of a colour, "\x1b[", is one token with its sign.
_CONTROLS = bytes(code for code in _BLANKS if code not in b"\t ")


def _numbers_weight(shape: bytes) -> float:
    threes = shape.replace(b"000", b"1")
    groups = threes.count(b"1") + threes.count(b"0") - threes.count(b"00")
    # The space before a word is part of its token; the space before a number is a token of its own.
    return 1.035 * groups + 0.985 * shape.count(b" 0")


def _signs_weight(data: bytes, shape: bytes) -> float:
    weight, pairs = 0.0, shape
    if b".." in shape:
        if b"........" in shape:
            for line, each in _LINES_DRAWN:
                weight += each * data.count(line)
                data = data.replace(line, b"")
            shape = data.translate(_SHAPE)
        pairs = shape.replace(b"..", b":").replace(b"::", b";")
        # Long runs of mixed signs differ most, so they count as more than they are on average.
        weight += 1.33 * pairs.count(b";") + 0.751 * pairs.count(b":")
    before_letter = pairs.count(b".a")
    signs = data.translate(_SIGNS).count
    weight = (
        weight
        + 0.992 * (pairs.count(b".") - before_letter)
        + 0.342 * before_letter  # "_" and "." often belong to the word that follows
        + 1.208 * pairs.count(b" .a")
        + 0.713 * signs(b",a")
    )
    if signs(b"!"):
        weight += 0.864 * (signs(b"!.") + signs(b".!") + signs(b"!!"))
        weight -= 0.483 * data.count(b"\\n")  # the letter is counted as a word
    return weight


def _blanks_weight(data: bytes) -> float:
    weight = 0.0
    if b"  " in data or b"\t" in data:
        weight += 1.0 * data.translate(_BLANK).count(b"a  ")  # an indented line, or a wide gap
        weight += data.count(b" " * 64) / 2
    if b"\t" in data:
        signs = data.translate(_SIGNS).count
        weight += 0.313 * (signs(b"t") - signs(b"ta"))
    if controls := len(data) - len(data.translate(None, _CONTROLS)):
        weight += controls - data.count(b"\x1b[")
    return weight


_OTHER = b"\xff"
_OTHERS_ALIKE = bytes(range(0x80)) + _OTHER * 0x80


def _without_runs(data: bytes) -> bytes:
    """The characters of ASCII, and few bytes for others in a row, whose number weighs nothing here."""
    alike = data.translate(_OTHERS_ALIKE, _CONTINUATION)
    if 8 * alike.count(b" ") <= len(alike):
        alike = alike.replace(_OTHER * 12, _OTHER)
    elif len(data) > 2 * len(alike):  # nor does the space before a word of another script
        alike = alike.replace(b" " + _OTHER, b"")
    else:  # most words are Latin
        alike = alike.replace(_OTHER + b" " + _OTHER, _OTHER)
    return alike.replace(_OTHER * 4, _OTHER)


def _ascii_weight(text: bytes, data: bytes) -> float:
    """Weigh each class of characters in the sample, and scale it to how many the text has. Both with one byte
    for a character."""
    shape = data.translate(_SHAPE)
    here = shape.count
    whole = len(text) == len(data)
    there = here if whole else text.translate(_SHAPE).count
    weight = 0.0
    # What is frequent is counted by what remains without it, in a third of the time.
    if letters := len(text) - len(text.translate(None, _LETTERS)):
        seen = letters if whole else len(data) - len(data.translate(None, _LETTERS))
        if not seen or 20 * seen < len(data):  # too few to look at
            weight += 0.5 * letters
        else:
            weight += _words_weight(data, seen) * letters / seen * (1.0 if whole else _WORDS_CUT)
    for name in (b"0", b".", b" ", b"n"):
        all_of_them = there(name)
        if not all_of_them:
            continue
        seen = all_of_them if whole else here(name)
        if not seen:
            weight += 0.5 * all_of_them
        elif name == b"0":
            weight += _numbers_weight(shape) * all_of_them / seen
        elif name == b".":
            weight += _signs_weight(data, shape) * all_of_them / seen
        elif name == b" ":
            weight += _blanks_weight(data) * all_of_them / seen
        else:
            weight += 0.869 * (seen - here(b"nn") - here(b".n")) * all_of_them / seen
    return weight


# ------------------------------------------------------------------------------------ other scripts

_EACH_CYRILLIC = 0.355  # and a weight for each word
# The weight of a character by the high byte of its UTF-16 code, which tells its script: frequent ones first.
_BY_HIGH_BYTE: tuple[tuple[tuple[range, ...], float], ...] = (
    ((range(0x4E, 0xA0),), 0.765),  # Han
    ((range(0x30, 0x31),), 0.96),  # kana, punctuation
    ((range(0xFF, 0x100),), 0.96),  # full-width forms
    ((range(0xAC, 0xD8),), 0.75),  # hangul
    ((range(0x20, 0x21),), 1.674),  # quotation marks, dashes, joiners
    ((range(0x01, 0x02),), 0.863),  # Latin of central Europe
    ((range(0x04, 0x05),), _EACH_CYRILLIC),  # Cyrillic
    ((range(0xD8, 0xE0),), 1.439),  # half of an emoji
    ((range(0x06, 0x07),), 0.862),  # Arabic
    ((range(0xFE, 0xFF),), 0.862),  # variants of emoji
    ((range(0x09, 0x0A),), 1.35),  # Devanagari, Bengali
    ((range(0x03, 0x04), range(0x1F, 0x20)), 1.067),  # Greek, combining marks
    ((range(0x05, 0x06),), 1.198),  # Hebrew
    ((range(0x0E, 0x0F),), 0.95),  # Thai
    ((range(0x1E, 0x1F),), 0.4),  # Vietnamese; the other accents of its words count enough
    ((range(0x25, 0x26),), 2.0),  # boxes
    ((range(0x26, 0x28),), 2.352),  # symbols
    ((range(0x21, 0x23), range(0x24, 0x25)), 2.154),  # arrows, mathematics
    ((range(0x0B, 0x0C),), 1.66),  # Tamil
    ((range(0x07, 0x08), range(0x0A, 0x0B), range(0x0C, 0x0E), range(0x0F, 0x10)), 2.02),  # South Asia
    ((range(0x10, 0x11),), 2.12),  # Georgian, Burmese
    ((range(0x17, 0x18),), 1.66),  # Khmer
    ((range(0x02, 0x03),), 2.0),  # phonetic signs
    ((range(0x01, 0xFF),), 3.0),  # no tokens of their own: their bytes
)
_ROWS = bytes(
    next((i for i, (ranges, _) in enumerate(_BY_HIGH_BYTE, 1) if any(code in r for r in ranges)), 0)
    for code in range(256)
)
_HAN, _HANGUL, _WIDE, _THAI, _CYRILLIC = (_ROWS[code] for code in (0x4E, 0xAC, 0xFF, 0x0E, 0x04))
_LATIN = (
    (b"\xc2", 0.5),  # signs of western Europe
    (b"\xc3", 0.696),  # letters with accents
)
# Letters that their script's weight does not fit: what is added, by the first bytes of their code.
_BY_FIRST_BYTES: dict[int, tuple[tuple[bytes, float], ...]] = {
    _ROWS[0x01]: (
        (b"\xc6", 1.1),  # beyond central Europe,
        (b"\xc7", 1.1),
        ("ơ".encode(), -1.1),  # but not in Vietnamese
        ("ư".encode(), -1.1),
    ),
    _ROWS[0x02]: (("ș".encode(), -0.5), ("ț".encode(), -0.5)),  # Romanian
    _ROWS[0x03]: (
        *((bytes([0xE1, second]), 1.9) for second in range(0xBC, 0xC0)),  # ancient Greek
        (b"\xcc", 0.9),  # combining marks,
        (b"\xcd", 0.9),
        ("́".encode(), -0.9),  # but not the two common accents
        ("̀".encode(), -0.9),
    ),
    _ROWS[0x1E]: ((b"\xe1\xb8", 2.3), (b"\xe1\xb9", 2.3)),  # transcriptions of other scripts
    # Lines and bars: one token each, and longer ones for two, four and eight in a row.
    _ROWS[0x25]: (
        *((sign.encode(), -1.0) for sign in "─━│═║╗╝█░■►●"),
        *((sign.encode() * 2, -1.0) for sign in "─━═█"),
        *((sign.encode() * 4, -1.0) for sign in "─█"),
        ("─".encode() * 8, -1.0),
        ("├──".encode(), -2.0),
    ),
    _ROWS[0xD8]: ((b"\xf0", 1.1), (b"\xf0\x9d", -1.1), (b"\xf0\x9f", -1.1)),  # not emoji
    _ROWS[0xFE]: ((b"\xef\xb9", 2.1), (b"\xef\xba", 2.1), (b"\xef\xbb", 2.1), ("﻿".encode(), -2.1)),
    _CYRILLIC: ((b"\xd2", 3.0 - _EACH_CYRILLIC), (b"\xd3", 3.0 - _EACH_CYRILLIC)),  # central Asia
    _ROWS[0x05]: ((b"\xd4", 2.275 - 1.198), (b"\xd5", 2.275 - 1.198)),  # Armenian
    _ROWS[0x06]: (
        (b"\xda", 0.3),  # Persian
        (b"\xdb", 0.3),
        (b"\xdb\x81", 1.7),  # Urdu
        (b"\xdb\x92", 1.7),
        (b"\xda\xba", 1.7),
        (b"\xda\xbe", 1.7),
    ),
    _ROWS[0x09]: ((b"\xe0\xa6", 0.17), (b"\xe0\xa7", 0.17)),  # Bengali
    _ROWS[0x0B]: ((b"\xe0\xac", 1.3), (b"\xe0\xad", 1.3)),  # Oriya
}
_CYRILLIC_WORDS = _classes((b"\xd0\xd1\xd2\xd3", b"x"), ascii=b" ", high=b" ")
# "xy": letters that Russian does not have.
_NOT_RUSSIAN = bytes(
    ord("x") if code == 0xD1 else ord("y") if 0x90 <= code < 0xA0 else 0 for code in range(256)
)
_ENOUGH, _STRETCH = 1_000, 50  # characters: so many, in pieces, tell how many are common
_RARE_THAI = regex("[ฃฅฆฉซฌญฎฏฐฑฒธฝฟภฤฦศษฬฮฯึฺโๅๆ๊๋ํ๎-๛]")  # two tokens each


# Encodings that have only the common characters, each 255 of them beside NUL: what can be encoded is common.
# A pattern takes three to nine times as long.
_encoding = cache(charmap_build)


def _alphabets(characters: str) -> tuple[str, ...]:
    return tuple("\0" + characters[i : i + 255].ljust(255, "\ufffe") for i in range(0, len(characters), 255))


# The characters of a row that are common, and what is added for the others.
_COMMON = {
    _HAN: (_alphabets(COMMON_HAN), 1.83),
    _HANGUL: (_alphabets(COMMON_HANGUL), 1.83),
    _WIDE: (_alphabets(COMMON_WIDE), 1.3),
}


def _common_characters(text: str, row: int) -> int:
    encoded = [charmap_encode(text, "ignore", _encoding(alphabet))[0] for alphabet in _COMMON[row][0]]
    return sum(map(len, encoded)) - len(encoded) * text.count("\0")


def _rows(text: str) -> bytes:
    """The row of `_BY_HIGH_BYTE` of each character beyond ASCII."""
    return text.encode("utf-16-le", "surrogatepass")[1::2].translate(_ROWS, b"\0")


def _other_weight(text: str, data: bytes) -> float:
    """Weigh the characters beyond ASCII by their script."""
    rows = _rows(text)
    left = len(rows)
    weight = 0.0
    if len(data) - len(text) != 2 * left:  # not if all others are of three bytes, as in East Asia
        weight += sum(data.count(first) * each for first, each in _LATIN)
    for row, (_, each) in enumerate(_BY_HIGH_BYTE, 1):
        if not left:
            break
        if not (found := rows.count(row)):
            continue
        left -= found
        weight += found * each
        weight += sum(data.count(first) * each for first, each in _BY_FIRST_BYTES.get(row, ()))
        if row in _COMMON:
            sample = _sample(text)
            step = _STRETCH * (1 + len(sample) // _ENOUGH)
            sample = "".join([sample[i : i + _STRETCH] for i in range(0, len(sample), step)])
            # How many of those in the sample are common: a text may have more of them than its sample has.
            looked_at = _rows(sample).count(row) or 1
            rare = max(0, looked_at - _common_characters(sample, row))
            weight += _COMMON[row][1] * found * rare / looked_at
        elif row == _THAI:
            sample = _sample(text)
            weight += len(_RARE_THAI.findall(sample)) * len(text) / len(sample)
        elif row == _CYRILLIC:
            letters = b" " + data.translate(_CYRILLIC_WORDS, _CONTINUATION)
            weight += 1.25 * letters.count(b" x") + 1.75 * data.translate(_NOT_RUSSIAN).count(b"xy")
    return weight


def weighted_count(text: str) -> int:
    """Estimate the tokens of a text: within a few percent for a page, a tenth for a line."""
    data = text.encode("utf-8", "surrogatepass")
    sample = _sample(text)
    if text.isascii():
        weight = _ascii_weight(data, data if sample is text else sample.encode())
    else:
        plain = looked_at = _without_runs(data)
        if sample is not text:
            looked_at = _without_runs(sample.encode("utf-8", "surrogatepass"))
        weight = _ascii_weight(plain, looked_at) + _other_weight(text, data)
    return max(1, round(weight)) if text else 0


# -- Estimators

# The host may send a picture for its placeholder. This is one of about 1,000 × 600 pixels.
ATTACHMENT_TOKENS = 800
# What a provider adds to each message (role and separators) and to each call.
MESSAGE_OVERHEAD = 4
CALL_OVERHEAD = 12
# What it adds to the system prompt and to the end of a prompt, and before its answer.
PROMPT_OVERHEAD = 12

# The error of the default count over a page: this share of a budget stays empty. The two founding systems
# document their numbers without a margin.
MARGIN = 0.04


def margin(estimator: str) -> float:
    """Return the share of a budget that stays empty for the error of this estimator's count."""
    return 0.0 if estimator in ("lango", "zora") else MARGIN


class Estimator(Protocol):
    """Counts tokens: fast enough for every message, and always with the same result."""

    @property
    def name(self) -> str:
        """The name in the settings."""
        ...

    def text(self, text: str, *, structured: bool = False) -> int:
        """Count the tokens of a text. `structured`: it is a tool's result or other structured data."""
        ...

    def message(self, message: Message) -> int:
        """Count the tokens of a message with its calls, its attachments and what a provider adds."""
        ...


# The counts of the last texts are cached by their hash: base prompts and sections are the same on most turns,
# and a line of a note is weighed again and again while the note is written, as is what was said. No text is
# kept, so that nothing has to be forgotten here.
MAX_COUNTED = 16_384


def caching(count: Callable[[str], int]) -> Callable[[str], int]:
    """Return the function with a cache, which several threads may use."""
    counted: dict[int, int] = {}

    def cached(text: str) -> int:
        key = hash(text)
        known = counted.get(key)
        if known is None:
            if len(counted) >= MAX_COUNTED:
                counted.clear()
            known = counted[key] = count(text)
        return known

    return cached


@frozen
class _Counted:
    """Counts each part of a message with one function for texts."""

    name: str
    count: Callable[[str], int]

    def text(self, text: str, *, structured: bool = False) -> int:
        return self.count(text)

    def message(self, message: Message) -> int:
        tokens = MESSAGE_OVERHEAD + self.count(message.text)
        if message.name:
            tokens += 1 + self.count(message.name)
        for call, arguments in zip(message.calls, arguments_as_given(message), strict=True):
            # Some providers write arguments in a form of their own, with more around each of them.
            tokens += CALL_OVERHEAD + self.count(call.name) + self.count(arguments) + arguments.count('":')
        if message.original is not None:
            tokens += sum(map(self.count, only_in_original(message)))
        return tokens + ATTACHMENT_TOKENS * len(message.attachments)


# ------------------------------------------------------------------------------------ presets

_CJK_RUN = regex(f"[{CJK}]+")


@frozen
class _Lango:
    """Four characters to a token, two in Han, kana and hangul, each rounded down."""

    name: str = "lango"

    def text(self, text: str, *, structured: bool = False) -> int:
        others = len(text) if text.isascii() else len(_CJK_RUN.sub("", text))
        return others // 4 + (len(text) - others) // 2

    def message(self, message: Message) -> int:
        tokens = 4 + self.text(message.text) + ATTACHMENT_TOKENS * len(message.attachments)
        for call in message.calls:
            tokens += self.text(call.id) + self.text(call.name) + self.text(call.arguments)
        return tokens


@frozen
class _Zora:
    """3.5 characters to a token, 3.0 in structured text, rounded up: early rather than late."""

    name: str = "zora"

    def text(self, text: str, *, structured: bool = False) -> int:
        return math.ceil(len(text) / (3.0 if structured else 3.5))

    def message(self, message: Message) -> int:
        tokens = self.text(message.text, structured=message.role == "tool")
        for call in message.calls:
            tokens += self.text(call.name + call.arguments, structured=True)
        return tokens + ATTACHMENT_TOKENS * len(message.attachments)


# ------------------------------------------------------------------------------------ tiktoken

_loading = threading.Lock()


def tiktoken_estimator(encoding: str = "cl100k_base") -> Estimator:
    """Return an estimator with the exact counts of an encoding, which must be in tiktoken's local cache.

    Raises:
        SettingsError: tiktoken is not installed, does not know the encoding, or has not cached it.
    """
    loaded = _load_encoding(encoding)

    def count(text: str) -> int:
        # tiktoken does not accept lone surrogates; each counts as the replacement character.
        clean = text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return len(loaded.encode_ordinary(clean))

    return _Counted(f"tiktoken:{encoding}", caching(count))


def _load_encoding(encoding: str) -> Encoding:
    key = "estimator"
    name = f"tiktoken:{encoding}"
    try:
        import tiktoken.load
    except ImportError as error:
        raise SettingsError(
            key, name, "needs the tiktoken package: pip install 'onlooker[tiktoken]'"
        ) from error
    known = tiktoken.list_encoding_names()
    if encoding not in known:
        raise SettingsError(key, name, f"tiktoken knows the encodings {', '.join(sorted(known))}")
    with _loading:
        download = tiktoken.load.read_file
        tiktoken.load.read_file = _refusing(download)
        try:
            return tiktoken.get_encoding(encoding)
        except _NotCached as error:
            raise SettingsError(
                key,
                name,
                "the encoding is not in tiktoken's cache, and nothing is downloaded here: run "
                f"python -c \"import tiktoken; tiktoken.get_encoding('{encoding}')\" once, with the same "
                "TIKTOKEN_CACHE_DIR",
            ) from error
        finally:
            tiktoken.load.read_file = download


class _NotCached(Exception):
    """tiktoken tried to download an encoding."""


def _refusing(download: Callable[[str], bytes]) -> Callable[[str], bytes]:
    """Return a `read_file` that downloads nothing in this thread: tiktoken has no option for that."""
    thread = threading.get_ident()

    def read_file(blobpath: str) -> bytes:
        if threading.get_ident() == thread and "://" in blobpath:
            raise _NotCached(blobpath)
        return download(blobpath)

    return read_file


# ------------------------------------------------------------------------------------ by name

_DEFAULT = _Counted("default", caching(weighted_count))
_PRESETS: dict[str, Estimator] = {e.name: e for e in (_DEFAULT, _Lango(), _Zora())}


def estimate(text: str) -> int:
    """Count the tokens of a text with the default estimator."""
    return _DEFAULT.count(text)


# A word weighs at least half a token. Only what was escaped weighs less than nothing.
_LEAST_OF_A_WORD, _ESCAPE = 0.5, "\\"
_LOOKED_AT = 16  # characters for each token


def fits(text: str, tokens: int) -> bool:
    """Return whether a text has at most so many tokens by the default estimator: of most that have far more,
    the words of their beginning tell."""
    beginning = _LOOKED_AT * tokens
    if beginning < len(text) <= _LONG and text.isascii() and _ESCAPE not in text:
        words = text[:beginning].encode().translate(_ONLY_LETTERS).split()
        if _LEAST_OF_A_WORD * len(words) > tokens + 0.5:
            return False
    return estimate(text) <= tokens


def estimator(name: str = "default") -> Estimator:
    """Return the estimator with this name in the settings: a preset's, or `tiktoken:ENCODING`.

    Raises:
        SettingsError: No estimator has this name, or it cannot be loaded.
    """
    if name in _PRESETS:
        return _PRESETS[name]
    kind, _, encoding = name.partition(":")
    if kind == "tiktoken":
        return tiktoken_estimator(encoding or "cl100k_base")
    raise SettingsError("estimator", name, f"must be one of {', '.join(_PRESETS)} or tiktoken:ENCODING")


# ------------------------------------------------------------------------------------ calibration


@frozen
class Calibration:
    """How far providers' counts differ from ours: `ratio` is reported tokens per counted token.

    The average follows the first report and every higher one at once, since a budget was exceeded, and lower
    ones slowly. The ratio follows the average only when the two are more than 5 % apart, so that budgets, and
    with them prompts, stay the same from turn to turn.
    """

    ratio: float = 1.0
    samples: int = 0
    average: float = 1.0

    LOWEST = 0.5
    HIGHEST = 2.0
    STEP = 0.05
    # Below this, what a provider adds to a prompt outweighs the prompt.
    MIN_TOKENS = 100

    def learn(self, counted: int, reported: int) -> Calibration:
        """Return the calibration after one prompt, unchanged if the counts cannot be of the same one."""
        if counted < self.MIN_TOKENS or not self.LOWEST / 2 <= reported / counted <= self.HIGHEST * 2:
            return self
        seen = min(max(reported / counted, self.LOWEST), self.HIGHEST)
        at_once = self.samples == 0 or seen > self.average
        average = seen if at_once else self.average + (seen - self.average) * 0.1
        moved = abs(average / self.ratio - 1) > self.STEP
        return Calibration(average if moved else self.ratio, self.samples + 1, average)

    def to_json(self) -> str:
        return json.dumps({"ratio": self.ratio, "samples": self.samples, "average": self.average})

    @classmethod
    def from_json(cls, text: str | None) -> Calibration:
        """Read what `to_json` wrote. Anything else gives a new calibration, which learns in a few turns."""
        try:
            found: object = json.loads(text or "{}")
        except (ValueError, RecursionError):
            return cls()
        if not isinstance(found, dict):
            return cls()
        fields = cast("dict[str, object]", found)
        ratio, samples, average = (fields.get(name) for name in ("ratio", "samples", "average"))
        if not (cls._usable(ratio) and cls._usable(average)) or type(samples) is not int or samples < 0:
            return cls()
        return cls(cast("float", ratio), samples, cast("float", average))

    @classmethod
    def _usable(cls, value: object) -> bool:
        return isinstance(value, float) and cls.LOWEST <= value <= cls.HIGHEST
