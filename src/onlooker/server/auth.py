"""Tokens, and the checks that every request must pass first: host, origin, size, rate, token.

A token is shown once, when it is made. The store has its hash, the owner that it is bound to, and its expiry.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.exceptions import HTTPException

from onlooker.domain.errors import ConflictError, NotFoundError, SettingsError
from onlooker.domain.frozen import frozen
from onlooker.ports import Store
from onlooker.server.config import LOOPBACK, ServerConfig

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PREFIX = "onl_"
_VALUE = "server_tokens"
# A revoked token is refused by every process after this many seconds.
TOKENS_AGE = 1.0
MAX_TRIES = 20


# ------------------------------------------------------------------------------------ tokens


@frozen
class Token:
    """A token as it is stored. `owner` is None if it is for all owners."""

    id: str
    digest: str
    owner: str | None
    made_at: str
    expires_at: str | None = None
    note: str = ""

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= now


@frozen
class Principal:
    """Who makes a request: one owner, or None for all owners. `token` is the token's id, if there is one."""

    owner: str | None = None
    token: str = ""


class Tokens:
    """The tokens of a store."""

    def __init__(self, store: Store, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._store = store
        self._now = now
        self._known: Sequence[Token] = ()
        self._read_at = -TOKENS_AGE

    async def list(self) -> Sequence[Token]:
        """Every token, including expired ones."""
        text = await self._store.get_value(_VALUE)
        return [Token(**each) for each in json.loads(text)] if text else []

    async def make(
        self, owner: str | None, *, days: float | None = None, note: str = ""
    ) -> tuple[str, Token]:
        """Make a token. Returns its text, which is stored nowhere, and what is stored.

        Raises:
            SettingsError: The owner is empty, or the expiry is not in the future.
        """
        if owner == "":
            raise SettingsError("owner", owner, "must not be empty; or make a token for all owners")
        if days is not None and not 0 < days <= 36_500:
            raise SettingsError("expires", days, "must be a number of days from now, up to 36500")
        text = PREFIX + secrets.token_urlsafe(32)
        now = self._now()
        expires = (now + timedelta(days=days)).isoformat() if days is not None else None
        token = Token(secrets.token_hex(4), _digest(text), owner, now.isoformat(), expires, note)
        await self._change(lambda tokens: [*tokens, token], lambda tokens: token in tokens)
        return text, token

    async def revoke(self, ident: str) -> Token:
        """Delete a token by its id.

        Raises:
            NotFoundError: There is no token with that id.
        """
        found = next((t for t in await self.list() if t.id == ident), None)
        if found is None:
            raise NotFoundError("token", ident)
        await self._change(
            lambda tokens: [t for t in tokens if t.id != ident],
            lambda tokens: all(t.id != ident for t in tokens),
        )
        return found

    async def _change(
        self, change: Callable[[Sequence[Token]], Sequence[Token]], done: Callable[[Sequence[Token]], bool]
    ) -> None:
        """Change the list; try again if another process changed it at the same time."""
        for _ in range(MAX_TRIES):
            changed = [asdict(t) for t in change(await self.list())]
            await self._store.set_value(_VALUE, json.dumps(changed))
            if done(await self.list()):
                self._read_at = -TOKENS_AGE
                return
        raise ConflictError("other processes keep changing the tokens; try again")

    async def principal(self, text: str) -> Principal | None:
        """The principal of a token; None if it is unknown or expired. Every known token is compared, each in
        constant time."""
        if time.monotonic() - self._read_at >= TOKENS_AGE:
            self._known, self._read_at = await self.list(), time.monotonic()
        digest, found = _digest(text), None
        for token in self._known:
            if hmac.compare_digest(token.digest, digest):
                found = token
        if found is None or found.is_expired(self._now()):
            return None
        return Principal(found.owner, found.id)


def _digest(text: str) -> str:
    # A fast hash is enough: the token has 256 random bits.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# ------------------------------------------------------------------------------------ every request

# Monitoring and the login page need no token.
OPEN_PATHS = frozenset(("/healthz", "/readyz", "/inspect/login"))
# The static files of the pages, which contain nothing of a memory.
OPEN_FOLDER = "/static/"
# The cookie of the inspector's pages: a token, or a random value if none is required.
COOKIE = "onlooker"
# Rates are kept for this many callers; the least recently seen ones start again.
MAX_CALLERS = 10_000


class Guard:
    """Checks every request before the application reads it, and names its principal in `scope["state"]`."""

    def __init__(
        self,
        app: App,
        config: ServerConfig,
        tokens: Callable[[], Tokens],
        refused: Callable[[str, int, str, dict[str, str]], App],
    ) -> None:
        self._app = app
        self._config = config
        self._tokens = tokens
        self._refused = refused
        self._rates: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refuse_origin(headers) or self._refuse_size(headers)
        is_open = scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_FOLDER)
        if refusal is None and not is_open and not self._is_preflight(scope, headers):
            refusal = await self._admit(scope, headers)
        if refusal is not None:
            await self._refused(scope["path"], *refusal)(scope, receive, send)
            return
        keep_encoded_slashes(scope)
        await self._app(scope, self._limited(receive), send)

    def _is_preflight(self, scope: Scope, headers: MutableMapping[str, str]) -> bool:
        """Whether this is a CORS preflight of an allowed page. Browsers send no token with it."""
        asks = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        return asks and headers.get("origin") in self._config.origins

    def _refuse_origin(self, headers: MutableMapping[str, str]) -> tuple[int, str, dict[str, str]] | None:
        """Refuse requests from other web sites, including those whose name points at this machine."""
        host = _host_of(headers.get("host", ""))
        allowed = (*LOOPBACK, self._config.host, *self._config.hosts)
        if (self._config.is_local or self._config.hosts) and host not in allowed:
            return 421, f"{host!r} is not a name of this server: use another, or add it to `hosts`", {}
        origin = headers.get("origin")
        if origin and origin not in self._config.origins and urlsplit(origin).netloc != headers.get("host"):
            return 403, f"web pages of {origin} may not call this server: add it to `origins`", {}
        return None

    def _refuse_size(self, headers: MutableMapping[str, str]) -> tuple[int, str, dict[str, str]] | None:
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._config.max_body:
            return 413, self._too_large, {}
        return None

    @property
    def _too_large(self) -> str:
        return f"a request may have at most {self._config.max_body} bytes: send less, or raise `max_body`"

    async def _admit(
        self, scope: Scope, headers: MutableMapping[str, str]
    ) -> tuple[int, str, dict[str, str]] | None:
        given = _token_in(headers)
        principal = await self._tokens().principal(given) if given else None
        if not given and is_page(scope["path"]):
            # Only pages accept the cookie: elsewhere a form of another site looks like one of ours.
            principal = await self._tokens().principal(cookie_in(headers.get("cookie", "")))
        if principal is None:
            if given or not self._config.is_local:
                what = "the token is unknown or expired" if given else "a token is required"
                advice = "make one with `onlooker token make`, and send it as `Authorization: Bearer TOKEN`"
                return 401, f"{what}: {advice} or `x-onlooker-token: TOKEN`", {"www-authenticate": "Bearer"}
            principal = Principal()
        scope.setdefault("state", {}).update(principal=principal, by_header=bool(given))
        client = scope.get("client") or ("",)
        wait = self._wait(principal.token or client[0])
        if wait > 0:
            again = {"retry-after": str(int(wait) + 1)}
            return 429, f"more than {self._config.rate} requests a minute: wait {wait:.1f} s", again
        return None

    def _wait(self, caller: str) -> float:
        """Seconds until this caller may send again: a token bucket of one second's worth, at least ten."""
        if not self._config.rate:
            return 0.0
        each, now = 60 / self._config.rate, time.monotonic()
        most = max(10.0, self._config.rate / 60)
        left, at = self._rates.pop(caller, (most, now))
        left = min(most, left + (now - at) / each)
        self._rates[caller] = (left - 1 if left >= 1 else left), now
        if len(self._rates) > MAX_CALLERS:
            self._rates.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) * each

    def _limited(self, receive: Receive) -> Receive:
        """Stop reading a request without a stated size when it has too many bytes."""
        left = self._config.max_body

        async def limited() -> MutableMapping[str, Any]:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, self._too_large)
            return message

        return limited


def _host_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _token_in(headers: MutableMapping[str, str]) -> str:
    """Our own token. A provider's key in `Authorization` belongs to the provider."""
    return headers.get("x-onlooker-token") or _bearer(headers.get("authorization", ""))


def _bearer(header: str) -> str:
    kind, _, value = header.partition(" ")
    return value.strip() if kind.lower() == "bearer" and value.strip().startswith(PREFIX) else ""


def is_ours(header: str, value: str) -> bool:
    """Whether a header of a request is for Onlooker and nobody else."""
    if header == "authorization":
        return bool(_bearer(value))
    return header.startswith("x-onlooker-") or (header == "cookie" and bool(cookie_in(value)))


def is_page(path: str) -> bool:
    """Whether this is a page of the inspector."""
    return path in ("/", "/docs") or path.startswith("/inspect/")


def cookie_in(header: str) -> str:
    """The value of our cookie; empty if there is none."""
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def form_key(cookie: str) -> str:
    """The key that our forms send back and other sites cannot know: a hash of the cookie, which only the
    server and the browser have."""
    return hashlib.blake2b(
        cookie.encode("utf-8", "replace"), key=b"onlooker form", digest_size=16
    ).hexdigest()


def keep_encoded_slashes(scope: Scope) -> None:
    """Keep `%2F` and `%25` in the request's path, so that a session key with a slash is one part of it.
    `decoded` decodes both."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%2f" in raw.lower():
        kept = raw.decode("latin-1").replace("%2f", "%2F").replace("%25", "%2525").replace("%2F", "%252F")
        scope["path"] = unquote(kept)
    else:
        scope["path"] = scope["path"].replace("%", "%25")


def decoded(part: str) -> str:
    """Decode a part of a path after `keep_encoded_slashes`."""
    return unquote(part)
