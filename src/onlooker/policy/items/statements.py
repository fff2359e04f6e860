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
from onlooker.policy.origins import origin_of, speaker_of
from onlooker.policy.reply import Line, Priority, read
from onlooker.policy.reply.note_text import STANDING
from onlooker.policy.text import Phrases, bounded, plain_words, regex

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
    other: Phrases


def _kind(
    type: ItemType, tag: str, weight: int, noted: str, spoken: str, other: str = "", other_words: str = ""
) -> Kind:
    """`noted` and `spoken` are English, `other` are other languages; each of its matches in plain letters has
    one of `other_words`."""
    pattern = regex("|".join(filter(None, (noted, other))), re.I)
    return Kind(type, tag, weight, pattern, regex(spoken, re.I), Phrases(other or "(?!)", other_words, re.I))


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
# A taste without an object that can be understood alone is not a fact: "I love it", "I like how you think".
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
    rf"|^i {_ADVERBS}eat (?:no |any )?(?:meat|fish|pork|beef|dairy|gluten|eggs|nuts)\b"
)
# A day, an hour or a date: an appointment that nobody can date is not worth knowing later.
_CJK_DATE = (
    r"(?:[\d一二三四五六七八九十](?:[月日号號点點時时]| ?(?:월|일|시))|曜|[周週][一二三四五六日末]|星期|요일"
    r"|[今明后後来來下](?:天|日|周|週|个?月|年)|내일|모레|다음)"
)
# Someone close to the speaker, as the subject: "我妈六十岁", not "让妈妈问一下".
_CJK_LEAD = r"(?:对了，|其实|另外，?|还有，?)?"
_CHINESE_KIN = (
    r"(?:妻子|太太|丈夫|先生|老婆|老公|儿子|女儿|孩子|妈妈?|爸爸?|母亲|父亲|爷爷|奶奶|姐姐?|妹妹?|哥哥?|弟弟?"
    r"|表[哥弟姐妹]|同事|老板)"
)
# The first match decides. Kinds that do harm when forgotten come first.
KINDS = (
    _kind(
        "profile", "health", 5, _HEALTH, rf"{_SELF}.*?(?:{_HEALTH})",
        "过敏|忌口|素食|糖尿病|高血压|哮喘|怀孕|不能吃|アレルギー|ベジタリアン|高血圧|喘息|妊娠|発疹|食べられ(?:ない|ません)"
        "|알레르기|채식|당뇨|고혈압|천식|임신|못 먹|\\bich (?:bin|habe"
        "|esse)\\b.*(?:\\bAllergi(?:e|sch)\\b"
        "|\\bvegan\\b|\\bvegetarier)|\\bje\\b.*\\b(?:allergi(?:que|e)\\b|végétari|végane)"
        "|\\b(?:soy|tengo|estoy)\\b.*\\b(?:alérgic|alergia|vegetarian|vegan|celíac)",
        "ich je soy tengo estoy",
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
        # From the beginning, or a text without such a word would be read again from each character.
        rf"^(?=.*{_CJK_DATE}).*(?:截止|婚礼|考试|预约|締め切り|締切|結婚式|予約|마감|결혼식|예약)",
    ),
    _kind(
        "behavior", "preference", 3,
        r"\b(?:prefers?|preferred|favou?rites?|likes?|loves?|hates?|dislikes?|enjoys?|can(?:'t|not) stand"
        r"|would rather|no longer likes?|fan of)\b",
        rf"{_TASTE}|{_HABIT}",
        "(?<![“\"你您])(?:喜欢|喜歡|讨厌|最爱)|我(?:更|比较)?偏好|(?<![私僕俺])[がはも](?:大|いちばん|一番)?(?:好き|嫌い)|好む"
        "|(?:좋아|싫어)[하해했]|[이가] (?:더 |제일 |가장 )?(?:좋아|싫어)|선호"
        "|\\bich (?:mag|liebe|hasse|bevorzuge)\\b"
        "|\\bje préfère\\b"
        "|\\bje (?:n'aime|déteste)\\b|\\bj'(?:aime|adore)\\b|\\bprefier[eo]\\b|\\bme (?:gusta"
        "|encanta)n?\\b|\\bodio\\b",
        "ich je j prefiere prefiero me odio",
    ),
    _kind(
        "profile", "identity", 3, _IDENTITY, rf"{_SELF}.*?(?:{_IDENTITY})",
        "我叫|名字是|住在|搬到|搬家|出生|来自|岁|生日|工作是|职业|当护士|名前は|住んで|引っ越|出身|(?:^|[私僕俺妻夫娘子母父姉妹兄弟])[^。先]{0,12}歳"
        "|誕生日|이름은|살고"
        "|이사(?=했|하|합|해|갔|왔|를 )|생일"
        "|\\bich (?:heiße|wohne|lebe|arbeite|komme aus)\\b|\\bje m'appelle\\b|\\bj'habite\\b"
        "|\\b(?:um)?gezogen\\b|\\bdéménagé\\b|\\bme (?:mudé|he mudado)\\b"
        "|\\bje n'habite\\b"
        "|\\bje (?:ne )?(?:travaille|vis|viens de)\\b|\\bme llamo\\b|\\bvivo en\\b|\\btrabajo (?:como|en"
        "|de|para)\\b"
        "|\\bsoy de\\b",
        "ich gezogen umgezogen je j me vivo trabajo soy",
    ),
    _kind(
        "knowledge", "decision", 3, _DECISION,
        rf"^(?:i|we|i've|we've|my|our)\b.{{0,40}}?(?:{_DECISION})(?! (?:it|this|these|those|them|you)\b)",
        "(?<!没)(?<!没有)决定(?!$|，)|選んだ|決めた|決定|결정|\\bentschieden\\b|\\bdécidé\\b|\\bdecidido\\b",
        "entschieden decidido",
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
        rf"^{_CJK_LEAD}我(?:的|家)?{_CHINESE_KIN}(?![让说问要给帮]|叫我)"
        r"|^(?:[^、。]{0,6}[のが、])?(?:妻|夫|息子|娘|母|父|姉|妹|兄|弟)(?:たち|さん)?[はがも](?!くれ|言|来|行)"
        r"|(?:^|우리 |제 |내 )(?:상사|아내|남편|아들|딸|엄마|아빠|동생|언니|오빠|누나|형)(?:은|는|이|가)\s",
    ),
    _kind(
        "knowledge", "fix", 1,
        r"\b(?:fixed by|root cause|caused by|the fix|solved by|resolved by|turned out)\b", r"(?!)",
        "原因是|修复|原因は|원인은",
    ),
)  # fmt: skip
INSTRUCTION = KINDS[1]
# Words that say that something ended, or is no longer as it was.
CHANGE = Phrases(
    r"\b(?:died|passed away|is dead|divorced|separated|broke up|split up|quit|resigned|(?:was|got|been) fired"
    r"|laid off|retired|sold|gave (?:up|away)|got rid of|cancell?ed|called off|no longer|any ?more|any longer"
    r"|stopped|switched|after all|(?:is|are|am|'m|'re) now|got (?:married|engaged)|was born|dropped out"
    r"|graduated|recovered|moved (?:out|in|away|back|to)"
    r"|gestorben|verstorben|geschieden|getrennt|gekündigt|verkauft|aufgehört|nicht mehr|kein\w* mehr|abgesagt"
    r"|morte?|décédée?|divorcée?s?|séparée?s?|quitté|démissionné|vendu|arrêté|annulé"
    r"|murió|falleció|divorciad[oa]s?|separad[oa]s?|dejé|renuncié|vendí|ya no|cancelad[oa]s?)\b"
    r"|\bn(?:e\b|['’]).{0,40}?\bplus\b|去世|死了|离婚|分手|辞职|卖了|不再|已经不|取消|戒了|换了|亡くな|死ん|離婚"
    r"|別れ|辞め|やめ|売っ|もう.{1,20}(?:ない|ません)|죽었|돌아가|이혼|헤어|그만|팔았|더 이상",
    """
    died passed dead divorced separated broke split quit resigned fired laid retired sold gave rid cancelled
    canceled called longer any anymore stopped switched after now married engaged born dropped graduated
    recovered moved
    gestorben verstorben geschieden getrennt verkauft mehr abgesagt mort morte vendu plus
    divorciado divorciada divorciados divorciadas separado separada separados separadas ya cancelado cancelada
    cancelados canceladas
    """,
    re.I,
)
# Without a name nobody could tell what changed.
_UNNAMED = regex(
    r"(?:he|she|it|they|this|that|there|which|who|er|sie|es|il|elle|ils|él|ella)\b|[他她它]", re.I
)
# What changed about something that is known: without it, what was known before would mislead.
NEWS = Kind("profile", "change", 2, CHANGE.pattern, CHANGE.pattern, Phrases("(?!)", ""))

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
# Not stated as true, or about others: "if I lived there", "I'm no longer sure", "your job".
HEDGED = regex(
    r"^(?:if|unless|when|suppose|imagine|what if|say)\b|\b(?:if (?:i|we)|maybe|perhaps|might|wish(?:ed)?"
    r"|wonder\w*"
    r"|hypothetical\w*|pretend\w*|as if|used to|dreamed|unsure"
    r"|(?:not|no longer|n't|never) (?:so |really |quite |entirely |even |that )?(?:sure|certain|convinced"
    r"|clear))\b"
    r"|\byou\b|\byour|\byou['’]"
    r"|要是|如果|假如|万一|也许|可能|大概|说不定|的话|かもしれ|だろう|でしょう|らしい|なら[、平ば]|(?:る|た|ない)なら"
    r"|만약|아마|지도 모[르를]|네가|너는",
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


# The beginning of every English clause that states a fact about the speaker.
_ENGLISH = regex(r"(?:i|we|my|our|the)\b", re.I)
_NO_LONGER = Phrases(
    r"\b(?:no longer|not|any ?more|any longer)\b ?|(?<=\w)n't\b", "no not any anymore t", re.I
)


def spoken_kind(clause: str) -> Kind | None:
    """Return the kind of fact that a clause of what a person says states about them, if any. It is the same
    for what is no longer so. News of something matters only if that is known."""
    plain = clause.replace("’", "'")
    words = plain_words(plain)
    spoken = (plain, _NO_LONGER.pattern.sub("", plain)) if _NO_LONGER.search(plain, words) else (plain,)
    news = NEWS if not _UNNAMED.match(plain) and CHANGE.search(plain, words) else None
    if _ENGLISH.match(plain):
        return next((kind for kind in KINDS if any(map(kind.spoken.match, spoken))), news)
    texts = [(text, plain_words(text)) for text in spoken]
    return next((kind for kind in KINDS if any(kind.other.search(*text) for text in texts)), news)


# -- Statements

# The longest summary. Anything longer is a passage, not a fact.
MAX_CHARACTERS = 300

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
    """Split a sentence into clauses that are separate facts."""
    text = bounded(text)
    parts: list[str] = _TWO.split(text) if "and" in text.lower() else [text]
    for part in (p for whole in parts for p in (_AGAIN.split(whole) if _I.match(whole) else (whole,))):
        if clause := part.strip(" ;,"):
            yield clause


def leading_name(text: str) -> str:
    """Return the name at the beginning of a statement, or ""."""
    match = _NAME.match(text)
    if match is None or _NO_NAME.match(text):
        return ""
    return re.sub(r"['’]s$", "", match["who"])
