"""Strands Agents: a plugin. It needs `onlooker[strands]`.

agent = Agent(plugins=[OnlookerPlugin("agent.db")], session_manager=FileSessionManager("42"))
agent("Hi", invocation_state={"user_id": "ana"})
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from strands import Agent
from strands.hooks import AfterModelCallEvent
from strands.middleware import InvokeModelStage
from strands.middleware.stages import InvokeModelContext
from strands.models import Model
from strands.plugins import Plugin
from strands.tools.tools import PythonAgentTool
from strands.types.content import ContentBlock
from strands.types.content import Message as StrandsMessage
from strands.types.tools import ToolResult, ToolUse

from onlooker.integrations import framework


class OnlookerPlugin(Plugin):
    """Gives an agent memory: each model call sees notes and the newest messages, within a budget.

    The session is that of the session manager, or `session_id` of the invocation's state. The owner is
    `user_id` of the invocation's state, or of the agent's. The agent's messages are not changed.

    Args:
        memory: A file or a URL, so that the agent's own model writes the notes (its `aux_model`, if it has
            one); or what `onlooker.open_memory` or `onlooker.blocking.open_memory` returned.
        owner: The owner of the sessions, if the state names none.
        budget: Tokens for a prompt; by default the memory's own.
        tools: Whether the agent gets the memory's tools.
    """

    @property
    def name(self) -> str:
        return "onlooker"

    def __init__(
        self, memory: framework.AnyMemory, *, owner: str = "", budget: int | None = None, tools: bool = True
    ) -> None:
        super().__init__()
        self._host = framework.Host(memory, owner=owner, budget=budget)
        self._with_tools = tools

    def close(self) -> None:
        """Close the memory if it was opened here."""
        self._host.close()

    def init_agent(self, agent: Agent) -> None:
        agent.add_middleware(InvokeModelStage.Input, self._before_call)
        agent.add_hook(self._after_call, AfterModelCallEvent)
        if self._with_tools:
            agent.tool_registry.process_tools(
                [self._tool(definition) for definition in framework.DEFINITIONS]
            )

    async def _before_call(self, context: InvokeModelContext) -> InvokeModelContext:
        agent = cast("Agent", context.agent)
        if self._host.wants_model:
            self._host.bind(framework.on_loop(asyncio.get_running_loop(), _make_ask(agent.aux_model)))
        session = self._session(agent, context.invocation_state)
        prompt = await self._host.run(self._prepare(session, context), None) if session else None
        return _with_memory(context, prompt) if prompt else context

    async def _after_call(self, event: AfterModelCallEvent) -> None:
        # Other hooks run first, and may have discarded the reply.
        if event.stop_response is None or event.retry:
            return
        session = self._session(event.agent, event.invocation_state)
        if session is not None:
            await self._host.run(self._host.record(session, read(event.stop_response.message)), None)

    def _session(self, agent: Agent, state: Mapping[str, Any]) -> framework.Session | None:
        key = state.get("session_id")
        if key is None:
            # Without a manager, `agent.session_id` is random.
            key = getattr(getattr(agent, "_session_manager", None), "session_id", None)
            # Each agent of a session has its own messages.
            if isinstance(key, str) and agent.agent_id != "default":
                key = f"{key}:{agent.agent_id}"
        return self._host.session(key, state.get("user_id") or agent.state.get("user_id"))

    async def _prepare(
        self, session: framework.Session, context: InvokeModelContext
    ) -> framework.Prompt[StrandsMessage] | None:
        given = context.system_prompt or ""
        if not isinstance(given, str):
            given = "\n".join(block.get("text", "") for block in given if block.get("text"))
        return await self._host.prepare(session, context.messages, given, read=read, write=write)

    def _tool(self, definition: framework.Definition) -> PythonAgentTool:
        async def run(use: ToolUse, **state: Any) -> ToolResult:
            session = self._session(state["agent"], state)
            called = self._host.call_tool(session, definition.name, use["input"])
            said = await self._host.run(called, framework.UNREACHABLE)
            return {"toolUseId": use["toolUseId"], "status": "success", "content": [{"text": said}]}

        return PythonAgentTool(
            definition.name,
            {
                "name": definition.name,
                "description": definition.description,
                "inputSchema": {"json": dict(definition.parameters)},
            },
            cast("Any", run),
        )


def _make_ask(model: Model) -> framework.Ask:
    """Ask the agent's model, outside of every run."""

    async def ask(system: str, user: str) -> str:
        said: list[StrandsMessage] = [{"role": "user", "content": [{"text": user}]}]
        stream = model.stream(said, system_prompt=system)
        return "".join([_text_in(event) async for event in stream])

    return ask


def _text_in(event: Mapping[str, Any]) -> str:
    return event.get("contentBlockDelta", {}).get("delta", {}).get("text", "")


def _with_memory(context: InvokeModelContext, prompt: framework.Prompt[StrandsMessage]) -> InvokeModelContext:
    messages = _alternating(prompt.messages)
    if prompt.note and messages[-1]["role"] == "user":
        messages[-1]["content"].append({"text": prompt.note})
        # So that the provider's cache ends before it.
        context = context.replace(dynamic_trailing_blocks=context.dynamic_trailing_blocks + 1)
    system = context.system_prompt
    if system is None or isinstance(system, str):
        return context.replace(messages=messages, system_prompt=prompt.system or None)
    added = [{"text": prompt.memory}] if prompt.memory else []
    return context.replace(messages=messages, system_prompt=cast("Any", [*system, *added]))


def _alternating(messages: Sequence[StrandsMessage]) -> list[StrandsMessage]:
    """The messages as Bedrock accepts them: the user's first, and with alternating roles."""
    merged: list[StrandsMessage] = []
    if messages and messages[0]["role"] == "assistant":
        merged.append({"role": "user", "content": [{"text": framework.CONTINUES}]})
    for message in messages:
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"].extend(message["content"])
        else:
            merged.append(cast("StrandsMessage", {**message, "content": list(message["content"])}))
    return merged


# -- Messages


def read(message: StrandsMessage) -> list[framework.Item]:
    """Translate a message of Strands into OpenAI's form. Thinking is not part of the conversation."""
    blocks = message["content"]
    text = "\n".join(said for b in blocks if (said := b.get("text")))
    if message["role"] == "assistant":
        made = [b["toolUse"] for b in blocks if "toolUse" in b]
        calls = [(use["toolUseId"], use["name"], use["input"]) for use in made]
        return [framework.chat("assistant", text, calls)] if text or calls else []
    answers = [b["toolResult"] for b in blocks if "toolResult" in b]
    items = [framework.result(a["toolUseId"], _result(a)) for a in answers]
    files = [
        {"type": "file", "file": {"filename": str(given.get("name") or kind)}}
        for block in blocks
        for kind, given in cast("Mapping[str, Any]", block).items()
        if kind in ("image", "document", "video")
    ]
    if files:
        items.append(framework.chat("user", [*([{"type": "text", "text": text}] if text else []), *files]))
    elif text:
        items.append(framework.chat("user", text))
    return items


def _result(answer: ToolResult) -> str:
    """The text of a tool's result, and a placeholder for each image and file."""
    return "\n".join(
        str(given) if kind == "text" else json.dumps(given) if kind == "json" else f"[{kind}]"
        for block in answer["content"]
        for kind, given in cast("Mapping[str, Any]", block).items()
    )


def write(turn: framework.Message | framework.Exchange) -> Iterable[StrandsMessage]:
    """Translate into messages of Strands."""
    role, text = framework.role_and_text(turn)
    said: list[ContentBlock] = [{"text": text}] if text else []
    calls: list[ContentBlock] = [
        {"toolUse": {"toolUseId": c.id, "name": c.name, "input": framework.arguments_of(c)}}
        for c in framework.calls_of(turn)
    ]
    results: list[ContentBlock] = [
        {"toolResult": {"toolUseId": c.id, "status": "success", "content": [{"text": told}]}}
        for c, told in framework.results_of(turn)
    ]
    answered: list[StrandsMessage] = [{"role": "user", "content": results}] if results else []
    return [{"role": role, "content": [*said, *calls]}, *answered]
