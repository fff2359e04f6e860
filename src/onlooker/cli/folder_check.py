"""What the doctor looks at in the folder of MEMORY.md and daily notes. Nothing is changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from onlooker.cli.settings_file import load_settings
from onlooker.cli.surface import Stop
from onlooker.domain.errors import SettingsError
from onlooker.engine.folders import Folder, owners_in, read
from onlooker.policy.files.names import digest_of
from onlooker.policy.files.page import damage

# (what was found, what to do about it); no advice where nothing is wrong
Found = tuple[str, str]
MOST_NAMED = 3


def notes_folder(config: Path | None) -> Found | None:
    """What there is to say about the folder; None where there is none in the settings."""
    try:
        named = load_settings(config).notes_folder
    except (SettingsError, Stop):
        return None  # said elsewhere
    if not named:
        return None
    root = Path(named).expanduser()
    if not root.exists():
        return f"{root} is not there yet; it is made at first use", ""
    if not root.is_dir():
        return f"{root} is no folder", "name another folder in notes_folder"
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return f"{root} cannot be read and written", "give this user permission to the folder"
    try:
        return _inside(root)
    except OSError as error:
        return f"{root}: {error}", "give this user permission to the folder and what is in it"


def _inside(root: Path) -> Found:
    folders = [Folder(root, owner) for owner in owners_in(root)]
    open_to_others = [str(path) for path in _all(folders) if _is_open(path)]
    if open_to_others:
        return _named("readable by others", open_to_others), "take the permissions of others away (chmod go=)"
    changed = [folder for folder in folders if _is_changed(folder)]
    damaged = [str(folder.memory) for folder in changed if damage(read(folder.memory) or b"")]
    if damaged:
        return _named("damaged", damaged), "mend the file; else it is written anew, and a copy kept"
    days = sum(len(folder.days()) for folder in folders)
    found = f"{root}: {len(folders)} owners, {days} daily files"
    if changed:
        found += f"; {len(changed)} MEMORY.md changed by hand and not taken in yet"
    return found, ""


def _all(folders: list[Folder]) -> Iterator[Path]:
    for folder in folders:
        yield folder.path
        yield from folder.path.rglob("*")


def _is_open(path: Path) -> bool:
    return os.name == "posix" and bool(stat.S_IMODE(path.lstat().st_mode) & 0o077) and not path.is_symlink()


def _is_changed(folder: Folder) -> bool:
    data = read(folder.memory)
    return data is not None and digest_of(data) != folder.sidecar().memory.digest


def _named(what: str, paths: list[str]) -> str:
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return f"{what}: {', '.join(paths[:MOST_NAMED])}{more}"
