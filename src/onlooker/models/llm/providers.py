"""From a name to the model of pydantic-ai that speaks to its provider."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from onlooker.domain.errors import SettingsError
from onlooker.models.llm.naming import ModelName

if TYPE_CHECKING:
    from pydantic_ai.models import Model as Speaker
    from pydantic_ai.providers import Provider

INSTALL = 'needs an extra: pip install "onlooker[llm]"'

# Where each provider's key is looked for when none is given.
_KEYS = {
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
}
OLLAMA = "http://localhost:11434/v1"
# Chat completions are what every server that calls itself compatible speaks, and keep nothing at the
# provider; for the few models that need the other interface there is "openai-responses:".
_KINDS = {"openai": "openai-chat"}


def speaker(name: ModelName, api_key: str | None) -> Speaker:
    """The model that speaks to the provider.

    Raises:
        SettingsError: The extra is missing, the name is unknown, or there is no key.
    """
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError as error:
        raise SettingsError("model", str(name), INSTALL) from error
    kind = _KINDS.get(name.provider, name.provider)
    try:
        return infer_model(f"{kind}:{name.model}", lambda _: _provider(name, api_key))
    except ImportError as error:
        raise SettingsError("model", str(name), _missing(name)) from error
    except (UserError, ValueError) as error:
        raise SettingsError("model", str(name), _unusable(name, error)) from None


def _provider(name: ModelName, api_key: str | None) -> Provider[Any]:
    from pydantic_ai.providers import infer_provider_class

    if name.provider in ("openai", "openai-responses") and name.base_url is not None:
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        # It never sends OPENAI_API_KEY, which another service has no business seeing.
        return OpenAICompatibleProvider("openai-compatible", base_url=name.base_url, api_key=api_key)
    given: dict[str, str] = {}
    if api_key is not None:
        given["api_key"] = api_key
    if base_url := name.base_url or _usual_address(name.provider):
        given["base_url"] = base_url
    try:
        return infer_provider_class(name.provider)(**given)
    except TypeError as error:
        raise ValueError(f"{name.provider} takes no {' and '.join(given)}") from error


def _usual_address(provider: str) -> str | None:
    return (os.environ.get("OLLAMA_BASE_URL") or OLLAMA) if provider == "ollama" else None


def _missing(name: ModelName) -> str:
    return f'needs an extra: pip install "pydantic-ai-slim[{name.provider}]"'


def _unusable(name: ModelName, error: Exception) -> str:
    variable = _KEYS.get(name.provider)
    if variable and variable in str(error):
        return f"needs a key: set {variable}, or give api_key"
    # The first sentence says what is wrong; what follows is advice on another library.
    return f"cannot be used: {str(error).split('. ')[0]}"
