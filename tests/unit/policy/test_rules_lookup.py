"""Rules are looked up in time, the same ones that trying each would find, and near misses are named."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from core.models.tools import Risk
from core.policy.constraints import Constraint
from core.policy.models import Answer
from core.policy.policy_file import parse_policy
from core.policy.rule_index import RuleIndex
from core.policy.rules import Rule
from tests.fakes.policy_calls import NO_ETC, a_question, a_tool, rule
from tests.fakes.run_size import examples
from tests.fakes.work import most_calls


def test_a_catastrophic_pattern_is_decided_in_bounded_work_and_in_doubt_against_the_call():
    held = Constraint(pattern="^(a+)+$")
    text = "a" * 5_000 + "b"
    with most_calls(2_000_000):
        assert held.permits(text) is False
        held.forbids(text)


def test_near_misses_name_the_one_thing_that_did_not_hold():
    policy = parse_policy(NO_ETC + rule("allow", 'actor = "agent:*"\ntool = "write_file"', "agents"))
    book = RuleIndex(policy.rules, policy.line_numbers)
    near = book.near(a_question({"file_path": "/home/x"}))
    assert [(one.id, one.fault) for one in near] == [
        ("no-system-files", "file_path does not fit, the rule wants that it is below /etc"),
        ("agents", "the asker is operator:anna"),
    ]


def test_of_two_thousand_rules_few_are_asked():
    rows = []
    for number in range(500):
        rows.append(
            rule(
                "deny",
                f'tool = "write_file"\n[rule.parameters.file_path]\nbelow = "/srv/{number}"',
                f"a{number}",
            )
        )
        rows.append(rule("ask", f'device = "db-{number}-*"', f"b{number}"))
        rows.append(rule("allow", f'tool = "tool-{number}"', f"c{number}"))
        rows.append(
            rule("deny", f'[rule.parameters.command]\npattern = "curl .*host{number}[.]"', f"d{number}")
        )
    policy = parse_policy("\n".join(rows))
    book = RuleIndex(policy.rules, policy.line_numbers)
    for question in (
        a_question({"file_path": "/home/anna/notes/a.txt", "content": "x"}),
        a_question(
            {"command": "curl https://host1999.example/x"}, tool=a_tool("shell_execute"), risk=Risk.HIGH
        ),
    ):
        book.matching(question)
        with most_calls(500):
            book.matching(question)


PATHS = st.sampled_from(["/etc/x", "/etc", "/srv/a/b", "../x", "/srv/../etc", "~/x", "", "/a b"])
VALUES = st.one_of(
    PATHS,
    st.integers(-2, 3),
    st.booleans(),
    st.none(),
    st.floats(-2, 3),
    st.lists(PATHS, max_size=3),
    st.text("ab/.", max_size=4),
)
CONDITIONS = st.one_of(
    st.builds(lambda value: {"equals": value}, VALUES),
    st.builds(
        lambda values: {"one_of": values},
        st.lists(st.one_of(PATHS, st.integers(-2, 3), st.booleans()), min_size=1, max_size=3),
    ),
    st.sampled_from([{"below": "/etc"}, {"below": "/srv"}, {"below": "~/x"}, {"below": "/"}]),
    st.sampled_from([{"pattern": "a.b"}, {"pattern": "^/srv"}, {"pattern": "(?i)ETC"}, {"pattern": "x|y"}]),
    st.sampled_from([{"min": 0}, {"max": 1, "min": -1}, {"max_length": 2}, {"min_length": 1}]),
)
RULES = st.builds(
    lambda decision, device, tool, conditions: {
        "decision": decision,
        "device": device,
        "tool": tool,
        "parameters": conditions,
        "risk": [*Risk],
    },
    st.sampled_from(["allow", "ask", "deny"]),
    st.sampled_from(["*", "lab-*", "lab-1", "db-1"]),
    st.sampled_from(["*", "write_file", "write_*", "other"]),
    st.dictionaries(st.sampled_from(["x", "y", "z.w"]), CONDITIONS, max_size=2),
)


@settings(max_examples=examples(300, quick=60))
@given(
    st.lists(RULES, max_size=12),
    st.dictionaries(
        st.sampled_from(["x", "y", "z"]), st.one_of(VALUES, st.fixed_dictionaries({"w": VALUES})), max_size=3
    ),
    st.booleans(),
)
def test_looking_rules_up_finds_what_trying_each_one_finds(
    rows: list[Any], sent: dict[str, Any], shares: bool
):
    rules = [Rule.model_validate({**row, "id": f"r{number}"}) for number, row in enumerate(rows)]
    question = a_question(sent, real=(lambda path: path.replace("/srv/a", "/etc")) if shares else None)
    fit = [
        one
        for one in rules
        if not one.static_fault(question.device, question.tool) and not one.faults(question)
    ]
    denying = [one for one in fit if one.decision is Answer.DENY][:1]
    wanted = denying or [one for word in (Answer.ASK, Answer.ALLOW) for one in fit if one.decision is word]
    assert [one.id for one in RuleIndex(rules).matching(question)] == [one.id for one in wanted]
