"""The names of models: "PROVIDER:NAME", or "PROVIDER:NAME@URL" for an address of your own.

A setting may leave one half to the agent's own model, as the two founding systems do: "PROVIDER:" is the
agent's model if it is there, or else that provider's usual small one; ":NAME" is at the agent's provider.
"""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from onlooker.domain.errors import SettingsError
from onlooker.domain.frozen import frozen
from onlooker.policy.text import regex

# The model that needs no language model.
BUILT_IN = "extractive"
# The providers that we have tried. Any other goes to pydantic-ai.
PROVIDERS = ("openai", "anthropic", "google", "bedrock", "ollama", "openrouter")
# The words of the founding systems for them.
_ALIASES = {"gemini": "google"}
# A small model of each provider, enough for notes. Bedrock's names depend on the region.
USUAL = {
    "openai": "gpt-5-mini",
    "anthropic": "claude-haiku-4-5",
    "google": "gemini-flash-lite-latest",
    "ollama": "qwen3",
    "openrouter": "openai/gpt-5-mini",
}
# How the names of a provider's models begin, and the names that leave out which version.
_FAMILIES = {"gpt-": "openai", "claude-": "anthropic", "gemini-": "google"}
_LATEST = {"gemini-flash": "gemini-flash-latest", "gemini-flash-lite": "gemini-flash-lite-latest"}
# The name of a model may itself contain "@", as on Google Cloud.
_ADDRESS = regex(r"@(?=https?://)")
_PROVIDER = regex(r"[a-z][a-z0-9/-]*")
ALLOWED = 'must be "PROVIDER:NAME", such as ' + ", ".join(f'"{provider}:…"' for provider in PROVIDERS)


@frozen
class ModelName:
    """A provider, the name of the model there, and an address if it is not the usual one."""

    provider: str
    model: str
    base_url: str | None = None

    def __str__(self) -> str:
        """Return the name as it appears in notes and logs, without credentials."""
        if self.base_url is None:
            return f"{self.provider}:{self.model}"
        parts = urlsplit(self.base_url)
        bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        return f"{self.provider}:{self.model}@{bare}"


def parse_name(name: str, base_url: str | None = None) -> ModelName:
    """Parse a name.

    Raises:
        SettingsError: It is not the name of a model.
    """
    path, *address = _ADDRESS.split(name.strip(), maxsplit=1)
    provider, _, model = path.partition(":")
    if not model or not _PROVIDER.fullmatch(provider):
        shown = str(ModelName(provider, model, *address)) if address else name
        raise SettingsError("model", shown, meant(name) + ALLOWED)
    return ModelName(_ALIASES.get(provider, provider), model, base_url or (address[0] if address else None))


def meant(name: str) -> str:
    """Return how an error for a name without a provider begins, if its provider is known."""
    provider = _family(name)
    return f'did you mean "{provider}:{name}"? It ' if provider else ""


def _family(model: str) -> str:
    return next((provider for begin, provider in _FAMILIES.items() if model.startswith(begin)), "")


def can_be_set(name: str) -> bool:
    """Return whether a setting can have this name: a whole one, or one that leaves a half to the agent's."""
    path = _ADDRESS.split(name.strip(), maxsplit=1)[0]
    provider, colon, model = path.partition(":")
    if name in ("", BUILT_IN):
        return True
    return bool(colon and (provider or model) and (not provider or _PROVIDER.fullmatch(provider)))


def from_parts(provider: str, model: str) -> str:
    """Return the name for a file that gives provider and model apart, either of them or none."""
    provider, model = provider.strip(), model.strip()
    if not provider and (":" in model or not model):
        return model
    if not provider and model in (*PROVIDERS, *_ALIASES):
        provider, model = model, ""  # where a file calls the provider a model
    provider = _ALIASES.get(provider, provider) or _family(model)
    return f"{provider}:{_LATEST.get(model, model)}"


def complete(name: str, own: str) -> str:
    """Return the whole name, with what it leaves out taken from the agent's own model, if that is known.

    Raises:
        SettingsError: It leaves out what nobody knows.
    """
    provider, _, model = name.partition(":")
    if not name or name == BUILT_IN or (provider and model):
        return name or own
    known, *address = _ADDRESS.split(own, maxsplit=1)
    own_provider, _, own_model = known.partition(":")
    if not provider and own_model:
        return "@".join([f"{own_provider}:{model}", *address])
    if not model and own_model and own_provider == provider:
        return own
    if not model and provider in USUAL:
        return f"{provider}:{USUAL[provider]}"
    raise SettingsError("model", name, f"{ALLOWED}, unless the agent's own model is given")
