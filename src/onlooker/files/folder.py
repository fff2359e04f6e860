"""One owner's folder: its files, the record of what we wrote into them, the archive, and the lock.

    ana-a07ce676…/  MEMORY.md  daily/  archive/  kept/  .onlooker.json  .writing.lock  .consolidating.lock

Everything here except `locked` blocks, and runs in a thread.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import errno
import hashlib
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Self, cast

from onlooker.atomic import NO_LINKS, make_folder, read, write
from onlooker.domain.errors import StoreError
from onlooker.domain.events import Event, FileBackedUp
from onlooker.domain.frozen import frozen
from onlooker.files.markdown import Base, BaseLine, digest_of

log = logging.getLogger("onlooker")

SIDECAR = ".onlooker.json"
# Held while files are written, and while daily notes are consolidated, which may wait for a model.
WRITING, CONSOLIDATING = ".writing.lock", ".consolidating.lock"
LOCK_SECONDS = 2.0
LOCK_PAUSE = 0.02

_MAX_COPIES = 10_000
_UNSAFE = re.compile(r"[^a-z0-9]+")
_DAY_FILE = re.compile(r"(\d{4}-\d\d-\d\d)(?:-\d{1,4})?\.md")

# Time of the last change, size and inode: enough to tell two versions of a file apart without reading them.
Stamp = tuple[int, int, int]


class BusyError(StoreError):
    """Another process, or a person, is writing these files."""


def folder_name(owner: str) -> str:
    """A hash tells owners apart; the readable part of the name is for people."""
    digest = hashlib.blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    readable = _UNSAFE.sub("-", owner.lower())[:40].strip("-")
    return f"{readable}-{digest}" if readable else digest


def day_of(name: str) -> dt.date | None:
    """The day of a daily file, archived or not; None if the name is not that of a daily file."""
    found = _DAY_FILE.fullmatch(name)
    try:
        return dt.date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


# ------------------------------------------------------------------------------------ the sidecar


@frozen
class Sidecar:
    """What we wrote into an owner's files, to recognize a person's edits. It holds hashes and ids, no text.

    The marks in MEMORY.md cannot replace it: a deleted line takes its mark with it, and without a record of
    the lines we wrote, its item looks like one that was made since. The sidecar also names the owner, which
    cannot be read from the name of the folder.
    """

    owner: str
    store: str = ""  # the id of the store that the lines came from
    memory: Base = field(default_factory=Base)
    before: Base | None = None  # the version that `memory` is replacing; None once it has
    noted: dt.datetime | None = None  # when the newest note in the daily files was made
    recent: tuple[str, ...] = ()  # ids of the latest notes there, so that one a person removes stays out

    def base(self, digest: str) -> Base:
        """The version that a file with this hash was made from.

        After a crash it may be the old version or the new one. Then only lines of both count, so that no
        line is taken for deleted by mistake.
        """
        if self.before is None or digest == self.memory.digest:
            return self.memory
        if digest == self.before.digest:
            return self.before
        both = {mark: line for mark, line in self.memory.lines.items() if mark in self.before.lines}
        return Base("", both)

    def to_json(self) -> str:
        fields = {
            "owner": self.owner,
            "store": self.store,
            "noted": self.noted and self.noted.isoformat(),
            "recent": list(self.recent),
            "memory": _base_to_json(self.memory),
        }
        if self.before is not None:
            fields["before"] = _base_to_json(self.before)
        return json.dumps(fields, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self | None:
        """None if it is damaged. Then no line is known, and none counts as deleted."""
        try:
            fields = cast("dict[str, Any]", json.loads(text))
            return cls(
                owner=str(fields["owner"]),
                store=str(fields["store"]),
                memory=_base_from_json(fields["memory"]),
                before=_base_from_json(fields["before"]) if "before" in fields else None,
                noted=dt.datetime.fromisoformat(fields["noted"]) if fields.get("noted") else None,
                recent=tuple(map(str, fields.get("recent", ()))),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


def _base_to_json(base: Base) -> dict[str, Any]:
    lines = {mark: [line.item, line.section, line.digest] for mark, line in base.lines.items()}
    return {"digest": base.digest, "lines": lines}


def _base_from_json(value: Any) -> Base:
    return Base(str(value["digest"]), {mark: BaseLine(*line) for mark, line in value["lines"].items()})


# ------------------------------------------------------------------------------------ the folder


class Folder:
    """The files of one owner."""

    def __init__(self, root: Path, owner: str) -> None:
        self.owner = owner
        self.path = root / folder_name(owner)
        self.memory = self.path / "MEMORY.md"
        self.daily = self.path / "daily"
        self.archive = self.path / "archive"
        self.kept = self.path / "kept"

    def check_links(self) -> None:
        """Refuse a folder that is a link: it could be another owner's.

        Raises:
            OSError: The folder, or one in it, is a link.
        """
        for path in (self.path, self.daily, self.archive, self.kept):
            if path.is_symlink():
                raise OSError(errno.ELOOP, "is a symbolic link: replace it with a folder", str(path))

    def sidecar(self) -> Sidecar:
        found = _read_sidecar(self.path)
        return found if found and found.owner == self.owner else Sidecar(self.owner)

    def write_sidecar(self, sidecar: Sidecar) -> None:
        write(self.path / SIDECAR, sidecar.to_json().encode())

    # -- MEMORY.md

    def stamp(self) -> Stamp | None:
        try:
            found = self.memory.lstat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def written_stamp(self) -> Stamp | None:
        """The stamp of the version that we wrote; None if a person has saved another since."""
        stamp = self.stamp()
        return stamp if self.is_as_written() else None

    def is_as_written(self) -> bool:
        return digest_of(read(self.memory) or b"") == self.sidecar().memory.digest

    def keep_copy(self, path: Path, now: dt.datetime) -> Path | None:
        """Copy a file to `kept`; None if there is no such file."""
        data = read(path)
        return None if data is None else self.keep(data, path, now)

    def keep(self, data: bytes, path: Path, now: dt.datetime) -> Path:
        """Write the content of a file to `kept`, under a new name."""
        for number in range(1, _MAX_COPIES):
            tail = f"-{number}" if number > 1 else ""
            target = self.kept / f"{path.stem}-{now:%Y%m%dT%H%M%S}{tail}{path.suffix}"
            if not target.exists():
                write(target, data)
                return target
        raise StoreError(f"{self.kept}: too many copies; delete those that you do not need")

    # -- daily files

    def day_file(self, day: dt.date) -> Path:
        return self.daily / f"{day.isoformat()}.md"

    def days(self) -> list[Path]:
        """Daily files that were not archived yet, oldest first."""
        return _days_in(self.daily)

    def archived_days(self) -> list[Path]:
        return _days_in(self.archive)

    def archive_day(self, path: Path, data: bytes) -> Path | None:
        """Move a daily file that holds `data` to the archive; None if a person changed it."""
        make_folder(self.archive)
        number = 1
        target = self.archive / path.name
        while target.exists():
            number += 1
            target = self.archive / f"{path.stem}-{number}{path.suffix}"
        if read(path) != data:
            return None
        os.rename(path, target)
        if target.read_bytes() == data:
            return target
        # It was saved just before the rename: move it back, unless there is a new file.
        if not path.exists():
            os.rename(target, path)
        return None

    # -- deleting

    def remove(self) -> None:
        """Delete the folder with everything in it."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    def remove_copies(self) -> None:
        """Delete kept copies, and temporary files of processes that were killed."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.kept)
        for folder in (self.path, self.daily, self.archive):
            for left in (*folder.glob(".*.part"), *folder.glob(".*.before")):
                left.unlink(missing_ok=True)


def report_copy(folder: Folder, path: Path, copy: Path, reason: str, emit: Callable[[Event], None]) -> None:
    log.warning("%s: %s; a copy is kept at %s", path, reason, copy)
    emit(FileBackedUp(folder.owner, str(path), str(copy), reason))


def owners_in(root: Path) -> Iterator[str]:
    """The owners who have a folder, by their sidecars."""
    for path in sorted(root.glob(f"*/{SIDECAR}")):
        found = _read_sidecar(path.parent)
        if found and path.parent.name == folder_name(found.owner):
            yield found.owner


def _read_sidecar(folder: Path) -> Sidecar | None:
    data = read(folder / SIDECAR)
    return Sidecar.from_json(data.decode("utf-8", "replace")) if data else None


def _days_in(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("*.md") if day_of(path.name) and not path.is_symlink()]
    return sorted(found, key=lambda path: path.name)


# ------------------------------------------------------------------------------------ the lock


@asynccontextmanager
async def locked(
    folder: Folder, name: str = WRITING, *, seconds: float = LOCK_SECONDS
) -> AsyncGenerator[None]:
    """Hold the folder against other processes, and against other tasks of this one.

    Raises:
        BusyError: Another process or task holds it for longer than `seconds`.
        OSError: The folder is a link, or not accessible.
    """
    await asyncio.to_thread(folder.check_links)
    lock = Lock(folder.path / name)
    tries = max(1, round(seconds / LOCK_PAUSE))
    while not await asyncio.to_thread(lock.acquire):
        tries -= 1
        if not tries:
            raise BusyError(f"{folder.path}: another process is writing to it")
        await asyncio.sleep(LOCK_PAUSE)
    try:
        yield
    finally:
        lock.release()


class Lock:
    """A lock file. The system releases it when the process that holds it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def acquire(self) -> bool:
        """False if it is held already."""
        make_folder(self._path.parent)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o600)
        try:
            _lock(handle)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
