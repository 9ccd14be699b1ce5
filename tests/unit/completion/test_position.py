"""Where the cursor is, by the table of commands that the program itself ships."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.command_words import all_words
from core.completion.kinds import Kind
from core.completion.position import Position, position_in

TABLE = json.loads((Path(__file__).parents[3] / "resources" / "commands.json").read_text("utf-8"))


def at(line: str) -> Position:
    return position_in(line.split(" "), TABLE["commands"])


def offers(line: str) -> list[str]:
    found = at(line)
    return [one.text for one in found.offers if one.text.startswith(found.typed)]


def test_the_table_is_that_of_the_commands() -> None:
    assert all_words() == TABLE, "python -m core.cli.command_words > resources/commands.json"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("call ", Kind.TARGET),
        ("tools lab-1 ", Kind.TARGET),
        ("devices tag:", Kind.TARGET),
        ("devices tag:lab ", Kind.TARGET),
        ("devices list lab", Kind.TARGET),
        ("devices show ", Kind.DEVICE),
        ("call lab-1 ", Kind.TOOL),
        ("call lab-1 echo ", Kind.TOOL_ARGUMENT),
        ("call lab-1 echo a=1 ", Kind.TOOL_ARGUMENT),
        ("call --wait 60 lab-1 ", Kind.TOOL),
        ("call --wait=60 -- lab-1 ", Kind.TOOL),
        ("--home /tmp/x call ", Kind.TARGET),
        ("call --json --home=/tmp/x ", Kind.TARGET),
        ("run --input a=1 ", Kind.BATCH),
        ("run b.yaml --input ", Kind.INPUT),
        ("run b.yaml --device ", Kind.FILTER),
        ("run b.yaml --device=", Kind.FILTER),
        ("agents set x --targets ", Kind.AGENT_FILTER),
        ("runs compare r-1 ", Kind.RUN),
        ("runs output r-1 lab-1 ", Kind.STEP),
        ("approvals approve ", Kind.APPROVAL),
        ("approvals approve a --grant ", Kind.GRANT_TERMS),
        ("grants revoke ", Kind.GRANT),
        ("operators remove ", Kind.OPERATOR),
        ("agents pause ", Kind.AGENT),
        ("audit find ", Kind.QUERY),
        ("devices set lab-1 --tag ", Kind.TAG),
        ("call lab-1 echo --save ", Kind.FOLDER),
        ("agents add ", Kind.TEXT),
        ("pair ", Kind.TEXT),
    ],
)
def test_what_a_word_names_follows_from_the_words_before_it(line: str, kind: Kind) -> None:
    assert (at(line).kind, at(line).offers) == (kind, [])


def test_values_before_the_cursor_are_known_by_their_kind() -> None:
    found = at("--home /h call --wait 5 lab-1 echo a=1 b=2 ")
    assert found.home == "/h"
    assert (found.first(Kind.TARGET), found.first(Kind.TOOL)) == ("lab-1", "echo")
    assert found.given[Kind.TOOL_ARGUMENT] == ["a=1", "b=2"]


def test_commands_options_and_closed_sets_are_offered() -> None:
    assert offers("appro") == ["approvals"]
    assert offers("devices certificate ") == ["renew", "switch"]
    assert offers("runs export r-1 --format ") == ["csv", "json"]
    assert offers("run x --pl") == ["--plan"]
    assert "--plan" not in offers("run x --plan --p")
    assert "--input" in offers("run x --input a=1 --in")
    assert {"--home", "--json", "--help"} <= set(offers("version "))
    assert offers("nothing ") == offers("runs nothing ") == offers("call -- lab-1 echo --") == []


def test_what_stays_before_a_value_is_its_option() -> None:
    found = at("search x --device=tag:l")
    assert (found.before, found.typed) == ("--device=", "tag:l")
