"""What the README and the documentation show works as pasted, and says what the code does.

The Python blocks of a page run in order, in one namespace, in an empty directory; `await` may stand
at the top level. A block that needs a provider's SDK is marked ```python provider, and is compiled
only.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, cast

import pytest

import onlooker
from onlooker.policy.settings import KEYS, PRESETS, about

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
SDKS = ("openai", "anthropic")

_FENCE = re.compile(r"^```python(.*)\n((?:.*\n)*?)^```$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    mark: str
    text: str

    def compile(self) -> CodeType:
        # Blank lines in front make a traceback point to the page.
        source = "\n" * (self.line - 1) + self.text
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return compile(source, str(self.page), "exec", flags=flags, dont_inherit=True)


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start(2)) + 1
        yield Block(page, line, fence[1].strip(), fence[2])


def run(page: Path) -> int:
    """Run the page's blocks and return how many there were."""
    namespace: dict[str, Any] = {"__name__": "__page__"}
    ran = 0
    with asyncio.Runner() as runner:
        for block in blocks(page):
            code = block.compile()
            if block.mark:
                continue
            result = eval(code, namespace)
            if inspect.iscoroutine(result):
                runner.run(cast("Coroutine[Any, Any, None]", result))
            ran += 1
    return ran


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run_as_pasted(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(page) == sum(not block.mark for block in blocks(page))


def test_the_readme_and_the_first_pages_have_examples() -> None:
    for name in ("README.md", "docs/index.md", "docs/getting-started.md", "docs/settings.md"):
        assert any(not block.mark for block in blocks(ROOT / name)), name


def test_only_what_needs_a_provider_is_left_unrun() -> None:
    for page in PAGES:
        for block in blocks(page):
            if block.mark:
                assert block.mark == "provider", f"{page.name}:{block.line}"
                assert any(f"from {sdk} import" in block.text for sdk in SDKS), f"{page.name}:{block.line}"


def test_the_settings_page_has_every_setting_with_the_value_of_each_preset() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if re.match(r"\| `\w+` \|", line)]
    assert rows == [f"{_row(key)} | {about(key)} |" for key in KEYS]


def _row(key: str) -> str:
    values = (getattr(PRESETS[name], key) for name in ("default", "lango", "zora"))
    return f"| `{key}` | " + " | ".join(_as_toml(value) for value in values)


def _as_toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def test_the_api_page_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"auto(?:function|class|exception):: (?:onlooker\.\w+\.)?(\w+)", page))
    assert {*onlooker.__all__, *onlooker.errors.__all__, *onlooker.types.__all__} <= documented


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## Unreleased$", changelog, re.MULTILINE)
