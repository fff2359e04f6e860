"""`onlooker hook EVENT`: what Claude Code and Codex call when something happens in a session.

A hook must cost little and never fail: nothing heavy is imported before it is needed, every failure is a line
in a log, and the exit code is 0.

The agent's own transcript is the queue. An event that returns nothing only adds a job and starts a detached
process, which records the transcript and takes notes. So no process runs all the time, and the agent does not
wait. An event that returns a context first records the jobs of its project, so that the context includes what
another session said a moment ago.

    Job, Jobs         the transcripts that have new messages, and how far each was read
    read_transcript   the new messages in a transcript
    take_notes        what the detached process does
    answer            the context for an event
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

if TYPE_CHECKING:
    from onlooker.engine.memory import Memory
    from onlooker.engine.session import Session
    from onlooker.policy.settings import Settings

EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd")
# These return a context. If `Stop` returned one, the agent would start another round.
ANSWERED = ("SessionStart", "UserPromptSubmit")
AGENTS = ("claude", "codex")
# The detached process runs this. It does the work that the events leave to it.
NOTES = "notes"

# How many seconds an agent waits at most, and how many the detached process may take.
DEADLINE = 10.0
NOTES_DEADLINE = 600.0
# The part of the deadline for the context itself; the rest is for starting and stopping.
ANSWER_SHARE = 0.8
# While an agent waits, transcripts with more unread bytes than this are skipped.
MAX_READ = 2_000_000
# How many seconds to wait until the agent has written its answer to the transcript.
FLUSH_SECONDS = 3.0


# ------------------------------------------------------------------------------------ the process


class Options(NamedTuple):
    """The options of a hook."""

    agent: str = "claude"
    db: str = ""
    owner: str = ""
    config: str = ""
    key_file: str = ""
    deadline: float = DEADLINE
    debug: bool = False

    def arguments(self) -> list[str]:
        """Return the options as command-line arguments."""
        given = self._asdict() | {"debug": ""}
        given["deadline"] = f"{self.deadline:g}" if self.deadline != DEADLINE else ""
        return [word for k, value in given.items() if value for word in (f"--{k.replace('_', '-')}", value)]


def is_hook_call(arguments: Sequence[str]) -> bool:
    """Whether an agent is calling: not `hook install`, not `--help`, not a typing error.

    Unknown events count too, because an agent takes exit code 2 as an order to stop.
    """
    if arguments[:1] != ["hook"] or len(arguments) < 2 or "--help" in arguments:
        return False
    return arguments[1] == NOTES or arguments[1][:1].isupper()


def run_process(arguments: Sequence[str]) -> NoReturn:
    """Run a hook and exit with 0, whatever happens."""
    out = ""
    if arguments[0] != NOTES:
        gc.disable()  # collecting garbage would take a tenth of the time and free nothing
    try:
        options = parse(arguments[1:])
        _exit_after(NOTES_DEADLINE if arguments[0] == NOTES else options.deadline, arguments[0])
        out = run(arguments[0], options, sys.stdin)
    except BaseException as error:  # noqa: BLE001  nothing may reach the agent
        log(arguments[0], error, debug="--debug" in arguments)
    with suppress(OSError, ValueError):
        # Not print: what cannot be written must not change the exit code.
        os.write(1, out.encode())
    os._exit(0)


def parse(arguments: Sequence[str]) -> Options:
    """Parse the options. Unknown ones are ignored."""
    found: dict[str, Any] = {}
    words = iter(arguments)
    for word in words:
        name, given, value = word.removeprefix("--").replace("-", "_", 1).partition("=")
        if name in Options._fields and word.startswith("--"):
            found[name] = True if name == "debug" else value if given else next(words, "")
    if "deadline" in found:
        found["deadline"] = float(found["deadline"])
    return Options(**found)


def run(event: str, options: Options, stdin: Any) -> str:
    """Run an event and return what the hook prints."""
    os.makedirs(home(), mode=0o700, exist_ok=True)
    options = options._replace(db=_database(options), config=_config(options))
    if event == NOTES:
        import asyncio

        asyncio.run(take_notes(options))
        return ""
    if event not in EVENTS:
        return ""
    given: object = json.loads(stdin.read())
    job = Job.from_event(cast("dict[str, Any]", given) if isinstance(given, dict) else {}, event, options)
    jobs = Jobs()
    if event not in ANSWERED:
        jobs.add(job)
        _start_notes(options)
        return ""
    is_new = not os.path.exists(options.db) and "://" not in options.db
    if is_new and not jobs.due(job.db, job.owner) and not jobs.unread(job):
        return ""  # nothing was ever recorded
    asked = cast("dict[str, Any]", given)
    claim = jobs.claim(event, job, str(asked.get("prompt") or asked.get("source") or ""))
    if not claim:
        return ""
    import asyncio

    try:
        found = asyncio.run(answer(event, job, asked, options))
    except BaseException:
        jobs.delete([claim])
        raise
    if not found:
        return ""
    shown = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": found}}
    return json.dumps(shown, ensure_ascii=False) + "\n"


def _exit_after(seconds: float, event: str) -> None:
    """Exit after this time, whatever the process is waiting for."""
    import threading

    def give_up() -> None:
        log(event, TimeoutError(f"took longer than {seconds:g} seconds"))
        os._exit(0)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()


def _start_notes(options: Options) -> None:
    """Start the detached process, which records and takes notes. It outlives the agent."""
    import subprocess

    subprocess.Popen(
        [sys.executable, "-m", "onlooker", "hook", NOTES, *options.arguments()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=home(),
        start_new_session=True,
        creationflags=getattr(subprocess, "DETACHED_PROCESS", 0),
    ).returncode = 0  # silences Python's warning that nobody waits for it


# ------------------------------------------------------------------------------------ places


def home() -> str:
    """The folder that the hooks of this user share."""
    return os.path.join(os.path.expanduser("~"), ".onlooker")


def _database(options: Options) -> str:
    # Not one in the current folder: hooks run in whatever folder the agent works in.
    return options.db or os.environ.get("ONLOOKER_DB") or os.path.join(home(), "memory.db")


def _config(options: Options) -> str:
    # Nor settings in the current folder: the author of the project could choose where sessions are sent.
    own = os.path.join(home(), "onlooker.toml")
    return options.config or os.environ.get("ONLOOKER_CONFIG") or (own if os.path.exists(own) else "")


def project_of(folder: str) -> str:
    """The project that a folder belongs to: the nearest parent with a repository, or else the folder."""
    start = at = os.path.realpath(folder)
    while not os.path.exists(os.path.join(at, ".git")):
        at, below = os.path.dirname(at), at
        if at == below:
            return start
    return at


LOG = "hook.log"
MAX_LOG = 64_000


def failures() -> list[str]:
    """The lines of the log, oldest first."""
    try:
        with open(os.path.join(home(), LOG), encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def log(event: str, error: BaseException, *, debug: bool = False) -> None:
    """Add a failure to the log, as one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    if debug:
        print(f"onlooker hook {event}: {text}", file=sys.stderr)
    with suppress(OSError):
        os.makedirs(home(), mode=0o700, exist_ok=True)
        path = os.path.join(home(), LOG)
        if os.path.exists(path) and os.path.getsize(path) > MAX_LOG:
            os.replace(path, f"{path}.1")
        with open(path, "a", encoding="utf-8", opener=_private) as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {event}: {text}\n")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


# ------------------------------------------------------------------------------------ jobs


class Job(NamedTuple):
    """A transcript with new messages, and the session that they go to."""

    agent: str
    session: str
    transcript: str
    owner: str
    db: str
    ends: bool = False
    # The hash of the agent's last answer, which the transcript must have; "" if the event has none.
    last_answer: str = ""

    @classmethod
    def from_event(cls, given: Mapping[str, Any], event: str, options: Options) -> Job:
        """Make the job of an event."""
        answer = str(given.get("last_assistant_message") or "")
        folder = os.environ.get("CLAUDE_PROJECT_DIR") or str(given.get("cwd") or os.getcwd())
        return cls(
            options.agent,
            str(given["session_id"]),
            str(given.get("transcript_path") or ""),
            options.owner or project_of(folder),
            options.db,
            event == "SessionEnd",
            digest(answer) if answer.strip() else "",
        )

    @property
    def key(self) -> str:
        """The key of its session in the memory."""
        return f"{self.agent}:{self.session}"


def digest(text: str) -> str:
    """Hash a text, so that its words are nowhere but in the agent's transcript and in the memory."""
    return blake2b(text.strip().encode("utf-8", "replace"), digest_size=16).hexdigest()


class Jobs:
    """The jobs of this user, a file each, and how far each transcript was read.

    A job is deleted after its notes are taken, so a process that is killed loses nothing. Two processes may
    do the same job: a message is recorded only once.
    """

    # How long the position in a transcript that no longer grows is kept.
    KEPT_SECONDS = 90 * 86_400

    def __init__(self) -> None:
        own = os.path.join(home(), "hooks")
        self._due = os.path.join(own, "due")
        self._read = os.path.join(own, "read")
        self._claims = os.path.join(own, "claims")
        for folder in (own, self._due, self._read, self._claims):
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def add(self, job: Job) -> None:
        name = f"{time.time_ns()}-{os.getpid()}"
        path = os.path.join(self._due, name)
        with open(f"{path}.part", "x", encoding="utf-8", opener=_private) as file:
            json.dump(job, file)
        os.replace(f"{path}.part", f"{path}.json")

    def due(self, db: str, owner: str = "") -> dict[str, Job]:
        """The jobs of a database, or of one owner in it, by file, oldest first."""
        found: dict[str, Job] = {}
        for name in sorted(os.listdir(self._due)):
            path = os.path.join(self._due, name)
            if not name.endswith(".json"):
                continue
            try:
                with open(path, encoding="utf-8") as file:
                    job = Job(*json.load(file))
            except FileNotFoundError:
                continue  # another process has finished it
            except (OSError, ValueError, TypeError) as error:
                log("due", error)
                self.delete([path])
                continue
            if job.db == db and owner in ("", job.owner):
                found[path] = job
        return found

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            with suppress(OSError):
                os.unlink(path)

    # -- positions

    def position(self, job: Job) -> int:
        """How many bytes of the transcript were read. They are never read again: their content may have been
        forgotten since."""
        with suppress(OSError, ValueError), open(self._position(job), encoding="utf-8") as file:
            return int(file.read())
        return 0

    def unread(self, job: Job) -> int:
        """How many bytes of the transcript are still unread."""
        try:
            return os.path.getsize(job.transcript) - self.position(job)
        except OSError:
            return 0

    def set_position(self, job: Job, position: int) -> None:
        path = self._position(job)
        part = f"{path}.{os.getpid()}"
        with open(part, "w", encoding="utf-8", opener=_private) as file:
            file.write(str(position))
        os.replace(part, path)

    def prune(self) -> None:
        """Delete old positions and claims."""
        for folder, kept in ((self._read, self.KEPT_SECONDS), (self._claims, DEADLINE)):
            for entry in os.scandir(folder):
                with suppress(OSError):
                    if time.time() - entry.stat().st_mtime > kept:
                        os.unlink(entry.path)

    # -- claims

    def claim(self, event: str, job: Job, asked: str) -> str:
        """Claim an event and return the file of the claim; empty if another process has claimed it.

        An agent with our hooks in its user settings and in its project settings runs both, and would
        otherwise receive everything twice.
        """
        size = str(self.unread(job) + self.position(job))
        path = os.path.join(self._claims, digest("\0".join((event, job.db, job.owner, job.key, size, asked))))
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            with suppress(OSError):
                if time.time() - os.path.getmtime(path) < DEADLINE:
                    return ""
                os.utime(path)
        return path

    def _position(self, job: Job) -> str:
        return os.path.join(self._read, digest("\0".join((job.db, job.owner, job.key, job.transcript))))


# ------------------------------------------------------------------------------------ transcripts


class Transcript(NamedTuple):
    """The messages read from a transcript, where to continue, and the hash of the last answer."""

    messages: list[dict[str, Any]]
    position: int
    last_answer: str = ""


# Longer lines hold images and the like.
MAX_LINE = 4_000_000


def read_transcript(path: str, position: int) -> Transcript:
    """Read the messages after a position. A line that is still being written is left for later."""
    from onlooker.integrations.coding_agents import message_in, text_of

    messages: list[dict[str, Any]] = []
    last = ""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < position:
            position = 0  # the file was replaced
        file.seek(position)
        while (line := file.readline()).endswith(b"\n"):
            start, position = position, position + len(line)
            if len(line) > MAX_LINE:
                continue
            try:
                found: object = json.loads(line)
            except (ValueError, RecursionError):
                continue
            message = message_in(cast("dict[str, Any]", found), start) if isinstance(found, dict) else None
            if message is None:
                continue
            messages.append(message)
            if message["role"] == "assistant" and (text := text_of(message.get("content"))):
                last = digest(text)
    return Transcript(messages, position, last)


def was_compacted(path: str) -> bool:
    """Whether the agent has replaced the start of the conversation with a summary."""
    with suppress(OSError), open(path, "rb") as file:
        return any(b'"compact_boundary"' in line or b'"type":"compacted"' in line for line in file)
    return False


# ------------------------------------------------------------------------------------ recording


async def record_due(memory: Memory, jobs: Jobs, due: Mapping[str, Job], *, wait: bool) -> dict[str, Job]:
    """Record the new messages of transcripts, and return the jobs that succeeded, by file.

    With `wait`, wait for answers that are still being written. Without it an agent is waiting, so long
    transcripts are skipped.
    """
    done: dict[str, Job] = {}
    for path, job in due.items():
        if not wait and jobs.unread(job) > MAX_READ:
            continue
        try:
            await _record(memory, jobs, job, wait=wait)
        except FileNotFoundError:
            pass  # a session in which nothing was said has no transcript
        except Exception as error:  # noqa: BLE001  the other transcripts are still recorded
            log(f"{job.agent} {job.session}", error)
            continue
        done[path] = job
    return done


async def _record(memory: Memory, jobs: Jobs, job: Job, *, wait: bool) -> None:
    import asyncio

    session = memory.session(job.key, owner=job.owner)
    until = time.monotonic() + (FLUSH_SECONDS if wait and job.last_answer else 0.0)
    while True:
        before = jobs.position(job)
        found = read_transcript(job.transcript, before)
        if found.messages:
            await _record_all(session, found.messages)
        if found.position != before:
            jobs.set_position(job, found.position)
        if (
            time.monotonic() >= until
            or found.last_answer == job.last_answer
            or await _has_answer(session, job)
        ):
            return
        await asyncio.sleep(0.1)


async def _record_all(session: Session, messages: Sequence[dict[str, Any]]) -> None:
    from onlooker.domain.errors import MessageError

    try:
        await session.record(messages)
    except MessageError:
        # One malformed message must not keep the others out.
        for message in messages:
            try:
                await session.record([message])
            except MessageError as error:
                log(f"{session.key} {message.get('id')}", error)


async def _has_answer(session: Session, job: Job) -> bool:
    """Whether the last answer is recorded."""
    newest = [m for m in (await session.messages())[-20:] if m.role == "assistant"]
    return any(digest(m.text) == job.last_answer for m in newest)


async def take_notes(options: Options) -> None:
    """Record the jobs, take the notes that are due, and make items of sessions that ended."""
    import asyncio
    from datetime import timedelta

    with suppress(OSError, AttributeError):
        if os.getsid(0) == os.getpid():  # started by a hook: the agent and its compilers come first
            os.nice(10)
    jobs = Jobs()
    settings = _settings(options)
    due = jobs.due(options.db)
    # The last job of a session includes those before it.
    last = {job.key: path for path, job in due.items()}
    jobs.delete([path for path in due if path not in last.values()])
    due = {path: due[path] for path in last.values()}
    if not due or not settings.enabled:
        jobs.delete(list(due))
        return
    async with asyncio.timeout(NOTES_DEADLINE - 10), _open(settings, options, external=False) as memory:
        done = await record_due(memory, jobs, due, wait=True)
        for job in done.values():
            session = memory.session(job.key, owner=job.owner)
            await session.settle()
            # The built-in model makes items after every answer. A language model costs money, so it does at
            # the end, or after a while without messages: an agent that is killed sends no SessionEnd.
            if job.ends or not settings.model:
                await session.end()
        jobs.delete(list(done))
        if settings.idle_minutes:
            await memory.background.end_idle(idle=timedelta(minutes=settings.idle_minutes))
    jobs.prune()


def _settings(options: Options) -> Settings:
    from pathlib import Path

    from onlooker.policy.settings import preset

    if not options.config:
        return preset("default")
    from onlooker.policy.config import from_mapping
    from onlooker.wiring import read_settings

    return from_mapping(read_settings(Path(options.config)))


def _open(settings: Settings, options: Options, *, external: bool) -> Memory:
    from dataclasses import replace

    from onlooker.wiring import open_memory

    key = None
    file = options.key_file or os.environ.get("ONLOOKER_KEY_FILE")
    if file or os.environ.get("ONLOOKER_KEY") or os.environ.get("ONLOOKER_KEYRING"):
        from pathlib import Path

        from onlooker.cli.target import key_for, use_key_file

        with use_key_file(Path(file) if file else None):
            key = key_for(options.db)
    if external:
        # No network calls: the agent is waiting.
        settings = replace(settings, model="", reflector_model="", embedder="")
    settings = replace(settings, idle_minutes=0)
    return open_memory(options.db, settings=settings, key=key, workers="external" if external else "embedded")


# ------------------------------------------------------------------------------------ the context


async def answer(event: str, job: Job, given: Mapping[str, Any], options: Options) -> str:
    """Return the context for an event; empty if there is none."""
    import asyncio

    settings = _settings(options)
    if not settings.enabled:
        return ""
    jobs = Jobs()
    due = jobs.due(job.db, job.owner)
    # An answer that the user interrupted ends without an event.
    due = {**due, "": job} if jobs.unread(job) else due
    async with (
        asyncio.timeout(ANSWER_SHARE * options.deadline),
        _open(settings, options, external=True) as memory,
    ):
        await record_due(memory, jobs, due, wait=False)
        return await _context(memory, memory.session(job.key, owner=job.owner), event, job, given)


async def _context(memory: Memory, session: Session, event: str, job: Job, given: Mapping[str, Any]) -> str:
    from onlooker.integrations import coding_agents as agents

    if event == "UserPromptSubmit":
        prompt, compacted = str(given.get("prompt") or ""), was_compacted(job.transcript)
        return agents.with_heading(await agents.recall_for(memory, session, prompt, compacted=compacted))
    past = ""
    source = given.get("source")
    if source == "compact":
        past = await agents.summarize_session(memory, session)
    elif source != "resume":  # an agent that resumes a session has its own context
        past = await agents.summarize_previous(memory, session)
    return agents.with_heading(await agents.list_items(memory, session), past)
