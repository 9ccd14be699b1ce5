"""`FakeConsole`: the door with invented devices behind it, for tests and pictures of screens.

It is a `Console` in memory and keeps the door's promises: the same errors, events for every change, decisions
before anything "runs", approvals that are checked against the operator's signature, entries for every stage.

    console = FakeConsole()                  # 24 devices, no run, no request, an empty journal
    console = story()                        # the same with runs, requests and entries (tests/fakes/story.py)
    console = FakeConsole(devices=[...])     # your own; `make_devices()` has 24 to pick from

What tests use beyond the door:

    console.asked                  # names of the door's methods in the order they were called
    console.fail_next["tools"] = DeviceError("...")      # the next call of `tools` raises this, once
    console.hold_back("tools")     # `tools` does not answer until the returned asyncio.Event is set
    console.emit(DeviceChanged(device=...))              # an event of your own, to every listener
    console.change_device("lab-lnx-01", health=Health.STALE)
    console.lose("The service was killed.")              # every listener's stream ends with ServiceError
    console.answer_with[("lab-lnx-01", "read_file")] = {"content": "x"}    # a tool's result from now on

A run of low-risk steps ends before `start_run` returns its first event; what the profile asks about becomes a
waiting approval, and goes on when `decide` approves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from core.approvals.models import Approval, ApprovalState, Operator
from core.audit.entries import Entry, Kind
from core.batch.expression_trial import AskedExpression, ExpressionTrials, try_expressions
from core.batch.file_names import file_stem
from core.batch.models import Batch, Plan, Run, RunSummary, SavedBatch, flatten
from core.changes import SignedChange
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError, Refused, ServiceError
from core.fleet.filter import parse_filter
from core.fleet.models import Device, Health, Tool, ToolDescription, ToolHit
from core.fleet.tool_scope import scope_of, undo_of
from core.fleet.tool_search import Offer, ToolIndex
from core.policy.models import Decision, Profile
from core.policy.policy_file import with_profile
from core.service import proposals
from core.service.console import (
    ApprovalChanged,
    ConsoleState,
    ControlChanged,
    DeviceChanged,
    Event,
    JournalChanged,
    PolicyStatus,
    ResultPage,
    RunPage,
)
from core.service.envelope import cell_envelope
from tests.fakes.approvals_door import ApprovalsDoor
from tests.fakes.changes_door import HOME_KEY
from tests.fakes.decisions import decide_call
from tests.fakes.fleet_data import ago, make_devices, make_tools
from tests.fakes.journal import FakeJournal
from tests.fakes.plans import FakeOffers
from tests.fakes.runs import FakeRuns

_END = object()
SAVED_AT = "2026-03-04T05:06:07Z"


class FakeConsole(ApprovalsDoor):
    """See the module's own words."""

    def __init__(
        self,
        devices: list[Device] | None = None,
        operators: list[Operator] | None = None,
        profile: Profile = Profile.GUARDED,
        first_seq: int = 1,
    ) -> None:
        super().__init__()
        chosen = make_devices() if devices is None else devices
        self.tools_of: dict[str, list[Tool]] = {device.name: make_tools(device) for device in chosen}
        self.fleet = {
            device.name: device.model_copy(update={"tool_count": len(self.tools_of[device.name])})
            for device in chosen
        }
        self.operators = list(operators or [])
        self.policy_status = PolicyStatus(
            profile=profile, path="/home/harbour/.local/share/quarterdeck/policy.toml"
        )
        self.policy_on_disk = with_profile(self.policy_on_disk, profile)
        self.stopped, self.stopped_note = False, ""
        self.fake_journal = FakeJournal(first_seq)
        self.queue: dict[str, Approval] = {}
        self.saved: dict[str, Batch] = {}
        self.asked: list[str] = []
        self.watched: list[tuple[list[str], bool]] = []
        self.unwatchable: dict[str, str] = {}
        self.fail_next: dict[str, QuarterdeckError] = {}
        self.answer_with: dict[tuple[str, str], Any] = {}
        self.closed = False
        self._held: dict[str, asyncio.Event] = {}
        self._listeners: list[asyncio.Queue[Any]] = []
        self._lost: ServiceError | None = None
        self.work = FakeRuns(self)
        self.tell = self.emit

    # For tests

    def emit(self, event: Event) -> None:
        """Send an event to every listener."""
        for listener in self._listeners:
            listener.put_nowait(event)

    def hold_back(self, method: str) -> asyncio.Event:
        """Let a method wait, each time, until the returned event is set."""
        self._held[method] = asyncio.Event()
        return self._held[method]

    def lose(self, why: str = "The service ended.") -> None:
        """Break the line: listeners end, and every further call raises, until `come_back`."""
        self._lost = ServiceError(why)
        for listener in self._listeners:
            listener.put_nowait(self._lost)

    def come_back(self) -> None:
        """Answer again after `lose`."""
        self._lost = None

    def change_device(self, name: str, **changes: Any) -> Device:
        """Change fields of a device and tell everybody."""
        device = self.fleet[name] = self.fleet[name].model_copy(update=changes)
        self.emit(DeviceChanged(device=device))
        return device

    def write(self, kind: Kind, actor: str, **fields: Any) -> Entry:
        """Add a journal entry and tell everybody."""
        entry = self.fake_journal.write(kind, actor, **fields)
        self.emit(JournalChanged(journal=self.fake_journal.status))
        return entry

    def request(self, approval: Approval) -> None:
        """Put a request into the queue, or replace it there, and tell everybody."""
        self.queue[approval.id] = approval
        self.emit(ApprovalChanged(approval=approval))

    async def _step(self, method: str) -> None:
        self.asked.append(method)
        if self._lost is not None:
            raise self._lost
        if (error := self.fail_next.pop(method, None)) is not None:
            raise error
        if (held := self._held.get(method)) is not None:
            await held.wait()

    def _device(self, name: str) -> Device:
        if name not in self.fleet:
            raise BadInput(f"There is no device {name!r}.", ErrorCode.UNKNOWN_DEVICE)
        return self.fleet[name]

    def tool_named(self, device: str, tool: str) -> Tool:
        """A device's tool by its name or `namespace.name`. UNKNOWN_TOOL."""
        self._device(device)
        for one in self.tools_of[device]:
            if tool in (one.tool_name, f"{one.namespace}.{one.tool_name}", one.tool_key):
                return one
        raise BadInput(f"{device} has no tool {tool!r}.", ErrorCode.UNKNOWN_TOOL)

    # The door

    async def on_state(self) -> ConsoleState:
        await self._step("state")
        return ConsoleState(
            service_started_at=ago(7200),
            service_pid=4711,
            version="0.1.0",
            home="/home/harbour/quarterdeck",
            home_key=HOME_KEY,
            stopped=self.stopped,
            stopped_note=self.stopped_note,
            policy=self.policy_status,
            journal=self.fake_journal.status,
            operators=self.operators,
            devices=list(self.fleet.values()),
            approvals=self._waiting(),
            runs=self.work.summaries(),
            agents=self.agent_states(),
        )

    def _waiting(self) -> list[Approval]:
        waiting = [one for one in self.queue.values() if one.state is ApprovalState.WAITING]
        return sorted(waiting, key=lambda one: (-one.decision.risk.rank, one.asked_at))

    def events(self) -> AsyncIterator[Event]:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        self._listeners.append(queue)
        return self._stream(queue)

    async def _stream(self, queue: asyncio.Queue[Any]) -> AsyncIterator[Event]:
        try:
            while (one := await queue.get()) is not _END:
                if isinstance(one, QuarterdeckError):
                    raise one
                yield one
        finally:
            self._listeners.remove(queue)

    async def on_tools(self, device: str) -> list[Tool]:
        await self._step("tools")
        if self._device(device).health is Health.OFFLINE:
            raise DeviceError(f"{device} is offline.")
        return list(self.tools_of[device])

    async def on_search_tools(self, words: str, targets: str = "", limit: int = 20) -> list[ToolHit]:
        await self._step("search_tools")
        wanted = parse_filter(targets)
        among = {device.name for device in self.fleet.values() if wanted.matches(device)}
        index = ToolIndex()
        await index.follow(
            Offer(name, device.tags, device.health, {tool.tool_name: tool for tool in self.tools_of[name]})
            for name, device in self.fleet.items()
        )
        return index.search(words, among, limit, {})

    async def on_describe_tool(self, device: str, tool: str) -> ToolDescription:
        await self._step("describe_tool")
        described, there = self.tool_named(device, tool), self._device(device)
        return ToolDescription(
            tool=described, scope=scope_of(described, there), undo=undo_of(described), health=there.health
        )

    async def on_match_devices(self, targets: str) -> list[Device]:
        await self._step("match_devices")
        wanted = parse_filter(targets)
        return [device for device in self.fleet.values() if wanted.matches(device)]

    async def on_review_contract(
        self, device: str, tool_key: str, digest: str, signed: SignedChange | None = None
    ) -> Tool:
        await self._step("review_contract")
        tools = self.tools_of[self._device(device).name]
        self._signed(await proposals.contract(self._service(), device, tool_key, digest), signed)
        for place, tool in enumerate(tools):
            if tool.tool_key == tool_key and tool.contract.digest == digest:
                tools[place] = tool.model_copy(update={"changed": False})
                left = [key for key in self.fleet[device].changed_tools if key != tool_key]
                self.change_device(device, changed_tools=left)
                return tools[place]
        raise Refused("The tool's definition is another one by now.", ErrorCode.CONTRACT_CHANGED)

    async def on_explain(self, device: str, tool: str, parameters: dict[str, Any]) -> Decision:
        await self._step("explain")
        return decide_call(
            self.tool_named(device, tool), parameters, self.policy_status.profile, self._device(device)
        )

    async def on_plan(self, batch: Batch, inputs: dict[str, Any] | None = None) -> Plan:
        await self._step("plan")
        return FakeOffers(self).plan(batch, inputs or {})

    async def on_try_expressions(
        self, batch: Batch, step: str, asked: list[AskedExpression]
    ) -> ExpressionTrials:
        await self._step("try_expressions")
        runs = [self.work.find(run.id) for run in self.work.summaries()]
        return try_expressions(batch, step, asked, FakeOffers(self).known(batch, runs))

    async def on_start_run(
        self,
        batch: Batch,
        expected_devices: list[str] | None = None,
        inputs: dict[str, Any] | None = None,
        said: str = "",
        request_id: str = "",
    ) -> Run:
        await self._step("start_run")
        wanted = parse_filter(batch.targets)
        names = sorted(device.name for device in self.fleet.values() if wanted.matches(device))
        if expected_devices is not None and sorted(expected_devices) != names:
            raise Refused("The targets are other devices by now.", ErrorCode.INVALID_ARGUMENTS)
        if not names:
            raise BadInput(f"No device matches {batch.targets!r}.", ErrorCode.UNKNOWN_DEVICE)
        return self.work.start(batch, names, "batch")

    async def on_call(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        timeout: float | None = None,
        said: str = "",
        request_id: str = "",
    ) -> Run:
        await self._step("call")
        found = self.tool_named(device, tool)
        batch = Batch.model_validate(
            {
                "name": found.tool_name,
                "targets": f"name:{device}",
                "steps": [{"id": "call", "tool": tool, "with": parameters, "timeout": timeout}],
            }
        )
        return self.work.start(batch, [device], "call", said=said)

    async def on_wait_run(self, run: str, timeout: float, until_asked: bool = False) -> Run:
        await self._step("wait_run")
        return await self.work.wait(run, timeout)

    async def on_run(self, run: str) -> Run:
        await self._step("run")
        return self.work.find(run)

    async def on_run_blob(self, run: str, sha256: str) -> bytes:
        return await self.on_blob(sha256)

    async def on_run_results(self, run: str, after: int = 0, limit: int = 500) -> ResultPage:
        await self._step("run_results")
        return ResultPage(results=[cell_envelope(cell) for cell in self.work.find(run).cells])

    async def on_runs(
        self, before: str | None = None, limit: int = 50, active: bool = False
    ) -> list[RunSummary]:
        await self._step("runs")
        known = self.work.summaries()
        if active:
            return [one for one in known if not one.state.ended]
        return [one for one in known if before is None or one.id < before][:limit]

    async def on_find_runs(self, words: str, before: int | None = None, limit: int = 50) -> RunPage:
        await self._step("find_runs")
        places = {run.id: place for place, run in enumerate(reversed(self.work.summaries()), 1)}
        found = [
            run
            for run in self.work.summaries()
            if (before is None or places[run.id] < before) and _says(run, words.casefold().split())
        ]
        more = places[found[limit - 1].id] if len(found) > limit else None
        return RunPage(runs=found[:limit], next_before=more)

    async def on_cancel_run(self, run: str) -> RunSummary:
        await self._step("cancel_run")
        return self.work.cancel(run)

    async def on_pause_run(self, run: str) -> RunSummary:
        await self._step("pause_run")
        return self.work.pause(run, paused=True)

    async def on_unpause_run(self, run: str) -> RunSummary:
        await self._step("unpause_run")
        return self.work.pause(run, paused=False)

    async def on_approvals(self) -> list[Approval]:
        await self._step("approvals")
        return self._waiting()

    async def on_approval(self, approval: str) -> Approval:
        await self._step("approval")
        if approval not in self.queue:
            raise QuarterdeckError(f"There is no request {approval}.", ErrorCode.NOT_FOUND)
        return self.queue[approval]

    async def on_register_operator(self, operator: Operator, signed: SignedChange | None = None) -> Operator:
        await self._step("register_operator")
        proof = self._signed(proposals.operator_added(self._service(), operator), signed)
        if operator.name in {known.name for known in self.operators}:
            return operator
        known = operator.model_copy(update={"registered_at": ago(0)})
        self.operators.append(known)
        self.write(Kind.OPERATOR_REGISTERED, self.actor, body=proof)
        self.tell_control()
        return known

    async def on_remove_operator(self, name: str, signed: SignedChange | None = None) -> None:
        await self._step("remove_operator")
        proof = self._signed(proposals.operator_removed(self._service(), name), signed)
        self.operators = [known for known in self.operators if known.name != name]
        self.write(Kind.OPERATOR_REMOVED, self.actor, body={"operator": name, **proof})
        for grant in list(self.given):
            if grant.terms.author == name and not grant.over:
                await self.on_revoke_grant(grant.terms.id)
        self.tell_control()

    def tell_control(self) -> None:
        self.emit(
            ControlChanged(
                stopped=self.stopped,
                stopped_note=self.stopped_note,
                policy=self.policy_status,
                operators=list(self.operators),
            )
        )

    async def on_stop_all(self) -> str:
        await self._step("stop_all")
        runs, requests = self.work.stop_all()
        self.stopped = True
        self.stopped_note = f"{runs} runs were stopped, {requests} requests were withdrawn."
        self.write(Kind.ALL_STOPPED, "operator:harbour", body={"runs": runs, "requests": requests})
        self.tell_control()
        return self.stopped_note

    async def on_resume(self, signed: SignedChange | None = None) -> None:
        await self._step("resume")
        proof = self._signed(proposals.resume(self._service()), signed)
        self.stopped, self.stopped_note = False, ""
        self.write(Kind.ALL_RESUMED, self.actor, body=proof)
        self.tell_control()

    async def on_batches(self) -> list[str]:
        await self._step("batches")
        return sorted(self.saved)

    async def on_saved_batches(self) -> list[SavedBatch]:
        await self._step("saved_batches")
        return [
            SavedBatch(name=name, changed_at=SAVED_AT, size_bytes=512, steps=len(flatten(batch.steps)))
            for name, batch in sorted(self.saved.items())
        ]

    async def on_rename_batch(self, name: str, to: str) -> None:
        await self._step("rename_batch")
        file_stem(to)
        if to in self.saved:
            raise BadInput(f"There is a saved batch “{to}” already.")
        self.saved[to] = self.saved.pop(name).model_copy(update={"name": to})

    async def on_delete_batch(self, name: str) -> None:
        await self._step("delete_batch")
        del self.saved[name]

    async def on_load_batch(self, name: str) -> Batch:
        await self._step("load_batch")
        if name not in self.saved:
            raise QuarterdeckError(f"There is no batch {name!r}.", ErrorCode.NOT_FOUND)
        return self.saved[name]

    async def on_save_batch(self, name: str, batch: Batch) -> None:
        await self._step("save_batch")
        self.saved[name] = batch

    async def on_shut_down(self, cancel_work: bool) -> str:
        await self._step("shut_down")
        self.lose("The service ended.")
        return "ended"

    async def close(self) -> None:
        self.closed = True
        for listener in self._listeners:
            listener.put_nowait(_END)


def _says(run: RunSummary, words: list[str]) -> bool:
    """Whether each word is in a run, by the rules of the journal's own search, fields left out."""
    texts = [run.id, run.name, run.actor, run.state.value, run.effect, *run.devices, *run.tools]
    return all(any(word in text.casefold() for text in texts) for word in words)
