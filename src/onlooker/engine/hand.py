"""A person's hand on one session: editing, undoing, looking back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from onlooker.domain.context import RuntimeContext
from onlooker.domain.errors import BudgetError, SettingsError
from onlooker.domain.events import Edited, Undone
from onlooker.domain.history import Change, NoteHistory, Version
from onlooker.domain.history_rows import ChangeRow, Row, RowKind, Scope, VersionRow
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Note, NoteStatus, Progress, State
from onlooker.policy.assemble import Counting, PromptRequest, assemble
from onlooker.policy.history import Diff, Then, as_of, diff
from onlooker.policy.plan import Reflect, plan
from onlooker.policy.render import Context
from onlooker.policy.settings import Settings

if TYPE_CHECKING:
    from onlooker.engine.core import Core

EVERY: tuple[NoteStatus, ...] = ("buffered", "active", "superseded", "retired")


@dataclass(frozen=True, slots=True)
class Moment:
    """The memory of a session as it was: its notes, what stood raw, and the context it made.

    `missing` counts notes that stood then and have been deleted or purged since.
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
        """What stood raw, oldest first."""
        return tuple(m for m in self.state.messages if m.seq >= self.state.progress.tail_start)

    def context(self, *, system: str = "", budget: int | None = None) -> Context:
        """What an agent would have received, with the settings of today."""
        runtime = RuntimeContext.of(self.state.progress.session.key)
        frame = PromptRequest(system, budget=self.settings.budget if budget is None else budget)
        return assemble(self.state, frame, self.settings, self.counting, runtime)


@dataclass(frozen=True, slots=True)
class Hand:
    """What a person does to one session, or wants to know of it."""

    core: Core
    session: SessionId

    # -- changing

    async def edit(self, note: str, text: str, by: str, was: str | None) -> Note:
        text = text.strip("\n")
        if not text.strip():
            raise SettingsError("text", text, "must not be empty; `forget` deletes a note")
        tokens = self.core.estimator.text(text)
        now = self.core.clock.now()
        after = await self.core.store.edit(self.session, note, text, tokens=tokens, by=by, now=now, was=was)
        self.core.emit(Edited(self.session, after, by))
        return after

    async def undo(self, note: str | None) -> Sequence[Note]:
        state = await self.core.store.load(self.session)
        chosen = _reflection(state, note)
        if state is None or chosen is None:
            raise KeyError(note or "no reflection")
        known = {n.id: n for n in await self.core.store.notes(self.session, statuses=("superseded",))}
        sources = [known[s] for s in chosen.sources if s in known]
        self._check_room(state, chosen, sources)
        prompt_version = state.progress.prompt_version
        await self.core.store.undo(
            self.session, chosen.id, prompt_version=prompt_version, now=self.core.clock.now()
        )
        back = await self.core.store.notes(self.session)
        self.core.emit(Undone(self.session, chosen))
        return [n for n in back if n.id in chosen.sources]

    def _check_room(self, state: State, chosen: Note, sources: Sequence[Note]) -> None:
        """Refuse what the next notes would undo again: more than there is room for is condensed."""
        kept = [n for n in state.notes if n.id != chosen.id]
        notes = sorted(
            [*kept, *(replace(n, status="active") for n in sources)], key=lambda n: (n.first, n.generation)
        )
        after = State(state.progress, tuple(notes), state.messages, state.pins, state.pinned, state.items)
        bounds = self.core.worker.bounds(state)
        # Also where this memory only looks: another one takes the notes.
        bounds = replace(bounds, settings=replace(bounds.settings, enabled=True))
        if isinstance(plan(after, bounds), Reflect) and not isinstance(plan(state, bounds), Reflect):
            needed = sum(n.tokens for n in after.active)
            raise BudgetError(bounds.reflect_at, needed, "the notes that this reflection stands for")

    # -- looking

    async def history(self, note: str) -> NoteHistory:
        notes = {n.id: n for n in await self.core.store.notes(self.session, statuses=EVERY)}
        if note not in notes:
            raise KeyError(note)
        found = notes[note]
        versions: list[Version] = []
        changes: list[Change] = []
        async for row in self._rows("version", "change"):
            if isinstance(row, VersionRow) and row.version.note == note:
                versions.append(row.version)
            elif isinstance(row, ChangeRow):
                changes.append(row.change)
        first = Version(note, 1, 0, found.text, found.tokens, found.model, found.made_at)
        statuses: list[tuple[datetime, NoteStatus]]
        statuses = [(c.at, status) for c in changes for ident, status in c.statuses if ident == note]
        statuses = [s for n, s in enumerate(statuses) if not n or statuses[n - 1][1] != s[1]]
        made_into = tuple(n.id for n in notes.values() if n.generation and note in n.sources)
        return NoteHistory(found, tuple(versions) or (first,), tuple(statuses), made_into)

    async def as_of(self, point: int | datetime) -> Moment:
        if isinstance(point, datetime) and point.tzinfo is None:
            point = point.replace(tzinfo=self.core.tz)
        rows = [row async for row in self._rows("session", "message", "note", "version", "change")]
        then = as_of(rows, point) or Then(State(Progress(self.session)))
        return Moment(then.state, then.missing, self.core.settings, self.core.counting)

    async def diff(self, note: str, other: str | None) -> Diff:
        notes = {n.id: n for n in await self.core.store.notes(self.session, statuses=EVERY)}
        for ident in (note, other):
            if ident is not None and ident not in notes:
                raise KeyError(ident)
        if other is not None:
            return diff(notes[note].text, notes[other].text)
        found = notes[note]
        if found.generation:
            sources = [notes[s].text for s in found.sources if s in notes]
            return diff("\n".join(sources), found.text)
        versions = (await self.history(note)).versions
        return diff(versions[-2].text if len(versions) > 1 else found.text, found.text)

    def _rows(self, *kinds: RowKind) -> AsyncIterator[Row]:
        return self.core.store.dump(Scope(session=self.session, kinds=frozenset(kinds)))


def _reflection(state: State | None, ident: str | None) -> Note | None:
    """The one that is named, or the one made last."""
    reflections = state.reflections if state else ()
    if ident is None:
        return max(reflections, key=lambda n: n.made_at, default=None)
    return next((n for n in reflections if n.id == ident), None)
