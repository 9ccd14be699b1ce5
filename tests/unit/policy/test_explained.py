"""What `policy explain` says of a call is what the dispatcher then does with it, whatever the policy."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.audit.entries import Kind
from core.commands.request import CommandRequest
from core.home import Home
from core.policy.models import Answer, Decision
from tests.fakes.rig import DEVICE, Rig, open_rig
from tests.fakes.run_size import examples

SENT: dict[str, list[dict[str, Any]]] = {
    "read_file": [{"file_path": "/srv/a"}, {"file_path": "/home/anna/.ssh/id_rsa"}],
    "write_file": [
        {"file_path": "/etc/hosts", "content": "x"},
        {"file_path": "/srv/../etc/x", "content": ""},
        {"file_path": "/srv/notes", "content": "y" * 40},
        {"file_path": "../up", "content": "z"},
    ],
    "shell_execute": [{"command": "ls"}, {"command": "rm -rf /"}, {"command": "ls", "timeout": 5}],
    "get_system_info": [{"info_type": "os"}],
}
CALLS = st.sampled_from([(tool, sent) for tool, all_sent in SENT.items() for sent in all_sent])
CONDITIONS = st.one_of(
    st.sampled_from([{"file_path": {"below": "/etc"}}, {"file_path": {"below": "/srv"}}]),
    st.sampled_from([{"command": {"pattern": "rm"}}, {"command": {"equals": "ls"}}, {"timeout": {"max": 9}}]),
    st.just({"content": {"max_length": 10}}),
    st.just({}),
)
RULE = st.fixed_dictionaries(
    {
        "decision": st.sampled_from(["allow", "ask", "deny"]),
        "tool": st.sampled_from(["*", "write_*", "shell_execute", "read_file"]),
        "parameters": CONDITIONS,
    },
    optional={
        "actor": st.sampled_from(["operator:*", "agent:*"]),
        "risk": st.sampled_from([">=low", "low", ">=high"]),
        "effect": st.sampled_from(["observe", "change", "unknown"]),
        "tag": st.sampled_from(["desk", "prod"]),
        "evidence": st.sampled_from([["before"], ["after"], ["before", "after"]]),
        "approvers": st.integers(1, 3),
        "expires": st.integers(5, 600),
    },
)
CONTRACT = st.fixed_dictionaries(
    {
        "tool": st.sampled_from(["*", "read_file", "shell_*"]),
        "risk": st.sampled_from(["low", "high", "critical"]),
    },
    optional={"effect": st.sampled_from(["observe", "change", "destroy"])},
)
POLICY = st.tuples(
    st.sampled_from(["observe", "guarded", "trusted", "lockdown"]),
    st.lists(RULE, max_size=4),
    st.lists(CONTRACT, max_size=2),
)


def as_toml(profile: str, rules: list[dict[str, Any]], contracts: list[dict[str, Any]]) -> str:
    rows = [f"profile = {json.dumps(profile)}"]
    for number, rule in enumerate(rules):
        kept = dict(rule)
        if kept["decision"] != "ask":
            kept.pop("approvers", None)
            kept.pop("expires", None)
        if kept["decision"] == "deny":
            kept.pop("evidence", None)
        conditions = kept.pop("parameters")
        rows += [
            "[[rule]]",
            f'id = "r{number}"',
            *(f"{key} = {json.dumps(value)}" for key, value in kept.items()),
        ]
        for name, condition in conditions.items():
            rows += [
                f"[rule.parameters.{name}]",
                *(f"{key} = {json.dumps(v)}" for key, v in condition.items()),
            ]
    for contract in contracts:
        rows += ["[[contract]]", 'why = "said so"', *(f"{k} = {json.dumps(v)}" for k, v in contract.items())]
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def runner():
    with asyncio.Runner() as held:
        yield held


@pytest.fixture
def rig(tmp_path: Path, runner: asyncio.Runner):
    opening = open_rig(Home(tmp_path / "home").create())
    rig = runner.run(opening.__aenter__())
    yield rig
    runner.run(opening.__aexit__(None, None, None))


async def carried_out(rig: Rig, tool: str, sent: dict[str, Any], actor: str) -> tuple[Decision, str]:
    """What the dispatcher decided, and what became of the call: it ran, waits, or was refused."""
    before = len(rig.tools.seen)
    order = CommandRequest(DEVICE, tool, sent, actor)
    waiting = rig.tasks.spawn("call", rig.dispatcher.dispatch(order))
    asked = rig.tasks.spawn("asked", rig.asked.get())
    await asyncio.wait([waiting, asked], return_when="FIRST_COMPLETED")
    ran = any(command.call_id == order.call_id for command in rig.tools.seen[before:])
    if waiting.done():
        asked.cancel()
        end = "ran" if ran else "refused"
    else:
        end = "ran unasked" if ran else "waits"
        waiting.cancel()
    await asyncio.wait([waiting, asked])
    entries = await rig.entries(f"call:{order.call_id}")
    [decided] = [one for one in entries if one.kind is Kind.COMMAND_DECIDED]
    return Decision.model_validate(decided.body["decision"]), end


ENDS = {Answer.ALLOW: "ran", Answer.ASK: "waits", Answer.DENY: "refused"}


@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(POLICY, CALLS, st.sampled_from(["operator:anna", "agent:night"]), st.booleans())
def test_what_is_explained_is_what_is_done(
    rig: Rig, runner: asyncio.Runner, policy: Any, call: tuple[str, dict[str, Any]], actor: str, broken: bool
):
    rig.use_policy(as_toml(*policy))
    rig.policy.load()
    assert rig.policy.problem == ""
    if broken:
        rig.home.policy.write_text("[[rule]\n")
        rig.policy.load()
    tool, sent = call
    explained = rig.dispatcher.explanation(DEVICE, tool, sent, actor)

    done, end = runner.run(carried_out(rig, tool, sent, actor))

    said = explained.decision
    assert done == said
    assert done.evidence == said.evidence
    if not said.evidence:
        assert end == ENDS[said.answer]
    else:
        # Evidence that cannot be taken here refuses what it was wanted for; it never lets more through.
        assert end in (ENDS[said.answer], "refused")
    matched = {hit.id for hit in said.rules}
    assert not matched & {miss.id for miss in explained.near}


def test_explaining_sends_and_records_nothing(rig: Rig, runner: asyncio.Runner):
    before = len(runner.run(rig.entries()))
    rig.dispatcher.explanation(DEVICE, "write_file", {"file_path": "/etc/x", "content": ""}, "operator:anna")
    assert rig.tools.seen == []
    # One more: the entry that `entries` itself writes.
    assert len(runner.run(rig.entries())) == before + 1
