"""What all pages share: templates, static files, answers to forms, and the login.

A page is a whole document that can be reloaded and linked to. htmx asks for the same page and takes the part
that changes. Forms are sent as forms, with a key that only our own pages know, and answer with a redirect.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from hmac import compare_digest
from importlib import resources
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from onlooker import __version__
from onlooker.domain.context import RuntimeContext
from onlooker.domain.messages import SessionId
from onlooker.policy.model_names import BUILT_IN
from onlooker.server.auth import COOKIE, Tokens, cookie_in, form_key
from onlooker.server.inspector import text

router = APIRouter(include_in_schema=False)

# The navigation bar.
PAGES = {
    "/": "Sessions",
    "/inspect/search": "Search",
    "/inspect/items": "Items",
    "/inspect/cost": "Cost",
    "/inspect/settings": "Settings",
    "/inspect/health": "Health",
}
PACKAGE = "onlooker.server.inspector"
# Only our own scripts, styles, addresses and form targets, and no framing.
SAFE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


# ------------------------------------------------------------------------------------ templates


def _number(number: float) -> str:
    return f"{number:,.0f}"


def _percent(share: float) -> str:
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def _dollars(cost: float | None) -> str:
    return f"${cost:,.4f}" if cost and cost < 1 else f"${cost or 0:,.2f}"


def _minute(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else "–"


def _day(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d}" if at else "–"


def _writer(model: str) -> str:
    return "the built-in model" if model in ("", BUILT_IN) else model


def _channel(key: str) -> str:
    return RuntimeContext.of(key).channel


@cache
def templates() -> Environment:
    made: Any = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(_FILTERS)
    made.globals.update(
        at=address,
        pages=PAGES,
        version=__version__,
        max_shown=text.MAX_SHOWN,
        build=_build(),
        marked=text.marked,
    )
    return made


def compile_templates() -> None:
    """Compile the templates, so that the first requests need not wait for that."""
    for name in templates().list_templates():
        templates().get_template(name)


def address(session: SessionId, *parts: object, **query: object) -> str:
    """The address of a session's page."""
    path = "/".join(quote(str(p), safe="", errors="replace") for p in (session.key, *parts))
    asked = {"owner": session.owner, **{k: v for k, v in query.items() if v not in (None, "")}}
    return f"/inspect/sessions/{path}?{urlencode(asked, errors='replace')}"


def ago(at: datetime | None) -> str:
    if at is None:
        return "–"
    seconds = (datetime.now(UTC) - at).total_seconds()
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if abs(seconds) >= length:
            count = int(abs(seconds) // length)
            said = f"{count} {unit}{'s' if count > 1 else ''}"
            return f"in {said}" if seconds < 0 else f"{said} ago"
    return "now"


_FILTERS = {
    "n": _number,
    "percent": _percent,
    "dollars": _dollars,
    "minute": _minute,
    "day": _day,
    "writer": _writer,
    "ago": ago,
    "visible": text.visible,
    "cut": text.cut,
    "gist": text.gist,
    "size": text.size,
    "channel": _channel,
}


@cache
def _build() -> str:
    """A hash that changes with the files, so that a browser may cache each of them forever."""
    import hashlib

    digest = hashlib.blake2b(digest_size=6)
    for file in sorted(_static().iterdir(), key=lambda f: f.name):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _static() -> Any:
    return resources.files(PACKAGE).joinpath("static")


_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "LICENSE": "text/plain"}


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """Serve a static file."""
    body = _file(name)
    kind = _TYPES[name.rpartition(".")[2]]
    headers = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
    return Response(body, headers=headers, media_type=kind)


@cache
def _files() -> Mapping[str, bytes]:
    return {file.name: file.read_bytes() for file in _static().iterdir()}


def _file(name: str) -> bytes:
    if name not in _files():
        raise HTTPException(404, "no such file")
    return _files()[name]


def page(request: Request, name: str, code: int = 200, /, **values: Any) -> Response:
    """Render a page, with what every page has: the principal, and the key of its forms."""
    known = cookie_in(request.headers.get("cookie", ""))
    cookie = known or secrets.token_urlsafe(24)
    principal = getattr(request.state, "principal", None)
    values = {
        "path": request.url.path,
        "form_key": form_key(cookie),
        "principal": principal,
        "done": request.query_params.get("done", ""),
        **values,
    }
    answer = _html(name, code, values)
    if not known:
        _set_cookie(answer, request, cookie)
    return answer


def _html(name: str, status: int, values: Mapping[str, Any], headers: Mapping[str, str] = {}) -> Response:
    body = templates().get_template(name).render(**values).encode("utf-8", "replace")
    return Response(body, status, {**SAFE_HEADERS, **headers}, "text/html; charset=utf-8")


def _set_cookie(answer: Response, request: Request, value: str) -> None:
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, value, httponly=True, samesite="strict", secure=secure, path="/")


def refused(path: str, status: int, title: str, detail: str, headers: Mapping[str, str] | None) -> Response:
    """The page for a refused request; the login page if that may help."""
    values = {"path": path, "title": title, "status": status, "detail": detail, "principal": None, "done": ""}
    return _html("login.html" if status == 401 else "error.html", status, values, headers or {})


# ------------------------------------------------------------------------------------ forms, logging in


async def own_form(request: Request, form_key_: Annotated[str, Form(alias="form_key")] = "") -> None:
    """Refuse a form that is not from our pages. A program that sends a token in a header needs no key."""
    if request.state.by_header:
        return
    cookie = cookie_in(request.headers.get("cookie", ""))
    if not cookie or not compare_digest(form_key(cookie).encode(), form_key_.encode("utf-8", "replace")):
        raise HTTPException(
            403, "this form is out of date, or from another site: reload the page and try again"
        )


OwnForm = Depends(own_form)


@router.get("/inspect/login")
async def login_page(request: Request) -> Response:
    """The login page."""
    return page(request, "login.html", detail="")


@router.post("/inspect/login")
async def login(
    request: Request,
    token: Annotated[str, Form(max_length=200)] = "",
    next: Annotated[str, Form(max_length=4_000)] = "/",
) -> Response:
    """Enter a token. The browser keeps it in a cookie that no script can read."""
    tokens: Tokens = request.app.state.tokens
    if await tokens.principal(token.strip()) is None:
        detail = "This token is unknown or expired. Make one with: onlooker token make"
        return page(request, "login.html", 401, detail=detail)
    # Only to this site: "//other.example" is another one. From the login page to the first page.
    is_ours = next.startswith(("/inspect/", "/?", "/docs")) and not next.startswith("/inspect/login")
    answer = redirect(next if is_ours else "/")
    _set_cookie(answer, request, token.strip())
    return answer


@router.post("/inspect/logout", dependencies=[OwnForm])
async def logout() -> Response:
    """Delete the cookie."""
    answer = redirect("/inspect/login")
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return answer


def redirect(where: str) -> RedirectResponse:
    return RedirectResponse(where, 303, SAFE_HEADERS)
