"""No text stops the process: what reads text takes a time in proportion to its size, whatever it says."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest

import onlooker
from onlooker import assistant, tool, user
from onlooker.domain.errors import OnlookerError
from onlooker.domain.messages import ToolCall
from tests.attacks.reading import SHAPES, Reader, readers, shaped
from tests.growth import cpu_seconds

READERS = {reader.name: reader for reader in readers()}
# Ten times the text may take this much longer: linear work takes 10 times as long, quadratic 100 times.
GROWTH = 31
# Less time than this says nothing.
FLOOR = 0.005
# What is not given a text of the form that it takes says so, with one of these.
REFUSALS = (OnlookerError, ValueError, KeyError, TypeError, IndexError, AttributeError)


def _seconds(reader: Reader, text: str) -> float:
    def work() -> None:
        with suppress(*REFUSALS):
            reader.read(text)

    return cpu_seconds(work)


def _grows_too_fast(measure: Callable[[int], float], sizes: tuple[int, ...]) -> str:
    """Compare each size with the one before; a size that took too long is tried again, against noise."""
    before = max(measure(sizes[0]), measure(sizes[0]))
    for size in sizes[1:]:
        most = GROWTH * max(before, FLOOR)
        took = measure(size)
        if took > most and min(measure(size) for _ in range(3)) > most:
            return f"{size} characters take {took:.2f} s, {sizes[0]} took {before:.3f} s"
        before = took
    return ""


def _check(name: str, sizes: tuple[int, ...], shapes: Iterable[str] = SHAPES) -> None:
    reader = READERS[name]
    found = {
        shape: _grows_too_fast(lambda size, shape=shape: _seconds(reader, shaped(shape, size)), sizes)
        for shape in shapes
    }
    assert not {shape: what for shape, what in found.items() if what}


@pytest.mark.parametrize("name", READERS)
def test_ten_times_the_text_takes_ten_times_as_long(name: str) -> None:
    _check(name, (500, 5_000))


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_a_hundred_kilobytes_take_ten_times_as_long_as_ten(name: str) -> None:
    _check(name, (10_000, 100_000))


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_a_thousand_kilobytes_take_ten_times_as_long_as_a_hundred(name: str) -> None:
    """Of the shape that a reader takes longest for: all of them would take an hour."""
    slowest = max(SHAPES, key=lambda shape: _seconds(READERS[name], shaped(shape, 10_000)))
    _check(name, (100_000, 1_000_000), (slowest,))


async def _on_the_loop(text: str) -> float:
    """The CPU that the event loop's own thread takes for a context with such a result."""
    async with onlooker.open_memory(":memory:", budget=4_000) as memory:
        session = memory.session("k", owner="ana")
        await session.record(user("Read the page."), assistant("", calls=[ToolCall("c", "fetch", "{}")]))
        await session.record(tool(text, answers="c"), assistant("I did."), user("And now?"))
        await memory.index.catch_up()
        began = time.thread_time()
        await session.context(system="S", question="What does the page say?")
        return time.thread_time() - began


@pytest.mark.long
@pytest.mark.anyio
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_longer_text_costs_a_turn_no_more(shape: str) -> None:
    """What is too long to be read is cut before it is read."""
    before = max(0.03, *[await _on_the_loop(shaped(shape, 150_000)) for _ in range(2)])
    assert min([await _on_the_loop(shaped(shape, 1_500_000)) for _ in range(2)]) < 4 * before


def test_the_walk_finds_what_reads_text() -> None:
    assert len(SHAPES) == 20
    assert {
        "policy.values.find_values", "policy.secrets.mask", "policy.search.rank.snippet",
        "files.markdown.read_page",
        "policy.text.sentences", "policy.items.extract.user_statements", "models.extractive.compose.compose",
        "policy.reply.note_text.read", "policy.dates.annotate", "policy.intake.intake",
    } <= READERS.keys()  # fmt: skip


def test_a_function_that_cannot_be_called_would_be_seen() -> None:
    """Most readers take an ordinary text; those that refuse it, refuse it for its form."""
    refused: list[str] = []
    for name, reader in READERS.items():
        try:
            reader.read(json.dumps({"text": "My cat is called Miso; see /srv/app/x.py."}))
        except REFUSALS:
            refused.append(name)
    assert len(refused) < 0.1 * len(READERS), refused
