"""What the pages on PostgreSQL and workers show works as pasted, on a real server."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

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
        text = "import onlooker\n" + re.sub(r'"postgresql://[^"]*"', repr(url), example)
        code = compile(text, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result: Any = eval(code, {"__name__": "__page__"})
        assert inspect.iscoroutine(result)
        asyncio.run(result)
