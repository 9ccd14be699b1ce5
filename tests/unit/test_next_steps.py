"""No refusal tells a person to read a rule where no rule is named: each has a next step that fits."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import app
import core
from core.aip.frames import read_error_text
from core.errors import ADVICE, ErrorCode, Refused
from core.fleet.paired_machines import PairedMachines
from core.models.tools import Effect
from core.policy.models import Answer, Decision, Profile, Reason, Risk, RuleHit
from core.policy.refusal import refusal

ROOTS = [Path(package.__file__ or "").parent for package in (core, app)]


def bare_refusals(source: str) -> list[int]:
    """The lines where a `Refused` is made with the policy's code and without a next step."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "Refused"):
            continue
        named = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        code = ast.unparse(node.args[1]) if len(node.args) > 1 else named.get("code", "")
        if code in ("", "ErrorCode.DENIED_BY_POLICY") and len(node.args) < 3 and "next_step" not in named:
            found.append(node.lineno)
    return found


def test_the_search_finds_a_refusal_without_a_next_step() -> None:
    assert bare_refusals('raise Refused("no")\nraise Refused("no", ErrorCode.DENIED_BY_POLICY)') == [1, 2]
    assert bare_refusals('Refused("no", ErrorCode.STOPPED), Refused("no", next_step="x")') == []


def test_every_refusal_with_the_policys_code_has_a_next_step_of_its_own() -> None:
    files = [path for root in ROOTS for path in root.rglob("*.py")]
    assert len(files) > 500
    bare = {path.name: lines for path in files if (lines := bare_refusals(path.read_text("utf-8")))}
    assert not bare


def denied(*rules: RuleHit) -> Decision:
    return Decision(
        answer=Answer.DENY,
        risk=Risk.HIGH,
        effect=Effect.CHANGE,
        summary="",
        profile=Profile.LOCKDOWN,
        reasons=[Reason(text="Rule never denies this.", origin="")],
        rules=list(rules),
    )


def test_only_a_call_that_a_rule_denies_names_the_rule() -> None:
    by_rule = refusal(denied(RuleHit(id="never", decision=Answer.DENY)))
    assert by_rule.message == "Rule never denies this."
    assert by_rule.info.next.startswith("Read the rule that is named")
    by_profile = refusal(denied(RuleHit(id="other", decision=Answer.ALLOW)), "So changed: ")
    assert by_profile.message == "So changed: Rule never denies this."
    assert "profile" in by_profile.info.next
    for step in (ADVICE[ErrorCode.DENIED_BY_POLICY].next_step, read_error_text("denied_by_policy: no").next):
        assert "rule that is named" not in step


def test_a_machine_that_is_held_is_accepted_or_paired() -> None:
    machines = PairedMachines({}, lambda entries: None, lambda device: None)
    machines.bind("d1", machine("a" * 64), "")
    with pytest.raises(Refused) as caught:
        machines.admit("d1", machine("b" * 64))
    assert "quarterdeck devices accept d1" in caught.value.info.next


def machine(identity: str) -> dict[str, object]:
    return {"quarterdeck": {"identity": identity}}
