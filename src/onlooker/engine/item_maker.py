"""Make items from a session: when its notes are taken or condensed, when its owner begins another session,
and when it ends.

A session ends on request, after some time without a message, when the process stops, or in a later sweep.
`Progress.ended` marks the last message that items were made from. Without a language model it moves with
every note and every end, so that each message is read once. A language model chooses better but costs money:
it is asked when notes are condensed and at the end. Until then, other sessions get the built-in choice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta, tzinfo
from typing import TYPE_CHECKING

from onlooker.domain.errors import ConflictError, ModelError, OnlookerError
from onlooker.domain.events import Event, ItemsMade
from onlooker.domain.items import EndMark, Item, ItemChange
from onlooker.domain.messages import Message, SessionId, new_id, tokens_of
from onlooker.domain.notes import Note, NoteFormat, Progress, State
from onlooker.engine.background import Leases
from onlooker.engine.items import MAX_ITEMS
from onlooker.engine.writer import Writer
from onlooker.policy.settings import Settings
from onlooker.ports import Clock, ItemsRequest, Store

if TYPE_CHECKING:
    from onlooker.policy.items.extract import Candidate

log = logging.getLogger("onlooker")

# Sessions of this process that are ended when it stops; more are left to the sweep.
MAX_USED_SESSIONS = 1_000
# How many idle sessions one sweep ends.
MAX_AT_ONCE = 100
# How long a model's whole answer should be.
ANSWER_TOKENS = 800
# How many known items a model is given, so that it does not repeat them.
MAX_KNOWN_ITEMS = 60
# How many messages are read at a time.
MAX_READ = 200
# A new session reads the latest messages of this many other sessions of its owner, this many of each, if they
# are not older than this, for at most this many seconds. A turn waits for it: a message takes 0.2 ms.
MAX_OTHERS, MAX_OTHER_MESSAGES = 3, 50
OTHERS_WITHIN = timedelta(days=1)
OTHERS_SECONDS = 1.0
# How often a change is tried while another worker changes the items.
MAX_TRIES = 3


class ItemMaker:
    """Makes items from sessions, and ends them."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        tz: tzinfo,
        emit: Callable[[Event], None],
        *,
        leases: Leases,
        reflector: Writer,
        asks_model: bool,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._tz = tz
        self._emit = emit
        self._leases = leases
        self._reflector = reflector
        self._asks_model = asks_model  # else the built-in choice is made
        self._used: dict[SessionId, None] = {}
        self._languages: set[str] = set()  # owners whose language was checked

    # -- when

    def mark_used(self, session: SessionId) -> None:
        """Remember that this process recorded something in the session."""
        if self.is_automatic:
            self._used.pop(session, None)
            self._used[session] = None
            if len(self._used) > MAX_USED_SESSIONS:
                del self._used[next(iter(self._used))]

    def drop_cached(self, session: SessionId) -> None:
        self._used.pop(session, None)

    @property
    def is_automatic(self) -> bool:
        """Whether sessions end automatically after some time without a message."""
        settings = self._settings
        return settings.enabled and bool(settings.cross_session_limit) and settings.idle_minutes > 0

    async def stop(self, deadline: float) -> None:
        """End the sessions that this process used, within the deadline; the rest is left to a later sweep."""
        try:
            async with asyncio.timeout(max(0.0, deadline)):
                for session in tuple(self._used):
                    await self._end_quietly(session)
        except TimeoutError:
            log.info("%d sessions end later: the process stops now", len(self._used))
        self._used.clear()

    async def end_idle(self, idle: timedelta | None = None) -> int:
        """End sessions without a message for that long, by default `idle_minutes`; return how many."""
        if idle is None:
            idle = timedelta(minutes=self._settings.idle_minutes)
        found = await self._store.idle(self._clock.now() - idle, limit=MAX_AT_ONCE)
        for session in found:
            await self._end_quietly(session)
        return len(found)

    async def _end_quietly(self, session: SessionId) -> None:
        """End a session unless another worker holds it. A failure is only logged."""
        try:
            async with self._leases.alone(session) as ours:
                if ours:
                    await self.end(session)
        except OnlookerError as error:
            log.warning("%s: not ended now: %s", session.key, error)
        else:
            self._used.pop(session, None)

    # -- what

    async def end(self, session: SessionId) -> Sequence[Item]:
        """Make items of what was said since items were last made; none if another worker did so first.

        Raises:
            StoreError: The store cannot write; the session stays open.
        """
        for _ in range(MAX_TRIES):
            state = await self._store.load(session)
            if state is None or state.progress.ended >= state.progress.last_seq:
                return ()
            kept = await self._end(state)
            if kept is not None:
                return kept
        return ()

    async def _end(self, state: State) -> Sequence[Item] | None:
        progress, began = state.progress, time.perf_counter()
        asked: list[Item] | None = []
        if self._settings.shares_items(progress.session.owner):
            notes = [note for note in state.notes if note.last > progress.ended]
            messages = [message for message in state.unnoted if message.seq > progress.ended]
            asked = await self._ask_model(progress.session, notes, messages)
        if asked is None:
            return await self._make_up_to(progress, progress.last_seq)
        mark = EndMark(progress.session, progress.ended, progress.last_seq, progress.revision)
        return await self._keep(progress.session, asked, mark, began)

    async def on_noted(self, progress: Progress, messages: Sequence[Message]) -> None:
        """Make items from messages that were just noted, so that they reach other sessions before this one
        ends. A failure is logged; the end of the session makes them then."""
        session = progress.session
        if not self._settings.shares_items(session.owner):
            return
        try:
            if not self._asks_model:
                await self._make_up_to(progress, progress.frontier)
            elif messages:
                # A model is not asked at every note. The mark stays, and the model is asked at the end.
                await self._keep_some(progress, await self._pick(session, messages))
        except OnlookerError as error:
            log.warning("%s: no items made with a note: %s", session.key, error)

    async def read_others(self, session: SessionId) -> None:
        """Make items, without a model, of what the owner said lately in other sessions and no note covers
        yet: a person expects the agent to know what they said a minute ago. What fails, or takes too long, is
        left to the notes and ends of those sessions."""
        if not self.is_automatic or not self._settings.shares_items(session.owner):
            return
        try:
            async with asyncio.timeout(OTHERS_SECONDS):
                since = self._clock.now() - OTHERS_WITHIN
                for other in await self._store.open_sessions(session.owner, since, limit=MAX_OTHERS):
                    if other != session:
                        await self._read_other(other)
        except (TimeoutError, OnlookerError) as error:
            log.warning("%s: could not read the owner's other sessions: %r", session.key, error)

    async def _read_other(self, session: SessionId) -> None:
        progress = await self._progress_of(session)
        if progress is None:
            return
        newest = progress.last_seq - MAX_OTHER_MESSAGES
        if not self._asks_model and progress.ended >= newest:
            await self._make_up_to(progress, progress.last_seq)
            return
        # The mark does not move: at the end a model is asked about these messages, or they are read together
        # with those before them.
        after = max(progress.ended, progress.frontier, newest)
        messages = await self._store.messages(session, after=after, archived=True)
        await self._keep_some(progress, await self._pick(session, messages))

    async def on_condensed(self, progress: Progress, notes: Sequence[Note]) -> None:
        """Ask the language model, if there is one, for items of notes that were just condensed: the
        reflection leaves out some of their content. A failure is logged."""
        session = progress.session
        # Reflections are skipped: items were made of them when they were observations.
        fresh = [note for note in notes if not note.generation]
        if not fresh or not self._asks_model or not self._settings.shares_items(session.owner):
            return
        try:
            await self._keep_some(progress, await self._ask_model(session, fresh, ()) or ())
        except OnlookerError as error:
            log.warning("%s: no items made of condensed notes: %s", session.key, error)

    async def _make_up_to(self, progress: Progress, up_to: int) -> Sequence[Item] | None:
        """Make items without a model of every message after the mark, up to this one, and move the mark; None
        if the session changed meanwhile."""
        session, reached = progress.session, progress.ended
        made: list[Item] = []
        while reached < up_to:
            began = time.perf_counter()
            read = await self._store.messages(
                session, after=reached, up_to=up_to, limit=MAX_READ, archived=True
            )
            until = read[-1].seq if len(read) == MAX_READ else up_to
            mark = EndMark(session, reached, until, progress.revision)
            kept = await self._keep(session, await self._pick(session, read), mark, began)
            if kept is None:
                return None
            made += kept
            reached = until
        return made

    async def _keep_some(self, progress: Progress, made: Sequence[Item]) -> None:
        """Store items of a part of the session. The mark stays where it is, and only guards the revision."""
        mark = EndMark(progress.session, progress.ended, progress.ended, progress.revision)
        await self._keep(progress.session, made, mark, time.perf_counter())

    async def _keep(
        self, session: SessionId, made: Sequence[Item], mark: EndMark, began: float
    ) -> Sequence[Item] | None:
        """Store the items that are new, and return them; None if the session changed since they were made:
        they may contain what was forgotten."""
        from onlooker.policy.items.match import reconcile

        now = self._clock.now()
        if not made and mark.up_to == mark.expected:
            return ()
        for _ in range(MAX_TRIES):
            existing = await self._store.items(session.owner, limit=MAX_ITEMS) if made else ()
            done = await asyncio.to_thread(reconcile, made, existing)
            add = await self._without_known_past(done.add, existing)
            # An item that this session made earlier does not count as used.
            own = {item.id for item in existing if item.session == session.key}
            use = tuple(dict.fromkeys(i for i in done.use if i not in own))
            change = ItemChange(session.owner, now, add, tuple(done.end.items()), use, mark)
            if not (change.add or change.end or change.use or mark.up_to > mark.expected):
                return ()
            try:
                await self._store.change_items(change)
            except ConflictError:
                progress = await self._progress_of(mark.session)
                if progress is None or progress.ended != mark.expected:
                    return ()
                if progress.revision != mark.revision:
                    return None
                continue
            if change.add or change.end:
                took, ended = time.perf_counter() - began, tuple(done.end)
                self._emit(ItemsMade(session.owner, change.add, session.key, ended, seconds=took))
            return change.add
        raise ConflictError(f"{session.key}: other workers keep changing the items of this owner")

    async def _without_known_past(self, add: Sequence[Item], existing: Sequence[Item]) -> tuple[Item, ...]:
        """The items to add, without those that are already in the history of existing ones: if a model does
        not answer, messages are read again that items were made of before."""
        from onlooker.policy.items.match import duplicates

        live = {item.id for item in existing}
        past = [item for item in add if item.status == "ended" and item.superseded_by in live]
        if not past:
            return tuple(add)
        ended = await self._store.items(past[0].owner, statuses=("ended",), limit=MAX_ITEMS)
        known = {item.id for item in past if duplicates(item.summary, ended)}
        return tuple(item for item in add if item.id not in known)

    async def _progress_of(self, session: SessionId) -> Progress | None:
        state = await self._store.load(session, newest=1)
        return state.progress if state else None

    # -- who chooses

    async def choose_items(self, session: SessionId, notes: Sequence[Note]) -> list[Item]:
        """The items of these notes, before known ones are left out."""
        asked = await self._ask_model(session, notes, ())
        if asked is not None:
            return asked
        format = self._settings.format
        return await asyncio.to_thread(self._pick_from_notes, session, notes, format)

    def _pick_from_notes(self, session: SessionId, notes: Sequence[Note], format: NoteFormat) -> list[Item]:
        from onlooker.policy.items.extract import choose_candidates
        from onlooker.policy.items.statements import statements

        found = [
            s
            for note in notes
            for s in statements(note.text, source=note.id, format=format, day=note.made_at.date())
        ]
        return self._as_items(session, choose_candidates(found, self._tz), (), ())

    async def _pick(self, session: SessionId, messages: Sequence[Message]) -> list[Item]:
        """Choose items without a language model, from what people said. In a thread, because a turn must not
        wait for it."""
        from onlooker.policy.items.extract import about_known, choose_candidates, user_statements
        from onlooker.policy.items.match import name_in

        said = await asyncio.to_thread(lambda: [*user_statements(messages)])
        self._check_language(session, messages)
        if not said:
            return []
        known = [item.summary for item in await self._store.items(session.owner, limit=MAX_ITEMS)]
        name = next((name for summary in known if (name := name_in(summary))), "")

        def choose() -> list[Candidate]:
            return choose_candidates(about_known(said, known, name), self._tz, name=name)

        return self._as_items(session, await asyncio.to_thread(choose), (), ())

    def _check_language(self, session: SessionId, messages: Sequence[Message]) -> None:
        """Log once for each owner if only a language model can find facts in their language."""
        from onlooker.policy.items.extract import LANGUAGES
        from onlooker.policy.text import SAMPLE, language_of

        if self._asks_model or session.owner in self._languages:
            return
        text = "\n".join(m.text for m in messages if m.role == "user")[:SAMPLE]
        language = language_of(text)
        if language and len(self._languages) < MAX_USED_SESSIONS:
            self._languages.add(session.owner)
        if language and language not in LANGUAGES:
            log.warning(
                "%s: no items are made of text in %s: without a language model, facts are found in English, "
                "German, French, Spanish, Chinese, Japanese and Korean only (docs/items.md)",
                session.key,
                language.capitalize(),
            )

    async def _ask_model(
        self, session: SessionId, notes: Sequence[Note], messages: Sequence[Message]
    ) -> list[Item] | None:
        """Let the language model choose items; None if there is none, it does not answer, its answer is not
        usable, or its window is too small."""
        if not self._asks_model:
            return None
        try:
            return await self._ask(session, notes, messages)
        except ModelError as error:
            log.warning("%s: choosing items without the model: %s", session.key, error)
            return None

    async def _ask(
        self, session: SessionId, notes: Sequence[Note], messages: Sequence[Message]
    ) -> list[Item] | None:
        from onlooker.policy.items.extract import read_items
        from onlooker.policy.render import text_lines
        from onlooker.policy.reply.evidence import Evidence

        writer = self._reflector
        known = tuple(i.summary for i in await self._store.items(session.owner, limit=MAX_KNOWN_ITEMS))
        if sum(n.tokens for n in notes) + tokens_of(messages) > writer.model.window:
            return None
        request = ItemsRequest(session, tuple(notes), 1, ANSWER_TOKENS, messages=tuple(messages), known=known)
        # The owner's name belongs to them even if they did not say it.
        source = "\n".join((session.owner, *(n.text for n in notes), text_lines(messages), *known))
        day = (messages[-1].at if messages else None) or (notes[-1].made_at if notes else self._clock.now())
        evidence = Evidence(source, day.date())
        candidates = await writer.ask(
            request, lambda text: read_items(text, day=day.date(), tz=self._tz, invented=evidence.invented)
        )
        if candidates is None:
            return None
        made = self._as_items(session, candidates, notes, messages)
        return await self._attributed(session, made, notes, messages)

    async def _attributed(
        self, session: SessionId, made: list[Item], notes: Sequence[Note], messages: Sequence[Message]
    ) -> list[Item]:
        """Set the origin of the items from the messages: a model may have been misled about it."""
        from onlooker.policy.origins import parts_of, whose_words

        if all(item.origin != "user" for item in made):
            return made
        said = [m for note in notes for m in await self._store.sources(session, note.id)]
        said += messages
        if not said:
            return made

        def attribute() -> list[Item]:
            parts = [*parts_of(said)]  # their words are found once for all items
            found = (whose_words(i.summary, parts) if i.origin == "user" else i.origin for i in made)
            return [replace(item, origin=origin) for item, origin in zip(made, found, strict=True)]

        return await asyncio.to_thread(attribute)

    def _as_items(
        self,
        session: SessionId,
        candidates: Sequence[Candidate],
        notes: Sequence[Note],
        messages: Sequence[Message],
    ) -> list[Item]:
        from onlooker.policy.items.extract import find_source

        # The most valuable come first and get the latest time: of two items, the newer one counts for more.
        now = self._clock.now()
        made = [now - timedelta(microseconds=place) for place in range(len(candidates))]
        texts = [*((n.id, n.text) for n in notes), *((m.id, m.body) for m in messages)]
        return [
            Item(
                owner=session.owner,
                id=new_id("itm", at),
                type=c.type,
                summary=c.summary,
                made_at=at,
                tags=c.tags,
                origin=c.origin,
                said_at=c.said_at and min(c.said_at, now),
                valid_from=c.valid_from,
                expires_at=c.expires_at,
                session=session.key,
                sources=c.sources or find_source(c.summary, texts),
                status="ended" if c.taken_back else "live",
            )
            for c, at in zip(candidates, made, strict=True)
        ]
