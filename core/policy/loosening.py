"""Compares two policies: finds the changes by which the second may allow calls that the first does not.

The comparison uses the two files, not trial calls. Deny beats ask beats grant beats allow beats profile. So a
policy that keeps every deny and ask rule, adds no allow rule, has no laxer profile and has the same
`[[contract]]` entries allows nothing more. Every other change counts as looser, so in doubt an operator must
sign. A changed text that operators read when they decide, a rule's reason or a contract's `why`, counts as
looser.
"""

from __future__ import annotations

from core.policy.models import Answer
from core.policy.policy_file import Override, PolicyFile
from core.policy.profiles import is_as_strict
from core.policy.rules import Rule


def loosenings(before: PolicyFile, after: PolicyFile) -> list[str]:
    """The changes by which `after` may allow more than `before`, a sentence each; empty if provably none."""
    return [
        *_profile_changes(before, after),
        *_rule_changes(before.rules, after.rules),
        *_contract_changes(before, after),
    ]


def _profile_changes(before: PolicyFile, after: PolicyFile) -> list[str]:
    changes = []
    if not is_as_strict(after.profile, before.profile):
        changes.append(f"The profile becomes {after.profile.value}; it was {before.profile.value}.")
    if before.profiles == after.profiles:
        return changes
    same_scopes = [(line.device, line.tag) for line in before.profiles] == [
        (line.device, line.tag) for line in after.profiles
    ]
    # The first fitting entry applies to a device, so entries can be compared only if none moved.
    if not same_scopes:
        return [*changes, "Other devices have profiles of their own."]
    return changes + [
        f"The profile of {line.device or f'tag {line.tag}'} becomes {line.profile.value}; "
        f"it was {earlier.profile.value}."
        for earlier, line in zip(before.profiles, after.profiles, strict=True)
        if not is_as_strict(line.profile, earlier.profile)
    ]


def _rule_changes(before: list[Rule], after: list[Rule]) -> list[str]:
    # A rule's examples do not affect decisions.
    earlier = {rule.id: _deciding_fields(rule) for rule in before}
    now = {rule.id: _deciding_fields(rule) for rule in after}
    changes = [
        f"Rule {rule.id} ({_VERBS[rule.decision]}) is gone."
        for rule in before
        if rule.decision is not Answer.ALLOW and rule.id not in now
    ]
    for rule in after:
        if now[rule.id] == earlier.get(rule.id):
            continue
        hours = f", {rule.time.words()}" if rule.time is not None else ""
        if rule.decision is Answer.ALLOW:
            otherwise = " something else than before" if rule.id in earlier else ""
            changes.append(f"Rule {rule.id} allows{otherwise}{hours}.")
        elif rule.id in earlier and earlier[rule.id]["decision"] != Answer.ALLOW:
            changes.append(f"Rule {rule.id} ({_VERBS[rule.decision]}) is another one than before{hours}.")
    return [*changes, *_reason_changes(before, after)]


def _reason_changes(before: list[Rule], after: list[Rule]) -> list[str]:
    """The reasons that differ. Operators read them on the card of a request, and approve because of them."""
    earlier = {rule.id: rule.reason for rule in before}
    return [
        f"Rule {rule.id} gives another reason: {rule.reason or 'none'}"
        for rule in after
        if rule.reason != earlier.get(rule.id, "")
    ]


_VERBS = {Answer.ALLOW: "allows", Answer.ASK: "asks", Answer.DENY: "denies"}


def _deciding_fields(rule: Rule) -> dict[str, object]:
    return rule.model_dump(exclude={"reason", "match", "not_match"})


def worded_as(file: PolicyFile, accepted: PolicyFile) -> PolicyFile:
    """The policy of a file with the accepted texts for reading: of rules (`reason`) and contracts (`why`).

    A rule that was not accepted gives no reason.
    """
    reasons = {rule.id: rule.reason for rule in accepted.rules}
    whys = [(_facts(entry), entry.why) for entry in accepted.contracts]
    rules = [rule.model_copy(update={"reason": reasons.get(rule.id, "")}) for rule in file.rules]
    contracts = [
        entry.model_copy(update={"why": next((why for facts, why in whys if facts == own), entry.why)})
        for entry in file.contracts
        for own in [_facts(entry)]
    ]
    return file.model_copy(update={"rules": rules, "contracts": contracts})


def _facts(entry: Override) -> dict[str, object]:
    return entry.model_dump(exclude={"why"})


def _contract_changes(before: PolicyFile, after: PolicyFile) -> list[str]:
    earlier = [entry.model_dump() for entry in before.contracts]
    now = [entry.model_dump() for entry in after.contracts]
    if earlier == now:
        return []
    # An entry sets effect and risk for all rules and profiles, and takes precedence over later entries.
    named = sorted(
        {
            name
            for entry in (*before.contracts, *after.contracts)
            if entry.model_dump() not in (earlier if entry in after.contracts else now)
            or len(earlier) != len(now)
            for name in entry.tool
        }
    )
    return [
        f"What is held to be true of tools changes ([[contract]]): {', '.join(named[:10]) or 'their order'}."
    ]
