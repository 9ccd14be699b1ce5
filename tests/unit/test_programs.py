"""The records of programs agree with themselves, and with the names by which they are looked up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from core.programs.catalog import PROGRAMS, RECORDS, common_name, program_of
from core.programs.record import Kind, Program, takes

ALL = [*RECORDS, *(verb for record in RECORDS for verb in record.subcommands)]


def patterns_of(record: Program) -> Iterator[str]:
    for effect in (*record.changes, *record.always, *record.each):
        yield from effect.words.split(" & ")
    for reading in record.reads:
        yield from (reading.words, reading.unless)
    if record.client is not None:
        yield from (command.pattern for command in record.client.commands)


def test_a_name_stands_in_one_record():
    names = Counter(name for record in RECORDS for name in record.names)
    names.update(alias for record in RECORDS for alias, _ in record.aliases)
    assert [name for name, count in names.items() if count > 1] == []
    for record in RECORDS:
        verbs = Counter(name for verb in record.subcommands for name in verb.names)
        assert [name for name, count in verbs.items() if count > 1] == [], record.names


def test_a_record_is_found_by_each_of_its_names():
    for record in RECORDS:
        for name in record.names:
            assert common_name(name) == name
            assert program_of(name) is record
        for alias, name in record.aliases:
            assert name in record.names
            assert common_name(alias) == name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("RM.EXE", "rm"),
        ("python3.11", "python"),
        ("clang-15", "clang"),
        ("gmv", "mv"),
        ("ld-linux-x86-64.so.2", "ld.so"),
        ("sort2", "sort2"),
    ],
)
def test_a_program_is_known_by_other_names(written: str, name: str):
    assert common_name(written) == name


def test_a_family_of_programs_shares_a_record():
    assert program_of("mkfs.ext4") is PROGRAMS["mkfs"]
    assert program_of("no-such-program") == Program(())


def test_an_option_has_its_value_in_one_way():
    for record in ALL:
        assert record.options.values & record.options.attached == set(), record.names
        assert record.options.twice <= record.options.values


def test_patterns_can_be_compiled():
    for record in ALL:
        for pattern in patterns_of(record):
            re.compile(pattern)


def test_only_a_program_that_changes_something_has_calls_that_only_read():
    assert [record.names for record in ALL if record.reads and not record.changes] == []


def test_each_kind_has_a_program():
    assert set(Kind) - {kind for record in RECORDS for kind in record.kinds} == set()


def test_a_text_names_options_with_a_value():
    options = takes("-o --output -i? --bind:2 -TT")
    assert options.values == {"-o", "--output", "--bind", "-TT"}
    assert (options.attached, options.twice) == ({"-i"}, {"--bind"})
    assert options.long == ("--bind", "--output")
    assert options.whole == {"-TT"}
