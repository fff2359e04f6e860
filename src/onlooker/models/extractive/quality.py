"""How much a clause is worth for the kind of thing that it says, judged by its wording alone.

It goes by the tightened text, so that a reflection comes to the same opinion as the observation did.
"""

from __future__ import annotations

import re

from onlooker.policy.text import is_cjk

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
