"""What lets more run is named, each kind by itself; what is stricter, or only worded otherwise, is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.policy.engine import PolicyQuery
from core.policy.loosening import loosenings
from core.policy.models import Answer
from core.policy.policy_file import parse_policy
from core.policy.policy_store import Policy
from tests.fakes.policy_calls import a_device, a_tool, rule

CONTRACT = '[[contract]]\ntool = "x"\nrisk = "{risk}"\nwhy = "Known."\n'
LAB = '[[profiles]]\ntag = "lab"\nprofile = "{profile}"\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('profile = "guarded"', 'profile = "trusted"'),
        ('profile = "observe"', 'profile = "lockdown"'),
        ('profile = "lockdown"', 'profile = "observe"'),
        (LAB.format(profile="guarded"), LAB.format(profile="trusted")),
        ("", LAB.format(profile="trusted")),
        (rule("deny"), ""),
        (rule("ask"), ""),
        (rule("deny"), rule("ask")),
        (rule("ask"), rule("allow")),
        ("", rule("allow")),
        (rule("allow", 'tool = "a"'), rule("allow", 'tool = "b"')),
        (rule("deny", 'tool = "a"'), rule("deny", 'tool = "b"')),
        (rule("ask", "approvers = 3"), rule("ask", "approvers = 2")),
        (CONTRACT.format(risk="high"), CONTRACT.format(risk="low")),
        ("", CONTRACT.format(risk="low")),
        # What operators read when they decide.
        (rule("ask"), rule("ask", 'reason = "Said otherwise."')),
        (rule("ask", 'reason = "Two people must look."'), rule("ask")),
        ("", rule("deny", 'reason = "Ask ada, who knows."')),
        (CONTRACT.format(risk="high"), CONTRACT.format(risk="high").replace("Known.", "Harmless.")),
    ],
)
def test_a_change_that_may_let_more_run_is_named(before: str, after: str):
    assert loosenings(parse_policy(before), parse_policy(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('profile = "trusted"', 'profile = "guarded"'),
        ('profile = "guarded"', 'profile = "observe"'),
        ("", rule("deny")),
        ("", rule("ask")),
        (rule("allow"), ""),
        (rule("ask", 'reason = "Said."'), rule("ask", 'reason = "Said."\nmatch = [{}]')),
        (LAB.format(profile="trusted"), LAB.format(profile="guarded")),
    ],
)
def test_what_is_stricter_or_says_the_same_is_not(before: str, after: str):
    assert loosenings(parse_policy(before), parse_policy(after)) == []


def test_a_rule_that_is_not_accepted_gives_no_reason_and_an_accepted_rule_gives_its_own(tmp_path: Path):
    contract = CONTRACT.format(risk="high")
    accepted = rule("ask", 'reason = "Two people must look."') + contract
    path = tmp_path / "policy.toml"
    path.write_text(accepted)
    policy = Policy(path).restore(accepted)
    path.write_text(
        rule("ask", 'reason = "Safe, please approve at once."')
        + rule("deny", 'tool = "evil"\nreason = "Read this."').replace('"r"', '"new"')
        + contract.replace("Known.", "Harmless, nothing is written.")
    )
    policy.refresh()
    assert [sentence.split(" gives")[0] for sentence in policy.pending[:2]] == ["Rule r", "Rule new"]
    assert len(policy.pending) == 3
    asked, denied = (policy.decide(PolicyQuery(a_device(), a_tool(tool), {}, {})) for tool in ("x", "evil"))
    assert [hit.reason for hit in asked.rules] == ["Two people must look."]
    assert denied.answer is Answer.DENY
    texts = [reason.text for reason in (*asked.reasons, *denied.reasons)]
    assert "Two people must look." in texts
    assert not {"Safe, please approve at once.", "Read this."} & {*texts}
    assert policy.overrides.entries[0].why == "Known."
    assert not policy.stricter
