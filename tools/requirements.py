"""Which tests prove which requirement: reads docs/requirements.md and every `@pytest.mark.req(n)`.

Fails when a requirement has no test, a test names one that does not exist, the numbers of the page are not
1, 2, 3 and so on, two have the same text, or the test that a row names is not marked with the row's number.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "requirements.md"

_ROW = re.compile(r"^\| *(\d+) *\| *(.+?) *\| *(.+?) *\|$", re.MULTILINE)


class Requirement(NamedTuple):
    """A row of the page: the number, what is required, and the name of its best test as a sentence."""

    number: int
    text: str
    proof: str


class Marks:
    """A pytest plugin that writes down, for each requirement, the tests marked with it."""

    def __init__(self) -> None:
        self.tests: dict[int, list[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            # One line per test, however many parameters it has.
            name = item.nodeid.partition("[")[0]
            for number in _numbers(item):
                tests = self.tests.setdefault(number, [])
                if name not in tests:
                    tests.append(name)


def _numbers(item: pytest.Item) -> Iterator[int]:
    for mark in item.iter_markers("req"):
        yield from mark.args


def sentence(nodeid: str) -> str:
    """The name of a test as a sentence."""
    return nodeid.rpartition("::")[2].removeprefix("test_").replace("_", " ")


def read_page() -> list[Requirement]:
    """Every requirement of docs/requirements.md, in its order."""
    rows = _ROW.findall(TABLE.read_text(encoding="utf-8"))
    return [Requirement(int(number), text, proof) for number, text, proof in rows]


def collect() -> dict[int, list[str]]:
    """The marked tests by requirement.

    Raises:
        SystemExit: The tests cannot even be collected; pytest's own words say why.
    """
    marks = Marks()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = pytest.main(["--collect-only", "-q", "--rootdir", str(ROOT), str(ROOT / "tests")], [marks])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(said.getvalue())
    return marks.tests


def print_table(page: list[Requirement], tests: dict[int, list[str]]) -> None:
    for number, text, _ in page:
        print(f"{number:>3}  {text}")
        for name in tests.get(number, []):
            print(f"       {name}")


def complaints(page: list[Requirement], tests: dict[int, list[str]]) -> Iterator[str]:
    """Say what is wrong, one sentence each."""
    numbers = [row.number for row in page]
    if numbers != list(range(1, len(page) + 1)):
        yield f"the numbers of the page are not 1 to {len(page)} in order"
    for text, count in Counter(row.text for row in page).items():
        if count > 1:
            yield f"{count} requirements have the same text: {text}"
    for number, text, proof in page:
        named = [name for name in tests.get(number, []) if sentence(name) == proof]
        if not tests.get(number):
            yield f"requirement {number} has no test: {text}"
        elif not named:
            yield f'requirement {number} ({text}) names a test that is not marked with it: "{proof}"'
    for number in sorted(tests.keys() - set(numbers)):
        for name in tests[number]:
            yield f"{name} is marked with requirement {number}, which does not exist"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quiet", action="store_true", help="print only what is wrong, and the count")
    quiet = parser.parse_args().quiet
    page, tests = read_page(), collect()
    if not quiet:
        print_table(page, tests)
    wrong = list(complaints(page, tests))
    for complaint in wrong:
        print(complaint, file=sys.stderr)
    proven = sum(1 for row in page if tests.get(row.number))
    print(f"{proven} of {len(page)} requirements are proven by tests")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
