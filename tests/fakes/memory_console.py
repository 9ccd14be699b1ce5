"""A small `Console` that lives in memory: one device, calls that end at once or wait for an approval."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

from core.aip.messages import ResultStatus
from core.approvals.grants import SignedGrant
from core.approvals.models import Approval, ApprovalState, Operator
from core.audit.entries import Entry, Kind
from core.batch.models import Batch, Cell, CellState, Plan, Run, RunState, RunSummary, SavedBatch, Step
from core.canonical_json import sha256_hex
from core.changes import Change, Proposal, SignedChange, SignedIdentity
from core.dispatch.models import Basis, CommandResult, Verdict
from core.errors import BadInput, ErrorCode, ErrorInfo, Refused
from core.fleet.models import (
    Contract,
    Device,
    Effect,
    Fact,
    Health,
    Risk,
    Source,
    Tool,
    ToolDescription,
    ToolHit,
)
from core.fleet.tool_scope import scope_of, undo_of
from core.fleet.tool_search import Offer, ToolIndex
from core.policy.models import Answer, Decision, Profile, Reason
from core.replay.models import Timeline
from core.replay.result_search import ContentHits
from core.service.console import (
    ApprovalChanged,
    Bucket,
    CommandRecord,
    ConsoleState,
    EntryPage,
    Event,
    Facet,
    JournalStatus,
    NumberPage,
    PolicyStatus,
    Proof,
    ResultPage,
    RunChanged,
    RunPage,
    VerifyReport,
)
from core.service.envelope import cell_envelope
from core.service.event_hub import EventHub
from core.statements import SignedStatement, make_request
from tests.fakes.memory_devices import TIME, MemoryDevices

AGENT_TOKEN = "x.token"
BLOB = b"\x00\xff" * 1000
SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "deep": {"type": "boolean"},
        "many": {"type": "array", "items": {"type": "string"}},
    },
}


def fact(value: Any) -> Fact[Any]:
    return Fact(value=value, source=Source.BUILT_IN, why="")


def tool(name: str, risk: Risk) -> Tool:
    contract = Contract(
        effect=fact(Effect.OBSERVE if risk is Risk.LOW else Effect.CHANGE),
        risk=fact(risk),
        reversible=fact(False),
        idempotent=fact(False),
        open_world=fact(False),
        digest="c" * 64,
    )
    return Tool(
        device="this-computer",
        tool_key=f"ns::{name}",
        tool_name=name,
        tool_type="data_collection" if risk is Risk.LOW else "action",
        input_schema=SCHEMA,
        contract=contract,
    )


class MemoryHost:
    """What several consoles share; counts what it was asked."""

    def __init__(self) -> None:
        self.hub = EventHub()
        self.tools = {"echo": tool("echo", Risk.LOW), "change": tool("change", Risk.HIGH)}
        self.all_runs: dict[str, Run] = {}
        self.queue: dict[str, Approval] = {}
        self.ended: dict[str, asyncio.Event] = {}
        self.holds: list[tuple[str, bool]] = []
        self.holds_changed = asyncio.Event()
        self.asked: Counter[str] = Counter()
        self.actors: list[str] = []
        self.gate = asyncio.Event()
        self.entered = asyncio.Semaphore(0)
        self.finished = asyncio.Event()
        self.busy = False
        self.on_shutdown_asked = asyncio.Event()
        self.numbers = itertools.count(1)

    def console(self, actor: str) -> MemoryConsole:
        self.actors.append(actor)
        return MemoryConsole(self, actor)

    def agent_console(self, actor: str, token: str, end: Callable[[str], None]) -> MemoryConsole:
        if token != AGENT_TOKEN:
            raise Refused("This is not the token of an agent of this home.", ErrorCode.AGENT_UNKNOWN)
        return self.console(actor)


class MemoryConsole(MemoryDevices):
    def __init__(self, host: MemoryHost, actor: str) -> None:
        super().__init__(host.asked)
        self.host = host
        self.actor = actor
        self.held: set[str] = set()

    async def on_state(self) -> ConsoleState:
        return ConsoleState(
            service_started_at=TIME,
            service_pid=1,
            version="0",
            home="/home",
            stopped=False,
            policy=PolicyStatus(profile=Profile.GUARDED),
            journal=JournalStatus(entries=0, writable=True),
            operators=[],
            devices=[Device(name="this-computer", health=Health.ONLINE, since=TIME, tool_count=2)],
            approvals=await self.on_approvals(),
            runs=[run.summary for run in self.host.all_runs.values()],
        )

    def events(self) -> AsyncIterator[Event]:
        return self.host.hub.subscribe()

    async def on_tools(self, device: str) -> list[Tool]:
        if device != "this-computer":
            raise BadInput(f"There is no device {device!r}.", ErrorCode.UNKNOWN_DEVICE)
        return list(self.host.tools.values())

    async def on_search_tools(self, words: str, targets: str = "", limit: int = 20) -> list[ToolHit]:
        index = ToolIndex()
        await index.follow([Offer("this-computer", [], Health.ONLINE, self.host.tools)])
        return index.search(words, None, limit, {})

    async def on_describe_tool(self, device: str, tool: str) -> ToolDescription:
        if tool not in {one.tool_name for one in await self.on_tools(device)}:
            raise BadInput(f"There is no tool {tool!r}.", ErrorCode.UNKNOWN_TOOL)
        described, [there] = self.host.tools[tool], (await self.on_state()).devices
        return ToolDescription(
            tool=described, scope=scope_of(described, there), undo=undo_of(described), health=there.health
        )

    async def on_match_devices(self, targets: str) -> list[Device]:
        return (await self.on_state()).devices

    async def on_review_contract(
        self, device: str, tool_key: str, digest: str, signed: SignedChange | None = None
    ) -> Tool:
        self.host.asked["review_contract"] += 1
        return self.host.tools["echo"]

    async def on_explain(self, device: str, tool: str, parameters: dict[str, Any]) -> Decision:
        return self._decision(tool)

    def _decision(self, name: str) -> Decision:
        if name not in self.host.tools:
            raise BadInput(f"There is no tool {name!r}.", ErrorCode.UNKNOWN_TOOL)
        risk = self.host.tools[name].contract.risk.value
        return Decision(
            answer=Answer.ALLOW if risk is Risk.LOW else Answer.ASK,
            risk=risk,
            effect=Effect.CHANGE,
            profile=Profile.GUARDED,
            summary=f"Runs {name}.",
            reasons=[Reason(text="High risk asks.", origin="profile guarded")],
        )

    async def on_plan(self, batch: Batch, inputs: dict[str, Any] | None = None) -> Plan:
        return Plan(devices=["this-computer"], steps=[], cells=[])

    async def on_start_run(
        self,
        batch: Batch,
        expected_devices: list[str] | None = None,
        inputs: dict[str, Any] | None = None,
        said: str = "",
        request_id: str = "",
    ) -> Run:
        # Stands still where a test wants a call to be under way.
        self.host.asked["start_run"] += 1
        self.host.entered.release()
        await self.host.gate.wait()
        self.host.finished.set()
        step = batch.steps[0]
        assert isinstance(step, Step)
        return await self.on_call("this-computer", step.tool, step.parameters)

    async def on_call(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        timeout: float | None = None,
        said: str = "",
        request_id: str = "",
    ) -> Run:
        await self.on_tools(device)
        if tool not in self.host.tools:
            raise BadInput(f"There is no tool {tool!r}.", ErrorCode.UNKNOWN_TOOL)
        number = next(self.host.numbers)
        waits = self.host.tools[tool].contract.risk.value is not Risk.LOW
        batch = Batch(
            name=tool, steps=[Step.model_validate({"id": "call", "tool": tool, "with": parameters})]
        )
        cell = Cell(
            run=f"r{number}",
            device=device,
            step="call",
            tool=tool,
            state=CellState.RUNNING,
            call_id=f"call-{number}",
        )
        run = Run(summary=self._summary(cell, RunState.RUNNING), batch=batch, cells=[cell])
        self.host.all_runs[run.summary.id] = run
        self.host.ended[run.summary.id] = asyncio.Event()
        if waits:
            self._ask(cell, parameters)
        else:
            self.end(run.summary.id, parameters, None)
        return self.host.all_runs[run.summary.id]

    def _summary(self, cell: Cell, state: RunState) -> RunSummary:
        return RunSummary(
            id=cell.run,
            name=cell.tool,
            kind="call",
            actor=self.actor,
            state=state,
            devices=[cell.device],
            devices_hash="0",
            steps=["call"],
            tools=[cell.tool],
            counts={cell.state: 1},
            started_at=TIME,
        )

    def _ask(self, cell: Cell, parameters: dict[str, Any]) -> None:
        assert cell.call_id is not None
        request = make_request(
            device=cell.device,
            contract="c" * 64,
            tool_key=f"ns::{cell.tool}",
            tool_name=cell.tool,
            tool_type="action",
            namespace=None,
            parameters=parameters,
            call_id=cell.call_id,
        )
        approval = Approval(
            id=f"a-{cell.run}",
            request=request,
            decision=self._decision(cell.tool),
            actor=self.actor,
            run=cell.run,
            asked_at=TIME,
            expires_at=TIME,
            remaining_s=600,
        )
        self.host.queue[approval.id] = approval
        waiting = cell.model_copy(update={"state": CellState.WAITING, "approval": approval.id})
        run = self.host.all_runs[cell.run]
        self.host.all_runs[cell.run] = run.model_copy(
            update={"cells": [waiting], "summary": self._summary(waiting, RunState.WAITING)}
        )
        self.host.hub.publish(ApprovalChanged(approval=approval))

    def end(self, number: str, result: Any, error: ErrorInfo | None) -> None:
        run = self.host.all_runs[number]
        assert run.cells[0].call_id is not None
        outcome = CommandResult(
            call_id=run.cells[0].call_id,
            device="this-computer",
            tool_name=run.cells[0].tool,
            status=ResultStatus.FAILURE if error else ResultStatus.SUCCESS,
            verdict=Verdict.REFUSED if error else Verdict.CONFIRMED,
            basis=Basis.NOTHING_SENT if error else Basis.READ_RESPONSE,
            error=error,
            result=result,
            duration_ms=1.0,
        )
        state = CellState.REFUSED if error else CellState.DONE
        cell = run.cells[0].model_copy(update={"state": state, "result": outcome})
        summary = self._summary(cell, RunState.REFUSED if error else RunState.DONE)
        self.host.all_runs[number] = run.model_copy(update={"cells": [cell], "summary": summary})
        self.host.ended[number].set()
        self.host.hub.publish(RunChanged(run=summary))

    async def on_wait_run(self, run: str, timeout: float, until_asked: bool = False) -> Run:
        self.host.asked["wait_run"] += 1
        self.host.entered.release()
        try:
            async with asyncio.timeout(timeout):
                await self.host.ended[run].wait()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            self.host.asked["wait_run cancelled"] += 1
            self.host.finished.set()
            raise
        return self.host.all_runs[run]

    async def on_run(self, run: str) -> Run:
        if run not in self.host.all_runs:
            raise BadInput(f"There is no run {run!r}.", ErrorCode.NOT_FOUND)
        return self.host.all_runs[run]

    async def on_run_blob(self, run: str, sha256: str) -> bytes:
        return await self.on_blob(sha256)

    async def on_run_results(self, run: str, after: int = 0, limit: int = 500) -> ResultPage:
        return ResultPage(results=[cell_envelope(cell) for cell in (await self.on_run(run)).cells])

    async def on_runs(
        self, before: str | None = None, limit: int = 50, active: bool = False
    ) -> list[RunSummary]:
        runs = [run.summary for run in self.host.all_runs.values()]
        return [run for run in runs if not run.state.ended] if active else runs[:limit]

    async def on_find_runs(self, words: str, before: int | None = None, limit: int = 50) -> RunPage:
        return RunPage(runs=await self.on_runs(limit=limit), next_before=None)

    async def on_cancel_run(self, run: str) -> RunSummary:
        self.host.asked["cancel_run"] += 1
        self.end(run, None, ErrorInfo.of(ErrorCode.CANCELLED, "Cancelled."))
        return self.host.all_runs[run].summary

    async def on_approvals(self) -> list[Approval]:
        return [one for one in self.host.queue.values() if one.state is ApprovalState.WAITING]

    async def on_approval(self, approval: str) -> Approval:
        if approval not in self.host.queue:
            raise BadInput(f"There is no request {approval!r}.", ErrorCode.NOT_FOUND)
        return self.host.queue[approval]

    async def on_decide(self, signed: SignedStatement, grant: SignedGrant | None = None) -> Approval:
        self.host.asked["decide"] += 1
        approval = await self.on_approval(signed.statement.approval)
        approved = signed.statement.verdict == "approve"
        state = ApprovalState.APPROVED if approved else ApprovalState.DENIED
        decided = approval.model_copy(update={"state": state, "decided_by": signed.statement.approver})
        self.host.queue[approval.id] = decided
        assert approval.run is not None
        error = None if approved else ErrorInfo.of(ErrorCode.DENIED_BY_OPERATOR, signed.statement.reason)
        self.end(approval.run, approval.request.parameters if approved else None, error)
        return decided

    async def on_hold(self, approval: str, reading: bool) -> Approval:
        held = await self.on_approval(approval)
        self.host.holds.append((approval, reading))
        (self.held.add if reading else self.held.discard)(approval)
        self.host.holds_changed.set()
        return held

    async def on_register_operator(self, operator: Operator, signed: SignedChange | None = None) -> Operator:
        self.host.asked["register_operator"] += 1
        return operator

    async def on_remove_operator(self, name: str, signed: SignedChange | None = None) -> None:
        self.host.asked["remove_operator"] += 1

    async def on_propose(self, wish: Change, text: str = "") -> Proposal:
        self.host.asked["propose"] += 1
        return Proposal(home="", change=wish, needs_signature=False)

    async def on_challenge(self) -> str:
        return "challenge"

    async def on_identify(self, signed: SignedIdentity) -> Operator:
        self.host.asked["identify"] += 1
        return Operator(name=signed.identity.operator, public_key="0" * 64, has_passphrase=False)

    async def on_accept_policy(self, digest: str, signed: SignedChange | None = None) -> PolicyStatus:
        self.host.asked["accept_policy"] += 1
        return PolicyStatus(profile=Profile.GUARDED)

    async def on_accept_settings(self, signed: SignedChange | None = None) -> PolicyStatus:
        self.host.asked["accept_settings"] += 1
        return PolicyStatus(profile=Profile.GUARDED)

    async def on_set_profile(self, profile: Profile, signed: SignedChange | None = None) -> PolicyStatus:
        self.host.asked["set_profile"] += 1
        return PolicyStatus(profile=profile)

    async def on_stop_all(self) -> str:
        return "Stopped."

    async def on_resume(self, signed: SignedChange | None = None) -> None:
        self.host.asked["resume"] += 1

    async def on_entries(self, query: str = "", before: int | None = None, limit: int = 200) -> EntryPage:
        if query == "fault":
            raise RuntimeError("secret detail")
        found = [Entry(seq=1, time=TIME, kind=Kind.SERVICE_STARTED, actor="service")]
        return EntryPage(entries=found, more=False, total=1, total_exact=True, took_ms=0.1)

    async def on_entry_numbers(
        self, query: str = "", before: int | None = None, limit: int = 10_000
    ) -> NumberPage:
        return NumberPage(numbers=[1], next_before=None)

    async def on_entry(self, seq: int) -> Entry:
        if seq != 1:
            raise BadInput(f"There is no entry {seq}.", ErrorCode.NOT_FOUND)
        return (await self.on_entries()).entries[0]

    async def on_histogram(self, query: str = "", buckets: int = 80) -> list[Bucket]:
        return [Bucket(start=TIME, end=TIME, count=1)]

    async def on_facets(self, field: str, prefix: str = "", limit: int = 12) -> list[Facet]:
        return [Facet(value="x" * limit, count=1)]

    async def on_proof(self, seq: int) -> Proof:
        return Proof(
            seq=seq, entry="", leaf="00", path=["11", "22"], root="33", size=3, checkpoint="", public_key=""
        )

    async def on_command(self, call_id: str) -> CommandRecord:
        return CommandRecord(call_id=call_id, entries=[])

    async def on_verify(self, checkpoint: str | None = None) -> VerifyReport:
        return VerifyReport(ok=True, entries=1, blobs=0, checkpoints=0)

    async def on_blob(self, sha256: str) -> bytes:
        if sha256 != sha256_hex(BLOB):
            raise BadInput("There is no such blob.", ErrorCode.NOT_FOUND)
        return BLOB

    async def on_timeline(self, run: str | None = None, around: int | None = None) -> Timeline:
        return Timeline(
            title="t",
            run=run,
            start=TIME,
            end=TIME,
            length_s=0,
            lanes=[],
            moments=[],
            spans=[],
            marks=[],
            frames=[],
        )

    async def on_find_in_results(
        self, words: list[str], run: str | None = None, around: int | None = None
    ) -> ContentHits:
        return ContentHits(numbers=[[] for _ in words], not_searched=0)

    async def on_batches(self) -> list[str]:
        return []

    async def on_saved_batches(self) -> list[SavedBatch]:
        return []

    async def on_rename_batch(self, name: str, to: str) -> None:
        self.host.asked[f"rename_batch {name} {to}"] += 1

    async def on_delete_batch(self, name: str) -> None:
        self.host.asked[f"delete_batch {name}"] += 1

    async def on_load_batch(self, name: str) -> Batch:
        raise Refused(f"There is no batch {name!r}.", ErrorCode.DENIED_BY_POLICY)

    async def on_save_batch(self, name: str, batch: Batch) -> None:
        self.host.asked[f"save_batch {name} {batch.steps[0]}"] += 1

    async def on_shut_down(self, cancel_work: bool) -> str:
        self.host.asked["shut_down"] += 1
        self.host.on_shutdown_asked.set()
        return "It ends."

    async def close(self) -> None:
        for approval in sorted(self.held):
            await self.on_hold(approval, False)
