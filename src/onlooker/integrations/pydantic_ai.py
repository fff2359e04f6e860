"""Pydantic AI: a capability. It needs `onlooker[pydantic-ai]`.

agent = Agent("anthropic:claude-haiku-4-5", capabilities=[OnlookerMemory("agent.db")])
agent.run_sync("Hi", conversation_id="42", deps=user)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import FunctionToolset, RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.direct import model_request
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestContext

from onlooker.integrations import framework


class OnlookerMemory(AbstractCapability[Any]):
    """Gives an agent memory: each model request has notes and the newest messages, within a budget.

    The conversation id is the session, and `deps.user_id`, if there is one, its owner. Memory is a
    `CompactionPart` before the messages, like a summary of Pydantic AI's own compaction: providers get it in
    a user message, marked as context and not as instructions. The message history is not changed.

    Args:
        memory: A file or a URL, so that the agent's own model writes the notes; or what
            `onlooker.open_memory` or `onlooker.blocking.open_memory` returned.
        owner: The owner of the conversations, if `deps` names none.
        budget: Tokens for a prompt; by default the memory's own.
        tools: Whether the agent gets the memory's tools.
    """

    def __init__(
        self, memory: framework.AnyMemory, *, owner: str = "", budget: int | None = None, tools: bool = True
    ) -> None:
        self._host = framework.Host(memory, owner=owner, budget=budget)
        self._tools = tools

    def close(self) -> None:
        """Close the memory if it was opened here."""
        self._host.close()

    def get_toolset(self) -> FunctionToolset[Any] | None:
        return FunctionToolset([self._tool(d) for d in framework.DEFINITIONS]) if self._tools else None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        if self._host.wants_model:
            self._host.bind(framework.on_loop(asyncio.get_running_loop(), _make_ask(request_context.model)))
        session = self._session(ctx)
        prompt = await self._host.run(self._prepare(session, request_context), None) if session else None
        return _with_memory(request_context, prompt) if prompt else request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        if (session := self._session(ctx)) is not None:
            await self._host.run(self._host.record(session, read(response)), None)
        return response

    def _session(self, ctx: RunContext[Any]) -> framework.Session | None:
        return self._host.session(ctx.conversation_id, getattr(ctx.deps, "user_id", None))

    async def _prepare(
        self, session: framework.Session, request: ModelRequestContext
    ) -> framework.Prompt[ModelMessage] | None:
        instructions = request.model_request_parameters.instruction_parts or []
        parts = [part.content for part in (*_system_parts(request.messages), *instructions)]
        system = "\n\n".join([*parts, _FRAME])
        return await self._host.prepare(session, request.messages, system, read=read, write=write)

    def _tool(self, definition: framework.Definition) -> Tool[Any]:
        async def run(ctx: RunContext[Any], **arguments: Any) -> str:
            called = self._host.call_tool(self._session(ctx), definition.name, arguments)
            return await self._host.run(called, framework.UNREACHABLE)

        return Tool.from_schema(
            run, definition.name, definition.description, dict(definition.parameters), takes_ctx=True
        )


# As long as what Pydantic AI puts around a summary, so that the budget includes it.
_FRAME = "<conversation_summary> This is what a separate model wrote of the earlier conversation. " * 3


def _make_ask(model: Model) -> framework.Ask:
    """Ask the agent's model, outside of every trace."""

    async def ask(system: str, user: str) -> str:
        message = ModelRequest(parts=[UserPromptPart(user)], instructions=system)
        response = await model_request(model, [message], instrument=False)
        return "\n".join(part.content for part in response.parts if isinstance(part, TextPart))

    return ask


def _with_memory(request: ModelRequestContext, prompt: framework.Prompt[ModelMessage]) -> ModelRequestContext:
    """Add memory before the messages. System prompts are in the oldest message, which may no longer be sent,
    so they are placed before it."""
    front: list[ModelRequestPart] = [*_system_parts(request.messages)]
    messages = [_without_system(m) for m in prompt.messages] if front else list(prompt.messages)
    if prompt.memory:
        front.append(CompactionPart(prompt.memory))
    if front:
        messages = [ModelRequest(parts=front), *messages]
    last = messages[-1]
    if prompt.note and isinstance(last, ModelRequest):
        messages[-1] = replace(last, parts=[*last.parts, UserPromptPart(prompt.note)])
    return replace(request, messages=messages)


def _system_parts(messages: Sequence[ModelMessage]) -> list[SystemPromptPart]:
    requests = [m for m in messages if isinstance(m, ModelRequest)]
    return [part for m in requests for part in m.parts if isinstance(part, SystemPromptPart)]


def _without_system(message: ModelMessage) -> ModelMessage:
    if not isinstance(message, ModelRequest):
        return message
    return replace(message, parts=[p for p in message.parts if not isinstance(p, SystemPromptPart)])


# -- Messages


def read(message: ModelMessage) -> list[framework.Item]:
    """Translate a message of Pydantic AI into OpenAI's form. Thinking is not part of the conversation."""
    if isinstance(message, ModelResponse):
        text = "\n".join(part.content for part in message.parts if isinstance(part, TextPart))
        made = [part for part in message.parts if isinstance(part, ToolCallPart)]
        calls = [(part.tool_call_id, part.tool_name, part.args_as_dict()) for part in made]
        return [framework.chat("assistant", text, calls)] if text or calls else []
    items: list[framework.Item] = []
    for part in message.parts:
        match part:
            case UserPromptPart():
                items.append(framework.chat("user", _content(part.content)))
            case ToolReturnPart():
                items.append(framework.result(part.tool_call_id, part.model_response_str()))
            case CompactionPart(content=str(text)):  # a model's summary of messages
                items.append(framework.chat("assistant", text))
            case _ if part.part_kind == "retry-prompt":  # in histories of earlier versions
                text = part.model_response()
                items.append(
                    framework.result(part.tool_call_id, text)
                    if part.tool_name
                    else framework.chat("user", text)
                )
            case _:
                pass
    return items


def _content(content: Any) -> Any:
    """The content of a user message: a text, or texts and a placeholder for each image and file."""
    if isinstance(content, str):
        return content
    blocks: list[framework.Item] = []
    for part in content:
        text = part if isinstance(part, str) else getattr(part, "content", None)
        if isinstance(text, str):
            blocks.append({"type": "text", "text": text})
        else:
            kind = str(getattr(part, "kind", "file"))
            name = str(getattr(part, "identifier", None) or getattr(part, "url", kind))
            blocks.append({"type": "file", "file": {"filename": name}})
    return blocks


def write(turn: framework.Message | framework.Exchange) -> Iterable[ModelMessage]:
    """Translate into messages of Pydantic AI."""
    role, text = framework.role_and_text(turn)
    if role == "user":
        return [ModelRequest(parts=[UserPromptPart(text)])]
    calls = [
        ToolCallPart(c.name, framework.arguments_of(c), tool_call_id=c.id) for c in framework.calls_of(turn)
    ]
    response = ModelResponse(parts=[*([TextPart(text)] if text else []), *calls])
    returns = [ToolReturnPart(c.name, said, tool_call_id=c.id) for c, said in framework.results_of(turn)]
    return [response, *([ModelRequest(parts=returns)] if returns else [])]
