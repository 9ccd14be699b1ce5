"""What a check of an edited policy says of rules that are right, and can never be met."""

from __future__ import annotations

import pytest

from core.policy.policy_check import check_text


@pytest.mark.parametrize(
    ("approvers", "operators", "warns"), [(1, 1, False), (2, 2, True), (2, 3, False), (3, 2, True)]
)
def test_a_rule_that_wants_more_operators_than_can_answer_is_warned_of(
    approvers: int, operators: int, warns: bool
) -> None:
    text = f'[[rule]]\nid = "many"\ndecision = "ask"\ntool = "*"\napprovers = {approvers}\n'
    found = check_text(text, {}, operators)
    assert found.ok
    told = [
        one.message for one in found.warnings if one.rule == "many" and "operators other than" in one.message
    ]
    assert told == (
        [f"wants {approvers} operators other than the one who asks; this home has {operators} in all"]
        if warns
        else []
    )
