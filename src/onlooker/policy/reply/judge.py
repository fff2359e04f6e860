"""Judge whether a reply may become a note.

Only an accepted reply is committed, so a failing model never consumes a message. The checks run from the
surest to the vaguest, and the first that fails is the reason.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import islice
from operator import eq
from typing import Literal

from onlooker.domain.frozen import frozen
from onlooker.domain.notes import NoteFormat
from onlooker.policy.pace import give_way
from onlooker.policy.reply.evidence import Evidence, Invented
from onlooker.policy.reply.note_text import Line, NoteText, clean, is_thinking_only, read, take_head
from onlooker.policy.text import regex, wrong_language
from onlooker.policy.vocabulary import COMMON_WORDS

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

# What the model is told when it is asked again. This text is outside the fence, where it counts as an
# instruction, so it quotes nothing from the source; of the reply, only single invented values.
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
    "invented values": "it held {values}, which the input does not say. Copy exactly, or leave out.",
}


@frozen
class Accepted:
    """A note that may be committed: `text` in Onlooker's format, and the same parsed."""

    text: str
    note: NoteText
    struck: tuple[str, ...] = ()  # invented values that were taken out


@frozen
class Rejected:
    """Why a reply cannot become a note. `detail` is for the log."""

    reason: Reason
    detail: str = ""
    values: tuple[str, ...] = ()  # what is invented

    @property
    def correction(self) -> str:
        """The sentence for the model when it is asked again."""
        shown = (_UNQUOTABLE.sub(" ", value)[:_MAX_QUOTED] for value in self.values[:_MOST_QUOTED])
        quoted = ", ".join(f'"{value.strip()}"' for value in shown)
        return _CORRECTIONS[self.reason].format(values=quoted or "values or names")


# So many values of a refused reply are named, and so much of each, without marks that end the quotation.
_MOST_QUOTED = 5
_MAX_QUOTED = 40
_UNQUOTABLE = regex(r"[^\w.,:/+#$€£%&@()-]+")


Verdict = Accepted | Rejected

# The longest reply that is read, by the size of its source.
_CHARACTERS_PER_TOKEN = 8
_MAX_CHARACTERS = 100_000
_ALWAYS_READ = 8_000
# A heading and a few words may be longer than a very short source. A note of this size is never too long.
SMALL_NOTE = 60
_MAX_SOURCE_LENGTH = 400_000  # characters of the source that are compared


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
    shown_text: str = "",
    said: Sequence[str] = (),
    strike: bool = False,
) -> Verdict:
    """Accept a reply as a note of its source, repairing it, or say what is wrong with it.

    `prompt_text` is what the model was told besides the source, `must_keep` the source's CRITICAL lines,
    `day` the date of its first message, and `target_tokens` the requested length (0: none). `shown_text` is
    the notes that the model was shown with the source, `said` what people and the agent said in it, in order.
    With `strike`, what is invented is struck out, unless
    it is most of the reply.
    """
    readable = max(_ALWAYS_READ, min(_MAX_CHARACTERS, _CHARACTERS_PER_TOKEN * source_tokens))
    if len(reply_text) > readable:
        return Rejected("too long", f"{len(reply_text)} characters for {source_tokens} tokens")
    note = _without_apology(read(reply_text, format=format, day=day))
    source = source_text[:_MAX_SOURCE_LENGTH]
    asked = target_tokens / max(1, source_tokens) if target_tokens else 1.0
    if rejected := _not_a_note(reply_text, finish, note, source):
        return rejected
    # Where the user only asks, nothing else is to be noted.
    if not note.lines and source_tokens > SMALL_NOTE + 2 * count("\n".join(note.asked)):
        return Rejected("empty", "only what the user asked for")
    if rejected := _repeats(note, source, prompt_text, asked):
        return rejected
    if says_nothing_of(note, source):
        return Rejected("refusal", "speaks of the request, and says nothing of the source")
    if rejected := _cut_off(reply_text, finish, note, f"{source}\n{shown_text}", said):
        return rejected
    own_words, note, lost = _keep_critical(note, must_keep)
    text = note.render()
    if lost:
        return Rejected("lost critical", f"{len(lost)} missing, such as {lost[0][:80]!r}")
    tokens = count(text)
    if tokens > max(source_tokens, SMALL_NOTE):
        return Rejected("too long", f"{tokens} tokens for {source_tokens}")
    if difference := wrong_language(own_words, source):
        return Rejected("wrong language", difference)
    if _is_of_something_else(note, source):
        return Rejected("refusal", "has no word of the source")
    evidence = Evidence(source_text, day, shown_text)
    moved = _under_their_days(note, evidence)
    note, text = moved, text if moved is note else moved.render()
    if not (made_up := _made_up(note, evidence)):
        return Accepted(text, note)
    values = tuple(dict.fromkeys(found.text for line in made_up for found in line))
    bad_lines = sum(map(bool, made_up))
    if not strike or (len(values) > _MAX_STRUCK and 2 * bad_lines > len(note.lines)):
        return Rejected("invented values", ", ".join(values[:5]), values)
    note = _struck(note, made_up, evidence)
    if not note.lines:
        return Rejected("invented values", ", ".join(values[:5]), values)
    return Accepted(note.render(), note, values)


def _without_apology(note: NoteText) -> NoteText:
    """Drop a first line that apologises, if proper lines follow it."""
    first, rest = note.lines[:1], note.lines[1:]
    if note.dated and rest and first[0].time is None and refuses(first[0].text):
        return replace(note, lines=rest)
    return note


def _keep_critical(note: NoteText, must_keep: Sequence[str]) -> tuple[str, NoteText, list[str]]:
    """Return the model's own words, the note, and the lines to keep that it lost.

    A kept line without its priority gets it back.
    """
    wanted = [(key, text) for line in must_keep if (text := take_head(line).text) and (key := _key(text))]
    if not wanted:
        return "\n".join(line.text for line in note.lines), note, []
    keys = [_key(line.text) for line in note.lines]
    kept = [any(key in own for key, _ in wanted) for own in keys]
    lines = [_as_critical(line) if keep else line for keep, line in zip(kept, note.lines, strict=True)]
    own_words = "\n".join(line.text for keep, line in zip(kept, note.lines, strict=True) if not keep)
    everything = "\n".join(keys)
    lost = [text for key, text in wanted if key not in everything]
    return own_words, replace(note, lines=tuple(lines)), lost


def _as_critical(line: Line) -> Line:
    return replace(line, priority="CRITICAL")


_NO_QUOTES = str.maketrans("", "", "\"'“”‘’`*")


def _key(text: str) -> str:
    """Normalise a line for comparison: quotes, spaces and a full stop at its end do not count."""
    return " ".join(text.translate(_NO_QUOTES).split()).strip(" .。;").casefold()


# -- What is invented

_MAX_STRUCK = 2  # more than so many in most of the lines are another conversation's
_STRUCK = "…"
# Brackets in which nothing is left but words that a date needs.
_EMPTIED = regex(
    r"\s?[(（](?=[^()（）]*…)(?:[\s…,;/–—-]|\b(?:to|until|through|week of|c\.?|ca\.?|circa|around|about|since"
    r"|from|in|on|early|mid|late|(?:mon|tues?|wednes|thurs?|fri|satur|sun)(?:day)?)\b)+[)）]",
    re.I,
)


def _under_their_days(note: NoteText, evidence: Evidence) -> NoteText:
    """Put lines under the day they were said on, if there is only one.

    Some models head a line with the day that it speaks of.
    """
    (day, *others) = evidence.days or (None,)
    if day is None or others or all(line.day in (None, day) for line in note.lines):
        return note
    return replace(note, lines=tuple(Line(line.text, day, line.time, line.priority) for line in note.lines))


def _made_up(note: NoteText, evidence: Evidence) -> list[list[Invented]]:
    """Return what is invented, by line, with the ledger last; [] if nothing is."""
    found: list[list[Invented]] = []
    for line in note.lines:
        give_way()
        found.append(_wrong_day(line, evidence) + evidence.invented(line.text, line.day))
    found.append([made_up for value in note.values for made_up in evidence.invented(value)])
    return found if any(found) else []


def _wrong_day(line: Line, evidence: Evidence) -> list[Invented]:
    """Return the day of a line that is under a day on which nothing was said."""
    if line.day is None or not evidence.days or line.day in evidence.days:
        return []
    return [Invented(-1, -1, f"## {line.day}")]


def _struck(note: NoteText, made_up: Sequence[Sequence[Invented]], evidence: Evidence) -> NoteText:
    """Strike out what is invented. A line under a wrong day goes to the nearest right one."""
    lines: list[Line] = []
    for line, found in zip(note.lines, made_up, strict=False):
        text, day = line.text, line.day
        for start, end, _ in reversed(found):
            if start < 0:
                day = _nearest(line.day, evidence.days)
            else:
                text = text[:start] + _STRUCK + text[end:]
        text = " ".join(_EMPTIED.sub("", text).split()) if found else text
        if any(c.isalnum() for c in text):
            lines.append(replace(line, text=text, day=day))
    values = tuple(value for value in note.values if not evidence.invented(value))
    lines.sort(key=lambda line: line.day or dt.date.min)
    return replace(note, lines=tuple(lines), values=values)


def _nearest(day: dt.date | None, days: Sequence[dt.date]) -> dt.date | None:
    return min(days, key=lambda said: abs((said - day).days)) if day else None


# -- Replies that are not a note: refusals, and "nothing to note"


def _not_a_note(reply: str, finish: str, note: NoteText, source: str) -> Rejected | None:
    body = " ".join([line.text for line in note.lines] or note.asked)
    if finish == "refused":
        return Rejected("refusal", "the provider says so")
    if not clean(reply).strip():
        return Rejected("empty")
    if is_thinking_only(reply):
        return Rejected("cut off", "it was still thinking aloud")
    if says_nothing(body):
        return Rejected("empty", body)
    if note.lines and all(refuses(line.text) for line in (note.lines if note.dated else note.lines[:1])):
        return Rejected("refusal", body[:80])
    if not note.dated and speaks_to_the_user(reply):
        return Rejected("unparseable", "goes on with the conversation")
    # Of signs there may be a note of signs: a dump, a drawing, ":1:01".
    if (garbled := _garbled(body)) and not _garbled(source[:_MAX_SIGNS_READ]):
        return Rejected("unparseable", garbled)
    return None


_ALPHANUMERIC = bytes(i for i in range(128) if chr(i).isalnum())
_MAX_WORD_LENGTH = 400


_MAX_SIGNS_READ = 20_000  # characters of a source
_MAX_SIGNS = 20  # characters: of "0:0[[", the note is the same


def _garbled(body: str) -> str:
    """Say why the text is not in any language, or ""."""
    if not body:
        return "no line in it"
    if re.match(r"[\[{]\s*[\"{\[]|<(?:!doctype|html|\?xml)", body, re.I):
        return "structured data"
    words = body.split()
    seen = sum(map(len, words))
    if body.count("\ufffd") > 0.05 * seen:
        return "unreadable characters"
    letters = seen - len("".join(words).encode("ascii", "ignore").translate(None, _ALPHANUMERIC))
    if letters < 0.4 * seen and (not letters or seen > _MAX_SIGNS):
        return f"{letters} letters in {seen} characters"
    if max(map(len, words), default=0) <= _MAX_WORD_LENGTH:
        return ""
    longest = max((len(w) for w in re.findall(r"[!-~]+", body)), default=0)
    return f"a word of {longest} characters" if longest > max(_MAX_WORD_LENGTH, 0.5 * seen) else ""


# How refusals begin. A note begins with a date, a name or a topic.
_REFUSALS = (
    # English
    r"(?:i(?:'|’)?m|i am|we(?:'|’)?re) (?:very |really |so |truly )?(?:sorry|afraid)\b",
    r"sorry,? (?:but )?(?:i|we|as|this|that|your)\b",
    r"i apologi[sz]e",
    r"unfortunately,? (?:i|we)\b",
    r"i(?:(?:'|’)m| am) (?:unable|not able|not allowed|not permitted|prohibited|just an? (?:ai|language))",
    r"i (?:can(?:'|’)?t|cannot|can not|won(?:'|’)t|will not|must (?:decline|refuse)|have to (?:decline"
    r"|refuse)|decline|refuse)\b",
    r"i(?:'|’)?d (?:rather|prefer) not",
    r"i (?:do not|don(?:'|’)t) (?:have (?:access|enough|the ability|any)|see any|feel comfortable"
    r"|think i (?:can|should))",
    r"as an? (?:ai|large language|language)\b",
    r"(?:this|your|the) (?:request|content|conversation|prompt|input) (?:goes against|violates"
    r"|may violate)",
    r"(?:the|your) (?:conversation|input|prompt|text) (?:is|was|appears|seems)(?: to be)? (?:empty"
    r"|missing|blank)",
    r"(?:it (?:looks|seems|appears) (?:like|that) )?(?:there (?:is|was)|you(?:'|’)?(?:ve| have)?) (?:no"
    r"|not|n(?:'|’)t|haven(?:'|’)t)"
    r" ?(?:conversation|messages?|text|content|provided|included|shared|pasted)",
    r"it (?:looks|seems|appears) (?:like|that|as if) (?:you|there (?:is|are|was|were) no"
    r"|the (?:conversation|input))\b",
    r"(?:please|could you(?: please)?|can you(?: please)?) (?:provide|share|paste|send|give|upload)\b",
    r"no (?:conversation|messages?|text|content) (?:was|were|has been|have been) (?:provided|given"
    r"|included|found)",
    r"\[?(?:content (?:filter|blocked|removed)|blocked by|request blocked|response blocked|redacted by)",
    # Chinese, Japanese, Korean
    r"(?:很|非常|十分)?(?:抱歉|对不起|對不起|不好意思)",
    r"(?:作为|作為)(?:一个|一個|一名)?(?:ai|人工智能|人工智慧|语言模型|語言模型)",
    r"我(?:无法|無法|不能|没有办法|沒有辦法|不可以)(?:协助|協助|帮|幫|提供|处理|處理|完成|满足|回答"
    r"|继续|为|對|对)",
    r"(?:请|請)(?:提供|您提供|给出|輸入|输入)",
    r"(?:大変|誠に)?(?:申し訳(?:ありません|ございません|ないですが)|すみません|恐れ入りますが"
    r"|ごめんなさい)",
    r"(?:私は)?(?:ai|言語モデル)(?:アシスタント)?(?:として|なので|であるため)",
    r"(?:その|この|ご)(?:ご?要望|リクエスト|依頼)(?:に)?は?(?:お応え|対応|お答え)(?:でき|いたしかね)",
    r"(?:죄송|미안)(?:합니다|하지만|해요|스럽)",
    r"(?:저는 )?(?:ai|인공지능|언어 모델)(?:로서|이기 때문에|이므로)",
    r"(?:해당|이) 요청(?:은|을|에는?) .{0,12}(?:수 없|어렵)",
    # European languages
    r"(?:es )?tut mir (?:sehr )?leid|leider (?:kann|darf|bin) ich|ich kann (?:dabei|dir|ihnen|diese|das"
    r"|dieser)\b.{0,40}\bnicht|ich bin nicht in der lage"
    r"|als (?:ki|sprachmodell)\b",
    r"(?:je suis )?(?:désolée?|navrée?)\b|je ne (?:peux|suis) pas|je regrette|malheureusement,? je"
    r"|en tant qu(?:e |['’])(?:ia|modèle|assistant|intelligence)",
    r"lo siento|lo lamento|no puedo (?:ayudar|cumplir|proporcionar|asistir|continuar|procesar)"
    r"|como (?:modelo|ia|inteligencia)\b|lamentablemente,? no",
    r"(?:sinto muito|desculpe|lamento)\b|não posso (?:ajudar|fornecer|atender|continuar)"
    r"|como (?:um )?modelo de linguagem|infelizmente,? não",
    r"mi dispiace|non posso (?:aiutar|fornire|soddisfare|continuare)|come (?:modello|intelligenza|ia)\b"
    r"|purtroppo non",
    r"het spijt me|sorry,? (?:maar )?ik kan|ik kan (?:u|je|hier|dit|deze)\b.{0,40}\bniet|als (?:ai"
    r"|taalmodel)\b",
    r"(?:jeg )?beklager\b|(?:jeg kan )?dessverre|jeg kan ikke (?:hjelpe|oppfylle|bistå|gi)"
    r"|jag kan (?:tyvärr )?inte|tyvärr kan jag|jeg kan desværre",
    r"przykro mi|przepraszam|niestety,? nie mogę|nie mogę (?:pomóc|spełnić)|jako model",
    r"извините|к сожалению,? я|простите|я не могу (?:помочь|выполнить|предоставить|ответить)"
    r"|как (?:языковая модель|ии|искусственный)",
    r"вибачте|на жаль,? я|üzgünüm|maalesef|bu isteğe|omlouvám se|bohužel nemohu|sajnálom|îmi pare rău"
    r"|valitettavasti en|anteeksi",
    # Others
    r"(?:عذر|آسف|أعتذر|للأسف|لا أستطيع|لا يمكنني)|(?:סליחה|מצטער|אני לא יכול)|(?:क्षमा|माफ़|मुझे खेद)"
    r"|(?:ขออภัย|ขอโทษ)",
    r"(?:xin lỗi|rất tiếc|tôi không thể)|(?:maaf|mohon maaf)",
)
_REFUSES = regex("|".join(f"(?:{pattern})" for pattern in _REFUSALS), re.I)

_NOTHING = regex(
    r"[\W_]*(?:none|n/?a|nil|null|empty|nothing|no (?:new |further |notable |relevant |significant "
    r"|important )*"
    r"(?:observations?|notes?|reflections?|information|facts|updates?|content|changes)"
    r"|(?:there (?:is|are|was|were) )?nothing (?:new |else |notable |important "
    r"|significant )*(?:to (?:note|observe|report|add|record|remember))?"
    r"|there (?:are|were) no (?:new |further |notable |relevant |significant "
    r"|important )*(?:observations?|notes?|facts|updates?)"
    r"|keine(?: neuen)?(?: beobachtungen| notizen)?|aucune(?: nouvelle)?(?: observation| note)?"
    r"|ninguna?(?: observación| nota)?"
    r"|ingen(?: nye)?(?: observasjoner| notater)?|无|無|没有|暂无|没有新的?(?:观察|信息|内容)"
    r"|无(?:新)?(?:观察|内容|笔记)|なし|特になし|特筆事項なし"
    r"|없음|해당 없음|нет(?: новых)?(?: наблюдений| заметок)?)"
    r"(?: (?:to (?:report|note|add|record|observe)|at this time|so far|yet|were made|found|here"
    r"|in this (?:conversation|chunk|batch)))*[\W_]*",
    re.I,
)
_SPEAKS_TO_THE_USER = regex(
    r"(?:(?:hi|hello|hey)(?: there)?[,! ]|thank you for|thanks for|you(?:'|’)re welcome|great question"
    r"|how can i help|happy to help"
    r"|i(?:'|’)?d be happy to|i(?:'|’)ll (?:help|get|take|look|go|start|fix|do|check)|let(?:'|’)s\b"
    r"|sure[,!.] |of course[,!.] |certainly[,!.] "
    r"|好的[，,！]|没问题|您好|你好|はい、|こんにちは|ありがとうございます|안녕하세요|네, |bonjour"
    r"|hola[,! ]|hallo[,! ]|gerne[,!])",
    re.I,
)


def refuses(text: str) -> bool:
    """Return whether the text begins like a refusal."""
    return bool(_REFUSES.match(text.lstrip(" \t\n*_\"'“”「『>#-")))


def says_nothing(text: str) -> bool:
    """Return whether the text only says that there is nothing to note."""
    return len(text) < 120 and bool(_NOTHING.fullmatch(text.strip()))


# Words of refusals, of errors and of replies that ask for the conversation. A note may have them too, beside
# words of its source. At least one must be of the first kind: a vague note speaks of "the user" as well.
_OF_REFUSALS = frozenset(
    """
    able allowed apologies apologise apologize apology blocked cannot capacity comply decline denied detected
    error exceeded failed filter filtered flagged guidelines harmful inappropriate internal limit moderation
    outside overloaded paste permit permitted please policies policy quota refuse removed retry safety sorry
    temporarily timed timeout unable unavailable unfortunately unsafe violate violates violation
    """.split()  # noqa: SIM905
)
_ABOUT_ITSELF = _OF_REFUSALS | frozenset(
    """
    again assist assistant available away contact contains content conversation could discussed due
    exchange exchanges following happened happy help important information input later limits matters
    medical message messages model need note noted notes noteworthy nothing observations personal possible
    potentially process processing produce prompt provide provided rate reach received relevant request
    requests response said second sending sensitive server service share summarise summarize summary
    support taking text think understand usage user users wait want while work would
    """.split()  # noqa: SIM905
)
_MAX_REFUSAL_WORDS = 60  # words
_MIN_ABOUT_ITSELF = 2
_MIN_SOURCE_LENGTH = 200  # characters
_CONTENT_WORD = regex(r"[a-z]{4,}")


def says_nothing_of(note: NoteText, source: str) -> bool:
    """Return whether a short reply has no word of its source, only words such as "content" and "request", and
    others that fit any conversation: "The user and the assistant talked about several topics"."""
    body = " ".join(line.text for line in note.lines).lower()
    words = set(_CONTENT_WORD.findall(body))
    if not body.isascii() or len(body.split()) > _MAX_REFUSAL_WORDS or len(source) < _MIN_SOURCE_LENGTH:
        return False
    if len(words & _ABOUT_ITSELF) < _MIN_ABOUT_ITSELF:
        return False
    others = words - _ABOUT_ITSELF - _ALWAYS_SAID
    said = source.lower()
    if not words & _OF_REFUSALS:
        if not others:
            return "nothing" in words  # "Nothing of note was said"
        if len(list(islice(_CONTENT_WORD.finditer(said), len(words)))) < len(words):
            return False  # a note in English of what was said in another language, or in signs
    return not any(word[:_STEM] in said for word in others)


_MOST_WORDS_ELSEWHERE = 16
_ANY_CONTENT_WORD = regex(r"[^\W\d_]{4,}")
_OF_PEOPLE = regex(r"\b(?:users?|assistants?|agents?|they|he|she|we)\b|:", re.I)
_HAN_OR_HANGUL = regex(r"[\u4e00-\u9fff\uac00-\ud7af]")
_MOST_SIGNS_ELSEWHERE = 30
_NAME_OR_NUMBER = regex(r"(?<![.!?\s])\s+\W{0,3}[A-Z0-9]")


def _is_of_something_else(note: NoteText, source: str) -> bool:
    """Return whether a short reply has nobody and no word of its source: "Your free trial has expired.".

    Of a source in another script nothing is known, but a reply in Chinese is not a note of one that has no
    sign of it.
    """
    body = " ".join(line.text for line in note.lines)
    if (
        len(source) < _MIN_SOURCE_LENGTH
        or len(body.split()) > _MOST_WORDS_ELSEWHERE
        or _OF_PEOPLE.search(body)
    ):
        return False
    if signs := _HAN_OR_HANGUL.findall(body):
        return len(signs) <= _MOST_SIGNS_ELSEWHERE and set(signs).isdisjoint(source)
    said, words = source.lower(), set(_ANY_CONTENT_WORD.findall(body.lower())) - _ALWAYS_SAID
    spoken = list(islice(_ANY_CONTENT_WORD.finditer(said), 2 * _MOST_WORDS_ELSEWHERE))
    is_latin = len(spoken) == 2 * _MOST_WORDS_ELSEWHERE and "".join(m[0] for m in spoken)[:40].isascii()
    has_name = _NAME_OR_NUMBER.search(body)
    return bool(words) and is_latin and not has_name and not any(word[:_SHORT_STEM] in said for word in words)


_SHORT_STEM = 4
_STEM = 6  # characters: "moved" and "moving" have the same beginning
_ALWAYS_SAID = frozenset(
    """
    about after also because been before being both does done each from going have having here into just like
    make more most much only other over some such than that their them then there these they this those very
    were what when where which will with your
    """.split()  # noqa: SIM905
)


def speaks_to_the_user(text: str) -> bool:
    """Return whether the text continues the conversation instead of noting it."""
    return bool(_SPEAKS_TO_THE_USER.match(text.strip()))


# -- Replies that repeat themselves, the prompt or the source


def _repeats(note: NoteText, source: str, prompt: str, asked: float) -> Rejected | None:
    body = "\n".join(line.text for line in note.lines)
    words = units(body)
    if repetition := _degenerate(body, words, note.lines):
        return Rejected("degenerate", repetition)
    if _repeats_prompt(words, prompt):
        return Rejected("echo", "of the prompt")
    if _copies(words, source, asked):
        return Rejected("echo", "of the source")
    return None


WINDOW = 8
_UNIT = regex(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0e7f]|[^\W_]+")
# A short run of letters, over and over: "hahahaha…". Dividers, dots and zeros are allowed.
_STUTTER = regex(r"([^\W\d_]{1,8}?|(?:[^\W\d_]{1,12}[ ,.!\n]{1,2}){1,2}?)\1{15,}")
_STUTTERED = 16

_MIN_UNITS = 40  # a shorter text may repeat itself for emphasis
_REPEATED_SHARE = 0.4
_REPEATED_RUN = 80
_SAME_LINES = 4
_ECHO_UNITS = 60
# A short note may say the same as a short source, and a reflection may keep most of its lines. A copy is
# literal, and far longer than requested.
_COPY_SHARE = 0.85
_COPY_SOURCE = 150
_MIN_COPY = 0.6
_MAX_COPY = 0.95
_BEYOND_TARGET = 1.5
_PROMPT_SHARE = 0.3
_USUAL_WORD = 12  # characters, with the space after it


def units(text: str) -> list[str]:
    """Split a text into words, or into characters in scripts without spaces."""
    if text.isascii():
        return text.translate(_ASCII_UNITS).split()
    return _UNIT.findall(text.lower())


# Lower case, and a space for what is part of no word.
_ASCII_UNITS = {i: c.lower() if (c := chr(i)).isalnum() else " " for i in range(128)}


def _degenerate(text: str, words: Sequence[str], lines: Sequence[Line]) -> str:
    """Say how the text repeats itself, or ""."""
    if _may_stutter(words) and (match := _STUTTER.search(text)):
        return f"repeats {match[1].strip()[:24]!r}"
    if repeated := _repeated_line(lines):
        return f"repeats the line {repeated[:60]!r}"
    own = windows(words)
    if len(words) < _MIN_UNITS or len(set(own)) == len(own):
        return ""
    seen: set[tuple[str, ...]] = set()
    again = run = longest = 0
    for window in own:
        run = run + 1 if window in seen else 0
        again += run > 0
        longest = max(longest, run)
        seen.add(window)
    share = again / len(own)
    if share > _REPEATED_SHARE or (longest > _REPEATED_RUN and share > _REPEATED_SHARE / 2):
        return f"{share:.0%} of it is said before in it"
    return ""


def _may_stutter(words: Sequence[str]) -> bool:
    """Return whether a word consists of 16 equal parts, or a few words follow each other almost that often.

    Nothing else can stutter, and the pattern is slow.
    """
    if any(_STUTTER.search(word) for word in words if len(word) >= _STUTTERED):
        return True
    often = {word for word, times in Counter(words).items() if times >= _STUTTERED - 1}
    # All words of a stutter are said so often, one after the other.
    if not often or _longest_run(map(often.__contains__, words)) < _STUTTERED - 2:
        return False
    repeated = (map(eq, words, islice(words, apart, None)) for apart in range(1, 9))
    return any(_longest_run(same) >= (_STUTTERED - 2) * apart for apart, same in enumerate(repeated, 1))


def _longest_run(flags: Iterable[bool]) -> int:
    """Return how many in a row are true."""
    return max(map(len, bytes(flags).split(b"\0")))


def _copies(words: Sequence[str], source: str, asked: float) -> bool:
    """Return whether the words are a copy of the source, when a note of the `asked` share was requested."""
    share = max(_MIN_COPY, min(_MAX_COPY, _BEYOND_TARGET * asked))
    # A note is far shorter than its source, so most of the source need not be split.
    enough = int(len(words) / share) + 2
    if len(units(source[: _USUAL_WORD * enough])) > enough:  # one of them may be cut
        return False
    begin = units(source)
    if len(begin) < _COPY_SOURCE or len(words) < share * len(begin):
        return False
    return shared(words, set(windows(begin))) > _COPY_SHARE


def _repeats_prompt(words: Sequence[str], prompt: str) -> bool:
    """Return whether many of the words are copied from the prompt."""
    if len(words) < WINDOW or not prompt:
        return False
    share = shared(words, _windows_of_prompt(prompt))
    return share > _PROMPT_SHARE or share * len(words) > _ECHO_UNITS


@lru_cache(maxsize=4)
def _windows_of_prompt(prompt: str) -> frozenset[tuple[str, ...]]:
    return frozenset(windows(units(prompt)))


def shared(words: Sequence[str], known: Collection[tuple[str, ...]]) -> float:
    """Return the share of windows that are among the known ones."""
    own = windows(words)
    return sum(window in known for window in own) / max(1, len(own))


def windows(words: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(*(words[i:] for i in range(WINDOW)), strict=False))


def _repeated_line(lines: Sequence[Line]) -> str:
    counts = Counter(line.text.casefold() for line in lines)
    if not counts:
        return ""
    text, times = counts.most_common(1)[0]
    return text if times >= _SAME_LINES and times > 0.3 * len(lines) else ""


# -- Replies that end too early, although the provider did not say so


def _cut_off(
    reply: str, finish: str, note: NoteText, shown: str, said: Sequence[str] = ()
) -> Rejected | None:
    if finish == "length":
        return Rejected("cut off", "the provider says so")
    shows = stops_short(reply, note) or stops_in_a_word(reply, shown, said)
    return Rejected("cut off", shows) if shows else None


_LAST_WORD = regex(r"(?<![^\W_])(?:[^\W\d_]{2,40}|[a-z])$")
_WORD_BEFORE = regex(r"([^\W\d_]+)\s+$")
_BEFORE = 60  # characters in which the word before is looked for
# What a word may lack without being cut, and what a name may lack: "Berg" of "Bergs".
_PLURALS = frozenset({"", "s", "es"})
_ENDINGS = _PLURALS | {"n", "en", "er", "e", "ns"}


def stops_in_a_word(reply: str, shown: str, said: Sequence[str] = ()) -> str:
    """Say so if the reply ends with the beginning of a word that the model was shown, or "".

    Words have many forms, a "photo" is not the beginning of "photography": the word before it must be the
    same as well. Without one, it must be the beginning of a name. Or it is not a word that we know, and the
    reply has nothing of the last of what was `said`. Scripts that have no capital letters are
    left out: they have no spaces, or signs inside their words.
    """
    text = reply.rstrip("`~ \n")
    found = _LAST_WORD.search(text)
    if found is None or found[0].lower() == found[0].upper():
        return ""
    word, place = found[0], found.start()
    longer = list(re.finditer(rf"\b{word}([^\W\d_]*)", shown, re.I))
    rests = {match[1].lower() for match in longer}
    if not rests.isdisjoint(_PLURALS) or re.search(rf"\b{word}(?:e?s)?\b", text[:place], re.I):
        return ""  # it is a word, of the source or of the model
    line_start = text.rfind("\n") + 1
    if before := _word_before(text[line_start:], place - line_start):
        is_cut = any(_word_before(shown, match.start()) == before for match in longer)
    else:
        is_cut = word[0].isupper() and rests.isdisjoint(_ENDINGS) and any(m[0][0] == word[0] for m in longer)
    if not is_cut and rests.isdisjoint(_ENDINGS) and word.lower() not in _known_words():
        is_cut = _stops_before_the_end(reply, said)
    return f"ends in the middle of a word: {word!r}" if is_cut else ""


def _word_before(text: str, place: int) -> str:
    found = _WORD_BEFORE.search(text[max(0, place - _BEFORE) : place])
    return found[1].lower() if found else ""


_TELLING = regex(r"[^\W\d_]{4,}")
_READ_OF_EACH = 400  # characters of a message: what is pasted has many words, of which a note needs none
_LAST_SHARES = (0.2, 0.35, 0.5)


def _stops_before_the_end(reply: str, said: Sequence[str]) -> bool:
    """Whether a note has no word of the last of what was said, where it has many of the rest.

    A short note may be of the beginning alone, so this proves nothing.
    """
    noted, each = _stems(reply), [_stems(text[:_READ_OF_EACH]) for text in said]
    start, size, whole = len(each), 0, sum(map(len, each))
    for share in _LAST_SHARES:
        while start and size < share * whole:
            start -= 1
            size += len(each[start])
        rest, last = set[str]().union(*each[:start]), set[str]().union(*each[start:])
        before, end = rest - last, last - rest
        if end.isdisjoint(noted) and len(noted & before) * len(end) > len(before):
            return True
    return False


@cache
def _known_words() -> frozenset[str]:
    return frozenset(COMMON_WORDS.lower().split())


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in _TELLING.findall(text.lower())}


_SENTENCE_END = tuple(".!?…。！？」』”\"')）]*`")
# Words that need a continuation, in lower case only: OR and DE may be places.
_LEADS_ON = regex(
    r"(?:^|\s)(?:and|or|but|the|an|of|because|than|whose|und|oder|aber|weil|dass|et|ou|mais|parce que"
    r"|du|pero|porque"
    r"|y|og|eller|fordi|och|i że|ponieważ|и|или|потому что)$"
)
_OPEN_END = regex(r"(?:[,，、;；({\[（「『“+=→]|\s[-–—&])$")
_OPEN_STAMP = regex(r"\[[\d\-:/ T]{0,16}$|^#{1,6}\s*(?:\d[\d-]{0,9})?$")
_MIN_SENTENCES = 2
_MIN_LINES = 4


def stops_short(reply: str, note: NoteText) -> str:
    """Say what shows that the reply was cut off, or ""."""
    text = reply.rstrip().rstrip("`~").rstrip()
    last = text.rsplit("\n", 1)[-1].strip()
    if not last:
        return ""
    if _OPEN_STAMP.search(last) or _bare_head(last):
        return f"ends with {last[-24:]!r}"
    if _OPEN_END.search(last) or _LEADS_ON.search(last):
        return f"ends with {last[-24:]!r}"
    if len(last) <= _LONGEST_HEAD and ":" not in last and _begins_another(last, text):
        return f"ends with the beginning of a line: {last!r}"
    if _unlike_the_rest(note, last, one_paragraph="\n" not in text.strip()):
        return f"the last sentence has no end: {last[-24:]!r}"
    return ""


_LONGEST_HEAD = 24  # characters: who speaks


def _begins_another(last: str, text: str) -> bool:
    """Whether the last line is how another begins: "assist", where one begins with "assistant: "."""
    others = (line.strip().partition(": ") for line in text.split("\n")[:-1])
    return not last.endswith(_SENTENCE_END) and any(
        colon and len(last) <= len(head) and head.startswith(last) for head, colon, _ in others
    )


def _bare_head(last: str) -> bool:
    head = take_head(last)
    return head.found and not head.text


def _unlike_the_rest(note: NoteText, last: str, *, one_paragraph: bool) -> bool:
    """Return whether only the last sentence has no full stop."""
    if last.endswith(_SENTENCE_END) or last.lower().startswith("values"):
        return False
    if note.format == "prose":
        text = note.lines[-1].text if note.lines else ""
        return one_paragraph and len(re.findall(r"[.!?](?=\s)|[。！？]", text)) >= _MIN_SENTENCES
    # The lines are sorted by day, so the cut one is whichever has no full stop.
    ended = [line.text.endswith(_SENTENCE_END) for line in note.lines]
    return len(ended) > _MIN_LINES and ended.count(False) == 1
