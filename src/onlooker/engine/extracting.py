"""Values of users' own types, taken from a reply beside its note.

Loaded where extractors are given: it compiles many patterns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onlooker.domain.errors import SettingsError
from onlooker.domain.events import ExtractionRejected
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Extraction, Extractor, Schema
from onlooker.policy.reply.extraction import Block, Said, came_from, masked, schema_of, take_block
from onlooker.ports import ObserveRequest

__all__ = ["Block", "Types", "take_block"]

# Characters of all schemas together: they are sent with every chunk.
MOST_SCHEMAS = 8_000
_MOST_DETAIL = 300
_WANTED = "must be classes with `model_json_schema` and `model_validate`, as Pydantic models are"


@dataclass(frozen=True, slots=True)
class Types:
    """The types whose values are asked for."""

    extractors: tuple[type[Extractor], ...]
    schemas: tuple[Schema, ...]

    @classmethod
    def of(cls, extractors: Sequence[type[Extractor]]) -> Types:
        """The types, if a model can be asked for them.

        Raises:
            SettingsError: One is no such class, two have one name, or their schemas are too long.
        """
        for extractor in extractors:
            methods = (getattr(extractor, name, None) for name in ("model_json_schema", "model_validate"))
            if not isinstance(extractor, type) or not all(map(callable, methods)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise SettingsError("extractors", extractor, _WANTED)
        names = [extractor.__name__ for extractor in extractors]
        if len(set(names)) < len(names):
            raise SettingsError("extractors", names, "must have different names")
        schemas = tuple(map(schema_of, extractors))
        if (length := sum(len(schema.text) for schema in schemas)) > MOST_SCHEMAS:
            allowed = f"have JSON Schemas of {length} characters; {MOST_SCHEMAS} are allowed together"
            raise SettingsError("extractors", names, allowed)
        return cls(tuple(extractors), schemas)

    @property
    def names(self) -> list[str]:
        return [schema.name for schema in self.schemas]

    def kept(
        self, block: Block, request: ObserveRequest, now: datetime
    ) -> Iterator[Extraction | ExtractionRejected]:
        """What the block holds: each value, or why it is not kept. The note's id is not known yet."""
        if block.problem:
            yield ExtractionRejected(request.session, "", block.problem, block.detail)
        said = Said(request.messages)
        seen: set[tuple[str, str]] = set()
        for name, raw in block.records:
            value = masked(raw)
            text = json.dumps(value, ensure_ascii=False)
            if (name, text) in seen:
                continue
            seen.add((name, text))
            yield self._judged(name, value, said, request.session) or _extraction(
                name, value, text, request, now
            )

    def _judged(
        self, name: str, value: dict[str, Any], said: Said, session: SessionId
    ) -> ExtractionRejected | None:
        if unsaid := said.unsaid(value):
            return ExtractionRejected(session, name, "invented values", ", ".join(unsaid[:5])[:_MOST_DETAIL])
        extractor = next(e for e in self.extractors if e.__name__ == name)
        try:
            extractor.model_validate(value)
        except Exception as error:  # noqa: BLE001  a user's own class may raise anything
            return ExtractionRejected(session, name, "invalid", f"{error}"[:_MOST_DETAIL])
        return None


def _extraction(
    name: str, value: dict[str, Any], text: str, request: ObserveRequest, now: datetime
) -> Extraction:
    messages = came_from(value, request.messages)
    seqs = tuple(dict.fromkeys(message.seq for message in messages))
    return Extraction(name, text, "", request.session, seqs, messages[0].at or now, now)
