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

from core.approvals.grants import Grant, GrantBook
from core.fleet.models import BUILT_IN_NAMESPACE, Contract, Device, Effect, Risk, Source, Tool
from core.policy.analysis.call_analysis import CallAnalysis, analyze_call
from core.policy.models import Answer, Decision, Finding, Profile, Reason
from core.policy.policy_file import PolicyFile
from core.policy.rule_index import RuleIndex
from core.policy.rules import MatchContext, Rule
from core.quick import made

_MOST_SETTLED = 512


class PolicyQuery(NamedTuple):
    """One call to be decided.

    Rules and grants read `parameters`, the arguments as they would be sent. Texts for display are made from
    `shown`, the redacted arguments. `shares_disk`: the device uses this computer's disk; `real` then resolves
    the paths in the arguments (`core.policy.real_paths`), if there are any.

    `same` is a key that equal calls share (`core.dispatch.arguments.CallKey`); its last element is the
    canonical bytes of the arguments. It is set only for calls without secrets in their arguments, so that
    `parameters` and `shown` are equal, and without resolved paths, which may change between calls.
    """

    device: Device
    tool: Tool
    parameters: dict[str, Any]
    shown: dict[str, Any]
    actor: str = ""
    run: str | None = None
    shares_disk: bool = False
    real: Callable[[str], str] | None = None
    moment: datetime | None = None
    same: tuple[str, str, str, bytes] | None = None


class PolicyEngine:
    """Decides calls by one policy file. Reads no file, and the clock only if a rule has a time condition."""

    def __init__(self, file: PolicyFile) -> None:
        self.file = file
        self.book = RuleIndex(file.rules, file.line_numbers)
        # A run sends equal calls to up to thousands of devices; calls with equal inputs are decided once.
        self._settled: dict[tuple[Any, ...], Decision] = {}

    def decide(self, asked: PolicyQuery, grants: GrantBook, problem: str = "") -> Decision:
        """Decide a call. `problem` says why the policy is broken; every call that is not denied then asks.

        Equal decisions may be the same object, so callers must not change them.
        """
        tool, same = asked.tool, asked.same
        home = os.path.expanduser("~") if asked.shares_disk else ""
        words = analyze_call(tool, asked.shown, home, same[-1] if same else None, asked.real)
        risk = _highest(tool.contract, words.findings)
        question = question_of(asked, risk)
        profile = self.file.profile_for(asked.device)
        speaking = self.book.speaking(question)
        if same is None or asked.device.requires_approval:
            return self._decide(asked, words, question, profile, speaking, grants, problem)[0]
        # The cache key has every input except grants. Device, actor and time are in it through the rules that
        # match.
        case = (
            same,
            profile,
            asked.device.approvers,
            problem,
            *[rule.id for rule in speaking],
        )
        known = self._settled.get(case)
        if known is None:
            known, yields = self._decide(asked, words, question, profile, speaking, grants, problem)
            if not yields:
                if len(self._settled) >= _MOST_SETTLED:
                    self._settled.clear()
                self._settled[case] = known
        return known

    def _decide(
        self,
        asked: PolicyQuery,
        words: CallAnalysis,
        question: MatchContext,
        profile: tuple[Profile, str],
        speaking: list[Rule],
        grants: GrantBook,
        problem: str,
    ) -> tuple[Decision, bool]:
        """The decision, and whether it depends on grants, in which case it must not be cached."""
        verdict = _weigh(question, profile, speaking, self.book, problem)
        grant = grants.covering(question, asked.run, asked.shown) if verdict.yields else None
        if grant is not None:
            verdict = verdict._replace(answer=Answer.ALLOW, reasons=[_by_grant(grant), *verdict.reasons])
        contract = asked.tool.contract
        reasons = [*verdict.reasons, _by_contract(contract.risk.why, contract.risk.source)]
        if contract.effect.source is Source.DEFAULT:
            reasons.append(Reason(text=contract.effect.why, origin="contract, default"))
        asking = [rule for rule in speaking if rule.decision is Answer.ASK]
        waits = [rule.expires for rule in asking if rule.expires is not None]
        wanted = asked.device.approvers if verdict.signed else 1
        fields = {
            "answer": verdict.answer,
            "risk": question.risk,
            "effect": contract.effect.value,
            "profile": verdict.profile,
            "summary": words.summary,
            "reasons": reasons,
            "findings": list(words.findings),
            "reversible": words.undoable and contract.reversible.value,
            "undo": words.undo,
            "rules": [self.book.hit(rule) for rule in speaking],
            "grant": grant.terms.id if grant else "",
            "approvers": max([wanted, *(rule.approvers for rule in asking)]),
            "evidence": sorted({moment for rule in speaking for moment in rule.evidence}, reverse=True),
            "expires_s": min(waits, default=None),
            "device_requires_signature": verdict.signed,
        }
        return made(Decision, fields), verdict.yields


def question_of(asked: PolicyQuery, risk: Risk) -> MatchContext:
    """The call as rules and grants read it, with its risk."""
    return MatchContext(
        device=asked.device,
        tool=asked.tool,
        parameters=asked.parameters,
        actor=asked.actor,
        risk=risk,
        at=asked.moment,
        real=asked.real,
    )


class RuleOutcome(NamedTuple):
    """The answer of rules and profile to a call.

    `yields`: a grant may change the answer to allow. `signed`: the device itself requires signatures of
    operators.
    """

    answer: Answer
    profile: Profile
    reasons: list[Reason]
    speaking: list[Rule]
    yields: bool = False
    signed: bool = False


def weigh(question: MatchContext, file: PolicyFile, book: RuleIndex, problem: str = "") -> RuleOutcome:
    """The answer of rules and profile without grants. `problem` says why the policy is broken."""
    return _weigh(question, file.profile_for(question.device), book.speaking(question), book, problem)


def _weigh(
    question: MatchContext, held: tuple[Profile, str], speaking: list[Rule], book: RuleIndex, problem: str
) -> RuleOutcome:
    profile, origin = held
    by_profile, told = _by_profile(profile, question.tool.contract.effect.value, question.risk, origin)
    signed = _wanted_by_device(question)

    def say(answer: Answer, *reasons: Reason, yields: bool = False) -> RuleOutcome:
        if signed is not None and answer is not Answer.DENY:
            # The device refuses the command without signatures, so no rule, grant or profile may allow it.
            return RuleOutcome(Answer.ASK, profile, [signed, *reasons], speaking, signed=True)
        return RuleOutcome(answer, profile, list(reasons), speaking, yields, signed is not None)

    by_rules = [_by_rule(rule, book) for rule in speaking]
    asking = [_by_rule(rule, book) for rule in speaking if rule.decision is Answer.ASK]
    if speaking and speaking[0].decision is Answer.DENY:
        return say(Answer.DENY, *by_rules, told)
    if by_profile is Answer.DENY:
        return say(Answer.DENY, told)
    if problem:
        return say(Answer.ASK, Reason(text="Everything asks: the policy is broken", origin=problem))
    if asking:
        return say(Answer.ASK, *asking, told)
    if profile is Profile.LOCKDOWN:
        return say(Answer.ASK, told)
    if speaking:
        return say(Answer.ALLOW, *by_rules, told)
    return say(by_profile, told, yields=by_profile is Answer.ASK)


@lru_cache(maxsize=1024)
def _by_contract(why: str, source: Source) -> Reason:
    return Reason(text=why, origin=f"contract, {source.value}")


@lru_cache(maxsize=1024)
def _by_profile(profile: Profile, effect: Effect, risk: Risk, origin: str) -> tuple[Answer, Reason]:
    """The answer of a profile, and why. Cached: every decision has one, and there are few different ones."""
    answer = _answer(profile, effect, risk)
    return answer, Reason(text=_why(profile, effect, risk, answer), origin=origin)


def _wanted_by_device(question: MatchContext) -> Reason | None:
    device = question.device
    tool = question.tool
    # For a hosted server's tool, only the server itself claims that it changes nothing; that is not trusted.
    looks_only = tool.tool_type != "action" and tool.namespace == BUILT_IN_NAMESPACE
    if not device.requires_approval or looks_only:
        return None
    who = "an operator" if device.approvers == 1 else f"{device.approvers} operators"
    return Reason(text=f"{device.name} wants every action signed by {who}", origin=f"device {device.name}")


def _by_rule(rule: Rule, book: RuleIndex) -> Reason:
    line = book.line_of(rule)
    word = {Answer.ALLOW: "allows", Answer.ASK: "asks", Answer.DENY: "denies"}[rule.decision]
    where = f"policy.toml line {line}" if line else "policy.toml"
    return Reason(text=rule.reason or f"Rule {rule.id} {word} this", origin=f"rule {rule.id}, {where}")


def _by_grant(grant: Grant) -> Reason:
    terms = grant.terms
    left = "" if terms.uses is None else f", use {grant.used + 1} of {terms.uses}"
    return Reason(text=f"Granted by {terms.author} until {terms.expires}{left}", origin=f"grant {terms.id}")


def _highest(contract: Contract, findings: Sequence[Finding]) -> Risk:
    risk, grave = contract.risk, contract.effect.value in (Effect.UNKNOWN, Effect.DESTROY)
    # A risk set by an operator is not raised because of the tool's effect.
    floor = Risk.HIGH if grave and risk.source is not Source.OPERATOR else Risk.LOW
    if not findings and floor is Risk.LOW:
        return risk.value
    return max([risk.value, floor, *(finding.risk for finding in findings)], key=lambda one: one.rank)


def _answer(profile: Profile, effect: Effect, risk: Risk) -> Answer:
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


def _why(profile: Profile, effect: Effect, risk: Risk, answer: Answer) -> str:
    word = {Answer.ALLOW: "runs", Answer.ASK: "asks", Answer.DENY: "is denied"}[answer]
    if profile is Profile.LOCKDOWN:
        return "Profile lockdown: everything asks"
    if profile is Profile.OBSERVE:
        what = "reading" if answer is Answer.ALLOW else f"{effect.value}, {risk.value} risk,"
        return f"Profile observe: {what} {word}"
    return f"Profile {profile.value}: {risk.value} risk {word}"
