"""Allow rules on shell lines: a loose pattern is warned of, with a line that really slips through."""

from __future__ import annotations

import json

import pytest

from core.models.tools import Risk
from core.policy.analysis.call_analysis import findings_in_call
from core.policy.analysis.shell.walk import findings_in_line
from core.policy.loose_patterns import ADDED, BEFORE, MOST_RULES_TRIED
from core.policy.models import Answer, PolicyWarning
from core.policy.policy_check import check_text
from core.policy.policy_file import parse_policy
from core.schema_forms.patterns import Sampler
from tests.fakes.policy_calls import a_question, a_tool


def rule(
    pattern: str, *, name: str = "r", tool: str = "shell_execute", risk: str = "<=high", more: str = ""
) -> str:
    return f"""
[[rule]]
id = "{name}"
decision = "allow"
tool = "{tool}"
risk = "{risk}"
[rule.parameters.command]
pattern = {json.dumps(pattern)}
{more}
"""


def warnings_of(text: str) -> list[PolicyWarning]:
    checked = check_text(text)
    assert checked.ok, checked.problems
    return checked.warnings


LOOSE = [
    "git status",
    "^git status",
    "git status$",
    r"\bdf\b",
    "^git log .*$",
    "^git log [^;|&]*$",
    r"^systemctl restart \S+$",
    "systemctl (restart|reload) (nginx|apache2)",
    '^echo "[^"]*"$',
    "^(?!.*;).*git.*$",
    "^(ls|cat .*|df -h)$",
    "^ls|^pwd$",
    "^make [^ ]+$",
    "(?i)GIT STATUS",
    "^a.c",
]
TIGHT = [
    "^git log$",
    "^git log [a-z ]+$",
    "^systemctl (restart|reload) (nginx|apache2)$",
    r"^(git|svn) [\w-]+( [\w./-]+)*$",
    "^echo '[^']*'$",
    r"^ls( -[al]+)?$",
    "^(ls|pwd)$",
]


@pytest.mark.parametrize("pattern", LOOSE)
def test_a_loose_pattern_is_warned_of_and_the_line_really_slips_through(pattern: str):
    text = rule(pattern)
    [warning] = warnings_of(text)
    assert (warning.rule, warning.line) == ("r", 2)
    # The line goes through the rule as any call does, with the risk that its own words have.
    line = warning.slips
    [tried] = parse_policy(text).rules
    findings = findings_in_call(a_tool("shell_execute"), {"command": line})
    risk = max((finding.risk for finding in findings), key=lambda risk: risk.rank)
    question = a_question({"command": line}, tool=a_tool("shell_execute"), risk=risk)
    assert tried.decision is Answer.ALLOW
    assert tried.static_fault(question.device, question.tool) is None
    assert tried.faults(question) == []
    assert findings


@pytest.mark.parametrize("pattern", TIGHT)
def test_a_pattern_that_holds_whole_lines_is_not_warned_of(pattern: str):
    assert warnings_of(rule(pattern)) == []


def test_the_line_is_the_gravest_that_the_rule_allows():
    assert warnings_of(rule("git status", risk="<=critical"))[0].slips == "git status\nrm -rf ~"
    assert warnings_of(rule("git status", risk="<=high"))[0].slips == "git status | sh"
    assert warnings_of(rule("git status", risk="<=medium"))[0].slips == "git status; ./x"
    assert warnings_of(rule("git status", risk="low"))[0].slips == "git status >> x"


def test_the_line_is_made_of_the_rules_own_examples():
    more = '[[rule.match]]\nparameters = { command = "du -sh /srv" }'
    assert warnings_of(rule("^du ", more=more))[0].slips.startswith("du -sh /srv")


def test_what_else_the_rule_wants_of_the_line_counts():
    assert warnings_of(rule("git status", more="max_length = 10")) == []
    assert warnings_of(rule("git status", more="max_length = 13"))[0].slips == "git status|sh"


@pytest.mark.parametrize("tool", ["run_command", "EXEC_*", "*", "my_terminal"])
def test_any_tools_argument_that_is_a_shell_line_counts(tool: str):
    assert [warning.rule for warning in warnings_of(rule("ls", tool=tool))] == ["r"]


def test_other_arguments_and_other_decisions_are_left_alone():
    assert warnings_of(rule("ls").replace("parameters.command", "parameters.note")) == []
    # A pattern that denies or asks has another fault.
    for decision in ("deny", "ask"):
        [warning] = warnings_of(rule("ls").replace('"allow"', f'"{decision}"'))
        assert not warning.slips
    assert warnings_of(rule("ls", more="one_of = ['ls']")) == []
    assert warnings_of(rule("ls").replace("parameters.command", "parameters.'options.command'")) == []


def test_a_line_in_an_object_counts_by_its_last_name():
    text = rule("ls", tool="anything").replace("parameters.command", "parameters.'options.command'")
    assert [warning.rule for warning in warnings_of(text)] == ["r"]


def test_a_broken_policy_has_problems_and_no_warnings():
    checked = check_text(rule("("))
    assert (checked.ok, checked.warnings) == (False, [])


def test_more_rules_than_are_tried_are_said():
    text = "".join(rule("^ls$", name=f"r{number}") for number in range(MOST_RULES_TRIED + 1))
    [warning] = warnings_of(text)
    assert "not tried" in warning.message
    assert warning.rule == f"r{MOST_RULES_TRIED}"


@pytest.mark.parametrize(
    "source", ["((a{64}){64}){64}", "(" * 60 + "a" + ")" * 60, "a{1000}b", r"\p{L}", "[", r"(a)\1"]
)
def test_no_pattern_makes_texts_without_end(source: str):
    assert all(len(text) < 10_000 for filling in ("", "; x") for text in Sampler(source).texts(filling))


@pytest.mark.parametrize("source", [*LOOSE, *TIGHT, r"^[^a-z]\d{2,3}[\w]\s?(x|y)+$", r"^\W\D$", "^[a]{3}$"])
def test_texts_made_for_a_pattern_match_it(source: str):
    constraint = parse_policy(rule(source)).rules[0].parameters["command"]
    assert any(constraint.permits(text) for text in Sampler(source).texts())


@pytest.mark.parametrize("risk", list(Risk))
def test_what_is_added_to_lines_has_the_risk_it_is_listed_under(risk: Risk):
    for line in [*(f"ls x{added}" for added in ADDED[risk]), *(f"{before}ls" for before in BEFORE[risk])]:
        assert max(finding.risk.rank for finding in findings_in_line(line, None)) == risk.rank, line
