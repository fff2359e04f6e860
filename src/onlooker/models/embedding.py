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
from onlooker.models.calling import CallError, FailureKind
from onlooker.models.llm import OLLAMA, install
from onlooker.policy.model_names import ModelName, parse_name
from onlooker.policy.secrets import MASK, mask
from onlooker.ports import Embedder

if TYPE_CHECKING:
    from openai import AsyncOpenAI


_KEY = "OPENAI_API_KEY"
# Documented lengths. Any other is known with the first answer.
_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
_KINDS: dict[int, FailureKind] = {401: "denied", 403: "denied", 408: "timeout", 409: "server", 429: "rate"}


class OpenAIEmbedder:
    """An embedding model by name: "openai:text-embedding-3-small", "ollama:nomic-embed-text",
    "openai:my-model@http://localhost:8000/v1".

    It makes one attempt at each call.
    """

    def __init__(
        self, name: str | ModelName, *, api_key: str | None = None, timeout: float = 30.0, dimensions: int = 0
    ) -> None:
        """Prepare the embedder. Nothing is sent.

        Args:
            name: "openai:NAME" or "ollama:NAME", either with "@URL" or without.
            api_key: The key. The default is OPENAI_API_KEY, except for a server with an address: another
                service must not see that key.
            timeout: Seconds for one attempt.
            dimensions: The length of the vectors, if the model can shorten them. 0 is the model's own.

        Raises:
            SettingsError: The extra is missing, or there is no key.
        """
        parsed = parse_name(name) if isinstance(name, str) else name
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
            raise SettingsError("embedder", self._name, install("openai")) from error

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimensions(self) -> int:
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text.

        Raises:
            CallError: There is no answer. The message says why.
        """
        try:
            # Opened for each call: there is nothing to close at the end, and any event loop will do.
            async with self._client() as client:
                shorter: dict[str, Any] = {"dimensions": self._asked} if self._asked else {}
                answer = await client.embeddings.create(
                    model=self._model, input=list(texts), encoding_format="float", **shorter
                )
            vectors = [part.embedding for part in sorted(answer.data, key=lambda part: part.index)]
        except Exception as error:  # noqa: BLE001
            # Whatever the SDK raises, the call has failed. Its message may quote the key.
            raise self._failure(error) from None
        return self._checked(vectors, len(texts))

    def _client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        # A redirect would send the texts, and the key, to an unknown address.
        return AsyncOpenAI(
            api_key=self._secret or "none",
            base_url=self._address,
            timeout=self._timeout,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(follow_redirects=False, timeout=self._timeout),
        )

    def _checked(self, vectors: list[list[float]], expected: int) -> list[list[float]]:
        sizes = {len(vector) for vector in vectors}
        if len(vectors) != expected or len(sizes) != 1 or 0 in sizes:
            raise CallError(f"{self._name}: the answer does not have a vector for each text", "unreadable")
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
            kind, what = "connection", "the connection failed"
        else:
            kind, what = "unreadable", f"the answer cannot be read ({type(error).__name__})"
        message = mask(f"{self._name}: {what}")
        return CallError(message.replace(self._secret, MASK) if self._secret else message, kind)


# The packages that run local models, in the order in which they are tried.
PACKAGES = ("fastembed", "sentence_transformers")
INSTALL_LOCAL = "needs a package that runs it: pip install fastembed, or sentence-transformers"

Encode = Callable[[list[str]], Iterable[Any]]


class LocalEmbedder:
    """A model on this machine, run by fastembed or sentence-transformers. Nothing is downloaded.

    `model` is its name there, or a folder. It is loaded in a thread when it is first used.
    """

    def __init__(self, model: str, *, package: str = "") -> None:
        """Find the package that runs the model.

        Raises:
            SettingsError: Neither package is installed, or not the named one.
        """
        found = [p for p in PACKAGES if package in ("", p) and find_spec(p) is not None]
        if not found:
            raise SettingsError("embedder", f"local:{model}", INSTALL_LOCAL)
        self._model = model
        self._package = found[0]
        self._dimensions = 0
        self._encode: Encode | None = None
        # The model takes one text after the other anyway, and not every package is thread-safe.
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return f"local:{self._model}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text.

        Raises:
            CallError: The model is not on this machine, or it failed.
        """
        return await asyncio.to_thread(self._embed, list(texts))

    def _embed(self, texts: list[str]) -> list[list[float]]:
        with self._lock:
            try:
                if self._encode is None:
                    self._encode = _LOADERS[self._package](self._model)
                vectors = [[float(x) for x in vector] for vector in self._encode(texts)]
            except Exception as error:
                # Whatever the package raises, the call has failed.
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
    # Imported by name, because it is not one of our dependencies.
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


KINDS = (
    '"openai:MODEL", "openai:MODEL@http://host:port/v1" for any server that speaks the same protocol, '
    '"ollama:MODEL", or "local:MODEL" for a model on this machine'
)


def embedder_named(name: str) -> Embedder:
    """Return the embedder with this name. Nothing is sent or loaded yet.

    Raises:
        SettingsError: It is not the name of an embedder, or a package is missing.
    """
    kind, _, model = name.strip().partition(":")
    if kind == "local" and model:
        return LocalEmbedder(model)
    if kind in ("openai", "ollama") and model:
        return OpenAIEmbedder(parse_name(name))
    raise SettingsError("embedder", name, f"must be {KINDS}")
