"""OpenTelemetry spans and metrics, made from events according to the GenAI memory conventions.

Only the API is used; the host's SDK decides whether and where they are exported. They contain amounts,
durations and model names, never the content of messages.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

from onlooker.domain import events
from onlooker.domain.context import Stats
from onlooker.domain.events import Event
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note, Usage

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

log = logging.getLogger("onlooker")

NAME = "onlooker"
# Providers with another name in the conventions.
_PROVIDERS = {
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "mistral": "mistral_ai",
    "grok": "x_ai",
    "xai": "x_ai",
    "moonshotai": "moonshot_ai",
}
# The buckets that the conventions recommend.
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(4**i for i in range(14))
_SECTIONS = (
    "system",
    "knowledge",
    "items",
    "pinned",
    "reflections",
    "observations",
    "now",
    "messages",
    "end",
)

Attributes = dict[str, str | int | float | bool]


class LazyTelemetry:
    """A listener that does nothing until something in this process has loaded OpenTelemetry.

    Before that nothing could receive the data, and loading it takes longer than all of Onlooker.
    """

    _LOADED: ClassVar = ("opentelemetry.trace", "opentelemetry.metrics")

    def __init__(self) -> None:
        self._telemetry: Telemetry | None = None
        self._broken = False

    def __call__(self, event: Event) -> None:
        if self._broken:
            return
        if self._telemetry is None:
            if not any(name in sys.modules for name in self._LOADED):
                return
            try:
                self._telemetry = Telemetry()
            except Exception as error:  # noqa: BLE001  an API of another version may fail in any way
                self._broken = True
                log.warning("no telemetry, because OpenTelemetry cannot be used: %r", error)
                return
        self._telemetry(event)


@frozen
class Operation:
    """One operation of the conventions, which becomes a span."""

    name: str
    attributes: Attributes = field(default_factory=dict[str, "str | int | float | bool"])
    error: str = ""


class Telemetry:
    """A listener for `Memory.subscribe` that makes spans and metrics of events.

    `open_memory` subscribes one. Make your own to use other providers than the global ones.
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        from opentelemetry import metrics, trace

        self._trace = trace
        self._tracer = trace.get_tracer(NAME, _version(), tracer_provider=tracer_provider)
        meter = metrics.get_meter(NAME, _version(), meter_provider=meter_provider)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._usage = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._context = meter.create_histogram(
            "onlooker.context.tokens",
            unit="{token}",
            description="Tokens of a context by section.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._events = meter.create_counter(
            "onlooker.events", unit="{event}", description="Events of the memory, by type and reason."
        )
        self._cost = meter.create_counter(
            "onlooker.cost", unit="{USD}", description="Cost of the models that write notes, where known."
        )

    def __call__(self, event: Event) -> None:
        self._events.add(1, _kind(event))
        if isinstance(event, events.ModelReplied):
            self._count_usage(event.usage)
        if isinstance(event, events.ContextBuilt):
            self._count_sections(event.stats)
        operation = operation_of(event)
        if operation is not None:
            self._record(operation, event)

    def _record(self, operation: Operation, event: Event) -> None:
        ended = time.time_ns()
        named: Attributes = {"gen_ai.operation.name": operation.name}
        if operation.error:
            named["error.type"] = operation.error
        models = {k: v for k, v in operation.attributes.items() if k in _MODEL_KEYS}
        self._duration.record(event.seconds, named | models)
        span = self._tracer.start_span(
            operation.name,
            # It runs in this process; calls to providers are traced by their clients.
            kind=self._trace.SpanKind.INTERNAL,
            attributes=named | _identity(event) | operation.attributes,
            start_time=ended - round(event.seconds * 1e9),
        )
        if operation.error:
            span.set_status(self._trace.StatusCode.ERROR)
        span.end(ended)

    def _count_usage(self, usage: Usage) -> None:
        operation = "update_memory" if usage.purpose == "reflect" else "create_memory"
        of: Attributes = {"gen_ai.provider.name": "unknown"} | _model(usage.model)
        if usage.cost:
            self._cost.add(usage.cost, of)
        of["gen_ai.operation.name"] = operation
        for kind, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if tokens:
                self._usage.record(tokens, of | {"gen_ai.token.type": kind})

    def _count_sections(self, stats: Stats) -> None:
        for section in _SECTIONS:
            self._context.record(getattr(stats, section), {"onlooker.section": section})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(NAME)
    except PackageNotFoundError:  # not installed
        return ""


# ------------------------------------------------------------------------------------ events as operations


def operation_of(event: Event) -> Operation | None:
    """The event as an operation of the conventions; None if there is none for it."""
    match event:
        case events.Recorded():
            return Operation("create_memory", _records("message", len(event.messages)))
        case events.Realigned():
            return Operation("upsert_memory", _records("message", event.added))
        case events.Noted():
            return Operation("create_memory", _records(event.note.kind, 1) | _note(event.note, event.calls))
        case events.Reflected():
            of = _records(event.note.kind, len(event.sources))
            return Operation("update_memory", of | _note(event.note, event.calls))
        case events.Activated():
            return Operation("update_memory", _records("observation", len(event.notes)))
        case events.Pinned():
            return Operation("update_memory", {"gen_ai.memory.record.id": event.target})
        case events.Edited() | events.Undone():
            of = _records(event.note.kind, 1)
            return Operation("update_memory", of | {"gen_ai.memory.record.id": event.note.id})
        case events.Compacted():
            return Operation("update_memory", {"onlooker.record.kind": "message"})
        case events.Searched():
            return Operation("search_memory", {"gen_ai.memory.record.count": event.hits})
        case events.ContextBuilt():
            return Operation("search_memory", _context(event.stats))
        case events.ItemsMade():
            return Operation("create_memory", _records("item", len(event.items)))
        case events.ItemsForgotten():
            return Operation("delete_memory", _records("item", len(event.items)))
        case events.Cleared():
            return Operation("delete_memory", _records(event.kind or "note", event.notes))
        case events.Deleted():
            return Operation("delete_memory")
        case events.Forgotten() | events.OwnerForgotten():
            return Operation("delete_memory", _records("message", event.done.messages))
        case events.Pruned():
            return Operation("delete_memory", {"gen_ai.memory.record.count": event.rows})
        case events.StepFailed():
            name = "create_memory" if event.step == "observe" else "update_memory"
            return Operation(name, {"onlooker.retry_in": event.retry_in}, "ModelError")
        case _:
            return None


def _kind(event: Event) -> Attributes:
    """The attributes that events are counted by. Each has only a few values."""
    kind: Attributes = {"onlooker.event": type(event).__name__}
    match event:
        case events.ReplyRejected() | events.ExtractionRejected():
            return kind | {"onlooker.reason": event.reason}
        case events.LayerLeftOut():
            return kind | {"onlooker.reason": event.reason, "onlooker.layer": event.layer}
        case events.LayerCut():
            return kind | {"onlooker.layer": event.layer}
        case events.SpendLimitReached():
            return kind | {"onlooker.reason": event.scope}
        case _:
            return kind


def _identity(event: Event) -> Attributes:
    """The conversation and the owner. In the conventions a memory store belongs to an owner, so the owner is
    the id of the store."""
    identity: Attributes = {"onlooker.event": type(event).__name__}
    session, owner = getattr(event, "session", ""), getattr(event, "owner", "")
    if session:
        identity["gen_ai.conversation.id"] = session.key if isinstance(session, SessionId) else session
    if owner:
        identity["gen_ai.memory.store.id"] = owner
    return identity


def _records(kind: str, count: int) -> Attributes:
    return {"onlooker.record.kind": kind, "gen_ai.memory.record.count": count}


def _note(note: Note, calls: Sequence[Usage]) -> Attributes:
    of: Attributes = {
        "gen_ai.memory.record.id": note.id,
        "onlooker.note.tokens": note.tokens,
        "onlooker.note.generation": note.generation,
        "onlooker.note.degraded": note.degraded,
        **_model(note.model),
    }
    if calls:
        of["onlooker.model.calls"] = len(calls)
        of["gen_ai.usage.input_tokens"] = sum(c.input_tokens for c in calls)
        of["gen_ai.usage.output_tokens"] = sum(c.output_tokens for c in calls)
    return of


_MODEL_KEYS = frozenset({"gen_ai.provider.name", "gen_ai.request.model"})


def _model(name: str) -> Attributes:
    """A model as the conventions name it. The built-in model and a host's own models have no provider."""
    provider, colon, model = name.partition(":")
    if not colon:
        return {"gen_ai.request.model": name} if name else {}
    return {
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model.partition("@http")[0],
    }


def _context(stats: Stats) -> Attributes:
    of: dict[str, Any] = {
        f"onlooker.context.{section}_tokens": getattr(stats, section) for section in _SECTIONS
    }
    return of | {
        "onlooker.context.budget": stats.budget,
        "onlooker.context.tokens": stats.total,
        "onlooker.context.cacheable": stats.cacheable,
        "onlooker.context.left_out_messages": stats.left_out_messages,
        "onlooker.context.left_out_notes": stats.left_out_notes,
    }
