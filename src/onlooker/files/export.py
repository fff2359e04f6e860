"""Exports: write a store, or a part of it, to one file of JSON lines, and read it back.

The first line names the format. The last one holds the number of rows and their hash, so that a file that was
cut off or changed is refused before anything is imported. The same rows always make the same file.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, cast

from onlooker.atomic import NewFile, make_folder
from onlooker.domain.errors import StoreError
from onlooker.domain.history import Row
from onlooker.files.journal import read_rows
from onlooker.policy.rows import dumps, from_line, to_line

FORMAT = 1
BATCH = 500  # rows read or written at a time, off the event loop
_HEAD = {"kind": "onlooker", "format": FORMAT}


# ------------------------------------------------------------------------------------ writing


async def lines_of(rows: AsyncIterator[Row]) -> AsyncIterator[str]:
    """The lines of an export, without line ends."""
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


async def write_export(path: Path, rows: AsyncIterator[Row]) -> int:
    """Write a new file that appears once it is complete; return the number of rows. A missing folder is
    created.

    Raises:
        StoreError: The file exists, or cannot be written.
    """
    count = 0
    try:
        if await asyncio.to_thread(path.exists):
            raise FileExistsError
        await asyncio.to_thread(make_folder, path.parent)
        with await asyncio.to_thread(NewFile, path) as new:
            batch: list[str] = []
            async for line in lines_of(rows):
                batch.append(line)
                count += 1
                if len(batch) >= BATCH:
                    await asyncio.to_thread(_append, new, batch)
                    batch = []
            await asyncio.to_thread(_append, new, batch)
            await asyncio.to_thread(new.publish, replace=False)
    except FileExistsError:
        raise StoreError(f"{path}: exists already; choose another name, or move it away") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror or error})") from error
    return count - 2  # the first line and the last are not rows


def _append(new: NewFile, lines: Iterable[str]) -> None:
    new.append("".join(f"{line}\n" for line in lines).encode())


# ------------------------------------------------------------------------------------ reading


def _accept(_: Row) -> None:
    pass


async def read_export(path: Path, accept: Callable[[Row], None] = _accept) -> AsyncGenerator[Row]:
    """Check the whole file, then yield its rows. `accept` raises an error to refuse a row.

    Raises:
        StoreError: The file cannot be read, or is not a complete and unchanged export.
    """
    try:
        with await asyncio.to_thread(path.open, "rb") as file:
            await asyncio.to_thread(check, file, path.name, accept)
            file.seek(0)
            async for row in _in_batches(rows_of(file, path.name)):
                yield row
    except OSError as error:
        raise _unreadable(path, error) from error


async def read_items(path: Path) -> AsyncGenerator[Row]:
    """Yield the items of an export, without checking the rest of it.

    Raises:
        StoreError: The file cannot be read, or a line of it is not an item.
    """

    def found() -> Iterator[Row]:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.startswith(b'{"kind":"item"'):
                    yield _row(line, path.name, number)

    try:
        async for row in _in_batches(found()):
            yield row
    except OSError as error:
        raise _unreadable(path, error) from error


async def read_journal(folder: Path, problem: Callable[[str], None]) -> AsyncGenerator[Row]:
    """Yield the rows of a journal. Lines that cannot be used are reported to `problem` and skipped.

    Raises:
        StoreError: There is no such folder, or it cannot be read.
    """
    if not await asyncio.to_thread(folder.is_dir):
        raise StoreError(f"{folder}: no such folder")
    try:
        async for row in _in_batches(read_rows(folder, problem)):
            yield row
    except OSError as error:
        raise _unreadable(folder, error) from error


async def _in_batches(rows: Iterator[Row]) -> AsyncIterator[Row]:
    while batch := await asyncio.to_thread(lambda: list(islice(rows, BATCH))):
        for row in batch:
            yield row


def _unreadable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path}: cannot be read ({error.strerror or error})")


def check(lines: Iterable[bytes], name: str, accept: Callable[[Row], None] = _accept) -> int:
    """Check an export without importing it; return the number of rows.

    Raises:
        StoreError: It is not an export, not complete, or was changed; says which line, and why.
    """
    digest = hashlib.blake2b(digest_size=16)
    count = 0
    end: Any = None
    for number, line in enumerate(lines, start=1):
        if end is not None:
            raise StoreError(f"{name}, line {number}: there is more after the end of the export")
        if number == 1:
            _check_head(line, name)
        elif (end := _end(line)) is None:
            accept(_row(line, name, number))
            count += 1
        if end is None:
            digest.update(line.rstrip(b"\r\n") + b"\n")
    if end is None:
        raise StoreError(f"{name}: the export is incomplete; get the whole file")
    if end.get("rows") != count or end.get("blake2b") != digest.hexdigest():
        raise StoreError(f"{name}: the file was changed or is damaged: its rows do not match its hash")
    return count


def rows_of(lines: Iterable[bytes], name: str) -> Iterator[Row]:
    """Yield the rows of an export that was checked."""
    for number, line in enumerate(lines, start=1):
        if number > 1 and _end(line) is None:
            yield _row(line, name, number)


def _check_head(line: bytes, name: str) -> None:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    head = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if head.get("kind") != "onlooker":
        raise StoreError(f"{name}: not an Onlooker export")
    if head.get("format") != FORMAT:
        raise StoreError(f"{name}: written by a newer version of Onlooker; upgrade to import it")


def _end(line: bytes) -> dict[str, Any] | None:
    return json.loads(line) if line.startswith(b'{"kind":"end"') and line.rstrip().endswith(b"}") else None


def _row(line: bytes, name: str, number: int) -> Row:
    try:
        return from_line(line.decode())
    except ValueError as error:
        raise StoreError(f"{name}, line {number}: {error}") from None
