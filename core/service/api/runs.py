"""The calls about runs and saved batches."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Literal

from pydantic import ValidationError

from core.audit.entries import Kind
from core.batch.history import rebuild_run
from core.batch.models import Batch, Plan, Run, RunState, RunSummary, SavedBatch, Step, flatten
from core.batch.planner import make_plan
from core.batch.run_state import ActiveRun
from core.batch.saved import SavedBatches
from core.canonical_json import canonical_bytes
from core.dispatch.command_request import CommandRequest
from core.errors import BadInput, ErrorCode, JournalError
from core.service.alternatives import FailedCall, alternatives_to
from core.service.api.client import ClientApi
from core.service.api.devices import matching_devices
from core.service.api.models import RunPage
from core.service.console import RunsApi
from core.service.envelope import Alternative, Envelope, cell_envelope
from core.service.previews import quoted

MOST_RUNS = 200
LONGEST_WAIT = 3600.0
MOST_SAID = 20_000
# Characters of a device's or tool's name in the entry of a request that did not become a command.
_LONGEST_NAME = 200
# Of the commands of a run that failed: for how many alternatives are looked for.
_MOST_WITH_ALTERNATIVES = 10


class LocalRuns(ClientApi, RunsApi):
    """Implements `RunsApi` in the service."""

    async def plan(self, batch: Batch) -> Plan:
        devices = matching_devices(self._client, batch.targets)
        names = [device.name for device in devices]
        dispatcher = self._service.dispatcher
        leads = {
            step.id: await dispatcher.look_ahead(names, step.tool, step.parameters)
            for step in flatten(batch.steps)
        }
        return make_plan(batch, devices, dispatcher, self._client.actor, leads)

    async def start(
        self,
        batch: Batch,
        expected_devices: list[str] | None = None,
        said: str = "",
        request_id: str = "",
    ) -> Run:
        devices = [device.name for device in matching_devices(self._client, batch.targets)]
        if not devices:
            raise BadInput(f"No device matches {batch.targets!r}.", ErrorCode.UNKNOWN_DEVICE)
        if expected_devices is not None and sorted(expected_devices) != sorted(devices):
            raise BadInput(
                f"{batch.targets!r} now means {len(devices)} devices, not the {len(expected_devices)} "
                "that were shown. Plan again."
            )
        return await self._begin(batch, devices, "batch", said, request_id)

    async def call(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        timeout: float | None = None,
        said: str = "",
        request_id: str = "",
    ) -> Run:
        client = self._client
        try:
            _check_said(said)
            client.device(device)
            canonical_bytes(parameters)
            step = _only_step(tool, parameters, timeout)
        except BadInput as error:
            # Each of them is journalled, so that they count like commands.
            self._service.agents.spend(client.actor, 1)
            request = CommandRequest(device[:_LONGEST_NAME], tool[:_LONGEST_NAME], parameters, client.actor)
            self._service.dispatcher.refuse(request, error)
            raise
        batch = Batch(name=tool[:200], targets=f"name:{device}", steps=[step])
        return await self._begin(batch, [device], "call", said, request_id)

    async def _begin(
        self, batch: Batch, devices: list[str], kind: Literal["batch", "call"], said: str, request_id: str
    ) -> Run:
        _check_said(said)
        client, runner = self._client, self._service.runner
        if not client.is_agent:
            return (await runner.start(batch, devices, client.actor, kind, said, client.operator)).whole()
        self._service.agents.check_asks(client.actor)
        requests = self._service.agent_requests
        async with requests.turns[client.actor]:
            digest = requests.digest_of(batch, devices)
            earlier = await requests.earlier(client.actor, request_id, digest)
            if earlier is not None:
                return await self.get(earlier)
            self._service.agents.spend(client.actor, len(devices) * len(flatten(batch.steps)))
            live = await runner.start(
                batch, devices, client.actor, kind, said, request_id=request_id, request_digest=digest
            )
        return live.whole()

    async def wait(self, run: str, timeout: float, until_asked: bool = False) -> Run:
        live = self._service.runner.find(run)
        if live is None or live.end is not None:
            return await self.get(run)
        self._client.check_own(live.actor, run)
        waits_for = live.asked if until_asked else live.ended
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(waits_for.wait(), min(max(timeout, 0.0), LONGEST_WAIT))
        return live.whole()

    async def stop(self, run: str) -> RunSummary:
        live = self._service.runner.find(run)
        if live is None:
            return (await self.get(run)).summary
        self._client.check_own(live.actor, run)
        await self.cancel(live)
        return live.summary()

    async def get(self, run: str) -> Run:
        live = self._service.runner.find(run)
        if live is not None:
            self._client.check_own(live.actor, run)
            return live.whole()
        await self._service.journal.settle()
        entries = await self._service.journal.entries_of_run(run)
        if not entries:
            raise BadInput(f"There is no run {run}.", ErrorCode.NOT_FOUND)
        self._client.check_own(entries[0].actor, run)
        return rebuild_run(entries)

    async def evidence(self, run: str, sha256: str) -> bytes:
        cells = (await self.get(run)).cells
        results = [cell.result for cell in cells if cell.result is not None]
        if not any(evidence.blob == sha256 for result in results for evidence in result.evidence):
            raise BadInput(f"No result of {run} names this blob.", ErrorCode.NOT_FOUND)
        return await self._service.journal.get_blob(sha256)

    async def results(self, run: str) -> list[Envelope]:
        whole = await self.get(run)
        live = self._service.runner.find(run)
        requested = _parameters(live.batch if live is not None else whole.batch)
        envelopes: list[Envelope] = []
        failed = 0
        for cell in whole.cells:
            others: list[Alternative] = []
            if cell.result is not None and cell.result.error is not None and failed < _MOST_WITH_ALTERNATIVES:
                failed += 1
                call = FailedCall(whole.summary.actor, requested[cell.step], cell.result)
                others = await alternatives_to(self._service, call)
            envelopes.append(cell_envelope(cell, others))
        return envelopes

    async def find(self, words: str, before: int | None = None, limit: int = 50) -> RunPage:
        service = self._service
        await service.journal.settle()
        live = {run.id: run.summary().state.value for run in service.runner.active}
        matches = await service.journal.search_runs(words, live, before, min(max(limit, 1), MOST_RUNS))
        runs = [await self._summary(run) for run in matches.runs]
        return RunPage(runs=runs, next_before=matches.next_before)

    async def batch_names(self) -> list[str]:
        return self._batches.names()

    async def saved_batches(self) -> list[SavedBatch]:
        # In a thread: it reads every file of the folder.
        return await asyncio.to_thread(self._batches.listing)

    async def load_batch(self, name: str) -> Batch:
        return self._batches.load(name)

    async def save_batch(self, name: str, batch: Batch) -> None:
        self._batches.save(name, batch)

    async def rename_batch(self, name: str, to: str) -> None:
        self._batches.rename(name, to)

    async def delete_batch(self, name: str) -> None:
        self._batches.delete(name)

    async def list(self, before: str | None = None, limit: int = 50) -> list[RunSummary]:
        service = self._service
        seq = await self._start_of(before) if before else None
        own = f" actor:{quoted(self._client.actor)}" if self._client.is_agent else ""
        page = await service.journal.query(
            f"kind:{Kind.RUN_STARTED}{own}", before=seq, limit=min(max(limit, 1), MOST_RUNS)
        )
        return [await self._summary(entry.run) for entry in page.entries if entry.run]

    async def _start_of(self, run: str) -> int:
        page = await self._service.journal.query(f"kind:{Kind.RUN_STARTED} run:{quoted(run)}", limit=1)
        if not page.entries:
            raise BadInput(f"There is no run {run}.", ErrorCode.NOT_FOUND)
        return page.entries[0].seq

    async def _summary(self, run: str) -> RunSummary:
        known = self._service.ended_runs.get(run)
        if known is not None:
            return known
        live = self._service.runner.find(run)
        if live is not None:
            return live.summary()
        try:
            summary = (await self.get(run)).summary
        except JournalError as error:
            return _unreadable(run, error)
        return self._service.ended_runs.setdefault(run, summary)

    async def cancel(self, live: ActiveRun) -> None:
        """Cancel an active run and withdraw its approval requests."""
        await self._service.runner.cancel(live, self._client.actor)
        self._service.approvals.withdraw("The run was cancelled; nothing was sent.", live.id)

    @property
    def _batches(self) -> SavedBatches:
        return SavedBatches(self._service.home.batches)


def _only_step(tool: str, parameters: dict[str, Any], timeout: float | None) -> Step:
    try:
        return Step(id="call", tool=tool, parameters=parameters, timeout=timeout)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(f"This is no call: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None


def _parameters(batch: Batch) -> dict[str, dict[str, Any]]:
    return {step.id: step.parameters for step in flatten(batch.steps)}


def _check_said(said: str) -> None:
    if len(said) > MOST_SAID:
        # The text is recorded with every entry of the run and shown on the card.
        raise BadInput(
            f"What is said about a call has at most {MOST_SAID:,} characters.", ErrorCode.TOO_LARGE
        )


def _unreadable(run: str, error: JournalError) -> RunSummary:
    return RunSummary(
        id=run,
        name=run,
        kind="batch",
        actor="",
        state=RunState.INTERRUPTED,
        devices=[],
        devices_hash="",
        steps=[],
        tools=[],
        counts={},
        started_at="",
        note=error.message,
    )
