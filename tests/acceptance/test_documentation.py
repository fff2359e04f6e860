"""What the README and the documentation show works as pasted, and says what the code does.

The Python blocks of a page run in order, in one namespace, in an empty directory: pasted into one file, they
are a program. A block that needs a provider's SDK is marked ```python provider, and is compiled only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from command_line import call

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
        return compile(source, str(self.page), "exec", dont_inherit=True)


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start(2)) + 1
        yield Block(page, line, fence[1].strip(), fence[2])


def run(page: Path) -> int:
    """Run the page's blocks and return how many there were."""
    namespace: dict[str, Any] = {"__name__": "__page__"}
    ran = 0
    for block in blocks(page):
        code = block.compile()
        if not block.mark:
            exec(code, namespace)
            ran += 1
    return ran


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run_as_pasted(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("onlooker.policy.secrets._more", {})  # a page adds one of its own
    assert run(page) == sum(not block.mark for block in blocks(page))


def test_the_commands_of_the_first_page_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "getting-started.md"
    run(page)  # among others five.py, which the page tells to save
    (shell,) = re.findall(r"^```console\n((?:.*\n)*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE)
    program, *commands = re.split(r"^\$ ", shell, flags=re.MULTILINE)[1:]
    assert program == "python five.py\n"
    for command in commands:
        line, _, expected = command.partition("\n")
        printed = call(*line.split()[1:]).out
        pattern = ".*?".join(map(re.escape, expected.strip().split("…")))
        assert re.match(pattern, printed, re.DOTALL), f"{line}\n{printed}"
    assert len(commands) > 5


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


def test_the_settings_page_says_of_each_setting_why_it_is_one() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    reasons = page.split("## Why each is a setting")[1].split("\n## ")[0]
    assert sorted(re.findall(r"`(\w+)`", reasons)) == sorted(KEYS)


def _row(key: str) -> str:
    values = (getattr(PRESETS[name], key) for name in ("default", "lango", "zora"))
    return f"| `{key}` | " + " | ".join(_as_toml(value) for value in values)


def _as_toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def test_the_cost_of_a_model_is_computed_from_the_table_above_it() -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| a conversation of .* \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", page, re.MULTILINE)
    used = re.findall(r"price\.of\(([\d_]+) \+ ([\d_]+), ([\d_]+)\)", page)
    assert rows == [tuple(number.replace("_", ",") for number in one) for one in used]
    assert len(rows) == 2


def test_the_readme_groups_the_pages_as_the_documentation_does() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    parts = re.findall(r":caption: (.+)\n:maxdepth: 1\n\n((?:[\w-]+\n)+)", index)
    groups = {title: set(pages.split()) for title, pages in parts}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| \*\*(.+?)\*\* \| (.*) \|$", readme, re.MULTILINE)
    listed = {title: set(re.findall(r"\(docs/([\w-]+)\.md\)", row)) for title, row in table}
    assert {title: listed[title] for title in groups} == groups


def test_the_api_page_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"auto(?:function|class|exception):: (?:onlooker\.\w+\.)?(\w+)", page))
    assert {*onlooker.__all__, *onlooker.errors.__all__, *onlooker.types.__all__} <= documented


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## Unreleased$", changelog, re.MULTILINE)
