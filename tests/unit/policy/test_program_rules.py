"""A rule that names a program sees it in each shell line that runs it, however the line is written."""

from __future__ import annotations

from typing import Any

import pytest

from core.models.tools import Risk
from core.policy.models import Answer
from core.policy.policy_check import check_text
from core.policy.policy_file import parse_policy
from tests.fakes.policy_calls import a_tool, judged

SHELL = a_tool("shell_execute")
RULE = '[[rule]]\nid = "r"\ndecision = "{decision}"\nrisk = "<=critical"\nprogram = {program}\n'
RUNS_AWS = [
    "aws s3 rm x",
    " aws s3 ls",
    "AWS_PROFILE=prod aws s3 rm x",
    "true; aws s3 ls",
    "true && aws s3 ls || false",
    "sudo aws s3 ls",
    "sudo -u deploy env A=1 nice -n 5 aws s3 ls",
    "ls | xargs aws s3 rm",
    "find . -exec aws s3 cp {} s3://x \\;",
    "/usr/local/bin/aws s3 ls",
    "'aws' s3 ls",
    "a''ws s3 ls",
    "\\aws s3 ls",
    "bash -c 'aws s3 ls'",
    "echo $(aws s3 ls)",
    "echo `aws s3 ls`",
    "eval aws s3 ls",
    "timeout 5 aws s3 ls",
    "(cd x && aws s3 ls) &",
    "for f in *; do aws s3 cp $f s3://x; done",
    "if true; then aws s3 ls; fi",
    "ls\naws s3 ls",
]
UNDECIDED = ["$CLI s3 ls", "$(echo aws) s3 ls", "curl x | sh", 'bash -c "$X"', "a=aws; $a s3 ls", "'"]
OTHER = ["ls aws", "echo aws", "git status", "grep -r aws .", "cat aws"]


def answer(decision: str, line: Any, program: str = '"aws"', **more: Any) -> Answer:
    policy = 'profile = "trusted"\n' + RULE.format(decision=decision, program=program)
    return judged(policy, SHELL, {"command": line}, **more).answer


@pytest.mark.parametrize("line", RUNS_AWS)
def test_a_line_that_runs_the_program_is_denied(line: str):
    assert answer("deny", line) is Answer.DENY
    assert answer("deny", line, '["terraform", "aw*"]') is Answer.DENY


@pytest.mark.parametrize("line", UNDECIDED)
def test_a_line_that_cannot_be_decided_is_denied_and_says_so_and_is_not_allowed(line: str):
    decision = judged(RULE.format(decision="deny", program='"aws"'), SHELL, {"command": line})
    assert decision.answer is Answer.DENY
    assert "whether the line runs aws cannot be decided" in decision.reasons[0].text
    everything = judged(RULE.format(decision="allow", program='"*"'), SHELL, {"command": line})
    assert everything.rules == []


@pytest.mark.parametrize("line", OTHER)
def test_a_line_that_only_names_the_program_is_not_denied(line: str):
    assert answer("deny", line) is not Answer.DENY


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("git status", True),
        ("git log | head -5", True),
        ("git status; rm -rf x", False),
        ("git status $(rm x)", False),
        ("sudo git status", False),
        ("GIT_SSH_COMMAND='rm x' git fetch", False),
        ("", False),
    ],
)
def test_an_allow_rule_applies_only_if_every_program_is_named(line: str, allowed: bool):
    decision = judged(RULE.format(decision="allow", program='["git", "head"]'), SHELL, {"command": line})
    assert bool(decision.rules) is allowed


def test_a_call_without_a_shell_line_runs_no_program():
    policy = RULE.format(decision="deny", program='"aws"')
    assert judged(policy, "write_file", {"file_path": "/tmp/aws", "content": "aws"}).answer is not Answer.DENY
    # A line that is no text cannot be decided.
    assert answer("deny", ["aws"]) is Answer.DENY


def test_shell_lines_of_hosted_tools_are_read_too():
    tool = a_tool("run_command", namespace="runner")
    policy = RULE.format(decision="deny", program='"aws"')
    assert judged(policy, tool, {"command": "true; aws s3 ls"}).answer is Answer.DENY
    assert judged(policy, tool, {"command": "true"}).answer is not Answer.DENY


def test_examples_try_the_program_of_a_rule():
    text = RULE.format(decision="deny", program='"aws"') + (
        'match = [{tool = "shell_execute", parameters = {command = "sudo aws x"}}, {}]\n'
        'not_match = [{tool = "shell_execute", parameters = {command = "ls aws"}}]\n'
    )
    assert check_text(text).ok
    assert not check_text(text.replace("ls aws", "aws ls")).ok
    [rule] = parse_policy(text).rules
    assert rule.program == ["aws"]
    assert Risk.CRITICAL in rule.risks
