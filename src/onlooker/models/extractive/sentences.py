"""Shorter wording: greetings, fillers, articles and the speaker's own "I" go, the meaning stays.

Quotations, code, negations and anything with a digit or a slash in it are left alone. An answer takes on
the topic of its question: "pets: cat Miso".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from onlooker.models.extractive.clauses import Clause, is_courtesy, is_own
from onlooker.models.extractive.words import (
    COMMON_STEMS,
    FUNCTION,
    GENERIC_STEMS,
    TOPICLESS_STEMS,
    stem,
    units,
    word_set,
    word_unit,
)
from onlooker.policy.text import is_cjk, regex

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
_SELF = tuple(
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
    for pattern, instead in (*_SELF, *_PLAINER):
        text = pattern.sub(instead, text)
    text = " ".join(_without_small_words(text.split(), asks=text.endswith(("?", "？"))))
    text = re.sub(r"\s+([,;.!?])", r"\1", text).strip(" ,;:-—–")
    text = _restore(re.sub(r"[!.]+$", "", text).rstrip(" ,;"), kept)
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
    return re.sub("\ue000(\\d+)\ue001", lambda found: kept[int(found[1])], text)


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
_MOST_WORDS = 4
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
    return " ".join(_without_joining(best[-_MOST_WORDS:]))


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
