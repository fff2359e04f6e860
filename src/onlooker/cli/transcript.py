"""Reading a conversation from a file: an OpenAI message per line."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from onlooker.cli.surface import NOT_THERE, Stop
from onlooker.domain.errors import MessageError
from onlooker.domain.messages import GIVEN_ID_PREFIX, Message
from onlooker.policy.intake import intake


def read_transcript(file: str) -> list[Message]:
    """The messages of a file, or of standard input for "-": all of them, or an error that says where.

    A message without a time was said when the one before it was; one without an id gets one that is
    the same each time the file is read.
    """
    name = "standard input" if file == "-" else file
    messages: list[Message] = []
    seen: Counter[bytes] = Counter()
    at = datetime.now(UTC)
    for number, line in enumerate(_lines(file), 1):
        if not line.strip():
            continue
        try:
            read = intake(json.loads(line), at=messages[-1].at or at if messages else at, tz=UTC)
        except (ValueError, RecursionError, MessageError) as error:
            raise Stop(f"{name}, line {number}: {_reason(error)}", NOT_THERE) from error
        messages.extend(_with_id(m, seen) for m in read)
    return messages


def _lines(file: str) -> list[str]:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise Stop(f"{file}: {error.strerror or error}", NOT_THERE) from error
    # Not splitlines: JSON may hold other line ends than this one inside its strings.
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    try:
        return [line.decode() for line in lines]
    except UnicodeDecodeError as error:
        number = next(n for n, line in enumerate(lines, 1) if not _is_utf8(line))
        raise Stop(f"{file}, line {number}: not UTF-8: {error.reason}", NOT_THERE) from error


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at character {error.pos + 1}"
    return str(error)


def _with_id(message: Message, seen: Counter[bytes]) -> Message:
    if message.id:
        return message
    digest = message.digest
    seen[digest] += 1
    return replace(message, id=f"{GIVEN_ID_PREFIX}{digest.hex()}_{seen[digest]}")
