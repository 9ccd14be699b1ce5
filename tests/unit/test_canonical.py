"""Canonical JSON: one value, one spelling, whichever encoder wrote it."""

from __future__ import annotations

import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from core.canonical_json import MAX_DEPTH, canonical_bytes, is_plain
from core.errors import BadInput
from core.json_walk import MOST_DIGITS

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values)
def test_the_fast_way_gives_the_same_bytes_as_the_reference(value: object):
    assert canonical_bytes(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        {"n": 10**MOST_DIGITS},
        [-(10**5_000)],
        "\ud800",
        {"a": {1: 2}},
        b"x",
        {1},
        object(),
    ],
)
def test_what_has_no_canonical_form_is_refused(value: object):
    for wrapped in (value, [value], {"a": value}):
        with pytest.raises(BadInput):
            canonical_bytes(wrapped)


large = st.integers(-(10**40), 10**40) | st.integers(1, MOST_DIGITS).map(lambda digits: 10**digits - 1)


@given(large, values)
def test_an_integer_of_any_size_is_its_decimal_digits(number: int, beside: object):
    for value in (number, [number, beside], {"\u00e9": number, "a": [beside], "\U0001f600": -number}):
        data = canonical_bytes(value)
        assert str(number).encode() in data
        assert canonical_bytes(json.loads(data)) == data
    assert json.loads(canonical_bytes([number])) == [number]


@given(values)
def test_all_else_beside_a_large_integer_is_written_as_the_reference_writes_it(value: object):
    assert canonical_bytes([value, 10**40]) == rfc8785.dumps([value, 0])[:-2] + b"%d]" % 10**40


def test_true_one_and_one_point_nought_are_three_values():
    assert len({canonical_bytes([one]) for one in (True, 1)}) == 2
    assert canonical_bytes(1.0) == b"1"


def test_depth_is_bounded_also_beside_something_special():
    value: object = 1e300
    for _ in range(MAX_DEPTH + 1):
        value = [value]
    with pytest.raises(BadInput):
        is_plain(value)
    with pytest.raises(BadInput):
        canonical_bytes(value)
