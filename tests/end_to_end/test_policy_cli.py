"""`quarterdeck policy`: a file is checked, a call explained, a policy tried over the journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.cli import main

GOOD = """
[[rule]]
id = "no-etc"
decision = "deny"
tool = "write_file"
reason = "System files are managed elsewhere."
[rule.parameters.file_path]
below = "/etc"
[[rule.match]]
parameters = {file_path = "/etc/hosts"}

[[rule]]
id = "nights"
decision = "allow"
tool = "shell_execute"
actor = "agent:night"
risk = ">=low"
"""

LOOSE = """
[[rule]]
id = "look"
decision = "allow"
tool = "shell_execute"
risk = "<=high"
[rule.parameters.command]
pattern = 'git status'
[[rule.match]]
parameters = {command = "git status"}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "settings.toml").write_text('this_computer = "in-process"\n')
    return folder


@pytest.fixture
def said(home: Path, capsys: pytest.CaptureFixture[str]):
    def run(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["--home", str(home), *words])
        output = capsys.readouterr()
        return code, output.out + output.err

    return run


def as_json(said: Any, *words: str) -> tuple[int, Any]:
    code, text = said("--json", *words)
    return code, json.loads(text)


def test_a_file_is_checked_with_its_examples_and_the_line_of_what_is_wrong(said, tmp_path: Path):
    file = tmp_path / "new.toml"
    file.write_text(GOOD)
    code, text = said("policy", "check", str(file))
    assert code == 0
    assert "2 rules, 1 example." in text
    file.write_text(GOOD.replace('"/etc/hosts"', '"/home/x"'))
    code, text = said("policy", "check", str(file))
    assert code == 2
    assert "line 2: rule no-etc, match 1" in text
    assert "FAILS" in text
    file.write_text(GOOD.replace('decision = "allow"', 'decision = "alow"'))
    code, found = as_json(said, "policy", "check", str(file))
    assert (code, found["ok"], found["problems"][0]["line"]) == (2, False, 12)


def test_a_pattern_that_lets_more_lines_through_is_warned_of_with_such_a_line(said, tmp_path: Path):
    file = tmp_path / "loose.toml"
    file.write_text(LOOSE)
    code, text = said("policy", "check", str(file))
    assert code == 0
    assert "Warning: line 2: rule look: its pattern for command is searched for anywhere in the line" in text
    assert "It allows this line: 'git status | sh'" in text
    code, found = as_json(said, "policy", "check", str(file))
    assert (code, found["ok"], found["problems"]) == (0, True, [])
    [warning] = found["warnings"]
    assert (warning["line"], warning["rule"], warning["slips"]) == (2, "look", "git status | sh")
    file.write_text(LOOSE.replace("'git status'", "'^git status$'"))
    code, found = as_json(said, "policy", "check", str(file))
    assert (code, found["warnings"]) == (0, [])


def test_what_the_warning_shows_is_what_the_policy_then_allows(said, home: Path, tmp_path: Path):
    (home / "policy.toml").write_text(LOOSE)
    assert said("policy", "accept")[0] == 0
    line = as_json(said, "policy", "check")[1]["warnings"][0]["slips"]
    code, found = as_json(said, "policy", "explain", "this-computer", "shell_execute", f"command={line}")
    assert (code, found["decision"]["answer"], found["decision"]["rules"][0]["id"]) == (0, "allow", "look")


def test_the_homes_own_file_is_checked_when_none_is_named(said, home: Path):
    assert said("policy", "check")[0] == 0
    (home / "policy.toml").write_text("[[rule]\n")
    assert said("policy", "check")[0] == 2
    assert said("policy", "check", str(home / "nothing.toml"))[0] == 2


def test_a_call_is_explained_with_rules_near_misses_and_findings(said, home: Path):
    (home / "policy.toml").write_text(GOOD)
    assert said("policy", "accept")[0] == 0
    code, found = as_json(
        said, "policy", "explain", "this-computer", "shell_execute", "command=sudo rm -rf /srv/x"
    )
    assert code == 0
    assert found["decision"]["answer"] == "ask"
    assert any(one["text"] == "Runs as root" for one in found["decision"]["findings"])
    assert [(one["id"], one["line"]) for one in found["near"]] == [("nights", 12)]
    code, text = said(
        "policy", "explain", "this-computer", "shell_execute", "command=sudo ls", "--as", "agent:night"
    )
    assert code == 0
    for words in ("This call", "runs", "nights", "Runs as root", "What the arguments say"):
        assert words in text


def test_an_unknown_tool_is_an_error(said):
    assert said("policy", "explain", "this-computer", "nothing")[0] == 2


def test_a_policy_is_tried_over_the_journal(said, home: Path, tmp_path: Path):
    assert said("call", "this-computer", "get_system_info", "info_type=os")[0] == 0
    file = tmp_path / "new.toml"
    file.write_text('[[rule]]\nid = "quiet"\ndecision = "deny"\ntool = "get_system_info"\n')
    code, text = said("policy", "try", str(file))
    assert code == 0
    assert "Of 1 commands it would have allowed 0, asked 0, denied 1; 1 otherwise than then." in text
    assert "allow -> deny" in text
    code, found = as_json(said, "policy", "try", str(file))
    assert (found["denied"], found["rows"][0]["rule"]) == (1, "quiet")
    file.write_text("[[rule]]\n")
    assert said("policy", "try", str(file))[0] == 2
    assert not (home / "policy.toml").exists()


def test_a_rule_that_means_no_tool_of_any_known_device_is_warned_of(said, home: Path):
    # The first command makes this computer's tools known.
    assert said("policy", "explain", "this-computer", "shell_execute", "command=true")[0] == 0
    (home / "policy.toml").write_text(GOOD.replace('"shell_execute"', '"shell_exekute"'))
    code, text = said("policy", "check")
    assert code == 0
    assert "Warning: line 12: rule nights: matches no tool: no known device has a tool of this name" in text
    code, found = as_json(said, "policy", "check")
    assert (code, [one["rule"] for one in found["warnings"]]) == (0, ["nights"])
    (home / "policy.toml").write_text(GOOD)
    assert as_json(said, "policy", "check")[1]["warnings"] == []


TWO = """
[[rule]]
id = "two"
decision = "ask"
tool = "get_system_info"
approvers = 2
"""


def test_a_rule_that_wants_more_operators_than_there_are_is_said_wherever_it_is_written(said, home: Path):
    (home / "policy.toml").write_text(TWO)
    wants = "wants 2 operators other than the one who asks; this home has {} in all"
    code, text = said("policy", "check")
    assert (code, wants.format(0) in text) == (0, True)
    assert wants.format(0) in said("policy", "accept")[1]
    for number, name in enumerate(("anna", "bert", "carl"), 1):
        signer = () if number == 1 else ("--operator", "anna")
        assert said("operators", "add", name, "--no-passphrase", *signer)[0] == 0
        found = as_json(said, "policy", "check")[1]["warnings"]
        assert [one["message"] for one in found] == ([wants.format(number)] if number < 3 else [])
    # What anyone wrote over the copy makes no warning, and no error.
    (home / "operators.json").write_text("[1]")
    assert as_json(said, "policy", "check")[1]["warnings"] == []


def test_who_runs_a_batch_is_proved_where_a_rule_wants_several_operators(said, home: Path, tmp_path: Path):
    (home / "policy.toml").write_text(TWO)
    assert said("policy", "accept")[0] == 0
    batch = tmp_path / "look.yaml"
    batch.write_text(
        "name: look\ntargets: 'name:*'\nsteps: [{id: a, tool: get_system_info, with: {info_type: os}}]\n"
    )
    words = tmp_path / "words"
    words.write_text("a long passphrase of anna")
    assert said("operators", "add", "anna", "--new-passphrase-file", str(words))[0] == 0
    assert "this home has 1 in all" in said("run", str(batch), "--plan")[1]
    # The proof is tried: nobody is there to type the passphrase.
    assert "Asked without a proof of who asks" in said("run", str(batch))[1]
    (home / "policy.toml").write_text(TWO.replace("approvers = 2", ""))
    assert said("policy", "accept", "--passphrase-file", str(words))[0] == 0
    assert "proof of who asks" not in said("run", str(batch))[1]
