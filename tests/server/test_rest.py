"""REST: what the library does, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

import onlooker
from onlooker.server.config import ServerConfig
from tests.server.serving import app_of, said, serving

pytestmark = pytest.mark.anyio


async def ok(response: httpx2.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json() if response.content else {}


async def test_a_conversation_is_recorded_noted_searched_and_shown() -> None:
    async with serving() as client:
        many = {
            "messages": [
                said(n, f"Parcel ZQ{n:03}K went from Oslo to hall {n}, row B. " * 8) for n in range(1, 61)
            ]
        }
        first = await ok(await client.post("/v1/sessions/a/messages", json=many))
        assert len(first["recorded"]) == 60
        again = await ok(await client.post("/v1/sessions/a/messages", json=many))
        assert again["recorded"] == []
        assert (await ok(await client.post("/v1/sessions/a/settle")))["settled"] is True
        shown = await ok(await client.get("/v1/sessions/a/context", params={"system": "You help."}))
        assert shown["messages"][0]["content"].startswith("You help.\n\n## Conversation Memory")
        assert "ZQ003K" in str(shown["messages"])
        assert shown["stats"]["total"] <= 4_000
        notes = await ok(await client.get("/v1/sessions/a/notes", params={"limit": 1}))
        note = notes["notes"][0]["id"]
        behind = await ok(await client.get("/v1/sessions/a/recall", params={"note": note}))
        assert behind["messages"][0]["id"] == "m1"
        hits = await ok(await client.get("/v1/search", params={"q": "ZQ003K"}))
        assert any(hit["id"] == "m3" for hit in hits["hits"])
        status = await ok(await client.get("/v1/sessions/a"))
        assert status["messages"] == 60
        assert status["owner"] == "default"


async def test_every_form_of_a_context_and_every_way_to_ask_for_it() -> None:
    async with serving() as client:
        await ok(await client.post("/v1/sessions/a/messages", json=said(1, "I moved to Oslo.")))
        forms = {
            f: await ok(await client.post("/v1/sessions/a/context", json={"format": f}))
            for f in ("openai", "anthropic", "text", "parts")
        }
        assert forms["openai"]["messages"] == [{"role": "user", "content": "I moved to Oslo."}]
        assert forms["anthropic"]["messages"] == [{"role": "user", "content": "I moved to Oslo."}]
        assert "user: I moved to Oslo." in str(forms["text"]["text"])
        assert forms["parts"]["parts"]["messages"][0]["id"] == "m1"
        history = [said(1, "I moved to Oslo."), said(2, "Noted."), said(3, "Where do I live?")]
        prepared = await ok(
            await client.post("/v1/sessions/a/prepare", json={"messages": history, "system": "Hi."})
        )
        assert [m["content"] for m in prepared["messages"]] == [
            "Hi.",
            "I moved to Oslo.",
            "Noted.",
            "Where do I live?",
        ]
        then = await ok(await client.get("/v1/sessions/a/as-of", params={"seq": 1}))
        assert len(then["messages"]) == 1


async def test_a_context_that_did_not_change_is_not_sent_again() -> None:
    async with serving() as client:
        await client.post("/v1/sessions/a/messages", json=said(1))
        first = await client.get("/v1/sessions/a/context")
        tag = first.headers["etag"]
        same = await client.get("/v1/sessions/a/context", headers={"if-none-match": tag})
        assert (same.status_code, same.content) == (304, b"")
        await client.post("/v1/sessions/a/messages", json=said(2))
        changed = await client.get("/v1/sessions/a/context", headers={"if-none-match": tag})
        assert changed.status_code == 200
        assert changed.headers["etag"] != tag


async def test_lists_come_in_pages() -> None:
    async with serving() as client:
        for key in "abcde":
            await client.post(
                f"/v1/sessions/{key}/messages", json={"messages": [said(n) for n in range(1, 8)]}
            )
        for path, name in (("/v1/sessions", "sessions"), ("/v1/sessions/a/messages", "messages")):
            pages, cursor = list[list[Any]](), ""
            while cursor is not None:
                page = await ok(await client.get(path, params={"limit": 2, "cursor": cursor}))
                pages.append(page[name])
                cursor = page["next"]
            assert [len(page) for page in pages] == ([2, 2, 1] if name == "sessions" else [2, 2, 2, 1])
            assert len({str(each) for page in pages for each in page}) == sum(map(len, pages))


@pytest.mark.parametrize("key", ["telegram:42", "a/b", "a%2Fb", "100%", "über uns", "a?b#c", "日本"])
async def test_any_session_key_can_be_named(key: str) -> None:
    async with serving() as client:
        await ok(await client.post(f"/v1/sessions/{quote(key, safe='')}/messages", json=said(1)))
        assert (await ok(await client.get(f"/v1/sessions/{quote(key, safe='')}")))["key"] == key


async def test_notes_are_pinned_edited_undone_and_forgotten() -> None:
    async with serving() as client:
        many = {
            "messages": [
                said(n, f"Parcel ZQ{n:03}K went from Oslo to hall {n}, row B. " * 8) for n in range(1, 61)
            ]
        }
        await client.post("/v1/sessions/a/messages", json=many)
        await client.post("/v1/sessions/a/settle")
        notes = await ok(await client.get("/v1/sessions/a/notes"))
        note = notes["notes"][-1]
        path = f"/v1/sessions/a/notes/{note['id']}"
        await ok(
            await client.put(path, json={"text": "## 2026-02-16\nThe parcels are in hall 7.", "by": "ana"})
        )
        late = await client.put(path, json={"text": "Other.", "was": note["text"]})
        assert late.status_code == 409
        history = await ok(await client.get(path))
        assert [v["by"] for v in history["versions"]][-1] == "ana"
        assert "hall 7" in str((await client.get("/v1/sessions/a/context")).json())
        assert (await client.put(f"/v1/sessions/a/pins/{note['id']}")).status_code == 204
        assert (await ok(await client.get("/v1/sessions/a/pins")))["pins"] == [note["id"]]
        assert (await client.delete(f"/v1/sessions/a/pins/{note['id']}")).status_code == 204
        gone = await ok(await client.post("/v1/sessions/a/forget", json={"targets": ["m3"]}))
        assert gone["messages"] == 1
        assert "ZQ003K" not in str((await client.get("/v1/export")).text)
        assert (await client.post("/v1/sessions/a/undo", json={"note": "no such"})).status_code == 404


async def test_a_branch_that_was_taken_back_is_restored() -> None:
    async with serving() as client:
        history = [
            said(1, "Which city?"),
            said(2, "Oslo is the one."),
            said(3, "And the street?"),
            said(4, "Storgata it is."),
        ]
        await client.post("/v1/sessions/a/prepare", json={"messages": history})
        other = [
            *history[:3],
            said(5, "Karl Johans gate.") | {"role": "assistant"},
            said(7, "Thanks for that."),
        ]
        await client.post("/v1/sessions/a/prepare", json={"messages": other})
        back = await ok(await client.get("/v1/sessions/a/taken-back"))
        assert [m["id"] for m in back["messages"]] == ["m4"]
        await ok(await client.post("/v1/sessions/a/restore", json={"message": "m4"}))
        now = await ok(await client.get("/v1/sessions/a/messages"))
        assert [m["id"] for m in now["messages"]] == ["m1", "m2", "m3", "m4", "m5", "m7"]


async def test_items_are_saved_searched_pinned_and_archived() -> None:
    async with serving() as client:
        saved = await ok(
            await client.post("/v1/items?owner=ana", json={"summary": "Ana lives in Oslo since May."}), 201
        )
        ident = saved["id"]
        twice = await client.post("/v1/items?owner=ana", json={"summary": "Ana lives in Oslo since May."})
        assert twice.status_code == 422
        assert (await client.put(f"/v1/items/{ident}/pin?owner=ana")).status_code == 204
        found = await ok(await client.get("/v1/items", params={"owner": "ana", "q": "Oslo"}))
        assert [i["id"] for i in found["items"]] == [ident]
        shown = await ok(await client.get("/v1/sessions/new/context?owner=ana"))
        assert "Ana lives in Oslo" in str(shown["messages"])
        await ok(await client.delete(f"/v1/items/{ident}?owner=ana"))
        assert (await client.delete("/v1/items/itm_no?owner=ana")).status_code == 404


async def test_an_export_makes_the_same_sessions_elsewhere() -> None:
    async with serving() as client, serving() as other:
        await client.post("/v1/sessions/a/messages", json={"messages": [said(n) for n in range(1, 8)]})
        exported = await client.get("/v1/export")
        rows = await ok(await other.post("/v1/import", content=exported.content))
        assert rows["rows"]["message"] == 7
        assert (await client.get("/v1/sessions/a/messages")).json() == (
            await other.get("/v1/sessions/a/messages")
        ).json()
        assert (await other.post("/v1/import", content=exported.content)).status_code == 409
        cut = await other.post("/v1/import?replace=true", content=exported.content[:-80])
        assert (cut.status_code, cut.headers["content-type"]) == (422, "application/problem+json")


async def test_an_import_writes_for_the_owner_that_is_named() -> None:
    async with serving() as client, serving() as other:
        for owner in ("ana", "ben"):
            await client.post(f"/v1/sessions/a/messages?owner={owner}", json={"messages": [said(1)]})
        exported = (await client.get("/v1/export")).content
        refused = await other.post("/v1/import", content=exported)
        assert refused.status_code == 422
        assert "all_owners" in refused.json()["detail"]
        assert (await ok(await other.get("/v1/sessions")))["sessions"] == []
        await ok(await other.post("/v1/import?owner=ana", content=exported))
        assert {s["owner"] for s in (await ok(await other.get("/v1/sessions")))["sessions"]} == {"ana"}
        await ok(await other.post("/v1/import?all_owners=true&replace=true", content=exported))
        assert len((await ok(await other.get("/v1/sessions")))["sessions"]) == 2


async def test_forgetting_an_owner_leaves_the_others() -> None:
    async with serving() as client:
        for owner in ("ana", "ben"):
            await client.post(f"/v1/sessions/a/messages?owner={owner}", json=said(1))
        done = await ok(await client.delete("/v1/owners/ana"))
        assert done["sessions"] == 1
        assert [s["owner"] for s in (await client.get("/v1/sessions")).json()["sessions"]] == ["ben"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("GET", "/v1/sessions/none", None, 404, "no session 'none'"),
        ("GET", "/v1/nothing", None, 404, "/docs"),
        ("POST", "/v1/sessions/a/messages", {"role": "king", "content": "x"}, 422, "role"),
        ("POST", "/v1/sessions/a/messages", {"text": "x"}, 422, '{"messages": [...]}'),
        ("POST", "/v1/sessions/a/context", {"budget": -1}, 422, "budget"),
        (
            "POST",
            "/v1/sessions/a/context",
            {"budget": 3, "system": "You help a lot. " * 9},
            422,
            "raise the budget",
        ),
        ("GET", "/v1/sessions?limit=0", None, 422, "limit"),
        ("PATCH", "/v1/sessions", None, 405, ""),
    ],
)
async def test_an_error_says_what_to_do(
    method: str, path: str, body: dict[str, object] | None, status: int, says: str
) -> None:
    async with serving() as client:
        answer = await client.request(method, path, json=body)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
        assert says in answer.json()["detail"]
        assert answer.json()["status"] == status


async def test_the_page_about_rest_names_every_address_and_loads_nothing_from_elsewhere() -> None:
    async with serving() as client:
        answer = await client.get("/docs")
        assert answer.headers["content-type"].startswith("text/html")
        described = (await client.get("/openapi.json")).json()
        for path, methods in described["paths"].items():
            assert answer.text.count(f"</span> <code>{path}</code>") == len(methods)
        assert "<code>budget</code>" in answer.text
        assert "A message whose <code>id</code> is already recorded" in answer.text
        assert "<code>role</code> <code>content</code> <code>id</code>" in answer.text
        assert "`" not in answer.text
        assert "://" not in answer.text


@pytest.mark.parametrize(
    ("content", "kind", "status", "says"),
    [
        (
            '{"role": "user"',
            "application/json",
            400,
            "body: not JSON: Expecting ',' delimiter at character 15",
        ),
        (
            '{"role": "user", "content": "Hi"}',
            "application/x-www-form-urlencoded",
            422,
            "content-type: application/json",
        ),
        ('"Hi"', "application/json", 422, "body: must be a JSON object"),
        ('{"messages": 5}', "application/json", 422, "messages = 'int': must be a list"),
    ],
)
async def test_a_body_that_cannot_be_read_says_how_to_send_it(
    content: str, kind: str, status: int, says: str
) -> None:
    async with serving() as client:
        answer = await client.post("/v1/sessions/a/messages", content=content, headers={"content-type": kind})
        assert answer.status_code == status
        assert says in answer.json()["detail"]


async def test_what_is_too_large_is_refused_with_or_without_its_size() -> None:
    async with serving(config=ServerConfig(max_body=2_000)) as client:

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(10):
                yield b"x" * 500

        for content in (b"x" * 2_001, pieces()):
            answer = await client.post("/v1/sessions/a/messages", content=content)
            assert (answer.status_code, answer.json()["title"]) == (413, "Too large")


async def test_a_store_that_cannot_be_read_is_said_and_ready_says_which_part() -> None:
    async with serving() as client:
        assert (await client.get("/readyz")).json() == {
            "ready": True,
            "parts": {"store": "ok", "server": "ok"},
        }
        await app_of(client).state.memory.store.close()
        answer = await client.get("/v1/sessions")
        assert answer.status_code == 503
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/healthz")).status_code == 200
        await app_of(client).state.memory.store.open()


async def test_settings_and_what_was_spent_can_be_read() -> None:
    async with serving(onlooker.open_memory(":memory:", budget=5_000)) as client:
        assert (await ok(await client.get("/v1/settings")))["budget"] == 5_000
        assert await ok(await client.get("/v1/usage")) == {"calls": [], "spent": 0.0, "spent_today": 0.0}
