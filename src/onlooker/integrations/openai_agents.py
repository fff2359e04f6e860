"""OpenAI's Agents SDK: a session. It needs `onlooker[openai-agents]`.

session = OnlookerSession("42", "agent.db", owner="ana")
result = await Runner.run(agent, "Hi", session=session, run_config=session.run_config)
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, cast

from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelSettings,
    ModelTracing,
    MultiProvider,
    RunConfig,
    Session,
    SessionSettings,
    SQLiteSession,
)
from agents.memory import OpenAIResponsesCompactionArgs, is_openai_responses_compaction_aware_session
from agents.run import CallModelData, ModelInputData

from onlooker.integrations import framework
from onlooker.policy.render import openai_messages
from onlooker.wire import as_response_items, is_of_model


class OnlookerSession:
    """A session of the SDK whose agents have memory. Use it with its `run_config`, or put its `filter` into
    your own.

    Items are stored as without memory, in `store` or in this process; the notes are in the memory. Pass one
    `Host` to share a memory between sessions.

    Args:
        session_id: The conversation.
        memory: A file or a URL, so that the agent's own model writes the notes; or what
            `onlooker.open_memory` or `onlooker.blocking.open_memory` returned; or the `host` of another
            session.
        owner: The owner of the conversation.
        store: The session of the SDK that holds the items.
        budget: Tokens for a prompt; by default the memory's own.
    """

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        memory: framework.AnyMemory | framework.Host,
        *,
        owner: str = "",
        store: Session | None = None,
        budget: int | None = None,
    ) -> None:
        self.session_id = session_id
        self.host = memory if isinstance(memory, framework.Host) else framework.Host(memory, budget=budget)
        self._store = store or SQLiteSession(session_id)
        self._owner = owner

    def close(self) -> None:
        """Close the memory if it was opened here."""
        self.host.close()

    # -- the methods that the SDK calls

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return await self._store.get_items(limit)

    async def add_items(self, items: list[Any]) -> None:
        """Store items, and record the agent's last message: each model call records those before it."""
        await self._store.add_items(items)
        session = self.host.session(self.session_id, self._owner)
        last = _units(items)[-1] if items else []
        if session is not None and last and is_of_model(last[-1]):
            await self.host.run(self.host.record(session, last), None)

    async def pop_item(self) -> Any:
        return await self._store.pop_item()

    async def clear_session(self) -> None:
        """Clear what is stored. Memory keeps what it knows; `session.delete()` of Onlooker forgets it."""
        await self._store.clear_session()

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Take every note that is due, if `force` is set. The SDK calls this after each turn without it:
        notes are taken in the background, and the run does not wait. A store with compaction is called as
        well."""
        if is_openai_responses_compaction_aware_session(self._store):
            await self._store.run_compaction(args)
        session = self.host.session(self.session_id, self._owner) if args and args.get("force") else None
        if session is not None:
            await self.host.run(session.settle(), None)

    # -- memory

    @property
    def run_config(self) -> RunConfig:
        """A configuration that puts memory into every model call."""
        return RunConfig(call_model_input_filter=self.filter)

    async def filter(self, data: CallModelData[Any]) -> ModelInputData:
        """What the model sees on this call."""
        given = data.model_data
        if self.host.wants_model:
            self.host.bind(framework.on_loop(asyncio.get_running_loop(), _make_ask(data.agent)))
        prompt = await self.host.run(self._prepare(given.input, given.instructions or ""), None)
        if prompt is None:
            return given
        items = [item for unit in prompt.messages for item in unit]
        if prompt.note:
            items.append({"role": "user", "content": prompt.note})
        return ModelInputData(input=cast("Any", items), instructions=prompt.system or None)

    async def _prepare(
        self, items: Sequence[Any], system: str
    ) -> framework.Prompt[list[framework.Item]] | None:
        session = self.host.session(self.session_id, self._owner)
        if session is None:
            return None
        return await self.host.prepare(session, _units(items), system, read=lambda unit: unit, write=_written)

    @property
    def tools(self) -> list[FunctionTool]:
        """The memory's tools, for the agent of this session."""
        return [self._tool(definition) for definition in framework.DEFINITIONS]

    def _tool(self, definition: framework.Definition) -> FunctionTool:
        async def run(context: Any, arguments: str) -> str:
            session = self.host.session(self.session_id, self._owner)
            if session is None:
                return framework.UNREACHABLE
            return await self.host.run(
                session.tools().call(definition.name, arguments), framework.UNREACHABLE
            )

        return FunctionTool(
            name=definition.name,
            description=definition.description,
            params_json_schema=dict(definition.parameters),
            on_invoke_tool=run,
            strict_json_schema=False,
        )


def _make_ask(agent: Agent[Any]) -> framework.Ask:
    """Ask the agent's model, outside of every trace."""

    async def ask(system: str, user: str) -> str:
        model = agent.model
        if not isinstance(model, Model):
            model = MultiProvider().get_model(model)
        response = await model.get_response(
            system,
            user,
            dataclasses.replace(ModelSettings(), store=False),
            [],
            None,
            [],
            ModelTracing.DISABLED,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        )
        said = [item.model_dump() for item in response.output]
        return "\n".join(block.get("text") or "" for item in said for block in item.get("content") or ())

    return ask


def _units(items: Sequence[Any]) -> list[list[framework.Item]]:
    """Group the items that a model sent together."""
    units: list[list[framework.Item]] = []
    for item in items:
        if units and is_of_model(item) and is_of_model(units[-1][-1]):
            units[-1].append(item)
        else:
            units.append([item])
    return units


def _written(turn: framework.Message | framework.Exchange) -> Iterable[list[framework.Item]]:
    messages = (turn.message, *turn.results) if isinstance(turn, framework.Exchange) else (turn,)
    return [[item for m in openai_messages(messages) for item in as_response_items(m)]]
