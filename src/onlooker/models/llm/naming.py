"""A model's name as text: "provider:model", or "provider:model@http://host:port/v1"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from onlooker.domain.errors import SettingsError

# What we have tried; whatever else pydantic-ai knows is passed on to it.
PROVIDERS = ("openai", "anthropic", "google", "bedrock", "ollama", "openrouter")
# A model's own name may contain "@", as dated ones of Google Cloud do.
_ADDRESS = re.compile(r"@(?=https?://)")


@dataclass(frozen=True, slots=True)
class ModelName:
    """Who serves the model, what it is called there, and where, if that is not the usual place."""

    provider: str
    model: str
    base_url: str | None = None

    def __str__(self) -> str:
        """As it stands beside notes and in logs: without what only authenticates."""
        if self.base_url is None:
            return f"{self.provider}:{self.model}"
        parts = urlsplit(self.base_url)
        bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        return f"{self.provider}:{self.model}@{bare}"


def parse(name: str, base_url: str | None = None) -> ModelName:
    """Read a name.

    Raises:
        SettingsError: It is no name of a model.
    """
    path, *address = _ADDRESS.split(name.strip(), maxsplit=1)
    provider, _, model = path.partition(":")
    if not model or not re.fullmatch(r"[a-z][a-z0-9/-]*", provider):
        shown = str(ModelName(provider, model, *address)) if address else name
        raise SettingsError("model", shown, f'must be "PROVIDER:NAME", such as {_such_as()}')
    return ModelName(provider, model, base_url or (address[0] if address else None))


def _such_as() -> str:
    return ", ".join(f'"{provider}:…"' for provider in PROVIDERS)
