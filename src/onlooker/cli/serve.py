"""`serve`: run the server. `mcp`: memory as tools on stdin and stdout. `token`: the tokens of the server."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from onlooker.checkup import check
from onlooker.cli import loading
from onlooker.cli.screen import Column, CommandError, Json, Screen, UsageError, minute
from onlooker.cli.settings import MEMORY_IS_OFF
from onlooker.cli.target import (
    DEFAULT_DATABASE,
    Database,
    Target,
    database_path,
    existing_database,
    is_server,
    key_for,
    open_without_notes,
)
from onlooker.domain.errors import NotFoundError, SettingsError
from onlooker.policy.secrets import mask
from onlooker.policy.settings import TIMING, Settings, Timing
from onlooker.settings_file import DEFAULT_FILE, load_settings, read_trusted, settings_path
from onlooker.wiring import open_memory

if TYPE_CHECKING:
    from onlooker.engine.memory import Memory
    from onlooker.server.config import ServerConfig, Upstream

NEEDS_EXTRA = 'the server needs an extra: pip install "onlooker[server]"'
# How long a thread that computes may keep the interpreter from a request.
SWITCH_SECONDS = 0.0002


class WorkersOption(StrEnum):
    """Who takes the notes."""

    beside = "beside"
    embedded = "embedded"
    external = "external"


Host = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="The address, by default 127.0.0.1; all but loopback require tokens.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port", min=0, max=65_535, metavar="PORT", help="The port, by default 8787; 0 for a free one."
    ),
]
ModelName = Annotated[
    str | None, typer.Option("--model", metavar="PROVIDER:NAME", help="The model that writes the notes.")
]
Upstreams = Annotated[
    list[str] | None,
    typer.Option(
        "--upstream",
        metavar="NAME=URL",
        help="A provider for the proxy, such as ollama=http://…; repeatable.",
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="A host name that clients may use; repeatable."),
]
AllowOrigin = Annotated[
    list[str] | None,
    typer.Option("--allow-origin", metavar="URL", help="A web origin that may call it; repeatable."),
]
Rate = Annotated[
    int | None,
    typer.Option("--rate", min=0, metavar="N", help="Requests per minute for each token; 0 for no limit."),
]
Writes = Annotated[
    WorkersOption,
    typer.Option(
        "--workers",
        metavar="WHO",
        help="Who writes notes: a process `beside` the server, the server itself (`embedded`), or "
        "`onlooker worker` (`external`).",
    ),
]
StopDeadline = Annotated[
    float,
    typer.Option(
        "--deadline", min=0, max=600, metavar="SECONDS", help="How long a stop waits for running work."
    ),
]


async def serve(
    screen: Screen,
    target: Target,
    host: Host = None,
    port: Port = None,
    model: ModelName = None,
    upstream: Upstreams = None,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    rate: Rate = None,
    workers: Writes = WorkersOption.beside,
    deadline: StopDeadline = TIMING.stop_deadline,
) -> None:
    """Serve memory to any program: REST, a chat proxy and MCP.

    SIGTERM or Ctrl-C lets requests and running work complete.
    """
    try:
        with loading():
            import uvicorn

            from onlooker.server.app import make_app
            from onlooker.server.inspector.overview import Installation
    except ModuleNotFoundError as error:
        raise CommandError(f"{NEEDS_EXTRA} ({error.name} is missing)") from None
    config = _config(
        target,
        host=host,
        port=port,
        rate=rate,
        hosts=allow_host,
        origins=allow_origin,
        upstreams=[_upstream(text) for text in upstream or ()] or None,
    )
    _log_warnings()
    memory = _open(target, model, workers=workers.value, timing=Timing(stop_deadline=deadline))
    if not memory.settings.enabled:
        screen.say(MEMORY_IS_OFF)
    await memory.store.open()  # here, because uvicorn answers an error with a traceback
    await _check_tokens(screen, memory, config)
    listening = _listen(config)
    db = target.db if is_server(target.db) else database_path(target.db)
    file = settings_path(target.config) or DEFAULT_FILE
    installed = Installation(file.resolve(), partial(check, db, target.config, key_for))
    app = make_app(memory, config, installed)
    options = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        # A proxy in front may say who asks; nobody else may.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, int(deadline)),
        lifespan="on",
    )
    await _run(screen, uvicorn.Server(options), app, config, listening)


async def mcp(
    screen: Screen,
    target: Target,
    owner: Annotated[str, typer.Option("--owner", metavar="NAME", help="Whose memory it is.")] = "me",
    session: Annotated[
        str,
        typer.Option("--session", "-s", metavar="KEY", help="The session that tools use by default."),
    ] = "mcp",
    model: ModelName = None,
) -> None:
    """Memory as MCP tools on stdin and stdout, for one owner.

    A program such as Claude Code, Codex, Cursor or VS Code starts it.
    """
    try:
        from onlooker.server.mcp import make_mcp
    except ModuleNotFoundError as error:
        raise CommandError(f"{NEEDS_EXTRA} ({error.name} is missing)") from None
    _log_warnings()
    async with _open(target, model) as memory:
        await make_mcp(memory, owner=owner, session=session).run_stdio_async()


def _open(target: Target, model: str | None, **options: Any) -> Memory:
    return open_memory(
        target.db if is_server(target.db) else _file(target.db),
        settings=_settings(target),
        model=model,
        key=key_for(target.db),
        **options,
    )


def _listen(config: ServerConfig) -> socket.socket:
    # Without IPPROTO_TCP, asyncio leaves Nagle's algorithm on, which adds 40 ms to every answer.
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # on Windows, two programs could then use the same port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
    except OSError as error:
        listening.close()
        what = error.strerror or error
        advice = "; choose another with --port" if error.errno == errno.EADDRINUSE else ""
        raise CommandError(f"cannot listen on {config.host} port {config.port}: {what}{advice}") from None
    return listening


async def _run(screen: Screen, server: Any, app: Any, config: ServerConfig, listening: socket.socket) -> None:
    """Serve until a signal says to stop."""
    from onlooker.server.app import warm_up

    def stop() -> None:
        if app.state.stopping.is_set():
            server.force_exit = True
        app.state.stopping.set()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    # uvicorn would raise the signal again after it has stopped, which would kill the process.
    server.capture_signals = nullcontext
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows, where Ctrl-C ends the process at once
            break
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    while not server.started and not serving.done():  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.01)
    if server.started:
        _announce(screen, listening.getsockname()[1], config)
        await warm_up()
        # What is loaded now is never freed. Otherwise every full collection would scan all of it, and
        # requests would wait for that: 70 ms each time.
        gc.freeze()
        # A request takes the interpreter back a dozen times, and each time waits this long for a thread that
        # computes. Python's default of 5 ms favours throughput.
        sys.setswitchinterval(SWITCH_SECONDS)
    await serving
    if not server.started:
        raise CommandError("the server did not start: see the log")


def _announce(screen: Screen, port: int, config: ServerConfig) -> None:
    host = f"[{config.host}]" if ":" in config.host else config.host
    base = f"http://{host}:{port}"
    screen.text(f"Onlooker serves at {base}")
    rows = [("inspector", f"{base}/"), ("REST", f"{base}/v1, documented at {base}/docs")]
    for upstream in config.upstreams:
        path = "/v1" if upstream.protocol == "openai" else ""
        rows.append((f"proxy, {upstream.name}", f"{base}/{upstream.name}{path} → {upstream.address}"))
    rows += [
        ("MCP", f"{base}/mcp"),
        ("events, metrics", f"{base}/v1/events, {base}/metrics"),
        ("health", f"{base}/healthz, {base}/readyz"),
    ]
    for what, where in rows:
        screen.text(f"  {what:18} {where}")


async def _check_tokens(screen: Screen, memory: Memory, config: ServerConfig) -> None:
    """Warn if the server requires tokens and none exists."""
    from onlooker.server.auth import Tokens

    if config.is_local:
        return
    if not await Tokens(memory.store).list():
        screen.say("there is no token yet, so every request is refused; run `onlooker token make --all`")


def _file(db: str) -> str:
    return db if db == ":memory:" else str(database_path(db))


def _settings(target: Target) -> Settings:
    """Load the settings file; the defaults if it has only a server section."""
    section = read_trusted(target.config)
    if section and set(section) <= {"server"}:
        return Settings()
    return load_settings(target.config)


def _config(target: Target, **given: Any) -> ServerConfig:
    from onlooker.server.config import server_config

    section = read_trusted(target.config).get("server", {})
    if not isinstance(section, Mapping):
        raise SettingsError("server", section, "must be a section: [server]")
    return server_config(cast("Mapping[str, Any]", section), **given)


def _upstream(text: str) -> Upstream:
    from onlooker.server.config import UPSTREAMS, Upstream

    name, _, url = text.partition("=")
    if not url:
        raise UsageError(
            f"--upstream {mask(text)!r}: must be NAME=URL, such as ollama=http://127.0.0.1:11434"
        )
    default = next((u for u in UPSTREAMS if u.name == name), None)
    return Upstream(name, url, default.protocol if default else "openai")


def _log_warnings() -> None:
    """Log warnings without -v, because nobody watches a service."""
    ours = logging.getLogger("onlooker")
    ours.setLevel(min(ours.level, logging.WARNING))


# ------------------------------------------------------------------------------------ token


class TokenAction(StrEnum):
    """What to do with tokens."""

    make = "make"
    list = "list"
    revoke = "revoke"


async def token(
    screen: Screen,
    action: Annotated[
        TokenAction, typer.Argument(metavar="make|list|revoke", help="Make one, list all, or revoke one.")
    ],
    ident: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The id of the token to revoke.")
    ] = None,
    db: Database = DEFAULT_DATABASE,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="The owner that a new token is bound to.")
    ] = None,
    all_owners: Annotated[bool, typer.Option("--all", help="A new token for all owners.")] = False,
    expires: Annotated[
        float | None, typer.Option("--expires", metavar="DAYS", help="Days until it expires.")
    ] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What it is for.")] = "",
    as_json: Json = False,
) -> None:
    """Make, list or revoke the tokens of the server.

    A token is printed once, when it is made; the database has only its hash. A revoked one is refused within
    a second.
    """
    try:
        from onlooker.server.auth import Tokens
    except ModuleNotFoundError as error:
        raise CommandError(f"{NEEDS_EXTRA} ({error.name} is missing)") from None
    if (ident is None) == (action is TokenAction.revoke):
        raise UsageError("use `token make`, `token list` or `token revoke ID`; `token list` shows the ids")
    if action is TokenAction.make and (owner is None) != all_owners:
        raise UsageError("use --owner NAME, or --all for all owners")
    makes = action is TokenAction.make and not is_server(db)
    async with open_without_notes(_file(db) if makes else existing_database(db), Settings()) as memory:
        tokens = Tokens(memory.store)
        if action is TokenAction.make:
            text, made = await tokens.make(owner, days=expires, note=note)
            view = {"token": text, "id": made.id, "owner": made.owner, "expires_at": made.expires_at}
            screen.json(view) if as_json else screen.text(text)
            return
        if action is TokenAction.revoke:
            try:
                revoked = await tokens.revoke(ident or "")
            except NotFoundError as error:
                raise CommandError(f"{error}; `onlooker token list` lists them") from None
            screen.json({"revoked": revoked.id}) if as_json else screen.say(f"revoked {revoked.id}")
            return
        found = await tokens.list()
    if as_json:
        fields = ("id", "owner", "made_at", "expires_at", "note")
        screen.json({"tokens": [{name: getattr(t, name) for name in fields} for t in found]})
        return
    if not found:
        screen.say("No tokens.")
        return
    columns = [Column("id"), Column("owner"), Column("made"), Column("expires"), Column("note", text=True)]
    rows = [[t.id, t.owner or "(all)", minute(t.made_at), minute(t.expires_at), t.note] for t in found]
    screen.table(columns, rows)
