"""A dispatcher that does as a test says, writing what the real one writes, and a journal in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from core.aip.messages import ResultStatus
from core.approvals.models import Approval, ApprovalState
from core.approvals.queue import Answered, ApprovalRequest
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.events import ApprovalDenied, ApprovalGiven, EntryFields
from core.batch.expressions import DeviceFacts
from core.batch.live_run import LiveCell
from core.batch.models import RunSummary
from core.batch.run_executor import Environment
from core.batch.runs import Runs
from core.commands.request import CommandRequest, Stage
from core.commands.results import Basis, CommandResult, CommandStage, Verdict
from core.errors import ErrorCode, ErrorInfo, JournalUnavailable
from core.models.tools import Effect, Risk
from core.policy.models import Answer, Decision, Profile, Reason
from core.tasks import TaskGroupOwner
from tests.fakes.patience import PATIENCE_S

S, V, B, C = ResultStatus, Verdict, Basis, ErrorCode
End = tuple[ResultStatus, Verdict, Basis, ErrorCode | None]
# How far the real dispatcher gets, and what it concludes: the name of an end begins with where it ended.
ENDS: dict[str, End] = {
    "done": (S.SUCCESS, V.UNVERIFIED, B.DEVICE_CLAIM, None),
    "read": (S.SUCCESS, V.CONFIRMED, B.READ_RESPONSE, None),
    "failed": (S.FAILURE, V.UNVERIFIED, B.DEVICE_REPORTED_FAILURE, C.TOOL_FAILED),
    "not there": (S.FAILURE, V.REFUSED, B.DEVICE_REFUSED, C.CONTROL_NOT_FOUND),
    "unknown": (S.NONE, V.UNKNOWN, B.NO_ANSWER, C.OUTCOME_UNKNOWN),
    "cancelled": (S.FAILURE, V.CANCELLED, B.DEVICE_CONFIRMED_CANCEL, C.CANCELLED),
    "refused": (S.FAILURE, V.REFUSED, B.NOTHING_SENT, C.DENIED_BY_OPERATOR),
    "withdrawn": (S.FAILURE, V.CANCELLED, B.NOTHING_SENT, C.CANCELLED),
    "no_such_tool": (S.FAILURE, V.REFUSED, B.NOTHING_SENT, C.UNKNOWN_TOOL),
    "denied": (S.FAILURE, V.REFUSED, B.NOTHING_SENT, C.DENIED_BY_POLICY),
    "offline": (S.FAILURE, V.REFUSED, B.NOTHING_SENT, C.DEVICE_OFFLINE),
    "approved": (S.SUCCESS, V.UNVERIFIED, B.DEVICE_CLAIM, None),
    "changed": (S.FAILURE, V.REFUSED, B.NOTHING_SENT, C.CONTRACT_CHANGED),
}
ASKED = frozenset({"refused", "withdrawn", "approved", "changed"})
UNBOUND = frozenset({"no_such_tool", "denied", "offline"})


class MemoryJournal:
    """Entries in a list. While `broken`, nothing can be written."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.late: list[NewEntry] = []
        self.broken = False

    async def append(self, entry: NewEntry) -> Entry:
        self.note(entry)
        return self.entries[-1]

    async def append_many(self, entries: list[NewEntry]) -> list[Entry]:
        for entry in entries:
            self.note(entry)
        return self.entries[len(self.entries) - len(entries) :]

    def note_late(self, entries: list[NewEntry]) -> None:
        if self.broken:
            self.late += entries
            return
        for entry in entries:
            self.note(entry)

    def note(self, entry: NewEntry) -> None:
        if self.broken:
            raise JournalUnavailable("The disk is full.")
        seq = len(self.entries) + 1
        time = f"2026-01-01T00:{seq // 60:02d}:{seq % 60:02d}.000000Z"
        self.entries.append(Entry(**entry.values(), seq=seq, time=time))

    async def get_blob(self, sha: str) -> bytes:
        raise AssertionError(f"no run here has the blob {sha}")

    def kinds(self, **where: str) -> list[Kind]:
        return [
            one.kind for one in self.entries if all(getattr(one, key) == is_ for key, is_ in where.items())
        ]


@dataclass
class ScriptedDispatcher:
    """Ends each call as `script` says, by device and step. `gates` hold a call back until they are set.

    A list in the script has the ends of the attempts, one after the other.
    """

    journal: MemoryJournal
    script: dict[tuple[str, str], str | list[str]] = field(default_factory=dict)
    gates: dict[tuple[str, str], asyncio.Event] = field(default_factory=dict)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    begun: list[tuple[str, str]] = field(default_factory=list)
    orders: list[CommandRequest] = field(default_factory=list)
    on_begin: Callable[[], None] = lambda: None
    running: int = 0
    most: int = 0
    waiting: int = 0
    sending: int = 0
    most_sent: int = 0
    sent: list[tuple[str, str]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    async def dispatch(self, order: CommandRequest, on_stage: Callable[[Stage, str], None]) -> CommandResult:
        place = (order.device, order.step or "")
        script = self.script.get(place, "done")
        end = script if isinstance(script, str) else script[0]
        if order.cancelled():
            end = "withdrawn"
        self.running += 1
        self.most = max(self.most, self.running)
        self.begun.append(place)
        self.orders.append(order)
        self.on_begin()
        decision, sent = None, False
        if end not in UNBOUND and not order.cancelled():
            decision = decision_that(Answer.ASK if end in ASKED else Answer.ALLOW)
            self._note(order, Kind.COMMAND_PREPARED, {"tool_type": "action"})
            self._note(order, Kind.COMMAND_DECIDED, {"decision": decision.model_dump(mode="json")})
            order.on_decided(decision)
            if end in ASKED:
                self._note(order, Kind.APPROVAL_REQUESTED, {"approval": f"a-{order.call_id}"})
                on_stage(Stage.WAITING, f"a-{order.call_id}")
                self.waiting += 1
            else:
                self._send(order, on_stage)
                sent = True
        async with self.arrived:
            self.arrived.notify_all()
        await (self.gates[place].wait() if place in self.gates else asyncio.sleep(0))
        if decision is not None and end in ASKED:
            self.waiting -= 1
            if end == "approved":
                await order.turn()
                self._send(order, on_stage)
                sent = True
                await asyncio.sleep(0)
        self.sending -= sent
        # What a test changed in the script while the call was held back counts.
        script = self.script.get(place, "done")
        if isinstance(script, list):
            end = script.pop(0)
        elif decision is not None or end not in ASKED:
            end = script
        result = result_that(end, order, decision)
        sent = result.basis is not Basis.NOTHING_SENT
        kind = Kind.RESULT_RECORDED if sent else Kind.COMMAND_REFUSED
        self._note(order, kind, {"result": result.model_dump(mode="json", exclude={"decision", "stage"})})
        self.running -= 1
        return result

    def _send(self, order: CommandRequest, on_stage: Callable[[Stage, str], None]) -> None:
        self._note(order, Kind.INTENT_RECORDED, {})
        on_stage(Stage.RUNNING, "")
        self._note(order, Kind.COMMAND_SENT, {})
        self.sent.append((order.device, order.step or ""))
        self.sending += 1
        self.most_sent = max(self.most_sent, self.sending)

    async def cancel(self, call_id: str) -> bool:
        self.cancelled.append(call_id)
        return True

    async def until_begun(self, device: str, step: str) -> None:
        """Wait until a call is on its way."""
        async with asyncio.timeout(PATIENCE_S), self.arrived:
            await self.arrived.wait_for(lambda: (device, step) in self.begun)

    def _note(self, order: CommandRequest, kind: Kind, body: dict[str, Any]) -> None:
        self.journal.note(
            NewEntry(
                kind=kind,
                actor="service",
                run=order.run,
                step=order.step,
                device=order.device,
                call_id=order.call_id,
                tool=order.tool,
                body=body,
            )
        )


@dataclass
class MemoryApprovals:
    """A queue with as much room as a test says; its questions are answered by the test, and written."""

    journal: MemoryJournal
    most: int = 20_000
    waiting: Callable[[], int] = lambda: 0
    withdrawn: list[str] = field(default_factory=list)
    questions: dict[str, asyncio.Future[tuple[ApprovalState, str]]] = field(default_factory=dict)
    asked: asyncio.Queue[Approval] = field(default_factory=asyncio.Queue)

    async def ask(self, asked: ApprovalRequest) -> Answered:
        approval_id, approval = asked.id, asked.approval(1.0)
        self.questions[approval_id] = asyncio.get_running_loop().create_future()
        self.asked.put_nowait(approval)
        state, reason = await self.questions[approval_id]
        if state in (ApprovalState.APPROVED, ApprovalState.DENIED):
            answered = (ApprovalGiven if state is ApprovalState.APPROVED else ApprovalDenied)(
                approval=approval_id, signed={"statement": {"reason": reason}}, took_s=0, number=1, of=1
            )
            place: EntryFields = {"run": asked.run, "step": asked.step, "device": ""}
            self.journal.note(answered.entry("operator:anna", **place))
        return Answered(
            approval.model_copy(
                update={
                    "state": state,
                    "reason": reason,
                    "decided_by": "anna",
                    "approved_by": ["anna"] if state is ApprovalState.APPROVED else [],
                }
            )
        )

    def answer(self, approval_id: str, state: ApprovalState, reason: str = "") -> None:
        """End a question."""
        self.questions[approval_id].set_result((state, reason))

    def room(self, actor: str) -> int:
        return max(self.most - self.waiting(), 0)

    def withdraw(self, reason: str, run: str | None = None) -> int:
        self.withdrawn.append(reason)
        for question in self.questions.values():
            if not question.done():
                question.set_result((ApprovalState.WITHDRAWN, reason))
        return 0

    def withdraw_one(self, approval_id: str, reason: str) -> None:
        self.withdrawn.append(reason)
        if approval_id in self.questions:
            self.answer(approval_id, ApprovalState.WITHDRAWN, reason)


class Sleep:
    """Waits until a test says so, at once if it says nothing."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.until: Callable[[], Awaitable[Any]] = lambda: asyncio.sleep(0)

    async def __call__(self, seconds: float) -> None:
        self.begun.set()
        await self.until()


class PlainDevices:
    """Devices without facts; a tool named `read` may be called again."""

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts(device)

    def machine(self, device: str) -> str:
        return ""

    def described_lines(self, device: str, tool: str) -> frozenset[str]:
        return frozenset()

    def may_repeat(self, device: str, tool: str) -> bool:
        return tool == "read"


@dataclass
class House:
    """Runs with everything that they need, and what is told of them."""

    runs: Runs
    dispatcher: ScriptedDispatcher
    journal: MemoryJournal
    tasks: TaskGroupOwner
    approvals: MemoryApprovals
    sleep: Sleep
    summaries: list[RunSummary]
    cells: list[LiveCell]

    async def close(self) -> None:
        self.runs.close()
        await self.tasks.close()


def open_house() -> House:
    """Made on a running loop; `close` it."""
    journal, tasks = MemoryJournal(), TaskGroupOwner("test")
    dispatcher = ScriptedDispatcher(journal)
    summaries: list[RunSummary] = []
    cells: list[LiveCell] = []

    async def as_it_is(
        devices: list[str], tool: str, parameters: dict[str, Any], said: str
    ) -> tuple[dict[str, Any], str]:
        return parameters, said

    approvals, sleep = MemoryApprovals(journal), Sleep()
    environment = Environment(dispatcher, journal, approvals, PlainDevices(), cells.append, sleep=sleep)
    runs = Runs(environment, tasks, summaries.append, as_it_is)
    return House(runs, dispatcher, journal, tasks, approvals, sleep, summaries, cells)


def decision_that(answer: Answer) -> Decision:
    """A decision with this answer."""
    return Decision(
        answer=answer,
        risk=Risk.MEDIUM,
        effect=Effect.CHANGE,
        profile=Profile.GUARDED,
        summary="Does something",
        reasons=[Reason(text="Because", origin="test")],
    )


def result_that(end: str, order: CommandRequest, decision: Decision | None) -> CommandResult:
    """What the dispatcher gives for one of `ENDS`."""
    status, verdict, basis, code = ENDS[end]
    return CommandResult(
        call_id=order.call_id,
        device=order.device,
        tool_name=order.tool,
        status=status,
        verdict=verdict,
        basis=basis,
        error=ErrorInfo.of(code, f"It ended as {end}.") if code else None,
        result={"end": end} if code is None else None,
        stage=CommandStage.RECORD_INTENT if end == "changed" else None,
        decision=decision,
    )
