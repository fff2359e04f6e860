"""Knowledge layers: their order, their shares, and where they are cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conversations import counting
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.context import LAYERS, Layer, LayerRequest
from onlooker.errors import SettingsError
from onlooker.policy.assemble import PromptRequest
from onlooker.policy.layers import CUT_MARK, allot, in_order, room_for_layers, shorten, split_room
from onlooker.policy.settings import DEFAULT, LANGO

PLAIN = counting("lango")  # four characters are a token

# ------------------------------------------------------------------------------------ order


@pytest.mark.req(51)
def test_there_are_eight_layers_with_their_numbers() -> None:
    assert list(enumerate(LAYERS, 1)) == [
        (1, "runtime_context"),
        (2, "tools"),
        (3, "user_knowledge"),
        (4, "skills"),
        (5, "external_knowledge"),
        (6, "learnings"),
        (7, "observations"),
        (8, "reflections"),
    ]


def test_layers_stand_in_order_of_their_numbers_and_others_after_them_as_given() -> None:
    given = {"zebra": "z", "learnings": "6", "apple": "a", "runtime_context": "1", "skills": "4"}
    assert list(in_order(given)) == ["runtime_context", "skills", "learnings", "zebra", "apple"]


@pytest.mark.parametrize("name", ["observations", "reflections"])
def test_the_session_own_layers_cannot_be_given(name: str) -> None:
    with pytest.raises(SettingsError, match="own notes"):
        in_order({name: "mine"})


@pytest.mark.parametrize("wrong", [3, None, ["text"], Layer(7)])  # type: ignore[arg-type]
def test_what_is_neither_text_nor_can_be_asked_is_refused(wrong: object) -> None:
    with pytest.raises(SettingsError, match=r"knowledge\['tools'\]"):
        in_order({"tools": wrong})  # type: ignore[dict-item]


def test_a_layer_may_not_have_less_than_nothing() -> None:
    with pytest.raises(SettingsError, match="0 or more"):
        in_order({"tools": Layer("text", tokens=-1)})


async def _asked(request: LayerRequest) -> str:
    return request.layer


def test_text_and_functions_are_layers_already() -> None:
    assert in_order({"tools": "text", "skills": _asked}) == {"tools": Layer("text"), "skills": Layer(_asked)}


# ------------------------------------------------------------------------------------ shares


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 5000), max_size=8), st.integers(0, 6000))
def test_shares_are_fair_and_nothing_is_left_while_somebody_needs_it(
    needs: dict[str, int], room: int
) -> None:
    given = allot(needs, room)
    assert set(given) == set(needs)
    assert sum(given.values()) <= room
    assert all(given[name] <= needs[name] for name in needs)
    short = [name for name in needs if given[name] < needs[name]]
    if short:
        # Only what whole tokens round off, and nobody has more than one who goes short.
        assert room - sum(given.values()) < len(needs)
        assert max(given.values()) <= min(given[name] for name in short) + 1


def test_a_small_or_empty_layer_gives_its_share_to_the_others() -> None:
    assert allot({"a": 100, "b": 1000, "c": 1000}, 900) == {"a": 100, "b": 400, "c": 400}
    assert allot({"a": 0, "b": 1000}, 900) == {"a": 0, "b": 900}


def test_without_a_limit_each_gets_what_it_needs() -> None:
    assert allot({"a": 10**6, "b": 5}, None) == {"a": 10**6, "b": 5}


def test_what_volatile_layers_may_have_goes_by_their_number_and_their_own_limit() -> None:
    text, moving = Layer("text"), Layer("now", volatile=True)
    assert split_room({"a": text, "b": text, "c": moving}, 900) == (600, 300)
    assert split_room({"a": text, "b": text, "c": replace(moving, tokens=50)}, 900) == (850, 50)
    assert split_room({"a": text}, 900) == (900, 0)
    assert split_room({"a": moving}, None) == (None, None)


def test_the_room_is_a_share_of_what_the_base_prompt_leaves() -> None:
    request = PromptRequest("x" * 400, end="x" * 40, budget=1110)
    settings = replace(DEFAULT, estimator="lango", knowledge_limit=0.4)
    assert room_for_layers(request, settings, PLAIN) == 400
    assert room_for_layers(request, replace(settings, knowledge_limit=300), PLAIN) == 300
    # Something must be left for memory and messages, whatever the setting says.
    assert room_for_layers(request, replace(settings, knowledge_limit=1.0), PLAIN) == 900
    assert room_for_layers(request, replace(settings, knowledge_limit=10**6), PLAIN) == 900
    assert room_for_layers(request, replace(settings, knowledge_limit=0), PLAIN) is None
    assert room_for_layers(replace(request, budget=0), settings, PLAIN) is None
    assert room_for_layers(replace(request, budget=0), replace(settings, knowledge_limit=70), PLAIN) == 70
    assert room_for_layers(request, LANGO, PLAIN) is None


# ------------------------------------------------------------------------------------ cutting

PARAGRAPHS = "\n\n".join(f"Paragraph {i}, line 1.\nParagraph {i}, line 2." for i in range(20))


def test_what_fits_is_not_touched() -> None:
    assert shorten(PARAGRAPHS, PLAIN.text(PARAGRAPHS), PLAIN) == PARAGRAPHS


def test_a_text_is_cut_after_a_paragraph() -> None:
    found = shorten(PARAGRAPHS, 60, PLAIN)
    assert found.endswith("line 2." + CUT_MARK)
    assert PARAGRAPHS.startswith(found.removesuffix(CUT_MARK) + "\n\n")


def test_a_long_paragraph_is_cut_after_a_line() -> None:
    text = "Short.\n\n" + "\n".join(f"This is line {i} of many." for i in range(100))
    found = shorten(text, 100, PLAIN)
    assert found.endswith(" of many." + CUT_MARK)
    assert PLAIN.text(found) > 80


def test_a_long_line_is_cut_after_a_word_and_one_without_words_anywhere() -> None:
    assert shorten("word " * 500, 20, PLAIN).endswith("word" + CUT_MARK)
    cut = shorten("字" * 500, 20, PLAIN)
    assert cut == "字" * 39 + CUT_MARK
    assert PLAIN.text(cut) == 20


def test_where_nothing_fits_nothing_is_left() -> None:
    assert shorten(PARAGRAPHS, 0, PLAIN) == ""
    assert shorten("word " * 500, 1, PLAIN) == ""


@given(st.text(alphabet="ab \n字", max_size=300), st.integers(0, 90), st.sampled_from(("lango", "default")))
def test_a_cut_text_fits_and_is_the_beginning_of_the_whole(text: str, tokens: int, name: str) -> None:
    counted = counting(name)
    found = shorten(text, tokens, counted)
    if found == text:
        return
    assert counted.text(found) <= tokens
    assert text.startswith(found.removesuffix(CUT_MARK))
    assert not found or found.endswith(CUT_MARK)
