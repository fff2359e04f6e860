"""What Onlooker needs from outside: a store, a model that writes notes, a clock.

Every store method is one transaction. It raises `StoreError` when the storage cannot do it, with
nothing half written, and `ConflictError` where a guard no longer holds.
"""

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
)
from onlooker.ports.moving import Reading
from onlooker.ports.store import Store
from onlooker.ports.workers import Workers

__all__ = [
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
    "Workers",
]
