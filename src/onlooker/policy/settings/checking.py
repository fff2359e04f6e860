"""Which values a setting can have, and which go together."""

from __future__ import annotations

from dataclasses import fields

from onlooker.domain.errors import SettingsError
from onlooker.policy.settings.knobs import Settings, Size
from onlooker.policy.settings.presets import PRESETS

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
    "knowledge_deadline": (0.01, 600),
    "recall_limit": (0.01, MOST_TOKENS),
    "index_queue": (1, 1_000_000),
    "index_batch": (1, 2048),
    "index_seconds": (0, 600),
    "max_reflections": (0, 100_000),
    "max_observations": (0, 100_000),
    "reflect_at": (0.01, MOST_TOKENS),
    "reflect_to": (0, 0.95),
    "reflect_share": (0, 1),
    "consolidate_at": (2, 1000),
    "first_ratio": (0, 0.9),
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
