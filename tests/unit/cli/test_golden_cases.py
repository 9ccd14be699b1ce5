"""The table of golden cases leaves out no command, and no group of commands is without its errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden.cli import playing
from tests.golden.cli.cases import CASES
from tests.golden.cli.stable import Names

COMMANDS = json.loads((Path(__file__).parents[3] / "resources" / "commands.json").read_text())["commands"]


def leaves(group: dict[str, Any], *words: str) -> Iterator[tuple[str, ...]]:
    """The words of each command."""
    for name, one in group["commands"].items():
        yield from leaves(one, *words, name) if "commands" in one else [(*words, name)]


@pytest.mark.parametrize("words", list(leaves(COMMANDS)), ids=" ".join)
def test_every_command_has_a_case_that_is_no_wrong_use(words: tuple[str, ...]) -> None:
    assert [case for case in CASES if case.kind != "wrong" and tuple(case.words[: len(words)]) == words]


@pytest.mark.parametrize("kind", ["wrong", "refusal"])
@pytest.mark.parametrize("name", sorted(playing.files()))
def test_every_group_has_a_wrong_use_and_a_refusal(name: str, kind: str) -> None:
    assert [case for case in CASES if case.kind == kind and playing.file_of(case.words[0]) == name]


def test_only_what_is_known_to_differ_gets_another_name() -> None:
    names = Names({})
    kept = "lab-1 has 4 tools, 12 of 40 steps, r-0007, exit code 3, port 5000, 70 bytes"
    assert names.text(kept) == kept
    assert names.json({"steps": 3, "took_ms": 3.5, "size": 70}) == {
        "steps": 3,
        "took_ms": "NUMBER",
        "size": 70,
    }


def test_an_identifier_keeps_its_width_and_its_name() -> None:
    names = Names({})
    one, other = "a-01M8HS9XZY5SW7W0020V5MRPX0", "a-01M8HS9Y5B5D2BWBWQH1AH31C6"
    shown = names.text(f"{one} {other} {one}").split()
    assert [len(name) for name in shown] == [28, 28, 28]
    assert [name.rstrip("~") for name in shown] == ["request1", "request2", "request1"]
