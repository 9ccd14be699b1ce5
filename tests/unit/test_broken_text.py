"""Text that is not valid Unicode costs nothing but itself, wherever it comes in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from core.broken_text import (
    MARK,
    holds_half_a_character,
    mended_json,
    valid_text,
    with_valid_text,
)

texts = st.text(st.characters(), max_size=12) | st.text(
    st.sampled_from('a\\"u\ud83d\ude00\udfff'), max_size=8
)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(values, st.booleans())
def test_json_with_halves_of_characters_is_read_with_a_mark_in_place_of_each(value: object, ascii_only: bool):
    written = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    read = from_json(mended_json(written))
    if ascii_only:
        # A high and a low half that stand side by side as escapes are one character.
        assert read == with_valid_text(value)
    else:
        assert MARK in str(read) or not holds_half_a_character(value)
    assert not holds_half_a_character(read)


@given(values.filter(lambda value: not holds_half_a_character(value)), st.booleans())
def test_valid_json_is_left_as_it_is(value: object, ascii_only: bool):
    written = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert mended_json(written) is written


@pytest.mark.parametrize(
    ("before", "mended"), [(0, True), (1, False), (2, True), (3, False), (500, True), (501, False)]
)
def test_an_escaped_backslash_begins_no_escape(before: int, mended: bool):
    written = b'"' + b"\\" * before + rb'\ud83d"'
    assert (mended_json(written) is not written) is mended


@given(st.binary(max_size=40))
def test_no_bytes_are_too_broken(data: bytes):
    mended_json(data).decode()


@pytest.mark.parametrize(
    ("text", "mended"),
    [("a\ud83d", "a\ufffd"), ("\udc80b", "\ufffdb"), ("\U0001f600", "\U0001f600"), ("plain", "plain")],
)
def test_a_mark_takes_the_place_of_half_a_character(text: str, mended: str):
    assert valid_text(text) == mended
    assert with_valid_text({text: [text, 1, None]}) == {mended: [mended, 1, None]}
