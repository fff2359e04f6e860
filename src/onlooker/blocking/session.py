"""One conversation, and its tools, without `await`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from onlooker.blocking.portal import Group, Portal
from onlooker.domain.context import Layers
from onlooker.domain.history import ForgetResult
from onlooker.domain.items import Item as MemoryItem
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Extractor, Note, NoteKind, NoteStatus
from onlooker.domain.search import Hit, HitKind
from onlooker.engine import session as engine
from onlooker.engine import tools as engine_tools
from onlooker.engine.histories import Item
from onlooker.engine.searching import KINDS
from onlooker.policy.render import Context

E = TypeVar("E", bound=Extractor)


class Session:
    """`onlooker.Session`, each method returning when it is done."""

    def __init__(self, session: engine.Session, portal: Portal) -> None:
        self._session = session
        self._portal = portal

    @property
    def id(self) -> SessionId:
        return self._session.id

    @property
    def key(self) -> str:
        return self._session.key

    @property
    def owner(self) -> str:
        return self._session.owner

    @property
    def history(self) -> Any:
        return Group(self._session.history, self._portal)

    def record(self, *messages: Item | Sequence[Item]) -> Sequence[Message]:
        return self._portal.call(self._session.record(*messages))

    def prepare(
        self,
        history: Sequence[Item],
        *,
        system: str = "",
        budget: int | None = None,
        knowledge: Layers | None = None,
        end: str = "",
        relative_time: bool = False,
        question: str = "",
    ) -> Context:
        return self._portal.call(
            self._session.prepare(
                history,
                system=system,
                budget=budget,
                knowledge=knowledge,
                end=end,
                relative_time=relative_time,
                question=question,
            )
        )

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
        return self._portal.call(
            self._session.context(
                system=system,
                budget=budget,
                knowledge=knowledge,
                end=end,
                relative_time=relative_time,
                question=question,
            )
        )

    def settle(self) -> bool:
        return self._portal.call(self._session.settle())

    def end(self) -> Sequence[MemoryItem]:
        return self._portal.call(self._session.end())

    def refresh_items(self) -> Sequence[MemoryItem]:
        return self._portal.call(self._session.refresh_items())

    def tools(self) -> Tools:
        return Tools(self._session.tools(), self._portal)

    def notes(
        self,
        *,
        kind: NoteKind | None = None,
        recent: int | None = None,
        statuses: Sequence[NoteStatus] = ("active",),
    ) -> Sequence[Note]:
        return self._portal.call(self._session.notes(kind=kind, recent=recent, statuses=statuses))

    def extracted(self, type: type[E]) -> list[E]:
        return self._portal.call(self._session.extracted(type))

    def messages(self, *, archived: bool = False) -> Sequence[Message]:
        return self._portal.call(self._session.messages(archived=archived))

    def recall(
        self, target: str | int | Hit, *, neighbours: int = 0, page: int | None = None
    ) -> Sequence[Message]:
        return self._portal.call(self._session.recall(target, neighbours=neighbours, page=page))

    def search(
        self,
        query: str,
        *,
        kinds: Sequence[HitKind] = KINDS,
        limit: int = 20,
        after: datetime | None = None,
        before: datetime | None = None,
        marks: tuple[str, str] = ("", ""),
    ) -> Sequence[Hit]:
        found = self._session.search(query, kinds=kinds, limit=limit, after=after, before=before, marks=marks)
        return self._portal.call(found)

    def pin(self, target: str, *, on: bool = True) -> None:
        self._portal.call(self._session.pin(target, on=on))

    def forget(self, *targets: str, dry_run: bool = False, rewrite_later: bool | None = None) -> ForgetResult:
        return self._portal.call(self._session.forget(*targets, dry_run=dry_run, rewrite_later=rewrite_later))

    def delete(self) -> bool:
        return self._portal.call(self._session.delete())


class Tools:
    """The tools of a session, each call returning when it is done."""

    def __init__(self, tools: engine_tools.Tools, portal: Portal) -> None:
        self._tools = tools
        self._portal = portal

    def openai(self) -> list[dict[str, Any]]:
        return self._tools.openai()

    def anthropic(self) -> list[dict[str, Any]]:
        return self._tools.anthropic()

    def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> str:
        return self._portal.call(self._tools.call(name, arguments))
