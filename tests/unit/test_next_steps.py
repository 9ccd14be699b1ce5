"""The next step of an error fits its cause and its reader: a person, or an agent."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import app
import core
import core.next_steps
from core.aip.frames import read_error_text
from core.commands.results import Basis, CommandResult
from core.dispatch.outcome import not_known
from core.errors import ErrorCode, ErrorInfo, Refused
from core.fleet.paired_machines import PairedMachines
from core.models.tools import Effect
from core.next_steps import ADVICE, DENIED_BY_PEER, DENIED_BY_PROFILE, DENIED_BY_RULE, for_an_agent
from core.policy.models import Answer, Decision, Profile, Reason, Risk, RuleHit
from core.policy.refusal import refusal
from core.statements import Request

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
    for step in (ADVICE[ErrorCode.DENIED_BY_POLICY].person, read_error_text("denied_by_policy: no").next):
        assert "rule that is named" not in step


def test_a_machine_that_is_held_is_accepted_or_paired() -> None:
    machines = PairedMachines({}, lambda entries: None, lambda device: None)
    machines.bind("d1", machine("a" * 64), "")
    with pytest.raises(Refused) as caught:
        machines.admit("d1", machine("b" * 64))
    assert "quarterdeck devices accept d1" in caught.value.info.next


def machine(identity: str) -> dict[str, object]:
    return {"quarterdeck": {"identity": identity}}


def unknown(basis: Basis, effect: Effect = Effect.CHANGE) -> CommandResult:
    decision = denied().model_copy(update={"answer": Answer.ALLOW, "effect": effect})
    return not_known(request(), decision, basis, "The link broke", 1.0)


def request() -> Request:
    return Request(
        device="d1",
        tool_key="write_file",
        tool_name="write_file",
        tool_type="action",
        contract="0" * 64,
        namespace="quarterdeck",
        parameters={},
        call_id="c1",
        digest="0" * 64,
    )


UNKNOWN = (Basis.NO_ANSWER, Basis.UNUSABLE_ANSWER, Basis.DEVICE_DOES_NOT_KNOW)


def test_an_unknown_outcome_has_the_next_step_of_its_cause() -> None:
    steps = [unknown(basis).error for basis in UNKNOWN]
    assert all(error is not None and error.next for error in steps)
    assert len({error.next for error in steps if error is not None}) == len(UNKNOWN)


@pytest.mark.parametrize("basis", UNKNOWN)
def test_a_read_without_a_known_outcome_does_not_send_a_person_to_the_device(basis: Basis) -> None:
    error = unknown(basis, Effect.OBSERVE).error
    assert error is not None
    assert error.code is not ErrorCode.OUTCOME_UNKNOWN
    assert "before you run this again" not in error.next


def test_an_agent_is_never_told_to_change_the_policy() -> None:
    for step in (DENIED_BY_RULE, DENIED_BY_PROFILE):
        told = for_an_agent(ErrorCode.DENIED_BY_POLICY, step.person)
        assert told.endswith("Do not try it by another way.")
        assert "hange the p" not in told


def test_an_agent_is_told_the_step_that_fits_the_cause_and_not_only_the_code() -> None:
    assert for_an_agent(ErrorCode.DENIED_BY_POLICY, "Wait for its end.") == "Wait for its end."
    assert "policy" not in for_an_agent(ErrorCode.DENIED_BY_POLICY, DENIED_BY_PEER.person)
    assert "search_tools" in for_an_agent(ErrorCode.UNKNOWN_TOOL, ADVICE[ErrorCode.UNKNOWN_TOOL].person)


def test_an_agent_is_not_told_what_only_an_operator_can_do() -> None:
    told = for_an_agent(ErrorCode.SIGNATURE_REQUIRED, "Sign it: quarterdeck policy accept.")
    assert told == "Only an operator can do this."


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_has_a_step_for_an_agent_that_names_no_command_of_the_terminal(code: ErrorCode) -> None:
    told = for_an_agent(code, ErrorInfo.of(code, "").next)
    assert told
    assert not re.search(
        r"quarterdeck |\bapprove\b|\bsign\b|change the policy|device\.toml|--home|\blog\b", told
    )


@pytest.mark.parametrize("code", ErrorCode)
def test_an_agent_is_told_no_command_of_the_terminal_whatever_the_cause(code: ErrorCode) -> None:
    told = for_an_agent(code, "See what is wrong: quarterdeck devices doctor lab-1.")
    assert told
    assert "quarterdeck " not in told


def test_no_step_stands_in_the_table_twice_for_the_same_reader() -> None:
    """What is said of several codes has a name."""
    source = ast.parse(Path(core.next_steps.__file__).read_text("utf-8"))
    texts = [node.value for node in ast.walk(source) if isinstance(node, ast.Constant)]
    long = [text for text in texts if isinstance(text, str) and text.endswith(".") and len(text) > 20]
    assert len(long) == len(set(long))
