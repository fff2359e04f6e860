"""The client: sessions of a server, with the same methods as sessions in this process.

    async with onlooker.connect("http://127.0.0.1:8787") as memory:
        session = memory.session("telegram:42", owner="ana")
        await session.record(onlooker.user("I moved to Oslo last week"))
        context = await session.context(system="You are helpful.", budget=16_000)

It needs `onlooker[server]`.
"""

from __future__ import annotations

import asyncio
import json as json_module
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self, cast
from urllib.parse import quote

from onlooker.domain import errors
from onlooker.domain.errors import NotFoundError, OnlookerError, SettingsError, StoreError
from onlooker.domain.events import Consolidated
from onlooker.domain.frozen import frozen
from onlooker.domain.history import ForgetResult
from onlooker.domain.items import Item
from onlooker.domain.messages import GENERATED_ID_PREFIX, Message, MessageLike, SdkMessage, new_id
from onlooker.domain.notes import Note, NoteKind
from onlooker.domain.search import Hit, HitKind
from onlooker.policy.align import Rewind
from onlooker.policy.intake import as_history, as_items, as_mapping
from onlooker.policy.render import Context

if TYPE_CHECKING:
    import httpx2

# Failed requests are repeated. Recording twice does no harm: messages have ids and are recorded once.
TRIES = 3
PAUSE = 0.2

# Called with how much of a job is done, and the total if it is known.
Progress = Callable[[int, int | None], None]


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
    try:
        import httpx2
    except ModuleNotFoundError:
        raise SettingsError("connect", url, 'needs an extra: pip install "onlooker[server]"') from None
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return RemoteMemory(httpx2.AsyncClient(base_url=url, headers=headers, timeout=timeout), owner)


class RemoteMemory:
    """The memory of a server; made by `connect`."""

    def __init__(self, client: httpx2.AsyncClient, owner: str | None = None) -> None:
        self._client = client
        self._owner = owner

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Check that the server answers.

        Raises:
            StoreError: It cannot be reached, or is not ready.
        """
        await self.call("GET", "/readyz")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def session(self, key: str, *, owner: str | None = None) -> RemoteSession:
        """One conversation."""
        if not isinstance(key, str) or not key:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SettingsError("session key", key, "must be text that is not empty")
        return RemoteSession(self, key, owner or self._owner)

    async def search(
        self,
        query: str,
        *,
        owner: str | None = None,
        session: str | None = None,
        kinds: Sequence[HitKind] = ("message", "note"),
        limit: int = 20,
        after: datetime | None = None,
        before: datetime | None = None,
    ) -> Sequence[Hit]:
        """Search the messages and notes of an owner's sessions, or of the one with that key."""
        params: dict[str, Any] = {"q": query, "owner": owner or self._owner, "session": session}
        params |= {"kind": list(kinds), "limit": limit, "after": after, "before": before}
        return _read(tuple[Hit, ...], (await self.call("GET", "/v1/search", params=params))["hits"])

    # -- long jobs, which require a token for all owners. Cancelling the call cancels the job; its results
    # stay.

    async def settle(self, *, progress: Progress | None = None) -> None:
        """Take every note that is due, in every session, before returning. `progress`, here and below, is
        called with how many are done, and the total."""
        await self._job("/v1/settle", progress)

    async def consolidate(
        self,
        *,
        owner: str | None = None,
        older_than: timedelta = timedelta(days=7),
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Sequence[Consolidated]:
        """Make items of the server's old daily notes, and archive their files."""
        params = {"owner": owner or self._owner, "older_than": older_than / timedelta(days=1)}
        done = await self._job("/v1/consolidate", progress, params={**params, "dry_run": dry_run})
        return _read(tuple[Consolidated, ...], [{**day, "file": ""} for day in done["days"]])

    async def export(
        self, target: str | Path, *, owner: str | None = None, session: str | None = None
    ) -> int:
        """Write everything, or what belongs to one owner or session, to a new file of JSON lines. Returns the
        number of rows.

        Raises:
            StoreError: The file exists or cannot be written, or the server cannot be reached.
        """
        params = _given({"owner": owner or self._owner, "session": session})
        with await _opened(target, "xb") as file:
            try:
                return await self._download("/v1/export", params, file)
            except BaseException:
                # Half a file could be mistaken for a complete one.
                await asyncio.to_thread(Path(target).unlink, missing_ok=True)
                raise

    async def _download(self, path: str, params: Mapping[str, Any], file: BinaryIO) -> int:
        import httpx2

        rows = 0
        try:
            async with self._client.stream("GET", path, params=params, timeout=None) as answer:
                await _check(answer)
                async for piece in answer.aiter_bytes():
                    rows += piece.count(b"\n")
                    await asyncio.to_thread(file.write, piece)
        except httpx2.TransportError as error:
            raise _unreachable(error) from error
        except OSError as error:
            raise StoreError(f"{file.name}: {error.strerror or error}") from error
        return rows - 2  # the first and the last line are not rows

    async def import_file(
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
        params = {"owner": owner or self._owner, "all_owners": all_owners, "replace": replace}
        with await _opened(source, "rb") as file:
            done = await self._job("/v1/import", progress, params=params, content=_pieces(file))
        return done["rows"]

    async def _job(
        self,
        path: str,
        progress: Progress | None,
        *,
        params: Mapping[str, Any] | None = None,
        content: AsyncIterator[bytes] | None = None,
    ) -> Any:
        """Run a job, and return its result. It is not repeated on failure, because half of it may be done."""
        import httpx2

        given = {**_given(params or {}), "progress": True}
        try:
            async with self._client.stream(
                "POST", path, params=given, content=content, timeout=None
            ) as answer:
                await _check(answer)
                async for line in answer.aiter_lines():
                    said = json_module.loads(line)
                    if "error" in said:
                        raise _named_error(said["error"], said["detail"], StoreError)
                    if "result" in said:
                        return said["result"]
                    if progress:
                        progress(said["done"], said["total"])
        except httpx2.TransportError as error:
            raise _unreachable(error) from error
        raise StoreError("the server stopped before the job was done; its results so far stay")

    async def call(
        self, method: str, path: str, *, params: Mapping[str, Any] | None = None, json: object = None
    ) -> Any:
        """Send a request for which there is no method here, and return the answer. The server's /docs lists
        all requests.

        Raises:
            OnlookerError: The server refused it, with the same error as in the library.
            StoreError: The server cannot be reached.
        """
        import httpx2

        answer, attempt = None, 0
        while answer is None:
            try:
                answer = await self._client.request(method, path, params=_given(params or {}), json=json)
            except httpx2.TransportError as error:
                attempt += 1
                if attempt == TRIES:
                    raise _unreachable(error) from error
                await asyncio.sleep(PAUSE * attempt)
        await _check(answer)
        return answer.json() if answer.content else None


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are given, in the form of a query string."""
    found = {k: v for k, v in params.items() if v is not None}
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in found.items()}


async def _opened(path: str | Path, mode: Literal["rb", "xb"]) -> BinaryIO:
    try:
        return await asyncio.to_thread(Path(path).open, mode)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, 1 << 16):
        yield piece


def _unreachable(error: Exception) -> StoreError:
    return StoreError(f"the server cannot be reached: {type(error).__name__} {error}".rstrip())


async def _check(answer: httpx2.Response) -> None:
    """Raise the server's error as the library raises it."""
    if not answer.is_success:
        await answer.aread()
        raise _error(answer)


def _error(answer: httpx2.Response) -> OnlookerError:
    """The server's error as the library raises it."""
    try:
        problem = cast("dict[str, Any]", answer.json())
    except ValueError:
        problem = {}
    detail = str(problem.get("detail") or f"the server answered {answer.status_code}")
    return _named_error(
        str(problem.get("error")), detail, StoreError if answer.status_code >= 500 else OnlookerError
    )


def _named_error(name: str, detail: str, otherwise: type[OnlookerError]) -> OnlookerError:
    kind = getattr(errors, name, None)
    if kind is NotFoundError:
        return NotFoundError("such thing on the server:", detail)
    if not isinstance(kind, type) or not issubclass(kind, OnlookerError):
        kind = otherwise
    found = kind.__new__(kind)
    found.args = (detail,)
    return found


@frozen
class RemoteSession:
    """One conversation on a server."""

    _memory: RemoteMemory = field(repr=False)
    key: str
    owner: str | None = None

    async def _call(self, method: str, path: str, *, json: object = None, **params: Any) -> Any:
        where = f"/v1/sessions/{quote(self.key, safe='')}{path}"
        return await self._memory.call(method, where, params={"owner": self.owner, **params}, json=json)

    async def record(
        self, *messages: MessageLike | SdkMessage | Sequence[MessageLike | SdkMessage]
    ) -> Sequence[Message]:
        """Record messages. They are durable on return, and recorded once even if the request had to be sent
        again. Returns the new ones.

        Raises:
            MessageError: An argument is not a message; nothing was recorded.
            StoreError: The server cannot be reached, or cannot write.
        """
        now = datetime.now(UTC)
        sent = [_to_wire(item, now) for item in as_items(messages)]
        done = await self._call("POST", "/messages", json={"messages": sent})
        return _read(tuple[Message, ...], done["recorded"])

    async def prepare(
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
        asked = _asked(system, budget, knowledge, end, relative_time, question)
        asked |= {"messages": [_to_wire(item) for item in as_history(history)], "rewind": rewind}
        return _context(await self._call("POST", "/prepare", json=asked))

    async def context(
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
        asked = _asked(system, budget, knowledge, end, relative_time, question)
        return _context(await self._call("POST", "/context", json=asked))

    async def settle(self) -> bool:
        """Take every note that is due before returning."""
        return (await self._call("POST", "/settle"))["settled"]

    async def end(self) -> Sequence[Item]:
        """End the conversation. Returns the items made for the owner's other sessions."""
        return _read(tuple[Item, ...], (await self._call("POST", "/end"))["items"])

    async def notes(self, *, kind: NoteKind | None = None) -> Sequence[Note]:
        """The notes, oldest first."""
        return _read(tuple[Note, ...], await self._pages("/notes", "notes", kind=kind))

    async def messages(self, *, archived: bool = False) -> Sequence[Message]:
        """The messages, oldest first; with `archived`, also those that compaction archived."""
        return _read(tuple[Message, ...], await self._pages("/messages", "messages", archived=archived))

    async def _pages(self, path: str, name: str, **params: Any) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await self._call("GET", path, limit=1_000, cursor=cursor, **params)
            found += page[name]
            cursor = page["next"]
        return found

    async def recall(
        self, target: str | int | Hit, *, neighbours: int = 0, page: int | None = None
    ) -> Sequence[Message]:
        """The messages behind a note (by id), a message (by seq) or a hit of `search`, word for word."""
        if isinstance(target, Hit):
            target = target.seq if target.kind == "message" else target.id
        where = {"seq": target} if isinstance(target, int) else {"note": target}
        found = await self._call("GET", "/recall", neighbours=neighbours, page=page, **where)
        return _read(tuple[Message, ...], found["messages"])

    async def search(
        self,
        query: str,
        *,
        kinds: Sequence[HitKind] = ("message", "note"),
        limit: int = 20,
        after: datetime | None = None,
        before: datetime | None = None,
    ) -> Sequence[Hit]:
        """Search the messages and notes of this session."""
        return await self._memory.search(
            query, owner=self.owner, session=self.key, kinds=kinds, limit=limit, after=after, before=before
        )

    async def pin(self, target: str, *, on: bool = True) -> None:
        """Keep a note or message in every context of this session; `on=False` unpins it."""
        await self._call("PUT" if on else "DELETE", f"/pins/{quote(target, safe='')}")

    async def forget(self, *targets: str, dry_run: bool = False, by: str = "") -> ForgetResult:
        """Forget messages, by id or by the id of a note made from them, with everything derived from them.
        `by` names who asked for it; `/v1/forgotten` lists that."""
        asked = {"targets": targets, "dry_run": dry_run}
        done = await self._call("POST", "/forget", json=asked, by=by)
        return ForgetResult(**done)

    async def delete(self, *, by: str = "") -> bool:
        """Delete the session with everything in it; False if there was none. `by` names who asked for it;
        `/v1/forgotten` lists that."""
        try:
            await self._call("DELETE", "", by=by)
        except NotFoundError:
            return False
        return True


# ------------------------------------------------------------------------------------ the forms


def _asked(
    system: str,
    budget: int | None,
    knowledge: Mapping[str, Any] | None,
    end: str,
    relative_time: bool,
    question: str,
) -> dict[str, Any]:
    for name, text in (knowledge or {}).items():
        if not isinstance(text, str):
            raise SettingsError(f"knowledge.{name}", text, "must be text: a server cannot call your function")
    return {
        "format": "parts",
        "system": system,
        "budget": budget,
        "knowledge": dict(knowledge or {}),
        "end": end,
        "relative_time": relative_time,
        "question": question,
    }


def _to_wire(item: MessageLike, named_at: datetime | None = None) -> dict[str, Any]:
    """A message as JSON; with `named_at` it gets an id if it has none."""
    if isinstance(item, Message):
        wire: dict[str, Any] = {"role": item.role, "content": item.body}
        if item.calls:
            wire["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in item.calls
            ]
        about = {"id": item.id, "name": item.name, "tool_call_id": item.answers}
        wire |= {name: value for name, value in about.items() if value}
        if item.at:
            wire["created_at"] = item.at.isoformat()
    else:
        wire = dict(as_mapping(item) or {})
    if named_at and not wire.get("id"):
        wire["id"] = new_id(GENERATED_ID_PREFIX.rstrip("_"), named_at)
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in wire.items()}


def _context(view: Mapping[str, Any]) -> Context:
    return _read(Context, {**view["parts"], "stats": view["stats"]})


def _read(kind: Any, value: object) -> Any:
    return _adapter(kind).validate_python(value)


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
