"""Indexing in the background: vectors of what was said and noted, and what notes mention.

Texts wait in a bounded queue, off the turn's path, and are worked off in batches. A queue that is full drops
what comes, says so and counts it; a batch that fails is counted too. Either costs time, not memory: a sweep
asks the store for whatever an index lacks.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from onlooker.domain.errors import OnlookerError
from onlooker.domain.events import (
    Activated,
    Edited,
    Event,
    IndexDropped,
    IndexFailed,
    Noted,
    Recorded,
    Reflected,
)
from onlooker.domain.messages import DEFAULT_OWNER, SessionId
from onlooker.domain.notes import Note
from onlooker.domain.search import EDGE_KINDS, Document, Edge, EdgeKind, IndexName, Node
from onlooker.policy.search.rank import text_of
from onlooker.policy.settings import Timing
from onlooker.ports import Store

log = logging.getLogger("onlooker")

# Under which name a store keeps how many texts were dropped and failed, in all processes so far.
COUNTS = "indexing:{}"
# Texts that may wait, about a megabyte of them. More are dropped, counted, and found by the sweep.
MOST_WAITING = 1000
# Texts that go into an index at once: a provider takes that many in one call.
BATCH = 64
# The longest that closing a memory waits for texts that still wait; the next sweep finds the others.
STOP_SECONDS = 2.0
# For how long a worker has its turn, unless it extends that.
TURN_SECONDS = 30.0


class Target(Protocol):
    """What puts texts into an index, and knows which ones it lacks."""

    @property
    def name(self) -> IndexName: ...

    async def take(self, documents: Sequence[Document]) -> int:
        """Put these in; how many are in it now. What is gone by now is passed over."""
        ...

    async def missing(self, limit: int) -> Sequence[Document]:
        """What the index lacks."""
        ...


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """How indexing goes in this process: texts that wait, that are done, that a full queue dropped, and that
    were in a batch which failed; and why, while the last one did."""

    waiting: int = 0
    done: int = 0
    dropped: int = 0
    failed: int = 0
    error: str = ""


class Turn:
    """Which of several workers puts in what an index lacks: else each would, and pay for the same vectors. By
    the store's word alone, and without a lock: that two have a turn for a moment costs a batch."""

    def __init__(self, store: Store, index: IndexName) -> None:
        self._store = store
        self._name = f"indexing turn:{index}"
        self._us = secrets.token_hex(8)

    async def is_ours(self) -> bool:
        """Whether it is; taken where nobody has it, or whoever had it is gone."""
        who, until = json.loads(await self._store.get_value(self._name) or '["", 0]')
        left = until - time.time()
        if who != self._us and left > 0:
            return False
        if who != self._us or left < TURN_SECONDS / 2:
            await self._store.set_value(self._name, json.dumps([self._us, time.time() + TURN_SECONDS]))
        return True


class IndexBuffer:
    """The queue of one index, and the task that works it off."""

    def __init__(
        self,
        index: Target,
        store: Store,
        timing: Timing,
        emit: Callable[[Event], None],
        *,
        shared: bool = False,
    ) -> None:
        self._index = index
        self._turn = Turn(store, index.name) if shared else None
        self._store = store
        self._timing = timing
        self._emit = emit
        self._queue: deque[Document] = deque()
        self._wake = asyncio.Event()
        self._full = asyncio.Event()
        self._working = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._done = self._dropped = self._failed = 0
        self._kept = (0, 0)  # of these two, what the store knows
        self._failures = 0  # in a row
        self._rest_until = 0.0
        self._error = ""

    @property
    def status(self) -> IndexStatus:
        return IndexStatus(len(self._queue), self._done, self._dropped, self._failed, self._error)

    # -- life

    def start(self) -> None:
        self._stopping = False
        self._task = asyncio.create_task(self._run(), name=f"onlooker {self._index.name}")

    async def stop(self, deadline: float) -> None:
        """Take nothing new, and work off what waits unless that takes too long."""
        self._stopping = True
        self._wake.set()
        self._full.set()
        if self._task is None:
            return
        _, late = await asyncio.wait([self._task], timeout=max(0.0, min(deadline, STOP_SECONDS)))
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        self._task = None
        self._queue.clear()
        await self._keep_counts()

    def offer(self, documents: Iterable[Document]) -> None:
        """Queue these. Returns at once, whatever happens."""
        if self._stopping or self._task is None:
            return
        for document in documents:
            if len(self._queue) >= MOST_WAITING:
                self._drop(document)
            else:
                self._queue.append(document)
        if self._queue:
            self._wake.set()
        if len(self._queue) >= BATCH:
            self._full.set()

    def _drop(self, document: Document) -> None:
        self._dropped += 1
        log.warning(
            "%s: %s %s is not queued for the %s, since %d wait; the sweep finds it (%d dropped so far)",
            document.session.key,
            document.kind,
            document.id,
            self._index.name,
            len(self._queue),
            self._dropped,
        )
        self._emit(IndexDropped(document.session, self._index.name, document.id, self._dropped))

    # -- work

    async def _run(self) -> None:
        sweep_at = 0.0
        while not self._stopping:
            now = time.monotonic()
            if now >= max(sweep_at, self._rest_until):
                await self._sweep(self._turn)
                await self._keep_counts()
                sweep_at = time.monotonic() + self._timing.sweep_seconds
            await self._pause(max(sweep_at, self._rest_until))
            if time.monotonic() >= self._rest_until:
                await self._work_off()

    async def _pause(self, until: float) -> None:
        """Until something waits and had time for company; or until then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                await self._wake.wait()
                if time.monotonic() < self._rest_until:
                    await asyncio.sleep(self._rest_until - time.monotonic())
                async with asyncio.timeout(self._timing.index_seconds):
                    await self._full.wait()

    async def _work_off(self) -> None:
        async with self._working:
            while self._queue and not self._resting:
                size = min(len(self._queue), BATCH)
                await self._take([self._queue.popleft() for _ in range(size)])
        if not self._queue and not self._stopping:
            self._wake.clear()
            self._full.clear()

    async def _sweep(self, turn: Turn | None = None) -> None:
        """Put in whatever the index lacks; where several do so, for as long as it is our turn."""
        async with self._working:
            while not self._stopping and not self._resting:
                try:
                    missing = await self._index.missing(BATCH)
                    if missing and turn and not await turn.is_ours():
                        return
                except Exception as error:  # noqa: BLE001  see `_take`
                    self._fail(0, error)
                    return
                if not missing or not await self._take(missing):
                    return

    async def catch_up(self) -> int:
        """The same now, and for whoever wants to wait for it; how many texts are in the index that were
        not."""
        before, self._rest_until = self._done, 0.0
        await self._work_off()
        await self._sweep()
        return self._done - before

    @property
    def _resting(self) -> bool:
        return time.monotonic() < self._rest_until

    async def _take(self, documents: Sequence[Document]) -> int:
        try:
            taken = await self._index.take(documents)
        except Exception as error:  # noqa: BLE001  an embedder is anyone's code, and must not end the task
            self._fail(len(documents), error)
            return 0
        self._failures, self._error = 0, ""
        self._done += taken
        return taken

    async def _keep_counts(self) -> None:
        """Add to what the store knows, so that another process can tell."""
        dropped, failed = self._dropped - self._kept[0], self._failed - self._kept[1]
        if not dropped and not failed:
            return
        name = COUNTS.format(self._index.name)
        try:
            known: dict[str, int] = json.loads(await self._store.get_value(name) or "{}")
            sums = {"dropped": known.get("dropped", 0) + dropped, "failed": known.get("failed", 0) + failed}
            await self._store.set_value(name, json.dumps(sums))
        except OnlookerError as error:
            log.debug("what was dropped is counted later: %s", error)
        else:
            self._kept = self._kept[0] + dropped, self._kept[1] + failed

    def _fail(self, texts: int, error: Exception) -> None:
        self._failed += texts
        self._failures += 1
        self._error = str(error) if isinstance(error, OnlookerError) else repr(error)
        limit = self._timing.retry_limit_seconds
        wait = min(limit, self._timing.retry_seconds * 2.0 ** min(self._failures - 1, 30))
        self._rest_until = time.monotonic() + wait
        log.warning("%d texts wait %.1f s for the %s: %s", texts, wait, self._index.name, self._error)
        self._emit(IndexFailed(self._index.name, texts, self._error, wait))


# ------------------------------------------------------------------------------------ both indexes


@dataclass(frozen=True, slots=True)
class IndexingStatus:
    """How indexing goes in this process, together and for each index; no vectors without an embedder."""

    graph: IndexStatus
    vectors: IndexStatus | None = None

    @property
    def dropped(self) -> int:
        """Texts that a full queue dropped, for the sweep to find."""
        return self.graph.dropped + (self.vectors.dropped if self.vectors else 0)

    @property
    def failed(self) -> int:
        """Texts in batches that failed, for the sweep to try again."""
        return self.graph.failed + (self.vectors.failed if self.vectors else 0)

    @property
    def waiting(self) -> int:
        return self.graph.waiting + (self.vectors.waiting if self.vectors else 0)


class Index:
    """The graph of notes, and the vectors; `memory.index`. What is to be indexed it hears from events."""

    def __init__(
        self,
        graph: Target,
        vectors: Target | None,
        store: Store,
        timing: Timing,
        emit: Callable[[Event], None],
        *,
        ready: Callable[[], Awaitable[None]],
        shared: bool = False,
    ) -> None:
        self._store = store
        self._ready = ready
        self._graph = IndexBuffer(graph, store, timing, emit, shared=shared)
        self._vectors = IndexBuffer(vectors, store, timing, emit, shared=shared) if vectors else None

    @property
    def status(self) -> IndexingStatus:
        """How indexing goes in this process: what waits, and what was dropped or failed and is left to the
        sweep."""
        return IndexingStatus(self._graph.status, self._vectors.status if self._vectors else None)

    async def graph(
        self,
        owner: str = DEFAULT_OWNER,
        *,
        session: str | None = None,
        entity: str | None = None,
        kinds: Sequence[EdgeKind] = EDGE_KINDS,
        limit: int = 10_000,
    ) -> Sequence[Edge]:
        """The graph of an owner's notes, as edges: which session a note is in (`in_session`), which note it
        follows, which notes a reflection reflects on (`reflects_on`), and which names and ids it mentions.

        `session` is the key of one session; `entity` a name or an id, for the notes that mention it.
        """
        await self._ready()
        where = None if session is None else SessionId(owner, session)
        of = [] if entity is None else [Node("entity", entity)]
        return await self._store.edges(owner, of=of, session=where, kinds=kinds, limit=limit)

    def start(self) -> None:
        for buffer in self._buffers:
            buffer.start()

    async def stop(self, deadline: float) -> None:
        await asyncio.gather(*(buffer.stop(deadline) for buffer in self._buffers))

    async def catch_up(self) -> int:
        """Index what the graph and the vectors lack before returning, instead of in the background; how many
        texts that were. Failures show in `status`."""
        await self._ready()
        return sum([await buffer.catch_up() for buffer in self._buffers])

    @property
    def _buffers(self) -> list[IndexBuffer]:
        return [self._graph, self._vectors] if self._vectors else [self._graph]

    def hear(self, event: Event) -> None:
        match event:
            case Recorded():
                if self._vectors:
                    messages = event.messages
                    self._vectors.offer(
                        Document("message", event.session, m.id, text_of(m)) for m in messages
                    )
            case Noted() | Reflected() | Edited():
                self._note(event.session, [event.note], written=True)
            case Activated():
                self._note(event.session, event.notes, written=False)
            case _:
                pass

    def _note(self, session: SessionId, notes: Sequence[Note], *, written: bool) -> None:
        documents = [Document("note", session, n.id, n.text) for n in notes]
        if written:
            self._graph.offer(documents)
        if self._vectors and (not written or notes[0].status == "active"):
            self._vectors.offer(documents)
