"""The console's methods about agents, for fakes of the console: agents in memory, nothing is signed."""

from __future__ import annotations

from core.changes import SignedChange
from core.policy.agents import Agent, Agents, AgentSettings, NewAgent, token_prefix
from core.tokens import new_token, token_digest
from tests.fakes.handler_console import HandlerConsole


class AgentsDoor(HandlerConsole):
    """Answers for `console.agents`."""

    def __init__(self) -> None:
        super().__init__()
        self.fake_agents = Agents()

    async def on_agents(self) -> list[Agent]:
        return self.fake_agents.list()

    async def on_add_agent(
        self, name: str, settings: AgentSettings, signed: SignedChange | None = None
    ) -> NewAgent:
        self.fake_agents.check_new(name)
        agent, token = Agent(name=name, settings=settings), new_token(token_prefix(name))
        self.fake_agents.put(agent, token_digest(token))
        return NewAgent(agent=agent, token=token)

    async def on_set_agent(
        self, name: str, settings: AgentSettings, signed: SignedChange | None = None
    ) -> Agent:
        return self.fake_agents.set(name, settings)

    async def on_revoke_agent(self, name: str) -> Agent:
        agent = self.fake_agents.get(name)
        self.fake_agents.drop(name)
        return agent
