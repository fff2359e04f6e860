"""Ask a host's knowledge layers. None of them can break the turn, nor hold it up beyond the deadline."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onlooker.domain.context import Knowledge, Layer, LayerRequest, RuntimeContext
from onlooker.domain.events import Event, LayerCut, LayerLeftOut
from onlooker.domain.messages import Message, SessionId
from onlooker.policy.assemble import Counting, PromptRequest
from onlooker.policy.layers import allot, room_for_layers, shorten, split_room, with_layers
from onlooker.policy.settings import MOST_TOKENS, TIMING, Settings

log = logging.getLogger("onlooker")


@dataclass(frozen=True, slots=True)
class Asking:
    """One call's layers: what is asked, by whom, and who hears of what went wrong."""

    session: SessionId
    runtime: RuntimeContext
    settings: Settings
    counting: Counting
    emit: Callable[[Event], None]
    question: str = ""
    deadline: float = TIMING.knowledge_deadline

    async def fill(self, frame: PromptRequest, layers: Mapping[str, Layer]) -> PromptRequest:
        """The frame with what the layers say, each within its share."""
        stable = {name: layer for name, layer in layers.items() if not layer.volatile}
        volatile = {name: layer for name, layer in layers.items() if layer.volatile}
        rooms = split_room(layers, room_for_layers(frame, self.settings, self.counting))
        shares = self._shares(stable, rooms[0]) | self._shares(volatile, rooms[1])
        texts, missing = await self._texts(layers, shares)
        above = self._fitted(stable, texts, rooms[0])
        below = self._fitted(volatile, texts, rooms[1])
        whole = {name: self.counting.text(texts.get(name, "")) for name in layers}
        cut = {
            name: whole[name] - self.counting.text(text)
            for name, text in (above | below).items()
            if text != texts.get(name, "")
        }
        for name, left_out in cut.items():
            log.info("%s: knowledge layer %s is cut by %d tokens", self.session.key, name, left_out)
            self.emit(LayerCut(self.session, name, whole[name] - left_out, left_out))
        return replace(with_layers(frame, above, below, rooms[1]), cut=cut, missing=missing)

    # -- shares

    def _shares(self, layers: Mapping[str, Layer], room: int | None) -> dict[str, int]:
        """What each may have, before it is known what the others say; 0 for any number."""
        if room is None:
            return {name: layer.tokens for name, layer in layers.items()}
        known = {n: self.counting.text(s.source) for n, s in layers.items() if isinstance(s.source, str)}
        needs = {n: _capped(known.get(n, MOST_TOKENS), layer) for n, layer in layers.items()}
        return allot(needs, room)

    def _fitted(
        self, layers: Mapping[str, Layer], texts: Mapping[str, str], room: int | None
    ) -> dict[str, str]:
        """The texts, cut to what there is room for now that all are known."""
        found = {name: texts.get(name, "") for name in layers}
        needs = {name: _capped(self.counting.text(found[name]), layer) for name, layer in layers.items()}
        shares = allot(needs, room)
        return {name: shorten(text, shares[name], self.counting) for name, text in found.items()}

    # -- asking

    async def _texts(
        self, layers: Mapping[str, Layer], shares: Mapping[str, int]
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """What each layer says, and those that did not answer."""
        texts = {n: _said(layer.source) for n, layer in layers.items() if isinstance(layer.source, str)}
        began = time.perf_counter()
        tasks = {
            name: asyncio.ensure_future(self._ask(layer.source, name, shares[name]))
            for name, layer in layers.items()
            if not isinstance(layer.source, str)
        }
        await _within(list(tasks.values()), self.deadline)
        missing: list[str] = []
        for name, task in tasks.items():
            try:
                texts[name] = _answer(task, self.deadline)
            except Exception as error:  # noqa: BLE001  a host's own code may raise anything
                missing.append(name)
                self._left_out(name, error, time.perf_counter() - began)
        return texts, tuple(missing)

    async def _ask(self, source: Knowledge, name: str, tokens: int) -> str:
        request = LayerRequest(name, self.session, self.runtime, tokens, self.question)
        found: Any = source(request)
        if inspect.isawaitable(found):
            found = await found
        if found is None:
            return ""
        if not isinstance(found, str):
            raise TypeError(f"it gave {type(found).__name__}, not text")
        return _said(found)

    def _left_out(self, name: str, error: Exception, seconds: float) -> None:
        reason = "late" if isinstance(error, _Late) else "failed"
        detail = str(error) if isinstance(error, _Late) else f"{type(error).__name__}: {error}"
        log.warning("%s: knowledge layer %s is left out: %s", self.session.key, name, detail)
        self.emit(LayerLeftOut(self.session, name, reason, detail, seconds=seconds))


class _Late(Exception):
    """The deadline passed."""


def _answer(task: asyncio.Future[str], deadline: float) -> str:
    # One that was told to stop may take its time, or never end: it is not waited for.
    if not task.done():
        raise _Late(f"it did not answer within {deadline:g} s")
    if task.cancelled():
        raise RuntimeError("it was cancelled")
    return task.result()


def _said(text: str) -> str:
    return text if text.strip() else ""


def _capped(tokens: int, layer: Layer) -> int:
    return min(tokens, layer.tokens or tokens)


async def _within(tasks: list[asyncio.Future[str]], deadline: float) -> None:
    """Let them run until the deadline; what is left then is told to stop, and not waited for."""
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=deadline)
    finally:
        for task in tasks:
            if not task.done():
                task.add_done_callback(_heard)
                task.cancel()


def _heard(task: asyncio.Future[str]) -> None:
    """Take note of how it ended, so that asyncio does not complain that nobody did."""
    if not task.cancelled():
        task.exception()


def last_question(messages: Sequence[Message]) -> str:
    """What the user said last."""
    return next((m.text for m in reversed(messages) if m.role == "user" and m.text), "")
