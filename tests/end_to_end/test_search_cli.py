"""`search`, `describe`, `do` and help, as a person at a terminal meets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from core.batch.batch_file import read_batch
from core.batch.models import flatten
from core.cli.command_table import COMMANDS, command
from core.home import Home
from tests.fakes.program import make_home, run


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Without a service: each command runs the core itself."""
    return make_home(tmp_path_factory.mktemp("hosted") / "home")


def runs(home: Home) -> int:
    total = run(home, "audit", "find", "kind:run_started", "--json").json["total"]
    assert isinstance(total, int)
    return total


def test_a_question_finds_the_tool_that_answers_it(home: Home):
    hits = run(home, "search", "how", "much", "memory", "is", "free", "--json").json["hits"]
    assert hits[0]["tool"] == "get_system_info"
    assert any("memory" in reason for reason in hits[0]["reasons"])
    shown = run(home, "search", "prosesses", "--device", "this-*")
    assert shown.code == 0
    assert "list_processes" in shown.out
    assert run(home, "search", "run", "ls", "-la", "--limit", "2", "--json").code == 0
    assert run(home, "search", "memory", "--device", "nowhere", "--json").json["hits"] == []


def test_a_description_has_every_fact_with_its_source(home: Home):
    told = run(home, "describe", "this-computer", "write_file", "--json").json
    contract = {name: fact for name, fact in told["tool"]["contract"].items() if name != "digest"}
    assert all(fact["source"] and fact["why"] for fact in (*told["scope"].values(), *contract.values()))
    shown = run(home, "describe", "this-computer", "write_file")
    for words in ("Risk", "[built-in]", "Network", "Undo", "Latest calls", "file_path"):
        assert words in shown.out
    assert "use_percent" not in shown.out
    facts = run(home, "describe", "this-computer", "get_system_info").out
    [row] = [line.split() for line in facts.splitlines() if "filesystems[].use_percent" in line]
    assert row == ["filesystems[].use_percent", "number", *"Percent. If info_type is disk.".split()]
    unknown = run(home, "describe", "this-computer", "nothing", "--json")
    assert (unknown.code, unknown.json["error"]["code"]) == (2, "unknown_tool")


def test_an_intent_becomes_a_batch_and_nothing_is_sent(home: Home):
    before = runs(home)
    done = run(home, "do", "memory and then list processes", "--save", "look")
    batch = read_batch(done.out, "stdout")
    assert [step.tool for step in flatten(batch.steps)] == ["get_system_info", "list_processes"]
    assert flatten(batch.steps)[0].parameters == {"info_type": "memory"}
    assert (home.batches / "look.yaml").read_text() == done.out
    lacking = run(home, "do", "write a file", "--json").json
    assert "still needs" in lacking["notes"][0]
    assert lacking["steps"][0]["lacks"] == ["file_path", "content"]
    assert run(home, "do", "zzzz qqqq", "--json").json["error"]["code"] == "not_found"
    assert runs(home) == before


@pytest.mark.parametrize("command", ["do", "search"])
def test_two_dashes_are_an_option_except_after_two_dashes_alone(home: Home, command: str):
    """The rule: two dashes begin an option unless they stand after `--`; one dash may begin a word."""
    for line in (["--josn", "list", "files"], ["list", "--josn"], ["list", "--josn=1"]):
        mistyped = run(home, command, *line)
        assert (mistyped.code, "No such option: --josn" in mistyped.err) == (2, True)
        assert "Did you mean --json?" in mistyped.err
    unknown = run(home, command, "run", "git", "log", "--oneline", "--json").json["error"]
    assert "Words that begin with two dashes stand after --." in unknown["message"]
    assert run(home, command, "--json", "--", "run", "git", "log", "--oneline").code == 0
    assert run(home, command, "--json", "run", "ls", "-la").code == 0


def test_words_with_one_dash_and_those_after_two_dashes_reach_the_batch(home: Home):
    def lines(*words: str) -> list[object]:
        batch = run(home, "do", "--json", *words).json["batch"]
        return [step["with"]["command"] for step in batch["steps"]]

    assert lines("run", "ls", "-la") == ["ls -la"]
    assert lines("--", "run", "git", "log", "--oneline") == ["git log --oneline"]


def test_nothing_in_a_home_is_saved_by_a_proposal_alone(home: Home):
    names = sorted(path.name for path in home.batches.glob("*"))
    run(home, "do", "list processes")
    assert sorted(path.name for path in home.batches.glob("*")) == names


def commands(group: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, one in group.items():
        if hasattr(one, "commands"):
            yield from commands(one.commands, f"{path} {name}")
        else:
            yield f"{path} {name}".strip(), one.epilog or ""


@pytest.mark.parametrize(("name", "epilog"), list(commands({word: command(word) for word in COMMANDS})))
def test_the_help_of_every_command_has_an_example_of_it(name: str, epilog: str):
    assert f"quarterdeck {name}" in epilog
