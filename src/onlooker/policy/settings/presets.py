"""The knobs as they are set for one way of working, by name."""

from __future__ import annotations

from dataclasses import replace

from onlooker.domain.errors import SettingsError
from onlooker.policy.settings.knobs import Settings

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
