"""Runs of the fake: steps one after another on each device, as far as the profile lets them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from core.aip.messages import ResultStatus
from core.approvals.models import Approval, ApprovalState
from core.audit.entries import Kind
from core.batch.models import Batch, Cell, CellState, Run, RunState, RunSummary, Step, flatten
from core.batch.waves import Waves, sizes_of
from core.canonical_json import digest_of
from core.commands.results import Basis, CommandResult, Evidence, Verdict
from core.errors import ErrorCode, ErrorInfo, QuarterdeckError, Refused
from core.models.devices import Health
from core.models.tools import Effect, Tool
from core.policy.models import Answer, Decision
from core.service.console import CellChanged, RunChanged
from core.statements import make_request
from tests.fakes.decisions import decide_call
from tests.fakes.pictures import desktop_png

if TYPE_CHECKING:
    from tests.fakes.console.state import KnownState

OPEN = (CellState.QUEUED, CellState.RUNNING, CellState.WAITING)


def _now(after: float = 0.0) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=after)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class FakeRuns:
    """Starts, continues and cancels runs; every change is an event and an entry."""

    def __init__(self, console: KnownState) -> None:
        self._console = console
        self._runs: dict[str, Run] = {}
        self._results: dict[str, CommandResult] = {}
        self._ended = asyncio.Event()
        self._next_run, self._next_call = 1, 1

    def add(self, run: Run) -> None:
        """Put a made-up run among the known ones."""
        self._runs[run.summary.id] = run
        for cell in run.cells:
            if cell.result is not None:
                self._results[cell.result.call_id] = cell.result
        number = int(run.summary.id.removeprefix("r-"))
        self._next_run = max(self._next_run, number + 1)
        self._console.emit(RunChanged(run=run.summary))

    def summaries(self) -> list[RunSummary]:
        """Newest first."""
        return sorted((run.summary for run in self._runs.values()), key=lambda one: one.id, reverse=True)

    def find(self, run: str) -> Run:
        """One run. NOT_FOUND."""
        if run not in self._runs:
            raise QuarterdeckError(f"There is no run {run}.", ErrorCode.NOT_FOUND)
        return self._runs[run]

    def result_of(self, call_id: str) -> CommandResult | None:
        """The result of one command, if it has one."""
        return self._results.get(call_id)

    async def wait(self, run: str, timeout: float) -> Run:
        """The run when it has ended, or as it stands after `timeout` seconds."""
        while not self.find(run).summary.state.ended:
            self._ended.clear()
            try:
                async with asyncio.timeout(timeout):
                    await self._ended.wait()
            except TimeoutError:
                break
        return self.find(run)

    def start(self, batch: Batch, waves: Waves, kind: Any, said: str = "") -> Run:
        """Begin a run and take every device as far as it goes without an answer."""
        run_id = f"r-{self._next_run:04d}"
        self._next_run += 1
        devices = [device for wave in waves for device in wave]
        steps = flatten(batch.steps)
        cells = [
            Cell(
                run=run_id,
                device=device,
                step=step.id,
                tool=step.tool,
                state=CellState.QUEUED if step.enabled else CellState.SKIPPED,
            )
            for device in devices
            for step in steps
        ]
        summary = RunSummary(
            id=run_id,
            name=batch.name,
            kind=kind,
            actor="operator:harbour",
            state=RunState.RUNNING,
            devices=devices,
            devices_hash=digest_of(devices),
            steps=[step.id for step in steps],
            tools=[step.tool for step in steps],
            counts={},
            started_at=_now(),
            waves=sizes_of(waves),
        )
        self._runs[run_id] = Run(summary=summary, batch=batch, cells=cells)
        self._console.write(Kind.RUN_STARTED, "operator:harbour", run=run_id, body={"devices": devices})
        for device in devices:
            self._advance(run_id, device, said)
        self._settle(run_id)
        return self._runs[run_id]

    def _advance(self, run_id: str, device: str, said: str = "") -> None:
        batch = self._runs[run_id].batch
        failed = False
        for step in flatten(batch.steps):
            cell = self._cell(run_id, device, step.id)
            if cell.state is not CellState.QUEUED:
                failed = failed or cell.state in (CellState.FAILED, CellState.REFUSED)
                continue
            if failed and batch.on_failure == "stop":
                self._put(
                    cell.model_copy(update={"state": CellState.NOT_STARTED, "note": "an earlier step failed"})
                )
                continue
            after = self._begin(cell, step, said)
            if after.state is CellState.WAITING:
                return
            failed = after.state in (CellState.FAILED, CellState.REFUSED)

    def _begin(self, cell: Cell, step: Step, said: str) -> Cell:
        console = self._console
        call_id = f"c-{self._next_call:05d}"
        self._next_call += 1
        cell = cell.model_copy(update={"call_id": call_id, "started_at": _now()})
        try:
            tool = console.tool_named(cell.device, step.tool)
        except QuarterdeckError as error:
            return self._refuse(cell, None, error.message, error.code)
        device = console.fleet[cell.device]
        decision = decide_call(tool, step.parameters, console.policy_status.profile, device)
        console.write(
            Kind.COMMAND_DECIDED,
            "policy",
            run=cell.run,
            step=cell.step,
            device=cell.device,
            call_id=call_id,
            tool=tool.tool_name,
            body={"decision": decision.model_dump(mode="json")},
        )
        if decision.answer is Answer.DENY:
            return self._refuse(cell, decision, decision.reasons[0].text, ErrorCode.DENIED_BY_POLICY)
        if console.stopped:
            return self._refuse(cell, decision, "Everything is stopped.", ErrorCode.STOPPED)
        if device.health is Health.OFFLINE:
            return self._refuse(cell, decision, f"{device.name} is offline.", ErrorCode.DEVICE_OFFLINE)
        if decision.answer is Answer.ASK:
            return self._ask(cell, tool, step, decision, said)
        return self._execute(cell, tool, step.parameters, decision)

    def _ask(self, cell: Cell, tool: Tool, step: Step, decision: Decision, said: str) -> Cell:
        request = make_request(
            device=cell.device,
            contract=tool.contract.digest,
            tool_key=tool.tool_key,
            tool_name=tool.tool_name,
            tool_type=tool.tool_type,
            namespace=tool.namespace,
            parameters=step.parameters,
            call_id=str(cell.call_id),
        )
        approval = Approval(
            id=f"a-{cell.call_id}",
            request=request,
            decision=decision,
            actor="operator:harbour",
            run=cell.run,
            step=cell.step,
            production=self._console.fleet[cell.device].production,
            asked_at=_now(),
            expires_at=_now(600),
            remaining_s=600.0,
            said=said,
        )
        self._console.write(
            Kind.APPROVAL_REQUESTED,
            "operator:harbour",
            run=cell.run,
            step=cell.step,
            device=cell.device,
            call_id=cell.call_id,
            tool=tool.tool_name,
            body=request.model_dump(mode="json"),
        )
        self._console.request(approval)
        return self._put(cell.model_copy(update={"state": CellState.WAITING, "approval": approval.id}))

    def _execute(self, cell: Cell, tool: Tool, parameters: dict[str, Any], decision: Decision) -> Cell:
        answer, evidence = self._answer(cell, tool, parameters)
        reads = tool.contract.effect.value is Effect.OBSERVE
        result = CommandResult(
            call_id=str(cell.call_id),
            device=cell.device,
            tool_name=tool.tool_name,
            status=ResultStatus.SUCCESS,
            verdict=Verdict.CONFIRMED if reads else Verdict.UNVERIFIED,
            basis=Basis.READ_RESPONSE if reads else Basis.DEVICE_CLAIM,
            result=answer,
            namespace=tool.namespace,
            duration_ms=212.0,
            evidence=evidence,
            decision=decision,
        )
        self._record(cell, result)
        return self._put(
            cell.model_copy(update={"state": CellState.DONE, "ended_at": _now(), "result": result})
        )

    def _answer(self, cell: Cell, tool: Tool, parameters: dict[str, Any]) -> tuple[Any, list[Evidence]]:
        scripted = self._console.answer_with.get((cell.device, tool.tool_name))
        if scripted is not None:
            return scripted, []
        if tool.tool_name == "screenshot":
            platform = self._console.fleet[cell.device].platform
            data = desktop_png(cell.device, platform, lines=8 + self._next_call % 12)
            blob = self._console.fake_journal.add_blob(data)
            self._console.change_device(cell.device, picture=blob, picture_at=_now())
            made = Evidence(
                blob=blob, media_type="image/png", size=len(data), what="screenshot", width=1280, height=800
            )
            return {"width": 1280, "height": 800, "scale": 1.0, "monitor": 1, "taken_at": _now()}, [made]
        if tool.tool_name == "get_system_info":
            return {
                "info_type": parameters.get("info_type"),
                "total_bytes": 16_777_216_000,
                "use_percent": 52.1,
            }, []
        if tool.tool_name.startswith("shell_execute"):
            return {"stdout": "done\n", "stderr": "", "exit_code": 0, "execution_time": 0.2}, []
        return {"ok": True}, []

    def _refuse(self, cell: Cell, decision: Decision | None, why: str, code: ErrorCode) -> Cell:
        state = CellState.NO_SUCH_TOOL if code is ErrorCode.UNKNOWN_TOOL else CellState.REFUSED
        result = CommandResult(
            call_id=str(cell.call_id),
            device=cell.device,
            tool_name=cell.tool,
            status=ResultStatus.NONE,
            verdict=Verdict.REFUSED,
            basis=Basis.NOTHING_SENT,
            error=ErrorInfo.of(code, why),
            decision=decision,
        )
        self._record(cell, result)
        return self._put(
            cell.model_copy(update={"state": state, "ended_at": _now(), "result": result, "note": why})
        )

    def _record(self, cell: Cell, result: CommandResult) -> None:
        self._results[result.call_id] = result
        self._console.write(
            Kind.RESULT_RECORDED,
            f"device:{cell.device}",
            run=cell.run,
            step=cell.step,
            device=cell.device,
            call_id=cell.call_id,
            tool=result.tool_name,
            status=result.status.value,
            verdict=result.verdict.value,
            duration_ms=result.duration_ms,
            body={"result": result.model_dump(mode="json", exclude={"decision"})},
            blobs=[one.blob for one in result.evidence],
        )

    def go_on(self, decided: Approval) -> None:
        """Continue the run of a request that was answered."""
        if decided.run is None or decided.run not in self._runs:
            return
        cell = self._cell(decided.run, decided.request.device, decided.step or "call")
        tool = self._console.tool_named(decided.request.device, decided.request.tool_name)
        if decided.state is ApprovalState.APPROVED:
            self._execute(cell, tool, decided.request.parameters, decided.decision)
        else:
            why = decided.reason or "An operator said no."
            self._refuse(cell, decided.decision, why, ErrorCode.DENIED_BY_OPERATOR)
        self._advance(decided.run, decided.request.device)
        self._settle(decided.run)

    def cancel(self, run: str) -> RunSummary:
        """End a run: what is queued never starts, what waits is withdrawn."""
        known = self.find(run)
        if not known.summary.state.ended:
            self._console.write(Kind.RUN_CANCEL_ASKED, "operator:harbour", run=run)
            self._withdraw(run)
            for cell in self._runs[run].cells:
                if cell.state in OPEN:
                    self._put(cell.model_copy(update={"state": CellState.CANCELLED, "ended_at": _now()}))
            self._settle(run)
        return self.find(run).summary

    def pause(self, run: str, *, paused: bool) -> RunSummary:
        """Let a run stand, or go on."""
        known = self.find(run)
        if known.summary.state.ended:
            raise Refused(f"{run} has ended.", ErrorCode.WRONG_STATE)
        state = RunState.PAUSED if paused else RunState.RUNNING
        self.add(known.model_copy(update={"summary": known.summary.model_copy(update={"state": state})}))
        return self.find(run).summary

    def _withdraw(self, run: str) -> int:
        mine = [one for one in self._console.queue.values() if one.run == run]
        waiting = [one for one in mine if one.state is ApprovalState.WAITING]
        for one in waiting:
            self._console.request(one.model_copy(update={"state": ApprovalState.WITHDRAWN}))
        return len(waiting)

    def stop_all(self) -> tuple[int, int]:
        """Cancel every open run; how many runs and requests that were."""
        running = [run for run in self._runs.values() if not run.summary.state.ended]
        waiting = [one for one in self._console.queue.values() if one.state is ApprovalState.WAITING]
        for run in running:
            self.cancel(run.summary.id)
        for one in waiting:
            if self._console.queue[one.id].state is ApprovalState.WAITING:
                self._console.request(one.model_copy(update={"state": ApprovalState.WITHDRAWN}))
        return len(running), len(waiting)

    def _cell(self, run: str, device: str, step: str) -> Cell:
        cells = self._runs[run].cells
        return next(cell for cell in cells if cell.device == device and cell.step == step)

    def _put(self, cell: Cell) -> Cell:
        run = self._runs[cell.run]
        cells = [cell if (one.device, one.step) == (cell.device, cell.step) else one for one in run.cells]
        self._runs[cell.run] = run.model_copy(update={"cells": cells})
        self._console.emit(CellChanged(cell=cell))
        return cell

    def _settle(self, run_id: str) -> None:
        run = self._runs[run_id]
        summary = summarise(run)
        self._runs[run_id] = run.model_copy(update={"summary": summary})
        self._console.emit(RunChanged(run=summary))
        if summary.state.ended:
            self._console.write(Kind.RUN_FINISHED, "service", run=run_id, body={"state": summary.state.value})
            self._ended.set()


def summarise(run: Run) -> RunSummary:
    """Count the cells and conclude the run's state from them."""
    counts: dict[CellState, int] = {}
    for cell in run.cells:
        counts[cell.state] = counts.get(cell.state, 0) + 1
    order = [
        (CellState.WAITING, RunState.WAITING),
        (CellState.RUNNING, RunState.RUNNING),
        (CellState.QUEUED, RunState.RUNNING),
        (CellState.UNKNOWN, RunState.UNKNOWN),
        (CellState.FAILED, RunState.FAILED),
        (CellState.CANCELLED, RunState.CANCELLED),
        (CellState.REFUSED, RunState.REFUSED),
    ]
    state = next((ended for found, ended in order if counts.get(found)), RunState.DONE)
    ended_at = run.summary.ended_at or (_now() if state.ended else None)
    return run.summary.model_copy(update={"counts": counts, "state": state, "ended_at": ended_at})
