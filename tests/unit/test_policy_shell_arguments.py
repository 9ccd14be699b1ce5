"""A shell line is judged in whatever tool's argument it stands, also as a list of words."""

from __future__ import annotations

from typing import Any

import pytest

from core.fleet.models import Risk
from core.policy.shell_arguments import MOST_LINES, holds_line
from core.policy.words import findings_of
from tests.fakes.policy_calls import a_tool

EVERYTHING = "Deletes everything in /"


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("run_command", {"command": "rm -rf /"}),
        ("runCommand", {"commandLine": "rm -rf /"}),
        ("box_exec", {"cmd": "rm -rf /"}),
        ("terminal", {"input": "rm -rf /"}),
        ("ssh_exec", {"host": "h.example", "script": "cd /; rm -rf /"}),
        ("anything", {"options": {"command": "rm -rf /"}}),
        ("anything", {"steps": [{"command": "ls"}, {"command": "rm -rf /"}]}),
        ("anything", {"commands": ["ls", "rm -rf /"]}),
        ("anything", {"command": ["bash", "-c", "rm -rf /"]}),
        ("anything", {"command": "bash", "args": ["-c", "rm -rf /"]}),
        ("launch_application", {"app_name": "xterm", "args": ["-e", "rm -rf /"]}),
        ("launch_application", {"app_name": "sudo", "args": ["rm", "-rf", "/"]}),
    ],
)
def test_a_line_for_a_shell_is_judged_whoever_offers_the_tool(tool: str, parameters: dict[str, Any]):
    findings = findings_of(a_tool(tool, namespace="somewhere"), parameters)
    assert EVERYTHING in [finding.text for finding in findings]
    assert {finding.argument for finding in findings} <= set(parameters)


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("text_editor", {"command": "view", "path": "notes.txt"}),
        ("text_editor", {"command": "str_replace", "path": "notes.txt"}),
        ("send_input", {"input": "rm -rf /"}),
        ("evaluate", {"script": "() => document.title"}),
        ("run_command", {"command": "git status"}),
        ("launch_application", {"app_name": "firefox", "args": ["--new-window"]}),
        ("note", {"text": "rm -rf /", "body": "rm -rf /"}),
    ],
)
def test_what_is_no_line_for_a_shell_is_left_alone(tool: str, parameters: dict[str, Any]):
    assert findings_of(a_tool(tool, namespace="somewhere"), parameters) == []


def test_places_are_marked_only_where_the_argument_is_the_line():
    [_, finding] = findings_of(a_tool("run", namespace="x"), {"command": "echo ok; rm -rf /"})
    assert (finding.start, finding.end) == (16, 17)
    for parameters in ({"command": ["rm", "-rf", "/"]}, {"o": {"command": "rm -rf /"}}):
        findings = findings_of(a_tool("run", namespace="x"), parameters)
        assert {(finding.start, finding.end) for finding in findings} == {(None, None)}


def test_more_lines_than_are_judged_are_a_finding():
    findings = findings_of(a_tool("run", namespace="x"), {"commands": ["ls"] * (MOST_LINES + 1)})
    assert [finding.text for finding in findings] == ["Holds more shell lines than can be judged"]
    assert findings[0].risk is Risk.HIGH


def test_of_the_built_in_tools_only_their_own_argument_is_a_line():
    assert holds_line("shell_execute", "command")
    assert not holds_line("shell_execute", "script")
    assert holds_line("anything", "options.command")
