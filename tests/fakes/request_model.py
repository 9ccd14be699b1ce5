"""What may be of requests for approval: a model that holds whatever arrives at the device against itself.

It knows what was asked, answered and granted; a state machine of a test says what happens, in any order.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from core.aip.messages import Command
from core.approvals.models import Approval, ApprovalState
from core.approvals.operator_keys import OperatorKey
from core.audit.entries import Kind
from core.commands.request import CommandRequest
from core.commands.results import CommandResult
from core.errors import QuarterdeckError
from core.home import Home
from core.policy.grant_book import GrantBook
from core.policy.grants import GrantTerms, SignedGrant, exact_arguments
from core.statements import SignedStatement, make_request, verify_signature
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, USUAL_TOOLS, Rig, open_rig

Played = TypeVar("Played")

EXPIRY_S = 60.0
MOST_PAUSE_S = 120.0
OPERATORS = ["anna", "bert", "carl"]
ASKS_ABOUT_READS = {"lockdown", "broken"}
DENIES_SHELL = {"deny", "observe"}


@dataclass
class Asked:
    """One call as the model knows it."""

    order: CommandRequest
    task: asyncio.Task[CommandResult]
    read: bool
    approvals: set[str] = field(default_factory=set)


@dataclass
class Granted:
    terms: GrantTerms
    left: int | None
    ends: datetime
    revoked: bool = False


class RequestModel(RuleBasedStateMachine):
    """A rig with three operators, and what may arrive at its device."""

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.folder = tempfile.mkdtemp(dir=memory if memory.is_dir() else None)
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.seconds = 0.0
        self.now = datetime.now(UTC)
        self.calls: dict[str, Asked] = {}
        self.grants: dict[str, Granted] = {}
        self.answers: list[SignedStatement] = []
        self.spent: Counter[str] = Counter()
        self.faults: list[str] = []
        self.policy = ""
        self.definition = 0
        self.away = self.stopped = False
        try:
            self.played(self._open())
        except BaseException:
            # The machine's own end is not called for one that did not begin.
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def played(self, work: Coroutine[Any, Any, Played]) -> Played:
        return self.loop.run_until_complete(work)

    async def _open(self) -> None:
        home = Home(Path(self.folder) / "home").create()
        grants = GrantBook(now=lambda: self.now)
        rig = open_rig(
            home,
            expiry_s=EXPIRY_S,
            most_pause_s=MOST_PAUSE_S,
            grants=grants,
            clock=lambda: self.seconds,
        )
        self.rig: Rig = await self.stack.enter_async_context(rig)
        self.keys: dict[str, OperatorKey] = {"anna": self.rig.key}
        for name in OPERATORS[1:]:
            self.keys[name] = self.rig.add_operator(name)
        for info in USUAL_TOOLS:
            self.rig.tools.answers[info.tool_name] = self._arrives

    # What arrives at the device

    def _arrives(self, command: Command) -> dict[str, bool]:
        try:
            self._check_arrival(command)
        except AssertionError as error:
            self.faults.append(f"{command.tool_name} {command.parameters}: {error}")
        return {"ok": True}

    def _check_arrival(self, command: Command) -> None:
        assert command.call_id is not None
        call = self.calls[command.call_id]
        assert not self.stopped, "it arrived although everything is stopped"
        assert not self.away, "it arrived although the device is away"
        assert self.spent[command.call_id] == 0, "it arrived twice"
        self.spent[command.call_id] += 1
        approved = [
            one
            for one in self.rig.told
            if one.request.call_id == command.call_id and one.state is ApprovalState.APPROVED
        ]
        signed = bool(approved and approved[-1].signed)
        if signed:
            self._check_approved(command, call, approved[-1])
        elif approved:
            assert approved[-1].approvers == 1, "a grant stood in for several operators"
            assert self._spend_grant(command, call), "it waited, and no grant that was given covers it"
        elif not call.read:
            assert self._spend_grant(command, call), "nobody approved or granted it"
        else:
            assert self.policy not in ASKS_ABOUT_READS, "a read should have asked"
        if not call.read:
            assert self.policy not in DENIES_SHELL, "the policy denies it"
            kinds = self.rig.on_disk(command.call_id)
            assert Kind.INTENT_RECORDED in kinds, "its intent is not durable"
            if approved:
                given = Kind.APPROVAL_GIVEN if signed else Kind.GRANT_USED
                assert given in kinds, "its approval is not durable"

    def _check_approved(self, command: Command, call: Asked, approval: Approval) -> None:
        tool = self.rig.fleet.target(DEVICE).tools[command.tool_name]
        assert command.call_id is not None
        arrived = make_request(
            device=DEVICE,
            contract=tool.contract.digest,
            tool_key=tool.tool_key,
            tool_name=command.tool_name,
            tool_type=tool.tool_type,
            namespace=tool.namespace,
            parameters=command.parameters or {},
            call_id=command.call_id,
        )
        assert arrived.digest == approval.request.digest, "it is not what was approved"
        signers = set()
        for signed in approval.signed:
            statement = signed.statement
            assert statement.verdict == "approve"
            assert statement.request_digest == arrived.digest
            assert statement.approval == approval.id
            key = self.keys[statement.approver].public_key
            assert verify_signature(statement, signed.signature, key)
            signers.add(statement.approver)
        assert len(signers) == len(approval.signed) >= approval.approvers, "an approval counted twice"
        if approval.approvers > 1:
            assert not signers & set(call.order.operators), "the asker counted"
            unknown = call.order.operators.count("")
            assert len(signers) >= approval.decision.approvers + unknown, "one who may have asked counted"
        assert self.spent[approval.id] == 0, "an approval was used twice"
        self.spent[approval.id] += 1

    def _spend_grant(self, command: Command, call: Asked) -> bool:
        for held in self.grants.values():
            terms = held.terms
            covers = (
                not held.revoked
                and held.left != 0
                and held.ends > self.now
                and call.order.actor in terms.actors
                and terms.arguments == exact_arguments(command.parameters or {})
                and (terms.run is None or terms.run == call.order.run)
            )
            if covers:
                held.left = None if held.left is None else held.left - 1
                return True
        return False

    async def _settle(self) -> None:
        """Until every call has ended or waits in the queue: nothing may be anywhere else."""
        async with asyncio.timeout(PATIENCE_S):
            while moving := self._moving():
                asked = self.rig.tasks.spawn("the next request", self.rig.asked.get())
                await asyncio.wait([*moving, asked], return_when=asyncio.FIRST_COMPLETED)
                asked.cancel()

    def _moving(self) -> list[asyncio.Task[Any]]:
        waiting = {one.request.call_id for one in self.rig.approvals.list()}
        return [
            call.task
            for call_id, call in self.calls.items()
            if not call.task.done() and call_id not in waiting
        ]

    def waiting(self) -> list[Approval]:
        return self.rig.approvals.list()

    def chosen(self, data: st.DataObject) -> Approval:
        waiting = sorted(self.waiting(), key=lambda one: one.asked_at)
        return waiting[data.draw(st.integers(0, len(waiting) - 1), "which request")]

    def _order(self, tool: str, parameters: dict[str, Any], actor: str, run: str | None, read: bool) -> None:
        # An operator at a window proves who asks; at a terminal, or of an agent, it is not known here.
        kind, _, name = actor.partition(":")
        operators = (name if kind == "operator" else "",)
        order = CommandRequest(DEVICE, tool, parameters, actor, run=run, operators=operators)

        async def work() -> None:
            task = self.rig.tasks.spawn("call", self.rig.dispatcher.dispatch(order))
            self.calls[order.call_id] = Asked(order, task, read)
            await self._settle()

        self.played(work())

    def _answer(self, signed: SignedStatement, grant: SignedGrant | None = None) -> Approval | None:
        async def work() -> Approval | None:
            try:
                answered = await self.rig.approvals.decide(signed, grant)
            except QuarterdeckError:
                answered = None
            if answered is not None and grant is not None:
                # What waits and is covered goes on in the next turns.
                terms = grant.terms
                self.grants[terms.id] = Granted(terms, terms.uses, datetime.fromisoformat(terms.expires))
            await self._settle()
            return answered

        return self.played(work())

    async def _end(self) -> None:
        """Time alone ends whatever waits; then the journal has each command's way, in order."""
        self.rig.disk.broken = False
        self.seconds += EXPIRY_S + MOST_PAUSE_S + 1
        self.rig.approvals.expire_due()
        async with asyncio.timeout(PATIENCE_S):
            for call in self.calls.values():
                await asyncio.wait([call.task])
        assert self.waiting() == []
        assert self.faults == []
        await self.rig.journal.settle()
        signatures: Counter[str] = Counter()
        for call_id in self.calls:
            page = await self.rig.journal.query(f'call:"{call_id}"', after=0, limit=500)
            kinds = [entry.kind for entry in page.entries]
            for entry in page.entries:
                if entry.kind is Kind.APPROVAL_GIVEN:
                    signatures[entry.body["signed"]["signature"]] += 1
            if self.spent[call_id]:
                check_way(kinds)
            else:
                assert Kind.COMMAND_SENT not in kinds
        assert not [one for one, count in signatures.items() if count > 1]


def check_way(kinds: list[Kind]) -> None:
    """The entries of a command that was sent: each stage once, after the one before."""
    if Kind.COMMAND_PREPARED not in kinds:
        # A read that was simply allowed.
        assert kinds == [Kind.COMMAND_SENT, Kind.RESULT_RECORDED], kinds
        return
    wanted = [Kind.COMMAND_PREPARED, Kind.COMMAND_DECIDED, Kind.INTENT_RECORDED, Kind.COMMAND_SENT]
    places = [len(kinds) - 1 - kinds[::-1].index(kind) for kind in wanted]
    assert places == sorted(places), kinds
    for kind in (Kind.INTENT_RECORDED, Kind.COMMAND_SENT, Kind.RESULT_RECORDED):
        assert kinds.count(kind) == 1, kinds
    assert kinds[-1] is Kind.RESULT_RECORDED, kinds
    if Kind.APPROVAL_GIVEN in kinds:
        assert kinds.index(Kind.APPROVAL_REQUESTED) < kinds.index(Kind.APPROVAL_GIVEN) < places[2]
