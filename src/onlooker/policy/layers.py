"""Knowledge layers: their order in a prompt, their shares of the budget, and cutting them to fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from onlooker.domain.context import LAYERS, OWN_LAYERS, Layer, Layers
from onlooker.domain.errors import SettingsError
from onlooker.policy.assemble import Counting, PromptRequest
from onlooker.policy.settings import Settings


def in_order(layers: Layers) -> dict[str, Layer]:
    """Sort layers as in a prompt: the named ones by number, then others in the order given.

    Raises:
        SettingsError: A layer is neither text nor callable, or has the name of a reserved layer.
    """
    order = {name: i for i, name in enumerate(LAYERS)}
    names = sorted(layers, key=lambda name: order.get(name, len(order)))
    return {name: _check(name, layers[name]) for name in names}


def _check(name: str, given: object) -> Layer:
    if name in OWN_LAYERS:
        raise SettingsError(f"knowledge[{name!r}]", given, "is reserved for the session's own notes")
    layer = given if isinstance(given, Layer) else Layer(cast("str", given))
    if not isinstance(layer.source, str) and not callable(layer.source):
        what = "must be text, an async function that returns text, or a Layer of either"
        raise SettingsError(f"knowledge[{name!r}]", given, what)
    if layer.tokens < 0:
        raise SettingsError(f"knowledge[{name!r}].tokens", layer.tokens, "must be 0 or more")
    return layer


# -- Shares

# Layers get at most this share of what the base prompt leaves, whatever the setting says.
MAX_SHARE = 0.9


def room_for_layers(request: PromptRequest, settings: Settings, counting: Counting) -> int | None:
    """Return the tokens for all layers together, a share of what the base prompt leaves; None: no limit."""
    limit = settings.knowledge_limit
    if not limit:
        return None
    if not request.budget:
        return None if isinstance(limit, float) else limit
    left = max(
        0, counting.usable(request, settings) - counting.text(request.prompt) - counting.text(request.end)
    )
    return (
        int(left * min(limit, MAX_SHARE)) if isinstance(limit, float) else min(limit, int(left * MAX_SHARE))
    )


def split_room(layers: Mapping[str, Layer], room: int | None) -> tuple[int | None, int | None]:
    """Divide the room between the stable and the volatile layers.

    It depends on their number, not on their texts, so that the stable part of the prompt does not change
    when a volatile layer does.
    """
    if room is None:
        return None, None
    equal = room // max(1, len(layers))
    volatile = sum(min(layer.tokens or equal, equal) for layer in layers.values() if layer.volatile)
    return room - volatile, volatile


def allot(needs: Mapping[str, int], room: int | None) -> dict[str, int]:
    """Give each layer what it needs, or an equal part of what the smaller ones leave."""
    if room is None:
        return dict(needs)
    given: dict[str, int] = {}
    for name in sorted(needs, key=lambda name: needs[name]):
        given[name] = min(needs[name], room // (len(needs) - len(given)))
        room -= given[name]
    return given


# -- Cutting

# Marks where the rest of a layer was cut off.
CUT_MARK = "\n[…]"
# Parts of a layer with fewer tokens than this are not shown.
MIN_PART = 8


def shorten(text: str, tokens: int, counting: Counting) -> str:
    """Keep as much of the beginning as fits, up to the end of a paragraph, or else of a line or word."""
    if counting.text(text) <= tokens:
        return text
    if tokens < MIN_PART:
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
    """Join as many parts as fit with the mark; return "" if not even one fits."""

    def kept(count: int) -> str:
        return joint.join(parts[:count]).rstrip() + CUT_MARK

    low, high = 0, len(parts) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if counting.text(kept(middle)) <= tokens else (low, middle - 1)
    fits = low > 0 and counting.text(kept(low)) <= tokens and kept(low) != CUT_MARK
    return kept(low) if fits else ""


def with_layers(
    request: PromptRequest, stable: Mapping[str, str], volatile: Mapping[str, str], reserved: int | None
) -> PromptRequest:
    """Add the layers' texts to a request: stable ones after the base prompt, volatile ones at the end."""
    end = "\n\n".join(t for t in (*volatile.values(), request.end) if t)
    return replace(request, knowledge=stable, volatile=volatile, end=end, layer_reserve=reserved or 0)
