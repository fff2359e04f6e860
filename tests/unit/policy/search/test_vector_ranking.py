"""Which vectors are closest."""

from __future__ import annotations

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlooker.policy.search.vectors import closest, likely, packed, signs, unit, unpacked

numbers = st.lists(st.floats(-1000, 1000, width=32), min_size=1, max_size=40)


@given(numbers)
def test_a_vector_of_length_one_comes_back_as_it_was_packed(vector: list[float]) -> None:
    one = unit(vector)
    assert unpacked(packed(one)) == one
    length = math.sqrt(sum(x * x for x in one))
    assert length == pytest.approx(1, abs=1e-3) or not any(one)


@pytest.mark.parametrize("vector", [[0.0, 0.0], [math.inf, 1.0], [math.nan, 1.0]])
def test_what_is_no_direction_is_close_to_nothing(vector: list[float]) -> None:
    assert closest(unit([1.0, 1.0]), [(1, unit(vector))], 5) == []


@given(st.lists(numbers.map(lambda v: (v * 8)[:8]), min_size=1, max_size=60), numbers)
def test_few_are_compared_in_full_and_so_the_best_is_found(
    vectors: list[list[float]], asked: list[float]
) -> None:
    query = unit((asked * 8)[:8])
    others = [(number, unit(vector)) for number, vector in enumerate(vectors)]
    chosen = likely(signs(query), [(n, signs(v)) for n, v in others])
    assert sorted(chosen) == list(range(len(vectors)))
    found = closest(query, others, 3)
    products = {n: sum(a * b for a, b in zip(query, v, strict=True)) for n, v in others}
    best = sorted((p for p in products.values() if p > 0), reverse=True)[:3]
    assert [cosine for _, cosine in found] == pytest.approx(best)


def test_the_likely_ones_differ_in_the_fewest_signs() -> None:
    others = [
        (1, signs([1, -1, 1])),
        (2, signs([1, 1, 1])),
        (3, signs([-1, -1, -1])),
        (4, signs([1, 1, 1])),
    ]
    assert likely(signs([0.5, 0.1, 2]), others, 3) == [4, 2, 1]
    assert signs([1.0] * 9) == b"\xff\x01"
    assert isinstance(unit([3.0, 4.0]), array)
    assert list(unit([3.0, 4.0])) == pytest.approx([0.6, 0.8])
