"""Who may ask: tokens, owners, names, web pages, rates. Every route of the table is tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

import onlooker
from onlooker.errors import NotFoundError, SettingsError
from onlooker.server.auth import OPEN_PATHS, Tokens
from onlooker.server.config import ServerConfig
from tests.server.serving import PUBLIC, app_of, said, serving

pytestmark = pytest.mark.anyio

# Values for the parameters of paths, and bodies for the routes that need one.
NAMES = {
    "key": "hers",
    "note": "obs_1",
    "target": "m1",
    "item": "itm_1",
    "owner": "ana",
    "path": "chat/completions",
    "seq": "1",
    "name": "app.css",
}
BODIES: dict[str, Any] = {
    "/v1/sessions/{key}/messages": said(9),
    "/v1/sessions/{key}/prepare": {"messages": [said(9)]},
    "/v1/sessions/{key}/context": {},
    "/v1/sessions/{key}/notes/{note}": {"text": "x"},
    "/v1/sessions/{key}/undo": {},
    "/v1/sessions/{key}/forget": {"targets": ["m1"]},
    "/v1/sessions/{key}/restore": {"message": "m1"},
    "/v1/items": {"summary": "Ana lives in Oslo since May."},
}
# Routes that are about no owner in particular.
OWNERLESS = {
    "/v1/settings",
    "/openapi.json",
    "/docs",
    "/inspect/logout",
    "/inspect/settings",
}
# Routes for everyone, by their place in the table.
OPEN = {*OPEN_PATHS, "/static/{name}"}


def table(routes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Every method and path of the application, those of routers included."""
    for route in routes:
        if (inner := getattr(route, "original_router", None)) is not None:
            yield from table(inner.routes)
        else:
            yield from ((method, route.path) for method in getattr(route, "methods", None) or ("GET",))


async def call(
    client: httpx2.AsyncClient, method: str, path: str, token: str | None, owner: str, *, cookie: str = ""
) -> httpx2.Response:
    headers = {"x-onlooker-owner": owner, **({"authorization": f"Bearer {token}"} if token else {})}
    headers |= {"cookie": f"onlooker={cookie}"} if cookie else {}
    body = BODIES.get(path) if method in ("POST", "PUT") else None
    params = (
        {"q": "x"} if path == "/v1/search" else {"seq": "1"} if path.endswith(("as-of", "recall")) else {}
    )
    return await client.request(
        method,
        path.replace(":path", "").format(**NAMES),
        json=body,
        headers=headers,
        params={**params, "owner": owner},
    )


async def test_every_route_refuses_who_may_not_ask() -> None:
    past = datetime.now(UTC) - timedelta(days=2)
    async with serving(config=PUBLIC) as client:
        app: Any = app_of(client)
        memory: onlooker.Memory = app.state.memory
        await memory.session("hers", owner="ana").record(said(1, "The code is 7718."))
        ana, _ = await app.state.tokens.make("ana")
        ben, _ = await app.state.tokens.make("ben")
        old, _ = await Tokens(memory.store, now=lambda: past).make("ana", days=1)
        tried = [route for route in table(app.routes) if route[1] not in OPEN]
        assert len(tried) > 50
        for method, path in tried:
            for token in (None, "onl_wrong", old):
                answer = await call(client, method, path, token, "ana")
                assert answer.status_code == 401, (method, path, token)
                assert answer.headers["www-authenticate"] == "Bearer"
            if path == "/mcp":
                continue  # a stream that goes on; test_mcp.py shows whose memory it has
            cookie = await call(client, method, path, None, "ana", cookie=ben)
            assert "7718" not in cookie.text
            # The cookie is for pages alone. Its forms need their key as well.
            is_page = path in ("/", "/docs") or path.startswith("/inspect/")
            open_to_all = path in OWNERLESS and (method, path) != ("POST", "/inspect/settings")
            seen = 200 if open_to_all else 404
            expected = 401 if not is_page else seen if method == "GET" else 403
            assert cookie.status_code == expected, (method, path, cookie.text)
            answer = await call(client, method, path, ben, "ana")
            assert "7718" not in answer.text
            if not open_to_all:
                assert answer.status_code == 404, (method, path, answer.text)
        everything = await call(client, "GET", "/v1/sessions/{key}/messages", ana, "ana")
        assert "7718" in everything.text


async def test_a_token_of_one_owner_sees_that_owner_without_naming_it() -> None:
    async with serving(config=PUBLIC) as client:
        app: Any = app_of(client)
        for owner in ("ana", "ben"):
            token, _ = await app.state.tokens.make(owner)
            client.headers["authorization"] = f"Bearer {token}"
            await client.post("/v1/sessions/a/messages", json=said(1, f"{owner} was here, and stayed."))
            sessions = (await client.get("/v1/sessions")).json()["sessions"]
            assert [s["owner"] for s in sessions] == [owner]
            hits = (await client.get("/v1/search", params={"q": "stayed"})).json()["hits"]
            assert [h["session"]["owner"] for h in hits] == [owner]
            assert (await client.get("/v1/export")).text.count("was here") == 1
        everyone, _ = await app.state.tokens.make(None)
        client.headers["authorization"] = f"Bearer {everyone}"
        assert len((await client.get("/v1/sessions")).json()["sessions"]) == 2


async def test_a_token_is_hashed_at_rest_and_can_be_revoked() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        tokens = Tokens(memory.store)
        text, token = await tokens.make("ana", days=1, note="laptop")
        assert text not in str(await memory.store.get_value("server_tokens"))
        found = await tokens.principal(text)
        assert found is not None
        assert found.owner == "ana"
        await tokens.revoke(token.id)
        assert await tokens.principal(text) is None
        with pytest.raises(NotFoundError):
            await tokens.revoke(token.id)
        for owner, days in (("", None), ("ana", 0), ("ana", -1)):
            with pytest.raises(SettingsError):
                await tokens.make(owner, days=days)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8787"}, 200),
        ({"host": "[::1]:8787"}, 200),
        ({"host": "evil.example"}, 421),  # a name that was pointed at this machine
        ({"host": "memory.local"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:8787"}, 200),
        ({"origin": "https://app.example"}, 200),
    ],
)
async def test_only_its_own_names_and_pages_reach_it(headers: dict[str, str], status: int) -> None:
    config = ServerConfig(hosts=("memory.local",), origins=("https://app.example",))
    async with serving(config=config) as client:
        answer = await client.get("/v1/sessions", headers=headers)
        assert answer.status_code == status
        allowed = answer.headers.get("access-control-allow-origin")
        assert (allowed is not None) == (headers.get("origin") in config.origins)


async def test_a_browser_may_ask_first_what_an_allowed_page_may_ask() -> None:
    config = ServerConfig(host="0.0.0.0", origins=("https://app.example",), upstreams=())
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    async with serving(config=config) as client:
        for origin, status in (("https://app.example", 200), ("https://evil.example", 403)):
            answer = await client.options("/v1/sessions", headers={**asked, "origin": origin})
            assert answer.status_code == status
        page = {"origin": "https://app.example"}
        assert (await client.get("/v1/sessions", headers=page)).status_code == 401
        assert (await client.options("/v1/sessions", headers=page)).status_code == 401


async def test_whoever_asks_too_often_is_told_when_to_come_back() -> None:
    async with serving(config=ServerConfig(rate=60)) as client:
        answers = [await client.get("/v1/settings") for _ in range(15)]
        refused = [a for a in answers if a.status_code == 429]
        assert refused
        assert int(refused[0].headers["retry-after"]) >= 1
        assert (await client.get("/healthz")).status_code == 200


async def test_a_providers_key_is_not_taken_for_a_token() -> None:
    async with serving() as client:
        headers = {"authorization": "Bearer sk-test-0123456789"}
        assert (await client.get("/v1/sessions", headers=headers)).status_code == 200
        assert (await client.get("/v1/sessions", headers={"x-onlooker-token": "onl_no"})).status_code == 401
