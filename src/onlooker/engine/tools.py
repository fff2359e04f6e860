"""Four tools for an agent: search, save and forget memories, and read earlier messages.

Each is an async function that takes the arguments of its JSON Schema and returns text. None raises into the
agent's turn: the text says what went wrong and what to do.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, cast

from onlooker.domain.errors import NotFoundError, OnlookerError, SettingsError
from onlooker.domain.frozen import frozen
from onlooker.domain.items import ITEM_STATUSES, Item, ItemType
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.search import Hit
from onlooker.engine.items import MAX_ITEMS, Items
from onlooker.engine.recall import Search
from onlooker.policy.items.tools import DEFINITIONS, Definition, problem_with
from onlooker.policy.prompts import abbreviate
from onlooker.policy.render import text_lines
from onlooker.policy.settings import Settings
from onlooker.ports import Clock, Store

log = logging.getLogger("onlooker")

DEFAULT_RESULTS = 5
# Messages on a page of `recall`, and characters shown of each.
PAGE = 20
MAX_CHARACTERS = 2_000
# How many of the newest messages are searched for what the user said about a fact that an agent wants to end.
EVIDENCE = 60
# Messages shown before and after a single recalled message.
NEIGHBOURS = 3

_NO_OWNER = (
    "Not saved: this conversation has no owner, so nothing is kept beyond it. Continue without saving; the "
    "developer can name one with memory.session(key, owner=...)."
)


@frozen
class Tool:
    """One tool, for any framework: call it, or pass on its definition."""

    definition: Definition
    run: Callable[..., Awaitable[str]] = field(repr=False)

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def description(self) -> str:
        return self.definition.description

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments as JSON Schema; a new copy each time."""
        return json.loads(json.dumps(self.definition.parameters))

    def openai(self) -> dict[str, Any]:
        """The definition for the OpenAI chat API."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def anthropic(self) -> dict[str, Any]:
        """The definition for the Anthropic API."""
        return {"name": self.name, "description": self.description, "input_schema": self.parameters}

    async def __call__(self, **arguments: Any) -> str:
        """Run the tool. Failures are described in the answer."""
        if problem := problem_with(self.definition, arguments):
            return f"Not done: {problem}"
        try:
            return await self.run(**arguments)
        except OnlookerError as error:
            log.warning("%s: %s", self.name, error)
            return f"Not done: {error}. Continue without it, or try again later."
        except Exception:
            # No failure may end the agent's turn.
            log.exception("%s failed: this is a bug in Onlooker", self.name)
            return f"Not done: {self.name} failed. Continue without it."


class Tools:
    """The tools of one session. They reach the memory of its owner, and nobody else's."""

    def __init__(
        self,
        session: SessionId,
        store: Store,
        settings: Settings,
        clock: Clock,
        items: Items,
        *,
        search: Callable[[Search, str], Awaitable[Sequence[Hit]]],
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        own = _Functions(session, store, settings, clock, items, search, ready)
        functions = (own.search, own.save, own.forget, own.recall)
        self._tools = tuple(Tool(d, run) for d, run in zip(DEFINITIONS, functions, strict=True))

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, name: str) -> Tool:
        return {tool.name: tool for tool in self}[name]

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def openai(self) -> list[Any]:
        """All tools, for `tools=` of an OpenAI-compatible chat API, as dictionaries."""
        return [tool.openai() for tool in self]

    def anthropic(self) -> list[Any]:
        """All tools, for `tools=` of the Anthropic API, as dictionaries."""
        return [tool.anthropic() for tool in self]

    async def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> str:
        """Run a tool by name, with arguments as a mapping or as a model's JSON text."""
        tool = next((t for t in self if t.name == name), None)
        if tool is None:
            return f"Not done: there is no tool {name!r}; use one of {', '.join(t.name for t in self)}."
        given = _mapping(arguments)
        if given is None:
            return f"Not done: the arguments of {name} must be a JSON object."
        return await tool(**given)


def _mapping(arguments: Mapping[str, Any] | str | None) -> dict[str, Any] | None:
    if isinstance(arguments, str):
        try:
            found: object = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return None
        return cast("dict[str, Any]", found) if isinstance(found, dict) else None
    return {str(key): value for key, value in (arguments or {}).items()}


@frozen
class _Functions:
    """The functions behind the tools."""

    session: SessionId
    store: Store
    settings: Settings
    clock: Clock
    items: Items
    find: Callable[[Search, str], Awaitable[Sequence[Hit]]]
    ready: Callable[[], Awaitable[None]]

    @property
    def owner(self) -> str:
        return self.session.owner

    # -- search

    async def search(self, query: str, limit: int = DEFAULT_RESULTS) -> str:
        await self.ready()
        facts: Sequence[str] = ()
        if self.settings.shares_items(self.owner):
            facts = [
                _fact_line(f.item) for f in await self.items.search(query, owner=self.owner, limit=limit)
            ]
        said = await self._hit_lines(query, limit)
        parts = [("Facts", facts), ("Notes and messages", said)]
        shown = [f"{title}:\n" + "\n".join(lines) for title, lines in parts if lines]
        return "\n\n".join(shown) or f"Nothing is remembered about {query!r}. Try other words, or ask."

    async def _hit_lines(self, query: str, limit: int) -> list[str]:
        # Sessions without an owner may belong to anyone, so only this one is searched.
        where = None if self.settings.shares_items(self.owner) else self.session
        hits = await self.find(Search(self.owner, where, limit=limit, taken_back=False), query)
        return [self._hit_line(hit) for hit in hits]

    def _hit_line(self, hit: Hit) -> str:
        home = "" if hit.session == self.session else f", session {hit.session.key}"
        day = f"{hit.at:%Y-%m-%d}, " if hit.at else ""
        who = f"{hit.speaker}: " if hit.speaker else ""
        said = " ".join(hit.snippet.split())  # on one line, so that it cannot pass for another hit
        return f"[{hit.id}] {who}{said} ({day}{hit.kind}{home})"

    # -- save

    async def save(
        self,
        summary: str,
        type: ItemType = "knowledge",
        tags: Sequence[str] = (),
        supersedes: str = "",
        expires: str = "",
    ) -> str:
        from onlooker.policy.items.tools import check_save

        await self.ready()
        if not self.settings.shares_items(self.owner):
            return _NO_OWNER
        try:
            expires_at = _end_of(expires) if expires else None
        except (ValueError, OverflowError):
            return "Not saved: expires must be a day as YYYY-MM-DD."
        everything = await self.store.items(self.owner, statuses=ITEM_STATUSES, limit=MAX_ITEMS)
        if refusal := check_save(summary, self._save_times(everything), self.clock.now()):
            return refusal.advice
        if supersedes and (refusal := await self._refusal_to_end(supersedes)):
            return f"Not saved: {refusal}"
        try:
            item = await self.items.save(
                summary,
                owner=self.owner,
                type=type,
                tags=tags,
                origin="agent",
                supersedes=supersedes,
                expires_at=expires_at,
                session=self.session.key,
                sources=await self._turn(),
            )
        except SettingsError as error:
            if error.key == "summary":
                return error.allowed  # it repeats or contradicts a known fact
            return f"Not saved: {error.key} {error.allowed}. memory_search shows the ids."
        return f"Saved as {item.id}" + (f", in place of {supersedes}." if supersedes else ".")

    async def _turn(self) -> list[str]:
        """The ids of the messages since the user's last one: what an agent saves now comes from these."""
        state = await self.store.load(self.session, newest=EVIDENCE)
        messages = state.messages if state else ()
        last = max((i for i, m in enumerate(messages) if m.role == "user"), default=0)
        return [m.id for m in messages[last:]]

    def _save_times(self, items: Sequence[Item]) -> list[datetime]:
        """The times at which an agent saved something in this session."""
        own = (i for i in items if i.session == self.session.key and i.origin == "agent")
        return [i.made_at for i in own]

    # -- forget

    async def forget(self, id: str) -> str:
        await self.ready()
        if refusal := await self._refusal_to_end(id):
            return f"Not forgotten: {refusal}"
        try:
            gone = await self.items.forget(id, owner=self.owner, by="agent")
        except NotFoundError:
            return f"Nothing forgotten: there is no fact {id!r}. memory_search shows the ids of facts."
        return "Forgotten: " + "; ".join(f'"{item.summary}"' for item in gone)

    async def _refusal_to_end(self, ident: str) -> str:
        """Why an agent may not end this fact: a person pinned it, or the user said it and has not mentioned
        it here. Something that the agent read may have told it to."""
        for item in await self.store.items(self.owner, ids=[ident]):
            if item.pinned:
                return "a person pinned this fact, and only a person can end it."
            if item.origin == "user" and not await self._mentions(item):
                return (
                    "the user said this, and has not said in this conversation that it changed. Ask the "
                    "user; once they have said so, try again."
                )
        return ""

    async def _mentions(self, item: Item) -> bool:
        """Whether the user's own words in this session are about the fact."""
        from onlooker.policy.instructions import own_words
        from onlooker.policy.search.words import telling_tokens

        state = await self.store.load(self.session, newest=EVIDENCE)
        said = [own_words(m.text) for m in state.messages if m.role == "user"] if state else []
        about = set(telling_tokens(" ".join((item.summary, *item.tags))))
        return any(not about.isdisjoint(telling_tokens(text)) for text in said)

    # -- recall

    async def recall(self, id: str, session: str = "", page: int = 1) -> str:
        await self.ready()
        # Sessions without an owner may belong to anyone, so only this one is reached.
        if session and session != self.session.key and not self.settings.shares_items(self.owner):
            return f"Nothing found for {id!r}: this conversation has no owner, so it cannot reach others."
        messages = await self._messages_behind(id, SessionId(self.owner, session or self.session.key))
        if not messages:
            return f"Nothing found for {id!r}. memory_search shows the ids of notes and facts."
        pages = -(-len(messages) // PAGE)
        if page > pages:
            return f"{id!r} has no page {page}; its last is page {pages}."
        shown = [_shorten(m) for m in messages[(page - 1) * PAGE : page * PAGE]]
        more = f"\n(page {page} of {pages}; use page={page + 1} for the next)" if page < pages else ""
        return text_lines(shown) + more

    async def _messages_behind(self, ident: str, session: SessionId) -> Sequence[Message]:
        """The messages behind a note or a fact, or a message with its neighbours."""
        store = self.store
        sources: Sequence[str] = (ident,)
        for item in await store.items(self.owner, statuses=("live", "ended"), ids=[ident]):
            sources, session = item.sources, SessionId(self.owner, item.session)
        found = [m for source in sources for m in await store.sources(session, source)]
        if found:
            return found
        seqs = [digest.seq for digest in await store.digests(session) if digest.id in sources]
        return await store.around(session, seqs, NEIGHBOURS) if seqs else ()


def _fact_line(item: Item) -> str:
    from onlooker.policy.items.choose import shown_summary

    since = f", since {item.valid_from:%Y-%m-%d}" if item.valid_from else ""
    said = {"user": "said by the user", "agent": "noted by an assistant", "tool": "from a tool"}[item.origin]
    return f"[{item.id}] {shown_summary(item)} ({item.type}{since}, {said})"


def _end_of(day: str) -> datetime:
    """The time at which a day has ended in every time zone."""
    return datetime.combine(date.fromisoformat(day), time(), UTC) + timedelta(days=2)


def _shorten(message: Message) -> Message:
    return replace(message, text=abbreviate(message.text, MAX_CHARACTERS))
