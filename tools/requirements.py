"""Which tests prove which requirement: reads docs/requirements.md and every `@pytest.mark.req(n)`.

Fails when a requirement of this version has no test, or a test names one that does not exist.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "requirements.md"

# What this version sets out to do. The others in the table come with later ones.
COVERED = "1-105"

_ROW = re.compile(r"^\| *(\d+) *\| *(.+?) *\|$", re.MULTILINE)


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


def expand(ranges: str) -> list[int]:
    """The numbers of "1-3 7" one by one."""
    numbers: list[int] = []
    for part in ranges.split():
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def titles() -> dict[int, str]:
    """Every requirement by its number, as docs/requirements.md has it."""
    return {int(number): title for number, title in _ROW.findall(TABLE.read_text(encoding="utf-8"))}


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


def print_table(known: dict[int, str], tests: dict[int, list[str]], covered: list[int]) -> None:
    for number, title in sorted(known.items()):
        proofs = tests.get(number, [])
        later = "" if proofs or number in covered else "  (later)"
        print(f"{number:>3}  {title}{later}")
        for name in proofs:
            print(f"       {name}")


def complaints(known: dict[int, str], tests: dict[int, list[str]], covered: list[int]) -> list[str]:
    """What is wrong, one sentence each."""
    unproven = [
        f"requirement {n} has no test: {known.get(n, 'not in the table')}"
        for n in covered
        if not tests.get(n)
    ]
    unknown = [
        f"{name} is marked with requirement {number}, which does not exist"
        for number in sorted(tests.keys() - known.keys())
        for name in tests[number]
    ]
    return unproven + unknown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quiet", action="store_true", help="print only what is wrong, and the count")
    quiet = parser.parse_args().quiet
    known, tests, covered = titles(), collect(), expand(COVERED)
    if not quiet:
        print_table(known, tests, covered)
    wrong = complaints(known, tests, covered)
    for complaint in wrong:
        print(complaint, file=sys.stderr)
    proven = sum(1 for number in covered if tests.get(number))
    print(f"{proven} of {len(covered)} requirements of this version are proven by tests")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
