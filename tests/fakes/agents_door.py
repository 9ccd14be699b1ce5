"""The console's methods about agents, for fakes of the console: agents in memory, nothing is signed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from core.changes import SignedChange
from core.policy.agents import Agent, Agents, AgentSettings, NewAgent, Transport, token_prefix
from core.service.console import (
    AgentChanged,
    AgentCommand,
    AgentCommandPage,
    AgentConnection,
    AgentRemoved,
    AgentState,
    AgentTally,
    Event,
)
from core.tokens import new_token, token_digest
from tests.fakes.handler_console import HandlerConsole


class AgentsDoor(HandlerConsole):
    """Answers for `console.agents`. A test puts connections, commands and tallies in, by the agent's name."""

    def __init__(self) -> None:
        super().__init__()
        self.fake_agents = Agents()
        self.agent_connections: defaultdict[str, list[AgentConnection]] = defaultdict(list)
        self.agent_commands: defaultdict[str, list[AgentCommand]] = defaultdict(list)
        self.agent_tallies: dict[str, AgentTally] = {}
        self.agent_waiting: dict[str, int] = {}
        self.agent_open_runs: dict[str, int] = {}
        # Acts on agents, in their order: the method's name on the wire and the agent.
        self.agent_acts: list[tuple[str, str]] = []
        self.tell: Callable[[Event], None] = lambda event: None

    def agent_states(self) -> list[AgentState]:
        """Every agent as it stands."""
        return [self._state_of(agent) for agent in self.fake_agents.list()]

    def _state_of(self, agent: Agent) -> AgentState:
        return AgentState(
            **dict(agent),
            connections=self.agent_connections[agent.name],
            waiting=self.agent_waiting.get(agent.name, 0),
            open_runs=self.agent_open_runs.get(agent.name, 0),
        )

    def put_agent(self, name: str, settings: AgentSettings | None = None, token: str = "") -> None:
        """Let there be an agent with this token."""
        agent = Agent(name=name, settings=settings or AgentSettings())
        self.fake_agents.put(agent, token_digest(token or new_token(token_prefix(name))))
        self._tell_state(name)
        return token

    def _tell_state(self, name: str) -> None:
        self.tell(AgentChanged(agent=self._state_of(self.fake_agents.get(name))))

    async def _step(self, method: str) -> None:
        """A method is called; a fake may fail then, or wait."""

    async def _acts(self, method: str, name: str) -> None:
        await self._step(method)
        self.agent_acts.append((method, name))

    async def on_agents(self) -> list[AgentState]:
        return self.agent_states()

    async def on_agent_tallies(self) -> dict[str, AgentTally]:
        await self._step("agent_tallies")
        return self.agent_tallies

    async def on_agent_commands(
        self, name: str, before: int | None = None, limit: int = 50
    ) -> AgentCommandPage:
        await self._step("agent_commands")
        asked = [one for one in self.agent_commands[name] if before is None or one.seq < before]
        asked.sort(key=lambda one: -one.seq)
        more = len(asked) > limit
        return AgentCommandPage(commands=asked[:limit], next_before=asked[limit - 1].seq if more else None)

    async def on_introduce_agent(self, transport: Transport, program: str, version: str) -> None:
        self.agent_acts.append(("introduce_agent", program))

    async def on_add_agent(
        self, name: str, settings: AgentSettings, signed: SignedChange | None = None
    ) -> NewAgent:
        self.fake_agents.check_new(name)
        await self._acts("add_agent", name)
        offered = str(signed.statement.change.after["token_sha256"]) if signed is not None else ""
        token = self.fake_agents.offered.take(offered, token_prefix(name))
        self.put_agent(name, settings, token)
        return NewAgent(agent=self.fake_agents.get(name), token=token)

    async def on_set_agent(
        self, name: str, settings: AgentSettings, signed: SignedChange | None = None
    ) -> Agent:
        await self._acts("set_agent", name)
        agent = self.fake_agents.set(name, settings)
        self._tell_state(name)
        return agent

    async def on_pause_agent(self, name: str) -> Agent:
        return await self._pause("pause_agent", name)

    async def on_stop_agent(self, name: str) -> str:
        await self._pause("stop_agent", name)
        self.agent_connections[name].clear()
        self._tell_state(name)
        return f"{name} is stopped: nothing of it was under way."

    async def _pause(self, act: str, name: str) -> Agent:
        await self._acts(act, name)
        agent = self.fake_agents.set(name, self.fake_agents.get(name).settings.paused_now())
        self._tell_state(name)
        return agent

    async def on_revoke_agent(self, name: str) -> Agent:
        await self._acts("revoke_agent", name)
        agent = self.fake_agents.get(name)
        self.fake_agents.drop(name)
        self.tell(AgentRemoved(name=name))
        return agent
