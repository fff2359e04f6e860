"""Clauses: the smallest parts of a note that are kept or dropped.

What somebody said is put in fewer words, and weighed. A clause is judged by its wording in the note, so that
a reflection comes to the same verdict as the observation did.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from onlooker.models.extractive.tool_calls import changes_something
from onlooker.models.extractive.tool_results import OUTCOME, TROUBLE
from onlooker.models.extractive.words import (
    COMMON_STEMS,
    FUNCTION,
    GENERIC_STEMS,
    TOPICLESS_STEMS,
    stem,
    units,
    value_units,
    word_set,
    word_unit,
)
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
    units: Mapping[str, float] = field(default_factory=dict[str, float])
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
    r"|(?:pleased )?to meet you(?: too| both| all)?[.!]*$|(?:is there )?anything else\?$"
    r"|(?:what can i do for you|how (?:can|may) i (?:help|assist)(?: you)?)(?: today| now)?\?$"
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
    text = clause.text
    clause.cost, clause.date_cost, clause.units, follows = _weights(text, names)
    clause.quality = _CAPTION_WORTH if text.startswith(_CAPTION) else _quality(text, own, role, answers)
    if follows and clause.place[1] > 0:
        clause.alone = _PRONOUN_ALONE


# Cached, since a reflection weighs again what the one before it kept.
@lru_cache(maxsize=1_024)
def _weights(text: str, names: frozenset[str]) -> tuple[int, int, Mapping[str, float], bool]:
    """Return the tokens of a clause, those of its resolved dates, its units, and whether only the clause
    before explains it."""
    said = RESOLVED.sub("", text)
    cost = estimate(text) + 1
    found = units(said, names) | dict.fromkeys(value_units(said), _VALUE_WEIGHT)
    found |= {f"@{when.lower()}": _TIME_WEIGHT for when in TIME.findall(said)}
    return cost, cost - estimate(said) - 1, found, bool(_PRONOUN.match(said))


@lru_cache(maxsize=1_024)
def _quality(text: str, own: bool, role: str, answers: bool) -> float:
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
    if role == "assistant" and not _explains_failure(text):
        worth *= 0.35
    return worth


def weigh_record(clause: Clause, wanted: frozenset[str]) -> None:
    """Set the weights of a part of a tool result. `wanted` holds the values that people and calls name."""
    clause.cost = estimate(clause.text) + 1
    found = {unit: _WANTED if unit in wanted else _UNASKED for unit in value_units(clause.text)}
    for unit in value_units(clause.speaker):
        found.setdefault(unit, _UNASKED)
    if changes_something(clause.speaker):
        found["#" + clause.speaker] = _CHANGE_WEIGHT
    trouble = TROUBLE.search(clause.text)
    if not found or trouble:
        found |= {unit: weight * _RECORD_WORD for unit, weight in units(clause.text).items()}
    clause.units = found
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
    if _CRITICAL.search(text) or _explains_failure(text):
        return "CRITICAL"
    return "IMPORTANT" if _IMPORTANT.search(text) else "NOTE"


def _explains_failure(text: str) -> bool:
    """Whether a clause says what went wrong together with why, or what mended it."""
    return bool(_FAILURE.search(text) and _REMEDY.search(text))


# -- Its wording: greetings, fillers, articles and the speaker's own "I" go, the meaning stays

_BEFORE_STOP = regex(r"\s+([,;.!?])")
_LAST_STOPS = regex(r"[!.]+$")
_PLACE = regex("\ue000(\\d+)\ue001")  # of something that is left alone
# Quotations, code, and anything with a digit or a slash in it are left alone.
_PROTECTED = regex(r"`[^`]+`|[\"“][^\"”\n]+[\"”]|\S*(?:\d|[/\\@_])(?:\S*[^\s.,;:!?])?")

# The quotes inside this pattern and the next keep "ooh" and "kind of" from matching. Without them other notes
# would be written.
_OPENING = regex(
    r"""^(?:(?:wow|whoa|woo(?:hoo)?|phew|oof|yay|yikes|ugh|whew|geez|guess\ what|hey|hi|hello|oh|ooh"
    r"|aww?|ah|haha|hah|yeah|yep|yup|yes|sure(?:\ thing)?|no\ problem
    |no\ worries|thanks(?:\ so\ much|\ a\ lot|\ a\ bunch|\ again)?|thank\ you(?:\ so\ much|\ very\ much)?
    |cool|nice|awesome|great|amazing|sweet|okay|ok|well|so|anyway|also|plus|and|but|btw|by\ the\ way|for\ sure
    |absolutely|definitely|totally|exactly|congrats|congratulations|good\ morning
    |good\ to\ (?:see|hear\ from)\ you
    |great\ to\ hear\ from\ you|of\ course|i\ know|you\ know|actually|honestly|to\ be\ honest|lol|man|dude
    |gosh|omg|right|true
    |i\ (?:totally\ )?agree|totally\ agree|same\ here|certainly)\b(?![-'’])[\s,!.:;—–-]*)+""",
    re.I | re.X,
)
_FILLER = regex(
    r"""(?<!what\ )(?<!which\ )(?<!this\ )(?<!that\ )(?<!some\ )(?<!any\ )(?<!the\ )(?<!a\ )\b(?:kind"
    r"|sort)\ of\s+
    |\b(?:i\ mean|i\ guess|i\ think|i\ feel\ like|kinda|to\ be\ honest|honestly|basically
    |literally|actually|of\ course|by\ the\ way|btw|for\ sure|a\ lot\ of|lots\ of|a\ bit\ of|a\ ton\ of
    |a\ bunch\ of|at\ the\ moment|in\ order\ (?=to\b))\b,?\s*""",
    re.I | re.X,
)
# Words that only announce what follows.
_LEAD_IN = regex(
    r"""^(?:i(?:'ve|'ll)?\s+)?(?:just\s+)?(?:(?:want(?:ed)?|have|had|got|gotta|need)(?:\s+to)?
    \s+(?:let\s+(?:you|ya)\s+know|tell\s+(?:you|ya)|share\s+with\s+you|(?:say|admit|mention)(?=\s+that\b|,))
    |(?:i'm\s+|i\s+am\s+)?(?:so\s+|really\s+|very\s+)?(?:happy|glad|excited|proud|pleased|thrilled|sorry)
    \s+to\s+(?:say|tell\s+you|announce|report|share)
    |(?:it\s+)?turns\s+out|the\s+(?:best|good|great|cool)\s+(?:part|thing|news)\s+is)(?:\s+that)?[,:]?\s+(?=\S)""",
    re.I | re.X,
)
# The end of a clause, where it begins like a remark on the rest.
_REMARK = regex(
    r"(?:(?:,| -| –| —|\.\.\.?|…) (?:(?:and|but|so) )?| (?:and|but|so) )"
    r"(?:it|that|this|which|they)(?:'s|'re)? [^,;:]+$|, so [a-z]+$",
    re.I,
)
_I = regex(r"i(?:'|$)")
_NEGATION = regex(r"\b(?:not|no|never|nor|none|without|hardly|barely|only)\b|n't\b", re.I)
# Before these words "I have" means possession, not the past.
_OWNING = r"(?!to\b|a\b|an\b|the\b|no\b|\ue000|two\b|three\b|four\b|some\b|my\b|any\b|many\b)"
_WITHOUT_I = tuple(
    (regex(pattern, re.I), instead)
    for pattern, instead in (
        (
            rf"^(?:i've|i have) {_OWNING}(?=been\b|\w{{3,}}ed\b|\w+n\b|had\b|made\b|got\b|always\b"
            rf"|never\b|also\b|just\b)",
            "",
        ),
        (r"^(?:i'm|i am) (?!to\b)", ""),
        (r"^(?:i've|i have) ", "have "),
        (r"^(?:i'll|i will) ", "will "),
        (r"^i'd (?=been\b|\w{3,}ed\b|had\b)", "had "),
        (r"^(?:i'd|i would) ", "would "),
        (r"^i (?=\w)", ""),
        (
            r"^((?:last|this|next) \w+|yesterday|today|recently|lately|so far|now),? i(?:'m|'ve"
            r"| have)? (?=\w)",
            r"\1 ",
        ),
        (r"\b(and|but|so) (?:i'm|i am) ", r"\1 "),
        # Not in "my sister and I went", where it is half of the subject.
        (r"(, and|\bbut|\bso) i (?=\w)", r"\1 "),
        (
            r"^(?:it's|it is|that's|that is|this is|there's|there is|there are|here's|here is) (?!not\b"
            r"|no\b)",
            "",
        ),
        (r"\bmy own\b", "own"),
        (r"\bmy (?=\w)", ""),
    )
)
_PLAINER = tuple(
    (regex(pattern, re.I), instead)
    for pattern, instead in (
        (r"\b(?:would|'d) love to\b", "want to"),
        (r"\bwould like to\b", "want to"),
        (r"\bwanna\b", "want to"),
        (r"\bgonna\b", "going to"),
        (r"\b(?:have|has) (?=been\b)", ""),
        (r"^(?:that (?=(?:i|we|he|she|they|my)\b)|which |since |while )", ""),
    )
)
_NUMBERING = regex(r"^(?:\(?\d{1,2}[.)]|[-*•])\s+")
_DANGLING = regex(r"(?:[\s,;:]+(?:and|or|but|the|an|of|because|than|so|to|with)?)+$", re.I)
_ARTICLES = frozenset({"a", "an", "the"})
_INTENSIFIERS = word_set(
    "really very so just quite super totally absolutely definitely truly simply extremely",
    "incredibly particularly",
)
_COPULAS = frozenset({"is", "are"})
_KEEP_COPULA_AFTER = word_set(
    "i he she they we you who it that this there to will would can could should might must not",
    "how what where when why if as here n't",
)
# "a few" are some, "few" are hardly any.
_AMOUNTS = frozenset({"few", "lot", "bit", "little", "while", "couple", "ton"})
# After these an article or intensifier carries meaning: "not just", "such a".
_HOLD = frozenset(["not", "n't", "such", "what", "quite", "many", "half"])


def tighten(clause: str, vocatives: re.Pattern[str] | None = None) -> str:
    """Return the clause in fewer words with the same meaning."""
    text, kept = _protect(_NUMBERING.sub("", clause.replace("’", "'").strip()))
    for _ in range(2):
        text = _OPENING.sub("", text)
        text = vocatives.sub("", text) if vocatives else text
    text = _without_remark(_LEAD_IN.sub("", _FILLER.sub("", text)))
    for pattern, instead in (*_WITHOUT_I, *_PLAINER):
        text = pattern.sub(instead, text)
    text = " ".join(_without_small_words(text.split(), asks=text.endswith(("?", "？"))))
    text = _BEFORE_STOP.sub(r"\1", text).strip(" ,;:-—–")
    text = _restore(_LAST_STOPS.sub("", text).rstrip(" ,;"), kept)
    return _DANGLING.sub("", text)


def set_first_letter(text: str, clause: str) -> str:
    """Begin a tightened clause with a small letter if the speakers talk about themselves, else a capital.

    It reads well after "Ana: ", and tells a later pass which of the two it was.
    """
    word = text.split(" ", 1)[0].removesuffix(",")
    if is_own(clause):
        small = word.lower()
        return small + text[len(word) :] if _is_everyday(small) and not _I.match(small) else text
    if clause.startswith(word) or not word.isalpha() or not word.islower() or not word.isascii():
        return text
    return word[0].upper() + text[1:]


def _is_everyday(word: str) -> bool:
    """Whether a word is certainly not a name."""
    bare = word.replace("'", "")
    return word.endswith(("ed", "ing")) or bare in FUNCTION or stem(bare) in GENERIC_STEMS | COMMON_STEMS


def _without_remark(text: str) -> str:
    """Drop words at the end that only praise or complain: ", and it was so much fun"."""
    remark = _REMARK.search(text)
    if remark is None or not remark.start() or "\ue000" in remark[0] or _NEGATION.search(remark[0]):
        return text
    before = text[: remark.start()]
    if (
        text.endswith(("?", "？"))
        or any(map(_is_specific, remark[0].split()))
        or not any(map(_is_specific, before.split()))
    ):
        return text
    return before


def _is_specific(word: str) -> bool:
    """Whether a word says something that is not true of almost anything."""
    bare = word.strip(",.;:!?-–—…()").lower().removesuffix("'s").removesuffix("'re").replace("'", "")
    return bool(bare) and bare not in FUNCTION and stem(bare) not in GENERIC_STEMS


def vocatives(names: frozenset[str]) -> re.Pattern[str] | None:
    """Return a pattern for speakers' names used as an address: at the start, or between commas."""
    short = {
        part for name in names for part in (name, name.split()[0], name.split()[0][:3], name.split()[0][:4])
    }
    words = sorted(
        (re.escape(word) for word in short if len(word) > 2 and word.isalpha()), key=lambda w: (-len(w), w)
    )
    if not words:
        return None
    any_name = "|".join(words)
    return regex(rf"^(?:{any_name})\s*[,!.]+\s*|,\s*(?:{any_name})(?=\s*[,.!?]|\s*$)", re.I)


def _protect(text: str) -> tuple[str, list[str]]:
    """Replace everything that must be kept word for word with a mark."""
    kept: list[str] = []

    def mark(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\ue000{len(kept) - 1}\ue001"

    return _PROTECTED.sub(mark, text), kept


def _restore(text: str, kept: list[str]) -> str:
    return _PLACE.sub(lambda found: kept[int(found[1])], text)


def _without_small_words(words: list[str], *, asks: bool) -> list[str]:
    out: list[str] = []
    for i, word in enumerate(words):
        bare = word.lower().strip(",.;:!?")
        if asks and bare in _COPULAS:  # the verb makes it a question
            out.append(word)
            continue
        before = words[i - 1] if i else ""
        if bare == word.lower() and _is_droppable(word, before, words[i + 1] if i + 1 < len(words) else ""):
            continue
        out.append(word)
    return out


def _is_droppable(said: str, before: str, after: str) -> bool:
    word = said.lower()
    if word in _ARTICLES:
        named = before[:1].isupper() or before == "of" or (bool(before) and said[0].isupper())
        in_title = named and after[:1].isupper()
        return bool(after) and before.lower() not in _HOLD and after.lower() not in _AMOUNTS and not in_title
    if word in _INTENSIFIERS:
        return (
            before.lower() not in _HOLD
            and bool(after)
            and after.lower() not in ("far", "that", "much", "many", "as")
        )
    if word in _COPULAS:
        return (
            bool(before and after)
            and before.lower() not in _KEEP_COPULA_AFTER
            and after.lower() not in ("not", "no")
        )
    return False


# -- Questions and their answers

_WORD = regex(r"[\w'’-]+")
_JOINING = frozenset({"of", "for", "in", "at", "to", "and"})
_MAX_WORDS = 4
_SPECIFIC = 0.5  # the least weight of a unit that says something
_FIRST_CLAUSES = 3  # an answer comes early in a reply, or not at all


def topic(question: str) -> str:
    """Return what a question is about: its longest run of words that say something."""
    if is_cjk(question):  # words are not separated
        return ""
    best: list[str] = []
    run: list[str] = []
    for word in (*_WORD.findall(question), ""):
        if _names_topic(word) or (run and word.lower() in _JOINING):
            run.append(word)
            continue
        run = _without_joining(run)
        best = max(run, best, key=lambda words: sum(map(_names_topic, words)))
        run = []
    return " ".join(_without_joining(best[-_MAX_WORDS:]))


def _names_topic(word: str) -> bool:
    unit = word_unit(word) if word else ""
    return bool(unit) and unit not in GENERIC_STEMS and unit not in TOPICLESS_STEMS


def _without_joining(words: list[str]) -> list[str]:
    while words and words[-1].lower() in _JOINING:
        words = words[:-1]
    while words and words[0].lower() in _JOINING:
        words = words[1:]
    return words


@dataclass(slots=True)
class OpenQuestion:
    """A question that waits for its answer, and its topic."""

    clause: Clause | None = None
    topic: str = ""

    def topic_for(self, answer: str, place: int) -> str:
        """Return the topic to put before a clause if it is the answer and does not name the topic."""
        said = units(answer)
        if not self.topic or place >= _FIRST_CLAUSES or set(units(self.topic)) & said.keys():
            self.topic = ""
            return ""
        if is_courtesy(answer) or not any(weight >= _SPECIFIC for weight in said.values()):
            return ""
        if self.clause is not None:
            self.clause.units = {}  # the answer says everything that the question does
        topic, self.topic = self.topic, ""
        return f"{topic}: "
