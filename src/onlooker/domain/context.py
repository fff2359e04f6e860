"""The call around a context: its session and channel, its statistics, and knowledge layers."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import Protocol

from onlooker.domain.frozen import frozen
from onlooker.domain.messages import DEFAULT_OWNER, SessionId

# -- The session that a call belongs to

_CHANNELS = ("telegram", "discord", "slack")


@frozen
class RuntimeContext:
    """The session key and channel of one call. Made per call, never shared."""

    session_key: str
    channel: str

    @classmethod
    def of(cls, session_key: str) -> RuntimeContext:
        """Take the channel from the part before the key's first colon, if that is a known channel."""
        head = session_key.split(":", 1)[0].lower()
        return cls(session_key, head if head in _CHANNELS else "direct")


_current: ContextVar[SessionId | None] = ContextVar("onlooker_session", default=None)


@contextmanager
def use_session(key: str, *, owner: str = DEFAULT_OWNER) -> Generator[SessionId]:
    """Set the session for everything called inside, such as one request of a web server."""
    session = SessionId(owner, key)
    token = _current.set(session)
    try:
        yield session
    finally:
        _current.reset(token)


def current_session() -> SessionId | None:
    """Return the session set by the innermost `use_session`, if any."""
    return _current.get()


# -- What a context is made of


@frozen
class Stats:
    """The tokens of a context by section, and what did not fit."""

    budget: int = 0
    total: int = 0
    system: int = 0
    knowledge: int = 0
    items: int = 0  # the owner's items, from other sessions
    pinned: int = 0
    reflections: int = 0
    observations: int = 0
    now: int = 0  # what the user asked for: standing instructions, and the open request
    messages: int = 0
    end: int = 0
    recall: int = 0  # the part of the end that was recalled for this turn
    left_out_messages: int = 0  # raw messages that no note covers and that did not fit
    left_out_notes: int = 0
    shortened_notes: int = 0  # notes that are shown without some of their lines
    left_out_preface: int = 0  # messages that the host put before the recorded conversation
    shortened: int = 0  # messages of the newest group that are shown in part
    pending_tokens: int = 0  # recorded, not noted yet
    buffered_notes: int = 0  # written, not shown yet
    cacheable: float = 0.0  # the share of the prompt that stays the same until notes change
    prompt_version: int = 0
    # Where this prompt first differs from the session's last one in this process: `base`, `reflections` or
    # `observations` if that part changed, `messages` if new notes after the old ones replace the oldest
    # messages. Empty: it only grew at its end, or is the first. And how often each part changed, in 100
    # prompts. Both are ignored when contexts are compared.
    changed: str = field(default="", compare=False)
    changes_per_100: dict[str, float] = field(default_factory=dict[str, float], compare=False)
    by_layer: dict[str, int] = field(default_factory=dict[str, int])
    cut_by_layer: dict[str, int] = field(default_factory=dict[str, int])  # tokens cut from each layer
    missing_layers: tuple[str, ...] = ()  # layers that failed or took too long
    retired: int = 0  # messages that this call took back, since the host's history no longer has them


# -- Knowledge layers: what a host adds to a prompt besides the conversation

# Numbered from 1 in this order, which is also their order in a prompt, except that reflections come before
# observations.
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
# The layers that are filled from the store.
OWN_LAYERS = ("observations", "reflections")


@frozen
class LayerRequest:
    """The input of a knowledge layer, for one context.

    A layer must filter what it looks up by `session`: by its `key`, or by its `owner` to include the owner's
    other sessions. `tokens` is the layer's share, 0 for no limit; text beyond it is cut. `question` is what
    the user said last.
    """

    layer: str
    session: SessionId
    runtime: RuntimeContext
    tokens: int
    question: str = ""


class Knowledge(Protocol):
    """An async function, or a callable object, that returns text for a prompt.

    A plain function works too, but blocks the event loop while it runs.
    """

    def __call__(self, request: LayerRequest, /) -> Awaitable[str] | str:
        """Return the layer's text for this request, or an empty string."""
        ...


@frozen
class Layer:
    """A layer with options.

    A `volatile` layer changes from call to call, so it is placed at the end of the prompt, after what a
    provider caches. `tokens` is its limit, 0 for an equal share.
    """

    source: str | Knowledge
    volatile: bool = False
    tokens: int = 0

    @property
    def is_dynamic(self) -> bool:
        """Whether its text comes from a call."""
        return not isinstance(self.source, str)


Layers = Mapping[str, str | Knowledge | Layer]
