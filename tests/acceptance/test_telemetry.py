"""Spans and metrics as a program that uses OpenTelemetry receives them."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import onlooker
from onlooker.domain.events import ModelReplied
from onlooker.policy.settings import DEFAULT
from onlooker.ports import ObserveRequest, Reply, Request
from onlooker.telemetry import LazyTelemetry, Telemetry, operation_of
from onlooker.testing import FaultyModel, ScriptedModel

pytestmark = pytest.mark.anyio

# Notes are written well before they are shown, so that each step is taken.
SMALL = replace(
    DEFAULT,
    budget=1000,
    telemetry=False,
    observe_at=0.3,
    precompute_at=0.2,
    chunk_tokens=0.1,
    memory_limit=0.7,
)
SECRET = "the parcel for Oslo weighs 4711 grams"


@dataclass(frozen=True)
class Received:
    """What arrives at the host's own SDK."""

    exporter: InMemorySpanExporter
    tracers: TracerProvider
    reader: InMemoryMetricReader
    meters: MeterProvider

    @classmethod
    def nothing(cls) -> Received:
        exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers, meters = TracerProvider(), MeterProvider([reader])
        tracers.add_span_processor(SimpleSpanProcessor(exporter))
        return cls(exporter, tracers, reader, meters)

    @property
    def listener(self) -> Telemetry:
        return Telemetry(tracer_provider=self.tracers, meter_provider=self.meters)

    def spans(self, event: str = "") -> list[ReadableSpan]:
        found = self.exporter.get_finished_spans()
        return [s for s in found if not event or attributes(s)["onlooker.event"] == event]

    def points(self, name: str) -> list[HistogramDataPoint | NumberDataPoint]:
        data: Any = self.reader.get_metrics_data()
        scopes = [s for r in data.resource_metrics for s in r.scope_metrics] if data else []
        return [p for s in scopes for m in s.metrics if m.name == name for p in m.data.data_points]


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    assert span.attributes is not None
    return span.attributes


@asynccontextmanager
async def watched(model: Any = None, **options: Any) -> AsyncGenerator[tuple[onlooker.Memory, Received]]:
    received = Received.nothing()
    async with onlooker.open_memory(":memory:", model=model, settings=SMALL, **options) as memory:
        memory.subscribe(received.listener)
        yield memory, received


async def talk(session: onlooker.Session, turns: int) -> None:
    for i in range(turns):
        await session.record(onlooker.user(f"Fact {i}: {SECRET}, number {i}."))


class Priced(ScriptedModel):
    """A model of a named provider that says what its calls cost."""

    def __init__(self) -> None:
        super().__init__(name="google:gemini-2.5-flash")

    async def write(self, request: Request) -> Reply:
        reply = await super().write(request)
        tokens = 100 if isinstance(request, ObserveRequest) else 200
        return replace(reply, input_tokens=tokens, output_tokens=tokens // 10, cost=0.001)


# ------------------------------------------------------------------------------------ spans


async def test_recording_and_a_context_are_spans_of_the_conversation() -> None:
    async with watched() as (memory, received):
        session = memory.session("telegram:42", owner="ana")
        await session.record(onlooker.user("hello"), onlooker.assistant("hi"))
        context = await session.context()
    recorded, built = received.spans()
    assert (recorded.name, built.name) == ("create_memory", "search_memory")
    for span in (recorded, built):
        assert span.kind is SpanKind.INTERNAL
        found = attributes(span)
        assert found["gen_ai.operation.name"] == span.name
        assert found["gen_ai.conversation.id"] == "telegram:42"
        assert found["gen_ai.memory.store.id"] == "ana"
        assert span.start_time is not None
        assert span.end_time is not None
        assert 0 < span.end_time - span.start_time < 5e9
        assert span.instrumentation_scope is not None
        assert span.instrumentation_scope.name == "onlooker"
        assert span.instrumentation_scope.version == onlooker.__version__
    assert attributes(recorded)["gen_ai.memory.record.count"] == 2
    assert attributes(built)["onlooker.context.tokens"] == context.stats.total
    assert attributes(built)["onlooker.context.messages_tokens"] == context.stats.messages


async def test_a_search_is_a_span_without_its_words() -> None:
    async with watched() as (memory, received):
        session = memory.session("a", owner="ana")
        await talk(session, 3)
        await memory.search("parcel", owner="ana")
        await session.search("parcel")
    wide, narrow = received.spans("Searched")
    assert (wide.name, narrow.name) == ("search_memory", "search_memory")
    assert {attributes(s)["gen_ai.memory.record.count"] for s in (wide, narrow)} == {3}
    assert {attributes(s)["gen_ai.memory.store.id"] for s in (wide, narrow)} == {"ana"}
    assert attributes(narrow)["gen_ai.conversation.id"] == "a"
    assert "gen_ai.conversation.id" not in attributes(wide)
    assert "parcel" not in wide.to_json()


async def test_writing_a_note_is_a_span_with_its_model_and_its_tokens() -> None:
    async with watched(Priced()) as (memory, received):
        session = memory.session("a")
        for _ in range(300):
            await talk(session, 1)
            await session.record(onlooker.assistant("Noted."))
            await memory.background.flush()
        await memory.settle()
        notes = await session.notes(statuses=("active", "buffered", "superseded"))
    noted, reflected = received.spans("Noted"), received.spans("Reflected")
    assert {s.name for s in noted} == {"create_memory"}
    assert {s.name for s in reflected} == {"update_memory"}
    written = [attributes(s) for s in (*noted, *reflected)]
    assert {a["gen_ai.memory.record.id"] for a in written} == {n.id for n in notes}
    assert {a["gen_ai.provider.name"] for a in written} == {"gcp.gemini"}
    assert {a["gen_ai.request.model"] for a in written} == {"gemini-2.5-flash"}
    assert {attributes(s)["gen_ai.usage.input_tokens"] for s in noted} == {100}
    assert {attributes(s)["gen_ai.usage.output_tokens"] for s in reflected} == {20}
    assert all(attributes(s)["gen_ai.memory.record.count"] > 1 for s in reflected)
    assert received.spans("Activated")


async def test_a_model_that_fails_is_a_span_with_an_error() -> None:
    async with watched(FaultyModel("error")) as (memory, received):
        await talk(memory.session("a"), 30)
        await memory.background.flush()
    failed = received.spans("StepFailed")
    assert failed
    assert {s.status.status_code for s in failed} == {StatusCode.ERROR}
    assert {(s.name, attributes(s)["error.type"]) for s in failed} == {("create_memory", "ModelError")}


async def test_deleting_is_a_span() -> None:
    async with watched() as (memory, received):
        session = memory.session("a")
        await talk(session, 60)
        await memory.settle()
        pinned = (await session.notes())[0]
        await session.pin(pinned.id)
        cleared = await session.history.clear()
        await session.delete()
    (pin,) = received.spans("Pinned")
    assert (pin.name, attributes(pin)["gen_ai.memory.record.id"]) == ("update_memory", pinned.id)
    (clear,), (delete,) = received.spans("Cleared"), received.spans("Deleted")
    assert (clear.name, delete.name) == ("delete_memory", "delete_memory")
    assert attributes(clear)["gen_ai.memory.record.count"] == cleared


async def test_spans_are_children_of_what_the_host_was_doing() -> None:
    async with watched() as (memory, received):
        with received.tracers.get_tracer("host").start_as_current_span("turn") as turn:
            await memory.session("a").record(onlooker.user("hello"))
    recorded = received.exporter.get_finished_spans()[0]
    assert recorded.parent is not None
    assert recorded.parent.span_id == turn.get_span_context().span_id


async def test_nothing_that_was_said_is_in_any_span_or_metric() -> None:
    async with watched(FaultyModel(["garbage", "echo"], first=2), knowledge={"skills": SECRET * 200}) as (
        memory,
        received,
    ):
        session = memory.session("a")
        await talk(session, 60)
        await memory.settle()
        await session.context()
    assert len(received.spans()) > 50
    said = "".join(s.to_json() for s in received.spans())
    assert "parcel" not in said
    assert "4711 grams" not in said  # the digits alone may stand in a time or an id
    data = received.reader.get_metrics_data()
    assert data is not None
    assert "parcel" not in data.to_json()


# ------------------------------------------------------------------------------------ metrics


async def test_metrics_count_tokens_cost_time_and_events() -> None:
    async with watched(Priced(), knowledge={"skills": "word " * 5000}) as (memory, received):
        session = memory.session("a", owner="ana")
        answers = memory.events(ModelReplied)
        await talk(session, 60)
        await memory.settle()
        await session.context()
    usage = [answer.usage async for answer in answers]
    used = {
        point.attributes["gen_ai.token.type"]: point
        for point in received.points("gen_ai.client.token.usage")
        if point.attributes and point.attributes["gen_ai.operation.name"] == "create_memory"
    }
    tokens = [u.input_tokens for u in usage if u.purpose != "reflect"]
    assert isinstance(used["input"], HistogramDataPoint)
    assert (used["input"].sum, used["input"].count) == (sum(tokens), len(tokens))
    assert dict(used["output"].attributes or {}) == {
        "gen_ai.operation.name": "create_memory",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "gemini-2.5-flash",
        "gen_ai.token.type": "output",
    }
    (cost,) = received.points("onlooker.cost")
    assert isinstance(cost, NumberDataPoint)
    assert cost.value == pytest.approx(0.001 * len(usage))
    counted = {
        (p.attributes or {})["onlooker.event"]: p
        for p in received.points("onlooker.events")
        if isinstance(p, NumberDataPoint)
    }
    assert counted["Recorded"].value == 60
    assert dict(counted["LayerCut"].attributes or {})["onlooker.layer"] == "skills"
    sections = {
        str((p.attributes or {})["onlooker.section"]) for p in received.points("onlooker.context.tokens")
    }
    assert {"knowledge", "observations", "messages"} <= sections
    # What has a value for each session or owner would make a series for each.
    points = [p for n in NAMES for p in received.points(n)]
    assert {"a", "ana"}.isdisjoint(str(v) for p in points for v in (p.attributes or {}).values())


NAMES = (
    "gen_ai.client.operation.duration",
    "gen_ai.client.token.usage",
    "onlooker.context.tokens",
    "onlooker.events",
    "onlooker.cost",
)


async def test_every_span_is_timed() -> None:
    async with watched() as (memory, received):
        await talk(memory.session("a"), 60)
        await memory.settle()
    timed = {
        (p.attributes or {})["gen_ai.operation.name"]: p.count
        for p in received.points("gen_ai.client.operation.duration")
        if isinstance(p, HistogramDataPoint) and "gen_ai.request.model" not in (p.attributes or {})
    }
    assert timed["create_memory"] == 60


# ------------------------------------------------------------------------------------ wiring

GLOBAL = """
import asyncio, sys
import onlooker
assert not any(m.startswith("opentelemetry") for m in sys.modules)

async def main(settings):
    async with onlooker.open_memory(":memory:", settings=settings) as memory:
        await memory.session("a").record(onlooker.user("before"))
        assert not any(m.startswith("opentelemetry") for m in sys.modules)
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        await memory.session("a").record(onlooker.user("after"))
        print([s.name for s in exporter.get_finished_spans()])

asyncio.run(main(onlooker.Settings(telemetry=sys.argv[1] == "on")))
"""


def run(*arguments: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.strip()


def test_it_begins_when_the_host_sets_it_up_and_loads_nothing_before() -> None:
    assert run(GLOBAL, "on") == "['create_memory']"


def test_it_can_be_switched_off() -> None:
    assert run(GLOBAL, "off") == "[]"


async def test_an_opentelemetry_that_cannot_be_used_is_said_once_and_disturbs_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    monkeypatch.delattr("opentelemetry.trace", raising=False)
    received: list[object] = []
    async with onlooker.open_memory(":memory:", settings=SMALL) as memory:
        memory.subscribe(LazyTelemetry())
        memory.subscribe(received.append)
        await talk(memory.session("a"), 3)
    assert len(received) == 3
    assert caplog.text.count("OpenTelemetry cannot be used") == 1


# ------------------------------------------------------------------------------------ the page


def test_the_page_says_which_span_each_event_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\w+_memory)` \| ([^|]*) \|", page, re.MULTILINE)
    written = {(span, event) for span, events in table for event in re.findall(r"`([A-Z]\w+)`", events)}
    code = inspect.getsource(operation_of)
    assert {event for _, event in written} == set(re.findall(r"events\.(\w+)\(\)", code))
    assert {span for span, _ in written} == set(re.findall(r'"(\w+_memory)"', code))
