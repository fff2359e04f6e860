"""The promises as checks on a session and on the prompt that it gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import onlooker
from onlooker.domain.notes import LIVE, State
from onlooker.policy.tokens import Estimator, estimator


async def check_conversation(session: onlooker.Session, truth: list[str]) -> None:
    """What is recorded is what was said: nothing lost, nothing doubled, nothing out of order."""
    recorded = [_label(m) for m in await session.messages(archived=True) if m.name != "summary"]
    assert recorded == truth, f"recorded {recorded} instead of {truth}"


async def check_coverage(session: onlooker.Session) -> None:
    """Every message is raw, or covered by exactly one live note, and each note leads back to it."""
    while (state := await session.history.state()) is not None:
        try:
            await _check_coverage(session, state)
        except AssertionError:
            # It takes several looks; notes taken in the background meanwhile are no fault.
            now = await session.history.state()
            if now and now.progress != state.progress:
                continue
            raise
        return


async def _check_coverage(session: onlooker.Session, state: State) -> None:
    covered: Counter[str] = Counter()
    for note in await session.notes(statuses=LIVE):
        sources = await session.recall(note.id)
        assert sources, f"{note.id} stands for nothing"
        assert note.text.strip(), f"{note.id} says nothing"
        assert all(note.first <= m.seq <= note.last for m in sources), f"{note.id} leads elsewhere"
        covered.update(m.id for m in sources)
    for message in await session.messages(archived=True):
        if message.name == "summary":
            continue
        times = covered.pop(message.id, 0)
        expected = 1 if message.seq <= state.progress.frontier else 0
        assert times == expected, f"message {message.seq} is covered {times} times, not {expected}"
    assert not covered, f"notes stand for messages that are not part of the conversation: {covered}"
    unnoted = sum(m.tokens for m in state.unnoted)
    assert state.progress.unnoted_tokens == unnoted, "the count of what is un-noted drifted"


def check_context(
    context: onlooker.Context,
    state: State,
    said: Sequence[onlooker.Message],
    settings: onlooker.Settings,
) -> None:
    """The prompt fits, has its pairs, and hides nothing that no note covers."""
    count = estimator(settings.estimator)
    _check_budget(context, settings, count)
    check_openai_pairs(context.openai())
    check_anthropic_pairs(context.anthropic()["messages"])
    _check_groups_stay_together(context, said)
    shown = {m.seq for m in context.messages}
    hidden = [m.seq for m in state.unshown if m.seq not in shown]
    assert len(hidden) == context.stats.left_out_messages, f"{hidden} are neither shown nor counted"
    if hidden:
        newest = _exchanges(state.messages)[-1]
        assert shown <= newest, f"{hidden} were cut off though notes could stand for them"
    if state.messages:
        newest_message = state.messages[-1]
        assert context.messages, "the newest message is missing"
        assert context.messages[-1].seq == newest_message.seq, "the newest message is missing"
        assert context.messages[-1].text == newest_message.text, "the newest message was shortened"


def _check_budget(context: onlooker.Context, settings: onlooker.Settings, count: Estimator) -> None:
    total = count.text(context.system) if context.system else 0
    total += sum(count.message(m) for m in (*context.preface, *context.messages))
    budget = context.stats.budget
    newest = count.message(context.messages[-1]) if context.messages else 0
    if not budget:
        return
    # Sections are counted one by one and joined by blank lines, which cost next to nothing.
    assert total - newest <= budget, f"{total} tokens without the newest {newest} are over {budget}"
    assert total <= budget or newest * 8 > budget, (
        f"{total} tokens are over {budget}, and not for the newest message's sake ({newest})"
    )


def _check_groups_stay_together(context: onlooker.Context, said: Sequence[onlooker.Message]) -> None:
    """A result is not shown without the call that it followed, nor the call without it."""
    shown = {m.seq for m in context.messages}
    for seqs in _exchanges(said):
        alone = shown == {max(seqs)}  # a newest message too large for company
        assert seqs <= shown or not seqs & shown or alone, f"{sorted(seqs)} was torn apart"


def _exchanges(messages: Sequence[onlooker.Message]) -> list[set[int]]:
    """Calls with the results that directly follow them, told here anew and not by the code itself."""
    found: list[set[int]] = []
    waiting: set[str] = set()
    for message in messages:
        if message.role == "tool" and message.answers in waiting:
            found[-1].add(message.seq)
            waiting.remove(message.answers)
        else:
            found.append({message.seq})
            waiting = {c.id for c in message.calls}
    return found


def check_openai_pairs(messages: list[dict[str, Any]]) -> None:
    """As the provider checks: results directly follow their call, and each call has its result."""
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_calls, "a result without its call"
            open_calls.remove(message["tool_call_id"])
            continue
        assert not open_calls, "a call without its result"
        open_calls = {c["id"] for c in message.get("tool_calls") or ()}
    assert not open_calls, "a call without its result at the end"


def check_anthropic_pairs(messages: list[dict[str, Any]]) -> None:
    """Roles alternate from the user on, and each tool_use is answered in the next message."""
    open_calls: set[str] = set()
    for i, message in enumerate(messages):
        assert message["role"] == ("user" if i % 2 == 0 else "assistant"), "roles do not alternate"
        content = message["content"]
        blocks = cast("list[dict[str, Any]]", content) if isinstance(content, list) else []
        answered = {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
        assert answered == open_calls, f"calls {open_calls} were answered by {answered}"
        open_calls = {b["id"] for b in blocks if b["type"] == "tool_use"}
    assert not open_calls, "a call without its result at the end"


@dataclass(frozen=True)
class Shown:
    """A prompt, to compare the next one with."""

    prompt_version: int
    revision: int
    budget: int
    memory: str
    messages: tuple[int, ...]

    @classmethod
    def of(cls, context: onlooker.Context, state: State) -> Shown:
        messages = tuple(m.seq for m in context.messages)
        return cls(
            context.stats.prompt_version,
            state.progress.revision,
            context.stats.budget,
            context.memory,
            messages,
        )


def check_stable(before: Shown, after: Shown) -> None:
    """Between two activations the memory is byte-identical and the messages only grow."""
    if (before.prompt_version, before.revision, before.budget) != (
        after.prompt_version,
        after.revision,
        after.budget,
    ):
        return
    assert before.memory == after.memory, "the memory section changed though no note did"
    grown = after.messages[: len(before.messages)]
    assert grown == before.messages, f"the messages {before.messages} became {after.messages}"


def _label(message: onlooker.Message) -> str:
    return message.text or ",".join(c.id for c in message.calls)
