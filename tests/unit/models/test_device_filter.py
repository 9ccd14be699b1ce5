"""The filter language for devices."""

from __future__ import annotations

import contextlib
import fnmatch
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cli.command_table import command
from core.errors import BadInput, ErrorCode
from core.filter_language import SIGNS
from core.filter_words import as_filter, is_filter
from core.models.device_filter import GRAMMAR, LONGEST, no_match, parse_filter
from core.models.devices import Device, Health
from tests.fakes.work import most_calls


def a_device(name: str = "lab-1", **changes: object) -> Device:
    facts: dict[str, object] = {"name": name, "health": Health.ONLINE, "since": "2026-01-01T00:00:00.000000Z"}
    facts |= {"platform": "linux", "system": "Debian 13", "tags": ["lab", "Rack 4"]}
    return Device.model_validate(facts | changes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "os:linux",
        "OS:Linux",
        "os:debian*",
        "tag:prod,lab",
        'tag:"rack 4"',
        "tag:'rack 4',prod",
        "!name:db-*",
        "health:online,busy",
        "health:o*",
        "production:no",
        "name:lab-?",
        "AB",
        "!nothing",
        "lab inux rack",
        "lab-*",
        "*-1",
        "os:linux tag:lab !name:db-* health:online ab-1",
        'name:lab"-"1',
    ],
)
def test_a_filter_matches_what_it_describes(text: str) -> None:
    assert parse_filter(text).matches(a_device())


@pytest.mark.parametrize(
    "text",
    [
        "os:windows",
        "os:linu",
        "tag:la",
        "!tag:lab",
        "!tag:prod,lab",
        "health:offline",
        "production:yes",
        "name:lab-?1",
        'name:"lab-?"',
        '"*"',
        "lab nothing",
        "ab-*",
        "name:lab-1x",
    ],
)
def test_a_filter_leaves_out_what_it_does_not_describe(text: str) -> None:
    assert not parse_filter(text).matches(a_device())


def test_macos_and_windows_answer_to_the_names_people_use() -> None:
    assert parse_filter("os:macos").matches(a_device(platform="darwin"))
    assert parse_filter("os:windows").matches(a_device(platform="win32"))


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("colour:red", 1, 'no field "colour"; fields are name, os, tag, health'),
        ("os:linux !colour:red", 11, "no field"),
        (":x", 1, "no field"),
        ("tag:", 5, "a value for tag is expected"),
        ("tag:lab,", 9, "a value for tag is expected"),
        ("tag:lab,,x", 9, "is expected"),
        (",lab", 1, "a word is expected"),
        ("!", 2, 'comes after "!"'),
        ("lab ! x", 6, 'comes after "!"'),
        ("!!x", 2, "enough"),
        ('name:"lab', 6, "not closed"),
        ("''", 1, "nothing between"),
        ("health:onlin", 8, "allowed are online, busy, stale, reconnecting, offline"),
        ("production:maybe", 12, "allowed are yes, no"),
    ],
)
def test_a_mistake_is_named_with_its_column_and_what_is_allowed(text: str, column: int, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_filter(text)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
    assert caught.value.message.startswith(f"Column {column}: ")
    assert caught.value.message.endswith(".")
    assert not caught.value.message.endswith("..")
    assert says in caught.value.message


def test_a_term_knows_where_it_stands() -> None:
    text = '  os:linux !tag:"a b",c word'
    assert [text[term.start : term.end] for term in parse_filter(text).terms] == [
        "os:linux",
        '!tag:"a b",c',
        "word",
    ]


@given(st.text(max_size=60) | st.text(alphabet=" !:,\"'*?ab" + "tagos", max_size=40))
def test_any_text_is_a_filter_or_a_named_mistake(text: str) -> None:
    with contextlib.suppress(BadInput):
        assert parse_filter(text).matches(a_device()) in (True, False)


PART = st.text(alphabet="ab-*?", min_size=1, max_size=12)


@given(PART, st.text(alphabet="ab-", max_size=12))
def test_wildcards_mean_what_a_shell_means_by_them(glob: str, name: str) -> None:
    device = a_device(name=name)
    assert parse_filter(f"name:{glob}").matches(device) == fnmatch.fnmatchcase(name, glob)
    assert parse_filter(f"!name:{glob}").matches(device) != parse_filter(f"name:{glob}").matches(device)


@given(st.text(alphabet="abC:!,*? ", min_size=1, max_size=10), st.text(alphabet="xabC:!,*? ", max_size=20))
def test_a_quoted_word_is_looked_for_letter_by_letter(word: str, name: str) -> None:
    device = a_device(name=name, tags=[], platform="")
    assert parse_filter(f'"{word}"').matches(device) == (word.casefold() in name.casefold())


def test_hostile_wildcards_cost_no_more_than_text_times_filter() -> None:
    hostile = parse_filter("name:" + "a*" * 900 + "b")
    device = a_device(name="a" * 100_000)
    with most_calls(1_000):
        assert not hostile.matches(device)
    with pytest.raises(BadInput, match="at most 2,000"):
        parse_filter("x" * (LONGEST + 1))


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        ("name:lab-1 name:lab-2", "for any of them write name:lab-1,lab-2."),
        ("lab-1 lab-2", "for any of them write lab-1,lab-2."),
        ("lab-1 OR lab-2", "for any of them write lab-1,lab-2."),
        ("name:lab-1 or tag:lab", "OR and AND are looked for as texts"),
        ("name:lab-1|lab-2", "write name:lab-1,lab-2."),
        ("lab-1||lab-2", "write lab-1,lab-2."),
        ("name:lab-[12]", "There are no sets in brackets"),
        ("name:lba-1", "Did you mean lab-1 or lab-2? Values of name: lab-1, lab-2."),
        ("tag:lb", "Did you mean lab? Values of tag: Rack 4, lab."),
        ("os:linux name:lab-3", "Values of name: lab-1, lab-2."),
        ("os:windows", "Values of os: Debian 13, linux."),
    ],
)
def test_a_filter_that_no_device_matches_is_told_what_to_write(targets: str, says: str) -> None:
    error = no_match(targets, [a_device(), a_device("lab-2")])
    assert error.code is ErrorCode.UNKNOWN_DEVICE
    assert error.message.startswith(f"No device matches {targets!r}. ")
    assert says in error.message
    assert error.message.endswith(GRAMMAR)


def test_what_is_written_instead_matches_as_it_is_meant() -> None:
    devices = [a_device(), a_device("lab-2"), a_device("db-1")]
    for wrong in ("name:lab-1 name:lab-2", "name:lab-1|lab-2"):
        written = no_match(wrong, devices).message.split(" write ")[1].split(". ")[0]
        matching = [one.name for one in devices if parse_filter(written).matches(one)]
        assert matching == ["lab-1", "lab-2"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("lab-1", "name:lab-1"),
        ("lab-*", "name:lab-*"),
        ("lab-1,lab-2", "name:lab-1,lab-2"),
        ("!lab-1", "!name:lab-1"),
        ("tag:lab", "tag:lab"),
        ("lab one", "lab one"),
        (" lab-1 ", "name:lab-1"),
        ("", ""),
    ],
)
def test_a_bare_word_is_a_device_s_name(written: str, meant: str) -> None:
    assert as_filter(written) == meant


@pytest.mark.parametrize("text", ["tagg:lab", "tag:", "health:onlin", '"', "!!x"])
def test_each_message_about_a_filter_has_the_grammar(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_filter(text)
    assert caught.value.message.endswith(GRAMMAR)


def test_a_field_that_is_like_another_is_named() -> None:
    with pytest.raises(BadInput, match=r"did you mean tag\?"):
        parse_filter("os:linux tagg:lab")


def test_readme_and_help_have_the_grammar_as_it_is() -> None:
    root = Path(__file__).parents[3]
    assert GRAMMAR in (root / "README.md").read_text("utf-8")
    for word in ("run", "search", "do"):
        assert GRAMMAR in help_of(word)
    for word in ("add", "set"):
        assert SIGNS in help_of("agents", word)


def help_of(word: str, *words: str) -> str:
    one = command(word)
    for inner in words:
        one = one.commands[inner]
    return " ".join(" ".join((option.help or "").split()) for option in one.params)


@pytest.mark.parametrize("name", ["lab-1", "this-computer", "db_1.example"])
def test_a_plain_name_is_no_filter(name: str) -> None:
    assert not is_filter(name)


@pytest.mark.parametrize(
    "text", ["tag:lab", "lab-*", "lab-?", "!lab-1", "lab-1,lab-2", "lab 1", '"lab-1"', ""]
)
def test_whatever_can_mean_several_devices_or_none_is_a_filter(text: str) -> None:
    assert is_filter(text)
