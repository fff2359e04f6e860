"""Exports: a store, or a part of it, as one file of lines, and back.

The first line says what it is, the last how many rows there are and what they hash to, so that a file that
was cut off or changed is refused before anything is taken in. The same rows always make the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from onlooker.domain.errors import StoreError
from onlooker.domain.history_rows import Row
from onlooker.policy.lines import dumps, from_line, to_line

FORMAT = 1
_HEAD = {"kind": "onlooker", "format": FORMAT}


async def lines_of(rows: AsyncIterator[Row]) -> AsyncIterator[str]:
    """The lines of an export, without their ends."""
    digest = hashlib.blake2b(digest_size=16)
    count = 0
    line = dumps(_HEAD)
    digest.update(f"{line}\n".encode())
    yield line
    async for row in rows:
        line = to_line(row)
        digest.update(f"{line}\n".encode())
        count += 1
        yield line
    yield dumps({"kind": "end", "rows": count, "blake2b": digest.hexdigest()})


def check(lines: Iterable[bytes], name: str) -> int:
    """Go through an export without taking anything in; how many rows it has.

    Raises:
        StoreError: It is none, is not whole, or was changed; which line, and why.
    """
    digest = hashlib.blake2b(digest_size=16)
    count = 0
    end: Any = None
    for number, line in enumerate(lines, start=1):
        if end is not None:
            raise StoreError(f"{name}, line {number}: more follows after the end of the export")
        if number == 1:
            _check_head(line, name)
        elif (end := _end(line)) is None:
            _row(line, name, number)
            count += 1
        if end is None:
            digest.update(line.rstrip(b"\r\n") + b"\n")
    if end is None:
        raise StoreError(f"{name}: the file ends before the export does; get the whole file")
    if end.get("rows") != count or end.get("blake2b") != digest.hexdigest():
        raise StoreError(f"{name}: the file was changed or is damaged: its rows do not add up")
    return count


def rows_of(lines: Iterable[bytes], name: str) -> Iterator[Row]:
    """The rows of an export that was checked."""
    for number, line in enumerate(lines, start=1):
        if number > 1 and _end(line) is None:
            yield _row(line, name, number)


def _check_head(line: bytes, name: str) -> None:
    try:
        head = json.loads(line)
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("kind") != "onlooker":  # pyright: ignore[reportUnknownMemberType]
        raise StoreError(f"{name}: not an export of onlooker's")
    if head.get("format") != FORMAT:  # pyright: ignore[reportUnknownMemberType]
        raise StoreError(f"{name}: written by a newer version of onlooker; upgrade to import it")


def _end(line: bytes) -> dict[str, Any] | None:
    return json.loads(line) if line.startswith(b'{"kind":"end"') and line.rstrip().endswith(b"}") else None


def _row(line: bytes, name: str, number: int) -> Row:
    try:
        return from_line(line.decode())
    except ValueError as error:
        raise StoreError(f"{name}, line {number}: {error}") from None
