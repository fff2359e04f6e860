"""What a session is told by when a store moves: whether two sides hold the same, and whether one of them may
take the place of the other."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

from onlooker.domain.history import ChangeRow, MessageRow, Row, SessionRow, UsageRow
from onlooker.domain.items import Item
from onlooker.domain.messages import SessionId
from onlooker.policy.rows import to_line

_EVER = datetime.min.replace(tzinfo=UTC)
_FORWARD = ("live", "ended", "archived")


def pages(sessions: int, size: int) -> Iterator[tuple[str, str]]:
    """Ranges of hashes, each with about so many sessions in it: hashes are spread evenly."""
    count = max(1, -(-sessions // size))
    edges = [(number << 128) // count for number in range(count + 1)]
    for low, high in pairwise(edges):
        yield f"{low:032x}", f"{high - 1:032x}"


class Print:
    """A session as one hash over the lines of its export, with how many rows of each kind there are.

    Which items it shows is seen only once those are there: `shown` says whether that counts.
    """

    def __init__(self, session: SessionId, *, shown: bool) -> None:
        self.session = session
        self._shown = shown
        self.counts: Counter[str] = Counter()
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, row: Row) -> None:
        self.counts[type(row).__name__.removesuffix("Row").lower()] += 1
        if isinstance(row, SessionRow):
            # Every store counts its branches on from sessions that it had before.
            items = row.shown_items if self._shown else None
            row = replace(row, progress=replace(row.progress, revision=0), shown_items=items)
        self._hash.update(to_line(row).encode() + b"\n")

    @property
    def digest(self) -> bytes:
        return self._hash.digest()

    def unlike(self, other: Print | None) -> str:
        """What is not the same there; nothing where all is."""
        if other is None:
            return "it is not there"
        if self.counts != other.counts:
            kinds = sorted(k for k in self.counts | other.counts if self.counts[k] != other.counts[k])
            return ", ".join(f"{other.counts[k]} of {self.counts[k]} {k} rows" for k in kinds)
        return "" if self.digest == other.digest else "as many rows, but not the same"


class Holding:
    """What a session holds, to be told from another state of it."""

    def __init__(self) -> None:
        self.top: SessionRow | None = None
        self.messages: dict[str, bytes] = {}
        self.live: dict[int, str] = {}
        self.changes: dict[int, bytes] = {}

    def add(self, row: Row) -> None:
        match row:
            case SessionRow():
                self.top = row
            case MessageRow(_, message, place, summary) if not summary:
                self.messages[message.id] = digest_of(replace(row, place="live"))
                if place == "live":
                    self.live[message.seq] = message.id
            case ChangeRow():
                self.changes[row.change.number] = digest_of(row)
            case _:
                pass

    def refuses(self, ours: Holding) -> str:
        """Why `ours` may not take the place of this one; nothing where this one is an earlier state of it.

        What `ours` no longer has was deleted there: by a person, by retention or by compaction.
        """
        if self._is_ahead_of(ours):
            return "it was used there since, or was deleted here and begun anew"
        for ident, said in self.messages.items():
            if ours.messages.get(ident, said) != said:
                return f"message {ident!r} is another one there"
        if any(number in ours.changes and ours.changes[number] != c for number, c in self.changes.items()):
            return "its notes were changed there"
        for seq, ident in self.live.items():
            if ident not in ours.messages and ours.live.get(seq, ident) != ident:
                return f"message {ident!r} is there, and not here"
        common = self.messages.keys() & ours.messages.keys() or self.changes.keys() & ours.changes.keys()
        if self.messages and not common:
            return "it is another conversation there"
        return ""

    def _is_ahead_of(self, ours: Holding) -> bool:
        if self.top is None or ours.top is None:
            return False
        return any(a > b for a, b in zip(_marks(self.top), _marks(ours.top), strict=True))


def _marks(row: SessionRow) -> tuple[float, ...]:
    p = row.progress
    return p.last_seq, p.prompt_version, p.ended, row.changes, row.used_at.timestamp()


def digest_of(row: Row) -> bytes:
    return hashlib.blake2b(to_line(row).encode(), digest_size=16).digest()


def went_on(there: Item, here: Item) -> bool:
    """Whether an item was used, ended or archived there, and not here."""
    return (
        there.uses > here.uses
        or (there.last_used_at or _EVER) > (here.last_used_at or _EVER)
        or _FORWARD.index(there.status) > _FORWARD.index(here.status)
    )


class Calls:
    """What calls cost, as one side knows it: each is crossed off once.

    A call is known by all that is said of it: when, which model, how many tokens, and for whom. That last is
    gone where the session was deleted, or its owner.
    """

    def __init__(self) -> None:
        self._left: defaultdict[bytes, Counter[tuple[str, str | None]]] = defaultdict(Counter)

    def add(self, row: UsageRow) -> None:
        self._left[_unnamed(row)][row.owner, row.key] += 1

    def cross_off(self, row: UsageRow) -> bool:
        """Whether it was there."""
        return self._cross_off(_unnamed(row), row.owner, row.key)

    def knows(self, row: UsageRow) -> bool:
        """Whether it is there, for whomever."""
        return _unnamed(row) in self._left

    def cross_off_renamed(self, row: UsageRow) -> bool:
        """Whether it was there for a session that only one of the two sides still has."""
        call = _unnamed(row)
        for owner, key in self._left.get(call, ()):
            here, there = (row.owner, row.key), (owner, key)
            if (_lost(here, there) or _lost(there, here)) and self._cross_off(call, owner, key):
                return True
        return False

    def _cross_off(self, call: bytes, owner: str, key: str | None) -> bool:
        names = self._left.get(call)
        if names is None or not names[owner, key]:
            return False
        names[owner, key] -= 1
        return True


def _lost(name: tuple[str, str | None], before: tuple[str, str | None]) -> bool:
    return name[1] is None and name[0] in (before[0], "")


def _unnamed(row: UsageRow) -> bytes:
    return digest_of(replace(row, owner="", key=None))


def session_of_usage(row: UsageRow) -> SessionId | None:
    return None if row.key is None else SessionId(row.owner, row.key)
