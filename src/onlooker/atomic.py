"""Atomic files: written completely or not at all, and readable only by their owner.

The content goes to a temporary file in the same folder, which is flushed to the disk and then renamed. A
reader sees the old file or the new one, even after a crash. Symbolic links are not followed.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

NO_LINKS: int = getattr(os, "O_NOFOLLOW", 0)
_NEW: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS | getattr(os, "O_BINARY", 0)


def part_of(path: Path) -> Path:
    """The temporary file that replaces `path` when it is complete."""
    return path.with_name(f".{path.name}.part")


def before_of(path: Path) -> Path:
    """The second name that `swap` gives to the file it replaces, to check what was replaced."""
    return path.with_name(f".{path.name}.before")


class NewFile:
    """A new file. Use it with `with`: if it is not published by the end, it is deleted."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = part_of(target)
        self.path.unlink(missing_ok=True)  # left by a process that was killed
        # Kept open until the end, to notice if another process starts the same file. SQLite may write to it
        # meanwhile, but must have closed it by then: closing our handle would release its locks.
        self._handle = os.open(self.path, _NEW, 0o600)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle >= 0:
            ours = self._is_ours()
            self._close()
            if ours:
                with suppress(OSError):
                    self.path.unlink()

    def append(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._handle, data) :]

    def publish(self, *, replace: bool = True, mode: int = 0o600) -> None:
        """Put the file in its place.

        Raises:
            FileExistsError: There is a file, and `replace` is False.
            OSError: The disk is full, or another process is writing the same file.
        """
        if not self._is_ours():
            raise OSError(errno.EBUSY, "another process is writing this file", str(self.target))
        if mode != 0o600:
            self.path.chmod(mode)
        os.fsync(self._handle)
        self._close()  # Windows does not rename an open file
        try:
            if replace:
                os.replace(self.path, self.target)
            else:
                _rename_to_new(self.path, self.target)
        except OSError:
            self.path.unlink(missing_ok=True)
            raise
        _sync_folder(self.target.parent)

    def _is_ours(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(self.path))
        except OSError:
            return False

    def _close(self) -> None:
        os.close(self._handle)
        self._handle = -1


def _rename_to_new(path: Path, target: Path) -> None:
    try:
        # Unlike a rename, this fails if another process was faster.
        os.link(path, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.rename(path, target)
    else:
        path.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the rename survive a power failure."""
    if os.name != "nt":  # Windows cannot open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read(path: Path) -> bytes | None:
    """The content of a file; None if there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | NO_LINKS)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read()


def write(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write the whole file, or leave the old one unchanged. A missing folder is created."""
    make_folder(path.parent)
    with NewFile(path) as new:
        new.append(data)
        new.publish(mode=mode)


def swap(path: Path, data: bytes, expected: bytes | None) -> bool:
    """Write the file if it still holds `expected` (None: if there is none); False if it does not.

    A person may save the file at any moment, and their version must survive.
    """
    if read(path) != expected:
        return False
    make_folder(path.parent)
    with NewFile(path) as new:
        new.append(data)
        if expected is not None:
            return _swap(new, expected)
        try:
            new.publish(replace=False)
        except FileExistsError:
            return False
        return True


def _swap(new: NewFile, expected: bytes) -> bool:
    path, before = new.target, before_of(new.target)
    before.unlink(missing_ok=True)
    try:
        # The second name still reaches the file that was replaced, with its last content.
        os.link(path, before, follow_symlinks=False)
    except OSError:  # a file system without links, or the file was deleted
        if read(path) not in (expected, None):
            return False
        new.publish()
        return True
    new.publish()
    if before.read_bytes() == expected:
        before.unlink()
        return True
    os.replace(before, path)
    return False


def make_folder(folder: Path) -> None:
    """Create the folder and its parents, accessible only to their owner."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        # Not with `parents=True`, which gives parents the usual permissions.
        path.mkdir(mode=0o700, exist_ok=True)
