"""Split notes into statements that can be read alone, and recognise what kind of fact each states."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Literal

from onlooker.domain.frozen import frozen
from onlooker.domain.items import ItemType, Origin
from onlooker.domain.notes import NoteFormat
from onlooker.policy.items.sentence import predicate, request, sentence
from onlooker.policy.reply import Line, Priority, read
from onlooker.policy.reply.note_text import QUOTED_BY, STANDING
from onlooker.policy.text import bounded, regex

# -- Kinds of facts, recognised by their words


@frozen
class Kind:
    """One kind of fact: its item type and tag, its weight, and the patterns that recognise it.

    `pattern` finds it in a note, which was written to be remembered. `spoken` matches what a person says in
    English, where the same words are mostly talk: there they have to begin a clause about the person. `other`
    finds it in other languages.
    """

    type: ItemType
    tag: str
    weight: int
    pattern: re.Pattern[str]
    spoken: re.Pattern[str]
    other: re.Pattern[str]


def _kind(type: ItemType, tag: str, weight: int, noted: str, spoken: str, other: str = "") -> Kind:
    """`noted` and `spoken` are English, `other` are other languages."""
    pattern = regex("|".join(filter(None, (noted, other))), re.I)
    return Kind(type, tag, weight, pattern, regex(spoken, re.I), regex(other or "(?!)", re.I))


# People and pets named by their relation to the speaker.
FAMILY = (
    "sister|brother|wife|husband|partner|girlfriend|boyfriend|fiancée?|son|daughter|mother|father"
    "|mom|mum|dad"
    "|parents|grandmother|grandfather|cousin|niece|nephew|boss|manager|colleague|roommate|flatmate"
    "|dog|cat|pet"
    "|kids?|child|children|friend"
)
_HEALTH = (
    r"\ballerg(?:y|ies|ic)\b|\bintoleran(?:t|ce)\b|\bdiabet(?:es|ic)\b|\bc(?:o)?eliac\b|\bdiagnosed\b"
    r"|\basthma\b"
    r"|\bpregnant\b|\bmedication\b|\bvegan\b|\bvegetarian\b|\bpescatarian\b|\b(?:halal|kosher)\b"
)
_DATED = (
    r"\bdeadline\b|\bdue (?:on|by|date)\b|\bappointment\b|\bwedding\b|\bgetting married\b"
    r"|\bflight (?:on|at|to)\b|\bexam\b|\binterview (?:on|at|with)\b|\bsurgery\b|\bgraduat\w+\b"
    r"|\banniversary\b|\bexpires? on\b"
)
_IDENTITY = (
    r"\bname is\b|\bliv(?:e|es|ing) (?:in|with|near|at|alone)\b|\bmov(?:ed|ing|es) (?:from|to|back|in)\b"
    r"|\bborn (?:in|on)\b|\bbased in\b|\brelocat\w+\b|\byears old\b|\bbirthday\b|\bcomes? from\b|\bgrew up\b"
    r"|\bnationality\b|\bworks? (?:as|at|for|in|remotely)\b|\bworking (?:as|at|for)\b|\b(?:my|new|a"
    r"|the) job\b"
    r"|\bstud(?:y|ies|ying) (?:at|in|to)\b|\b(?:got|is|am|are|i'm) (?:married|engaged|divorced|single"
    r"|retired)\b"
    r"|\bemail\b|\bphone number\b"
    r"|(?:\b(?:is|am)|i'm) an? (?:[\w-]+ ){0,3}(?:engineer|developer|teacher|nurse|doctor|student"
    r"|designer|manager"
    r"|lawyer|artist|writer|scientist|researcher|founder|freelancer|consultant|analyst|chef|driver|pilot"
    r"|photographer|musician|parent)\b"
    r"|\btime ?zone\b|\bpronouns\b|\bmajor(?:s|ed|ing)? in\b|\bdegree\b|\bpromoted\b|\bhired\b"
)
_DECISION = (
    r"\b(?:decided|decides|agreed (?:on|to|that)|chose|chosen|settled on|going with|switch(?:ed|ing) to"
    r"|instead of"
    r"|migrat(?:ed|ing) to|approved|cancell?ed)\b"
)
_SKILL = (
    r"\b(?:speaks?|fluent in|knows how to|experienced (?:in|with)|years of experience|expert in|certified"
    r"|plays? the"
    r"|can (?:speak|play|code|program)|learning (?!with|about|from|how|a lot|so)(?:to )?\w+|beginner"
    r"|native speaker)\b"
)
# What begins a clause about the speaker, and what may come before its verb.
_SELF = r"^(?=(?:i|i'm|i've|i'd|i'll|my|our)\b)"
_ADVERBS = (
    r"(?:(?:no longer|do not|don't|really|also|now|usually|still|just|much|absolutely|generally|mostly"
    r"|always|never)"
    r" )*"
)
# A taste without an object that can be understood alone is no fact: "I love it", "I like how you think".
_NO_OBJECT = (
    r"(?!it\b|that\b|this\b|these\b|those\b|them\b|him\b|her\b|how\b|when\b|what\b|where\b|the way\b|to see)"
)
_TASTE = (
    rf"^i {_ADVERBS}(?:prefer|like|love|hate|dislike|enjoy) {_NO_OBJECT}|^i {_ADVERBS}(?:can't|cannot) stand"
    rf" {_NO_OBJECT}|^i(?:'d| would) rather\b|^my favou?rite\b|^i(?:'m| am) (?:not )?(?:an? )?(?:big "
    r"|huge )?fan of"
)
_HABIT = (
    r"^i (?:always|never|usually) (?:eat|drink|use|take|wear|drive|work|read|write|sleep|get up|wake|cook"
    r"|buy|fly"
    r"|travel|train|run|smoke|answer|check|pay)\b"
)
# The first match decides. Kinds that do harm when forgotten come first.
KINDS = (
    _kind(
        "profile", "health", 5, _HEALTH, rf"{_SELF}.*?(?:{_HEALTH})",
        "过敏|忌口|素食|アレルギー|ベジタリアン|알레르기|채식|\\bich (?:bin|habe"
        "|esse)\\b.*(?:\\bAllergi(?:e|sch)\\b"
        "|\\bvegan\\b|\\bvegetarier)|\\bje\\b.*\\b(?:allergi(?:que|e)\\b|végétari|végane)"
        "|\\b(?:soy|tengo|estoy)\\b.*\\b(?:alérgic|alergia|vegetarian|vegan|celíac)",
    ),
    _kind(
        "behavior", "instruction", 4,
        r"\b(?:always|never|from now on|in future|going forward|please (?:always|never|don't|do not|use|write"
        r"|call|keep|avoid)|call me|address me|remember (?:that|to)|make sure|stop (?:using|sending"
        r"|asking))\b"
        "|以后|今后|总是|永远|不要再|请记住|务必|必ず|今後|いつも|覚えて|항상|앞으로|기억해|\\bimmer\\b"
        "|\\btoujours\\b"
        "|\\bsiempre\\b",
        # What is said to the assistant is found by `policy.instructions`.
        r"(?!)",
    ),
    _kind(
        "event", "deadline", 4, _DATED,
        rf"{_SELF}.*?(?:{_DATED})|^(?:the|our) (?:[\w'-]+ ){{0,3}}(?:deadline|due date|wedding|exam"
        rf"|launch|release)\b"
        r".{0,40}\b(?:is|are|was moved|moved)\b|^(?:i'm|we're|i am|we are) getting married\b",
        "截止|婚礼|考试|预约|締め切り|締切|結婚式|予約|마감|결혼식|예약",
    ),
    _kind(
        "behavior", "preference", 3,
        r"\b(?:prefers?|preferred|favou?rites?|likes?|loves?|hates?|dislikes?|enjoys?|can(?:'t|not) stand"
        r"|would rather|no longer likes?|fan of)\b",
        rf"{_TASTE}|{_HABIT}",
        "喜欢|喜歡|偏好|讨厌|最爱|好き|嫌い|好む|좋아|싫어|선호|\\bich (?:mag|liebe|hasse|bevorzuge)\\b"
        "|\\bje préfère\\b"
        "|\\bje (?:n'aime|déteste)\\b|\\bj'(?:aime|adore)\\b|\\bprefier[eo]\\b|\\bme (?:gusta"
        "|encanta)n?\\b|\\bodio\\b",
    ),
    _kind(
        "profile", "identity", 3, _IDENTITY, rf"{_SELF}.*?(?:{_IDENTITY})",
        "我叫|名字是|住在|搬到|搬家|出生|来自|岁|生日|工作是|职业|当护士|名前は|住んで|引っ越|出身|歳"
        "|誕生日|이름은|살고"
        "|이사|생일|\\bich (?:heiße|wohne|lebe|arbeite|komme aus)\\b|\\bje m'appelle\\b|\\bj'habite\\b"
        "|\\bje n'habite\\b"
        "|\\bje (?:ne )?(?:travaille|vis|viens de)\\b|\\bme llamo\\b|\\bvivo en\\b|\\btrabajo (?:como|en"
        "|de|para)\\b"
        "|\\bsoy de\\b",
    ),
    _kind(
        "knowledge", "decision", 3, _DECISION,
        rf"^(?:i|we|i've|we've|my|our)\b.{{0,40}}?(?:{_DECISION})(?! (?:it|this|these|those|them|you)\b)",
        "决定|選んだ|決めた|決定|결정|\\bentschieden\\b|\\bdécidé\\b|\\bdecidido\\b",
    ),
    _kind(
        "skill", "skill", 2, _SKILL, rf"{_SELF}.{{0,30}}?(?:{_SKILL})",
        "会说|擅长|正在学|話せ|得意|勉強し|할 줄|배우고",
    ),
    _kind(
        "profile", "people", 2,
        rf"\b(?:{FAMILY})(?:'s|s)?\b",
        rf"^my (?:[\w'-]+ )?(?:{FAMILY})(?:'s|s)?\b"
        rf"|^i(?: no longer)?(?:'ve| have| don't have)(?: got)? (?:an?|\d+|two|three"
        rf"|four) (?:\w+ )?(?:{FAMILY})s?\b",
        "妻子|丈夫|老婆|老公|儿子|女儿|妈妈|爸爸|姐姐|妹妹|哥哥|弟弟|同事|老板|妻|夫|息子|娘|母|父|姉|妹"
        "|兄|弟|상사|아내"
        "|남편|아들|딸",
    ),
    _kind(
        "knowledge", "fix", 1,
        r"\b(?:fixed by|root cause|caused by|the fix|solved by|resolved by|turned out)\b", r"(?!)",
        "原因是|修复|原因は|원인은",
    ),
)  # fmt: skip
INSTRUCTION = KINDS[1]

# Words for what is true only for the moment.
TRANSIENT = regex(
    r"\b(?:today|tonight|right now|just now|at the moment|for now|this (?:morning|afternoon|evening"
    r"|minute|second)"
    r"|in a (?:minute|second|moment|bit)|brb|currently (?:busy|driving|eating|out|away|waiting|typing|in a)"
    r"|(?:am|is|are|i'm|feeling|feels) (?:so |very |a bit |really )?(?:tired|hungry|sleepy|bored|busy"
    r"|cold|late)"
    r"|heute|gerade eben|im moment|aujourd'hui|en ce moment|hoy|ahora mismo)\b"
    r"|今天|现在|刚才|此刻|今日は|今は|さっき|지금|오늘|방금",
    re.I,
)
# Questions and requests, which state nothing.
QUESTION = regex(
    r"[?？]\s*$|^(?:can|could|would|will) you\b|^(?:what|how|why|when|where|who|which|is|are|do|does"
    r"|did)\b.*\b(?:you|we|i|it)\b"
    r"|^(?:please )?(?:run|show|give|tell|explain|help|find|list|open|check|fix|try)\b"
    r"|\basked (?:whether|if|what|how|why)\b",
    re.I,
)
# What is not said to be so, or is said of others: "if I lived there", "I'm no longer sure", "your job".
HEDGED = regex(
    r"^(?:if|unless|when|suppose|imagine|what if|say)\b|\b(?:if (?:i|we)|maybe|perhaps|might|wish(?:ed)?"
    r"|wonder\w*"
    r"|hypothetical\w*|pretend\w*|as if|used to|dreamed|unsure"
    r"|(?:not|no longer|n't|never) (?:so |really |quite |entirely |even |that )?(?:sure|certain|convinced"
    r"|clear))\b"
    r"|\byou\b|\byour|\byou['’]",
    re.I,
)
NEGATION = regex(
    r"\b(?:not|no|never|none|no longer|cannot|without|stopped|quit|\w+n't|nicht|kein\w*|ne|pas|jamais"
    r"|nunca|nie)\b"
    r"|不|没|沒|ない|ません|안 |않",
    re.I,
)


def kind_of(text: str) -> Kind | None:
    """Return the kind of fact that the words of a note state, if any."""
    return next((kind for kind in KINDS if kind.pattern.search(text)), None)


# How every clause begins that states a fact about the speaker in English.
_ENGLISH = regex(r"(?:i|we|my|our|the)\b", re.I)
_NO_LONGER = regex(r"\b(?:no longer|not|any ?more|any longer)\b ?|(?<=\w)n't\b", re.I)


def spoken_kind(clause: str) -> Kind | None:
    """Return the kind of fact that a clause of what a person says states about them, if any. It is the same
    for what is no longer so."""
    plain = clause.replace("’", "'")
    spoken = (plain, _NO_LONGER.sub("", plain)) if _NO_LONGER.search(plain) else (plain,)
    if _ENGLISH.match(plain):
        return next((kind for kind in KINDS if any(map(kind.spoken.match, spoken))), None)
    return next((kind for kind in KINDS if any(map(kind.other.search, spoken))), None)


# -- Statements

# The longest summary. Anything longer is a passage, not a fact.
MAX_CHARACTERS = 300

_SPEAKER = regex(r"(?P<who>[\w.-]+\([^\n]*?\)|[^\s:：][^:：;]{0,40}?)\s?[:：]\s+(?=\S)")
_CLAUSES = regex(r";\s+|；")
# Two facts in one sentence: either may change without the other.
_TWO = regex(
    r",?\s+and\s+(?=(?:i\s+|i'm\s+|also\s+)*(?:am|work|live|have|prefer|like|love|hate|speak|study|own"
    r"|use|play)"
    r"(?:s|es|ing)?\b|i'm\b|i am\b|i've\b|my \w+(?: \w+)? (?:is|are)\b)",
    re.I,
)
# After a first "I", a second one begins a new statement.
_AGAIN = regex(r",?\s+and\s+(?=i\b)", re.I)
_I = regex(r"i\b", re.I)
_INTRODUCED = regex(r"(?P<name>[A-ZÀ-Þ][\w'’-]+), (?=I\b)")
_SENTENCES = regex(r"(?<=[.!。！])\s+(?=[^\sa-z])|(?<=[。！])")
_NAME = regex(r"(?P<who>[A-ZÀ-Þ][\w'’-]+(?: [A-ZÀ-Þ][\w'’-]+)?)(?:'s|’s)? (?=[a-z])")
_NO_NAME = regex(
    r"(?:the|an?|this|that|these|those|i|we|you|they|it|he|she|my|our|your|his|her|their|there|here"
    r"|please|can"
    r"|could|would|will|if|when|what|how|why|where|who|deadline|meeting|team|project|user|assistant)\b",
    re.I,
)


@frozen
class Statement:
    """One statement of a note, word for word, with its speaker or subject."""

    text: str
    subject: str  # as written; empty if nobody is named
    origin: Origin
    day: dt.date | None
    priority: Priority
    source: str  # the id of the note or message; empty if there is none
    kind: Kind | None = None
    at: dt.datetime | None = None  # when it was said, if that is known better than by the day
    # How the text reads: a line of a note, or what a person says, asks an assistant to do, or asks to forget.
    form: Literal["noted", "said", "asked", "taken back"] = "noted"

    def summary(self, name: str = "") -> str:
        """The text as a sentence that can be read alone; `name` is the user's, if it is known."""
        who = "" if self.subject.casefold() in ("user", "") else self.subject
        if self.form == "asked":
            whole = request(self.text, who or name)
        elif self.form != "noted":
            whole = sentence(self.text, who or name)
        elif not self.subject or self.text.startswith(self.subject):
            whole = self.text
        else:
            whole = predicate(self.text, who or name)
        return re.sub(r"\s+", " ", whole).strip(" ;,")


def statements(
    text: str, *, source: str = "", format: NoteFormat = "lines", day: dt.date | None = None
) -> Iterator[Statement]:
    """Split a note into statements, in order. `day` is the date of lines without one."""
    note = read(text, format="lines", day=day)
    for line in note.lines:
        yield from _of_line(line, source, format)
    told = (line.removeprefix(STANDING) for line in note.asked if line.startswith(STANDING))
    for instruction in told:
        newest = note.lines[-1].day if note.lines else day
        yield Statement(instruction, "user", "user", newest, "IMPORTANT", source, INSTRUCTION, form="asked")


def _of_line(line: Line, source: str, format: NoteFormat) -> Iterator[Statement]:
    who, rest = speaker_of(line.text)
    for clause in _clauses(rest, format):
        subject = who or leading_name(clause)
        yield Statement(clause, subject, origin_of(who), line.day, line.priority, source, kind_of(clause))


def _clauses(text: str, format: NoteFormat) -> Iterator[str]:
    for part in _SENTENCES.split(text) if format == "prose" else _CLAUSES.split(text):
        introduced = _INTRODUCED.match(part)
        if introduced:
            yield f"name is {introduced['name']}"
        yield from split_facts(part[introduced.end() if introduced else 0 :])


def split_facts(text: str) -> Iterator[str]:
    """Split a sentence into clauses that are facts of their own."""
    parts: list[str] = _TWO.split(bounded(text))
    for part in (p for whole in parts for p in (_AGAIN.split(whole) if _I.match(whole) else (whole,))):
        if clause := part.strip(" ;,"):
            yield clause


def speaker_of(text: str) -> tuple[str, str]:
    """Split a line into its speaker, empty if there is none, and the rest."""
    match = _SPEAKER.match(text)
    return (match["who"], text[match.end() :]) if match else ("", text)


def leading_name(text: str) -> str:
    """Return the name at the beginning of a statement, or ""."""
    match = _NAME.match(text)
    if match is None or _NO_NAME.match(text):
        return ""
    return re.sub(r"['’]s$", "", match["who"])


def origin_of(speaker: str) -> Origin:
    """Return the origin of a line by its speaker. A call such as `search(x)` is a tool's, and what somebody
    quotes counts as one."""
    if speaker.endswith(")") or speaker.startswith(("tool", "→", QUOTED_BY)):
        return "tool"
    return "agent" if speaker.casefold() in ("assistant", "system") else "user"
