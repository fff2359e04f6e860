"""The configuration of the server: where it listens, who may call it, and the providers of the proxy."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from fnmatch import fnmatchcase
from typing import Any, cast, get_args
from urllib.parse import unquote, urlsplit, urlunsplit

from onlooker.domain.errors import SettingsError
from onlooker.domain.frozen import frozen
from onlooker.policy.secrets import mask
from onlooker.wire import Protocol

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# The first parts of paths that the server itself uses.
RESERVED = frozenset(
    ("v1", "mcp", "inspect", "healthz", "readyz", "metrics", "docs", "openapi.json", "static", "")
)


@frozen
class Upstream:
    """A provider that the proxy passes requests on to, under `/NAME/v1/…`.

    `models` are patterns, such as "llama*": a request for such a model goes here, even if it names another
    upstream of the same protocol. A user and a password in `url` are sent as basic authentication, in place
    of the client's `Authorization`.
    """

    name: str
    url: str = field(repr=False)  # may have a password; `address` has none
    protocol: Protocol
    models: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The URL without user and password."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")

    @property
    def authorization(self) -> str | None:
        """The header `Authorization` of every request; None if that is the client's."""
        login, at, _ = urlsplit(self.url).netloc.rpartition("@")
        user, _, password = login.partition(":")
        said = f"{unquote(user)}:{unquote(password)}".encode()
        return f"Basic {b64encode(said).decode()}" if at else None

    def takes(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) for pattern in self.models)


UPSTREAMS = (
    Upstream("openai", "https://api.openai.com", "openai"),
    Upstream("anthropic", "https://api.anthropic.com", "anthropic"),
)


@frozen
class ServerConfig:
    """How the server runs; the section `server` of a settings file, and the options of `onlooker serve`."""

    host: str = "127.0.0.1"
    port: int = 8787
    # Host names that clients may use, besides loopback. Empty: any, if tokens are required.
    hosts: tuple[str, ...] = ()
    # Web origins that may call it, such as "https://app.example.com". Empty: only its own pages.
    origins: tuple[str, ...] = ()
    max_body: int = 32 << 20  # bytes of a request
    # Requests per minute for each token, or for each address without one. 0: no limit.
    rate: int = 0
    # Tokens for the prompt of a proxied request; 0: the setting `budget`.
    proxy_budget: int = 0
    # How many seconds memory may take for a proxied request; after that it is passed on unchanged.
    memory_deadline: float = 5.0
    upstreams: tuple[Upstream, ...] = field(default=UPSTREAMS)

    def __post_init__(self) -> None:
        for key, low, high in (("port", 0, 65_535), ("max_body", 1_000, 1 << 32), ("rate", 0, 10**9)):
            value = getattr(self, key)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise SettingsError(f"server.{key}", value, f"must be an integer from {low} to {high}")
        for upstream in self.upstreams:
            _check(upstream)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it. Then no token is required."""
        return self.host in LOOPBACK

    def upstream(self, name: str, model: str = "") -> Upstream | None:
        """The upstream of a path, or the one of the same protocol that takes this model."""
        named = next((u for u in self.upstreams if u.name == name), None)
        if named is None:
            return None
        same = (u for u in self.upstreams if u.protocol == named.protocol)
        return next((u for u in same if model and u.takes(model)), named)


def _check(upstream: Upstream) -> None:
    key = f"server.upstreams.{upstream.name}"
    if upstream.name in RESERVED or not upstream.name.replace("-", "").replace("_", "").isalnum():
        raise SettingsError(
            key, upstream.name, "must be a word of letters, digits, - and _ that is not in use"
        )
    if urlsplit(upstream.url).scheme not in ("http", "https") or not urlsplit(upstream.url).hostname:
        raise SettingsError(
            f"{key}.url", mask(upstream.url), "must be an address such as https://api.openai.com"
        )
    if upstream.protocol not in get_args(Protocol):
        raise SettingsError(f"{key}.protocol", upstream.protocol, "must be openai or anthropic")


def server_config(section: Mapping[str, Any], **given: Any) -> ServerConfig:
    """Make the configuration from the section `server` of a settings file, and from options.

    Raises:
        SettingsError: A key is unknown, or has an invalid value.
    """
    known = {f.name for f in fields(ServerConfig)}
    for key, value in section.items():
        if key not in known:
            raise SettingsError(f"server.{key}", value, f"must be one of {', '.join(sorted(known))}")
    values: dict[str, Any] = {**section, **{k: v for k, v in given.items() if v is not None}}
    for key in ("hosts", "origins"):
        if key in values:
            values[key] = _texts(f"server.{key}", values[key])
    values["upstreams"] = _upstreams(section.get("upstreams", {}), given.get("upstreams") or ())
    return ServerConfig(**values)


def _upstreams(section: object, given: Sequence[Upstream]) -> tuple[Upstream, ...]:
    """The upstreams of the file and the options, which replace default ones of the same name."""
    chosen = {u.name: u for u in UPSTREAMS}
    if not isinstance(section, Mapping):
        raise SettingsError("server.upstreams", section, "must be sections: [server.upstreams.NAME]")
    for name, value in cast("Mapping[str, object]", section).items():
        key = f"server.upstreams.{name}"
        if not isinstance(value, Mapping):
            raise SettingsError(key, value, 'must have url = "https://…"')
        about = dict(cast("Mapping[str, Any]", value))
        default = chosen.get(name)
        url = about.pop("url", default.url if default else "")
        protocol = about.pop("protocol", default.protocol if default else "openai")
        models = _texts(f"{key}.models", about.pop("models", ()))
        if about:
            raise SettingsError(key, sorted(about), "must be url, protocol and models")
        chosen[name] = Upstream(name, str(url), protocol, models)
    return tuple((chosen | {u.name: u for u in given}).values())


def _texts(key: str, value: object) -> tuple[str, ...]:
    given = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (None,)
    if not all(isinstance(v, str) for v in given):
        raise SettingsError(key, given, "must be a list of strings")
    return tuple(cast("Sequence[str]", given))
