"""The scopes of a home that look at a device's tags or production mark.

A scope is what decides which devices something reaches: rules, profiles, the targets of agents and of saved
batches. Setting a mark that one of them looks at widens that scope, so that an operator signs the mark.
"""

from __future__ import annotations

import asyncio

from core.batch.saved import SavedBatches
from core.errors import BadInput
from core.policy.marks import Mark, policy_looks_at, targets_look_at
from core.service.service import Service
from core.text import some_names


async def scopes_looking_at(service: Service, mark: Mark) -> list[str]:
    """The scopes that depend on this mark of a device, in words; empty if none does."""
    looking = []
    if any(policy_looks_at(file, mark) for file in service.policy.files):
        looking.append("rules or profiles")
    agents = [agent.name for agent in service.agents.list() if targets_look_at(agent.settings.targets, mark)]
    if agents:
        looking.append(f"the targets of {_named('agent', 'agents', agents)}")
    batches = await asyncio.to_thread(_batches_looking_at, SavedBatches(service.home.batches), mark)
    if batches:
        looking.append(f"the targets of {_named('saved batch', 'saved batches', batches)}")
    return looking


def _batches_looking_at(saved: SavedBatches, mark: Mark) -> list[str]:
    return [name for name in saved.names() if _batch_looks_at(saved, name, mark)]


def _batch_looks_at(saved: SavedBatches, name: str, mark: Mark) -> bool:
    try:
        return targets_look_at(saved.load(name).targets, mark)
    except BadInput:
        return False  # a file that cannot be read cannot be run


def _named(one_word: str, many_word: str, names: list[str]) -> str:
    return f"{one_word if len(names) == 1 else many_word} {some_names(names)}"
