"""Put what bears on the turn at the end of its prompt. Nothing that goes wrong here reaches the turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import State
from onlooker.engine.searching import Recall, Recalled, catch_up
from onlooker.policy.assemble import Counting, Layout, PromptRequest, lay_out, select_tail
from onlooker.policy.cut import tokens_of
from onlooker.policy.search.recall import question_of, recall_room, render_recall
from onlooker.policy.settings import Settings
from onlooker.ports import Store

if TYPE_CHECKING:
    from onlooker.engine.meaning import Meaning

log = logging.getLogger("onlooker")

# The longest that a turn may spend on recall: it goes without, rather than wait. Whoever asks a question
# waits for what was not indexed yet.
TURN_SECONDS = 0.5
QUESTION_SECONDS = 10.0
# Of that, what an embedder has for its answer: the words alone must do, rather than nothing.
TURN_MEANING, QUESTION_MEANING = 0.3, 5.0


@dataclass(frozen=True, slots=True)
class Shown:
    """What a prompt shows anyway, and recall need not repeat."""

    messages: Sequence[Message]
    memory: str


@dataclass(frozen=True, slots=True)
class Reminder:
    """Recall for one session's contexts."""

    store: Store
    session: SessionId
    settings: Settings
    counting: Counting
    now: datetime
    meaning: Meaning | None = None

    def reserve(self, frame: PromptRequest) -> PromptRequest:
        """Set recall's share aside before anything else is measured, so that what it finds from turn to turn
        never moves the notes."""
        if not self.settings.recall:
            return frame
        room = self.counting.room(frame, self.settings)
        return replace(frame, kept=recall_room(self.settings, room, asked=False))

    async def remind(
        self, state: State, frame: PromptRequest, layout: Layout
    ) -> tuple[PromptRequest, Layout]:
        """The frame with what was recalled, and the layout that leaves room for it; as they were, where
        there is nothing to ask or something goes wrong."""
        try:
            if frame.question:
                return await self._for_question(state, frame, layout)
            if self.settings.recall and (said := question_of(state.messages)):
                return await self._for_turn(said, state, frame, layout), layout
        except TimeoutError:
            log.warning("%s: recall took too long; the turn goes on without", self.session.key)
        except Exception as error:  # noqa: BLE001  no failure of recall may reach the agent's turn
            log.warning("%s: recall failed; the turn goes on without: %r", self.session.key, error)
        return frame, layout

    async def _for_turn(self, said: str, state: State, frame: PromptRequest, layout: Layout) -> PromptRequest:
        shown, left = self._shown(state, frame, layout)
        found = await self._recalled(said, frame, shown)
        # A newest message that is larger than its room takes of recall's.
        return _with_text(frame, self._text(found, shown, frame.kept + min(left, 0)))

    async def _for_question(
        self, state: State, frame: PromptRequest, layout: Layout
    ) -> tuple[PromptRequest, Layout]:
        """Recall has the larger part, and what it has no use for goes back to notes and messages."""
        whole = layout.bounds.budget + frame.kept
        frame = replace(frame, kept=recall_room(self.settings, whole, asked=True))
        layout = lay_out(state, frame, self.settings, self.counting)
        shown, left = self._shown(state, frame, layout)
        found = await self._recalled(frame.question, frame, shown)
        room = frame.kept + left
        text = self._text(found, shown, room)
        used = self.counting.text(text)
        if used < frame.kept and frame.budget:
            layout = lay_out(state, replace(frame, kept=used), self.settings, self.counting)
            shown, _ = self._shown(state, frame, layout)
            text = self._text(found, shown, room)
            if self.counting.text(text) > used:
                text = self._text(found, shown, used)
        return _with_text(frame, text), layout

    def _shown(self, state: State, frame: PromptRequest, layout: Layout) -> tuple[Shown, int]:
        """What the prompt shows without recall, and the tokens that nothing takes."""
        tail = select_tail(state, layout.room, self.counting, layout.most)
        left = layout.most - tokens_of(tail.messages) if frame.budget else 0
        messages = (*tail.messages, *layout.preface, *state.pinned)
        return Shown(messages, "\n".join(layout.memory.sections.texts())), left

    def _text(self, found: Recalled | None, shown: Shown, room: int) -> str:
        if found is None:
            return ""
        there = {m.id for m in shown.messages}
        worth = {
            (session, seq): value
            for (session, seq), value in found.worth.items()
            if session != self.session or found.around[session, seq].id not in there
        }
        return render_recall(worth, found.around, found.terms, room, self.counting.text)

    async def _recalled(self, question: str, frame: PromptRequest, shown: Shown) -> Recalled | None:
        wide = self.settings.recall_scope == "owner"
        within = QUESTION_MEANING if frame.question else TURN_MEANING
        recall = Recall(self.store, self.session, wide, self.now, self.meaning, within)
        async with asyncio.timeout(QUESTION_SECONDS if frame.question else TURN_SECONDS):
            await self._catch_up(wide, asked=bool(frame.question))
            return await recall.found(question, shown.messages, shown.memory)

    async def _catch_up(self, wide: bool, *, asked: bool) -> None:
        """On an ordinary turn the session itself is left alone: what it lacks stands in its tail."""
        if asked:
            await catch_up(self.store, self.session.owner, None if wide else self.session)
        elif wide:
            await catch_up(self.store, self.session.owner, but=self.session)


def _with_text(frame: PromptRequest, text: str) -> PromptRequest:
    return replace(frame, end="\n\n".join(t for t in (text, frame.end) if t), recalled=text)
