"""How much a clause is worth for the kind of thing that it says, judged by its wording alone.

It goes by the tightened text, so that a reflection comes to the same opinion as the observation did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from onlooker.models.extractive.tool_calls import OUTCOME, TROUBLE, changes_something
from onlooker.models.extractive.words import COMMON_STEMS, FUNCTION, GENERIC_STEMS, stem
from onlooker.policy.text import CJK, is_cjk
from onlooker.policy.tokens import estimate
from onlooker.policy.values import find_values

# -- A clause: the smallest thing that is kept or dropped

ROLES = ("user", "assistant", "system")  # speakers who have no name


def is_call(speaker: str) -> bool:
    """Whether the subject of a line is a call, as `label` writes it, and nobody who speaks."""
    return speaker.endswith(")")


@dataclass(slots=True)
class Clause:
    """Some words of one speaker on one day, as they would stand in the note.

    `place` orders clauses: the message (or note line) that it is from, and its position there.
    """

    text: str
    speaker: str
    day: str
    place: tuple[int, int]
    time: str = ""
    priority: str = "NOTE"
    units: dict[str, float] = field(default_factory=dict[str, float])
    quality: float = 1.0
    cost: int = 0
    # What a date in parentheses adds to the cost: it is paid for, and never held against the clause.
    date_cost: int = 0
    # What is left of its worth where the clause before it, which explains it, is not there.
    alone: float = 1.0


# -- Content units

PLAIN, GENERAL, EVERYDAY = 1.0, 0.15, 0.55
NAMED = 2.5  # numbers, dates, names
ABSTRACT = 0.7
_SHORTEST_NUMBER = 3

_WORD = re.compile(rf"[{CJK}]+|\d[\d,]*(?:\.\d+)?|[^\W\d_{CJK}]+(?:['’][^\W\d_{CJK}]+)?")
_CONTRACTED = re.compile(r"(?:'(?:s|ve|re|ll|d|m)|n't)$")
_CJK_RUN = re.compile(rf"[{CJK}]")
_KATAKANA = re.compile("[\u30a0-\u30ff]{2,}")
# A word with a capital that no sentence begins with, or one in capitals.
_NAME = re.compile(r"(?<=[\w,)'’\"”&] )[^\W\d_][\w'’&-]*|\b[A-Z]{2,}\w*")
_QUOTED = re.compile(r"[\"“「『]([^\"”」』\n]{3,60})[\"”」』]")
_ABSTRACT_SUFFIX = re.compile(
    r"\w{3,}(?:ness|ity|tion|sion|ance|ence|ism|ment|ful|ous|ive|able|ible|ly|ship|hood)s?$"
)
_NUMBER_WORDS = {
    word: str(n)
    for n, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    )
}
# Characters that are mostly grammar; a pair that holds one says little.
_CJK_GRAMMAR = frozenset(
    "的了是在我你他她它们这那吗呢吧就都也很会有和与不要能可以把被给让对从到说着过还没个么什怎啊嗯哦呀はがをにでとものへやかねよだですますしたてるいうこそあれなさ이가은는을를에의로도고다요니"
)


def names_of(speakers: Iterable[str]) -> frozenset[str]:
    """The stems of the speakers' names: they stand before every line, so they say nothing in one."""
    return frozenset(
        unit for speaker in speakers for word in _WORD.findall(speaker) if (unit := word_unit(word))
    )


@lru_cache(maxsize=50_000)
def word_unit(word: str) -> str:
    """The stem that stands for a word; empty for one that says nothing."""
    word = word.lower().replace("’", "'")
    if word[0].isdigit():
        return word.replace(",", "")
    word = _CONTRACTED.sub("", word).replace("'", "")
    if word in _NUMBER_WORDS and word != "one":
        return _NUMBER_WORDS[word]
    if len(word) < 2 or word in FUNCTION:
        return ""
    return stem(word)


def units(text: str, speakers: frozenset[str] = frozenset()) -> dict[str, float]:
    """Each content unit of a text and how much it says."""
    named = _named(text)
    found: dict[str, float] = {}
    for word in _WORD.findall(text):
        if _CJK_RUN.match(word):
            for pair, weight in _cjk_units(word):
                found[pair] = max(found.get(pair, 0.0), weight)
        elif (unit := word_unit(word)) and unit not in speakers:
            found[unit] = max(found.get(unit, 0.0), _weight(word, unit, named))
    return found


def _named(text: str) -> frozenset[str]:
    """Units that stand in a name or in quotes."""
    spans = [word for word in _NAME.findall(text) if word[0].isupper()] + _QUOTED.findall(text)
    return frozenset(unit for span in spans for word in _WORD.findall(span) if (unit := word_unit(word)))


def _weight(word: str, unit: str, named: frozenset[str]) -> float:
    if unit[0].isdigit():
        return NAMED
    if unit in GENERIC_STEMS:
        return GENERAL
    if unit in named:
        return NAMED
    if unit in COMMON_STEMS:
        return EVERYDAY
    return ABSTRACT if _ABSTRACT_SUFFIX.search(word) else PLAIN


def _cjk_units(run: str) -> Iterable[tuple[str, float]]:
    """Pairs of characters, each worth half a word since a word gives about two of them."""
    for name in _KATAKANA.findall(run):
        yield name, NAMED
    if len(run) == 1:
        yield run, 0.3
    for i in range(len(run) - 1):
        pair = run[i : i + 2]
        grammar = (pair[0] in _CJK_GRAMMAR) + (pair[1] in _CJK_GRAMMAR)
        yield pair, (0.6, 0.2, 0.05)[grammar]


@lru_cache(maxsize=4096)
def value_units(text: str) -> tuple[str, ...]:
    """The exact values of a text that are asked for again by name, as units; each once, in order."""
    return tuple(
        dict.fromkeys(
            "#" + value.text.lower()
            for value in find_values(text)
            if value.kind != "quoted" and not (value.kind == "number" and len(value.text) < _SHORTEST_NUMBER)
        )
    )


def overlap(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """The weighted share of `a` that `b` says too."""
    total = sum(a.values())
    return sum(weight for unit, weight in a.items() if unit in b) / total if total else 0.0


# -- How much a clause is worth for the kind of thing that it says

TIME = re.compile(
    r"\b(?:yesterday|last night|today|tonight|tomorrow|this (?:morning|afternoon|evening)"
    r"|(?:last|past|previous|this|next|coming) (?:few )?(?:weeks?|weekend|months?|years?|summer|winter"
    r"|spring|fall"
    r"|autumn|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
    r"|(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|couple of|few) (?:day|week|month|year)s?"
    r" (?:ago|later|from now)|(?:since|for|in) (?:\d+|an?|one|two|three|four|five|six|seven|ten|few)"
    r" (?:day|week|month|year)s?|(?:january|february|march|april|may|june|july|august|september|october"
    r"|november"
    r"|december) \d{1,2}|\d{1,2}(?:st|nd|rd|th)? (?:of )?(?:january|february|march|april|may|june|july|august"
    r"|september|october|november|december)|in (?:january|february|march|april|may|june|july|august|september"
    r"|october|november|december)|(?:19|20)\d\d)\b|昨天|明天|今天|前天|后天|上周|下周|上个月|下个月|去年|明年"
    r"|昨日|明日|今日|先週|来週|先月|来月|昨年|来年|어제|내일|오늘|지난주|다음 ?주|지난달|다음 ?달|작년|내년",
    re.I,
)
_YOU = re.compile(r"\b(?:you|your|you're|you've|you'll|you'd|yours|ya)\b|[你您]", re.I)
_SELF = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|my|me|we|we're|we've|our|us|mine|myself)\b|我", re.I)
_FACT = re.compile(
    r"\b(?:love|like|prefer|hate|favou?rite|live|study|own|plan|planning|want|need|hope|going to"
    r"|thinking|use|play"
    r"|allergic|name|named|birthday|married|job|always|never|don't|can't|must|should|decided|agreed)\b",
    re.I,
)
_QUESTION_END = re.compile(r"[?？]\s*$|[吗呢嗎か][?？。]?$")
_QUESTION_START = re.compile(
    r"^\W*(?:(?:and|but|so|oh|wow|hey),? )?(?:what|how|which|who|when|where|why|do|does|did|have you"
    r"|has|is|are|was"
    r"|were|can|could|would|will|should|any|anything|got any)\b|什么|怎么|为什么|哪|谁|何|どう|なぜ|誰"
    r"|무엇|왜|어떻게",
    re.I,
)
# A date that was resolved in parentheses.
RESOLVED = re.compile(r" ?\((?:19|20)\d\d(?:-(?:\d\d|W\d\d))?(?:-\d\d)?(?:/(?:\d\d-)?\d\d)?\)")
# A pronoun that only what stands before it explains; a clause that hangs on the one before.
_PRONOUN = re.compile(
    r"^(?:it|it's|they|they're|them|he|he's|she|she's|that|this|these|those|its|their|his|her"
    r"|one of them)\b",
    re.I,
)


_COURTESY = re.compile(
    r"^(?:(?:thanks?|thank you|thx)\b|for (?:shar|ask|be|listen|help|check|hav|tell|let)in[g']"
    r"|for (?:the|all the|your|all your) (?:kind |great )?(?:words?|help|advice|support|tips?|info|offer"
    r"|encouragement|suggestions?)\b|take care\b"
    r"|(?:talk|see|catch|speak)(?: to| with)? (?:you|ya|soon|later)\b|talk soon|good luck\b|keep (?:it"
    r"|going) ?up?\b"
    r"|have a (?:great|good|nice)|you're welcome|no problem|any time|anytime|cheers\b|bye\b|let me know\b"
    r"|feel free\b|sorry (?:to hear|about that)\b|glad (?:to|you)\b|happy to (?:help|hear)\b"
    r"|great (?:job|work)\b|good (?:job"
    r"|for you)\b|well done\b"
    r"|谢谢|不客气|再见|好的[，。]?$|よろしく|ありがとう|감사|고마)",
    re.I,
)
_COURTESY_WORTH = 0.15
_OWN_WORTH = 1.25
# "Just started yoga": nobody but the speaker.
_WITHOUT_SUBJECT = re.compile(
    r"(?:just |finally |already |recently |even )*(?:been|got|had|went|took|saw|met|made|came|ran|bought"
    r"|found|won|lost|gave|wrote|read|did|can't wait|looking forward|[a-z]{3,}ed)\b",
    re.I,
)
# "Seeing them smile is the best", "Keep going", "It was great": true of anybody, or of nothing.
_GENERAL = re.compile(
    r"(?:\w{3,}ing|it|it's|that|that's|this|keep|let's|let|enjoy|take|remember|stay|go|everyone|everybody"
    r"|anyone|people)\b",
    re.I,
)
_GENERAL_WORTH = 0.75
# "Right attitude": two or three words of nobody.
_FEW_SPACES = 3
_FRAGMENT_WORTH = 0.5


def is_courtesy(text: str) -> bool:
    return bool(_COURTESY.match(text))


def is_question(text: str) -> bool:
    return bool(_QUESTION_END.search(text))


def opens_question(text: str) -> bool:
    """Whether a clause begins as questions do. Of a question's clauses, only such and the last one ask."""
    return bool(_QUESTION_START.match(text))


def alone(text: str) -> float:
    """What is left of a clause's worth without the one before it."""
    return 0.8 if _PRONOUN.match(text) else 1.0


def is_own(said: str) -> bool:
    """Whether somebody says this of themselves: by the words as they were said."""
    return bool(_SELF.search(said) or _WITHOUT_SUBJECT.match(said))


def was_own(noted: str) -> bool:
    """The same, by a note's wording: where its "I" was left out, a clause begins with a small letter."""
    return is_own(noted) or noted[:1].islower()


def quality(text: str, *, own: bool, role: str = "", answers: bool = False) -> float:
    """A factor around 1. `role` is the role of a speaker who has no name; `answers`: to a question."""
    worth = _COURTESY_WORTH if is_courtesy(text) else 1.0
    speaks_of_you = bool(_YOU.search(text)) and not _SELF.search(text)
    if is_question(text):
        worth *= 0.9 if role == "user" else 0.35
        worth *= 0.7 if speaks_of_you else 1.0
    elif speaks_of_you:
        worth *= 0.5
    elif own:
        worth *= _OWN_WORTH
    elif _GENERAL.match(text):
        worth *= _GENERAL_WORTH
    if not own and text.count(" ") < _FEW_SPACES and ":" not in text and not is_cjk(text):
        worth *= _FRAGMENT_WORTH
    if RESOLVED.search(text) or TIME.search(text):
        worth *= 1.5
    if _FACT.search(text):
        worth *= 1.1
    if answers:
        worth *= 1.15
    if role == "assistant":
        worth *= 0.35
    return worth


# -- The weight of a clause

_WHEN = 1.8  # of saying when
_VALUE = 1.5  # of an exact value in what people say
_WANTED, _UNASKED = 2.2, 1.0  # of one in a tool's answer that people or calls name too, and that nobody does
_DEED = 2.5  # of a call that changed something, once
_WORD_OF_RECORD = 0.4
_CAPTION_WORTH = 0.4
_CAPTION = "[pic: "
_MEASURE_ALONE = 0.5
_MEASURES = frozenset({"number", "time", "date", "money"})


def weigh_said(clause: Clause, names: frozenset[str], *, own: bool, role: str, answers: bool = False) -> None:
    """Weigh what somebody said, `own` if of themselves. `role` is theirs where they have no name."""
    said = RESOLVED.sub("", clause.text)
    clause.cost = estimate(clause.text) + 1
    clause.date_cost = clause.cost - estimate(said) - 1
    clause.units = units(said, names) | dict.fromkeys(value_units(said), _VALUE)
    clause.units |= {f"@{when.lower()}": _WHEN for when in TIME.findall(said)}
    clause.quality = quality(clause.text, own=own, role=role, answers=answers)
    clause.alone = alone(said) if clause.place[1] > 0 else 1.0
    if clause.text.startswith(_CAPTION):
        clause.quality = _CAPTION_WORTH


def weigh_record(clause: Clause, wanted: frozenset[str]) -> None:
    """Weigh a part of what a tool answered. `wanted` are the values that people and calls name."""
    clause.cost = estimate(clause.text) + 1
    clause.units = {unit: _WANTED if unit in wanted else _UNASKED for unit in value_units(clause.text)}
    for unit in value_units(clause.speaker):
        clause.units.setdefault(unit, _UNASKED)
    if changes_something(clause.speaker):
        clause.units["#" + clause.speaker] = _DEED
    trouble = TROUBLE.search(clause.text)
    if not clause.units or trouble:
        clause.units |= {unit: weight * _WORD_OF_RECORD for unit, weight in units(clause.text).items()}
    clause.quality = 1.4 if trouble else 1.1 if OUTCOME.search(clause.text) else 1.0
    # A price or a time says nothing without what stands before it.
    if clause.place[1] > 0 and all(value.kind in _MEASURES for value in find_values(clause.text)):
        clause.alone = _MEASURE_ALONE


# -- Which lines matter more than others, by rule

# A critical line is kept word for word for ever, so few things are.
_CRITICAL = re.compile(
    r"\ballerg(?:y|ies|ic)\b|\bemergency\b|\b(?:production|prod|site|server|service) (?:is |was "
    r"|went )?down\b|\boutage\b"
    r"|\bdata loss\b|\bbreach(?:ed)?\b|\b(?:never|do not|don't) (?:ever )?(?:deploy|delete|push|share"
    r"|drop|publish|commit)\b"
    r"|过敏|紧急|緊急|アレルギー|알레르기|긴급",
    re.I,
)
_FAILURE = re.compile(
    r"\b(?:fail(?:ed|s)?|error|crash(?:ed|es)?|broke|bug)\b|失败|错误|故障|障害|失敗|오류", re.I
)
_REMEDY = re.compile(
    r"\b(?:fix(?:ed)?|solved|resolved|because|caused|due to|root cause|missing|by setting|turned out)\b"
    r"|因为|原因|修复|修正|원인",
    re.I,
)
_IMPORTANT = re.compile(
    r"\b(?:decided (?:to|on|that|not)|agreed (?:on|to|that)|approved|confirmed|deadline|due (?:on|by|date)"
    r"|from now on|remember that|always use|never use|please (?:always|never|don't)|cancell?ed|diagnosed"
    r"|got (?:married|engaged|promoted|fired|hired|the job)|moved to|quit (?:my|the) job)\b"
    r"|决定|確定|确定|确认|截止|必须|务必|记住|決定|締め切り|必ず|결정|마감|반드시",
    re.I,
)


def priority(text: str, *, asks: bool = False, by_host: bool = False) -> str:
    """CRITICAL, IMPORTANT or NOTE."""
    if asks or by_host:
        return "NOTE"
    if _CRITICAL.search(text) or (_FAILURE.search(text) and _REMEDY.search(text)):
        return "CRITICAL"
    return "IMPORTANT" if _IMPORTANT.search(text) else "NOTE"
