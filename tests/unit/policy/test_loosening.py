"""What lets more run is named, each kind by itself; what is stricter, or only worded otherwise, is not."""

from __future__ import annotations

import pytest

from core.policy.loosening import loosenings
from core.policy.policy_file import parse_policy
from tests.fakes.policy_calls import rule

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
        (rule("ask"), rule("ask", 'reason = "Said otherwise."')),
        (LAB.format(profile="trusted"), LAB.format(profile="guarded")),
    ],
)
def test_what_is_stricter_or_says_the_same_is_not(before: str, after: str):
    assert loosenings(parse_policy(before), parse_policy(after)) == []
