"""The policy: from a tool's contract, its arguments, rules, grants and the profile to allow, ask or deny.

    deny > ask > grant > allow > profile

A rule that denies ends it, as does a profile that denies (`observe`). A rule that asks beats every grant. A
grant, or a rule that allows, beats a profile that would ask; but `lockdown` asks for everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import BadInput
from core.fleet.models import BUILT_IN_NAMESPACE, Contract, Device, Effect, Plain, Risk, Source, Tool
from core.home import write_private
from core.policy.constraints import real_path
from core.policy.examples import run_examples
from core.policy.grants import Grant, GrantBook, GrantMiss
from core.policy.models import Answer, Decision, Finding, Profile, Reason
from core.policy.overrides import Overrides
from core.policy.policy_file import PolicyFile, read_policy, write_profile
from core.policy.rule_book import NearMiss, RuleBook
from core.policy.rules import Question, Rule
from core.policy.words import words_of
from core.quick import made


class Asked(NamedTuple):
    """One call to be judged.

    Rules and grants look at `parameters`, as they would be sent; `shown` has its secrets masked, and words
    for people are made of it. `shares_disk`: the device's paths are this computer's.
    """

    device: Device
    tool: Tool
    parameters: dict[str, Any]
    shown: dict[str, Any]
    actor: str = ""
    run: str | None = None
    shares_disk: bool = False
    moment: datetime | None = None


class Explanation(Plain):
    """A decision, and what nearly made it another one."""

    decision: Decision
    near: list[NearMiss]
    near_grants: list[GrantMiss]


class Policy:
    """Judges commands. It reads one file and knows nothing of devices' links, queues or the journal."""

    def __init__(
        self, path: Path, changed: Callable[[], None] = lambda: None, grants: GrantBook | None = None
    ) -> None:
        """`changed` is called when the file was found to be another one than before."""
        self._path = path
        self._changed = changed
        self._seen: tuple[int, ...] = ()
        self._file = PolicyFile()
        self._book = RuleBook()
        self.overrides = Overrides()
        self._kept = path.with_name(f"{path.stem}.last-good{path.suffix}")
        self.grants = grants or GrantBook()
        self.problem = ""

    def load(self) -> Policy:
        """Read the file again. A broken one is not an error here: everything asks until it is mended.

        The last good one stays in force for what it denies, also over a restart.
        """
        # Looked at first: a change between the two is seen the next time.
        self._seen = _look(self._path)
        try:
            self._use(checked_policy(self._path))
            self.problem = ""
            self._keep()
        except BadInput as error:
            if not self.problem:
                self._use_kept()
            self.problem = error.message
        return self

    def refresh(self) -> None:
        """Read the file again if it was edited: that counts from the next decision on."""
        if _look(self._path) != self._seen:
            self.load()
            self._changed()

    @property
    def profile(self) -> Profile:
        """The profile for every device that has none of its own."""
        return self._file.profile

    @property
    def path(self) -> Path:
        return self._path

    @property
    def file(self) -> PolicyFile:
        """What holds now; while the file is broken, the last good one, of which only denials count."""
        return self._file

    def set_profile(self, profile: Profile) -> None:
        """Write another profile into the file and use it.

        Raises:
            BadInput: the file is broken or cannot be written; nothing changed.
        """
        write_profile(self._path, profile)
        self.load()

    def profile_of(self, device: Device) -> Profile:
        """The profile that holds for one device."""
        return self._file.profile_for(device)[0]

    def decide(self, asked: Asked, refreshed: bool = False) -> Decision:
        """Judge one call. The answer is the object that is enforced, shown and journalled.

        `refreshed`: the file was looked at for this very call already, as `Fleet.target` does.
        """
        if not refreshed:
            self.refresh()
        return judge_call(asked, self._file, self._book, self.grants, self.problem)

    def explain(self, asked: Asked) -> Explanation:
        """Judge one call, and say which rules and grants nearly spoke of it."""
        decision = self.decide(asked)
        question = question_of(asked, decision.risk)
        near = self._book.near(question)
        return Explanation(decision=decision, near=near, near_grants=self.grants.near(question, asked.run))

    def _use(self, file: PolicyFile) -> None:
        self._file = file
        self._book = RuleBook(file.rules, file.line_numbers)
        if file.contracts != self.overrides.entries:
            # The same object as long as the same holds: who has judged by it need not judge again.
            self.overrides = Overrides(file.contracts)

    def _keep(self) -> None:
        """Remember what is good, so that a service that starts on a broken file still denies."""
        try:
            if self._path.exists():
                text = self._path.read_text("utf-8")
                if not self._kept.exists() or self._kept.read_text("utf-8") != text:
                    write_private(self._kept, text)
            else:
                self._kept.unlink(missing_ok=True)
        except (OSError, UnicodeDecodeError):
            # Only what a later, broken file would still deny is lost by this; the policy itself holds.
            return

    def _use_kept(self) -> None:
        try:
            if self._kept.exists():
                self._use(checked_policy(self._kept))
        except BadInput:
            return


def checked_policy(path: Path) -> PolicyFile:
    """Read a policy and run its examples.

    Raises:
        BadInput: it cannot be read or understood, or an example says otherwise than its rule; says where.
    """
    file = read_policy(path)
    for result in run_examples(file):
        if not result.ok:
            kind = "match" if result.wanted else "not_match"
            at = f" line {result.line}" if result.line else ""
            raise BadInput(f"policy.toml{at}: rule {result.rule}, {kind} {result.number}: {result.fault}")
    return file


def question_of(asked: Asked, risk: Risk) -> Question:
    """A call as rules and grants look at it, once its risk is known."""
    return Question(
        device=asked.device,
        tool=asked.tool,
        parameters=asked.parameters,
        actor=asked.actor,
        risk=risk,
        moment=asked.moment or datetime.now().astimezone(),
        real=real_path if asked.shares_disk else None,
    )


def judge_call(
    asked: Asked, file: PolicyFile, book: RuleBook, grants: GrantBook, problem: str = ""
) -> Decision:
    """The decision itself: nothing here reads a file or a clock that `asked` does not name."""
    tool, contract = asked.tool, asked.tool.contract
    words = words_of(tool, asked.shown, os.path.expanduser("~") if asked.shares_disk else "")
    risk = _highest(contract, words.findings)
    question = question_of(asked, risk)
    verdict = weigh(question, file, book, problem)
    speaking = verdict.speaking
    grant = grants.covering(question, asked.run) if verdict.yields else None
    if grant is not None:
        verdict = verdict._replace(answer=Answer.ALLOW, reasons=[_by_grant(grant), *verdict.reasons])
    reasons = [
        *verdict.reasons,
        _by_contract(contract.risk.why, contract.risk.source),
    ]
    if contract.effect.source is Source.DEFAULT:
        reasons.append(Reason(text=contract.effect.why, origin="contract, default"))
    asking = [rule for rule in speaking if rule.decision is Answer.ASK]
    waits = [rule.expires for rule in asking if rule.expires is not None]
    wanted = asked.device.approvers if verdict.signed else 1
    fields = {
        "answer": verdict.answer,
        "risk": risk,
        "effect": contract.effect.value,
        "profile": verdict.profile,
        "summary": words.summary,
        "reasons": reasons,
        "findings": list(words.findings),
        "reversible": words.undoable and contract.reversible.value,
        "undo": words.undo,
        "rules": [book.hit(rule) for rule in speaking],
        "grant": grant.terms.id if grant else "",
        "approvers": max([wanted, *(rule.approvers for rule in asking)]),
        "evidence": sorted({moment for rule in speaking for moment in rule.evidence}, reverse=True),
        "expires_s": min(waits, default=None),
    }
    return made(Decision, fields)


class Verdict(NamedTuple):
    """What rules and profile say of a call.

    `yields`: a grant may turn it into allow. `signed`: the device itself wants operators' signatures.
    """

    answer: Answer
    profile: Profile
    reasons: list[Reason]
    speaking: list[Rule]
    yields: bool = False
    signed: bool = False


def weigh(question: Question, file: PolicyFile, book: RuleBook, problem: str = "") -> Verdict:
    """Let rules and profile answer, grants apart; `problem` says that the policy is broken."""
    effect, risk = question.tool.contract.effect.value, question.risk
    profile, origin = file.profile_for(question.device)
    by_profile, told = _by_profile(profile, effect, risk, origin)
    speaking = book.speaking(question)

    signed = _wanted_by_device(question)

    def say(answer: Answer, *reasons: Reason, yields: bool = False) -> Verdict:
        if signed is not None and answer is not Answer.DENY:
            # The device would refuse it unsigned, so nothing lets it go without being asked.
            return Verdict(Answer.ASK, profile, [signed, *reasons], speaking, signed=True)
        return Verdict(answer, profile, list(reasons), speaking, yields, signed is not None)

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
    """What a profile answers, and why. There are few of these, and every decision has one."""
    answer = _answer(profile, effect, risk)
    return answer, Reason(text=_why(profile, effect, risk, answer), origin=origin)


def _wanted_by_device(question: Question) -> Reason | None:
    device = question.device
    tool = question.tool
    # Of a hosted server's tool only its own word says that it changes nothing.
    looks_only = tool.tool_type != "action" and tool.namespace == BUILT_IN_NAMESPACE
    if not device.requires_approval or looks_only:
        return None
    who = "an operator" if device.approvers == 1 else f"{device.approvers} operators"
    return Reason(text=f"{device.name} wants every action signed by {who}", origin=f"device {device.name}")


def _by_rule(rule: Rule, book: RuleBook) -> Reason:
    line = book.line_of(rule)
    word = {Answer.ALLOW: "allows", Answer.ASK: "asks", Answer.DENY: "denies"}[rule.decision]
    where = f"policy.toml line {line}" if line else "policy.toml"
    return Reason(text=rule.reason or f"Rule {rule.id} {word} this", origin=f"rule {rule.id}, {where}")


def _by_grant(grant: Grant) -> Reason:
    terms = grant.terms
    left = "" if terms.uses is None else f", use {grant.used + 1} of {terms.uses}"
    return Reason(text=f"Granted by {terms.author} until {terms.expires}{left}", origin=f"grant {terms.id}")


def _look(path: Path) -> tuple[int, ...]:
    """What changes with the file: nothing where there is none, and which error where it cannot be seen."""
    try:
        seen = os.stat(path)
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (error.errno or -1,)
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_mode)


def _highest(contract: Contract, findings: Sequence[Finding]) -> Risk:
    risk, grave = contract.risk, contract.effect.value in (Effect.UNKNOWN, Effect.DESTROY)
    # An operator who rates a tool means it, whatever its effect is.
    floor = Risk.HIGH if grave and risk.source is not Source.OPERATOR else Risk.LOW
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
