"""The registered agents of a home, read from its journal when a service starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from core.audit.entries import Entry, Kind
from core.audit.events import AgentAdded, AgentRevoked, AgentSet, AgentStopped, event_of
from core.changes import ChangeKind, SignedChange
from core.errors import BadInput, first_fault
from core.policy.agent_models import Agent, AgentSettings
from core.policy.agents import Agents, loosenings
from core.service.changes import SignedIn

KINDS = (Kind.AGENT_ADDED, Kind.AGENT_SET, Kind.AGENT_STOPPED, Kind.AGENT_REVOKED)


def restore_agents(entries: Iterable[Entry], signed_in: SignedIn, notes: list[str]) -> Agents:
    """Rebuild the agents from entries of `KINDS`, oldest first.

    An agent that no operator signed does not count, and neither do unsigned settings that loosen; sentences
    about them are added to `notes`.
    """
    agents = Agents()
    for entry in entries:
        event = event_of(entry)
        try:
            match event:
                case AgentAdded():
                    _add(agents, entry, event, signed_in)
                case AgentSet():
                    agents.set(event.agent, _settings(agents, entry, event, signed_in))
                case AgentStopped():
                    agents.set(event.agent, agents.get(event.agent).settings.paused_now())
                case AgentRevoked():
                    agents.drop(event.agent)
        except (BadInput, ValidationError) as error:
            what = first_fault(error)
            if isinstance(error, ValidationError):
                what = f"its settings cannot be used: {what}"
            notes.append(f"Entry {entry.seq} about an agent does not count: {what}")
    return agents


def _add(agents: Agents, entry: Entry, event: AgentAdded, signed_in: SignedIn) -> None:
    change = signed_in(entry, ChangeKind.AGENT_ADDED)
    if change is None or change.subject != event.agent:
        raise BadInput("no operator of this home signed it.")
    after: dict[str, Any] = dict(change.after)
    digest = str(after.pop("token_sha256", ""))
    settings = AgentSettings.model_validate(after)
    operator = SignedChange.model_validate(event.signed).statement.approver
    agents.put(Agent(name=change.subject, settings=settings, added_at=entry.time), digest, operator)


def _settings(agents: Agents, entry: Entry, event: AgentSet, signed_in: SignedIn) -> AgentSettings:
    change = signed_in(entry, ChangeKind.AGENT_SET)
    if change is not None and change.subject == event.agent:
        return AgentSettings.model_validate(change.after)
    settings = AgentSettings.model_validate(event.settings)
    if event.signed is not None or loosenings(agents.get(event.agent).settings, settings):
        raise BadInput("no operator of this home signed it.")
    return settings
