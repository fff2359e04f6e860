"""Long jobs: requests that report their progress, and end when their client disconnects.

With `?progress=true`, the answer is JSON lines: `{"done": 1200, "total": 5000}` while the job runs, and then
the result or an error. Closing the connection cancels the job. What it has finished by then stays: imported
sessions, notes, consolidated days. So a job needs no id, and nothing is left over when a client or a server
dies.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from onlooker.domain.errors import OnlookerError

# Called with how much is done, and with the total if it is known.
Report = Callable[[int, int | None], None]
Job = Callable[[Report], Awaitable[BaseModel]]

JSON_LINES = "application/jsonl"
PAUSE = 0.1  # seconds between two lines


async def run_job(job: Job, *, progress: bool) -> Any:
    """Run a job. Answer with its result, or with `progress` in lines."""
    if not progress:
        return await job(lambda done, total: None)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_lines(job), media_type=JSON_LINES, headers=headers)


async def _lines(job: Job) -> AsyncGenerator[bytes]:
    far: dict[str, int | None] = {"done": 0, "total": None}

    def report(done: int, total: int | None) -> None:
        far.update(done=done, total=total)

    running = asyncio.ensure_future(job(report))
    try:
        # The first line is sent at once, so that the client knows that the job has started.
        yield _line(far)
        told = dict(far)
        while not (await asyncio.wait({running}, timeout=PAUSE))[0]:
            if far != told:
                told = dict(far)
                yield _line(far)
        yield _line({"result": (await running).model_dump(mode="json")})
    except OnlookerError as error:
        yield _line({"error": type(error).__name__, "detail": str(error)})
    finally:
        # The client disconnected: this generator is closed.
        running.cancel()
        with suppress(asyncio.CancelledError, OnlookerError):
            await running


def _line(value: dict[str, Any]) -> bytes:
    return f"{json.dumps(value)}\n".encode()
