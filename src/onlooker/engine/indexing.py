"""Indexing in the background: the vectors of messages and notes, and the graph of what notes mention.

Texts wait in a bounded queue, off the turn's path, and are indexed in batches. A full queue drops new texts,
and logs and counts them; failed batches are counted too. Nothing is lost: a sweep asks the store for
whatever an index lacks.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Literal, Protocol

from onlooker.domain.errors import OnlookerError, StoreError
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
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note
from onlooker.domain.search import EDGE_KINDS, Document, Edge, EdgeKind, IndexName, Node
from onlooker.engine.background import JobLease
from onlooker.policy.plan import retry_after
from onlooker.policy.search.graph import entities
from onlooker.policy.search.words import text_of, tokens
from onlooker.policy.secrets import mask
from onlooker.policy.settings import Timing
from onlooker.ports import Embedder, Store

log = logging.getLogger("onlooker")

# The named value that counts dropped and failed texts of all processes.
COUNTS = "indexing:{}"
# How many texts may wait, about a megabyte. More are dropped and counted; the sweep finds them.
MAX_WAITING = 1000
# Texts indexed at once: providers accept this many in one call.
BATCH = 64
# How long closing a memory waits for the queue; the next sweep finds the rest.
STOP_SECONDS = 2.0


class TextIndex(Protocol):
    """An index that takes texts, and knows which ones it lacks."""

    @property
    def name(self) -> IndexName: ...

    async def take(self, documents: Sequence[Document]) -> int:
        """Index these texts; return how many were indexed. Deleted ones are skipped."""
        ...

    async def missing(self, limit: int) -> Sequence[Document]:
        """Texts that the index lacks."""
        ...


@frozen
class IndexStatus:
    """The state of one index in this process: how many texts are waiting, done, dropped by a full queue, and
    in failed batches; and the error, if the last batch failed."""

    waiting: int = 0
    done: int = 0
    dropped: int = 0
    failed: int = 0
    error: str = ""


class IndexQueue:
    """The queue of one index, and the task that indexes what is in it."""

    def __init__(
        self,
        index: TextIndex,
        store: Store,
        timing: Timing,
        emit: Callable[[Event], None],
        lease: JobLease | None,
    ) -> None:
        self._index = index
        self._lease = lease  # so that only one of several processes pays for missing vectors
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
        self._stored_counts = (0, 0)  # how many dropped and failed texts the store has counted
        self._failures = 0  # in a row
        self._rest_until = 0.0
        self._error = ""

    @property
    def status(self) -> IndexStatus:
        return IndexStatus(len(self._queue), self._done, self._dropped, self._failed, self._error)

    # -- life cycle

    def start(self) -> None:
        self._stopping = False
        self._task = asyncio.create_task(self._run(), name=f"onlooker {self._index.name}")

    async def stop(self, deadline: float) -> None:
        """Accept nothing new, and index what is queued unless that takes too long."""
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
        await self._store_counts()

    def offer(self, documents: Iterable[Document]) -> None:
        """Queue these texts. Returns at once and never raises."""
        if self._stopping or self._task is None:
            return
        for document in documents:
            if len(self._queue) >= MAX_WAITING:
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
            "%s: %s %s is not queued for the %s: %d are waiting; the sweep finds it (%d dropped so far)",
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
        while not self._stopping:
            await self._pause()
            await self._work_off()

    async def _pause(self) -> None:
        """Wait until something is queued, then a little longer for a full batch."""
        await self._wake.wait()
        if self._resting and not self._stopping:
            await asyncio.sleep(self._rest_until - time.monotonic())
        with suppress(TimeoutError):
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

    async def sweep(self) -> None:
        """Index what is missing, unless another process does it."""
        await self._sweep(self._lease)
        await self._store_counts()

    async def _sweep(self, lease: JobLease | None = None) -> None:
        async with self._working:
            while not self._stopping and not self._resting:
                try:
                    missing = await self._index.missing(BATCH)
                    if missing and lease and not await lease.hold():
                        return
                except Exception as error:  # noqa: BLE001  see `_take`
                    self._fail(0, error)
                    return
                if not missing or not await self._take(missing):
                    return
                # Queued texts are also missing, and must not be paid for twice.
                taken = set(missing)
                self._queue = deque(d for d in self._queue if d not in taken)

    async def catch_up(self) -> int:
        """Index everything that is queued or missing now; return how many texts."""
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
        except Exception as error:  # noqa: BLE001  an embedder is a host's code, and must not end the task
            self._fail(len(documents), error)
            return 0
        self._failures, self._error = 0, ""
        self._done += taken
        return taken

    async def _store_counts(self) -> None:
        """Add to the counts in the store, where other processes can read them."""
        dropped, failed = self._dropped - self._stored_counts[0], self._failed - self._stored_counts[1]
        if not dropped and not failed:
            return
        name = COUNTS.format(self._index.name)
        try:
            known: dict[str, int] = json.loads(await self._store.get_value(name) or "{}")
            sums = {"dropped": known.get("dropped", 0) + dropped, "failed": known.get("failed", 0) + failed}
            await self._store.set_value(name, json.dumps(sums))
        except OnlookerError as error:
            log.debug("could not store the counts of dropped texts; trying again later: %s", error)
        else:
            self._stored_counts = self._stored_counts[0] + dropped, self._stored_counts[1] + failed

    def _fail(self, texts: int, error: Exception) -> None:
        self._failed += texts
        self._failures += 1
        self._error = str(error) if isinstance(error, OnlookerError) else repr(error)
        wait = retry_after(self._failures, self._timing)
        self._rest_until = time.monotonic() + wait
        log.warning("retrying %d texts in %.1f s for the %s: %s", texts, wait, self._index.name, self._error)
        self._emit(IndexFailed(self._index.name, texts, self._error, wait))


# ------------------------------------------------------------------------------------ both indexes


@frozen
class IndexingStatus:
    """The state of indexing in this process, in total and by index. `vectors` is None without an embedder."""

    graph: IndexStatus
    vectors: IndexStatus | None = None

    @property
    def dropped(self) -> int:
        """Texts dropped by a full queue. The sweep finds them."""
        return self.graph.dropped + (self.vectors.dropped if self.vectors else 0)

    @property
    def failed(self) -> int:
        """Texts in failed batches. The sweep tries them again."""
        return self.graph.failed + (self.vectors.failed if self.vectors else 0)

    @property
    def waiting(self) -> int:
        return self.graph.waiting + (self.vectors.waiting if self.vectors else 0)


class Index:
    """The graph of notes, and the vectors; `memory.index`. Events tell it what to index."""

    def __init__(
        self,
        graph: TextIndex,
        vectors: TextIndex | None,
        store: Store,
        timing: Timing,
        emit: Callable[[Event], None],
        *,
        ready: Callable[[], Awaitable[None]],
        own_owner: str,
        lease: Callable[[str], JobLease] | None = None,
    ) -> None:
        self._store = store
        self._ready = ready
        self._own_owner = own_owner  # the owner if a call names none

        def queue(target: TextIndex) -> IndexQueue:
            held = lease(f"index {target.name}") if lease else None
            return IndexQueue(target, store, timing, emit, held)

        self._graph = queue(graph)
        self._vectors = queue(vectors) if vectors else None

    @property
    def status(self) -> IndexingStatus:
        """The state of indexing in this process: what is waiting, and what was dropped or failed."""
        return IndexingStatus(self._graph.status, self._vectors.status if self._vectors else None)

    async def graph(
        self,
        owner: str | None = None,
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
        owner = self._own_owner if owner is None else owner
        where = None if session is None else SessionId(owner, session)
        of = [] if entity is None else [Node("entity", entity)]
        return await self._store.edges(owner, of=of, session=where, kinds=kinds, limit=limit)

    def start(self) -> None:
        for queue in self._queues:
            queue.start()

    async def stop(self, deadline: float) -> None:
        await asyncio.gather(*(queue.stop(deadline) for queue in self._queues))

    async def sweep(self) -> None:
        """Index what is missing."""
        await asyncio.gather(*(queue.sweep() for queue in self._queues))

    async def catch_up(self) -> int:
        """Index what the graph and the vectors lack before returning, instead of in the background. Returns
        how many texts. Failures show in `status`."""
        await self._ready()
        return sum([await queue.catch_up() for queue in self._queues])

    @property
    def _queues(self) -> list[IndexQueue]:
        return [self._graph, self._vectors] if self._vectors else [self._graph]

    def on_event(self, event: Event) -> None:
        match event:
            case Recorded():
                if self._vectors:
                    messages = event.messages
                    self._vectors.offer(
                        Document("message", event.session, m.id, text_of(m)) for m in messages
                    )
            case Noted() | Reflected() | Edited():
                self._offer_notes(event.session, [event.note], written=True)
            case Activated():
                self._offer_notes(event.session, event.notes, written=False)
            case _:
                pass

    def _offer_notes(self, session: SessionId, notes: Sequence[Note], *, written: bool) -> None:
        documents = [Document("note", session, n.id, n.text) for n in notes]
        if written:
            self._graph.offer(documents)
        if self._vectors and (not written or notes[0].status == "active"):
            self._vectors.offer(documents)


# ------------------------------------------------------------------------------------ full text

# Texts indexed in one transaction. Other writers wait for it, and while a model is busy in this process each
# message takes a millisecond.
TEXT_BATCH = 50
# How many sessions are indexed before a search.
MAX_SESSIONS = 10_000


async def catch_up(
    store: Store, owner: str, session: SessionId | None = None, *, but: SessionId | None = None
) -> None:
    """Index everything recorded so far, in one session or in all of an owner's except `but`."""
    for behind in await store.unindexed(owner, session=session, limit=MAX_SESSIONS):
        while behind != but and await store.index(behind, limit=TEXT_BATCH) >= TEXT_BATCH:
            pass


async def index_session(store: Store, session: SessionId) -> None:
    """Index one session in the background. The next search makes up for a failure."""
    while await index_batch(store, session, limit=TEXT_BATCH):
        pass


async def index_batch(store: Store, session: SessionId, *, limit: int = 4 * TEXT_BATCH) -> bool:
    """Index the oldest missing texts, at most `limit`; True if there may be more."""
    try:
        return await store.index(session, limit=limit) >= limit
    except StoreError as error:
        log.warning("%s: indexing failed: %s", session.key, error)
        return False


# ------------------------------------------------------------------------------------ the two indexes


# The most characters of a text: embedders have a limit, and the beginning tells what a text is about.
MAX_EMBEDDED_LENGTH = 6_000
# Sessions indexed for full text in one sweep.
MAX_SWEPT_SESSIONS = 100


def embeddable(text: str) -> str:
    """The part of a text that is sent to an embedder, with secrets masked."""
    return mask(text)[:MAX_EMBEDDED_LENGTH]


@frozen
class GraphIndex:
    """Stores which names and ids notes mention."""

    store: Store
    name: Literal["graph"] = "graph"

    async def take(self, documents: Sequence[Document]) -> int:
        found = await asyncio.to_thread(lambda: [(d, entities(d.text)) for d in documents])
        return await self.store.link(found)

    async def missing(self, limit: int) -> Sequence[Document]:
        return await self.store.unlinked(limit=limit)


@frozen
class VectorIndex:
    """Stores the vectors of texts, made by the embedder."""

    store: Store
    embedder: Embedder
    seconds: float  # for one batch
    name: Literal["vectors"] = "vectors"

    async def take(self, documents: Sequence[Document]) -> int:
        for session in dict.fromkeys(d.session for d in documents):
            await index_session(self.store, session)
        documents = [d for d in documents if tokens(d.text)]
        if not documents:
            return 0
        vectors = await self._embed(documents)
        return await self.store.add_vectors(self.embedder.name, vectors)

    async def missing(self, limit: int) -> Sequence[Document]:
        for session in await self.store.unindexed_anywhere(limit=MAX_SWEPT_SESSIONS):
            await index_session(self.store, session)
        return await self.store.without_vectors(self.embedder.name, limit=limit)

    async def _embed(self, documents: Sequence[Document]) -> list[tuple[Document, Sequence[float]]]:
        try:
            return await self._request(documents)
        except OnlookerError as error:
            if getattr(error, "kind", "") != "rejected" or not self.embedder.dimensions:
                raise
            if len(documents) > 1:
                # One of the texts is the cause, and must not keep the others out.
                return [pair for d in documents for pair in await self._embed([d])]
            log.warning("%s: %s gets no vector: %s", documents[0].session.key, documents[0].id, error)
            # A zero vector matches nothing, and is not requested again.
            return [(documents[0], [0.0] * self.embedder.dimensions)]

    async def _request(self, documents: Sequence[Document]) -> list[tuple[Document, Sequence[float]]]:
        async with asyncio.timeout(self.seconds):
            vectors = await self.embedder.embed([embeddable(d.text) for d in documents])
        return list(zip(documents, vectors, strict=True))
