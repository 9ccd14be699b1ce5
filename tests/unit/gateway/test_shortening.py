"""A long result is cut to a value of its own shape, which says what is missing."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.gateway.answers import shortened

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=10), inner, max_size=8),
    max_leaves=60,
)


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


@given(_JSON)
def test_what_is_cut_keeps_its_shape_its_bound_and_says_what_is_missing(value: Any) -> None:
    room = 300
    cut, left_out = shortened(value, room)
    assert type(cut) is type(value)
    assert (cut == value) == (not left_out)
    # A text's escapes in JSON may double it.
    assert _size(cut) <= 6 * room


def test_a_long_list_beside_short_members_keeps_those_and_its_beginning() -> None:
    processes = [{"pid": number, "name": "x" * 20} for number in range(1_000)]
    cut, left_out = shortened({"total": 1_000, "processes": processes, "host": "lab-1"}, 1_000)
    assert (cut["total"], cut["host"]) == (1_000, "lab-1")
    assert list(cut) == ["total", "processes", "host"]
    kept = len(cut["processes"])
    assert cut["processes"] == processes[:kept]
    assert left_out == [f"result.processes: the first {kept} of 1,000 elements"]
    assert 20 < kept < 30
