"""Put a memory together. The only place that chooses between adapters."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from onlooker.domain.errors import SettingsError
from onlooker.engine.memory import Memory
from onlooker.policy.settings import Settings, preset
from onlooker.ports import Clock, Model, Reply, Request, Store


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class Builtin:
    """The built-in extractive model, loaded when it first writes: its word lists and patterns take
    longer to load than all the rest, and `import onlooker` should cost nothing."""

    name = "extractive"
    window = 1_000_000

    def compose(self, request: Request) -> str:
        from onlooker.models.extractive import ExtractiveModel

        return ExtractiveModel().compose(request)

    async def write(self, request: Request) -> Reply:
        return Reply(await asyncio.to_thread(self.compose, request))


def open_memory(
    url: str | Path | Store = "onlooker.db",
    *,
    model: str | Model | None = None,
    reflector: str | Model | None = None,
    settings: Settings | str | None = None,
    budget: int | None = None,
    clock: Clock | None = None,
    tz: tzinfo = UTC,
) -> Memory:
    """A memory, to be used with `async with`.

    Args:
        url: A file for SQLite (created at need), ":memory:" for nothing that lasts, or a store.
        model: What writes observations; the built-in extractive model where none is named.
        reflector: What condenses them; the observer where none is named.
        settings: Settings, or the name of a preset: "default", "lango", "zora".
        budget: Tokens for a whole context, where a call names none.
        clock: Where the time comes from; for tests.
        tz: The time zone of messages that come without one.
    """
    chosen = settings if isinstance(settings, Settings) else preset(settings or "default")
    if budget is not None:
        chosen = replace(chosen, budget=budget)
    builtin = Builtin()
    observer = _model(model if model is not None else chosen.model, builtin)
    named = reflector if reflector is not None else chosen.reflector_model
    return Memory(
        _store(url),
        settings=chosen,
        observer=observer,
        reflector=_model(named, builtin) if named else observer,
        builtin=builtin,
        clock=clock or SystemClock(),
        tz=tz,
    )


def _store(url: str | Path | Store) -> Store:
    if not isinstance(url, str | Path):
        return url
    # A store is imported when it is chosen, so that the others cost nothing.
    text = str(url)
    if text == ":memory:":
        from onlooker.stores.memory import MemoryStore

        return MemoryStore()
    if "://" in text.removeprefix("sqlite:///"):
        raise SettingsError("url", text, 'must be a file, "sqlite:///FILE" or ":memory:"')
    from onlooker.stores.sqlite import SqliteStore

    return SqliteStore(Path(text.removeprefix("sqlite:///")))


def _model(model: str | Model, builtin: Builtin) -> Model:
    if not isinstance(model, str):
        return model
    if model in ("", builtin.name):
        return builtin
    raise SettingsError(
        "model", model, f'must be "{builtin.name}" or an object with `name`, `window` and `write`'
    )
