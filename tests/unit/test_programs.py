"""The records of programs agree with themselves, and with the names by which they are looked up."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.programs.catalog import PROGRAMS, RECORDS, common_name, program_of
from core.programs.record import Kind, Program, takes

ROOT = Path(__file__).parents[2]
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


# Words that are names of programs, and here commands of Redis, schemes, keywords of JSON Schema and of CEL.
OTHER_MEANINGS = [
    ["eval", "script", "function"],
    ["http", "ftp", "telnet"],
    ["if", "then", "else"],
    ["in", "true", "false"],
]
KNOWN = {*PROGRAMS, *(alias for record in RECORDS for alias, _ in record.aliases)}


def literals_in(node: ast.AST) -> list[str]:
    """The texts of a literal collection, or the words of a text that is split."""
    match node:
        case ast.Set(elts=elements) | ast.List(elts=elements) | ast.Tuple(elts=elements):
            pass
        case ast.Dict(keys=elements):
            pass
        case ast.Call(func=ast.Attribute(attr="split", value=ast.Constant(value=str(text)))):
            return text.split()
        case _:
            return []
    return [one.value for one in elements if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def tables_of_programs(source: str) -> list[str]:
    """The literal collections of a source that are tables of programs."""
    found = []
    for node in ast.walk(ast.parse(source)):
        words = literals_in(node)
        programs = [word for word in words if word in KNOWN]
        if len(programs) > 2 and 2 * len(programs) >= len(words) and programs not in OTHER_MEANINGS:
            found.append(ast.unparse(node))
    return found


def programs_compared(source: str) -> list[str]:
    """The comparisons of a call's name with the name of a program."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare) and ast.unparse(node.left) in ("call.name", "name", "program")
        if any(isinstance(one, ast.Constant) and one.value in KNOWN for one in ast.walk(node))
    ]


def test_no_other_module_names_programs_of_the_records():
    found = {}
    for path in sorted((ROOT / "core").rglob("*.py")):
        module, source = path.relative_to(ROOT).as_posix(), path.read_text()
        if not module.startswith("core/programs/"):
            reads_records = "core.programs" in source
            found[module] = tables_of_programs(source) + (programs_compared(source) if reads_records else [])
    assert {module: places for module, places in found.items() if places} == {}
    assert sum("core.programs" in (ROOT / module).read_text() for module in found) > 10


@pytest.mark.parametrize(
    "source",
    [
        "_RUNS = {'ssh': 1, 'rsync': 2, 'git': 3}",
        "_RUNS = frozenset('ssh rsync git'.split())",
        "_RUNS = ('ssh', 'rsync', 'git', 'other')",
        "def rule(call):\n    return call.name == 'rsync'",
        "def rule(name):\n    return name in ('rsync', 'other')",
    ],
)
def test_a_table_of_programs_is_seen(source: str):
    assert tables_of_programs(source) + programs_compared(source) != []
