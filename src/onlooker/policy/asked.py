"""What the user asked for: standing instructions, and the request that is still open.

Both are found in the user's own words, not asked of a model, and stand in the notes as lines of their own:

    Standing instruction: Always include status codes when I ask about errors
    Open request: Can you fix the login page?
    Follow-up request: and add a test for it

Where several people talk, a request begins with the asker's name ("Open request: Ana: …"). Each
line is written once, in the note of the message that says it. A later request replaces the open one, a
follow-up stands beside it, and "Open request: none" says that it was finished. What holds now follows from
all live notes in order (`gather`), so forgetting a message forgets what was asked in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message
from onlooker.policy.instructions import (
    ASKS_QUESTION,
    CANCELS,
    Said,
    cut,
    each_clause,
    fold,
    heard,
    is_task,
    is_wish,
    own_words,
    tagged,
)
from onlooker.policy.pace import give_way
from onlooker.policy.references import PRONOUN, SOMEBODY, greets, points_back
from onlooker.policy.reply.note_text import FOLLOW_UP, OPEN_REQUEST, STANDING, clean
from onlooker.policy.secrets import mask
from onlooker.policy.text import CJK, Phrases, is_cjk, plain_words, regex, said_once, sentences
from onlooker.policy.tokens import estimate, fits

NONE = "none"  # what a note says of a request that was finished

MAX_STANDING = 24
STANDING_TOKENS = 500  # of all of them together
_MAX_REQUEST = 60
_MAX_FOLLOW_UP = 50
_MIN_CONTEXT = 15
_MAX_NO_CONTEXT = 5  # characters


@frozen
class Asked:
    """What the user asked for, in the user's words. `request` is None where the notes say nothing of one."""

    standing: tuple[str, ...] = ()
    request: str | None = None
    follow_up: str = ""

    @property
    def is_open(self) -> bool:
        return bool(self.request) and self.request != NONE

    def lines(self) -> list[str]:
        """The lines of a note that says so."""
        lines = [STANDING + text for text in self.standing]
        if self.request is not None:
            lines.append(OPEN_REQUEST + self.request)
        return [*lines, FOLLOW_UP + self.follow_up] if self.follow_up else lines


def gather(notes: Iterable[str]) -> Asked:
    """Return what holds after these notes, oldest first."""
    return _gathered(tuple(chain.from_iterable(map(asked_lines, notes))))


@lru_cache(maxsize=64)  # a turn asks this of the same notes several times
def _gathered(lines: Sequence[str]) -> Asked:
    standing: list[str] = []
    request: str | None = None
    follow_up = ""
    for line in lines:
        if line.startswith(STANDING):
            standing = _superseded(standing, line.removeprefix(STANDING))
        elif line.startswith(OPEN_REQUEST):
            request, follow_up = line.removeprefix(OPEN_REQUEST), ""
        else:
            follow_up = line.removeprefix(FOLLOW_UP)
    follow_up = "" if follow_up == NONE else follow_up
    return Asked(_newest(standing), request, follow_up)


# A note has these lines first.
_LINES = regex(rf"(?:(?:{STANDING}|{OPEN_REQUEST}|{FOLLOW_UP})[^\n]*(?:\n|$))+")


def asked_lines(note: str) -> Sequence[str]:
    """Return the lines of a note that say what was asked for."""
    return _parted(note)[0]


def without_asked(note: str) -> str:
    """Return the other lines of a note."""
    rest = _parted(note)[1]
    return rest if len(rest) < len(note) else note


@lru_cache(maxsize=64)  # a turn asks this of each note that it shows, several times
def _parted(note: str) -> tuple[Sequence[str], str]:
    found = _LINES.match(note)
    return (found[0].splitlines(), note[found.end() :]) if found else ((), note)


_SPOKEN = regex(r"(?:\[\d\d:\d\d\] )?(?:(?:CRITICAL|IMPORTANT|NOTE) )?[^:\n]{1,60}: ([^\n]+)")
_MIN_REPEATED = 4  # words: a shorter line may stand in another by chance


def without_repeated(note: str, shown: str) -> str:
    """Return a note without the lines whose words are all in a text that is shown beside it, and without
    headings of which no line is left."""
    bare = _bare_of_shown(shown)
    lines = note.splitlines()
    said = _said_in_lines(note)
    kept = [line for line, words in zip(lines, said, strict=True) if words is None or words not in bare]
    if len(kept) == len(lines):
        return note
    return "\n".join(
        line
        for line, below in pairwise((*kept, "## "))
        if not (line.startswith("## ") and below.startswith("## "))
    )


@lru_cache(maxsize=4)  # each note is compared with the same text
def _bare_of_shown(shown: str) -> str:
    return _bare(shown)


@lru_cache(maxsize=64)  # each note is compared again whenever the memory section changes
def _said_in_lines(note: str) -> list[str | None]:
    """Return the bare words of each line that someone says; None for other lines and short ones."""
    spoken = map(_SPOKEN.match, note.splitlines())
    return [_bare(s[1]) if s and len(s[1].split()) >= _MIN_REPEATED else None for s in spoken]


def _newest(standing: Sequence[str]) -> tuple[str, ...]:
    """Return the newest instructions within the limits."""
    left = STANDING_TOKENS
    start = len(standing)
    while start and len(standing) - start < MAX_STANDING:
        left -= estimate(STANDING + standing[start - 1])
        if left < 0:
            break
        start -= 1
    return tuple(standing[start:])


def _superseded(standing: Sequence[str], text: str) -> list[str]:
    """Add an instruction. It replaces the same one, and those that it plainly ends ("you can stop …"); any
    other stays, and the later one is after it."""
    folded = fold(text)
    ends = _topic(CANCELS.sub(" ", folded)) if CANCELS.search(folded) else frozenset[str]()
    kept = [
        before
        for before in standing
        if _key(before) != _key(text)
        and not (ends and ends <= _topic(fold(before)) and not CANCELS.search(fold(before)))
    ]
    return [*kept, text]


_TOPIC = regex(
    r"[^\W\d_\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{4,}|[\u30a0-\u30ff]+|[\u4e00-\u9fff]+|[\uac00-\ud7af]+|\d{4,}"
)
# What says that something ends, or lasts, and not what.
_NO_TOPIC = frozenset(
    """
    musst müssen brauchst brauchen kannst können darfst sollst sollen bitte immer stets wenn dass damit nicht
    mehr jetzt sofort zukunft künftig keine keinen keinem keiner
    peux pouvez plus besoin dois devez toujours désormais dorénavant maintenant chaque fois pour avec quand
    puedes puede hace falta necesitas tienes siempre nunca ahora adelante cuando cada para
    drop 始终 始終 以后 以後 今后 今後 现在 現在 可以 务必 務必 一定 必 今後 이제 앞으로 항상 주세요 마세요
    """.split()  # noqa: SIM905
)
_CHINESE_PARTICLES = regex("[了请請你您再把的都就]")
_KOREAN_ENDINGS = ("지", "어", "아", "고", "해")


def _topic(folded: str) -> frozenset[str]:
    """Return what an instruction is about: beginnings of words, and pairs of Han characters."""
    found: set[str] = set()
    for word in _TOPIC.findall(_CHINESE_PARTICLES.sub(" ", folded.replace("'", " "))):
        if word in _NO_TOPIC or word in _COMMON:
            continue
        if "\u4e00" <= word[0] <= "\u9fff":
            found.update([word] if len(word) == 1 else map("".join, pairwise(word)))
        elif "\uac00" <= word[0] <= "\ud7af":
            found.add(word[:1] if len(word) == 2 and word.endswith(_KOREAN_ENDINGS) else word[:2])
        else:
            found.add(word if "\u30a0" <= word[0] <= "\u30ff" else word[:_STEM])
    return frozenset(found)


def _key(text: str) -> str:
    return " ".join(text.split()).strip(" .!。！").casefold()


# -- What a note of messages says


def of_messages(messages: Sequence[Message], notes: Iterable[str], reply: str = "") -> list[str]:
    """Return the lines for a note of these messages, where `notes` are the notes before it.

    `reply` is the note that a model wrote. Its open request is taken if it is in the user's words.
    """
    known = gather(notes)
    before = {_key(text) for text in known.standing}
    standing: list[str] = []
    people = _people(messages)
    # Where people talk only with each other, nobody is told what to do from now on.
    addressed = not people or any(m.role == "assistant" for m in messages)
    talk = _Talk(known, people, is_opening=_is_opening(messages) and known == Asked())
    for message in messages:
        give_way()
        if message.role == "user":
            # Where several people talk, one answers the other.
            talk.hear_person(message)
            said = heard(message.text)
            if addressed:
                standing += [text for text in said.instructions() if _key(text) not in before]
            talk.hear_user(said, _named(message, people))
        elif message.role == "assistant":
            talk.hear_assistant(message)
        talk.heard(message)
    found = gather([STANDING + text for text in standing])
    new = talk.change(known)
    if reply:
        new = _as_the_model_says(reply, messages, known, new)
    return Asked(found.standing, new.request, new.follow_up).lines()


def _is_opening(messages: Sequence[Message]) -> bool:
    """Whether nothing was said but one message. A person with a name may talk to someone else."""
    return len(messages) == 1 and not messages[0].name


def _people(messages: Sequence[Message]) -> frozenset[str]:
    """Return the names of the people who talk, where there are several."""
    names = frozenset(m.name for m in messages if m.name and m.role in ("user", "assistant"))
    return names if len(names) > 1 else frozenset()


def _named(message: Message, people: frozenset[str]) -> str:
    return f"{message.name}: " if message.name in people else ""


def _words(request: str, people: frozenset[str]) -> str:
    """Return a request without the name of the person who asks."""
    name, colon, words = request.partition(": ")
    return words if colon and name in people else request


def of_notes(notes: Iterable[str]) -> list[str]:
    """Return the lines for a reflection of these notes."""
    return gather(notes).lines()


def _as_the_model_says(reply: str, messages: Sequence[Message], known: Asked, found: Asked) -> Asked:
    """Take a model's word for which request is open, if the user said it in these messages."""
    says = gather([reply]).request
    if says is None or _key(says) == NONE or _key(says) == _key(known.request or ""):
        return found
    people = _people(messages)
    says = _words(says, people)
    quote = _bare(says)
    saying = (m for m in messages if m.role == "user" and quote in _bare(own_words(m.text)))
    is_short = len(quote.split()) < 2 and not is_cjk(quote)
    if is_short or (message := next(saying, None)) is None:
        return found
    words = _fitted(says.strip("\"'“”‘’「」 "), _MAX_REQUEST)
    return Asked((), mask(_named(message, people) + words))


# What a request is about, quoted after it.
_CONTEXT = regex(r" \([^()“”\n]{1,60}: “[^”]*”\)$")
_NO_SPEAKER = regex(r"[()“”\n]|.{61}")  # of such a name that pattern finds nothing, or a part
_NO_QUOTES_IN_QUOTES = str.maketrans("“”", '""')
_NO_QUOTES = str.maketrans("", "", "\"'“”‘’`*「」『』")


# Where sentences that were parted are put together again.
_AFTER_CJK = regex(r"(?<=[。！？])\s+")


def _bare(text: str) -> str:
    return _joined(text.translate(_NO_QUOTES)).strip(" .!?…。！？").casefold()


def _joined(text: str) -> str:
    joined = " ".join(text.split())
    return joined if text.isascii() else _AFTER_CJK.sub("", joined)


# -- The open request


class _Quote(NamedTuple):
    """A request in the user's words. A question is finished with its answer; a task is not. A wish becomes a
    request if the assistant goes to work on it."""

    text: str
    is_task: bool
    about: str = ""  # quoted after it: what it speaks of


class _Request:
    """A request as a note says it: who asks, their words, and after them what they speak of.

    That is looked for in what was said before only where it is needed: most requests are replaced before a
    note says them.
    """

    def __init__(self, named: str, words: str, about: str = "", before: Message | None = None) -> None:
        self.named = named
        self.words = words
        self._about = about
        self._before = before

    @cached_property
    def about(self) -> str:
        return self._about or _meant(self.words, self._before)

    @property
    def text(self) -> str:
        return f"{self.named}{self.words}{self.about}"

    @property
    def alone(self) -> str:
        """Who asks, and their words, without what they speak of."""
        # What a note quoted, or someone wrote in the same way, is part of the words.
        if "“" in self.words or self._about or (self._before and _NO_SPEAKER.search(self._before.speaker)):
            return _CONTEXT.sub("", self.text)
        return self.named + self.words

    def speaks_of(self, stems: frozenset[str]) -> bool:
        if not stems.isdisjoint(_stems(self.named + self.words)):
            return True
        return bool(self.about) and not stems.isdisjoint(_stems(self.about))


class _Talk:
    """Follows a conversation, and keeps track of what the user asked for last."""

    def __init__(self, known: Asked, people: frozenset[str], *, is_opening: bool) -> None:
        self._people = people
        self.request = _Request("", known.request) if known.request and known.is_open else None
        self.follow_up = _Request("", known.follow_up) if known.follow_up and known.is_open else None
        # A question or a statement: a request only if the assistant uses tools for it.
        self._pending: _Request | None = None
        self._is_question = False
        # Whether the assistant asked something, and whether it answered. Unknown at first: then the request
        # that is open stays open.
        self._asked_back = known.is_open
        self._answered = False
        self._is_opening = is_opening  # nothing was said but one message
        self._before: Message | None = None  # what someone said last
        self._works = False  # whether it has used tools since the last request
        self._reported = False  # and said then what came of it

    def heard(self, message: Message) -> None:
        if message.role != "assistant" or message.text.strip():
            self._before = message

    def change(self, known: Asked) -> Asked:
        """Return what a note must say that the notes before it do not."""
        # A question without its answer yet, or an opening that nobody has reacted to.
        if self._pending and (self._is_question or self._is_opening):
            self._take_pending()
        # Only here: most requests are replaced before a note says them.
        request, follow_up = (mask(asked.text) if asked else "" for asked in (self.request, self.follow_up))
        if request != (known.request if known.is_open else ""):
            return Asked((), request or NONE, follow_up)
        if follow_up != known.follow_up:
            return Asked((), None, follow_up or NONE)
        return Asked()

    def hear_user(self, said: Said, named: str) -> None:
        if self._answered and not self._is_same_matter(said.own):
            self.request = self.follow_up = None
        found = _quote(said, with_opening=not named)
        # What answers a question of the assistant's does not take the place of what it asked about.
        if not (self._pending and self._asked_back):
            self._pending, self._is_question = None, found is not None
        if found is None:
            waits = self._asked_back and not _GIVES_UP.search(fold(said.own), plain_words(said.own))
            if self.request and not waits and _closes(said):
                self.request = self.follow_up = None
            elif self._pending is None and not (_is_trifle(said.own) or _LATER.search(fold(said.own))):
                words = _first_sentences(said.sentences, _MAX_REQUEST)
                is_answer = len(words.split()) <= _ANSWER_WORDS and points_back(words)
                if words and not is_answer:
                    self._pending = _Request(named, words, before=self._before)
        elif not found.is_task:
            self._pending = self._pending or _Request(named, found.text, found.about, self._before)
        else:
            self._hear_task(named, found)
        self._asked_back = False

    def _hear_task(self, named: str, found: _Quote) -> None:
        # Whatever answers a question of the assistant's is about the request that is open.
        if self.request and not self._answered and (self._asked_back or self._continues(found.text)):
            about = found.about or _meant(found.text, self._before)
            self.follow_up = _Request(named, _fitted(found.text, _MAX_FOLLOW_UP), about)
            self._works = self._reported = False
        else:
            self._replace(_Request(named, found.text, found.about, self._before))

    def _replace(self, request: _Request) -> None:
        self.request, self.follow_up = request, None
        self._works = self._reported = self._answered = False

    def _continues(self, text: str) -> bool:
        # After a report, "it" in a later sentence is what the first one speaks of.
        near = next(iter(sentences(text)), "") if self._reported else text
        return _REFERS_BACK.search(fold(near)) is not None or self._is_same_matter(text)

    def _is_same_matter(self, text: str) -> bool:
        stems = _stems(text)
        return len(stems) < _MIN_STEMS or any(
            asked.speaks_of(stems) for asked in (self.request, self.follow_up) if asked
        )

    def _take_pending(self) -> None:
        if self._pending and (not self.request or self._is_done_with(self._pending)):
            self._replace(self._pending)
        elif self._pending and self._is_question:
            text = self._pending.text
            about = _CONTEXT.search(text)
            words = _fitted(_CONTEXT.sub("", text), _MAX_FOLLOW_UP)
            self.follow_up = _Request("", words, about[0] if about else "")
        self._pending = None

    def _is_done_with(self, pending: _Request) -> bool:
        """Whether what was asked before was worked on and reported, and this is another matter."""
        return self._reported and not self._continues(pending.words)

    def hear_person(self, message: Message) -> None:
        """Hear one of several people: they may answer what another asked."""
        before = self._before
        if before and before.role == "user" and message.name in self._people and before.name != message.name:
            self.hear_assistant(message)
            self._asked_back, self._pending = False, None

    def hear_assistant(self, message: Message) -> None:
        text = message.text.strip()
        self._is_opening = False
        begin, end = fold(text[:_END]), fold(text[-_END:])
        words = plain_words(end)
        if self._pending and (message.calls or _NEEDS.search(end, words) or _DECLINES.match(begin)):
            self._take_pending()
        if message.calls:
            self._works, self._reported = True, False
            return
        self._asked_back = _asks_back(end, words) and any(
            _asks_back(said, plain_words(said)) and not _ANYTHING_ELSE.search(said) for said in sentences(end)
        )
        if not text or self._asked_back or _PROMISES.match(begin):
            return
        answers_question = bool(self._pending) and self._is_question
        self._pending = None
        if self.follow_up and not self._has_task(self.follow_up):
            self.follow_up = None
        elif self.request and self._only_asks(self.request):
            self.request = self.follow_up = None
        elif not (answers_question or _DECLINES.match(begin)):
            # Text may be all that was asked for: whatever is said next of another matter ends it. After work,
            # the next request does.
            self._answered, self._reported = not self._works, self._works

    def _has_task(self, asked: _Request) -> bool:
        return any(map(is_task, sentences(_words(asked.alone, self._people))))

    def _only_asks(self, asked: _Request) -> bool:
        said = sentences(_words(asked.alone, self._people))
        if not said or any(map(is_task, said)):
            return False
        return _is_question(said[-1]) or (any(map(_is_question, said)) and not any(map(is_wish, said)))


def _meant(text: str, before: Message | None) -> str:
    """Return whom a request answers, and with which words, where it cannot be understood without."""
    if before is None or before.role == "tool" or not points_back(text):
        return ""
    pronoun = PRONOUN.search(text.replace("’", "'"))
    if pronoun and pronoun["person"] and not SOMEBODY.search(before.text):
        return ""
    said = [s for s in sentences(clean(before.text)[-_END:]) if not _ANYTHING_ELSE.search(fold(s))]
    words = said[-1] if said else ""
    if len(said) > 1 and points_back(words):
        words = f"{said[-2]} {words}"
    if len(words) <= _MAX_NO_CONTEXT:  # "And?"
        return ""
    words = " ".join(words.translate(_NO_QUOTES_IN_QUOTES).split())
    room = _MAX_REQUEST - estimate(text)
    return f" ({before.speaker}: “{_fitted(words, room)}”)" if words and room >= _MIN_CONTEXT else ""


def _asks_back(said: str, words: frozenset[str] | None) -> bool:
    return "?" in said or _ASKS_BACK.search(said, words) is not None


_CONFIRMS = regex(
    r"^\W*(?:(?:yes|yeah|yep|sure|ok(?:ay)?|great|perfect|good|alright|all right|sounds good"
    r"|that's (?:fine|right|correct)"
    r"|correct|right|absolutely|of course|thanks|thank you|ja|oui|sí|si|claro|vale|gut|bien|d'accord|是的?"
    r"|好的?|可以|行|はい|네|예)[\W_]{0,8}){0,6}"
    r"(?:(?:please |then |let's |just |you (?:can|may) |i confirm|bitte |por favor |s'il (?:te|vous) plaît )*"
    r"(?:proceed|go ahead|continue|go on|carry on|do (?:it|that|so)|confirm(?:ed)?|keep going|weiter"
    r"|mach weiter|continue[rz]?"
    r"|continúa|sigue|adelante|继续|繼續|続けて|계속)[^.?!]{0,80})?[\W_]*$",
)
# A pronoun that stands for something said before, not one that a clause follows ("a note that lists …").
_REFERS_BACK = regex(
    r"\b(?:could|can|would|will|should|does|do|did) (?:those|it|that|this|these|they)\b"
    r"|\b(?:those|them|it|that|this|these|ones?)\b(?=\s*(?:[.?!,;:…]|$)"
    r"|\s+(?:to|for|in|as|from|with|up|on|out|too|instead|again|now|please)\b)"
    r"|\b(?:also|too|as well|instead|another|same|else|again|either|auch|noch|dazu|stattdessen|aussi"
    r"|celui|celle|ça|cela"
    r"|eso|esto|también)\b|^\W{0,8}(?:and|but|or|so|now|then|und|et|y|pero|mais|aber)\b"
    r"|[这這那它]|也|还|還|それ|これ|あれ|그것|그거|이것|이거",
)
_CLOSES = Phrases(
    r"\b(?:thanks|thank you|thx|that's all|that is all|that's it|all (?:good|set|done)|we're done"
    r"|perfect|great|awesome|it works"
    r"|works now|never ?mind|forget (?:it|about it)|cancel that|scrap that|bye|goodbye|talk soon"
    r"|danke|das war's|das wäre alles|vergiss es|tschüss|merci|c'est tout|laisse tomber|gracias"
    r"|eso es todo|olvídalo|adiós)\b"
    r"|谢谢|謝謝|就这些|就這些|没事了|沒事了|算了|再见|再見|ありがとう|以上です|もういい|감사|고마워|됐어",
    """
    thanks thank thx that all done perfect great awesome works never nevermind forget cancel scrap bye goodbye
    talk danke das vergiss merci tout laisse gracias todo
    """,
)
_GIVES_UP = Phrases(
    r"\b(?:never ?mind|forget (?:it|about it)|cancel that|scrap that|that's all|that is all|vergiss es"
    r"|laisse tomber|olvídalo)\b"
    r"|算了|没事了|沒事了|もういい|됐어",
    "never nevermind forget cancel scrap that vergiss laisse",
)
_ASKS_BACK = Phrases(
    r"？|\b(?:i(?:'ll| will)? need|please (?:provide|let|confirm|share|tell|give|specify)|let me know"
    r"|could you|can you|would you|if you (?:can|could) (?:provide|share|give|tell|send)|confirm"
    r"|which|brauche|bitte|veuillez|dites-moi|necesito|por favor|indícame)\b"
    r"|请(?:提供|告诉|确认)|教えて|ください|알려|주세요",
    """
    need please let could can would if confirm which brauche bitte veuillez dites necesito favor
    """,
)
_NEEDS = Phrases(
    r"\b(?:(?:i(?:'ll| will)?|we(?:'ll| will)?) need (?:your|the|to know)|(?:please"
    r"|could you(?: please)?|can you(?: please)?) "
    r"(?:provide|confirm|share|give me|tell me your|specify)|bitte (?:nennen|geben)|veuillez (?:fournir"
    r"|indiquer)"
    r"|por favor,? (?:proporcione|indique))\b|请(?:提供|确认)|教えてください|알려 ?주세요",
    "need provide confirm share give tell specify nennen geben fournir indiquer proporcione indique",
)
# What was declined is not done: the user may insist.
_DECLINES = regex(
    r"^\W*(?:i(?:'m| am) (?:very |so |really )?sorry,? (?:but|however)|sorry,? but|unfortunately"
    r"|i(?: am|'m) (?:unable|not able)|i (?:cannot|can't)|leider|malheureusement|lamentablemente"
    r"|por desgracia)\b"
    r"|(?:很|非常)?抱歉|对不起|對不起|申し訳|죄송",
)
_ANYTHING_ELSE = regex(
    r"\b(?:anything else|something else|further (?:questions|assistance|help)|other questions|feel free"
    r"|sonst noch|autre chose|algo más)\b|还有(?:什么|其他)|他に|더 (?:필요|도와)",
)
_PROMISES = regex(
    r"^\W*(?:(?:sure|ok(?:ay)?|yes|of course|certainly|alright|understood|got it|thanks|thank you|great"
    r"|no problem)\b[^a-z]{0,8}){0,4}"
    r"(?:i(?:'ll| will|'m going to| am going to| shall)|let me|one moment|working on|will do|on it"
    r"|first,? (?:i|let)"
    r"|ich (?:werde|schaue)|je vais|voy a|我(?:会|會|来|來|先|将|將)|これから|제가)",
)
_GOES_ON = regex(
    r"\b(?:proceed|go ahead|continue|go on|carry on|yes|confirm|weiter|ja|oui|continue[rz]?|sí|sigue"
    r"|adelante)\b"
    r"|继续|繼續|是的|続けて|はい|계속|네",
)
# "Really?", "ヒトデ？": a reaction. Two or three characters without a word that asks repeat what was said.
_WONDERS = regex(
    r"\W*(?:really|seriously|what|huh|right|ok(?:ay)?|oh)\W*$|"
    rf"(?![^？?]*[かのは何誰吗呢么谁哪几怎뭐왜]|どこ|いつ)[{CJK}]{{1,4}}[？?]$",
    re.I,
)
# A number or an id, or a name within a sentence.
_EXACT = regex(r"\d|[a-z,] (?!I\b)[A-Z][a-z]+ [A-Z]")
# "If I need anything, I'll reach out.": nothing is needed now.
_LATER = regex(r"\b(?:if|when|once) (?:i|we) (?:ever )?need (?:anything|something|any|more)\b[^.?!]*[.!]?$")
# What one person advises another to do.
_ADVISES = regex(r"(?:just |and |but )?(?:make sure (?:you|to)|be sure to|try|never)\b(?!.*\b(?:me|us)\b)")
_END = 400  # characters of either end of an answer, which say what the assistant does or waits for
_TRIFLE_WORDS = 3
_ANSWER_WORDS = 5  # "The small grey one."
_MAX_TRIFLE = 240  # characters
_MAX_CLOSING_WORDS = 12  # words of a sentence


def _quote(said: Said, *, with_opening: bool) -> _Quote | None:
    """Return the request in a user's message; None if it has none.

    It has the first sentence that asks for something to be done, or else the first wish or question. Before
    it stand those that say what it is about, `with_opening` and if they fit, or else the last of them where
    it refers back ("fix it"). As many of the sentences after it follow as fit.
    """
    parts = said.sentences
    tasks = (
        i
        for i, s in enumerate(parts)
        if not said.standing[i]
        and is_task(s)
        and not _only_confirms(s)
        and (with_opening or not _ADVISES.match(fold(s)))
    )
    first = next(tasks, None)
    if is_of_task := first is not None:
        # "Consider the following:" only announces.
        if parts[first].endswith((":", "：")):
            first = next((i for i in tasks if not parts[i].endswith((":", "："))), first)
    else:
        first = next((i for i, s in enumerate(parts) if is_wish(s) and not _is_trifle(s)), None)
    if first is None:
        first = next((i for i, s in enumerate(parts) if _is_question(s)), None)
    if first is None:
        return None
    about = _referred(parts[first], clean(said.text))
    room = _MAX_REQUEST - (estimate(about) if about else 0)
    last = first
    before = first and _REFERS_BACK.search(fold(parts[first])) and not _is_trifle(parts[first - 1])
    before = before and not parts[first - 1].endswith((":", "："))
    openings = [i for i in range(first) if not _says_little(parts[i])]
    # Where subjects are left out, a part of what goes before says more than none of it.
    openings = openings if is_cjk(parts[first]) else openings[: int(with_opening)]
    fitting = (i for i in openings if fits(" ".join(parts[i : first + 1]), room))
    if (opening := next(fitting, None)) is not None:
        first = opening
    elif before and fits(" ".join(parts[first - 1 : first + 1]), room):
        first -= 1
    elif before and (end := _end_of(parts[first - 1], room - estimate(parts[first]))):
        return _Quote(f"{end} {_fitted(parts[first], room)}", bool(tasks), about)
    while last + 1 < len(parts) and fits(" ".join(parts[first : last + 2]), room):
        following = fold(parts[last + 1])
        if _CLOSES.search(following, plain_words(following)) and not is_task(parts[last + 1]):
            break
        last += 1
    words = _joined(" ".join(parts[first : last + 1]))
    return _Quote(_fitted(words, room), is_of_task, about)


def _is_question(text: str) -> bool:
    asks = bool(ASKS_QUESTION.search(text) and _WORD.search(text))
    return asks and not (_WONDERS.match(text) or greets(text))


def _end_of(sentence: str, tokens: int) -> str:
    """Return the last clauses of a sentence that fit."""
    clauses = list(each_clause(sentence))
    fitting = (mask("…" + sentence[sentence.rfind(clauses[i]) :]) for i in range(1, len(clauses)))
    return next((end for end in fitting if estimate(end) < tokens), "")


def _fitted(words: str, tokens: int) -> str:
    """Cut words that are too long, without leaving a part of a secret that nothing would know for one."""
    return words if fits(words, tokens) else cut(mask(words), tokens)


def _referred(sentence: str, text: str) -> str:
    """Return the first line of a tagged block that the sentence names, such as `<issue>`, as a document's."""
    for name in re.findall(r"<([A-Za-z][\w:-]{1,60})>", sentence):
        if line := tagged(text, name):
            return f" ({name}: “{_fitted(line, _MAX_REQUEST // 2)}”)"
    return ""


def _closes(said: Said) -> bool:
    """Return whether a message says nothing but that the matter is closed."""
    folded = [fold(sentence) for sentence in said.sentences]
    return 0 < len(folded) <= 4 and all(
        _CLOSES.search(s, plain_words(s)) and len(s.split()) <= _MAX_CLOSING_WORDS and not _GOES_ON.search(s)
        for s in folded
    )


def _is_trifle(text: str) -> bool:
    if len(text) > _MAX_TRIFLE:
        return False
    few = len(text.split()) <= _TRIFLE_WORDS and not (is_cjk(text) and len(text) > 6)
    return few or _only_confirms(text)


def _only_confirms(text: str) -> bool:
    one_word = len(text.split()) == 1 and not is_cjk(text)
    # "Let's proceed with moving it to HAT266" says with what.
    may_confirm = len(text) <= _MAX_TRIFLE and not _EXACT.search(text)
    return one_word or (may_confirm and _CONFIRMS.match(fold(text)) is not None)


def _says_little(sentence: str) -> bool:
    """Whether a sentence only greets, agrees or thanks."""
    folded = fold(sentence)
    is_short = len(sentence.split()) <= _MAX_CLOSING_WORDS
    return _is_trifle(sentence) or (is_short and bool(_CLOSES.search(folded, plain_words(folded))))


def _first_sentences(said: Sequence[str], tokens: int) -> str:
    words, count = said[0] if said else "", 1
    while count < len(said) and fits(f"{words} {said[count]}", tokens):
        words, count = f"{words} {said[count]}", count + 1
    return _fitted(_joined(words), tokens)


_WORD = regex(rf"[^\W\d_{CJK}][\w'-]+|[{CJK}]{{2}}|\d+")
_ASCII_WORD = regex(r"[a-z][\w'-]{3,}|\d{4,}")  # no shorter ones: they say little
_COMMON = frozenset(
    """
    about after again also always answer because been before being could does doing done each every from
    going have help here into just know like look make more most much need never next note only other over
    please really should show some such tell than thank thanks that their them then there these they thing
    things this those time unless until want what when whenever where which while will with would you your
    yours stop longer
    """.split()  # noqa: SIM905
)
_SHORTEST_STEM, _STEM = 4, 5
_LONG = 1_000  # characters
_MIN_STEMS = 3  # of a request that can be understood alone


@lru_cache(maxsize=8)  # the open request is compared with each message
def _stems(text: str) -> frozenset[str]:
    """Return the beginnings of the words that say what a text is about."""
    if text.isascii():
        # In a long text, much is said again and again.
        words = _ASCII_WORD.findall(" ".join(said_once(text)) if len(text) > _LONG else text.lower())
        return frozenset({w[:_STEM] for w in {*words} - _COMMON})
    return frozenset(
        w[:_STEM] if w.isascii() else w
        for w in _WORD.findall(fold(text))
        if (len(w) >= _SHORTEST_STEM or not w.isascii()) and w not in _COMMON
    )


Count = Callable[[str], int]


def shown_lines(asked: Asked, is_raw: Callable[[str], bool], tokens: int, count: Count) -> list[str]:
    """Return the lines of a prompt for what holds now, within `tokens`: the request, then the newest
    instructions. A request that stands raw among the messages is not said twice."""
    request = asked.request if asked.request and asked.is_open and not is_raw(asked.request) else ""
    follow_up = asked.follow_up if asked.is_open and asked.follow_up and not is_raw(asked.follow_up) else ""
    task = [f"{REQUEST_LABEL}{request}"] if request else []
    task += [f"{FOLLOW_UP_LABEL}{follow_up}"] if follow_up else []
    left = tokens - sum(count(line) + 1 for line in task) - count(STANDING_LABEL)
    kept: list[str] = []
    for text in reversed(asked.standing):
        left -= count(f"- {text}") + 1
        if left < 0:
            break
        kept.append(f"- {text}")
    return [*([STANDING_LABEL, *reversed(kept)] if kept else []), *task]


STANDING_LABEL = "The user's standing instructions, the newest last:"
REQUEST_LABEL = "The user's request, unless a message below changes it: "
FOLLOW_UP_LABEL = "Then asked: "


def said_in(text: str, messages: Iterable[Message]) -> Message | None:
    """Return the first of the messages in which a user says this."""
    wanted = _bare(_CONTEXT.sub("", text).rstrip("…"))
    for message in messages:
        words = wanted.removeprefix(_bare(f"{message.name}: ")).strip()
        if message.role == "user" and words in _bare(message.text):
            return message
    return None
