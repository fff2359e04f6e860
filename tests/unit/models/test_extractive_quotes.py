"""What the built-in observer quotes: whole clauses, with what governs them and what they refer to."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from tests.unit.models.extractive_requests import START, note, observe, reflect, role, say

from onlooker.domain.messages import Message, ToolCall
from onlooker.models.extractive.pieces import (
    Piece,
    clauses,
    is_exclaimed,
    quote,
    quotes,
    refers_back,
    vocatives,
    weigh_speech,
)


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ("I went to the museum yesterday.", "I went to the museum yesterday."),
        ("Wow, the colors are really bright!", "The colors are really bright!"),
        ("Hey, by the way, I've been running a lot", "I've been running a lot."),
        ("Haha, thanks! Great, I have a dog called Rex, lol", "I have a dog called Rex."),
        ("Great Wall tickets cost 40 yuan", "Great Wall tickets cost 40 yuan."),
        ("Oh-my-zsh is installed", "Oh-my-zsh is installed."),
        ("So I quit.", "So I quit."),  # a consequence
        ("Actually, it was Tuesday.", "Actually, it was Tuesday."),  # a correction
        ("No, I never did.", "No, I never did."),
        ("Hmm, I sold the boat", "I sold the boat."),
        ("Thanks, Ingrid.", ""),
        ("我住在成都", "我住在成都。"),
    ],
)
def test_only_fillers_at_the_edges_go(said: str, noted: str) -> None:
    assert quote(said) == noted


def test_yes_is_an_answer_after_a_question_and_a_filler_elsewhere() -> None:
    assert quote("Yes, I sold the boat.") == "I sold the boat."
    assert quote("Yes, I sold the boat.", answers=True) == "Yes, I sold the boat."


def test_names_that_only_address_somebody_go() -> None:
    names = vocatives(frozenset({"Melanie", "Caroline"}))
    assert quote("Thanks, Caroline! I painted it", names) == "I painted it."
    assert quote("That was fun, Mel!", names) == "That was fun!"
    assert quote("I met Caroline at school", names) == "I met Caroline at school."
    assert quote("My friend, Caroline, came too", names) == "My friend, Caroline, came too."


@pytest.mark.parametrize(
    "said",
    [
        "My friends and I went on a hike and we stumbled across a lake if it rained.",
        "He saw Ana and I at the park.",
        "My gf, Toby, and I are moving.",
        "Last week I went to Oslo and I met Bo.",  # the time is of both
        "I think they moved and I miss them.",
        "I sold the boat and I will not buy another.",
        "He said the boat leaked and I sold it.",
        "I would go and we could swim.",
        "I went there, and it was fun, but I got ill.",
        "Did you sell it and I missed that?",
        '"I went to Oslo and I met Bo" is its title.',
        "The game was called Counter-Strike, and me and my team had a blast.",
        "I visited my sister and my aunt.",
    ],
)
def test_a_sentence_is_not_parted_where_something_governs_all_of_it(said: str) -> None:
    assert clauses(said) == [said]


def test_a_sentence_of_clauses_side_by_side_is_parted() -> None:
    assert clauses("I moved to Oslo last week, and I adopted a dog yesterday.") == [
        "I moved to Oslo last week",
        "I adopted a dog yesterday.",
    ]


@pytest.mark.parametrize(
    "said",
    [
        "I'd like to cancel those.",
        "He doesn't like cats.",
        "It was a gift from my grandma.",
        "That's how we met.",
        "I took the blue one.",
        "I've been there twice.",
        "Me too!",
        "Because the rent rose.",
        "I make it for my family.",
        "Planning a trip there next month.",
        "I just submitted a few more last week.",
        "I hope you two have a great time.",
        "How long do you hold that pose?",
        "她很喜欢。",
        "抽样后这个问题收尾。",
        "前者我们用租户隔离解决了。",
        "这两点一定要告诉罗医生。",
        "I 100% agree.",
        "So creamy and delicious!",
        "Would you like me to proceed with issuing this certificate for you?",
        "それは大阪です。",
        "父も去年同じ手術をしました。",
        "うちの猫も最初はそうだったよ。",
        "Thanks for asking, they're good.",
        "Can I get the recipe for it?",
        "A human agent has more freedom in handling such requests.",
        "I agree, but not in the first year.",
        "We ended up laughing and having a good time.",
        "我同意，但不能太打断用户流程。",
        "太可惜了。",
        "一緒に帰れないのは残念だね。",
        "三本は多いだろ。",
        "정말 힘들겠네요.",
    ],
)
def test_a_pronoun_without_its_noun_refers_back(said: str) -> None:
    assert refers_back(said)


@pytest.mark.parametrize(
    "said",
    [
        "My sister sold her car.",
        "I bought a kayak and painted it blue.",
        "It's important to rest.",
        "This weekend we sail to Bergen.",
        "There is no budget.",
        "We made it to the top.",
        "I went to the lake and swam there.",
        "我住在成都。",
        "我这次去了北京。",
        "これから会議です。",
        "それと、自転車を買ったの。",
        "I bought a boat in Turin and lost the papers for it.",
        "The club takes requests by mail and answers such requests on Fridays.",
        "我反对在家里抽烟的人。",
        "来週は娘の誕生日です。",
        "母の介護が大変です。",
        "私は学生じゃない。",
        "동의서를 제출했습니다.",
        "We had such great weather in Graz.",
        "I have such gorgeous views from my flat.",
    ],
)
def test_a_pronoun_beside_its_noun_does_not(said: str) -> None:
    assert not refers_back(said)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("When did you start to skate?", "Since I was 17."),
        ("What flavor did you make?", "I whipped up some chocolate and vanilla swirl for everybody."),
        ("どこの病院？", "駅前のさくら動物病院。予約は十時半。"),
        ("中村さんも同席できますか。", "午後なら空いています。"),
        ("今度の打ち合わせはどこですか。", "大宮で集合します。"),
        ("접수는 누가 해요?", "금요일까지 끝낼게요."),
    ],
)
def test_an_answer_that_says_little_alone_stands_below_its_question(asked: str, answer: str) -> None:
    text = observe(say("Ana", asked), say("Ben", answer, 1), THANKS, tokens=120)
    found = lines(text)
    assert found.index(f"Ana: {asked}") + 1 == found.index(f"Ben: {answer}")


@pytest.mark.parametrize(
    "said",
    [
        "今は弾かないの？", "午後なら空いています。", "今天内修好。", "It was a gift.",
        "The second flight is full, as you can see.",
    ],
)  # fmt: skip
def test_what_goes_on_from_messages_that_were_noted_before_is_not_noted(said: str) -> None:
    told = note("## 2026-02-16\nAna: I moved to Oslo.")
    text = observe(
        say("Ben", said), say("Ana", "I sold the boat to Carla for 900 euros.", 1), THANKS, notes=(told,)
    )
    assert said not in text
    assert "900 euros" in text


@pytest.mark.parametrize(
    ("said", "alone", "with_it"),
    [
        (
            [("Ana", "It is the loop, it looks at everything again. A pandas merge does the same in 30 ms.")],
            "merge does the same", "It is the loop",
        ),
        (
            [("Ana", "A graph description has three parts. Learn one sentence for each.")],
            "one sentence for each", "graph description",
        ),
        (
            [("Ana", "You forgot to begin with the right ending again. And add 2019.")],
            "dd 2019", "the right ending",
        ),
        (
            [("Ana", "The pills are for life. Half the dose from July though.")],
            "Half the dose", "The pills are for life",
        ),
        (
            [("Ana", "So that was it all the time, an aura. Tell Dr. Amari: it excludes sumatriptan.")],
            "Tell Dr. Amari", "an aura",
        ),
        (
            [("Ben", "Which mail do you have? I don't use the old one."), ("Ana", "vassell@example.org.")],
            "Ana: vassell@example.org", "Ben: Which mail do you have?",
        ),
        (
            [("Ben", "I'll fetch Grandpa."), ("Ben", "Does he have the keys to my car?"),
             ("Ana", "Yes, in his bedside drawer at 14 Elm Road.")],
            "in his bedside drawer", "Ben: Does he have the keys to my car?",
        ),
        (
            [("Ana", "We went to a pottery workshop in Graz."), ("Ben", "Nice!"),
             ("Ana", "We paint palm trees too. Here's our latest from May. [shares a photo of a sunset]")],
            "Here's our latest", "[pic: sunset]",
        ),
        (
            [("Ben", "The invoice counts whole days now."),
             ("Ana", "Wait, does that change what customers in Oslo pay for 2026?")],
            "does that change", "counts whole days",
        ),
        (
            [("Ana", "Your trip M05KNL goes from Atlanta to Oslo. The flights are in business class.")],
            "The flights are", "M05KNL",
        ),
        ([("Ana", "We ship on Friday with the new invoice."), ("Ben", "Noted.")], "Noted", "ship on Friday"),
        (
            [("Ana", "We fly to Turin with a club. The total round-trip price in Basic Economy is $106.")],
            "round-trip", "to Turin",
        ),
        (
            [("Ana", "We won the final in Graz. The best part for me was the noise of 900 people.")],
            "The best part", "the final in Graz",
        ),
        (
            [("Ana", "私は虫よけスプレーを三本買ったよ。"), ("Ben", "三本は多いだろ。")],
            "多いだろ", "虫よけスプレー",
        ),
    ],
)  # fmt: skip
def test_what_means_something_said_before_is_noted_only_with_it(
    said: list[tuple[str, str]], alone: str, with_it: str
) -> None:
    texts = [chat(*said, tokens=tokens) for tokens in range(12, 120, 3)]
    assert all(with_it in text for text in texts if alone in text)
    assert alone in texts[-1]


def test_an_answer_to_a_question_that_was_noted_before_is_not_noted() -> None:
    asked = note("## 2026-02-16\nassistant: Shall I move the flight to Friday for 120 euros?")
    said = (role("user", "Yes, please go ahead with the change."), role("user", "I have 2 bags for Oslo.", 1))
    text = observe(*said, THANKS, notes=(asked,))
    assert "go ahead" not in text
    assert "2 bags" in text


@pytest.mark.parametrize(
    "said",
    [
        "The weather has turned cold, so I row indoors.",
        "The boat that I bought in Turin leaks.",
        "The report is in /srv/out/report.pdf.",
        "The kids are in Bergen with Carla.",
    ],
)
def test_what_everybody_knows_needs_nothing_before_it(said: str) -> None:
    told = note("## 2026-02-16\nAna: I moved to Oslo.")
    text = observe(say("Ben", said), THANKS, notes=(told,), tokens=60)
    assert f"Ben: {said}" in lines(text)


def test_what_a_program_said_stands_above_what_is_said_of_it() -> None:
    call = ToolCall("c1", "edit", '{"path": "src/match.c", "line": 317}')
    said = (
        role("user", "Fix the match in src/match.c."),
        replace(role("assistant", "", 1), calls=(call,)),
        Message("tool", "The file src/match.c has been edited at line 317.", answers="c1", at=START),
        role(
            "assistant",
            "The inserted line is not placed before the return statement of make_pattern_type.",
            3,
        ),
        THANKS,
    )
    texts = [observe(*said, tokens=tokens) for tokens in range(12, 200, 4)]
    noted = [text for text in texts if "The inserted line" in text]
    assert noted
    for text in noted:
        (above,) = [before for before, line in pairwise(lines(text)) if "The inserted line" in line]
        assert above.startswith("edit(src/match.c")


def test_what_is_forbidden_stays_with_what_it_is_forbidden_for() -> None:
    told = (
        "踝关节扭伤三天内要冰敷和抬高，不要负重，可以用拐杖或者护踝，每两到三小时十五分钟，加压用弹性绷带，脚要高于心脏，"
        "晚上睡觉也一样，并且每小时活动脚趾十次。禁止：热敷、按摩、饮酒、剧烈活动，也不要泡热水澡。"
    )
    assert [quote.needs for quote in quotes(told)] == [None, 0]


def test_the_number_of_an_item_stays_with_it() -> None:
    told = "中度脂肪肝的原因：1. 热量摄入过多：油腻食物和果汁。2. 运动不足：长期久坐。3. 睡眠不足。4."
    later = reflect(f"## 2026-02-16\nassistant: {told}", tokens=40)
    assert not re.search(r"\d\.(?:$| \d\.)", later, re.M), later


def test_a_later_item_of_a_list_in_one_line_stays_with_what_announces_it() -> None:
    told = (
        "进阶球拍推荐（300-600元）：1. 李宁风刃500：攻守兼备，适合进阶选手，中杆偏硬，"
        "需要一定的力量基础，约400元，红色和蓝色两款。"
        "2. 胜利极速12：手感好，挥拍轻松，约350元，适合双打选手。"
    )
    said = f"## 2026-02-16\nassistant: {told}\nuser: 今天称了一下体重，还是80kg，没有反弹。"
    notes = [reflect(said, tokens=tokens) for tokens in range(20, 120, 5)]
    assert all("球拍推荐" in text for text in notes if "胜利极速" in text)


def test_words_that_found_no_room_stand_under_their_day() -> None:
    long = "然后我们又走了很远的路，" * 30
    told = note("## 2026-02-15\nuser: 我搬到了深圳。")
    text = observe(role("assistant", f"已经提了，{long}就这样。"), notes=(told,), tokens=20)
    assert text.startswith("## 2026-02-16\nassistant: 已经提了"), text


def test_an_answer_for_which_there_is_no_room_stands_below_what_it_answers() -> None:
    told = note("## 2026-02-15\n健: 私は大阪へ引っ越しました。")
    asked, answer = (
        "え、聞いてないよ。どのあたり？",
        "天満橋の近く。会社まで歩いて十二分で、家賃は八万四千円。",
    )
    text = observe(say("美咲", asked), say("健", answer, 1), THANKS, notes=(told,), tokens=30)
    assert lines(text)[-2:] == [f"美咲: {asked}", f"健: {answer}"]


def test_how_long_something_takes_is_no_date() -> None:
    text = chat(("Betty", "The work that can be accomplished in two weeks is limited to Oslo."))
    assert "in two weeks is limited" in text
    assert "in two weeks (2026" in chat(("Betty", "I fly to Oslo in two weeks."))


def test_what_announces_a_list_without_a_colon_gets_one() -> None:
    told = (
        "Two ways come to mind to mend it are\n\n1. when adding a spec, keep its parent\n2. fill in defaults"
    )
    assert quotes(told)[0].text == "Two ways come to mind to mend it are:"


def test_a_picture_stays_with_the_word_that_points_at_it() -> None:
    said = "I started teaching people in Graz how to make this. [shares a photo of a dessert with cream]"
    texts = [chat(("Nate", said), tokens=tokens) for tokens in range(12, 120, 3)]
    assert all("[pic: dessert with cream]" in text for text in texts if "make this" in text)
    assert "make this" in texts[-1]


def test_words_that_begin_a_quote_have_a_capital() -> None:
    assert (
        quote("Yeah Mel, let's spread the word.", vocatives(frozenset({"Mel"}))) == "Let's spread the word."
    )
    text = chat(("Ana", "My advice for Oslo: row at dawn. And stay open to the tips of Carla's rowing club."))
    assert "Stay open" in text


# A note is no longer than its source. These words make room, and none of them is noted.
THANKS = role("user", "Thanks so much! You are great! Have a nice day! Talk to you soon! " * 4, 59)


def chat(*said: tuple[str, str], tokens: int = 400) -> str:
    messages = [say(name, text, minute) for minute, (name, text) in enumerate(said)]
    return observe(*messages, THANKS, tokens=tokens)


def lines(text: str) -> list[str]:
    return [line.removeprefix("IMPORTANT ").removeprefix("CRITICAL ") for line in text.splitlines()]


def test_a_pet_is_nobodys_girlfriend() -> None:
    text = chat(("Tim", "My gf, Toby, and I are moving to a place with a yard."), ("Jo", "Nice!"))
    assert lines(text)[1:] == ["Tim: My gf, Toby, and I are moving to a place with a yard."]
    later = reflect(*[text.replace("16", str(day)) for day in range(10, 28)], tokens=60)
    assert "people:" not in later


def test_an_answer_that_denies_its_question_is_no_label() -> None:
    text = chat(
        ("Jo", "Did you see any bands?"),
        ("Tim", "Didn't see any bands, but the food festival in Tokyo was awesome."),
    )
    assert "Tim: Didn't see any bands, but the food festival in Tokyo was awesome." in lines(text)
    assert "bands: " not in text


def test_who_went_and_when_stay_with_what_they_did() -> None:
    said = "A few years back my friends and I went on a hike and stumbled across this stunning lake."
    assert f"Tim: {said}" in lines(chat(("Jo", "Where was it?"), ("Tim", said)))


KNOWN_BEFORE: dict[str, tuple[tuple[str, str], tuple[str, str], str, str]] = {
    "a thing that the question names": (
        ("Ben", "The castle in your window looks like one from a storybook. What gave you the idea for it?"),
        ("Ana", "I got the idea on a trip to Wales a few years ago, with my sister Carla and her camera."),
        "What gave you the idea for it?",
        "I got the idea on a trip to Wales",
    ),
    "here": (
        ("Ben", "I cook at a shelter for homeless people in Turin."),
        ("Ana", "I started volunteering here about a year ago after meeting a family from Ghent."),
        "I cook at a shelter for homeless people in Turin.",
        "I started volunteering here",
    ),
    "some": (
        ("Ben", "Which projects do you plan in Lisbon for the years to come?"),
        ("Ana", "We're brainstorming some to help underserved schools get access to education, mentors, "
         "job training, tools and books."),
        "Which projects do you plan in Lisbon",
        "We're brainstorming some",
    ),
    "a river that was told of": (
        ("Ben", "We slept in a barn beside the river Minho in May."),
        ("Ana", "Nobody in my family forgets the sound of that river, nor do my neighbours in Ghent."),
        "the river Minho",
        "the sound of that river",
    ),
    "a picture": (
        ("Ben", "Nice to see you again."),
        ("Ana", "I decorated this tree myself, going all out with paper owls! "
         "[shares a photo of a christmas tree with paper owls]"),
        "[pic: christmas tree with paper owls]",
        "I decorated this tree myself",
    ),

    "a topic": (
        ("李", "テスト環境はまだ古い証明書を使っていて、毎朝七時に警告のメールが届きます。"),
        ("佐藤", "証明書は私が水曜の午後二時までに更新します。"),
        "古い証明書を使っていて",
        "証明書は私が",
    ),
    "a short reply": (
        ("田村", "復元試験が終わりました。索引の作り直しに時間がかかり、全部で42分でした。"),
        ("小川", "目標は30分でしたよね。"),
        "復元試験が終わりました",
        "目標は30分",
    ),
    "on the way": (
        ("陽子", "白馬の合宿から帰る道がひどい渋滞で、六時間もかかった。"),
        ("里奈", "私は途中で寝ちゃって、翔に悪いことをした。"),
        "白馬の合宿",
        "途中で寝ちゃって",
    ),
    "what is of the same kind": (
        ("陈晨", "后面要把长期记忆推广到客服场景，先看看有哪些做法。"),
        ("李雷", "我最近看了三篇相关的论文，周五给大家讲讲里面的实验。"),
        "长期记忆推广到客服场景",
        "三篇相关的论文",
    ),
    "also": (
        ("艾米", "首页的空白状态给三条建议问法，点一下就能发出去。"),
        ("李雷", "我也试下用热度动态生成一版，周五先做个A/B测试。"),
        "首页的空白状态",
        "我也试下",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", KNOWN_BEFORE)
def test_what_is_known_from_before_stands_beside_it_or_is_left_out(what: str) -> None:
    first, second, names, speaks_of = KNOWN_BEFORE[what]
    notes = [chat(first, second, tokens=tokens) for tokens in range(16, 120, 4)]
    assert [note for note in notes if speaks_of in note and names not in note] == []
    assert speaks_of in notes[-1]


def test_sentences_do_not_read_as_one() -> None:
    text = chat(
        (
            "Tim",
            "Had an incident last week where my place got flooded. "
            "Waiting on insurance so I can start repairs.",
        )
    )
    assert (
        "Tim: Had an incident last week where my place got flooded. "
        "Waiting on insurance so I can start repairs." in lines(text)
    )


def test_a_doubt_stays_with_what_is_doubted() -> None:
    text = chat(("Tim", "I'm guessing the match isn't taking this into account, but I haven't checked."))
    assert "Tim: I'm guessing the match isn't taking this into account, but I haven't checked." in lines(text)


def test_a_contrast_in_the_next_sentence_stays() -> None:
    text = chat(
        ("Tim", "The walk varies depending on the day. But usually it lasts about an hour."), tokens=30
    )
    assert ("varies" in text) == ("about an hour" in text)


def test_somebody_elses_words_do_not_replace_the_diagnosis() -> None:
    text = chat(
        ("Sam", "The doctor told me I have gastritis since May."),
        ("Evan", "Gastritis can be tough."),
        tokens=30,
    )
    assert "Sam: The doctor told me I have gastritis since May." in lines(text)


@pytest.mark.parametrize(
    "said",
    ["We tried snowshoeing this weekend near Bergen.", "It feels like just yesterday that I sold the boat."],
)
def test_a_day_that_the_words_leave_open_is_not_computed(said: str) -> None:
    wednesday = Message("user", said, name="Tim", at=START + timedelta(days=2))
    assert "(" not in observe(
        say("Jo", "I sold the kayak, the boat and the old red van."), wednesday, tokens=200
    )


def test_a_version_is_not_cut_into_a_label() -> None:
    text = chat(("Jo", "When do you ship v2.4.1?"), ("Tim", "Thursday, in the morning."))
    assert lines(text)[1:] == ["Jo: When do you ship v2.4.1?", "Tim: Thursday, in the morning."]


def test_what_is_denied_later_is_noted_though_the_words_are_the_same() -> None:
    text = reflect(
        "## 2026-02-16\nAna: I eat fish on Fridays.",
        "## 2026-02-17\nAna: I don't eat fish on Fridays.",
        tokens=200,
    )
    assert "Ana: I eat fish on Fridays." in text
    assert "Ana: I don't eat fish on Fridays." in text
    noted = observe(say("Ana", "I don't eat grilled fish on Fridays."), tokens=100)
    assert "don't" in noted


def test_a_spoken_percentage_is_kept_as_said() -> None:
    assert "Ana: I 100% agree with the harbour board." in lines(
        chat(("Ana", "I 100% agree with the harbour board."))
    )


def test_what_was_said_at_two_times_is_not_one_line() -> None:
    text = chat(
        ("Mel", "Last Friday I took my kids to a pottery workshop in Bergen."),
        ("Caro", "Wow, nice!"),
        ("Mel", "Our latest painting from last weekend shows a palm tree."),
    )
    assert [line for line in lines(text) if line.startswith("Mel: ")] == [
        "Mel: Last Friday (2026-02-13) I took my kids to a pottery workshop in Bergen.",
        "Mel: Our latest painting from last weekend (2026-02-14/15) shows a palm tree.",
    ]


def test_a_person_is_named_wherever_somebody_is_meant() -> None:
    said = [
        role("user", "我妈下个月要做白内障手术，她住在绵阳。"),
        role("assistant", "手术日期定了吗？", 1),
        role("user", "定在2月9日上午八点半。", 2),
        role("assistant", "建议提前一天到达绵阳。", 3),
        role("user", "她血压一直偏高，在吃氨氯地平，还对青霉素过敏。", 4),
    ]
    for tokens in range(20, 160, 10):
        text = observe(*said, THANKS, tokens=tokens)
        assert "她血压" not in text.split("## ")[-1] or "我妈" in text


@pytest.mark.parametrize(
    ("said", "priority"),
    [
        ("Allergies can be tough.", ""),
        ("I am allergic to peanuts.", "CRITICAL "),
        ("My son has a severe allergy to nuts.", "CRITICAL "),
    ],
)
def test_only_what_somebody_has_is_critical(said: str, priority: str) -> None:
    text = chat(("Nate", said))
    assert f"{priority}Nate: {said}" in text.splitlines()


# ------------------------------------------------------------------------------------ with tools


def result(name: str, arguments: str, text: str, number: int = 1) -> tuple[Message, Message]:
    call = ToolCall(f"c{number}", name, arguments)
    return (
        Message("assistant", "", at=START, calls=(call,)),
        Message("tool", text, at=START, answers=call.id, name=name),
    )


@pytest.mark.parametrize(
    "request_",
    [
        "Which of these includes flights over 3 hours? I'd like to cancel those.",
        "My original flight is on the 5th. I want to move it to the 6th.",
    ],
)
def test_a_request_in_a_session_with_tools_is_whole(request_: str) -> None:
    text = observe(
        role("user", request_), *result("get_trips", "{}", '{"trips": ["AX-1", "AX-2"]}'), tokens=150
    )
    assert request_ in text


@pytest.mark.parametrize("tokens", range(30, 120, 15))
def test_a_request_is_whole_where_no_tool_was_called_yet(tokens: int) -> None:
    asked = (
        "Is there someone else I could speak to about this? Maybe a supervisor who could make an exception?"
    )
    text = observe(
        role("user", "Yes, let's upgrade Noah Hernandez to business class. Please use the card on file."),
        role("assistant", "I'm sorry, the fare rules of this ticket do not allow any refund at all.", 1),
        role("user", asked, 2),
        tokens=tokens,
    ).split("## ")[-1]
    assert ("Maybe a supervisor" in text) == ("someone else I could speak to" in text)
    assert ("let's upgrade" in text) == ("Yes, let's upgrade" in text)


@pytest.mark.parametrize(
    "offer",
    ["Please confirm if everything is correct.", "If you need further assistance, I can ask a human agent."],
)
def test_what_an_assistant_offers_counts_less_than_what_it_says(offer: str) -> None:
    offered, said = (
        Piece(text, "assistant", "", (0, n))
        for n, text in enumerate((offer, "The refund goes to the card on file."))
    )
    for piece in (offered, said):
        weigh_speech(piece, frozenset(), role="assistant")
    assert offered.quality < said.quality / 3


def test_a_sign_between_programs_is_not_noted() -> None:
    text = observe(role("user", "Cancel 59XX6W now, please."), role("user", "###STOP###", 1), tokens=60)
    assert "STOP" not in text


def test_an_announcement_without_what_it_announces_is_not_noted() -> None:
    listing = "Here are the nonstop flights from LAS to IAH on May 19:\n- HAT175 for $155\n- HAT266 for $146"
    for tokens in range(35, 80, 4):
        text = observe(role("assistant", listing), THANKS, tokens=tokens)
        assert not text.endswith(("May 19:", "May 19:."))
        assert "HAT" not in text or "from LAS to IAH" in text


def test_an_edit_that_worked_says_so_beside_the_lines_it_shows() -> None:
    shown = (
        "The file /src/parser.pony has been edited. Here's the result of running `cat -n` on a snippet:\n"
        + "\n".join(f"    {n}\tmatch _spec.commands()({n})?" for n in range(99, 109))
    )
    edit = '{"command": "insert", "path": "/src/parser.pony", "new_str": "// default"}'
    text = observe(*result("edit", edit, shown), tokens=120)
    assert "edited, shown: lines 99–108" in text


def test_what_every_call_is_given_says_nothing() -> None:
    calls = [
        message
        for n, path in enumerate(("a.c", "b.c", "c.c", "d.c"))
        for message in result(
            "edit", f'{{"path": "{path}", "impl_source": "oh_aci", "state": "confirmed"}}', f"read {path}", n
        )
    ]
    text = observe(*calls, tokens=200)
    assert "edit(a.c): " in text
    assert "oh_aci" not in text.split("Values:")[0]
    assert "confirmed" not in text


def test_what_a_call_is_about_stays_in_every_one_of_them() -> None:
    calls = [
        message
        for n, date in enumerate(("2024-05-20", "2024-05-21", "2024-05-22"))
        for message in result(
            "search_flight",
            f'{{"origin": "JFK", "destination": "SEA", "date": "{date}"}}',
            f"found HAT{n}36",
            n,
        )
    ]
    text = observe(*calls, tokens=200)
    assert text.count("search_flight(JFK, SEA, 2024-05-2") == 3


def test_what_refers_to_an_attempt_that_is_left_out_is_left_out_too() -> None:
    call, answer = result("make", "{}", "gmake: Error 2")
    said = replace(
        call,
        text="The condition in match.c has been added and indented. Now, let's verify that the fix works. "
        "To do this, we need to recompile the Pony compiler.",
    )
    text = observe(said, answer, tokens=200)
    assert "match.c has been added and indented." in text
    assert "To do this" not in text


def test_the_smallest_note_of_a_request_ends_with_a_sentence() -> None:
    asked = "I'll proceed with the cancellation. My user ID is amelia_rossi_1297, and I booked in March."
    for tokens in range(8, 24, 2):
        text = observe(role("user", asked), tokens=tokens)
        assert "My user ID is…" not in text


def test_a_result_without_its_call_does_not_pass_for_a_call_without_arguments() -> None:
    lone = Message("tool", '{"order": "88-1431"}', at=START, answers="c9", name="get_order")
    assert "get_order(…): order 88-1431" in observe(role("user", "Where is my order?"), lone, tokens=80)


def test_a_rejected_edit_keeps_its_error_and_the_next_says_that_it_worked() -> None:
    edit = '{"command": "str_replace", "path": "command_parser.pony", "old_str": "a%s", "new_str": "b"}'
    text = observe(
        role("user", "Please make the parser accept an empty list of commands."),
        role("assistant", "Let me try to edit the parser."),
        *result("edit", edit % 1, "ERROR: No replacement was performed, old_str did not appear.", 1),
        *result("edit", edit % 2, "The file command_parser.pony has been edited.", 2),
        tokens=120,
    )
    assert "ERROR: No replacement was performed" in text
    assert "The file command_parser.pony has been edited." in text
    assert "Let me try" not in text


def test_a_departure_stays_with_its_flight() -> None:
    listing = (
        "Here are two flights:\n1. **HAT001**\n   - Departure: 01:00 EST\n   - Arrival: 07:00 EST\n"
        "2. **HAT002**\n   - Departure: 09:00 EST\n   - Arrival: 12:00 EST"
    )
    for quote_ in quotes(listing.replace("*", "")):
        if "Arrival" in quote_.text:
            first, last = ("HAT001", "07:00") if "HAT001" in quote_.text else ("HAT002", "12:00")
            assert first in quote_.text
            assert last in quote_.text
    assert sum("Arrival" in quote_.text for quote_ in quotes(listing)) == 2


def test_code_is_kept_or_named_but_never_altered() -> None:
    code = "type CrashIt is (I32 | None)"
    text = observe(role("user", f"Compiling `{code}` crashes the compiler."), tokens=100)
    assert f"`{code}`" in text
    program = "type CrashIt is\n  (I32 |\n  None)\nactor Main\n  new create(env: Env) => None"
    block = f"Here is the program:\n```\n{program}\n```"
    text = observe(role("user", block), tokens=100)
    assert "CrashIt (" not in text
    assert "5 lines of code, defines CrashIt, Main" in text


# ------------------------------------------------------------------------------------ other scripts


@pytest.mark.req(105)
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            "这不是因为预算不够，而是因为供应商换了合同，所以我们推迟上线。",
            "不是因为预算不够，而是因为供应商换了合同，所以我们推迟上线。",
        ),
        (
            "予算が足りないからではなく、契約が変わったので、公開を延期します。",
            "足りないからではなく、契約が変わったので、公開を延期します。",
        ),
        (
            "예산이 부족해서가 아니라 계약이 바뀌어서 출시를 미룹니다.",
            "부족해서가 아니라 계약이 바뀌어서 출시를 미룹니다.",
        ),
    ],
)
def test_a_sentence_without_spaces_is_whole_and_has_its_speaker(said: str, kept: str) -> None:
    text = observe(say("민지", said), THANKS, tokens=120)
    (line,) = [line for line in lines(text) if kept in line]
    assert line.startswith("민지: ")


@pytest.mark.req(105)
def test_a_sentence_without_a_subject_stays_with_the_one_that_has_it() -> None:
    said = [
        say("健", "弟さん、元気？"),
        say("美咲", "元気だよ。四月から札幌の大学院に行く。専攻は海洋生物で、ヒトデを研究するらしい。", 1),
        say("健", "そういえば、母が入院しました。手術は成功して、来週退院の予定です。", 2),
        say("美咲", "それと、自転車を買ったの。中古で二万三千円だったけど、ブレーキが壊れていた。", 3),
    ]
    for tokens in range(20, 200, 10):
        text = observe(*said, THANKS, tokens=tokens)
        assert "大学院" not in text or "弟さん" in text
        assert "手術" not in text or "母が入院" in text
        assert "二万三千円" not in text or "自転車" in text


@pytest.mark.req(105)
def test_an_item_of_a_list_in_one_line_is_whole() -> None:
    advice = (
        "自测方法：1. BMI计算：体重(kg)÷身高(m)²。标准：<18.5过轻，18.5-23.9正常，24.0-27.9超重。"
        "2. 腰围测量：肋骨下缘与骨盆上缘中点水平测量，呼气末读数。标准：男性≥90cm、女性≥85cm提示腹型肥胖。"
        "3. 腰臀比：腰围÷臀围。标准：男性<0.90、女性<0.85。"
    )
    for tokens in range(30, 240, 15):
        text = observe(role("assistant", advice), THANKS, tokens=tokens)
        assert "<0.90" not in text or "腰臀比" in text
        assert "≥90cm" not in text or "腰围测量" in text
        assert "18.5" not in text or "BMI" in text


@pytest.mark.parametrize("who", ["健", "王小明", "Ana"])
def test_a_line_has_its_speaker_in_the_smallest_note(who: str) -> None:
    for text in (
        "淡路島の釣りは三月二十日に決まった。車は西村さんが出してくれる。",
        "我妈很紧张。有什么办法吗？",
    ):
        for tokens in (1, 5, 12):
            assert f"{who}: " in observe(say(who, text), tokens=tokens)


def test_in_chinese_a_fact_about_the_person_comes_before_a_request_that_was_answered() -> None:
    text = observe(
        role("user", "请推荐几家适合周末聚餐的餐厅和附近的景点。"),
        role("user", "我是四川人，身高170厘米，最喜欢吃火锅。", 1),
        role("user", "请给我一些下午可以参观的博物馆建议。", 2),
        tokens=40,
    )
    assert "我是四川人，身高170厘米，最喜欢吃火锅。" in text
    assert "请推荐" not in text.split("## ")[-1]


@pytest.mark.parametrize("heading", ["**Expected result:**\n", "## Expected result\n", "Expected result:\n"])
def test_a_paragraph_stays_with_the_heading_that_says_what_it_is(heading: str) -> None:
    issue = (
        "Matching a tuple of one element segfaults in genmatch.c, see below for what I tried first.\n\n"
        f"{heading}\nThe compiler does not crash on line 77.\n\n## Actual result\n\nIt crashes in genmatch.c."
    )
    text = observe(role("assistant", issue), tokens=60)
    assert "The compiler does not crash" not in text or "Expected result: The compiler does not" in text
    assert "It crashes" not in text or "Actual result: It crashes" in text
    assert "crash" in text


def test_lines_below_an_item_go_on_with_its_last_sentence() -> None:
    found = quotes(
        "1. Compare the code with the base. Run all tests related to:\n   - The issue\n   - The files"
    )
    assert [one.text for one in found] == [
        "Compare the code with the base.",
        "Run all tests related to: The issue; The files.",
    ]


def test_a_second_list_in_one_line_has_its_own_heading() -> None:
    """What is to be avoided does not read as advice."""
    said = (
        "今晚注意事项：可以做：1. 分多次小口喝温水，不要一次喝完。2. 饭后30-60分钟慢走或轻微伸展。"
        "3. 腹部保暖，热敷10-15分钟。避免：1. 油炸、甜点、烧烤等。2. 餐后2小时内躺平。3. 紧身裤或束腰衣物。"
    )
    for tokens in (40, 80, 120, 200):
        for line in observe(role("assistant", said), tokens=tokens).splitlines():
            assert "躺平" not in line or "避免" in line, line


def test_a_japanese_sentence_with_a_path_stays_with_its_subject() -> None:
    text = observe(
        say("佐藤", "わかりました。金曜の朝六時にサーバーの設定を変更します。"),
        say("李", "金曜は休みなので、手順書を書いておきます。場所は docs/release-0306.md です。"),
    )
    assert "手順書を書いておきます。場所は docs/release-0306.md です。" in text


def test_what_says_little_alone_is_on_the_line_that_it_needs() -> None:
    text = observe(
        say("Ben", "Rock climbing sounds like a fun way to push your limits in the mountains."),
        say("John", "I got promoted at work! It took four years of night shifts in the harbour of Bergen."),
        tokens=80,
    )
    assert "IMPORTANT John: I got promoted at work! It took four years of night shifts" in text


def test_a_clause_with_a_pronoun_is_not_parted_from_the_one_before_it() -> None:
    for said in (
        "I just finished the intro to my next movie script, and I decided to include this at the start.",
        "It was a very long time coming, and I'm over the moon about it!",
    ):
        assert clauses(said) == [said]


@pytest.mark.parametrize("said", ["I took this pic last summer.", "We love those photos."])
def test_a_picture_that_nobody_describes_is_referred_to(said: str) -> None:
    assert refers_back(said)


def test_underscores_of_a_name_are_no_markup() -> None:
    said = "__Please note__: src/__init__.py and `__main__` are new in pkg/__a__.py"
    text = observe(role("assistant", said))
    assert "Please note: src/__init__.py and `__main__` are new in pkg/__a__.py" in text


@pytest.mark.parametrize(
    "reaction",
    [
        "Game changer!", "That agency looks great!", "Sounds delicious!", "大家早。", "おはようございます。",
        "お疲れさまでした。", "안녕하세요.",
    ],
)  # fmt: skip
def test_a_greeting_or_a_reaction_is_not_noted_beside_something_that_is_said(reaction: str) -> None:
    text = observe(
        say("Ana", "I sold the boat to Carla for 900 euros."),
        say("Ben", reaction, 1),
        say("Ana", "I moved to Oslo with my sister.", 2),
        tokens=200,
    )
    assert reaction not in text
    assert "900 euros" in text


@pytest.mark.parametrize(
    "news", ["Mom died!", "Sold out!", "Allergic to nuts!", "It's a girl!", "No injuries!", "She said yes!"]
)
def test_few_words_that_tell_something_are_no_reaction(news: str) -> None:
    assert is_exclaimed("Game changer!")
    assert not is_exclaimed(news)


def test_what_an_assistant_goes_to_do_is_not_noted_whatever_it_is_for() -> None:
    said = role(
        "assistant", "The build of libfrob failed. To avoid the issue, let's directly insert the code."
    )
    text = observe(said, THANKS, tokens=60)
    assert "libfrob" in text
    assert "let's" not in text


def test_the_smallest_note_says_what_happened_rather_than_what_was_asked_for() -> None:
    said = "我尝试了几次羽毛球，这项运动真是充满趣味。但是我的腿扭伤了，刚刚从医院回来。请给我一些康复建议。"
    text = observe(role("user", said), tokens=30)
    assert "我的腿扭伤了" in text
    assert not text.rpartition("user: ")[2].startswith("请给我")
