"""What comes first, which part of it is shown, and which time a question speaks of."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from onlooker.domain.messages import SessionId
from onlooker.domain.search import Match, SearchResult
from onlooker.policy.search.rank import (
    best_first,
    boost_speakers,
    fuse,
    scores,
    shortlist,
    snippet,
    speaker_names,
)
from onlooker.policy.search.recall import days_in
from onlooker.policy.search.words import query_tokens, words_of

ANA = SessionId("ana", "a")
NOW = datetime(2026, 2, 16, 14, tzinfo=UTC)


def match(seq: int, text: str, speaker: str = "") -> Match:
    return Match("message", ANA, f"m{seq}", seq, NOW, speaker, text, words_of(text))


def found(*matches: Match, docs: int = 100) -> SearchResult:
    words = {w for m in matches for w in m.words.split()}
    holders = {w: sum(w in m.words.split() for m in matches) for w in words}
    return SearchResult(docs, docs * 4, holders, matches)


def order(query: str, *matches: Match) -> list[int]:
    terms = dict.fromkeys(query_tokens(query), 1.0)
    return [m.seq for m in best_first(scores(found(*matches), terms))]


def test_a_rare_word_tells_more_than_a_common_one() -> None:
    common = [match(n, "we had tea again") for n in range(3, 9)]
    assert order("Assam tea", match(1, "tea of the day"), match(2, "Assam it was"), *common)[0] == 2


def test_a_long_text_is_held_back_and_repetition_counts_less_and_less() -> None:
    short, long = match(1, "a boat"), match(2, "a boat " + "and much more of other things " * 20)
    assert order("boat", short, long) == [1, 2]
    twice = match(3, "boat boat")
    values = scores(found(match(1, "boat x"), twice, match(4, "boat boat boat boat")), {"boat": 1.0})
    by_seq = {m.seq: v for m, v in values.items()}
    assert by_seq[1] < by_seq[3] < 2 * by_seq[1]


def test_of_two_that_are_alike_the_newer_comes_first() -> None:
    assert order("boat", match(1, "a boat"), match(2, "a boat")) == [2, 1]


def test_a_weight_of_a_term_is_heeded() -> None:
    one, other = match(1, "boat"), match(2, "wind")
    scored = scores(found(one, other), {"boat": 0.2, "wind": 1.0})
    assert best_first(scored)[0] is other


def test_the_shortlist_is_of_the_most_telling() -> None:
    holders = {"tea": [1, 2, 3, 4], "assam": [2]}
    assert shortlist(holders, {"tea": 1.0, "assam": 1.0}, 10, 3) == [2, 4, 3]
    assert shortlist({}, {}, 0, 3) == []


def test_whoever_is_named_in_the_query_is_heard_first() -> None:
    ana, ben = match(1, "I bought a boat", "Ana"), match(2, "Ana bought a boat", "Ben")
    matches = [ana, ben]
    names = speaker_names(query_tokens("What did Ana buy?"), matches)
    assert names == {"ana"}
    scored = boost_speakers({ana: 1.0, ben: 1.5}, names)
    assert best_first(scored)[0] is ana


def test_rankings_are_joined_by_rank_alone() -> None:
    together = fuse(["a", "b", "c"], ["c", "a"])
    assert sorted(together, key=lambda key: -together[key]) == ["a", "c", "b"]
    assert fuse() == {}


def test_a_snippet_shows_every_word_that_it_was_chosen_for() -> None:
    # Two words that fit only without the text before them, and later two that fit with it.
    apart, close = ("keys " + "word " * n + "Oslo " for n in (16, 3))
    text = "word " * 30 + apart + "word " * 30 + close + "word " * 30
    shown = snippet(text, set(query_tokens("keys Oslo")), limit=100, marks=("[", "]"))
    assert "[keys]" in shown
    assert "[Oslo]" in shown


def test_a_snippet_is_where_the_words_stand_closest() -> None:
    text = "boat " + "and nothing else of interest " * 30 + "the locker code of the boat is 4417 " + "x " * 90
    shown = snippet(text, set(query_tokens("locker code boat")), limit=80, marks=("[", "]"))
    assert "[locker] [code] of the [boat] is 4417" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) < 100


def test_a_short_text_is_shown_whole() -> None:
    assert snippet("We moved to Oslo", {"oslo"}) == "We moved to Oslo"
    assert snippet("We moved to Oslo", {"oslo"}, marks=("«", "»")) == "We moved to «Oslo»"
    assert snippet("x" * 500, {"oslo"}, limit=100) == "x" * 100 + "…"


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What happened in June 2023?", [("2023-06-01", "2023-06-30")]),
        ("on 8 May 2023", [("2023-05-08", "2023-05-08")]),
        ("on May 8th, 2023", [("2023-05-08", "2023-05-08")]),
        ("on 2023-05-08", [("2023-05-08", "2023-05-08")]),
        ("on the 8th of May", [("2025-05-08", "2025-05-08")]),
        ("on 10 February", [("2026-02-10", "2026-02-10")]),
        ("in 2022", [("2022-01-01", "2022-12-31")]),
        ("2023年5月8日", [("2023-05-08", "2023-05-08")]),
        ("2023年5月", [("2023-05-01", "2023-05-31")]),
        ("yesterday", [("2026-02-15", "2026-02-15")]),
        ("last week", [("2026-02-09", "2026-02-15")]),
        ("between August 11 and August 15 2023", [("2023-08-11", "2023-08-15")]),
        ("between August 11 and 15", [("2025-08-11", "2025-08-15")]),
        ("from 11 to 15 August 2023", [("2023-08-11", "2023-08-15")]),
        ("from May 3 to 5 June", [("2025-05-03", "2025-06-05")]),
        ("between December 28 and January 3, 2023", [("2022-12-28", "2023-01-03")]),
        ("2023-05-01 to 2023-05-09", [("2023-05-01", "2023-05-09")]),
        ("on 1 May 2023 and 9 May 2023", [("2023-05-01", "2023-05-01"), ("2023-05-09", "2023-05-09")]),
        ("on 31 February 2023", []),
        ("may I ask", []),
        ("nothing", []),
    ],
)
def test_the_time_that_a_question_names(question: str, days: list[tuple[str, str]]) -> None:
    assert list(days_in(question, NOW)) == days
