"""How a session's progress changes, and when a change is refused: the same in every store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from onlooker.domain.errors import ConflictError
from onlooker.domain.messages import Message
from onlooker.domain.notes import Commit, Guard, Progress, Realignment


def check_commit(progress: Progress, fence: int, guard: Guard) -> None:
    """Refuse notes that were written for another state of the session."""
    if guard.frontier != progress.frontier:
        raise ConflictError(f"the frontier moved from {guard.frontier} to {progress.frontier}")
    if guard.revision != progress.revision:
        raise ConflictError(f"the revision moved from {guard.revision} to {progress.revision}")
    if guard.fence is not None and guard.fence != fence:
        raise ConflictError(f"the lease moved from fence {guard.fence} to {fence}")


def check_realignment(progress: Progress, change: Realignment) -> None:
    """Refuse a change that was decided on another state of the session."""
    if change.last_seq != progress.last_seq:
        raise ConflictError(f"the last message moved from {change.last_seq} to {progress.last_seq}")
    check_revision(progress, change.revision)


def check_revision(progress: Progress, revision: int | None) -> None:
    """Refuse what was decided before messages were taken back; None asks for no such check."""
    if revision is not None and revision != progress.revision:
        raise ConflictError(f"the revision moved from {revision} to {progress.revision}")


def committed(progress: Progress, change: Commit) -> Progress:
    """Where the session stands after a commit, but for the tokens left to note."""
    return replace(
        progress,
        frontier=progress.frontier if change.frontier is None else change.frontier,
        watermark=progress.watermark if change.watermark is None else change.watermark,
        tail_start=progress.tail_start if change.tail_start is None else change.tail_start,
        prompt_version=progress.prompt_version + change.changes_prompt,
    )


def grown(
    progress: Progress, fresh: Sequence[Message], history_hash: bytes, due_tokens: int, now: datetime
) -> Progress:
    """Where the session stands with these messages after the others."""
    p = progress
    last_seq, unnoted = p.last_seq + len(fresh), p.unnoted_tokens + sum(m.tokens for m in fresh)
    due = now if p.due_at is None and _is_due(unnoted, due_tokens, p.wake_at) else p.due_at
    # By place, which is quicker than `replace`: this runs for every message.
    # fmt: off
    return Progress(
        p.session, last_seq, p.frontier, p.watermark, p.tail_start, unnoted, p.revision, p.prompt_version,
        p.budget, history_hash, due, p.wake_at, p.failures, p.ended,
    )
    # fmt: on


def made_due(progress: Progress, due_tokens: int, now: datetime) -> Progress:
    """Due from now on, where there is enough to do and it was not due before."""
    if progress.due_at is None and _is_due(progress.unnoted_tokens, due_tokens, progress.wake_at):
        return replace(progress, due_at=now)
    return progress


def _is_due(unnoted_tokens: int, due_tokens: int, wake_at: int) -> bool:
    return unnoted_tokens >= min(due_tokens, wake_at)


def released(
    progress: Progress, used_at: datetime, last_seq: int, due_at: datetime | None, wake_at: int, failures: int
) -> Progress:
    """Given back by a worker that saw the session up to `last_seq`.

    What was appended meanwhile could not know the new `wake_at`. Where it reaches it, the session is
    due since then (`used_at`), or nothing would wake it before the next message.
    """
    settled = replace(progress, wake_at=wake_at, failures=failures)
    if due_at is not None or progress.last_seq <= last_seq:
        return replace(settled, due_at=due_at)
    return made_due(settled, wake_at, used_at)
