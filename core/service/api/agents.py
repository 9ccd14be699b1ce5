"""The calls about agents. Adding and loosening an agent is signed; tightening and revoking hold at once."""

from __future__ import annotations

from core.audit.events import AgentAdded, AgentRevoked, AgentSet
from core.changes import SignedChange
from core.errors import QuarterdeckError
from core.policy.agents import Agent, AgentSettings, NewAgent, token_prefix
from core.service import proposals
from core.service.api.client import Client, ClientApi
from core.service.api.runs import LocalRuns
from core.service.console import AgentsApi
from core.service.proposals import agent_json
from core.tokens import token_digest


class LocalAgents(ClientApi, AgentsApi):
    """Implements `AgentsApi` in the service."""

    def __init__(self, client: Client, runs: LocalRuns) -> None:
        super().__init__(client)
        self._runs = runs

    async def add(self, name: str, settings: AgentSettings, signed: SignedChange | None = None) -> NewAgent:
        service = self._service
        service.agents.check_new(name)
        async with service.agents_changing:
            offered = signed.statement.change.after.get("token_sha256") if signed is not None else ""
            token = service.agents.offered.take(str(offered), token_prefix(name))
            planned = proposals.agent_added(service, name, settings, token_digest(token))
            proof = await self._client.signed(planned, signed)
            event = AgentAdded(
                agent=name, settings=agent_json(settings), token_sha256=token_digest(token), **proof
            )
            entry = await self._client.record(event)
            agent = Agent(name=name, settings=settings, added_at=entry.time)
            service.agents.put(agent, token_digest(token))
        return NewAgent(agent=agent, token=token)

    async def update(self, name: str, settings: AgentSettings, signed: SignedChange | None = None) -> Agent:
        service = self._service
        async with service.agents_changing:
            planned = proposals.agent_set(service, name, settings)
            proof = await self._client.signed(planned, signed)
            await self._client.record(AgentSet(agent=name, settings=agent_json(settings), **proof))
            return service.agents.set(name, settings)

    async def revoke(self, name: str) -> Agent:
        service = self._service
        agent = service.agents.get(name)
        # A revocation takes effect at once, even if the journal cannot be written.
        service.agents.drop(name)
        for run in service.runner.active:
            if run.actor == agent.actor:
                await self._runs.cancel(run)
        entry = AgentRevoked(agent=name).entry(self._client.actor)
        try:
            await service.journal.append(entry)
        except QuarterdeckError:
            service.journal.note_late([entry])
        return agent

    async def list(self) -> list[Agent]:
        return self._service.agents.list()
