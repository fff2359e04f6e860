"""Split notes into statements that can be read alone, and recognise what kind of fact each states."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass

from onlooker.domain.items import ItemType, Origin
from onlooker.domain.notes import NoteFormat
from onlooker.policy.reply import Line, Priority, read
from onlooker.policy.reply.note_text import STANDING
from onlooker.policy.text import regex

# -- Kinds of facts, recognised by their words


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fact: its item type and tag, its weight, and the pattern that recognises it."""

    type: ItemType
    tag: str
    weight: int
    pattern: re.Pattern[str]


def _kind(type: ItemType, tag: str, weight: int, *words: str) -> Kind:
    return Kind(type, tag, weight, regex("|".join(words), re.I))


# People and pets named by their relation to the speaker.
FAMILY = (
    "sister|brother|wife|husband|partner|girlfriend|boyfriend|fiancée?|son|daughter|mother|father"
    "|mom|mum|dad"
    "|parents|grandmother|grandfather|cousin|niece|nephew|boss|manager|colleague|roommate|flatmate"
    "|dog|cat|pet"
    "|kids?|child|children|friend"
)
# The first match decides. Kinds that do harm when forgotten come first.
KINDS = (
    _kind(
        "profile", "health", 5,
        r"\ballerg(?:y|ies|ic)\b|\bintoleran(?:t|ce)\b|\bdiabet(?:es|ic)\b|\bc(?:o)?eliac\b|\bdiagnosed\b"
        r"|\basthma\b|\bpregnant\b|\bmedication\b|\bvegan\b|\bvegetarian\b|\b(?:halal|kosher)\b",
        "过敏|忌口|素食|アレルギー|ベジタリアン|알레르기|채식|\\bAllergi(?:e|sch)\\b|\\ballergique\\b|\\balérgic[oa]\\b",
    ),
    _kind(
        "behavior", "instruction", 4,
        r"\b(?:always|never|from now on|in future|going forward|please (?:always|never|don't|do not"
        r"|use|write"
        r"|call|keep|avoid)|call me|address me|remember (?:that|to)|make sure|stop (?:using|sending"
        r"|asking))\b",
        "以后|今后|总是|永远|不要再|请记住|务必|必ず|今後|いつも|覚えて|항상|앞으로|기억해|\\bimmer\\b|\\btoujours\\b|\\bsiempre\\b",
    ),
    _kind(
        "event", "deadline", 4,
        r"\bdeadline\b|\bdue (?:on|by|date)\b|\bappointment\b|\bwedding\b|\bgetting married\b"
        r"|\bflight (?:on|at|to)\b"
        r"|\bexam\b|\binterview (?:on|at|with)\b|\bsurgery\b|\bgraduat\w+\b|\banniversary\b"
        r"|\bexpires? on\b",
        "截止|婚礼|考试|预约|締め切り|締切|結婚式|予約|마감|결혼식|예약",
    ),
    _kind(
        "behavior", "preference", 3,
        r"\b(?:prefers?|preferred|favou?rites?|likes?|loves?|hates?|dislikes?|enjoys?|can(?:'t|not) stand"
        r"|would rather|no longer likes?|fan of)\b",
        "喜欢|喜歡|偏好|讨厌|最爱|好き|嫌い|好む|좋아|싫어|선호|\\bbevorzug\\w+|\\bpréfère\\b|\\bprefier[eo]\\b",
    ),
    _kind(
        "profile", "identity", 3,
        r"\bname is\b|\bliv(?:e|es|ing) (?:in|with|near|at|alone)\b|\bmov(?:ed|ing|es) (?:from|to"
        r"|back|in)\b|\bborn (?:in|on)\b"
        r"|\bbased in\b|\brelocat\w+\b|\byears old\b|\bbirthday\b|\bcomes? from\b|\bgrew up\b"
        r"|\bnationality\b"
        r"|\bworks? (?:as|at|for|in|remotely)\b|\bworking (?:as|at|for)\b|\bjob\b|\bstud(?:y|ies"
        r"|ying) (?:at|in|to)\b"
        r"|\b(?:got|is|am|are) (?:married|engaged|divorced|single|retired)\b|\bemail\b|\bphone number\b"
        r"|\b(?:is|am) an? (?:[\w-]+ ){0,3}(?:engineer|developer|teacher|nurse|doctor|student|designer"
        r"|manager|lawyer|artist|writer|scientist|researcher|founder|freelancer|consultant|analyst|chef|driver|pilot"
        r"|photographer|musician|parent)\b"
        r"|\btime ?zone\b|\bpronouns\b|\bmajor(?:s|ed|ing)? in\b|\bdegree\b|\bpromoted\b|\bhired\b",
        "我叫|名字是|住在|搬到|搬家|出生|来自|岁|生日|工作是|职业|名前は|住んで|引っ越|出身|歳|誕生日|이름은|살고|이사|생일",
        r"\bich (?:heiße|wohne|arbeite)\b|\bje m'appelle\b|\bj'habite\b|\bme llamo\b|\bvivo en\b"
        r"|\btrabajo\b",
    ),
    _kind(
        "knowledge", "decision", 3,
        r"\b(?:decided|decides|agreed (?:on|to|that)|chose|chosen|settled on|going with|switch(?:ed"
        r"|ing) to|instead of"
        r"|migrat(?:ed|ing) to|approved|cancell?ed)\b",
        "决定|選んだ|決めた|決定|결정|\\bentschieden\\b|\\bdécidé\\b|\\bdecidido\\b",
    ),
    _kind(
        "skill", "skill", 2,
        r"\b(?:speaks?|fluent in|knows how to|experienced (?:in|with)|years of experience|expert in"
        r"|certified|plays? the"
        r"|can (?:speak|play|code|program)|learning (?:to )?\w+|beginner|native speaker)\b",
        "会说|擅长|正在学|話せ|得意|勉強し|할 줄|배우고",
    ),
    _kind(
        "profile", "people", 2,
        rf"\b(?:{FAMILY})(?:'s|s)?\b",
        "妻子|丈夫|老婆|老公|儿子|女儿|妈妈|爸爸|姐姐|妹妹|哥哥|弟弟|同事|老板|妻|夫|息子|娘|母|父|姉|妹|兄|弟|상사|아내|남편|아들|딸",
    ),
    _kind(
        "knowledge", "fix", 1,
        r"\b(?:fixed by|root cause|caused by|the fix|solved by|resolved by|turned out)\b",
        "原因是|修复|原因は|원인은",
    ),
)  # fmt: skip

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
NEGATION = regex(
    r"\b(?:not|no|never|none|no longer|cannot|without|stopped|quit|\w+n't|nicht|kein\w*|ne|pas|jamais"
    r"|nunca|nie)\b"
    r"|不|没|沒|ない|ません|안 |않",
    re.I,
)


def kind_of(text: str) -> Kind | None:
    """Return the kind of fact that a text states, if any."""
    return next((kind for kind in KINDS if kind.pattern.search(text)), None)


# -- Statements

# The longest summary. Anything longer is a passage, not a fact.
MAX_CHARACTERS = 300

_SPEAKER = regex(r"(?P<who>[\w.-]+\([^\n]*?\)|[^\s:：][^:：;]{0,40}?)\s?[:：]\s+(?=\S)")
_CLAUSES = regex(r";\s+|；")
# Two facts in one sentence: either may change without the other.
_TWO = regex(
    r",?\s+and\s+(?=(?:i\s+|i'm\s+|also\s+)*(?:am|work|live|have|prefer|like|love|hate|speak|study|own|use|play)"
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
    r"(?:the|an?|this|that|these|those|i|we|you|they|it|he|she|my|our|your|his|her|their|there|here|please|can"
    r"|could|would|will|if|when|what|how|why|where|who|deadline|meeting|team|project|user|assistant)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a note, word for word, with its speaker or subject."""

    text: str
    subject: str  # as written; empty if nobody is named
    origin: Origin
    day: dt.date | None
    priority: Priority
    source: str  # the id of the note or message; empty if there is none
    at: dt.datetime | None = None  # when it was said, if that is known better than by the day

    @property
    def summary(self) -> str:
        """The text with its subject, so that it can be read alone."""
        led = self.text if not self.subject or self.text.startswith(self.subject) else ""
        whole = led or f"{self.subject}: {self.text}"
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
        yield Statement(instruction, "user", "user", newest, "IMPORTANT", source)


def _of_line(line: Line, source: str, format: NoteFormat) -> Iterator[Statement]:
    who, rest = speaker_of(line.text)
    for clause in _clauses(rest, format):
        subject = who or leading_name(clause)
        yield Statement(clause, subject, origin_of(who), line.day, line.priority, source)


def _clauses(text: str, format: NoteFormat) -> Iterator[str]:
    for part in _SENTENCES.split(text) if format == "prose" else _CLAUSES.split(text):
        introduced = _INTRODUCED.match(part)
        if introduced:
            yield f"name is {introduced['name']}"
        yield from split_facts(part[introduced.end() if introduced else 0 :])


def split_facts(text: str) -> Iterator[str]:
    """Split a sentence into clauses that are facts of their own."""
    parts: list[str] = _TWO.split(text)
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
    """Return the origin of a line by its speaker. A call such as `search(x)` is a tool's."""
    if speaker.endswith(")") or speaker.startswith(("tool", "→")):
        return "tool"
    return "agent" if speaker.casefold() in ("assistant", "system") else "user"
