"""Every knob, its default, and its reason; the presets; and what they come to in tokens.

In the default preset there is one knob, the context budget: every size is a share of it. A size is
a share when it is a fraction (0.25) and a number of tokens when it is whole (8000). The presets
`lango` and `zora` keep the absolute numbers that those two systems documented.
"""

from __future__ import annotations

from onlooker.policy.settings.checking import (
    KEYS,
    MOST_INSTRUCTION,
    MOST_TOKENS,
    SIZES,
    SMALLEST_BUDGET,
    allowed,
    check,
    possible,
)
from onlooker.policy.settings.knobs import Settings, Size
from onlooker.policy.settings.presets import DEFAULT, LANGO, OFF, PRESETS, ZORA, preset
from onlooker.policy.settings.sizing import SECTION_TOKENS, Limits, limits, suited

__all__ = [
    "DEFAULT",
    "KEYS",
    "LANGO",
    "MOST_INSTRUCTION",
    "MOST_TOKENS",
    "OFF",
    "PRESETS",
    "SECTION_TOKENS",
    "SIZES",
    "SMALLEST_BUDGET",
    "ZORA",
    "Limits",
    "Settings",
    "Size",
    "allowed",
    "check",
    "limits",
    "possible",
    "preset",
    "suited",
]
