"""Token counts: estimators, and their calibration by what providers report."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import Message
from onlooker.policy.text import CJK, regex

if TYPE_CHECKING:
    from tiktoken import Encoding


# -- The default token count: characters by class, weighted

# Han characters and hangul syllables that are one token each; all others are two or three. Depending on how
# common its characters are, Chinese has 0.9 to 1.4 tokens per character, so one weight is not enough.
_COMMON_HAN = (
    "一万三上下不与专业东两个中串为主么义之也书了事二于五些交产享京人亿今介从他付代以们件价任份企优会传但"
    "位体何余作你使例供価保信修倍值停像元先入全公共关其具内円册再写出击分列则初利别到制前力功加务动動包化"
    "北区十午华单南即历原去县参及友反发取变口只可台右号司合同名后向否含听启告员周命和品哈商問器四回因国图"
    "土在地场址型城基報場填增声处备复外多大天失头女好如始子字存学安宋完定实审客家容密对导将小少尔就局展山"
    "岁州工左已市布常平年并广序库应店度建开异式引张当录形影径待後得微心必志态思性总息您情意感成我或户所手"
    "打找技投报拉持指按换据排接推提播支收改放政效数整文料断新方族无日时明易星是時景更最月有服期木未本机权"
    "束条来板构析果查标样核格案检模次款止正此步歳段每比民気水求江汽没治法注活流海消清游源火点無然片版物特"
    "率环现球理生用由电男画界番登的监目直相省看県真知码确示社票私种科秒称移程稍税稿空立站章端笑符第等签简"
    "算管箱米类系素索约级线组经结给络统编网置美老考者而联能自至色节英藏行表装西要見见规视角解言計記話読计"
    "认议记论设证评试话询该详语误说请读调象责败账货购费资起超路身车转软载辑输达过运近还这进连述退送选通速"
    "造連道邮部都配释里重量金钟钮链销错键长開間関门闭问间队阳陆限院除雅集雷需非面音页项预频题额首验高黑"
)
_COMMON_HANGUL = (
    "가간값개거게결경고공과구그글기나내는능니다당대도동되된드든들디라래러력로록료류른를름리만메면명목문미"
    "버번보복부분비사산상색생서성세션소수스습시식신아야어에여열오와요용우운원위으은을음의이인일임입자작장"
    "재적전정제져조주지진째체출치크태터턴트튼하한할함해호화환회"
)
_COMMON = regex(f"[{_COMMON_HAN}{_COMMON_HANGUL}]+")

# ------------------------------------------------------------------------------------ ASCII

_LETTER, _UPPER, _DIGIT, _PUNCTUATION, _SPACE, _NEWLINE, _HIGH = b"a", b"A", b"0", b".", b" ", b"\n", b"h"


def _ascii_class(code: int) -> bytes:
    char = chr(code)
    if char.isalpha():
        return _UPPER if char.isupper() else _LETTER
    if char.isdigit():
        return _DIGIT
    if char in "\r\n":
        return _NEWLINE
    return _SPACE if code <= 32 else _PUNCTUATION


_CLASSES = b"".join(_ascii_class(code) if code < 128 else _HIGH for code in range(256))
# Three classes: letters, bytes of other scripts, anything else. A word begins exactly where " a" is found,
# and an accented letter inside a word does not begin another.
_WORDS = bytes(c if c in _LETTER + _HIGH else _LETTER[0] if c in _UPPER else _SPACE[0] for c in _CLASSES)
_NUMBERS = bytes(c if c in _DIGIT else _SPACE[0] for c in _CLASSES)


def _ascii_weight(data: bytes) -> float:
    count = data.translate(_CLASSES).count
    upper = count(_UPPER)
    digits = count(_DIGIT)
    words = data.translate(_WORDS)
    weight = (
        0.600 * (words.count(b" a") + words.startswith(_LETTER))
        + 0.119 * (count(_LETTER) + upper)
        + 0.204 * upper
        + 0.248 * count(_PUNCTUATION)
        + 1.058 * count(b" .")
        + 0.697 * count(b"\n\n")
        + 0.982 * count(b"\n  ")  # an indented line
    )
    if digits:
        numbers = data.translate(_NUMBERS)
        # The space before a word is part of its token; the space before a number is a token of its own.
        begun = numbers.count(b" 0") + numbers.startswith(_DIGIT)
        weight += 0.186 * digits + 1.238 * begun + 0.851 * count(b" 0")
    return weight


# ------------------------------------------------------------------------------------ other scripts

# The weight of a character by its first byte, if that is enough to tell the script.
_BY_LEAD: tuple[tuple[range, float], ...] = (
    (range(0xC2, 0xCC), 2.873),  # Latin with accents: the accent splits its word
    (range(0xCC, 0xCE), 1.0),  # combining marks
    (range(0xCE, 0xD0), 0.912),  # Greek
    (range(0xD0, 0xD4), 0.411),  # Cyrillic
    (range(0xD4, 0xD8), 0.921),  # Armenian, Hebrew
    (range(0xD8, 0xDC), 0.692),  # Arabic
    (range(0xDC, 0xE0), 2.0),  # Syriac, Thaana, N'Ko
    (range(0xE0, 0xE1), 1.236),  # Indic scripts, Thai, Lao
    (range(0xE1, 0xE2), 2.2),  # Georgian, Ethiopic, Khmer and more
    (range(0xE2, 0xE3), 1.7),  # symbols, box drawing
    (range(0xE3, 0xE4), 1.142),  # katakana, rare Han
    (range(0xE4, 0xEA), 0.874),  # Han
    (range(0xEA, 0xEE), 0.572),  # hangul
    (range(0xEE, 0xF0), 1.0),  # full-width forms
    (range(0xF0, 0xF5), 2.7),  # emoji
)
# Corrections if the second byte is needed: the weight of the pair, less the weight above.
_BY_PAIR: tuple[tuple[bytes, float], ...] = (
    (b"\xe0\xb8", 0.983 - 1.236),  # Thai
    (b"\xe0\xb9", 0.983 - 1.236),
    (b"\xe1\xba", 0.0 - 2.2),  # Vietnamese letters; the other accents of their words count enough
    (b"\xe1\xbb", 0.0 - 2.2),
    (b"\xe2\x80", 1.0 - 1.7),  # quotation marks, dashes
    (b"\xe3\x80", 1.0 - 1.142),  # punctuation
    (b"\xe3\x81", 0.804 - 1.142),  # hiragana
)
_RARE = 1.428  # added for Han and hangul that are not common
_WORD_BEGUN = 0.884  # in a script that is neither Latin nor written without spaces

_ASCII = bytes(range(128))
_CONTINUATION = bytes(range(0x80, 0xC0))  # second and later bytes: without them, one byte is one character
# Each lead byte becomes its row in _BY_LEAD, everything else 255: one pass, one count per script.
_ROWS = bytes(next((i for i, (leads, _) in enumerate(_BY_LEAD) if code in leads), 255) for code in range(256))
_LATIN, _HAN, _HANGUL = 0, 11, 12
_SPACED_SCRIPTS = bytes(
    ord("w") if 0xCE <= code < 0xE0 or 0xEA <= code < 0xEE else ord(" ") if code in b" \t" else 0
    for code in range(256)
)


def _other_weight(text: str, data: bytes, leads: bytes) -> float:
    rows = leads.translate(_ROWS, _ASCII)
    counts = [rows.count(row) for row in range(len(_BY_LEAD))]
    weight = sum(n * w for n, (_, w) in zip(counts, _BY_LEAD, strict=True) if n)
    weight += sum(data.count(pair) * w for pair, w in _BY_PAIR if pair[0] in data)
    east_asian = counts[_HAN] + counts[_HANGUL]
    if east_asian:
        weight += _RARE * (east_asian - len(text) + len(_COMMON.sub("", text)))
    # A Latin word right after another script. After an accented letter the same word goes on.
    words = leads.translate(_WORDS)
    weight += 0.467 * max(0, words.count(b"ha") - counts[_LATIN])
    return weight + _WORD_BEGUN * leads.translate(_SPACED_SCRIPTS).count(b" w")


def weighted_count(text: str) -> int:
    """Estimate the tokens of a text: within a few percent for a page, a tenth for a line."""
    data = text.encode("utf-8", "surrogatepass")
    if text.isascii():
        weight = _ascii_weight(data)
    else:
        leads = data.translate(None, _CONTINUATION)
        weight = _ascii_weight(leads) + _other_weight(text, data, leads)
    return max(1, round(weight)) if text else 0


# -- Estimators

# The host may send a picture for its placeholder. This is one of about 1,000 × 600 pixels.
ATTACHMENT_TOKENS = 800
# What a provider adds to each message (role and separators) and to each call.
MESSAGE_OVERHEAD = 4
CALL_OVERHEAD = 8

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


class CachingEstimator:
    """An estimator that caches its last counts: base prompts and sections are the same on most turns."""

    MOST = 64

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._known: dict[str, int] = {}

    @property
    def name(self) -> str:
        return self._estimator.name

    def text(self, text: str, *, structured: bool = False) -> int:
        if structured:
            return self._estimator.text(text, structured=structured)
        tokens = self._known.pop(text, None)
        if tokens is None:
            tokens = self._estimator.text(text)
        self._known[text] = tokens
        if len(self._known) > self.MOST:
            del self._known[next(iter(self._known))]
        return tokens

    def message(self, message: Message) -> int:
        return self._estimator.message(message)


@dataclass(frozen=True, slots=True)
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
        for call in message.calls:
            tokens += CALL_OVERHEAD + self.count(call.name) + self.count(call.arguments)
        return tokens + ATTACHMENT_TOKENS * len(message.attachments)


# ------------------------------------------------------------------------------------ presets

_CJK_RUN = regex(f"[{CJK}]+")


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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

    return _Counted(f"tiktoken:{encoding}", count)


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

_DEFAULT = _Counted("default", weighted_count)
_PRESETS: dict[str, Estimator] = {e.name: e for e in (_DEFAULT, _Lango(), _Zora())}


def estimate(text: str) -> int:
    """Count the tokens of a text with the default estimator."""
    return weighted_count(text)


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


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far providers' counts differ from ours: `ratio` is reported tokens per counted token.

    The average follows every report slowly. The ratio follows the average only when the two are more than
    5 % apart, so that budgets, and with them prompts, stay the same from turn to turn.
    """

    ratio: float = 1.0
    samples: int = 0
    average: float = 1.0

    LOWEST = 0.5
    HIGHEST = 2.0
    STEP = 0.05
    # Below this, what a provider adds to a prompt outweighs the prompt.
    FEWEST_TOKENS = 100

    def learn(self, counted: int, reported: int) -> Calibration:
        """Return the calibration after one prompt, unchanged if the counts cannot be of the same one."""
        if counted < self.FEWEST_TOKENS or not self.LOWEST / 2 <= reported / counted <= self.HIGHEST * 2:
            return self
        seen = min(max(reported / counted, self.LOWEST), self.HIGHEST)
        average = self.average + (seen - self.average) * max(0.1, 1 / (self.samples + 4))
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
