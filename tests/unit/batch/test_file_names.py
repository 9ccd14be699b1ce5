"""Names of saved batches and the files that hold them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.batch.file_names import MOST_BYTES, batch_name, file_stem
from core.errors import BadInput


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("Nightly v1.2_a-b", "Nightly v1.2_a-b"),
        ("R&D", "R%26D"),
        ("备份", "备份"),
        ("हिन्दी", "हिन्दी"),
        ("../x", "%2E.%2Fx"),
        ("C:\\x", "C%3A%5Cx"),
        ("100%", "100%25"),
        ("nul.txt", "%6Eul.txt"),
        ("Console", "Console"),
        ("a.", "a%2E"),
    ],
)
def test_a_name_and_its_file(name: str, stem: str) -> None:
    assert file_stem(name) == stem
    assert batch_name(stem) == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "not empty"),
        (" a", "space"),
        ("a\n", "space"),
        ("a\nb", "line end"),
        ("a\0b", "U+0000"),
        ("a\u202eb", "RIGHT-TO-LEFT OVERRIDE"),
        ("a" * 101, "101"),
        ("\U0001f600" * 60, "too long"),
    ],
)
def test_a_name_that_is_refused_says_why(name: str, words: str) -> None:
    with pytest.raises(BadInput, match=words.replace("+", r"\+")):
        file_stem(name)


@pytest.mark.parametrize("stem", ["a&b", "a%2fb", "a%00b", "%61", "..", " a"])
def test_a_file_under_another_name_than_a_saved_batch_would_have_is_none(stem: str) -> None:
    assert batch_name(stem) is None


@given(st.text(max_size=100))
def test_every_name_that_is_taken_comes_back_and_is_one_safe_part_of_a_path(name: str) -> None:
    try:
        stem = file_stem(name)
    except BadInput:
        return
    assert batch_name(stem) == unicodedata.normalize("NFC", name)
    assert not set(stem) & set('/\\:*?"<>|&;$`\0\n')
    assert not stem.startswith(".")
    assert not stem.endswith((".", " "))
    assert len(stem.encode()) <= MOST_BYTES
