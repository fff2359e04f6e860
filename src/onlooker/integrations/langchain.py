"""LangChain and LangGraph: a middleware. It needs `onlooker[langchain]`.

agent = create_agent(model, tools=[…], middleware=[OnlookerMiddleware("agent.db")], checkpointer=…)
agent.invoke({"messages": […]}, {"configurable": {"thread_id": "42", "user_id": "ana"}})
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain.agents.middleware.internal_call_transformer import internal_call_metadata
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_config

from onlooker.integrations import framework

Response = ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]


class OnlookerMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gives an agent memory: each model call sees notes and the newest messages, within a budget.

    The thread is the session. Its owner is `user_id` of the configuration, or of the runtime's context. What
    the graph stores is not changed. A thread without an id has no memory, unless `onlooker.use_session` names
    a session.

    Args:
        memory: A file or a URL, so that the agent's own model writes the notes; or what
            `onlooker.open_memory` or `onlooker.blocking.open_memory` returned.
        owner: The owner of the threads, if the configuration names none.
        budget: Tokens for a prompt; by default the memory's own.
        tools: Whether the agent gets the memory's tools.
    """

    def __init__(
        self, memory: framework.AnyMemory, *, owner: str = "", budget: int | None = None, tools: bool = True
    ) -> None:
        super().__init__()
        self._host = framework.Host(memory, owner=owner, budget=budget)
        self.tools = [self._tool(definition) for definition in framework.DEFINITIONS] if tools else []

    def close(self) -> None:
        """Close the memory if it was opened here."""
        self._host.close()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Response:
        session = self._session(request)
        if session is None:
            return handler(request)
        prompt = self._host.run_blocking(self._prepare(session, request), None)
        response: Response = handler(_with_memory(request, prompt) if prompt else request)
        self._host.run_blocking(self._host.record(session, _said(response)), None)
        return response

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> Response:
        session = self._session(request)
        if session is None:
            return await handler(request)
        prompt = await self._host.run(self._prepare(session, request), None)
        response: Response = await handler(_with_memory(request, prompt) if prompt else request)
        await self._host.run(self._host.record(session, _said(response)), None)
        return response

    def _session(self, request: ModelRequest[Any]) -> framework.Session | None:
        self._host.bind(_make_ask(request.model))
        return self._current(getattr(request.runtime, "context", None))

    def _current(self, context: object = None) -> framework.Session | None:
        try:
            named: Mapping[str, Any] = get_config().get("configurable", {})
        except RuntimeError:  # outside of a graph
            named = {}
        about = cast("Mapping[str, Any]", context) if isinstance(context, Mapping) else _fields(context)
        user = about.get("user_id") or named.get("user_id") or named.get("langgraph_auth_user_id")
        return self._host.session(named.get("thread_id"), user)

    async def _prepare(
        self, session: framework.Session, request: ModelRequest[Any]
    ) -> framework.Prompt[AnyMessage] | None:
        system = request.system_message.text if request.system_message else ""
        return await self._host.prepare(session, request.messages, system, read=read, write=write)

    def _tool(self, definition: framework.Definition) -> BaseTool:
        def run(**arguments: Any) -> str:
            called = self._host.call_tool(self._current(), definition.name, arguments)
            return self._host.run_blocking(called, framework.UNREACHABLE)

        async def arun(**arguments: Any) -> str:
            called = self._host.call_tool(self._current(), definition.name, arguments)
            return await self._host.run(called, framework.UNREACHABLE)

        return StructuredTool(
            name=definition.name,
            description=definition.description,
            args_schema=dict(definition.parameters),
            func=run,
            coroutine=arun,
        )


def _fields(context: object) -> Mapping[str, Any]:
    """The fields of a runtime's context."""
    return {"user_id": getattr(context, "user_id", None)}


def _make_ask(model: BaseChatModel) -> framework.Ask:
    """Ask the agent's model without adding to the streams of its run."""
    config: Any = {"callbacks": [], "metadata": internal_call_metadata()}

    async def ask(system: str, user: str) -> str:
        said = [SystemMessage(system), HumanMessage(user)]
        # In a thread, because an async client has its connections on another event loop.
        return (await asyncio.to_thread(model.invoke, said, config)).text

    return ask


def _with_memory(request: ModelRequest[Any], prompt: framework.Prompt[AnyMessage]) -> ModelRequest[Any]:
    system = request.system_message
    if system is not None and not isinstance(system.content, str):
        added = [{"type": "text", "text": prompt.memory}] if prompt.memory else []
        system = system.model_copy(update={"content": [*system.content, *added]})
    elif prompt.system:
        system = SystemMessage(prompt.system)
    messages = [*prompt.messages, *([HumanMessage(prompt.note)] if prompt.note else [])]
    return request.override(messages=messages, system_message=system)


def _said(response: Response) -> list[framework.Item]:
    if isinstance(response, ExtendedModelResponse):
        response = response.model_response
    messages = [response] if isinstance(response, AIMessage) else response.result
    return [item for message in messages for item in read(cast("AnyMessage", message))]


# -- Messages

# A model's thinking, and calls that `tool_calls` has as well.
_SKIPPED_BLOCKS = (
    "thinking",
    "reasoning",
    "redacted_thinking",
    "tool_use",
    "tool_call",
    "tool_call_chunk",
    "server_tool_call",
)


def read(message: AnyMessage) -> list[framework.Item]:
    """Translate a message of LangChain into OpenAI's form."""
    content: Any = message.content
    if not isinstance(content, str):
        blocks: list[framework.Item] = [
            {"type": "text", "text": b} if isinstance(b, str) else dict(b) for b in content
        ]
        content = [b for b in blocks if b.get("type") not in _SKIPPED_BLOCKS]
    match message:
        case AIMessage():
            calls = [(str(c["id"]), c["name"], c["args"]) for c in message.tool_calls]
            return [framework.chat("assistant", content, calls)]
        case ToolMessage():
            return [framework.result(message.tool_call_id, content)]
        case SystemMessage():
            return [framework.chat("system", content)]
        case HumanMessage():
            return [framework.chat("user", content) | ({"name": message.name} if message.name else {})]
        case _:
            return []


def write(turn: framework.Message | framework.Exchange) -> Iterable[AnyMessage]:
    """Translate into messages of LangChain."""
    role, text = framework.role_and_text(turn)
    if role == "user":
        return [HumanMessage(text)]
    calls: Any = [
        {"name": c.name, "args": framework.arguments_of(c), "id": c.id} for c in framework.calls_of(turn)
    ]
    results = [ToolMessage(said, tool_call_id=c.id, name=c.name) for c, said in framework.results_of(turn)]
    return [AIMessage(text, tool_calls=calls), *results]
