"""Pieces: the parts of a note that are kept or dropped, each a quotation.

A piece is a sentence of one speaker as it was said. Only fillers at its edges are cut, from a closed list, so
no condition, negation, doubt, cause, question, contrast or time is parted from what it is said of. A piece
that speaks of something by a pronoun needs the piece that says what it means. A piece is judged by its words
in the note, so that a reflection comes to the same verdict as the observation did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from onlooker.models.extractive.tool_calls import changes_something
from onlooker.models.extractive.tool_results import CODE_LINE, OUTCOME, TROUBLE, definitions
from onlooker.models.extractive.words import (
    CJK_PERSON,
    GENERAL,
    TIME,
    confirms,
    explains_failure,
    goes_on,
    is_courtesy,
    is_elliptic,
    is_ordinary,
    is_reply,
    names_object,
    refers_back,
    units,
    value_units,
    without_filler,
    word_unit,
)
from onlooker.policy.references import PRONOUN, RESOLVED, SOMEBODY, known_thing
from onlooker.policy.reply.note_text import QUOTED_BY
from onlooker.policy.text import has_cjk, is_cjk, regex, sentences
from onlooker.policy.tokens import estimate

ROLES = ("user", "assistant", "system")  # the speakers of messages without a name


@dataclass(slots=True)
class Piece:
    """Some words of one speaker on one day, as they would appear in the note.

    `place` orders pieces: the number of the message or note line, and the position in it. `needs` is the
    place of the piece without which this one cannot be understood.
    """

    text: str
    speaker: str
    day: str
    place: tuple[int, int]
    time: str = ""
    priority: str = "NOTE"
    needs: tuple[int, int] | None = None
    depth: int = 0  # how many pieces it needs, one through the other
    units: Mapping[str, float] = field(default_factory=dict[str, float])
    quality: float = 1.0
    cost: int = 0
    # The tokens of a resolved date. They are paid for, but do not make the piece less attractive.
    date_cost: int = 0


def _in_role(speaker: str) -> bool:
    """Whether a speaker is the user or the assistant, or somebody whom the user quotes: no person's name."""
    return speaker.removeprefix(QUOTED_BY) in ROLES


def is_call(speaker: str) -> bool:
    """Whether the speaker of a piece is a tool call, as `label` writes it."""
    return speaker.endswith(")")


# -- Sentences

_MAX_LENGTH = 400  # characters of a piece
_MAX_JOINED = 8  # parts of a quotation
_PAIRS = ("“”", "()", "「」", "『』", "（）", "《》")
# The number of a list's first item, on the line that announces the list.
_NUMBER_AT_END = regex(r"[:：]\s*\(?\d{1,2}[.)]$")
_NUMBER_ALONE = regex(r"\(?\d{1,2}[.)、](?:…|\.\.\.)?$")
_SIGNS = regex('["`' + "".join(_PAIRS) + "]")
# A sentence that takes back or limits the one before it. Neither is true alone.
_CONTRASTS = regex(
    r"(?:but|however|although|though|yet|except|unless|otherwise|or|nor|instead|still,|even so"
    r"|on the other hand|that said|not (?:really|anymore|any more|always)|at least|just kidding"
    r"|scratch that"
    r"|actually,? no|no wait|wait,)\b|但|不过|不過|然而|可是|除非|否则|しかし|でも|だが|けれど|ただし"
    r"|하지만|그러나|그런데|다만",
    re.I,
)
# "And add the years.", "Half the dose from July though.": a few words that say nothing alone.
_ADDS = regex(
    r"and (?:\S+ ){0,3}\S+$|and (?:the|an?|some|another|in|on|at|with|for|from) (?:\S+ ){0,11}\S+$"
    r"|(?:\S+ ){0,8}though[.!]?$",
    re.I,
)


def split(line: str) -> list[str]:
    """Split a line into sentences. A quotation, a bracket and a contrast stay in one."""
    found: list[str] = []
    for text in whole_parts(sentences(line), " "):
        fits = bool(found) and len(found[-1]) + len(text) < _MAX_LENGTH
        if found and _NUMBER_ALONE.match(found[-1]):
            found[-1] = f"{found[-1]} {text}"
        elif fits and (_CONTRASTS.match(text) or _ADDS.match(text) or _NUMBER_AT_END.search(found[-1])):
            found[-1] = run_on((found[-1], text))
        else:
            found.append(text)
    return [text for text in found if not _NUMBER_ALONE.match(text)]


# Where the subject of a sentence is left out, it is that of the one before.
_MAX_PASSAGE = 90  # characters


def passages(found: Sequence[str]) -> list[str]:
    """Join Chinese, Japanese and Korean sentences that follow each other, up to a length."""
    joined: list[str] = []
    for text in found:
        cjk = bool(joined) and has_cjk(text) and is_cjk(joined[-1])
        if cjk and len(joined[-1]) + len(text) <= _MAX_PASSAGE:
            joined[-1] = run_on((joined[-1], text))
        else:
            joined.append(text)
    return joined


def run_on(texts: Sequence[str]) -> str:
    """Write sentences one after the other, without spaces where their script has none."""
    out = texts[0]
    for text in texts[1:]:
        out += ("" if out[-1] in "。！？」』）：" else " ") + text
    return out


def announces(text: str) -> bool:
    """Whether a text only announces what follows it."""
    return text.endswith((":", "："))


def whole_parts(parts: Sequence[str], separator: str) -> Iterator[str]:
    """Join parts that were cut inside a quotation or a bracket."""
    i = 0
    while i < len(parts):
        n = _closed_after(parts, i)
        yield separator.join(parts[i:n])
        i = n


def _closed_after(parts: Sequence[str], i: int) -> int:
    """Return the end of the run of parts from `i` in which every quotation and bracket is closed."""
    signs = ""
    length = 0
    for n in range(i, min(i + _MAX_JOINED, len(parts))):
        length += len(parts[n])
        signs += "".join(_SIGNS.findall(parts[n]))
        if length > _MAX_LENGTH:
            break
        if not _are_open(signs):
            return n + 1
    return i + 1


def _are_open(signs: str) -> bool:
    return bool(signs) and (
        signs.count('"') % 2 == 1
        or signs.count("`") % 2 == 1
        or any(signs.count(left) > signs.count(right) for left, right in _PAIRS)
    )


# -- Clauses: a sentence is parted only where nothing in it governs both parts

# Conditions, negations, doubts, causes, contrasts, times, and what someone else says or thinks. A sentence
# with one of these words is never parted.
GOVERNS = regex(
    r"\b(?:if|unless|until|till|when|whenever|while|whether|because|cause|since|as|although|though"
    r"|despite|once"
    r"|after|before|during|(?<!was )(?<!is )(?<!were )(?<!are )(?<!'s )(?<!'m )so|but|however|yet|or"
    r"|either|neither|nor|both|only|except|instead|rather|than|otherwise"
    r"|then|therefore|not|no|never|none|nobody|nothing|without|hardly|barely|cannot|think|thinks"
    r"|thought|guess"
    r"|guessing|hope|hoping|hopes|wish|believe|believes|suppose|supposed|assume|maybe|perhaps"
    r"|probably|possibly"
    r"|apparently|seems?|seemed|might|may|could|would|should|can|must|will|want|wanted|wants|plan"
    r"|planning|plans"
    r"|going to|trying|tried|try|said|says|say|told|tells|tell|heard|hear|asked|asks|claims?|wonder"
    r"|wondering"
    r"|that|which|who|whose|where|why|how|what)\b|n['’]t\b|['’](?:ll|d)\b|\?",
    re.I,
)
# Not "my" or "our": "I met my sister and my aunt" has one subject.
_SUBJECT = r"(?:i|we|he|she|they|it|i'm|i've|we're|we've|it's|it was|they're|he's|she's)"
# After "and I" comes a verb, or it is half of "Ana and I".
_BREAK = regex(
    rf",? and (?={_SUBJECT} [a-z]{{2,}})(?!i (?:at|in|on|to|for|with|and|or|from|by)\b)"
    rf"|(?: [-–—]+ |; )(?={_SUBJECT} [a-z]{{2,}})",
    re.I,
)
# "We left early, and my sister" (and I went home).
_HALF_SUBJECT = regex(r"(?:,|\band) (?:my|our|the|his|her|their|[A-Z]\w+)(?: [\w'-]+){0,2}$")
_STATED = regex(
    r"\b(?:i|we|he|she|they|it|there)(?:'\w+)? \w+ \w+|^(?:just |finally |also )?[a-z]+(?:ed"
    r"|ing)? \w+ \w+ \w+",
    re.I,
)
_SPEAKS_FIRST = regex(
    r"(?:i|we|he|she|they|it|my|our|the|this|that|these|there|just|finally|also|been|got|had|i'm|i've"
    r"|we're|we've|it's)\b",
    re.I,
)


_MEANT_BEFORE = regex(r"\b(?:it|its|this|that|these|those|them|they|their|there|he|she|him|her|his)\b", re.I)


def clauses(sentence: str) -> list[str]:
    """Part a sentence into the clauses that are said one beside the other, each with its own subject."""
    text = sentence.replace("’", "'")
    if (
        len(text) > _MAX_LENGTH
        or is_cjk(text)
        or GOVERNS.search(text)
        or not _SPEAKS_FIRST.match(text)
        or _SIGNS.search(text)
    ):
        return [sentence]
    parts: list[str] = []
    start = 0
    for found in _BREAK.finditer(text):
        # A pronoun in the rest may mean something in this clause.
        part = text[start : found.start()]
        is_whole = _STATED.search(part) and not _HALF_SUBJECT.search(part)
        if is_whole and not _MEANT_BEFORE.search(text, found.end()):
            parts.append(sentence[start : found.start()])
            start = found.end()
    parts.append(sentence[start:])
    return [parts[0], *(part[0].upper() + part[1:] for part in parts[1:])]


# -- Fillers: what is cut at the edges of a sentence, and nothing else

_END = r"[\s,!.…:;—–-]"
_GREETING = (
    r"(?:wow|whoa|woo(?:hoo)?|phew|oof|yay|yikes|ugh|whew|geez|gosh|omg|oh|ooh+|aw+|ah|h+m+|haha(?:ha)*"
    r"|hah|lol|hey there|hey"
    r"|hi there|hi|hello|btw|and|also|plus)"
)
_PAUSED = (
    r"(?:good morning|good evening|guess what|by the way|anyway|well|so|you know(?: what)?|man|dude"
    r"|okay|ok|alright"
    r"|congrat(?:s|ulations)|thanks(?: so much| a lot| a bunch| again)?|thank you(?: so much| very much)?"
    r"|cool|nice|awesome|great|amazing|sweet|no problem|no worries|of course|for sure|honestly"
    r"|to be honest)"
)
# Agreement, which says something where it answers a question.
_AGREED = (
    r"(?:yeah|yep|yup|yes|sure|absolutely|definitely|totally|exactly|right|true|certainly|same here"
    r"|i agree)"
)
_OPENING = regex(rf"(?:{_GREETING}\b(?![-'’/_(]){_END}+|{_PAUSED}\s*[,!.…—–]+\s*)+", re.I)
_OPENING_OR_AGREED = regex(
    rf"(?:{_GREETING}\b(?![-'’/_(]){_END}+|(?:{_PAUSED}|{_AGREED})\s*[,!.…—–]+\s*)+", re.I
)
_CLOSING = regex(
    r",? ?\b(?:haha(?:ha)*|lol)[.! ]*$|,\s*(?:you know|thanks(?: so much| a lot| again)?"
    r"|thank you(?: so much)?)[.! ]*$",
    re.I,
)
_OPEN_END = " ,，、;；-–—"
_ENDED = regex(r"[.!?…。！？:：\])）」』”\"`][\"”’')\]）」』*_]*$")


_NAME_ALONE = regex(r"[A-Z][a-z]+[.!]*$")


def vocatives(names: frozenset[str]) -> re.Pattern[str] | None:
    """Return a pattern for speakers' names used as an address, at the start or the end."""
    first = {name.split()[0] for name in names if name.split()}
    short = {part for name in first | names for part in (name, name[:3], name[:4])}
    words = sorted((re.escape(w) for w in short if len(w) > 2 and w.isalpha()), key=lambda w: (-len(w), w))
    if not words:
        return None
    any_name = "|".join(words)
    return regex(
        rf"^(?:(?:{_AGREED}|{_PAUSED})\s+)?(?:{any_name})\s*[,!.]+\s*"
        rf"|,\s*(?:{any_name})(?=\s*[.!?]*$)",
        re.I,
    )


def quote(sentence: str, addressed: re.Pattern[str] | None = None, *, answers: bool = False) -> str:
    """Return a sentence without the fillers at its edges, and with an end. It may be empty."""
    said = text = sentence.strip()
    opening = _OPENING if answers else _OPENING_OR_AGREED
    for _ in range(3):
        before = text
        found = opening.match(text)
        text = text[found.end() :] if found else text
        text = addressed.sub("", text) if addressed else text
        if text == before:
            break
    text = _shortened(_CLOSING.sub("", text).rstrip(_OPEN_END))
    # Of "Thanks, Ingrid." only the name is left.
    if not text or (text != said and _NAME_ALONE.match(text)):
        return ""
    word = text.split(" ", 1)[0].replace("’", "'").partition("'")[0]
    if text[0] != said[0] and word.isalpha() and is_ordinary(word):
        text = text[0].upper() + text[1:]
    if _ENDED.search(text):
        return text
    return text + ("。" if is_cjk(text[-1]) else "?" if is_question(said) else ".")


def _shortened(text: str) -> str:
    """Cut a sentence that is too long where one of its pieces ends, and show that it was cut."""
    if len(text) <= _MAX_LENGTH:
        return text
    head = text[:_MAX_LENGTH]
    ends = [
        end for end in (head.rfind(sign) for sign in (", ", "; ", "，", "；", "、")) if end > _MAX_LENGTH // 2
    ]
    cut = max(ends) if ends else head.rfind(" ")
    return head[: cut if cut > 0 else _MAX_LENGTH].rstrip(_OPEN_END) + "…"


# -- What a piece needs to be understood

_DEEPEST = 3
# The weight of all words of a sentence that says little without the one before it, in its message or in the
# one that it replies to.
_LITTLE, _VERY_LITTLE = 3.5, 1.5
_SAYS_ENOUGH = 12  # characters of Chinese, Japanese or Korean


def link(piece: Piece, recent: Sequence[Piece], *, goes_before: bool = False) -> bool:
    """Let a piece need one of those before it, if it does. Return whether it can be understood then.

    `goes_before`: something was said before the first of `recent` that nobody can see.
    """
    before = recent[-1] if recent else None
    refers = refers_back(piece.text)
    if question := _answered(piece, recent):
        before, refers = question, True
    elif refers:
        before = _meant(piece, recent)
    elif thing := known_thing(piece.text):
        # Nothing goes before the first words of all.
        before, refers = _naming(thing, recent), bool(recent) or goes_before
    elif named := _named_before(piece, recent):
        before, refers = named, is_cjk(piece.text)
    elif is_reply(piece.text) and not _in_role(piece.speaker):
        refers = bool(recent) or goes_before
    elif before is None:
        refers = goes_before and _goes_on_unseen(piece)
    elif not _goes_on(piece):
        # What says little stands beside what it was said after, if anything.
        before, refers = _beside(piece, recent), False
        if before is None:
            return True
    else:
        # A long contrast says enough, and so does what the user says of themselves to an assistant.
        enough = _MAX_PASSAGE // 4
        if is_cjk(piece.text):
            enough = _SAYS_ENOUGH if piece.speaker == "user" and names_object(piece.text) else _MAX_LENGTH
        refers = len(piece.text) < enough
    if before is None or before.depth == _DEEPEST:
        piece.depth = _DEEPEST if refers else 0  # what needs this one cannot be understood either
        return not refers
    if before.text == piece.text:  # said again, it needs what it needed before
        piece.needs, piece.depth = before.needs, before.depth
    else:
        piece.needs, piece.depth = before.place, before.depth + 1
    return True


def _beside(piece: Piece, recent: Sequence[Piece]) -> Piece | None:
    """Return the piece before one that says little, if that says something: what it is said of."""
    last, says = recent[-1], sum(units(piece.text).values())
    says_nothing = max(units(last.text).values(), default=0.0) <= GENERAL
    if says_nothing or is_cjk(piece.text) or is_question(piece.text):
        return None
    if last.place[0] == piece.place[0]:
        return last if says < _LITTLE else None
    replies = not _in_role(piece.speaker) and (is_question(last.text) or not is_own(piece.text))
    return last if replies and says < _VERY_LITTLE else None


def _meant(piece: Piece, recent: Sequence[Piece]) -> Piece | None:
    """Return the piece that says what a pronoun means: of a person the last that speaks of one, of a thing
    the last, or in the message before the last that spoke of something by a pronoun too."""
    if not recent:
        return None
    last = recent[-1]
    found = PRONOUN.search(piece.text.replace("’", "'"))
    if CJK_PERSON.match(piece.text) or (found and found["person"]):
        return next((before for before in reversed(recent) if SOMEBODY.search(before.text)), None)
    if last.place[0] == piece.place[0]:
        return last
    of_message = [before for before in recent if before.place[0] == last.place[0]]
    return next((before for before in reversed(of_message) if before.needs is not None), last)


def _naming(thing: str, recent: Sequence[Piece]) -> Piece | None:
    """Return the last piece that names a thing, or else the one before."""
    unit = word_unit(thing)
    named = (before for before in reversed(recent) if unit and unit in units(before.text))
    return next(named, recent[-1] if recent else None)


# "The idea", of which the question before spoke, or the topic of a Japanese, Korean or Chinese sentence, of
# which the message before did.
_DEFINITE = regex(
    r"\bthe (?!(?:way|time|day|weekend|week|month|year|holiday|same|best|most|other|first|last|next|end)s?\b)"
    r"([a-z'-]{3,})\b(?: ([a-z'-]{3,})\b)?(?! (?:of|for|that|which|who|where|when|from|i|we|you)\b)"
)
_TOPIC = regex(
    r"([\u4e00-\u9fff\u30a0-\u30ffA-Za-z]{2,8})(?<![今日回度頃後前初時分月週年曜])は(?![ずい])"
    r"|([\uac00-\ud7af]{2,6})[은는] "
    r"|([\u4e00-\u9fff]{2,4}?)(?:我|咱|先|要|都|也|就|得|可以)(?![\u3041-\u3096])"
)


def _named_before(piece: Piece, recent: Sequence[Piece]) -> Piece | None:
    """Return the piece that names what this one speaks of as known, where they are of two people."""
    if not recent or _in_role(piece.speaker):  # which thing an agent means, its calls say
        return None
    if is_cjk(piece.text):
        found = _TOPIC.match(without_filler(piece.text))
        topic = next((name for name in found.groups() if name), "") if found else ""
        if not topic or SOMEBODY.search(topic):
            return None
        before = (one for one in reversed(recent) if one.place[0] == recent[-1].place[0])
        return next((one for one in before if topic in one.text), None)
    asked = asked_before(recent, piece.speaker, piece.place[0])
    if asked is None or value_units(piece.text):
        return None
    text, said = piece.text.lower(), units(asked.text)
    for found in _DEFINITE.finditer(text):
        for word in found.groups():
            is_new = bool(word) and not re.search(rf"\b{re.escape(word)}", text[: found.start()])
            if is_new and word_unit(word) in said:
                return asked
    return None


def _answered(piece: Piece, recent: Sequence[Piece]) -> Piece | None:
    """Return the question without which a piece says little."""
    before = asked_before(recent, piece.speaker, piece.place[0])
    answer = next(iter(sentences(piece.text)), "")
    if before is None or not is_elliptic(answer, before.text):
        return None
    # Whom "she" means is not said by a question that speaks of nobody.
    return before if not _speaks_of_person(answer) or _speaks_of_person(before.text) else None


def _speaks_of_person(text: str) -> bool:
    found = PRONOUN.search(text.replace("’", "'"))
    return bool(SOMEBODY.search(text) or CJK_PERSON.match(text) or (found and found["person"]))


def asked_before(recent: Sequence[Piece], speaker: str, message: int) -> Piece | None:
    """Return the last question of the message before, if someone else asks one there."""
    last = recent[-1] if recent else None
    if last is None or last.speaker == speaker or last.place[0] == message:
        return None
    return next(
        (
            piece
            for piece in reversed(recent)
            if piece.place[0] == last.place[0] and any(map(is_question, sentences(piece.text)))
        ),
        None,
    )


def _goes_on(piece: Piece) -> bool:
    """Whether a piece has no subject of its own, or takes back what was said before it."""
    opening = _opening(piece.text)
    return not announces(opening) and (goes_on(opening) or bool(_CONTRASTS.match(opening)))


_ANSWERS = regex(r"(?:yes|no|yeah|yep|nope|neither|both)\b(?=\s*[,.!])", re.I)


def _goes_on_unseen(piece: Piece) -> bool:
    """Whether a piece says little without something that nobody can see: an assistant's first words answer
    what was asked before them."""
    opening = _opening(piece.text)
    unseen = piece.speaker == "assistant" and is_cjk(opening) and is_elliptic(opening, "")
    return goes_on(opening) or unseen or bool(_ANSWERS.match(opening))


def _opening(text: str) -> str:
    """Return the first sentence that says something."""
    found = sentences(without_filler(text) if is_cjk(text) else text)
    return found[0] if found else ""


# -- Lists, tables and code

_ITEM = regex(r"( *)([-*•·▪●]|\d{1,2}[.)、])\s+(?=\S)")
_FIELD = regex(r"[^\s:：][^:：.!?。！？]{0,40}[:：]\s*\S")
_TABLE_RULE = regex(r"[ |:+=-]+$")
_FENCED = regex(r"```([^\n`]*)\n(.*?)(?:```|\Z)", re.S)
_MANY_CODE_LINES = 3
_SHORT_ITEM = 24  # characters
_FEW_LINES = 4
# Items of a list that is written in one line.
_INLINE_ITEM = regex(r"(?<=[：:。；;\s])[(（]?(\d{1,2})[.)、）]\s*(?=[^\d\s])")
# After the last item of one such list, what announces the next: it says "avoid" where that said "do".
_INLINE_HEADING = regex(r"([。；！])([^。；！：:\n]{1,30}[：:])\s*\n")
# One side of what the sentence before it speaks of.
_ASPECT = regex(
    r"[A-Z][a-z]+(?: [a-z]+)?: (?=\S)"
    r"|(?:时间|時間|地点|地址|价格|费用|时长|标准|方法|原因|避免|禁止|注意|推荐|结果|备注|場所|日時|期限|値段|料金|価格|費用"
    r"|理由|結果|担当)(?:[：:]|は)"
)


def without_code(text: str) -> str:
    """Keep code of one line, and name longer code: a part of it could say something else."""
    text = _FENCED.sub(lambda block: f"{_code(block[2].strip().splitlines())}\n", text)
    lines: list[str] = []
    for is_code, run in groupby(text.splitlines(), key=lambda line: bool(CODE_LINE.search(line))):
        block = list(run)
        lines.extend([_code(block)] if is_code and len(block) >= _MANY_CODE_LINES else block)
    return "\n".join(lines)


def _code(lines: Sequence[str]) -> str:
    if len(lines) == 1 and "`" not in lines[0]:
        return f"`{lines[0].strip()}`"
    return f"[{len(lines)} lines of code{definitions(lines)}]" if lines else ""


class Quote(NamedTuple):
    """A piece of a message. `needs` is the number of the quote that it cannot be understood without."""

    text: str
    needs: int | None = None


def quotes(
    text: str, addressed: re.Pattern[str] | None = None, *, answers: bool = False, whole: bool = False
) -> list[Quote]:
    """Take a message apart. A line of a list or table stays with what announces it. `whole` keeps a short
    message in one piece."""
    lines = [part for line in text.splitlines() if line.strip() for part in _items_apart(line)]
    found: list[Quote] = []
    heading: int | None = None  # the quote that announces the lines below it
    item: int | None = None  # the last item of a list
    depth = 0
    for i, line in enumerate(lines):
        mark = _ITEM.match(line)
        content = line[mark.end() :] if mark else line.strip()
        indent = _indent(line)
        in_table = line.count("|") >= 2
        inside = item is not None and indent > depth
        if not (mark or inside or in_table):
            # What is announced may be a list, a table or one paragraph.
            heading, item = heading if i and announces(lines[i - 1].rstrip()) else None, None
        above = item if inside else heading
        has_parts = i + 1 < len(lines) and _indent(lines[i + 1]) > indent
        # Some of the ids that were found are not the ids that were found.
        is_short = len(content) <= _SHORT_ITEM and content.count(" ") < 2 and not _ENDED.search(content)
        is_field = mark and not mark[2][0].isdigit() and _FIELD.match(content)
        a_field = bool(mark and (is_short or is_field)) and not has_parts
        if in_table and _TABLE_RULE.match(content):
            continue
        if above is not None and (inside or a_field) and len(found[above].text) + len(line) <= _MAX_LENGTH:
            found[above] = Quote(_joined(found[above].text, content), found[above].needs)
            continue
        first = len(found)
        said = split(content)
        parts = said if whole else [part for one in said for part in clauses(one)]
        kept = [
            cut
            for k, sentence in enumerate(parts)
            if (cut := quote(sentence, addressed, answers=whole or (answers and not (first or k))))
        ]
        for passage in passages(kept):
            needs = above
            if len(found) > first:
                follows = _ASPECT.match(passage)
                needs = len(found) - 1 if follows else first if mark or above is not None else None
            found.append(Quote(passage, needs))
        if len(found) == first:
            continue
        before_list = i + 1 < len(lines) and bool(_ITEM.match(lines[i + 1]))
        if before_list and not mark and not _ENDED.search(content.rstrip()):
            found[-1] = found[-1]._replace(text=found[-1].text.rstrip(".。") + ":")
        if mark and not inside:
            item, depth = len(found) - 1, indent  # what is below an item goes on with its last sentence
        elif announces(content) or before_list or (in_table and heading is None):
            heading, item = len(found) - 1, None
    room = _MAX_LENGTH // 3 if is_cjk(text) else _MAX_LENGTH
    if whole and len(text) <= room and len(lines) <= _FEW_LINES and found:
        return [Quote(run_on([quote.text for quote in found]))]
    return found


def _items_apart(line: str) -> list[str]:
    """Part a list that is written in one long line, where words are not parted by blanks."""
    if len(line) <= _MAX_PASSAGE or not is_cjk(line) or len(_INLINE_ITEM.findall(line)) < 2:
        return [line]
    apart = _INLINE_HEADING.sub(r"\1\n\2\n", _INLINE_ITEM.sub(r"\n\1. ", line))
    return [part for part in apart.split("\n") if part.strip()]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _joined(record: str, part: str) -> str:
    """Add a field to its record."""
    ended = record.removesuffix(".")
    return f"{ended}{' ' if ended.endswith((':', '：')) else '; '}{part.strip().removesuffix('.')}."


# -- What kind of piece it is

_QUESTION_END = regex(r"[?？]\s*$|[吗呢嗎か][?？。]?$")
_YOU = regex(r"\b(?:you|your|you're|you've|you'll|you'd|yours|ya)\b|[你您]", re.I)
_SELF = regex(
    r"\b(?:i|i'm|i've|i'd|i'll|my|me|we|we're|we've|our|us|mine|myself)\b|我|私|僕|俺|\b(?:나|내|저"
    r"|제|우리)[가는의]?\b",
    re.I,
)
# "Just started yoga": the speaker is the subject.
_WITHOUT_SUBJECT = regex(
    r"(?:just |finally |already |recently |even )*(?:been|got|had|went|took|saw|met|made|came|ran|bought"
    r"|found|won|lost|gave|wrote|read|did|can't wait|looking forward|[a-z]{3,}ed)\b",
    re.I,
)


# "Game changer!", "Classic.": a reaction. What may have a verb ("Sold out!") tells something.
_EXCLAIMED = regex(
    r"(?!(?:Noted|Received)\b)[A-Z][a-z]+[.!]$"
    r"|(?!(?:[Ii]t's|[Nn]ot?) |[^!]*(?:\bto\b|(?<!goo)d\b))[A-Z]?[a-z'-]+(?: [a-z'-]+){0,2}!+$"
)


def is_exclaimed(text: str) -> bool:
    """Whether a text is a few words without a name that someone calls out, or only says that
    something before it may be done."""
    return confirms(text) or bool(_EXCLAIMED.match(text) and not is_own(text))


def is_question(text: str) -> bool:
    return bool(_QUESTION_END.search(text))


def is_spent(text: str) -> bool:
    """Whether a Chinese, Japanese or Korean sentence only asks for something."""
    return is_cjk(text) and bool(_SPENT.search(text) or is_question(text))


def only_asks(text: str) -> bool:
    """Whether every sentence is a question."""
    return is_question(text) and all(is_question(sentence) for sentence in sentences(text))


def is_own(text: str) -> bool:
    """Whether the speakers talk about themselves."""
    return bool(_SELF.search(text) or _WITHOUT_SUBJECT.match(text))


# -- What it is worth

_FACT = regex(
    r"\b(?:love|like|prefer|hate|favou?rite|live|study|own|plan|planning|want|need|hope|going to"
    r"|thinking|use|play"
    r"|allergic|name|named|birthday|married|job|always|never|don't|can't|must|should|decided|agreed)\b"
    r"|我(?:是|有|叫|姓|住|在|家|的)|喜欢|过敏|身高|体重|血压|讨厌|の名前|住んで|好き|嫌い|アレルギー"
    r"|좋아|싫어|이름|살아|살고",
    re.I,
)
# A request is spent when it is answered; what the person said of themselves beside it is not.
_SPENT = regex(
    r"^(?:请|帮我|推荐|给我|能不能|能否|可以(?:给|帮|推荐)|有没有|有什么|告诉我)|推荐(?:一下|一些|几)"
    r"|给我.{0,12}(?:建议|推荐)"
    r"|(?:ください|お願いします|教えて|くれますか|もらえますか)[。？?]?$|(?:주세요|해줘|알려줘"
    r"|추천해)[.?]?$"
)
_SPENT_WORTH = 0.4
# What an assistant asks for or offers, which the user's next words answer.
_OFFER = regex(
    r"(?:(?:could|can|would|may) (?:you|i) (?:please )?(?:provide|confirm|share|tell|let|have|specify)\b"
    r"|would you like\b|do you (?:want|have any)\b|please (?:confirm|provide|share|specify|let me)\b"
    r"|(?:if|once|whenever) (?:you (?:need|have|confirm|would like|change|provide|want)\b"
    r"|there(?:'s| is) anything)"
    r"|feel free\b|i'll need (?:you|your)\b|to (?:assist|help) you\b|how would you like\b)",
    re.I,
)
# "Seeing them smile is the best", "Keep going", "It was great": true of anybody, or of nothing.
_GENERAL = regex(
    r"(?:\w{3,}ing|it|it's|that|that's|this|keep|let's|let|enjoy|take|remember|stay|go|everyone|everybody"
    r"|anyone|people)\b",
    re.I,
)
_CAPTION = "[pic: "
_COURTESY_WORTH = 0.15
_OWN_WORTH = 1.25
_USERS_OWN_WORTH = 1.75  # what the user tells an assistant about themselves
_GENERAL_WORTH = 0.75
_CAPTION_WORTH = 0.4
# "Right attitude": two or three words without a subject.
_FEW_SPACES = 3
_FRAGMENT_WORTH = 0.5
# A list of fields, which an agent repeats from what its calls show.
_FIELDS, _SHOWN_WORTH = 3, 0.6
# Weights of units.
_TIME_WEIGHT = 1.8
_VALUE_WEIGHT = 1.5  # an exact value that a person says
_WANTED, _UNASKED = 2.2, 1.0  # one in a tool result: also named by a person or a call, or by nobody
_CHANGE_WEIGHT = 2.5  # a call that changed something, once
_RECORD_WORD = 0.4  # the factor for plain words in a tool result


def weigh_speech(piece: Piece, names: frozenset[str], *, role: str, answers: bool = False) -> None:
    """Set the weights of a piece that someone said.

    `role` is the role of a speaker without a name. `answers`: the piece is a reply to a question.
    """
    text = piece.text
    piece.cost, piece.date_cost, piece.units = _weights(text, names)
    piece.quality = _CAPTION_WORTH if text.startswith(_CAPTION) else _quality(text, role, answers)


# Cached, since a reflection weighs again what the one before it kept.
@lru_cache(maxsize=1_024)
def _weights(text: str, names: frozenset[str]) -> tuple[int, int, Mapping[str, float]]:
    """Return the tokens of a piece, those of its resolved dates, and its units."""
    said = RESOLVED.sub("", text)
    cost = estimate(text) + 1
    found = units(said, names) | dict.fromkeys(value_units(said), _VALUE_WEIGHT)
    found |= {f"@{when.lower()}": _TIME_WEIGHT for when in TIME.findall(said)}
    return cost, cost - estimate(said) - 1, found


@lru_cache(maxsize=1_024)
def _quality(text: str, role: str, answers: bool) -> float:
    """A factor around 1 for the kind of thing that the piece says."""
    # An announcement is taken only with what it announces.
    worth = 0.0 if announces(text) else _COURTESY_WORTH if is_courtesy(text) else 1.0
    own = is_own(text)
    speaks_of_you = bool(_YOU.search(text)) and not _SELF.search(text)
    asks = only_asks(text)
    if asks:
        worth *= 0.9 if role == "user" else 0.35
        worth *= 0.7 if speaks_of_you else 1.0
    elif speaks_of_you:
        worth *= 0.5
    elif own:
        worth *= _USERS_OWN_WORTH if role == "user" else _OWN_WORTH
    elif _GENERAL.match(text):
        worth *= _GENERAL_WORTH
    if is_cjk(text) and all(map(is_spent, sentences(text))):
        worth *= _SPENT_WORTH
    if not own and text.count(" ") < _FEW_SPACES and ":" not in text and not is_cjk(text):
        worth *= _FRAGMENT_WORTH
    if RESOLVED.search(text) or TIME.search(text):
        worth *= 1.5
    if _FACT.search(text):
        worth *= 1.1
    if answers:
        worth *= 1.15
    if role == "assistant" and _OFFER.match(text):
        worth *= _COURTESY_WORTH
    if role == "assistant" and text.count("; ") >= _FIELDS:
        worth *= _SHOWN_WORTH
    if role == "assistant" and not explains_failure(text):
        worth *= 0.5 if value_units(text) else 0.35
    return worth


def weigh_record(piece: Piece, wanted: frozenset[str]) -> None:
    """Set the weights of a part of a tool result. `wanted` holds the values that people and calls name."""
    piece.cost = estimate(piece.text) + 1
    found = {unit: _WANTED if unit in wanted else _UNASKED for unit in value_units(piece.text)}
    for unit in value_units(piece.speaker):
        found.setdefault(unit, _UNASKED)
    if changes_something(piece.speaker):
        found["#" + piece.speaker] = _CHANGE_WEIGHT
    trouble = TROUBLE.search(piece.text)
    if not found or trouble:
        found |= {unit: weight * _RECORD_WORD for unit, weight in units(piece.text).items()}
    piece.units = found
    piece.quality = 1.4 if trouble else 1.1 if OUTCOME.search(piece.text) else 1.0
