"""Vectors from an endpoint that speaks OpenAI's protocol."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onlooker.domain.errors import SettingsError
from onlooker.models.calling.errors import CallError, Kind
from onlooker.models.llm.naming import ModelName, parse
from onlooker.models.llm.providers import INSTALL, OLLAMA
from onlooker.policy.values.secrets import MASK, mask

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_KEY = "OPENAI_API_KEY"
# As far as they are documented; of all others it is known with the first answer.
_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
_KINDS: dict[int, Kind] = {401: "denied", 403: "denied", 408: "timeout", 409: "server", 429: "rate"}


class OpenAIEmbedder:
    """An embedding model by name: "openai:text-embedding-3-small", "ollama:nomic-embed-text",
    "openai:my-model@http://localhost:8000/v1". It makes one attempt at each call."""

    def __init__(
        self, name: str | ModelName, *, api_key: str | None = None, timeout: float = 30.0, dimensions: int = 0
    ) -> None:
        """Make ready to call; nothing is sent.

        Args:
            name: "openai:NAME", "ollama:NAME", or either with "@URL".
            api_key: The key. Where none is given and no address, OPENAI_API_KEY; another service has no
                business seeing that.
            timeout: Seconds for one attempt.
            dimensions: Ask for shorter vectors, of a model that has them; 0: as it gives them.

        Raises:
            SettingsError: The extra is missing, or there is no key.
        """
        parsed = parse(name) if isinstance(name, str) else name
        self._model = parsed.model
        self._asked = dimensions
        self._name = f"{parsed}#{dimensions}" if dimensions else str(parsed)
        self._dimensions = dimensions or _DIMENSIONS.get(parsed.model, 0)
        self._timeout = timeout
        self._address = parsed.base_url or (OLLAMA if parsed.provider == "ollama" else None)
        self._secret = api_key or (None if self._address else os.environ.get(_KEY))
        if not self._secret and not self._address:
            raise SettingsError("embedder", self._name, f"needs a key: set {_KEY}")
        try:
            import openai  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ImportError as error:
            raise SettingsError("embedder", self._name, INSTALL) from error

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimensions(self) -> int:
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text.

        Raises:
            CallError: There is no answer; the sentence says why.
        """
        try:
            # Opened for the call alone: there is nothing to close at the end, and any event loop will do.
            async with self._client() as client:
                shorter: dict[str, Any] = {"dimensions": self._asked} if self._asked else {}
                answer = await client.embeddings.create(
                    model=self._model, input=list(texts), encoding_format="float", **shorter
                )
            vectors = [part.embedding for part in sorted(answer.data, key=lambda part: part.index)]
        except Exception as error:  # noqa: BLE001
            # Whatever the SDK raises is a call that failed; what it says may quote the key.
            raise self._failure(error) from None
        return self._checked(vectors, len(texts))

    def _client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        return AsyncOpenAI(
            api_key=self._secret or "none", base_url=self._address, timeout=self._timeout, max_retries=0
        )

    def _checked(self, vectors: list[list[float]], expected: int) -> list[list[float]]:
        sizes = {len(vector) for vector in vectors}
        if len(vectors) != expected or len(sizes) != 1 or 0 in sizes:
            raise CallError(f"{self._name}: the answer is not a vector for each text", "unreadable")
        self._dimensions = sizes.pop()
        return vectors

    def _failure(self, error: Exception) -> CallError:
        import openai

        status: int | None = getattr(error, "status_code", None)
        if status is not None:
            kind = _KINDS.get(status, "server" if status >= 500 else "rejected")
            what = f"the server answered {status}" + ("" if kind == "denied" else f": {str(error)[:200]}")
        elif isinstance(error, openai.APITimeoutError):
            kind, what = "timeout", "the server did not answer in time"
        elif isinstance(error, openai.APIConnectionError):
            kind, what = "connection", "no whole answer came over the connection"
        else:
            kind, what = "unreadable", f"the answer is none ({type(error).__name__})"
        sentence = mask(f"{self._name}: {what}")
        return CallError(sentence.replace(self._secret, MASK) if self._secret else sentence, kind)
