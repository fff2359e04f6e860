"""The database of a transaction: its named statements, the rows of domain objects, and the migrations of its
schema.

Statements are in .sql files: those that all databases share in `stores/sql/queries`, the others in the
package of each database, under the same names. Parameters are written `:name`, lists of values as `SELECT
value FROM json_each(:name)`, and the empty blob as `x''`, which is SQLite's syntax; another database
translates that once, when the statements are loaded.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, get_type_hints

from onlooker.domain.errors import StoreError
from onlooker.domain.history import Change, Version
from onlooker.domain.items import Item
from onlooker.domain.messages import Message, SessionId, ToolCall
from onlooker.domain.notes import Extraction, Note, Progress, Usage

T = TypeVar("T")


class Result(Protocol):
    """The result of a statement. Rows are sequences whose columns can also be read by name."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Database(ABC):
    """A connection inside a transaction."""

    @abstractmethod
    def run(self, name: str, /, **values: Any) -> Result:
        """Run the statement of that name."""

    @abstractmethod
    def run_many(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run it once for each row of values."""

    def lock_session(self, session: SessionId) -> None:  # noqa: B027
        """Keep other transactions from changing the session until this one ends. Needed where a transaction
        changes the session without finding it first. A database with one writer at a time does nothing."""

    def lock_owner(self, owner: str) -> None:  # noqa: B027
        """The same for the items of an owner."""

    def tidy_index(self) -> None:  # noqa: B027
        """Join a few of the parts that the index of texts is written in. A search looks into each of them."""

    def value(self, name: str, /, **values: Any) -> Any:
        """The first column of the first row."""
        return self.run(name, **values).fetchone()[0]


# A transaction: what it does with the database, and what it returns.
Job = Callable[[Database], T]


# ------------------------------------------------------------------------------------ statements

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT_LINE = re.compile(r"^\s*--.*\n", re.MULTILINE)


def _folder(package: str) -> Path:
    # `importlib.resources` would do the same, but imports modules for zip files and archives.
    return Path(str(import_module(package).__file__)).parent


@cache
def statements(package: str) -> dict[str, str]:
    """The statements of a database by name: the shared ones, and those of its own package."""
    found: dict[str, str] = {}
    for folder in ("onlooker.stores.sql", package):
        for file in sorted((_folder(folder) / "queries").iterdir()):
            _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
            for name, text in zip(parts[::2], parts[1::2], strict=True):
                if name in found:
                    raise ValueError(f"{package}: the statement {name!r} is there twice")
                found[name] = _COMMENT_LINE.sub("", text).strip().removesuffix(";")
    return found


# ------------------------------------------------------------------------------------ values

# SQL text has no lone surrogates, SQLite's JSON functions end a string at NUL, and PostgreSQL accepts no NUL
# at all. Text that contains either is stored as a mark and its JSON form; all other text as it is, so that it
# can be searched.

# Every seq lies between these. In an SQLite file the messages of two sessions are 2^28 places apart.
FIRST_SEQ, LAST_SEQ = -(2**27), 2**27 - 1

# For `LIMIT`: SQLite takes no NULL there, PostgreSQL no negative number.
NO_LIMIT = 2**62

# A code point that is not a character, so that no text starts with it by chance.
MARK = "\ufdd0"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def pack(text: str) -> str:
    """Text as a database can store it. Different texts stay different."""
    if text.isascii() and "\0" not in text:
        return text
    return text if _is_plain(text) else MARK + json.dumps(text)


def _is_plain(text: str) -> bool:
    if "\0" in text or text[:1] == MARK:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unpack(text: str) -> str:
    """The inverse of `pack`."""
    return json.loads(text[1:]) if text[:1] == MARK else text


def pack_ids(ids: Iterable[str]) -> str:
    """Ids as JSON."""
    return json.dumps([pack(i) for i in ids], ensure_ascii=False)


def unpack_ids(text: str) -> tuple[str, ...]:
    """The inverse of `pack_ids`. A load reads hundreds, and hardly ever a packed one."""
    ids = json.loads(text)
    return tuple(map(unpack, ids) if MARK in text else ids)


def instant(at: datetime) -> int:
    """Microseconds since 1970 in UTC: a time that can be compared in SQL."""
    return (at - EPOCH) // _MICROSECOND


def instant_of_text(at: str | None) -> int | None:
    """The same for an ISO date; an SQL function."""
    if at is None:
        return None
    time = datetime.fromisoformat(at)
    return instant(time if time.tzinfo else time.replace(tzinfo=UTC))


def from_instant(instant: int) -> datetime:
    return EPOCH + instant * _MICROSECOND


def clamp(seq: int) -> int:
    """The nearest seq that a message can have."""
    return min(max(seq, FIRST_SEQ), LAST_SEQ)


def limit_of(count: int | None) -> int:
    """A count for `LIMIT`; None means no limit."""
    return NO_LIMIT if count is None else max(count, 0)


def sid_of(session: SessionId) -> bytes:
    return bytes.fromhex(session.sid)


# ------------------------------------------------------------------------------------ rows by fields


def _time_text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _text_time(at: str | None) -> datetime | None:
    return None if at is None else datetime.fromisoformat(at)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(json.loads(text))


# How a field of a type is written to a column and read from it. Other types are stored as they are.
_CODECS: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    str: (pack, unpack),
    bool: (int, bool),
    datetime: (datetime.isoformat, datetime.fromisoformat),
    datetime | None: (_time_text, _text_time),
    tuple[str, ...]: (pack_ids, unpack_ids),
    tuple[int, ...]: (json.dumps, _numbers),
}


def _same(value: Any) -> Any:
    return value


@cache
def _columns(kind: type[Any]) -> dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
    hints = get_type_hints(kind)
    return {f.name: _CODECS.get(hints[f.name], (_same, _same)) for f in fields(kind)}


def values_of(thing: Any) -> dict[str, Any]:
    """The values of a dataclass's fields, for columns of the same names."""
    return {name: write(getattr(thing, name)) for name, (write, _) in _columns(thing.__class__).items()}


def from_row(kind: type[T], row: Any, **given: Any) -> T:
    """A dataclass from a row with columns of the same names, except for the fields that are given."""
    read = {name: codec[1](row[name]) for name, codec in _columns(kind).items() if name not in given}
    return kind(**read, **given)


def item_values(owner: str, item: Item) -> dict[str, Any]:
    """The values of `add_item`. An item belongs to the owner whose change it is in."""
    return values_of(replace(item, owner=owner)) | {
        "ranked_at": instant(item.last_used_at or item.made_at),
        "sid": sid_of(SessionId(owner, item.session)) if item.session else b"",
    }


def to_item(row: Any) -> Item:
    return from_row(Item, row)


def usage_values(sid: bytes, owner: str, usage: Usage) -> dict[str, Any]:
    """The values of `record_usage`."""
    return values_of(usage) | {"sid": sid, "owner": pack(owner), "spent_at": instant(usage.at)}


def to_usage(row: Any) -> Usage:
    return from_row(Usage, row)


def extraction_values(sid: bytes, number: int, extraction: Extraction) -> dict[str, Any]:
    """The values of `add_extraction`."""
    return values_of(extraction) | {"sid": sid, "number": number}


def to_extraction(row: Any, session: SessionId) -> Extraction:
    return from_row(Extraction, row, session=session)


def version_values(sid: bytes, version: Version) -> dict[str, Any]:
    """The values of `add_version`."""
    return values_of(version) | {"sid": sid, "author": pack(version.by)}


def to_version(row: Any) -> Version:
    return from_row(Version, row, by=unpack(row["author"]))


def change_values(sid: bytes, change: Change) -> dict[str, Any]:
    """The values of `add_change`."""
    kept, taken = change.taken or (None, None)
    statuses = json.dumps([[pack(note), status] for note, status in change.statuses], ensure_ascii=False)
    return values_of(change) | {"sid": sid, "statuses": statuses, "kept": kept, "taken": taken}


def to_change(row: Any) -> Change:
    statuses = tuple((unpack(note), status) for note, status in json.loads(row["statuses"]))
    taken = None if row["kept"] is None else (row["kept"], row["taken"])
    return from_row(Change, row, statuses=statuses, taken=taken)


# ------------------------------------------------------------------------------------ messages


def message_values(sid: bytes, message: Message, digest: bytes, *, summary: bool = False) -> dict[str, Any]:
    """The values of `add_message`."""
    return {
        "sid": sid,
        "seq": message.seq,
        "id": pack(message.id),
        "role": message.role,
        "tokens": message.tokens,
        "at": message.at.isoformat() if message.at else None,
        "digest": digest,
        "is_summary": int(summary),
        "name": pack(message.name),
        "extra": _extra(message),
        "text": pack(message.text),
    }


def _extra(message: Message) -> str | None:
    if not (message.calls or message.answers or message.attachments):
        return None
    calls = [[c.id, c.name, c.arguments] for c in message.calls]
    return pack(json.dumps([calls, message.answers, message.attachments], ensure_ascii=False))


def to_message(row: Sequence[Any]) -> Message:
    """From (seq, id, role, tokens, at, name, extra, text, …)."""
    seq, ident, role, tokens, at, name, extra, text, *_ = row
    calls: tuple[ToolCall, ...] = ()
    answers, attachments = "", ()
    if extra is not None:
        raw_calls, answers, raw_attachments = json.loads(unpack(extra))
        calls = tuple(ToolCall(*call) for call in raw_calls)
        attachments = tuple(raw_attachments)
    said_at = None if at is None else datetime.fromisoformat(at)
    # Positional arguments are faster than keywords, and a load makes dozens of messages.
    return Message(
        role, unpack(text), unpack(ident), said_at, unpack(name), calls, answers, attachments, seq, tokens
    )


# ------------------------------------------------------------------------------------ notes


def note_values(sid: bytes, note: Note) -> dict[str, Any]:
    """The values of `add_note`."""
    return values_of(note) | {"sid": sid}


def to_note(row: Sequence[Any]) -> Note:
    """From (id, generation, first_seq, …, text). Faster than `from_row`: a load makes dozens."""
    ident, generation, first, last, status, tokens, made_at, model, degraded, sources, text = row
    return Note(
        id=unpack(ident),
        generation=generation,
        first=first,
        last=last,
        text=unpack(text),
        tokens=tokens,
        made_at=datetime.fromisoformat(made_at),
        sources=unpack_ids(sources),
        status=status,
        model=unpack(model),
        degraded=bool(degraded),
    )


# ------------------------------------------------------------------------------------ sessions


def to_session(row: Any) -> SessionId:
    return SessionId(unpack(row["owner"]), unpack(row["key"]))


# The columns of `Progress`, in the order of its fields.
# fmt: off
_MARKS = (
    "last_seq", "frontier", "watermark", "tail_start", "unnoted_tokens", "revision", "prompt_version",
    "budget", "history_hash", "due_at", "wake_at", "failures", "ended_seq",
)
# fmt: on


def to_progress(row: Any, session: SessionId | None = None) -> Progress:
    return progress_of(session or to_session(row), [row[name] for name in _MARKS])


def progress_of(session: SessionId, marks: Sequence[Any]) -> Progress:
    """From (last_seq, …, ended_seq), in the order of `Progress`."""
    last_seq, frontier, watermark, tail_start, unnoted, revision, prompt_version, budget, *rest = marks
    history_hash, due_at, wake_at, failures, ended = rest
    due = None if due_at is None else from_instant(due_at)
    # fmt: off
    return Progress(
        session, last_seq, frontier, watermark, tail_start, unnoted, revision, prompt_version, budget,
        history_hash, due, wake_at, failures, ended,
    )
    # fmt: on


def progress_values(progress: Progress) -> Mapping[str, Any]:
    """Its fields by column name, except for the session."""
    due_at = None if progress.due_at is None else instant(progress.due_at)
    return {name: getattr(progress, name) for name in _FIELDS} | {"due_at": due_at}


_FIELDS = tuple(f.name for f in fields(Progress) if f.name not in ("session", "due_at"))


# ------------------------------------------------------------------------------------ migrations

# Several versions of the program may use one database while processes are upgraded one after another. The
# version of a database is the number of the last migration that has run; the version that a program knows is
# the number of the last migration that it contains. Each migration declares the lowest version that a program
# must know to work with the database afterwards. The database stores that in its table `migrations`, and an
# older program refuses to open it.

_WORKS_WITH = re.compile(r"^-- works with: (\d+)$", re.MULTILINE)
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
# Statements that an older program does not notice. Triggers and unique indexes affect what such a program
# writes, so a migration that adds one has to declare what it works with.
_ADDS = re.compile(
    r"CREATE TABLE|CREATE INDEX|ALTER TABLE \w+ ADD COLUMN (?!.*\bNOT NULL\b)", re.IGNORECASE | re.DOTALL
)


class Migration(NamedTuple):
    """A step from one version of the schema to the next."""

    number: int
    works_with: int  # the lowest version that a program must know once this has run
    script: str


@cache
def migrations(package: str) -> list[Migration]:
    """The migrations of a database, in order."""
    scripts = sorted((_folder(package) / "migrations").glob("*.sql"))
    return [migration(int(f.name[:4]), f.read_text(encoding="utf-8")) for f in scripts]


def migration(number: int, script: str) -> Migration:
    """A migration by its text.

    It works with the version named in a line `-- works with: N`; without such a line, with the version before
    it if it only adds things, else with no earlier one.
    """
    named = _WORKS_WITH.search(script)
    works_with = int(named[1]) if named else number - only_adds(script)
    return Migration(number, works_with, script)


def only_adds(script: str) -> bool:
    """Whether every statement adds a table, an index or an optional column."""
    statements = [s.strip() for s in _COMMENT.sub("", script).split(";")]
    return all(_ADDS.match(s) for s in statements if s)


def refuse_newer(where: object, ran: Iterable[tuple[int, int]], known: int) -> None:
    """Check that a program that knows the version `known` can work with a database.

    Args:
        where: The database, for the error message.
        ran: Number and `works_with` of the migrations that have run.
        known: The last migration that this program contains.

    Raises:
        StoreError: A migration has run that needs a newer program.
    """
    newer = [step for step in ran if step[0] > known]
    needed = max((works_with for _, works_with in newer), default=0)
    if needed > known:
        raise StoreError(
            f"{where}: was upgraded by a newer version of onlooker (to schema version {max(newer)[0]}, which "
            f"needs a program that knows version {needed}; this one knows {known}); upgrade onlooker and "
            "start again"
        )


def refuse_older(where: str, version: int, known: int) -> None:
    """Check that a database that is only read has the current schema, since reading does not upgrade it.

    Raises:
        StoreError: It has an older one.
    """
    if version < known:
        raise StoreError(
            f"{where}: has the schema of an earlier version of onlooker ({version}; this one reads {known}), "
            "and reading does not upgrade it; open it once with this version (`onlooker sessions --db …`), "
            "or upgrade a copy"
        )


# For a program that was running while the database was upgraded beyond it.
OUTGROWN = (
    "the schema is not the one that this version of onlooker knows; if a newer version has upgraded it, "
    "upgrade onlooker and start again"
)


def failed(where: object, migration: Migration, error: Exception) -> StoreError:
    """The error for a migration that failed."""
    return StoreError(
        f"{where}: migration {migration.number} failed and nothing was changed; the previous version still "
        f"works; fix the cause and open the store again ({str(error).splitlines()[0]})"
    )
