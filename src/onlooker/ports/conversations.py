"""A store's part for what was said in a session, and the notes on it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from onlooker.domain.extractions import Extraction
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import (
    Appended,
    Commit,
    Digest,
    Note,
    NoteKind,
    NoteStatus,
    Progress,
    Realignment,
    State,
)


class Messages(Protocol):
    """What was said, in order."""

    async def append(
        self, session: SessionId, messages: Sequence[Message], *, due_tokens: int, now: datetime
    ) -> Appended:
        """Record messages at the end of the session, creating it at need; durable on return.

        Messages come with id, at and tokens filled in, and get their seq here: 1, 2, 3, … never
        used again. One whose id the session knows already (live, archived or retired) is passed
        over, also within the call. The history hash is extended, and `unnoted_tokens` grows. Where
        `unnoted_tokens` then reaches `due_tokens` or the session's own `wake_at`, and the session
        is not due already, `due_at` becomes `now`.
        """
        ...

    async def realign(
        self, session: SessionId, change: Realignment, *, due_tokens: int, now: datetime
    ) -> Appended:
        """Make the session the conversation that the host now has; see `Realignment`.

        Retired messages go to the archive and leave the history hash. Those named in `follow` keep id, text
        and time and get new seqs after `last_seq`, in order with the new ones; one that was cleared
        comes back raw. A new message that equals a retired one in content (and in id, where its own was
        not given by us) revives it instead; the same id with another text is an edit. Notes are rolled
        back to `keep` as `policy.rollback.roll_back` decides, with the last cleared message as the
        floor. Messages that compaction set aside and that no live note covers any more (after the new
        frontier, up to `keep`) come back from the archive, except those that a summary which still
        stands (up to `keep`) stands for. Summaries after `keep` are deleted, and so are those whose
        notes were rolled back, where the originals are kept. `tail_start` is then at most the new
        watermark + 1. `revision` grows; so does `prompt_version` where an active note was retired or revived.

        Raises:
            ConflictError: `last_seq` or `revision` moved since it was read.
        """
        ...

    async def digests(self, session: SessionId, *, newest: int | None = None) -> Sequence[Digest]:
        """Every message of the conversation as it stands, oldest first: live ones and ones that
        compaction or `clear` set aside, without the summaries that compaction put in. `newest`
        gives only that many, the last ones."""
        ...

    async def messages(
        self,
        session: SessionId,
        *,
        after: int = 0,
        up_to: int | None = None,
        limit: int | None = None,
        archived: bool = False,
    ) -> Sequence[Message]:
        """Live messages by seq, `after` exclusive and `up_to` inclusive; with `archived`, those set
        aside by compaction or `clear` as well (retired ones never)."""
        ...

    async def sources(self, session: SessionId, note_id: str) -> Sequence[Message]:
        """The messages that a note stands for, in order, through any number of generations,
        archived and retired ones included."""
        ...

    async def compact(
        self,
        session: SessionId,
        *,
        up_to: int,
        summary: Message,
        archive: bool,
        now: datetime,
        revision: int | None = None,
    ) -> Progress:
        """Take every live message up to seq `up_to`, inclusive, out of the session and put the
        summary before the rest, in one transaction. With `archive` the originals are kept, else
        deleted. With nothing to take out the summary is still put in.

        The summary gets the seq of the last message taken out, or one below the first live one. It
        counts as un-noted where that is after the frontier; `revision` then grows, since a note in the
        making may stand for what was taken out.

        Raises:
            ConflictError: `revision` was given, and the session's is another: what was noted is not.
        """
        ...


class Notes(Protocol):
    """What was noted of it, and what goes with notes."""

    async def load(self, session: SessionId) -> State | None:
        """Everything a plan or a context is made from; None when there is no such session."""
        ...

    async def commit(self, session: SessionId, change: Commit) -> Progress:
        """Apply one change to the notes, and keep what was extracted with them.

        The session's `unnoted_tokens` is what lies after the new frontier; `prompt_version` grows where the
        change shows in the prompt. The guard's fence, where given, must be the session's current.

        Raises:
            ConflictError: Frontier, revision or fence moved, or a note named in `activate` is no
                longer buffered, or one in `supersede` no longer active.
        """
        ...

    async def notes(
        self,
        session: SessionId,
        *,
        statuses: Sequence[NoteStatus] = ("active",),
        kind: NoteKind | None = None,
        recent: int | None = None,
    ) -> Sequence[Note]:
        """Notes oldest first (by first message, then generation); `recent` gives the newest n,
        oldest first."""
        ...

    async def delete_notes(self, session: SessionId, kind: NoteKind | None = None) -> int:
        """Delete the session's notes of one kind, or all, with every superseded one of that kind;
        return how many live ones there were. The messages that those stood for are set aside in
        the archive, and what was extracted from them goes. Harmless where there are none; no other
        session is touched."""
        ...

    async def extractions(self, session: SessionId, *, type: str | None = None) -> Sequence[Extraction]:
        """What was filled in along with notes, but for notes that are retired or gone; oldest first (by
        the note's first message, then as they were given)."""
        ...

    async def delete_session(self, session: SessionId) -> bool:
        """Delete the session with everything in it, and the items that were made in it; False when there
        was none. What its calls cost stays counted for its owner and the day, without saying for which
        session."""
        ...

    async def pin(self, session: SessionId, target: str, *, on: bool) -> None:
        """Pin or unpin a note or message by id; `prompt_version` grows where that changed anything.

        Raises:
            KeyError: The session has no live note, nor a message, with that id.
        """
        ...

    async def set_budget(self, session: SessionId, budget: int) -> None:
        """Remember the budget that the host asks for, for the planner."""
        ...
