"""How texts and queries become words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.growth import assert_not_quadratic

from onlooker.policy.search.words import MAX_TOKEN_LENGTH, query_tokens, stem, telling_tokens, tokens


@pytest.mark.parametrize(
    "forms",
    [
        "hike hikes hiked hiking",
        "plan plans planned planning",
        "study studies studied studying",
        "call calls called calling",
        "box boxes boxed",
        "go goes went gone going",
        "child children",
        "quick quickly",
    ],
)
def test_forms_of_a_word_are_one_word(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    "pair", ["bus bug", "news new", "thing thin", "class clas", "bed be", "universe universal"]
)
def test_different_words_stay_different(pair: str) -> None:
    one, other = pair.split()
    assert stem(one) != stem(other)


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("We met at the Café Müller", "cafe muller"),
        ("Ana’s boat isn't here", "Ana"),
        ("see src/app/main.py", "src/app/main.py"),
        ("see src/app/main.py", "main.py"),
        ("call getUserName() then", "user name"),
        ("I use GitHub", "github"),
        ("set DATABASE_URL first", "database url"),
        ("it costs €1,240.50", "1240.50"),
        ("order 88-1431 came", "88-1431"),
        ("on 2023-05-08", "2023-05-08"),
        ("Straße", "strasse"),
        ("ＦＵＬＬ width", "full"),
        ("हिन्दी भाषा", "भाषा"),
        ("ёлка", "елка"),
        ("我住在奥斯陆。", "奥斯陆"),
        ("我住在奥斯陆。", "住"),
        ("東京タワーに行った", "タワー"),
        ("ｶﾌｪ", "カフェ"),
        ("안녕하세요 세계", "세계"),
        ("สวัสดีครับ", "สวัสดี"),
    ],
)
def test_what_was_said_is_found_by_what_is_asked(said: str, asked: str) -> None:
    assert set(query_tokens(asked)) <= set(tokens(said))


def test_an_identifier_is_kept_whole_and_in_parts() -> None:
    assert tokens("src/app/main.py") == ["src", "app", "main", "py", "src_app_main_py", "main_py"]
    assert "88_1431" not in tokens("88 and 1431")


def test_a_query_asks_for_pairs_and_for_a_character_only_where_it_stands_alone() -> None:
    assert query_tokens("奥斯陆") == ["奥斯", "斯陆"]
    assert query_tokens("陆") == ["陆"]


def test_words_that_say_nothing_count_only_where_there_is_nothing_else() -> None:
    assert query_tokens("What did she do with the boat?") == ["boat"]
    assert query_tokens("what did she do") == ["what", "did", "she", "do"]
    assert telling_tokens("what did she do") == []


def test_a_query_asks_for_each_word_once() -> None:
    assert query_tokens("boat, boats and BOAT") == ["boat"]
    assert tokens("boat boats") == ["boat", "boat"]


@given(st.text())
def test_a_token_is_nothing_that_an_index_could_cut_further(text: str) -> None:
    for token in tokens(text):
        assert token
        assert len(token) <= max(MAX_TOKEN_LENGTH, len(text))
        assert not re.search(r"[\s\"'\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]", token)
        token.encode()


@given(st.text())
def test_whatever_is_asked_for_is_held_by_the_same_text(text: str) -> None:
    assert set(query_tokens(text)) <= set(tokens(text))


@pytest.mark.parametrize("unit", ["a_", "aि", "é", "A", "我"])
def test_no_text_takes_long(unit: str) -> None:
    assert_not_quadratic(lambda count: tokens(unit * count), 80_000)
