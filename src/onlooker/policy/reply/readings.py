"""What numbers and dates the words of a text can mean, in several languages.

figures, spelled_out    the numbers of a text, in figures and in words
written_dates           dates as a note writes them, each with the days that it can mean
spans, sums             the days, weeks, months and years that the words of a source can mean
"""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from onlooker.policy.dates import resolve
from onlooker.policy.text import plain_words, regex

Day = dt.date


def word_list(words: str) -> list[str]:
    """Split words that are written as a text, so that a line holds many."""
    return words.split()


# -- Words for days, months and numbers, in the languages that relative dates are resolved in and some more

_WEEKDAYS = (
    "monday mon montag lundi lunes lunedì segunda-feira maandag mandag måndag poniedziałek понедельник",
    "tuesday tues tue dienstag mardi martes martedì terça-feira dinsdag tirsdag tisdag wtorek вторник",
    "wednesday wed mittwoch mercredi miércoles mercoledì quarta-feira woensdag onsdag środa среда среду",
    "thursday thurs thu donnerstag jeudi jueves giovedì quinta-feira donderdag torsdag czwartek четверг",
    "friday fri freitag vendredi viernes venerdì sexta-feira vrijdag fredag piątek пятница пятницу пятницы",
    "saturday sat samstag sonnabend samedi sábado sabato zaterdag lørdag lördag sobota суббота субботу",
    "sunday sun sonntag dimanche domingo domenica zondag søndag söndag niedziela воскресенье",
)
_CJK_WEEKDAYS = ("月一월", "火二화", "水三수", "木四목", "金五금", "土六토", "日天일")
WEEKDAY_OF = {word: n for n, words in enumerate(_WEEKDAYS) for word in words.split()} | {
    letter: n for n, letters in enumerate(_CJK_WEEKDAYS) for letter in letters
}
_WEEKDAY = (
    rf"(?:\b(?:{'|'.join(sorted(' '.join(_WEEKDAYS).split(), key=len, reverse=True))})s?\b"
    r"|(?:星期|礼拜|周|週)[一二三四五六日天]|[月火水木金土日]曜日?|[월화수목금토일]요일)"
)
_MONTHS = (
    "january jan januar januari janvier enero gennaio janeiro stycznia января январь",
    "february feb februar februari février febrero febbraio fevereiro lutego февраля февраль",
    "march mar märz maart mars marzo março marca марта март",
    "april apr avril abril aprile kwietnia апреля апрель",
    "may mai mei mayo maggio maio maj maja мая май",
    "june jun juni juin junio giugno junho czerwca июня июнь",
    "july jul juli juillet julio luglio julho lipca июля июль",
    "august aug augustus août agosto sierpnia августа август",
    "september sept sep septembre septiembre settembre setembro września сентября сентябрь",
    "october oct oktober oktober okt octobre octubre ottobre outubro października октября октябрь",
    "november nov novembre noviembre novembro listopada ноября ноябрь",
    "december dec dezember dez desember des décembre diciembre dicembre dezembro grudnia декабря декабрь",
)
MONTH_OF = {word: n + 1 for n, words in enumerate(_MONTHS) for word in words.split()}
_MONTH = rf"(?:{'|'.join(sorted(MONTH_OF, key=len, reverse=True))})\b\.?"

_UNITS = word_list(
    """
        zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
        fifteen sixteen seventeen eighteen nineteen
        """
)
_TENS = word_list("twenty thirty forty fifty sixty seventy eighty ninety")
_ORDINALS = word_list(
    """
        first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
        fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth
        """
)
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_OTHER_NUMBERS = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze",
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
)
_NUMBER_WORDS: dict[str, int] = {
    **{word: n for words in _OTHER_NUMBERS for n, word in enumerate(words.split())},
    **{word: n for n, word in enumerate(_UNITS)},
    **{word: 10 * n for n, word in enumerate(_TENS, 2)},
    **{word: n for n, word in enumerate(_ORDINALS, 1)},
    **{f"{word[:-1]}ieth": 10 * n for n, word in enumerate(_TENS, 2)},
    **dict.fromkeys(word_list("a an once single ein eine einen einem einer une una"), 1),
    **dict.fromkeys(word_list("twice both couple pair double zweimal beide"), 2),
    "thrice": 3,
    "dozen": 12,
    "fortnight": 14,
    "zwanzig": 20,
    "dreißig": 30,
    "vierzig": 40,
    "fünfzig": 50,
    "vingt": 20,
    "trente": 30,
    "quarante": 40,
    "cinquante": 50,
    "veinte": 20,
    "treinta": 30,
}
WORD = regex(r"[^\W\d_]+")
_JOINS = frozenset({"and", "a"})
_CJK_DIGITS = {
    c: n
    for digits in ("〇一二三四五六七八九", "零壹两", "零壹兩", "영일이삼사오육칠팔구")
    for n, c in enumerate(digits)
}
_CJK_SCALES = {"十": 10, "百": 100, "千": 1000, "십": 10, "백": 100, "천": 1000}
_CJK_MYRIADS = {"万": 10**4, "萬": 10**4, "億": 10**8, "亿": 10**8, "만": 10**4, "억": 10**8}
_CJK_NUMBER = regex(f"[{''.join({**_CJK_DIGITS, **_CJK_SCALES, **_CJK_MYRIADS})}]+")
_FIGURE = regex(r"\d{1,3}(?: \d{3})+(?!\d)|\d+(?:[.,'’]\d+)*")
_FACTORS = {
    "%": 0.01, "percent": 0.01, "k": 1e3, "thousand": 1e3, "mio": 1e6, "million": 1e6, "m": 1e6, "bn": 1e9,
    "billion": 1e9, "dozen": 12, "hundred": 100, "千": 1e3, "万": 1e4, "億": 1e8, "亿": 1e8, "만": 1e4,
}  # fmt: skip
_FACTOR = regex(rf"\s?({'|'.join(_FACTORS)})(?![a-z])", re.I)
_CLOCK = regex(
    r"(?<![\d:])(\d{1,2})(?:[:.h](\d\d))?\s?(?:([ap])\.?m\b)|(?<![\d:])(\d{1,2}):(\d\d)(?!\d)"
    r"|\b(noon|midday|midnight)\b|\b(\d{1,2})\s?(?:o['’]clock|uhr\b|h\b|点|點|時|시)",
    re.I,
)


def readings(text: str) -> Iterator[float]:
    """Read a number in both conventions: 1,240.50 and 1.240,50."""
    bare = re.sub(r"[' ’]", "", text)
    for group, point in ((",", "."), (".", ",")):
        try:
            yield float(bare.replace(group, "").replace(point, "."))
        except ValueError:
            continue


def figures(text: str) -> Iterator[float]:
    """Yield the numbers written in figures, and each with what follows it: 5 and 5000 of "5k"."""
    for found in _FIGURE.finditer(text):
        factor = _FACTOR.match(text, found.end())
        for number in readings(found[0]):
            yield number
            if factor:
                yield round(number * _FACTORS[factor[1].lower()], 9)


def spelled_out(text: str) -> Iterator[float]:
    """Yield the numbers written in words: 25 of "twenty five", and 20 and 5 as well."""
    total, run, end = 0, 0, -1
    for found in WORD.finditer(text):
        word = found[0].lower()
        number, scale = _NUMBER_WORDS.get(word), _SCALES.get(word)
        if "und" in word and number is None:
            ones, _, tens = word.partition("und")
            if ones in _NUMBER_WORDS and tens in _NUMBER_WORDS:  # "fünfundzwanzig"
                number = _NUMBER_WORDS[ones] + _NUMBER_WORDS[tens]
        if number is None and scale is None and word not in _JOINS:
            continue
        if found.start() - end > 2:  # not the next word
            total, run = 0, 0
        end = found.end()
        if scale is not None:
            run = max(1, run) * scale
            yield run
            if scale > _SCALES["hundred"]:
                total, run = total + run, 0
        elif number is not None:
            yield number
            run = run + number if run >= 20 or run == 0 else number
        if total or run:
            yield total + run


def in_han_or_hangul(text: str) -> Iterator[float]:
    for found in _CJK_NUMBER.finditer(text):
        total = section = digit = 0
        for c in found[0]:
            if c in _CJK_MYRIADS:
                total, section, digit = total + (section + digit or 1) * _CJK_MYRIADS[c], 0, 0
            elif c in _CJK_SCALES:
                section, digit = section + (digit or 1) * _CJK_SCALES[c], 0
            else:
                digit = _CJK_DIGITS[c]
        yield total + section + digit


# -- Dates as a note writes them


class Written(NamedTuple):
    """A date in text[start:end]: the days that it can stand for, each as the first and the last of them."""

    start: int
    end: int
    readings: tuple[tuple[Day, Day], ...]


_TO = r"\s?(?:[-–—/~〜]|to|bis|until|through|au|al|至|から)\s?"
_NTH = r"(?:st|nd|rd|th|\.|er|º)?"
_YEAR_OF = r"(?:,?\s(?:of\s|de\s)?(?P<{0}>(?:1[89]|20)\d\d)(?!\d))"
_DATE_FORMS = (
    # 2023-06-20, 2023-06-12/18, 2023-06-28/07-04, 2023/6/20, 2023年6月20日
    r"(?<![\d-])(?P<y1>\d{4})-(?P<m1>\d\d)-(?P<d1>\d\d)(?![\d-])"
    rf"(?:(?:\s?[/–—~]\s?|{_TO}(?=\d{{4}}))(?:(?:(?P<y1b>\d{{4}})-)?(?P<m1b>\d\d)-)?(?P<d1b>\d\d)(?![\d-]))?",
    r"(?<!\d)(?P<y2>\d{4})(?:[/.](?P<m2>\d{1,2})[/.](?P<d2>\d{1,2})(?!\d)"
    r"|[年년]\s?(?P<m2b>\d{1,2})[月월](?:\s?(?P<d2b>\d{1,2})[日日일号])?)",
    r"(?<![\d-])(?P<y3>\d{4})-(?:W(?P<w3>\d\d)|Q(?P<q3>[1-4])|(?P<m3>\d\d))(?![\d-])",
    # 20.06.2023, 6/20/2023
    r"(?<![\d./])(?P<a4>\d{1,2})[./](?P<c4>\d{1,2})[./](?P<y4>\d{4})(?!\d)",
    # June 20, 2023; June 12–18; June 28 – July 4
    rf"\b(?P<n5>{_MONTH})\s(?P<d5>\d{{1,2}}){_NTH}(?![\d:])(?:{_TO}(?:(?P<n5b>{_MONTH})\s)?(?P<d5b>\d{{1,2}})"
    rf"{_NTH}(?![\d:]))?{_YEAR_OF.format('y5')}?",
    # 20 June 2023; 12.–18. Juni; 20 de junio de 2023
    rf"(?<![\d.:/-])(?P<d6>\d{{1,2}}){_NTH}(?:{_TO}(?P<d6b>\d{{1,2}}){_NTH})?\s(?:of\s|de\s)?(?P<n6>{_MONTH})"
    rf"{_YEAR_OF.format('y6')}?",
    # June 2023; Q2 2023; 6月20日; the 1990s
    rf"\b(?P<n7>{_MONTH}){_YEAR_OF.format('y7')}",
    r"\bQ(?P<q8>[1-4])\s(?P<y8>\d{4})\b",
    r"(?<!\d)(?P<m9>\d{1,2})[月월]\s?(?P<d9>\d{1,2})[日일号]",
    r"(?<![\w.,$€£¥#/-])(?P<y10>(?:1[89]|20)\d\d)(?P<s10>s)?(?![\w%/-]|[.,]\d|\s?(?:€|£|USD|EUR|kr)\b)",
    r"(?<![\w.,$€£¥#/-])(?P<y11>(?:1[89]|20)\d\d)\s?[-–—/]\s?(?P<y11b>(?:1[89]|20)?\d\d)(?![\w%/-]|[.,]\d)",
)
# Each begins with a figure, a month's name or a quarter. Looking for that first saves most of the time.
_MONTH_BEGINS = "|".join(
    f"{first}(?:{'|'.join(sorted({word[1:3] for word in MONTH_OF if word[0] == first}))})"
    for first in sorted({word[0] for word in MONTH_OF})
)
_DATE_BEGINS = rf"(?=\d|(?<!\w)(?:{_MONTH_BEGINS}|q\d))"
_WRITTEN = regex(rf"{_DATE_BEGINS}(?:{'|'.join(_DATE_FORMS)})", re.I)
DIGIT = regex(r"\d")
_NEXT_WEEKDAY = regex(rf"\s{{0,4}}[,(（]?\s{{0,4}}(?P<day>{_WEEKDAY})", re.I)
_PREVIOUS_WEEKDAY = regex(rf"(?P<day>{_WEEKDAY})\.?,?\s*[(（]?$", re.I)
_LONGEST_WEEKDAY = 20


def written_dates(text: str, years: Sequence[int]) -> Iterator[Written]:
    """Find the dates in a note. One without its year may be of any of `years`."""
    if not DIGIT.search(text):
        return
    for found in _WRITTEN.finditer(text):
        try:
            read = tuple(_readings_of(found, years))
        except (ValueError, OverflowError):  # the 31st of June: no date at all
            read = ()
        yield Written(found.start(), found.end(), read)


def _readings_of(found: re.Match[str], years: Sequence[int]) -> Iterator[tuple[Day, Day]]:
    form = {key: value for key, value in found.groupdict().items() if value is not None}
    keys = {key.rstrip("0123456789b"): value for key, value in form.items() if not key.endswith("b")}
    tail = {key.rstrip("0123456789b"): value for key, value in form.items() if key.endswith("b")}
    if "2" in next(iter(form)):  # 2023年6月: its month and day are alternatives, not the end of a range
        keys, tail = keys | tail, {}
    month = int(keys["m"]) if "m" in keys else MONTH_OF[keys["n"].lower().rstrip(".")] if "n" in keys else 0
    if "a" in keys:  # 20.06.2023 or 6/20/2023
        a, b, year = int(keys["a"]), int(keys["c"]), int(keys["y"])
        for d, m in ((a, b), (b, a)):
            if 1 <= m <= 12 and 1 <= d <= monthrange(year, m)[1]:
                yield Day(year, m, d), Day(year, m, d)
        return
    for year in [int(keys["y"])] if "y" in keys else years:
        if "w" in keys:
            monday = Day.fromisocalendar(year, int(keys["w"]), 1)
            yield monday, monday + dt.timedelta(6)
        elif "q" in keys:
            first = 3 * int(keys["q"]) - 2
            yield Day(year, first, 1), _end_of_month(year, first + 2)
        elif "d" in keys:
            first = Day(year, month, int(keys["d"]))
            last = first
            if "d" in tail:
                later = int(tail["m"]) if "m" in tail else MONTH_OF.get(tail.get("n", "").lower(), month)
                last = Day(int(tail.get("y", year + (later < month))), later, int(tail["d"]))
            yield first, last
        elif month > 12:  # 2018-20
            yield Day(year, 1, 1), Day(year - year % 100 + month, 12, 31)
        elif month:
            yield Day(year, month, 1), _end_of_month(year, month)
        else:
            last = int(str(year)[: 4 - len(tail["y"])] + tail["y"]) if "y" in tail else year
            yield Day(year, 1, 1), Day(last + (9 if "s" in keys else 0), 12, 31)


def _end_of_month(year: int, month: int) -> Day:
    return Day(year, month, monthrange(year, month)[1])


def weekday_beside(text: str, start: int, end: int) -> tuple[int, int, int] | None:
    """Return the weekday written directly beside a date, and where: "(2023-06-20, Tuesday)"."""
    begin = max(0, start - _LONGEST_WEEKDAY)
    if found := _NEXT_WEEKDAY.match(text, end):
        at = found.start("day"), found.end("day")
    elif found := _PREVIOUS_WEEKDAY.search(text[begin:start]):
        at = begin + found.start("day"), begin + found.end("day")
    else:
        return None
    word = text[slice(*at)].lower().rstrip("s")
    word = re.sub(r"^(?:星期|礼拜|周|週)|曜日?$|요일$", "", word)
    day = WEEKDAY_OF.get(word, WEEKDAY_OF.get(word + "s"))
    return None if day is None else (day, *at)


# -- Dates that the words of a source can mean


class Span(NamedTuple):
    """Days that an expression can mean, all of them equally well."""

    first: int  # ordinals
    last: int


# A day can be worked out from what means at most so many days ("last week"), a month from what means at most
# so many ("a few months ago", "last summer"), a year from anything.
FOR_A_DAY = 14
FOR_A_MONTH = 190

_FEW = (
    r"(?:a )?(?:few|couple(?: of)?|several|some)|einige[rn]?|ein paar|quelques|un(?:os|as) (?:pocos|cuantos)?"
)
_A_FEW = regex(_FEW, re.I)
_NUMBER = f"(?:{'|'.join(sorted(_NUMBER_WORDS, key=len, reverse=True))})"
_N = rf"(?P<n>\d{{1,4}}|{_NUMBER}(?:[ -](?:{'|'.join(_UNITS)}))?|{_FEW})"
# What stands before and after a word such as "weeks": "in about three", "ago".
_AMOUNT = regex(
    r"(?P<before>\b(?:in|within|next|coming|last|past|previous|vor|il y a|hace|dans)\s(?:the\s)?"
    r"(?:(?:about|around|over|nearly|almost|exactly)\s)?)?"
    rf"\b{_N}[ -]?(?:(?:more|full|whole)\s)?$",
    re.I,
)
_AFTER = regex(r"\s(ago|back|earlier|before|prior|from now|later|hence|after|old)\b", re.I)
_PAST = frozenset(word_list("last past previous vor il hace ago back earlier before prior old"))
_FUTURE = frozenset(word_list("in within next coming dans from later hence after"))
_WHICH = regex(
    r"\b(last|past|previous|this|current|next|coming|following|upcoming|letzte[nrsm]?|nächste[nrsm]?|diese[nrsm]?)\s"
    r"(?:few\s|couple of\s|several\s)?$",
    re.I,
)
LOOK_BACK = 48
_UNIT_OF = {
    **dict.fromkeys(
        word_list(
            """
        day days night nights tag tage tagen jour jours día días dia dias
        """
        ),
        "day",
    ),
    **dict.fromkeys(word_list("week weeks wk wks woche wochen semaine semaines semana semanas"), "week"),
    **dict.fromkeys(["fortnight", "fortnights"], "fortnight"),
    **dict.fromkeys(word_list("month months monat monate monaten mois mes meses"), "month"),
    **dict.fromkeys(word_list("year years yr yrs jahr jahre jahren an ans año años"), "year"),
    **dict.fromkeys(["decade", "decades"], "decade"),
    **dict.fromkeys(["season", "semester", "term", "quarter"], "season"),
}
_WEEKEND = frozenset(word_list("weekend weekends wochenende fin helg helga выходные"))
_VAGUE = frozenset(
    word_list(
        """
        recent recently lately just earlier other neulich kürzlich récemment recientemente
        """
    )
)
_SOON = frozenset(word_list("soon upcoming shortly bald bientôt pronto"))
_DAY_AFTER = regex(r"\.?\s?(?:the\s)?(\d{1,2})(?:st|nd|rd|th)?(?!\d)", re.I)
_DAY_BEFORE = regex(r"(?<![\d.:/])(\d{1,2})(?:st|nd|rd|th|\.)?\s(?:of\s|de\s)?$", re.I)
_IN_FIGURES = regex(
    r"(?<![\d./])(\d{1,2})[./](\d{1,2})\b(?![./]?\d)|(?<!\d)(\d{1,2})[月월](?:\s?(\d{1,2})[日일号])?"
)
_CJK_TIME = regex(
    r"(?P<weekday>(?:星期|礼拜|周|週)[一二三四五六日天]|[月火水木金土日]曜|[월화수목금토일]요일)|(?P<weekend>周末|週末|주말)"
    r"|(?P<vague>最近|近来|최근)|(?P<soon>近いうち|马上|곧)|(?P<season>[春夏秋冬]|봄|여름|가을|겨울)"
)
_NTH_DAY = regex(
    r"\b(?:the |on |am |le |el )?(\d{1,2})(?:st|nd|rd|th)\b|\b(?:am|den|vom|zum) (\d{1,2})\."
    r"|(?<![\d月])(\d{1,2})[日号]|(?<![\d월])(\d{1,2})일",
    re.I,
)
_AGE = regex(
    r"\b(?:(?:i|he|she)['’](?:m|s)|is|am|was|turned|turning|turns|aged?|at|since) (\d{1,2})\b"
    r"(?![:.,]\d|\s?[ap]m)",
    re.I,
)
_DECADE = regex(r"(?:\b(?:19|20)|['’])(\d)0['’]?s\b")
_SHORT_YEAR = regex(r"['’](\d\d)\b(?!s)")
LONG_YEAR = regex(r"(?<![\d.,$€£])((?:1[89]|20)\d\d)(?![\d]|[.,]\d)")
_SEASONS = {
    "spring": (3, 6), "summer": (6, 9), "fall": (9, 12), "autumn": (9, 12), "winter": (12, 15),
    "frühling": (3, 6), "frühjahr": (3, 6), "sommer": (6, 9), "herbst": (9, 12), "printemps": (3, 6),
    "été": (6, 9), "automne": (9, 12), "hiver": (12, 15), "primavera": (3, 6), "verano": (6, 9),
    "otoño": (9, 12), "invierno": (12, 15), "christmas": (12, 13), "xmas": (12, 13), "weihnachten": (12, 13),
    "noël": (12, 13), "navidad": (12, 13), "new year": (12, 13), "halloween": (10, 11),
    "thanksgiving": (11, 12), "easter": (3, 5), "ostern": (3, 5), "valentine": (2, 3), "春": (2, 6),
    "夏": (5, 9), "秋": (8, 12), "冬": (11, 15), "봄": (3, 6), "여름": (6, 9), "가을": (9, 12),
    "겨울": (12, 15),
}  # fmt: skip
MOST_SUMS = 40
LANGUAGES = frozenset({"", "english", "german", "french", "spanish", "han", "kana", "hangul"})
HEADING = regex(r"## (?<![^\n]## )(\d{4}-\d\d-\d\d)[ \t]*$", re.M)


# Words that `_named` knows.
_NAMED = frozenset({*WEEKDAY_OF, *_SEASONS, *_WEEKEND, *_VAGUE, *_SOON})

# Most sentences speak of no time: only those with a digit, one of these words or another script are searched.
_TIME_WORDS = frozenset(
    word_list(
        """
        today tonight yesterday tomorrow morning afternoon evening night nights noon midnight
        weekend weekends recent recently lately just earlier soon upcoming shortly ago once next
        last past previous this current coming following season semester term quarter day days week
        weeks wk wks month months year years yr yrs decade decades fortnight fortnights heute
        gestern vorgestern morgen übermorgen woche wochen wochenende monat monate monaten jahr jahre
        jahren tag tage tagen letzte letzten letztes nächste nächsten nächstes kommenden diese
        dieses neulich kürzlich bald aujourd hui hier demain matin soir semaine semaines mois an ans
        année années jour jours dernier dernière prochain prochaine week-end récemment bientôt hoy
        ayer anoche anteayer mañana semana semanas mes meses año años día días pasado pasada próximo
        próxima viene recientemente pronto helg helga выходные
        """
    )
) | {word.rstrip(".") for word in (*WEEKDAY_OF, *MONTH_OF, *_SEASONS)}
_OTHER_SCRIPT = regex(r"[\d\u0250-\u1fff\u2c00-\uffff]")
_PART = regex(r"[^\n.!?]*[\n.!?]*(?:(?<=\d[.])\S[^\n.!?]*[\n.!?]*)*")


def timed(text: str) -> str:
    """Return the sentences that may speak of a time."""
    signs = DIGIT if text.isascii() else _OTHER_SCRIPT
    return "\n".join(
        part
        for part in _PART.findall(text)
        if signs.search(part) or not _TIME_WORDS.isdisjoint(_words(part.lower().replace("'s", "")))
    )


def _words(text: str) -> Collection[str]:
    words = plain_words(text)
    return WORD.findall(text) if words is None else words


def _months_away(day: Day, months: int) -> Day:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return Day(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _year(year: int, last: int | None = None) -> Span:
    return Span(Day(year, 1, 1).toordinal(), Day(last or year, 12, 31).toordinal())


def _month(year: int, month: int) -> Span:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    return Span(Day(year, month, 1).toordinal(), _end_of_month(year, month).toordinal())


def _away(day: Day, unit: str, n: int, sign: int) -> Iterator[Span]:
    """Yield what so many units before or after a day can mean."""
    at = day.toordinal()
    if unit == "day":
        yield Span(at + sign * n, at + sign * n)
    elif unit in ("week", "fortnight"):
        there = at + sign * n * (7 if unit == "week" else 14)
        monday = there - Day.fromordinal(there).weekday()
        yield Span(monday, monday + 6)
        yield Span(there, there)
    elif unit == "month":
        there = _months_away(day, sign * n)
        yield _month(there.year, there.month)
        yield Span(there.toordinal(), there.toordinal())
    elif unit == "year":
        there = _months_away(day, 12 * sign * n)
        yield _year(there.year - (sign < 0), there.year + (sign > 0))
        yield _month(there.year, there.month)
        yield Span(there.toordinal(), there.toordinal())
    else:
        yield _year(day.year + sign * 10 * n - 5, day.year + sign * 10 * n + 5)


def _spans(text: str, day: Day) -> Iterator[Span]:
    """Yield every day, week, month and year that the words can mean when they are said on this day."""
    yield Span(day.toordinal(), day.toordinal())
    for found in resolve(text, dt.datetime.combine(day, dt.time(12))):
        yield from of_iso(found.iso)
    for found in WORD.finditer(text):
        word = found[0].lower()
        if word in _UNIT_OF:
            yield from _amounts(text, found, day)
        elif word in MONTH_OF:
            yield from _named_month(text, found, day)
        elif word in _NAMED or (word[-1] == "s" and word.rstrip("s") in WEEKDAY_OF):
            yield from _named(word, day)
    if not text.isascii():
        for found in _CJK_TIME.finditer(text):
            kind = found.lastgroup or ""
            yield from _named({"weekday": found[0].strip("星期礼拜周週曜요")}.get(kind, found[0]), day)
    yield from _in_figures(text, day)


def of_iso(iso: str) -> Iterator[Span]:
    for written in written_dates(iso, ()):
        yield from (Span(first.toordinal(), last.toordinal()) for first, last in written.readings)


def _amounts(text: str, unit: re.Match[str], day: Day) -> Iterator[Span]:
    """ "three weeks ago", "in two days", "next month"."""
    back = text[max(0, unit.start() - LOOK_BACK) : unit.start()]
    if which := _WHICH.search(back):
        yield from _relative(which[1].lower(), unit[0].lower(), day)
    found = _amount_before(text, unit)
    if found is None or _UNIT_OF[unit[0].lower()] == "season":
        return
    after = _AFTER.match(text, unit.end())
    words = {*(found["before"] or "").lower().split(), *((after[1] if after else "").lower().split())}
    signs = (-1,) if words & _PAST else (1,) if words & _FUTURE else (-1, 1)
    for n in _amount(found["n"]):
        yield from (span for sign in signs for span in _away(day, _UNIT_OF[unit[0].lower()], n, sign))


def lengths_of_time(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield each amount of time, its unit, and whether it is said how long ago or ahead that is."""
    for unit in WORD.finditer(text):
        if unit[0].lower() in _UNIT_OF:
            found = _amount_before(text, unit)
            for n in _amount(found["n"]) if found else ():
                yield n, _UNIT_OF[unit[0].lower()], _AFTER.match(text, unit.end()) is not None


def _amount_before(text: str, unit: re.Match[str]) -> re.Match[str] | None:
    """Find the amount before a word such as "weeks"."""
    back = text[max(0, unit.start() - LOOK_BACK) : unit.start()]
    last = _LAST_WORD.search(back[-_LONGEST_AMOUNT:])
    # The pattern tries every word for a number at each character.
    if last is None or not (last[1][-1].isdigit() or last[1].lower() in _AMOUNT_ENDS):
        return None
    return _AMOUNT.search(back)


_LAST_WORD = regex(r"(\w+)\W{0,2}$")
_AMOUNT_ENDS = {
    *_NUMBER_WORDS,
    *word_list("few couple of several some einige einiger einigen paar quelques unos unas pocos cuantos"),
    *word_list("more full whole"),
}
_LONGEST_AMOUNT = 2 + max(map(len, _AMOUNT_ENDS))


def _amount(word: str) -> Sequence[int]:
    if word.isdigit():
        return (int(word),)
    if _A_FEW.fullmatch(word):
        return (2, 3, 4, 5) if "couple" not in word.lower() else (2, 3)
    return (int(max(spelled_out(word), default=1)),)


def _relative(which: str, unit: str, day: Day) -> Iterator[Span]:
    """ "last week", "the next few months": from here to as far as that may go."""
    sign = 0 if which.startswith(("this", "current", "diese")) else -1
    if which.startswith(("next", "coming", "follow", "upcoming", "nächste")):
        sign = 1
    at, many, kind = day.toordinal(), unit.endswith(("s", "n")) and unit != "mois", _UNIT_OF[unit]
    if kind == "day":
        yield Span(min(at, at + 6 * sign), max(at, at + 6 * sign))
    elif kind in ("week", "fortnight"):
        yield Span(at - 13, at) if sign < 0 else Span(at, at + 13) if sign else Span(at - 6, at + 6)
        if many and sign:
            yield Span(min(at, at + 42 * sign), max(at, at + 42 * sign))
    elif kind == "month":
        for n in range(5 if many else 2):
            there = _months_away(day, n * sign)
            yield _month(there.year, there.month)
    elif kind == "season":
        yield Span(at - 92, at + 92)
    else:
        yield _year(*sorted((day.year if many else day.year + sign, day.year + (5 * sign if many else sign))))


def _named(word: str, day: Day) -> Iterator[Span]:
    """Yield what the name of a weekday or season can mean, or a word such as "recently"."""
    at = day.toordinal()
    weekday = WEEKDAY_OF.get(word, WEEKDAY_OF.get(word.rstrip("s")))
    if weekday is not None:
        yield from (Span(n, n) for k in (-14, -7, 0, 7, 14) if (n := at - day.weekday() + k + weekday))
    elif word in _SEASONS:
        first, end = _SEASONS[word]
        for year in range(day.year - 2, day.year + 2):
            yield Span(_month(year, first).first, _month(year, end - 1).last)
    elif word in _WEEKEND or word in ("周末", "週末", "주말"):
        friday = at - day.weekday() + 4
        yield from (Span(friday + k, friday + k + 2) for k in (-14, -7, 0, 7, 14))
    elif word in _VAGUE or word in ("最近", "近来", "최근"):
        yield Span(at - 45, at)
    elif word in _SOON or word in ("近いうち", "马上", "곧"):
        yield Span(at, at + 60)


def _named_month(text: str, name: re.Match[str], day: Day) -> Iterator[Span]:
    """ "May 7", "7 May", "in May": of this year, the one before or the next."""
    month = MONTH_OF[name[0].lower()]
    beside = _DAY_AFTER.match(text, name.end()) or _DAY_BEFORE.search(
        text[max(0, name.start() - 12) : name.start()]
    )
    for year in (day.year - 1, day.year, day.year + 1):
        if beside and 1 <= int(beside[1]) <= monthrange(year, month)[1]:
            there = Day(year, month, int(beside[1])).toordinal()
            yield Span(there, there)
        # "may" and "mar" are words; as months they are written with a capital.
        elif name[0][0].isupper() or len(name[0]) > 3:
            yield _month(year, month)


def _in_figures(text: str, day: Day) -> Iterator[Span]:
    """Yield what "6/20", "the 15th", "'98", "the 90s" and "I'm 32" can mean."""
    text = "\n".join(filter(DIGIT.search, text.split("\n")))
    for found in _IN_FIGURES.finditer(text):
        a, b = int(found[1] or found[3]), int(found[2] or found[4] or 0)
        for year in (day.year - 1, day.year, day.year + 1):
            for month, number in ((a, b), (b, a)) if found[1] else ((a, b),):
                if 1 <= month <= 12 and 1 <= number <= monthrange(year, month)[1]:
                    there = Day(year, month, number).toordinal()
                    yield Span(there, there)
                elif 1 <= month <= 12 and not number:
                    yield _month(year, month)
    for found in _NTH_DAY.finditer(text):
        number = int(next(filter(None, found.groups())))
        for months in (-1, 0, 1):
            first = _months_away(day.replace(day=1), months)
            if 1 <= number <= monthrange(first.year, first.month)[1]:
                yield Span(first.toordinal() + number - 1, first.toordinal() + number - 1)
    for found in _AGE.finditer(text):
        yield _year(day.year - int(found[1]) - 1, day.year - int(found[1]))
    for found in _DECADE.finditer(text):
        century = int(found[0][:2]) * 100 if found[0][0].isdigit() else 1900 if int(found[1]) > 2 else 2000
        yield _year(century + 10 * int(found[1]), century + 10 * int(found[1]) + 9)
    for found in _SHORT_YEAR.finditer(text):
        yield _year((2000 if int(found[1]) <= day.year % 100 + 1 else 1900) + int(found[1]))


def fits_weekday(date: Written, weekday: int) -> bool:
    return any(first != last or first.weekday() == weekday for first, last in date.readings)


def spans(text: str, day: Day) -> Iterator[Span]:
    """The spans within Python's calendar: "9999 years ago" is in none."""
    spans = _spans(text, day)
    while True:
        try:
            span = next(spans)
        except StopIteration:
            return
        except (ValueError, OverflowError):
            return
        yield span


def sums(text: str, days: Sequence[int]) -> Iterator[Span]:
    """Yield what a length of time makes of a named day: ten days from the 3rd."""
    size = {"day": 1, "week": 7, "fortnight": 14}
    lengths = {
        n * size[unit]
        for n, unit, away in islice(lengths_of_time(text), MOST_SUMS)
        if not away and unit in size
    }
    for day in days:
        for length in islice(sorted(lengths), MOST_SUMS):
            yield from (Span(day + n, day + n) for n in (length, length - 1, -length))


def clock(text: str) -> Iterator[str]:
    """Yield the times of day in a text as 14:02."""
    for found in _CLOCK.finditer(text):
        if found[6]:
            yield "00:00" if found[6].lower() == "midnight" else "12:00"
            continue
        hour, minute = int(found[1] or found[4] or found[7]), int(found[2] or found[5] or 0)
        if found[3]:
            hour = hour % 12 + (12 if found[3].lower() == "p" else 0)
        yield f"{hour:02}:{minute:02}"
