"""What bash is told to insert is, read back as a line, the word that was offered."""

from __future__ import annotations

import string
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.completion.bash_words import read_line, reply
from core.completion.words import Offer

BREAKS = " \t\n\"'@><=;|&(:"


@pytest.mark.parametrize(
    ("line", "words", "quote", "kept"),
    [
        ("quarterdeck ", ("quarterdeck", ""), "", 0),
        ("quarterdeck call la", ("quarterdeck", "call", "la"), "", 0),
        ("q a=b", ("q", "a=b"), "", 2),
        ("q a=b:c", ("q", "a=b:c"), "", 4),
        (r"q a\=b", ("q", "a=b"), "", 0),
        ("q a=@b", ("q", "a=@b"), "", 2),
        ("q 'a=b", ("q", "a=b"), "'", 0),
        ("q a='b c", ("q", "a=b c"), "'", 2),
        ('q a="b\\"c', ("q", 'a=b"c'), '"', 2),
        ("q 'a b'c", ("q", "a bc"), "", 0),
        (r"q a\ b c", ("q", "a b", "c"), "", 0),
        ("q '' x", ("q", "", "x"), "", 0),
    ],
)
def test_a_line_is_split_as_bash_splits_it(line: str, words: tuple[str, ...], quote: str, kept: int) -> None:
    read = read_line(line, BREAKS)
    assert (read.words, read.quote, read.kept) == (words, quote, kept)


@settings(max_examples=60, deadline=None)
@given(
    st.text(st.sampled_from(string.printable[:95] + "äß日\u0301"), min_size=1, max_size=12),
    st.sampled_from(["", "'", '"']),
)
def test_bash_reads_what_is_inserted_as_the_word_that_was_offered(word: str, quote: str) -> None:
    lines = reply(read_line(f"q {quote}", BREAKS), [Offer(word)])
    if quote == '"' and "!" in word:
        assert lines == ["space"]
        return
    inserted = f"{quote}{lines[1]}{quote}"
    done = subprocess.run(
        ["bash", "-c", f"printf %s {inserted}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout.decode() == word


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.sampled_from("ab=:@ '\"\\$"), min_size=1, max_size=8),
    st.integers(0, 8),
)
def test_a_word_stays_the_same_when_its_rest_is_inserted_behind_a_part_of_it(word: str, typed: int) -> None:
    begun = reply(read_line("q ", BREAKS), [Offer(word[:typed])])[1] if word[:typed] else ""
    line = read_line(f"q {begun}", BREAKS)
    assert line.words[-1] == word[:typed]
    rest = reply(line, [Offer(word)])[1]
    kept = reply(read_line("q ", BREAKS), [Offer(word[: line.kept])])[1] if line.kept else ""
    assert read_line(f"q {kept}{rest}", BREAKS).words[-1] == word


def test_a_folder_of_the_user_keeps_its_tilde() -> None:
    line = read_line("q ~/a", BREAKS)
    assert reply(line, [Offer("~/a b/", is_open=True, is_path=True)]) == ["nospace", "~/a\\ b/"]
    assert reply(read_line("q ", BREAKS), [Offer("~root")]) == ["space", r"\~root"]
