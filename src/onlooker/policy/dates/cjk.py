"""Relative dates in Chinese, Japanese and Korean."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from onlooker.policy import dates
from onlooker.policy.dates import Resolver, Rules

_DIGITS = {"一": 1, "二": 2, "两": 2, "兩": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_KOREAN = {
    "한": 1, "일": 1, "두": 2, "이": 2, "세": 3, "삼": 3, "네": 4, "사": 4, "다섯": 5, "오": 5, "여섯": 6,
    "육": 6, "일곱": 7, "칠": 7, "여덟": 8, "팔": 8, "아홉": 9, "구": 9, "열": 10, "십": 10,
}  # fmt: skip
_KOREAN_DAYS = {"하루": 1, "이틀": 2, "사흘": 3, "나흘": 4, "닷새": 5, "일주일": 7, "열흘": 10, "보름": 15}
_WEEKDAYS = "月火水木金土日", "一二三四五六日", "월화수목금토일"

N = r"(?P<n>\d{1,4}|[一二两兩三四五六七八九]?十[一二三四五六七八九]?|[一二两兩三四五六七八九])"
KN = r"(?P<n>\d{1,4}|" + "|".join(sorted(_KOREAN, key=lambda w: (-len(w), w))) + ")"
# "出発の三日前", "十四日前から三割": so long before something else, not before now.
_JP_BEFORE = r"前(?!まで|から(?![^。]*(?:て(?:い)?[るたま]|で(?:い)?[るた]|った|ました|くて|ない|痛)))"
_NOT_OF = r"(?<!の)(?<!の約)"
_KR_BEFORE = r"전(?!까지)"
_KR_NOT_OF = r"(?<!시험 )(?<!출발 )(?<!여행 )(?<!이사 )(?<!결혼 )(?<!수술 )(?<!마감 )(?<!행사 )"
_ZH_DOW = r"(?:(?P<dow>[一二三四五六日天])(?![月年号天个個点點周週十]))"


def _number(text: str) -> int:
    if text.isdigit():
        return int(text)
    if text in _KOREAN:
        return _KOREAN[text]
    tens, ten, ones = text.rpartition("十")
    return (_DIGITS.get(tens, 1) * 10 if ten else 0) + _DIGITS.get(ones, 0)


def _weekday(found: re.Match[str]) -> int:
    return next(
        row.index(found["dow"].replace("天", "日"))
        for row in _WEEKDAYS
        if found["dow"].replace("天", "日") in row
    )


def _days(amount: int) -> Resolver:
    return lambda _, at: dates.day(at, amount)


def _is(unit: str, amount: int) -> Resolver:
    return lambda _, at: dates.shifted(at, unit, amount)


def _by(unit: str, sign: int) -> Resolver:
    return lambda found, at: dates.shifted(at, unit, sign * _number(found["n"]))


def _hours(sign: int) -> Resolver:
    return lambda found, at: dates.day(at + timedelta(hours=sign * _number(found["n"])))


def _weekend(weekends: int) -> Resolver:
    return lambda _, at: dates.weekend(at, weekends)


def _in_week(weeks: int) -> Resolver:
    return lambda found, at: dates.day_of_week(at, weeks, _weekday(found))


def _month_of_year(years: int) -> Resolver:
    def resolver(found: re.Match[str], at: datetime) -> str | None:
        number = _number(found["n"])
        return f"{at.year + years:04}-{number:02}" if 1 <= number <= 12 else None

    return resolver


def _day_of_month(months: int) -> Resolver:
    return lambda found, at: dates.day_of_month(at, months, _number(found["n"]))


_CHINESE: tuple[tuple[str, Resolver], ...] = (
    (r"今天(?:早上|上午|中午|下午|晚上)?|今晚|今早", _days(0)),
    (r"昨天(?:早上|上午|中午|下午|晚上)?|昨晚", _days(-1)),
    (r"(?<!大)前天(?:晚上)?", _days(-2)),
    (r"大前天", _days(-3)),
    (r"明天(?:早上|上午|中午|下午|晚上)?|明晚|明早", _days(1)),
    (r"(?<!大)[后後]天", _days(2)),
    (r"大[后後]天", _days(3)),
    (rf"{N}(?:[个個]?小时|個?小時|個?鐘頭|个?钟头)(?:以|之)?前", _hours(-1)),
    (rf"{N}天(?:以|之)?前", _by("day", -1)),
    (rf"{N}天(?:以|之)?[后後]", _by("day", 1)),
    (rf"{N}(?:[周週]|个?星期|個?星期|个?礼拜)(?:以|之)?前", _by("week", -1)),
    (rf"{N}(?:[周週]|个?星期|個?星期|个?礼拜)(?:以|之)?[后後]", _by("week", 1)),
    (rf"{N}[个個]月(?:以|之)?前", _by("month", -1)),
    (rf"{N}[个個]月(?:以|之)?[后後]", _by("month", 1)),
    (rf"(?<!\d)(?!\d{{4}}){N}年(?:以|之)?前", _by("year", -1)),
    (rf"(?<!\d)(?!\d{{4}}){N}年(?:以|之)?[后後]", _by("year", 1)),
    (r"(?<!上)上(?:个|個)?(?:[周週]|星期|礼拜)(?![一二三四五六日天末])", _is("week", -1)),
    (r"(?:这|這|本)(?:个|個)?(?:[周週]|星期|礼拜)(?![一二三四五六日天末])", _is("week", 0)),
    (r"(?<!下)下(?:个|個)?(?:[周週]|星期|礼拜)(?![一二三四五六日天末])", _is("week", 1)),
    (r"上上(?:个|個)?(?:[周週]|星期)(?![一二三四五六日天末])", _is("week", -2)),
    (r"下下(?:个|個)?(?:[周週]|星期)(?![一二三四五六日天末])", _is("week", 2)),
    (rf"(?<!上)上(?:个|個)?(?:[周週]|星期|礼拜){_ZH_DOW}", _in_week(-1)),
    (rf"(?:这|這|本)(?:个|個)?(?:[周週]|星期|礼拜){_ZH_DOW}", _in_week(0)),
    (rf"(?<!下)下(?:个|個)?(?:[周週]|星期|礼拜){_ZH_DOW}", _in_week(1)),
    (rf"上上(?:个|個)?(?:[周週]|星期|礼拜){_ZH_DOW}", _in_week(-2)),
    (rf"下下(?:个|個)?(?:[周週]|星期|礼拜){_ZH_DOW}", _in_week(2)),
    (r"(?<!上)上(?:个|個)?[周週]末", _weekend(-1)),
    (r"(?:这|這|本)(?:个|個)?[周週]末", _weekend(0)),
    (r"(?<!下)下(?:个|個)?[周週]末", _weekend(1)),
    (r"(?<!上)上(?:(?:个|個)月|月(?![\d一二三四五六七八九十]))", _is("month", -1)),
    (r"上上(?:个|個)?月", _is("month", -2)),
    (r"(?:这|這)(?:个|個)月|本月", _is("month", 0)),
    (r"(?<!下)下(?:个|個)?月", _is("month", 1)),
    (r"下下(?:个|個)?月", _is("month", 2)),
    (rf"上(?:个|個)?月{N}[号號日]", _day_of_month(-1)),
    (rf"(?:(?:这|這)(?:个|個)|本)月{N}[号號日]", _day_of_month(0)),
    (rf"下(?:个|個)?月{N}[号號日]", _day_of_month(1)),
    (rf"(?:去年|昨年){N}月", _month_of_year(-1)),
    (rf"今年{N}月", _month_of_year(0)),
    (rf"(?:明年|来年){N}月", _month_of_year(1)),
    (r"去年|昨年", _is("year", -1)),
    (r"前年", _is("year", -2)),
    (r"今年", _is("year", 0)),
    (r"明年|来年", _is("year", 1)),
    (r"[后後]年(?!度)", _is("year", 2)),
)

_JP_DOW = r"の?(?P<dow>[月火水木金土日])曜日?"
_JAPANESE: tuple[tuple[str, Resolver], ...] = (
    (r"今日|今夜|今朝|きょう", _days(0)),
    (r"(?<!一)昨日|昨夜|昨晩|きのう", _days(-1)),
    (r"一昨日|おととい", _days(-2)),
    (r"明日|あした", _days(1)),
    (r"(?<!明)明後日|(?<!し)あさって", _days(2)),
    (r"明明後日|明々後日|しあさって", _days(3)),
    (rf"{_NOT_OF}{N}時間{_JP_BEFORE}", _hours(-1)),
    (rf"{_NOT_OF}{N}日{_JP_BEFORE}", _by("day", -1)),
    (rf"{N}日後", _by("day", 1)),
    (rf"{_NOT_OF}{N}週間{_JP_BEFORE}", _by("week", -1)),
    (rf"{N}週間後", _by("week", 1)),
    (rf"{_NOT_OF}{N}(?:か|カ|ヶ|ケ|箇)月{_JP_BEFORE}", _by("month", -1)),
    (rf"{N}(?:か|カ|ヶ|ケ|箇)月後", _by("month", 1)),
    (r"先週(?!末|の?[月火水木金土日]曜)", _is("week", -1)),
    (r"今週(?!末|の?[月火水木金土日]曜)", _is("week", 0)),
    (r"(?<!再)来週(?!末|の?[月火水木金土日]曜)", _is("week", 1)),
    (rf"先々週(?!{_JP_DOW.replace('?P<dow>', '?:')})", _is("week", -2)),
    (rf"再来週(?!{_JP_DOW.replace('?P<dow>', '?:')})", _is("week", 2)),
    (rf"先々週{_JP_DOW}", _in_week(-2)),
    (rf"再来週{_JP_DOW}", _in_week(2)),
    (rf"先週{_JP_DOW}", _in_week(-1)),
    (rf"今週{_JP_DOW}", _in_week(0)),
    (rf"(?<!再)来週{_JP_DOW}", _in_week(1)),
    (r"先週末|先週の週末", _weekend(-1)),
    (r"今週末|この週末", _weekend(0)),
    (r"来週末", _weekend(1)),
    (r"先月", _is("month", -1)),
    (r"今月", _is("month", 0)),
    (r"(?<!再)来月", _is("month", 1)),
    (r"先々月", _is("month", -2)),
    (r"再来月", _is("month", 2)),
    (r"一昨年|おととし", _is("year", -2)),
    (r"再来年", _is("year", 2)),
    (rf"先月の?{N}日", _day_of_month(-1)),
    (rf"来月の?{N}日", _day_of_month(1)),
)

_KR_DOW = r" ?(?P<dow>[월화수목금토일])요일"
_KOREAN_RULES: tuple[tuple[str, Resolver], ...] = (
    (r"오늘(?: ?(?:아침|오전|오후|저녁|밤))?", _days(0)),
    (r"(?<!그)어제(?: ?(?:아침|오전|오후|저녁|밤))?|어젯밤", _days(-1)),
    (r"그저께|그제|엊그제", lambda found, at: None if found[0] == "엊그제" else dates.day(at, -2)),
    (r"내일(?: ?(?:아침|오전|오후|저녁|밤))?", _days(1)),
    (r"(?<!내일)모레", _days(2)),
    (r"글피", _days(3)),
    (rf"{_KR_NOT_OF}{KN} ?시간 {_KR_BEFORE}", _hours(-1)),
    (rf"{_KR_NOT_OF}{KN} ?일 {_KR_BEFORE}", _by("day", -1)),
    (rf"{KN} ?일 (?:후|뒤)", _by("day", 1)),
    (
        rf"{_KR_NOT_OF}(?P<word>하루|이틀|사흘|나흘|닷새|열흘|보름) {_KR_BEFORE}",
        lambda found, at: dates.day(at, -_KOREAN_DAYS[found["word"]]),
    ),
    (
        r"(?P<word>하루|이틀|사흘|나흘|닷새|열흘|보름) (?:후|뒤)",
        lambda found, at: dates.day(at, _KOREAN_DAYS[found["word"]]),
    ),
    (rf"{_KR_NOT_OF}일주일 {_KR_BEFORE}", _is("week", -1)),
    (r"일주일 (?:후|뒤)", _is("week", 1)),
    (rf"{_KR_NOT_OF}{KN} ?주(?:일)? {_KR_BEFORE}", _by("week", -1)),
    (rf"{KN} ?주(?:일)? (?:후|뒤)", _by("week", 1)),
    (rf"{_KR_NOT_OF}{KN} ?(?:개월|달) {_KR_BEFORE}", _by("month", -1)),
    (rf"{KN} ?(?:개월|달) (?:후|뒤)", _by("month", 1)),
    (rf"{_KR_NOT_OF}{KN} ?년 {_KR_BEFORE}", _by("year", -1)),
    (rf"{KN} ?년 (?:후|뒤)", _by("year", 1)),
    (rf"(?:(?<!지)지난|저번) ?주(?!말|일|{_KR_DOW.replace('?P<dow>', '?:')})", _is("week", -1)),
    (rf"이번 ?주(?!말|{_KR_DOW.replace('?P<dow>', '?:')})", _is("week", 0)),
    (rf"(?<!다)다음 ?주(?!말|{_KR_DOW.replace('?P<dow>', '?:')})", _is("week", 1)),
    (rf"다다음 ?주(?!말|{_KR_DOW.replace('?P<dow>', '?:')})", _is("week", 2)),
    (rf"지지난 ?주(?!말|{_KR_DOW.replace('?P<dow>', '?:')})", _is("week", -2)),
    (rf"(?:(?<!지)지난|저번) ?주{_KR_DOW}", _in_week(-1)),
    (rf"이번 ?주{_KR_DOW}", _in_week(0)),
    (rf"(?<!다)다음 ?주{_KR_DOW}", _in_week(1)),
    (rf"다다음 ?주{_KR_DOW}", _in_week(2)),
    (rf"지지난 ?주{_KR_DOW}", _in_week(-2)),
    (r"(?<!지)지난 ?주말", _weekend(-1)),
    (r"이번 ?주말", _weekend(0)),
    (r"(?<!다)다음 ?주말", _weekend(1)),
    (r"(?<!지)지난 ?달|저번 ?달", _is("month", -1)),
    (r"이번 ?달", _is("month", 0)),
    (r"(?<!다)다음 ?달", _is("month", 1)),
    (r"재작년", _is("year", -2)),
    (r"(?<!재)작년|지난해", _is("year", -1)),
    (r"올해", _is("year", 0)),
    (r"(?<!후)내년", _is("year", 1)),
    (r"내후년", _is("year", 2)),
)

# Case is looked at: to compile large ranges without it takes a hundred times as long.
_HINT = "(?-i:[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af])"
RULES = (Rules("", *_CHINESE, *_JAPANESE, *_KOREAN_RULES, hint=_HINT),)
