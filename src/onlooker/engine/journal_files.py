"""The files of a journal: their names, appending to them, and reading them back. Nothing waits here."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from onlooker.domain.history_rows import ItemRow, Position, Row, SessionRow
from onlooker.domain.messages import SessionId
from onlooker.policy.lines import from_line

_UNSAFE = re.compile(r"[^A-Za-z0-9]+")
_CHUNK = 1 << 16
_SESSION, _RESTART = b'{"kind":"session"', b'{"kind":"restart"'
# File, line number and what is wrong with it.
Problem = Callable[[Path, int, str], None]


def session_file(folder: Path, session: SessionId) -> Path:
    """One file per session. The hash tells sessions apart; what can be read of the key is for people."""
    readable = _UNSAFE.sub("-", session.key)[:40].strip("-")
    return folder / f"session-{session.sid}{'-' if readable else ''}{readable}.jsonl"


def owner_file(folder: Path, owner: str) -> Path:
    """One file per owner, for what outlives sessions."""
    digest = hashlib.blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return folder / f"cross-session-{digest}.jsonl"


# ------------------------------------------------------------------------------------ writing


def append(path: Path, lines: Iterable[str]) -> None:
    """Add lines, readable by their owner alone; after a line that was cut off, on a new one."""
    data = "".join(f"{line}\n" for line in lines).encode()
    if not data:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _NO_LINKS, 0o600)
    try:
        size = os.fstat(handle).st_size
        if size:
            os.lseek(handle, size - 1, os.SEEK_SET)
            data = data if os.read(handle, 1) == b"\n" else b"\n" + data
        while data:
            data = data[os.write(handle, data) :]
    finally:
        os.close(handle)


_NO_LINKS: int = getattr(os, "O_NOFOLLOW", 0)


class Replacement:
    """A file that takes the place of another once it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        with suppress(FileNotFoundError):
            self._part.unlink()

    def append(self, lines: Iterable[str]) -> None:
        append(self._part, lines)

    def finish(self) -> None:
        """Put it in place; without a line in it, the other goes."""
        try:
            os.replace(self._part, self._path)
        except FileNotFoundError:
            self._path.unlink(missing_ok=True)

    def drop(self) -> None:
        self._part.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------ reading


class Written(NamedTuple):
    """How far a session's file goes: the position, and the line that says so."""

    position: Position
    line: str


def written(path: Path) -> Written | None:
    """How far the file goes; None where it says nothing that can be gone on from."""
    try:
        with path.open("rb") as file:
            return _last_session(file)
    except FileNotFoundError:
        return None


def _last_session(file: BinaryIO) -> Written | None:
    size = file.seek(0, os.SEEK_END)
    reach = 0
    while reach < size:
        reach = min(size, max(_CHUNK, reach * 4))
        file.seek(size - reach)
        lines = file.read(reach).split(b"\n")
        # The first may be only the end of a line, and the last is cut off unless it is empty.
        for line in reversed(lines[:-1] if reach == size else lines[1:-1]):
            if line.startswith(_RESTART):
                return None
            if line.startswith(_SESSION) and (found := _as_written(line)):
                return found
    return None


def _as_written(line: bytes) -> Written | None:
    try:
        text = line.decode()
        row = from_line(text)
    except ValueError:
        return None
    if not isinstance(row, SessionRow):
        return None
    return Written(Position(row.progress.last_seq, row.changes), text)


def read(folder: Path, problem: Problem) -> Iterator[Row]:
    """The rows of every file in the folder: sessions first, then what outlives them.

    A line that is no row, or not of this file's session, is told to `problem` and passed over.
    """
    for path in sorted(folder.glob("session-*.jsonl")):
        last = _last_line(path)
        if last:
            yield from _rows_of_session(path, last, problem)
        else:
            problem(path, 0, "nothing says where the session stands; left out")
    for path in sorted(folder.glob("cross-session-*.jsonl")):
        for number, row in _rows(path, problem):
            if isinstance(row, ItemRow):
                yield row
            else:
                problem(path, number, "not an item")


def _rows_of_session(path: Path, last: int, problem: Problem) -> Iterator[Row]:
    session: SessionId | None = None
    for number, row in _rows(path, problem):
        if number > last:
            return  # written in part, and not to be gone by
        found = getattr(row, "session", None)
        session = session or (found if isinstance(found, SessionId) else None)
        if session is None or found != session or isinstance(row, ItemRow):
            problem(path, number, "not of this file's session")
            continue
        yield row


def _last_line(path: Path) -> int:
    """The number of the last line that says where the session stands; 0 where none does."""
    last = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.startswith(_SESSION) and line.endswith(b"\n") and _as_written(line[:-1]):
                last = number
    return last


def _rows(path: Path, problem: Problem) -> Iterator[tuple[int, Row]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield number, from_line(line.decode())
            except ValueError as error:
                problem(path, number, str(error))


def item_lines(path: Path) -> dict[str, str]:
    """The line that counts for each item in a file."""
    found: dict[str, str] = {}
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return found
    for line in text.split(b"\n"):
        try:
            row = from_line(line.decode())
        except ValueError:
            continue
        if isinstance(row, ItemRow):
            found[row.item.id] = line.decode()
    return found
