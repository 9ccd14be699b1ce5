"""The terms of filters and queries: where they stand, what is quoted, and any text has some."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.query_tokens import Syntax, tokens

PLAIN = Syntax(re.compile(r"([a-z]+):"), quotes="\"'", wildcards="*?")
ESCAPED = Syntax(re.compile(r"([a-z]+):"), quotes='"', wildcards="*", escapes=True)


def values(text: str, syntax: Syntax = PLAIN) -> list[tuple[str, list[int]]]:
    [token] = tokens(text, syntax)
    return [(value.text, sorted(value.wildcards)) for value in token.values]


def test_a_term_has_the_offsets_of_its_parts():
    [_, token] = tokens(' a !tag:lab,"x y"', PLAIN)
    assert (token.start, token.name_start, token.value_start, token.end) == (3, 4, 8, 17)
    assert (token.negated, token.name) == (True, "tag")
    shown = [(value.start, value.end, value.text) for value in token.values]
    assert shown == [(8, 11, "lab"), (12, 17, "x y")]


@pytest.mark.parametrize(
    ("text", "syntax", "expected"),
    [
        ("a*b?", PLAIN, [("a*b?", [1, 3])]),
        ("a*b?", ESCAPED, [("a*b?", [1])]),
        ("'a*'*", PLAIN, [("a**", [2])]),
        ("'a b'", PLAIN, [("a b", [])]),
        ('"a,b:c"d', PLAIN, [("a,b:cd", [])]),
        (r'"a\"b\\c\d"', ESCAPED, [('a"b\\c\\d', [])]),
        (r'"a\"', PLAIN, [("a\\", [])]),
        ("a,,b,", PLAIN, [("a", []), ("", []), ("b", []), ("", [])]),
        ("!", PLAIN, [("", [])]),
        ("!!x", PLAIN, [("!x", [])]),
        ("tag:", PLAIN, [("", [])]),
        ("x:y:z", PLAIN, [("y:z", [])]),
    ],
)
def test_values_are_split_at_commas_and_quotes_make_them_literal(text, syntax, expected):
    assert values(text, syntax) == expected


def test_quotes_that_are_open_or_empty_are_marked_with_their_place():
    [token] = tokens("a,'b'''", PLAIN)
    assert [(value.empty_quotes, value.open_quote) for value in token.values] == [(None, None), (5, None)]
    [_, token] = tokens('x tag:"c d', PLAIN)
    assert (token.values[0].open_quote, token.values[0].text, token.end) == (6, "c d", 10)


TEXTS = st.text(max_size=60) | st.text(alphabet=" !:,\"'*?ab\\", max_size=40)


@given(TEXTS, st.sampled_from([PLAIN, ESCAPED]))
def test_every_text_has_terms_that_cover_all_but_the_spaces(text, syntax):
    at = 0
    for token in tokens(text, syntax):
        assert text[at : token.start].strip() == ""
        assert at <= token.start <= token.name_start <= token.value_start <= token.end
        assert token.start < token.end
        assert token.values[0].start == token.value_start
        assert token.values[-1].end == token.end
        assert all(place < len(value.text) for value in token.values for place in value.wildcards)
        at = token.end
    assert text[at:].strip() == ""
