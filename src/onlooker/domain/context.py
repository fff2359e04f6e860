"""What the agent receives."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from onlooker.domain.messages import DEFAULT_OWNER, SessionId

_CHANNELS = ("telegram", "discord", "slack")


@dataclass(frozen=True, slots=True)
class RuntimeContext:
    """Which conversation a call belongs to, and over which channel. Made per call, never shared."""

    session_key: str
    channel: str

    @classmethod
    def of(cls, session_key: str) -> RuntimeContext:
        """The channel is what stands before the key's first colon, where that is one we know."""
        head = session_key.split(":", 1)[0].lower()
        return cls(session_key, head if head in _CHANNELS else "direct")


@dataclass(frozen=True, slots=True)
class Stats:
    """What a context is made of, in tokens as counted, and what did not fit."""

    budget: int = 0
    total: int = 0
    system: int = 0
    knowledge: int = 0
    items: int = 0  # of other sessions of the same owner
    pinned: int = 0
    reflections: int = 0
    observations: int = 0
    messages: int = 0
    end: int = 0
    recall: int = 0  # of the end: what was recalled for this turn
    left_out_messages: int = 0  # raw messages that no note covers and that did not fit
    left_out_notes: int = 0
    left_out_preface: int = 0  # what the host put in front of the conversation itself
    shortened: int = 0  # messages of the newest group shown in part
    pending_tokens: int = 0  # said, not yet noted
    buffered_notes: int = 0  # written, not yet shown
    cacheable: float = 0.0  # share of the prompt that stays the same until notes change
    prompt_version: int = 0
    by_layer: dict[str, int] = field(default_factory=dict[str, int])
    cut_by_layer: dict[str, int] = field(default_factory=dict[str, int])  # beyond their share
    missing_layers: tuple[str, ...] = ()  # failed, or took too long


_current: ContextVar[SessionId | None] = ContextVar("onlooker_session", default=None)


@contextmanager
def use_session(key: str, *, owner: str = DEFAULT_OWNER) -> Generator[SessionId]:
    """Name the session for everything called inside, as a request handler does once."""
    session = SessionId(owner, key)
    token = _current.set(session)
    try:
        yield session
    finally:
        _current.reset(token)


def current_session() -> SessionId | None:
    """The session named by the innermost `use_session`, if any."""
    return _current.get()


# -- What a host knows besides the conversation, in layers

# In the order in which they stand in a prompt, numbered from 1; but reflections come before observations.
LAYERS = (
    "runtime_context",
    "tools",
    "user_knowledge",
    "skills",
    "external_knowledge",
    "learnings",
    "observations",
    "reflections",
)
# Those that are filled from the store.
OWN_LAYERS = ("observations", "reflections")


@dataclass(frozen=True, slots=True)
class LayerRequest:
    """What a layer is asked with, for one context.

    What it looks up should be filtered by `session`: its `key`, or its `owner` where the owner's other
    sessions may be seen as well. `tokens` is its share, 0 for any number; more than that is cut.
    `question` is what the user said last.
    """

    layer: str
    session: SessionId
    runtime: RuntimeContext
    tokens: int
    question: str = ""


class Knowledge(Protocol):
    """Whatever knows something for a prompt: an async function, or an object that can be called.

    A plain function will do where it answers at once: while it runs, nothing else does.
    """

    def __call__(self, request: LayerRequest, /) -> Awaitable[str] | str:
        """The layer's text for this request; empty where it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer with more to say than its text.

    `volatile`: it changes from call to call, so that it stands at the end of the prompt, behind what a
    provider caches. `tokens` is the most that it may have, 0 for its equal share.
    """

    source: str | Knowledge
    volatile: bool = False
    tokens: int = 0

    @property
    def asked(self) -> bool:
        """Whether it has to be asked for its text."""
        return not isinstance(self.source, str)


Layers = Mapping[str, str | Knowledge | Layer]
