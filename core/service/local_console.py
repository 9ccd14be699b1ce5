"""The console API in the process that owns the home, with one `LocalConsole` per client."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

from core import __version__
from core.approvals.models import Operator
from core.audit.entries import Entry, Kind
from core.audit.events import AllResumed, AllStopped, OperatorRegistered, OperatorRemoved, event_of
from core.audit.projection import CommandState
from core.batch.history import rebuild_run
from core.batch.models import Batch, Plan, Run, RunSummary, SavedBatch, Step, flatten
from core.batch.planner import make_plan
from core.batch.run_state import ActiveRun
from core.batch.saved import SavedBatches
from core.canonical_json import canonical_bytes
from core.changes import Change, ChangeKind, Proposal, SignedChange, SignedIdentity
from core.dispatch.models import CommandResult
from core.errors import BadInput, ErrorCode, JournalError, JournalUnavailable, Refused
from core.fleet.filter import parse_filter
from core.fleet.models import Device, Tool
from core.policy.models import Decision
from core.replay.models import Timeline
from core.replay.result_search import ContentHits, find_in_results
from core.replay.timeline import build_timeline
from core.service import proposals
from core.service.approvals_api import ApprovalsApi
from core.service.console import (
    Bucket,
    CommandRecord,
    ConsoleState,
    EntryPage,
    Event,
    Facet,
    NumberPage,
    Proof,
    RunPage,
    VerifyReport,
)
from core.service.rehearsal import rehearse
from core.service.service import Service

RUNS_IN_STATE = 30
MOST_RUNS = 200
MOST_NUMBERS = 10_000
FACETS_LOOKED_AT = 200
AROUND_BEFORE, AROUND_AFTER = 150, 250
LONGEST_WAIT = 3600.0
MOST_SAID = 20_000


class LocalConsole(ApprovalsApi):
    """The console API of one client, for a service in this process."""

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
            runs=await self.runs(limit=RUNS_IN_STATE),
            secret_names=tuple(service.settings.secret_names),
        )

    def events(self) -> AsyncIterator[Event]:
        return self._service.hub.subscribe()

    async def tools(self, device: str) -> list[Tool]:
        return self._service.fleet.tools(device)

    async def match_devices(self, targets: str) -> list[Device]:
        wanted = parse_filter(targets)
        return [device for device in self._service.fleet.devices() if wanted.matches(device)]

    async def review_contract(
        self, device: str, tool_key: str, digest: str, signed: SignedChange | None = None
    ) -> Tool:
        self._only_people("review a tool")
        service = self._service
        wanted = await proposals.contract(service, device, tool_key, digest)
        proof = await self._signed(wanted, signed)
        return await service.fleet.review(device, tool_key, digest, self._actor, proof)

    async def explain(self, device: str, tool: str, parameters: dict[str, Any]) -> Decision:
        dispatcher = self._service.dispatcher
        leads = await dispatcher.look_ahead([device], tool, parameters)
        return dispatcher.explain(device, tool, parameters, self._actor, leads)

    async def plan(self, batch: Batch) -> Plan:
        devices = await self.match_devices(batch.targets)
        names = [device.name for device in devices]
        dispatcher = self._service.dispatcher
        leads = {
            step.id: await dispatcher.look_ahead(names, step.tool, step.parameters)
            for step in flatten(batch.steps)
        }
        return make_plan(batch, devices, dispatcher, self._actor, leads)

    async def start_run(self, batch: Batch, expected_devices: list[str] | None = None) -> Run:
        devices = [device.name for device in await self.match_devices(batch.targets)]
        if not devices:
            raise BadInput(f"No device matches {batch.targets!r}.", ErrorCode.UNKNOWN_DEVICE)
        if expected_devices is not None and sorted(expected_devices) != sorted(devices):
            raise BadInput(
                f"{batch.targets!r} now means {len(devices)} devices, not the {len(expected_devices)} "
                "that were shown. Plan again."
            )
        live = await self._service.runner.start(batch, devices, self._actor, "batch", operator=self._operator)
        return live.whole()

    async def call(
        self, device: str, tool: str, parameters: dict[str, Any], timeout: float | None = None, said: str = ""
    ) -> Run:
        if len(said) > MOST_SAID:
            # The text is recorded with every entry of the run and shown on the card.
            raise BadInput(
                f"What is said about a call has at most {MOST_SAID:,} characters.", ErrorCode.TOO_LARGE
            )
        self._service.fleet.get(device)
        canonical_bytes(parameters)
        step = Step(id="call", tool=tool, parameters=parameters, timeout=timeout)
        batch = Batch(name=tool[:200] or "call", targets=f"name:{device}", steps=[step])
        live = await self._service.runner.start(batch, [device], self._actor, "call", said, self._operator)
        return live.whole()

    async def wait_run(self, run: str, timeout: float) -> Run:
        live = self._service.runner.find(run)
        if live is None or live.end is not None:
            return await self.run(run)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(live.ended.wait(), min(max(timeout, 0.0), LONGEST_WAIT))
        return live.whole()

    async def run(self, run: str) -> Run:
        live = self._service.runner.find(run)
        if live is not None:
            return live.whole()
        await self._service.journal.settle()
        entries = await self._service.journal.entries_of_run(run)
        if not entries:
            raise BadInput(f"There is no run {run}.", ErrorCode.NOT_FOUND)
        return rebuild_run(entries)

    async def runs(self, before: str | None = None, limit: int = 50) -> list[RunSummary]:
        service = self._service
        seq = await self._start_of(before) if before else None
        page = await service.journal.query(
            f"kind:{Kind.RUN_STARTED}", before=seq, limit=min(max(limit, 1), MOST_RUNS)
        )
        return [await self._summary(entry.run) for entry in page.entries if entry.run]

    async def find_runs(self, words: str, before: int | None = None, limit: int = 50) -> RunPage:
        service = self._service
        await service.journal.settle()
        live = {run.id: run.summary().state.value for run in service.runner.active}
        matches = await service.journal.search_runs(words, live, before, min(max(limit, 1), MOST_RUNS))
        runs = [await self._summary(run) for run in matches.runs]
        return RunPage(runs=runs, next_before=matches.next_before)

    async def _start_of(self, run: str) -> int:
        page = await self._service.journal.query(f"kind:{Kind.RUN_STARTED} run:{_quoted(run)}", limit=1)
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
            summary = (await self.run(run)).summary
        except JournalError as error:
            return _unreadable(run, error)
        return self._service.ended_runs.setdefault(run, summary)

    async def cancel_run(self, run: str) -> RunSummary:
        live = self._service.runner.find(run)
        if live is None:
            return (await self.run(run)).summary
        if live.actor != self._actor:
            self._only_people("cancel another actor's run")
        await self._cancel(live)
        return live.summary()

    async def _cancel(self, live: ActiveRun) -> None:
        await self._service.runner.cancel(live, self._actor)
        self._service.approvals.withdraw("The run was cancelled; nothing was sent.", live.id)

    async def propose(self, wish: Change, text: str = "") -> Proposal:
        self._only_people("propose a change")
        service = self._service
        wanted = await proposals.of(service, wish, text)
        difference = list(wanted.loosens)
        if wish.kind is ChangeKind.POLICY and difference:
            difference += await rehearse(service, text)
        return Proposal(
            home=service.gate.home_key,
            change=wanted.change,
            needs_signature=bool(wanted.loosens),
            difference=difference,
        )

    async def challenge(self) -> str:
        return self._challenge

    async def identify(self, signed: SignedIdentity) -> Operator:
        self._only_people("be an operator")
        service = self._service
        identity = signed.identity
        if (identity.home, identity.challenge) != (service.gate.home_key, self._challenge):
            raise Refused("This proof is for another connection.", ErrorCode.APPROVAL_INVALID)
        operator = service.operators.check_identity(signed)
        self._operator = operator.name
        if self._actor.startswith(("window:", "operator:")):
            self._actor = f"operator:{operator.name}"
        return operator

    async def register_operator(self, operator: Operator, signed: SignedChange | None = None) -> Operator:
        self._only_people("register an operator")
        service = self._service
        if service.operators.is_registered(operator):
            return service.operators.get(operator.name)
        async with service.operators_changing:
            proof = await self._signed(proposals.operator_added(service, operator), signed)
            await self._record(OperatorRegistered(operator=operator.model_dump(mode="json"), **proof))
            registered = service.operators.add(operator)
        service.tell_control()
        return registered

    async def remove_operator(self, name: str, signed: SignedChange | None = None) -> None:
        self._only_people("remove an operator")
        service = self._service
        async with service.operators_changing:
            operator = service.operators.get(name)
            proof = await self._signed(proposals.operator_removed(service, name), signed)
            await self._record(OperatorRemoved(operator=name, public_key=operator.public_key, **proof))
            service.operators.remove(name)
        service.approvals.operator_removed(name)
        for grant in await self.grants():
            if grant.terms.author == name and not grant.over:
                await self.revoke_grant(grant.terms.id)
        service.tell_control()

    async def stop_all(self) -> str:
        service = self._service
        runs = service.runner.active
        sent = service.dispatcher.in_flight
        # The dispatcher is stopped before any step that could take time or fail.
        service.dispatcher.stop(f"Everything was stopped by {self._actor}.")
        withdrawn = service.approvals.withdraw("Everything was stopped; nothing was sent.")
        for live in runs:
            await service.runner.cancel(live, self._actor)
        service.live_pictures.cancel()
        words = _stop_words(len(runs), withdrawn, len(sent))
        service.dispatcher.stop(words)
        service.tell_control()
        stopped = AllStopped(runs=[live.id for live in runs], withdrawn=withdrawn, calls=sent)
        entry = stopped.entry(self._actor)
        try:
            service.journal.note(entry)
        except JournalUnavailable:
            service.dispatcher.keep([entry])
        return words

    async def resume(self, signed: SignedChange | None = None) -> None:
        self._only_people("resume")
        service = self._service
        # A stop recorded after this resume would be in force again at the next start.
        if not await service.dispatcher.record_late():
            raise JournalUnavailable("The journal cannot be written; everything stays stopped until it can.")
        wanted = proposals.resume(service)
        proof = await self._signed(wanted, signed)
        await self._record(AllResumed(**proof))
        if service.dispatcher.stopped != wanted.change.before["stopped"]:
            # Stopped again while this was recorded: the operator who signed has not seen that stop.
            raise Refused("Everything was stopped again meanwhile; it stays stopped.", ErrorCode.STOPPED)
        service.dispatcher.resume()
        service.tell_control()

    async def entries(self, query: str = "", before: int | None = None, limit: int = 200) -> EntryPage:
        await self._service.journal.settle()
        page = await self._service.journal.query(query, before=before, limit=limit)
        return EntryPage(
            entries=page.entries,
            more=page.next_before is not None,
            total=page.count,
            total_exact=page.count_exact,
            took_ms=page.took_ms,
        )

    async def entry_numbers(
        self, query: str = "", before: int | None = None, limit: int = 10_000
    ) -> NumberPage:
        await self._service.journal.settle()
        most = min(max(limit, 1), MOST_NUMBERS)
        numbers, next_before = await self._service.journal.numbers(query, before, most)
        return NumberPage(numbers=numbers, next_before=next_before)

    async def entry(self, seq: int) -> Entry:
        return await self._service.journal.entry(seq)

    async def histogram(self, query: str = "", buckets: int = 80) -> list[Bucket]:
        journal = self._service.journal
        spans = await journal.histogram(query, buckets)
        return [Bucket(**one.model_dump()) for one in spans]

    async def facets(self, field: str, prefix: str = "", limit: int = 12) -> list[Facet]:
        found = await self._service.journal.facets(field, prefix, max(limit, FACETS_LOOKED_AT))
        found.sort(key=lambda one: (-one.count, one.value))
        return [Facet(value=one.value, count=one.count) for one in found[: max(limit, 0)]]

    async def proof(self, seq: int) -> Proof:
        found = await self._service.journal.prove(seq)
        return Proof(
            seq=found.seq,
            entry=found.entry,
            leaf=found.leaf,
            path=found.path,
            root=found.root,
            size=found.size,
            checkpoint=found.checkpoint,
            public_key=self._service.journal.public_key.public_bytes_raw().hex(),
        )

    async def command(self, call_id: str) -> CommandRecord:
        await self._service.journal.settle()
        page = await self._service.journal.query(f"call:{_quoted(call_id)}", after=0, limit=500)
        if not page.entries:
            raise BadInput(f"There is no command {call_id}.", ErrorCode.NOT_FOUND)
        command = CommandState(call_id)
        for entry in page.entries:
            command.apply(entry, event_of(entry))
        return CommandRecord(
            call_id=call_id,
            entries=page.entries,
            decision=None if command.decision is None else Decision.model_validate(command.decision),
            result=None if command.result is None else CommandResult.model_validate(command.result),
        )

    async def verify(self, checkpoint: str | None = None) -> VerifyReport:
        return await self._service.verify(checkpoint)

    async def blob(self, sha256: str) -> bytes:
        return await self._service.journal.get_blob(sha256)

    async def timeline(self, run: str | None = None, around: int | None = None) -> Timeline:
        await self._service.journal.settle()
        if run is not None:
            found = await self.run(run)
            return build_timeline(await self._stretch(run, around), found.summary.name, run)
        middle = around if around is not None else self._service.journal.state.entries
        return build_timeline(await self._stretch(None, middle), f"Around entry {middle:,}", None)

    async def _stretch(self, run: str | None, around: int | None) -> list[Entry]:
        """The entries of a run, or the entries around an entry; oldest first."""
        journal = self._service.journal
        await journal.settle()
        if run is not None:
            return await journal.entries_of_run(run)
        middle = around if around is not None else journal.state.entries
        page = await journal.query(
            "", after=max(0, middle - AROUND_BEFORE), limit=AROUND_BEFORE + AROUND_AFTER
        )
        return list(page.entries)

    async def find_in_results(
        self, words: list[str], run: str | None = None, around: int | None = None
    ) -> ContentHits:
        entries = await self._stretch(run, around)
        return await find_in_results(entries, words, self._service.journal.get_blob)

    @property
    def _batches(self) -> SavedBatches:
        return SavedBatches(self._service.home.batches)

    async def batches(self) -> list[str]:
        return self._batches.names()

    async def saved_batches(self) -> list[SavedBatch]:
        # In a thread: it reads every file of the folder.
        return await asyncio.to_thread(self._batches.listing)

    async def load_batch(self, name: str) -> Batch:
        return self._batches.load(name)

    async def save_batch(self, name: str, batch: Batch) -> None:
        # People start saved batches under their own name, so that an agent must not write them.
        self._only_people("save a batch")
        self._batches.save(name, batch)

    async def rename_batch(self, name: str, to: str) -> None:
        self._only_people("rename a batch")
        self._batches.rename(name, to)

    async def delete_batch(self, name: str) -> None:
        self._only_people("delete a batch")
        self._batches.delete(name)

    async def shut_down(self, cancel_work: bool) -> str:
        self._only_people("end the service")
        service = self._service
        runs = service.runner.active
        if not runs or cancel_work:
            for live in runs:
                await self._cancel(live)
            service.on_shutdown_asked.set()
            return "The service is ending."
        service.tasks.spawn("end when the work has ended", _end_after(service))
        return f"The service ends when {'1 run has' if len(runs) == 1 else f'{len(runs)} runs have'} ended."

    async def close(self) -> None:
        self._service.approvals.let_go(self._reader)
        self._service.live_pictures.let_go(self._reader)


def _stop_words(runs: int, requests: int, commands: int) -> str:
    """A sentence about what was stopped; zero counts are left out."""
    parts = []
    if runs:
        parts.append(f"{runs} run{'s were' if runs > 1 else ' was'} ended")
    if requests:
        parts.append(f"{requests} request{'s were' if requests > 1 else ' was'} withdrawn")
    if commands:
        one, many = " was on a device and was asked to cancel", "s were on devices and were asked to cancel"
        parts.append(f"{commands} command{many if commands > 1 else one}")
    return f"Everything was stopped: {', '.join(parts) or 'nothing was under way'}."


async def _end_after(service: Service) -> None:
    while service.runner.active:
        await service.runner.active[0].ended.wait()
    service.on_shutdown_asked.set()


def _quoted(value: str) -> str:
    return '"' + value.replace('"', "") + '"'


def _unreadable(run: str, error: JournalError) -> RunSummary:
    from core.batch.models import RunState

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
