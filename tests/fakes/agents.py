"""Agents of a test's home: agents that an operator has signed in, and a registry that knows every name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from core.actors import AGENT_PREFIX
from core.approvals.operator_keys import OperatorKey
from core.home import Home
from core.policy.agent_models import Agent, AgentSettings
from core.policy.agents import Agents
from core.service.console import AgentChanged, AgentState, Console
from core.service.local_console import LocalConsole, LocalConsoles
from core.service.rpc.client import RemoteConsole
from core.service.service import Service
from core.service.wishes import agent_added, agent_set
from tests.fakes.patience import PATIENCE_S
from tests.fakes.signing import anna, sign


class EveryAgent(Agents):
    """Any agent may ask, within the usual limits: for tests of what comes after that."""

    def find(self, actor: str) -> Agent | None:
        name = actor.removeprefix(AGENT_PREFIX)
        return Agent(name=name, settings=AgentSettings()) if actor.startswith(AGENT_PREFIX) else None


async def add_agent(
    console: Console, key: OperatorKey, name: str = "claude", settings: AgentSettings | None = None
) -> str:
    """Let an operator at this console sign an agent in; returns its token."""
    settings = settings or AgentSettings()
    signed = await sign(console, key, agent_added(name, settings))
    return (await console.agents.add(name, settings, signed)).token


async def set_agent(console: Console, key: OperatorKey, name: str, settings: AgentSettings) -> Agent:
    """Let an operator sign other settings of an agent."""
    return await console.agents.update(name, settings, await sign(console, key, agent_set(name, settings)))


async def agent_of(service: Service, name: str = "claude", settings: AgentSettings | None = None) -> Console:
    """A console of an agent in a service of this process; it is signed in by anna, who is registered."""
    key = anna(service.home)
    console = LocalConsole(service, "operator:anna")
    await console.approvals.register_operator(key.operator)
    return LocalConsoles(service).agent_console(
        AGENT_PREFIX + name, await add_agent(console, key, name, settings)
    )


async def attached_agent(
    home: Home, console: Console, name: str = "claude", settings: AgentSettings | None = None
) -> tuple[RemoteConsole, str]:
    """A console of an agent at the control socket, and its token; `console` is an operator's."""
    key = anna(home)
    await console.approvals.register_operator(key.operator)
    token = await add_agent(console, key, name, settings)
    return await RemoteConsole.connect(home, "agent", AGENT_PREFIX + name, token=token), token


async def agent_when(console: Console, name: str, condition: Callable[[AgentState], object]) -> AgentState:
    """The agent once it stands as wanted: as it is now, or as an event tells."""
    events = console.events()
    async with asyncio.timeout(PATIENCE_S):
        for agent in await console.agents.list():
            if agent.name == name and condition(agent):
                return agent
        async for event in events:
            if isinstance(event, AgentChanged) and event.agent.name == name and condition(event.agent):
                return event.agent
    raise AssertionError("the events ended")
