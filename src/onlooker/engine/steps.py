"""What a step is about, for whoever listens."""

from __future__ import annotations

from onlooker.domain.events import Planned
from onlooker.domain.messages import SessionId
from onlooker.policy.plan import Activate, Observe, Reflect, Rewrite, Step


def planned(session: SessionId, step: Step) -> Planned | None:
    """The event that says that the step begins; None where there is nothing to do."""
    match step:
        case Activate(notes=notes):
            return Planned(session, "activate", sum(n.tokens for n in notes))
        case Observe(messages=messages):
            return Planned(session, "observe", sum(m.tokens for m in messages))
        case Reflect(notes=notes):
            return Planned(session, "reflect", sum(n.tokens for n in notes))
        case Rewrite(note=note):
            return Planned(session, "rewrite", note.tokens)
        case _:
            return None
