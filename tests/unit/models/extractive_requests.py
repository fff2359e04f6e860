"""Requests for the built-in model, and a talk to make notes of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from onlooker.domain.messages import Message, Role, SessionId
from onlooker.domain.notes import Note, NoteFormat
from onlooker.models.extractive import ExtractiveModel
from onlooker.policy.tokens import estimate
from onlooker.ports import ObserveRequest, ReflectRequest

SESSION = SessionId("ana", "telegram:42")
START = datetime(2026, 2, 16, 14, 2, tzinfo=UTC)  # a Monday
MODEL = ExtractiveModel()


def say(name: str, text: str, minute: int = 0) -> Message:
    return Message("user", text, name=name, at=START + timedelta(minutes=minute))


def role(role: Role, text: str, minute: int = 0) -> Message:
    return Message(role, text, at=START + timedelta(minutes=minute))


def observe(
    *messages: Message, tokens: int = 200, format: NoteFormat = "lines", notes: tuple[Note, ...] = ()
) -> str:
    return MODEL.compose(ObserveRequest(SESSION, messages, notes, tokens, format))


def note(text: str, number: int = 1) -> Note:
    return Note(f"n{number}", 0, number, number, text, estimate(text), START, ())


def reflect(*texts: str, tokens: int, format: NoteFormat = "lines") -> str:
    notes = tuple(note(text, n) for n, text in enumerate(texts, 1))
    return MODEL.compose(ReflectRequest(SESSION, notes, 1, tokens, format))


TALK = (
    say("Ana", "Hey Ben! Good to see you! How have you been?"),
    say("Ben", "Hi Ana! I'm swamped with work. What's up with you?", 1),
    say("Ana", "I moved to Oslo last week, and I adopted a dog called Rex yesterday.", 2),
    say("Ben", "Wow, that's so cool, Ana! What kind of dog is he?", 3),
    say("Ana", "A border collie. He doesn't like cats unless they are asleep.", 4),
    say(
        "Ben",
        "That's awesome! You're amazing. I'm starting a pottery class next month with my sister Carla.",
        5,
    ),
    say("Ana", "I paid 1,240.50 euros for the flat and the vet told me Rex must not eat grapes.", 6),
    say("Ben", "Thanks for sharing! Take care, talk soon!", 7),
)
