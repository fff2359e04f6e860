"""Align a host's history with the recorded messages.

Hosts send their whole history with each call, often without ids. Usually it continues where the record
ends. Sometimes it diverges: an answer was regenerated, an earlier message edited, a branch taken, or the
host trimmed or summarised its own past.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from onlooker.domain.messages import GENERATED_ID_PREFIX, Message
from onlooker.domain.notes import MessageDigest

# This many consecutive messages in common are no coincidence.
CERTAIN_RUN = 3
# Nor is one common message of this many characters, after messages that are not recorded.
TELLING_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Alignment:
    """How a history relates to the record.

    `history[:preface]` comes before everything recorded and is passed on without being recorded.
    `history[preface:matched]` is recorded already; its last message has the seq `keep`. `follow` is the
    rest: new messages, and the seqs of recorded ones that moved. `retires` says whether the history lacks
    any recorded message after `keep`.
    """

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
    """`length` messages in common, starting at `history[at]` and `recorded[start]`."""

    at: int
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


def align(history: Sequence[Message], recorded: Sequence[MessageDigest], *, whole: bool = True) -> Alignment:
    """Find where the history and the record diverge.

    `whole` says that `recorded` begins with the session's first message. A history with nothing in common
    with the record continues it: the host sends only what is new.
    """
    comparison = _Comparison.of(history, recorded)
    run = comparison.common_run(whole=whole)
    if run is None:
        last = recorded[-1].seq if recorded else 0
        return Alignment(0, 0, last, tuple(history), retires=False)
    keep = recorded[run.end - 1].seq
    follow = comparison.follow(run)
    moved = sum(isinstance(f, int) for f in follow)
    return Alignment(run.at, run.at + run.length, keep, follow, retires=moved < len(recorded) - run.end)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A history and a record, with each digest computed once."""

    history: Sequence[Message]
    digests: Sequence[bytes]
    recorded: Sequence[MessageDigest]
    positions: dict[bytes, list[int]]  # of each digest in the record

    @classmethod
    def of(cls, history: Sequence[Message], recorded: Sequence[MessageDigest]) -> _Comparison:
        positions: dict[bytes, list[int]] = defaultdict(list)
        for i, d in enumerate(recorded):
            positions[d.digest].append(i)
        return cls(history, [m.digest for m in history], recorded, positions)

    def common_run(self, *, whole: bool) -> _Run | None:
        """Find the run that both share, or None.

        It starts at the first message if the history begins as the record does. Otherwise the host cut off
        its past, perhaps leaving a summary in its place.
        """
        from_start = self._length(0, 0) if whole else 0
        trimmed = self._longest(0)
        if from_start and (trimmed is None or from_start >= trimmed.length):
            return _Run(0, 0, from_start)
        if trimmed:
            return trimmed
        return next(filter(None, map(self._longest, range(1, len(self.history)))), None)

    def follow(self, run: _Run) -> tuple[int | Message, ...]:
        """List what follows the common run, in the history's order: recorded messages by seq, or new ones."""
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
        """Find the longest credible run that begins with `history[at]`, the latest among equals."""
        if at >= len(self.history):
            return None
        best: _Run | None = None
        for start in self.positions.get(self.digests[at], ()):
            # With many equal messages, most positions are too near the end for a longer run.
            if best and best.length > len(self.recorded) - start:
                break
            run = _Run(at, start, self._length(at, start))
            if self._is_credible(run) and (best is None or run.length >= best.length):
                best = run
        return best

    def _is_credible(self, run: _Run) -> bool:
        """Return whether a run is more than a coincidence, since short messages such as "yes" repeat.

        It must be long, or reach the end of the record, or miss no more than the last answer.
        """
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
        """Return whether ids allow two messages to be the same. Generated ids are not compared."""
        given = self.history[i].id
        generated = recorded.id.startswith(GENERATED_ID_PREFIX) or given.startswith(GENERATED_ID_PREFIX)
        return generated or not given or given == recorded.id
