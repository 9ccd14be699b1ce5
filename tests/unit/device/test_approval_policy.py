"""A device that wants signatures is asked about at every action, whatever rules, profile and grants say."""

from __future__ import annotations

import pytest

from core.models.devices import Device
from core.policy.models import Answer, Decision
from tests.fakes.policy_calls import a_device, a_tool, judged

ALLOWS = '[[rule]]\nid = "all"\ndecision = "allow"\nrisk = ["low", "medium", "high", "critical"]\n'


def wants(approvers: int = 1) -> Device:
    return a_device().model_copy(update={"requires_approval": True, "approvers": approvers})


@pytest.mark.parametrize("policy", [ALLOWS, 'profile = "trusted"\n', 'profile = "lockdown"\n', ""])
def test_every_action_asks(policy: str) -> None:
    decision = judged(policy, device=wants())
    assert decision.answer is Answer.ASK
    assert decision.reasons[0].text == "lab-1 wants every action signed by an operator"
    assert decision.reasons[0].origin == "device lab-1"


def test_that_a_device_wants_signatures_is_a_fact_of_the_decision_and_no_wording() -> None:
    assert judged("", device=wants()).device_requires_signature
    assert not judged("", device=a_device()).device_requires_signature
    assert judged('[[rule]]\nid = "no"\ndecision = "deny"\n', device=wants()).device_requires_signature
    # An entry that was written before there was such a field still reads.
    old = judged("", device=a_device()).model_dump(mode="json")
    del old["device_requires_signature"]
    assert Decision.model_validate(old) == judged("", device=a_device())


def test_observations_go_as_ever() -> None:
    look = a_tool("read_file", "data_collection")
    assert judged("", look, {"file_path": "/tmp/x"}, device=wants()).answer is Answer.ALLOW


def test_what_is_denied_stays_denied() -> None:
    denies = '[[rule]]\nid = "no"\ndecision = "deny"\n'
    assert judged(denies, device=wants()).answer is Answer.DENY
    assert judged('profile = "observe"\n', device=wants()).answer is Answer.DENY


def test_as_many_operators_as_the_device_wants_and_no_fewer_than_a_rule_does() -> None:
    three = '[[rule]]\nid = "three"\ndecision = "ask"\napprovers = 3\n'
    assert judged("", device=wants(2)).approvers == 2
    assert judged(three, device=wants(2)).approvers == 3
    assert judged(three, device=wants(4)).approvers == 4
    assert judged("", device=a_device()).approvers == 1


def test_a_device_that_asks_for_nothing_changes_nothing() -> None:
    assert judged(ALLOWS, device=a_device()).answer is Answer.ALLOW
