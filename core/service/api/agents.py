"""The calls about agents. Adding and loosening an agent is signed; what tightens holds at once."""

from __future__ import annotations

from collections.abc import Sequence

from core.audit.events import AgentAdded, AgentRevoked, AgentSet, AgentStopped
from core.batch.live_run import LiveRun
from core.changes import SignedChange
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.policy.agent_models import Agent, AgentSettings, ClientProgram, NewAgent, Transport, token_prefix
from core.service import proposals
from core.service.api.client import Client, ClientApi
from core.service.api.models import AgentCommandPage, AgentState, AgentTally
from core.service.api.runs import LocalRuns
from core.service.console import AgentsApi
from core.service.proposals import agent_json
from core.tokens import token_digest

INTRODUCE = "introduce_agent"


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
            operator = signed.statement.approver if signed is not None else ""
            service.agents.put(agent, token_digest(token), operator)
        # With its earlier token no call is answered any more.
        service.agent_connections.end(agent.actor, "The agent has another token now.")
        service.agent_changed(agent.actor)
        return NewAgent(agent=agent, token=token)

    async def update(self, name: str, settings: AgentSettings, signed: SignedChange | None = None) -> Agent:
        service = self._service
        async with service.agents_changing:
            before = service.agents.get(name).settings
            planned = proposals.agent_set(service, name, settings)
            proof = await self._client.signed(planned, signed)
            await self._client.record(AgentSet(agent=name, settings=agent_json(settings), **proof))
            now = service.agents.get(name).settings
            if now != before:
                # Paused while this was recorded: the operator who signed has not seen that.
                self._service.record_stop(
                    AgentSet(agent=name, settings=agent_json(now)).entry(self._client.actor)
                )
                raise Refused(
                    f"{name} was paused meanwhile; its limits stay as they are.",
                    ErrorCode.WRONG_STATE,
                    "Look at it again, then set what is meant.",
                )
            return self._put(name, settings)

    async def pause(self, name: str) -> Agent:
        before = self._service.agents.get(name)
        if before.settings.paused:
            return before
        # As a revocation, it takes effect at once, even if the journal cannot be written.
        agent = self._put(name, before.settings.paused_now())
        self._client.record_stop(
            AgentSet(agent=name, settings=agent_json(agent.settings)), f"{name} is paused."
        )
        return agent

    async def stop(self, name: str) -> str:
        service = self._service
        agent = self._put(name, service.agents.get(name).settings.paused_now())
        connections = service.agent_connections.end(agent.actor, "An operator has stopped this agent.")
        runs = await self._cancel_runs(agent)
        words = _stop_words(name, len(runs), connections)
        self._client.record_stop(AgentStopped(agent=name, runs=[*runs], connections=connections), words)
        service.agent_changed(agent.actor)
        return words

    async def revoke(self, name: str) -> Agent:
        service = self._service
        agent = service.agents.get(name)
        # A revocation takes effect at once, even if the journal cannot be written.
        service.agents.drop(name)
        service.agent_connections.end(agent.actor, "The agent was revoked.")
        await self._cancel_runs(agent)
        service.agent_changed(agent.actor)
        event = AgentRevoked(agent=name)
        try:
            await self._client.record(event)
        except QuarterdeckError:
            self._client.record_stop(event, f"{name} is revoked.")
        return agent

    async def list(self) -> list[AgentState]:
        return [self._service.agent_state(agent) for agent in self._service.agents.list()]

    async def tallies(self) -> dict[str, AgentTally]:
        return await self._service.agent_activity.tallies()

    async def commands(self, name: str, before: int | None = None, limit: int = 50) -> AgentCommandPage:
        return await self._service.agent_activity.commands(name, before, limit)

    async def introduce(self, transport: Transport, program: str, version: str) -> None:
        if self._client.attachment is None:
            raise BadInput("Only an agent says which program it is.")
        called = ClientProgram.called(program, version)
        self._service.agent_connections.introduce(self._client.attachment, transport, called)

    def _put(self, name: str, settings: AgentSettings) -> Agent:
        """Let settings hold. The runs of an agent that is paused are paused with it, and go on with it."""
        service, actor = self._service, self._client.actor
        was_paused = service.agents.get(name).settings.paused
        agent = service.agents.set(name, settings)
        if settings.paused and not was_paused:
            for run in self._active_runs(agent):
                if not run.paused:
                    service.runs.pause(run, actor)
                    service.runs_paused_with_agents.add(run.id)
        elif was_paused and not settings.paused:
            for run in self._active_runs(agent):
                if run.id in service.runs_paused_with_agents:
                    service.runs.unpause(run, actor)
                    service.runs_paused_with_agents.discard(run.id)
        service.agent_changed(agent.actor)
        return agent

    def _active_runs(self, agent: Agent) -> Sequence[LiveRun]:
        return [run for run in self._service.runs.active if run.actor == agent.actor]

    async def _cancel_runs(self, agent: Agent) -> Sequence[str]:
        runs = self._active_runs(agent)
        for run in runs:
            await self._runs.cancel(run)
        return [run.id for run in runs]


def _stop_words(name: str, runs: int, connections: int) -> str:
    """A sentence about what was stopped."""
    ended = [f"{runs} run{'s were' if runs > 1 else ' was'} cancelled"] if runs else []
    if connections:
        ended.append(f"{connections} connection{'s were' if connections > 1 else ' was'} ended")
    return f"{name} is stopped: {', '.join(ended) or 'nothing of it was under way'}."
