"""Search, and recall: earlier messages about a turn, placed at the end of its prompt.

Search            find messages and notes by words, vectors and the graph
messages_behind   read the messages that a note or a hit stands for
Recall            find messages about a question that the prompt does not show
Reminder          put them at the end of a prompt
QueryVectors      the vector of a query, from the embedder
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from onlooker.domain.errors import NotFoundError, SettingsError, StoreError
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message, SessionId, last_question, tokens_of
from onlooker.domain.notes import Note, State
from onlooker.domain.search import (
    Edge,
    EdgeKind,
    Hit,
    HitKind,
    Match,
    MessageRef,
    Node,
    Query,
    SearchResult,
    TextKind,
    VectorQuery,
    Why,
    note_node,
)
from onlooker.engine.indexing import catch_up, embeddable
from onlooker.policy.assemble import Counting, Layout, PromptRequest, lay_out
from onlooker.policy.search import graph, rank, recall
from onlooker.policy.search.graph import GRAPH_WEIGHT
from onlooker.policy.search.rank import snippet
from onlooker.policy.search.recall import QUESTION_SHARE, of_question, of_turn, render_recall
from onlooker.policy.search.words import query_tokens, tokens
from onlooker.policy.secrets import mask
from onlooker.policy.settings import DEFAULT, RECALL_SHARE, TIMING, Settings
from onlooker.policy.text import beginning
from onlooker.ports import Embedder, Store

log = logging.getLogger("onlooker")

KINDS: tuple[HitKind, ...] = ("message", "note")
Marks = tuple[str, str]
# How long a search waits for an embedder.
SEARCH_SECONDS = 5.0


# ------------------------------------------------------------------------------------ search


@frozen
class Search:
    """Where to search, for what kinds, and how many hits to return."""

    owner: str
    session: SessionId | None = None
    kinds: Sequence[HitKind] = KINDS
    limit: int = 20
    after: datetime | None = None
    before: datetime | None = None
    marks: Marks = ("", "")
    taken_back: bool = True  # whether to find messages that the host took back as well

    def check(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise SettingsError("kinds", kind, f"must be some of {', '.join(KINDS)}")
        if self.limit < 1:
            raise SettingsError("limit", self.limit, "must be at least 1")

    async def run(self, store: Store, text: str, vectors: QueryVectors | None = None) -> list[Hit]:
        """The hits, best first: by words, then by meaning, and by their connections to other hits."""
        self.check()
        await catch_up(store, self.owner, self.session)
        terms = dict.fromkeys(query_tokens(text), 1.0)
        if not terms and self.after is None and self.before is None:
            return []
        by_vectors = VectorRanking(store, vectors, text, within=SEARCH_SECONDS)
        rankings = [await self._by_words(store, kind, terms) for kind in self.kinds]
        if terms:
            rankings += [await self._by_vectors(by_vectors, kind) for kind in self.kinds]
        rankings = unify(*rankings)
        score = close = rank.fuse(*rankings)
        if terms and "note" in self.kinds:
            related = await related_notes(store, self.owner, self.session, _sorted(score), self.limit)
            weights = [*[1.0] * len(rankings), GRAPH_WEIGHT]
            score = rank.fuse(*unify(*rankings, related), weights=weights)

        def why(match: Match) -> Why:
            if not terms or not terms.keys().isdisjoint(match.words.split()):
                return "words"
            return "meaning" if match in close else "graph"

        # What has none of the words comes after everything that has one.
        best = sorted(_sorted(score), key=lambda match: why(match) != "words")[: self.limit]
        return [_hit(match, score[match], why(match), terms, self.marks) for match in best]

    def _texts(self, kind: HitKind) -> tuple[TextKind, ...]:
        return ("message", "retired") if kind == "message" and self.taken_back else (kind,)

    async def _by_vectors(self, ranking: VectorRanking, kind: HitKind) -> list[Match]:
        texts = self._texts(kind)
        return await ranking.rank(self.owner, texts, self.session, self.after, self.before, limit=self.limit)

    async def _by_words(self, store: Store, kind: HitKind, terms: Mapping[str, float]) -> list[Match]:
        found = SearchResult(0, 0, {}, ())
        for text in self._texts(kind):
            query = Query(self.owner, text, terms, self.session, self.after, self.before)
            found = rank.together(found, await store.search(query))
        if not terms:
            return rank.best_first(dict.fromkeys(found.matches, 0.0))
        names = rank.speaker_names(terms, found.matches)
        scored = rank.scores(found, terms)
        return rank.best_first(rank.boost_speakers(scored, names))[: self.limit]


def _sorted(score: Mapping[Match, float]) -> list[Match]:
    return sorted(score, key=lambda match: (-score[match], match.kind == "retired"))


def _hit(match: Match, score: float, why: Why, terms: Mapping[str, float], marks: Marks) -> Hit:
    return Hit(
        kind="message" if match.kind == "retired" else match.kind,
        session=match.session,
        id=match.id,
        seq=match.seq,
        text=match.text,
        snippet=snippet(mask(beginning(match.text)), terms, marks=marks),
        at=match.at,
        score=score,
        speaker=match.speaker,
        taken_back=match.kind == "retired",
        why=why,
    )


# ------------------------------------------------------------------------------------ behind a note or hit

# Messages on a page.
PAGE = 50


async def messages_behind(
    store: Store, session: SessionId, target: str | int | Hit, neighbours: int, page: int | None
) -> Sequence[Message]:
    """The messages that a note stands for, or one message, with neighbours before and after; or a page of
    it."""
    if isinstance(target, Hit):
        if target.session.owner != session.owner:
            raise SettingsError("target", target.id, f"must belong to the owner {session.owner!r}")
        session, target = target.session, target.seq if target.kind == "message" else target.id
    if neighbours < 0:
        raise SettingsError("neighbours", neighbours, "must be 0 or more")
    if page is not None and page < 1:
        raise SettingsError("page", page, "must be 1 or more")
    if isinstance(target, int):
        found = list(await store.around(session, [target], neighbours))
        if all(m.seq != target for m in found):
            found = list(await store.around(session, [target], neighbours, retired=True))
    else:
        found = await _sources(store, session, target, neighbours)
    return found if page is None else found[(page - 1) * PAGE : page * PAGE]


async def _sources(store: Store, session: SessionId, note: str, neighbours: int) -> list[Message]:
    sources = list(await store.sources(session, note))
    if not neighbours or not sources:
        return sources
    ends = [sources[0].seq, sources[-1].seq]
    inside = {m.id for m in sources}
    beside = [m for m in await store.around(session, ends, neighbours) if m.id not in inside]
    before = [m for m in beside if m.seq < ends[0]]
    return [*before, *sources, *(m for m in beside if m.seq > ends[1])]


# ------------------------------------------------------------------------------------ recall


@frozen
class Recall:
    """Finds messages for a turn to recall."""

    store: Store
    session: SessionId
    owner_wide: bool
    now: datetime
    vectors: QueryVectors | None = None
    within: float = SEARCH_SECONDS
    hits: int = recall.QUESTION_HITS

    async def find(self, question: str, query: recall.RecallQuery, shown: PromptContent) -> RecallResult:
        """Messages for the query, except those that the prompt already shows."""
        ranking = VectorRanking(self.store, self.vectors, question, within=self.within)
        query = query.naming({m.name for m in shown.messages if m.name})
        there = {(self.session, m.seq) for m in shown.messages}
        matched: dict[MessageRef, float] = {}

        def pick(results: Sequence[SearchResult]) -> Sequence[MessageRef]:
            nonlocal query, matched
            found, *said_then = results if query.terms else [SearchResult(0, 0, {}, ()), *results]
            query = query.naming({m.speaker for m in found.matches if m.speaker})
            unseen = tuple(m for m in found.matches if (m.session, m.seq) not in there)
            for result in said_then:
                matched |= {(m.session, m.seq): recall.SAID_THEN for m in result.matches}
            matched |= recall.scores_by_message(replace(found, matches=unseen), query)
            hits = {ref: v for ref, v in matched.items() if ref not in there}
            return recall.best_hits(hits, found.matches, query, self.hits)

        reach = len(recall.NEARNESS)
        around = dict(await self.store.search_around(self._queries(query), pick, reach))
        close = [(m.session, m.seq) for m in await self._by_vectors(ranking)]
        if close:
            around |= await self.store.search_around((), lambda _: close, reach)
        around = {ref: m for ref, m in around.items() if ref not in there}
        worth = recall.score_messages(matched, around, query)
        return RecallResult(recall.fuse_vectors(worth, close), around, query.terms)

    def _queries(self, query: recall.RecallQuery) -> list[Query]:
        """For its terms, and for each time that it names: messages from then count a little even if they
        share no word."""
        by_terms = Query(self.session.owner, "message", query.terms, self._where, limit=2 * self.hits)
        # Matches that are not rare enough still give the names of speakers, which count for other matches.
        rare = 0.0 if query.days or self.vectors else query.rare
        queries = [replace(by_terms, max_holders=recall.MAX_HOLDERS, rare=rare)] if query.terms else []
        for first, last in query.days:
            tz = self.now.tzinfo
            after = datetime.fromisoformat(first).replace(tzinfo=tz)
            before = datetime.fromisoformat(last).replace(tzinfo=tz) + timedelta(days=1)
            queries.append(
                replace(by_terms, terms={}, after=after, before=before, limit=recall.MAX_SAID_THEN)
            )
        return queries

    async def _by_vectors(self, ranking: VectorRanking) -> list[Match]:
        return await ranking.rank(self.session.owner, ["message"], self._where, limit=recall.MAX_VECTOR_HITS)

    @property
    def _where(self) -> SessionId | None:
        return None if self.owner_wide else self.session


@frozen
class RecallResult:
    """What recall found: messages and their neighbours, what each is worth, and the terms of the question."""

    worth: Mapping[MessageRef, float]
    around: Mapping[MessageRef, Message]
    terms: Mapping[str, float]


# ------------------------------------------------------------------------------------ vectors and the graph


_CONNECTING: tuple[EdgeKind, ...] = tuple(graph.PASSED_ON)


class VectorRanking:
    """Ranks texts by meaning. The vector of the query is requested at once, so that the search by words runs
    meanwhile."""

    def __init__(self, store: Store, vectors: QueryVectors | None, text: str, *, within: float) -> None:
        self._store = store
        self._vectors = vectors
        self._vector = asyncio.ensure_future(vectors.of(text, within=within)) if vectors else None

    async def rank(
        self,
        owner: str,
        kinds: Sequence[TextKind],
        session: SessionId | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        *,
        limit: int,
    ) -> list[Match]:
        """Texts of a similar meaning, best first; none without a vector."""
        if self._vectors is None or self._vector is None:
            return []
        vector = await self._vector
        if vector is None:
            return []
        found: list[tuple[Match, float]] = []
        for kind in kinds:
            query = VectorQuery(owner, kind, self._vectors.space, vector, session, after, before, limit)
            found += await self._store.nearest(query)
        if len(kinds) > 1:
            found.sort(key=lambda pair: -pair[1])
        return [match for match, _ in found[:limit]]


async def related_notes(
    store: Store, owner: str, session: SessionId | None, found: Sequence[Match], limit: int
) -> list[Match]:
    """Notes that mention what the best notes found mention. Notes that those condense count as well, since a
    reflection leaves out much of what they mention."""
    notes = [m for m in found if m.kind == "note"][: graph.MAX_SEEDS]
    seeds = {note_node(m.session, m.id): 1 / place for place, m in enumerate(notes, 1)}
    if not seeds:
        return []
    try:
        ids: dict[SessionId, list[str]] = {}
        for match in notes:
            ids.setdefault(match.session, []).append(match.id)
        # Not read as edges, for which a store goes through all notes of the session.
        read = [(where, note) for where, those in ids.items() for note in await store.notes(where, ids=those)]
        seeds = graph.with_sources(seeds, read)
        best = await _related(store, owner, session, seeds, ("mentions",))
        # Condensed notes lead to others, and are not hits themselves.
        wanted = [(n.session, n.name) for n in best if n.session]
        return list(await store.notes_by_id(wanted))[:limit]
    except StoreError as error:
        # The hits found by words are enough.
        log.warning("searching without the graph: %s", error)
        return []


async def neighbours(store: Store, session: SessionId, note: str) -> list[Note]:
    """Notes of the owner that are connected to a note, closest first."""
    statuses = ("active", "superseded")
    if note not in {n.id for n in await store.notes(session, statuses=statuses)}:
        raise NotFoundError("note", note)
    found = await _related(store, session.owner, None, {note_node(session, note): 1.0}, _CONNECTING)
    sessions = dict.fromkeys(n.session for n in found if n.session)
    known = {(s, n.id): n for s in sessions for n in await store.notes(s, statuses=statuses)}
    return [known[n.session, n.name] for n in found if n.session and (n.session, n.name) in known]


async def _related(
    store: Store,
    owner: str,
    session: SessionId | None,
    seeds: Mapping[Node, float],
    kinds: Sequence[EdgeKind],
) -> list[Node]:
    edges = list(await store.edges(owner, of=list(seeds), session=session, kinds=kinds))
    names = list(dict.fromkeys(e.target for e in edges if e.kind == "mentions"))
    return graph.rank_related(seeds, [*edges, *await _holders(store, owner, session, names)])


async def _holders(store: Store, owner: str, session: SessionId | None, names: Sequence[Node]) -> list[Edge]:
    if not names:
        return []
    # One more than counts, to recognise names that are mentioned everywhere.
    limit = (graph.MAX_HOLDERS + 1) * len(names)
    return list(await store.edges(owner, of=names, session=session, kinds=("mentions",), limit=limit))


def unify(*rankings: Sequence[Match]) -> list[list[Match]]:
    """The rankings, with the same match object for the same text in all of them."""
    known: dict[tuple[TextKind, SessionId, str], Match] = {}
    return [[known.setdefault((m.kind, m.session, m.indexed_as), m) for m in ranking] for ranking in rankings]


# ------------------------------------------------------------------------------ recall at the end of a prompt


# How long a context for a question may take to recall: it indexes what is not indexed yet.
QUESTION_SECONDS = 10.0
# With less room nothing is searched: it would hold a heading and no message.
MIN_ROOM = 40
# How long an embedder has for a question, and its share of the deadline of an ordinary turn; after that
# recall goes on with words alone.
QUESTION_MEANING, TURN_MEANING = 5.0, 0.3


@frozen
class PromptContent:
    """What a prompt shows without recall, which must not be repeated."""

    messages: Sequence[Message]
    memory: str


@frozen
class Reminder:
    """Adds recall to the contexts of a session."""

    store: Store
    session: SessionId
    settings: Settings
    counting: Counting
    now: datetime
    vectors: QueryVectors | None = None
    seconds: float = TIMING.recall_deadline

    async def remind(
        self, state: State, request: PromptRequest, layout: Layout
    ) -> tuple[PromptRequest, Layout]:
        """The request with what was recalled, and a layout with room for it; both unchanged if there is
        nothing to recall or recall fails."""
        try:
            if request.question:
                async with asyncio.timeout(QUESTION_SECONDS):
                    return await self._for_question(state, request, layout)
            async with asyncio.timeout(self.seconds):
                return await self._for_turn(state, request, layout), layout
        except TimeoutError:
            log.warning("%s: recall took too long; the turn goes on without it", self.session.key)
        except Exception as error:  # noqa: BLE001  no failure of recall may reach the agent's turn
            log.warning("%s: recall failed; the turn goes on without it: %r", self.session.key, error)
        return request, layout

    async def _for_turn(self, state: State, request: PromptRequest, layout: Layout) -> PromptRequest:
        """Recall gets what notes and messages leave, up to its limit, which depends on how much is asked."""
        query = of_turn(state.messages, self.now) if self._has_past(state, layout) else None
        if query is None:
            return request
        shown, left = self._content(state, request, layout)
        limit = query.room(layout.limits.recall_limit)
        room = min(limit, left) if request.budget else limit
        if room <= MIN_ROOM:
            return request
        if self._wide:
            await self._catch_up(but=self.session)
        said = last_question(state.messages)
        finder = self._recall(TURN_MEANING * self.seconds, recall.TURN_HITS)
        found = await finder.find(said, query, shown)
        return _with_text(request, self._text(found, shown, room, query.most))

    async def _for_question(
        self, state: State, request: PromptRequest, layout: Layout
    ) -> tuple[PromptRequest, Layout]:
        """Recall gets the larger part of the prompt; what it does not use goes back to notes and messages."""
        whole = layout.limits.budget
        reserve = round(QUESTION_SHARE * whole or RECALL_SHARE * (self.settings.budget or DEFAULT.budget))
        request = replace(request, recall_reserve=reserve)
        layout = lay_out(state, request, self.settings, self.counting)
        shown, left = self._content(state, request, layout)
        await self._catch_up()
        query = of_question(request.question, self.now)
        found = await self._recall(QUESTION_MEANING, recall.QUESTION_HITS).find(
            request.question, query, shown
        )
        room = reserve + left
        text = self._text(found, shown, room)
        used = self.counting.text(text)
        if used < reserve and request.budget:
            layout = lay_out(state, replace(request, recall_reserve=used), self.settings, self.counting)
            shown, _ = self._content(state, request, layout)
            text = self._text(found, shown, room)
            if self.counting.text(text) > used:
                text = self._text(found, shown, used)
        return _with_text(request, text), layout

    @property
    def _wide(self) -> bool:
        return self.settings.recalls_owner(self.session.owner)

    def _has_past(self, state: State, layout: Layout) -> bool:
        """Whether there may be messages that the prompt does not show."""
        if self._wide or state.missing or state.progress.watermark:
            return True
        return tokens_of(state.messages) > layout.room

    def _recall(self, meaning: float, hits: int) -> Recall:
        return Recall(self.store, self.session, self._wide, self.now, self.vectors, meaning, hits)

    def _content(self, state: State, request: PromptRequest, layout: Layout) -> tuple[PromptContent, int]:
        """What the prompt shows without recall, and the unused tokens."""
        left = layout.left - layout.tail.tokens if request.budget else 0
        messages = (*layout.tail.messages, *layout.preface, *state.pinned)
        return PromptContent(messages, "\n".join(layout.memory.sections.texts())), left

    def _text(self, found: RecallResult, shown: PromptContent, room: int, most: int = 0) -> str:
        there = {m.id for m in shown.messages}
        worth = {
            (session, seq): value
            for (session, seq), value in found.worth.items()
            if session != self.session or found.around[session, seq].id not in there
        }
        count = self.counting.text
        return render_recall(worth, found.around, found.terms, room, count, shown.memory, most)

    async def _catch_up(self, *, but: SessionId | None = None) -> None:
        """Index what recall searches. An ordinary turn skips its own session: what its index lacks is in the
        tail."""
        try:
            await catch_up(self.store, self.session.owner, None if self._wide else self.session, but=but)
        except StoreError as error:
            log.warning("%s: recall searches what was indexed before: %s", self.session.key, error)


def _with_text(request: PromptRequest, text: str) -> PromptRequest:
    return replace(request, end="\n\n".join(t for t in (text, request.end) if t), recalled=text)


# ------------------------------------------------------------------------------------ vectors of queries

# How many queries have their vector cached (a vector of 1,536 numbers takes 50 kB), and how long a failed
# embedder is not asked.
KEPT_QUERIES = 64
REST_SECONDS = 30.0


class QueryVectors:
    """The vectors of queries. Without one, a search goes on with words alone."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, tuple[float, ...]] = {}
        self._asking: dict[str, asyncio.Task[tuple[float, ...] | None]] = {}
        self._rest_until = 0.0

    @property
    def space(self) -> str:
        return self._embedder.name

    async def of(self, text: str, *, within: float) -> tuple[float, ...] | None:
        """The vector; None if the embedder fails, failed a moment ago, or takes longer than `within` seconds.
        A late vector is cached for the next time."""
        text = embeddable(text)
        if text in self._known:
            return self._known[text]
        if not tokens(text) or time.monotonic() < self._rest_until:
            return None
        task = self._asking.get(text)
        if task is None:
            task = self._asking[text] = asyncio.create_task(self._ask(text), name="onlooker query")
        done, _ = await asyncio.wait([task], timeout=within)
        return task.result() if done and not task.cancelled() else None

    async def _ask(self, text: str) -> tuple[float, ...] | None:
        try:
            vector = tuple((await self._embedder.embed([text]))[0])
        except Exception as error:  # noqa: BLE001  an embedder is a host's code and may raise anything
            log.warning("%s: searching by words alone: %s", self._embedder.name, error)
            self._rest_until = time.monotonic() + REST_SECONDS
            return None
        finally:
            del self._asking[text]
        self._known[text] = vector
        if len(self._known) > KEPT_QUERIES:
            del self._known[next(iter(self._known))]
        return vector

    async def stop(self) -> None:
        """Cancel what is still being asked."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
