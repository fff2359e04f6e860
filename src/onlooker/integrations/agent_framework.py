"""Microsoft Agent Framework: a context provider. It needs `onlooker[agent-framework]`.

agent = Agent(client, context_providers=[OnlookerProvider("agent.db")])
await agent.run("Hi", session=agent.create_session(session_id="42"), options={"user": "ana"})
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from agent_framework import (
    AgentSession,
    BaseChatClient,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    Content,
    ContextProvider,
    FunctionTool,
    Message,
    SessionContext,
)

from onlooker.integrations import framework


class OnlookerProvider(ContextProvider):
    """Gives an agent memory: each model call sees notes and the newest messages, within a budget.

    The framework's session is the session. Its owner is `user` of the options, or `user_id` of the session's
    state. What history providers store is not changed. If the service keeps the conversation, or history is
    loaded for each model call, the conversation is only recorded, because a context provider cannot change
    it.

    Args:
        memory: A file or a URL, so that the agent's own model writes the notes; or what
            `onlooker.open_memory` or `onlooker.blocking.open_memory` returned.
        owner: The owner of the sessions, if neither options nor state name one.
        budget: Tokens for a prompt; by default the memory's own.
        tools: Whether the agent gets the memory's tools.
    """

    def __init__(
        self, memory: framework.AnyMemory, *, owner: str = "", budget: int | None = None, tools: bool = True
    ) -> None:
        super().__init__("onlooker")
        self._host = framework.Host(memory, owner=owner, budget=budget)
        self._tools = tools

    def close(self) -> None:
        """Close the memory if it was opened here."""
        self._host.close()

    async def before_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        options: Mapping[str, Any] = {**(getattr(agent, "default_options", None) or {}), **context.options}
        user = options.get("user") or session.state.get("user_id")
        found = self._host.session(session.session_id, user)
        if found is None:
            return
        loads_late = bool(getattr(agent, "require_per_service_call_history_persistence", False))
        context.extend_middleware(self.source_id, _Calls(self._host, found, loads_late))
        if self._tools:
            context.extend_tools(self.source_id, [_tool(self._host, found, d) for d in framework.DEFINITIONS])


class _Calls(ChatMiddleware):
    """Puts memory into the model calls of one run."""

    def __init__(self, host: framework.Host, session: framework.Session, loads_late: bool) -> None:
        self._host = host
        self._session = session
        self._loads_late = loads_late

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        if self._host.wants_model:
            self._host.bind(framework.on_loop(asyncio.get_running_loop(), _make_ask(context.client)))
        options = dict(context.options or {})
        prompt = await self._host.run(self._prepare(context.messages, options), None)
        if prompt and not self._loads_late and not _is_stored_by_service(context.client, options):
            end = [Message("user", [prompt.note])] if prompt.note else []
            context.messages = [*prompt.messages, *end]
            # These options are only for this call: the next call of the run starts with the run's own.
            context.options = {**options, "instructions": prompt.system} if prompt.system else options
        if context.stream:
            context.stream_result_hooks.append(self._record)
        await call_next()
        if isinstance(context.result, ChatResponse):
            await self._record(context.result)

    async def _prepare(
        self, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> framework.Prompt[Message] | None:
        given: Any = options.get("instructions") or ""
        system = given if isinstance(given, str) else "\n".join(given)
        return await self._host.prepare(self._session, messages, system, read=read, write=write)

    async def _record(self, response: ChatResponse[Any]) -> None:
        said = [item for message in response.messages for item in read(message)]
        await self._host.run(self._host.record(self._session, said), None)


def _is_stored_by_service(client: Any, options: Mapping[str, Any]) -> bool:
    """Whether the service stores the history that the model sees."""
    stores = options.get("store")
    return bool(options.get("conversation_id")) or bool(
        getattr(client, "STORES_BY_DEFAULT", False) if stores is None else stores
    )


def _tool(host: framework.Host, session: framework.Session, definition: framework.Definition) -> FunctionTool:
    async def run(**arguments: Any) -> str:
        return await host.run(host.call_tool(session, definition.name, arguments), framework.UNREACHABLE)

    return FunctionTool(
        name=definition.name,
        description=definition.description,
        func=run,
        input_model=dict(definition.parameters),
    )


def _make_ask(client: Any) -> framework.Ask:
    """Ask the agent's model, outside of every run."""
    stored = {"store": False} if getattr(client, "STORES_BY_DEFAULT", False) else {}
    # Below the layers of the client that trace a call and pass it to middleware.
    layer: Any = BaseChatClient if isinstance(client, BaseChatClient) else type(client)

    async def ask(system: str, user: str) -> str:
        said = [Message("user", [user])]
        options = {"instructions": system, **stored}
        response: ChatResponse[Any] = await layer.get_response(client, said, options=options)
        return response.text

    return ask


# -- Messages


def read(message: Message) -> list[framework.Item]:
    """Translate a message of the framework into OpenAI's form. A model's thinking is not part of the
    conversation, nor are tools that its provider runs."""
    text = "\n".join(c.text for c in message.contents if c.type == "text" and c.text)
    if message.role == "assistant":
        made = [c for c in message.contents if c.type == "function_call" and not c.informational_only]
        calls = [(c.call_id or "", c.name or "tool", c.arguments or {}) for c in made if not c.hosted]
        return [framework.chat("assistant", text, calls)] if text or calls else []
    items = [
        framework.result(c.call_id or "", _result(c)) for c in message.contents if c.type == "function_result"
    ]
    files = [
        {"type": "file", "file": {"filename": c.media_type or "file"}}
        for c in message.contents
        if c.type in ("data", "uri", "hosted_file")
    ]
    name = {"name": message.author_name} if message.author_name and message.role == "user" else {}
    if files:
        items.append(
            framework.chat("user", [*([{"type": "text", "text": text}] if text else []), *files]) | name
        )
    elif text and message.role != "tool":
        items.append(framework.chat("system" if message.role == "system" else "user", text) | name)
    return items


def _result(content: Content) -> str:
    return str(content.result or content.exception or "")


def write(turn: framework.Message | framework.Exchange) -> Iterable[Message]:
    """Translate into messages of the framework."""
    role, text = framework.role_and_text(turn)
    said = [Content.from_text(text)] if text else []
    calls = [
        Content.from_function_call(c.id, c.name, arguments=framework.arguments_of(c))
        for c in framework.calls_of(turn)
    ]
    results = [Content.from_function_result(c.id, result=told) for c, told in framework.results_of(turn)]
    answered = [Message("tool", results)] if results else []
    return [Message(role, [*said, *calls]), *answered]
