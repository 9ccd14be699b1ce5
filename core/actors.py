"""The actors that requests are recorded under: how those of agents are told from those of people."""

from __future__ import annotations

AGENT_PREFIX = "agent:"
"""The beginning of the actor of every agent."""
# A person at a window or a terminal. An actor of another kind is an agent, or unknown and treated as one.
_PEOPLE = ("operator:", "window:", "cli:")


def is_agent(actor: str) -> bool:
    """Whether an actor is an agent."""
    return actor.startswith(AGENT_PREFIX)


def is_person(actor: str) -> bool:
    """Whether an actor is a person at a window or a terminal."""
    return actor.startswith(_PEOPLE)
