"""Whether a reply may become a note.

Nothing is committed on a reply that was not accepted here, so a model that fails in whatever way
consumes no message. The checks run from the surest to the vaguest; the first that speaks is the reason.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from onlooker.domain.notes import NoteFormat
from onlooker.policy.languages import wrong_language
from onlooker.policy.reading.endings import stops_short
from onlooker.policy.reading.notetext import Line, NoteText, read
from onlooker.policy.reading.refusals import refuses, says_nothing, speaks_to_the_user
from onlooker.policy.reading.repetition import copies, degenerate, repeats_prompt
from onlooker.policy.reading.stamps import take_head
from onlooker.policy.reading.wrapping import clean, is_thinking_only

Reason = Literal[
    "empty",
    "refusal",
    "cut off",
    "degenerate",
    "echo",
    "too long",
    "unparseable",
    "lost critical",
    "wrong language",
    "invented values",
]

# What a second attempt is told. Nothing of the reply or the source is quoted: this stands outside
# the fence, where text counts as an instruction.
_CORRECTIONS: dict[Reason, str] = {
    "empty": "it held no note. Write at least one line that says what happened.",
    "refusal": "it was not a note. Only note what was said; leave out what you must.",
    "cut off": "it stopped before its end. Write a shorter note and finish it.",
    "degenerate": "it repeated itself. Say each thing once.",
    "echo": "it copied the input. Write a note of it in far fewer words.",
    "too long": "it was longer than what it stands for. Write a much shorter note.",
    "unparseable": "it was not in the form asked for. Write the note alone, in that form.",
    "lost critical": "lines marked CRITICAL were missing. Copy every one of them word for word.",
    "wrong language": "it was in another language. Write in the language of the conversation.",
    "invented values": "it held numbers, paths or names that the input does not hold. Copy them exactly.",
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The note as it may be committed: `text` in our own form, and the same as lines."""

    text: str
    note: NoteText


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the reply is no note; `detail` is for the log."""

    reason: Reason
    detail: str = ""

    @property
    def correction(self) -> str:
        """What to tell the model when it is asked again."""
        return _CORRECTIONS[self.reason]


Verdict = Accepted | Refused

# Whatever its source, a reply beyond this many characters per token of it is not worth reading.
_CHARACTERS_PER_TOKEN = 8
_MOST_CHARACTERS = 400_000
_ALWAYS_READ = 8_000
# A heading and a few words may be longer than a source of one word; such a note is never too long.
SMALL_NOTE = 60
_MOST_SOURCE = 400_000  # characters of the source that are compared


def nothing_invented(note: str, source: str) -> Sequence[object]:
    """Takes no value for invented."""
    return ()


def judge(
    reply_text: str,
    *,
    finish: str = "stop",
    source_text: str,
    source_tokens: int,
    prompt_text: str = "",
    format: NoteFormat,
    day: dt.date | None,
    must_keep: Sequence[str] = (),
    target_tokens: int = 0,
    count: Callable[[str], int],
    invented: Callable[[str, str], Sequence[object]] = nothing_invented,
) -> Verdict:
    """Accept a reply as a note of its source, repaired, or say what is wrong with it.

    `prompt_text` is what the model was told besides the source; `must_keep` are CRITICAL lines of
    the source; `day` is the day of the source's first message; `target_tokens` is how long the note
    was to be (0: not said). `invented` finds values of a note that its source does not hold.
    """
    readable = max(_ALWAYS_READ, min(_MOST_CHARACTERS, _CHARACTERS_PER_TOKEN * source_tokens))
    if len(reply_text) > readable:
        return Refused("too long", f"{len(reply_text)} characters for {source_tokens} tokens")
    note = _without_apology(read(reply_text, format=format, day=day))
    source = source_text[:_MOST_SOURCE]
    asked = target_tokens / max(1, source_tokens) if target_tokens else 1.0
    if refused := _not_a_note(reply_text, finish, note) or _repeats(note, source, prompt_text, asked):
        return refused
    if refused := _cut_off(reply_text, finish, note):
        return refused
    own_words, note, lost = _keep_critical(note, must_keep)
    text = note.render()
    if lost:
        return Refused("lost critical", f"{len(lost)} missing, such as {lost[0][:80]!r}")
    tokens = count(text)
    if tokens > max(source_tokens, SMALL_NOTE):
        return Refused("too long", f"{tokens} tokens for {source_tokens}")
    if difference := wrong_language(own_words, source):
        return Refused("wrong language", difference)
    if made_up := invented(text, source_text):
        return Refused("invented values", ", ".join(str(value) for value in made_up[:5]))
    return Accepted(text, note)


def _not_a_note(reply: str, finish: str, note: NoteText) -> Refused | None:
    body = " ".join(line.text for line in note.lines)
    if finish == "refused":
        return Refused("refusal", "the provider says so")
    if not clean(reply).strip():
        return Refused("empty")
    if is_thinking_only(reply):
        return Refused("cut off", "it was still thinking aloud")
    if says_nothing(body):
        return Refused("empty", body)
    if note.lines and all(refuses(line.text) for line in (note.lines if note.dated else note.lines[:1])):
        return Refused("refusal", body[:80])
    if not note.dated and speaks_to_the_user(reply):
        return Refused("unparseable", "goes on with the conversation")
    if garbled := _garbled(body):
        return Refused("unparseable", garbled)
    return None


def _garbled(body: str) -> str:
    """What shows that the text is no language at all, or ""."""
    if not body:
        return "no line in it"
    if re.match(r"[\[{]\s*[\"{\[]|<(?:!doctype|html|\?xml)", body, re.I):
        return "structured data"
    seen = [c for c in body if not c.isspace()]
    if body.count("\ufffd") > 0.05 * len(seen):
        return "unreadable characters"
    letters = sum(c.isalnum() or c.isalpha() or not c.isascii() for c in seen)
    if letters < 0.4 * len(seen):
        return f"{letters} letters in {len(seen)} characters"
    longest = max((len(w) for w in re.findall(r"[!-~]+", body)), default=0)
    return f"a word of {longest} characters" if longest > 400 and longest > 0.5 * len(seen) else ""


def _repeats(note: NoteText, source: str, prompt: str, asked: float) -> Refused | None:
    body = "\n".join(line.text for line in note.lines)
    if repetition := degenerate(body, note.lines):
        return Refused("degenerate", repetition)
    if repeats_prompt(body, prompt):
        return Refused("echo", "of the prompt")
    if copies(body, source, asked):
        return Refused("echo", "of the source")
    return None


def _cut_off(reply: str, finish: str, note: NoteText) -> Refused | None:
    if finish == "length":
        return Refused("cut off", "the provider says so")
    shows = stops_short(reply, note)
    return Refused("cut off", shows) if shows else None


def _without_apology(note: NoteText) -> NoteText:
    """Drop a first line that apologises where proper lines follow it."""
    first, rest = note.lines[:1], note.lines[1:]
    if note.dated and rest and first[0].time is None and refuses(first[0].text):
        return replace(note, lines=rest)
    return note


def _keep_critical(note: NoteText, must_keep: Sequence[str]) -> tuple[str, NoteText, list[str]]:
    """What the model wrote beside the lines to be kept, the note, and what is lost of those lines.

    A line that lost only its priority gets it back.
    """
    wanted = [(key, text) for line in must_keep if (text := take_head(line).text) and (key := _key(text))]
    keys = [_key(line.text) for line in note.lines]
    kept = [any(key in own for key, _ in wanted) for own in keys]
    lines = [_as_critical(line) if keep else line for keep, line in zip(kept, note.lines, strict=True)]
    own_words = "\n".join(line.text for keep, line in zip(kept, note.lines, strict=True) if not keep)
    everything = "\n".join(keys)
    lost = [text for key, text in wanted if key not in everything]
    return own_words, replace(note, lines=tuple(lines)), lost


def _as_critical(line: Line) -> Line:
    return replace(line, priority="CRITICAL")


def _key(text: str) -> str:
    """A line as it is compared: quotes, spaces and a full stop at its end do not count."""
    text = re.sub(r"[\"'“”‘’`*]", "", text)
    return re.sub(r"\s+", " ", text).strip(" .。;").casefold()
