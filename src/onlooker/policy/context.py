"""A context, and the forms in which a provider takes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onlooker.domain.context import RuntimeContext, Stats
from onlooker.domain.knowledge import OWN_LAYERS
from onlooker.domain.messages import Message
from onlooker.policy.render import anthropic_messages, openai_messages, text_lines


@dataclass(frozen=True, slots=True)
class Sections:
    """The prompt's stable part, in order; empty ones are left out."""

    base: str = ""
    reflections: str = ""  # with the heading of the whole memory section, items and pins
    observations: str = ""

    def layer(self, name: str) -> str:
        """The text of one of our own layers, "observations" or "reflections", with its heading."""
        text = self.observations if name == "observations" else self.reflections
        found = re.search(rf"^### {name.capitalize()}$", text, re.MULTILINE)
        return text[found.start() :] if found else ""

    def texts(self) -> list[str]:
        return [t for t in (self.base, self.reflections, self.observations) if t]


@dataclass(frozen=True, slots=True)
class Context:
    """What the agent receives: the system prompt with its memory, and the recent messages."""

    sections: Sections
    messages: tuple[Message, ...]
    stats: Stats
    runtime: RuntimeContext | None = None
    end: str = ""  # what changes each turn, behind everything that stays
    preface: tuple[Message, ...] = field(default=(), repr=False)
    # The system messages that a history began with: with nothing to add they go out as they came.
    lead: tuple[Message, ...] = field(default=(), repr=False)
    knowledge: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)  # the host's layers

    @property
    def layers(self) -> dict[str, str]:
        """The text of every knowledge layer in this context by name, empty ones left out; observations
        (7) and reflections (8) are those of this session."""
        own = {name: self.sections.layer(name) for name in OWN_LAYERS}
        return {name: text for name, text in {**self.knowledge, **own}.items() if text}

    @property
    def system(self) -> str:
        """The whole system prompt: the base prompt, then the memory."""
        return "\n\n".join(self.sections.texts())

    @property
    def memory(self) -> str:
        """The memory section alone; empty when nothing is stored."""
        return "\n\n".join(t for t in (self.sections.reflections, self.sections.observations) if t)

    def openai(self) -> list[dict[str, Any]]:
        """Messages for an OpenAI-compatible chat API."""
        system = self._openai_system()
        end = [{"role": "system", "content": self.end}] if self.end else []
        return system + openai_messages((*self.preface, *self.messages)) + end

    def _openai_system(self) -> list[dict[str, Any]]:
        if self.lead and self.system == "\n\n".join(m.text for m in self.lead if m.text):
            return openai_messages(self.lead)
        return [{"role": "system", "content": self.system}] if self.system else []

    def anthropic(self) -> dict[str, Any]:
        """`system` and `messages` for the Anthropic API, with cache breakpoints where memory stands."""
        messages = anthropic_messages((*self.preface, *self.messages, *self._end_message()))
        if not self.memory:
            return {"system": self.system, "messages": messages} if self.system else {"messages": messages}
        blocks: list[dict[str, Any]] = [{"type": "text", "text": t} for t in self.sections.texts()]
        for block in blocks:
            block["cache_control"] = {"type": "ephemeral"}
        return {"system": blocks, "messages": _with_breakpoint(messages, last=len(self._end_message()))}

    def text(self) -> str:
        """The context as one dated text, for reading and for models without roles."""
        lines = text_lines((*self.preface, *self.messages))
        tail = [f"## Recent messages\n{lines}"] if lines and self.memory else [lines] if lines else []
        return "\n\n".join([*self.sections.texts(), *tail, *([self.end] if self.end else [])]) + "\n"

    def _end_message(self) -> tuple[Message, ...]:
        return (Message("system", self.end),) if self.end.strip() else ()


def _with_breakpoint(messages: list[dict[str, Any]], last: int) -> list[dict[str, Any]]:
    """Mark the last block that will still stand there next turn; `last` blocks at the end will not.

    Marks of the host make way: a request may have four, and three stand in the system prompt.
    """
    marked = [_unmarked(m) for m in messages]
    for message in reversed(marked):
        content = message["content"]
        blocks: list[dict[str, Any]] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content
        )
        if len(blocks) > last:
            blocks[-1 - last]["cache_control"] = {"type": "ephemeral"}
            message["content"] = blocks
            break
        last -= len(blocks)
    return marked


def _unmarked(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return dict(message)
    return message | {"content": [{k: v for k, v in b.items() if k != "cache_control"} for b in content]}
