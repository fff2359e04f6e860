"""What a text kept, dropped and added."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from onlooker.policy.history import diff

LINES = st.lists(st.sampled_from(["a", "b", "c", "## 2026-02-16", "", "d d"]), max_size=8)


def test_lines_are_kept_dropped_and_added_and_days_are_not_lines() -> None:
    before = "## 2026-02-16\n[14:02] Ana moved to Oslo\n[14:05] Deploy failed"
    after = "## 2026-02-16\n[14:02] Ana moved to Oslo\nAna likes rye"
    found = diff(before, after)
    assert found.kept == ("[14:02] Ana moved to Oslo",)
    assert found.dropped == ("[14:05] Deploy failed",)
    assert found.added == ("Ana likes rye",)
    assert found.unified("o1", "r1").splitlines()[:2] == ["--- o1", "+++ r1"]
    assert "-[14:05] Deploy failed" in found.unified()
    assert diff(before, before).unified() == ""


@given(LINES, LINES)
def test_every_line_is_counted_once_on_each_side(old: list[str], new: list[str]) -> None:
    found = diff("\n".join(old), "\n".join(new))
    before = Counter(line for line in old if line and not line.startswith("## "))
    after = Counter(line for line in new if line and not line.startswith("## "))
    assert Counter(found.kept) + Counter(found.dropped) == before
    assert Counter(found.kept) + Counter(found.added) == after
    assert not Counter(found.dropped) & Counter(found.added)
