"""LlamaIndex: a memory for agents and chat engines. It needs `onlooker[llama-index]`.

memory = OnlookerMemory("agent.db", session_id="42", owner="ana", llm=llm)
agent = FunctionAgent(llm=llm, tools=[…, *memory.tools])
await agent.run(user_msg="Hi", memory=memory)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from llama_index.core import Settings
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.memory import Memory
from llama_index.core.memory.memory import DEFAULT_TOKEN_LIMIT
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.tools import FunctionTool, ToolMetadata
from pydantic import BaseModel, ConfigDict, PrivateAttr

from onlooker.integrations import framework


class OnlookerMemory(Memory):
    """A memory for LlamaIndex: an agent reads notes and the newest messages from it, within a budget.

    Messages are stored as by `Memory`, in `store` or in this process; the notes are in the memory. Pass one
    `Host` to share a memory between sessions.

    Args:
        memory: A file or a URL, so that `llm` writes the notes; or what `onlooker.open_memory` or
            `onlooker.blocking.open_memory` returned; or the `host` of another session.
        session_id: The conversation.
        owner: The owner of the conversation.
        llm: The agent's model; by default that of LlamaIndex's `Settings`.
        store: The chat store of LlamaIndex that holds the messages.
        budget: Tokens for what is read; by default the memory's own. Agents add their system prompt, and the
            calls and results of the turn so far.
        options: Other fields of `Memory`.
    """

    _host: framework.Host = PrivateAttr()
    _owner: str = PrivateAttr()
    _llm: LLM | None = PrivateAttr()

    def __init__(
        self,
        memory: framework.AnyMemory | framework.Host,
        *,
        session_id: str,
        owner: str = "",
        llm: LLM | None = None,
        store: AsyncDBChatStore | None = None,
        budget: int | None = None,
        **options: Any,
    ) -> None:
        fields: dict[str, Any] = {"session_id": session_id, "token_limit": DEFAULT_TOKEN_LIMIT, **options}
        if store is not None:
            fields["sql_store"] = store
        super().__init__(**fields)
        self._host = memory if isinstance(memory, framework.Host) else framework.Host(memory, budget=budget)
        self._owner = owner
        self._llm = llm

    @classmethod
    def class_name(cls) -> str:
        return "OnlookerMemory"

    @property
    def host(self) -> framework.Host:
        """The memory, for other sessions."""
        return self._host

    def close(self) -> None:
        """Close the memory if it was opened here."""
        self._host.close()

    # -- the methods that agents and chat engines call. The blocking methods call these.

    async def aget(self, input: Any = None, **options: Any) -> list[ChatMessage]:
        """What the model sees of the conversation."""
        if self._host.wants_model:
            self._host.bind(framework.on_loop(asyncio.get_running_loop(), _make_ask(self._llm)))
        stored = await super().aget(input, **options)
        prompt = await self._host.run(self._prepare(stored), None)
        return _shown(prompt) if prompt else stored

    async def aput(self, message: ChatMessage) -> None:
        await super().aput(message)
        await self._record([message])

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        await super().aput_messages(messages)
        await self._record(messages)

    async def _prepare(self, messages: Sequence[ChatMessage]) -> framework.Prompt[ChatMessage] | None:
        session = self._host.session(self.session_id, self._owner)
        if session is None:
            return None
        return await self._host.prepare(session, messages, read=read, write=write)

    async def _record(self, messages: Sequence[ChatMessage]) -> None:
        """Record the model's messages and tool results. The user's are recorded when they are read."""
        session = self._host.session(self.session_id, self._owner)
        if session is not None:
            said = [item for m in messages if m.role not in _USERS for item in read(m)]
            await self._host.run(self._host.record(session, said), None)

    # -- tools

    @property
    def tools(self) -> list[FunctionTool]:
        """The memory's tools, for the agent of this session."""
        return [self._tool(definition) for definition in framework.DEFINITIONS]

    def _tool(self, definition: framework.Definition) -> FunctionTool:
        async def run(**arguments: Any) -> str:
            session = self._host.session(self.session_id, self._owner)
            return await self._host.run(
                self._host.call_tool(session, definition.name, arguments), framework.UNREACHABLE
            )

        class Arguments(BaseModel):
            model_config = ConfigDict(extra="allow")

            @classmethod
            def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
                return dict(definition.parameters)

        about = ToolMetadata(definition.description, definition.name, fn_schema=Arguments)
        return FunctionTool(async_fn=run, metadata=about)


def _make_ask(llm: LLM | None) -> framework.Ask:
    """Ask the model without its callbacks."""

    async def ask(system: str, user: str) -> str:
        model: LLM = (llm or Settings.llm).model_copy(update={"callback_manager": CallbackManager([])})
        said = [ChatMessage(system, role=MessageRole.SYSTEM), ChatMessage(user, role=MessageRole.USER)]
        return (await model.achat(said)).message.content or ""

    return ask


def _shown(prompt: framework.Prompt[ChatMessage]) -> list[ChatMessage]:
    """Memory in a system message, and what is only for this call before the user's last message: an agent
    adds the calls of the turn after that."""
    messages = list(prompt.messages)
    if prompt.note:
        users = [n for n, message in enumerate(messages) if message.role == MessageRole.USER]
        messages.insert(
            users[-1] if users else len(messages), ChatMessage(prompt.note, role=MessageRole.USER)
        )
    memory = [ChatMessage(prompt.memory, role=MessageRole.SYSTEM)] if prompt.memory else []
    return [*memory, *messages]


# -- Messages

_USERS = (MessageRole.USER, MessageRole.SYSTEM, MessageRole.DEVELOPER)


def read(message: ChatMessage) -> list[framework.Item]:
    """Translate a message of LlamaIndex into OpenAI's form. Thinking is not part of the conversation."""
    text = message.content or ""
    match message.role:
        case MessageRole.SYSTEM | MessageRole.DEVELOPER:
            return [framework.chat("system", text)] if text else []
        case MessageRole.TOOL | MessageRole.FUNCTION:
            return [framework.result(str(message.additional_kwargs.get("tool_call_id") or ""), text)]
        case MessageRole.USER:
            kinds = [b.block_type for b in message.blocks]
            files = [
                {"type": "file", "file": {"filename": kind}}
                for kind in kinds
                if kind in ("image", "audio", "video", "document")
            ]
            said = [{"type": "text", "text": text}] if text else []
            return [framework.chat("user", [*said, *files] if files else text)] if said or files else []
        case _:
            blocks = [b for b in message.blocks if isinstance(b, ToolCallBlock)]
            calls = [(b.tool_call_id or "", b.tool_name, b.tool_kwargs) for b in blocks]
            return [framework.chat("assistant", text, calls)] if text or calls else []


def write(turn: framework.Message | framework.Exchange) -> Iterable[ChatMessage]:
    """Translate into messages of LlamaIndex."""
    role, text = framework.role_and_text(turn)
    calls = [
        ToolCallBlock(tool_call_id=c.id, tool_name=c.name, tool_kwargs=framework.arguments_of(c))
        for c in framework.calls_of(turn)
    ]
    results = [
        ChatMessage(told, role=MessageRole.TOOL, additional_kwargs={"tool_call_id": c.id, "name": c.name})
        for c, told in framework.results_of(turn)
    ]
    said = [TextBlock(text=text)] if text else []
    return [ChatMessage(role=MessageRole(role), blocks=[*said, *calls]), *results]
