"""The options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_DATABASE = "onlooker.db"

Database = Annotated[
    str,
    typer.Option(
        "--db", envvar="ONLOOKER_DB", metavar="PATH", help="The database file, or a server: postgresql://…."
    ),
]
SessionKey = Annotated[
    str | None,
    typer.Option("--session", "-s", metavar="KEY", help="The session; not needed where there is only one."),
]
Owner = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Whose sessions.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar="ONLOOKER_CONFIG",
        metavar="FILE",
        help="Settings, TOML or JSON; ./onlooker.toml where there is one.",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="default, lango or zora, in place of a settings file."),
]
Budget = Annotated[
    int | None, typer.Option("--budget", "-b", min=0, metavar="TOKENS", help="The most a context may cost.")
]
SystemPrompt = Annotated[
    str, typer.Option("--system", metavar="TEXT", help="The base prompt, before the memory.")
]
