"""Compares calls with the terms of grants: whether a grant covers a call, and why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.commitments import holds_stand_in
from core.models.tools import Risk
from core.policy.analysis.shell.tool_arguments import holds_line
from core.policy.constraints import Constraint
from core.policy.grants import ANY, GrantTerms, alternatives, end_of
from core.policy.name_patterns import fits, is_glob

if TYPE_CHECKING:
    from core.policy.rules import MatchContext
    from core.statements import Request


@dataclass(frozen=True, slots=True)
class CallScope:
    """The properties of a call that a grant's terms are compared with."""

    device: str
    tool_key: str
    contract: str
    actor: str
    run: str | None
    risk: Risk
    parameters: dict[str, Any]
    real: Callable[[str], str] | None = None


def call_scope(context: MatchContext, run: str | None, redacted: dict[str, Any]) -> CallScope:
    """The scope of a call; `redacted` are its arguments with secrets as commitments.

    An argument that contains a secret is compared in its redacted form, so that a grant's pattern or list of
    values cannot be used to guess the secret. It matches only as a whole, or if the terms say `any`.
    """
    arguments = context.parameters
    return CallScope(
        device=context.device.name,
        tool_key=context.tool.tool_key,
        contract=context.tool.contract.digest,
        actor=context.actor,
        run=run,
        risk=context.risk,
        parameters={
            name: redacted[name] if holds_stand_in(redacted[name]) else arguments[name] for name in arguments
        },
        real=context.real,
    )


def uncovered_request(
    terms: GrantTerms, request: Request, *, actor: str, run: str | None, risk: Risk
) -> list[str]:
    """The reasons why a grant's terms do not cover a request; empty if they cover it."""
    call = CallScope(
        device=request.device,
        tool_key=request.tool_key,
        contract=request.contract,
        actor=actor,
        run=run,
        risk=risk,
        parameters=request.parameters,
    )
    return uncovered(terms, call)


def uncovered(terms: GrantTerms, call: CallScope) -> list[str]:
    """The reasons, in words, why these terms do not cover a call; empty if they cover it."""
    if call.tool_key != terms.tool_key:
        return [f"it is for {terms.tool_key}"]
    faults: list[str] = []
    if call.contract != terms.contract:
        faults.append("the tool changed since")
    if not fits(call.device, terms.devices):
        faults.append(f"it is for {alternatives(terms.devices)}")
    if not fits(call.actor, terms.actors):
        faults.append(f"it is for {alternatives(terms.actors)}")
    if terms.run is not None and call.run != terms.run:
        faults.append(f"it is for run {terms.run}")
    if call.risk.rank > terms.risk.rank:
        faults.append(f"it covers up to {terms.risk.value} risk, this is {call.risk.value}")
    tool_name = call.tool_key.rpartition("::")[2]
    for name, condition in terms.arguments.items():
        if isinstance(condition, str):
            continue
        if name not in call.parameters:
            faults.append(f"{name} is missing")
        elif not condition.permits(call.parameters[name], call.real, path=not holds_line(tool_name, name)):
            faults.append(f"{name} is not as granted")
    faults.extend(f"{name} is not part of it" for name in call.parameters if name not in terms.arguments)
    return faults


def is_wider(existing: GrantTerms, requested: GrantTerms) -> bool:
    """Whether `existing` covers everything that `requested` would cover; false if that is uncertain."""
    if (existing.tool_key, existing.contract) != (requested.tool_key, requested.contract):
        return False
    if existing.run not in (None, requested.run) or existing.risk.rank < requested.risk.rank:
        return False
    if existing.uses is not None or end_of(existing.expires) < end_of(requested.expires):
        return False
    if not _covers_names(existing.devices, requested.devices) or not _covers_names(
        existing.actors, requested.actors
    ):
        return False
    for name, condition in requested.arguments.items():
        if name not in existing.arguments or not _covers(existing.arguments[name], condition):
            return False
    return all(
        name in requested.arguments or existing_condition == ANY
        for name, existing_condition in existing.arguments.items()
    )


def _covers_names(existing: list[str], requested: list[str]) -> bool:
    return all(
        name in existing or (not is_glob(name) and fits(name, existing)) or "*" in existing
        for name in requested
    )


def _covers(existing: Constraint | str, requested: Constraint | str) -> bool:
    if isinstance(existing, str):
        return True
    if isinstance(requested, str):
        return False
    if existing == requested:
        return True
    values = [requested.equals] if requested.wants_equal else requested.one_of
    return values is not None and all(existing.permits(value) for value in values)
