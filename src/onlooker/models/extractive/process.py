"""The built-in model in a process of its own.

A note takes as much of the interpreter as ten turns, and however often it gives way, turns that need the
interpreter at that moment wait for it. A server, which many agents wait for, has its notes written beside it.

The process reads requests from its standard input, so it ends when the one that started it does, however
that ends. It reads and writes nothing else: notes are stored where they always are.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from onlooker.domain.errors import ModelError
from onlooker.models.extractive import ExtractiveModel
from onlooker.policy.pace import paced
from onlooker.ports import Reply, Request

log = logging.getLogger("onlooker")

CLOSED = "the note was not written: the memory was closed"

# The path is ours, so that the module is found wherever this process found it.
_RUN = "import sys; sys.path[:] = {path!r}; from onlooker.models.extractive.process import serve; serve()"


class ExtractiveProcess(ExtractiveModel):
    """Writes as `ExtractiveModel` does, one note at a time. If the process ends, the note is written in a
    thread, and the next one starts a new process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: ThreadPoolExecutor | None = None  # one that waits for the process
        self._closing = False
        self._starting = Lock()  # one that is being started is not overlooked when all are to end

    async def write(self, request: Request) -> Reply:
        """Have the process write the note."""
        if self._thread is None:
            self._closing = False
            self._thread = ThreadPoolExecutor(1, "onlooker-notes")
        return Reply(await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, request))

    def _ask(self, request: Request) -> str:
        try:
            with self._starting:
                if self._closing:
                    raise ModelError(CLOSED)
                self._process = process = self._process or _start()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(pickle.dumps(request))
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (OSError, EOFError, pickle.PickleError) as error:
            self._end()
            if self._closing:
                raise ModelError(CLOSED) from error
            log.warning("the process that writes notes has ended, and is started again: %r", error)
            return paced(self.compose, request)

    def close(self) -> None:
        """End the process, and the note in progress with it."""
        with self._starting:
            self._closing = True
            if self._process is not None:
                self._process.kill()
        if self._thread is not None:
            self._thread.submit(self._end)
            self._thread.shutdown()
            self._thread = None

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _RUN.format(path=sys.path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def serve() -> None:
    """Write notes until standard input ends."""
    # Ctrl-C and service managers signal every process at once. The process that started this one decides
    # what is still to be written.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    sys.stdout = sys.stderr
    model = ExtractiveModel()
    while True:
        try:
            request: Request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(model.compose(request), answers)
        answers.flush()
