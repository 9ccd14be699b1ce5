"""Letters and signs that look like plain ones are found, and ordinary texts in other scripts are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.confusables import false_signs, foreign_letters, looks_plain, plain_look, scripts_of
from core.text import hidden_characters


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("p\u0430ypal", [1]),
        ("rm \u0391bc d\u03bff", [3, 8]),
        ("\u041f\u0440\u0438\u0432\u0435\u0442 world", []),
        ("\u03b1 + x", []),
        ("a_\u0430", []),
        ("stra\u00dfe caf\u00e9 \u65e5\u672c", []),
        ("\uff41b", [0]),
    ],
)
def test_letters_of_another_script_in_latin_words_are_found(text: str, offsets: list[int]) -> None:
    assert foreign_letters(text) == offsets
    assert [at for at, name in hidden_characters(text) if name.endswith("(in a Latin word)")] == offsets


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\u0440\u0430\u0443\u0440\u0430l.com", "paypal.com"),
        ("/etc\u2215\u0440asswd", "/etc/passwd"),
        ("example\u3002com\uff1a80", "example.com:80"),
        ("\u2010rf \uff5e", "-rf ~"),
        ("\U0001d5cb\U0001d5c6", "rm"),
        ("\u65e5\u672c", "\u65e5\u672c"),
    ],
)
def test_the_plain_look_is_what_a_reader_takes_it_for(text: str, plain: str) -> None:
    assert plain_look(text) == plain
    assert looks_plain(text) == plain.isascii()


def test_signs_that_look_like_separators_are_named_by_their_places() -> None:
    assert false_signs("a\u2215b.c\uff0ed") == [1, 5]
    assert false_signs("a/b.c") == []


def test_scripts_come_in_the_order_of_their_letters() -> None:
    assert scripts_of("a\u0430-\u03b1b1") == ["latin", "cyrillic", "greek"]


@given(st.text(max_size=80))
def test_any_text_has_a_plain_look_and_ascii_is_never_suspect(text: str) -> None:
    assert all(0 <= at < len(text) for at in (*foreign_letters(text), *false_signs(text)))
    if text.isascii():
        assert plain_look(text) == text
        assert not looks_plain(text)
        assert foreign_letters(text) == []
