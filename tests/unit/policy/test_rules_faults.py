"""A policy with a fault is refused and says where; while its file is broken, everything asks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from core.errors import BadInput
from core.policy.constraints import Constraint
from core.policy.engine import PolicyQuery
from core.policy.examples import run_examples
from core.policy.models import Answer
from core.policy.policy_file import parse_policy
from core.policy.policy_store import Policy, checked_policy
from tests.fakes.policy_calls import NO_ETC, a_device, a_tool, judged, rule


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (rule("maybe"), "rule r: decision"),
        (rule("deny", "colour = 'red'"), "rule r: colour: there is no such key"),
        (rule("deny") + rule("ask"), "two rules have the id r"),
        (rule("deny", "[rule.parameters.x]"), "needs one of equals"),
        (rule("deny", "[rule.parameters.x]\npattern = '('"), "pattern"),
        (rule("deny", "[rule.parameters.x]\npattern = '(a)\\1'"), "pattern"),
        (rule("deny", "[rule.parameters.x]\nbelow = 'etc'"), "absolute"),
        (rule("deny", "approvers = 2"), "rules that ask"),
        (rule("allow", "approvers = 2"), "rules that ask"),
        (rule("ask", "approvers = 0"), "approvers"),
        (rule("deny", 'time = {from = "8"}'), "08:30"),
        (rule("deny", "[[rule.match]]\nparamters = {}"), "paramters"),
        ("profil = 'guarded'", "profil"),
        ("[[rule]\n", "not TOML"),
        ("line_numbers = [1]", "line_numbers"),
    ],
)
def test_a_file_with_a_fault_is_refused_and_says_where(text: str, says: str):
    with pytest.raises(BadInput) as caught:
        parse_policy(text)
    assert says in caught.value.message


def test_a_fault_names_the_line_of_its_rule():
    with pytest.raises(BadInput, match=r"line 5: rule second: decision"):
        parse_policy(
            'profile = "guarded"\n' + rule("deny", name="first").strip() + "\n" + rule("x", name="second")
        )


def test_an_example_that_does_not_hold_breaks_the_file():
    checked_policy(NO_ETC)
    with pytest.raises(BadInput, match=r"line 2: rule no-system-files, not_match 1: it matches"):
        checked_policy(NO_ETC.replace('"/etcetera"', '"/etc/cron.d/x"'))
    with pytest.raises(BadInput, match=r"match 1: it does not match: file_path"):
        checked_policy(NO_ETC.replace('"/etc/hosts"', '"/home/hosts"'))


def test_examples_are_about_what_they_name():
    policy = parse_policy(
        rule(
            "ask",
            'device = "db-*"\nactor = "agent:*"\n'
            '[[rule.match]]\ndevice = "db-7"\n[[rule.not_match]]\nactor = "operator:x"',
        )
    )
    assert [one.ok for one in run_examples(policy)] == [True, True]


def test_while_the_file_is_broken_everything_asks_and_what_was_denied_stays_denied(tmp_path: Path):
    path = tmp_path / "policy.toml"
    text = NO_ETC + rule("allow", 'tool = "write_file"', "free")
    path.write_text(text)
    policy = Policy(path).restore(text)
    path.write_text("[[rule]\n")
    for opened in (policy, Policy(path).restore(text)):
        opened.load()
        assert opened.problem
        [file] = opened.files
        denied = judged(file, parameters={"file_path": "/etc/x", "content": ""}, problem=opened.problem)
        asked = judged(file, problem=opened.problem)
        assert (denied.answer, asked.answer) == (Answer.DENY, Answer.ASK)
        reads = judged(file, a_tool("read_file", "data_collection"), {"file_path": "/x"}, problem="broken")
        assert reads.answer is Answer.ASK


def test_what_the_file_denied_before_it_broke_stays_denied_though_it_was_never_accepted(tmp_path: Path):
    path = tmp_path / "policy.toml"
    path.write_text(NO_ETC)
    policy = Policy(path).restore("")
    sent = {"file_path": "/etc/x", "content": ""}
    query = PolicyQuery(device=a_device(), tool=a_tool(), parameters=sent, redacted=sent)
    assert policy.decide(query).answer is Answer.DENY
    path.write_text("[[rule]\n")
    assert policy.load().problem
    assert policy.decide(query).answer is Answer.DENY


@pytest.mark.parametrize(("accepted", "in_file"), [(3, 2), (2, 3)])
def test_where_both_texts_ask_the_larger_number_of_operators_is_asked(
    tmp_path: Path, accepted: int, in_file: int
):
    path, sent = tmp_path / "policy.toml", {"file_path": "/x", "content": ""}
    path.write_text(rule("ask", f"approvers = {in_file}"))
    policy = Policy(path).restore(rule("ask", f"approvers = {accepted}"))
    query = PolicyQuery(device=a_device(), tool=a_tool(), parameters=sent, redacted=sent)
    assert policy.decide(query).approvers == 3


def test_a_file_that_was_changed_back_in_size_and_time_is_read_again(tmp_path: Path):
    path = tmp_path / "policy.toml"
    path.write_text(rule("deny", name="a"))
    policy, before = Policy(path).restore(""), os.stat(path)
    # Two changes within one tick of the file system's clock cannot be told apart.
    while os.stat(path).st_ctime_ns == before.st_ctime_ns:
        path.write_text(rule("deny", name="b"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    policy.refresh()
    assert policy.text == rule("deny", name="b")


def test_what_the_file_says_of_a_tool_asks_until_it_is_accepted_though_both_texts_allow(tmp_path: Path):
    path, allow = tmp_path / "policy.toml", rule("allow", 'tool = "write_file"\nrisk = ">=low"')
    path.write_text(allow + '[[contract]]\ntool = "write_file"\nrisk = "low"\nwhy = "A toy."\n')
    policy, sent = Policy(path).restore(allow), {"file_path": "/x", "content": ""}
    query = PolicyQuery(device=a_device(), tool=a_tool(), parameters=sent, redacted=sent)
    assert policy.decide(query).answer is Answer.ASK
    policy.accept(path.read_text())
    assert policy.decide(query).answer is Answer.ALLOW


@pytest.mark.parametrize("empty", [{"one_of": None}, {"pattern": None}, {"max": float("nan")}, {}])
def test_a_condition_that_says_nothing_is_a_fault(empty: dict[str, Any]):
    with pytest.raises(ValueError, match=r"needs one of|are numbers"):
        Constraint.model_validate(empty)
