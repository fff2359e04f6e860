"""The inspector in a real browser: clicked, typed into, dragged, and the same when it is reloaded."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from onlooker.policy.settings import KEYS
from onlooker.testing.provider import Answer, LocalProvider
from tests.inspector.conftest import PATIENCE
from tests.server.process import Server, started

pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)

DEMO = "/inspect/sessions/demo?owner=ana"
PROMPT = "/inspect/sessions/demo/prompt?owner=ana"
NOTES = "/inspect/sessions/demo/notes?owner=ana"
PAGES = {
    "sessions": "/",
    "session": DEMO,
    "prompt": f"{PROMPT}&words=Which+fuse+tripped%3F",
    "notes": NOTES,
    "items": "/inspect/items?owner=ana",
    "search": "/inspect/search?q=keys+Oslo&owner=ana",
    "cost": "/inspect/cost",
    "settings": "/inspect/settings",
    "health": "/inspect/health?checks=true",
    "login": "/inspect/login",
}


def drag(page: Page, name: str, share: float) -> None:
    """Drag a slider to a share of its length."""
    box = page.locator(f'input[type="range"][name="{name}"]').bounding_box()
    assert box
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * share, y, steps=5)
    page.mouse.up()


def first_note(page: Page) -> str:
    """Choose the first note of the list that the prompt shows; returns its text."""
    leaf = page.locator("#tree .leaf").filter(has_not_text="written ahead").first
    covered = re.search(r"\d+–\d+", leaf.inner_text())
    assert covered
    leaf.click()
    expect(page.locator("#aside h2").first).to_contain_text(covered[0])
    lines = page.locator("#aside .note-text .line")
    expect(lines.first).to_be_visible()
    return lines.first.inner_text()


def test_sessions_are_searched_and_filtered(page: Page, server: Server) -> None:
    page.goto(server.url)
    rows = page.locator("#sessions tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_label("Search").fill("demo")
    expect(rows).to_have_count(1)
    page.reload()
    expect(rows).to_have_count(1)
    expect(rows.locator("td.number").first).to_have_text("493")
    page.get_by_label("Search").fill("")
    page.get_by_label("Owner").select_option("eve")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("eve")


def test_a_session_has_a_chart_and_lights_up_the_messages_of_a_note(page: Page, server: Server) -> None:
    page.goto(server.url + DEMO)
    chart = page.locator("#chart")
    expect(chart).to_have_attribute("data-drawn", re.compile(r"^[1-9]"))
    chart.hover(position={"x": 400, "y": 80})
    expect(page.locator("#chart-about")).to_contain_text(
        re.compile(r"message \d+.*raw [\d,]+, context [\d,]+")
    )
    page.locator(".message .badge.observation").first.click()
    expect(page.locator("#aside .note-text .line").first).to_be_visible()
    lit = page.locator(".message.lit")
    assert lit.count() > 1
    chart.click(position={"x": 300, "y": 80})
    page.wait_for_url(re.compile(r"seq=\d+"))
    chosen = re.search(r"seq=(\d+)", page.url)
    assert chosen
    message = page.locator(f"#m{chosen[1]}")
    expect(message).to_be_in_viewport()
    expect(message).to_have_class(re.compile("lit"))
    expect(page.locator("#aside .badge")).to_contain_text(re.compile("observation|reflection"))
    page.reload()
    expect(message).to_have_class(re.compile("lit"))


def test_a_session_follows_the_conversation(page: Page, server: Server) -> None:
    page.goto(server.url + DEMO)
    expect(page.locator("#chart")).to_have_attribute("data-drawn", re.compile(r"^[1-9]"))
    said = {"role": "user", "content": "The plumber comes on Thursday at 09:15.", "id": "live-1"}
    httpx2.post(f"{server.url}/v1/sessions/demo/messages", params={"owner": "ana"}, json=said, timeout=60)
    newest = page.locator(".message").last
    expect(newest).to_contain_text("The plumber comes on Thursday")
    expect(newest.locator(".badge.place")).to_have_text("raw")
    expect(newest).to_be_in_viewport()


def test_what_someone_reads_stands_still_while_the_agent_talks(page: Page, server: Server) -> None:
    page.goto(server.url + DEMO)
    talk = page.locator("#conversation")
    expect(page.locator(".message").last).to_be_in_viewport()
    talk.evaluate("e => e.scrollTo({top: 0})")
    first = page.locator(".message").first
    reading, count = first.get_attribute("id"), page.locator("#figures dd").first
    for n in range(3):
        before = count.inner_text()
        said = {"role": "user", "content": f"Shelf {n} is full.", "id": f"still-{n}"}
        httpx2.post(f"{server.url}/v1/sessions/demo/messages", params={"owner": "ana"}, json=said, timeout=60)
        expect(count).not_to_have_text(before)  # the page has heard of it
    expect(first).to_have_attribute("id", str(reading))
    expect(talk).not_to_contain_text("Shelf 2 is full.")
    talk.evaluate("e => e.scrollTo({top: e.scrollHeight})")
    expect(page.locator(".message").last).to_contain_text("Shelf 2 is full.")
    expect(page.locator(".message").last).to_be_in_viewport()


def test_notes_are_read_edited_and_pinned(page: Page, server: Server) -> None:
    page.goto(server.url + NOTES)
    first_note(page)
    expect(page.locator("#aside mark").first).to_be_visible()
    page.locator("#aside .line[data-line]").first.hover()
    page.get_by_text("Edit", exact=True).click()
    page.get_by_label("Text of the note").fill("## 2026-02-17\nAna keeps bees on the roof.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#aside .line").first).to_have_text("Ana keeps bees on the roof.")
    page.reload()
    expect(page.locator("#aside .line").first).to_have_text("Ana keeps bees on the roof.")
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.locator("#tree .badge.item").first).to_have_text("pinned")
    expect(page.get_by_text("What it kept, dropped and added")).to_be_visible()
    page.goto(server.url + PROMPT)
    expect(page.locator(".seen")).to_contain_text("Ana keeps bees on the roof.")


def reflection(page: Page) -> None:
    """Choose the newest reflection of the list."""
    leaf = page.locator("#tree .leaf.reflection").first
    leaf.click()
    expect(page.locator("#aside h2 .badge.reflection")).to_be_visible()
    expect(leaf).to_have_attribute("aria-current", "true")


def test_a_line_of_a_note_lights_up_the_words_that_it_came_from(page: Page, server: Server) -> None:
    page.goto(server.url + NOTES)
    page.locator("#tree .leaf.observation").nth(1).click()
    expect(page.locator("#aside mark[data-line]").first).to_be_visible()
    number = page.locator("#aside mark[data-line]").first.get_attribute("data-line")
    line = page.locator(f'#aside .line[data-line="{number}"]')
    words = re.findall(r"\w+", line.inner_text().lower())
    lit = page.locator("mark.lit")
    expect(lit).to_have_count(0)
    for begin, end in ((line.hover, lambda: page.mouse.move(1, 1)), (line.focus, line.blur)):
        begin()
        expect(lit.first).to_be_visible()
        for quoted in lit.all_inner_texts():
            assert set(re.findall(r"\w+", quoted.lower())) <= set(words)
        end()
        expect(lit).to_have_count(0)


def test_two_generations_are_compared(page: Page, server: Server) -> None:
    page.goto(server.url + NOTES)
    reflection(page)
    expect(page.locator("#aside h2")).to_contain_text(re.compile(r"generation \d"))
    # The tree opens generation by generation.
    branches = page.locator("#tree .branch")
    branches.first.locator("> summary").click()
    leaves = branches.first.locator("> .under > .leaf")
    expect(leaves.first).to_be_visible()
    assert leaves.count() > 1
    inner = branches.first.locator(".branch").first
    inner.locator("> summary").click()
    expect(inner.locator("> .under > .leaf").first).to_be_visible()
    page.locator("#aside .under .leaf").first.click()
    expect(page.get_by_text("Condensed into")).to_be_visible()
    page.get_by_text("Condensed into").get_by_role("link").click()
    page.get_by_text("What it kept, dropped and added").click()
    assert page.locator(".diff .kept").count() > 0
    page.get_by_label("Compare with").select_option(index=0)
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".diff .dropped").first).to_be_visible()
    page.reload()
    expect(page.locator(".diff .dropped").first).to_be_visible()


def test_undo_says_first_which_notes_come_back(page: Page, filled: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(filled, tmp_path / "undo.db"))
    # At another budget there is room for what the reflection stands for.
    (tmp_path / "onlooker.toml").write_text("[onlooker]\nbudget = 16000\n")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sessions SET budget = 16000")
    with started(path) as server:
        page.goto(server.url + NOTES)
        before = page.locator("#tree .leaf").count()
        reflection(page)
        page.get_by_role("link", name="Undo …").click()
        preview = page.get_by_role("alert")
        expect(preview).to_contain_text("tokens replace it in the prompt")
        found = re.search(r"(\d+) notes of [\d,]+ tokens", preview.inner_text())
        assert found
        page.get_by_role("link", name="Keep it").click()
        expect(page.get_by_role("alert")).to_have_count(0)
        assert page.locator("#tree .leaf").count() == before
        page.get_by_role("link", name="Undo …").click()
        page.get_by_role("button", name="Undo it").click()
        expect(page.locator(".done")).to_contain_text(f"{found[1]} notes replace it")
        expect(page.locator("#tree .leaf")).to_have_count(before - 1 + int(found[1]))
        page.reload()
        expect(page.locator("#tree .leaf")).to_have_count(before - 1 + int(found[1]))


def test_forget_says_first_what_else_goes(page: Page, filled: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(filled, tmp_path / "forget.db"))
    with started(path) as server:
        page.goto(server.url + NOTES)
        gone = first_note(page)
        page.get_by_role("link", name="Forget …").click()
        preview = page.get_by_role("alert")
        found = re.search(r"(\d+) messages are deleted, with (\d+) notes", preview.inner_text())
        assert found
        assert int(found[1]) > 1
        assert int(found[2]) == 1
        page.get_by_role("link", name="Keep them").click()
        assert first_note(page) == gone
        messages = int(page.locator("#figures dd").first.inner_text())
        page.get_by_role("link", name="Forget …").click()
        page.get_by_role("button", name="Forget them").click()
        expect(page.locator(".done")).to_contain_text(f"{found[1]} messages")
        expect(page.locator("#figures dd").first).to_have_text(str(messages - int(found[1])))
        page.reload()
        assert first_note(page) != gone
        # And the whole session.
        page.goto(server.url + DEMO)
        page.get_by_text("Forget this session").click()
        page.get_by_role("button", name="Forget it all").click()
        expect(page.locator(".done")).to_contain_text("The session is forgotten")
        expect(page.locator("#sessions tbody tr")).to_have_count(1)


def test_a_slider_goes_through_time(page: Page, server: Server) -> None:
    page.goto(server.url + NOTES)
    drag(page, "then", 0.2)
    heading = page.locator("#tree h2")
    # On its way the slider shows other points in time.
    then = page.locator("[name=then]").input_value()
    assert int(then) < 200
    expect(heading).to_contain_text(f"message {then} was the newest")
    page.reload()
    expect(heading).to_contain_text(f"message {then} was the newest")


def test_the_prompt_follows_words_budget_and_preset(page: Page, server: Server) -> None:
    page.goto(server.url + PROMPT)
    total = page.locator(".prompt-head h2").first
    before = total.inner_text()
    page.get_by_label("The user's next message").fill("What is the apartment number of the new flat in Oslo?")
    expect(page.locator(".part.recall")).to_contain_text("H0402")
    drag(page, "budget", 0.15)
    budget = int(page.locator("[name=budget]").input_value())
    expect(total).to_contain_text(f"of {budget:,} tokens")  # on its way the slider shows other budgets
    assert total.inner_text() != before
    smaller = total.inner_text()
    page.get_by_label("Compare with").select_option("lango")
    expect(page.locator(".prompt")).to_have_count(2)
    page.reload()
    expect(page.locator(".prompt")).to_have_count(2)
    expect(total).to_have_text(smaller)
    expect(page.get_by_label("The user's next message")).to_have_value(re.compile("apartment number"))
    rows = [column.locator("tbody th").all_inner_texts() for column in page.locator(".prompt").all()]
    assert rows[0] == rows[1]
    texts: list[str] = []
    for column in page.locator(".prompt").all():
        status = column.get_by_role("status")
        for name, top in (("OpenAI", {"messages"}), ("Anthropic", {"messages", "system"})):
            status.evaluate("e => e.textContent = ''")
            column.get_by_role("button", name=name).click()
            expect(status).to_contain_text("Copied")
            copied: Any = json.loads(page.evaluate("navigator.clipboard.readText()"))
            assert set(copied) == top
            texts.append(json.dumps(copied))
    assert "H0402" in texts[0]
    assert texts[0] != texts[2]  # each column copies what it shows


def test_search_says_why_it_found_something(page: Page, server: Server) -> None:
    page.goto(server.url + "/inspect/search")
    page.get_by_label("Words").fill("apartment H0402")
    hits = page.locator("#hits .message")
    expect(hits.first).to_contain_text("has apartment, H0402")
    expect(hits.locator(".badge.reflection").first).to_have_text("reflection")
    message = hits.filter(has=page.locator(".badge.raw")).first
    expect(message.locator("strong")).to_have_text(re.compile("Ana|assistant|tool"))
    expect(hits.locator("mark").first).to_be_visible()
    count = hits.count()
    page.reload()
    expect(hits).to_have_count(count)
    page.get_by_label("Kind").select_option("message")
    expect(hits.locator(".badge.observation")).to_have_count(0)
    hits.first.locator("a").first.click()
    page.wait_for_url(re.compile(r"#m\d+$"))
    expect(page.locator(page.evaluate("location.hash"))).to_be_in_viewport()


def test_hostile_words_are_shown_and_do_nothing(page: Page, server: Server) -> None:
    page.goto(server.url)
    page.get_by_label("Owner").select_option("eve")
    rows = page.locator("#sessions tbody tr")
    expect(rows).to_have_count(1)
    rows.locator("th a").click()
    expect(page.locator(".message").first).to_contain_text("<script>document.title = 'taken'</script>")
    expect(page.locator(".message .odd").first).to_have_text("U+202E")
    page.get_by_text("Show all 1.0 MB").click()
    expect(page.locator(".message").last).to_contain_text("the very end")
    assert page.locator(".message b").count() == 0
    assert "taken" not in page.title()


def test_whoever_has_no_token_logs_in(page: Page, filled: Path) -> None:
    make = [sys.executable, "-m", "onlooker", "token", "make", "--owner", "eve", "--db", str(filled)]
    token = subprocess.run(make, capture_output=True, text=True, check=True).stdout.strip()
    with started(filled, "--host", "0.0.0.0") as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        page.goto(f"{url}/inspect/login")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        rows = page.locator("#sessions tbody tr")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("eve")
        page.reload()
        expect(rows).to_have_count(1)
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token")).to_be_visible()


def test_items_are_saved_changed_expired_and_forgotten(page: Page, server: Server) -> None:
    page.goto(server.url + "/inspect/items?owner=ana")
    rows = page.locator("#items tbody tr")
    page.get_by_text("Save a fact").click()
    page.get_by_label("Fact, one sentence").fill("Ana's boat is called Havsule and lies in Bergen.")
    page.locator("details.card button.primary").click()
    boat = rows.filter(has_text="Havsule")
    expect(boat).to_have_count(1)
    boat.get_by_text("Change").click()
    boat.get_by_label("Fact").fill("Ana's boat is called Havsule and lies in Oslo.")
    boat.get_by_role("button", name="Save").click()
    expect(boat).to_contain_text("lies in Oslo")
    page.reload()
    expect(boat).to_contain_text("lies in Oslo")
    boat.get_by_text("Change").click()
    boat.get_by_role("button", name="Expire now").click()
    expect(boat).to_contain_text("expired")
    page.get_by_label("Status").select_option("ended")
    expect(boat).to_have_count(2)
    page.get_by_label("Status").select_option("live")
    friday = rows.filter(has_text="Fridays")
    friday.get_by_text("Change").click()
    friday.get_by_role("button", name="Forget").click()
    expect(page.locator(".done")).to_contain_text("removed from every prompt")
    expect(friday).to_have_count(0)


def test_items_stand_above_the_files_that_people_edit(page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    (tmp_path / "onlooker.toml").write_text(f'[onlooker]\nnotes_folder = "{folder}"\n')
    with started(tmp_path / "files.db") as server:
        fact = {"summary": "Ana's boat is called Havsule and lies in Bergen.", "type": "knowledge"}
        httpx2.post(
            f"{server.url}/v1/items", params={"owner": "ana"}, json=fact, timeout=60
        ).raise_for_status()
        said = {"role": "user", "content": "I moved to Oslo last week.", "id": "m1"}
        where = f"{server.url}/v1/sessions/s/messages"
        httpx2.post(where, params={"owner": "ana"}, json=said, timeout=60).raise_for_status()
        page.goto(server.url + "/inspect/items?owner=ana")
        page.wait_for_function(
            "() => fetch(location.href).then(a => a.text()).then(t => t.includes('>MEMORY.md<'))"
        )
        page.reload()
        expect(page.locator(".files details").first).to_contain_text("Havsule")
        (file,) = folder.rglob("MEMORY.md")
        file.write_text(file.read_text() + "- Ana has a cat called Tussi.\n")
        page.reload()
        expect(page.locator(".files details").first).to_contain_text("Tussi")


def test_cost_compares_with_the_full_history_and_a_window(page: Page, server: Server) -> None:
    page.goto(server.url + "/inspect/cost")
    row = page.locator("#saved tbody tr", has_text="demo")

    def figures() -> list[int]:
        return [int(cell.replace(",", "")) for cell in row.locator("td.number").all_inner_texts()]

    plain, full, window, cached, full_cached, window_cached, notes = figures()
    assert 0 < plain < window < full
    assert cached < window_cached
    assert cached < full_cached < full
    assert notes == 0  # the built-in model wrote them
    against = page.locator(".figures.big dd").first
    saved = against.inner_text()
    assert saved.startswith("saves $")
    page.get_by_label("Its price").fill("6")
    expect(against).not_to_have_text(saved)
    page.get_by_label("The agent's provider").select_option("OpenAI")
    expect(page.locator("#cost")).to_contain_text("with OpenAI's cache, a token read from it counts as 0.1")
    page.reload()
    expect(page.get_by_label("The agent's provider")).to_have_value("OpenAI")
    assert figures()[:3] == [plain, full, window]
    assert figures()[4] < full_cached  # what is taken into its cache costs nothing more


def test_settings_are_checked_saved_and_still_there(page: Page, server: Server) -> None:
    page.goto(server.url + "/inspect/settings")
    field = page.get_by_label("budget", exact=True)
    row = page.locator("tr#budget")
    field.fill("12")
    row.get_by_role("button", name="Save").click()
    expect(page.locator(".warn").first).to_contain_text("must be at least 256")
    field.fill("12000")
    row.get_by_role("button", name="Save").click()
    expect(page.locator(".done")).to_contain_text("budget is saved")
    page.reload()
    expect(field).to_have_value("12000")
    expect(row).to_contain_text("file")
    row.get_by_role("button", name="Unset").click()
    expect(field).to_have_value("16000")
    page.get_by_role("button", name="Ask it for a note").click()
    expect(page.get_by_text("It needs no network")).to_be_visible()


def test_every_setting_has_a_meaning_and_a_source(page: Page, server: Server) -> None:
    page.goto(server.url + "/inspect/settings")
    rows = page.locator("tbody tr")
    assert [row.get_attribute("id") for row in rows.all()] == list(KEYS)
    for cells in (rows.nth(n).locator("td") for n in range(len(KEYS))):
        about, _, source = cells.all_inner_texts()
        assert len(about) > 20
        assert source.split()[0] in ("default", "file", "environment", "preset")


def test_a_model_is_asked_over_the_wire_whether_it_answers(page: Page, server: Server) -> None:
    note = "## 2026-02-16\nuser: moved to Oslo; order 88-1431 has arrived"
    refused = Answer("no such key", status=401)
    with LocalProvider(Answer(note), Answer(note), refused) as provider:
        page.goto(server.url + "/inspect/settings")

        def ask(model: str) -> None:
            page.get_by_label("Model", exact=True).fill(model)
            page.get_by_role("button", name="Ask it for a note").click()

        for name in (f"openai:test@{provider.url}/v1", f"anthropic:test@{provider.url}"):
            ask(name)
            expect(page.get_by_text("it answered")).to_be_visible()
            expect(page.get_by_text("order 88-1431 has arrived")).to_be_visible()
        assert {r.protocol for r in provider.received} == {"chat", "anthropic"}
        assert all("88-1431" in r.user for r in provider.received)
        ask(f"anthropic:test@{provider.url}")
        expect(page.get_by_text("it failed")).to_be_visible()
        expect(page.get_by_text("401")).to_be_visible()
    ask(f"anthropic:test@{provider.url}")
    expect(page.get_by_text("it failed")).to_be_visible()


def test_health_tells_what_failed_and_what_to_do(page: Page, tmp_path: Path) -> None:
    with LocalProvider(lambda _: Answer("no such model", status=404)) as provider:
        model = f"anthropic:test@{provider.url}"
        with started(tmp_path / "failing.db", "--model", model) as server:
            said = [
                {"role": role, "content": f"{word} " * 120, "id": f"{role}-{n}"}
                for n, word in enumerate(("boxes", "keys", "movers", "trains", "signs", "lamps"))
                for role in ("user", "assistant")
            ]
            where = f"{server.url}/v1/sessions/failing"
            httpx2.get(f"{where}/context", params={"budget": 1_000}, timeout=60)
            httpx2.post(f"{where}/messages", json={"messages": said}, timeout=60).raise_for_status()
            page.goto(f"{server.url}/inspect/health")
            failures = page.get_by_label("Failures").locator("tbody tr")
            expect(page.locator("#now")).to_contain_text("failing sessions")
            page.wait_for_function(
                "() => fetch('/inspect/health').then(a => a.text()).then(t => t.includes('label=\"Failures'))"
            )
            page.reload()
            expect(failures.first).to_contain_text("404")
            expect(failures.first).to_contain_text("nothing is lost")
            expect(page.get_by_label("Backlog").locator("tbody tr")).to_have_count(1)
            page.goto(server.url)
            expect(page.locator("#sessions tbody tr")).to_contain_text("the model failed")


def test_health_says_what_doctor_says(page: Page, server: Server) -> None:
    page.goto(server.url + "/inspect/health")
    checks = page.locator("#doctor tbody tr")
    expect(checks.filter(has_text="integrity")).to_contain_text("ok")
    expect(checks.filter(has_text="disk space")).to_have_count(1)


def test_an_empty_store_explains_itself_and_plays_the_demo(page: Page, tmp_path: Path) -> None:
    with started(tmp_path / "empty.db") as server:
        page.goto(server.url)
        page.get_by_role("button", name="Play the demo conversation").click()
        page.wait_for_url(re.compile("/inspect/sessions/demo"))
        messages = page.locator("#figures dd").first
        expect(messages).to_have_text(re.compile(r"^[1-9]\d\d$"))
        expect(page.locator(".message .badge.observation").first).to_be_visible()
        page.get_by_role("link", name="Notes", exact=True).click()
        expect(page.locator("#tree .leaf").first).to_be_visible()


def test_everything_can_be_reached_by_keyboard(page: Page, server: Server) -> None:
    page.goto(server.url)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.get_by_label("Search").blur()
    page.keyboard.press("j")
    expect(page.locator("[data-item]").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/inspect/sessions/"))
    page.keyboard.press("j")
    expect(page.locator(".message [data-item]").first).to_be_focused()


def focused(page: Page) -> str:
    """What has the focus, in a few words; empty where a person could not see it."""
    return page.evaluate(
        """() => {
          const e = document.activeElement;
          const style = getComputedStyle(e);
          const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
          const box = e.getBoundingClientRect();
          return seen && box.width && box.height ? (e.name || e.id || e.textContent.trim().slice(0, 40)) : "";
        }"""
    )


def test_a_keyboard_alone_reads_and_changes_notes(page: Page, server: Server) -> None:
    page.goto(server.url + NOTES)
    order: list[str] = []
    for _ in range(14):
        page.keyboard.press("Tab")
        order.append(focused(page))
    assert all(order), order  # whatever has the focus can be seen to have it
    expected = [
        "Skip to the content",
        "Onlooker",
        "Sessions",
        "Search",
        "Items",
        "Cost",
        "Settings",
        "Health",
    ]
    assert order[:13] == [*expected, "theme", "Conversation", "What the model will see", "Notes", "then"]
    heading = page.locator("#tree h2")
    last = int(page.locator("[name=then]").get_attribute("max") or 0)
    page.locator("[name=then]").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(heading).to_contain_text(f"message {last - 3} was the newest")
    page.keyboard.press("End")
    page.goto(server.url + NOTES)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    second = page.locator("#tree .leaf").nth(1)
    expect(second).to_have_attribute("aria-current", "true")
    page.wait_for_url(re.compile("note="))  # it is marked before it is there
    page.reload()
    expect(second).to_have_attribute("aria-current", "true")
    pin = page.get_by_role("button", name=re.compile("^(Pin|Unpin)$"))
    said = pin.inner_text()
    pin.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".done")).to_contain_text("pinned")
    expect(pin).not_to_have_text(said)
    page.locator("summary", has_text="Edit").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Text of the note")).to_be_focused()
    page.keyboard.press("Control+End")
    page.keyboard.type("\nAna types without a mouse.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#aside .note-text")).to_contain_text("Ana types without a mouse.")


def test_a_script_in_a_page_does_not_run(context: BrowserContext, server: Server) -> None:
    """Though nothing lets one in: the page's policy is the second wall."""
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(server.url + DEMO)
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "document.title = 'taken'";
          document.body.append(script);
          const image = document.createElement("div");
          image.innerHTML = `<img src=x onerror="document.title = 'taken'">`;
          document.body.append(image);
        }"""
    )
    page.wait_for_timeout(200)
    assert page.title() == "demo · Onlooker"
    assert any("Content Security Policy" in text for text in said)
    assert page.locator("script:not([src])").count() == 1  # the one above


def test_a_form_on_another_site_changes_nothing(context: BrowserContext, server: Server) -> None:
    page = context.new_page()
    page.goto(server.url + DEMO)  # the browser has the cookie now
    forged = f"""<form method="post" action="{server.url}/inspect/sessions/demo/forget?owner=ana">
        <input name="form_key" value="guessed"><button>A nice button</button></form>"""
    page.route(
        "http://elsewhere.example/", lambda route: route.fulfill(body=forged, content_type="text/html")
    )
    page.goto("http://elsewhere.example/")
    with page.expect_response(lambda answer: "/forget" in answer.url) as refused:
        page.get_by_role("button", name="A nice button").click()
    assert refused.value.status == 403
    page.goto(server.url + DEMO)
    expect(page.locator(".message").first).to_be_visible()


AXE = (Path(__file__).parent / "axe" / "axe.js").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_has_a_serious_finding_of_axe(
    browser: Browser, server: Server, width: int, scheme: Any
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    found: list[str] = []
    for name, path in PAGES.items():
        page.goto(server.url + path)
        if name == "notes":
            first_note(page)
        page.evaluate(AXE)
        result: Any = page.evaluate("axe.run({resultTypes: ['violations']})")
        found += [
            f"{name}: {v['id']}: {v['nodes'][0]['html'][:150]}: {v['nodes'][0]['failureSummary'][:200]}"
            for v in result["violations"]
            if v["impact"] in ("serious", "critical")
        ]
    context.close()
    assert not found, "\n".join(found)


# Where someone who changes the pages looks at them.
SHOTS = Path(__file__).parents[2] / "build" / "inspector"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1600])
def test_pages_fit_phones_and_wide_screens(browser: Browser, server: Server, width: int, scheme: Any) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    for name, path in PAGES.items():
        page.goto(server.url + path)
        if name == "notes":
            first_note(page)
        if name == "session":
            expect(page.locator("#chart")).to_have_attribute("data-drawn", re.compile(r"^[1-9]"))
        page.screenshot(path=SHOTS / f"{name}-{width}-{scheme}.png")
        wide: Any = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, (name, wide)
    context.close()
