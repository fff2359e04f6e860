"""Every knob, its default, and its reason; the presets; and what they come to in tokens.

In the default preset there is one knob, the context budget: every size is a share of it. A size is
a share when it is a fraction (0.25) and a number of tokens when it is whole (8000). The presets
`lango` and `zora` keep the absolute numbers that those two systems documented.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Literal

from onlooker.domain.errors import SettingsError
from onlooker.domain.notes import NoteFormat

Size = int | float


@dataclass(frozen=True, slots=True)
class Settings:
    """How a memory behaves. Make one with `preset`, `from_mapping` or `replace`."""

    enabled: bool = True
    preset: str = "default"
    # Tokens for a whole context where the call names none. 0: only the section limits hold.
    budget: int = 16_000
    estimator: str = "default"
    format: NoteFormat = "lines"
    model: str = ""  # "" is the agent's own where one is given, else the built-in extractive model
    reflector_model: str = ""  # "" is the observer's
    instruction: str = ""  # your own words on what to note, for language models
    # Dollars that language models may cost, 0 for any amount. At a limit their calls stop, not memory.
    spend_per_session: float = 0.0
    spend_per_owner: float = 0.0
    spend_per_day: float = 0.0

    # When messages become notes. `observe_at` is how much may stand raw before notes replace it;
    # `keep_recent` stays raw after that. Notes are written ahead (`precompute`) as soon as one
    # chunk lies before `keep_recent`, so that crossing `observe_at` waits for no model.
    observe_at: Size = 0.22
    keep_recent: Size = 0.05
    chunk_tokens: Size = 0.15
    chunk_messages: int = 0  # 0: any number
    precompute: bool = True
    precompute_at: Size = 0.20
    overlap: Size = 0  # noted messages that still stand raw

    # What the prompt may hold. 0 is no limit for the counts.
    memory_limit: Size = 0.77
    message_limit: Size = 0.90
    cross_session_limit: Size = 0.10
    max_reflections: int = 0
    max_observations: int = 0

    # When notes are condensed: late, shallow and rarely, since unused room is lost memory and each
    # rewrite of the prefix costs the provider's cache.
    reflect_at: Size = 0.75
    reflect_counts: Literal["memory", "observations"] = "memory"
    reflect_to: float = 0.92  # of reflect_at; 0: condense every observation
    # How much of the memory is condensed at once, oldest first. 0: twice what must go, which is cheap;
    # the built-in reflector costs nothing and takes all of it, since the more it sees at once, the
    # better it chooses.
    reflect_share: float = 0.0
    consolidate_at: int = 5
    # What a note should be of its source. The built-in model's are longer while memory has room that
    # would stay empty, since condensing them later costs nothing.
    note_ratio: float = 0.33

    # The last resort when the model is behind: wait for it, at most this long. 0: never wait.
    block_after: Size = 0
    block_deadline: float = 10.0

    compact: bool = False  # take noted messages out of the live session
    archive: bool = True  # and keep them for recall

    # The count's own error: this share of the budget stays empty.
    margin: float = 0.06

    concurrency: int = 4
    model_deadline: float = 120.0
    lease_seconds: float = 30.0
    sweep_seconds: float = 5.0
    retry_seconds: float = 2.0
    retry_limit_seconds: float = 300.0
    stop_deadline: float = 10.0
    retention_days: int = 0  # superseded notes older than this are purged at opening; 0: never


DEFAULT = Settings()
LANGO = Settings(
    preset="lango",
    budget=0,
    estimator="lango",
    format="prose",
    observe_at=1000,
    keep_recent=0,
    chunk_tokens=0,
    precompute=False,
    precompute_at=1000,
    overlap=7000,
    memory_limit=4000,
    message_limit=8000,
    cross_session_limit=0,
    max_reflections=5,
    max_observations=20,
    reflect_at=2000,
    reflect_counts="observations",
    reflect_to=0.0,
    note_ratio=0.25,
    margin=0.0,
)
ZORA = Settings(
    preset="zora",
    budget=0,
    estimator="zora",
    observe_at=30_000,
    keep_recent=0,
    chunk_tokens=0,
    chunk_messages=20,
    precompute_at=24_000,
    memory_limit=15_000,
    message_limit=60_000,
    cross_session_limit=5000,
    reflect_at=10_000,
    reflect_counts="observations",
    reflect_to=0.5,
    note_ratio=0.25,
    block_after=60_000,
    margin=0.0,
)
PRESETS = {"default": DEFAULT, "lango": LANGO, "zora": ZORA}
OFF = replace(DEFAULT, enabled=False)


def preset(name: str) -> Settings:
    """The settings of a preset by name."""
    if not possible("preset", name):
        raise SettingsError("preset", name, f"must be one of {', '.join(PRESETS)}")
    return PRESETS[name]


# ------------------------------------------------------------------------------------ checking

# The smallest and largest value that makes sense, by key. Sizes are tokens, or shares up to 1.
MOST_TOKENS = 10_000_000
MOST_DOLLARS = 1_000_000
# Characters of an instruction: it is sent with every call, and should leave the rules the larger part.
MOST_INSTRUCTION = 2_000
_RANGES: dict[str, tuple[float, float]] = {
    "budget": (0, MOST_TOKENS),
    "spend_per_session": (0, MOST_DOLLARS),
    "spend_per_owner": (0, MOST_DOLLARS),
    "spend_per_day": (0, MOST_DOLLARS),
    "observe_at": (0.01, MOST_TOKENS),
    "keep_recent": (0, MOST_TOKENS),
    "chunk_tokens": (0, MOST_TOKENS),
    "chunk_messages": (0, 100_000),
    "precompute_at": (0.01, MOST_TOKENS),
    "overlap": (0, MOST_TOKENS),
    "memory_limit": (0.01, MOST_TOKENS),
    "message_limit": (0.01, MOST_TOKENS),
    "cross_session_limit": (0, MOST_TOKENS),
    "max_reflections": (0, 100_000),
    "max_observations": (0, 100_000),
    "reflect_at": (0.01, MOST_TOKENS),
    "reflect_to": (0, 0.95),
    "reflect_share": (0, 1),
    "consolidate_at": (2, 1000),
    "note_ratio": (0.05, 0.9),
    "block_after": (0, MOST_TOKENS),
    "block_deadline": (0.1, 600),
    "margin": (0, 0.5),
    "concurrency": (1, 256),
    "model_deadline": (0.1, 3600),
    "lease_seconds": (1, 3600),
    "sweep_seconds": (0.05, 3600),
    "retry_seconds": (0.01, 3600),
    "retry_limit_seconds": (0.01, 86_400),
    "stop_deadline": (0, 600),
    "retention_days": (0, 36_500),
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "preset": tuple(PRESETS),
    "estimator": ("default", "lango", "zora"),
    "format": ("lines", "prose"),
    "reflect_counts": ("memory", "observations"),
}
SIZES = {f.name for f in fields(Settings) if f.type == "Size"}
_WHOLE = {f.name for f in fields(Settings) if f.type == "int"}
_SWITCHES = {f.name for f in fields(Settings) if f.type == "bool"}
KEYS = tuple(f.name for f in fields(Settings))
SMALLEST_BUDGET = 256
# What a reflector that costs nothing takes of the memory at once.
FREE_SHARE = 1.0
# What the first note should be of its source where notes cost nothing to write and to condense.
FREE_RATIO = 0.6
# What the headings of the memory section cost: notes must be condensed before they no longer fit
# beside them.
SECTION_TOKENS = 60
# An estimator that counts with tiktoken, such as "tiktoken:cl100k_base".
TIKTOKEN = "tiktoken:"


def allowed(key: str) -> str:
    """The allowed range of a setting, for messages and help texts."""
    if key in _SWITCHES:
        return "must be true or false"
    if key in _CHOICES:
        others = f" or {TIKTOKEN}ENCODING" if key == "estimator" else ""
        return f"must be one of {', '.join(_CHOICES[key])}{others}"
    if key in _RANGES:
        low, high = _RANGES[key]
        if key in SIZES:
            return f"must be a share of the budget (above 0, up to 1) or whole tokens (up to {MOST_TOKENS})"
        kind = "a whole number" if key in _WHOLE else "a number"
        return f"must be {kind} from {low:g} to {high:g}"
    most = f" of at most {MOST_INSTRUCTION} characters" if key == "instruction" else ""
    return f"must be text{most}"


def check(settings: Settings) -> Settings:
    """Return the settings if they can work.

    Raises:
        SettingsError: Naming the key, the value and what is allowed.
    """
    for key in KEYS:
        _check_value(key, getattr(settings, key))
    s = settings
    if 0 < s.budget < SMALLEST_BUDGET:
        raise SettingsError("budget", s.budget, f"must be at least {SMALLEST_BUDGET}, or 0 for none")
    for small, large in (
        ("keep_recent", "observe_at"),
        ("observe_at", "message_limit"),
        ("precompute_at", "observe_at"),
    ):
        a, b = getattr(s, small), getattr(s, large)
        if _comparable(a, b) and (a > b or (small == "keep_recent" and a >= b)):
            raise SettingsError(small, a, f"must be below {large} ({b})")
    if isinstance(s.memory_limit, float) and isinstance(s.observe_at, float):
        total = s.memory_limit + s.observe_at
        if total > 1:
            raise SettingsError(
                "memory_limit", s.memory_limit, f"must leave room for observe_at: together {total:g} > 1"
            )
    if s.block_after and _comparable(s.block_after, s.observe_at) and s.block_after <= s.observe_at:
        raise SettingsError("block_after", s.block_after, f"must be above observe_at ({s.observe_at})")
    return s


def _comparable(a: Size, b: Size) -> bool:
    return isinstance(a, float) == isinstance(b, float)


def _check_value(key: str, value: object) -> None:
    if not possible(key, value):
        raise SettingsError(key, value, allowed(key))


def possible(key: str, value: object) -> bool:
    """Whether a setting can have this value, whatever the others are."""
    if key in _SWITCHES:
        return isinstance(value, bool)
    if key == "estimator" and isinstance(value, str) and value.startswith(TIKTOKEN):
        return len(value) > len(TIKTOKEN)
    if key in _CHOICES:
        return value in _CHOICES[key]
    if key not in _RANGES:
        return isinstance(value, str) and (key != "instruction" or len(value) <= MOST_INSTRUCTION)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    low, high = _RANGES[key]
    if key in _WHOLE and not isinstance(value, int):
        return False
    if key in SIZES:
        if isinstance(value, float):
            return 0 <= value <= 1 and value >= low
        return (value >= 1 or low == 0) and 0 <= value <= high
    return low <= value <= high


# ------------------------------------------------------------------------------------ in tokens


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings in tokens, for one budget. What plans and contexts are made by."""

    settings: Settings
    budget: int  # for memory and messages together; 0: only the limits below
    observe_at: int
    keep_recent: int
    chunk_tokens: int
    precompute_at: int
    overlap: int
    memory_limit: int
    message_limit: int
    reflect_at: int
    reflect_share: float
    first_ratio: float  # what a note should be of its source while memory is empty
    block_after: int


@lru_cache(maxsize=256)
def limits(
    settings: Settings, budget: int, *, free_reflector: bool = False, free_observer: bool = False
) -> Limits:
    """The settings in tokens where `budget` tokens are there for memory and messages.

    Absolute sizes that the budget cannot hold shrink with it, so that a small budget given to a
    preset with large numbers still works.
    """

    base = budget or settings.budget or DEFAULT.budget

    def tokens(size: Size, most: int = MOST_TOKENS) -> int:
        if isinstance(size, float):
            return max(1, round(size * base))
        return min(size, most)

    whole = budget or MOST_TOKENS
    gentle = settings.reflect_to > 0  # else every observation is condensed, and nothing else
    # Where only observations are counted, their size was decided by whoever set the number.
    free = gentle and free_reflector and free_observer and settings.reflect_counts == "memory"
    message_limit = tokens(settings.message_limit, whole)
    observe_at = max(1, min(tokens(settings.observe_at, whole // 4), message_limit))
    keep_recent = min(tokens(settings.keep_recent), observe_at - 1)
    # Where a share stands beside a number of tokens, the two may come to more than there is.
    memory_limit = max(1, min(tokens(settings.memory_limit, whole * 7 // 10), whole - observe_at))
    return Limits(
        settings=settings,
        budget=budget,
        observe_at=observe_at,
        keep_recent=keep_recent,
        chunk_tokens=tokens(settings.chunk_tokens),
        precompute_at=max(keep_recent + 1, min(tokens(settings.precompute_at), observe_at)),
        overlap=min(tokens(settings.overlap), max(0, message_limit - observe_at)),
        memory_limit=memory_limit,
        message_limit=message_limit,
        reflect_at=max(1, min(tokens(settings.reflect_at), memory_limit - SECTION_TOKENS)),
        reflect_share=settings.reflect_share or (FREE_SHARE if gentle and free_reflector else 0.0),
        first_ratio=max(FREE_RATIO if free else 0.0, settings.note_ratio),
        block_after=tokens(settings.block_after),
    )
