"""What the fake console answers about agents."""

from __future__ import annotations

from core.changes import SignedChange
from core.errors import BadInput
from core.policy.agent_models import Agent, AgentSettings, NewAgent, token_prefix
from core.service import proposals
from core.service.console import (
    AgentChanged,
    AgentCommandPage,
    AgentRemoved,
    AgentState,
    AgentTally,
)
from core.tokens import new_token, token_digest
from tests.fakes.console.changes import Changes


class AgentAnswers(Changes):
    """`console.agents`. A test puts connections, commands and tallies in, by the agent's name."""

    @property
    def agent_acts(self) -> list[tuple[str, str]]:
        """Acts on agents, in their order: the method's name on the wire and the agent."""
        acts = [
            call for call in self.calls if call.method.endswith("_agent") and call.method != "introduce_agent"
        ]
        return [(call.method, call.arguments["name"]) for call in acts]

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

    def _tell_state(self, name: str) -> None:
        self.emit(AgentChanged(agent=self._state_of(self.fake_agents.get(name))))

    def on_introduce_agent(self) -> None:
        raise BadInput("Only the program of an agent is introduced.")

    def on_agents(self) -> list[AgentState]:
        return self.agent_states()

    def on_agent_tallies(self) -> dict[str, AgentTally]:
        return self.agent_tallies

    def on_agent_commands(self, name: str, before: int | None, limit: int) -> AgentCommandPage:
        asked = [one for one in self.agent_commands[name] if before is None or one.seq < before]
        asked.sort(key=lambda one: -one.seq)
        more = len(asked) > limit
        return AgentCommandPage(commands=asked[:limit], next_before=asked[limit - 1].seq if more else None)

    def on_add_agent(self, name: str, settings: AgentSettings, signed: SignedChange | None) -> NewAgent:
        offered = str(signed.statement.change.after.get("token_sha256")) if signed is not None else ""
        self.check_signed(proposals.agent_added(self.service_seen(), name, settings, offered), signed)
        self.fake_agents.check_new(name)
        token = self.fake_agents.offered.take(offered, token_prefix(name))
        self.put_agent(name, settings, token)
        return NewAgent(agent=self.fake_agents.get(name), token=token)

    def on_set_agent(self, name: str, settings: AgentSettings, signed: SignedChange | None) -> Agent:
        self.check_signed(proposals.agent_set(self.service_seen(), name, settings), signed)
        agent = self.fake_agents.set(name, settings)
        self._tell_state(name)
        return agent

    def on_pause_agent(self, name: str) -> Agent:
        agent = self.fake_agents.set(name, self.fake_agents.get(name).settings.paused_now())
        self._tell_state(name)
        return agent

    def on_stop_agent(self, name: str) -> str:
        self.on_pause_agent(name)
        self.agent_connections[name].clear()
        self._tell_state(name)
        return f"{name} is stopped: nothing of it was under way."

    def on_revoke_agent(self, name: str) -> Agent:
        agent = self.fake_agents.get(name)
        self.fake_agents.drop(name)
        self.emit(AgentRemoved(name=name))
        return agent
