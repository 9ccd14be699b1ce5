"""JSON as editors write it becomes plain JSON, with every sign in its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.json_comments import blank_comments

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_plain_json_stays_as_it_is(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        assert blank_comments(text) == text


def test_comments_and_last_commas_go_and_places_stay() -> None:
    text = """{ // one, "x": 1
  "a": [1, 2, /* two
  lines */ ], "b": "// no /* comment */ ,]",
}"""
    plain = blank_comments(text)
    assert json.loads(plain) == {"a": [1, 2], "b": "// no /* comment */ ,]"}
    assert len(plain) == len(text)
    assert [at for at, sign in enumerate(plain) if sign == "\n"] == [
        at for at, sign in enumerate(text) if sign == "\n"
    ]
    assert plain.index('"b"') == text.index('"b"')


@pytest.mark.parametrize("start", ["/*", '\\"', '"\\"', "//", ",", '"', "/* */", ', "'])
def test_what_has_no_end_is_looked_at_once(start: str) -> None:
    # If each of them were tried to the end of the text, this would not end.
    text = start * 400_000
    assert len(blank_comments(text)) == len(text)
