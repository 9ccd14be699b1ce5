"""The queue of requests that wait for an operator.

A request is answered once, by a signed statement over its digest, or it expires and is denied once; nothing
is remembered from either. The answer is durable in the journal before whoever waits hears of it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from core.audit.entries import Entry, Kind, NewEntry
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.policy.models import Approval, ApprovalState, Decision, Request, SignedStatement
from core.policy.operators import Operators

MOST_STATEMENT_SECONDS = 600.0
MOST_PAUSE_SECONDS = 300.0
DECIDED_KEPT = 500


class Recorder(Protocol):
    """The journal, as far as the queue needs it."""

    async def append(self, entry: NewEntry) -> Entry: ...


@dataclass(slots=True)
class _Waiting:
    approval: Approval
    answer: asyncio.Future[Approval]
    ends_at: float
    pause_left: float
    readers: set[str] = field(default_factory=set)
    paused_at: float | None = None
    timer: asyncio.TimerHandle | None = None
    deciding: bool = False


class ApprovalQueue:
    """Requests in order of risk and age, each answered exactly once."""

    def __init__(
        self,
        operators: Operators,
        journal: Recorder,
        expiry_s: float,
        publish: Callable[[Approval], None],
        most_pause_s: float = MOST_PAUSE_SECONDS,
    ) -> None:
        self._operators = operators
        self._journal = journal
        self._expiry_s = expiry_s
        self._publish = publish
        self._most_pause_s = most_pause_s
        self._waiting: dict[str, _Waiting] = {}
        self._decided: OrderedDict[str, Approval] = OrderedDict()

    async def ask(
        self,
        approval_id: str,
        request: Request,
        decision: Decision,
        *,
        actor: str,
        run: str | None,
        step: str | None,
        production: bool,
        said: str,
    ) -> Approval:
        """Queue a request and wait until it is answered, has expired, or is withdrawn."""
        loop = asyncio.get_running_loop()
        asked = datetime.now(UTC)
        approval = Approval(
            id=approval_id,
            request=request,
            decision=decision,
            actor=actor,
            run=run,
            step=step,
            production=production,
            asked_at=asked.isoformat(),
            expires_at=(asked + timedelta(seconds=self._expiry_s)).isoformat(),
            remaining_s=self._expiry_s,
            said=said,
        )
        ends_at = time.monotonic() + self._expiry_s
        waiting = _Waiting(approval, loop.create_future(), ends_at, self._most_pause_s)
        self._waiting[approval_id] = waiting
        self._arm(waiting)
        self._publish(approval)
        try:
            return await waiting.answer
        finally:
            if approval_id in self._waiting:
                self._drop(waiting)

    def list(self) -> list[Approval]:
        """What waits: highest risk first, then oldest."""
        shown = [self._shown(one) for one in self._waiting.values()]
        return sorted(shown, key=lambda one: (-one.decision.risk.rank, one.asked_at))

    def get(self, approval_id: str) -> Approval:
        """A request that waits or was lately answered.

        Raises:
            BadInput: there is no such request (code `not_found`).
        """
        if waiting := self._waiting.get(approval_id):
            return self._shown(waiting)
        if decided := self._decided.get(approval_id):
            return decided
        raise BadInput(f"No request for approval has the id {approval_id}.", ErrorCode.NOT_FOUND)

    async def decide(self, signed: SignedStatement) -> Approval:
        """Answer one request.

        Raises:
            Refused: the statement is not a valid one for this request, or it was answered already.
            JournalUnavailable: the answer could not be recorded; the request still waits.
        """
        statement = signed.statement
        waiting = self._waiting.get(statement.approval)
        if waiting is None:
            known = self.get(statement.approval)
            raise Refused(f"This request is {known.state.value} already.", ErrorCode.APPROVAL_INVALID)
        try:
            self._check(signed, waiting.approval)
        except Refused as error:
            await self._journal.append(_rejected(signed, waiting.approval, error))
            raise
        if waiting.deciding:
            raise Refused("This request is being answered already.", ErrorCode.APPROVAL_INVALID)
        waiting.deciding = True
        approved = statement.verdict == "approve"
        try:
            await self._journal.append(
                NewEntry(
                    kind=Kind.APPROVAL_GIVEN if approved else Kind.APPROVAL_DENIED,
                    actor=f"operator:{statement.approver}",
                    body={"approval": statement.approval, "signed": signed.model_dump(mode="json")},
                    **_place(waiting.approval),
                )
            )
        except QuarterdeckError:
            waiting.deciding = False
            self._arm(waiting)
            raise
        state = ApprovalState.APPROVED if approved else ApprovalState.DENIED
        return self._finish(waiting, state, statement.approver, statement.reason)

    def hold(self, approval_id: str, reader: str, reading: bool) -> Approval:
        """Pause or resume the expiry while `reader` has the card open; five minutes in all at most."""
        waiting = self._waiting.get(approval_id)
        if waiting is None:
            return self.get(approval_id)
        (waiting.readers.add if reading else waiting.readers.discard)(reader)
        if waiting.readers and waiting.paused_at is None and waiting.pause_left > 0:
            waiting.paused_at = time.monotonic()
        elif not waiting.readers and waiting.paused_at is not None:
            self._unpause(waiting)
        self._arm(waiting)
        shown = self._shown(waiting)
        self._publish(shown)
        return shown

    def let_go(self, reader: str) -> None:
        """A reader has gone: nothing stays paused for them."""
        for approval_id, waiting in list(self._waiting.items()):
            if reader in waiting.readers:
                self.hold(approval_id, reader, False)

    def withdraw(self, reason: str, run: str | None = None) -> int:
        """Take back what waits (of one run, or all): denied once, nothing sent. How many were taken back."""
        chosen = [one for one in self._waiting.values() if run is None or one.approval.run == run]
        for waiting in chosen:
            if not waiting.deciding:
                self._finish(waiting, ApprovalState.WITHDRAWN, None, reason)
        return len(chosen)

    def _check(self, signed: SignedStatement, approval: Approval) -> None:
        statement, request = signed.statement, approval.request
        self._operators.check_signature(signed)
        for name, signed_value, value in (
            ("request", statement.request_digest, request.digest),
            ("contract", statement.contract, request.contract),
            ("device", statement.device, request.device),
            ("call", statement.call_id, request.call_id),
        ):
            if signed_value != value:
                raise Refused(f"The signature is for another {name}.", ErrorCode.APPROVAL_INVALID)
        try:
            left = (datetime.fromisoformat(statement.expires) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError) as error:
            raise Refused("The signature has no valid expiry.", ErrorCode.APPROVAL_INVALID) from error
        if not 0 < left <= MOST_STATEMENT_SECONDS:
            raise Refused("The signature has expired, or is valid for too long.", ErrorCode.APPROVAL_INVALID)

    def _arm(self, waiting: _Waiting) -> None:
        if waiting.timer is not None:
            waiting.timer.cancel()
        now = time.monotonic()
        ends = waiting.ends_at
        if waiting.paused_at is not None:
            ends += waiting.pause_left
        delay = max(0.0, ends - now)
        waiting.timer = asyncio.get_running_loop().call_later(delay, self._expire, waiting.approval.id)

    def _unpause(self, waiting: _Waiting) -> None:
        assert waiting.paused_at is not None
        paused = min(time.monotonic() - waiting.paused_at, waiting.pause_left)
        waiting.pause_left -= paused
        waiting.ends_at += paused
        waiting.paused_at = None

    def _expire(self, approval_id: str) -> None:
        waiting = self._waiting.get(approval_id)
        if waiting is not None and not waiting.deciding:
            self._finish(waiting, ApprovalState.EXPIRED, None, "Nobody answered in time.")

    def _finish(self, waiting: _Waiting, state: ApprovalState, by: str | None, reason: str) -> Approval:
        decided = waiting.approval.model_copy(
            update={
                "state": state,
                "decided_by": by,
                "decided_at": datetime.now(UTC).isoformat(),
                "reason": reason,
                "remaining_s": 0.0,
            }
        )
        self._drop(waiting)
        self._decided[decided.id] = decided
        while len(self._decided) > DECIDED_KEPT:
            self._decided.popitem(last=False)
        if not waiting.answer.done():
            waiting.answer.set_result(decided)
        self._publish(decided)
        return decided

    def _drop(self, waiting: _Waiting) -> None:
        if waiting.timer is not None:
            waiting.timer.cancel()
        self._waiting.pop(waiting.approval.id, None)

    def _shown(self, waiting: _Waiting) -> Approval:
        now, stood_still, paused = time.monotonic(), 0.0, False
        if waiting.paused_at is not None:
            stood_still = min(now - waiting.paused_at, waiting.pause_left)
            # A reader who stays for ever does not hold it for ever.
            paused = stood_still < waiting.pause_left
        left = max(0.0, waiting.ends_at + stood_still - now)
        expires = datetime.now(UTC) + timedelta(seconds=left)
        return waiting.approval.model_copy(
            update={
                "remaining_s": left,
                "expires_at": expires.isoformat(),
                "paused": paused,
            }
        )


def _place(approval: Approval) -> dict[str, Any]:
    return {
        "run": approval.run,
        "step": approval.step,
        "device": approval.request.device,
        "call_id": approval.request.call_id,
        "tool": approval.request.tool_name,
    }


def _rejected(signed: SignedStatement, approval: Approval, error: Refused) -> NewEntry:
    return NewEntry(
        kind=Kind.APPROVAL_REJECTED,
        actor="service",
        body={
            "approval": approval.id,
            "problem": error.message,
            "signed": signed.model_dump(mode="json"),
        },
        **_place(approval),
    )
