"""What the tests of real SDKs share: models that speak to a server on this machine."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import onlooker
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Note
from onlooker.models.llm import LanguageModel
from onlooker.ports import ObserveRequest, ReflectRequest
from onlooker.testing.provider import LocalProvider

START = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)
SESSION = SessionId("ana", "telegram:42")
KEY = "sk-test-0123456789abcdefghij"

# How a model of each protocol is named; the names are in pydantic-ai's price list, where there is one.
NAMES = {
    "chat": "openai:gpt-5-mini@{url}/v1",
    "responses": "openai-responses:gpt-5-mini@{url}/v1",
    "anthropic": "anthropic:claude-haiku-4-5@{url}",
    "ollama": "ollama:qwen3@{url}/v1",
}


def model_at(provider: LocalProvider, protocol: str = "chat", **options: object) -> LanguageModel:
    given = {"api_key": KEY, "timeout": 60.0} | options
    return LanguageModel(NAMES[protocol].format(url=provider.url), **given)  # pyright: ignore[reportArgumentType]


def message(number: int, text: str, tokens: int = 20) -> Message:
    role = onlooker.user if number % 2 else onlooker.assistant
    at = START + timedelta(minutes=number)
    return replace(role(text), id=f"m{number}", seq=number, tokens=tokens, at=at)


def observation(number: int, text: str, tokens: int) -> Note:
    return Note(f"o{number}", 0, number, number, text, tokens, START, (f"m{number}",))


def observe(*texts: str, notes: tuple[Note, ...] = (), tokens: int = 20) -> ObserveRequest:
    messages = tuple(message(n, text, tokens) for n, text in enumerate(texts, 1))
    return ObserveRequest(SESSION, messages, notes, 100)


def reflect(*texts: str) -> ReflectRequest:
    notes = tuple(observation(n, text, 20) for n, text in enumerate(texts, 1))
    return ReflectRequest(SESSION, notes, 1, 60)
