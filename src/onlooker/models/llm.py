"""Language models of any provider, through pydantic-ai. Needs the provider's extra, such as
`pip install "onlooker[openai]"`, or `onlooker[llm]` for all.

A model is named "provider:model", or "provider:model@http://host:port/v1". Nothing of pydantic-ai is
imported before the first model is made.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import Message
from onlooker.domain.notes import Note
from onlooker.models.calling import CallError, FailureKind, Price, request_tokens
from onlooker.policy.items.extract import items_prompt
from onlooker.policy.model_names import ModelName, parse_name
from onlooker.policy.prompts import Prompt, label_messages, observer_prompt, reflector_prompt
from onlooker.policy.render import Context
from onlooker.policy.secrets import MASK, mask
from onlooker.policy.text import regex
from onlooker.policy.tokens import estimate
from onlooker.policy.values import HEAD as LEDGER
from onlooker.ports import ItemsRequest, ObserveRequest, Reply, Request

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model as Client
    from pydantic_ai.providers import Provider
    from pydantic_ai.settings import ModelSettings

# The most tokens that the observer reads for each token said. What the rules leave goes to notes so far, so
# that the model can say what changed and does not repeat itself. Showing all notes with every chunk would
# cost several times as much as the messages.
MAX_READ = 1.2
# The same for small chunks, in tokens, whose rules are shorter but weigh more.
SMALL_CHUNK = 700
MAX_READ_SMALL = 1.5
# Seconds. The setting `model_deadline`, which cannot be longer, ends a call before a client would.
MAX_TIMEOUT = 3_600.0
# Half of the context window is left for the rules, the notes so far, the answer and counting errors.
_WINDOW_SHARE = 0.5
_MAX_WINDOW = 100_000
_UNKNOWN_CONTEXT = 32_000
# Ollama silently cuts off longer prompts unless it is configured to accept them.
_OLLAMA_CONTEXT = 4_096


class LanguageModel:
    """A model by name: "anthropic:claude-haiku-4-5", "openai:my-model@http://localhost:8000/v1".

    It makes one attempt at each call. `onlooker.models.calling.guarded` adds retries and a breaker. A model
    that is given to `open_memory` by name has them already.
    """

    def __init__(
        self,
        name: str,
        *,
        window: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        price: Price | None = None,
        max_read: float | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepare the model. Nothing is sent.

        Args:
            name: "PROVIDER:NAME" or "PROVIDER:NAME@URL".
            window: The most tokens of messages or notes in one request. The default is half of the model's
                context window.
            base_url: The address of the provider, if not the usual one.
            api_key: The key. The default is the provider's environment variable.
            timeout: Seconds for one attempt. The default is the setting `model_deadline`.
            price: Dollars per million tokens, if the built-in list lacks the model or is wrong.
            max_read: The most tokens that the observer reads for each token said. What the rules leave goes
                to notes so far. The default is 1.3, and 1.5 for chunks of less than 700 tokens.
            options: More model settings of pydantic-ai, such as `{"temperature": 0.2}`.

        Raises:
            SettingsError: The extra is missing, the name is unknown, or there is no key.
        """
        if window is not None and window < 1:
            raise SettingsError("window", window, "must be at least 1")
        parsed = parse_name(name, base_url)
        self._name = str(parsed)
        self._client = _client(parsed, api_key)
        self._secret = api_key
        self._window = window or self._usual_window(parsed.provider)
        self._timeout = timeout
        self._price = price
        self._max_read = max_read
        # OpenAI's responses interface stores conversations unless it is told not to.
        unkept = {"openai_store": False} if parsed.provider == "openai-responses" else {}
        self._options: dict[str, Any] = unkept | dict(options or {})

    @property
    def name(self) -> str:
        return self._name

    @property
    def window(self) -> int:
        return self._window

    def _usual_window(self, provider: str) -> int:
        context = self._client.context_window or _UNKNOWN_CONTEXT
        if provider == "ollama":
            context = _OLLAMA_CONTEXT
        return min(_MAX_WINDOW, int(context * _WINDOW_SHARE))

    async def write(self, request: Request) -> Reply:
        """Ask the provider for the note.

        Raises:
            CallError: There is no answer. The message says why.
        """
        try:
            response = await self._send(request)
        except Exception as error:
            # Whatever a provider's SDK raises, the call has failed.
            failure = _failure(self._name, error, self._secret)
            if failure.kind == "denied":
                raise failure from None  # the provider's message may quote the key
            raise failure from error
        reply = _reply(response)
        if self._price is None:
            return reply
        return replace(reply, cost=self._price.of(reply.input_tokens, reply.output_tokens))

    async def _send(self, request: Request) -> ModelResponse:
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        prompt = prompt_of(request, self._max_read)
        message = ModelRequest(parts=[UserPromptPart(prompt.user)], instructions=prompt.system)
        # Entered for each call: calls under way share connections, and the last one closes them. So there is
        # nothing to close at the end, and any event loop will do.
        async with self._client as model:
            return await model_request(
                model, [message], model_settings=self._settings(request), instrument=False
            )

    def _settings(self, request: Request) -> ModelSettings:
        profile = self._client.profile
        settings: dict[str, Any] = {
            "max_tokens": _max_output(request),
            "request_timeout": self._timeout or MAX_TIMEOUT,
        }
        if profile.get("supports_thinking") or profile.get("thinking_always_enabled"):
            # Notes need no reasoning, and reasoning is billed as output.
            settings["thinking"] = False
        if "max_retries" not in self._client.unsupported_settings:
            settings["max_retries"] = 0  # the caller decides, and sees every failure
        return cast("ModelSettings", settings | self._options)


# -- Answers


class ChatModel:
    """A model that answers a context as it is, for `onlooker chat`."""

    def __init__(self, name: str) -> None:
        """Prepare the model, named as for `LanguageModel`. Nothing is sent."""
        parsed = parse_name(name, None)
        self._name = str(parsed)
        self._client = _client(parsed, None)

    async def answer(self, context: Context) -> AsyncIterator[str]:
        """The answer, piece by piece as the provider sends it.

        Raises:
            CallError: There is no answer, or it breaks off. The message says why.
        """
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

        try:
            async with (
                self._client as model,
                model_request_stream(model, _as_turns(context), instrument=False) as stream,
            ):
                async for event in stream:
                    match event:
                        case PartStartEvent(part=TextPart(content=text)) if text:
                            yield text
                        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                            yield text
                        case _:
                            pass
        except Exception as error:
            failure = _failure(self._name, error, None)
            if failure.kind == "denied":
                raise failure from None  # the provider's message may quote the key
            raise failure from error


def _as_turns(context: Context) -> list[ModelMessage]:
    """A context as pydantic-ai has it, texts only. What changes each turn is at the end, where it leaves the
    provider's cache alone."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

    turns: list[ModelMessage] = []
    for message in (*context.preface, *context.messages):
        text = message.body
        if message.role == "assistant":
            turns.append(ModelResponse(parts=[TextPart(text)]))
        else:
            turns.append(ModelRequest(parts=[UserPromptPart(text)]))
    if context.end.strip():
        turns.append(ModelRequest(parts=[UserPromptPart(f"[system] {context.end}")]))
    if isinstance(turns[-1], ModelRequest):
        turns[-1].instructions = context.system
    return turns


# -- Providers

# The extras of Onlooker, and the providers that use another one's.
_EXTRAS = {"anthropic": "anthropic", "google": "google", "bedrock": "bedrock"}


def install(provider: str) -> str:
    """Return the advice for a missing provider package."""
    return f'needs an extra: pip install "onlooker[{_EXTRAS.get(provider, "openai")}]"'


# The environment variable with each provider's key.
_KEYS = {
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
}
OLLAMA = "http://localhost:11434/v1"
# Every compatible server speaks chat completions, and they store nothing at the provider. The few models
# that need the other interface are named "openai-responses:".
_INTERFACES = {"openai": "openai-chat"}


def _client(name: ModelName, api_key: str | None) -> Client:
    """Return the model of pydantic-ai that talks to the provider.

    Raises:
        SettingsError: The extra is missing, the name is unknown, or there is no key.
    """
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError as error:
        raise SettingsError("model", str(name), install(name.provider)) from error
    interface = _INTERFACES.get(name.provider, name.provider)
    try:
        return infer_model(f"{interface}:{name.model}", lambda _: _provider(name, api_key))
    except ImportError as error:
        raise SettingsError("model", str(name), install(name.provider)) from error
    except (UserError, ValueError) as error:
        raise SettingsError("model", str(name), _unusable(name, error)) from None


def _provider(name: ModelName, api_key: str | None) -> Provider[Any]:
    from pydantic_ai.providers import infer_provider_class

    if name.provider in ("openai", "openai-responses") and name.base_url is not None:
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        # It never sends OPENAI_API_KEY, which another service must not see.
        return OpenAICompatibleProvider("openai-compatible", base_url=name.base_url, api_key=api_key)
    given: dict[str, str] = {}
    if api_key is not None:
        given["api_key"] = api_key
    usual = (os.environ.get("OLLAMA_BASE_URL") or OLLAMA) if name.provider == "ollama" else None
    if base_url := name.base_url or usual:
        given["base_url"] = base_url
    try:
        return infer_provider_class(name.provider)(**given)
    except TypeError as error:
        raise ValueError(f"{name.provider} does not take {' and '.join(given)}") from error


def _unusable(name: ModelName, error: Exception) -> str:
    variable = _KEYS.get(name.provider)
    if variable and variable in str(error):
        return f"needs a key: set {variable}, or give api_key"
    # The first sentence says what is wrong. The rest is advice about pydantic-ai.
    return f"cannot be used: {str(error).split('. ')[0]}"


# -- Prompts

_NOTES_SHARE = 0.08  # of the chunk: so much of the notes is always shown
_MIN_NOTES = 36  # tokens: the last important line is shown even with the smallest chunk
_FENCE = 24  # tokens around the notes
# A chunk of at least this many tokens gets the full rules, which are less than a fifth of it.
BRIEF_BELOW = 3_000
# Room for the reasoning of models that think before they write, which counts as output. Of local models it
# is not known whether they do.
_REASONING = 4_500
_EXTRACTED = 2_000  # for the values of the user's own types


def prompt_of(request: Request, max_read: float | None = None) -> Prompt:
    """Return a request as the text that the model is sent."""
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
    labelled = label_messages(request.messages, exact=request.format == "stamped")
    bare = _observer_prompt(request, (), labelled)
    size = request_tokens(request)
    most = max_read or (MAX_READ_SMALL if size < SMALL_CHUNK else MAX_READ)
    room = most * size - estimate(bare.system) - estimate(bare.user) - _FENCE
    known = notes_so_far(request.notes, request.messages, int(max(room, _MIN_NOTES, _NOTES_SHARE * size)))
    return _observer_prompt(request, known, labelled) if known else bare


def _observer_prompt(request: ObserveRequest, notes: Sequence[Note], labelled: str) -> Prompt:
    return observer_prompt(
        request.messages,
        notes,
        target_tokens=request.target_tokens,
        format=request.format,
        instruction=request.instruction,
        correction=request.correction,
        schemas=request.schemas,
        brief=request_tokens(request) < BRIEF_BELOW,
        labelled=labelled,
    )


def _max_output(request: Request) -> int:
    """Return the length in tokens at which an answer is cut off."""
    # A note of more than twice the target is refused anyway.
    extracts = isinstance(request, ObserveRequest) and request.schemas
    return 2 * request.target_tokens + _REASONING + (_EXTRACTED if extracts else 0)


# How much of what is shown goes to lines on the topics of the messages. The rest are the last ones of weight.
_TOPICAL = 0.6
_LONG_WORD = regex(r"[^\W\d_]{4,}")
_TOPIC_WORD = regex(r"[^\W\d_]{4,}|[\w-]*\d[\w-]*")  # takes three times as long
_DIGIT = regex(r"\d")
_WEIGHTY = regex(r"(?:\[\d\d:\d\d\] )?(?:CRITICAL|IMPORTANT) ")


def notes_so_far(notes: Sequence[Note], messages: Sequence[Message], most: int) -> list[Note]:
    """Return the lines of the notes that a model needs for these messages, within `most` tokens.

    Those are the lines on the same topics, so that it can write "was X, now Y", and the last ones that are
    IMPORTANT or CRITICAL. They are in one note, under their days.
    """
    lines = [line for note in notes for line in _telling_lines(note.text)]
    if not lines:
        return []
    said = _topics(" ".join(message.body for message in messages))
    words = [line.topics & said for line in lines]
    common = Counter(chain.from_iterable(words))
    # A word that is in every line, such as the user's name, is not a topic.
    shared = [sum([1 / common[word] for word in found]) for found in words]
    topical = [i for score, i in sorted(zip(shared, range(len(lines)), strict=True), reverse=True) if score]
    weighty = [i for i in range(len(lines) - 1, -1, -1) if lines[i].is_weighty]
    chosen: set[int] = set()
    days: set[str] = set()
    used = 0
    newest = range(len(lines) - 1, -1, -1) if most > 2 * _MIN_NOTES else ()
    shortest = min(line.tokens for line in lines)
    for order, limit in (
        (weighty[:1], most),
        (topical, max(_TOPICAL * most, _MIN_NOTES)),
        (weighty, most),
        (newest, most),
    ):
        for i in order:
            if used + shortest > limit:
                break
            if i in chosen:
                continue
            day, cost = lines[i].day, lines[i].tokens
            if day not in days:
                cost += _HEADING_COST
            # A long line is not a reason to show none.
            if used + cost <= limit:
                chosen.add(i)
                days.add(day)
                used += cost
    rendered: list[str] = []
    heading = ""
    for i in sorted(chosen):
        line = lines[i]
        rendered += [line.text] if line.day == heading or not line.day else [line.day, line.text]
        heading = line.day
    return [replace(notes[-1], text="\n".join(rendered))] if rendered else []


_HEADING_COST = 8


def _topics(text: str) -> set[str]:
    if len(text) > _LONG_LINE:  # much is said again and again
        text = " ".join({*text.split()})
    words = _TOPIC_WORD if _DIGIT.search(text) else _LONG_WORD
    return {word[:6] for word in words.findall(text.lower())}


_LONG_LINE = 1_000  # characters


class _Line(NamedTuple):
    """A line of a note, with the heading above it and what it is about."""

    day: str
    text: str
    topics: set[str]
    tokens: int
    is_weighty: bool


@lru_cache(maxsize=64)  # each note is read again for every chunk after it
def _telling_lines(note: str) -> list[_Line]:
    """Return each line of a note that says something."""
    found: list[_Line] = []
    heading = ""
    for line in note.split("\n"):
        if line.startswith("## "):
            heading = line
        elif line.strip() and not line.startswith(LEDGER):
            weighty = _WEIGHTY.match(line) is not None
            found.append(_Line(heading, line, _topics(line), estimate(line), weighty))
    return found


# -- Answers

Finish = Literal["stop", "length", "refused", "other"]
_FINISH: dict[str | None, Finish] = {
    None: "stop",  # some servers give no reason
    "stop": "stop",
    "length": "length",
    "content_filter": "refused",
}
_MAX_DETAIL_LENGTH = 200


def _reply(response: ModelResponse) -> Reply:
    return Reply(
        response.text or "",
        _FINISH.get(response.finish_reason, "other"),
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        cost=_listed_cost(response),
    )


def _listed_cost(response: ModelResponse) -> float | None:
    """Return the cost by the price list that is installed with pydantic-ai, or None."""
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None


def _failure(name: str, error: Exception, secret: str | None) -> CallError:
    """Describe what went wrong in plain words, without the key."""
    kind, what = _describe(error)
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None and kind == "rate":
        what += f"; retry after {retry_after:g} s"
    message = mask(f"{name}: {what}")
    if secret:
        message = message.replace(secret, MASK)
    return CallError(message, kind, retry_after=retry_after)


def _describe(error: Exception) -> tuple[FailureKind, str]:
    from pydantic_ai import exceptions as known

    status = getattr(error, "status_code", None)
    answered = f"the provider answered {status}" if status else "the provider refused"
    match error:
        case known.ModelAuthenticationError():
            return "denied", f"{answered}: the key is invalid or has no access to this model"
        case known.ModelQuotaExceededError():
            return "quota", f"{answered}: the account's quota or credit is used up"
        case known.ModelRateLimitError():
            return "rate", f"{answered}: too many requests"
        case known.ModelContextWindowExceededError():
            return (
                "rejected",
                f"{answered}: the input exceeds the model's context window; lower `window`",
            )
        case known.ModelNotFoundError():
            return "rejected", f"{answered}: there is no such model or address{_detail(error)}"
        case known.ModelRequestTimeout() | known.ModelTimeoutError():
            return "timeout", "the provider did not answer in time"
        case known.ModelConnectionError():
            return "connection", f"the connection failed ({_cause(error)})"
        case known.ModelUnavailableError() | known.ModelServerError():
            return "server", f"{answered}: it is down or overloaded"
        case known.ModelRequestRejectedError():
            return "rejected", f"{answered}: the request was rejected{_detail(error)}"
        case known.ModelHTTPError():
            may_pass = error.status_code >= 500 or error.status_code == 408
            return "server" if may_pass else "rejected", f"{answered}{_detail(error)}"
        case known.ModelAPIError() | known.UnexpectedModelBehavior():
            return "unreadable", "the answer is not in the provider's format"
        case TypeError() | ValueError() | LookupError() | AttributeError():
            # The SDK fails like this on JSON of another shape.
            return "unreadable", "the answer is not in the provider's format"
        case OSError():
            return "connection", f"the connection failed ({type(error).__name__})"
        case _:
            return "other", f"{type(error).__name__}: {str(error)[:_MAX_DETAIL_LENGTH]}"


def _cause(error: Exception) -> str:
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    return type(root).__name__


def _detail(error: Exception) -> str:
    """Return the provider's own message, shortened."""
    body: object = getattr(error, "body", None)
    if isinstance(body, dict):
        fields = cast("dict[str, Any]", body)
        inner = fields.get("error", fields)
        body = cast("dict[str, Any]", inner).get("message") if isinstance(inner, dict) else inner
    text = " ".join(str(body or "").split())
    return f": {text[:_MAX_DETAIL_LENGTH]}" if text else ""
