"""What every test shares: the event loop, how hard hypothesis looks, and with what luck."""

from __future__ import annotations

import gc
import multiprocessing
import os
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, settings

# The tests start many processes. Without bytecode each compiles all that it imports, for half of its time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What a script starts in the background ignores SIGINT, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What the processes of `multiprocessing` share is imported once, by the one that they are forked from.
multiprocessing.set_forkserver_preload(
    ["pytest", "onlooker.cli", "onlooker.wiring", "onlooker.stores.postgres"]
)

# A commit waits for the disk, which proves nothing here: temporary files are in memory where it has room.
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None

# Agent frameworks are in an environment of their own: `make test-frameworks`.
collect_ignore = [] if "ONLOOKER_FRAMEWORKS" in os.environ else ["integrations"]

# In CI the same examples each time, so that a change is judged by what it changed.
SAME = "CI" in os.environ
settings.register_profile("default", max_examples=30, deadline=None, derandomize=SAME)
settings.register_profile("many", max_examples=100, deadline=None, derandomize=SAME)
# Many examples, and the first that fails is enough.
settings.register_profile(
    "mutation", max_examples=1_600, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("ONLOOKER_HYPOTHESIS", "default"))

# Of the store contract, what is run on each database that is a variant of another: what goes through the
# file or the schema itself, and one test of each group.
SMOKE = frozenset(
    {
        "test_opening_and_closing_twice_is_harmless",
        "test_a_closed_store_can_be_opened_again",
        "test_everything_about_a_message_comes_back_but_the_hosts_own_form",
        "test_strange_ids_keys_and_owners_are_told_apart",
        "test_messages_of_concurrent_calls_are_all_there_and_each_call_in_one_piece",
        "test_a_summary_takes_the_place_of_what_it_stands_for",
        "test_a_message_goes_through_the_archive_and_then_for_good",
        "test_it_all_survives_a_restart",
        "test_a_note_comes_back_whole_and_moves_the_marks",
        "test_values_are_kept_with_their_note_in_the_order_of_notes",
        "test_every_change_of_notes_is_a_line_of_history",
        "test_a_forgotten_message_is_nowhere_any_more",
        "test_a_forgotten_owner_leaves_nothing_and_others_keep_everything",
        "test_erasing_changes_nothing_that_is_kept",
        "test_an_item_comes_back_whole_after_a_restart",
        "test_messages_are_found_by_their_words_in_any_form",
        "test_what_is_close_is_found_best_first",
        "test_notes_are_tied_by_what_they_mention",
        "test_of_many_that_ask_at_once_one_gets_it",
        "test_what_calls_cost_is_summed_by_session_owner_and_time",
        "test_everything_survives_a_restart",
        "test_values_of_the_store_itself",
        "test_what_is_given_out_makes_the_same_store_again",
        "test_a_session_is_taken_in_whole_or_not_at_all",
    }
)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # One seed for all that is left to chance. The processes that run tests for this one inherit it.
    seed = os.environ.setdefault("ONLOOKER_SEED", str(secrets.randbelow(1_000_000)))
    if config.getoption("hypothesis_seed") is None:
        config.option.hypothesis_seed = seed


# What collecting makes lasts as long as the process: looking through it for garbage took a third of the time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str:
    return f"to have the same luck again: ONLOOKER_SEED={os.environ['ONLOOKER_SEED']}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("smoke") and item.name.partition("[")[0] not in SMOKE:
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
