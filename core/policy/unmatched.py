"""Finds rules and contracts that fit no tool of any known device, and so only seem to protect something."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from core.policy.loose_patterns import PolicyWarning
from core.policy.policy_file import Override, PolicyFile
from core.policy.rules import Rule, fits, is_glob

# Limit of names to match patterns against, for all entries together; takes about a second.
MOST_TRIED = 500_000
_NONE = "speaks of no tool: no known device has one of this name"
_OWN = (
    "speaks of no tool as a device lists it, only of tools as their MCP servers call them ({name}); what lets"
    " more run means such a tool by its listed name, or if it names the server too (namespace)"
)


def unmatched_rules(policy: PolicyFile, known: Mapping[str, Collection[str]]) -> Iterator[PolicyWarning]:
    """Warnings for rules, then contracts, whose tool no device has, in the order of the file.

    `known` maps each device to the names of all tools it ever had. Without any names there are no warnings.
    Only conditions on the names of device and tool are considered. After `MOST_TRIED` names, a last warning
    says from which entry on nothing was compared.
    """
    listed: dict[tuple[str, ...], dict[str, str]] = {}
    left = MOST_TRIED
    if not any(known.values()):
        return
    for line, name, entry in _entries(policy):
        if "*" in entry.tool:
            continue
        devices = tuple(device for device in known if fits(device, entry.device))
        if devices not in listed:
            listed[devices] = _names({tool for device in devices for tool in known[device]})
        names = listed[devices]
        left -= len(names) if any(map(is_glob, entry.tool)) else 0
        if left < 0:
            text = "what follows from here on was not compared with the tools of devices: there are too many"
            yield PolicyWarning(line=line, rule=name, message=text)
            return
        if (message := _fault(entry, names)) is not None:
            yield PolicyWarning(line=line, rule=name, message=message)


def _entries(policy: PolicyFile) -> Iterator[tuple[int, str, Rule | Override]]:
    """Each rule and contract as (line or 0 if unknown, name in warnings, entry)."""
    for place, rule in enumerate(policy.rules):
        yield policy.line_numbers[place] if place < len(policy.line_numbers) else 0, rule.id, rule
    for number, contract in enumerate(policy.contracts, 1):
        yield 0, f"[[contract]] {number}", contract


def _fault(entry: Rule | Override, names: Mapping[str, str]) -> str | None:
    if any(map(is_glob, entry.tool)):
        meant = [name for name in names if fits(name, entry.tool)]
    else:
        meant = [name for name in entry.tool if name in names]
    own = [names[name] for name in meant if names[name]]
    holds_back = entry.against if isinstance(entry, Rule) else entry.only_raises
    if len(own) < len(meant) or (own and (holds_back or entry.namespace is not None)):
        return None
    return _OWN.format(name=min(own)) if own else _NONE


def _names(listed: set[str]) -> dict[str, str]:
    """Every name by which an entry may name a tool, mapped to "" if listed, else to the listed name.

    A listed name does not show where the server's own name for the tool begins, so every suffix after `_` or
    `.` counts as such a name.
    """
    names: dict[str, str] = {}
    for name in sorted(listed):
        for place, sign in enumerate(name):
            if sign in "_." and 0 < place < len(name) - 1:
                names.setdefault(name[place + 1 :], name)
    return {**names, **dict.fromkeys(listed, "")}
