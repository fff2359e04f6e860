"""The inspector in a real browser: clicked, typed into, dragged, and the same when it is reloaded."""

from __future__ import annotations

import re

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.inspector.conftest import PATIENCE
from tests.server.process import Server

pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)

DEMO = "/inspect/sessions/demo?owner=ana"
PROMPT = "/inspect/sessions/demo/prompt?owner=ana"
NOTES = "/inspect/sessions/demo/notes?owner=ana"


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
    """Choose the first note of the list; returns its text."""
    page.locator("#tree .leaf").first.click()
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
    page.locator(".message .badge.reflection").first.click()
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


def test_notes_are_read_edited_and_pinned(page: Page, server: Server) -> None:
    page.goto(server.url + NOTES)
    first_note(page)
    expect(page.locator("#aside mark").first).to_be_visible()
    page.locator("#aside .line[data-line]").nth(2).hover()
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


def test_a_slider_goes_through_time(page: Page, server: Server) -> None:
    page.goto(server.url + NOTES)
    drag(page, "then", 0.2)
    heading = page.locator("#tree h2")
    expect(heading).to_contain_text("was the newest")
    then = heading.inner_text()
    number = re.search(r"message (\d+)", then)
    assert number
    assert int(number[1]) < 200
    page.reload()
    expect(heading).to_have_text(then)
