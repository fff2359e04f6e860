"""Vectors from a model on this machine, which is there already: nothing is downloaded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from onlooker.domain.errors import SettingsError
from onlooker.models.calling.errors import CallError

# The packages that can run one, in the order in which they are tried.
PACKAGES = ("fastembed", "sentence_transformers")
INSTALL = "needs a package that runs it: pip install fastembed, or sentence-transformers"

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
            raise SettingsError("embedder", f"local:{model}", INSTALL)
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
