"""What we remember of an owner's files: which lines we wrote, so that a change by hand can be told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from onlooker.files.page import Section


@dataclass(frozen=True, slots=True)
class Line:
    """One line that we wrote: its item, the section it stood in, and a hash of its words."""

    item: str
    section: Section
    digest: str


@dataclass(frozen=True, slots=True)
class Written:
    """A version of MEMORY.md: a hash of the whole, and its lines by mark."""

    digest: str = ""
    lines: Mapping[str, Line] = field(default_factory=dict[str, Line])


@dataclass(frozen=True, slots=True)
class Sidecar:
    """It holds hashes and ids alone. `before` is the version that `memory` is about to take the place of,
    None once it did. `noted` is up to when notes stand in daily files, `recent` the ids of the last ones:
    one that a person took out stays out."""

    owner: str
    store: str = ""
    memory: Written = field(default_factory=Written)
    before: Written | None = None
    noted: datetime | None = None
    recent: tuple[str, ...] = ()

    def base(self, digest: str) -> Written:
        """What a file with this hash was made from. After a crash in the middle of writing that may be
        either version: only what stands in both counts then, so that no line is missed by mistake."""
        if self.before is None or digest == self.memory.digest:
            return self.memory
        if digest == self.before.digest:
            return self.before
        both = {mark: line for mark, line in self.memory.lines.items() if mark in self.before.lines}
        return Written("", both)

    def to_json(self) -> str:
        noted = self.noted and self.noted.isoformat()
        whole = {
            "owner": self.owner,
            "store": self.store,
            "noted": noted,
            "recent": list(self.recent),
            "memory": _as_json(self.memory),
        }
        if self.before is not None:
            whole["before"] = _as_json(self.before)
        return json.dumps(whole, indent=1) + "\n"


def read_sidecar(text: str) -> Sidecar | None:
    """None where it cannot be read: then no line is known, and none counts as deleted."""
    try:
        whole = cast("dict[str, Any]", json.loads(text))
        return Sidecar(
            owner=str(whole["owner"]),
            store=str(whole["store"]),
            memory=_from_json(whole["memory"]),
            before=_from_json(whole["before"]) if "before" in whole else None,
            noted=datetime.fromisoformat(whole["noted"]) if whole.get("noted") else None,
            recent=tuple(map(str, whole.get("recent", ()))),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _as_json(written: Written) -> dict[str, Any]:
    lines = {mark: [line.item, line.section, line.digest] for mark, line in written.lines.items()}
    return {"digest": written.digest, "lines": lines}


def _from_json(value: Any) -> Written:
    return Written(str(value["digest"]), {mark: Line(*line) for mark, line in value["lines"].items()})
