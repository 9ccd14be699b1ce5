"""The calls about runs and saved batches."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import ValidationError

from core.audit.entries import Kind
from core.audit.events import RunStarted, StepSettled
from core.audit.journal import MAX_PAGE
from core.audit.query import quoted
from core.batch.expression_trial import Known, parts_read, try_expressions
from core.batch.expressions import DeviceFacts
from core.batch.held_values import steps_read
from core.batch.inputs import check_given, check_inputs
from core.batch.live_output import chunk_of, output_in
from core.batch.live_run import LiveRun, already_resumed, settled
from core.batch.models import (
    AskedExpression,
    Batch,
    Cell,
    CellPage,
    CellState,
    ExpressionTrials,
    OutputChunk,
    Plan,
    Run,
    RunComparison,
    RunSummary,
    SavedBatch,
    Step,
    UndoPlan,
    flatten,
)
from core.batch.planner import Planner
from core.batch.result_schema import arriving_schema
from core.batch.resume import Remainder, check_resumable, remainder_of
from core.batch.run_compare import compare_runs, joined
from core.batch.run_history import rebuild_run
from core.batch.runs import NO_INPUTS, Inputs, Resumption
from core.batch.saved import SavedBatches
from core.batch.step_values import load_texts
from core.batch.templates import compile_batch
from core.batch.waves import Waves, in_waves, planned_waves
from core.canonical_json import canonical_bytes
from core.commands.request import CommandRequest
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import BadInput, ErrorCode, Refused, first_fault
from core.models.device_filter import no_match
from core.models.devices import Device
from core.policy.policy_check import approvals_out_of_reach
from core.service.alternatives import FailedCall, alternatives_to
from core.service.api.client import Client, ClientApi, no_such_run
from core.service.api.devices import matching_devices
from core.service.api.models import ResultPage, RunPage
from core.service.api.run_reader import Place, RunReader, no_such_cell
from core.service.api.undo import make_undo_plan, start_undo
from core.service.console import RunsApi
from core.service.envelope import Alternative, Envelope, cell_envelope
from core.service.run_devices import RunDevices
from core.text import clause, sentences

MOST_RUNS = 200
LONGEST_WAIT = 3600.0
MOST_SAID = 20_000
# Characters of a device's or tool's name in the entry of a request that did not become a command.
_LONGEST_NAME = 200
# Of the commands of a run that failed: for how many alternatives are looked for.
_MOST_WITH_ALTERNATIVES = 10
# Of how many devices the tools are looked at for the types in expressions, and of how many of the latest runs
# the batches, for one whose results they are tried on.
_MOST_ASKED_FOR_TOOLS = 50
_MOST_RUNS_TRIED = 50
# Devices of which two runs are compared at a time.
_COMPARED_TOGETHER = 100
_PLAIN_NAME = re.compile(r"[\w ,.()-]+", re.ASCII)


class LocalRuns(ClientApi, RunsApi):
    """Implements `RunsApi` in the service."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._reader = RunReader(client)

    async def plan(self, batch: Batch, inputs: dict[str, Any] | None = None, literal: bool = False) -> Plan:
        service = self._service
        if literal:
            _check_literal(batch)
        check_given(batch, inputs or {})
        devices = self._targets(batch)
        names = [device.name for device in devices]
        planner = Planner(
            batch, inputs or {}, service.dispatcher, RunDevices(service.fleet), self._client.actor, literal
        )
        tools = {step.id: step.tool for step in flatten(batch.steps)}
        leads = {
            step: await service.dispatcher.look_ahead(names, tools[step], arguments.parameters)
            for step, arguments in planner.shared_arguments().items()
        }
        plan = planner.plan(devices, leads)
        operators = len(service.operators.list())
        cells = [
            cell.model_copy(update={"why": f"{cell.why} (It {problem}.)"})
            if (problem := approvals_out_of_reach(cell.approvers, operators))
            else cell
            for cell in plan.cells
        ]
        return plan.model_copy(update={"cells": cells})

    async def try_expressions(
        self, batch: Batch, step: str, asked: list[AskedExpression]
    ) -> ExpressionTrials:
        known = await self._known(batch)
        if parts := parts_read(batch, step, asked, known):
            known = replace(known, texts=await load_texts(parts, self._service.journal.get_blob))
        return try_expressions(batch, step, asked, known)

    async def _known(self, batch: Batch) -> Known:
        """The tools of the devices that a batch is for, and its latest run on one of them."""
        devices, earlier = RunDevices(self._service.fleet), await self._latest_run_of(batch.name)
        present = matching_devices(self._client, batch.targets)[:_MOST_ASKED_FOR_TOOLS]
        names = [device.name for device in present]
        schemas = {
            step.id: schema
            for step in flatten(batch.steps)
            if (schema := _schema_on_first(present, step.tool, devices))
        }
        read = [*(earlier.summary.devices if earlier is not None else []), *names, ""]
        return Known(schemas, devices.facts(read[0]) if read[0] else DeviceFacts(), earlier)

    async def _latest_run_of(self, name: str) -> Run | None:
        """The latest run of a batch of this name, of its first device only; one of long ago may be missed."""
        journal = self._service.journal
        await journal.settle()
        # The text only narrows the search: others may contain it, and a name may be escaped in an entry.
        narrowed = f" {quoted(name)}" if _PLAIN_NAME.fullmatch(name) else ""
        page = await journal.query(f"kind:{Kind.RUN_STARTED}{narrowed}", limit=_MOST_RUNS_TRIED)
        for entry in page.entries:
            event = RunStarted.read(entry.body)
            if entry.run and event.devices and (event.batch.get("name"), event.kind_) == (name, "batch"):
                if self._service.runs.find(entry.run) is not None:
                    return await self._reader.first_page(entry.run)
                return rebuild_run(await journal.entries_of_run(entry.run, event.devices[:1]))
        return None

    async def start(
        self,
        batch: Batch,
        expected_devices: list[str] | None = None,
        inputs: dict[str, Any] | None = None,
        said: str = "",
        request_id: str = "",
        literal: bool = False,
    ) -> Run:
        if literal:
            _check_literal(batch)
        present = self._targets(batch)
        devices = [device.name for device in present]
        if not devices:
            raise no_match(batch.targets, matching_devices(self._client, ""))
        if expected_devices is not None and sorted(expected_devices) != sorted(devices):
            raise BadInput(
                f"{batch.targets!r} now means {len(devices)} devices, not the {len(expected_devices)} "
                "that were shown. Plan again."
            )
        given = self._inputs(batch, inputs or {})
        waves = planned_waves(batch.rollout, present)
        self._check_steps(batch, given, present, literal)
        return await self._begin(batch, waves, "call" if literal else "batch", said, request_id, given)

    def _check_steps(self, batch: Batch, given: Inputs, devices: list[Device], literal: bool) -> None:
        """Check that the expressions and arguments of each step fit some device, before any step runs.

        Raises:
            BadInput: one is.
        """
        fleet, dispatcher = RunDevices(self._service.fleet), self._service.dispatcher
        planner = Planner(batch, given.values, dispatcher, fleet, self._client.actor, literal)
        if wrong := planner.wrong_everywhere(devices):
            raise BadInput(sentences(f"Nothing was started: {' '.join(wrong)}"))

    def _targets(self, batch: Batch) -> list[Device]:
        """The devices that a batch is for; an empty filter, which matches every device, is no target.

        Raises:
            BadInput: the filter is malformed or empty.
        """
        if not batch.targets.strip():
            raise BadInput("No devices are named. Name them, such as tag:lab; name:* is every device.")
        return matching_devices(self._client, batch.targets)

    def _inputs(self, batch: Batch, given: dict[str, Any]) -> Inputs:
        values = check_inputs(batch, given)
        secret = [name for name, declared in batch.inputs.items() if declared.secret]
        return Inputs(values, self._service.redactor.redact_named(values, secret))

    async def resume(self, run: str, secrets: dict[str, Any] | None = None) -> Run:
        service, client = self._service, self._client
        before = await self._reader.states(run)
        remainder = remainder_of(before)
        if remainder.unknown:
            await service.unknown_calls.ask({cell.device for cell in remainder.unknown})
            before = await self._reader.states(run)
            remainder = remainder_of(before)
        check_resumable(before, remainder, self._why_unknown)
        inputs = self._inputs_of(before, secrets or {})
        resumption = Resumption(
            run, remainder.carried, await self._earlier(before, remainder), self._changed_note(before.batch)
        )
        summary = before.summary
        self._count(len(summary.devices) * len(flatten(before.batch.steps)))
        live = await service.runs.start(
            before.batch,
            in_waves(summary.devices, summary.waves or [len(summary.devices)]),
            client.actor,
            summary.kind,
            operator=client.operator,
            inputs=inputs,
            resumption=resumption,
        )
        service.ended_runs.changed(run)
        return await self._reader.first_page(live.id)

    def _why_unknown(self, cell: Cell) -> str:
        result = cell.result
        if result is not None and (
            result.verdict is not Verdict.UNKNOWN or result.basis is Basis.DEVICE_DOES_NOT_KNOW
        ):
            # The device has said why.
            return clause(cell.note)
        return self._service.unknown_calls.why_unknown(cell.device, cell.call_id or "")

    def _inputs_of(self, before: Run, secrets: dict[str, Any]) -> Inputs:
        """The inputs of an ended run; the secret ones are given again, and must be as they were."""
        wanted = [name for name, declared in before.batch.inputs.items() if declared.secret]
        wanted = [name for name in wanted if name in before.inputs]
        if sorted(wanted) != sorted(secrets):
            names = ", ".join(wanted) or "none"
            raise BadInput(f"The secret inputs of {before.summary.id} must be given again: {names}.")
        values = {**before.inputs, **secrets}
        shown = self._service.redactor.redact_named(values, wanted)
        if other := [name for name in wanted if shown[name] != before.inputs[name]]:
            raise BadInput(f"{', '.join(other)} had another value when {before.summary.id} started.")
        return Inputs(values, shown)

    async def _earlier(self, before: Run, remainder: Remainder) -> dict[Place, CommandResult]:
        """The results of carried cells that expressions read, from the runs that made them."""
        compiled = compile_batch(before.batch) if before.summary.kind == "batch" else {}
        read = steps_read(compiled)
        places: dict[str, set[Place]] = {}
        for place, carried in remainder.carried.items():
            if place[1] in read:
                places.setdefault(carried.run, set()).add(place)
        earlier: dict[Place, CommandResult] = {}
        for origin, of_it in places.items():
            earlier |= await self._reader.results(origin, of_it)
        return earlier

    def _changed_note(self, batch: Batch) -> str:
        """A sentence if the batch was saved under its name and has been changed since."""
        try:
            saved = self._batches.load(batch.name)
        except BadInput:
            return ""
        if saved == batch:
            return ""
        return f"The saved batch {batch.name} is another one now; this run has the batch of the first run."

    async def settle(self, run: str, device: str, step: str, outcome: Literal["done", "not_done"]) -> Cell:
        summary = await self._reader.summary(run)
        _, cell = await self._reader.cell(run, device, step)
        if not summary.state.ended:
            raise Refused(f"{run} has not ended.", ErrorCode.WRONG_STATE, "Wait for it, or cancel it.")
        if summary.resumed_by:
            raise already_resumed(run, summary.resumed_by)
        if cell.state in (CellState.DONE, CellState.SKIPPED):
            raise Refused(
                f"{step} on {device} is {cell.state.value} already.",
                ErrorCode.WRONG_STATE,
                "Nothing is left to say of this step.",
            )
        if outcome == "not_done" and cell.state is not CellState.UNKNOWN:
            raise Refused(
                f"{step} on {device} is {cell.state.value}, which is not unknown.",
                ErrorCode.WRONG_STATE,
                "Resume the run: what was not done is done then.",
            )
        event = StepSettled(done=outcome == "done", before=cell.state.value)
        entry = event.entry(self._client.actor, run=run, step=step, device=device, tool=cell.tool)
        await self._service.journal.append(entry)
        changes = settled(done=event.done, by=self._client.actor)
        self._service.ended_runs.changed(run)
        live = self._service.runs.find(run)
        if live is not None:
            self._service.runs.settle(live, device, step, changes)
        return cell.model_copy(update=changes)

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
        return await self._begin(batch, ((device,),), "call", said, request_id)

    async def _begin(
        self,
        batch: Batch,
        waves: Waves,
        kind: Literal["batch", "call"],
        said: str,
        request_id: str,
        inputs: Inputs = NO_INPUTS,
    ) -> Run:
        _check_said(said)
        client, runs = self._client, self._service.runs
        if not client.is_agent:
            live = await runs.start(batch, waves, client.actor, kind, said, client.operator, inputs)
            return await self._reader.first_page(live.id)
        devices = [device for wave in waves for device in wave]
        self._check_asks(batch, devices)
        requests = self._service.agent_requests
        async with requests.turns[client.actor]:
            digest = requests.digest_of(batch, inputs.values)
            earlier = await requests.earlier(client.actor, request_id, digest, devices)
            if earlier is not None:
                return await self.get(earlier)
            self._service.agents.spend(client.actor, len(devices) * len(flatten(batch.steps)))
            live = await runs.start(
                batch,
                waves,
                client.actor,
                kind,
                said,
                self._service.agents.operator_of(client.actor),
                inputs,
                request_id=request_id,
                request_digest=digest,
                program=client.program,
            )
        return await self._reader.first_page(live.id)

    def _check_asks(self, batch: Batch, devices: list[str]) -> None:
        """Check that an agent may ask now.

        Raises:
            Refused: it is paused; journalled as a refused command, of the first step on the first device.
        """
        agents, actor = self._service.agents, self._client.actor
        try:
            agents.check_asks(actor)
        except Refused as error:
            if error.code is ErrorCode.AGENT_PAUSED:
                agents.spend(actor, 1)
                step = flatten(batch.steps)[0]
                request = CommandRequest(devices[0], step.tool, step.parameters, actor)
                self._service.dispatcher.refuse(request, error)
            raise

    async def wait(self, run: str, timeout: float, until_asked: bool = False) -> Run:
        live = self._service.runs.find(run)
        if live is None or live.end is not None:
            return await self.get(run)
        self._client.check_own(live.actor, run)
        waits_for = live.asked if until_asked else live.ended
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(waits_for.wait(), min(max(timeout, 0.0), LONGEST_WAIT))
        return await self._reader.first_page(live.id)

    async def stop(self, run: str) -> RunSummary:
        live = await self._live(run)
        if live is None:
            return await self._reader.summary(run)
        await self.cancel(live)
        return live.summary()

    async def cells(self, run: str, after: int = 0, limit: int = 500) -> CellPage:
        return await self._reader.page(run, after, limit)

    async def output(self, run: str, device: str, step: str, after: int = 0) -> OutputChunk:
        _, cell = await self._reader.cell(run, device, step)
        if not cell.call_id:
            return OutputChunk(pieces=[], next=after, ended=cell.ended_at is not None)
        following = self._service.progress.output(cell.call_id, after)
        if following is not None:
            return following
        journal = self._service.journal
        await journal.settle()
        query = f"call:{quoted(cell.call_id)} kind:{Kind.PROGRESS_REPORTED}"
        page = await journal.query(query, after=0, limit=MAX_PAGE)
        return chunk_of(output_in(page.entries), after, cell.ended_at is not None)

    async def compare(self, before: str, after: str) -> RunComparison:
        first, second = [await self._reader.states(run) for run in (before, after)]
        devices = list(dict.fromkeys([*first.summary.devices, *second.summary.devices]))
        parts: list[RunComparison] = []
        while devices or not parts:
            some = devices[:_COMPARED_TOGETHER]
            old, count = await self._reader.cells_of_first(before, some, all_of_one=True)
            new, count = await self._reader.cells_of_first(after, some[:count], all_of_one=True)
            some, devices = devices[:count], devices[count:]
            # In a thread: it takes longer than the service's loop may stand.
            part = await asyncio.to_thread(
                compare_runs,
                first.model_copy(update={"cells": old}),
                second.model_copy(update={"cells": new}),
                some,
            )
            parts.append(part)
        return joined(parts)

    async def undo_plan(self, run: str) -> UndoPlan:
        return await make_undo_plan(self._service, await self._reader.states(run), self._client.actor)

    async def undo(self, run: str, digest: str = "") -> Run:
        original, client = await self._reader.states(run), self._client
        self._count(len(original.cells))
        live = await start_undo(self._service, original, client.actor, client.operator, digest)
        return await self._reader.first_page(live.id)

    async def cancel_step(self, run: str, device: str, step: str) -> RunSummary:
        live = await self._live(run)
        if live is None:
            raise _has_ended(run)
        if (device, step) not in live.cells:
            raise no_such_cell(live.summary(), device, step)
        self._service.runs.cancel_cell(live, device, step, self._client.actor)
        return live.summary()

    async def pause(self, run: str) -> RunSummary:
        live = await self._live(run)
        if live is None:
            raise _has_ended(run)
        self._service.runs.pause(live, self._client.actor)
        return live.summary()

    async def unpause(self, run: str) -> RunSummary:
        live = await self._live(run)
        if live is None:
            raise _has_ended(run)
        self._service.runs.unpause(live, self._client.actor)
        return live.summary()

    def _count(self, commands: int) -> None:
        """Count commands against an agent's limits.

        Raises:
            Refused: an agent is paused, or has reached its limit.
        """
        if self._client.is_agent:
            self._service.agents.check_asks(self._client.actor)
            self._service.agents.spend(self._client.actor, commands)

    async def _live(self, run: str) -> LiveRun | None:
        """The run, which this client may control, if it has not ended."""
        live = self._reader.live(run)
        if live is None:
            # Says so if there is no such run.
            await self._reader.summary(run)
            return None
        return live if live.end is None else None

    async def get(self, run: str) -> Run:
        return await self._reader.first_page(run)

    async def evidence(self, run: str, sha256: str) -> bytes:
        cells = (await self._reader.states(run)).cells
        results = [cell.result for cell in cells if cell.result is not None]
        if not any(evidence.blob == sha256 for result in results for evidence in result.evidence):
            raise BadInput(f"No result of {run} names this blob.", ErrorCode.NOT_FOUND)
        return await self._service.journal.get_blob(sha256)

    async def results(self, run: str, after: int = 0, limit: int = 500) -> ResultPage:
        page = await self.cells(run, after, limit)
        requested: dict[str, dict[str, Any]] | None = None
        envelopes: list[Envelope] = []
        failed = 0
        for cell in page.cells:
            others: list[Alternative] = []
            if cell.result is not None and cell.result.error is not None and failed < _MOST_WITH_ALTERNATIVES:
                failed += 1
                if requested is None:
                    requested = await self._requested(run)
                call = FailedCall(page.run.actor, requested.get(cell.step, {}), cell.result)
                others = await alternatives_to(self._service, call)
            envelopes.append(cell_envelope(cell, others))
        return ResultPage(results=envelopes, next=page.next)

    async def alternatives(self, run: str, device: str, step: str) -> list[Alternative]:
        actor, cell = await self._reader.cell(run, device, step)
        if cell.result is None or cell.result.error is None:
            return []
        parameters = (await self._requested(run)).get(step, {})
        return await alternatives_to(self._service, FailedCall(actor, parameters, cell.result))

    async def _requested(self, run: str) -> dict[str, dict[str, Any]]:
        """The arguments of a run's steps, by step; those of an ended run are redacted."""
        batch = await self._reader.batch(run)
        return {step.id: step.parameters for step in flatten(batch.steps)}

    async def find(self, words: str, before: int | None = None, limit: int = 50) -> RunPage:
        service = self._service
        await service.journal.settle()
        live = {run.id: run.summary().state.value for run in service.runs.active}
        matches = await service.journal.search_runs(words, live, before, min(max(limit, 1), MOST_RUNS))
        runs = [await self._reader.summary(run) for run in matches.runs]
        return RunPage(runs=runs, next_before=matches.next_before)

    async def batch_names(self) -> list[str]:
        return self._batches.names()

    async def saved_batches(self) -> list[SavedBatch]:
        # In a thread: it reads every file of the folder.
        return await asyncio.to_thread(self._batches.listing)

    async def load_batch(self, name: str) -> Batch:
        if self._client.is_agent and name not in self._batches.names():
            # Not told the names that there are: some are of batches for devices that it has not.
            raise BadInput(f"No batch is saved as {name!r}.", ErrorCode.NOT_FOUND)
        return self._batches.load(name)

    async def save_batch(self, name: str, batch: Batch) -> None:
        self._batches.save(name, batch)

    async def rename_batch(self, name: str, to: str) -> None:
        self._batches.rename(name, to)

    async def delete_batch(self, name: str) -> None:
        self._batches.delete(name)

    async def list(
        self, before: str | None = None, limit: int = 50, active: bool = False
    ) -> list[RunSummary]:
        service = self._service
        if active:
            going_on = (run.summary() for run in reversed(service.runs.active))
            return [run for run in going_on if not self._client.is_agent or run.actor == self._client.actor]
        seq = await self._start_of(before) if before else None
        own = f" actor:{quoted(self._client.actor)}" if self._client.is_agent else ""
        page = await service.journal.query(
            f"kind:{Kind.RUN_STARTED}{own}", before=seq, limit=min(max(limit, 1), MOST_RUNS)
        )
        return [await self._reader.summary(entry.run) for entry in page.entries if entry.run]

    async def _start_of(self, run: str) -> int:
        page = await self._service.journal.query(f"kind:{Kind.RUN_STARTED} run:{quoted(run)}", limit=1)
        if not page.entries:
            raise no_such_run(run)
        return page.entries[0].seq

    async def cancel(self, live: LiveRun) -> None:
        """Cancel an active run and withdraw its approval requests."""
        await self._service.runs.cancel(live, self._client.actor)

    @property
    def _batches(self) -> SavedBatches:
        return SavedBatches(self._service.home.batches)


def _schema_on_first(present: list[Device], tool: str, devices: RunDevices) -> Mapping[str, Any]:
    """The schema of what a tool gives on the first of these devices that has it; empty if none is known."""
    for device in present:
        if (offered := devices.tool(device.name, tool)) is not None:
            return arriving_schema(offered, device)
    return {}


def _only_step(tool: str, parameters: dict[str, Any], timeout: float | None) -> Step:
    try:
        return Step(id="call", tool=tool, parameters=parameters, timeout=timeout)
    except ValidationError as error:
        raise BadInput(f"This is not a call: {first_fault(error)}.") from None


def _check_literal(batch: Batch) -> None:
    """Check that a batch which is to be taken literally is one call, without anything that is an expression.

    Raises:
        BadInput: it is not.
    """
    only = batch.steps[0]
    if len(batch.steps) == 1 and isinstance(only, Step):
        plain = Step(id=only.id, tool=only.tool, parameters=only.parameters, timeout=only.timeout)
        if only == plain:
            return
    raise BadInput("Only one call, without conditions, retries and recovery, can be taken literally.")


def _has_ended(run: str) -> Refused:
    return Refused(
        f"{run} has ended.", ErrorCode.WRONG_STATE, "Look at its results: nothing of it is going on."
    )


def _check_said(said: str) -> None:
    if len(said) > MOST_SAID:
        # The text is recorded with every entry of the run and shown on the card.
        raise BadInput(
            f"What is said about a call has at most {MOST_SAID:,} characters.", ErrorCode.TOO_LARGE
        )
