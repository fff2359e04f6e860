"""The settings: what each is for, the presets, which values are allowed, and what they come to in tokens.

In the default preset one number matters, the context budget: every size is a share of it. A size is a
share if it is a fraction (0.25) and a number of tokens if it is an integer (8000). The presets `lango` and
`zora` keep the absolute numbers that those two systems document.

A number that no host has a reason to change is a constant next to the code that uses it, or part of `Timing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, fields, replace
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeVar

from onlooker.domain.errors import SettingsError
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import DEFAULT_OWNER
from onlooker.domain.notes import NoteFormat
from onlooker.policy import model_names

Size = int | float
T = TypeVar("T")

MAX_TOKENS = 10_000_000
MAX_DOLLARS = 1_000_000
MAX_DAYS = 36_500
# Below this a context cannot hold the headings of the memory section and a message.
MIN_BUDGET = 256
# Characters of an instruction: it is sent with every call, and must leave most of the prompt to the rules.
MAX_INSTRUCTION_LENGTH = 2_000
# An estimator that counts with tiktoken, such as "tiktoken:cl100k_base".
TIKTOKEN = "tiktoken:"


# -- The settings


def _setting(default: T, about: str, **allowed: Any) -> T:
    """Return a field with its reason, and with `low` and `high`, or `choices`, if it has them."""
    return field(default=default, metadata={"about": about, **allowed})  # pyright: ignore[reportReturnType]


@frozen
class Settings:
    """How a memory behaves. Make one with `preset`, `from_mapping` or `replace`."""

    enabled: bool = _setting(True, "Turns memory on. Off: what goes out equals what came in.")
    preset: str = _setting(
        "default", "The preset that the other settings start from.", choices=("default", "lango", "zora")
    )
    budget: int = _setting(
        16_000,
        "Tokens for a whole context if a call names none. 0: only the limits below apply.",
        low=0,
        high=MAX_TOKENS,
    )
    estimator: str = _setting(
        "default",
        "How tokens are counted: `default` (calibrated), `lango`, `zora` or `tiktoken:ENCODING`.",
        choices=("default", "lango", "zora"),
    )
    format: NoteFormat = _setting(
        "lines",
        "Whether notes are `lines` under the heading of their day, `stamped` lines with date, time and "
        "priority each, or `prose`.",
        choices=("lines", "stamped", "prose"),
    )
    model: str = _setting(
        "",
        "The model that writes observations, as `PROVIDER:NAME`. Empty: the agent's own if one is given "
        "(`open_memory(model=…)`), else the built-in one.",
    )
    reflector_model: str = _setting("", "The model that condenses them. Empty: the same as `model`.")
    instruction: str = _setting(
        "", "Your own words on what to note, for a language model; at most 2,000 characters."
    )
    spend_per_session: float = _setting(
        0.0,
        "Dollars that language models may cost for one session. 0: no limit.",
        low=0,
        high=MAX_DOLLARS,
    )
    spend_per_owner: float = _setting(
        0.0, "The same for all sessions of one owner. 0: no limit.", low=0, high=MAX_DOLLARS
    )
    spend_per_day: float = _setting(
        0.0, "The same for all sessions in one day. 0: no limit.", low=0, high=MAX_DOLLARS
    )

    tz: str = _setting(
        "UTC",
        'The time zone, such as `Europe/Oslo`, of messages without one: what day it is, and what "yesterday" '
        "means.",
    )

    # When messages become notes. Notes are written ahead as soon as one chunk lies before `keep_recent`.
    observe_at: Size = _setting(
        0.185,
        "How much may stay raw before notes replace it. If it is a share, [more may stay raw](cost.md"
        "#how-the-prompt-changes) while notes leave room.",
        low=0.01,
        high=MAX_TOKENS,
    )
    keep_recent: Size = _setting(0.05, "How much of that stays raw afterwards.", low=0, high=MAX_TOKENS)
    chunk_tokens: Size = _setting(
        0.13, "How much one observation covers. 0: all there is.", low=0, high=MAX_TOKENS
    )
    chunk_messages: int = _setting(
        0, "How many messages one observation covers. 0: any number.", low=0, high=100_000
    )
    precompute: bool = _setting(
        True, "Write notes ahead, so that nothing waits for a model when `observe_at` is reached."
    )
    precompute_at: Size = _setting(
        0.18, "How much un-noted text there must be for that.", low=0.01, high=MAX_TOKENS
    )
    overlap: Size = _setting(0, "How much noted text still stays raw.", low=0, high=MAX_TOKENS)

    # What the prompt may hold. A count of 0 means no limit.
    memory_limit: Size = _setting(
        0.90,
        "How much of the prompt notes may take, less if `observe_at` leaves less.",
        low=0.01,
        high=MAX_TOKENS,
    )
    message_limit: Size = _setting(
        0.90, "How much of the prompt raw messages may take.", low=0.01, high=MAX_TOKENS
    )
    cross_session_limit: Size = _setting(
        0.10,
        "How much of the memory [facts of other sessions](items.md) of the same owner may take. 0: sessions "
        "share no facts.",
        low=0,
        high=MAX_TOKENS,
    )
    owner: str = _setting(
        "",
        "Whose the sessions are that are opened without an owner, for an agent of one person: they share "
        "what they know. Empty: they share nothing.",
    )
    idle_minutes: float = _setting(
        30.0,
        "Minutes without a message after which a session has ended. 0: only `Session.end` ends one.",
        low=0,
        high=525_600,
    )
    knowledge_limit: Size = _setting(
        0.40,
        "How much all [knowledge layers](knowledge.md) may take, after the base prompt. 0: no limit.",
        low=0,
        high=MAX_TOKENS,
    )
    max_reflections: int = _setting(
        0, "How many reflections the prompt may hold. 0: no limit.", low=0, high=100_000
    )
    max_observations: int = _setting(
        0, "How many observations the prompt may hold. 0: no limit.", low=0, high=100_000
    )

    recall: Literal["owner", "session", "off"] = _setting(
        "owner",
        "On every turn, quote [earlier messages](recall.md#recall-in-the-prompt) that bear on what the user "
        "says: from the sessions of its `owner`, if they share facts, from this `session` "
        "alone, or none (`off`).",
        choices=("owner", "session", "off"),
    )
    embedder: str = _setting(
        "",
        "What finds [by meaning](vectors.md) as well: `openai:MODEL`, `openai:MODEL@URL`, `ollama:MODEL` or "
        "`local:MODEL`. Empty: search by words only.",
    )

    # When notes are condensed: rarely and by much, since a provider's cache loses everything after a change.
    # Room that they leave is not paid for, and recall brings what was condensed away. In small budgets both
    # shares are larger (`SMALL`).
    reflect_at: Size = _setting(
        0.6,
        "How large notes may grow before they are condensed. The default is larger in [budgets below "
        "7,500 tokens](cost.md#small-budgets), and where `recall` is off.",
        low=0.01,
        high=MAX_TOKENS,
    )
    reflect_counts: Literal["memory", "observations"] = _setting(
        "memory",
        "What counts towards `reflect_at`: all notes (`memory`) or only `observations`.",
        choices=("memory", "observations"),
    )
    reflect_to: float = _setting(
        0.45,
        "How far they are condensed, as a share of `reflect_at`. 0: every observation. With the built-in "
        "model the default is larger in budgets below 7,500 tokens, and where `recall` is off.",
        low=0,
        high=0.95,
    )
    consolidate_at: int = _setting(5, "How many reflections are condensed into one.", low=2, high=1000)
    block_after: Size = _setting(
        0,
        "How much un-noted text makes a turn wait for a model that is far behind. 0: never wait.",
        low=0,
        high=MAX_TOKENS,
    )

    compact: bool = _setting(False, "Take noted messages out of the live session.")
    archive: bool = _setting(True, "Keep messages that are taken out, for recall.")
    journal: str = _setting(
        "",
        "A folder for a [journal](export.md#journal): append-only files from which a store can be rebuilt. "
        "Empty: none.",
    )
    notes_folder: str = _setting(
        "", "A folder for [MEMORY.md and daily notes](files.md), which people read and edit. Empty: none."
    )

    concurrency: int = _setting(
        4, "How many sessions are noted at the same time; a provider's rate limit sets it.", low=1, high=256
    )
    model_deadline: float = _setting(
        120.0, "Seconds that a model has for one reply; a local model may need more.", low=0.1, high=3600
    )
    retention_days: int = _setting(
        0,
        "Days after which [superseded notes](retention.md) and retired messages are deleted. 0: never.",
        low=0,
        high=MAX_DAYS,
    )
    retention_archive_days: int = _setting(
        0, "Days after which noted messages are archived. 0: never.", low=0, high=MAX_DAYS
    )
    retention_archive_messages: int = _setting(
        0, "How many of a session's newest messages are not archived. 0: all.", low=0, high=10**9
    )
    retention_delete_days: int = _setting(
        0, "Days after which noted messages are deleted, archived ones too. 0: never.", low=0, high=MAX_DAYS
    )
    retention_delete_messages: int = _setting(
        0, "How many of a session's newest messages are not deleted. 0: all.", low=0, high=10**9
    )
    retention_owner_messages: int = _setting(
        0, "How many messages one owner keeps in all sessions. 0: any number.", low=0, high=10**9
    )
    telemetry: bool = _setting(
        True, "Emit [OpenTelemetry](events.md) spans and metrics if your program uses OpenTelemetry."
    )

    # Not a setting: which models are the built-in one, whose notes cost nothing. `with_models` sets it.
    free_models: Literal["none", "reflector", "both"] = field(default="none", metadata={"internal": True})

    def shares_items(self, owner: str) -> bool:
        """Return whether this owner's sessions share items. Sessions without an owner do not, since they may
        belong to different people, unless the settings say that they are one person's."""
        if not self.enabled or not self.cross_session_limit:
            return False
        return owner != DEFAULT_OWNER or owner == self.owner

    @property
    def own_owner(self) -> str:
        """The owner of sessions that are opened without one."""
        return self.owner or DEFAULT_OWNER

    def recalls_owner(self, owner: str) -> bool:
        """Return whether this owner's sessions recall what was said in each other."""
        return self.recall == "owner" and self.shares_items(owner)


def with_models(settings: Settings, *, free_observer: bool, free_reflector: bool) -> Settings:
    """Return the settings for these models: `limits` uses other sizes if notes cost nothing."""
    free = "both" if free_observer and free_reflector else "reflector" if free_reflector else "none"
    return replace(settings, free_models=free)


# -- Presets

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
    knowledge_limit=0,
    max_reflections=5,
    max_observations=20,
    recall="off",
    reflect_at=2000,
    reflect_counts="observations",
    reflect_to=0.0,
)
ZORA = Settings(
    preset="zora",
    budget=0,
    estimator="zora",
    format="stamped",
    observe_at=30_000,
    keep_recent=0,
    chunk_tokens=0,
    chunk_messages=20,
    precompute_at=24_000,
    memory_limit=15_000,
    message_limit=60_000,
    cross_session_limit=5000,
    owner=DEFAULT_OWNER,  # an agent of one person
    knowledge_limit=0,
    recall="off",
    reflect_at=10_000,
    reflect_counts="observations",
    reflect_to=0.5,
    block_after=60_000,
)
PRESETS = {"default": DEFAULT, "lango": LANGO, "zora": ZORA}
OFF = replace(DEFAULT, enabled=False)


def preset(name: str) -> Settings:
    """Return the settings of a preset."""
    if name not in tuple(PRESETS):  # a file may hold a value that cannot be hashed
        raise SettingsError("preset", name, f"must be one of {', '.join(PRESETS)}")
    return PRESETS[name]


# -- Which values are allowed

_FIELDS = {f.name: f for f in fields(Settings) if "internal" not in f.metadata}
KEYS = tuple(_FIELDS)
SIZES = {name for name, f in _FIELDS.items() if f.type == "Size"}
MODELS = ("model", "reflector_model")


def nearest(key: str, keys: Iterable[str] = KEYS, *, alike: float = 0.6) -> str:
    """Return the setting that someone may have meant, or ""."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(key, list(keys), 1, alike)), "")


def unknown(key: str, keys: Sequence[str] = KEYS) -> str:
    """Return what is wrong with a key that is not a setting."""
    near = nearest(key, keys)
    return "is not a setting; " + (f"did you mean {near}?" if near else f"the settings are {', '.join(keys)}")


def about(key: str) -> str:
    """Return what a setting is for, in one or two sentences."""
    return _FIELDS[key].metadata["about"]


def choices(key: str) -> tuple[str, ...]:
    """Return all values of a setting, if they can be listed; else none."""
    if _FIELDS[key].type == "bool":
        return ("true", "false")
    return () if key == "estimator" else _FIELDS[key].metadata.get("choices", ())


def allowed(key: str) -> str:
    """Return the allowed values of a setting, for messages and help texts."""
    type_, limits_ = _FIELDS[key].type, _FIELDS[key].metadata
    if type_ == "bool":
        return "must be true or false"
    if "choices" in limits_:
        others = f" or {TIKTOKEN}ENCODING" if key == "estimator" else ""
        return f"must be one of {', '.join(limits_['choices'])}{others}"
    if key in SIZES:
        return (
            f"must be a share of the budget (above 0, up to 1) or an integer of tokens (up to {MAX_TOKENS})"
        )
    if "low" in limits_:
        kind = "an integer" if type_ == "int" else "a number"
        return f"must be {kind} from {limits_['low']:.10g} to {limits_['high']:.10g}"
    if key == "tz":
        return "must be the name of a time zone, such as UTC or Europe/Oslo"
    if key in MODELS:
        return f'{model_names.ALLOWED}, "{model_names.BUILT_IN}", or empty'
    return "must be text" + (
        f" of at most {MAX_INSTRUCTION_LENGTH} characters" if key == "instruction" else ""
    )


def possible(key: str, value: object) -> bool:
    """Return whether a setting can have this value, regardless of the others."""
    type_, limits_ = _FIELDS[key].type, _FIELDS[key].metadata
    if type_ == "bool":
        return isinstance(value, bool)
    if key == "estimator" and isinstance(value, str) and value.startswith(TIKTOKEN):
        return len(value) > len(TIKTOKEN)
    if "choices" in limits_:
        return value in limits_["choices"]
    if key == "tz":
        return isinstance(value, str) and _zone(value) is not None
    if key in MODELS:
        return isinstance(value, str) and model_names.can_be_set(value)
    if "low" not in limits_:
        return isinstance(value, str) and (key != "instruction" or len(value) <= MAX_INSTRUCTION_LENGTH)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    low, high = limits_["low"], limits_["high"]
    if type_ == "int" and not isinstance(value, int):
        return False
    if key in SIZES:
        if isinstance(value, float):
            return 0 <= value <= 1 and value >= low
        return (value >= 1 or low == 0) and 0 <= value <= high
    return low <= value <= high


def time_zone(tz: object) -> tzinfo:
    """Return the time zone with this name; a `tzinfo` as it is.

    Raises:
        SettingsError: There is no such zone.
    """
    zone = tz if isinstance(tz, tzinfo) else _zone(tz) if isinstance(tz, str) else None
    if zone is None:
        raise SettingsError("tz", tz, f"{allowed('tz')}, or a tzinfo")
    return zone


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo | None:
    if name == "UTC":
        return UTC  # also where the system has no database of time zones
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return None


def check(settings: Settings) -> Settings:
    """Return the settings if they can work.

    Raises:
        SettingsError: Names the key, the value and what is allowed.
    """
    s = settings
    for key in KEYS:
        value = getattr(s, key)
        if not possible(key, value):
            hint = model_names.meant(value) if key in MODELS and isinstance(value, str) else ""
            raise SettingsError(key, value, hint + allowed(key))
    if 0 < s.budget < MIN_BUDGET:
        raise SettingsError("budget", s.budget, f"must be at least {MIN_BUDGET}, or 0 for none")
    if _comparable(s.keep_recent, s.observe_at) and s.keep_recent >= s.observe_at:
        raise SettingsError("keep_recent", s.keep_recent, f"must be below observe_at ({s.observe_at})")
    for small, large in (("observe_at", "message_limit"), ("precompute_at", "observe_at")):
        a, b = getattr(s, small), getattr(s, large)
        if _comparable(a, b) and a > b:
            raise SettingsError(small, a, f"must be at most {large} ({b})")
    if s.block_after and _comparable(s.block_after, s.observe_at) and s.block_after <= s.observe_at:
        raise SettingsError("block_after", s.block_after, f"must be above observe_at ({s.observe_at})")
    return s


def _comparable(a: Size, b: Size) -> bool:
    return isinstance(a, float) == isinstance(b, float)


# -- Sizes in tokens

# How long a note should be, as a share of what it covers. Longer notes are condensed sooner, which breaks the
# prefix and lets the reflector read twice as much, and keep nothing more (docs/cost.md).
NOTE_RATIO = 0.2
# The same for the presets with numbers of their own, where reflections do not count towards `reflect_at`.
PRESET_NOTE_RATIO = 0.25
# The same while memory is empty and has never been condensed, if notes cost nothing to write and to condense:
# free room is lost memory. In small budgets they are longer still, since messages do not fill that room.
FREE_RATIO, SMALL_FREE_RATIO = 0.5, 0.75
# The same in small budgets if notes cost something. In larger ones messages fill the room.
SMALL_RATIO = 0.35
# A short prompt costs little, and leaves out most. Up to SMALL tokens notes take all the room that messages
# leave, and the built-in model condenses them by little at a time; from LARGE on the settings hold as they
# are; in between it is in between.
SMALL, LARGE = 2_000, 7_500
SMALL_REFLECT_AT, SMALL_REFLECT_TO = 0.9, 0.95
# The most that recall adds to a turn, and what notes and messages leave free for it at their largest, as
# shares of the room. Notes never make way for what a turn recalls.
RECALL_SHARE, RECALL_RESERVED = 0.2, 0.1
# Notes and messages together fill this share before notes take the messages' place: what still fits is shown
# as it was said, and the prefix breaks half as often. Not in small budgets, where notes hold more.
FILL = 0.85
# What the headings of the memory section cost: notes must be condensed before they no longer fit beside them.
SECTION_TOKENS = 60


@frozen
class Limits:
    """The settings in tokens, for one budget. Plans and contexts are made from these."""

    settings: Settings
    budget: int  # for memory and messages together; 0: only the limits below apply
    observe_at: int
    fill_to: int  # messages may stay raw above `observe_at` until they and the notes come to this
    keep_recent: int
    chunk_tokens: int
    precompute_at: int
    overlap: int
    note_ratio: float  # how long a note should be, as a share of what it covers
    first_ratio: float  # the same while memory is empty
    memory_limit: int
    message_limit: int
    cross_session_limit: int
    recall_limit: int
    reflect_at: int
    reflect_to: float
    condenses_all: bool  # all notes at once, instead of the oldest
    block_after: int


@lru_cache(maxsize=256)
def limits_for(settings: Settings, budget: int) -> Limits:
    """Return the settings in tokens if memory and messages have `budget` tokens.

    Absolute sizes that the budget cannot hold shrink with it, so that a small budget works with a preset of
    large numbers.
    """
    base = budget or settings.budget or DEFAULT.budget
    whole = budget or MAX_TOKENS

    def tokens(size: Size, most: int = MAX_TOKENS) -> int:
        if isinstance(size, float):
            return max(1, round(size * base))
        return min(size, most)

    message_limit = tokens(settings.message_limit, whole)
    observe_at = max(1, min(tokens(settings.observe_at, whole // 4), message_limit))
    keep_recent = min(tokens(settings.keep_recent), observe_at - 1)
    chunk_tokens = tokens(settings.chunk_tokens)
    block_after = tokens(settings.block_after)
    recall_limit = 0 if settings.recall == "off" else round(RECALL_SHARE * base)
    # Memory gets what raw messages and recall leave, so that each of them can be set alone.
    left = whole - observe_at - min(recall_limit, round(RECALL_RESERVED * base))
    memory_limit = max(1, min(tokens(settings.memory_limit, whole * 7 // 10), left))
    shares = _shares(settings, base)
    # Until notes are condensed, the one that made them too many must fit as well.
    one_more = round(chunk_tokens * shares.note_ratio) if isinstance(settings.memory_limit, float) else 0
    return Limits(
        settings=settings,
        budget=budget,
        observe_at=observe_at,
        # Below `block_after` there must be time to take notes.
        fill_to=min(
            round(shares.fill * base), message_limit, (observe_at + (block_after or MAX_TOKENS)) // 2
        ),
        keep_recent=keep_recent,
        chunk_tokens=chunk_tokens,
        precompute_at=max(keep_recent + 1, min(tokens(settings.precompute_at), observe_at)),
        overlap=min(tokens(settings.overlap), max(0, message_limit - observe_at)),
        note_ratio=shares.note_ratio,
        first_ratio=shares.first_ratio,
        memory_limit=memory_limit,
        message_limit=message_limit,
        # At most half of the memory, so that a session's own notes are never crowded out.
        cross_session_limit=min(
            tokens(settings.cross_session_limit) if settings.cross_session_limit else 0, memory_limit // 2
        ),
        recall_limit=recall_limit,
        reflect_at=max(1, min(tokens(shares.reflect_at), memory_limit - SECTION_TOKENS - one_more)),
        reflect_to=shares.reflect_to,
        condenses_all=_condenses_all(settings),
        block_after=block_after,
    )


class _Shares(NamedTuple):
    """The shares that depend on how small the budget is."""

    note_ratio: float
    first_ratio: float
    fill: float
    reflect_at: Size
    reflect_to: float


def _shares(settings: Settings, base: int) -> _Shares:
    small = min(1.0, max(0.0, (LARGE - base) / (LARGE - SMALL)))
    # Where nothing is recalled, notes are all there is: they take their room at every budget.
    filled = 1.0 if settings.recall == "off" else small
    # If only observations are counted, the person who set the number decided their size.
    counts_all = settings.reflect_counts == "memory"
    free = counts_all and settings.free_models == "both" and _condenses_all(settings)

    at, to = settings.reflect_at, settings.reflect_to
    if at == DEFAULT.reflect_at:
        at += (SMALL_REFLECT_AT - at) * filled
    if free and to == DEFAULT.reflect_to:
        to += (SMALL_REFLECT_TO - to) * filled
    if not counts_all:
        note_ratio = first_ratio = PRESET_NOTE_RATIO
    elif free:
        note_ratio = NOTE_RATIO
        first_ratio = FREE_RATIO + (SMALL_FREE_RATIO - FREE_RATIO) * min(1.0, 2 * filled)
    else:
        note_ratio = NOTE_RATIO
        first_ratio = NOTE_RATIO + (SMALL_RATIO - NOTE_RATIO) * min(1.0, 2 * small)
    fill = FILL * max(0.0, 1 - 2 * small) if isinstance(settings.observe_at, float) else 0
    return _Shares(note_ratio, first_ratio, fill, at, to)


def _condenses_all(settings: Settings) -> bool:
    # With `reflect_to` 0 every observation is condensed, and nothing else.
    return settings.free_models != "none" and settings.reflect_to > 0


# -- Intervals and deadlines


@frozen
class Timing:
    """Intervals and deadlines in seconds. Not in settings files; tests and operators pass others."""

    # How often due sessions, missing index entries and edited files are looked for. What this process records
    # is worked on at once; the sweep finds what another process left.
    sweep_seconds: float = 5.0
    # How long a worker has a session to itself without a heartbeat: longer than a slow disk or garbage
    # collection, shorter than anyone waits for the notes of a crashed worker.
    lease_seconds: float = 30.0
    # The pause after a failed model call; it doubles with each failure, up to the limit.
    retry_seconds: float = 2.0
    retry_limit_seconds: float = 300.0
    # How long texts wait to be indexed together: one call instead of many.
    index_seconds: float = 1.0
    # How long a turn waits at `block_after`.
    block_deadline: float = 10.0
    # How long a turn takes notes itself of a long history that was handed over at once.
    on_the_spot: float = 0.05
    # How long a knowledge layer has for its answer; then the context is built without it.
    knowledge_deadline: float = 2.0
    # How long recall may take; then the turn goes on without it.
    recall_deadline: float = 1.0
    # How long `close` waits for work in progress: what service managers give a process before they kill it.
    stop_deadline: float = 10.0


TIMING = Timing()
