"""A language model that writes notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from onlooker.domain.errors import SettingsError
from onlooker.models.calling.spending import Price
from onlooker.models.llm.answers import failure_of, reply_of
from onlooker.models.llm.asking import MOST_READ, most_output, prompt_of
from onlooker.models.llm.naming import parse
from onlooker.models.llm.providers import speaker
from onlooker.ports import Reply, Request

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.settings import ModelSettings

# Of a model's context window: the rest is for the rules, the notes so far, the answer, and for what
# our count is off by.
_WINDOW_SHARE = 0.5
_LARGEST_WINDOW = 100_000
_UNKNOWN_CONTEXT = 32_000
# Ollama cuts a longer prompt off without a word unless it is told to allow for more.
_OLLAMA_CONTEXT = 4_096


class LanguageModel:
    """A model of any provider, by name: "anthropic:claude-haiku-4-5", "ollama:qwen3",
    "openai:my-model@http://localhost:8000/v1".

    It makes one attempt at each call. `onlooker.models.calling.guarded` adds retries and a breaker, which
    a model that is named by a string gets by itself.
    """

    def __init__(
        self,
        name: str,
        *,
        window: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        price: Price | None = None,
        most_read: float = MOST_READ,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Make ready to call; nothing is sent.

        Args:
            name: "PROVIDER:NAME", or "PROVIDER:NAME@URL".
            window: Tokens of messages or notes that one request may hold; half of the model's context
                window, as far as that is known, where none is given.
            base_url: Where the provider is, if not at its usual address.
            api_key: The key; the provider's own environment variable where none is given.
            timeout: Seconds for one attempt.
            price: Dollars per million tokens, where the built-in list does not have the model, or is wrong.
            most_read: Tokens that the observer may read for each token said; what the rules leave of it goes
                to the newest notes so far.
            options: More for the provider, in pydantic-ai's words: `{"temperature": 0.2}`.

        Raises:
            SettingsError: The extra is missing, the name is unknown, or there is no key.
        """
        if window is not None and window < 1:
            raise SettingsError("window", window, "must be at least 1")
        parsed = parse(name, base_url)
        self._name = str(parsed)
        self._speaker = speaker(parsed, api_key)
        self._secret = api_key
        self._window = window or self._usual_window(parsed.provider)
        self._timeout = timeout
        self._price = price
        self._most_read = most_read
        # That interface keeps conversations at the provider unless it is told not to.
        unkept = {"openai_store": False} if parsed.provider == "openai-responses" else {}
        self._options: dict[str, Any] = unkept | dict(options or {})

    @property
    def name(self) -> str:
        return self._name

    @property
    def window(self) -> int:
        return self._window

    def _usual_window(self, provider: str) -> int:
        context = self._speaker.context_window or _UNKNOWN_CONTEXT
        if provider == "ollama":
            context = _OLLAMA_CONTEXT
        return min(_LARGEST_WINDOW, int(context * _WINDOW_SHARE))

    async def write(self, request: Request) -> Reply:
        """Ask for the note.

        Raises:
            ModelError: There was no answer; the sentence says why.
        """
        try:
            response = await self._send(request)
        except Exception as error:
            # Whatever a provider's SDK raises is a call that failed.
            failure = failure_of(self._name, error, self._secret)
            if failure.kind == "denied":
                raise failure from None  # what the provider says then may quote the key
            raise failure from error
        reply = reply_of(response)
        if self._price is None:
            return reply
        return replace(reply, cost=self._price.of(reply.input_tokens, reply.output_tokens))

    async def _send(self, request: Request) -> ModelResponse:
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        prompt = prompt_of(request, self._most_read)
        said = ModelRequest(parts=[UserPromptPart(prompt.user)], instructions=prompt.system)
        # Entered for the call alone: connections are shared by calls under way and closed after the last,
        # so that there is nothing to close at the end, and any event loop will do.
        async with self._speaker as model:
            return await model_request(
                model, [said], model_settings=self._settings(request), instrument=False
            )

    def _settings(self, request: Request) -> ModelSettings:
        profile = self._speaker.profile
        settings: dict[str, Any] = {"max_tokens": most_output(request), "request_timeout": self._timeout}
        if profile.get("supports_thinking") or profile.get("thinking_always_enabled"):
            # Noting what was said takes no thinking to speak of, and that is paid for as output.
            settings["thinking"] = False
        if "max_retries" not in self._speaker.unsupported_settings:
            settings["max_retries"] = 0  # who calls us decides, and sees every failure
        return cast("ModelSettings", settings | self._options)
