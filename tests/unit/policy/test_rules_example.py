"""The example that users copy from is a policy that loads, and does what its comments say."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from core.aip.messages import ToolInfo
from core.fleet.contracts import read_tool, tool_of
from core.models.tools import Risk
from core.policy.models import Answer, Moment, Profile
from core.policy.policy_check import check_text
from core.policy.policy_file import Overrides, PolicyFile, parse_policy
from tests.fakes.policy_calls import a_device, judged

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "resources" / "policy-example.toml"


@pytest.fixture(scope="module")
def policy() -> PolicyFile:
    return parse_policy(EXAMPLE.read_text("utf-8"))


def test_the_example_has_no_fault_and_every_rule_has_examples_that_hold(policy: PolicyFile):
    checked = check_text(EXAMPLE.read_text("utf-8"))
    assert checked.ok, checked.problems
    assert checked.rules == len(policy.rules) >= 6
    for rule in policy.rules:
        assert rule.match, rule.id
        assert rule.not_match, rule.id
    assert all(line > 0 for line in policy.line_numbers)
    assert len(policy.line_numbers) == len(policy.rules)


def test_the_example_does_what_its_comments_say(policy: PolicyFile):
    lab, prod = a_device("lab-1", "lab"), a_device("db-1", "production", production=True)
    assert judged(policy, device=lab).profile is Profile.TRUSTED
    assert judged(policy, device=prod).profile is Profile.LOCKDOWN
    etc = {"file_path": "/etc/hosts", "content": ""}
    assert judged(policy, parameters=etc, device=lab).answer is Answer.DENY
    grave = judged(policy, "shell_execute", {"command": "rm -rf /srv"}, device=prod)
    assert (grave.answer, grave.approvers, grave.expires_s) == (Answer.ASK, 2, 600)
    assert grave.evidence == [Moment.BEFORE, Moment.AFTER]
    restart = {"command": "systemctl restart nginx"}
    assert judged(policy, "shell_execute", restart, device=lab).answer is Answer.ALLOW
    night = datetime.fromisoformat("2026-11-16T23:30:00+01:00")
    asked = judged(policy, device=lab, actor="agent:tidy", moment=night)
    assert [hit.id for hit in asked.rules] == ["agents-ask-at-night"]


def test_the_examples_word_on_a_tool_lowers_it_and_only_it(policy: PolicyFile):
    overrides = Overrides(policy.contracts)
    for name, risk in (("tickets_search", Risk.LOW), ("tickets_close", Risk.HIGH)):
        info = ToolInfo(
            tool_key=f"action::{name}",
            tool_name=name,
            tool_type="action",
            namespace="tickets",
            input_schema={},
        )
        override = overrides.of("lab-1", name, "tickets")
        assert tool_of("lab-1", read_tool(info), change="", override=override).contract.risk.value is risk


def test_the_rules_that_the_readme_shows_are_a_policy():
    text = (ROOT / "README.md").read_text("utf-8")
    block = text.split("```toml\n", 1)[1].split("```", 1)[0]
    checked = check_text(block)
    assert checked.ok, checked.problems
    assert checked.examples
