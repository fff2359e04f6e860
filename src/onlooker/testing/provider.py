"""A local server that acts as a provider of language models, for tests.

It speaks the protocols of OpenAI (chat completions, responses, embeddings) and Anthropic (messages) over
HTTP, gives scripted answers, streamed if it is asked to, and keeps the requests. It needs only the standard
library.

    with LocalProvider(Answer("## 2026-02-16\\nAna moved to Oslo")) as provider:
        model = LanguageModel(f"openai:test@{provider.url}/v1")
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self, cast

from onlooker.domain.frozen import frozen
from onlooker.policy.tokens import estimate
from onlooker.testing.models import DIMENSIONS, word_vector

Protocol = Literal["chat", "responses", "anthropic", "embeddings"]
Finish = Literal["stop", "length", "refused"]
ServerFault = Literal[
    "hang",  # never answer
    "reset",  # cut the connection in the middle of the answer
    "garbage",  # an answer that is not JSON
    "shapeless",  # JSON that is not an answer
]


@frozen
class Answer:
    """An answer to give: a text, tool calls, an error status, or a fault. The default is a correct note."""

    text: str | None = None
    finish: Finish = "stop"
    status: int = 200
    retry_after: str | None = None
    fault: ServerFault | None = None
    seconds: float = 0.0  # to wait before answering
    # Tools to call, each with its arguments.
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])


@frozen
class Received:
    """A request that the server received."""

    path: str
    headers: dict[str, str] = field(repr=False)  # in lower case
    body: dict[str, Any]

    @property
    def protocol(self) -> Protocol:
        return _protocol_of(self.path)

    @property
    def system(self) -> str:
        """The system prompt."""
        match self.protocol:
            case "anthropic":
                return _text(self.body.get("system", ""))
            case "responses":
                return _text(self.body.get("instructions", ""))
            case _:
                return "\n".join(_text(m["content"]) for m in self.body["messages"] if m["role"] == "system")

    @property
    def user(self) -> str:
        """The user's messages, or the texts to embed."""
        if self.protocol == "embeddings":
            return "\n".join(self.texts)
        said = self.body["input" if self.protocol == "responses" else "messages"]
        if isinstance(said, str):
            return said
        return "\n".join(_text(m["content"]) for m in said if m.get("role") == "user")

    @property
    def texts(self) -> list[str]:
        """The texts to embed."""
        given: str | list[str] = self.body.get("input", [])
        return [given] if isinstance(given, str) else given


_Script = Callable[[Received], Answer]


class LocalProvider:
    """The server. It gives the answers in order. After them, and in place of None, it gives correct notes.

    If a function is the only answer, it answers every request. `received` has the requests so far. The server
    can be stopped and started again at the same address.
    """

    def __init__(self, *answers: Answer | _Script | None, port: int = 0) -> None:
        self.received: list[Received] = []
        self._always = answers[0] if len(answers) == 1 and callable(answers[0]) else None
        self._answers = [] if self._always else list(answers)
        self._port = port
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The address without a path. It is the `base_url` for Anthropic; for OpenAI, add `/v1`."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Listen on a free port the first time, and later on the same one."""
        self._stopping = threading.Event()
        self._server = _Server(("127.0.0.1", self._port), _RequestHandler, self)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Cut every connection and free the port. Stopping twice is harmless."""
        server, self._server = self._server, None
        if server is None or self._thread is None:
            return
        self._stopping.set()
        server.shutdown()
        server.cut_connections()
        server.server_close()
        self._thread.join()

    @property
    def count(self) -> int:
        """How many requests there were."""
        return len(self.received)

    def next_answer(self, received: Received) -> Answer:
        """Return the answer to this request."""
        with self._lock:
            self.received.append(received)
            chosen = self._always or (self._answers.pop(0) if self._answers else None)
        if callable(chosen):
            chosen = chosen(received)
        return chosen or Answer()

    def wait(self, seconds: float | None) -> bool:
        """Wait for `seconds`, or forever. Return True if the server stops meanwhile."""
        return self._stopping.wait(seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], provider: LocalProvider
    ) -> None:
        self.provider = provider
        self._open: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        for connection in list(self._open):
            _cut(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the test."""


class _RequestHandler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    @property
    def _provider(self) -> LocalProvider:
        return cast("_Server", self.server).provider

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        sent = cast("dict[str, Any]", json.loads(self.rfile.read(length) or b"{}"))
        headers = {key.lower(): value for key, value in self.headers.items()}
        received = Received(self.path, headers, sent)
        answer = self._provider.next_answer(received)
        if answer.fault == "hang":
            self._provider.wait(None)
        elif not (answer.seconds and self._provider.wait(answer.seconds)):
            self._answer(received, answer)

    def _answer(self, received: Received, answer: Answer) -> None:
        if answer.status != 200:
            self._send(json.dumps(_error(received.protocol, answer.status)).encode(), answer)
            return
        body = self._vectors(received) if received.protocol == "embeddings" else self._text(received, answer)
        match answer.fault:
            case "garbage":
                self._send(b'{"id": "x", "choices": [{"mess', answer)
            case "shapeless":
                self._send(b'{"greeting": "hello"}', answer)
            case _ if received.body.get("stream"):
                events = _EVENTS[received.protocol](body)
                self._send("".join(events).encode(), answer, "text/event-stream")
            case _:
                self._send(json.dumps(body).encode(), answer)

    def _text(self, received: Received, answer: Answer) -> dict[str, Any]:
        text = answer.text
        if text is None:
            text = "" if answer.calls else note_for(received.user)
        used = (estimate(received.system) + estimate(received.user), estimate(text[:100_000]))
        body = _body(received.protocol, str(received.body.get("model", "")), text, answer.finish, used)
        # A new id for each answer: some clients merge answers with the same id.
        body["id"] += f"_{self._provider.count}"
        return _with_calls(received, body, answer.calls, self._provider.count) if answer.calls else body

    def _vectors(self, received: Received) -> dict[str, Any]:
        asked: int = received.body.get("dimensions", DIMENSIONS)
        used = (estimate(received.user), 0)
        return _embeddings(str(received.body.get("model", "")), received.texts, asked, used)

    def _send(self, body: bytes, answer: Answer, kind: str = "application/json") -> None:
        self.send_response(answer.status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if answer.retry_after is not None:
            self.send_header("retry-after", answer.retry_after)
        self.end_headers()
        if answer.fault == "reset":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            _cut(self.connection)
            self.close_connection = True
        else:
            self.wfile.write(body)


def _cut(connection: socket.socket) -> None:
    """End a connection with a reset, like a machine that goes down."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RD)
        # Files made from the socket would keep it open.
        socket.close(connection.detach())


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content)


# -- A correct note, made from the text of a prompt

_SECTION = re.compile(
    r"^<<< (?P<title>[A-Z ]+) (?P<marker>\w+)\n(?P<text>.*?)\n"
    r"(?:(?=<<< [A-Z ]+ (?P=marker)\n)|>>> (?P=marker)$)",
    re.M | re.S,
)
_LABEL = re.compile(
    r"(?:\[(?:[A-Z][a-z]{2} (?P<date>\d{4}-\d\d-\d\d) )?\d\d:\d\d\] )?"
    r"(?P<who>(?:user|assistant|system|tool)[^:\n]{0,70}): ?"
)
_AT_MOST = re.compile(r"at most (\d+) (words|characters)")
_MIN_WORDS = 4
_TOKENS_PER_WORD = 1.5


def note_for(prompt: str) -> str:
    """Return dated lines for the messages of an observer's prompt, fewer lines for a reflector's notes, or no
    facts where it is asked for those."""
    if prompt.rstrip().endswith("Write the facts to keep."):
        return "[]"
    sections = {found["title"]: found["text"] for found in _SECTION.finditer(prompt)}
    target = _AT_MOST.search(prompt)
    tokens = round(int(target[1]) * (1.3 if target[2] == "words" else 1)) if target else 200
    if "MESSAGES" in sections:
        return _observed(sections["MESSAGES"].split("\n"), tokens)
    return _reflected(sections.get("NOTES", "").split("\n"), tokens)


def _observed(said: Sequence[str], tokens: int) -> str:
    labels = [found for line in said if (found := _LABEL.match(line))]
    words = max(_MIN_WORDS, int(tokens / _TOKENS_PER_WORD / max(1, len(labels))) - 3)
    lines: list[str] = []
    for line in said:
        label = _LABEL.match(line)
        if label is None:
            continue
        if label["date"]:
            lines.append(f"## {label['date']}")
        if told := _first(line[label.end() :], words):
            lines.append(f"{label['who'].capitalize()} said: {told}")
    return "\n".join(dict.fromkeys(lines))


def _reflected(noted: Sequence[str], tokens: int) -> str:
    lines = list(dict.fromkeys(line for line in noted if line.strip()))
    kept = [line for line in lines if line.startswith("##") or "CRITICAL" in line]
    room = tokens - sum(map(estimate, kept))
    for line in lines:
        cost = estimate(line)
        if line not in kept and cost <= room:
            kept.append(line)
            room -= cost
    shown = [line for line in lines if line in kept]
    while shown and shown[-1].startswith("##"):
        shown.pop()  # a note does not end with a heading
    return "\n".join(shown)


def _first(text: str, words: int) -> str:
    """Return the first words, with an end that does not look cut off."""
    every = text.split()
    shown = " ".join(every[:words]).rstrip(".,;:([{-–—→")
    return shown and f"{shown}{'…' if len(every) > words else '.'}"


# -- Answers in the format of OpenAI and Anthropic

_Used = tuple[int, int]  # tokens in, tokens out

_CREATED = 1_771_250_400


def _protocol_of(path: str) -> Protocol:
    """Return the protocol that belongs to a path."""
    path = path.partition("?")[0]
    if path.endswith("/messages"):
        return "anthropic"
    if path.endswith("/embeddings"):
        return "embeddings"
    return "responses" if path.endswith("/responses") else "chat"


def _body(protocol: Protocol, model: str, text: str, finish: Finish, used: _Used) -> dict[str, Any]:
    """Return a complete answer."""
    write = {"chat": _chat, "responses": _responses, "anthropic": _anthropic}[protocol]
    return write(model, text, finish, used)


def _embeddings(model: str, texts: list[str], dimensions: int, used: _Used) -> dict[str, Any]:
    """Return vectors. Like some servers, it does not keep the order of the texts."""
    data = [
        {"object": "embedding", "index": i, "embedding": word_vector(text, dimensions)}
        for i, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": used[0], "total_tokens": used[0]}
    return {"object": "list", "data": data[::-1], "model": model, "usage": usage}


def _error(protocol: Protocol, status: int) -> dict[str, Any]:
    """Return an error in the provider's format. Like some providers, it quotes a key that is wrong."""
    kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "api_error")
    message = f"test error {status}"
    if status == 401:
        message = "Incorrect API key provided: sk-test-0123456789abcdefghij"
    error = {"type": kind, "message": message}
    return {"type": "error", "error": error} if protocol == "anthropic" else {"error": error | {"code": None}}


def _chat(model: str, text: str, finish: Finish, used: _Used) -> dict[str, Any]:
    refused = finish == "refused"
    message = {
        "role": "assistant",
        "content": None if refused else text,
        "refusal": text or "no" if refused else None,
    }
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": _CREATED,
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


def _responses(model: str, text: str, finish: Finish, used: _Used) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    if finish == "refused":
        part = {"type": "refusal", "refusal": text}
    cut_off = finish == "length"
    return {
        "id": "resp_test",
        "object": "response",
        "created_at": _CREATED,
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


def _anthropic(model: str, text: str, finish: Finish, used: _Used) -> dict[str, Any]:
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


# -- Tool calls, and answers in pieces


def _with_calls(
    received: Received, body: dict[str, Any], calls: Mapping[str, Mapping[str, Any]], request: int
) -> dict[str, Any]:
    """Add tool calls to an answer. Their ids differ from those of earlier requests."""
    named = [(f"call_{request}_{n}", name, given) for n, (name, given) in enumerate(calls.items())]
    if received.protocol == "anthropic":
        body["content"] += [
            {"type": "tool_use", "id": i, "name": name, "input": dict(given)} for i, name, given in named
        ]
        return body | {"stop_reason": "tool_use"}
    if received.protocol == "responses":
        output = [item for item in body["output"] if item["content"][0]["text"]]
        output += [
            {
                "type": "function_call",
                "id": f"fc_{i}",
                "call_id": i,
                "name": name,
                "arguments": json.dumps(given),
                "status": "completed",
            }
            for i, name, given in named
        ]
        return body | {"output": output}
    (choice,) = body["choices"]
    choice["finish_reason"] = "tool_calls"
    choice["message"] |= {
        "content": choice["message"]["content"] or None,
        "tool_calls": [
            {"id": i, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for i, name, given in named
        ],
    }
    return body


def _anthropic_events(body: dict[str, Any]) -> Iterator[str]:
    """A message as Anthropic streams it."""

    def event(kind: str, **more: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"

    yield event("message_start", message=body | {"content": [], "stop_reason": None})
    for index, block in enumerate(body["content"]):
        if block["type"] == "text":
            empty = block | {"text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        else:
            empty = block | {"input": {}}
            given = _pieces(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in given]
        yield event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    ending = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ending, usage={"output_tokens": body["usage"]["output_tokens"]})
    yield event("message_stop")


def _chat_events(body: dict[str, Any]) -> Iterator[str]:
    """A chat completion as OpenAI streams it."""
    (choice,) = body["choices"]
    common = {key: body[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> str:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return f"data: {json.dumps({**common, 'choices': choices})}\n\n"

    message: dict[str, Any] = choice["message"]
    yield chunk({"role": "assistant"})
    for piece in _pieces(message["content"] or ""):
        yield chunk({"content": piece})
    calls: list[dict[str, Any]] = message.get("tool_calls", [])
    for index, call in enumerate(calls):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    yield chunk({}, choice["finish_reason"])
    yield "data: [DONE]\n\n"


def _response_events(body: dict[str, Any]) -> Iterator[str]:
    """A response as OpenAI streams it."""
    number = -1

    def event(kind: str, **more: Any) -> str:
        nonlocal number
        number += 1
        return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': number, **more})}\n\n"

    yield event("response.created", response=body | {"status": "in_progress", "output": []})
    for index, item in enumerate(body["output"]):
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            yield event("response.output_item.added", output_index=index, item=item | {"content": []})
            (part,) = item["content"]
            at = place | {"content_index": 0}
            text = part.get("text") or part.get("refusal")
            yield event("response.content_part.added", **at, part=part | {"text": ""})
            for piece in _pieces(text):
                yield event("response.output_text.delta", **at, delta=piece, logprobs=[])
            yield event("response.output_text.done", **at, text=text, logprobs=[])
            yield event("response.content_part.done", **at, part=part)
        else:
            yield event("response.output_item.added", output_index=index, item=item | {"arguments": ""})
            for piece in _pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield event("response.function_call_arguments.done", **place, **done)
        yield event("response.output_item.done", output_index=index, item=item)
    kind = "response.completed" if body["status"] == "completed" else "response.incomplete"
    yield event(kind, response=body)


_EVENTS: dict[Protocol, Callable[[dict[str, Any]], Iterator[str]]] = {
    "chat": _chat_events,
    "responses": _response_events,
    "anthropic": _anthropic_events,
}


def _pieces(text: str) -> list[str]:
    """A text in pieces of a few characters, as it is streamed."""
    return [text[at : at + 12] for at in range(0, len(text), 12)]
