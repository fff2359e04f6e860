"""The properties can fail: in a copy with one guard broken, they go red."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutation:
    """One line of the code, and what it becomes."""

    file: str
    line: str
    becomes: str
    test: str = "tests/promises/test_promises.py"
    fails_with: tuple[str, ...] = ("AssertionError",)


ALIGN = "tests/unit/policy/test_align.py"
SEVERAL_THINGS = f"{ALIGN}::test_a_host_that_does_several_things_in_one_conversation_loses_nothing"
EDITED_WINDOW = f"{ALIGN}::test_whatever_a_window_has_is_kept_though_its_first_message_is_edited"
IN_MEMORY = "tests/contract/test_stores.py::TestSqliteStoreInMemory"
HOSTS = "tests/acceptance/test_hosts.py"
ANY_HOST = "tests/acceptance/test_any_host.py"
CONTENTS = "tests/acceptance/test_budget_as_counted.py"
ANY_KIND = f"{CONTENTS}::test_no_prompt_exceeds_its_budget_whatever_the_messages_contain"
BESIDE_TEXT = f"{CONTENTS}::test_what_goes_out_beside_the_text_is_counted"
ANY_FIELD = "tests/acceptance/test_edges.py::test_no_field_of_a_message_makes_a_session_unusable"
MUTATIONS = {
    "a refused reply is taken": Mutation(
        "engine/writer.py",
        "        if isinstance(verdict, Rejected):\n            raise",
        "        if isinstance(verdict, Rejected):\n"
        '            return WrittenNote("", "")\n            raise',
    ),
    "the tail starts one message late": Mutation(
        "policy/plan.py",
        "    return min(overlap[0].seq if overlap else watermark + 1, newest)",
        "    return (overlap[0].seq if overlap else watermark + 1) + 1",
    ),
    "a call is parted from its result": Mutation(
        "domain/messages.py",
        "        while end < len(messages) and messages[end].role",
        "        while False and end < len(messages) and messages[end].role",
    ),
    "messages may take all the room": Mutation(
        "policy/assemble.py",
        "    room = max(0, min(limits.message_limit, left) - fill)",
        "    room = left = 10**9",
    ),
    "the memory section changes with what is said": Mutation(
        "policy/assemble.py",
        "    head = MEMORY_HEAD + about_owner + pinned\n",
        '    head = f"{MEMORY_HEAD} {state.progress.last_seq}" + about_owner + pinned\n',
    ),
    "a message that the host took back stays": Mutation(
        "policy/align.py",
        "            self.retired += lacking\n",
        "",
    ),
    "notes of retired messages stay": Mutation(
        "policy/history.py",
        "    if note.last <= keep:\n        yield note",
        "    if note.last <= keep + 1:\n        yield note",
    ),
    "a note is committed though the frontier moved": Mutation(
        "stores/sql/sessions.py",
        "    if guard.frontier != progress.frontier:",
        "    if False:",
        # Or notes that another worker took are tried again without end.
        fails_with=("AssertionError", "TimeoutError"),
    ),
    "a blanked result takes the place of what it was": Mutation(
        "policy/align.py",
        '        return "lost"  # a result that was blanked',
        '        return "fuller"  # a result that was blanked',
        SEVERAL_THINGS,
    ),
    "a short message that is said again is taken for the old one": Mutation(
        "policy/align.py",
        "        if not (is_telling(history[-1]) and is_telling(known)):\n            return True\n",
        "        if not (is_telling(history[-1]) and is_telling(known)):\n            return False\n",
        SEVERAL_THINGS,
    ),
    "a restart takes everything back": Mutation(
        "policy/align.py",
        " or not self._has_answer(run) or self._may_be_restart(run, lacking):",
        ":",
        SEVERAL_THINGS,
    ),
    "what a host leaves out in the middle is taken back": Mutation(
        "policy/align.py",
        "        is_proven = is_edit and self.is_proven(gap, lacking)",
        "        is_proven = True",
        SEVERAL_THINGS,
    ),
    "an edited beginning of a window is taken for a summary": Mutation(
        "policy/align.py",
        "        if self.sent is None or self.sent.preface:",
        "        if self.sent is None or not self.sent.preface:",
        EDITED_WINDOW,
    ),
    "a tool call that a window begins with is taken for a summary": Mutation(
        "policy/align.py",
        "        head, rest = new[:called]",
        "        called = len(new)\n        head, rest = new[:called]",
        ANY_HOST,
    ),
    "calls are taken back once there is an answer": Mutation(
        "policy/align.py",
        '        return ends == ["assistant", "tool"] and',
        "        return False and",
        ANY_HOST,
    ),
    "a beginning with only new messages behind it is taken for a branch": Mutation(
        "engine/recording.py",
        "        if decided.is_doubtful:",
        "        if False:",
        f"{HOSTS}::test_a_host_that_keeps_its_beginning_and_only_what_is_new_takes_nothing_back",
    ),
    "an opening that a host keeps is recorded again": Mutation(
        "policy/align.py",
        "    if 1 in window and 0 not in window and telling[0] and",
        "    if False and",
        ANY_HOST,
    ),
    "a short message that is said again is taken out of its branch": Mutation(
        "stores/sql/realignment.py",
        "        if not is_telling(message):\n            fits = [",
        "        if False:\n            fits = [",
        f"{IN_MEMORY}::test_a_short_message_that_is_said_elsewhere_is_not_the_one_that_was_taken_back",
    ),
    "thinking and reasoning are not counted": Mutation(
        "policy/tokens.py",
        "            tokens += sum(map(self.count, only_in_original(message)))",
        "            tokens += 0",
        BESIDE_TEXT,
    ),
    "arguments are counted without their blanks": Mutation(
        "policy/intake.py",
        "        longer = isinstance(arguments, str) and len(arguments) > len(call.arguments)",
        "        longer = False",
        BESIDE_TEXT,
    ),
    "what stands in for a missing result is not counted": Mutation(
        "policy/assemble.py",
        '        return sum([self.estimator.message(Message("user", text)) for text in stand_ins(messages)])',
        "        return 0",
        BESIDE_TEXT,
    ),
    "signs count half": Mutation(
        "policy/tokens.py",
        "            weight += _signs_weight(data, shape) * all_of_them / seen",
        "            weight += _signs_weight(data, shape) * all_of_them / seen / 2",
        ANY_KIND,
    ),
    "words that nobody knows count as known": Mutation(
        "policy/tokens.py",
        "    unknown = sum(map(_weights.__getitem__, rest), 0j)",
        "    unknown = complex(0.967 * len(rest))",
        ANY_KIND,
    ),
    "a year that no calendar can hold is believed": Mutation(
        "domain/messages.py",
        "    return _FIRST_YEAR <= day.year <= _LAST_YEAR",
        "    return True",
        ANY_FIELD,
        ("OverflowError",),
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_properties_go_red_when(name: str, tmp_path: Path) -> None:
    mutation = MUTATIONS[name]
    shutil.copytree(ROOT / "src", tmp_path / "src")
    for folder in ("promises", "contract", "unit/policy", "acceptance", "data"):
        shutil.copytree(ROOT / "tests" / folder, tmp_path / "tests" / folder)
    for file in ("conftest.py", "growth.py", "cl100k.py"):
        shutil.copy(ROOT / "tests" / file, tmp_path / "tests" / file)
    (tmp_path / "tests" / "__init__.py").touch()
    broken = tmp_path / "src" / "onlooker" / mutation.file
    text = broken.read_text()
    assert text.count(mutation.line) == 1, f"{mutation.file} no longer has that line: mend this test"
    broken.write_text(text.replace(mutation.line, mutation.becomes))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--strict-markers",
         "-o", "markers=req\nlong", mutation.test],
        cwd=tmp_path,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'src'}:{tmp_path}", "ONLOOKER_HYPOTHESIS": "mutation"},
        capture_output=True,
        text=True,
        timeout=300,
    )  # fmt: skip
    assert run.returncode == 1, f"nothing noticed that {name}:\n{run.stdout[-2000:]}{run.stderr[-500:]}"
    assert any(error in run.stdout for error in mutation.fails_with), run.stdout[-2000:]
