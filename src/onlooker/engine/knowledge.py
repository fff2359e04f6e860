"""Call a host's knowledge layers. None can break the turn, or delay it beyond the deadline."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from onlooker.domain.context import Knowledge, Layer, LayerRequest, RuntimeContext
from onlooker.domain.events import Event, LayerCut, LayerLeftOut
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import SessionId
from onlooker.policy.assemble import Counting, PromptRequest
from onlooker.policy.layers import allot, room_for_layers, shorten, split_room, with_layers
from onlooker.policy.settings import MAX_TOKENS, TIMING, Settings

log = logging.getLogger("onlooker")


@frozen
class LayerCall:
    """Asks the layers of one context for their texts."""

    session: SessionId
    runtime: RuntimeContext
    settings: Settings
    counting: Counting
    emit: Callable[[Event], None]
    question: str = ""
    deadline: float = TIMING.knowledge_deadline

    async def fill(self, request: PromptRequest, layers: Mapping[str, Layer]) -> PromptRequest:
        """The request with the texts of the layers, each within its share of the room."""
        stable = {name: layer for name, layer in layers.items() if not layer.volatile}
        volatile = {name: layer for name, layer in layers.items() if layer.volatile}
        rooms = split_room(layers, room_for_layers(request, self.settings, self.counting))
        shares = self._shares(stable, rooms[0]) | self._shares(volatile, rooms[1])
        texts, missing = await self._texts(layers, shares)
        above = self._fit(stable, texts, rooms[0])
        below = self._fit(volatile, texts, rooms[1])
        whole = {name: self.counting.text(texts.get(name, "")) for name in layers}
        cut = {
            name: whole[name] - self.counting.text(text)
            for name, text in (above | below).items()
            if text != texts.get(name, "")
        }
        for name, left_out in cut.items():
            log.info("%s: knowledge layer %s is cut by %d tokens", self.session.key, name, left_out)
            self.emit(LayerCut(self.session, name, whole[name] - left_out, left_out))
        return replace(with_layers(request, above, below, rooms[1]), cut=cut, missing=missing)

    # -- shares

    def _shares(self, layers: Mapping[str, Layer], room: int | None) -> dict[str, int]:
        """The tokens for each layer before the texts are known; 0 means no limit."""
        if room is None:
            return {name: layer.tokens for name, layer in layers.items()}
        known = {n: self.counting.text(s.source) for n, s in layers.items() if isinstance(s.source, str)}
        needs = {n: _capped(known.get(n, MAX_TOKENS), layer) for n, layer in layers.items()}
        return allot(needs, room)

    def _fit(self, layers: Mapping[str, Layer], texts: Mapping[str, str], room: int | None) -> dict[str, str]:
        """The texts, cut to fit the room now that all are known."""
        found = {name: texts.get(name, "") for name in layers}
        needs = {name: _capped(self.counting.text(found[name]), layer) for name, layer in layers.items()}
        shares = allot(needs, room)
        return {name: shorten(text, shares[name], self.counting) for name, text in found.items()}

    # -- asking

    async def _texts(
        self, layers: Mapping[str, Layer], shares: Mapping[str, int]
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """The text of each layer, and the layers that did not answer."""
        texts = {
            n: _text_or_empty(layer.source) for n, layer in layers.items() if isinstance(layer.source, str)
        }
        began = time.perf_counter()
        tasks = {
            name: asyncio.ensure_future(self._ask(layer.source, name, shares[name]))
            for name, layer in layers.items()
            if not isinstance(layer.source, str)
        }
        await _run_until(list(tasks.values()), self.deadline)
        missing: list[str] = []
        for name, task in tasks.items():
            try:
                texts[name] = _answer(task, self.deadline)
            except Exception as error:  # noqa: BLE001  a host's own code may raise anything
                missing.append(name)
                self._report_missing(name, error, time.perf_counter() - began)
        return texts, tuple(missing)

    async def _ask(self, source: Knowledge, name: str, tokens: int) -> str:
        request = LayerRequest(name, self.session, self.runtime, tokens, self.question)
        found: Any = source(request)
        if inspect.isawaitable(found):
            found = await found
        if found is None:
            return ""
        if not isinstance(found, str):
            raise TypeError(f"it returned {type(found).__name__}, not text")
        return _text_or_empty(found)

    def _report_missing(self, name: str, error: Exception, seconds: float) -> None:
        reason = "late" if isinstance(error, _Late) else "failed"
        detail = str(error) if isinstance(error, _Late) else f"{type(error).__name__}: {error}"
        log.warning("%s: knowledge layer %s is left out: %s", self.session.key, name, detail)
        self.emit(LayerLeftOut(self.session, name, reason, detail, seconds=seconds))


class _Late(Exception):
    """The deadline passed."""


def _answer(task: asyncio.Future[str], deadline: float) -> str:
    # A cancelled task may take long to end, or never end: do not wait for it.
    if not task.done():
        raise _Late(f"it did not answer within {deadline:g} s")
    if task.cancelled():
        raise RuntimeError("it was cancelled")
    return task.result()


def _text_or_empty(text: str) -> str:
    return text if text.strip() else ""


def _capped(tokens: int, layer: Layer) -> int:
    return min(tokens, layer.tokens or tokens)


async def _run_until(tasks: list[asyncio.Future[str]], deadline: float) -> None:
    """Run the tasks until the deadline; cancel the rest without waiting for them."""
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=deadline)
    finally:
        for task in tasks:
            if not task.done():
                task.add_done_callback(_retrieve_exception)
                task.cancel()


def _retrieve_exception(task: asyncio.Future[str]) -> None:
    """Retrieve the exception, so that asyncio does not log that nobody did."""
    if not task.cancelled():
        task.exception()
