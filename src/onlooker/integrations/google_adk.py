"""Google's Agent Development Kit: a plugin and a memory service. It needs `onlooker[google-adk]`.

memory = OnlookerPlugin("agent.db")
app = App(name="friend", root_agent=agent, plugins=[memory])
runner = Runner(app=app, session_service=…, memory_service=OnlookerMemoryService(memory.host))
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from google.adk.agents.callback_context import CallbackContext
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import Session as AdkSession
from google.adk.tools import BaseTool, ToolContext
from google.genai import types

from onlooker import blocking
from onlooker.engine.memory import Memory
from onlooker.integrations import framework


class OnlookerPlugin(BasePlugin):
    """Gives the agents of an app memory: each model call sees notes and the newest messages, within a budget.

    The kit's session is the session, and its user the owner. What the session service stores is not changed.

    Args:
        memory: A file or a URL, so that the agent's own model writes the notes; or what
            `onlooker.open_memory` or `onlooker.blocking.open_memory` returned.
        budget: Tokens for a prompt; by default the memory's own.
        tools: Whether the agents get the memory's tools.
    """

    def __init__(self, memory: framework.AnyMemory, *, budget: int | None = None, tools: bool = True) -> None:
        super().__init__(name="onlooker")
        self.host = framework.Host(memory, budget=budget)
        self._tools: list[BaseTool] = [_Tool(self.host, d) for d in framework.DEFINITIONS] if tools else []

    async def close(self) -> None:
        """Close the memory if it was opened here."""
        await asyncio.to_thread(self.host.close)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        # The request is made for each call, so changes to it are not stored.
        llm_request.append_tools(self._tools)
        model = getattr(getattr(_invocation(callback_context), "agent", None), "canonical_model", None)
        if self.host.wants_model and isinstance(model, BaseLlm):
            self.host.bind(framework.on_loop(asyncio.get_running_loop(), _make_ask(model)))
        session = self._session(callback_context)
        prompt = await self.host.run(self._prepare(session, llm_request), None) if session else None
        if prompt:
            end = [types.Content(role="user", parts=[types.Part(text=prompt.note)])] if prompt.note else []
            llm_request.contents = [*prompt.messages, *end]
            if isinstance(llm_request.config.system_instruction, str | None):
                llm_request.config.system_instruction = prompt.system or None
            elif prompt.memory:
                llm_request.append_instructions([prompt.memory])
        return None

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> LlmResponse | None:
        session = self._session(callback_context)
        if session and llm_response.content and not llm_response.partial:
            await self.host.run(self.host.record(session, read(llm_response.content)), None)
        return None

    def _session(self, context: CallbackContext) -> framework.Session | None:
        return self.host.session(context.session.id, context.session.user_id)

    async def _prepare(
        self, session: framework.Session, request: LlmRequest
    ) -> framework.Prompt[types.Content] | None:
        given = request.config.system_instruction
        system = given if isinstance(given, str) else ""
        return await self.host.prepare(session, request.contents, system, read=read, write=write)


class OnlookerMemoryService(BaseMemoryService):
    """Searches what a user said and what is known about them in all their sessions, for the kit's own tools
    `load_memory` and `preload_memory`.

    Sessions with the plugin are recorded as they happen. Others are recorded when they are added.

    Args:
        memory: The `host` of the plugin, or what `onlooker.open_memory` or `onlooker.blocking.open_memory`
            returned.
    """

    def __init__(self, memory: framework.Host | Memory | blocking.Memory) -> None:
        self._host = memory if isinstance(memory, framework.Host) else framework.Host(memory)

    async def add_session_to_memory(self, session: AdkSession) -> None:
        await self._add(session.id, session.user_id, session.events)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        await self._add(session_id, user_id, events)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        items = self._host.memory.items
        for entry in memories:
            text = "\n".join(p.text for p in entry.content.parts or () if p.text)
            saved = self._host.safely(user_id, items.save(text, owner=user_id))
            await self._host.run(saved, None)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        found = self._host.safely(user_id, self._found(user_id, query))
        return SearchMemoryResponse(memories=await self._host.run(found, None) or [])

    async def _add(self, key: str | None, user: str, events: Sequence[Event]) -> None:
        session = self._host.session(key, user)
        items = [item for event in events if event.content for item in read(event.content)]
        if session is not None and items:
            # Messages that are already recorded are recognised.
            await self._host.run(self._host.safely(session.key, session.prepare(items)), None)

    async def _found(self, user: str, query: str) -> list[MemoryEntry]:
        memory = self._host.memory
        known = await memory.items.search(query, owner=user, limit=MAX_FOUND)
        said = await memory.search(query, owner=user, kinds=("message",), limit=MAX_FOUND)
        entries = [_entry("memory", r.item.id, r.item.summary, r.item.made_at) for r in known]
        entries += [_entry(hit.speaker or "message", hit.id, hit.text, hit.at) for hit in said]
        return entries[:MAX_FOUND]


# As many as the kit's own service returns.
MAX_FOUND = 10


def _entry(author: str, key: str, text: str, at: datetime | None) -> MemoryEntry:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return MemoryEntry(id=key, author=author, content=content, timestamp=at.isoformat() if at else None)


def _invocation(context: Any) -> Any:
    return getattr(context, "_invocation_context", None)


class _Tool(BaseTool):
    """One of the memory's tools."""

    def __init__(self, host: framework.Host, definition: framework.Definition) -> None:
        super().__init__(name=definition.name, description=definition.description)
        self._host = host
        self._definition = definition

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=dict(self._definition.parameters),
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        session = self._host.session(tool_context.session.id, tool_context.session.user_id)
        return await self._host.run(self._host.call_tool(session, self.name, args), framework.UNREACHABLE)


def _make_ask(model: BaseLlm) -> framework.Ask:
    """Ask the agent's model, outside of every run."""

    async def ask(system: str, user: str) -> str:
        request = LlmRequest(
            model=model.model,
            contents=[types.Content(role="user", parts=[types.Part(text=user)])],
            config=types.GenerateContentConfig(system_instruction=system),
        )
        said = [r.content async for r in model.generate_content_async(request) if r.content]
        return "\n".join(p.text for c in said for p in c.parts or () if p.text and not p.thought)

    return ask


# -- Messages


def _ids(named: Sequence[tuple[str | None, str | None]]) -> list[str]:
    """The ids of calls or results. The kit gives its own ids to those without one, but does not send them.
    Such a pair is identified by the tool's name and its position among others of that name."""
    ids: list[str] = []
    for given, name in named:
        if given and not given.startswith("adk-"):
            ids.append(given)
            continue
        again = sum(i.partition("#")[0] == f"call_{name}" for i in ids)
        ids.append(f"call_{name}#{again + 1}" if again else f"call_{name}")
    return ids


def read(content: types.Content) -> list[framework.Item]:
    """Translate a content into OpenAI's form. A model's thinking is not part of the conversation."""
    parts = content.parts or []
    text = "\n".join(p.text for p in parts if p.text and not p.thought)
    if content.role == "model":
        made = [p.function_call for p in parts if p.function_call]
        ids = _ids([(c.id, c.name) for c in made])
        calls = [(i, c.name or "tool", dict(c.args or {})) for i, c in zip(ids, made, strict=True)]
        return [framework.chat("assistant", text, calls)] if text or calls else []
    answers = [p.function_response for p in parts if p.function_response]
    ids = _ids([(r.id, r.name) for r in answers])
    items = [framework.result(i, _result(r.response)) for i, r in zip(ids, answers, strict=True)]
    data = [d for p in parts if (d := p.inline_data or p.file_data)]
    files = [{"type": "file", "file": {"filename": d.display_name or d.mime_type or "file"}} for d in data]
    if text and not files:
        items.append(framework.chat("user", text))
    elif files:
        items.append(framework.chat("user", [*([{"type": "text", "text": text}] if text else []), *files]))
    return items


def _result(response: Any) -> str:
    given = cast("dict[str, Any]", response or {})
    only = given.get("result") if len(given) == 1 else None
    return only if isinstance(only, str) else json.dumps(given, ensure_ascii=False, default=str)


def write(turn: framework.Message | framework.Exchange) -> Iterable[types.Content]:
    """Translate into contents of the kit."""
    role, text = framework.role_and_text(turn)
    said = [types.Part(text=text)] if text else []
    if role == "user":
        return [types.Content(role="user", parts=said)]
    calls = [
        types.Part(
            function_call=types.FunctionCall(id=_given(c), name=c.name, args=framework.arguments_of(c))
        )
        for c in framework.calls_of(turn)
    ]
    results = [
        types.Part(
            function_response=types.FunctionResponse(id=_given(c), name=c.name, response={"result": told})
        )
        for c, told in framework.results_of(turn)
    ]
    answered = [types.Content(role="user", parts=results)] if results else []
    return [types.Content(role="model", parts=[*said, *calls]), *answered]


def _given(call: framework.ToolCall) -> str | None:
    """The provider's id of a call; None if it has none."""
    return None if call.id.partition("#")[0] == f"call_{call.name}" else call.id
