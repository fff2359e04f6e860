"""An embedder for tests: no model, no network, and the same vectors every time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from onlooker.policy.searching.words import telling_tokens, tokens

DIMENSIONS = 256


def word_vector(
    text: str, dimensions: int = DIMENSIONS, meanings: Mapping[str, str] | None = None
) -> list[float]:
    """The words of a text, each at a place of its own as far as there are places: texts with words in common
    lie close together. `meanings` says which words mean the same as another."""
    same = {token: tokens(meant)[0] for word, meant in (meanings or {}).items() for token in tokens(word)}
    vector = [0.0] * dimensions
    for token in telling_tokens(text) or tokens(text):
        digest = hashlib.blake2b(same.get(token, token).encode("utf-8", "surrogatepass"), digest_size=4)
        vector[int.from_bytes(digest.digest(), "big") % dimensions] += 1.0
    return vector


class WordEmbedder:
    """`Embedder` by words alone. `received` is every batch so far; while `error` is set, it is raised."""

    def __init__(
        self, meanings: Mapping[str, str] | None = None, *, dimensions: int = DIMENSIONS, name: str = "words"
    ) -> None:
        self.meanings = dict(meanings or {})
        self.dimensions = dimensions
        self.name = name
        self.received: list[tuple[str, ...]] = []
        self.error: Exception | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.received.append(tuple(texts))
        if self.error is not None:
            raise self.error
        return [word_vector(text, self.dimensions, self.meanings) for text in texts]
