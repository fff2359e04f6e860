"""MCP: memory as tools, resources and a prompt, for programs that speak the Model Context Protocol.

`onlooker mcp` speaks it on stdin and stdout for one owner; the server at `/mcp`, for the owner of the token.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Annotated, Any, Literal, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, InputRequiredResult
from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.routing import BaseRoute

from onlooker import __version__
from onlooker.domain.errors import OnlookerError
from onlooker.domain.frozen import frozen
from onlooker.domain.items import ItemType
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.policy.items.tools import FORGET, RECALL, SAVE, SEARCH, Definition, problem_with
from onlooker.policy.text import plain_problem
from onlooker.server.auth import Principal

# The default owner: a person's own memory on their machine.
OWNER = "me"
# The default session of the tools.
SESSION = "mcp"
# How many sessions or notes a resource lists.
MAX_LISTED = 200

INSTRUCTIONS = (
    "Memory of this person and of earlier conversations. Search it before you say that you do not know "
    "something about them, and save what will matter later. `context` gives the memory of a conversation as "
    "text."
)

_Session = Annotated[str, Field(description="The conversation; the default is this one.")]
_Ident = Annotated[str, Field(description="The id in brackets, as memory_search shows it.")]


@frozen
class Target:
    """The owner and session that a request is about."""

    owner: str
    session: str


# Set for each request, because resources without a parameter get no context.
_target: ContextVar[Target] = ContextVar("onlooker_mcp_target")


def make_mcp(memory: Memory, *, owner: str = OWNER, session: str = SESSION) -> MCPServer:
    """Make an MCP server. The owner of a token and the headers of a request override `owner` and
    `session`."""

    async def ask(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        about, request = Target(owner, session), ctx.request
        if isinstance(request, Request):
            principal = cast("Principal", request.state.principal)  # pyright: ignore[reportUnknownMemberType]
            given = request.headers.get("x-onlooker-owner")
            named = given if principal.owner is None else principal.owner
            about = Target(named or owner, request.headers.get("x-onlooker-session") or session)
        reset = _target.set(about)
        try:
            return await call_next(ctx)
        finally:
            _target.reset(reset)

    server = _Server(
        "onlooker", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING", middleware=[ask]
    )
    offered = Offered(memory)
    server.add_tool(offered.memory_search, description=SEARCH.description)
    server.add_tool(offered.memory_save, description=SAVE.description)
    server.add_tool(offered.memory_forget, description=FORGET.description)
    server.add_tool(offered.recall, description=RECALL.description)
    server.add_tool(offered.record)
    server.add_tool(offered.context)
    server.resource("onlooker://sessions", mime_type="application/json")(offered.sessions)
    server.resource("onlooker://sessions/{key}/notes", mime_type="text/plain")(offered.notes)
    server.prompt("memory")(offered.remember)
    return server


class _Server(MCPServer):
    """An MCP server that says in one sentence what is wrong with a call, as the library's tools do."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, OnlookerError):
                raise ToolError(f"Not done: {cause}") from cause
            if not isinstance(cause, ValidationError):
                raise
            (parameters,) = [tool.input_schema for tool in await self.list_tools() if tool.name == name]
            problem = problem_with(Definition(name, "", parameters), arguments)
            raise ToolError(f"Not done: {problem or plain_problem(cause.errors()[0]['msg'])}") from error


class Offered:
    """The tools, resources and prompt of the server. Their names, arguments and docstrings are what a client
    sees."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def _session(self, key: str = "") -> Session:
        about = _target.get()
        return self._memory.session(key or about.session, owner=about.owner)

    async def _use(self, tool: str, **arguments: Any) -> str:
        given = {name: value for name, value in arguments.items() if value not in ("", None, ())}
        return await self._session().tools().call(tool, given)

    # -- the library's tools for agents, which have their descriptions

    async def memory_search(
        self,
        query: Annotated[str, Field(description="Words to look for: names, topics, values.")],
        limit: Annotated[int, Field(ge=1, le=20)] = 5,
    ) -> str:
        return await self._use("memory_search", query=query, limit=limit)

    async def memory_save(
        self,
        summary: Annotated[str, Field(description='Such as "Ana is allergic to peanuts".')],
        type: ItemType = "knowledge",
        tags: Annotated[list[str], Field(description="Words to find it by.")] = [],  # noqa: B006  a schema's default
        supersedes: Annotated[str, Field(description="The id of the fact that it replaces.")] = "",
        expires: Annotated[str, Field(description="The last day on which it is needed, YYYY-MM-DD.")] = "",
    ) -> str:
        about = {"type": type, "tags": tags or None, "supersedes": supersedes, "expires": expires}
        return await self._use("memory_save", summary=summary, **about)

    async def memory_forget(self, id: _Ident) -> str:
        return await self._use("memory_forget", id=id)

    async def recall(self, id: _Ident, session: _Session = "", page: Annotated[int, Field(ge=1)] = 1) -> str:
        return await self._use("recall", id=id, session=session, page=page)

    # -- a conversation

    async def record(
        self,
        text: Annotated[str, Field(min_length=1, description="What was said, word for word.")],
        role: Literal["user", "assistant"] = "user",
        session: _Session = "",
    ) -> str:
        """Record what was said, so that it is remembered."""
        done = await self._session(session).record({"role": role, "content": text})
        return f"Recorded as {done[0].id}."

    async def context(
        self,
        session: _Session = "",
        budget: Annotated[
            int, Field(ge=100, le=1_000_000, description="The maximum number of tokens.")
        ] = 4_000,
        question: Annotated[
            str, Field(description="A question that the context should help to answer.")
        ] = "",
    ) -> str:
        """The memory of a conversation as text: notes, and the newest messages."""
        found = await self._session(session).context(budget=budget, question=question)
        return found.text().strip() or "Nothing is remembered yet."

    async def sessions(self) -> str:
        """The conversations that are remembered, most recently used first."""
        found = await self._memory.sessions(owner=_target.get().owner, limit=MAX_LISTED)
        listed = [
            {
                "key": s.progress.session.key,
                "messages": s.messages,
                "last_at": s.last_at and s.last_at.isoformat(),
            }
            for s in found
        ]
        return json.dumps(listed, ensure_ascii=False)

    async def notes(self, key: str) -> str:
        """The notes of a conversation, oldest first."""
        found = await self._session(key).notes(recent=MAX_LISTED)
        return "\n\n".join(note.text for note in found) or "No notes yet."

    async def remember(self, session: str = "") -> str:
        """Start with what is remembered of this conversation."""
        found = await self._session(session).context(budget=4_000)
        return f"This is remembered of our conversation:\n\n{found.text().strip() or '(nothing yet)'}"


def route_of(server: MCPServer) -> BaseRoute:
    """The HTTP route of the server, `/mcp`. Host, origin, size and token are checked before it."""
    app = server.streamable_http_app(
        streamable_http_path="/mcp",
        stateless_http=True,
        json_response=True,
        max_request_body_size=1 << 40,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    (route,) = cast("Sequence[BaseRoute]", app.routes)
    return route
