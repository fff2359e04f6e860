"""Sentences, clauses, and the words of phrases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlooker.policy import asked, instructions
from onlooker.policy.items import extract, statements
from onlooker.policy.search import recall
from onlooker.policy.text import Phrases, clauses, is_cjk, plain_words, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I left. She stayed!", ["I left.", "She stayed!"]),
        ("I read J.K. Rowling. She does not.", ["I read J.K. Rowling.", "She does not."]),
        ("Dr. Smith paid $3.50 at 5 p.m. today. Fine.", ["Dr. Smith paid $3.50 at 5 p.m. today.", "Fine."]),
        ("See e.g. foo.py for it", ["See e.g. foo.py for it"]),
        ("- one\n- two\n3. three", ["one", "two", "three"]),
        ("先MVP。3月出能跑的！好吗？", ["先MVP。", "3月出能跑的！", "好吗？"]),
        ("大阪へ行きました。楽しかった。", ["大阪へ行きました。", "楽しかった。"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("", []),
    ],
)
def test_sentences_end_where_they_end(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (
            "I ran a charity race last Saturday - it was really rewarding",
            ["I ran a charity race last Saturday", "it was really rewarding"],
        ),
        (
            "We moved to Oslo in May, and I adopted a small dog there",
            ["We moved to Oslo in May", "and I adopted a small dog there"],
        ),
        # A condition stays with what it is a condition of.
        (
            "If the tests fail again, I will revert the change",
            ["If the tests fail again, I will revert the change"],
        ),
        ("I'll take the job unless they ask me to move", ["I'll take the job unless they ask me to move"]),
        (
            'She said "wait; not now; maybe later today" to all of us',
            ['She said "wait; not now; maybe later today" to all of us'],
        ),
        ("前两周做数据清洗和索引，预计下周出个演示版本", ["前两周做数据清洗和索引", "预计下周出个演示版本"]),
        ("short one; yes", ["short one; yes"]),
    ],
)
def test_clauses_can_be_read_alone(sentence: str, expected: list[str]) -> None:
    assert clauses(sentence) == expected


def test_scripts_without_spaces_are_known() -> None:
    assert is_cjk("技术建议RAG为主")
    assert is_cjk("지난주에 이사했어요")
    assert not is_cjk("The word 火锅 means hot pot in English")
    assert not is_cjk("12345")


@given(st.text(max_size=300))
def test_no_letter_is_lost(text: str) -> None:
    kept = "".join("".join(sentences(text)).split())
    assert [c for c in text if c.isalpha()] == [c for c in kept if c.isalpha()]
    for sentence in sentences(text):
        joined = "".join(clauses(sentence))
        assert [c for c in sentence if c.isalpha()] == [c for c in joined if c.isalpha()]


PHRASES = {
    f"{module.__name__}.{name}": phrases
    for module in (asked, instructions, extract, statements, recall)
    for name, phrases in vars(module).items()
    if isinstance(phrases, Phrases)
} | {f"statements.{kind.tag}": kind.other for kind in statements.KINDS if kind.other.words}
PLAIN = st.characters(max_codepoint=127)


@pytest.mark.parametrize("name", PHRASES)
@given(data=st.data())
def test_every_match_of_a_phrase_has_one_of_its_words(name: str, data: st.DataObject) -> None:
    phrases = PHRASES[name]
    text = data.draw(st.from_regex(phrases.pattern.pattern, alphabet=PLAIN)).lower()
    found = phrases.pattern.search(text)
    assert (phrases.search(text, plain_words(text)) is None) == (found is None)


def test_all_phrases_are_tried() -> None:
    assert len(PHRASES) >= 12


def test_words_are_split_at_all_but_letters() -> None:
    assert plain_words("Don't — “stop”, 2nd_try! 🎉") == {"don", "t", "stop", "nd", "try"}
    assert plain_words("für Ana") is plain_words("停止") is None
