"""An embedder by its name as text."""

from __future__ import annotations

from onlooker.domain.errors import SettingsError
from onlooker.models.embedding.local import LocalEmbedder
from onlooker.models.embedding.remote import OpenAIEmbedder
from onlooker.models.llm.naming import parse
from onlooker.ports import Embedder

KINDS = (
    '"openai:MODEL", "openai:MODEL@http://host:port/v1" for any server that speaks the same protocol, '
    '"ollama:MODEL", or "local:MODEL" for a model on this machine'
)


def embedder_named(name: str) -> Embedder:
    """The embedder that is meant; nothing is sent or loaded yet.

    Raises:
        SettingsError: It is no name of an embedder, or what it needs is not installed.
    """
    kind, _, model = name.strip().partition(":")
    if kind == "local" and model:
        return LocalEmbedder(model)
    if kind in ("openai", "ollama") and model:
        return OpenAIEmbedder(parse(name))
    raise SettingsError("embedder", name, f"must be {KINDS}")
