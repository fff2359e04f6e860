"""Every word of a built-in note is traced to its sentence: nothing is joined, altered, or parted from what
governs it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.models.extractive_requests import START, observe, reflect, say
from tests.unit.models.tracing import untraced, words

from onlooker import demo
from onlooker.domain.messages import Message
from onlooker.models.extractive import compose, page, pieces
from onlooker.policy.intake import intake_all

NAMES = frozenset({"ana", "ben"})
DATA = Path(os.environ.get("ONLOOKER_DATA", Path(__file__).parents[4] / "shared" / "data"))

# Sentences out of parts: who, what, with whom, and what governs it.
WHO = ("I", "We", "My sister and I", "My friends and I", "Carla", "The vet", "She", "They", "He")
DID = (
    "sold the boat", "moved to Bergen", "adopted a cat called Miso", "painted the shed blue",
    "met him in Turin", "paid 1,240 euros", "ran `make test`", 'read "Dune"', "opened src/app.py",
    "like rye bread",
)  # fmt: skip
GOVERNED = (
    "{0}.", "{0} yesterday.", "If it rains, {0}.", "{0} unless Carla calls.", "I think {0}.",
    "{0}, but not for long.", "{0} because the rent rose.", "Maybe {0}.", "{0} and I never went back.",
    "{0}, and I bought a kayak.", "{0} - it was so much fun!", "Last week {0} and we stayed.",
    "Did you know that {0}?", "But {0}.", "{0} until May.", "{0} and I at the harbour.", "Wow, {0}!",
    "Hey Ben, {0}, thanks!", "Yes, {0}.", "I don't think {0}.",
)  # fmt: skip


def _sentence(form: str, who: str, did: str) -> str:
    return form.format(f"{who} {did}")


_SENTENCE = st.builds(_sentence, st.sampled_from(GOVERNED), st.sampled_from(WHO), st.sampled_from(DID))
_MESSAGE = st.lists(_SENTENCE, min_size=1, max_size=3).map(" ".join)


def talk(said: Sequence[str]) -> list[Message]:
    return [say(("Ana", "Ben")[n % 2], text, n) for n, text in enumerate(said)]


@given(st.lists(_MESSAGE, min_size=1, max_size=8), st.integers(20, 300))
@example(["I met him in Turin. She sold the boat. If it rains, I sold the boat."], 22)
@example(["If it rains, I sold the boat. She sold the boat. She sold the boat."], 20)
@example(["But We sold the boat.", "Wow, We sold the boat! She moved to Bergen."], 40)
@example(["I moved to Bergen.", "My friends and I sold the boat. She sold the boat."], 26)
@example(["I met him in Turin.", "She sold the boat yesterday."], 20)
@example(
    ["I adopted a cat called Miso.", "Carla sold the boat.", "She sold the boat.", "Carla sold the boat."], 34
)
@example(["She adopted a cat called Miso because the rent rose. She sold the boat."], 20)
@example(["I sold the boat yesterday.", "They moved to Bergen.", "They moved to Bergen."], 41)
@example(["I like rye bread.", "She like rye bread until May.", "He ran `make test` until May."], 36)
@example(
    [
        "I adopted a cat called Miso.",
        "She adopted a cat called Miso yesterday.",
        "She adopted a cat called Miso yesterday.",
        "I sold the boat yesterday.",
    ],
    51,
)
def test_every_piece_of_a_dialogue_is_traced_to_its_sentence(said: list[str], tokens: int) -> None:
    messages = talk(said)
    note = observe(*messages, tokens=tokens)
    assert untraced(note, messages, NAMES) == []
    again = reflect(note, note.replace("2026-02-16", "2026-02-17"), tokens=tokens)
    assert untraced(again, messages, NAMES) == []


_IDENTIFIER = st.from_regex(r"[a-z]{2,6}(?:_[a-z]{2,5})?", fullmatch=True)
CODE = (
    "type {0} is (I32 | {1})", "if {0} != {1}: return not {0}", "the {0} = a.{1}()",
    "SELECT {0} FROM the_{1}",
    "let {0}: I32 = {1}?", "{0} and {1} or i", "https://the.org/{0}?a={1}", "git commit -m 'so {0}'",
)  # fmt: skip


def _code(form: str, name: str, other: str) -> str:
    return form.format(name, other)


_CODE = st.builds(_code, st.sampled_from(CODE), _IDENTIFIER, _IDENTIFIER)


@given(_CODE, st.integers(30, 120))
def test_code_stands_to_the_letter_or_not_at_all(code: str, tokens: int) -> None:
    text = f"Running `{code}` in the harbour project fails since Tuesday."
    note = observe(say("Ana", text), say("Ben", "Which branch was it on?", 1), tokens=tokens)
    quoted = re.findall(r"`([^`]*)`", note)
    assert all(found == code for found in quoted), note


def chunks(messages: Sequence[Message], size: int) -> list[Sequence[Message]]:
    return [messages[n : n + size] for n in range(0, len(messages), size)]


def speakers(messages: Sequence[Message]) -> frozenset[str]:
    names = {message.speaker for message in messages} | {message.speaker.split()[0] for message in messages}
    return frozenset(part for name in names for part in (*words(name), name[:3].lower(), name[:4].lower()))


def test_every_piece_of_the_bundled_conversation_is_traced_to_its_sentence() -> None:
    messages = intake_all(demo.conversation(), at=START, tz=UTC)
    for chunk in chunks(messages, 24):
        assert untraced(observe(*chunk, tokens=400), chunk, speakers(messages)) == []


TALKS = Path(__file__).parents[2] / "data" / "talks"
_SPEAKER = re.compile(r"(\w+): (.*)")


def talk_of(name: str) -> list[Message]:
    """A conversation in a text file: headings with the time, and below them who says what."""
    found: list[Message] = []
    at = START
    for line in (TALKS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        said = _SPEAKER.match(line)
        if line.startswith("## "):
            at = datetime.fromisoformat(line[3:]).replace(tzinfo=UTC)
        elif said and said[1] in ("user", "assistant"):
            found.append(Message("user" if said[1] == "user" else "assistant", said[2], at=at))
        elif said:
            found.append(Message("user", said[2], name=said[1], at=at))
        else:  # a line of a list
            found[-1] = replace(found[-1], text=f"{found[-1].text}\n{line}")
    return found


@pytest.mark.req(105)
@pytest.mark.parametrize("name", sorted(path.stem for path in TALKS.glob("*.txt")))
@pytest.mark.parametrize("tokens", [80, 150, 300])
def test_every_piece_of_a_talk_is_traced_to_its_sentence(name: str, tokens: int) -> None:
    messages = talk_of(name)
    notes: list[str] = []
    for chunk in chunks(messages, 12):
        notes.append(observe(*chunk, tokens=tokens))
        assert untraced(notes[-1], chunk, speakers(messages)) == []
    assert untraced(reflect(*notes, tokens=2 * tokens), messages, speakers(messages)) == []


def _public(name: str) -> list[list[Message]]:
    """The conversations of a public set of two people's talk."""
    found: list[list[Message]] = []
    for sample in json.loads((DATA / name).read_text(encoding="utf-8")):
        said = sample["conversation"]
        turns = [turn for n in range(1, 100) for turn in said.get(f"session_{n}", [])]
        at = datetime(2023, 5, 8, tzinfo=UTC)
        found.append(
            [
                Message("user", turn["text"], name=turn["speaker"], at=at + timedelta(minutes=n))
                for n, turn in enumerate(turns)
            ]
        )
    return found


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "locomo-dev.json").exists(), reason="only talks of our own are there")
def test_every_piece_of_public_conversations_is_traced_to_its_sentence() -> None:
    wrong: list[str] = []
    for messages in _public("locomo-dev.json"):
        for chunk in chunks(messages, 30):
            note = observe(*chunk, tokens=300)
            wrong += untraced(note, chunk, speakers(messages))
    assert wrong == []


# ------------------------------------------------------------------------------------ what it catches

SAID = talk(
    [
        "I think the lease ends in May, but nobody confirmed it.",
        "My sister and I sold the boat because it leaked.",
        "Carla met a vet in Turin. She went to Bergen after that.",
        "We think the rent rose, and it was probably the landlord.",
        "I don't eat fish unless Carla cooks. If it rains, we stay at home in Bergen.",
        "We hope the rent falls in June, and I bought a red kayak unless Carla calls.",
    ]
)
_NEVER = re.compile(r"(?!)")


def test_the_notes_of_these_sentences_are_true() -> None:
    assert untraced(observe(*SAID, tokens=400), SAID, NAMES) == []


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("I think the lease", "The lease"),
        (", but nobody confirmed it", ""),
        ("My sister and I sold", "I sold"),
        (" because it leaked", ""),
        ("I don't eat", "I eat"),
        (" unless Carla cooks", ""),
        ("If it rains, we", "We"),
        ("Carla met a vet in Turin. ", ""),
        ("in Turin. She went", "in Turin and went"),
        ("Ben: My sister", "Ana: My sister"),
        ("the boat", "boat"),
    ],
)
def test_a_note_that_says_something_else_is_caught(was: str, now: str) -> None:
    note = observe(*SAID, tokens=400)
    assert was in note
    assert untraced(note.replace(was, now), SAID, NAMES)


def _squeezed(text: str) -> str:
    return text.replace("n't", "").replace("the ", "")


def _always(piece: pieces.Piece, before: Sequence[pieces.Piece], *, goes_before: bool = False) -> bool:
    return True


def _by_and(texts: Sequence[str]) -> str:
    return " and ".join(texts)


BROKEN: dict[str, list[tuple[object, str, object]]] = {
    "every sentence is parted": [(pieces, "GOVERNS", _NEVER)],
    "conditions are parted": [
        (pieces, "GOVERNS", _NEVER),
        (pieces, "_BREAK", re.compile(r", (?=but )| (?=because |unless )|, (?=we )")),
    ],
    "doubts are fillers": [(pieces, "_OPENING_OR_AGREED", re.compile(r"(?:I|We) think "))],
    "causes are fillers": [(pieces, "_CLOSING", re.compile(r",? (?:because|but|unless)\b.*$"))],
    "small words go": [(pieces, "_shortened", _squeezed)],
    "pronouns stand alone": [(compose, "link", _always), (page, "link", _always)],
    "sentences are joined": [(page, "_joined", _by_and)],
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_model_that_says_something_else_is_caught(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    for module, name, broken in BROKEN[fault]:
        monkeypatch.setattr(module, name, broken)
    bakery = "Carla runs a small bakery in Bergen. She adopted a cat called Miso and paid 1,240 euros."
    said = [*SAID, *talk([bakery])]
    notes = (observe(*said[n:], tokens=tokens) for tokens in range(20, 300, 20) for n in range(len(said)))
    assert any(untraced(note, said, NAMES) for note in notes)
