"""Embedders: any endpoint that speaks OpenAI's protocol, or a model on this machine."""

from onlooker.models.embedding.local import LocalEmbedder
from onlooker.models.embedding.naming import embedder_named
from onlooker.models.embedding.remote import OpenAIEmbedder

__all__ = ["LocalEmbedder", "OpenAIEmbedder", "embedder_named"]
