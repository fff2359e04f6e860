"""`serve`: run the server. `mcp`: memory as tools on stdin and stdout. `token`: the tokens of the server."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from onlooker.checkup import check
from onlooker.cli.screen import Column, CommandError, Json, Screen, UsageError, minute
from onlooker.cli.target import (
    DEFAULT_DATABASE,
    Database,
    Target,
    database_path,
    is_server,
    key_for,
    open_quietly,
)
from onlooker.domain.errors import NotFoundError, SettingsError
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


async def serve(
    screen: Screen,
    target: Target,
    host: Annotated[
        str | None,
        typer.Option(
            "--host", metavar="ADDRESS", help="Where to listen; any but this machine's own demands tokens."
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65_535, metavar="PORT", help="0 for any free one.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="PROVIDER:NAME", help="The model that writes the notes."),
    ] = None,
    upstream: Annotated[
        list[str] | None,
        typer.Option(
            "--upstream",
            metavar="NAME=URL",
            help="A provider for the proxy, such as ollama=http://…; repeatable.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A name that clients call it by; repeatable."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option("--allow-origin", metavar="URL", help="A web page that may call it; repeatable."),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(
            "--rate", min=0, metavar="N", help="Requests a minute for each token; 0 for any number."
        ),
    ] = None,
    workers: Annotated[
        WorkersOption,
        typer.Option(
            "--workers",
            metavar="WHO",
            help="Who writes notes: a process `beside` the server, the server itself (`embedded`), or "
            "`onlooker worker` (`external`).",
        ),
    ] = WorkersOption.beside,
    deadline: Annotated[
        float,
        typer.Option(
            "--deadline", min=0, max=600, metavar="SECONDS", help="How long a stop waits for running work."
        ),
    ] = TIMING.stop_deadline,
) -> None:
    """Serve memory to any program: REST, a chat proxy and MCP.

    SIGTERM or Ctrl-C lets requests and running work complete.
    """
    try:
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
    memory = _opened(target, model, workers=workers.value, timing=Timing(stop_deadline=deadline))
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
        typer.Option("--session", "-s", metavar="KEY", help="The conversation that tools mean by default."),
    ] = "mcp",
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="PROVIDER:NAME", help="The model that writes the notes."),
    ] = None,
) -> None:
    """Memory as MCP tools on stdin and stdout, for one owner.

    A program such as Claude Code, Codex, Cursor or VS Code starts it.
    """
    try:
        from onlooker.server.mcp import make_mcp
    except ModuleNotFoundError as error:
        raise CommandError(f"{NEEDS_EXTRA} ({error.name} is missing)") from None
    _log_warnings()
    async with _opened(target, model) as memory:
        await make_mcp(memory, owner=owner, session=session).run_stdio_async()


def _opened(target: Target, model: str | None, **options: Any) -> Memory:
    return open_memory(
        target.db if is_server(target.db) else _file(target.db),
        settings=_settings(target),
        model=model,
        key=key_for(target.db),
        **options,
    )


def _listen(config: ServerConfig) -> socket.socket:
    # The protocol is named, or asyncio would not turn off Nagle's algorithm: 40 ms for every answer.
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # elsewhere it would let two programs have one port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
    except OSError as error:
        listening.close()
        what = error.strerror or error
        raise CommandError(f"cannot listen on {config.host} port {config.port}: {what}") from None
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
    # uvicorn would raise the signal again when it is done, and end the process by it.
    server.capture_signals = _no_signals
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
        # What is loaded now stays. Python would look through all of it again and again for what it can free,
        # and every request would wait for that: 70 ms each time.
        gc.freeze()
        # A thread that computes keeps a request waiting so long whenever the request needs the interpreter,
        # which is a dozen times. Python's 5 ms are for throughput.
        sys.setswitchinterval(SWITCH_SECONDS)
    await serving
    if not server.started:
        raise CommandError("the database cannot be opened: the log says why")


class _no_signals:  # noqa: N801  it takes the place of a function of uvicorn's
    """A context that does nothing."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _announce(screen: Screen, port: int, config: ServerConfig) -> None:
    host = f"[{config.host}]" if ":" in config.host else config.host
    base = f"http://{host}:{port}"
    screen.text(f"Onlooker serves at {base}")
    rows = [("inspector", f"{base}/"), ("REST", f"{base}/v1, documented at {base}/docs")]
    for upstream in config.upstreams:
        path = "/v1" if upstream.protocol == "openai" else ""
        rows.append((f"proxy, {upstream.name}", f"{base}/{upstream.name}{path} → {upstream.url}"))
    rows += [
        ("MCP", f"{base}/mcp"),
        ("events, metrics", f"{base}/v1/events, {base}/metrics"),
        ("health", f"{base}/healthz, {base}/readyz"),
    ]
    for what, where in rows:
        screen.text(f"  {what:18} {where}")


async def _check_tokens(screen: Screen, memory: Memory, config: ServerConfig) -> None:
    """Say so if nobody can use a server that demands tokens."""
    from onlooker.server.auth import Tokens

    if config.is_local:
        return
    await memory.store.open()
    if not await Tokens(memory.store).list():
        screen.say("no token exists yet, so every request is refused; make one: onlooker token make --all")


def _file(db: str) -> str:
    return db if db == ":memory:" else str(Path(db.removeprefix("sqlite:///")))


def _settings(target: Target) -> Settings:
    """The settings of the file; the defaults if it has none but the server's."""
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
        raise UsageError(f"--upstream {text!r}: must be NAME=URL, such as ollama=http://127.0.0.1:11434")
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
    every: Annotated[bool, typer.Option("--all", help="A new token for all owners.")] = False,
    expires: Annotated[
        float | None, typer.Option("--expires", metavar="DAYS", help="After how many days it expires.")
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
        raise UsageError(
            "`token revoke ID` needs the id of a token, which `token list` shows; others take none"
        )
    async with open_quietly(db if is_server(db) else _file(db), Settings()) as memory:
        tokens = Tokens(memory.store)
        if action is TokenAction.make:
            if (owner is None) != every:
                raise UsageError("name the owner with --owner NAME, or --all")
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
    columns = [Column("id"), Column("owner"), Column("made"), Column("expires"), Column("note", text=True)]
    rows = [[t.id, t.owner or "(all)", minute(t.made_at), minute(t.expires_at), t.note] for t in found]
    screen.table(columns, rows)
