"""Which tags and `production` marks that no operator signed count, when a service reads its journal.

A change of a mark needs a signature where a scope looks at the mark. So an unsigned one in the journal counts
only if no scope of that time did: neither the policy that was in force then, nor the targets of an agent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from core.audit.entries import Entry, Kind
from core.audit.events import AgentAdded, AgentRevoked, AgentSet, event_of
from core.audit.journal import Journal
from core.changes import ChangeKind
from core.errors import BadInput, JournalError
from core.policy.marks import MARKS, Mark, policy_looks_at, targets_look_at
from core.policy.policy_store import checked_policy, text_digest
from core.service.changes import SignedIn

Marks = frozenset[Mark]


async def marks_looked_at(
    journal: Journal, signed_in: SignedIn, policies: Iterable[Entry], agents: Iterable[Entry]
) -> dict[int, Marks]:
    """The marks that a scope looked at, at each unsigned entry that sets marks of a device.

    `policies` are the entries that accept a policy, `agents` those about agents, each oldest first.

    Raises:
        JournalError: the journal cannot be read.
    """
    entries: list[Entry] = [*policies, *agents]
    async for entry in journal.entries(f"kind:{Kind.DEVICE_SET}"):
        if _sets_marks_unsigned(entry):
            entries.append(entry)
    if not any(entry.kind is Kind.DEVICE_SET for entry in entries):
        return {}
    scopes = _Scopes(journal, signed_in)
    found: dict[int, Marks] = {}
    for entry in sorted(entries, key=lambda entry: entry.seq):
        if entry.kind is Kind.DEVICE_SET:
            found[entry.seq] = await scopes.marks()
        else:
            scopes.take(entry)
    return found


def _sets_marks_unsigned(entry: Entry) -> bool:
    words = entry.body
    return "signed" not in words and any(words.get(name) is not None for name in ("tags", "production"))


@dataclass(slots=True)
class _Scopes:
    """The scopes at a point of the journal."""

    journal: Journal
    signed_in: SignedIn
    # The texts that may have been in force: the newest signed one, and unsigned ones since then.
    texts: list[str] = field(default_factory=list)
    targets: dict[str, str] = field(default_factory=dict)
    _marks_of: dict[str, Marks] = field(default_factory=dict)

    def take(self, entry: Entry) -> None:
        """Apply an entry about a policy or an agent."""
        match event_of(entry):
            case AgentAdded(agent=name, settings=settings) | AgentSet(agent=name, settings=settings):
                self.targets[name] = str(settings.get("targets", ""))
            case AgentRevoked(agent=name):
                self.targets.pop(name, None)
            case _ if sha := str(entry.body.get("policy_pin", "")):
                change = self.signed_in(entry, ChangeKind.POLICY)
                if change is not None and change.after == {"sha256": sha}:
                    self.texts = [sha]
                elif entry.body.get("signed") is None:
                    self.texts.append(sha)

    async def marks(self) -> Marks:
        """The marks that these scopes look at."""
        found: set[Mark] = set()
        for sha in dict.fromkeys(self.texts):
            if sha not in self._marks_of:
                self._marks_of[sha] = await self._marks_of_policy(sha)
            found |= self._marks_of[sha]
        for targets in set(self.targets.values()):
            if targets not in self._marks_of:
                self._marks_of[targets] = _marks_of_targets(targets)
            found |= self._marks_of[targets]
        return frozenset(found)

    async def _marks_of_policy(self, sha: str) -> Marks:
        try:
            text = "" if sha == text_digest("") else (await self.journal.get_blob(sha)).decode()
            file = checked_policy(text)
        except (JournalError, BadInput, UnicodeDecodeError):
            # What cannot be read may have looked at anything.
            return frozenset(MARKS)
        return frozenset(mark for mark in MARKS if policy_looks_at(file, mark))


def _marks_of_targets(targets: str) -> Marks:
    try:
        return frozenset(mark for mark in MARKS if targets_look_at(targets, mark))
    except BadInput:
        # Such an agent is not read back.
        return frozenset()
