"""A session's history: correct its notes, and look back at them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo

from onlooker.domain.context import RuntimeContext
from onlooker.domain.errors import BudgetError, NotFoundError, SettingsError
from onlooker.domain.events import Cleared, Edited, Event, Realigned, Undone
from onlooker.domain.frozen import frozen
from onlooker.domain.history import (
    MessagePlace,
    MessageRow,
    NoteHistory,
    Row,
    RowKind,
    Scope,
    Version,
)
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import (
    NOTE_STATUSES,
    Extraction,
    Note,
    NoteKind,
    Progress,
    Realignment,
    State,
)
from onlooker.engine.note_taker import Compaction
from onlooker.policy.assemble import Counting, PromptRequest, assemble
from onlooker.policy.history import Diff, PastState, as_of, diff
from onlooker.policy.plan import Reflect, due_tokens, plan
from onlooker.policy.render import Context
from onlooker.policy.settings import Limits, Settings
from onlooker.ports import Clock, Store


@frozen
class Moment:
    """A session's memory at one point in time: its notes, its raw messages, and its context.

    `missing` counts notes of that time that have been deleted since.
    """

    state: State
    missing: int
    settings: Settings
    counting: Counting

    @property
    def notes(self) -> tuple[Note, ...]:
        return self.state.active

    @property
    def messages(self) -> tuple[Message, ...]:
        """The raw messages, oldest first."""
        return tuple(m for m in self.state.messages if m.seq >= self.state.progress.tail_start)

    def context(self, *, system: str = "", budget: int | None = None) -> Context:
        """The context an agent would have received, with today's settings."""
        runtime = RuntimeContext.of(self.state.progress.session.key)
        request = PromptRequest(system, budget=self.settings.budget if budget is None else budget)
        return assemble(self.state, request, self.settings, self.counting, runtime)


class History:
    """A session's notes over time, and how a person corrects them; `session.history`."""

    def __init__(
        self,
        session: SessionId,
        store: Store,
        settings: Settings,
        counting: Counting,
        clock: Clock,
        tz: tzinfo,
        emit: Callable[[Event], None],
        *,
        ready: Callable[[], Awaitable[None]],
        limits_of: Callable[[State], Limits],
        compaction: Compaction,
    ) -> None:
        self._session = session
        self._store = store
        self._settings = settings
        self._counting = counting
        self._clock = clock
        self._tz = tz
        self._emit = emit
        self._ready = ready
        self._limits_of = limits_of
        self._compaction = compaction

    # -- correcting

    async def edit(self, note: str, text: str, *, by: str = "", was: str | None = None) -> Note:
        """Replace a note's text, in the prompt and for later reflections.

        The old text is kept as a version, with who wrote it and when; see `of`. `was`, the text that the
        edit started from, guards against concurrent edits.

        Raises:
            NotFoundError: There is no live note with that id.
            ConflictError: The note's text is not `was`.
        """
        await self._ready()
        text = text.strip("\n")
        if not text.strip():
            raise SettingsError("text", text, "must not be empty; `forget` deletes a note")
        tokens = self._counting.estimator.text(text)
        now = self._clock.now()
        after = await self._store.edit(self._session, note, text, tokens=tokens, by=by, now=now, was=was)
        self._emit(Edited(self._session, after, by))
        return after

    async def undo(self, note: str | None = None, *, dry_run: bool = False) -> Sequence[Note]:
        """Undo a reflection, by default the last one: show the notes it was made from again. Returns them.
        `dry_run` changes nothing, and is refused where the undo would be.

        Raises:
            NotFoundError: There is no such reflection, or it has been condensed itself.
            BudgetError: There is no room for the notes; they would be condensed again at once.
            ConflictError: Some of the notes no longer exist, or another process is changing them.
        """
        await self._ready()
        state = await self._store.load(self._session)
        chosen = _reflection(state, note)
        if state is None or chosen is None:
            raise NotFoundError("active reflection", note or "")
        known = await self._store.notes(self._session, statuses=("superseded",), ids=chosen.sources)
        by_id = {n.id: n for n in known}
        sources = [by_id[s] for s in chosen.sources if s in by_id]
        self._check_room(state, chosen, sources)
        if dry_run:
            return sources
        prompt_version = state.progress.prompt_version
        await self._store.undo(self._session, chosen.id, prompt_version=prompt_version, now=self._clock.now())
        back = await self._store.notes(self._session)
        self._emit(Undone(self._session, chosen))
        return [n for n in back if n.id in chosen.sources]

    async def clear(self, kind: NoteKind | None = None) -> int:
        """Delete the notes, or those of one kind. Their messages are archived; recent messages stay.
        Returns how many notes were deleted."""
        await self._ready()
        count = await self._store.delete_notes(self._session, kind)
        self._emit(Cleared(self._session, kind, count))
        return count

    async def compact(self, up_to: int, summary: str) -> None:
        """Replace every message up to and including seq `up_to` by a summary, in one transaction.

        The originals are kept for recall unless the setting `archive` is off. If there is
        nothing to replace, the summary is still inserted.
        """
        await self._ready()
        await self._compaction.compact(self._session, up_to, summary)

    def _check_room(self, state: State, chosen: Note, sources: Sequence[Note]) -> None:
        """Refuse an undo that the next plan would reverse because the notes exceed their limit."""
        kept = [n for n in state.notes if n.id != chosen.id]
        notes = sorted(
            [*kept, *(replace(n, status="active") for n in sources)], key=lambda n: (n.first, n.generation)
        )
        after = State(state.progress, tuple(notes), state.messages, state.pins, state.pinned, state.items)
        limits = self._limits_of(state)
        # Even if this process takes no notes, another one does.
        limits = replace(limits, settings=replace(limits.settings, enabled=True))
        if isinstance(plan(after, limits), Reflect) and not isinstance(plan(state, limits), Reflect):
            needed = sum(n.tokens for n in after.active)
            what = "the notes of this reflection"
            advice = "ask for a context with a larger budget first, or raise the setting reflect_at"
            raise BudgetError(limits.reflect_at, needed, what, advice)

    async def taken_back(self) -> Sequence[Message]:
        """The messages that the host took back, oldest first. No prompt shows them; see `restore`."""
        await self._ready()
        return [message for place, message in await self._messages() if place == "retired"]

    async def restore(self, message: str) -> Sequence[Message]:
        """Restore a message that the host took back, by id, with those that were taken back around it. They
        return to their places, and no other message is taken back. Returns them.

        Raises:
            NotFoundError: No message with that id was taken back.
            ConflictError: Another process is changing the session.
        """
        await self._ready()
        state = await self._store.load(self._session)
        messages = await self._messages()
        retired = [m for place, m in messages if place == "retired"]
        found = next((m for m in retired if m.id == message), None)
        if state is None or found is None:
            raise NotFoundError("message taken back with the id", message)
        present = [m.seq for place, m in messages if place != "retired"]
        keep = max((seq for seq in present if seq < found.seq), default=0)
        after = [seq for seq in present if seq > keep]
        back = [m for m in retired if keep < m.seq < min(after, default=found.seq + len(retired) + 1)]
        progress = state.progress
        change = Realignment(keep, (*back, *after), progress.last_seq, progress.revision)
        due = due_tokens(self._settings, progress.budget)
        done = await self._store.realign(self._session, change, due_tokens=due, now=self._clock.now())
        self._emit(Realigned(self._session, keep, len(done.messages)))
        return done.messages

    async def _messages(self) -> list[tuple[MessagePlace, Message]]:
        """Every message of the conversation, now or before, in order, with its place."""
        rows = [row async for row in self._rows("message")]
        found: list[tuple[MessagePlace, Message]]
        found = [(r.place, r.message) for r in rows if isinstance(r, MessageRow) and not r.summary]
        return sorted(found, key=lambda pair: pair[1].seq)

    # -- looking back

    async def state(self) -> State | None:
        """The state of the session; None if nothing was recorded."""
        await self._ready()
        return await self._store.load(self._session)

    async def extractions(self, type: str | None = None) -> Sequence[Extraction]:
        """The values extracted for `extractors`, of one type by name or of all, each with its source."""
        await self._ready()
        return await self._store.extractions(self._session, type=type)

    async def of(self, note: str) -> NoteHistory:
        """The history of a note: its texts with who wrote them and when, its status over time, and the notes
        that were made from it.

        Raises:
            NotFoundError: There is no note with that id.
        """
        await self._ready()
        history = await self._store.note_history(self._session, note)
        if history is None:
            raise NotFoundError("note", note)
        found = history.note
        first = Version(note, 1, 0, found.text, found.tokens, found.model, found.made_at)
        return replace(history, versions=history.versions or (first,))

    async def as_of(self, point: int | datetime) -> Moment:
        """The memory when the message with that seq was the newest, or at that time."""
        await self._ready()
        if isinstance(point, datetime) and point.tzinfo is None:
            point = point.replace(tzinfo=self._tz)
        rows = [row async for row in self._rows("session", "message", "note", "version", "change")]
        then = as_of(rows, point) or PastState(State(Progress(self._session)))
        return Moment(then.state, then.missing, self._settings, self._counting)

    async def diff(self, note: str, other: str | None = None) -> Diff:
        """What a note kept, dropped and added, compared with its sources (a reflection) or its previous text
        (an edited note). With `other`, that note is compared with this one.

        Raises:
            NotFoundError: There is no note with that id.
        """
        notes = await self._notes(note, other)
        if other is not None:
            return diff(notes[note].text, notes[other].text)
        found = notes[note]
        if found.generation:
            known = await self._notes(*found.sources, required=False)
            sources = [known[s].text for s in found.sources if s in known]
            return diff("\n".join(sources), found.text)
        versions = (await self.of(note)).versions
        return diff(versions[-2].text if len(versions) > 1 else found.text, found.text)

    async def neighbours(self, note: str) -> Sequence[Note]:
        """The owner's notes that are connected to a note, closest first: both mention the same name or id,
        one condenses the other, or one follows the other.

        Raises:
            NotFoundError: There is no note with that id.
        """
        from onlooker.engine.recall import neighbours

        await self._ready()
        return await neighbours(self._store, self._session, note)

    async def _notes(self, *wanted: str | None, required: bool = True) -> dict[str, Note]:
        """These notes by id. Raises NotFoundError if one is missing and they are `required`."""
        await self._ready()
        ids = [ident for ident in wanted if ident is not None]
        found = await self._store.notes(self._session, statuses=NOTE_STATUSES, ids=ids)
        notes = {n.id: n for n in found}
        for ident in ids if required else ():
            if ident not in notes:
                raise NotFoundError("note", ident)
        return notes

    def _rows(self, *kinds: RowKind) -> AsyncIterator[Row]:
        return self._store.dump(Scope(session=self._session, kinds=frozenset(kinds)))


def _reflection(state: State | None, ident: str | None) -> Note | None:
    """The named reflection, or the one made last."""
    reflections = state.reflections if state else ()
    if ident is None:
        return max(reflections, key=lambda n: n.made_at, default=None)
    return next((n for n in reflections if n.id == ident), None)
