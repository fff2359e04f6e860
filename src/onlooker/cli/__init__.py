"""The command `onlooker`. Only this package reads the environment, or a settings file that is not named."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit."""
    from onlooker.cli import hook

    # A coding agent waits for its hooks, so these do not load the other commands.
    if hook.is_for_agents(sys.argv[1:]):
        hook.run_process(sys.argv[2:])
    from onlooker.cli.app import run

    run()
