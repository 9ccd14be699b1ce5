"""Queue of requests that wait for an operator's answer.

Each request ends exactly once: the required number of distinct operators have signed an approval of its
digest, one operator denies it, an operator edits it and a new request replaces it, a grant covers it, it is
withdrawn, or it expires, which counts as a denial. An operator's answer is durable in the journal before the
asking caller receives it. An answer applies to this request only; a later request is asked again unless an
operator gave a grant.

An actor that has as many requests in the queue as it may is refused the next one. But a run that was let in
is not refused in the middle: while the queue has a request of it, its further ones line up for the room that
this one will leave, and so does a request that an operator has edited. They have no card and no expiry before
they are in the queue.

`PendingApproval` is the state of one pending request: its remaining time, the clients that have its card
open, and its snapshot for display.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from core.approvals.answering_rules import (
    Restored,
    answer_entries,
    check_grant,
    check_may_approve,
    edited_entry,
    fatigue_entry,
    grant_may_answer,
    rejected_entry,
    restore_secrets,
)
from core.approvals.fatigue import FatigueMeter
from core.approvals.models import AnswerFate, Approval, ApprovalState, Fatigue, NotTaken
from core.approvals.operators import Operators
from core.approvals.queue_order import in_queue_order
from core.audit.entries import Entry, NewEntry
from core.commitments import NO_PLACES, Opening, Places
from core.errors import BadInput, ErrorCode, JournalUnavailable, QuarterdeckError, Refused
from core.policy.agents import Agents
from core.policy.grant_book import GrantBook
from core.policy.grants import GrantTerms, SignedGrant
from core.policy.models import Decision
from core.similar import meant_or_known
from core.statements import Request, SignedStatement, Statement, check_subject, check_time
from core.tasks import TaskGroupOwner, in_turns


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A request that needs their approval, and who asks for it.

    `askers` are the operators who asked for it, as proved with their keys; an empty name is a person whose
    identity was not proved. `program` is the client program of an agent. `sent` has the arguments with their
    secrets, and `openings` say where these are; `request` has the arguments redacted. `declared` are the
    places that only the caller declared secret.

    The queue awaits `reevaluate` when a new grant may cover the request. `reevaluate` calls
    `approve_by_grant` if the policy permits the request under that grant. Without it, no grant answers the
    request. `on_card` is called when the request has come into the queue.
    """

    id: str
    request: Request
    decision: Decision
    actor: str
    run: str | None
    step: str | None
    production: bool
    said: str
    program: str = ""
    askers: Sequence[str] = ("",)
    edited_from: str = ""
    sent: dict[str, Any] | None = field(default=None, repr=False)
    openings: tuple[Opening, ...] = field(default=(), repr=False)
    declared: Collection[tuple[str | int, ...]] = field(default=(), repr=False)
    reevaluate: Callable[[], Awaitable[None]] | None = None
    on_card: Callable[[], None] = lambda: None

    def approval(self, expiry_s: float) -> Approval:
        """Its snapshot as it comes into the queue."""
        asked_at = datetime.now(UTC)
        return Approval(
            id=self.id,
            request=self.request,
            decision=self.decision,
            actor=self.actor,
            run=self.run,
            step=self.step,
            production=self.production,
            asked_at=asked_at.isoformat(),
            expires_at=(asked_at + timedelta(seconds=expiry_s)).isoformat(),
            remaining_s=expiry_s,
            said=self.said,
            program=self.program,
            approvers=_required_approvers(self.decision.approvers, self.askers),
            askers=sorted(set(self.askers)),
            edited_from=self.edited_from,
        )


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of a request; `edited` are the arguments with which an operator replaced the original ones.

    `edited_by` is that operator, if their identity was proved with their key; otherwise empty. `answered_at`
    is when the answer came, in seconds of `time.monotonic`; None if no operator answered.
    """

    approval: Approval
    edited: Restored | None = None
    edited_by: str = ""
    answered_at: float | None = None


@dataclass(slots=True)
class PendingApproval:
    """A pending request and its expiry.

    Times are seconds of the monotonic `clock`, so that setting the system time does not change the expiry.
    """

    approval: Approval
    clock: Callable[[], float]
    ends_at: float
    pause_left: float
    asked_at: float
    readers: set[str] = field(default_factory=set)
    first_read_at: float | None = None
    paused_at: float | None = None
    edited: Restored | None = None
    edited_by: str = ""
    # The arguments with their secrets, kept in memory only: an edit can leave a secret unchanged.
    sent: dict[str, Any] | None = None
    openings: tuple[Opening, ...] = ()
    declared: Collection[tuple[str | int, ...]] = ()
    # True while an answer is being journalled: no other answer is accepted.
    deciding: bool = False
    # When the answer that is being journalled came.
    answered_at: float | None = None
    # The reason for a withdrawal that came while an answer was being journalled.
    withdrawn_reason: str = ""
    timer: asyncio.TimerHandle | None = None
    ended: Answered | None = None
    # Set when the request has ended, and when a new grant may cover it.
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, answered: Answered) -> None:
        """End the request and wake its caller; a second result is ignored."""
        if self.ended is None:
            self.ended = answered
        self.wake.set()

    def read(self, reader: str, reading: bool) -> None:
        """Record that a client opened or closed the card.

        The expiry is paused while a client has the card open, for `pause_left` seconds in total.
        """
        (self.readers.add if reading else self.readers.discard)(reader)
        now = self.clock()
        if reading and self.first_read_at is None:
            self.first_read_at = now
        if self.readers and self.paused_at is None and self.pause_left > 0:
            self.paused_at = now
        elif not self.readers and self.paused_at is not None:
            paused = self._paused_s(now)
            self.pause_left -= paused
            self.ends_at += paused
            self.paused_at = None

    def remaining_s(self) -> float:
        """The seconds until the request expires, pauses excluded."""
        now = self.clock()
        return max(0.0, self.ends_at + self._paused_s(now) - now)

    def expires_in_s(self) -> float:
        """The seconds until the request expires if its present readers keep the card open."""
        ends = self.ends_at + (self.pause_left if self.paused_at is not None else 0.0)
        return max(0.0, ends - self.clock())

    def took_s(self) -> float:
        """The seconds since a client first opened the card, or since the request was asked if none did."""
        started_at = self.first_read_at if self.first_read_at is not None else self.asked_at
        return self.clock() - started_at

    def snapshot(self) -> Approval:
        """A snapshot of the request with its present remaining time."""
        remaining_s = self.remaining_s()
        # The pause is limited: a card that stays open must not keep the request pending for ever.
        paused = self.paused_at is not None and self._paused_s(self.clock()) < self.pause_left
        expires = (datetime.now(UTC) + timedelta(seconds=remaining_s)).isoformat()
        update = {"remaining_s": remaining_s, "expires_at": expires, "paused": paused}
        return self.approval.model_copy(update=update)

    def _paused_s(self, now: float) -> float:
        return min(now - self.paused_at, self.pause_left) if self.paused_at is not None else 0.0


@dataclass(slots=True, eq=False)
class _InLine:
    """A request that waits until the queue has room for it."""

    approval_id: str
    actor: str
    run: str | None
    device: str
    # Set when there is room for it, or when it is withdrawn, for this reason.
    called: asyncio.Event = field(default_factory=asyncio.Event)
    withdrawn_reason: str = ""


class _Fault(NamedTuple):
    """Why an answer is not taken."""

    why: NotTaken
    error: Refused


MOST_PAUSE_SECONDS = 300.0
DECIDED_KEPT = 500
MOST_WAITING = 20_000


class Recorder(Protocol):
    """The journal methods that the queue uses."""

    async def append(self, entry: NewEntry) -> Entry: ...
    async def append_many(self, entries: list[NewEntry]) -> list[Entry]: ...
    def note(self, entry: NewEntry) -> None: ...


class ApprovalQueue:
    """The pending requests, listed by risk and age; each is answered exactly once."""

    def __init__(
        self,
        operators: Operators,
        journal: Recorder,
        expiry_s: float,
        publish: Callable[[Approval], None],
        most_pause_s: float = MOST_PAUSE_SECONDS,
        grants: GrantBook | None = None,
        clock: Callable[[], float] = time.monotonic,
        agents: Agents | None = None,
    ) -> None:
        """Create an empty queue; `clock` returns monotonic seconds. No agent may ask if `agents` is None."""
        self._operators = operators
        self._journal = journal
        self._expiry_s = expiry_s
        self._publish = publish
        self._clock = clock
        self._most_pause_s = most_pause_s
        self._grants = grants or GrantBook()
        self._agents = agents or Agents()
        self.fatigue = FatigueMeter(clock)
        # `decide` awaits each task and raises its error, so that the group has nothing to report.
        self._answers = TaskGroupOwner("approvals", lambda name, error: None)
        self._pending: dict[str, PendingApproval] = {}
        self._by_actor: Counter[str] = Counter()
        # In the order of asking. One that was called keeps its place until its task comes into the queue.
        self._line: list[_InLine] = []
        self._decided: OrderedDict[str, Approval] = OrderedDict()

    async def ask(self, asked: ApprovalRequest) -> Answered:
        """Queue a request and wait until it is answered, edited or withdrawn, or expires.

        A request for which there is no room waits for it if the queue has another one of its run, or if it is
        an edited one.

        Raises:
            Refused: this actor, all agents together or the whole queue have too many pending requests
                (code `queue_full`).
        """
        place = None if self.room(asked.actor) else self._line_up(asked)
        if place is not None:
            await self._called(place)
        approval = asked.approval(asked.decision.expires_s or self._expiry_s)
        if place is None:
            return await self._wait(asked, approval)
        if place.withdrawn_reason:
            update = {"state": ApprovalState.WITHDRAWN, "reason": place.withdrawn_reason}
            return Answered(approval.model_copy(update=update))
        # Given while it was in line; the request was judged before.
        granted = any(grant_may_answer(grant.terms, approval) for grant in self._grants.all())
        return await self._wait(asked, approval, at_once=granted)

    def _line_up(self, asked: ApprovalRequest) -> _InLine:
        """Put a request in line.

        Raises:
            Refused: it may not wait for room (code `queue_full`).
        """
        runs = {pending.approval.run for pending in self._pending.values()}
        let_in = asked.run is not None and asked.run in runs
        if not let_in and not asked.edited_from:
            own_count, waiting = self._by_actor[asked.actor], len(self._pending)
            text = f"{asked.actor} has {own_count} requests waiting for an operator already, of {waiting}."
            raise Refused(text, ErrorCode.QUEUE_FULL)
        self._line.append(place := _InLine(asked.id, asked.actor, asked.run, asked.request.device))
        return place

    async def _called(self, place: _InLine) -> None:
        """Wait until a request in line is called or withdrawn; it leaves the line then."""
        comes = False
        try:
            await place.called.wait()
            comes = not place.withdrawn_reason
        finally:
            self._line.remove(place)
            if not comes:
                self._call_next()

    def _call_next(self) -> None:
        """Call those in line for whom there is room now."""
        called = Counter(place.actor for place in self._line if place.called.is_set())
        for place in self._line:
            if not place.called.is_set() and self._room_beside(place.actor, called):
                place.called.set()
                called[place.actor] += 1

    def _call_off(self, places: Sequence[_InLine], reason: str) -> None:
        """Withdraw requests that are in line, also one that was called just now."""
        for place in places:
            place.withdrawn_reason = reason
            place.called.set()

    async def _wait(self, asked: ApprovalRequest, approval: Approval, at_once: bool = False) -> Answered:
        """Wait for the end of a request; `at_once`: a grant may cover it already."""
        now = self._clock()
        pending = PendingApproval(
            approval,
            self._clock,
            ends_at=now + approval.remaining_s,
            pause_left=self._most_pause_s,
            asked_at=now,
            sent=asked.sent,
            openings=asked.openings,
            declared=asked.declared,
        )
        self._pending[approval.id] = pending
        self._by_actor[approval.actor] += 1
        self._arm(pending)
        asked.on_card()
        self._publish(approval)
        self._link(approval.edited_from, approval.id)
        if at_once:
            pending.wake.set()
        try:
            while pending.ended is None:
                await pending.wake.wait()
                pending.wake.clear()
                if pending.ended is None and asked.reevaluate is not None:
                    await asked.reevaluate()
            return pending.ended
        finally:
            if approval.id in self._pending:
                self._withdraw(pending, "The client that asked has gone; nothing was sent.")

    def room(self, actor: str) -> int:
        """How many more requests of this actor can wait at the same time."""
        return self._room_beside(actor, Counter(place.actor for place in self._line))

    def waiting_of(self, actor: str) -> int:
        """How many requests of this actor wait."""
        return self._by_actor[actor]

    def _room_beside(self, actor: str, others: Counter[str]) -> int:
        """How many requests of this actor have room beside those in the queue and these, by their actors."""
        room, most = MOST_WAITING - len(self._pending) - others.total(), self._agents.most_waiting(actor)
        if most is not None:
            room = min(room, most - self._by_actor[actor] - others[actor])
        return max(room, 0)

    def get(self, approval_id: str) -> Approval:
        """A pending request, or one of the last `DECIDED_KEPT` that ended.

        Raises:
            BadInput: there is no such request (code `not_found`).
        """
        if pending := self._pending.get(approval_id):
            return pending.snapshot()
        if decided := self._decided.get(approval_id):
            return decided
        waiting = meant_or_known(approval_id, self._pending, "Waiting")
        raise BadInput(f"No request for approval has the id {approval_id}. {waiting}.", ErrorCode.NOT_FOUND)

    async def decide(self, signed: SignedStatement, grant: SignedGrant | None = None) -> Approval:
        """Record an operator's answer to a request; `grant` also permits later requests that its terms cover.

        If several operators must approve, the request stays pending until the last of them has.

        Raises:
            BadInput: there is no such request (code `not_found`).
            Refused: the statement or grant is not valid for this request, the operator's approval does not
                count for it, or the request was answered already.
            JournalUnavailable: the answer could not be recorded; the request stays pending.
        """
        statement = signed.statement
        pending = self._get_pending(statement.approval)
        try:
            self._check(signed, pending.approval, grant)
        except Refused as error:
            await self._journal.append(rejected_entry(signed, pending.approval, error))
            raise
        # The operator's client may disconnect while the journal writes: a recorded answer must still count.
        self._begin(pending)
        answering = self._answer(pending, signed, grant)
        return await asyncio.shield(self._answers.spawn("record an answer", answering))

    async def decide_many(self, signed: Sequence[SignedStatement]) -> list[AnswerFate]:
        """Record an operator's answers to many requests, each by a statement of its own, in one write.

        Each answer is checked as `decide` checks it and has a fate of its own, in the same order; one that is
        not taken keeps no other back. The time at which the call came counts for all of them: neither a
        request nor a signature expires while the answers before it are checked or recorded.

        Raises:
            BadInput: these are too many, or the answers of several operators.
            JournalUnavailable: the answers could not be recorded; all requests stay pending.
        """
        if len(signed) > MOST_WAITING:
            raise BadInput(f"One call answers at most {MOST_WAITING:,} requests.")
        if len({one.statement.approver for one in signed}) > 1:
            raise BadInput("One call has the answers of one operator; send those of another by themselves.")
        came = datetime.now(UTC)
        # Before the first turn is given away, so that none of them expires or is answered elsewhere.
        fates = [self._reserve(one) for one in signed]
        answering = self._answer_many(signed, fates, came)
        return await asyncio.shield(self._answers.spawn("record answers", answering))

    def _reserve(self, signed: SignedStatement) -> PendingApproval | AnswerFate:
        """The pending request of a statement, reserved for this answer; or why there is none."""
        statement = signed.statement
        if (pending := self._pending.get(statement.approval)) is not None:
            try:
                self._begin(pending)
            except Refused as error:
                return _not_taken(statement, NotTaken.BEING_ANSWERED, error, pending.approval)
            return pending
        if (ended := self._decided.get(statement.approval)) is not None:
            why = NotTaken.CHANGED if ended.state is ApprovalState.EDITED else NotTaken.ENDED
            return _not_taken(statement, why, _is_over(ended), ended)
        # Without the names that are like it: a call may hold thousands that ended long ago.
        text = f"No request for approval has the id {statement.approval}, or it ended long ago."
        return _not_taken(statement, NotTaken.NOT_FOUND, BadInput(text, ErrorCode.NOT_FOUND))

    async def _answer_many(
        self,
        signed: Sequence[SignedStatement],
        reserved: Sequence[PendingApproval | AnswerFate],
        came: datetime,
    ) -> list[AnswerFate]:
        fates = list(reserved)
        entries: list[NewEntry] = []
        took: list[tuple[float, bool]] = []
        try:
            async for place, one in in_turns(enumerate(signed)):
                if not isinstance(pending := fates[place], PendingApproval):
                    continue
                if (fault := self._fault(one, pending.approval, came)) is not None:
                    why, error = fault
                    entries.append(rejected_entry(one, pending.approval, error))
                    self._resume(pending)
                    fates[place] = _not_taken(one.statement, why, error, self.get(pending.approval.id))
                    continue
                took_s = pending.took_s()
                took.append((took_s, one.statement.verdict == "approve"))
                entries += answer_entries(one, pending.approval, None, took_s)
            await self._journal.append_many(entries)
        except BaseException:
            for pending in fates:
                if isinstance(pending, PendingApproval):
                    self._resume(pending)
            raise
        async for place, one in in_turns(enumerate(signed)):
            if isinstance(pending := fates[place], PendingApproval):
                fates[place] = _fate_of(one.statement, self._count(pending, one))
        if took:
            self._note_fatigue(self.fatigue.note_many(signed[0].statement.approver, took))
        return [fate for fate in fates if isinstance(fate, AnswerFate)]

    async def _answer(
        self, pending: PendingApproval, signed: SignedStatement, grant: SignedGrant | None
    ) -> Approval:
        statement = signed.statement
        took_s = pending.took_s()
        await self._record(pending, answer_entries(signed, pending.approval, grant, took_s))
        if grant is not None:
            self._grants.add(grant.terms)
        snapshot = self._count(pending, signed)
        if grant is not None:
            self._wake_covered(grant.terms)
        approved = statement.verdict == "approve"
        self._note_fatigue(self.fatigue.note(statement.approver, took_s, approved))
        return snapshot

    def _wake_covered(self, terms: GrantTerms) -> None:
        """Reevaluate each pending request that the new terms may cover, oldest first."""
        for pending in self._pending.values():
            if grant_may_answer(terms, pending.approval):
                pending.wake.set()

    def is_open(self, approval_id: str) -> bool:
        """Whether a request is pending and not expired, and no answer to it is being recorded."""
        pending = self._pending.get(approval_id)
        return pending is not None and not pending.deciding and pending.remaining_s() > 0

    def approve_by_grant(self, approval_id: str, terms: GrantTerms) -> None:
        """Approve a request that `is_open` under a grant; the caller has journalled the use of the grant.

        Raises:
            BadInput: there is no such request (code `not_found`).
            Refused: the request has ended, or an answer to it is being recorded.
        """
        pending = self._get_pending(approval_id)
        self._begin(pending)
        self._finish(pending, ApprovalState.APPROVED, f"grant {terms.id} of {terms.author}", "")

    def _begin(self, pending: PendingApproval) -> None:
        """Reserve the request for one answer until that answer is recorded or fails.

        Raises:
            Refused: another answer is being recorded.
        """
        if pending.deciding:
            raise Refused("This request is being answered already.", ErrorCode.APPROVAL_INVALID)
        pending.deciding = True
        pending.answered_at = time.monotonic()

    async def _record(self, pending: PendingApproval, entries: Sequence[NewEntry]) -> None:
        """Journal an answer. If that fails, the answer does not count and the request is pending again."""
        try:
            if len(entries) == 1:
                await self._journal.append(entries[0])
            else:
                await self._journal.append_many([*entries])
        except BaseException:
            self._resume(pending)
            raise

    def _resume(self, pending: PendingApproval) -> None:
        """Make the request pending again, or end it if it was withdrawn while an answer was recorded."""
        pending.deciding = False
        if pending.withdrawn_reason:
            self._finish(pending, ApprovalState.WITHDRAWN, None, pending.withdrawn_reason)
        else:
            self._arm(pending)

    def _count(self, pending: PendingApproval, signed: SignedStatement) -> Approval:
        """Count a recorded answer: a denial or the last required approval ends the request."""
        statement, approval = signed.statement, pending.approval
        pending.approval = approval.model_copy(update={"signed": [*approval.signed, signed]})
        if statement.verdict == "deny":
            return self._finish(pending, ApprovalState.DENIED, statement.approver, statement.reason)
        approved_by = [*approval.approved_by, statement.approver]
        pending.approval = pending.approval.model_copy(update={"approved_by": approved_by})
        if len(approved_by) >= approval.approvers and not pending.withdrawn_reason:
            return self._finish(pending, ApprovalState.APPROVED, " and ".join(approved_by), statement.reason)
        # A request that was withdrawn while the approval was recorded stays withdrawn.
        self._resume(pending)
        if pending.approval.id in self._pending:
            self._publish(pending.snapshot())
        return self.get(pending.approval.id)

    def unredacted(self, approval_id: str, parameters: dict[str, Any]) -> Restored:
        """The edited arguments in which each unchanged stand-in is replaced by its secret.

        Raises:
            BadInput: there is no such request, or a secret's stand-in is not at its original place.
            Refused: the request was answered already.
        """
        pending = self._get_pending(approval_id)
        sent = pending.sent if pending.sent is not None else pending.approval.request.parameters
        return restore_secrets(
            parameters, pending.approval.request.parameters, sent, pending.openings, pending.declared
        )

    def _get_pending(self, approval_id: str) -> PendingApproval:
        pending = self._pending.get(approval_id)
        if pending is None:
            raise _is_over(self.get(approval_id))
        return pending

    async def edit(
        self,
        approval_id: str,
        parameters: dict[str, Any],
        redacted: dict[str, Any],
        by: str,
        operator: str = "",
        places: Places = NO_PLACES,
    ) -> None:
        """Replace the arguments: this request ends, and its caller asks a new request with them.

        `places` are where the caller's secrets stand in them. `redacted` are the redacted arguments for the
        journal. `operator` is the operator that the actor `by` has proved to be; empty without proof.

        Raises:
            BadInput: there is no such request (code `not_found`).
            Refused: the request was answered or withdrawn, or an answer to it is being recorded.
            JournalUnavailable: the edit could not be recorded; the request stays pending.
        """
        pending = self._get_pending(approval_id)
        self._begin(pending)
        await self._record(pending, [edited_entry(pending.approval, redacted, by)])
        if pending.withdrawn_reason:
            self._resume(pending)
            raise Refused("This request was withdrawn while you answered.", ErrorCode.APPROVAL_INVALID)
        pending.edited, pending.edited_by = Restored(parameters, places), operator
        self._finish(pending, ApprovalState.EDITED, by.partition(":")[2], "Its arguments were changed.")

    def _link(self, edited_id: str, new_id: str) -> None:
        """Store in an edited request the id of the request that replaced it."""
        if (edited_approval := self._decided.get(edited_id)) is not None:
            self._decided[edited_id] = edited_approval.model_copy(update={"edited_to": new_id})
            self._publish(self._decided[edited_id])

    def _note_fatigue(self, fatigue: Fatigue | None) -> None:
        """Record a warning that has just begun."""
        if fatigue is not None:
            # The answer is already recorded: a failure to journal the warning must not undo it.
            with suppress(JournalUnavailable):
                self._journal.note(fatigue_entry(fatigue))

    def pause_expiry(self, approval_id: str, reader: str, reading: bool) -> Approval:
        """Pause or resume the expiry while the client `reader` has the card open; returns a snapshot.

        All pauses of a request together last at most `most_pause_s` (default five minutes).
        """
        pending = self._pending.get(approval_id)
        if pending is None:
            return self.get(approval_id)
        pending.read(reader, reading)
        self._arm(pending)
        snapshot = pending.snapshot()
        self._publish(snapshot)
        return snapshot

    def is_read_by_others(self, approval_id: str, reader: str) -> bool:
        """Whether another client than `reader` has the card of a pending request open."""
        pending = self._pending.get(approval_id)
        return pending is not None and bool(pending.readers - {reader})

    def release_reader(self, reader: str) -> None:
        """End every pause of a client that has disconnected."""
        for approval_id, pending in list(self._pending.items()):
            if reader in pending.readers:
                self.pause_expiry(approval_id, reader, False)

    def withdraw(self, reason: str, run: str | None = None, device: str | None = None) -> int:
        """Withdraw the pending requests of one run, of one device, or all; returns their number.

        A withdrawn request is not sent. While an answer is being recorded, the withdrawal is deferred: a
        denial then still counts, an approval or edit does not.
        """
        requests = [
            pending
            for pending in self._pending.values()
            if run in (None, pending.approval.run) and device in (None, pending.approval.request.device)
        ]
        # First, so that the room that the others leave calls none of them.
        in_line = [
            place for place in self._line if run in (None, place.run) and device in (None, place.device)
        ]
        self._call_off(in_line, reason)
        for pending in requests:
            self._withdraw(pending, reason)
        return len(in_line) + len(requests)

    def withdraw_one(self, approval_id: str, reason: str) -> None:
        """Withdraw one request as `withdraw` does; nothing happens if it is not pending."""
        self._call_off([place for place in self._line if place.approval_id == approval_id], reason)
        if (pending := self._pending.get(approval_id)) is not None:
            self._withdraw(pending, reason)

    def operator_removed(self, name: str) -> None:
        """Discard a removed operator's approvals of requests that are still pending."""
        for pending in list(self._pending.values()):
            approval = pending.approval
            if name in approval.approved_by:
                signed = [statement for statement in approval.signed if statement.statement.approver != name]
                approved_by = [other for other in approval.approved_by if other != name]
                pending.approval = approval.model_copy(update={"signed": signed, "approved_by": approved_by})
                self._publish(pending.snapshot())

    def _withdraw(self, pending: PendingApproval, reason: str) -> None:
        if pending.deciding:
            pending.withdrawn_reason = reason
        else:
            self._finish(pending, ApprovalState.WITHDRAWN, None, reason)

    def _check(self, signed: SignedStatement, approval: Approval, grant: SignedGrant | None) -> None:
        if (fault := self._fault(signed, approval)) is not None:
            raise fault.error
        if grant is not None:
            operator = self._operators.get(signed.statement.approver)
            check_grant(grant, signed.statement, approval, operator)
            self._grants.check_new(grant.terms)

    def _fault(
        self, signed: SignedStatement, approval: Approval, now: datetime | None = None
    ) -> _Fault | None:
        """Why a statement is no valid answer to a request now, or at the time `now`; None if it is one."""
        statement = signed.statement
        why = NotTaken.NOT_SIGNED
        try:
            operator = self._operators.check_signature(signed)
            why = NotTaken.CHANGED
            check_subject(statement, approval.request)
            why = NotTaken.EXPIRED
            check_time(statement.expires, now=now)
            why = NotTaken.NEEDS_OTHER_OPERATOR
            if statement.verdict == "approve":
                check_may_approve(operator.name, approval)
        except Refused as error:
            return _Fault(why, error)
        return None

    def _arm(self, pending: PendingApproval) -> None:
        if pending.timer is not None:
            pending.timer.cancel()
        loop = asyncio.get_running_loop()
        pending.timer = loop.call_later(pending.expires_in_s(), self._expire, pending.approval.id)

    def _expire(self, approval_id: str) -> None:
        pending = self._pending.get(approval_id)
        if pending is None or pending.deciding:
            return
        if pending.remaining_s() > 0:
            self._arm(pending)
        else:
            self._finish(pending, ApprovalState.EXPIRED, None, "No operator answered in time.")

    def expire_due(self) -> None:
        """Expire every request whose time is over, without waiting for its timer."""
        for approval_id in list(self._pending):
            self._expire(approval_id)

    def _finish(
        self, pending: PendingApproval, state: ApprovalState, by: str | None, reason: str
    ) -> Approval:
        decided = pending.approval.model_copy(
            update={
                "state": state,
                "decided_by": by,
                "decided_at": datetime.now(UTC).isoformat(),
                "reason": reason,
                "remaining_s": 0.0,
            }
        )
        self._drop(pending)
        self._decided[decided.id] = decided
        while len(self._decided) > DECIDED_KEPT:
            self._decided.popitem(last=False)
        pending.end(Answered(decided, pending.edited, pending.edited_by, pending.answered_at))
        self._publish(decided)
        return decided

    def _drop(self, pending: PendingApproval) -> None:
        if pending.timer is not None:
            pending.timer.cancel()
        if self._pending.pop(pending.approval.id, None) is not None:
            self._by_actor[pending.approval.actor] -= 1
            if not self._by_actor[pending.approval.actor]:
                del self._by_actor[pending.approval.actor]
            self._call_next()

    def list(self) -> list[Approval]:
        """The pending requests in their order."""
        return in_queue_order(pending.snapshot() for pending in self._pending.values())


def _required_approvers(approvers: int, askers: Sequence[str]) -> int:
    """The number of operators who must approve a request.

    If the policy requires several, the askers' own approvals do not count. An asker without a proved identity
    may be one of the approving operators: each such asker raises the number by one.
    """
    unknown = sum(1 for name in askers if not name)
    return approvers + unknown if approvers > 1 else approvers


def _is_over(ended: Approval) -> Refused:
    """The error of an answer to a request that has ended."""
    return Refused(f"This request is {ended.state.value} already.", ErrorCode.APPROVAL_INVALID)


def _not_taken(
    statement: Statement, why: NotTaken, error: QuarterdeckError, now: Approval | None = None
) -> AnswerFate:
    """The fate of an answer that was not taken; `now` is its request as it stands."""
    fate = AnswerFate(approval=statement.approval, device=statement.device, state=None)
    known = {} if now is None else _standing(now)
    return fate.model_copy(update={**known, "why": why, "error": error.info})


def _fate_of(statement: Statement, now: Approval) -> AnswerFate:
    """The fate of a recorded answer; `now` is its request afterwards."""
    if now.state is ApprovalState.WITHDRAWN:
        words = now.reason or "The request was withdrawn while you answered."
        return _not_taken(statement, NotTaken.ENDED, Refused(words, ErrorCode.APPROVAL_INVALID), now)
    return AnswerFate(approval=now.id, **_standing(now))


def _standing(now: Approval) -> dict[str, Any]:
    device = now.request.device
    return {
        "device": device,
        "state": now.state,
        "approved_by": now.approved_by,
        "approvers": now.approvers,
    }
