"""The policy in force: what an operator signed, made stricter by what policy.toml says now.

policy.toml is a file that any program of its user can write. So it may deny and ask at once, and lets nothing
more run until an operator has signed it: of the accepted text and the text in the file, each call gets the
stricter answer. A file that is gone, broken, or not this user's own alone makes everything ask; what the
accepted text denies stays denied.

What the two say of a call is judged by `core.policy.judging`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from core.canonical import sha256_hex
from core.errors import BadInput
from core.fleet.models import Device, Plain
from core.policy.examples import run_examples
from core.policy.grants import GrantBook, GrantMiss
from core.policy.judging import Asked, Judge, question_of
from core.policy.loosening import loosenings, more_careful
from core.policy.models import Answer, Decision, Profile, Reason, RuleHit
from core.policy.overrides import Overrides
from core.policy.policy_file import PolicyFile, parse_policy, read_policy_text
from core.policy.rule_book import NearMiss
from core.quick import changed

NOT_ACCEPTED = "policy.toml, not accepted"


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
        self.grants = grants or GrantBook()
        self.problem = ""
        self._text = ""
        # The file as it is now, judged by beside the accepted text; None where both say the same.
        self._edited: Judge | None = None
        self._take_accepted("")

    def restore(self, accepted: str) -> Policy:
        """Begin with the text that the journal says is accepted; the empty one before any was.

        Raises:
            BadInput: the text is none that could have been accepted.
        """
        self._take_accepted(accepted)
        return self.load()

    def load(self) -> Policy:
        """Read the file again. A broken one is not an error here: everything asks until it is mended."""
        # Looked at first: a change between the two is seen the next time.
        self._seen = _look(self._path)
        try:
            text = read_policy_text(self._path)
            if text is None and self._accepted_text:
                raise BadInput(
                    "policy.toml is missing, and one was accepted; put it back or accept its absence."
                )
            self._text = text or ""
            file = checked_policy(self._text)
            # Texts that say the same, but for comments and reasons, need no second judge.
            self._edited = None if file == self._accepted.file else Judge(file)
            self.problem = ""
        except BadInput as error:
            # What the last good text denied stays denied.
            self.problem = error.message
        return self

    def refresh(self) -> None:
        """Read the file again if it was edited: that counts from the next decision on."""
        if _look(self._path) != self._seen:
            self.load()
            self._changed()

    def accept(self, text: str) -> None:
        """Let this text be the accepted one: an operator signed it, or it lets nothing more run; journalled.

        Raises:
            BadInput: it has a fault.
        """
        self._take_accepted(text)
        self.load()

    @property
    def path(self) -> Path:
        return self._path

    @property
    def accepted_text(self) -> str:
        """The text that was accepted last."""
        return self._accepted_text

    @property
    def text(self) -> str:
        """The text of the file when it could be read last; empty where there is none."""
        return self._text

    @property
    def pending(self) -> list[str]:
        """What the file would loosen, a sentence each, and does not until an operator accepts it."""
        return loosenings(self._accepted.file, self._edited.file) if self._edited else []

    @property
    def stricter(self) -> bool:
        """Whether the file differs from the accepted text and provably lets nothing more run."""
        return self._edited is not None and not self.pending

    @property
    def files(self) -> list[PolicyFile]:
        """What holds: the accepted file, and the edited one where it differs. Of both the stricter counts."""
        return [self._accepted.file, *([self._edited.file] if self._edited else [])]

    @property
    def profile(self) -> Profile:
        """The profile for every device that has none of its own."""
        return more_careful([file.profile for file in self.files])

    def profile_of(self, device: Device) -> Profile:
        """The profile that holds for one device."""
        return more_careful([file.profile_for(device)[0] for file in self.files])

    def decide(self, asked: Asked, refreshed: bool = False) -> Decision:
        """Judge one call. The answer is the object that is enforced, shown and journalled.

        `refreshed`: the file was looked at for this very call already, as `Fleet.target` does.
        """
        if not refreshed:
            self.refresh()
        decision = self._accepted.decide(asked, self.grants, self.problem)
        if self._edited is None:
            return decision
        edited = self._edited.decide(asked, self.grants, self.problem)
        return _stricter(decision, edited, self._contract_differs(asked))

    def explain(self, asked: Asked) -> Explanation:
        """Judge one call, and say which rules and grants nearly spoke of it."""
        decision = self.decide(asked)
        question = question_of(asked, decision.risk)
        near = (self._edited or self._accepted).book.near(question)
        grants = self.grants.near(question, asked.run, asked.shown)
        return Explanation(decision=decision, near=near, near_grants=grants)

    @property
    def folders(self) -> set[str]:
        """Every folder that a rule or a grant names with `below`."""
        edited = self._edited.book.folders if self._edited else ()
        return {*self._accepted.book.folders, *edited, *self.grants.folders}

    def _contract_differs(self, asked: Asked) -> bool:
        """Whether the file holds something else of this tool than the accepted text, which is in force."""
        if self._edited is None or self._edited.file.contracts == self._accepted.file.contracts:
            return False
        names = (asked.device.name, asked.tool.tool_name, asked.tool.namespace)
        return Overrides(self._edited.file.contracts).of(*names) != self.overrides.of(*names)

    def _take_accepted(self, text: str) -> None:
        file = checked_policy(text)
        self._accepted_text = text
        self._accepted = Judge(file)
        # The same object as long as the same holds: who has judged by it need not judge again.
        known: Overrides | None = getattr(self, "overrides", None)
        if known is None or file.contracts != known.entries:
            self.overrides = Overrides(file.contracts)


def _stricter(accepted: Decision, edited: Decision, contract_differs: bool) -> Decision:
    """The answer that holds of what the accepted text says and what the file says."""
    stricter = edited if _STRICTNESS[edited.answer] >= _STRICTNESS[accepted.answer] else accepted
    if stricter.answer is Answer.DENY:
        return stricter
    evidence = sorted({moment for one in (accepted, edited) for moment in one.evidence}, reverse=True)
    if stricter.answer is Answer.ALLOW and not contract_differs:
        return stricter if stricter.evidence == evidence else changed(stricter, evidence=evidence)
    # Each may ask, for reasons and with conditions of its own: all of them hold.
    asking = [one for one in (accepted, edited) if one.answer is Answer.ASK]
    waits = [one.expires_s for one in asking if one.expires_s is not None]
    reasons, rules = list(stricter.reasons), list(stricter.rules)
    if contract_differs:
        words = "policy.toml says something else of this tool, which is not accepted"
        reasons.insert(0, Reason(text=words, origin=NOT_ACCEPTED))
        # As a rule that asks: no grant covers it.
        rules.insert(0, RuleHit(id="not-accepted", decision=Answer.ASK, reason=words))
    elif edited.answer is Answer.ALLOW:
        reasons.insert(0, Reason(text="What policy.toml allows is not accepted yet", origin=NOT_ACCEPTED))
    return changed(
        stricter,
        answer=Answer.ASK,
        grant="",
        reasons=reasons,
        rules=rules,
        approvers=max((one.approvers for one in asking), default=stricter.approvers),
        evidence=evidence,
        expires_s=min(waits, default=None),
    )


_STRICTNESS = {Answer.ALLOW: 0, Answer.ASK: 1, Answer.DENY: 2}


def checked_policy(text: str) -> PolicyFile:
    """Understand a policy and run its examples.

    Raises:
        BadInput: it cannot be understood, or an example says otherwise than its rule; says where.
    """
    file = parse_policy(text)
    for result in run_examples(file):
        if not result.ok:
            kind = "match" if result.wanted else "not_match"
            at = f" line {result.line}" if result.line else ""
            raise BadInput(f"policy.toml{at}: rule {result.rule}, {kind} {result.number}: {result.fault}")
    return file


def text_digest(text: str) -> str:
    """What a policy's text is named by in changes and in the journal: SHA-256, hexadecimal."""
    return sha256_hex(text.encode())


def _look(path: Path) -> tuple[int, ...]:
    """What changes with the file: nothing where there is none, and which error where it cannot be seen."""
    try:
        seen = os.stat(path)
    except FileNotFoundError:
        # A link that leads nowhere is no missing file.
        return (1,) if path.is_symlink() else ()
    except OSError as error:
        return (error.errno or -1,)
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_mode, seen.st_uid)
