"""Fakes for the tests of applications that use Onlooker, and contracts for those that extend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onlooker.testing.models import FAULTS, FaultyModel, FrozenClock, ScriptedModel, WordEmbedder

if TYPE_CHECKING:
    from onlooker.testing.adapter_contract import AdapterContract
    from onlooker.testing.store_contract import StoreContract

__all__ = [
    "FAULTS",
    "AdapterContract",
    "FaultyModel",
    "FrozenClock",
    "ScriptedModel",
    "StoreContract",
    "WordEmbedder",
]


def __getattr__(name: str) -> Any:
    # The contracts need pytest, which the fakes do not.
    if name == "AdapterContract":
        import pytest

        pytest.register_assert_rewrite("onlooker.testing.adapter_contract")
        from onlooker.testing.adapter_contract import AdapterContract

        return AdapterContract
    if name == "StoreContract":
        from onlooker.testing.store_contract import StoreContract

        return StoreContract
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
