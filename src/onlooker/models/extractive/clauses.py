"""Clauses: the smallest parts of a note that are kept or dropped, and how much each is worth.

A clause is judged by its wording in the note, so that a reflection comes to the same verdict as the
observation did.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from onlooker.models.extractive.tool_calls import changes_something
from onlooker.models.extractive.tool_results import OUTCOME, TROUBLE
from onlooker.models.extractive.words import units, value_units
from onlooker.policy.text import is_cjk, regex
from onlooker.policy.tokens import estimate
from onlooker.policy.values import find_values

ROLES = ("user", "assistant", "system")  # the speakers of messages without a name


@dataclass(slots=True)
class Clause:
    """Some words of one speaker on one day, as they would appear in the note.

    `place` orders clauses: the number of the message or note line, and the position in it.
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
    # The tokens of a resolved date. They are paid for, but do not make the clause less attractive.
    date_cost: int = 0
    # The factor that applies while the clause before this one, which explains it, is not chosen.
    alone: float = 1.0


def is_call(speaker: str) -> bool:
    """Whether the speaker of a clause is a tool call, as `label` writes it."""
    return speaker.endswith(")")


# -- What kind of clause it is

_COURTESY = regex(
    r"^(?:(?:thanks?|thank you|thx)\b|for (?:shar|ask|be|listen|help|check|hav|tell|let)in[g']"
    r"|for (?:the|all the|your|all your) (?:kind |great )?(?:words?|help|advice|support|tips?|info|offer"
    r"|encouragement|suggestions?)\b|take care\b"
    r"|(?:talk|see|catch|speak)(?: to| with)? (?:you|ya|soon|later)\b|talk soon|good luck\b|keep (?:it"
    r"|going) ?up?\b"
    r"|have a (?:great|good|nice)|you're welcome|no problem|any time|anytime|cheers\b|bye\b|let me know\b"
    r"|feel free\b|sorry (?:to hear|about that)\b|glad (?:to|you)\b|happy to (?:help|hear)\b"
    r"|great (?:job|work)\b|good (?:job|for you)\b|well done\b"
    r"|谢谢|不客气|再见|好的[，。]?$|よろしく|ありがとう|감사|고마)",
    re.I,
)
_QUESTION_END = regex(r"[?？]\s*$|[吗呢嗎か][?？。]?$")
_QUESTION_START = regex(
    r"^\W*(?:(?:and|but|so|oh|wow|hey),? )?(?:what|how|which|who|when|where|why|do|does|did|have you"
    r"|has|is|are|was"
    r"|were|can|could|would|will|should|any|anything|got any)\b|什么|怎么|为什么|哪|谁|何|どう|なぜ|誰"
    r"|무엇|왜|어떻게",
    re.I,
)
_YOU = regex(r"\b(?:you|your|you're|you've|you'll|you'd|yours|ya)\b|[你您]", re.I)
_SELF = regex(r"\b(?:i|i'm|i've|i'd|i'll|my|me|we|we're|we've|our|us|mine|myself)\b|我", re.I)
# "Just started yoga": the speaker is the subject.
_WITHOUT_SUBJECT = regex(
    r"(?:just |finally |already |recently |even )*(?:been|got|had|went|took|saw|met|made|came|ran|bought"
    r"|found|won|lost|gave|wrote|read|did|can't wait|looking forward|[a-z]{3,}ed)\b",
    re.I,
)


def is_courtesy(text: str) -> bool:
    return bool(_COURTESY.match(text))


def is_question(text: str) -> bool:
    return bool(_QUESTION_END.search(text))


def opens_question(text: str) -> bool:
    """Whether a clause begins like a question. In a long question only these clauses and the last ask."""
    return bool(_QUESTION_START.match(text))


def is_own(said: str) -> bool:
    """Whether the speakers talk about themselves, judged by the original words."""
    return bool(_SELF.search(said) or _WITHOUT_SUBJECT.match(said))


def was_own(noted: str) -> bool:
    """The same, judged by the words of a note: a clause that lost its "I" begins with a small letter."""
    return is_own(noted) or noted[:1].islower()


# -- What it is worth

TIME = regex(
    r"\b(?:yesterday|last night|today|tonight|tomorrow|this (?:morning|afternoon|evening)"
    r"|(?:last|past|previous|this|next|coming) (?:few )?(?:weeks?|weekend|months?|years?|summer|winter"
    r"|spring|fall|autumn|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
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
# A resolved date in parentheses.
RESOLVED = regex(r" ?\((?:19|20)\d\d(?:-(?:\d\d|W\d\d))?(?:-\d\d)?(?:/(?:\d\d-)?\d\d)?\)")
_FACT = regex(
    r"\b(?:love|like|prefer|hate|favou?rite|live|study|own|plan|planning|want|need|hope|going to"
    r"|thinking|use|play"
    r"|allergic|name|named|birthday|married|job|always|never|don't|can't|must|should|decided|agreed)\b",
    re.I,
)
# "Seeing them smile is the best", "Keep going", "It was great": true of anybody, or of nothing.
_GENERAL = regex(
    r"(?:\w{3,}ing|it|it's|that|that's|this|keep|let's|let|enjoy|take|remember|stay|go|everyone|everybody"
    r"|anyone|people)\b",
    re.I,
)
# A pronoun that only the clause before explains.
_PRONOUN = regex(
    r"^(?:it|it's|they|they're|them|he|he's|she|she's|that|this|these|those|its|their|his|her|one of them)\b",
    re.I,
)
_CAPTION = "[pic: "
_COURTESY_WORTH = 0.15
_OWN_WORTH = 1.25
_GENERAL_WORTH = 0.75
_CAPTION_WORTH = 0.4
# "Right attitude": two or three words without a subject.
_FEW_SPACES = 3
_FRAGMENT_WORTH = 0.5
_PRONOUN_ALONE = 0.8
_MEASURE_ALONE = 0.5
_MEASURES = frozenset({"number", "time", "date", "money"})
# Weights of units.
_TIME_WEIGHT = 1.8
_VALUE_WEIGHT = 1.5  # an exact value that a person says
_WANTED, _UNASKED = 2.2, 1.0  # one in a tool result: also named by a person or a call, or by nobody
_CHANGE_WEIGHT = 2.5  # a call that changed something, once
_RECORD_WORD = 0.4  # the factor for plain words in a tool result


def weigh_speech(
    clause: Clause, names: frozenset[str], *, own: bool, role: str, answers: bool = False
) -> None:
    """Set the weights of a clause that somebody said.

    `own`: the speakers talk about themselves. `role` is the role of a speaker without a name.
    `answers`: the clause is a reply to a question.
    """
    said = RESOLVED.sub("", clause.text)
    clause.cost = estimate(clause.text) + 1
    clause.date_cost = clause.cost - estimate(said) - 1
    clause.units = units(said, names) | dict.fromkeys(value_units(said), _VALUE_WEIGHT)
    clause.units |= {f"@{when.lower()}": _TIME_WEIGHT for when in TIME.findall(said)}
    clause.quality = _quality(clause.text, own=own, role=role, answers=answers)
    if clause.place[1] > 0 and _PRONOUN.match(said):
        clause.alone = _PRONOUN_ALONE
    if clause.text.startswith(_CAPTION):
        clause.quality = _CAPTION_WORTH


def _quality(text: str, *, own: bool, role: str, answers: bool) -> float:
    """A factor around 1 for the kind of thing that the clause says."""
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


def weigh_record(clause: Clause, wanted: frozenset[str]) -> None:
    """Set the weights of a part of a tool result. `wanted` holds the values that people and calls name."""
    clause.cost = estimate(clause.text) + 1
    clause.units = {unit: _WANTED if unit in wanted else _UNASKED for unit in value_units(clause.text)}
    for unit in value_units(clause.speaker):
        clause.units.setdefault(unit, _UNASKED)
    if changes_something(clause.speaker):
        clause.units["#" + clause.speaker] = _CHANGE_WEIGHT
    trouble = TROUBLE.search(clause.text)
    if not clause.units or trouble:
        clause.units |= {unit: weight * _RECORD_WORD for unit, weight in units(clause.text).items()}
    clause.quality = 1.4 if trouble else 1.1 if OUTCOME.search(clause.text) else 1.0
    # A price or a time says nothing without the words before it.
    if clause.place[1] > 0 and all(value.kind in _MEASURES for value in find_values(clause.text)):
        clause.alone = _MEASURE_ALONE


# -- Its priority

# A critical line is kept word for word for ever, so few lines are critical.
_CRITICAL = regex(
    r"\ballerg(?:y|ies|ic)\b|\bemergency\b|\b(?:production|prod|site|server|service) (?:is |was "
    r"|went )?down\b|\boutage\b"
    r"|\bdata loss\b|\bbreach(?:ed)?\b|\b(?:never|do not|don't) (?:ever )?(?:deploy|delete|push|share"
    r"|drop|publish|commit)\b|过敏|紧急|緊急|アレルギー|알레르기|긴급",
    re.I,
)
_FAILURE = regex(r"\b(?:fail(?:ed|s)?|error|crash(?:ed|es)?|broke|bug)\b|失败|错误|故障|障害|失敗|오류", re.I)
_REMEDY = regex(
    r"\b(?:fix(?:ed)?|solved|resolved|because|caused|due to|root cause|missing|by setting|turned out)\b"
    r"|因为|原因|修复|修正|원인",
    re.I,
)
_IMPORTANT = regex(
    r"\b(?:decided (?:to|on|that|not)|agreed (?:on|to|that)|approved|confirmed|deadline|due (?:on|by|date)"
    r"|from now on|remember that|always use|never use|please (?:always|never|don't)|cancell?ed|diagnosed"
    r"|got (?:married|engaged|promoted|fired|hired|the job)|moved to|quit (?:my|the) job)\b"
    r"|决定|確定|确定|确认|截止|必须|务必|记住|決定|締め切り|必ず|결정|마감|반드시",
    re.I,
)


def priority(text: str, *, asks: bool = False, by_host: bool = False) -> str:
    """Return CRITICAL, IMPORTANT or NOTE."""
    if asks or by_host:
        return "NOTE"
    if _CRITICAL.search(text) or (_FAILURE.search(text) and _REMEDY.search(text)):
        return "CRITICAL"
    return "IMPORTANT" if _IMPORTANT.search(text) else "NOTE"
