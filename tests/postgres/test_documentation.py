"""What the pages on PostgreSQL and workers show works as pasted, on a real server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.postgres.server import Server

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = re.compile(r"^```\{code-block\} python\n((?:.*\n)*?)^```$", re.MULTILINE)


@pytest.mark.parametrize("page", ["postgres.md", "workers.md"])
def test_the_examples_run(page: str, server: Server) -> None:
    found = EXAMPLE.findall((DOCS / page).read_text(encoding="utf-8"))
    assert found
    url = server.new_url()
    for example in found:
        text = re.sub(r'"postgresql://[^"]*"', repr(url), example)
        exec(compile(text, page, "exec"), {"__name__": "__page__"})
