"""The scopes of a home that look at a device's tags or production mark.

A scope is what decides which devices something reaches: rules, profiles, the targets of agents and of saved
batches. Who sets a tag that one of them looks at
widens that scope, so that an operator signs the tag.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from core.batch.saved import SavedBatches
from core.errors import BadInput
from core.fleet.filter import parse_filter
from core.policy.policy_file import PolicyFile
from core.service.service import Service
from core.text import some_names

Mark = Literal["tag", "production"]


async def scopes_looking_at(service: Service, mark: Mark) -> list[str]:
    """The scopes that depend on this mark of a device, in words; empty if none does."""
    looking = []
    if any(_policy_looks_at(file, mark) for file in service.policy.files):
        looking.append("rules or profiles")
    agents = [agent.name for agent in service.agents.list() if _looks_at(agent.settings.targets, mark)]
    if agents:
        looking.append(f"the targets of {_named('agent', 'agents', agents)}")
    batches = await asyncio.to_thread(_batches_looking_at, SavedBatches(service.home.batches), mark)
    if batches:
        looking.append(f"the targets of {_named('saved batch', 'saved batches', batches)}")
    return looking


def _policy_looks_at(file: PolicyFile, mark: Mark) -> bool:
    if mark == "production":
        return any(rule.production is not None for rule in file.rules)
    return any(line.tag is not None for line in file.profiles) or any(
        rule.tag is not None for rule in file.rules
    )


def _batches_looking_at(saved: SavedBatches, mark: Mark) -> list[str]:
    return [name for name in saved.names() if _batch_looks_at(saved, name, mark)]


def _batch_looks_at(saved: SavedBatches, name: str, mark: Mark) -> bool:
    try:
        return _looks_at(saved.load(name).targets, mark)
    except BadInput:
        return False  # a file that cannot be read cannot be run


def _looks_at(targets: str, mark: Mark) -> bool:
    # A plain word is searched for in the tags too, and the profile of a device depends on its tags.
    keys = {"tag": ("tag", "", "profile"), "production": ("production",)}[mark]
    return any(term.key in keys for term in parse_filter(targets).terms)


def _named(one_word: str, many_word: str, names: list[str]) -> str:
    return f"{one_word if len(names) == 1 else many_word} {some_names(names)}"
