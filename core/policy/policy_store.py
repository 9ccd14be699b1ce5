"""Holds the policy in force: the text that an operator accepted, and the present policy.toml where stricter.

Any program of the user can write policy.toml. So its deny and ask rules apply at once, but nothing more is
allowed until an operator has signed the text: each call gets the stricter answer of the accepted text and
the file. If the file is missing, broken, or may be written by other users, everything asks; calls that the
accepted text denies stay denied.

`core.policy.engine` decides a call by each of the two texts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from core.canonical_json import sha256_hex
from core.errors import BadInput
from core.models.devices import Device
from core.policy.agents import Agents
from core.policy.engine import PolicyEngine, PolicyQuery, match_context_of
from core.policy.examples import run_examples
from core.policy.grant_book import GrantBook
from core.policy.loosening import loosenings, worded_as
from core.policy.models import Answer, Decision, Explanation, Profile, Reason, RuleHit
from core.policy.policy_file import Overrides, PolicyFile, parse_policy, read_policy_text
from core.policy.profiles import more_careful
from core.text import sentences

NOT_ACCEPTED = "policy.toml, not accepted"


class Policy:
    """Decides commands. Reads one file; does not use links to devices, queues or the journal."""

    def __init__(
        self,
        path: Path,
        changed: Callable[[], None] = lambda: None,
        grants: GrantBook | None = None,
        agents: Agents | None = None,
    ) -> None:
        """`changed` is called when the file is found to have changed. `agents` limit what agents ask for."""
        self._path, self._file_name = path, str(path)
        self._changed = changed
        self._loaded_state: tuple[int, ...] = ()
        self.grants = grants or GrantBook()
        self._agents = agents or Agents()
        self.problem = ""
        self._text = ""
        # The policy of the present file; None if it equals the accepted one.
        self._written: PolicyFile | None = None
        # Decides by the present file, next to the accepted text; None if both decide alike. Its rules give
        # accepted reasons only.
        self._edited: PolicyEngine | None = None
        self._take_accepted("")

    def restore(self, accepted: str) -> Policy:
        """Start with the accepted text from the journal, which is empty before the first was accepted.

        Raises:
            BadInput: the text is invalid, so it cannot have been accepted.
        """
        self._take_accepted(accepted)
        return self.load()

    def load(self) -> Policy:
        """Read the file again. A broken file raises nothing: everything asks until it is repaired."""
        # The state is taken before reading, so that a change in between is noticed by the next `refresh`.
        self._loaded_state = _file_state(self._file_name)
        try:
            text = read_policy_text(self._path)
            if text is None and self._accepted_text:
                raise BadInput(
                    "policy.toml is missing, and one was accepted; put it back or accept its absence."
                )
            self._text = text or ""
            file = checked_policy(self._text)
            self._written = None if file == self._accepted.file else file
            worded = worded_as(file, self._accepted.file)
            # An equal policy needs no second `PolicyEngine`.
            self._edited = None if worded == self._accepted.file else PolicyEngine(worded)
            self.problem = ""
        except BadInput as error:
            # `_edited` stays, so that calls denied by the last valid text stay denied.
            self.problem = error.message
        return self

    def refresh(self) -> None:
        """Read the file again if it has changed. The change applies from the next decision."""
        if _file_state(self._file_name) != self._loaded_state:
            self.load()
            self._changed()

    def accept(self, text: str) -> None:
        """Make this text the accepted one. The caller has journalled that an operator signed it, or that it
        lets nothing more run.

        Raises:
            BadInput: the text is invalid, or one of its examples fails.
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
        """The text of the file when it was last readable; empty if there was no file."""
        return self._text

    @property
    def pending(self) -> list[str]:
        """The loosenings of the file once an operator accepts it, one sentence per change."""
        return loosenings(self._accepted.file, self._written) if self._written else []

    @property
    def stricter(self) -> bool:
        """Whether the file's policy differs from the accepted one and provably lets nothing more run."""
        return self._written is not None and not self.pending

    @property
    def files(self) -> list[PolicyFile]:
        """The policies in force: the accepted one, and the edited file's if it differs."""
        return [self._accepted.file, *([self._edited.file] if self._edited else [])]

    @property
    def profile(self) -> Profile:
        """The profile of devices that have none of their own."""
        return more_careful([file.profile for file in self.files])

    def profile_of(self, device: Device) -> Profile:
        """The profile that applies to one device."""
        return more_careful([file.profile_for(device)[0] for file in self.files])

    def decide(self, query: PolicyQuery) -> Decision:
        """Decide one call by the policy that was last read (`refresh`).

        The returned object is the one that is enforced, shown and journalled.
        """
        limit = self._agents.profile_of(query.actor)
        if limit is not None:
            query = query._replace(limit=limit)
        decision = self._accepted.decide(query, self.grants, self.problem)
        if self._edited is None:
            return decision
        edited = self._edited.decide(query, self.grants, self.problem)
        return _stricter(decision, edited, self._contract_differs(query))

    def explain(self, query: PolicyQuery) -> Explanation:
        """Decide one call, and list the rules and grants that nearly applied."""
        decision = self.decide(query)
        context = match_context_of(query, decision.risk)
        near_rules = (self._edited or self._accepted).index.near(context)
        grants = self.grants.near(context, query.run, query.redacted)
        return Explanation(decision=decision, near=near_rules, near_grants=grants)

    @property
    def folders(self) -> set[str]:
        """Every folder that a rule or a grant names with `below`."""
        edited = self._edited.index.folders if self._edited else ()
        return {*self._accepted.index.folders, *edited, *self.grants.folders}

    def _contract_differs(self, query: PolicyQuery) -> bool:
        """Whether the file's `[[contract]]` entry for this tool differs from the accepted text's."""
        if self._edited is None or self._edited.file.contracts == self._accepted.file.contracts:
            return False
        names = (query.device.name, query.tool.tool_name, query.tool.namespace)
        return Overrides(self._edited.file.contracts).of(*names) != self.overrides.of(*names)

    def _take_accepted(self, text: str) -> None:
        file = checked_policy(text)
        self._accepted_text = text
        self._accepted = PolicyEngine(file)
        # The object stays the same while the entries are equal, so that its users need not decide again.
        current: Overrides | None = getattr(self, "overrides", None)
        if current is None or file.contracts != current.entries:
            self.overrides = Overrides(file.contracts)


def _stricter(accepted: Decision, edited: Decision, contract_differs: bool) -> Decision:
    """The decision in force, from those by the accepted text and by the file: the stricter answer."""
    stricter = edited if _STRICTNESS[edited.answer] >= _STRICTNESS[accepted.answer] else accepted
    if stricter.answer is Answer.DENY:
        return stricter
    evidence = sorted(
        {moment for decision in (accepted, edited) for moment in decision.evidence}, reverse=True
    )
    if stricter.answer is Answer.ALLOW and not contract_differs:
        return (
            stricter if stricter.evidence == evidence else stricter.model_copy(update={"evidence": evidence})
        )
    # Both may ask, each with its own approvers, evidence and time limit: the strictest of each applies.
    asking_decisions = [decision for decision in (accepted, edited) if decision.answer is Answer.ASK]
    expiries = [decision.expires_s for decision in asking_decisions if decision.expires_s is not None]
    reasons, rules = list(stricter.reasons), list(stricter.rules)
    if contract_differs:
        text = "policy.toml says something else of this tool, which is not accepted"
        reasons.insert(0, Reason(text=text, origin=NOT_ACCEPTED))
        # Like an ask rule, which no grant overrides.
        rules.insert(0, RuleHit(id="not-accepted", decision=Answer.ASK, reason=text))
    elif edited.answer is Answer.ALLOW:
        reasons.insert(0, Reason(text="What policy.toml allows is not accepted yet", origin=NOT_ACCEPTED))
    changes = {
        "answer": Answer.ASK,
        "grant": "",
        "reasons": reasons,
        "rules": rules,
        "approvers": max((decision.approvers for decision in asking_decisions), default=stricter.approvers),
        "evidence": evidence,
        "expires_s": min(expiries, default=None),
    }
    return stricter.model_copy(update=changes)


_STRICTNESS = {Answer.ALLOW: 0, Answer.ASK: 1, Answer.DENY: 2}


def checked_policy(text: str) -> PolicyFile:
    """Parse a policy and run its examples.

    Raises:
        BadInput: the text is invalid, or an example contradicts its rule; the message says where.
    """
    file = parse_policy(text)
    for result in run_examples(file):
        if not result.ok:
            kind = "match" if result.wanted else "not_match"
            at = f" line {result.line}" if result.line else ""
            raise BadInput(
                sentences(f"policy.toml{at}: rule {result.rule}, {kind} {result.number}: {result.fault}")
            )
    return file


def text_digest(text: str) -> str:
    """The hexadecimal SHA-256 that identifies a policy's text in changes and in the journal."""
    return sha256_hex(text.encode())


def _file_state(path: str) -> tuple[int, ...]:
    """A value that changes with the file: empty if there is no file, the error number if it is unreadable."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        # A broken symbolic link does not count as a missing file.
        return (1,) if os.path.islink(path) else ()
    except OSError as error:
        return (error.errno or -1,)
    return (
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_mode,
        status.st_uid,
    )
