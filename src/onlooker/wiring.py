"""Open a memory. This is the only place that chooses between adapters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from onlooker.domain.context import Layers
from onlooker.domain.errors import SettingsError
from onlooker.domain.notes import Extractor
from onlooker.engine.memory import Memory
from onlooker.engine.runtime import Runtime
from onlooker.models.extractive import ExtractiveModel
from onlooker.policy.config import from_mapping
from onlooker.policy.model_names import complete, meant
from onlooker.policy.settings import PRESETS, TIMING, Settings, Timing, preset, time_zone
from onlooker.ports import (
    Advance,
    Clock,
    Embedder,
    Model,
    Store,
    SystemClock,
    Workers,
)
from onlooker.stores.urls import make_store, needs_postgres

if TYPE_CHECKING:
    from onlooker.models.calling import Spend
    from onlooker.policy.reply.extraction import Extractors
    from onlooker.stores.sqlite.key import Key


NEED_A_MODEL = (
    "need a language model, because the built-in one only copies sentences: "
    'give model="PROVIDER:NAME" (pip install "onlooker[PROVIDER]")'
)


# Who takes notes: tasks in this process; the same, with a second process for the built-in model; other
# processes, so that this one only records; or this process through a shared queue on PostgreSQL, as
# `onlooker worker` does.
WorkerMode = Literal["embedded", "beside", "external", "queue"]


def open_memory(
    url: str | Path | Store = "onlooker.db",
    *,
    key: Key | str | bytes | None = None,
    model: str | Model | None = None,
    reflector: str | Model | None = None,
    settings: Settings | str | Path | None = None,
    owner: str | None = None,
    budget: int | None = None,
    spend: Spend | None = None,
    instruction: str | None = None,
    extractors: Sequence[type[Extractor]] = (),
    knowledge: Layers | None = None,
    embedder: str | Embedder | None = None,
    notes_folder: str | Path | None = None,
    workers: WorkerMode = "embedded",
    timing: Timing = TIMING,
    clock: Clock | None = None,
    tz: str | tzinfo | None = None,
) -> Memory:
    """Open a memory. Use it with `async with`.

    Args:
        url: A file for SQLite (created if missing), "postgresql://USER@HOST/DATABASE" for PostgreSQL (needs
            `onlooker[postgres]`), ":memory:" to store nothing, or a store.
        key: The key of an encrypted SQLite file: a `Key`, 32 bytes, 64 hexadecimal digits, or a passphrase.
            Needs `onlooker[encrypted]`.
        model: The model that writes observations, or its name, such as "anthropic:claude-haiku-4-5". A model
            in the settings takes precedence, so that an operator can choose a cheaper one than the agent's.
            The default is the built-in extractive model.
        reflector: The model that condenses observations, in the same way; by default the observer.
        settings: Settings, the name of a preset ("default", "lango", "zora"), or a TOML or JSON file, such as
            "onlooker.toml". No other file is read.
        owner: The owner of sessions that are opened without one, for an agent of one person. Without it, such
            sessions share nothing.
        budget: The tokens of a whole context, if a call gives no budget.
        spend: The most that notes may cost per session, owner and day. Beyond it the built-in model writes
            them. By default the limits of the settings.
        instruction: What to note, in your own words, for language models; the built-in one ignores it.
        extractors: Pydantic models that are filled in from the messages with each note, for
            `Session.extracted`. They need a language model.
        knowledge: What every context holds besides the conversation, in layers by name: texts, functions to
            call, or a `Layer` of either.
        embedder: The embedder with which search and recall also find by meaning, or its name, such as
            "openai:text-embedding-3-small" or "local:BAAI/bge-small-en-v1.5".
        notes_folder: The folder of MEMORY.md and daily notes, for people to read and edit; by default none.
        workers: Who takes notes: "embedded", tasks in this process; "beside", the same with a second process
            for the built-in model; "external", other processes, so that this one only records; "queue", this
            process through a shared queue on PostgreSQL.
        timing: Intervals and deadlines, for tests and for operators who have measured that they need others.
        clock: The source of the time, for tests.
        tz: The time zone of messages without one, by name, such as "Europe/Oslo", or as a `tzinfo`; by
            default that of the settings.
    """
    chosen = _chosen(settings, owner, budget, instruction, notes_folder, workers)
    zone = time_zone(chosen.tz if tz is None else tz)
    builtin = _builtin(workers)
    store = make_store(url, key)
    clock = clock or SystemClock()
    first = _configured(chosen.model, model)
    second = _configured(chosen.reflector_model, reflector) or first
    observer = _model(first, builtin, clock)
    if extractors and observer is builtin:
        names = [getattr(extractor, "__name__", extractor) for extractor in extractors]
        raise SettingsError("extractors", names, NEED_A_MODEL)
    spend = spend or _spend_of(chosen, zone)
    # If both are the same model, they share one object and its breaker.
    condenser = observer if second == first else _model(second, builtin, clock)
    runtime = Runtime(
        store,
        settings=chosen,
        timing=timing,
        observer=_limited(observer, builtin, spend, store, clock),
        reflector=_limited(condenser, builtin, spend, store, clock),
        builtin=builtin,
        clock=clock,
        tz=zone,
        extractors=_extractors(extractors),
        knowledge=knowledge,
        embedder=_embedder(chosen.embedder if embedder is None else embedder),
        workers=_workers(workers, store, clock, chosen.concurrency, timing),
    )
    memory = Memory(runtime)
    if chosen.telemetry:
        from onlooker.telemetry import LazyTelemetry

        memory.subscribe(LazyTelemetry())
    return memory


def _chosen(
    settings: Settings | str | Path | None,
    owner: str | None,
    budget: int | None,
    instruction: str | None,
    notes_folder: str | Path | None,
    workers: WorkerMode,
) -> Settings:
    """The settings, with the other arguments applied."""
    if workers not in get_args(WorkerMode):
        raise SettingsError("workers", workers, f"must be one of {', '.join(get_args(WorkerMode))}")
    chosen = _loaded(settings)
    if owner is not None:
        if not isinstance(owner, str) or not owner:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SettingsError("owner", owner, "must be text that is not empty")
        chosen = replace(chosen, owner=owner)
    if budget is not None:
        chosen = replace(chosen, budget=budget)
    if instruction is not None:
        chosen = replace(chosen, instruction=instruction)
    if notes_folder is not None:
        chosen = replace(chosen, notes_folder=str(notes_folder))
    if workers == "external":
        chosen = replace(chosen, idle_minutes=0)  # other processes end the sessions
    return chosen


def _loaded(settings: Any) -> Settings:
    if settings is None or (isinstance(settings, str) and settings in PRESETS):
        return preset(settings or "default")
    if isinstance(settings, str | Path) and Path(settings).suffix.lower() in (".toml", ".json"):
        return from_mapping(read_settings(Path(settings)))
    if isinstance(settings, Settings):
        return settings
    presets = ", ".join(f'"{name}"' for name in PRESETS)
    what = f"must be Settings, a preset ({presets}) or a file that ends in .toml or .json"
    if isinstance(cast("object", settings), Mapping):
        what += '; a mapping is read by onlooker.from_mapping({"onlooker": {…}})'
    raise SettingsError("settings", settings, what)


def read_settings(path: Path) -> Mapping[str, Any]:
    """Read a settings file, for `from_mapping`.

    Raises:
        SettingsError: It cannot be read, or is not TOML, or not JSON if its name ends in .json.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError("settings", str(path), "no such settings file") from None
    except UnicodeDecodeError as error:
        raise SettingsError("settings", str(path), "is not a text file in UTF-8") from error
    except OSError as error:
        raise SettingsError("settings", str(path), f"cannot be read: {error.strerror or error}") from error
    return parse_settings(path, text)


def parse_settings(path: Path, text: str) -> Mapping[str, Any]:
    """Parse the text of a settings file, by the ending of its name."""
    import tomllib

    is_json = path.suffix.lower() == ".json"
    try:
        found: object = json.loads(text) if is_json else tomllib.loads(text)
    except ValueError as error:  # both parsers' errors, with line and column
        kind = "JSON" if is_json else "TOML"
        raise SettingsError("settings", str(path), f"is not {kind}: {error}") from error
    if not isinstance(found, dict):
        raise SettingsError("settings", str(path), "must be an object with sections")
    return cast("dict[str, Any]", found)


def _configured(name: str, own: str | Model | None) -> str | Model:
    """What the settings name; the argument if they name nothing, or only a provider."""
    if not name:
        return own or ""
    return complete(name, own if isinstance(own, str) else own.name if own else "")


def _spend_of(settings: Settings, tz: tzinfo) -> Spend | None:
    """The spend limits of the settings; None if there are none."""
    limits = (settings.spend_per_session, settings.spend_per_owner, settings.spend_per_day)
    if not any(limits):
        return None
    from onlooker.models.calling import Spend

    return Spend(*(limit or None for limit in limits), tz=tz)


def _extractors(extractors: Sequence[type[Extractor]]) -> Extractors | None:
    if not extractors:
        return None
    from onlooker.policy.reply.extraction import Extractors

    return Extractors.of(extractors)


def _workers(
    workers: WorkerMode, store: Store, clock: Clock, concurrency: int, timing: Timing
) -> Callable[[Advance], Workers] | None:
    """What takes the notes; None for tasks in this process."""
    if workers in ("embedded", "beside"):
        return None
    if workers == "external":
        from onlooker.engine.background import RecordOnly

        return lambda advance: RecordOnly(store, clock, advance, concurrency=concurrency)
    try:
        from onlooker.stores.postgres import PostgresStore
        from onlooker.stores.postgres.workers import QueueWorkers
    except ModuleNotFoundError as error:
        raise needs_postgres("workers", workers, error) from None
    if not isinstance(store, PostgresStore):
        raise SettingsError("workers", workers, "needs a PostgreSQL store")
    return lambda advance: QueueWorkers(
        store,
        clock,
        advance,
        concurrency=concurrency,
        sweep_seconds=timing.sweep_seconds,
        heartbeat=timedelta(seconds=timing.lease_seconds / 2),
    )


def _builtin(workers: WorkerMode) -> ExtractiveModel:
    if workers != "beside":
        return ExtractiveModel()
    from onlooker.models.extractive.process import ExtractiveProcess

    return ExtractiveProcess()


def _model(model: str | Model, builtin: Model, clock: Clock) -> Model:
    if not isinstance(model, str):
        return model
    if model in ("", builtin.name):
        return builtin
    if ":" not in model:
        what = f'"{builtin.name}" or "PROVIDER:NAME", or an object with `name`, `window` and `write`'
        raise SettingsError("model", model, f"{meant(model)}must be {what}")
    from onlooker.models.calling import guarded
    from onlooker.models.llm import LanguageModel

    return guarded(LanguageModel(model), clock=clock)


def _embedder(embedder: str | Embedder) -> Embedder | None:
    if not isinstance(embedder, str):
        return embedder
    if not embedder:
        return None
    from onlooker.models.embedding import embedder_named

    return embedder_named(embedder)


def _limited(model: Model, builtin: Model, spend: Spend | None, store: Store, clock: Clock) -> Model:
    if spend is None or model is builtin:
        return model
    from onlooker.models.calling import SpendLimit

    return SpendLimit(model, spend, store, clock=clock)
