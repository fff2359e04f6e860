"""Align a host's history with the recorded messages. When in doubt, keep.

Hosts send their history with each call, often without ids: the whole of it, a window, its beginning and its
end, or only what is new. Some restart, shorten old messages, or add context to the newest one. And some
people edit a message or have an answer written again.

    compare     which messages of the history are recorded: by id, or else by content and order
    unclear     which recorded messages must be read to tell an edit from a message that lost content
    decide      what is new, what is replaced, and what was taken back

Messages are taken back only on proof (`_Decision.is_proven`). Of two possible readings, the one that keeps
more is taken: at worst a short message is recorded twice.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from onlooker.domain.frozen import frozen
from onlooker.domain.messages import GENERATED_ID_PREFIX, Message
from onlooker.domain.notes import MessageDigest
from onlooker.policy.text import regex

# This many consecutive messages in common are not a coincidence.
CERTAIN_RUN = 3
# One common message of this many characters is no coincidence either.
TELLING_LENGTH = 16
# How many messages at each end of a gap are compared by their text.
GAP_ENDS = 8
# A host that goes back to its first exchange and drops more than this may as well have been restarted.
SHORT_BRANCH = 8
# Moving the messages of a record up to this length costs little.
SHORT_RECORD = 64

Rewind = Literal["auto", "never", "refuse"]


@frozen
class SentRange:
    """What a host sent last: everything in the record from `first` to `last`.

    `opening` is how many messages the session began with, if that is known. A host that restarts sends them
    again, up to its newest one. `preface` says whether something of the host's own came before it.
    """

    first: int
    last: int
    opening: int = 0
    preface: bool = False


@frozen
class Alignment:
    """How a history relates to the record.

    `history[:preface]` comes before everything recorded and is passed on without being recorded. `follow` is
    what comes after message `keep` from now on: new messages, and the seqs of recorded ones that stay.
    `retired` are the seqs of those that do not. `newest` is the seq that the history's newest message will
    have, or None if it will be the last of the record: others may have spoken since. From seq `sent_from` on,
    the history has every message of the record. `is_doubtful` says to keep all, unless a branch returns.
    """

    preface: int
    keep: int
    follow: tuple[int | Message, ...]
    retired: tuple[int, ...] = ()
    newest: int | None = None
    sent_from: int = 1
    is_doubtful: bool = False

    @property
    def only_new(self) -> tuple[Message, ...] | None:
        """The new messages, if all of them come after the recorded ones and nothing else changes."""
        new = tuple(f for f in self.follow if isinstance(f, Message))
        return None if self.retired or len(new) < len(self.follow) else new

    @property
    def diverges(self) -> bool:
        return self.only_new is None


# ------------------------------------------------------------------------ which messages are recorded


@frozen
class Comparison:
    """A history and a record. `found` is the position in the record of each message of the history that is
    there, ascending."""

    history: Sequence[Message]
    recorded: Sequence[MessageDigest]
    found: Mapping[int, int]
    by_id: bool  # the host has ids of its own, and keeps to them
    whole: bool  # the record begins with the session's first message

    @property
    def is_certain(self) -> bool:
        """Whether the history continues from the end of the record, so that no more of it need be read."""
        if self.whole or not self._reaches_the_end:
            return self.whole
        first, last = min(self.found), max(self.found)
        if last - first >= len(self.found):
            return False  # what is between them may be older, and so may what is before
        is_window = first == 0 and any(is_telling(self.history[i]) for i in self.found)
        # One message before a window may replace all that was left out.
        return is_window or (first < 2 and len(self.found) >= CERTAIN_RUN)

    @property
    def _reaches_the_end(self) -> bool:
        return max(self.found.values(), default=-1) == len(self.recorded) - 1

    @property
    def unclear(self) -> tuple[int, ...]:
        """The seqs of recorded messages that the history may have in another form."""
        ends = [p for gap in self.gaps() if gap.new for p in gap.ends]
        return tuple(self.recorded[p].seq for p in ends)

    def gaps(self) -> Iterator[Gap]:
        """Where history and record differ, in order; the last is what follows the last common message."""
        at = place = 0
        for i, p in (*self.found.items(), (len(self.history), len(self.recorded))):
            if i > at or p > place or i == len(self.history):
                yield Gap(range(at, i), range(place, p))
            at, place = i + 1, p + 1


@frozen
class Gap:
    """Messages of the history that are not recorded, opposite recorded ones that the history lacks."""

    new: range
    lacking: range

    @property
    def ends(self) -> tuple[int, ...]:
        """The recorded ones that are close to a common message."""
        if len(self.lacking) <= 2 * GAP_ENDS:
            return tuple(self.lacking)
        return (*self.lacking[:GAP_ENDS], *self.lacking[-GAP_ENDS:])


def compare(
    history: Sequence[Message], recorded: Sequence[MessageDigest], *, whole: bool = True
) -> Comparison:
    """Find the messages of the history in the record. `whole` says that `recorded` begins with the session's
    first message."""
    digests = [m.digest for m in history]
    known = {r.id for r in recorded}
    # Some hosts make new ids with every call: those say nothing.
    by_id = any(m.id in known for m in history if m.id)
    ours, theirs = _keys(history, digests, recorded, by_id=by_id)
    telling = [isinstance(k, tuple) or is_telling(m) for k, m in zip(ours, history, strict=True)]
    found = _common(ours, theirs, telling, whole=whole)
    others = any(has_other_id(history[i], recorded[p]) for i, p in found.items())
    if others and (found.keys() == {len(history) - 1} or not any(telling[i] for i in found)):
        found = {}  # the same words, said again
    return Comparison(history, recorded, found, by_id, whole)


def has_other_id(message: Message, recorded: Message | MessageDigest) -> bool:
    ours = message.id and not _is_generated(message.id)
    return bool(ours) and not _is_generated(recorded.id) and message.id != recorded.id


def _keys(
    history: Sequence[Message], digests: Sequence[bytes], recorded: Sequence[MessageDigest], *, by_id: bool
) -> tuple[list[object], list[object]]:
    """A key for each message. Two messages with equal keys are the same: the key is the content, with the
    host's id if both have one."""
    if not by_id:
        return list(digests), [r.digest for r in recorded]
    given, ids = {m.id for m in history}, {r.id for r in recorded}
    theirs: list[object] = [
        r.digest if _is_generated(r.id) and r.id not in given else (r.id, r.digest) for r in recorded
    ]
    by_digest = {r.digest: key for r, key in zip(recorded, theirs, strict=True)}
    keys = set(theirs)
    ours: list[object] = []
    for message, digest in zip(history, digests, strict=True):
        if message.id in ids and ((message.id, digest) in keys or by_digest.get(digest) != digest):
            ours.append((message.id, digest))
        elif _is_generated(message.id) or not message.id or message.id in ids:
            ours.append(by_digest.get(digest, digest))
        else:
            ours.append(digest)
    return ours, theirs


def _is_generated(ident: str) -> bool:
    return ident.startswith(GENERATED_ID_PREFIX)


def is_telling(message: Message) -> bool:
    """Whether a message is unlikely to be said twice."""
    return len(message.text) >= TELLING_LENGTH or bool(message.calls or message.answers)


def _common(
    history: Sequence[object], recorded: Sequence[object], telling: Sequence[bool], *, whole: bool
) -> dict[int, int]:
    """Pair equal messages in the same order in both."""
    prefix = _equal(history, recorded, 0, 0) if whole else 0
    if prefix == len(recorded) or prefix == len(history):
        return {i: i for i in range(prefix)}
    window = _window(history, recorded)
    if 1 in window and 0 not in window and telling[0] and history[0] in recorded[: window[1]]:
        # A host may keep the first message where it leaves out those after it.
        window = {0: recorded.index(history[0])} | window
    is_certain = prefix >= CERTAIN_RUN or any(telling[:prefix])
    is_window = len(window) >= CERTAIN_RUN or any(telling[i] for i in window)
    fits = bool(window) and (len(window) >= prefix or not is_certain)
    if fits and is_window:
        return window
    anchors = _anchors(history, recorded, telling, prefix)
    if fits and not anchors:
        return window
    found = {i: i for i in range(prefix)}
    anchors = anchors or _long_run(history, recorded, prefix)
    at = place = prefix  # what follows the last common message
    for anchor in anchors:
        i, p = anchor
        if i < at:
            continue
        # Next to a message that is not a coincidence, short ones count as well, as do those before an edit.
        length = _equal(history, recorded, i, p)
        run = [(i + n, p + n) for n in range(length)]
        for _ in range(2):
            while i > at and p > place and history[i - 1] == recorded[p - 1]:
                i, p = i - 1, p - 1
                run.append((i, p))
            i, p = i - 1, p - 1
        found.update(sorted(run))
        at, place = anchor[0] + length, anchor[1] + length
    # The history may continue with the last messages of the record: it left out some to save room.
    window = _window(history[at:], recorded[place:]) if found else {}
    found.update((at + i, place + p) for i, p in window.items())
    return found


def _equal(history: Sequence[object], recorded: Sequence[object], at: int, place: int) -> int:
    """How many messages are equal from these positions on."""
    n = 0
    while at + n < len(history) and place + n < len(recorded) and history[at + n] == recorded[place + n]:
        n += 1
    return n


def _window(history: Sequence[object], recorded: Sequence[object]) -> dict[int, int]:
    """Pair the last messages of the record with those that a history begins with, or begins with behind one
    message that stands for what it leaves out."""
    for skipped in (0, 1):
        length = _overlap(history[skipped:], recorded)
        if length > skipped:
            return {skipped + n: len(recorded) - length + n for n in range(length)}
    return {}


def _overlap(history: Sequence[object], recorded: Sequence[object]) -> int:
    """How many messages at the beginning of the history are the last of the record.

    Something in a window is new: where short messages repeat, it may look as if nothing were.
    """
    # Knuth, Morris and Pratt: `shorter[n]` is the next shorter beginning that the first n messages end with.
    shorter = [0, 0]
    length = 0
    for key in history[1:]:
        while length and history[length] != key:
            length = shorter[length]
        length += history[length] == key
        shorter.append(length)
    length = 0
    for key in recorded[-len(history) :]:
        while length and (length == len(history) or history[length] != key):
            length = shorter[length]
        length += bool(history) and history[length] == key
    if length == len(history) and shorter[length]:
        return shorter[length]
    return length


def _anchors(
    history: Sequence[object], recorded: Sequence[object], telling: Sequence[bool], start: int
) -> list[tuple[int, int]]:
    """Telling messages that are once in both, in the longest order that both have."""
    once = Counter(history[start:])
    places: dict[object, int] = {}
    repeated: set[object] = set()
    for p in range(start, len(recorded)):
        if recorded[p] in places:
            repeated.add(recorded[p])
        places[recorded[p]] = p
    pairs = [
        (i, places[key])
        for i, key in enumerate(history)
        if i >= start and telling[i] and once[key] == 1 and key in places and key not in repeated
    ]
    return _ascending(pairs)


def _ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of the pairs whose places ascend; of several, the one that is later in the record."""
    ends: list[int] = []  # from the end: the place that a sequence of each length begins with, negated
    longest: list[int] = []  # the pair that it begins with
    following: list[int] = []  # of each pair, in reverse: the pair after it
    for n, (_, place) in enumerate(reversed(pairs)):
        length = bisect_left(ends, -place)
        following.append(longest[length - 1] if length else -1)
        ends[length : length + 1] = [-place]
        longest[length : length + 1] = [n]
    chosen: list[tuple[int, int]] = []
    n = longest[-1] if longest else -1
    while n >= 0:
        chosen.append(pairs[len(pairs) - 1 - n])
        n = following[n]
    return chosen


def _long_run(history: Sequence[object], recorded: Sequence[object], start: int) -> list[tuple[int, int]]:
    """The first run that is not a coincidence, though each of its messages is in several places; the latest
    among equals."""
    runs: dict[tuple[object, ...], int] = {}
    for p in range(start, len(recorded) - CERTAIN_RUN + 1):
        runs[tuple(recorded[p : p + CERTAIN_RUN])] = p
    for i in range(start, len(history) - CERTAIN_RUN + 1):
        if (p := runs.get(tuple(history[i : i + CERTAIN_RUN]))) is not None:
            return [(i, p)]
    return []


# ------------------------------------------------------------- what is new, and what was taken back


def decide(
    comparison: Comparison,
    contents: Mapping[int, Message],
    sent: SentRange | None = None,
    rewind: Rewind = "auto",
) -> Alignment:
    """Decide what is new, what is replaced, and what was taken back. `contents` are the recorded messages
    that are `unclear`, by seq; `sent` is what the host sent last, if that is known."""
    return _Decision(comparison, contents, sent, rewind).alignment()


@dataclass(slots=True)
class _Decision:
    comparison: Comparison
    contents: Mapping[int, Message]
    sent: SentRange | None
    rewind: Rewind
    preface: int = 0
    is_doubtful: bool = False
    retired: list[int] = field(default_factory=list[int])  # positions in the record
    # Every message of the history that is recorded, with its position, and those of them that have more.
    same: dict[int, int] = field(default_factory=dict[int, int])
    fuller: dict[int, int] = field(default_factory=dict[int, int])

    def alignment(self) -> Alignment:
        """The record from now on: without the retired messages, the new ones where the history has them."""
        recorded = self.comparison.recorded
        self._pair()
        placed: dict[int, list[Message]] = {}  # new messages, by the position that they follow
        for gap in self.comparison.gaps():
            for after, message in self._fill(gap):
                placed.setdefault(after, []).append(message)
        for p, i in self.fuller.items():
            # It has everything that the recorded one had, and replaces it.
            self.retired.append(p)
            placed.setdefault(p, []).insert(0, self.comparison.history[i])
        end = len(recorded) - 1
        gone = set(self.retired)
        changed = min((*gone, *(after + 1 for after in placed)), default=end + 1)
        changed = self._with_call(changed, placed) if gone else changed
        follow: list[int | Message] = []
        known = {r.id: p for p, r in enumerate(recorded)}
        newest, place = self._newest(), -1  # where the newest message is in `follow`
        for p in range(changed, end + 2):
            for message in placed.get(p - 1, ()):
                place = len(follow) if message is newest else place
                follow.append(self._named(message, known, gone))
            if p <= end and p not in gone:
                place = len(follow) if p == newest else place
                follow.append(recorded[p].seq)
        first, last = (recorded[0].seq, recorded[-1].seq) if recorded else (1, 0)
        seq = last + 1 + place if place >= 0 else recorded[newest].seq if isinstance(newest, int) else None
        return Alignment(
            self.preface,
            recorded[changed - 1].seq if changed else first - 1,
            tuple(follow),
            tuple(recorded[p].seq for p in sorted(gone)),
            seq if seq != last + len(follow) else None,
            self._sent_from(changed),
            self.is_doubtful,
        )

    def _with_call(self, changed: int, placed: Mapping[int, Sequence[Message]]) -> int:
        """Where the record changes, from a call on if results of it come next: a note of the call alone would
        part them."""
        recorded, gone = self.comparison.recorded, set(self.retired)
        for p in range(changed, len(recorded) + 1):
            if new := placed.get(p - 1):
                role = new[0].role
            elif p < len(recorded) and p not in gone:
                role = recorded[p].role
            else:
                continue
            while role == "tool" and changed:
                changed -= 1
                role = recorded[changed].role
            break
        return changed

    def _newest(self) -> Message | int | None:
        """The history's newest message if it is new, else its position in the record."""
        history = self.comparison.history
        p = self.same.get(len(history) - 1)
        return (history[-1] if history else None) if p is None or p in self.fuller else p

    def _named(self, message: Message, known: Mapping[str, int], gone: Container[int]) -> Message:
        """The message without its id, if one with other content stays recorded under that."""
        p = known.get(message.id)
        if p is None or p in gone or self.comparison.recorded[p].digest == message.digest:
            return message
        return replace(message, id="")

    def _fill(self, gap: Gap) -> list[tuple[int, Message]]:
        """The new messages of a gap, each with the position in the record that it follows."""
        history = self.comparison.history
        is_last = gap.new.stop == len(history)
        new, lacking = list(gap.new), list(gap.lacking)
        if not gap.new.start and not is_last:
            return self._fill_beginning(new, lacking) if new else []
        if lacking and self._takes_back(gap, new, lacking, is_last=is_last):
            self.retired += lacking
            return [(gap.lacking.start - 1, history[i]) for i in new]
        if self._is_left_out(gap) and marks(history[new[0]], len(lacking)):
            return []  # nobody said it
        if is_last and not new and self._is_said_again(lacking):
            new = self._take_newest()
        return [(gap.lacking.stop - 1, history[i]) for i in new]

    def _fill_beginning(self, new: Sequence[int], lacking: Sequence[int]) -> list[tuple[int, Message]]:
        """What comes before everything recorded: an edited beginning, a summary, what the host puts before
        each of its calls, or what nobody recorded. No summary calls tools: from a call on, all was said."""
        history, recorded = self.comparison.history, self.comparison.recorded
        first = self.same[len(new)]
        called = next((n for n, i in enumerate(new) if history[i].calls or history[i].answers), len(new))
        head, rest = new[:called], [(first - 1, history[i]) for i in new[called:]]
        if all(recorded[p].role == "user" for p in lacking):
            # What an earlier edit of the beginning replaced is there as well.
            lacking = lacking[-len(new) :]
        is_edit = self._is_edit(new, lacking) or self._is_edited_window(head, lacking)
        # Where other messages have ids, one without is the host's own.
        if is_edit and not (self.comparison.by_id and not any(history[i].id for i in head)):
            # Nothing before it could prove an edit of the beginning, so both stay.
            return [*self._place_beginning(head, first - 1), *rest]
        # A summary may have an id as well, but comes first and says what it is.
        says_so = bool(head) and not rest and _SUMMARY.search(history[head[0]].text[:MAX_MARKER])
        own = [n for n, i in enumerate(head) if not self._has_own_id(history[i]) or (not n and says_so)]
        self.preface = own[-1] + 1 if own else 0
        if self.preface == len(new) and self._answers_before(history[new[-1]], first):
            self.preface -= 1
        return [*[(first - 1, history[i]) for i in head[self.preface :]], *rest]

    def _answers_before(self, message: Message, first: int) -> bool:
        """Whether a message answers the user, whose question is recorded without an answer."""
        roles = [r.role for r in self.comparison.recorded[max(0, first - 1) : first + 1]]
        return message.role == "assistant" and roles == ["user", "user"] and not self.comparison.by_id

    def _has_own_id(self, message: Message) -> bool:
        return self.comparison.by_id and bool(message.id) and not _is_generated(message.id)

    def _is_left_out(self, gap: Gap) -> bool:
        """Whether one message between common ones replaces several that the history lacks."""
        history = self.comparison.history
        if len(gap.new) != 1 or len(gap.lacking) < 2 or not 0 < gap.new.start < len(history) - 1:
            return False
        ident = history[gap.new.start].id
        return not ident or _is_generated(ident)

    def _known_marker(self, gap: Gap) -> int | None:
        """Where the record has the host's line about messages that it left out, with another number."""
        if not self._is_left_out(gap):
            return None
        marker = self.comparison.history[gap.new.start]
        known = ((p, self.contents.get(self.comparison.recorded[p].seq)) for p in gap.ends)
        return next((p for p, message in known if message and marks_alike(marker, message)), None)

    def _is_said_again(self, lacking: Sequence[int]) -> bool:
        """Whether a history that ends before the record does begins anew, and is not the last call again."""
        history, recorded = self.comparison.history, self.comparison.recorded
        newest = self.same.get(len(history) - 1)
        if newest is None or not lacking:
            return newest is not None and self._is_alone()
        known = self.contents.get(recorded[newest].seq, history[-1])
        if not (is_telling(history[-1]) and is_telling(known)):
            return True
        if history[-1].answers or (self._follows_in_both(newest) and self.same.get(0) != 0):
            return False  # the same place in the record: only others spoke since
        answered = all(_is_answer(recorded[p]) for p in lacking)
        return not answered and (self.sent is None or recorded[newest].seq != self.sent.last)

    def _is_alone(self) -> bool:
        """Whether a short message is all that a host sends that sent more last time: it was restarted."""
        history, recorded = self.comparison.history, self.comparison.recorded
        sent_more = self.sent.first < self.sent.last if self.sent else len(recorded) > 1
        return len(history) == 1 and sent_more and not self.comparison.by_id and not is_telling(history[0])

    def _follows_in_both(self, newest: int) -> bool:
        """Whether the newest message follows the same one in the history and in the record."""
        return self.same.get(len(self.comparison.history) - 2) == newest - 1

    def _take_newest(self) -> list[int]:
        """What is said again, as new: the newest alone if it follows the same message in both, else all but a
        beginning that is the record's as well, up to an answer."""
        history = self.comparison.history
        newest = len(history) - 1
        if newest and self._follows_in_both(self.same[newest]):
            self.fuller.pop(self.same.pop(newest), None)
            return [newest]
        start = 0
        while self.same.get(start) == start and start < len(history):
            start += 1
        while start and history[start - 1].role != "assistant":
            start -= 1
        for i in range(start, len(history)):
            self.fuller.pop(self.same.pop(i, -1), None)
        return list(range(start, len(history)))

    def _place_beginning(self, new: Sequence[int], after: int) -> list[tuple[int, Message]]:
        """An edited beginning comes after what it replaces. In a long record it comes at the end, since a
        host may put the time of day there, and everything after it would move with every call."""
        history, recorded = self.comparison.history, self.comparison.recorded
        if len(recorded) <= SHORT_RECORD:
            return [(after, history[i]) for i in new]
        known = {r.digest for r in recorded}
        return [(len(recorded) - 1, history[i]) for i in new if history[i].digest not in known]

    def _is_edit(self, new: Sequence[int], lacking: Sequence[int]) -> bool:
        """Whether each of these messages replaces one recorded message."""
        history, recorded = self.comparison.history, self.comparison.recorded
        return bool(new) and [history[i].role for i in new] == [recorded[p].role for p in lacking]

    def _is_edited_window(self, new: Sequence[int], lacking: Sequence[int]) -> bool:
        """Whether a window begins with other messages than last time, for the same part of the record. A
        summary of the host's own stands for more than one, or came before the window last time too."""
        if self.sent is None or self.sent.preface:
            return False
        return self._is_edit(new, [p for p in lacking if self.comparison.recorded[p].seq >= self.sent.first])

    def _pair(self) -> None:
        """Find the messages that are recorded in another form. Those that lost content stay as recorded."""
        self.same = dict(self.comparison.found)
        history = self.comparison.history
        for gap in map(self._pair_beside_work, self.comparison.gaps()):
            free = list(gap.ends)
            if (p := self._known_marker(gap)) is not None:
                self.same[gap.new[0]] = p
                continue
            nothing_in_common = len(gap.new) == len(history)
            if gap.new and nothing_in_common:
                # A history is then more likely to continue than to repeat old messages.
                alike = [p for p in free if self._relation(0, p) != "other"][-1:]
                if alike and is_telling(history[0]):
                    free = [p for p in free if p >= alike[0]]
                else:
                    free = alike + [p for p in free if p == len(self.comparison.recorded) - 1]
            for i in gap.new:
                if nothing_in_common and i and not is_telling(history[i]):
                    continue
                for n, p in enumerate(free):
                    if (relation := self._relation(i, p)) != "other":
                        self.same[i] = p
                        if relation == "fuller":
                            self.fuller[p] = i
                        del free[: n + 1]
                        break
        self.same = dict(sorted(self.same.items()))
        self.comparison = replace(self.comparison, found=self.same)

    def _pair_beside_work(self, gap: Gap) -> Gap:
        """The rest of a gap, once short messages behind calls that the host left out are paired."""
        i, p = gap.new.start, gap.lacking.start
        while i and i in gap.new and (at := self._after_work(p)) in gap.lacking:
            message, known = self.comparison.history[i], self.comparison.recorded[at]
            if message.digest != known.digest or has_other_id(message, known):
                break
            self.same[i] = at
            i, p = i + 1, at + 1
        return Gap(range(i, gap.new.stop), range(p, gap.lacking.stop))

    def _relation(self, i: int, p: int) -> Relation:
        message, known = self.comparison.history[i], self.comparison.recorded[p]
        if self.comparison.by_id and has_other_id(message, known):
            return "other"
        if message.digest == known.digest:
            # A short message counts next to a common one. Elsewhere it was probably said again.
            beside = self.same.get(i - 1) == p - 1 or self.same.get(i + 1) == p + 1
            return "lost" if i and beside else "other"
        content = self.contents.get(known.seq)
        relation = relate(message, content) if content else "other"
        # Ids that begin anew with each conversation have nothing else in common.
        by_id = self.rewind == "auto" and self.comparison.found and message.id == known.id
        return "fuller" if by_id and relation == "other" else relation

    # -- taking back

    def _takes_back(self, gap: Gap, new: Sequence[int], lacking: Sequence[int], *, is_last: bool) -> bool:
        if self.rewind == "never":
            return False
        # In the middle, a host may have left out anything to save room, and may say so.
        says_so = any(_LEFT_OUT.fullmatch(self.comparison.history[i].text.strip()) for i in new)
        is_edit = is_last or (self._is_edit(new, lacking) and not says_so)
        is_proven = is_edit and self.is_proven(gap, lacking)
        # A host may as well keep its beginning, and what is new since its last call.
        self.is_doubtful |= is_proven and is_last and len(gap.new) > 2
        return is_proven

    def is_proven(self, gap: Gap, lacking: Sequence[int]) -> bool:
        """Whether the host dropped these messages on purpose.

        It has ids of its own, or there is a common beginning with an answer in it, and what is dropped was
        sent last or is the answer to that. An answer alone may go: nothing that the user said goes with it.
        Calls stay where their answer comes: many hosts have them in their history only until then.
        """
        recorded = [self.comparison.recorded[p] for p in lacking]
        run = [i for i in range(gap.new.start) if i in self.same]
        if not run or self._is_answered(gap, lacking):
            return False
        # Where other messages have ids, one without is not the user's: it says that something was left out.
        if self.comparison.by_id and all(self.comparison.history[i].id for i in (*run, *gap.new)):
            return True
        if self._is_regenerated(gap, lacking):
            return True
        if self.sent is None or not self._has_answer(run) or self._may_be_restart(run, lacking):
            return False
        first, last = self.sent.first, self.sent.last
        return all(first <= r.seq <= last or (r.seq > last and _is_answer(r)) for r in recorded)

    def _is_answered(self, gap: Gap, lacking: Sequence[int]) -> bool:
        """Whether an answer comes where the record ends with calls and results."""
        ends = [self.comparison.recorded[p].role for p in (*lacking[:1], *lacking[-1:])]
        new = [self.comparison.history[i] for i in gap.new[:1]]
        return ends == ["assistant", "tool"] and any(m.role == "assistant" and not m.calls for m in new)

    def _after_work(self, p: int) -> int:
        """The position behind calls with their results, if those stand here."""
        recorded, end = self.comparison.recorded, len(self.comparison.recorded)
        while p + 1 < end and (recorded[p].role, recorded[p + 1].role) == ("assistant", "tool"):
            p = next((n for n in range(p + 2, end) if recorded[n].role != "tool"), end)
        return p

    def _is_regenerated(self, gap: Gap, lacking: Sequence[int]) -> bool:
        """Whether the last answer was replaced by another one."""
        history, recorded = self.comparison.history, self.comparison.recorded
        if lacking != [len(recorded) - 1] or not gap.new:
            return False
        return recorded[lacking[0]].role == history[gap.new.start].role == "assistant"

    def _has_answer(self, run: Sequence[int]) -> bool:
        """Whether the last of these messages, which follow each other in both, have an answer among them, and
        are not a coincidence."""
        history = self.comparison.history
        length = 1
        while length < len(run) and self.same[run[-length]] - self.same[run[-length - 1]] == 1:
            length += 1
        common = run[len(run) - length :]
        from_start = self.comparison.whole and self.same[common[0]] == 0
        if not from_start and not any(is_telling(history[i]) for i in common):
            return False
        roles = [history[i].role for i in common]
        return any(a != "assistant" and b == "assistant" for a, b in pairwise(roles))

    def _may_be_restart(self, run: Sequence[int], lacking: Sequence[int]) -> bool:
        """Whether the history may be a new one that begins like the first, with a greeting or examples."""
        if not self.sent or not self.comparison.whole or self.same[run[0]] != 0:
            return False
        return len(run) == self.sent.opening - 1 or (len(run) < 4 and len(lacking) > SHORT_BRANCH)

    def _sent_from(self, changed: int) -> int:
        """The seq from which on the record, as it will be, has nothing that the history lacks."""
        recorded, gone = self.comparison.recorded, set(self.retired)
        there = set(self.same.values())
        p = len(recorded) - 1
        while p >= 0 and (p in there or p in gone):
            p -= 1
        if p >= changed:
            return recorded[-1].seq + 1
        return recorded[p].seq + 1 if p >= 0 else recorded[0].seq if recorded else 1


def _is_answer(recorded: MessageDigest) -> bool:
    return recorded.role in ("assistant", "tool")


# ------------------------------------------------------------------------------------ one message, two forms

Relation = Literal["lost", "fuller", "other"]

# What a host writes instead of a message's content. A person may write the same without brackets.
_BLANK = regex(
    r"\W*(?:\S{1,20} ){0,6}(?:cleared|removed|omitted|truncated|redacted|elided|hidden)\b[^\n]{0,40}",
    re.IGNORECASE,
)
# What a host writes instead of messages that it left out: "Skipped 12 messages."
_LEFT_OUT = regex(r"(?=\D{0,60}\d)(?=.{0,80}\bmessages?\b)[^\n]{1,100}", re.IGNORECASE)
# And how summaries begin that hosts write of what they leave out.
_SUMMARY = regex(
    r"summar|so far\b|to date\b|previous|earlier|continued|compacted|résumé|resumen|riassunto|zusammenfassung"
    r"|摘要|总结|總結|概要|要約|まとめ|요약",
    re.IGNORECASE,
)
_BRACKETS = ("[", "(", "<", "{")
_MARKS = (*_BRACKETS, "…", "...", "—", "--", "【", "（")
_NUMBER = regex(r"\d{1,9}(?:[.,]\d{3}){0,3}")
MAX_MARKER = 100  # characters
_CUT = regex(r"(?:…|\.\.\.|\[[^\]\n]{1,60}\]|<[^>\n]{1,60}>)\s*$")
# What a message may lose and still be the same: it keeps this share, or so many characters.
MIN_SHARE, MIN_LENGTH = 0.3, 24


def relate(message: Message, known: Message) -> Relation:
    """How a message relates to a recorded one: the same, but it lost content or only spaces; the same with
    more content; or another message."""
    one, other = ((m.role, m.answers, *(c.id for c in m.calls)) for m in (message, known))
    if one != other:
        return "other"
    ours, theirs = (" ".join(m.text.split()) for m in (message, known))
    if message.calls:  # their ids say which one it is
        return "fuller" if ours != theirs and _lost(theirs, ours) else "lost"
    fewer = set(message.attachments) <= set(known.attachments)
    more = set(known.attachments) <= set(message.attachments)
    if _decorates(known.text.strip(), message.text.strip()) and fewer:
        return "lost"
    if _decorates(message.text.strip(), known.text.strip()) and more:
        return "fuller"
    if message.answers and ours and _is_blank(theirs) and not _is_blank(ours):
        return "fuller"
    is_blanked = _BLANK.fullmatch(ours) or not any(map(str.isalnum, ours))
    if message.answers and fewer and (len(ours) < len(theirs) or is_blanked):
        return "lost"  # a result that was blanked or shortened: its call says which one it is
    if fewer and _lost(ours, theirs):
        return "lost"
    if more and _contains(ours, theirs):
        return "fuller"
    return "other"


def marks(message: Message, left_out: int) -> bool:
    """Whether a message between others may say no more than that so many were left out in its place."""
    numbers = [int(re.sub(r"\D", "", number)) for number in _NUMBER.findall(message.text[:MAX_MARKER])]
    return _is_marker(message) and numbers == [left_out]


def marks_alike(message: Message, known: Message) -> bool:
    """Whether two messages may both say so, with different numbers."""
    if message.role != known.role or not (_is_marker(message) and _is_marker(known)):
        return False
    return _NUMBER.sub("0", message.text.strip()) == _NUMBER.sub("0", known.text.strip())


def _is_marker(message: Message) -> bool:
    text = message.text.strip()
    if len(text) > MAX_MARKER or message.calls or message.answers or not _NUMBER.search(text):
        return False
    return text.startswith(_MARKS) or bool(_LEFT_OUT.fullmatch(text))


def _is_blank(text: str) -> bool:
    return not text or (text.startswith(_BRACKETS) and bool(_BLANK.fullmatch(text)))


def _lost(ours: str, theirs: str) -> bool:
    if ours == theirs or _contains(theirs, ours):
        return True
    if _is_blank(ours):
        return True
    if len(ours) >= len(theirs):
        return False
    cut = _CUT.search(ours)
    return bool(cut) and theirs.startswith(ours[: cut.start()].rstrip()) and cut.start() >= MIN_LENGTH


def _contains(longer: str, shorter: str) -> bool:
    """Whether a text has all of a shorter one in it, as whole words, and not by coincidence."""
    if not shorter or len(shorter) < min(MIN_LENGTH, len(longer) * MIN_SHARE):
        return False
    start = longer.find(shorter)
    end = start + len(shorter)
    return start >= 0 and not longer[start - 1 : start].isalnum() and not longer[end : end + 1].isalnum()


def _decorates(longer: str, shorter: str) -> bool:
    """Whether a text is a shorter one with lines before or after it."""
    return bool(shorter) and (longer.startswith(f"{shorter}\n") or longer.endswith(f"\n{shorter}"))
