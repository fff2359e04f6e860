"""Knowledge layers in order, each within its share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from onlooker.domain.context import LAYERS, OWN_LAYERS, Layer, Layers
from onlooker.domain.errors import SettingsError
from onlooker.policy.assemble import Counting, PromptRequest
from onlooker.policy.settings import Settings

# Stands where the rest of a layer was cut off.
CUT_MARK = "\n[…]"
# Less than this is not worth showing a layer in part.
LEAST_PART = 8
# Of what the base prompt leaves, so much is at most for layers, whatever the setting says.
MOST_SHARE = 0.9


def in_order(layers: Layers) -> dict[str, Layer]:
    """The layers as they stand in a prompt: the named ones by number, then others as they were given.

    Raises:
        SettingsError: One is neither text nor something to ask, or is one of ours.
    """
    order = {name: i for i, name in enumerate(LAYERS)}
    names = sorted(layers, key=lambda name: order.get(name, len(order)))
    return {name: _checked(name, layers[name]) for name in names}


def _checked(name: str, given: object) -> Layer:
    if name in OWN_LAYERS:
        raise SettingsError(f"knowledge[{name!r}]", given, "is filled from the session's own notes")
    layer = given if isinstance(given, Layer) else Layer(cast("str", given))
    if not isinstance(layer.source, str) and not callable(layer.source):
        what = "must be text, an async function that is asked for it, or a Layer of either"
        raise SettingsError(f"knowledge[{name!r}]", given, what)
    if layer.tokens < 0:
        raise SettingsError(f"knowledge[{name!r}].tokens", layer.tokens, "must be 0 or more")
    return layer


# ------------------------------------------------------------------------------------ shares


def room_for_layers(frame: PromptRequest, settings: Settings, counting: Counting) -> int | None:
    """Tokens for all layers together: a share of what the base prompt leaves; None for any number."""
    limit = settings.knowledge_limit
    if not limit:
        return None
    if not frame.budget:
        return None if isinstance(limit, float) else limit
    left = max(0, counting.usable(frame, settings) - counting.text(frame.prompt) - counting.text(frame.end))
    return (
        int(left * min(limit, MOST_SHARE)) if isinstance(limit, float) else min(limit, int(left * MOST_SHARE))
    )


def parted(layers: Mapping[str, Layer], room: int | None) -> tuple[int | None, int | None]:
    """Tokens for the stable layers, and for the volatile ones.

    It goes by how many there are, not by what they say this time: what stands before the memory must
    not change because something behind it did.
    """
    if room is None:
        return None, None
    equal = room // max(1, len(layers))
    volatile = sum(min(layer.tokens or equal, equal) for layer in layers.values() if layer.volatile)
    return room - volatile, volatile


def allot(needs: Mapping[str, int], room: int | None) -> dict[str, int]:
    """Tokens for each: what it needs, or else an equal part of what the smaller ones leave."""
    if room is None:
        return dict(needs)
    given: dict[str, int] = {}
    for name in sorted(needs, key=lambda name: needs[name]):
        given[name] = min(needs[name], room // (len(needs) - len(given)))
        room -= given[name]
    return given


# ------------------------------------------------------------------------------------ cutting


def shortened(text: str, tokens: int, counting: Counting) -> str:
    """As much from the beginning as fits, up to the end of a paragraph, or else of a line or word."""
    if counting.text(text) <= tokens:
        return text
    if tokens < LEAST_PART:
        return ""
    paragraphs = _beginning(text.split("\n\n"), "\n\n", tokens, counting)
    if counting.text(paragraphs) * 2 >= tokens:
        return paragraphs
    lines = _beginning(text.split("\n"), "\n", tokens, counting)
    return (
        lines
        or _beginning(text.split(" "), " ", tokens, counting)
        or _beginning(list(text), "", tokens, counting)
    )


def _beginning(parts: list[str], joint: str, tokens: int, counting: Counting) -> str:
    """The most parts that fit together with the mark; "" where not even one does."""

    def kept(count: int) -> str:
        return joint.join(parts[:count]).rstrip() + CUT_MARK

    low, high = 0, len(parts) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if counting.text(kept(middle)) <= tokens else (low, middle - 1)
    fits = low > 0 and counting.text(kept(low)) <= tokens and kept(low) != CUT_MARK
    return kept(low) if fits else ""


def with_layers(
    frame: PromptRequest, stable: Mapping[str, str], volatile: Mapping[str, str], reserved: int | None
) -> PromptRequest:
    """The frame with the layers' texts: stable ones behind the base prompt, volatile ones at the end."""
    end = "\n\n".join(t for t in (*volatile.values(), frame.end) if t)
    return replace(frame, knowledge=stable, volatile=volatile, end=end, reserved=reserved or 0)
