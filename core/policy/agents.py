"""The registered agents of a home: the programs that may ask for commands, each within its own limits.

An agent proves itself by a bearer token (`core.tokens`). Its profile limits what runs without asking, beside
the profile of the device; devices outside its targets do not exist for it. The journal is the only source of
agents (`core.service.trusted_agents`); adding one and loosening one is signed by an operator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from core.actors import AGENT_PREFIX, is_agent
from core.errors import BadInput, ErrorCode, Refused
from core.home import OPERATOR_NAME
from core.models.device_filter import DeviceFilter, parse_filter
from core.models.devices import Device
from core.policy.agent_models import Agent, AgentSettings, parse_targets, targets_words
from core.policy.models import Profile
from core.policy.profiles import is_as_strict
from core.similar import meant_or_known
from core.token_bucket import TokenBucket
from core.tokens import OfferedTokens, token_digest

MOST_AGENTS = 100


def no_device(name: str, seen: Iterable[str] | None = None) -> str:
    """The message for a device that does not exist for an agent; `seen` are those that do, if known."""
    message = f"No device is called {name[:100]!r}."
    return message if seen is None else f"{message} {meant_or_known(name, seen, 'Devices')}."


def loosenings(before: AgentSettings, after: AgentSettings) -> list[str]:
    """Sentences about what `after` lets an agent do beyond `before`; empty if provably nothing."""
    changes = []
    if not is_as_strict(after.profile, before.profile):
        changes.append(f"Its profile becomes {after.profile.value}; it was {before.profile.value}.")
    if not _terms(before.targets) <= _terms(after.targets):
        changes.append(f"It may use {targets_words(after.targets)}; it was {targets_words(before.targets)}.")
    if after.per_minute > before.per_minute:
        changes.append(f"It may start {after.per_minute} commands a minute; it was {before.per_minute}.")
    if after.waiting > before.waiting:
        changes.append(f"{after.waiting} of its requests may wait; it was {before.waiting}.")
    if before.paused and not after.paused:
        changes.append("It may start commands again.")
    return changes


def _terms(targets: str) -> set[str]:
    """The terms of a filter. All must hold, so that a filter with further terms matches no further device."""
    return {targets[term.start : term.end] for term in parse_filter(targets).terms}


@dataclass(slots=True)
class _Registered:
    agent: Agent
    token_sha256: str
    # Who has signed the agent in.
    operator: str
    matches: DeviceFilter
    # The commands that it may start now.
    allowance: TokenBucket


@dataclass(slots=True)
class Agents:
    """The registered agents of one home. `clock` returns monotonic seconds."""

    clock: Callable[[], float] = time.monotonic
    offered: OfferedTokens = field(default_factory=OfferedTokens)
    _by_name: dict[str, _Registered] = field(default_factory=dict)

    def list(self) -> list[Agent]:
        """Every agent, by name."""
        return [self._by_name[name].agent for name in sorted(self._by_name)]

    def get(self, name: str) -> Agent:
        """An agent.

        Raises:
            BadInput: there is no agent of that name (code `not_found`).
        """
        registered = self._by_name.get(name)
        if registered is None:
            known = meant_or_known(name, self._by_name, "Agents")
            raise BadInput(f"No agent is called {name!r}. {known}.", ErrorCode.NOT_FOUND)
        return registered.agent

    def find(self, actor: str) -> Agent | None:
        """The agent of an actor; None for other actors and for agents that are not registered."""
        registered = self._by_name.get(actor.removeprefix(AGENT_PREFIX)) if is_agent(actor) else None
        return registered.agent if registered is not None else None

    def operator_of(self, actor: str) -> str:
        """The operator who has signed an agent in: its asker, where several operators must approve."""
        registered = self._by_name.get(actor.removeprefix(AGENT_PREFIX)) if is_agent(actor) else None
        return registered.operator if registered is not None else ""

    def check_new(self, name: str) -> None:
        """Check that an agent of this name can be added, or get a new token.

        Raises:
            BadInput: the name is malformed, or differs from another agent's by the size of letters alone.
            Refused: there are `MOST_AGENTS` agents.
        """
        if not OPERATOR_NAME.fullmatch(name):
            raise BadInput("An agent's name has letters, digits, '.', '_' and '-', at most 64.")
        if any(other != name and other.lower() == name.lower() for other in self._by_name):
            raise BadInput(f"An agent's name differs from {name!r} by the size of letters alone.")
        if name not in self._by_name and len(self._by_name) >= MOST_AGENTS:
            raise Refused(
                f"There are {MOST_AGENTS} agents already.", next_step="Revoke one that is not used any more."
            )

    def put(self, agent: Agent, token_sha256: str, operator: str = "") -> None:
        """Add an agent that this operator has signed, or replace its settings and token.

        The journal must have the change. An agent that is replaced keeps what is left of its commands for
        this minute.
        """
        burst, per_s = float(agent.settings.per_minute), agent.settings.per_minute / 60
        before = self._by_name.get(agent.name)
        if before is None:
            allowance = TokenBucket(burst, per_s, self.clock)
        else:
            allowance = before.allowance.changed(burst, per_s)
        targets = parse_targets(agent.settings.targets)
        self._by_name[agent.name] = _Registered(agent, token_sha256, operator, targets, allowance)

    def set(self, name: str, settings: AgentSettings) -> Agent:
        """Replace an agent's settings; it keeps its token.

        Raises:
            BadInput: there is no agent of that name.
        """
        agent = self.get(name).model_copy(update={"settings": settings})
        self.put(agent, self._by_name[name].token_sha256, self._by_name[name].operator)
        return agent

    def drop(self, name: str) -> None:
        """Forget an agent and its token."""
        self._by_name.pop(name, None)

    def proved(self, actor: str, token: str) -> str:
        """Check that this token is the one of the agent that this actor names; returns the token's digest.

        Raises:
            Refused: it is not, or there is no such agent (code `agent_unknown`).
        """
        digest = token_digest(token)
        self.check_credential(actor, digest)
        return digest

    def check_credential(self, actor: str, token_sha256: str) -> None:
        """Check that an agent still has the token of this digest.

        Raises:
            Refused: it was revoked, or has another token (code `agent_unknown`).
        """
        registered = self._by_name.get(actor.removeprefix(AGENT_PREFIX)) if is_agent(actor) else None
        if registered is None or registered.token_sha256 != token_sha256:
            raise Refused("This is not the token of an agent of this home.", ErrorCode.AGENT_UNKNOWN)

    def check_asks(self, actor: str) -> None:
        """Check that an actor may ask for commands; people always may.

        Raises:
            Refused: it is an agent that is not registered (code `agent_unknown`) or is paused
                (`agent_paused`).
        """
        if not is_agent(actor):
            return
        agent = self.find(actor)
        if agent is None:
            raise Refused(f"{actor} is not an agent of this home, or was revoked.", ErrorCode.AGENT_UNKNOWN)
        if agent.settings.paused:
            raise Refused(f"An operator has paused {actor}; nothing was sent.", ErrorCode.AGENT_PAUSED)

    def sees(self, actor: str, device: Device) -> bool:
        """Whether a device exists for an actor.

        For people every device does. So it does for an agent that is not registered, of which a decision can
        only be explained: `check_asks` refuses what such an agent asks for.
        """
        registered = self._by_name.get(actor.removeprefix(AGENT_PREFIX)) if is_agent(actor) else None
        return registered is None or registered.matches.matches(device)

    def profile_of(self, actor: str) -> Profile | None:
        """The profile that limits an actor's requests beside the device's; None for people."""
        agent = self.find(actor)
        return agent.settings.profile if agent is not None else None

    def most_waiting(self, actor: str) -> int | None:
        """How many requests of this actor may wait for an operator; None for people."""
        if not is_agent(actor):
            return None
        agent = self.find(actor)
        return agent.settings.waiting if agent is not None else 0

    def spend(self, actor: str, commands: int) -> None:
        """Count commands that an actor is about to start.

        Raises:
            Refused: an agent would exceed its number of commands a minute (code `rate_limited`).
        """
        registered = self._by_name.get(actor.removeprefix(AGENT_PREFIX)) if is_agent(actor) else None
        if registered is None:
            return
        if not registered.allowance.spend(commands):
            raise Refused(
                f"{actor} may start {registered.agent.settings.per_minute} commands a minute, and "
                f"{int(registered.allowance.left)} now; this would be {commands}.",
                ErrorCode.RATE_LIMITED,
            )
