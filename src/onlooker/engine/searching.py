"""Search and recall: asking the store, and leaving it to the policy what comes first."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from onlooker.domain.errors import SettingsError, StoreError
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.search import Hit, HitKind, Match, Query, SearchResult
from onlooker.engine.fusing import SEARCH_SECONDS, Nearness, as_one, tied
from onlooker.policy.search import rank, recall
from onlooker.policy.search.graph import GRAPH_WEIGHT
from onlooker.policy.search.rank import snippet
from onlooker.policy.search.recall import days_in
from onlooker.policy.search.words import query_tokens
from onlooker.ports import Store

if TYPE_CHECKING:
    from onlooker.engine.meaning import Meaning

log = logging.getLogger("onlooker")

# What is put into the index at once: everything else that is written waits for so long, and where a model is
# busy in this process, a message takes a millisecond.
BATCH = 50
# How many sessions are caught up with, at the most, before what is found is shown.
MOST_SESSIONS = 10_000
KINDS: tuple[HitKind, ...] = ("message", "note")
Marks = tuple[str, str]


async def catch_up(
    store: Store, owner: str, session: SessionId | None = None, *, but: SessionId | None = None
) -> None:
    """Let everything be found that was recorded before now, in one session or all of an owner's but one."""
    for behind in await store.unindexed(owner, session=session, limit=MOST_SESSIONS):
        while behind != but and await store.index(behind, limit=BATCH) >= BATCH:
            pass


async def keep_findable(store: Store, session: SessionId) -> None:
    """The same for one session, in the background: what fails is caught up with by the next search."""
    try:
        while await store.index(session, limit=BATCH) >= BATCH:
            pass
    except StoreError as error:
        log.warning("%s: could not be indexed: %s", session.key, error)


# ------------------------------------------------------------------------------------ search


@dataclass(frozen=True, slots=True)
class Search:
    """What a person or an agent looks for, and where."""

    owner: str
    session: SessionId | None = None
    kinds: Sequence[HitKind] = KINDS
    limit: int = 20
    after: datetime | None = None
    before: datetime | None = None
    marks: Marks = ("", "")

    def check(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise SettingsError("kinds", kind, f"must be some of {', '.join(KINDS)}")
        if self.limit < 1:
            raise SettingsError("limit", self.limit, "must be at least 1")

    async def run(self, store: Store, text: str, meaning: Meaning | None = None) -> list[Hit]:
        """The best hits first: by their words, by what they mean, and by what ties them to other hits."""
        self.check()
        await catch_up(store, self.owner, self.session)
        terms = dict.fromkeys(query_tokens(text), 1.0)
        if not terms and self.after is None and self.before is None:
            return []
        near = Nearness(store, meaning, text, within=SEARCH_SECONDS)
        rankings = [await self._ranked(store, kind, terms) for kind in self.kinds]
        if terms:
            rankings += [await self._near(near, kind) for kind in self.kinds]
        score = rank.fuse(*as_one(*rankings))
        if terms and "note" in self.kinds:
            found = sorted(score, key=lambda match: -score[match])
            rankings.append(await tied(store, self.owner, self.session, found, self.limit))
            weights = [*[1.0] * (len(rankings) - 1), GRAPH_WEIGHT]
            score = rank.fuse(*as_one(*rankings), weights=weights)
        best = sorted(score, key=lambda match: -score[match])[: self.limit]
        return [_hit(match, score[match], terms, self.marks) for match in best]

    async def _near(self, near: Nearness, kind: HitKind) -> list[Match]:
        return await near.ranked(self.owner, kind, self.session, self.after, self.before, most=self.limit)

    async def _ranked(self, store: Store, kind: HitKind, terms: Mapping[str, float]) -> list[Match]:
        query = Query(self.owner, kind, terms, self.session, self.after, self.before)
        found = await store.search(query)
        if not terms:
            return list(found.matches)
        names = rank.speaker_names(terms, found.matches)
        scored = rank.scores(found, terms)
        return rank.best_first(rank.boost_speakers(scored, names))[: self.limit]


def _hit(match: Match, score: float, terms: Mapping[str, float], marks: Marks) -> Hit:
    return Hit(
        kind=match.kind,
        session=match.session,
        id=match.id,
        seq=match.seq,
        text=match.text,
        snippet=snippet(match.text, terms, marks=marks),
        at=match.at,
        score=score,
        speaker=match.speaker,
    )


# ------------------------------------------------------------------------------------ leading back

# Messages on a page of what a note stands for.
PAGE = 50


async def expanded(
    store: Store, session: SessionId, target: str | int | Hit, neighbours: int, page: int | None
) -> Sequence[Message]:
    """What a note stands for, or one message, with as many messages before and after; one page of it."""
    if isinstance(target, Hit):
        if target.session.owner != session.owner:
            raise SettingsError("target", target.id, f"must be of the owner {session.owner!r}")
        session, target = target.session, target.seq if target.kind == "message" else target.id
    if neighbours < 0:
        raise SettingsError("neighbours", neighbours, "must be 0 or more")
    if page is not None and page < 1:
        raise SettingsError("page", page, "must be 1 or more")
    if isinstance(target, int):
        found = list(await store.around(session, [target], neighbours))
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


@dataclass(frozen=True, slots=True)
class Recall:
    """What a turn may be reminded of."""

    store: Store
    session: SessionId
    owner_wide: bool
    now: datetime
    meaning: Meaning | None = None
    within: float = SEARCH_SECONDS

    async def found(self, question: str, shown: Sequence[Message], memory: str) -> Recalled | None:
        """Messages that bear on the question, but for those that the prompt shows already."""
        terms = recall.recall_terms(question)
        days = tuple(dict.fromkeys(days_in(question, self.now)))
        if not terms and not days and self.meaning is None:
            return None
        near = Nearness(self.store, self.meaning, question, within=self.within)
        matched, asked = await self._matched(terms, days)
        close = await self._close(near)
        around = await self._around(list(dict.fromkeys([*recall.best_hits(matched), *close])))
        there = {m.id for m in shown}
        around = {
            (session, seq): m
            for (session, seq), m in around.items()
            if not (session == self.session and m.id in there) and not (m.text and m.text in memory)
        }
        worth = recall.score_messages(matched, around, asked)
        return Recalled(recall.fuse_vectors(worth, close), around, asked.terms)

    async def _close(self, near: Nearness) -> list[recall.MessageRef]:
        found = await near.ranked(self.session.owner, "message", self._where, most=recall.MOST_CLOSE)
        return [(m.session, m.seq) for m in found]

    async def _matched(
        self, terms: Mapping[str, float], days: tuple[tuple[str, str], ...]
    ) -> tuple[dict[recall.MessageRef, float], recall.RecallQuery]:
        found = await self._search(terms) if terms else SearchResult(0, 0, {}, ())
        names = rank.speaker_names(terms, found.matches)
        # Who is asked about says whose words count, not which: both speak of each other by name.
        if others := {t: w for t, w in terms.items() if t not in names}:
            terms = others
        if terms:
            extra = recall.feedback_terms(found, terms)
            if extra or names:
                found = await self._search({**terms, **extra})
            terms_too = {**terms, **recall.weigh_feedback(found, extra)}
        else:
            terms_too = {}
        matched = recall.scores_by_message(found, terms_too)
        for first, last in days:
            matched = await self._said_then(first, last) | matched
        return matched, recall.RecallQuery(terms, frozenset(names), days)

    async def _search(self, terms: Mapping[str, float]) -> SearchResult:
        return await self.store.search(Query(self.session.owner, "message", terms, self._where))

    async def _said_then(self, first: str, last: str) -> dict[recall.MessageRef, float]:
        """What was said at the time that the question names counts a little even where it shares no word."""
        tz = self.now.tzinfo
        after = datetime.fromisoformat(first).replace(tzinfo=tz)
        before = datetime.fromisoformat(last).replace(tzinfo=tz) + timedelta(days=1)
        query = Query(self.session.owner, "message", {}, self._where, after, before, recall.MOST_HITS // 3)
        found = await self.store.search(query)
        return {(m.session, m.seq): recall.SAID_THEN for m in found.matches}

    @property
    def _where(self) -> SessionId | None:
        return None if self.owner_wide else self.session

    async def _around(self, places: Sequence[recall.MessageRef]) -> dict[recall.MessageRef, Message]:
        by_session: dict[SessionId, list[int]] = {}
        for session, seq in places:
            by_session.setdefault(session, []).append(seq)
        found: dict[recall.MessageRef, Message] = {}
        for session, seqs in by_session.items():
            for message in await self.store.around(session, seqs, len(recall.NEARNESS)):
                found[session, message.seq] = message
        return found


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was found, each with what it is worth."""

    worth: Mapping[recall.MessageRef, float]
    around: Mapping[recall.MessageRef, Message]
    terms: Mapping[str, float]
