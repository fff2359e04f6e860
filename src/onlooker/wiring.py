"""Put a memory together. The only place that chooses between adapters."""

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
    "need a language model, since the built-in one copies sentences and understands none: "
    'give model="PROVIDER:NAME" (pip install "onlooker[PROVIDER]")'
)


# Who takes notes: tasks of this process; the same with a process beside it that does the built-in model's
# writing; others, so that this process only records; or this process by way of the queue that many share on
# PostgreSQL, as `onlooker worker` does.
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
    """A memory, to be used with `async with`.

    Args:
        url: A file for SQLite (created at need), "postgresql://USER@HOST/DATABASE" for PostgreSQL (it needs
            `onlooker[postgres]`), ":memory:" for nothing that lasts, or a store.
        key: Keeps an SQLite file encrypted: a `Key`, or what one is made of: 32 bytes, 64 hexadecimal digits,
            or a passphrase. It needs `onlooker[encrypted]`.
        model: What writes observations: a model, or the name of one, such as "anthropic:claude-haiku-4-5".
            The settings' own where they name one, so that an operator can give an agent's memory a cheaper
            model than the agent's; the built-in extractive model where nobody names one.
        reflector: What condenses them, in the same way; the observer where none is named.
        settings: Settings, the name of a preset ("default", "lango", "zora"), or a TOML or JSON file, such as
            "onlooker.toml". No other file is read.
        owner: Whose the sessions are that are opened without an owner, for an agent of one person. Without
            it, such sessions share nothing.
        budget: Tokens for a whole context, where a call names none.
        spend: What note-taking may cost per session, owner and day; then model calls stop, not memory.
            The settings' own limits where none is given.
        instruction: Your own words on what to note, for language models; the built-in one ignores them.
        extractors: Pydantic models whose values are filled in from the messages as they are noted, for
            `Session.extracted`. They need a language model.
        knowledge: What every context holds besides the conversation, in layers by name: texts, functions
            that are asked, or a `Layer` of either.
        embedder: What makes vectors, so that search and recall find by meaning as well: an embedder, or the
            name of one, such as "openai:text-embedding-3-small" or "local:BAAI/bge-small-en-v1.5".
        notes_folder: Where MEMORY.md and daily notes are kept for people to read and edit; none where it is
            not named.
        workers: Who takes notes: "embedded" is tasks of this process; "beside" is the same with a process for
            the built-in model's writing; "external" leaves it to others, so that this process only records;
            "queue" makes it one of those others on PostgreSQL.
        timing: Intervals and deadlines, for tests and for operators who have measured that they need others.
        clock: Where the time comes from; for tests.
        tz: The time zone of messages that come without one, by name, such as "Europe/Oslo", or as a `tzinfo`;
            the settings' own where none is given.
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
    # One object where it is one model: it has one breaker.
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
    """The settings, with what was given beside them."""
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
        chosen = replace(chosen, idle_minutes=0)  # sessions are ended elsewhere as well
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
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("settings", str(path), f"cannot be read: {error}") from error
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
    """What the settings name; what is given where they name nothing, or only half of it."""
    if not name:
        return own or ""
    return complete(name, own if isinstance(own, str) else own.name if own else "")


def _spend_of(settings: Settings, tz: tzinfo) -> Spend | None:
    """The limits of the settings, where 0 is none."""
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
    """Who takes notes, unless it is tasks of this process."""
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
