"""Embedders: any endpoint that speaks OpenAI's protocol, or a model on this machine."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from onlooker.domain.errors import SettingsError
from onlooker.models.calling import CallError, Kind
from onlooker.models.llm import INSTALL, OLLAMA, ModelName, parse
from onlooker.policy.values import MASK, mask
from onlooker.ports import Embedder

if TYPE_CHECKING:
    from openai import AsyncOpenAI


# -- Vectors from an endpoint that speaks OpenAI's protocol

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


# -- Vectors from a model on this machine, which is there already: nothing is downloaded

# The packages that can run one, in the order in which they are tried.
PACKAGES = ("fastembed", "sentence_transformers")
INSTALL_LOCAL = "needs a package that runs it: pip install fastembed, or sentence-transformers"

Encode = Callable[[list[str]], Iterable[Any]]


class LocalEmbedder:
    """A model that fastembed or sentence-transformers runs, by its name there or as a folder. It is loaded,
    in a thread, when it is first used."""

    def __init__(self, model: str, *, package: str = "") -> None:
        """Make ready to load it.

        Raises:
            SettingsError: Neither package is installed, or not the one that is named.
        """
        found = [p for p in PACKAGES if package in ("", p) and find_spec(p) is not None]
        if not found:
            raise SettingsError("embedder", f"local:{model}", INSTALL_LOCAL)
        self._model = model
        self._package = found[0]
        self._dimensions = 0
        self._encode: Encode | None = None
        # One text after the other goes through the model anyway, and not every package may be asked twice
        # at once.
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return f"local:{self._model}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text.

        Raises:
            CallError: The model is not on this machine, or failed.
        """
        return await asyncio.to_thread(self._embed, list(texts))

    def _embed(self, texts: list[str]) -> list[list[float]]:
        with self._lock:
            try:
                if self._encode is None:
                    self._encode = _LOADERS[self._package](self._model)
                vectors = [[float(x) for x in vector] for vector in self._encode(texts)]
            except Exception as error:
                # Whatever such a package raises is a call that failed.
                raise CallError(f"{self.name}: {self._why(error)}", "other") from error
        if vectors:
            self._dimensions = len(vectors[0])
        return vectors

    def _why(self, error: Exception) -> str:
        said = " ".join(str(error).split())[:200]
        if self._encode is not None:
            return f"{type(error).__name__}: {said}"
        return f"cannot be loaded by {self._package}; have it download the model first ({said})"


def _fastembed(model: str) -> Encode:
    # By name: it is the user's own package, if any.
    loaded: Any = import_module("fastembed").TextEmbedding(model_name=model, local_files_only=True)
    return loaded.embed


def _sentence_transformers(model: str) -> Encode:
    loaded: Any = import_module("sentence_transformers").SentenceTransformer(model, local_files_only=True)

    def encode(texts: list[str]) -> Iterable[Any]:
        return loaded.encode(texts, show_progress_bar=False)

    return encode


_LOADERS: dict[str, Callable[[str], Encode]] = {
    "fastembed": _fastembed,
    "sentence_transformers": _sentence_transformers,
}


# -- An embedder by its name as text

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
