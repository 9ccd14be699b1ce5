"""The walk over JSON values: complete, in order, with places, and never deeper than allowed."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.json_walk import (
    DEEPEST,
    count_parts,
    is_finite,
    mapped,
    place_text,
    refuse_constant,
    steps_to,
    values_in,
    walk,
)

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


def read(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        value = value[step]
    return value


def document_order(value: Any, depth: int = 0) -> list[tuple[Any, int]]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [(value, depth), *(pair for member in inner for pair in document_order(member, depth + 1))]


@given(values)
def test_every_value_is_met_once_in_order_and_stands_at_its_place(value: Any):
    met = list(walk(value))
    assert [(part, depth) for part, _, depth in met] == document_order(value)
    for part, place, depth in met:
        assert read(value, steps_to(place)) is part
        assert len(steps_to(place)) == depth


@given(values)
def test_the_quick_walk_meets_the_same_values(value: Any):
    quick = sorted(map(id, values_in(value)))
    assert quick == sorted(id(part) for part, _, _ in walk(value))
    names = [step for _, place, _ in walk(value) if place for step in place[1:] if isinstance(step, str)]
    texts = [part for part, _, _ in walk(value) if isinstance(part, str)]
    with_names = [part for part in values_in(value, names=True) if isinstance(part, str)]
    assert sorted(with_names) == sorted(names + texts)


@given(values)
def test_a_copy_is_equal_and_shares_no_object_or_list(value: Any):
    copy = mapped(value)
    assert copy == value
    kinds = (dict, list)
    assert not {id(part) for part in values_in(copy) if isinstance(part, kinds)} & {
        id(part) for part in values_in(value) if isinstance(part, kinds)
    }


def test_what_is_changed_are_the_values_and_if_wanted_the_names():
    value = {"a": ["x", 1, {"b": None}], "c": ("x",)}
    assert mapped(value, str) == {"a": ["x", "1", {"b": "None"}], "c": ["x"]}
    assert mapped(value, names=str.upper) == {"A": ["x", 1, {"B": None}], "C": ["x"]}


def test_places_in_words():
    places = {place_text(place, "it"): part for part, place, _ in walk({"disks": [{"size": 1}, [2]]})}
    assert places["it.disks[0].size"] == 1
    assert places["it.disks[1][0]"] == 2
    assert [place_text(place) for _, place, _ in walk([{"a": 0}])] == ["", "[0]", "[0].a"]


def nested(levels: int) -> Any:
    value: Any = 0
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_nesting_exhausts_no_stack_and_a_value_in_itself_is_refused():
    deep = nested(100_000)
    assert sum(1 for _ in values_in(deep)) == 100_001
    assert max(depth for _, _, depth in walk(nested(DEEPEST))) == DEEPEST
    with pytest.raises(RecursionError):
        list(walk(nested(DEEPEST + 1)))
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        list(walk({"a": loop}))
    # The first levels are there before that, so that a caller can stop at a limit of its own.
    assert next(depth for _, _, depth in walk(deep) if depth > 64) == 65


@given(values, st.integers(1, 30))
def test_parts_are_counted_up_to_a_limit(value: Any, most: int):
    everything = count_parts(value, 10**9, characters=2)
    parts = list(values_in(value))
    texts = sum(len(part) // 2 for part in parts if isinstance(part, str))
    assert everything == len(parts) + texts + sum(len(part) for part in parts if isinstance(part, dict))
    counted = count_parts(value, most, characters=2)
    assert counted == everything if everything < most else counted >= most


def test_counting_stops_before_a_list_that_is_too_long_is_looked_at():
    assert count_parts([0] * 10**6, 100, characters=100) == 100
    # Of a list with more elements than are left, none is copied.
    assert count_parts([[0] * 10**6], 100, characters=100) == 100


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, float("1e999")])
def test_numbers_that_json_lacks_are_not_finite(number: float):
    assert not is_finite(number)
    with pytest.raises(ValueError, match="is not JSON"):
        json.loads(json.dumps(number), parse_constant=refuse_constant)


@pytest.mark.parametrize("value", [0, 10**400, 1.5, -0.0, True, None, "NaN", [math.nan]])
def test_everything_else_is(value: object):
    assert is_finite(value)
