"""Language models of any provider. Needs the extra: `pip install "onlooker[llm]"`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit, urlunsplit

from onlooker.domain.errors import SettingsError
from onlooker.domain.notes import Note
from onlooker.models.calling import CallError, Kind, Price, size_of
from onlooker.policy.items.extract import items_prompt
from onlooker.policy.prompts import Prompt, observer_prompt, reflector_prompt
from onlooker.policy.tokens import estimate
from onlooker.policy.values import MASK, mask
from onlooker.ports import ItemsRequest, ObserveRequest, Reply, Request

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model as Speaker
    from pydantic_ai.providers import Provider
    from pydantic_ai.settings import ModelSettings


# -- A model's name as text: "provider:model", or "provider:model@http://host:port/v1"

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


# -- From a name to the model of pydantic-ai that speaks to its provider

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


# -- What a language model is asked, and within which bounds

# What an observer may read for each token said. The rules come first; what is left of it goes to the
# newest notes, so that it knows what the conversation is about and does not repeat itself. Showing all
# notes with every chunk would cost several times more than what was said.
MOST_READ = 1.3
# However small the chunk, the last lines are shown.
_LEAST_NOTES = 0.03
_FENCE = 40  # what the notes come with: their fence, and a sentence on them
# Beyond twice what was asked for a note is too long anyway. The rest is for models that think before
# they write, which counts as output too, and of local ones nobody knows whether they do.
_ROOM = 4_500
_EXTRACTED = 2_000  # for the values of users' own types


def prompt_of(request: Request, most_read: float = MOST_READ) -> Prompt:
    """The request as text."""
    if isinstance(request, ItemsRequest):
        return items_prompt(request.notes, request.messages, request.known, instruction=request.instruction)
    if not isinstance(request, ObserveRequest):
        return reflector_prompt(
            request.notes,
            generation=request.generation,
            target_tokens=request.target_tokens,
            format=request.format,
            instruction=request.instruction,
            correction=request.correction,
        )
    bare = _observer_prompt(request, ())
    said = size_of(request)
    room = most_read * said - estimate(bare.system) - estimate(bare.user) - _FENCE
    notes = newest(request.notes, int(max(room, _LEAST_NOTES * said)))
    return _observer_prompt(request, notes) if notes else bare


def _observer_prompt(request: ObserveRequest, notes: Sequence[Note]) -> Prompt:
    return observer_prompt(
        request.messages,
        notes,
        target_tokens=request.target_tokens,
        format=request.format,
        instruction=request.instruction,
        correction=request.correction,
        schemas=request.schemas,
    )


def most_output(request: Request) -> int:
    """How many tokens an answer may have before it is cut off."""
    extracts = isinstance(request, ObserveRequest) and request.schemas
    return 2 * request.target_tokens + _ROOM + (_EXTRACTED if extracts else 0)


# ------------------------------------------------------------------------------------ notes so far


def newest(notes: Sequence[Note], most: int) -> Sequence[Note]:
    """The newest notes, or the last lines of the newest, that come to so many tokens; oldest first."""
    chosen: list[Note] = []
    for note in reversed(notes):
        if note.tokens > most:
            if ending := _ending(note.text, most):
                chosen.append(replace(note, text=ending))
            break
        chosen.append(note)
        most -= note.tokens
    return chosen[::-1]


def _ending(text: str, most: int) -> str:
    """The last lines that come to so many tokens, each under the heading of its day."""
    chosen: list[str] = []
    heading = ""
    for day, line in reversed(list(_under_headings(text))):
        new = [line] if day == heading else [line, day]
        cost = estimate("\n".join(new))
        if cost > most:
            break
        most -= cost
        # The heading moves up above the line that was added before it.
        if day == heading and day:
            chosen.insert(len(chosen) - 1, line)
        else:
            chosen += [part for part in new if part]
            heading = day
    return "\n".join(chosen[::-1])


def _under_headings(text: str) -> Iterator[tuple[str, str]]:
    """Each line with the heading that it stands under."""
    heading = ""
    for line in text.split("\n"):
        if line.startswith("## "):
            heading = line
        else:
            yield heading, line


# -- What comes back from a provider, in our words

Finish = Literal["stop", "length", "refused", "other"]
_FINISH: dict[str | None, Finish] = {
    None: "stop",  # some servers do not say
    "stop": "stop",
    "length": "length",
    "content_filter": "refused",
}
_MOST_DETAIL = 200


def reply_of(response: ModelResponse) -> Reply:
    """The answer, and what it used."""
    return Reply(
        response.text or "",
        _FINISH.get(response.finish_reason, "other"),
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        cost=_listed_cost(response),
    )


def _listed_cost(response: ModelResponse) -> float | None:
    """By the price list that comes with pydantic-ai; it is part of the package and asks nobody."""
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None


# ------------------------------------------------------------------------------------ failures


def failure_of(name: str, error: Exception, secret: str | None) -> CallError:
    """A plain sentence for whatever went wrong, without the key."""
    kind, what = _describe(error)
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None and kind == "rate":
        what += f"; it asks to wait {retry_after:g} s"
    sentence = mask(f"{name}: {what}")
    if secret:
        sentence = sentence.replace(secret, MASK)
    return CallError(sentence, kind, retry_after=retry_after)


def _describe(error: Exception) -> tuple[Kind, str]:
    from pydantic_ai import exceptions as known

    status = getattr(error, "status_code", None)
    answered = f"the provider answered {status}" if status else "the provider said no"
    match error:
        case known.ModelAuthenticationError():
            return "denied", f"{answered}: the key is not accepted, or has no access to this model"
        case known.ModelQuotaExceededError():
            return "quota", f"{answered}: the account's quota or credit is used up"
        case known.ModelRateLimitError():
            return "rate", f"{answered}: too many requests"
        case known.ModelContextWindowExceededError():
            return "rejected", f"{answered}: the input is larger than the model's window; lower `window`"
        case known.ModelNotFoundError():
            return "rejected", f"{answered}: there is no such model or address{_detail(error)}"
        case known.ModelRequestTimeout() | known.ModelTimeoutError():
            return "timeout", "the provider did not answer in time"
        case known.ModelConnectionError():
            return "connection", f"no whole answer came over the connection ({_cause(error)})"
        case known.ModelUnavailableError() | known.ModelServerError():
            return "server", f"{answered}: it is out of order or overloaded"
        case known.ModelRequestRejectedError():
            return "rejected", f"{answered} and does not take this request{_detail(error)}"
        case known.ModelHTTPError():
            kind: Kind = "server" if error.status_code >= 500 or error.status_code == 408 else "rejected"
            return kind, f"{answered}{_detail(error)}"
        case known.ModelAPIError() | known.UnexpectedModelBehavior():
            return "unreadable", "the answer is not what this provider's answers look like"
        case TypeError() | ValueError() | LookupError() | AttributeError():
            # JSON of another shape, which an SDK takes apart without a look.
            return "unreadable", "the answer is not what this provider's answers look like"
        case OSError():
            return "connection", f"no whole answer came over the connection ({type(error).__name__})"
        case _:
            return "other", f"{type(error).__name__}: {str(error)[:_MOST_DETAIL]}"


def _cause(error: Exception) -> str:
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    return type(root).__name__


def _detail(error: Exception) -> str:
    """What the provider itself says, shortened."""
    body: object = getattr(error, "body", None)
    if isinstance(body, dict):
        fields = cast("dict[str, Any]", body)
        inner = fields.get("error", fields)
        body = cast("dict[str, Any]", inner).get("message") if isinstance(inner, dict) else inner
    text = " ".join(str(body or "").split())
    return f": {text[:_MOST_DETAIL]}" if text else ""


# -- A language model that writes notes

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
