"""The marks of a device that operators set, and that scopes look at: its tags and `production`.

A scope is what decides which devices something reaches: rules, profiles, targets. To change a mark that a
scope looks at is to change that scope.
"""

from __future__ import annotations

from typing import Literal

from core.models.device_filter import parse_filter
from core.policy.policy_file import PolicyFile

Mark = Literal["tag", "production"]
MARKS: tuple[Mark, ...] = ("tag", "production")

# A plain word is searched for in the tags too, and the profile of a device depends on its tags.
_FIELDS: dict[Mark, frozenset[str]] = {
    "tag": frozenset({"tag", "", "profile"}),
    "production": frozenset({"production"}),
}


def policy_looks_at(file: PolicyFile, mark: Mark) -> bool:
    """Whether a rule or a profile of this policy depends on a mark."""
    if mark == "production":
        return any(rule.production is not None for rule in file.rules)
    return any(line.tag is not None for line in file.profiles) or any(
        rule.tag is not None for rule in file.rules
    )


def targets_look_at(targets: str, mark: Mark) -> bool:
    """Whether a filter of devices depends on a mark.

    Raises:
        BadInput: it is no filter.
    """
    return any(term.key in _FIELDS[mark] for term in parse_filter(targets).terms)
