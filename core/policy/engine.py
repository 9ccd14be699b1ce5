"""Decides one call (allow, ask or deny) from its contract, arguments, rules, grants and profile.

    deny > ask > grant > allow > profile

A deny rule is final, and so is a profile that denies (`observe`). An ask rule beats every grant. A grant or
an allow rule beats a profile that asks, except `lockdown`, which asks for everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from core.models.devices import Device
from core.models.tools import BUILT_IN_NAMESPACE, Contract, Effect, Risk, Source, Tool
from core.policy.analysis.call_analysis import CallAnalysis, analyze_call
from core.policy.analysis.masking import NO_MARKS, Marks
from core.policy.analysis.summaries import restore_file
from core.policy.grant_book import GrantBook
from core.policy.grants import Grant
from core.policy.models import Answer, Decision, Finding, Profile, Reason
from core.policy.policy_file import PolicyFile
from core.policy.rule_index import RuleIndex
from core.policy.rules import MatchContext, Rule


class PolicyQuery(NamedTuple):
    """One call to be decided.

    Rules and the analysis read `parameters`, the arguments as they would be sent. `redacted` are the
    arguments without secrets, which a grant compares, and `marks` say where the secrets are. `shares_disk`:
    the device uses this computer's disk; `real` then resolves the paths in the arguments
    (`core.policy.real_paths`), if there are any.

    `undone` is the file that an undo writes, which its arguments do not name; `UnknownPath` if it is not
    known.

    `limit` is the profile of the agent that asks: the stricter of it and the device's profile holds.

    `analysis` is the analysis of the arguments on this device, if the caller has it. Where paths are resolved
    it depends on where they lead now, so that it is made here.
    """

    device: Device
    tool: Tool
    parameters: dict[str, Any]
    redacted: dict[str, Any]
    actor: str = ""
    run: str | None = None
    shares_disk: bool = False
    real: Callable[[str], str] | None = None
    moment: datetime | None = None
    analysis: CallAnalysis | None = None
    limit: Profile | None = None
    marks: Marks = NO_MARKS
    undone: str | None = None


class PolicyEngine:
    """Decides calls by one policy file. Reads no file, and the clock only if a rule has a time condition."""

    def __init__(self, file: PolicyFile) -> None:
        self.file = file
        self.index = RuleIndex(file.rules, file.line_numbers)

    def decide(self, query: PolicyQuery, grants: GrantBook, problem: str = "") -> Decision:
        """Decide a call. `problem` says why the policy is broken; every call that is not denied then asks."""
        analysis = _analysis_of(query)
        context = match_context_of(query, _highest_risk(query.tool.contract, analysis.findings))
        outcome = evaluate_rules(context, self.file, self.index, problem, query.limit)
        grant = grants.covering(context, query.run, query.redacted) if outcome.grant_may_allow else None
        if grant is not None:
            outcome = outcome._replace(answer=Answer.ALLOW, reasons=[_grant_reason(grant), *outcome.reasons])
        contract = query.tool.contract
        reasons = [*outcome.reasons, _contract_reason(contract.risk.why, contract.risk.source)]
        if contract.effect.source is Source.DEFAULT:
            reasons.append(Reason(text=contract.effect.why, origin="contract, default"))
        effect, reversible = contract.effect.value, contract.reversible.value
        own = (outcome.answer, context.risk, effect, outcome.profile, tuple(reasons), analysis, reversible)
        if not outcome.matching and grant is None and not outcome.requires_signature:
            return _decision_of_profile(*own)
        asking = [rule for rule in outcome.matching if rule.decision is Answer.ASK]
        expiries = [rule.expires for rule in asking if rule.expires is not None]
        fewest_approvers = query.device.approvers if outcome.requires_signature else 1
        return _decision(
            *own,
            rules=[self.index.hit(rule) for rule in outcome.matching],
            grant=grant.terms.id if grant else "",
            approvers=max([fewest_approvers, *(rule.approvers for rule in asking)]),
            evidence=sorted({moment for rule in outcome.matching for moment in rule.evidence}, reverse=True),
            expires_s=min(expiries, default=None),
            device_requires_signature=outcome.requires_signature,
        )


def _decision(
    answer: Answer,
    risk: Risk,
    effect: Effect,
    profile: Profile,
    reasons: tuple[Reason, ...],
    analysis: CallAnalysis,
    reversible: bool,
    **by_rules: Any,
) -> Decision:
    """A decision; `by_rules` are the fields that rules, grants and the device's signature give it."""
    return Decision(
        answer=answer,
        risk=risk,
        effect=effect,
        profile=profile,
        summary=analysis.summary,
        reasons=list(reasons),
        findings=list(analysis.findings),
        reversible=analysis.undoable and reversible,
        undo=analysis.undo,
        **by_rules,
    )


# Most calls of a run are decided alike. Its devices share the decision: a fifth less memory for each result,
# and with `Decision.encoded` some 5 % less of the loop's time for each command.
_decision_of_profile = lru_cache(maxsize=256)(_decision)


def _analysis_of(query: PolicyQuery) -> CallAnalysis:
    analysis = query.analysis
    if analysis is None or query.real is not None:
        home = home_of(query.shares_disk)
        analysis = analyze_call(query.tool, query.parameters, home, query.real, query.marks)
    if not query.undone:
        return analysis
    # Its arguments do not name the file that an undo writes.
    return analysis._replace(summary=restore_file(query.parameters, query.undone))


def home_of(shares_disk: bool) -> str:
    """The home folder of a device's user, if the device uses this computer's disk; else empty."""
    return os.path.expanduser("~") if shares_disk else ""


def match_context_of(query: PolicyQuery, risk: Risk) -> MatchContext:
    """The call as rules and grants read it, with its risk."""
    return MatchContext(
        device=query.device,
        tool=query.tool,
        parameters=query.parameters,
        actor=query.actor,
        risk=risk,
        at=query.moment,
        real=query.real,
        undone=query.undone,
    )


class RuleOutcome(NamedTuple):
    """The answer of rules and profile to a call, and the matching rules.

    `grant_may_allow`: a grant may change the answer to allow. `requires_signature`: the device itself
    requires signatures of operators.
    """

    answer: Answer
    profile: Profile
    reasons: list[Reason]
    matching: list[Rule]
    grant_may_allow: bool = False
    requires_signature: bool = False


def evaluate_rules(
    context: MatchContext,
    file: PolicyFile,
    index: RuleIndex,
    problem: str = "",
    limit: Profile | None = None,
) -> RuleOutcome:
    """The answer of rules and profile without grants. `problem` says why the policy is broken.

    `limit` is the profile of the agent that asks, if any: the stricter answer of both profiles holds.
    """
    profile, origin = file.profile_for(context.device)
    matching = index.matching(context)
    effect = context.tool.contract.effect.value
    by_profile, profile_reason = _profile_answer(profile, effect, context.risk, origin)
    if limit is not None:
        by_limit, limit_reason = _profile_answer(limit, effect, context.risk, context.actor)
        if _is_stricter(by_limit, limit, by_profile):
            profile, by_profile, profile_reason = limit, by_limit, limit_reason
    signature = _signature_reason(context)

    def outcome(answer: Answer, *reasons: Reason, grant_may_allow: bool = False) -> RuleOutcome:
        if signature is not None and answer is not Answer.DENY:
            # The device refuses the command without signatures, so no rule, grant or profile may allow it.
            return RuleOutcome(Answer.ASK, profile, [signature, *reasons], matching, requires_signature=True)
        return RuleOutcome(answer, profile, list(reasons), matching, grant_may_allow, signature is not None)

    by_rules = [_rule_reason(rule, index, context) for rule in matching]
    asking = [_rule_reason(rule, index, context) for rule in matching if rule.decision is Answer.ASK]
    if matching and matching[0].decision is Answer.DENY:
        return outcome(Answer.DENY, *by_rules, profile_reason)
    if by_profile is Answer.DENY:
        return outcome(Answer.DENY, profile_reason)
    if problem:
        return outcome(Answer.ASK, Reason(text="Everything asks: the policy is broken", origin=problem))
    if asking:
        return outcome(Answer.ASK, *asking, profile_reason)
    if profile is Profile.LOCKDOWN:
        return outcome(Answer.ASK, profile_reason)
    if matching:
        return outcome(Answer.ALLOW, *by_rules, profile_reason)
    return outcome(by_profile, profile_reason, grant_may_allow=by_profile is Answer.ASK)


@lru_cache(maxsize=1024)
def _contract_reason(why: str, source: Source) -> Reason:
    return Reason(text=why, origin=f"contract, {source.value}")


@lru_cache(maxsize=1024)
def _profile_answer(profile: Profile, effect: Effect, risk: Risk, origin: str) -> tuple[Answer, Reason]:
    """The answer of a profile, and why. Cached: every decision has one, and there are few different ones."""
    answer = _answer_of_profile(profile, effect, risk)
    return answer, Reason(text=_profile_text(profile, effect, risk, answer), origin=origin)


def _signature_reason(context: MatchContext) -> Reason | None:
    device = context.device
    tool = context.tool
    # For a hosted server's tool, only the server itself claims that it changes nothing; that is not trusted.
    reads_only = tool.tool_type != "action" and tool.namespace == BUILT_IN_NAMESPACE
    if not device.requires_approval or reads_only:
        return None
    signers = "an operator" if device.approvers == 1 else f"{device.approvers} operators"
    return Reason(
        text=f"{device.name} wants every action signed by {signers}", origin=f"device {device.name}"
    )


def _rule_reason(rule: Rule, index: RuleIndex, context: MatchContext) -> Reason:
    line = index.line_of(rule)
    verb = {Answer.ALLOW: "allows", Answer.ASK: "asks", Answer.DENY: "denies"}[rule.decision]
    place = f"policy.toml line {line}" if line else "policy.toml"
    text = rule.reason or f"Rule {rule.id} {verb} this"
    if rule.time is not None:
        moment, zone = rule.time.local(context.moment)
        text = f"{text} (it is {moment:%a %H:%M} in {zone})"
    if doubt := rule.doubt(context):
        text = f"{text} ({doubt})"
    return Reason(text=text, origin=f"rule {rule.id}, {place}")


def _grant_reason(grant: Grant) -> Reason:
    terms = grant.terms
    use_note = "" if terms.uses is None else f", use {grant.used + 1} of {terms.uses}"
    return Reason(
        text=f"Granted by {terms.author} until {terms.expires}{use_note}", origin=f"grant {terms.id}"
    )


def _highest_risk(contract: Contract, findings: Sequence[Finding]) -> Risk:
    risk, unbounded = contract.risk, contract.effect.value in (Effect.UNKNOWN, Effect.DESTROY)
    # A risk set by an operator is not raised because of the tool's effect.
    floor = Risk.HIGH if unbounded and risk.source is not Source.OPERATOR else Risk.LOW
    if not findings and floor is Risk.LOW:
        return risk.value
    return max(
        [risk.value, floor, *(finding.risk for finding in findings)], key=lambda risk_level: risk_level.rank
    )


def _is_stricter(answer: Answer, profile: Profile, than: Answer) -> bool:
    """Whether a profile's answer is stricter than another one. `lockdown` asks more strictly than others:
    no rule and no grant changes its answer."""
    if answer is than:
        return profile is Profile.LOCKDOWN
    return than is Answer.ALLOW or answer is Answer.DENY


def _answer_of_profile(profile: Profile, effect: Effect, risk: Risk) -> Answer:
    match profile:
        case Profile.OBSERVE:
            reads = effect is Effect.OBSERVE and risk is Risk.LOW
            return Answer.ALLOW if reads else Answer.DENY
        case Profile.GUARDED:
            return Answer.ALLOW if risk is Risk.LOW else Answer.ASK
        case Profile.TRUSTED:
            return Answer.ALLOW if risk.rank <= Risk.MEDIUM.rank else Answer.ASK
        case Profile.LOCKDOWN:
            return Answer.ASK


def _profile_text(profile: Profile, effect: Effect, risk: Risk, answer: Answer) -> str:
    verb = {Answer.ALLOW: "runs", Answer.ASK: "asks", Answer.DENY: "is denied"}[answer]
    if profile is Profile.LOCKDOWN:
        return "Profile lockdown: everything asks"
    if profile is Profile.OBSERVE:
        subject = "reading" if answer is Answer.ALLOW else f"{effect.value}, {risk.value} risk,"
        return f"Profile observe: {subject} {verb}"
    return f"Profile {profile.value}: {risk.value} risk {verb}"
