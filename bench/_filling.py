"""A database of many conversations, filled as quickly as the store takes them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from statistics import fmean

import onlooker
from _places import Place
from _talk import Talk
from onlooker.domain.messages import Message, SessionId
from onlooker.policy.tokens import estimator
from onlooker.ports import Store

# Nothing is to be noted but where notes are measured.
NEVER = 1 << 62
# How many messages of a conversation come at a time, where the database is filled.
AT_ONCE = 10


class Said:
    """Messages with an id and a count, as they come to a store; their texts come again, their ids never."""

    def __init__(self, texts: int = 20_000) -> None:
        count, talk = estimator(onlooker.Settings().estimator), Talk()
        self._texts = [replace(m, tokens=count.message(m)) for m in talk.many(texts)]
        self._number = 0

    @property
    def characters(self) -> float:
        """How long a text is, on average."""
        return fmean(len(m.text) for m in self._texts)

    def next(self) -> Message:
        self._number += 1
        said = self._texts[self._number % len(self._texts)]
        return Message(
            said.role, said.text, f"onl_{self._number:020x}", datetime.now(UTC), tokens=said.tokens
        )

    def many(self, count: int) -> list[Message]:
        return [self.next() for _ in range(count)]


@asynccontextmanager
async def opened(place: Place) -> AsyncGenerator[Store]:
    store = place.store()
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def session_id(number: int) -> SessionId:
    """Five sessions have the same owner."""
    return SessionId(f"user-{number // 5}", f"chat-{number}")


async def fill(store: Store, said: Said, sessions: range, each: int) -> None:
    """Ten messages of each conversation, then ten more, so that they lie in the database as if they had come
    beside each other. Many appends wait at once, and go to the disk together."""
    progress = Progress(len(sessions) * each)
    for begun in range(0, each, AT_ONCE):
        count = min(AT_ONCE, each - begun)
        for start in range(0, len(sessions), 200):
            part = sessions[start : start + 200]
            await asyncio.gather(*(append(store, session_id(n), said.many(count)) for n in part))
            progress.add(len(part) * count)


async def append(store: Store, session: SessionId, messages: Sequence[Message]) -> None:
    await store.append(session, messages, due_tokens=NEVER, now=datetime.now(UTC))


class Progress:
    """Says now and then how far it is."""

    def __init__(self, total: int, every: float = 10.0) -> None:
        self._total, self._every = total, every
        self._done, self._began = 0, time.monotonic()
        self._said = self._began

    def add(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._said >= self._every:
            self._said = now
            rate = self._done / (now - self._began)
            note(f"filling: {self._done:,} of {self._total:,} messages, {rate:,.0f} in a second")


def note(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
