"""Put a memory together. The only place that chooses between adapters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from onlooker.domain.errors import SettingsError
from onlooker.domain.extractions import Extractor
from onlooker.engine.memory import Memory
from onlooker.policy.settings import Settings, preset
from onlooker.ports import Clock, Model, Reply, Request, Store

if TYPE_CHECKING:
    from onlooker.models.calling import Spend


NEED_A_MODEL = (
    "need a language model, since the built-in one copies sentences and understands none: "
    'give model="PROVIDER:NAME" (pip install "onlooker[llm]")'
)


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
    spend: Spend | None = None,
    instruction: str | None = None,
    extractors: Sequence[type[Extractor]] = (),
    clock: Clock | None = None,
    tz: tzinfo = UTC,
) -> Memory:
    """A memory, to be used with `async with`.

    Args:
        url: A file for SQLite (created at need), ":memory:" for nothing that lasts, or a store.
        model: What writes observations: a model, or the name of one, such as "anthropic:claude-haiku-4-5";
            the built-in extractive model where none is named.
        reflector: What condenses them; the observer where none is named.
        settings: Settings, or the name of a preset: "default", "lango", "zora".
        budget: Tokens for a whole context, where a call names none.
        spend: What note-taking may cost per session, owner and day; then model calls stop, not memory.
            The settings' own limits where none is given.
        instruction: Your own words on what to note, for language models; the built-in one ignores them.
        extractors: Pydantic models whose values are filled in from the messages as they are noted, for
            `Session.extracted`. They need a language model.
        clock: Where the time comes from; for tests.
        tz: The time zone of messages that come without one.
    """
    chosen = settings if isinstance(settings, Settings) else preset(settings or "default")
    if budget is not None:
        chosen = replace(chosen, budget=budget)
    if instruction is not None:
        chosen = replace(chosen, instruction=instruction)
    builtin = Builtin()
    store = _store(url)
    clock = clock or SystemClock()
    first = model if model is not None else chosen.model
    second = (reflector if reflector is not None else chosen.reflector_model) or first
    observer = _model(first, builtin, clock)
    if extractors and observer is builtin:
        names = [getattr(extractor, "__name__", extractor) for extractor in extractors]
        raise SettingsError("extractors", names, NEED_A_MODEL)
    spend = spend or _spend_of(chosen, tz)
    # One object where it is one model: it has one breaker.
    condenser = observer if second == first else _model(second, builtin, clock)
    return Memory(
        store,
        settings=chosen,
        observer=_limited(observer, builtin, spend, store, clock),
        reflector=_limited(condenser, builtin, spend, store, clock),
        builtin=builtin,
        clock=clock,
        tz=tz,
        extractors=extractors,
    )


def _spend_of(settings: Settings, tz: tzinfo) -> Spend | None:
    """The limits of the settings, where 0 is none."""
    limits = (settings.spend_per_session, settings.spend_per_owner, settings.spend_per_day)
    if not any(limits):
        return None
    from onlooker.models.calling import Spend

    return Spend(*(limit or None for limit in limits), tz=tz)


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


def _model(model: str | Model, builtin: Builtin, clock: Clock) -> Model:
    if not isinstance(model, str):
        return model
    if model in ("", builtin.name):
        return builtin
    if ":" not in model:
        what = f'"{builtin.name}" or "PROVIDER:NAME", or an object with `name`, `window` and `write`'
        raise SettingsError("model", model, f"must be {what}")
    from onlooker.models.calling import guarded
    from onlooker.models.llm import LanguageModel

    return guarded(LanguageModel(model), clock=clock)


def _limited(model: Model, builtin: Builtin, spend: Spend | None, store: Store, clock: Clock) -> Model:
    if spend is None or model is builtin:
        return model
    from onlooker.models.calling import SpendLimit

    return SpendLimit(model, spend, store, clock=clock)
