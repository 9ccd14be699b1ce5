"""Runs the examples in a policy's rules: each `match` must match its rule, each `not_match` must not."""

from __future__ import annotations

from core.models.devices import Device, Health
from core.models.tools import Contract, Effect, Fact, Risk, Source, Tool
from core.policy.models import ExampleResult
from core.policy.name_patterns import is_glob
from core.policy.policy_file import PolicyFile
from core.policy.rules import Example, MatchContext, Rule


def run_examples(policy: PolicyFile) -> list[ExampleResult]:
    """Run every example of every rule, in the order of the file."""
    results: list[ExampleResult] = []
    for place, rule in enumerate(policy.rules):
        line = policy.line_numbers[place] if place < len(policy.line_numbers) else 0
        for expected, examples in ((True, rule.match), (False, rule.not_match)):
            for number, example in enumerate(examples, 1):
                faults = faults_of(rule, example)
                ok = expected is not bool(faults)
                fault = "" if ok else f"it does not match: {faults[0]}" if expected else "it matches"
                results.append(
                    ExampleResult(rule=rule.id, line=line, wanted=expected, number=number, ok=ok, fault=fault)
                )
    return results


def faults_of(rule: Rule, example: Example) -> list[str]:
    """The conditions of a rule that an example does not fulfil. Fields absent from the example fit."""
    device = Device(
        name=example.device or _literal_or(rule.device, "example"),
        health=Health.ONLINE,
        since="",
        tags=example.tags if example.tags is not None else [_literal_or(rule.tag or ["*"], "example")],
        production=bool(rule.production),
    )
    tool = example_tool(example.tool or _literal_or(rule.tool, "example"), rule, example.effect)
    context = MatchContext(
        device=device,
        tool=tool,
        parameters=example.parameters or {},
        actor=example.actor or "operator:example",
        risk=example.risk or rule.risks[0],
        at=example.time,
    )
    reduced = rule.model_copy(update={**_dropped_conditions(rule, example)})
    static_fault = reduced.static_fault(device, tool)
    return [*([static_fault] if static_fault else []), *reduced.faults(context)]


def _dropped_conditions(rule: Rule, example: Example) -> dict[str, object]:
    """The changes to a rule that drop its namespace and its conditions on fields absent from the example."""
    changes: dict[str, object] = {"namespace": None}
    if example.device is None:
        changes["device"] = ["*"]
    if example.tags is None:
        changes["tag"] = None
    if example.tool is None:
        changes["tool"] = ["*"]
    if example.actor is None:
        changes["actor"] = ["*"]
    if example.effect is None:
        changes["effect"] = None
    if example.time is None:
        changes["time"] = None
    if example.parameters is None:
        changes["parameters"] = {}
        changes["program"] = None
    return changes


def _literal_or(patterns: list[str], otherwise: str) -> str:
    return patterns[0] if not is_glob(patterns[0]) else otherwise


def example_tool(name: str, rule: Rule, effect: Effect | None = None) -> Tool:
    """A tool of this name to try a rule on. Without `effect`, it has the first effect that the rule names."""

    def fact(value: object) -> Fact[object]:
        return Fact(value=value, source=Source.DEFAULT, why="example")

    contract = Contract.model_validate(
        {
            "effect": fact(effect or (rule.effect or [Effect.UNKNOWN])[0]).model_dump(),
            "risk": fact(Risk.LOW).model_dump(),
            "reversible": fact(False).model_dump(),
            "idempotent": fact(False).model_dump(),
            "open_world": fact(False).model_dump(),
            "digest": "",
        }
    )
    return Tool(device="example", tool_key=name, tool_name=name, tool_type="action", contract=contract)
