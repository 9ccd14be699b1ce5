"""Text that people read before they decide, in time that is proportional to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ErrorCode, ErrorInfo
from core.text import (
    at_place,
    column_of,
    escape_hidden,
    escape_right_to_left,
    hidden_characters,
    left_to_right,
    right_to_left_letters,
    sentences,
    short_line,
    shorten_middle,
    without_override,
)
from tests.fakes.run_size import examples
from tests.fakes.work import most_calls


def test_a_long_text_of_different_hidden_characters_is_shown_in_few_steps_for_each() -> None:
    text = "".join(map(chr, range(0xF0000, 0xF0000 + examples(100_000, quick=10_000))))
    with most_calls(80 * len(text)):
        shown = escape_hidden(text)
        found = hidden_characters(text)
    assert shown.startswith("[U+F0000][U+F0001]")
    assert (len(found), found[-1][0]) == (len(text), len(text) - 1)


def test_what_is_hidden_is_named_where_it_stands_among_what_is_not() -> None:
    text = "a\r\nb\rc\u200b\U000f0000\x00é"
    assert escape_hidden(text) == "a\r\nb[U+000D]c[U+200B][U+F0000][U+0000]é"
    assert [offset for offset, _ in hidden_characters(text)] == [4, 6, 7, 8]


def test_hidden_characters_are_named_and_escaped_and_ordinary_text_is_not() -> None:
    text = "a\x1b[0m\u202eb\r\nc\rd\tß 日本 Привет"
    assert hidden_characters(text) == [
        (1, "U+001B ESCAPE"),
        (5, "U+202E RIGHT-TO-LEFT OVERRIDE"),
        (10, "U+000D CARRIAGE RETURN"),
    ]
    assert escape_hidden(text) == "a[U+001B][0m[U+202E]b\r\nc[U+000D]d\tß 日本 Привет"
    assert escape_hidden("a\tb\nc", keep_lines=False) == "a[U+0009]b[U+000A]c"


@given(st.text(max_size=200))
def test_escaped_text_hides_nothing_but_lookalikes(text: str) -> None:
    assert all("Latin word" in name for _, name in hidden_characters(escape_hidden(text)))
    assert escape_hidden(text, keep_lines=False).isprintable()


def test_a_short_line_hides_nothing_and_is_one_line() -> None:
    assert short_line("a\nb\u202e") == "a[U+000A]b[U+202E]"
    assert short_line("x" * 61) == f"{'x' * 30}…{'x' * 29}"


@given(st.text(max_size=50), st.integers(1, 40))
def test_shortening_keeps_within_its_limit_and_both_ends(text: str, limit: int) -> None:
    short = shorten_middle(text, limit)
    assert len(short) <= max(limit, 1)
    if len(text) <= limit:
        assert short == text
    elif limit >= 3:
        assert short[0] == text[0]
        assert short[-1] == text[-1]


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        (
            ("the command may have run", "Look at the device."),
            "the command may have run. Look at the device.",
        ),
        (
            ("It lies outside (see the roots)", "Choose a path"),
            "It lies outside (see the roots). Choose a path.",
        ),
        (("a must be text.", "", "b is required."), "a must be text. b is required."),
        (('It says "done."', "Really?"), 'It says "done." Really?'),
        (("  ", ""), ""),
    ],
)
def test_texts_one_behind_the_other_read_as_sentences(texts: tuple[str, ...], joined: str) -> None:
    assert sentences(*texts) == joined


def test_an_error_and_its_next_step_are_two_sentences() -> None:
    error = ErrorInfo.of(ErrorCode.OUTCOME_UNKNOWN, "The link broke; the command may have run")
    assert error.sentences.startswith("The link broke; the command may have run. Look at the device")


@given(st.text())
def test_what_keeps_the_order_of_letters_changes_no_other_line_and_can_be_taken_out(text: str) -> None:
    plain = escape_hidden(text)
    held = left_to_right(plain)
    assert without_override(held) == plain
    for before, after in zip(plain.split("\n"), held.split("\n"), strict=True):
        assert after == (f"\u202d{before}\u202c" if right_to_left_letters(before) else before)
    assert not right_to_left_letters(escape_right_to_left(plain))


def test_letters_and_digits_that_reorder_are_found_and_no_others() -> None:
    assert right_to_left_letters("a\u05d0\u0628\u06637\u00e9\u91cd\u061c") == [1, 2, 3]
    assert escape_right_to_left("a \u05d0.") == "a [U+05D0]."


@pytest.mark.parametrize(
    ("message", "column"),
    [
        (at_place("a comma is expected here.", 24, 2), 24),
        (at_place("there is no field.", 7), 7),
        ("A query has at most 2,000 characters; this one has 2,001.", None),
        ("In the answer: Column 3: x", None),
    ],
)
def test_the_column_of_a_message_is_read_as_it_was_written(message: str, column: int | None):
    assert column_of(message) == column


def test_a_place_names_the_line_only_where_a_text_has_lines():
    assert at_place("a comma is expected here.", 24, 2) == "Line 2, column 24: a comma is expected here."
    assert at_place("there is no field.", 7) == "Column 7: there is no field."
