"""The application: REST, the proxy, MCP, events and metrics over one memory, with one form of error."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from onlooker import __version__
from onlooker.domain.errors import (
    ClosedError,
    ConflictError,
    ModelError,
    NotFoundError,
    OnlookerError,
    StoreError,
)
from onlooker.engine.memory import Memory
from onlooker.policy.text import plain_problem
from onlooker.server import rest
from onlooker.server.auth import Guard, Tokens, decoded, is_page
from onlooker.server.config import ServerConfig
from onlooker.server.inspector import layout, overview, pages
from onlooker.server.live import Live, Metrics
from onlooker.server.live import router as live_router
from onlooker.server.proxy import Proxy
from onlooker.server.views import PROBLEM_TYPE

log = logging.getLogger("onlooker.server")

# The most characters of an error message.
MAX_DETAIL = 500

# The HTTP status of errors; 422 for those about an invalid value.
_STATUS: dict[type[OnlookerError], int] = {
    NotFoundError: 404,
    ConflictError: 409,
    StoreError: 503,
    ModelError: 503,
    ClosedError: 503,
}
_TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    421: "Misdirected request",
    422: "Not allowed",
    429: "Too many requests",
    500: "Server error",
    502: "Bad gateway",
    503: "Not available",
}


def make_app(
    memory: Memory, config: ServerConfig | None = None, installation: overview.Installation | None = None
) -> FastAPI:
    """Make the application of a memory, which it opens when it starts and closes when it stops.

    `installation` lets the inspector change the settings file and check the database.
    It can be run by any ASGI server: `uvicorn module:app`. `warm_up` does in advance what the first requests
    would wait for.
    """
    config = config or ServerConfig()
    live, metrics, mcp = Live(), Metrics(memory), Mcp(memory)
    troubles = overview.Troubles()
    proxy = Proxy(memory, config, metrics.proxied)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        unsubscribe = [memory.subscribe(each.on_event) for each in (live, metrics, troubles)]
        async with memory:
            yield
            app.state.stopping.set()
            await app.state.player.stop()
            await mcp.stop()
            await proxy.close()
        for each in unsubscribe:
            each()

    app = FastAPI(
        title="Onlooker",
        version=__version__,
        description="Observational memory for LLM agents.",
        lifespan=lifespan,
        docs_url=None,  # our own page: FastAPI's would load scripts from another site
        redoc_url=None,
    )
    app.state.memory = memory
    app.state.config = config
    app.state.tokens = Tokens(memory.store)
    app.state.stopping = asyncio.Event()
    app.state.live = live
    app.state.player = pages.Player(memory)
    app.state.troubles = troubles
    app.state.installation = installation
    app.state.metrics = metrics
    # Not `include_router`: it would make each route again at the first request, which takes half a second.
    for router in (rest.router, live_router, layout.router, pages.router, overview.router):
        app.router.routes.extend(router.routes)
    app.router.routes.append(Route("/mcp", mcp))
    app.add_api_route("/healthz", healthz, include_in_schema=False)
    app.add_api_route("/readyz", readyz, include_in_schema=False)
    for upstream in config.upstreams:
        _add_upstream(app, proxy, upstream.name)
    _add_errors(app)
    # A request passes the middleware added last first.
    if config.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(config.origins), allow_methods=["*"], allow_headers=["*"]
        )
    app.add_middleware(Guard, config=config, tokens=lambda: app.state.tokens, refused=refused)
    app.add_middleware(metrics.measured)
    return app


async def warm_up() -> None:
    """Do in advance, in a thread, what the first requests would wait for."""

    def work() -> None:
        layout.compile_templates()
        anyio.run(anyio.sleep, 0)  # loads its backend

    await asyncio.get_running_loop().run_in_executor(None, work)


class Mcp:
    """`/mcp`. Its SDK takes as long to import as everything else, so it is imported at the first request."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._starting = asyncio.Lock()
        self._route: BaseRoute | None = None
        self._running: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._starting:
            route = self._route = self._route or await self._start()
        await route.handle(scope, receive, send)

    async def _start(self) -> BaseRoute:
        server = await asyncio.to_thread(_load_mcp, self._memory)
        ready = asyncio.Event()

        async def run() -> None:
            # A task group must be exited by the task that entered it.
            async with server.session_manager.run():
                ready.set()
                await self._stopping.wait()

        from onlooker.server.mcp import route_of

        route = route_of(server)
        self._running = asyncio.create_task(run(), name="onlooker mcp")
        await ready.wait()
        return route

    async def stop(self) -> None:
        """Close its sessions."""
        self._stopping.set()
        if self._running is not None:
            await self._running


def _load_mcp(memory: Memory) -> Any:
    from onlooker.server.mcp import make_mcp

    return make_mcp(memory)


def _add_upstream(app: FastAPI, proxy: Proxy, name: str) -> None:
    async def handle(request: Request) -> Response:
        request.scope["route"] = route  # as FastAPI does, for the metrics
        return await proxy.handle(request, name, decoded(request.path_params["path"]))

    route = Route(f"/{name}/v1/{{path:path}}", handle, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    # A plain route in the first place: agents wait for these requests, and matching all other routes first
    # takes longer than reading the request.
    app.router.routes.insert(0, route)


async def healthz() -> dict[str, str]:
    """Whether the process answers."""
    return {"status": "ok", "version": __version__}


async def readyz(request: Request) -> Response:
    """Whether requests can be served, and which part is not ready."""
    parts: dict[str, str] = {}
    memory: Memory = request.app.state.memory
    try:
        async with asyncio.timeout(5):
            await memory.sessions(limit=1)
        parts["store"] = "ok"
    except (OnlookerError, TimeoutError) as error:
        parts["store"] = str(error) or "no answer within 5 seconds"
    parts["server"] = "stopping" if request.app.state.stopping.is_set() else "ok"
    ready = all(state == "ok" for state in parts.values())
    return JSONResponse({"ready": ready, "parts": parts}, status_code=200 if ready else 503)


# ------------------------------------------------------------------------------------ errors


def problem(status: int, detail: str, headers: dict[str, str] | None = None, error: str = "") -> Response:
    """An error in the form of RFC 9457. `error` is the name of the error in the library, if it has one."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": _TITLES.get(status, "Error"),
        "status": status,
        "detail": detail,
        **({"error": error} if error else {}),
    }
    # A value in the message may contain a lone surrogate.
    text = json.dumps(body, ensure_ascii=True)
    return Response(text, status, headers, PROBLEM_TYPE)


def refused(
    path: str, status: int, detail: str, headers: dict[str, str] | None = None, error: str = ""
) -> Response:
    """The error as a page for a person, who can log in there, or as a problem for a program."""
    if not is_page(path):
        return problem(status, detail, headers, error)
    return layout.refused(path, status, _TITLES.get(status, "Error"), detail, headers)


def _add_errors(app: FastAPI) -> None:
    app.add_exception_handler(OnlookerError, _on_own_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(Exception, _on_bug)


async def _on_own_error(request: Request, error: Exception) -> Response:
    status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 422)
    detail = str(error)
    if len(detail) > MAX_DETAIL:
        detail = f"{detail[: MAX_DETAIL // 2]} … {detail[-MAX_DETAIL // 2 :]}"
    again = {"retry-after": "1"} if status == 503 else None
    return refused(request.url.path, status, detail, again, type(error).__name__)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if error.status_code == 404 and detail == "Not Found":
        detail = "no such address; see /docs"
        if "text/html" in request.headers.get("accept", ""):  # typed into a browser
            return layout.refused(request.url.path, 404, _TITLES[404], detail, None)
    return refused(request.url.path, error.status_code, detail, dict(error.headers or {}))


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [_invalid(each) for each in error.errors()[:5]]
    status = 400 if any(each["type"] == "json_invalid" for each in error.errors()) else 422
    return refused(request.url.path, status, "; ".join(found)[:MAX_DETAIL])


def _invalid(each: Mapping[str, Any]) -> str:
    """What is wrong with a request, of what pydantic says about it."""
    where: tuple[str | int, ...] = each["loc"]
    if each["type"] == "json_invalid":
        return f"body: not JSON: {each['ctx']['error']} at character {where[-1]}"
    if where == ("body",):
        return "body: must be a JSON object, with the header `content-type: application/json`"
    return f"{'.'.join(map(str, where))}: {plain_problem(each['msg'])}"


async def _on_bug(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return refused(request.url.path, 500, "this is a bug in Onlooker; see the server's log")
