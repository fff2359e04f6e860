"""Answers as OpenAI and Anthropic give them."""

from __future__ import annotations

from typing import Any, Literal

from onlooker.testing.embedding import word_vector

Protocol = Literal["chat", "responses", "anthropic", "embeddings"]
Finish = Literal["stop", "length", "refused"]
Used = tuple[int, int]  # tokens in, tokens out

_WHEN = 1_771_250_400


def protocol_of(path: str) -> Protocol:
    """Which protocol a request to this path speaks."""
    if path.endswith("/messages"):
        return "anthropic"
    if path.endswith("/embeddings"):
        return "embeddings"
    return "responses" if path.endswith("/responses") else "chat"


def body_of(protocol: Protocol, model: str, text: str, finish: Finish, used: Used) -> dict[str, Any]:
    """A whole answer."""
    write = {"chat": _chat, "responses": _responses, "anthropic": _anthropic}[protocol]
    return write(model, text, finish, used)


def vectors_of(model: str, texts: list[str], dimensions: int, used: Used) -> dict[str, Any]:
    """An answer of vectors. Like some servers, it does not keep the order of the texts."""
    data = [
        {"object": "embedding", "index": i, "embedding": word_vector(text, dimensions)}
        for i, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": used[0], "total_tokens": used[0]}
    return {"object": "list", "data": data[::-1], "model": model, "usage": usage}


def error_of(protocol: Protocol, status: int) -> dict[str, Any]:
    """An error as the provider words it. Like some of them, it quotes the key when that is wrong."""
    kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "api_error")
    message = f"test error {status}"
    if status == 401:
        message = "Incorrect API key provided: sk-test-0123456789abcdefghij"
    error = {"type": kind, "message": message}
    return {"type": "error", "error": error} if protocol == "anthropic" else {"error": error | {"code": None}}


def _chat(model: str, text: str, finish: Finish, used: Used) -> dict[str, Any]:
    refused = finish == "refused"
    message = {
        "role": "assistant",
        "content": None if refused else text,
        "refusal": text or "no" if refused else None,
    }
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": _WHEN,
        "model": model,
        "choices": [
            {"index": 0, "message": message, "finish_reason": "length" if finish == "length" else "stop"}
        ],
        "usage": {
            "prompt_tokens": used[0],
            "completion_tokens": used[1],
            "total_tokens": used[0] + used[1],
        },
    }


def _responses(model: str, text: str, finish: Finish, used: Used) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    if finish == "refused":
        part = {"type": "refusal", "refusal": text}
    cut_off = finish == "length"
    return {
        "id": "resp_test",
        "object": "response",
        "created_at": _WHEN,
        "model": model,
        "status": "incomplete" if cut_off else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut_off else None,
        "output": [
            {
                "id": "msg_test",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": used[0],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": used[1],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": used[0] + used[1],
        },
    }


def _anthropic(model: str, text: str, finish: Finish, used: Used) -> dict[str, Any]:
    reasons = {"stop": "end_turn", "length": "max_tokens", "refused": "refusal"}
    return {
        "id": "msg_test",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": reasons[finish],
        "stop_sequence": None,
        "usage": {"input_tokens": used[0], "output_tokens": used[1]},
    }
