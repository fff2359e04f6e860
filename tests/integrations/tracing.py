"""What frameworks that use OpenTelemetry trace of their model calls. A process has one tracer provider."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

_SPANS = InMemorySpanExporter()
_PROVIDER = TracerProvider()
_PROVIDER.add_span_processor(SimpleSpanProcessor(_SPANS))
trace.set_tracer_provider(_PROVIDER)


def start() -> None:
    """Forget what was traced so far."""
    _SPANS.clear()


def model_calls() -> list[str]:
    """All that the spans of model calls tell, a text for each."""
    named = ("chat", "generate_content")
    spans = [s for s in _SPANS.get_finished_spans() if dict(s.attributes or {}).get(_OPERATION) in named]
    return [f"{span.attributes} {[event.attributes for event in span.events]}" for span in spans]


_OPERATION = "gen_ai.operation.name"
