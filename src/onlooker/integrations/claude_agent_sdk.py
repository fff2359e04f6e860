"""The Claude Agent SDK: a session store, hooks and tools. It needs `onlooker[claude-agent-sdk]`.

memory = OnlookerMemory("agent.db", owner="ana")
async with ClaudeSDKClient(memory.options(ClaudeAgentOptions(…))) as client: …

Claude Code keeps its own context, so memory does not change the conversation that the model sees. With each
prompt, it adds what that context lacks.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    InMemorySessionStore,
    ResultMessage,
    SdkMcpTool,
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    create_sdk_mcp_server,
    fold_session_summary,
    query,
)

from onlooker.integrations import framework
from onlooker.integrations.coding_agents import (
    list_items,
    message_in,
    recall_for,
    summarize_previous,
    summarize_session,
    with_heading,
)


class OnlookerMemory:
    """Memory for the clients of the SDK: give them `memory.options(…)` in place of their own options.

    Args:
        memory: A file or a URL, so that Claude writes the notes, in a separate process; or what
            `onlooker.open_memory` or `onlooker.blocking.open_memory` returned.
        owner: The owner of the sessions; by default the project that they work in.
        store: The session store of the SDK that holds the transcripts.
        tools: Whether the agent gets the memory's tools.
    """

    def __init__(
        self,
        memory: framework.AnyMemory,
        *,
        owner: str = "",
        store: SessionStore | None = None,
        tools: bool = True,
    ) -> None:
        self._host = framework.Host(memory, owner=owner)
        self._with_tools = tools
        # The session of the last prompt: a tool call does not name its session.
        self._current: framework.Session | None = None
        self._compacted: set[str] = set()
        self._options = ClaudeAgentOptions()
        self.store = OnlookerStore(self._host, store or InMemorySessionStore())

    def close(self) -> None:
        """Close the memory if it was opened here."""
        self._host.close()

    def options(self, options: ClaudeAgentOptions | None = None) -> ClaudeAgentOptions:
        """Return the options with memory: its store, its hooks next to yours, and its tools."""
        given = self._options = options or ClaudeAgentOptions()
        hooks = {**(given.hooks or {})}
        hooks["UserPromptSubmit"] = [
            *hooks.get("UserPromptSubmit", []),
            HookMatcher(hooks=[cast("Any", self.on_prompt)]),
        ]
        hooks["PreCompact"] = [
            *hooks.get("PreCompact", []),
            HookMatcher(hooks=[cast("Any", self.on_compaction)]),
        ]
        changed = replace(given, session_store=self.store, hooks=hooks)
        if self._with_tools and isinstance(given.mcp_servers, dict):
            server = create_sdk_mcp_server("memory", tools=[self._tool(d) for d in framework.DEFINITIONS])
            allowed = [f"mcp__memory__{d.name}" for d in framework.DEFINITIONS]
            changed = replace(
                changed,
                mcp_servers={**given.mcp_servers, "memory": server},
                allowed_tools=[*given.allowed_tools, *allowed],
            )
        return changed

    # -- hooks

    async def on_prompt(self, given: framework.Item, tool_use_id: str | None, context: Any) -> framework.Item:
        """`UserPromptSubmit`: add what the agent's own context lacks."""
        if self._host.wants_model:
            self._host.bind(framework.on_loop(asyncio.get_running_loop(), _make_ask(self._options)))
        # The transcript is in the folder of its project.
        project = Path(str(given.get("transcript_path") or "")).parent.name
        session = self._current = self.store.session(str(given.get("session_id") or ""), project)
        if session is None:
            return {}
        found = await self._host.run(self._host.safely(session.key, self._context(session, given)), None)
        if not found:
            return {}
        return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": found}}

    async def on_compaction(
        self, given: framework.Item, tool_use_id: str | None, context: Any
    ) -> framework.Item:
        """`PreCompact`: summarize this session with the next prompt."""
        self._compacted.add(str(given.get("session_id") or ""))
        return {}

    async def _context(self, session: framework.Session, given: framework.Item) -> str:
        memory = self._host.memory
        prompt, compacted = str(given.get("prompt") or ""), session.key in self._compacted
        parts: list[str] = []
        if compacted:
            parts = [await list_items(memory, session), await summarize_session(memory, session)]
        elif not await session.messages():
            parts = [await list_items(memory, session), await summarize_previous(memory, session)]
        parts.append(await recall_for(memory, session, prompt, compacted=compacted))
        self._compacted.discard(session.key)
        return with_heading(*parts)

    # -- tools

    def _tool(self, definition: framework.Definition) -> SdkMcpTool[Any]:
        async def run(arguments: framework.Item) -> framework.Item:
            called = self._host.call_tool(self._current, definition.name, arguments)
            said = await self._host.run(called, framework.UNREACHABLE)
            return {"content": [{"type": "text", "text": said}]}

        return SdkMcpTool(definition.name, definition.description, dict(definition.parameters), run)


class OnlookerStore(SessionStore):
    """A session store that records what is said. The transcripts themselves are in another store."""

    def __init__(self, host: framework.Host, store: SessionStore) -> None:
        self._host = host
        self._store = store

    def session(self, key: str, project: str) -> framework.Session | None:
        """The memory's session."""
        return self._host.session(key, self._host.owner or project)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        await self._store.append(key, entries)
        # The messages of subagents are not part of the conversation.
        if key.get("subpath"):
            return
        session = self.session(key["session_id"], key["project_key"])
        said = [message for entry in entries if (message := message_in(cast("framework.Item", entry)))]
        if session is not None:
            await self._host.run(self._host.record(session, said), None)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        return await self._store.load(key)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        return await self._store.list_sessions(project_key)

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        if self._has("list_session_summaries"):
            return await self._store.list_session_summaries(project_key)
        summaries: list[SessionSummaryEntry] = []
        for listed in await self.list_sessions(project_key):
            key: SessionKey = {"project_key": project_key, "session_id": listed["session_id"]}
            folded = fold_session_summary(None, key, await self.load(key) or [])
            summaries.append({**folded, "mtime": listed["mtime"]})
        return summaries

    async def delete(self, key: SessionKey) -> None:
        """Delete the transcript. Memory keeps what it knows; `session.delete()` of Onlooker forgets it."""
        if self._has("delete"):
            await self._store.delete(key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        return await self._store.list_subkeys(key) if self._has("list_subkeys") else []

    def _has(self, method: str) -> bool:
        """Whether the other store has this optional method."""
        return getattr(type(self._store), method, None) not in (None, getattr(SessionStore, method))


def _make_ask(options: ClaudeAgentOptions) -> framework.Ask:
    """Ask Claude in a separate process, which shares only the model and the account with the agent."""

    async def ask(system: str, user: str) -> str:
        alone = ClaudeAgentOptions(
            system_prompt=system,
            tools=[],
            max_turns=1,
            setting_sources=[],
            model=options.model,
            cli_path=options.cli_path,
            cwd=options.cwd,
            env=options.env,
            extra_args={"no-session-persistence": None},
        )
        said = ""
        async for message in query(prompt=user, options=alone):
            if isinstance(message, ResultMessage):
                said = message.result or ""
        return said

    return ask
