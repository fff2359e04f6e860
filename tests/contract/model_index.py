"""Search in the model of a store, by words, vectors and mentions. It has no index and scans everything."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from tests.contract.model_session import Held, in_order

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Note
from onlooker.domain.search import (
    Document,
    Edge,
    EdgeKind,
    IndexCoverage,
    Match,
    Node,
    Query,
    SearchResult,
    TextKind,
    VectorQuery,
    note_node,
)
from onlooker.policy.search.graph import Stub, folded, structure
from onlooker.policy.search.rank import most_holders, shortlist
from onlooker.policy.search.vectors import RESCORED, closest, likely, signs, unit
from onlooker.policy.search.words import text_of, words_of


def search(sessions: Mapping[SessionId, Held], query: Query) -> SearchResult:
    check_owner(query.owner, query.session)
    texts = list(texts_of(sessions, query.owner, query.kind, query.session))
    length = sum(_length(text.words) for text in texts)
    then = {number: t for number, t in enumerate(texts) if _counts(t.at, query)}
    holders: dict[str, list[int]] = {term: [] for term in query.terms}
    for number, text in reversed(then.items()):
        for term in holders.keys() & set(text.words.split()):
            holders[term].append(number)
    holders = {term: numbers[: query.max_holders] for term, numbers in holders.items()}
    most = most_holders(len(texts), query.rare, query.max_holders)
    if query.rare and not any(0 < len(numbers) <= most for numbers in holders.values()):
        return SearchResult(len(texts), length, {}, ())
    if query.terms:
        numbers = shortlist(holders, query.terms, len(texts), query.limit)
    else:
        numbers = _newest(then)[: query.limit]
    counts = {term: _count(numbers, len(texts), query.max_holders) for term, numbers in holders.items()}
    return SearchResult(len(texts), length, counts, tuple(texts[number] for number in numbers))


def _count(found: Sequence[int], docs: int, limit: int) -> int:
    """All that hold a term, or an estimate from how close together the newest are."""
    return len(found) if len(found) < limit else max(len(found), docs * limit // (found[0] - found[-1] + 1))


def check_owner(owner: str, session: SessionId | None) -> None:
    if session is not None and session.owner != owner:
        raise SettingsError("session", session, f"must belong to the owner {owner!r}")


def texts_of(
    sessions: Mapping[SessionId, Held], owner: str, kind: TextKind, session: SessionId | None
) -> Iterator[Match]:
    """Everything of one kind that can be found in an owner's sessions, or in the one."""
    for each, held in sessions.items():
        if each.owner == owner and session in (None, each):
            yield from _notes(each, held) if kind == "note" else _messages(each, held, kind)


def _messages(session: SessionId, held: Held, kind: TextKind) -> Iterator[Match]:
    for record in held.retired() if kind == "retired" else held.standing(summaries=False):
        m = record.message
        text = text_of(m)
        yield Match(kind, session, m.id, m.seq, m.at, m.name, text, words_of(text))


def _notes(session: SessionId, held: Held) -> Iterator[Match]:
    for note in in_order(n for n in held.notes.values() if n.status == "active"):
        yield note_match(session, note)


def note_match(session: SessionId, note: Note) -> Match:
    words = words_of(note.text)
    return Match("note", session, note.id, note.first, note.made_at, "", note.text, words)


def _length(words: str) -> int:
    return words.count(" ") + 1 if words else 0


def _counts(at: datetime | None, query: Query) -> bool:
    if query.after is None and query.before is None and not query.terms:
        return at is not None
    return was_then(at, query.after, query.before)


def was_then(at: datetime | None, after: datetime | None, before: datetime | None) -> bool:
    """Whether that is within these bounds, where there are any."""
    if after is None and before is None:
        return True
    return at is not None and (after is None or at >= after) and (before is None or at < before)


def _newest(texts: Mapping[int, Match]) -> list[int]:
    return sorted(texts, key=lambda n: (texts[n].at, n), reverse=True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType, reportArgumentType, reportCallIssue]


def around(held: Held, seqs: Sequence[int], reach: int, *, retired: bool) -> list[Message]:
    said = [*held.standing(summaries=False), *(held.retired() if retired else ())]
    near = [r.message for r in said if any(abs(r.seq - seq) <= reach for seq in seqs)]
    return sorted(near, key=lambda m: m.seq)


# ------------------------------------------------------------------------------------ vectors and mentions

Key = tuple[SessionId, TextKind, str]
Sessions = Mapping[SessionId, Held]


class HeldIndex:
    """What was made of texts, by space and by text. What a text no longer says is as good as not there."""

    def __init__(self) -> None:
        # space -> message or note -> (its text, its vector)
        self.vectors: dict[str, dict[Key, tuple[str, array[float]]]] = {}
        # note -> (its text, what it mentions)
        self.mentions: dict[tuple[SessionId, str], tuple[str, tuple[str, ...]]] = {}

    def drop_stale(self, sessions: Sessions) -> None:
        """Let go of what was made of texts that are gone."""
        standing = {_key(m): m.text for m in _texts(sessions)}
        for known in self.vectors.values():
            for key in [k for k, (text, _) in known.items() if standing.get(k) != text]:
                del known[key]
        for session, note in [k for k in self.mentions if self._mentioned(sessions, *k) is None]:
            del self.mentions[session, note]

    # -- vectors

    def without_vectors(self, sessions: Sessions, space: str, limit: int) -> list[Document]:
        known = self.vectors.get(space, {})
        missing = (m for m in _texts(sessions) if m.words and known.get(_key(m), ("",))[0] != m.text)
        found = [Document(m.kind, m.session, m.indexed_as, m.text) for m in missing]
        return found[: max(limit, 0)]

    def add(self, sessions: Sessions, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
        if not vectors:
            return 0
        self.drop_stale(sessions)
        known = self.vectors.setdefault(space, {})
        size = len(vectors[0][1])
        if any(len(vector) != size for _, vector in known.values()):
            known.clear()
        standing = {_key(m): m.text for m in _texts(sessions)}
        added = 0
        for document, vector in vectors:
            key: Key = document.session, document.kind, document.id
            if standing.get(key) == document.text:
                known[key] = document.text, unit(vector)
                added += 1
        return added

    def nearest(self, sessions: Sessions, query: VectorQuery) -> list[tuple[Match, float]]:
        check_owner(query.owner, query.session)
        known = self.vectors.get(query.space, {})
        there: list[tuple[Match, array[float]]] = []
        for match in texts_of(sessions, query.owner, query.kind, query.session):
            text, vector = known.get(_key(match), ("", None))
            if vector is not None and text == match.text and len(vector) == len(query.vector):
                there.append((match, vector))
        there = [(m, v) for m, v in there if was_then(m.at, query.after, query.before)]
        asked = unit(query.vector)
        bits = [(number, signs(vector)) for number, (_, vector) in enumerate(there)]
        numbers = likely(signs(asked), bits, max(RESCORED, query.limit))
        best = closest(asked, ((n, there[n][1]) for n in numbers), query.limit)
        return [(there[number][0], cosine) for number, cosine in best]

    def coverage(self, sessions: Sessions, space: str) -> IndexCoverage:
        texts = sum(bool(m.words) for m in _texts(sessions))
        notes = sum(len(held.notes) for held in sessions.values())
        lacking = len(self.without_vectors(sessions, space, texts))
        return IndexCoverage(texts, texts - lacking, notes, notes - len(self.unlinked(sessions, notes)))

    # -- graph

    def unlinked(self, sessions: Sessions, limit: int) -> list[Document]:
        notes = ((s, n) for s, held in sessions.items() for n in held.notes.values())
        missing = [
            Document("note", s, n.id, n.text) for s, n in notes if self._mentioned(sessions, s, n.id) is None
        ]
        return missing[: max(limit, 0)]

    def link(self, sessions: Sessions, found: Sequence[tuple[Document, Sequence[str]]]) -> int:
        linked = 0
        for document, names in found:
            note = _note(sessions, document.session, document.id)
            if note is not None and note.text == document.text:
                self.mentions[document.session, document.id] = note.text, tuple(names)
                linked += 1
        return linked

    def _mentioned(self, sessions: Sessions, session: SessionId, note: str) -> tuple[str, ...] | None:
        """What a note mentions; None where it is gone, or was not asked for its names yet."""
        stands, (text, names) = _note(sessions, session, note), self.mentions.get((session, note), ("", ()))
        if stands is None or (session, note) not in self.mentions or stands.text != text:
            return None
        return names

    def edges(
        self,
        sessions: Sessions,
        owner: str,
        of: Sequence[Node],
        session: SessionId | None,
        kinds: Sequence[EdgeKind],
        limit: int,
    ) -> list[Edge]:
        check_owner(owner, session)
        where = sorted(s for s in sessions if s.owner == owner and session in (None, s))
        named = {folded(n.name) for n in of if n.kind == "entity"}

        def wanted(edge: Edge) -> bool:
            ends = edge.source in of or edge.target in of
            return not of or ends or (edge.kind == "mentions" and folded(edge.target.name) in named)

        found = (e for s in where for e in self._edges(sessions, s) if e.kind in kinds and wanted(e))
        return list(found)[: max(limit, 0)]

    def _edges(self, sessions: Sessions, session: SessionId) -> Iterator[Edge]:
        notes = [n for n in sessions[session].notes.values() if n.status in ("active", "superseded")]
        yield from structure(session, [Stub(n.id, n.generation, n.first, n.sources) for n in notes])
        for note in in_order(notes):
            for name in self._mentioned(sessions, session, note.id) or ():
                yield Edge("mentions", note_node(session, note.id), Node("entity", self._name(session, name)))

    def _name(self, session: SessionId, name: str) -> str:
        """The first spelling of an entity that an owner's notes have."""
        spelled = (
            other
            for (s, _), (_, names) in self.mentions.items()
            if s.owner == session.owner
            for other in names
        )
        return next((other for other in spelled if folded(other) == folded(name)), name)


def notes_by_id(sessions: Sessions, wanted: Iterable[tuple[SessionId, str]]) -> list[Match]:
    notes = ((session, _note(sessions, session, note)) for session, note in wanted)
    return [note_match(s, n) for s, n in notes if n is not None and n.status == "active"]


def _note(sessions: Sessions, session: SessionId, note: str) -> Note | None:
    held = sessions.get(session)
    return held.notes.get(note) if held else None


def _texts(sessions: Sessions) -> Iterator[Match]:
    for owner in dict.fromkeys(session.owner for session in sessions):
        for kind in ("message", "note", "retired"):
            yield from texts_of(sessions, owner, kind, None)


def _key(match: Match) -> Key:
    return match.session, match.kind, match.indexed_as
