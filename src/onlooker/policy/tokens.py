"""How many tokens something is: estimators, and what a provider's own count teaches about them."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import Message
from onlooker.policy.text import CJK
from onlooker.policy.weighted import weighted_count

if TYPE_CHECKING:
    from tiktoken import Encoding

# The host may send the picture where we see its placeholder: a picture of about 1,000 × 600 pixels.
ATTACHMENT_TOKENS = 800
# What a provider puts around each message (role and separators) and around each call.
MESSAGE_OVERHEAD = 4
CALL_OVERHEAD = 8


class Estimator(Protocol):
    """A way of counting tokens. Fast enough for every message, and the same answer each time."""

    @property
    def name(self) -> str:
        """As it stands in the settings."""
        ...

    def text(self, text: str, *, structured: bool = False) -> int:
        """Tokens of a text; `structured` says that it is a tool's result or other structured data."""
        ...

    def message(self, message: Message) -> int:
        """Tokens of a message with its calls and attachments, and what a provider adds around it."""
        ...


class Remembering:
    """An estimator that knows the texts it counted last: base prompts and sections come back each turn."""

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
    """Messages counted part by part with one function for texts."""

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

_CJK_RUN = re.compile(f"[{CJK}]+")


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
    """Exact counts for the models that use this encoding, from tiktoken's local cache alone.

    Raises:
        SettingsError: tiktoken is not installed, knows no such encoding, or has not cached it.
    """
    loaded = _load_encoding(encoding)

    def count(text: str) -> int:
        # tiktoken takes no lone surrogates; each counts as the replacement character.
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
    """tiktoken turned to the network."""


def _refusing(download: Callable[[str], bytes]) -> Callable[[str], bytes]:
    """tiktoken has no switch against downloads: while one thread loads, its way out is closed."""
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
    """Tokens of a text by the default estimator."""
    return weighted_count(text)


def estimator(name: str = "default") -> Estimator:
    """An estimator by its name in the settings: one of the presets, or `tiktoken:ENCODING`.

    Raises:
        SettingsError: There is none of that name, or it cannot be loaded.
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
    """What providers' own counts have taught: `ratio` is reported tokens per counted token.

    The average follows every report slowly; the ratio in use takes it over only once the two are more
    than 5 % apart, so that budgets, and with them prompts, stay the same from turn to turn.
    """

    ratio: float = 1.0
    samples: int = 0
    average: float = 1.0

    LOWEST = 0.5
    HIGHEST = 2.0
    STEP = 0.05
    # Below this, what a provider adds around a prompt outweighs the prompt.
    FEWEST_TOKENS = 100

    def learn(self, counted: int, reported: int) -> Calibration:
        """The calibration after one prompt; unchanged where the two numbers cannot be of the same one."""
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
        """What `to_json` wrote. Anything else starts anew: it costs a few turns to learn again."""
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
