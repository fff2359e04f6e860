"""Whole conversations to measure on: the public sets, where their files are, and the demo's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from onlooker import demo
from onlooker.domain.messages import Message
from onlooker.policy.intake import intake_all
from onlooker.policy.settings import Timing

# What a prompt holds must not depend on how busy the machine is.
PATIENT = Timing(recall_deadline=120.0)

LOCOMO = "locomo-dev.json"
TAU = "tau-airline-dev.json"
OPENHANDS = "openhands-dev.jsonl"
# Neither set has a time for each message: two people write every 20 seconds, an agent works every 15.
_BETWEEN_TURNS = timedelta(seconds=20)
_BETWEEN_STEPS = timedelta(seconds=15)
_OPENS = datetime(2024, 5, 15, 9, tzinfo=UTC)
_BETWEEN_CALLS = timedelta(hours=1)


@dataclass(frozen=True)
class Conversation:
    """What was said, with an id and a time for each message."""

    name: str
    messages: tuple[Message, ...]

    @property
    def spoken(self) -> Conversation:
        """Without the host's own instructions: it sends them itself, and records none of them."""
        return replace(self, messages=tuple(m for m in self.messages if m.role != "system"))


@dataclass(frozen=True)
class Data:
    """What there is to measure on. Empty: the files are not there."""

    locomo: tuple[Conversation, ...] = ()
    tau: tuple[Conversation, ...] = ()

    def first(self, locomo: int, tau: int) -> Data:
        return Data(self.locomo[:locomo], self.tau[:tau])


def load(folder: Path) -> Data:
    """Both sets.

    Raises:
        FileNotFoundError: One of the files is not in the folder.
    """
    return Data(tuple(_locomo(folder / LOCOMO)), tuple(_tau(folder / TAU)))


def in_one_session(name: str, conversations: Sequence[Conversation]) -> Conversation:
    """One after the other, as one session has them that is never closed."""
    messages: list[Message] = []
    for conversation in conversations:
        later = _days_to_follow(messages, conversation.messages)
        for message in conversation.messages:
            at = message.at and message.at + later
            messages.append(replace(message, id=f"{conversation.name}/{message.id}", at=at))
    return Conversation(name, tuple(messages))


def _days_to_follow(before: Sequence[Message], messages: Sequence[Message]) -> timedelta:
    """How much later the messages must be said to come after those before them."""
    last, first = (before[-1].at if before else None), messages[0].at
    if last is None or first is None or first > last:
        return timedelta(0)
    return timedelta(days=(last - first).days + 1)


def of_the_demo() -> Conversation:
    """The one that is in the package."""
    return Conversation("demo", intake_all(demo.conversation(), at=_OPENS, tz=UTC))


# ------------------------------------------------------------------------------------ LoCoMo


def _locomo(path: Path) -> Iterator[Conversation]:
    """Two people over months; one of them stands in for the assistant."""
    for sample in json.loads(path.read_text(encoding="utf-8")):
        said = sample["conversation"]
        turns = [turn for n in range(1, 100) if f"session_{n}" in said for turn in _sitting(said, n)]
        yield Conversation(sample["sample_id"], intake_all(turns, at=_OPENS, tz=UTC))


def _sitting(said: dict[str, Any], n: int) -> Iterator[dict[str, Any]]:
    when = said[f"session_{n}_date_time"].strip()
    began = datetime.strptime(when, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    for i, turn in enumerate(said[f"session_{n}"]):
        picture = turn.get("blip_caption")
        yield {
            "id": turn["dia_id"],
            "role": "user" if turn["speaker"] == said["speaker_a"] else "assistant",
            "name": turn["speaker"],
            "content": turn["text"] + (f" [shares {picture}]" if picture else ""),
            "created_at": (began + i * _BETWEEN_TURNS).isoformat(),
        }


# ------------------------------------------------------------------------------------ tau-bench


def _tau(path: Path) -> Iterator[Conversation]:
    """Customers of an airline, each with an agent that works with tools."""
    for n, call in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        began = _OPENS + n * _BETWEEN_CALLS
        steps = [_step(step, i, began) for i, step in enumerate(call["traj"])]
        yield Conversation(f"{call['task_id']}-{call['trial']}-{n}", intake_all(steps, at=began, tz=UTC))


def _step(step: dict[str, Any], i: int, began: datetime) -> dict[str, Any]:
    known = {k: step[k] for k in ("role", "tool_calls", "tool_call_id") if step.get(k)}
    named = {"name": step["name"]} if step["role"] == "tool" else {}
    at = (began + i * _BETWEEN_STEPS).isoformat()
    return known | named | {"id": f"m{i}", "content": step.get("content") or "", "created_at": at}


def load_agents(folder: Path) -> dict[str, tuple[Conversation, ...]]:
    """The conversations in which an agent works with tools, by the name of their set.

    Raises:
        FileNotFoundError: One of the files is not in the folder.
    """
    return {"openhands": tuple(_openhands(folder / OPENHANDS)), "tau": tuple(_tau(folder / TAU))}


# ------------------------------------------------------------------------------------ OpenHands


def _openhands(path: Path) -> Iterator[Conversation]:
    """One request each, and then an agent that writes code, with a call or a result in every event."""
    for line in path.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        messages = [message for event in run["history"] for message in _event(event)]
        yield Conversation(run["instance_id"], intake_all(messages, at=_OPENS, tz=UTC))


def _event(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    known = {"id": f"e{event['id']}", "created_at": event["timestamp"] + "+00:00"}
    called = event.get("tool_call_metadata")
    if "observation" in event:
        if called:
            yield known | {
                "role": "tool",
                "name": called["function_name"],
                "tool_call_id": f"{called['tool_call_id']}-{event['cause']}",
                "content": event.get("content") or "",
            }
    elif event.get("action") == "message" and event["source"] == "user":
        yield known | {"role": "user", "content": event["args"]["content"]}
    elif called:
        said = called["model_response"]["choices"][0]["message"]
        arguments = {k: v for k, v in event["args"].items() if isinstance(v, str) and v}
        function = {"name": called["function_name"], "arguments": json.dumps(arguments)}
        call = {"id": f"{called['tool_call_id']}-{event['id']}", "type": "function", "function": function}
        yield known | {"role": "assistant", "content": said.get("content") or "", "tool_calls": [call]}
    elif event["source"] == "agent" and event.get("action") in ("message", "finish"):
        yield known | {"role": "assistant", "content": event["message"]}
