"""Forgetting: delete messages with everything derived from them. Notes that also cover other messages are
rewritten from what is left."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from onlooker.domain.errors import ConflictError, NotFoundError, SettingsError
from onlooker.domain.events import Deleted, Event, Forgotten, OwnerForgotten
from onlooker.domain.frozen import frozen
from onlooker.domain.history import (
    ForgetRecord,
    ForgetResult,
    Forgetting,
    MessageRow,
    Scope,
    SessionRow,
    VersionRow,
)
from onlooker.domain.items import ITEM_STATUSES
from onlooker.domain.messages import Message, SessionId, tokens_of
from onlooker.domain.notes import NOTE_STATUSES, Note
from onlooker.engine.note_taker import MIN_TARGET, Composer
from onlooker.policy.history import (
    RemakePlan,
    exact_values,
    has_borrowed_values,
    is_made_from,
    items_to_forget,
    lacks_sources,
    mentions_forgotten,
    plan_remake,
    text_of,
    with_descendants,
)
from onlooker.policy.settings import Settings
from onlooker.policy.text import seen
from onlooker.ports import Clock, ObserveRequest, ReflectRequest, Request, Store

if TYPE_CHECKING:
    from onlooker.files.journal import Journal
    from onlooker.files.notes_folder import NotesFolder

# How often to try again after a conflict with a note taker.
MAX_TRIES = 20


@dataclass(slots=True)
class _Found:
    """The part of a session that is affected by forgetting."""

    top: SessionRow
    notes: dict[str, Note]
    gone: set[str]  # ids of the messages to forget
    seqs: set[int] = field(default_factory=set[int])
    gone_texts: list[str] = field(default_factory=list[str])
    kept: dict[str, Message] = field(
        default_factory=dict[str, Message]
    )  # other messages that touched notes are made from
    touched: set[str] = field(default_factory=set[str])  # ids of notes made from them
    by_range: dict[str, list[Message]] = field(default_factory=dict[str, list[Message]])
    summaries: list[Message] = field(default_factory=list[Message])  # inserted by compaction
    texts: dict[str, list[str]] = field(
        default_factory=dict[str, list[str]]
    )  # versions of edited notes, by id

    @property
    def forgotten(self) -> str:
        return "\n".join(self.gone_texts)


@frozen
class Forgetter:
    """Forgets messages, sessions and owners, in the store, in caches and in files."""

    store: Store
    settings: Settings
    clock: Clock
    count: Callable[[str], int]
    emit: Callable[[Event], None]
    builtin: Composer
    asks_model: bool  # whether a model can rewrite notes later
    drop_cached: Callable[[SessionId], None]
    files: Sequence[Journal | NotesFolder]
    leaves_files: bool  # whether the store has files in folders that this process has no setting for

    async def messages(
        self,
        session: SessionId,
        targets: Sequence[str],
        *,
        dry_run: bool = False,
        rewrite_later: bool | None = None,
        by: str = "",
    ) -> ForgetResult:
        """Forget messages of a session, by id or by the id of a note made from them.

        Raises:
            NotFoundError: The session has no such message or note.
            ConflictError: Other writers keep changing the session.
        """
        if not targets:
            raise SettingsError("targets", targets, "must name at least one message or note")
        began = time.perf_counter()
        later = self.asks_model if rewrite_later is None else rewrite_later
        affected = _Affected(session, self.store, self.settings, self.clock, self.count, self.builtin, later)
        for _ in range(MAX_TRIES):
            found = await affected.find(targets)
            plan = plan_remake(found.notes, found.touched, found.kept, found.by_range)
            change = await affected.decide(found, plan)
            done = ForgetResult(len(found.seqs), len(plan.delete), len(plan.remake), len(change.items))
            if dry_run:
                return done
            intention = Intention(session.owner, session.key, tuple(targets), by=by)
            now = self.clock.now()
            try:
                async with kept_until_done(self.store, intention, now, leaves_files=self.leaves_files):
                    await self.store.forget(session, change, now=now)
                    done = replace(done, erased=await self.erase([session], [session.owner]))
            except ConflictError:
                continue
            self.emit(Forgotten(session, done, seconds=time.perf_counter() - began))
            return done
        raise ConflictError("other writers keep changing this session; try again")

    async def session(self, session: SessionId, *, by: str) -> bool:
        """Delete a session; False if there was none."""
        self.drop_cached(session)
        intention, now = Intention(session.owner, session.key, by=by), self.clock.now()
        async with kept_until_done(self.store, intention, now, leaves_files=self.leaves_files):
            was_there = await self.store.delete_session(session)
            if was_there:
                self.emit(Deleted(session))
                await self.erase([session], [session.owner])  # its words leave the search index, too
            else:
                await self._remove_from_files([session], [session.owner])
        return was_there

    async def owner(
        self, owner: str, session: str | None = None, *, gone: Sequence[SessionId] = (), by: str = ""
    ) -> ForgetResult:
        """Forget one session of an owner, or everything about the owner. `gone` are sessions that are already
        deleted from the store."""
        store, began = self.store, time.perf_counter()
        there = await store.sessions(owner=owner, key=session)
        found = [s.progress.session for s in there]
        # A session that is gone from the store may still have files.
        named = () if session is None else (SessionId(owner, session),)
        known: list[SessionId] = list(dict.fromkeys((*found, *gone, *named)))
        before = await store.items(owner, statuses=ITEM_STATUSES)
        intention = Intention(owner, session, tuple(s.key for s in known) if session is None else (), by=by)
        async with kept_until_done(store, intention, self.clock.now(), leaves_files=self.leaves_files):
            if session is None:
                await store.forget_owner(owner)
            else:
                await store.delete_session(SessionId(owner, session))
            after = await store.items(owner, statuses=ITEM_STATUSES)
            erased = await self.erase(known, [owner])
        done = ForgetResult(
            messages=sum(s.messages for s in there),
            items=len(before) - len(after),
            sessions=len(found),
            erased=erased,
        )
        if session is None:
            self.emit(OwnerForgotten(owner, done, seconds=time.perf_counter() - began))
        for each in found:
            self.emit(Deleted(each))
        return done

    async def erase(self, sessions: Sequence[SessionId], owners: Sequence[str]) -> bool:
        """Remove what was forgotten from caches and files; False if that must wait, because others are
        reading the store's files, or for a process that knows the other files."""
        for session in sessions:
            self.drop_cached(session)
        await self._remove_from_files(sessions, owners)
        if not self.leaves_files:
            await drop_names(self.store, sessions, owners, self.clock.now())
        return await self.store.erase() and not self.leaves_files

    async def _remove_from_files(self, sessions: Sequence[SessionId], owners: Sequence[str]) -> None:
        """Rewrite files without what the store no longer has."""
        for kind in self.files:
            await kind.remove_forgotten(sessions, owners)

    async def finish(self) -> None:
        """Finish what a killed process had begun to forget."""
        for intention in await intentions(self.store):
            if intention.left == "files" and self.leaves_files:
                continue  # for a process that knows the folders
            if intention.left == "all":
                try:
                    await self._repeat(intention)
                except NotFoundError:  # it is already deleted from the store
                    await self.erase(intention.sessions, [intention.owner])
                    await _settle(self.store, [intention], self.clock.now())
            else:
                await self.erase(intention.sessions, [intention.owner] if intention.owner else [])
            await _change(self.store, drop=[intention, _BYTES])

    async def _repeat(self, what: Intention) -> None:
        if what.session is None or not what.targets:
            await self.owner(what.owner, what.session, gone=what.sessions, by=what.by)
        else:
            await self.messages(SessionId(what.owner, what.session), what.targets, by=what.by)


# -- Messages: what is affected, and what becomes of it


@frozen
class _Affected:
    """Finds what forgetting messages of a session affects, and decides what becomes of it."""

    session: SessionId
    store: Store
    settings: Settings
    clock: Clock
    count: Callable[[str], int]
    builtin: Composer
    rewrites_later: bool

    # -- finding

    async def find(self, targets: Sequence[str]) -> _Found:
        store = self.store
        rows = store.dump(Scope(session=self.session, kinds=frozenset({"session"})))
        top = next((row for row in [r async for r in rows] if isinstance(row, SessionRow)), None)
        if top is None:
            raise NotFoundError("message or note", targets[0])
        notes = {n.id: n for n in await store.notes(self.session, statuses=NOTE_STATUSES)}
        gone = {target for target in targets if target not in notes}
        for target in notes.keys() & set(targets):
            gone |= await self._messages_of(notes[target], notes)
        found = _Found(top, notes, gone)
        there = await self._read(found)
        named = {source for n in notes.values() if not n.generation for source in n.sources}
        for target in targets:
            if target not in notes and target not in there and target not in named:
                raise NotFoundError("message or note", target)
        found.touched |= notes.keys() & set(targets)
        await self._touch_more(found)
        return found

    async def _messages_of(self, note: Note, notes: dict[str, Note]) -> set[str]:
        """Ids of the messages that a note was made from, including deleted ones."""
        ids = {m.id for m in await self.store.sources(self.session, note.id)}
        layer = [note]
        while layer:
            ids |= {source for n in layer if not n.generation for source in n.sources}
            layer = [notes[s] for n in layer if n.generation for s in n.sources if s in notes]
        return ids

    async def _read(self, found: _Found) -> set[str]:
        """Read the messages once and keep those that matter; return the ids of those to forget that exist."""
        derived = {n.id for n in found.notes.values() if is_made_from(n, found.notes, found.gone, ())}
        wanted = {s for i in derived if not found.notes[i].generation for s in found.notes[i].sources}
        there: set[str] = set()
        scope = Scope(session=self.session, kinds=frozenset({"message", "version"}))
        async for row in self.store.dump(scope):
            if isinstance(row, VersionRow):
                found.texts.setdefault(row.version.note, []).append(row.version.text)
            if not isinstance(row, MessageRow):
                continue
            message = row.message
            if row.summary:
                found.summaries.append(message)
            elif message.id in found.gone:
                there.add(message.id)
                found.seqs.add(message.seq)
                found.gone_texts.append(text_of(message))
            elif message.id in wanted and (row.place != "retired" or message.id not in found.kept):
                found.kept[message.id] = message
        found.touched |= {
            n.id for n in found.notes.values() if is_made_from(n, found.notes, found.gone, found.seqs)
        }
        return there

    async def _touch_more(self, found: _Found) -> None:
        """Add notes that copied values from earlier notes, and all notes made from touched ones."""
        values = exact_values(found.forgotten)
        for note in found.notes.values():
            if note.id in found.touched or not has_borrowed_values(note, values, ()):
                continue
            own = await self.store.sources(self.session, note.id)
            if has_borrowed_values(note, values, own):
                found.touched.add(note.id)
                if not note.generation:
                    found.kept.update((m.id, m) for m in own)
        found.touched |= with_descendants(found.notes, found.touched)
        for ident in found.touched:
            if lacks_sources(found.notes[ident], found.notes):
                own = await self.store.sources(self.session, ident)
                if left := [m for m in own if m.id not in found.gone]:
                    found.by_range[ident] = left

    # -- deciding

    async def decide(self, found: _Found, plan: RemakePlan) -> Forgetting:
        made = await self._remake(found, plan)
        items = await self._items(found, made)
        top = found.top
        return Forgetting(
            messages=tuple(sorted(found.gone)),
            deleted=plan.delete,
            rewritten=tuple(made),
            change=top.changes,
            revision=top.progress.revision,
            due=self.rewrites_later and bool(made),
            items=items,
            summaries=self._summaries(found),
        )

    def _summaries(self, found: _Found) -> tuple[str, ...]:
        values = exact_values(found.forgotten)
        texts = [t for i in found.touched for t in (found.notes[i].text, *found.texts.get(i, ()))]
        return tuple(m.id for m in found.summaries if mentions_forgotten(m.text, values, texts))

    async def _remake(self, found: _Found, plan: RemakePlan) -> list[Note]:
        """Let the built-in model rewrite the notes from what is left."""
        made: dict[str, Note] = {}
        for note in plan.remake:
            request = self._request(note, found, {**found.notes, **made})
            text = (await self.builtin.write(request)).text
            made[note.id] = replace(
                note,
                text=text,
                tokens=self.count(text),
                made_at=self.clock.now(),
                model=self.builtin.name,
                degraded=self.rewrites_later,
            )
        return list(made.values())

    def _request(self, note: Note, found: _Found, notes: dict[str, Note]) -> Request:
        form = self.settings.format
        if note.generation and note.id not in found.by_range:
            sources = tuple(notes[source] for source in note.sources)
            target = max(1, min(note.tokens, sum(n.tokens for n in sources)))
            return ReflectRequest(self.session, sources, note.generation, target, form)
        messages = found.by_range.get(note.id) or [found.kept[source] for source in note.sources]
        target = max(MIN_TARGET, min(note.tokens, tokens_of(messages)))
        return ObserveRequest(self.session, tuple(messages), (), target, form)

    async def _items(self, found: _Found, made: Iterable[Note]) -> tuple[str, ...]:
        """The owner's items that were made from what is forgotten."""
        items = await self.store.items(self.session.owner, statuses=ITEM_STATUSES)
        remaining = "\n".join((*(n.text for n in made), *(text_of(m) for m in found.kept.values())))
        return items_to_forget(
            items,
            session=self.session.key,
            touched=found.touched,
            gone=found.gone,
            forgotten=found.forgotten,
            remaining=remaining,
        )


# -- Intentions: what is being forgotten, kept in the store until it is done everywhere

_INTENTIONS = "forgetting"
# What is left to do: everything; erasing the bytes that the store no longer uses, which needs no name; or
# rewriting files in folders that the forgetting process did not know.
Left = Literal["all", "bytes", "files"]


@frozen
class Intention:
    """What is being forgotten: the `targets`, which are messages of a session; without targets, the session;
    without a session, the owner, and then `targets` are the keys of the owner's sessions."""

    owner: str
    session: str | None = None
    targets: tuple[str, ...] = ()
    left: Left = "all"
    by: str = ""

    @property
    def sessions(self) -> list[SessionId]:
        keys = self.targets if self.session is None else (self.session,)
        return [SessionId(self.owner, key) for key in keys]


_BYTES = Intention("", left="bytes")


@asynccontextmanager
async def kept_until_done(
    store: Store, intention: Intention, now: datetime, *, leaves_files: bool
) -> AsyncGenerator[None]:
    """Store an intention until the block has finished, and then replace it by a record.

    If the process is killed, or a file cannot be rewritten, the next opening finishes the work. With
    `leaves_files`, this process does not know all folders of files, and leaves them to a process that does.
    """
    await _change(store, add=intention)
    try:
        yield
    except ConflictError:  # nothing was forgotten, and the caller gets the error
        await _change(store, drop=[intention, _BYTES])
        raise
    await _settle(store, [intention], now)
    await _change(store, add=replace(intention, left="files") if leaves_files else None, drop=[_BYTES])


async def drop_names(
    store: Store, sessions: Sequence[SessionId], owners: Sequence[str], now: datetime
) -> None:
    """Drop the names from intentions of which only bytes are left to erase: the names are forgotten too."""
    there = await intentions(store)
    done = [i for i in there if i.left == "all" and i.owner in owners and {*i.sessions} <= {*sessions}]
    if done:
        await _settle(store, done, now, add=_BYTES)


async def _settle(
    store: Store, done: Sequence[Intention], now: datetime, *, add: Intention | None = None
) -> None:
    """Replace intentions by records. If the process is killed in between, there may be two records."""
    there = await intentions(store)
    for intention in done:
        if intention in there:
            await _record(store, intention, now)
    await _change(store, add=add, drop=done)


async def intentions(store: Store) -> list[Intention]:
    """What was begun and is not finished."""
    return _read(await store.get_value(_INTENTIONS))


def _read(value: str | None) -> list[Intention]:
    rows = json.loads(value or "[]")
    return [Intention(owner, session, tuple(targets), *more) for owner, session, targets, *more in rows]


async def _change(store: Store, *, add: Intention | None = None, drop: Sequence[Intention] = ()) -> None:
    while True:  # until no other process changes the value at the same time
        value = await store.get_value(_INTENTIONS)
        there = _read(value)
        kept = [each for each in there if each not in drop]
        if add is not None and add not in kept:
            kept.append(add)
        rows = [(each.owner, each.session, each.targets, each.left, each.by) for each in kept]
        if kept == there or await store.swap_value(_INTENTIONS, json.dumps(rows), expected=value):
            return


# -- The record of what was forgotten: who, when, and what kind of thing, without its content

# One value holds the newest records and the number of full pages before them; each page is a value of its
# own. So adding a record takes the same time however many there are, and none is ever dropped.
_RECORDS = "forgotten"
PAGE = 200
MAX_NAME_LENGTH = 200


def owner_hash(owner: str) -> str:
    """The name of an owner in a record."""
    return SessionId(owner, "").sid


async def _record(store: Store, done: Intention, now: datetime) -> None:
    owner = owner_hash(done.owner)
    if done.session is None:
        await record(store, ForgetRecord(now, done.by, "owner", 1, owner, ""))
    else:
        what, count = ("messages", len(done.targets)) if done.targets else ("session", 1)
        sid = SessionId(done.owner, done.session).sid
        await record(store, ForgetRecord(now, done.by, what, count, owner, sid))


async def record(store: Store, new: ForgetRecord) -> None:
    """Add a record."""
    new = replace(new, by=" ".join(seen(new.by).split())[:MAX_NAME_LENGTH])
    row = [new.at.isoformat(), *astuple(new)[1:]]
    while True:
        value = await store.get_value(_RECORDS)
        pages, rows = json.loads(value or "[0, []]")
        if len(rows) >= PAGE:
            # The page exists already if a process was killed right after it wrote one.
            await store.swap_value(f"{_RECORDS}-{pages}", json.dumps(rows), expected=None)
            pages, rows = pages + 1, []
        if await store.swap_value(_RECORDS, json.dumps([pages, [*rows, row]]), expected=value):
            return


async def records(store: Store) -> list[ForgetRecord]:
    """What was forgotten, oldest first."""
    pages, newest = json.loads(await store.get_value(_RECORDS) or "[0, []]")
    full = [json.loads(await store.get_value(f"{_RECORDS}-{page}") or "[]") for page in range(pages)]
    return [ForgetRecord(datetime.fromisoformat(at), *rest) for rows in (*full, newest) for at, *rest in rows]
