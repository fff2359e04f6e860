"""What a prompt says of conversations in languages that leave out subjects, topics and objects."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import onlooker
from onlooker.testing import FrozenClock

pytestmark = pytest.mark.anyio

TALKS = Path(__file__).parents[1] / "data" / "talks"
NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)  # a Monday


def read_talk(name: str) -> list[tuple[str, str, datetime]]:
    """Return who says what and when, in a file of talks."""
    said: list[tuple[str, str, datetime]] = []
    at = NOON
    for line in (TALKS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            at = datetime.strptime(line[3:], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
        else:
            who, _, text = line.partition(": ")
            at += timedelta(minutes=1)
            said.append((who, text, at))
    return said


def message(who: str, text: str, at: datetime) -> dict[str, str]:
    role = who if who in ("user", "assistant") else "user"
    name = {} if who == role else {"name": who}
    return {"role": role, "content": text, "at": at.isoformat()} | name


async def prompts(said: list[tuple[str, str, datetime]], budget: int) -> tuple[str, str]:
    """Return what the prompt says of these messages, and what that of the next session does."""
    clock = FrozenClock(said[0][2])
    async with onlooker.open_memory(":memory:", budget=budget, clock=clock) as memory:
        session = memory.session("a", owner="o")
        last = said[0][2]
        for who, text, at in said:
            clock.advance((at - last).total_seconds())
            last = at
            await session.record(message(who, text, at))
            await session.settle()
        context = await session.context()
        await session.end()
        later = memory.session("b", owner="o")
        await later.record(onlooker.user("Hi"))
        return context.memory, (await later.context()).memory


# Answers that say nothing of whom or what they are, and what they answer.
ELLIPTIC = {
    "japanese_trip": [
        ("元気だけど、膝が悪くて", "おばあちゃん、元気？"),
        ("俺は五年前", "青い池"),
        ("クレジットカードに付いてる", "保険は入った？"),
        ("一頭追加で三千円", "ペット可だと"),
        ("から三割だって", "キャンセル料はいつから"),
        ("八月一日の十七時二十分", "帰りは何時の便？"),
    ],
    "chinese_new_year": [
        ("强多了，能自己下楼遛弯了", "奶奶最近怎么样？"),
        ("就提了，下周五", "辞职"),
        ("要房子的话，一比一点二", "怎么赔？"),
        ("红烧排骨", "想吃什么"),
        ("上周查出来是对尘螨过敏", "豆豆还咳嗽吗？"),
        ("我也是这么说的", "住院的钱都是咱家出的"),
        ("三月二号报到", "什么时候去新单位"),
    ],
}


@pytest.mark.parametrize("budget", [2_000, 4_000])
@pytest.mark.parametrize("name", ELLIPTIC)
async def test_an_answer_stands_with_what_it_answers(name: str, budget: int) -> None:
    notes, _ = await prompts(read_talk(name), budget)
    noted = [pair for pair in ELLIPTIC[name] if pair[0] in notes]
    assert [answer for answer, asked in noted if asked not in notes] == []
    assert len(noted) >= 2


@pytest.mark.parametrize("name", ELLIPTIC)
async def test_a_line_stands_under_the_day_of_its_message(name: str) -> None:
    said = read_talk(name)
    notes, _ = await prompts(said, 2_000)
    day = ""
    for line in notes.splitlines():
        day = line[3:] if re.match(r"## \d{4}", line) else day
        words = re.sub(r"^(?:[A-Z]+ )?[^:]{1,12}: |\(\d{4}[^)]*\)", "", line)
        days = {at.date().isoformat() for _, text, at in said if len(words) > 8 and words in text}
        assert not days or day in days


async def test_a_short_note_under_a_long_answer_has_its_day() -> None:
    answer = "控制饮食，每天走四十分钟，晚饭少吃主食，多喝水，早点睡。" * 8
    said: list[tuple[str, str, datetime]] = []
    for week in range(8):
        at = NOON + timedelta(weeks=week)
        said += [
            (
                "user",
                f"我这周体重是{86 - week}公斤，腰围{104 - week}厘米，血压正常，走了{40 + week}公里。",
                at,
            ),
            ("assistant", answer, at + timedelta(minutes=1)),
        ]
    notes, _ = await prompts(said, 2_000)
    found = re.findall(r"## (\d\S+)\n(?:(?!#).*\n)*?user: 我这周体重是(\d+)公斤", notes)
    assert found
    assert {(day, int(kilos)) for day, kilos in found} <= {
        ((NOON + timedelta(weeks=week)).date().isoformat(), 86 - week) for week in range(8)
    }


async def about(*said: tuple[str, str]) -> str:
    """Return what the next session is told after this was said."""
    talk = [(who, text, NOON + timedelta(minutes=n)) for n, (who, text) in enumerate(said)]
    return (await prompts(talk, 4_000))[1]


@pytest.mark.parametrize(
    "said",
    [
        [("母", "大丈夫よ。前の日に掃除機もかけておく。")],
        [("user", "予約は取りました。")],
        [("user", "姉がくれたので。")],
        [("涼太", "俺は大好き。")],
        [("user", "母に頼んでみます。")],
        [("user", "要是不行的话，我就让同事小赵替我去。")],
        [("妈妈", "在吃，不过大夫把量减了一半。")],
        [("妈妈", "豆豆还咳嗽吗？"), ("姐姐", "不咳了，上周查出来是对尘螨过敏，床单我都换成防螨的了。")],
        [("user", "我还没决定。")],
        [("美咲", "先生は七十二歳の女性で、話し方がすごく面白い。")],
        [("지은", "좋아. 나는 운전을 못 하니까 기차 타고 가자.")],
        [("user", "이사 준비를 도와주세요.")],
    ],
)
async def test_what_says_nothing_alone_is_not_known_in_the_next_session(said: list[tuple[str, str]]) -> None:
    assert "said" not in await about(*said)


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("我妈下个月要做手术。她还对青霉素过敏。", "我妈下个月要做手术。她还对青霉素过敏"),
        ("ペニシリンで全身に発疹が出たことがあります。", "ペニシリンで全身に発疹が出たことがあります"),
        ("来週は娘の誕生日です。七歳になります。", "来週は娘の誕生日です。七歳になります"),
        ("我不能吃花生，一点都不行。", "我不能吃花生"),
        ("我爸有高血压。", "我爸有高血压"),
        ("저는 매운 음식을 못 먹어요.", "못 먹어요"),
    ],
)
async def test_what_the_person_said_of_themselves_is_known_in_the_next_session(said: str, known: str) -> None:
    assert known in await about(("user", said))


@pytest.mark.parametrize(
    "said",
    ["每次十几秒，不恶心，但是前天差点摔倒。", "每次吃完都胃疼，以前从不这样。", "以后再说。"],
)
async def test_how_something_is_is_no_instruction(said: str) -> None:
    assert "asks" not in await about(("user", said))


@pytest.mark.parametrize(
    "said",
    [
        "谢了，到时候我请你们吃饺子，店里的招牌是羊肉馅的。",
        "着工の前に申請しないと補助金はもらえないから気をつけて。",
    ],
)
async def test_a_treat_or_an_application_is_no_request(said: str) -> None:
    talk = [
        ("阿凯", "今天天气不错，我们在湖边走了两个小时。", NOON),
        ("大鹏", said, NOON),
        *(("思雨", f"第{n}天我们走了{n + 10}公里，住在河边的小客栈里。", NOON) for n in range(60)),
    ]
    notes, _ = await prompts(talk, 2_000)
    assert said[:8] not in notes.partition("### Now")[2]


async def test_a_chinese_message_that_is_too_long_is_cut_where_a_clause_ends() -> None:
    said = (
        "这几天为了打卡各个景点，我每天步行都在2万步以上，吃饭也是匆匆忙忙对付几口，"
        "现在感觉腿都要断了，身体被掏空。请给我一些建议。"
    )
    answer = "先睡够八小时，泡泡脚，第二天只处理要紧的事情，晚饭清淡一些，早点休息。" * 6
    talk = [("user", said, NOON), ("assistant", answer, NOON)] * 3
    notes, _ = await prompts(talk, 1_000)
    cut = [
        line.removesuffix("…") for line in notes.splitlines() if line.startswith("user: ") and line[-1] == "…"
    ]
    assert all(said[said.index(text[6:]) + len(text) - 6] in "，。" for text in cut)


async def test_that_nothing_failed_is_not_critical() -> None:
    notes, _ = await prompts(read_talk("japanese_office"), 2_000)
    assert "CRITICAL 李: 修正をステージングに上げました" not in notes


async def test_korean_sentences_keep_their_space() -> None:
    at = NOON
    talk = [("지은", "강릉도 좋지. 다만 나는 매운 음식을 잘 못 먹어.", at)]
    talk += [("민수", f"{n}번 버스를 타고 {n + 10}분 걸려서 회사에 도착했어.", at) for n in range(60)]
    notes, _ = await prompts(talk, 2_000)
    assert "좋지. 다만" in notes


FACTS = {
    "ja": (
        "{}についての本を紹介してください。",
        "良い本はたくさんありますが、まず基礎を説明する短い本をお勧めします。",
        {
            "金沢": "2019年に金沢へ引っ越しました。",
            "チェロ": "チェロを弾きます。",
            "128": "血圧は128の82でした。",
            "トルコ語": "トルコ語を勉強しています。",
            "膝": "膝を2021年に手術しました。",
            "71": "体重は71キロです。",
            "3200": "船を3200ドルで売りました。",
            "40mg": "バルサルタンを40mg飲んでいます。",
        },
    ),
    "ko": (
        "{}에 관한 책을 추천해 주세요.",
        "좋은 책이 많지만 먼저 기초를 설명하는 짧은 책을 권합니다.",
        {
            "대구": "2019년에 대구로 이사했어요.",
            "터키어": "터키어를 배우고 있어요.",
            "고수": "고수를 싫어해요.",
            "무릎": "무릎을 2021년에 수술했어요.",
            "3200": "배를 3200달러에 팔았어요.",
            "40mg": "발사르탄을 40mg 먹어요.",
            "71": "체중은 71킬로예요.",
            "박지현": "상사 이름은 박지현이에요.",
        },
    ),
}


@pytest.mark.parametrize("language", FACTS)
async def test_what_users_say_of_themselves_without_a_subject_is_kept(language: str) -> None:
    asks, answers, facts = FACTS[language]
    talk: list[tuple[str, str, datetime]] = []
    for n, fact in enumerate([*facts.values(), *[""] * 24]):
        told = [("user", fact, NOON), ("assistant", answers, NOON)] if fact else []
        talk += [*told, ("user", asks.format(f"{n}番"), NOON), ("assistant", answers, NOON)]
    notes, _ = await prompts(talk, 1_500)
    assert [value for value in facts if value not in notes] == []
