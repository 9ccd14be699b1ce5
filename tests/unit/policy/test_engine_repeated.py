"""An engine decides each call as if it were the first, whatever it has decided before."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from core.models.devices import Device
from core.models.tools import Risk, Tool
from core.policy import engine as policy_engine
from core.policy.engine import PolicyEngine, PolicyQuery
from core.policy.grant_book import GrantBook
from core.policy.grants import GrantTerms
from core.policy.models import Answer, Decision
from core.policy.policy_file import parse_policy
from tests.fakes.policy_calls import MONDAY_NOON, a_device, a_tool
from tests.fakes.run_size import examples

RULES = {
    "device": 'decision = "deny"\ndevice = "db-*"',
    "tag": 'decision = "ask"\ntag = "lab"\napprovers = 2',
    "production": 'decision = "ask"\nproduction = true\nexpires = 30',
    "actor": 'decision = "deny"\nactor = "agent:*"',
    "time": 'decision = "ask"\n[rule.time]\nfrom = "08:00"\nto = "11:00"',
    "argument": 'decision = "allow"\n[rule.parameters.file_path]\nbelow = "/srv"',
    "evidence": 'decision = "allow"\ntool = "read_file"\nevidence = ["after"]',
    "namespace": 'decision = "deny"\nnamespace = "other"',
}
PROFILES = {
    "none": "",
    "by name": '[[profiles]]\ndevice = "db-1"\nprofile = "lockdown"\n',
    "by tag": '[[profiles]]\ntag = "lab"\nprofile = "trusted"\n',
}
DEVICES = [
    a_device("lab-1"),
    a_device("lab-2", "lab"),
    a_device("db-1", production=True),
    *(
        a_device(name).model_copy(update={"requires_approval": True, "approvers": 2})
        for name in ("lab-3", "lab-4")
    ),
]
TOOLS = [
    a_tool("read_file", "data_collection"),
    a_tool("write_file"),
    a_tool("frobnicate"),
    a_tool("frobnicate", namespace="other"),
]
ARGUMENTS: list[dict[str, Any]] = [{"file_path": "/srv/a"}, {"file_path": "/etc/hosts"}, {}]
MOMENTS = [MONDAY_NOON, datetime.fromisoformat("2026-11-16T09:00:00+01:00")]

calls = st.tuples(
    st.sampled_from(DEVICES),
    st.sampled_from(TOOLS),
    st.sampled_from(ARGUMENTS),
    st.sampled_from(["operator:anna", "agent:night"]),
    st.sampled_from(MOMENTS),
    st.sampled_from(["", "line 3 is not TOML"]),
)


def asked_for(
    device: Device, tool: Tool, parameters: dict[str, Any], actor: str, at: datetime
) -> PolicyQuery:
    return PolicyQuery(
        device=device, tool=tool, parameters=parameters, redacted=parameters, actor=actor, moment=at
    )


@settings(max_examples=examples(150))
@given(
    rules=st.lists(st.sampled_from(sorted(RULES)), unique=True),
    profiles=st.sampled_from(sorted(PROFILES)),
    wishes=st.lists(calls, min_size=2, max_size=12),
)
def test_whatever_was_judged_before_a_call_is_judged_as_if_it_were_the_first(
    rules: list[str], profiles: str, wishes: list[tuple[Device, Tool, dict[str, Any], str, datetime, str]]
) -> None:
    text = PROFILES[profiles] + "".join(f'[[rule]]\nid = "{name}"\n{RULES[name]}\n' for name in rules)
    engine = PolicyEngine(parse_policy(text))
    judged = [engine.decide(asked_for(*call), GrantBook(), problem) for *call, problem in wishes]
    for decision, (*call, problem) in zip(judged, wishes, strict=True):
        policy_engine._decision_of_profile.cache_clear()
        fresh = PolicyEngine(parse_policy(text))
        assert decision == fresh.decide(asked_for(*call), GrantBook(), problem)


def test_devices_of_which_the_profile_alone_decides_share_the_decision() -> None:
    judge = PolicyEngine(parse_policy('[[rule]]\nid = "lab"\ndecision = "allow"\ndevice = "lab-2"\n'))

    def decided(device: Device, tool: Tool) -> Decision:
        return judge.decide(asked_for(device, tool, ARGUMENTS[0], "operator:anna", MONDAY_NOON), GrantBook())

    reads, writes = TOOLS[:2]
    first, by_rule, second, signed = (decided(device, reads) for device in DEVICES[:4])
    assert first is second is signed
    assert not first.rules
    assert [hit.id for hit in by_rule.rules] == ["lab"]
    assert decided(DEVICES[3], writes).device_requires_signature
    assert not decided(DEVICES[0], writes).device_requires_signature


def test_a_grant_is_looked_for_each_time_and_is_missed_when_it_is_gone() -> None:
    judge, grants = PolicyEngine(parse_policy("")), GrantBook(now=lambda: MONDAY_NOON)
    call = asked_for(DEVICES[0], TOOLS[1], ARGUMENTS[0], "agent:night", MONDAY_NOON)
    assert judge.decide(call, grants).answer is Answer.ASK
    held = grants.add(
        GrantTerms(
            id="g-00000001",
            approval="a-1",
            author="operator:anna",
            devices=["lab-1"],
            actors=["agent:*"],
            arguments={"file_path": "any"},
            risk=Risk.HIGH,
            tool_key=TOOLS[1].tool_key,
            contract=TOOLS[1].contract.digest,
            expires="2026-11-16T12:30:00+01:00",
            uses=1,
        )
    )
    assert judge.decide(call, grants).grant == held.terms.id
    grants.use(held.terms.id)
    assert judge.decide(call, grants).answer is Answer.ASK
