"""What comes back from a provider, in our words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from onlooker.models.calling.errors import CallError, Kind
from onlooker.policy.values.secrets import MASK, mask
from onlooker.ports import Reply

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

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
