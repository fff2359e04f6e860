"""What was filled in along with notes: adding and reading. All inside a transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from itertools import count
from typing import Any

from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Extraction
from onlooker.stores.sqlite.rows import pack, sid_of, unpack
from onlooker.stores.sqlite.statements import sql


def add(db: sqlite3.Connection, sid: bytes, extractions: Sequence[Extraction]) -> None:
    numbers = count()
    rows: list[tuple[Any, ...]] = [
        (
            sid,
            pack(e.note),
            next(numbers),
            pack(e.type),
            json.dumps(e.seqs),
            e.said_at.isoformat(),
            e.made_at.isoformat(),
            pack(e.text),
        )
        for e in extractions
    ]
    db.executemany(sql("add_extraction"), rows)


def read(db: sqlite3.Connection, session: SessionId, type: str | None) -> Sequence[Extraction]:
    values = {"sid": sid_of(session), "type": None if type is None else pack(type)}
    return [_to_extraction(row, session) for row in db.execute(sql("extractions"), values)]


def _to_extraction(row: sqlite3.Row, session: SessionId) -> Extraction:
    kind, value, note, seqs, said_at, made_at = row
    return Extraction(
        type=unpack(kind),
        text=unpack(value),
        note=unpack(note),
        session=session,
        seqs=tuple(json.loads(seqs)),
        said_at=datetime.fromisoformat(said_at),
        made_at=datetime.fromisoformat(made_at),
    )
