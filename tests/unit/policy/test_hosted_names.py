"""Rules and contracts mean a hosted server's tool by its listed name and by the server's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.fleet.tool_pins import FORMAT, known_tools
from core.policy.models import Answer
from core.policy.policy_check import check_text
from core.policy.policy_file import Overrides, parse_policy
from tests.fakes.policy_calls import a_tool, judged, rule

BRANCH = a_tool("alpha_create_branch", namespace="alpha")
BROAD = rule("allow", 'risk = ["low", "medium", "high"]', "broad")
DENIES = [
    'tool = "create_branch"',
    'tool = "create_*"',
    'tool = "alpha_create_branch"',
    'tool = "create_branch"\nnamespace = "alpha"',
    'tool = ["x", "create_branch"]\ntag = "lab"',
    'tool = "create_branch"\neffect = "unknown"',
]


def answer(policy: str) -> Answer:
    from tests.fakes.policy_calls import a_device

    return judged(policy, BRANCH, {"branch": "x"}, device=a_device("lab-1", "lab")).answer


@pytest.mark.parametrize("condition", DENIES)
def test_a_deny_rule_holds_by_either_name(condition: str):
    assert answer(BROAD) is Answer.ALLOW
    assert answer(BROAD + rule("deny", condition)) is Answer.DENY
    assert answer(BROAD + rule("ask", condition)) is Answer.ASK


def test_a_deny_rule_of_another_server_or_tool_does_not_hold():
    for condition in (
        'tool = "create_branch"\nnamespace = "beta"',
        'tool = "branch"',
        'tool = "create_branch"\ntag = "prod"',
    ):
        assert answer(BROAD + rule("deny", condition)) is Answer.ALLOW


def test_an_allow_rule_means_a_servers_own_name_only_if_it_names_the_server():
    risk = '\nrisk = "high"'
    assert answer(rule("allow", f'tool = "create_branch"{risk}')) is Answer.ASK
    assert answer(rule("allow", f'tool = "create_*"{risk}')) is Answer.ASK
    assert answer(rule("allow", f'tool = "create_branch"\nnamespace = "beta"{risk}')) is Answer.ASK
    assert answer(rule("allow", f'tool = "create_branch"\nnamespace = "alpha"{risk}')) is Answer.ALLOW
    assert answer(rule("allow", f'tool = "alpha_create_branch"{risk}')) is Answer.ALLOW


def test_a_contract_means_a_servers_own_name_only_if_it_names_the_server_or_lowers_nothing():
    def of(more: str) -> object:
        text = f'[[contract]]\ntool = "create_branch"\nwhy = "read"\n{more}\n'
        return Overrides(parse_policy(text).contracts).of("lab-1", "alpha_create_branch", "alpha")

    assert of('risk = "low"') is None
    assert of('risk = "critical"\neffect = "observe"') is None
    assert of('risk = "critical"\nreversible = true') is None
    assert of('risk = "critical"') is not None
    assert of('risk = "low"\nnamespace = "alpha"') is not None
    assert of('risk = "low"\nnamespace = "beta"') is None


def test_no_rule_on_a_hosted_name_means_a_built_in_tool():
    tool = a_tool("write_file")
    assert tool.own_name is None
    assert a_tool("builtin_write_file").own_name is None


KNOWN = {"lab-1": {"alpha_create_branch", "screenshot"}, "far": {"a.b_c"}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (rule("deny", 'tool = "create_brunch"'), "matches no tool: no known device has a tool of this name"),
        (rule("deny", 'tool = "del_*"'), "matches no tool: no known device has a tool of this name"),
        (rule("deny", 'tool = "b_c"\ndevice = "lab-*"'), "matches no tool: no known device"),
        (rule("allow", 'tool = "create_branch"'), "matches no tool by the name that a device lists"),
    ],
)
def test_a_rule_that_means_no_tool_of_a_known_device_is_warned_of(text: str, words: str):
    checked = check_text(text, KNOWN)
    assert checked.ok
    [warning] = checked.warnings
    assert warning.message.startswith(words)
    assert (warning.rule, warning.line) == ("r", 1)
    assert not check_text(text).warnings


@pytest.mark.parametrize(
    "text",
    [
        rule("deny", 'tool = "create_branch"'),
        rule("deny", 'tool = "create_*"'),
        rule("deny", 'tool = ["gone", "screenshot"]'),
        rule("deny", 'tool = "b_c"'),
        rule("allow", 'tool = "create_branch"\nnamespace = "alpha"'),
        rule("allow", 'tool = "*_branch"'),
        rule("deny", 'tool = "*"'),
        rule("deny"),
    ],
)
def test_a_rule_that_means_some_tool_is_not_warned_of(text: str):
    assert check_text(text, KNOWN).warnings == []


def test_a_contract_that_means_no_tool_is_warned_of():
    said = 'why = "It was read."\nrisk = '
    text = "".join(
        f'[[contract]]\ntool = "{tool}"\n{said}"{risk}"\n'
        for tool, risk in (
            ("screenshot", "low"),
            ("gone", "low"),
            ("create_branch", "medium"),
            ("create_branch", "critical"),
        )
    )
    warnings = check_text(text, KNOWN).warnings
    assert [warning.about for warning in warnings] == ["[[contract]] 2", "[[contract]] 3"]
    assert "alpha_create_branch" in warnings[1].message


def test_known_tools_are_read_from_the_copy_of_what_is_pinned(tmp_path: Path):
    path = tmp_path / "contracts.json"
    assert known_tools(path) == {}
    rows = {"lab": {"screenshot": f"{'a' * 64} low ours"}}
    path.write_text(json.dumps({"format": FORMAT, "devices": rows}))
    path.chmod(0o600)
    assert known_tools(path) == {"lab": {"screenshot"}}
    path.write_text("{")
    assert known_tools(path) == {}
