"""How a history that a host hands over relates to what is recorded.

Hosts hand over their whole history at each call, often without ids. Most of the time it goes on
where the record ends. Sometimes it went another way: an answer was regenerated, an earlier message
edited, a branch taken, or the host trimmed or summarised its own past.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from onlooker.domain.messages import GENERATED_ID_PREFIX, Message
from onlooker.domain.notes import MessageDigest

# So many messages in a row in common are no accident.
CERTAIN_RUN = 3
# One message of this many characters, in common behind something unknown, is none either.
TELLING_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Alignment:
    """`history[:preface]` stands before anything recorded and is passed on, not recorded; up to
    `matched` it is recorded already, the last of that as `keep`; `follow` is the rest, each a new
    message or the seq of a recorded one that comes later now. `retires`: recorded messages after
    `keep` that the history no longer has."""

    preface: int
    matched: int
    keep: int
    follow: tuple[int | Message, ...]
    retires: bool

    @property
    def diverges(self) -> bool:
        return self.retires or any(isinstance(f, int) for f in self.follow)


@dataclass(frozen=True, slots=True)
class _Run:
    """`length` messages in common, from `history[at]` and `recorded[start]` on."""

    at: int
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


def align(history: Sequence[Message], recorded: Sequence[MessageDigest], *, whole: bool = True) -> Alignment:
    """Find where the history and the record part.

    `whole` says that `recorded` begins with the session's first message. A history with nothing in
    common with the record goes on from it: a host that sends only what is new.
    """
    look = _Look.at(history, recorded)
    run = look.common_run(whole=whole)
    if run is None:
        last = recorded[-1].seq if recorded else 0
        return Alignment(0, 0, last, tuple(history), retires=False)
    keep = recorded[run.end - 1].seq
    follow = look.follow(run)
    moved = sum(isinstance(f, int) for f in follow)
    return Alignment(run.at, run.at + run.length, keep, follow, retires=moved < len(recorded) - run.end)


@dataclass(frozen=True, slots=True)
class _Look:
    """History and record side by side, each digest computed once."""

    history: Sequence[Message]
    digests: Sequence[bytes]
    recorded: Sequence[MessageDigest]
    places: dict[bytes, list[int]]

    @classmethod
    def at(cls, history: Sequence[Message], recorded: Sequence[MessageDigest]) -> _Look:
        places: dict[bytes, list[int]] = defaultdict(list)
        for i, d in enumerate(recorded):
            places[d.digest].append(i)
        return cls(history, [m.digest for m in history], recorded, places)

    def common_run(self, *, whole: bool) -> _Run | None:
        """The stretch that both share, or None.

        From the first message on, where the history begins as the record does. Otherwise the host
        cut its past off, perhaps with a summary in its place.
        """
        from_start = self._length(0, 0) if whole else 0
        trimmed = self._longest(0)
        if from_start and (trimmed is None or from_start >= trimmed.length):
            return _Run(0, 0, from_start)
        if trimmed:
            return trimmed
        return next(filter(None, map(self._longest, range(1, len(self.history)))), None)

    def follow(self, run: _Run) -> tuple[int | Message, ...]:
        """What comes after the common part: recorded messages keep their identity, in the new order."""
        free: dict[bytes, deque[MessageDigest]] = defaultdict(deque)
        for d in self.recorded[run.end :]:
            free[d.digest].append(d)
        follow: list[int | Message] = []
        for i in range(run.at + run.length, len(self.history)):
            waiting = free[self.digests[i]]
            found = next((d for d in waiting if self._ids_agree(i, d)), None)
            if found is None:
                follow.append(self.history[i])
            else:
                waiting.remove(found)
                follow.append(found.seq)
        return tuple(follow)

    def _longest(self, at: int) -> _Run | None:
        """The longest believable stretch that begins with `history[at]`, the latest among equals."""
        if at >= len(self.history):
            return None
        best: _Run | None = None
        for start in self.places.get(self.digests[at], ()):
            # Among many equal messages, most places are too near the end for anything longer.
            if best and best.length > len(self.recorded) - start:
                break
            run = _Run(at, start, self._length(at, start))
            if self._believable(run) and (best is None or run.length >= best.length):
                best = run
        return best

    def _believable(self, run: _Run) -> bool:
        """A stretch must reach the end of the record, or miss no more than the last answer, or be
        too long for an accident: a short message such as "yes" stands in many places."""
        if run.length >= CERTAIN_RUN:
            return True
        if run.at and run.length == 1 and len(self.history[run.at].text) < TELLING_LENGTH:
            return False
        missed = self.recorded[run.end :]
        return run.length > 0 and all(d.role in ("assistant", "tool") for d in missed)

    def _length(self, at: int, start: int) -> int:
        n = 0
        while at + n < len(self.history) and start + n < len(self.recorded) and self._same(at + n, start + n):
            n += 1
        return n

    def _same(self, i: int, j: int) -> bool:
        return self.digests[i] == self.recorded[j].digest and self._ids_agree(i, self.recorded[j])

    def _ids_agree(self, i: int, recorded: MessageDigest) -> bool:
        """Ids tell two equal messages apart, where both are the host's own."""
        given = self.history[i].id
        ours = recorded.id.startswith(GENERATED_ID_PREFIX) or given.startswith(GENERATED_ID_PREFIX)
        return ours or not given or given == recorded.id
