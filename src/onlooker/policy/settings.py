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

# -- Every knob, its default, and its reason

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
    observe_at: Size = 0.185
    keep_recent: Size = 0.05
    chunk_tokens: Size = 0.13
    chunk_messages: int = 0  # 0: any number
    precompute: bool = True
    precompute_at: Size = 0.18
    overlap: Size = 0  # noted messages that still stand raw

    # What the prompt may hold. Memory takes at most what may not stand raw. 0 is no limit for the counts.
    memory_limit: Size = 0.90
    message_limit: Size = 0.90
    cross_session_limit: Size = 0.10
    # Whose sessions share items: of owners that are named, since whoever opens sessions without one may
    # have many people under it; of all; or of none.
    cross_session: Literal["named", "all", "off"] = "named"
    # Without a message for so long a session has ended, and items are made of it; a process that stops
    # ends those that it has used. 0: only `Session.end` does.
    idle_minutes: float = 30.0
    # All knowledge layers together, of what the base prompt leaves. 0: as much as they give.
    knowledge_limit: Size = 0.40
    max_reflections: int = 0
    max_observations: int = 0

    # Recall: messages of the past that bear on what the user says now, word for word at the end of the
    # prompt. Off, since its share is taken from the notes on every turn, and most turns go on from the last
    # few. A context that is built for a question (`question=`) has it in any case.
    recall: bool = False
    recall_limit: Size = 0.15
    recall_scope: Literal["session", "owner"] = "session"
    embedder: str = ""  # finds by meaning as well: "openai:MODEL", "local:MODEL"; "": by words alone

    # When notes are condensed: late, shallow and rarely, since unused room is lost memory and each
    # rewrite of the prefix costs the provider's cache.
    reflect_at: Size = 0.90
    reflect_counts: Literal["memory", "observations"] = "memory"
    reflect_to: float = 0.85  # of reflect_at; 0: condense every observation
    # How much of the memory is condensed at once, oldest first. 0: twice what must go, which is cheap;
    # the built-in reflector costs nothing and takes all of it, since the more it sees at once, the
    # better it chooses.
    reflect_share: float = 0.0
    consolidate_at: int = 5
    # What a note should be of its source: `first_ratio` while memory is empty, `note_ratio` once it is full.
    # 0: the same from the first; the built-in model's are longer then, since condensing them later costs
    # nothing and the room would stay empty.
    first_ratio: float = 0.0
    note_ratio: float = 0.25

    # The last resort when the model is behind: wait for it. 0: never wait.
    block_after: Size = 0

    compact: bool = False  # take noted messages out of the live session
    archive: bool = True  # and keep them for recall
    journal: str = ""  # a folder for append-only files of all that is said and noted; "": none
    notes_folder: str = ""  # a folder for MEMORY.md and daily notes, which people read and edit; "": none

    # The count's own error: this share of the budget stays empty.
    margin: float = 0.04

    concurrency: int = 4
    model_deadline: float = 120.0
    retention_days: int = 0  # superseded notes older than this are purged in the background; 0: never
    # Noted messages older than this, or than the newest so many of a session, leave it for the archive, and
    # from there go for good; an owner's, beyond so many of all sessions, too. 0: never.
    retention_archive_days: int = 0
    retention_archive_messages: int = 0
    retention_delete_days: int = 0
    retention_delete_messages: int = 0
    retention_owner_messages: int = 0
    # OpenTelemetry spans and metrics, where the host uses it. They say how much and how long, never what.
    telemetry: bool = True


# -- The knobs as they are set for one way of working, by name

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
    cross_session="off",
    knowledge_limit=0,
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
    cross_session="all",
    knowledge_limit=0,
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
    if name not in tuple(PRESETS):  # a file may hold what has no hash
        raise SettingsError("preset", name, f"must be one of {', '.join(PRESETS)}")
    return PRESETS[name]


# -- Which values a setting can have, and which go together

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
    "idle_minutes": (0, 525_600),
    "knowledge_limit": (0, MOST_TOKENS),
    "recall_limit": (0.01, MOST_TOKENS),
    "max_reflections": (0, 100_000),
    "max_observations": (0, 100_000),
    "reflect_at": (0.01, MOST_TOKENS),
    "reflect_to": (0, 0.95),
    "reflect_share": (0, 1),
    "consolidate_at": (2, 1000),
    "first_ratio": (0, 0.9),
    "note_ratio": (0.05, 0.9),
    "block_after": (0, MOST_TOKENS),
    "margin": (0, 0.5),
    "concurrency": (1, 256),
    "model_deadline": (0.1, 3600),
    **dict.fromkeys(("retention_days", "retention_archive_days", "retention_delete_days"), (0, 36_500)),
    **dict.fromkeys(
        ("retention_archive_messages", "retention_delete_messages", "retention_owner_messages"), (0, 10**9)
    ),
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "preset": tuple(PRESETS),
    "estimator": ("default", "lango", "zora"),
    "format": ("lines", "prose"),
    "reflect_counts": ("memory", "observations"),
    "recall_scope": ("session", "owner"),
    "cross_session": ("named", "all", "off"),
}
SIZES = {f.name for f in fields(Settings) if f.type == "Size"}
_WHOLE = {f.name for f in fields(Settings) if f.type == "int"}
_SWITCHES = {f.name for f in fields(Settings) if f.type == "bool"}
KEYS = tuple(f.name for f in fields(Settings))
SMALLEST_BUDGET = 256
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


# -- What the settings come to in tokens

# What a reflector that costs nothing takes of the memory at once.
FREE_SHARE = 1.0
# What the first note should be of its source where notes cost nothing to write and to condense.
FREE_RATIO = 0.75
# How far memory comes down when it is condensed: the less, the less is lost, and the more often.
FREE_REFLECT_TO = 0.95
# And how large a chunk: the smaller, the sooner what was said is noted, and the more room is memory's. A
# language model reads its rules with every chunk.
FREE_CHUNK = 0.5
# What the headings of the memory section cost: notes must be condensed before they no longer fit
# beside them.
SECTION_TOKENS = 60


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
    cross_session_limit: int
    reflect_at: int
    block_after: int


def suited(settings: Settings, *, free_observer: bool, free_reflector: bool) -> Settings:
    """The settings in force, where notes cost nothing to write or to condense."""
    if not (free_reflector and settings.reflect_to):  # else every observation is condensed, and nothing else
        return settings
    settings = replace(settings, reflect_share=settings.reflect_share or FREE_SHARE)
    # Where only observations are counted, their size was decided by whoever set the number.
    if not free_observer or settings.reflect_counts != "memory":
        return settings
    settings = replace(
        settings,
        reflect_to=max(settings.reflect_to, FREE_REFLECT_TO),
        first_ratio=settings.first_ratio or max(FREE_RATIO, settings.note_ratio),
    )
    chunk, raw, ahead = settings.chunk_tokens, settings.observe_at, settings.precompute_at
    if not (isinstance(chunk, float) and isinstance(raw, float) and isinstance(ahead, float)):
        return settings
    saved = round(min(chunk * (1 - FREE_CHUNK), raw / 2, ahead / 2), 4)
    return replace(settings, chunk_tokens=chunk - saved, observe_at=raw - saved, precompute_at=ahead - saved)


@lru_cache(maxsize=256)
def limits(settings: Settings, budget: int) -> Limits:
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
    message_limit = tokens(settings.message_limit, whole)
    observe_at = max(1, min(tokens(settings.observe_at, whole // 4), message_limit))
    keep_recent = min(tokens(settings.keep_recent), observe_at - 1)
    # Memory gives way to what may stand raw, so that one of the two can be set alone.
    memory_limit = max(1, min(tokens(settings.memory_limit, whole * 7 // 10), whole - observe_at))
    # Until notes are condensed, the one that made them too many must fit as well.
    shares = isinstance(settings.memory_limit, float)
    one_more = round(tokens(settings.chunk_tokens) * settings.note_ratio) if shares else 0
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
        # At most half of the memory, so that a session's own notes are never crowded out.
        cross_session_limit=min(
            tokens(settings.cross_session_limit) if settings.cross_session_limit else 0, memory_limit // 2
        ),
        reflect_at=max(1, min(tokens(settings.reflect_at), memory_limit - SECTION_TOKENS - one_more)),
        block_after=tokens(settings.block_after),
    )


# -- Intervals and deadlines, which no settings file knows


@dataclass(frozen=True, slots=True)
class Timing:
    """Intervals and deadlines, in seconds. Tests shorten them; in production the defaults do."""

    # How often due sessions, missing index entries and edited files are looked for. What is recorded here is
    # worked on at once; the sweep is for what another process left.
    sweep_seconds: float = 5.0
    # How long a worker has a session to itself without a heartbeat: longer than a slow garbage collection or
    # disk, shorter than anyone waits for a crashed worker's notes.
    lease_seconds: float = 30.0
    # The first pause after a failed model call; it doubles with each failure, up to the limit.
    retry_seconds: float = 2.0
    retry_limit_seconds: float = 300.0
    # How long texts wait to go into an index together: one call instead of many.
    index_seconds: float = 1.0
    # How long a turn waits where `block_after` makes it wait.
    block_deadline: float = 10.0
    # How long a knowledge layer has for its answer; then the context is built without it.
    knowledge_deadline: float = 2.0
    # How long `close` waits for work in progress: what service managers give a process before they kill it.
    stop_deadline: float = 10.0


TIMING = Timing()
