"""The policy: from a tool's contract, its arguments and the profile to allow, ask or deny, and why."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.errors import BadInput
from core.fleet.models import Device, Effect, Risk, Source, Tool
from core.policy.models import Answer, Decision, Finding, Profile, Reason
from core.policy.policy_file import PolicyFile, read_policy, write_profile
from core.policy.words import findings_of, summary_of, undo_words


class Policy:
    """Judges commands. It reads one file and knows nothing of devices' links, queues or the journal."""

    def __init__(self, path: Path, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called when the file was found to be another one than before."""
        self._path = path
        self._changed = changed
        self._seen: tuple[int, ...] = ()
        self._file = PolicyFile()
        self.problem = ""

    def load(self) -> Policy:
        """Read the file again. A broken one is not an error here: everything asks until it is mended."""
        # Looked at first: a change between the two is seen the next time.
        self._seen = _look(self._path)
        try:
            self._file = read_policy(self._path)
            self.problem = ""
        except BadInput as error:
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

    def decide(self, device: Device, tool: Tool, parameters: dict[str, Any]) -> Decision:
        """Judge one call. The answer is the object that is enforced, shown and journalled."""
        self.refresh()
        contract = tool.contract
        findings = findings_of(tool, parameters)
        risk = _highest(contract.risk.value, contract.effect.value, findings)
        profile, origin = self._file.profile_for(device)
        reasons: list[Reason] = []
        if self.problem:
            answer = Answer.ASK
            reasons.append(Reason(text="Everything asks: the policy is broken.", origin=self.problem))
        else:
            answer = _answer(profile, contract.effect.value, risk)
            reasons.append(Reason(text=_why(profile, contract.effect.value, risk, answer), origin=origin))
        reasons.append(Reason(text=contract.risk.why, origin=f"contract, {contract.risk.source.value}"))
        if contract.effect.source is Source.DEFAULT:
            reasons.append(Reason(text=contract.effect.why, origin="contract, default"))
        reversible, undo = undo_words(tool, parameters)
        return Decision(
            answer=answer,
            risk=risk,
            effect=contract.effect.value,
            profile=profile,
            summary=summary_of(tool, parameters),
            reasons=reasons,
            findings=findings,
            reversible=reversible and contract.reversible.value,
            undo=undo,
        )


def _look(path: Path) -> tuple[int, ...]:
    """What changes with the file: nothing where there is none, and which error where it cannot be seen."""
    try:
        seen = os.stat(path)
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (error.errno or -1,)
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_mode)


def _highest(risk: Risk, effect: Effect, findings: list[Finding]) -> Risk:
    floor = Risk.HIGH if effect in (Effect.UNKNOWN, Effect.DESTROY) else Risk.LOW
    return max([risk, floor, *(finding.risk for finding in findings)], key=lambda one: one.rank)


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
