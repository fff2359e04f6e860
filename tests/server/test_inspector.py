"""The inspector's pages, as a browser asks for them: what they show, who may look, and what they refuse."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jinja2 import Environment

import onlooker
from onlooker.checkup import Finding
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Commit, Guard, Note, Usage
from onlooker.errors import ModelError
from onlooker.policy.cost import PRICES, Prices, Transcript, bill_host, full_history, sliding_window
from onlooker.server.app import warm_up
from onlooker.server.inspector import layout
from onlooker.server.inspector.figures import bills, timeline
from onlooker.server.inspector.overview import Installation
from onlooker.testing import ScriptedModel
from tests.server.serving import BASE, PUBLIC, app_of, said, serving

pytestmark = pytest.mark.anyio

SESSION = "/inspect/sessions/hers"
ANA = {"owner": "ana"}


async def fill(client: httpx2.AsyncClient, count: int = 60) -> onlooker.Memory:
    """A session of Ana's with notes."""
    memory: onlooker.Memory = app_of(client).state.memory
    session = memory.session("hers", owner="ana")
    await session.context(budget=1_000)
    for number in range(1, count + 1):
        await session.record(said(number))
    await memory.background.flush()
    return memory


async def form_key(client: httpx2.AsyncClient) -> str:
    """The key of the forms on our pages; the client then has their cookie, too."""
    found = re.search(
        r'name="form_key" value="(\w+)"', (await client.get("/inspect/sessions/hers", params=ANA)).text
    )
    assert found
    return found[1]


async def test_an_address_that_is_not_there_is_a_page_in_a_browser_and_a_problem_elsewhere() -> None:
    async with serving() as client:
        page = await client.get("/sessions", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "no such address" in page.text
        assert 'href="/">Go to the sessions</a>' in page.text
        problem = await client.get("/sessions")
        assert problem.json()["detail"] == "no such address; see /docs"


async def test_a_server_that_is_warm_compiles_nothing_for_its_first_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: Any = Environment.compile
    made = list[str | None]()

    def counting(self: Environment, source: Any, name: str | None = None, *rest: Any, **more: Any) -> Any:
        made.append(name)
        return compiled(self, source, name, *rest, **more)

    monkeypatch.setattr(Environment, "compile", counting)
    layout.templates.cache_clear()
    await warm_up()
    assert "sessions.html" in made
    made.clear()
    async with serving() as client:
        await fill(client)
        for path in (*layout.PAGES, SESSION, f"{SESSION}/prompt", f"{SESSION}/notes"):
            assert (await client.get(path, params=ANA)).status_code == 200
    assert made == []


async def test_a_session_shows_what_became_of_each_message() -> None:
    async with serving() as client:
        memory = await fill(client)
        session = memory.session("hers", owner="ana")
        notes = await session.notes()
        newest = (await client.get(SESSION, params=ANA)).text
        first = (await client.get(SESSION, params={**ANA, "to": 10})).text
        assert '<span class="badge place">raw</span>' in newest
        assert "Parcel ZQ060K" in newest
        assert '<span class="badge place">noted</span>' in first
        assert f"{notes[0].first}–{notes[0].last}" in first
        line = (await client.get(f"{SESSION}/timeline", params=ANA)).json()
        assert line["seq"][-1] == 60
        assert line["raw"][-1] == sum(m.tokens for m in await session.messages())
        assert line["raw"] == sorted(line["raw"])
        assert line["context"][-1] < line["raw"][-1]
        assert {mark["kind"] for mark in line["marks"]} >= {"observation"}


async def test_the_chart_of_a_long_session_is_exact_where_notes_changed() -> None:
    """Only some changes are read; each with the one before it, so that what it replaced is known."""
    async with serving() as client:
        store = app_of(client).state.memory.store
        session, count = SessionId("ana", "long"), 1_200
        at = datetime(2026, 2, 16, tzinfo=UTC)
        for n in range(1, count + 1):
            said_now = onlooker.Message("user", f"message {n}", f"m{n}", at, tokens=10)
            done = await store.append(session, [said_now], due_tokens=1 << 40, now=at)
            note = Note(f"o{n}", 0, n, n, "noted", 2, at, (f"m{n}",))
            guard = Guard(done.progress.frontier, done.progress.revision)
            change = Commit(guard, add=(note,), frontier=n, watermark=n, tail_start=n + 1, at=at)
            await store.commit(session, change)
        line = (await client.get("/inspect/sessions/long/timeline", params=ANA)).json()
        assert line["seq"][-1] == count
        assert line["raw"][-1] == 10 * count
        assert line["context"][-1] == 2 * count
        points = dict(zip(line["seq"], zip(line["raw"], line["context"], strict=True), strict=True))
        assert len(points) < 1_000
        assert 100 <= len(line["marks"]) <= 300
        for mark in line["marks"]:
            assert points[mark["seq"]] == (10 * mark["seq"], 2 * mark["seq"])
            assert mark["about"].endswith(f"messages {mark['seq']:,} to {mark['seq']:,}")


async def test_the_prompt_is_what_the_agent_would_receive_and_looking_changes_nothing() -> None:
    async with serving() as client:
        memory = await fill(client)
        session = memory.session("hers", owner="ana")
        before = await memory.sessions()
        asked = {**ANA, "budget": "2000"}
        shown = (await client.get(f"{SESSION}/prompt.json", params=asked)).json()
        words = {**asked, "words": "Where did parcel ZQ003K go?", "compared": "lango"}
        page = (await client.get(f"{SESSION}/prompt", params=words)).text
        assert page.count('<section class="prompt"') == 2
        assert "Where did parcel ZQ003K go?" in page
        assert await memory.sessions() == before
        plain = html.unescape(re.sub(r"<[^>]+>", "", page))
        for part in (await session.context(budget=2000)).sections.texts():
            assert part in plain
        assert shown["messages"] == (await session.context(budget=2000)).openai()


async def test_a_note_is_shown_with_its_source_and_its_words_are_marked() -> None:
    async with serving() as client:
        memory = await fill(client)
        note = (await memory.session("hers", owner="ana").notes())[0]
        page = (await client.get(f"{SESSION}/notes", params={**ANA, "note": note.id})).text
        assert "<mark data-line=" in page
        assert 'name="words"' in page
        then = (await client.get(f"{SESSION}/notes", params={**ANA, "then": 0})).text
        assert "No note at that time" in then


async def test_a_note_is_edited_pinned_and_forgotten_by_forms() -> None:
    async with serving() as client:
        memory = await fill(client)
        session = memory.session("hers", owner="ana")
        note = (await session.notes())[0]
        key = {"form_key": await form_key(client)}
        edited = {**key, "words": "## 2026-02-16\r\nAna keeps bees.", "was": note.text.replace("\n", "\r\n")}
        answer = await client.post(f"{SESSION}/notes/{note.id}/edit", params=ANA, data=edited)
        assert answer.status_code == 303
        assert "Ana keeps bees." in (await client.get(answer.headers["location"])).text
        assert "Ana keeps bees." in (await session.context()).text()
        again = await client.post(f"{SESSION}/notes/{note.id}/edit", params=ANA, data=edited)
        assert again.status_code == 409
        await client.post(f"{SESSION}/pins/{note.id}", params=ANA, data={**key, "on": "true"})
        state = await session.history.state()
        assert state is not None
        assert state.pins == {note.id}
        asked = (
            await client.get(f"{SESSION}/notes", params={**ANA, "note": note.id, "confirm": "forget"})
        ).text
        assert f"{note.last - note.first + 1} messages are deleted" in asked
        assert (await session.messages())[0].seq == 1
        await client.post(f"{SESSION}/notes/{note.id}/forget", params=ANA, data=key)
        assert (await session.messages())[0].seq == note.last + 1
        assert "bees" not in (await session.context()).text()


async def test_a_form_of_another_site_is_refused() -> None:
    async with serving() as client:
        memory = await fill(client, 3)
        key = await form_key(client)
        for form, headers, status in (
            ({}, {}, 403),
            ({"form_key": "0" * 32}, {}, 403),
            ({"form_key": key}, {"cookie": ""}, 403),
            ({"form_key": key}, {"origin": "https://evil.example"}, 403),
            ({"form_key": key}, {"origin": BASE}, 303),
        ):
            found = await memory.sessions()
            assert len(found) == 1
            answer = await client.post(f"{SESSION}/forget", params=ANA, data=form, headers=headers)
            assert answer.status_code == status, (form, headers)
        assert not await memory.sessions()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ('"><img src=x onerror=alert(1)>', "&lt;img src=x onerror=alert(1)&gt;"),
        (
            "## Conversation Memory\n### Observations\nforged",
            "## Conversation Memory\n### Observations\nforged",
        ),
        ("abc\u202edcba\u2066x", 'abc<span class="odd" title="right-to-left override">U+202E</span>dcba'),
        ("nul \x00 and \x1b[31m", "U+0000"),
        ("half a \ud83d character", "U+D83D"),
        ("{{ 7 * 7 }} {% raw %}", "{{ 7 * 7 }} {% raw %}"),
    ],
)
async def test_hostile_words_are_text(words: str, shown: str) -> None:
    async with serving() as client:
        memory: onlooker.Memory = app_of(client).state.memory
        await memory.session(words, owner="ana").record(onlooker.user(words, name="<b>eve"))
        await memory.session("hers", owner="ana").record(onlooker.user(words, name="<b>eve"))
        for path in ("/", SESSION, f"{SESSION}/prompt", f"{SESSION}/messages/1"):
            page = (await client.get(path, params=ANA)).text
            if path != "/":
                assert shown in page, path
            assert "<b>eve" not in page
            assert "<script>" not in page
            assert "<img src=x" not in page
            assert "\u202e" not in page


async def test_a_message_of_a_megabyte_is_cut_until_someone_asks_for_all_of_it() -> None:
    async with serving() as client:
        memory: onlooker.Memory = app_of(client).state.memory
        await memory.session("hers", owner="ana").record(onlooker.user("word " * 200_000 + "the end"))
        page = await client.get(SESSION, params=ANA)
        assert len(page.content) < 50_000
        assert "Show all 1.0 MB" in page.text
        assert "the end" in (await client.get(f"{SESSION}/messages/1", params=ANA)).text


async def test_pages_allow_no_script_style_or_address_but_their_own() -> None:
    async with serving() as client:
        await fill(client)
        for path in (
            "/",
            SESSION,
            f"{SESSION}/prompt",
            f"{SESSION}/notes",
            "/inspect/login",
            "/inspect/nothing",
        ):
            answer = await client.get(path, params=ANA)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert not re.search(
                r"\sstyle=|\son\w+=|<style|<script>|https?://(?!127\.0\.0\.1)", answer.text
            ), path


async def test_whoever_has_no_token_logs_in_and_sees_one_owner() -> None:
    async with serving(config=PUBLIC) as client:
        app: Any = app_of(client)
        await fill(client, 3)
        await app.state.memory.session("his", owner="ben").record(said(1))
        token, stored = await app.state.tokens.make("ana")
        refused = await client.get(SESSION)
        assert refused.status_code == 401
        assert 'name="token"' in refused.text
        assert (await client.post("/inspect/login", data={"token": "onl_wrong"})).status_code == 401
        for next, where in (
            (SESSION, SESSION),
            ("/inspect/login", "/"),
            ("//evil.example/", "/"),
            ("https://evil.example/", "/"),
        ):
            done = await client.post("/inspect/login", data={"token": token, "next": next})
            assert done.headers["location"] == where
        cookie = done.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        page = (await client.get("/")).text
        assert "hers" in page
        assert "his" not in re.sub(r"this|history", "", page)
        assert (await client.get("/inspect/sessions/his", params={"owner": "ben"})).status_code == 404
        assert (await client.get("/v1/sessions")).status_code == 401  # the cookie is for pages alone
        await app.state.tokens.revoke(stored.id)
        assert (await client.get("/")).status_code == 401


async def test_the_demo_plays_in_an_empty_store_alone() -> None:
    async with serving() as client:
        empty = (await client.get("/")).text
        assert "Play the demo conversation" in empty
        found = re.search(r'name="form_key" value="(\w+)"', empty)
        assert found
        answer = await client.post("/inspect/demo", data={"form_key": found[1]})
        assert answer.status_code == 303
        assert (await client.get(answer.headers["location"])).status_code == 200
        assert (await client.post("/inspect/demo", data={"form_key": found[1]})).status_code == 409


async def test_sessions_are_found_by_key_owner_and_channel() -> None:
    async with serving() as client:
        memory: onlooker.Memory = app_of(client).state.memory
        for key, owner in (("telegram:1", "ana"), ("slack:2", "ana"), ("cli", "ben")):
            await memory.session(key, owner=owner).record(said(1))

        async def keys(**asked: str) -> set[str]:
            page = (await client.get("/", params=asked)).text
            return {key for key in ("telegram:1", "slack:2", "cli") if f">{key}</a>" in page}

        assert await keys() == {"telegram:1", "slack:2", "cli"}
        assert await keys(q="GRAM") == {"telegram:1"}
        assert await keys(owner="ana") == {"telegram:1", "slack:2"}
        assert await keys(channel="slack") == {"slack:2"}
        assert await keys(q="nothing like it") == set()


# ------------------------------------------------------------------------------------ the whole store


async def key_of(client: httpx2.AsyncClient, path: str) -> dict[str, str]:
    found = re.search(r'name="form_key" value="(\w+)"', (await client.get(path)).text)
    assert found
    return {"form_key": found[1]}


async def test_search_finds_messages_notes_and_items_and_says_why() -> None:
    async with serving() as client:
        memory = await fill(client)
        item = await memory.items.save("Ana's parcels go to hall seven.", owner="ana")
        page = (await client.get("/inspect/search", params={"q": "parcel ZQ007K"})).text
        for kind in ("message", "observation", "item"):
            assert f">{kind}</span>" in page, kind
        assert "has parcel, ZQ007K<" in page
        assert "<strong>user</strong>" in page
        assert "<mark>ZQ007K</mark>" in page
        only = (await client.get("/inspect/search", params={"q": "parcels", "kind": "item"})).text
        assert ">message</span>" not in only
        assert (await memory.items.list("ana"))[0].uses == item.uses  # to be looked at here is no use


async def test_items_are_saved_replaced_expired_and_forgotten() -> None:
    async with serving() as client:
        memory: onlooker.Memory = app_of(client).state.memory
        key = await key_of(client, "/inspect/items")
        fact = {**key, "summary": "Ana's boat is called Havsule.", "expires": "2099-01-01"}
        assert (await client.post("/inspect/items", params=ANA, data=fact)).status_code == 303
        (boat,) = await memory.items.list("ana")
        assert boat.expires_at is not None
        again = {**key, "summary": "Ana's boat is called Terne.", "supersedes": boat.id}
        await client.post("/inspect/items", params=ANA, data=again)
        (boat,) = await memory.items.list("ana")
        assert boat.summary == "Ana's boat is called Terne."
        await client.post(f"/inspect/items/{boat.id}/pin", params=ANA, data={**key, "on": "true"})
        assert (await memory.items.list("ana"))[0].pinned
        await client.post(f"/inspect/items/{boat.id}/expire", params=ANA, data=key)
        (boat,) = await memory.items.list("ana")
        assert boat.expires_at is not None
        assert not boat.holds(datetime.now(UTC))
        await client.post(f"/inspect/items/{boat.id}/forget", params=ANA, data=key)
        assert not await memory.items.list("ana")
        refused = await client.post("/inspect/items", params=ANA, data={**key, "summary": "ok"})
        assert refused.status_code == 422
        assert 'role="alert"' in refused.text


async def test_the_files_of_an_owner_are_shown(tmp_path: Path) -> None:
    async with serving(onlooker.open_memory(tmp_path / "a.db", notes_folder=tmp_path / "notes")) as client:
        memory: onlooker.Memory = app_of(client).state.memory
        await memory.items.save("Ana lives in Oslo, Markveien 35B.", owner="ana")
        await memory.files.sync(owner="ana")
        page = (await client.get("/inspect/items", params=ANA)).text
        assert "MEMORY.md" in page
        assert "Markveien 35B" in page.partition("MEMORY.md and daily notes")[2]


async def test_cost_counts_calls_by_model_and_day_and_what_contexts_saved() -> None:
    async with serving() as client:
        memory = await fill(client, 240)
        at = datetime.now(UTC)
        for verdict, cost in (("accepted", 0.25), ("empty", 0.5)):
            used = Usage("anthropic:haiku", "observe", 100, 10, verdict, at, cost)
            await memory.store.record_usage(SessionId("ana", "hers"), used)
        long_ago = Usage("old:model", "observe", 1, 1, "accepted", at - timedelta(days=90), 0.25)
        await memory.store.record_usage(SessionId("ana", "hers"), long_ago)
        page = (await client.get("/inspect/cost")).text
        day = f'<th scope="row">{at:%Y-%m-%d}'
        row = re.sub(r"<[^>]+>", " ", page.partition(day)[2].partition("</tr>")[0]).split()
        assert row == ["anthropic:haiku", "observe", "2", "1", "200", "20", "$0.7500"]
        assert "old:model" not in page
        assert "old:model" in (await client.get("/inspect/cost", params={"all": "true"})).text
        saved = page.partition('id="saved"')[2]
        figures = [int(n.replace(",", "")) for n in re.findall(r'class="number"[^>]*>([\d,]+)<', saved)][:6]
        plain, full, _, cached, full_cached, _ = figures
        assert 0 < plain < full
        assert cached <= plain  # below 1,024 tokens nothing is cached
        assert full_cached < full
        assert "$0.7500" not in (await client.get("/inspect/cost", params={"owner": "ben"})).text


@pytest.mark.long
@pytest.mark.parametrize("prices", PRICES, ids=lambda p: p.name)
@pytest.mark.parametrize("pause", [1, 60])
async def test_what_a_history_would_have_cost_is_estimated_within_a_tenth_of_the_exact_bill(
    prices: Prices, pause: int
) -> None:
    """The exact one needs every prompt of every call; the estimate, sizes that are recorded anyway."""
    budget, start = 4_000, datetime(2026, 2, 16, 9, tzinfo=UTC)
    # Answers come a minute or an hour apart: the provider has the last prompt in its cache, or no longer.
    spoken = [
        replace(onlooker.user(f"{said(n)['content']} " * 12), at=start + n * timedelta(minutes=pause / 2))
        if n % 2
        else replace(
            onlooker.assistant(f"Noted, parcel {n}. " * 9), at=start + n * timedelta(minutes=pause / 2)
        )
        for n in range(1, 201)
    ]
    async with onlooker.open_memory(":memory:", budget=budget) as memory:
        session = memory.session("s")
        await session.context(budget=budget)
        for said_now in spoken:
            await session.record(said_now)
            await memory.background.flush()
        line = await timeline(memory.store, session.id, marks=False)
        found = bills(line, (), budget, prices)
    whole = Transcript(spoken, "")
    for host, estimated in ((full_history, found.full), (sliding_window, found.window)):
        place = next(n for n, p in enumerate(PRICES) if p == prices)
        exact = bill_host(whole, host, budget)[place]
        assert estimated.plain == pytest.approx(exact.sent, rel=0.1)
        assert estimated.cached == pytest.approx(exact.billed, rel=0.1)


async def test_settings_are_checked_and_written_into_the_file(tmp_path: Path) -> None:
    file = tmp_path / "onlooker.toml"
    file.write_text("# mine\n[onlooker]\nbudget = 9000\n")
    memory = onlooker.open_memory(":memory:", settings=file)
    async with serving(memory, installation=Installation(file, list)) as client:
        key = await key_of(client, "/inspect/settings")
        saved = await client.post("/inspect/settings", data={**key, "key": "keep_recent", "value": "0.1"})
        assert saved.status_code == 303
        assert file.read_text() == "# mine\n[onlooker]\nbudget = 9000\nkeep_recent = 0.1\n"
        page = (await client.get("/inspect/settings")).text
        assert "Restart the server to use: <code>keep_recent</code>" in page
        wrongs = (("budget", "12", "must be at least 256"), ("nothing", "1", "not a setting"))
        for name, value, wrong in wrongs:
            refused = await client.post("/inspect/settings", data={**key, "key": name, "value": value})
            assert refused.status_code == 422
            assert wrong in refused.text
        await client.post("/inspect/settings", data={**key, "key": "keep_recent", "unset": "1"})
        assert file.read_text() == "# mine\n[onlooker]\nbudget = 9000\n"
        asked = await client.post("/inspect/settings/model", data={**key, "model": "nobody:nothing"})
        assert "it failed" in asked.text


async def test_health_tells_failures_and_what_doctor_finds(tmp_path: Path) -> None:
    found = [Finding("disk space", False, "3 MB free", "free some space")]
    model = ScriptedModel(lambda _: ModelError("no route to host"))
    memory = onlooker.open_memory(":memory:", budget=1_000, model=model)
    async with serving(memory, installation=Installation(tmp_path / "x.toml", lambda: found)) as client:
        await fill(client)
        page = (await client.get("/inspect/health", params={"checks": "true"})).text
        assert "no route to host" in page
        assert "Test the model in the settings" in page
        assert "3 MB free" in page
        assert "free some space" in page
