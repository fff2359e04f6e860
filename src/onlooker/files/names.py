"""What files and marks are called, and words that can stand in one line of Markdown."""

from __future__ import annotations

import datetime as dt
import hashlib
import re

from onlooker.domain.messages import DEFAULT_OWNER

MEMORY_FILE = "MEMORY.md"
DAILY, ARCHIVE, KEPT = "daily", "archive", "kept"

_UNSAFE = re.compile(r"[^a-z0-9]+")
_TAIL = re.compile(r"_([0-9a-f]{12})$")
_DAY_FILE = re.compile(r"(\d{4}-\d\d-\d\d)(?:-\d{1,4})?\.md")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_MOST_NAME = 60


def folder_name(owner: str) -> str:
    """The folder of an owner. The hash tells owners apart; what can be read of the name is for people."""
    digest = hashlib.blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    readable = _UNSAFE.sub("-", owner.lower())[:40].strip("-")
    return f"{readable}-{digest}" if readable else digest


def mark_of(ident: str) -> str:
    """The short mark of an item in its line: the end of its id, or a hash of an id of another form."""
    found = _TAIL.search(ident)
    if found:
        return found[1]
    return hashlib.blake2b(ident.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def day_file(day: dt.date) -> str:
    return f"{day.isoformat()}.md"


def day_of(name: str) -> dt.date | None:
    """The day of a daily file, or of one in the archive; None for files of other names."""
    found = _DAY_FILE.fullmatch(name)
    try:
        return dt.date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def one_line(text: str) -> str:
    """Words that stand in one line and cannot be taken for a comment or a mark of ours."""
    text = text.encode("utf-8", "replace").decode()
    text = re.sub(r"\s+", " ", _CONTROL.sub(" ", text)).strip()
    return text.replace("<!--", "<! --").replace("-->", "-- >")


def name_of(owner: str) -> str:
    """The owner's name in a heading, where it cannot be more than a name."""
    name = re.sub(r"[\s#<>]+", " ", one_line(owner)).strip()[:_MOST_NAME] or DEFAULT_OWNER
    return "the user" if owner == DEFAULT_OWNER else name


def digest_of(text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()
