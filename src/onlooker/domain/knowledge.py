"""What a host knows besides the conversation, in layers.

Eight have a name and a number. The host fills 1 to 6; 7 and 8 are the session's own notes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Protocol

from onlooker.domain.context import RuntimeContext
from onlooker.domain.messages import SessionId

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
