"""Rehearsal of a policy that is not in force: compares its decisions with those of the accepted policy.

It judges every known tool, and the commands in the journal. Tools are judged without arguments that raise
their risk, so that the numbers are an upper bound of what would run; the journal's commands are judged with
their own arguments.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from core.models.devices import Device
from core.models.tools import Tool
from core.policy.engine import PolicyEngine, PolicyQuery
from core.policy.grant_book import GrantBook
from core.policy.models import Answer
from core.policy.policy_file import Overrides, PolicyFile, parse_policy
from core.service.service import Service
from core.service.time_machine import try_over_journal

# A thousand devices with twenty tools each; beyond this, the result states that the comparison is partial.
MOST_PAIRS = 20_000
MOST_NAMED = 5
ACTOR = "agent:any"
_RANK = {Answer.DENY: 0, Answer.ASK: 1, Answer.ALLOW: 2}

_Pair = tuple[Device, Tool, Tool]


async def rehearse(service: Service, text: str) -> list[str]:
    """Sentences about calls that would run, or only need approval, under the new text but not now.

    Raises:
        BadInput: the text has a fault.
    """
    after = parse_policy(text)
    before = parse_policy(service.policy.accepted_text)
    pairs, all_of_them = _pairs(service, after)
    sentences = await asyncio.to_thread(_compare, pairs, before, after)
    if not all_of_them:
        sentences.append(f"Only the first {MOST_PAIRS:,} tools of devices were compared.")
    devices = {device.name: device for device in service.fleet.devices()}
    trial = await try_over_journal(service.journal, after, devices.get, 0)
    now = await try_over_journal(service.journal, before, devices.get, 0)
    if trial.allowed > now.allowed:
        sentences.append(
            f"Of {trial.looked_at:,} commands in the journal it would have run {trial.allowed:,} unasked; "
            f"the accepted policy {now.allowed:,}."
        )
    if trial.allowed_but_denied_by_human:
        sentences.append(f"{trial.allowed_but_denied_by_human:,} of these an operator denied then.")
    return sentences


def _pairs(service: Service, after: PolicyFile) -> tuple[list[_Pair], bool]:
    overrides = Overrides(after.contracts)
    pairs: list[_Pair] = []
    for device in service.fleet.devices():
        now = {tool.tool_name: tool for tool in service.fleet.tools(device.name)}
        for tool in service.fleet.tools_under(device.name, overrides):
            if len(pairs) >= MOST_PAIRS:
                return pairs, False
            if tool.tool_name in now:
                pairs.append((device, now[tool.tool_name], tool))
    return pairs, True


def _compare(pairs: list[_Pair], before: PolicyFile, after: PolicyFile) -> list[str]:
    was, would = PolicyEngine(before), PolicyEngine(after)
    grants = GrantBook()
    unasked: dict[str, list[str]] = defaultdict(list)
    no_longer_denied: dict[str, list[str]] = defaultdict(list)
    for device, tool_before, tool_after in pairs:
        then = was.decide(_asked(device, tool_before), grants).answer
        now = would.decide(_asked(device, tool_after), grants).answer
        if _RANK[now] <= _RANK[then]:
            continue
        (unasked if now is Answer.ALLOW else no_longer_denied)[tool_after.tool_name].append(device.name)
    return [
        *_sentence(unasked, "would no longer ask"),
        *_sentence(no_longer_denied, "would ask and no longer be denied"),
    ]


def _asked(device: Device, tool: Tool) -> PolicyQuery:
    return PolicyQuery(device=device, tool=tool, parameters={}, redacted={}, actor=ACTOR)


def _sentence(tools: dict[str, list[str]], what: str) -> list[str]:
    if not tools:
        return []
    # Most devices first, then by name.
    named = sorted(tools, key=lambda name: (-len(tools[name]), name))[:MOST_NAMED]
    words = ", ".join(f"{name} on {_count(len(tools[name]), 'device')}" for name in named)
    more = f" and {len(tools) - len(named)} more" if len(tools) > len(named) else ""
    return [f"{_count(len(tools), 'tool')} {what}: {words}{more}."]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
