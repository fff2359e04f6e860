"""What a realignment does to a session's messages, decided once for every store.

Pure: it goes by what is known of each message (its place and digest), and says what moves where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from onlooker.domain.errors import ConflictError
from onlooker.domain.messages import GENERATED_ID_PREFIX, Message
from onlooker.domain.notes import Realignment

# live: in the session; compacted: a summary stands in its place; cleared: a person deleted the notes
# that stood for it; retired: the host took it back.
Place = Literal["live", "compacted", "cleared", "retired"]


@dataclass(frozen=True, slots=True)
class Known:
    """A recorded message, or a summary that compaction put in, as far as alignment cares."""

    seq: int
    id: str
    digest: bytes
    place: Place
    summary: bool = False

    @property
    def stands(self) -> bool:
        """Whether it is part of the conversation as the host has it."""
        return self.place != "retired" and not self.summary


@dataclass(frozen=True, slots=True)
class Placement:
    """What happens to the messages after `keep`.

    `move` gives recorded messages, whatever their place, a new seq among the live ones. `add` are new
    messages with their seq. `drop` are summaries that stand for what is no longer so. `fresh` are the
    messages that came as new ones, by the seq they have now, whether added or revived.
    """

    retire: tuple[Known, ...]
    move: tuple[tuple[Known, int], ...]
    add: tuple[Message, ...]
    drop: tuple[Known, ...]
    fresh: Mapping[int, Message]
    last_seq: int

    def original(self, message: Message) -> Mapping[str, Any] | None:
        """The host's own form of a fresh message."""
        return self.fresh[message.seq].original


@dataclass(frozen=True, slots=True)
class Undone:
    """The frontier after and before a rollback: messages between the two lost the notes that covered
    them."""

    frontier: int
    before: int

    def stale(self, summary: Known, known: Sequence[Known], keep: int) -> bool:
        """Whether a summary goes with the note whose text it is. Without originals to bring back, it
        is all there is, and stays."""
        if not self.frontier < summary.seq <= min(keep, self.before):
            return False
        kept = (k.seq for k in known if k.place == "compacted" and k.stands)
        return any(self.frontier < seq <= summary.seq for seq in kept)


def place(known: Sequence[Known], change: Realignment, undone: Undone) -> Placement:
    """Decide where each message goes.

    Raises:
        ConflictError: `follow` names a message that is not, or no longer, there after `keep`.
    """
    after = {k.seq: k for k in known if k.stands and k.seq > change.keep}
    named = {item for item in change.follow if isinstance(item, int)}
    if missing := named - after.keys():
        raise ConflictError(f"no message {min(missing)} after {change.keep} to follow it")
    drop = tuple(
        k for k in known if k.summary and (k.seq > change.keep or undone.stale(k, known, change.keep))
    )
    leaving = [k for seq, k in after.items() if seq not in named]
    out = {id(k) for k in (*leaving, *drop)}
    ids = {k.id for k in known if k.place != "retired" and id(k) not in out}
    past = _Past((*(k for k in known if k.place == "retired" and not k.summary), *leaving))
    return _follow(change, after, leaving, drop, ids, past)


def _follow(
    change: Realignment,
    after: Mapping[int, Known],
    leaving: Sequence[Known],
    drop: tuple[Known, ...],
    ids: set[str],
    past: _Past,
) -> Placement:
    moves: dict[int, tuple[Known, int]] = {}  # by the old seq: what is named twice moves once
    add: list[Message] = []
    fresh: dict[int, Message] = {}
    seq = change.last_seq
    for item in change.follow:
        if isinstance(item, int):
            found = after[item]
        elif item.id in ids:
            continue
        else:
            found = past.take(item, ids)
        if found is not None and found.seq in moves:
            continue
        seq += 1
        if isinstance(item, Message):
            fresh[seq] = item
        if found is not None:
            moves[found.seq] = (found, seq)
            ids.add(found.id)
        elif isinstance(item, Message):
            add.append(replace(item, seq=seq, original=None))
            ids.add(item.id)
    retire = tuple(k for k in leaving if k.seq not in moves)
    return Placement(retire, tuple(moves.values()), tuple(add), drop, fresh, seq)


class _Past:
    """Messages that were taken back, now or before, and may come again."""

    def __init__(self, retired: Iterable[Known]) -> None:
        self._by_digest: dict[bytes, list[Known]] = {}
        for message in sorted(retired, key=lambda k: k.seq):
            self._by_digest.setdefault(message.digest, []).append(message)

    def take(self, message: Message, ids: set[str]) -> Known | None:
        """The one that the message equals. The same id with another text is an edit, and new."""
        alike = self._by_digest.get(message.digest, [])
        given = message.id.startswith(GENERATED_ID_PREFIX)
        # Two live messages may not share an id: one that has come back, or whose id was used again,
        # stays where it is.
        fits = [k for k in alike if k.id not in ids and (given or k.id == message.id)]
        if not fits:
            return None
        # The same id first; else the oldest, so that equal messages come back in their order.
        return min(fits, key=lambda k: (k.id != message.id, k.seq))


def restored(known: Sequence[Known], keep: int, undone: Undone) -> list[Known]:
    """What compaction set aside and must stand raw again, since no note covers it any more.

    Where a summary up to `keep` stands for messages, it comes back in their place, if it was itself
    set aside by a later compaction.
    """
    summaries = [
        k
        for k in known
        if k.summary
        and k.seq <= keep
        and k.place in ("live", "compacted")
        and not undone.stale(k, known, keep)
    ]
    newest = max(summaries, key=lambda k: (k.seq, k.place == "live"), default=None)
    covered = max(undone.frontier, newest.seq) if newest else undone.frontier
    back = [k for k in known if k.place == "compacted" and k.stands and covered < k.seq <= keep]
    if newest and newest.place == "compacted" and newest.seq > undone.frontier:
        back.insert(0, newest)
    return back


def floor_of(known: Iterable[Known]) -> int:
    """The last message that a person cleared away with its notes."""
    return max((k.seq for k in known if k.place == "cleared"), default=0)
