"""What Onlooker needs from outside: a store, models, workers and a clock."""

from __future__ import annotations

from onlooker.ports.models import (
    Clock,
    Embedder,
    ItemsRequest,
    Model,
    ObserveRequest,
    ReflectRequest,
    Reply,
    Request,
    SystemClock,
)
from onlooker.ports.store import Reading, Store, stop_waiting_at, waiting_for_locks
from onlooker.ports.workers import Advance, Workers

__all__ = [
    "Advance",
    "Clock",
    "Embedder",
    "ItemsRequest",
    "Model",
    "ObserveRequest",
    "Reading",
    "ReflectRequest",
    "Reply",
    "Request",
    "Store",
    "SystemClock",
    "Workers",
    "stop_waiting_at",
    "waiting_for_locks",
]
