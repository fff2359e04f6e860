"""Searching what is held in memory: nothing is indexed, everything is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Note
from onlooker.domain.search import HitKind, Match, Query, SearchResult
from onlooker.policy.search.rank import MOST_HOLDERS, shortlist, text_of, words_of
from onlooker.stores.held import Held, in_order


def search(sessions: Mapping[SessionId, Held], query: Query) -> SearchResult:
    check_owner(query.owner, query.session)
    texts = list(texts_of(sessions, query.owner, query.kind, query.session))
    length = sum(_length(text.words) for text in texts)
    then = {number: t for number, t in enumerate(texts) if _counts(t.at, query)}
    holders: dict[str, list[int]] = {term: [] for term in query.terms}
    for number, text in reversed(then.items()):
        for term in holders.keys() & set(text.words.split()):
            holders[term].append(number)
    holders = {term: numbers[:MOST_HOLDERS] for term, numbers in holders.items()}
    if query.terms:
        numbers = shortlist(holders, query.terms, len(texts), query.most)
    else:
        numbers = _newest(then)[: query.most]
    counts = {term: len(numbers) for term, numbers in holders.items()}
    return SearchResult(len(texts), length, counts, tuple(texts[number] for number in numbers))


def check_owner(owner: str, session: SessionId | None) -> None:
    if session is not None and session.owner != owner:
        raise SettingsError("session", session, f"must be one of the owner {owner!r}")


def texts_of(
    sessions: Mapping[SessionId, Held], owner: str, kind: HitKind, session: SessionId | None
) -> Iterator[Match]:
    """Everything of one kind that can be found in an owner's sessions, or in the one."""
    for each, held in sessions.items():
        if each.owner == owner and session in (None, each):
            yield from _messages(each, held) if kind == "message" else _notes(each, held)


def _messages(session: SessionId, held: Held) -> Iterator[Match]:
    for record in held.standing(summaries=False):
        m = record.message
        text = text_of(m)
        yield Match("message", session, m.id, m.seq, m.at, m.name, text, words_of(text))


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


def around(held: Held, seqs: Sequence[int], reach: int) -> list[Message]:
    return [m for m in _said(held) if any(abs(m.seq - seq) <= reach for seq in seqs)]


def _said(held: Held) -> Iterable[Message]:
    return (record.message for record in held.standing(summaries=False))
