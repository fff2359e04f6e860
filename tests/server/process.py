"""A server of its own, started as a user starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Server:
    process: subprocess.Popen[str]
    url: str
    printed: list[str]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def started(
    db: Path | str, *options: str, folder: Path | None = None, **environment: str
) -> Generator[Server]:
    """`onlooker serve` on a free port, ready for requests, in the folder of its file or another one. Without
    a database, the environment names one."""
    arguments = [sys.executable, "-m", "onlooker", "serve", *(["--db", str(db)] if db else []), *options]
    if "--port" not in options:
        arguments += ["--port", "0"]
    process = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder or Path(db).parent,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        printed = list[str]()
        while not printed or "readyz" not in printed[-1]:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            printed.append(line.rstrip())
        yield Server(process, printed[0].split()[-1], printed)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
