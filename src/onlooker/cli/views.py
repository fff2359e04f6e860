"""Notes and sessions as `--json` prints them. The keys are documented and stay."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onlooker.domain.extractions import Extraction
from onlooker.domain.notes import Note, SessionSummary, State
from onlooker.engine.session import Session
from onlooker.policy.cut import tokens_of


@dataclass(frozen=True, slots=True)
class Positions:
    """Where messages stand in the conversation, counted from 0.

    A message's own number never changes, also where the host took others back, so the two differ
    in a conversation that went another way once.
    """

    seqs: Sequence[int]

    def of(self, note: Note) -> tuple[int, int]:
        """First and last position that the note stands for, inclusive."""
        if not self.seqs:
            return note.first - 1, note.last - 1
        first = bisect_left(self.seqs, note.first)
        return first, max(first, bisect_right(self.seqs, note.last) - 1)


async def positions(session: Session, summary: SessionSummary) -> Positions:
    """The positions in this session; read only where they cannot be computed."""
    if not summary.progress.revision:
        return Positions(())
    return Positions([d.seq for d in await session.core.store.digests(session.id)])


def note_view(note: Note, session: Session, places: Positions) -> dict[str, Any]:
    first, last = places.of(note)
    return {
        "id": note.id,
        "session_key": session.key,
        "owner": session.owner,
        "kind": note.kind,
        "tier": "session",
        "generation": note.generation,
        "content": note.text,
        "token_count": note.tokens,
        "source_start_index": first,
        "source_end_index": last,
        "source_message_range": [first, last + 1],
        "created_at": note.made_at.isoformat(),
        "model": note.model,
        "status": note.status,
        "degraded": note.degraded,
    }


def extraction_view(extraction: Extraction) -> dict[str, Any]:
    return {
        "session_key": extraction.session.key,
        "owner": extraction.session.owner,
        "type": extraction.type,
        "value": extraction.value,
        "note_id": extraction.note,
        "source_seqs": list(extraction.seqs),
        "said_at": extraction.said_at.isoformat(),
        "created_at": extraction.made_at.isoformat(),
    }


def session_view(summary: SessionSummary) -> dict[str, Any]:
    return {
        "session_key": summary.progress.session.key,
        "owner": summary.progress.session.owner,
        "messages": summary.messages,
        "message_tokens": summary.message_tokens,
        "observations": summary.observations,
        "observation_tokens": summary.observation_tokens,
        "reflections": summary.reflections,
        "reflection_tokens": summary.reflection_tokens,
        "started_at": iso(summary.started_at),
        "last_at": iso(summary.last_at),
    }


def status_view(summary: SessionSummary, state: State, spent: float, limit: float) -> dict[str, Any]:
    """A session with where it stands: what is raw, what is due, how much smaller it got, and what its notes
    cost."""
    tail = [m for m in state.messages if m.seq >= state.progress.tail_start]
    standing = sum(n.tokens for n in state.active) + tokens_of(tail)
    return session_view(summary) | {
        "unnoted_tokens": state.progress.unnoted_tokens,
        "buffered": len(state.buffered),
        "buffered_tokens": sum(n.tokens for n in state.buffered),
        "tail_messages": len(tail),
        "tail_tokens": tokens_of(tail),
        "budget": state.progress.budget,
        "compression": round(summary.message_tokens / standing, 2) if standing else 1.0,
        "due_at": iso(state.progress.due_at),
        "failures": state.progress.failures,
        "spent": round(spent, 6),
        "spend_limit": limit or None,
    }


def iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
