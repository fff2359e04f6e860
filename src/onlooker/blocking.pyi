"""Types of `blocking.py`. Written by `make stubs` from the async classes: change those instead."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from onlooker.client import Progress
from onlooker.domain.context import Layers
from onlooker.domain.events import BaseEvent, Consolidated, Event
from onlooker.domain.history import ForgetRecord, ForgetResult, NoteHistory, RetentionResult
from onlooker.domain.items import Item, ItemStatus, ItemType, Origin
from onlooker.domain.messages import Message, MessageLike, SdkMessage, SessionId
from onlooker.domain.notes import (
    Extraction,
    Extractor,
    Note,
    NoteKind,
    NoteStatus,
    SessionSummary,
    State,
    Usage,
)
from onlooker.domain.search import Edge, EdgeKind, Hit, HitKind
from onlooker.engine.corrections import Moment
from onlooker.engine.indexing import IndexingStatus
from onlooker.engine.note_taker import Compactor
from onlooker.migration import Location, MigrationProgress, MigrationReport
from onlooker.models.calling import Spend
from onlooker.policy.align import Rewind
from onlooker.policy.assemble import Counting
from onlooker.policy.history import Diff
from onlooker.policy.items.choose import RankedItem
from onlooker.policy.render import Context
from onlooker.policy.settings import Settings, Timing
from onlooker.ports import Clock, Embedder, Model, Store
from onlooker.stores.sqlite.key import Key
from onlooker.wiring import WorkerMode

E = TypeVar("E", bound=BaseEvent)
H = TypeVar("H", bound=BaseEvent)
V = TypeVar("V", bound=Extractor)

class EventStream(Generic[E]):
    """Events from now on, until the memory is closed; made by `Memory.events`.
    It holds a limited number of unread events. Beyond that the oldest are dropped and counted in
    `dropped`: a slow reader loses events, but does not slow the memory down.
    """
    @property
    def dropped(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def on_event(self, event: Event) -> None:
        """Hold the event if it has one of the types."""
    def close(self) -> None:
        """Accept no more events; those held can still be taken."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> E: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class Items:
    """The items of a memory; `memory.items`."""
    def list(self, owner: str | None = None, *, statuses: Sequence[ItemStatus] = ...) -> Sequence[Item]:
        """An owner's items, pinned ones first, then the last used.

        Expired items count as live; `Item.holds` tells them apart.
        """
    def save(
        self,
        summary: str,
        *,
        owner: str | None = None,
        type: ItemType = "knowledge",
        tags: Sequence[str] = ...,
        origin: Origin = "user",
        supersedes: str = "",
        expires_at: datetime | None = None,
        pinned: bool = False,
        session: str = "",
        sources: Sequence[str] = ...,
    ) -> Item:
        """Save a fact: one sentence that can be understood alone.

        `supersedes` is the id of the item that it replaces, which stays in its history; it is needed for a
        fact that repeats or contradicts another. `session` is the key of the session in which an agent saved
        it, and `sources` the ids of the messages there that it comes from: it is forgotten with them.

        Raises:
            SettingsError: The summary is too short or too long, another item says the same or the opposite,
                or there is no live item to supersede.
        """
    def forget(self, item: str, *, owner: str | None = None, by: str = "") -> Sequence[Item]:
        """Archive an item by id, with those it replaced and those made from it. It leaves every prompt at
        once. Returns what was archived. `by` names who asked for it; `memory.storage.forgotten` lists that.

        Raises:
            NotFoundError: The owner has no such item, or it was forgotten before.
        """
    def pin(self, item: str, *, owner: str | None = None, on: bool = True) -> None:
        """Show an item first in every new session; `on=False` unpins it.

        Raises:
            NotFoundError: The owner has no live item with that id.
        """
    def history(self, item: str, *, owner: str | None = None) -> Sequence[Item]:
        """An item with those it replaced and those that replaced it, oldest first.

        Raises:
            NotFoundError: The owner has no such item.
        """
    def search(self, query: str, *, owner: str | None = None, limit: int = 20) -> Sequence[RankedItem]:
        """The items that match a query, best first. Being found counts as a use."""

class NotesFolder:
    """MEMORY.md and the daily notes of every owner; `memory.files`."""
    def set_zone(self, session: SessionId, tz: tzinfo) -> None:
        """Set the time zone of a session's daily notes."""
    def on_event(self, event: Event) -> None:
        """Mark what the event changed as due for writing."""
    def sync(self, *, owner: str | None = None) -> None:
        """Apply manual edits of MEMORY.md, and write the file, for one owner or for all who have files.

        This happens in the background too; call it if you do not want to wait.

        Raises:
            StoreError: The files or the store cannot be read or written.
        """
    def consolidate(
        self, *, owner: str | None = None, older_than: timedelta | None = None, dry_run: bool = False
    ) -> Sequence[Consolidated]:
        """Make items of the daily notes of one owner, or of all, that are older than `older_than` (seven
        days), and archive the files. A file is consolidated once.

        Raises:
            StoreError: The files or the store cannot be read or written.
        """
    def remove_forgotten(self, sessions: Iterable[SessionId] = ..., owners: Iterable[str] = ...) -> None:
        """Remove from these owners' files what the store no longer holds.

        Raises:
            StoreError: A file cannot be written.
        """

class Index:
    """The graph of notes, and the vectors; `memory.index`. Events tell it what to index."""
    @property
    def status(self) -> IndexingStatus:
        """The state of indexing in this process: what is waiting, and what was dropped or failed."""
    def graph(
        self,
        owner: str | None = None,
        *,
        session: str | None = None,
        entity: str | None = None,
        kinds: Sequence[EdgeKind] = ...,
        limit: int = 10000,
    ) -> Sequence[Edge]:
        """The graph of an owner's notes, as edges: which session a note is in (`in_session`), which note it
        follows, which notes a reflection reflects on (`reflects_on`), and which names and ids it mentions.

        `session` is the key of one session; `entity` a name or an id, for the notes that mention it.
        """
    def sweep(self) -> None:
        """Index what is missing."""
    def catch_up(self) -> int:
        """Index what the graph and the vectors lack before returning, instead of in the background. Returns
        how many texts. Failures show in `status`.
        """
    def on_event(self, event: Event) -> None: ...

class Storage:
    """The store as a whole: export, import and backup; `memory.storage`."""
    def export(self, target: str | Path, *, owner: str | None = None, session: str | None = None) -> int:
        """Write everything, or what belongs to one owner or session, to a new file of JSON lines. Returns the
        number of rows. The same content always makes the same file.

        Raises:
            StoreError: The file exists, or cannot be written.
        """
    def import_file(
        self,
        source: str | Path,
        *,
        owner: str | None = None,
        all_owners: bool = False,
        replace: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, int]:
        """Import what `export` wrote. Returns the number of rows of each kind. The file is checked first, and
        each session is imported whole or not at all.

        With an `owner`, only what belongs to them is imported. With `all_owners` everything is; use this only
        for a file that you trust with the memory of everybody. With neither, the file may only hold what
        belongs to this memory's own owner.

        `progress` is called with the number of rows that are read. If the call is cancelled, the sessions
        that are imported by then stay.

        Raises:
            SettingsError: The file has rows of an owner that was not named; nothing is imported.
            ConflictError: A session exists already, or another item with the same id, and `replace` is off.
            StoreError: The file is not an export, is incomplete, or was changed; or the store cannot write.
        """
    def import_journal(
        self, folder: str | Path, *, owner: str | None = None, all_owners: bool = False, replace: bool = False
    ) -> tuple[dict[str, int], Sequence[str]]:
        """Rebuild sessions from a journal. Returns the number of rows of each kind, and the lines that were
        skipped, each with the reason. `owner` and `all_owners` are as for `import_file`.

        Raises:
            SettingsError: The journal has rows of an owner that was not named; nothing is imported.
            ConflictError: `replace` is off, and another item has the same id: nothing is imported.
                Or a session exists: those before it are imported.
            StoreError: There is no journal.
        """
    def forgotten(self, *, owner: str | None = None) -> Sequence[ForgetRecord]:
        """Records of who forgot what kind of thing, and when, oldest first: of one owner, or of all. They
        have no names and no content.
        """
    def masked(self, *, owner: str | None = None, session: str | None = None) -> dict[str, int]:
        """Count the secrets in the stored messages by kind, of one session, of one owner, or of all. Wherever
        else they would be shown, they are masked as `[secret]`.
        """
    def back_up(self, target: str | Path) -> None:
        """Copy the store to a new file while it is in use.

        Raises:
            StoreError: The store is not a file, or the target exists or cannot be written.
        """

class Retention:
    """Applies the `retention_…` settings, at opening and then periodically; `memory.retention`."""
    @property
    def is_wanted(self) -> bool:
        """Whether the settings limit anything."""
    def prune(self, *, older_than: timedelta | None = None) -> int:
        """Purge what retention no longer keeps: superseded notes, messages that hosts took back, and messages
        beyond the limits of `apply`. Returns how many rows were deleted.

        `older_than` is how old notes must be, by default the setting `retention_days`. This happens
        automatically if the settings ask for it.
        """
    def apply(self, *, dry_run: bool = False) -> RetentionResult:
        """Archive noted messages, and delete them, once they are past the limits of `retention_archive_…`,
        `retention_delete_…` and `retention_owner_messages`. Returns how many, or how many it would be.

        Messages that no note covers stay, and so do all notes.
        """

class Background:
    """Notes and session ends in the background; `memory.background`. They run automatically while a memory is
    open.
    """
    @property
    def takes_notes(self) -> bool:
        """Whether this process takes notes. If not, other processes do."""
    @property
    def pending(self) -> int:
        """Sessions whose notes are being taken now."""
    def tick(self) -> int:
        """Start taking the notes of every session that is due; return how many there are."""
    def flush(self) -> None:
        """Wait until everything in progress is done or postponed."""
    def end_idle(self, *, idle: timedelta | None = None) -> int:
        """End sessions without a message for that long, by default for the setting `idle_minutes`; return how
        many. This happens automatically unless `idle_minutes` is 0.
        """
    def set_compactor(self, compactor: Compactor | None) -> None:
        """Set the function that removes noted messages from a session; None removes none. It gets the
        session (its `owner` and `key`), the seq of the last message to remove, and the note. The setting
        `compact` uses the store's own.
        """

class History:
    """A session's notes over time, and how a person corrects them; `session.history`."""
    def edit(self, note: str, text: str, *, by: str = "", was: str | None = None) -> Note:
        """Replace a note's text, in the prompt and for later reflections.

        The old text is kept as a version, with who wrote it and when; see `of`. `was`, the text that the
        edit started from, guards against concurrent edits.

        Raises:
            NotFoundError: There is no live note with that id.
            ConflictError: The note's text is not `was`.
        """
    def undo(self, note: str | None = None, *, dry_run: bool = False) -> Sequence[Note]:
        """Undo a reflection, by default the last one: show the notes it was made from again. Returns them.
        `dry_run` changes nothing, and is refused where the undo would be.

        Raises:
            NotFoundError: There is no such reflection, or it has been condensed itself.
            BudgetError: There is no room for the notes; they would be condensed again at once.
            ConflictError: Some of the notes no longer exist, or another process is changing them.
        """
    def clear(self, kind: NoteKind | None = None) -> int:
        """Delete the notes, or those of one kind. Their messages are archived; recent messages stay.
        Returns how many notes were deleted.
        """
    def compact(self, up_to: int, summary: str) -> None:
        """Replace every message up to and including seq `up_to` by a summary, in one transaction.

        The originals are kept for recall unless the setting `archive` is off. If there is
        nothing to replace, the summary is still inserted.
        """
    def taken_back(self) -> Sequence[Message]:
        """The messages that the host took back, oldest first. No prompt shows them; see `restore`."""
    def restore(self, message: str) -> Sequence[Message]:
        """Restore a message that the host took back, by id, with those that were taken back around it. They
        return to their places, and no other message is taken back. Returns them.

        Raises:
            NotFoundError: No message with that id was taken back.
            ConflictError: Another process is changing the session.
        """
    def state(self) -> State | None:
        """The state of the session; None if nothing was recorded."""
    def extractions(self, type: str | None = None) -> Sequence[Extraction]:
        """The values extracted for `extractors`, of one type by name or of all, each with its source."""
    def of(self, note: str) -> NoteHistory:
        """The history of a note: its texts with who wrote them and when, its status over time, and the notes
        that were made from it.

        Raises:
            NotFoundError: There is no note with that id.
        """
    def as_of(self, point: int | datetime) -> Moment:
        """The memory when the message with that seq was the newest, or at that time."""
    def diff(self, note: str, other: str | None = None) -> Diff:
        """What a note kept, dropped and added, compared with its sources (a reflection) or its previous text
        (an edited note). With `other`, that note is compared with this one.

        Raises:
            NotFoundError: There is no note with that id.
        """
    def neighbours(self, note: str) -> Sequence[Note]:
        """The owner's notes that are connected to a note, closest first: both mention the same name or id,
        one condenses the other, or one follows the other.

        Raises:
            NotFoundError: There is no note with that id.
        """

class Tools:
    """The tools of one session. They reach the memory of its owner, and nobody else's."""
    def openai(self) -> list[Any]:
        """All tools, for `tools=` of an OpenAI-compatible chat API, as dictionaries."""
    def anthropic(self) -> list[Any]:
        """All tools, for `tools=` of the Anthropic API, as dictionaries."""
    def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> str:
        """Run a tool by name, with arguments as a mapping or as a model's JSON text."""

class Session:
    """One conversation in a memory. It is cheap to make and holds no state."""
    @property
    def id(self) -> SessionId: ...
    @property
    def key(self) -> str: ...
    @property
    def owner(self) -> str: ...
    def record(
        self, *messages: MessageLike | SdkMessage | Sequence[MessageLike | SdkMessage]
    ) -> Sequence[Message]:
        """Record messages: ours, in OpenAI or Anthropic form, or as their SDKs return them, items of the
        Responses API included. They are durable on return.

        All are recorded in one transaction. Messages whose id is already recorded are skipped. Returns
        the new ones.

        Raises:
            MessageError: An argument is not a message; nothing was recorded.
            StoreError: The store cannot write; nothing was recorded.
        """
    def prepare(
        self,
        history: Sequence[MessageLike | SdkMessage],
        *,
        system: str = "",
        budget: int | None = None,
        knowledge: Layers | None = None,
        end: str = "",
        relative_time: bool = False,
        question: str = "",
        rewind: Rewind = "auto",
    ) -> Context:
        """Record the new messages of a host's history, and return the context to send instead.

        The history is aligned with the recorded messages by id, or else by content and order. It may be
        whole, or a part of the conversation: what it lacks stays recorded. Messages are taken back only on
        proof that the host dropped them (an answer regenerated, a message edited, a branch); they are then
        retired, and the notes made from them rolled back. `rewind="never"` takes nothing back, and "refuse"
        raises `ConflictError` and records nothing where the history does not continue the record. System
        messages at the start belong to the base prompt. Anything else before the recorded messages, such as
        the host's own summary, is passed through.

        It records what came before this turn and the newest message. The answer is recorded with the next
        call; call `record` with it to have it recorded at once.
        """
    def context(
        self,
        *,
        system: str = "",
        budget: int | None = None,
        knowledge: Layers | None = None,
        end: str = "",
        relative_time: bool = False,
        question: str = "",
    ) -> Context:
        """The prompt for the next turn: base prompt, knowledge, memory, recent messages.

        `budget` is the limit in tokens; later notes are planned for it too. `knowledge` are layers by name,
        placed after the base prompt: texts, functions to call, or a `Layer` of either. They add to those of
        `open_memory`, or replace them by name. `end` is text for the end of the prompt, the place for
        what changes each turn. `relative_time` adds today's date and how long ago the days in the notes
        are. `question` builds a context to answer that question: most of it is then earlier messages
        about it, word for word, at the end.

        Raises:
            BudgetError: The base prompt alone is larger than the budget.
            StoreError: The store cannot be read.
        """
    def settle(self) -> bool:
        """Take every note that is due before returning; False if a model failed, or another process is taking
        them.
        """
    def end(self) -> Sequence[Item]:
        """End the conversation: take the notes that are due, and make items of what the owner's other
        sessions should know and do not know since a note was taken. Returns the items. Recording more opens
        the session again.
        """
    def refresh_items(self) -> Sequence[Item]:
        """Choose again which of its owner's items this session shows, as a new session would. This changes
        the prompt's prefix.
        """
    def tools(self) -> Tools:
        """`memory_search`, `memory_save`, `memory_forget` and `recall` for this session's agent."""
    def notes(
        self, *, kind: NoteKind | None = None, recent: int | None = None, statuses: Sequence[NoteStatus] = ...
    ) -> Sequence[Note]:
        """The notes, oldest first; with `recent`, only the newest n."""
    def extracted(self, type: type[V]) -> list[V]:
        """Values of one of your own types (`extractors`), extracted from the messages, oldest first.

        Values that no longer fit the class, because it has changed, are left out with a warning.
        `history.extractions` still has them.
        """
    def messages(self, *, archived: bool = False) -> Sequence[Message]:
        """The messages, oldest first; with `archived`, also those that compaction archived."""
    def recall(
        self, target: str | int | Hit, *, neighbours: int = 0, page: int | None = None
    ) -> Sequence[Message]:
        """The messages behind a note (by id), a message (by seq) or a hit of `search`, word for word.

        `neighbours` adds that many messages before and after. `page` selects a page of 50, from 1.

        Raises:
            NotFoundError: There is no such note or message.
        """
    def search(
        self,
        query: str,
        *,
        kinds: Sequence[HitKind] = ...,
        limit: int = 20,
        after: datetime | None = None,
        before: datetime | None = None,
        marks: tuple[str, str] = ...,
    ) -> Sequence[Hit]:
        """Search this session's messages and notes, best hits first.

        `kinds` are "message" and "note"; `after` and `before` limit when it was said or noted. In each
        hit's snippet, `marks` are placed around the words that were found.
        """
    def pin(self, target: str, *, on: bool = True) -> None:
        """Keep a note or message in every context of this session; `on=False` unpins it.

        Raises:
            NotFoundError: The session has no live note and no message with that id.
        """
    @property
    def history(self) -> History:
        """The notes over time: correct them, and look back."""
    def forget(
        self, *targets: str, dry_run: bool = False, rewrite_later: bool | None = None, by: str = ""
    ) -> ForgetResult:
        """Forget messages, by id or by the id of a note made from them, with everything derived from them.

        Notes that mix them with other messages are written again without them, at once, and later by the
        model. Nothing of them stays in any table, index, journal or file. A host that hands over whole
        histories must remove them there as well.

        `dry_run` only counts. `rewrite_later` says whether a model writes those notes again; by default it
        does if one is configured. `by` names who asked for it; `memory.storage.forgotten` lists that.

        Raises:
            NotFoundError: There is no message or note with that id.
        """
    def delete(self, *, by: str = "") -> bool:
        """Delete the session with everything in it; False if there was none. What its notes cost still
        counts for its owner and the day. `by` names who asked for it; `memory.storage.forgotten` lists
        that.
        """

class Memory:
    """All sessions of one store. Made by `open_memory`; use it with `async with`."""
    @property
    def settings(self) -> Settings: ...
    @property
    def counting(self) -> Counting:
        """How this memory counts tokens, with what it learned from providers."""
    @property
    def store(self) -> Store: ...
    @property
    def items(self) -> Items:
        """Facts about owners that outlive their sessions."""
    @property
    def files(self) -> NotesFolder:
        """MEMORY.md and daily notes.

        Raises:
            SettingsError: There is no `notes_folder`.
        """
    @property
    def index(self) -> Index:
        """The graph of notes, and the indexes that search uses."""
    @property
    def storage(self) -> Storage:
        """Export, import and backup."""
    @property
    def retention(self) -> Retention:
        """Deleting what is old."""
    @property
    def background(self) -> Background:
        """Work in the background."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def open(self) -> None:
        """Open the store and continue what an earlier process left due. Opening twice is harmless."""
    def close(self) -> None:
        """Start nothing new, let work in progress complete within `stop_deadline`, and close the store."""
    def session(self, key: str, *, owner: str | None = None, tz: str | tzinfo | None = None) -> Session:
        """One conversation. Without an `owner` it is the memory's own, if that has one. `tz` is the time zone
        of messages that come without one, by name or as a `tzinfo`; by default the memory's own.
        """
    def current(self) -> Session | None:
        """The session named by `use_session`, if any."""
    def sessions(
        self,
        *,
        owner: str | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: SessionSummary | None = None,
        matching: str = "",
    ) -> Sequence[SessionSummary]:
        """The stored sessions, most recently used first. `after` continues a list after this session;
        `matching` selects those whose key or owner contains this text.
        """
    def search(
        self,
        query: str,
        *,
        owner: str | None = None,
        session: str | None = None,
        kinds: Sequence[HitKind] = ...,
        limit: int = 20,
        after: datetime | None = None,
        before: datetime | None = None,
        marks: tuple[str, str] = ...,
    ) -> Sequence[Hit]:
        """Search the messages and notes of an owner's sessions, or of the one with that key, as
        `Session.search` does.
        """
    def record(self, *messages: MessageLike | SdkMessage) -> Sequence[Message]:
        """Record into the session named by `use_session`; do nothing without one."""
    def prepare(
        self, history: Sequence[MessageLike | SdkMessage], *, system: str = "", budget: int | None = None
    ) -> Context:
        """`Session.prepare` for the session named by `use_session`; without one, the context is the unchanged
        history.
        """
    def settle(self) -> None:
        """Take every note that is due, in every session, before returning."""
    def forget(self, *, owner: str, session: str | None = None, by: str = "") -> ForgetResult:
        """Forget a session of an owner, or everything of that owner: messages, notes, items, indexes and
        journals, down to the bytes in the files. What model calls cost stays counted for the day. `by` names
        who asked for it; `memory.storage.forgotten` lists that.
        """
    def usage(self) -> Sequence[Usage]:
        """What model calls cost so far, including those of deleted sessions."""
    def calibrate(self, context: Context, *, input_tokens: int) -> None:
        """Learn from the input tokens that a provider reported for a context."""
    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with every event. Returns a function that unsubscribes it."""
    @overload
    def events(self, *, limit: int = ...) -> EventStream[Event]: ...
    @overload
    def events(self, *types: type[H], limit: int = ...) -> EventStream[H]: ...
    def events(self, *types: type[BaseEvent], limit: int = ...) -> EventStream[Any]:
        """Events from now on, of these types or of all, for `async for`. The stream ends when the memory is
        closed.

        At most `limit` unread events are held; the stream counts those that it drops.
        """

class RemoteSession:
    """One conversation on a server."""
    @property
    def key(self) -> str: ...
    @property
    def owner(self) -> str | None: ...
    def record(
        self, *messages: MessageLike | SdkMessage | Sequence[MessageLike | SdkMessage]
    ) -> Sequence[Message]:
        """Record messages. They are durable on return, and recorded once even if the request had to be sent
        again. Returns the new ones.

        Raises:
            MessageError: An argument is not a message; nothing was recorded.
            StoreError: The server cannot be reached, or cannot write.
        """
    def prepare(
        self,
        history: Sequence[MessageLike | SdkMessage],
        *,
        system: str = "",
        budget: int | None = None,
        knowledge: Mapping[str, str] | None = None,
        end: str = "",
        relative_time: bool = False,
        question: str = "",
        rewind: Rewind = "auto",
    ) -> Context:
        """Record the new messages of a host's history, and return the context to send instead."""
    def context(
        self,
        *,
        system: str = "",
        budget: int | None = None,
        knowledge: Mapping[str, str] | None = None,
        end: str = "",
        relative_time: bool = False,
        question: str = "",
    ) -> Context:
        """The prompt for the next turn."""
    def settle(self) -> bool:
        """Take every note that is due before returning."""
    def end(self) -> Sequence[Item]:
        """End the conversation. Returns the items made for the owner's other sessions."""
    def notes(self, *, kind: NoteKind | None = None) -> Sequence[Note]:
        """The notes, oldest first."""
    def messages(self, *, archived: bool = False) -> Sequence[Message]:
        """The messages, oldest first; with `archived`, also those that compaction archived."""
    def recall(
        self, target: str | int | Hit, *, neighbours: int = 0, page: int | None = None
    ) -> Sequence[Message]:
        """The messages behind a note (by id), a message (by seq) or a hit of `search`, word for word."""
    def search(
        self,
        query: str,
        *,
        kinds: Sequence[HitKind] = ...,
        limit: int = 20,
        after: datetime | None = None,
        before: datetime | None = None,
    ) -> Sequence[Hit]:
        """Search the messages and notes of this session."""
    def pin(self, target: str, *, on: bool = True) -> None:
        """Keep a note or message in every context of this session; `on=False` unpins it."""
    def forget(self, *targets: str, dry_run: bool = False, by: str = "") -> ForgetResult:
        """Forget messages, by id or by the id of a note made from them, with everything derived from them.
        `by` names who asked for it; `/v1/forgotten` lists that.
        """
    def delete(self, *, by: str = "") -> bool:
        """Delete the session with everything in it; False if there was none. `by` names who asked for it;
        `/v1/forgotten` lists that.
        """

class RemoteMemory:
    """The memory of a server; made by `connect`."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def open(self) -> None:
        """Check that the server answers.

        Raises:
            StoreError: It cannot be reached, or is not ready.
        """
    def close(self) -> None:
        """Close the connections."""
    def session(self, key: str, *, owner: str | None = None) -> RemoteSession:
        """One conversation."""
    def search(
        self,
        query: str,
        *,
        owner: str | None = None,
        session: str | None = None,
        kinds: Sequence[HitKind] = ...,
        limit: int = 20,
        after: datetime | None = None,
        before: datetime | None = None,
    ) -> Sequence[Hit]:
        """Search the messages and notes of an owner's sessions, or of the one with that key."""
    def settle(self, *, progress: Progress | None = None) -> None:
        """Take every note that is due, in every session, before returning. `progress`, here and below, is
        called with how many are done, and the total.
        """
    def consolidate(
        self,
        *,
        owner: str | None = None,
        older_than: timedelta = ...,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Sequence[Consolidated]:
        """Make items of the server's old daily notes, and archive their files."""
    def export(self, target: str | Path, *, owner: str | None = None, session: str | None = None) -> int:
        """Write everything, or what belongs to one owner or session, to a new file of JSON lines. Returns the
        number of rows.

        Raises:
            StoreError: The file exists or cannot be written, or the server cannot be reached.
        """
    def import_file(
        self,
        source: str | Path,
        *,
        owner: str | None = None,
        all_owners: bool = False,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> dict[str, int]:
        """Import what `export` wrote: what belongs to an owner, or with `all_owners` everything. Returns the
        number of rows of each kind. Each session is imported whole or not at all.

        Raises:
            SettingsError: The file is not a complete export, or has rows of an owner that was not
                named.
            ConflictError: A session exists already, or another item with the same id, and `replace` is off.
            StoreError: The file cannot be read, or the server cannot be reached, or cannot write.
        """
    def call(
        self, method: str, path: str, *, params: Mapping[str, Any] | None = None, json: object = None
    ) -> Any:
        """Send a request for which there is no method here, and return the answer. The server's /docs lists
        all requests.

        Raises:
            OnlookerError: The server refused it, with the same error as in the library.
            StoreError: The server cannot be reached.
        """

def open_memory(
    url: str | Path | Store = "onlooker.db",
    *,
    key: Key | str | bytes | None = None,
    model: str | Model | None = None,
    reflector: str | Model | None = None,
    settings: Settings | str | Path | None = None,
    owner: str | None = None,
    budget: int | None = None,
    spend: Spend | None = None,
    instruction: str | None = None,
    extractors: Sequence[type[Extractor]] = ...,
    knowledge: Layers | None = None,
    embedder: str | Embedder | None = None,
    notes_folder: str | Path | None = None,
    workers: WorkerMode = "embedded",
    timing: Timing = ...,
    clock: Clock | None = None,
    tz: str | tzinfo | None = None,
) -> Memory:
    """Open a memory. Use it with `async with`.

    Args:
        url: A file for SQLite (created if missing), "postgresql://USER@HOST/DATABASE" for PostgreSQL (needs
            `onlooker[postgres]`), ":memory:" to store nothing, or a store.
        key: The key of an encrypted SQLite file: a `Key`, 32 bytes, 64 hexadecimal digits, or a passphrase.
            Needs `onlooker[encrypted]`.
        model: The model that writes observations, or its name, such as "anthropic:claude-haiku-4-5". A model
            in the settings takes precedence, so that an operator can choose a cheaper one than the agent's.
            The default is the built-in extractive model.
        reflector: The model that condenses observations, in the same way; by default the observer.
        settings: Settings, the name of a preset ("default", "lango", "zora"), or a TOML or JSON file, such as
            "onlooker.toml". No other file is read.
        owner: The owner of sessions that are opened without one, for an agent of one person. Without it, such
            sessions share nothing.
        budget: The tokens of a whole context, if a call gives no budget.
        spend: The most that notes may cost per session, owner and day. Beyond it the built-in model writes
            them. By default the limits of the settings.
        instruction: What to note, in your own words, for language models; the built-in one ignores it.
        extractors: Pydantic models that are filled in from the messages with each note, for
            `Session.extracted`. They need a language model.
        knowledge: What every context holds besides the conversation, in layers by name: texts, functions to
            call, or a `Layer` of either.
        embedder: The embedder with which search and recall also find by meaning, or its name, such as
            "openai:text-embedding-3-small" or "local:BAAI/bge-small-en-v1.5".
        notes_folder: The folder of MEMORY.md and daily notes, for people to read and edit; by default none.
        workers: Who takes notes: "embedded", tasks in this process; "beside", the same with a second process
            for the built-in model; "external", other processes, so that this one only records; "queue", this
            process through a shared queue on PostgreSQL.
        timing: Intervals and deadlines, for tests and for operators who have measured that they need others.
        clock: The source of the time, for tests.
        tz: The time zone of messages without one, by name, such as "Europe/Oslo", or as a `tzinfo`; by
            default that of the settings.
    """

def connect(
    url: str, *, token: str | None = None, owner: str | None = None, timeout: float = 60.0
) -> RemoteMemory:
    """A server's memory, to be used with `async with`.

    Args:
        url: The address of `onlooker serve`, such as "http://127.0.0.1:8787".
        token: The token that `onlooker token make` printed, if the server requires one.
        owner: The owner of sessions that name none; by default the token's own.
        timeout: The maximum number of seconds for a request.
    """

def migrate(
    src: Location,
    dst: Location,
    *,
    key: Key | str | bytes | None = None,
    new_key: Key | str | bytes | None = None,
    dry_run: bool = False,
    replace: bool = False,
    index: bool = True,
    batch: int = 500,
    progress: Callable[[MigrationProgress], None] | None = None,
) -> MigrationReport:
    """Copy everything from one store into another of any kind, and compare the two.

    It can be stopped at any time; started again, it continues. A session that has grown in `src` is copied
    again. One that is different in `dst` is refused, and named in the report.

    Args:
        src: What `open_memory` takes. It is only read, in one snapshot.
        dst: The same; it is created if missing.
        key: The key of `src`, if that is an encrypted file.
        new_key: The key of `dst`, if that is an encrypted file or is to become one.
        dry_run: Only report what would be done: nothing is written or created.
        replace: Replace sessions that are different in `dst`.
        index: Index what was copied now, not at the first search.
        batch: About how many sessions are compared at a time.
        progress: Called with the progress.

    Raises:
        StoreError: A side cannot be read or written, or `dst` does not hold what was copied.
    """
