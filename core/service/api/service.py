"""The calls about the service as a whole: its state, who is at a client, Stop all, changes, its end."""

from __future__ import annotations

import asyncio
import os

from core import __version__
from core.approvals.models import Operator
from core.audit.events import AllResumed, AllStopped, SettingsAccepted
from core.batch.models import RunSummary
from core.changes import Change, ChangeKind, Proposal, SignedChange, SignedIdentity
from core.errors import ErrorCode, JournalUnavailable, Refused
from core.service import proposals
from core.service.api.client import Client, ClientApi
from core.service.api.models import ConsoleState, PolicyStatus
from core.service.api.runs import LocalRuns
from core.service.backup.making import back_up
from core.service.backup.models import BackupKey, BackupMade
from core.service.console import ServiceApi
from core.service.rehearsal import rehearse
from core.service.service import Service

RUNS_IN_STATE = 30


class LocalService(ClientApi, ServiceApi):
    """Implements `ServiceApi` in the service."""

    def __init__(self, client: Client, runs: LocalRuns) -> None:
        super().__init__(client)
        self._runs = runs

    async def state(self) -> ConsoleState:
        service = self._service
        return ConsoleState(
            service_started_at=service.started_at,
            service_pid=os.getpid(),
            version=__version__,
            home=str(service.home.path),
            home_key=service.gate.home_key,
            stopped=bool(service.dispatcher.stopped),
            stopped_note=service.dispatcher.stopped,
            policy=service.policy_status(),
            journal=service.journal_status(),
            operators=service.operators.list(),
            devices=service.fleet.devices(),
            approvals=service.approvals.list(),
            runs=await self._known_runs(),
            agents=[service.agent_state(agent) for agent in service.agents.list()],
            secret_names=tuple(service.settings.secret_names),
        )

    async def _known_runs(self) -> list[RunSummary]:
        """The newest runs, and the older ones that have not ended."""
        newest = await self._runs.list(limit=RUNS_IN_STATE)
        known = {run.id for run in newest}
        return [*newest, *(run.summary() for run in self._service.runs.active if run.id not in known)]

    async def challenge(self) -> str:
        return self._client.challenge

    async def identify(self, signed: SignedIdentity) -> Operator:
        service = self._service
        identity = signed.identity
        if (identity.home, identity.challenge) != (service.gate.home_key, self._client.challenge):
            raise Refused("This proof is for another connection.", ErrorCode.APPROVAL_INVALID)
        operator = service.operators.check_identity(signed)
        self._client.operator = operator.name
        if self._client.actor.startswith(("window:", "operator:")):
            self._client.actor = f"operator:{operator.name}"
        return operator

    async def propose(self, wish: Change, text: str = "") -> Proposal:
        service = self._service
        planned = await proposals.of(service, wish, text)
        difference = list(planned.loosens)
        if wish.kind is ChangeKind.POLICY and difference:
            difference += await rehearse(service, text)
        return Proposal(
            home=service.gate.home_key,
            change=planned.change,
            needs_signature=bool(planned.loosens),
            difference=difference,
        )

    async def accept_settings(self, signed: SignedChange | None = None) -> PolicyStatus:
        service = self._service
        planned = proposals.settings(service)
        proof = await self._client.signed(planned, signed)
        await self._client.record(SettingsAccepted(settings=planned.change.after, **proof))
        if proof:
            service.accepted_settings.update(planned.change.after)
        service.tell_control()
        return service.policy_status()

    async def stop_all(self) -> str:
        service = self._service
        runs = service.runs.active
        sent = service.dispatcher.in_flight
        # The dispatcher is stopped before any step that could take time or fail.
        service.dispatcher.stop(f"Everything was stopped by {self._client.actor}.")
        withdrawn = service.approvals.withdraw("Everything was stopped; nothing was sent.")
        for live in runs:
            await service.runs.cancel(live, self._client.actor)
        service.live_pictures.cancel()
        words = _stop_words(len(runs), withdrawn, len(sent))
        service.dispatcher.stop(words)
        service.tell_control()
        stopped = AllStopped(runs=[live.id for live in runs], withdrawn=withdrawn, calls=sent)
        entry = stopped.entry(self._client.actor)
        return " ".join(filter(None, (words, service.record_stop(entry))))

    async def resume(self, signed: SignedChange | None = None) -> None:
        service = self._service
        # A stop recorded after this resume would be in force again at the next start.
        if not await service.journal.flush_late():
            raise JournalUnavailable("The journal cannot be written; everything stays stopped until it can.")
        if not service.reserve.clear():
            raise JournalUnavailable("The home's reserve cannot be written; everything stays stopped.")
        planned = proposals.resume(service)
        proof = await self._client.signed(planned, signed)
        await self._client.record(AllResumed(**proof))
        if service.dispatcher.stopped != planned.change.before["stopped"]:
            # Stopped again while this was recorded: the operator who signed has not seen that stop.
            raise Refused("Everything was stopped again meanwhile; it stays stopped.", ErrorCode.STOPPED)
        service.dispatcher.resume()
        service.tell_control()

    async def backup(self, path: str, key: BackupKey) -> BackupMade:
        service, loop = self._service, asyncio.get_running_loop()

        def tell(done: int, total: int) -> None:
            loop.call_soon_threadsafe(service.tell_work, "backup", done, total)

        return await back_up(service.home, service.journal, path, key, tell)

    async def shut_down(self, cancel_work: bool) -> str:
        service = self._service
        runs = service.runs.active
        if not runs or cancel_work:
            for live in runs:
                await self._runs.cancel(live)
            service.on_shutdown_asked.set()
            return "The service is ending."
        service.tasks.spawn("end when the work has ended", _end_after(service))
        return f"The service ends when {'1 run has' if len(runs) == 1 else f'{len(runs)} runs have'} ended."


def _stop_words(runs: int, requests: int, commands: int) -> str:
    """A sentence about what was stopped; zero counts are left out."""
    parts = []
    if runs:
        parts.append(f"{runs} run{'s were' if runs > 1 else ' was'} ended")
    if requests:
        parts.append(f"{requests} request{'s were' if requests > 1 else ' was'} withdrawn")
    if commands:
        singular, plural = (
            " was on a device and was asked to cancel",
            "s were on devices and were asked to cancel",
        )
        parts.append(f"{commands} command{plural if commands > 1 else singular}")
    return f"Everything was stopped: {', '.join(parts) or 'nothing was under way'}."


async def _end_after(service: Service) -> None:
    while service.runs.active:
        await service.runs.active[0].ended.wait()
    service.on_shutdown_asked.set()
