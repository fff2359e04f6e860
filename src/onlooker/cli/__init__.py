"""The command `onlooker`. Only this package reads the environment, or a settings file that is not named."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def loading() -> Generator[None]:
    """Import much: Python would look through all of it again and again for what it can free, which takes a
    fifth of the time, and there is nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()  # what is loaded stays, and is not looked through later
    finally:
        if was_on:
            gc.enable()


def main() -> None:
    """Run the command line and exit."""
    from onlooker.cli import hook

    # A coding agent waits for its hooks, so these do not load the other commands.
    if hook.is_hook_call(sys.argv[1:]):
        hook.run_process(sys.argv[2:])
    with loading():
        from onlooker.cli.app import run

    run()
