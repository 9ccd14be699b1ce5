"""Records answers that came after the console had given up on them, and what they tell of their commands.

The entry of the outcome stays as it was at the timeout. A late answer has an entry of its own, sanitized like
any result. While the outcome of its command is unknown, the answer is judged like one that came in time, and
what was judged is the command's result from then on; the first such answer stands. A device that was asked
for the call may also say that it never saw it and refuses it from then on: then nothing was run.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from pydantic import ValidationError

from core.aip.extensions import RESULTS_KEPT_S, RecalledResult
from core.aip.frames import error_text, read_error_text
from core.aip.link_events import LateAnswer
from core.aip.messages import Result, ResultStatus
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.events import LateAnswerReceived, event_of
from core.audit.models import Page
from core.audit.projection import CommandState
from core.audit.query import quoted
from core.commands.live_secrets import LiveSecrets, Redaction
from core.commands.results import NOT_WRITTEN, Basis, CommandResult, Evidence
from core.commitments import marked_objects
from core.dispatch.outcome import conclude, failure_in, not_known, not_sent
from core.dispatch.result_sanitizer import Blobs, UnusableAnswer, take_evidence
from core.dispatch.typed_echo import TYPE_TEXT, without_echo
from core.errors import DeviceError, ErrorCode, QuarterdeckError
from core.models.tools import BUILT_IN_NAMESPACE
from core.policy.models import Decision
from core.statements import Request
from core.tasks import TaskGroupOwner
from core.text import sentences

_LONGEST_CALL_ID = 200
# Entries of one command that are read: a command has some ten, and one for each late answer.
_MOST_ENTRIES = 100
_KINDS = ",".join(
    (
        Kind.COMMAND_PREPARED,
        Kind.COMMAND_DECIDED,
        Kind.COMMAND_SENT,
        Kind.RESULT_RECORDED,
        Kind.LATE_ANSWER_RECEIVED,
    )
)
# A device drops its records after `RESULTS_KEPT_S`. Of a command that was sent longer ago than this, half of
# that time, "never seen" may mean that it no longer knows; the clocks of both may differ by hours.
_NEVER_SEEN_HOLDS = timedelta(seconds=RESULTS_KEPT_S / 2)


LEFT_OUT = (
    "Its command had secrets, which only the service that sent it knew, so that they cannot be masked here."
)
_UNDO_ID = re.compile(r"[A-Za-z0-9_-]{16,64}")


class Journal(Blobs, Protocol):
    """The part of the journal that `LateResults` needs."""

    async def settle(self) -> None: ...
    async def query(self, query: str, *, after: int | None = ..., limit: int = ...) -> Page: ...
    def note_late(self, entries: list[NewEntry]) -> None: ...


class Settled(NamedTuple):
    """A command whose outcome was unknown and was told by a late answer; its run, and its result now."""

    run: str | None
    result: CommandResult


class _Sanitized(NamedTuple):
    """The sanitized `result` and `error` of an answer, the stored evidence, and what is wrong with it."""

    answer: dict[str, Any]
    evidence: list[Evidence]
    problem: str
    usable: bool = True


class LateResults:
    """Records late answers, each under its command's run and step."""

    def __init__(
        self,
        journal: Journal,
        tasks: TaskGroupOwner,
        live_secrets: LiveSecrets,
        on_answer: Callable[[str], None] = lambda call_id: None,
        on_settled: Callable[[Settled], None] = lambda settled: None,
        from_earlier: Callable[[str], bool] = lambda call_id: False,
    ) -> None:
        """`on_answer` gets the id of each call that was answered, `on_settled` what its answer tells.

        `from_earlier` says of a call whether an earlier service sent it: its secrets are no longer known.
        """
        self._journal = journal
        self._live_secrets = live_secrets
        self._tasks = tasks
        self._on_answer = on_answer
        self._on_settled = on_settled
        self._from_earlier = from_earlier
        # One at a time: late answers may be large and are not urgent.
        self._serial = asyncio.Lock()
        self._recordings: set[asyncio.Task[None]] = set()

    def take(self, device: str, late: LateAnswer) -> None:
        """Start recording an answer in the background."""
        task = self._tasks.spawn(f"record a late answer of {device}", self.record(device, late))
        self._recordings.add(task)
        task.add_done_callback(self._recordings.discard)

    async def done(self) -> None:
        """Wait until all answers so far are recorded, or queued for recording."""
        if self._recordings:
            await asyncio.wait(self._recordings)

    async def record(self, device: str, late: LateAnswer) -> None:
        """Record an answer, and report what it tells."""
        async with self._serial:
            answers = [
                await self._entry(device, call_id, result, problem, late)
                for call_id, result, problem in _matched(late)
            ]
            self._journal.note_late([entry for entry, _ in answers])
        for entry, settled in answers:
            if settled is not None:
                self._on_settled(settled)
            if entry.call_id is not None:
                self._on_answer(entry.call_id)

    async def _entry(
        self, device: str, call_id: str | None, result: Result | None, problem: str, late: LateAnswer
    ) -> tuple[NewEntry, Settled | None]:
        command, sent = await self._command(call_id, device)
        redaction = self._live_secrets.redaction(device, sent.run if sent else None)
        wrong, status, failure = problem, None, None
        told = _Sanitized({}, [], problem)
        if result is not None and await self._may_echo(command, sent):
            result = without_echo(result)
        if result is not None and await self._has_lost_secrets(command, sent):
            result = _without_texts(result, command)
        if result is not None:
            status = result.status
            failure = redaction.value(failure_in(result.result))
            if status is ResultStatus.SUCCESS and failure is not None:
                # Judged like an answer that comes in time.
                status, problem = ResultStatus.FAILURE, "; ".join(filter(None, (problem, failure)))
            told = await self._sanitized(result, problem, redaction)
        outcome = None
        if not wrong and told.usable and command.is_unknown and sent is not None:
            outcome = _outcome(command, sent, result, told, failure, never_seen=late.never_seen)
        event = LateAnswerReceived(
            result=told.answer.get("result"),
            error=told.answer.get("error"),
            evidence=[item.model_dump(mode="json", exclude_none=True) for item in told.evidence],
            problem=(await take_evidence(told.problem, self._journal, redaction))[0]
            if told.problem
            else None,
            outcome=None if outcome is None else _written(outcome),
            recalled=late.recalled,
            never_seen=late.never_seen is not None,
        )
        run = sent.run if sent else None
        entry = event.entry(
            f"device:{device}",
            run=run,
            step=sent.step if sent else None,
            device=device,
            call_id=call_id,
            tool=sent.tool if sent else None,
            status=status.value if status is not None else None,
            verdict=outcome.verdict.value if outcome is not None else None,
            blobs=[item.blob for item in told.evidence],
        )
        return entry, Settled(run, outcome) if outcome is not None else None

    async def _sanitized(self, result: Result, problem: str, redaction: Redaction) -> _Sanitized:
        answer = {"result": result.result, "error": result.error}
        try:
            return _Sanitized(*await take_evidence(answer, self._journal, redaction), problem)
        except UnusableAnswer as error:
            return _Sanitized({}, error.evidence, "; ".join(filter(None, (problem, error.message))), False)
        except QuarterdeckError as error:
            # The blob store is unreachable: still record that an answer came.
            unkept = f"what it said could not be kept: {error.message}"
            return _Sanitized({}, [], "; ".join(filter(None, (problem, unkept))), False)

    async def _has_lost_secrets(self, command: CommandState, sent: Entry | None) -> bool:
        """Whether the answer may have secrets that only an earlier service knew, so that none is masked."""
        return self._from_earlier(command.call_id) and await self._has_secrets(command, sent)

    async def _may_echo(self, command: CommandState, sent: Entry | None) -> bool:
        """Whether the answer may tell what stands in a field that a secret was typed into.

        It may also if nothing is known of the command: a device may name any call.
        """
        if command.prepared is None:
            return True
        return command.prepared.entry.tool == TYPE_TEXT and await self._has_secrets(command, sent)

    async def _has_secrets(self, command: CommandState, sent: Entry | None) -> bool:
        """Whether a command's arguments, or the inputs of its run, have secrets; true if unknown."""
        given = [command.prepared.event.parameters if command.prepared else None]
        if sent is not None and sent.run:
            try:
                page = await self._journal.query(
                    f"run:{quoted(sent.run)} kind:{Kind.RUN_STARTED}", after=0, limit=1
                )
            except QuarterdeckError:
                return True
            given += [entry.body for entry in page.entries]
        return next(marked_objects(given), None) is not None

    async def _command(self, call_id: str | None, device: str) -> tuple[CommandState, Entry | None]:
        """A command as the journal has it, and the entry by which it was sent to this device, if it was."""
        command = CommandState(call_id or "")
        if call_id is None or '"' in call_id:
            return command, None
        try:
            await self._journal.settle()
            page = await self._journal.query(
                f"call:{quoted(call_id)} kind:{_KINDS}", after=0, limit=_MOST_ENTRIES
            )
        except QuarterdeckError:
            return command, None
        sent = None
        for entry in page.entries:
            if entry.kind is Kind.COMMAND_SENT and entry.device == device:
                sent = entry
            command.apply(entry, event_of(entry))
        return command, sent


def _outcome(
    command: CommandState,
    sent: Entry,
    result: Result | None,
    told: _Sanitized,
    failure: str | None,
    *,
    never_seen: RecalledResult | None,
) -> CommandResult | None:
    """The result that a late answer tells; None if the journal does not have what it is judged by."""
    if command.prepared is None or command.decision is None or command.result is None:
        return None
    try:
        before = CommandResult.model_validate(command.result)
        decision = Decision.model_validate(command.decision)
        request = _request_of(command)
    except (ValidationError, ValueError):
        return None
    took = before.duration_ms
    if never_seen is not None:
        age = _age_of(sent)
        holds = age < _NEVER_SEEN_HOLDS and never_seen.never_ran(
            age.total_seconds(), action=request.tool_type == "action"
        )
        return _never_seen(request, decision, took) if holds else _not_known(request, decision, took)
    if result is None:
        return None
    clean = result.model_copy(update={"result": None, "error": told.answer.get("error")})
    value = told.answer.get("result")
    return conclude(request, decision, clean, value, told.evidence, took, failure=failure)


def _written(outcome: CommandResult) -> dict[str, Any]:
    return outcome.model_dump(mode="json", exclude={*NOT_WRITTEN, "result", "evidence"})


def _without_texts(result: Result, command: CommandState) -> Result:
    """A result without what may repeat a secret: the exit code and the undo id of a built-in tool stay.

    Any other tool may have put a secret there.
    """
    facts: dict[str, Any] = {"left_out": LEFT_OUT}
    built_in = command.prepared is not None and command.prepared.event.namespace == BUILT_IN_NAMESPACE
    if built_in and isinstance(result.result, dict):
        exit_code, undo = result.result.get("exit_code"), result.result.get("undo")
        if isinstance(exit_code, int) and not isinstance(exit_code, bool):
            facts["exit_code"] = exit_code
        if isinstance(undo, str) and _UNDO_ID.fullmatch(undo):
            facts["undo"] = undo
    error = result.error
    if error is not None:
        error = error_text(
            DeviceError(sentences("What it said is left out.", LEFT_OUT), read_error_text(error).code)
        )
    return result.model_copy(update={"result": facts, "error": error})


def _request_of(command: CommandState) -> Request:
    assert command.prepared is not None
    entry, event = command.prepared
    return Request(
        device=entry.device or "",
        contract=event.contract,
        tool_key=event.tool_key,
        tool_name=entry.tool or "",
        tool_type="data_collection" if event.tool_type == "data_collection" else "action",
        namespace=event.namespace,
        parameters=event.parameters,
        call_id=entry.call_id or "",
        digest=event.digest,
    )


def _never_seen(request: Request, decision: Decision, took: float) -> CommandResult:
    never = DeviceError(
        f"{request.device} never saw the command and refuses it from now on; nothing was run.",
        ErrorCode.DEVICE_OFFLINE,
    )
    return not_sent(request, decision, never, took)


def _not_known(request: Request, decision: Decision, took: float) -> CommandResult:
    """The result of a call of which a device knows nothing, and may have known something."""
    message = (
        f"{request.device} knows nothing of the call, or no longer: it keeps what it knows for "
        f"{RESULTS_KEPT_S / 3600:g} hours if its state folder lasts, and of what only reads until it restarts"
    )
    return not_known(request, decision, Basis.DEVICE_DOES_NOT_KNOW, message, took)


def _age_of(entry: Entry) -> timedelta:
    """How long ago an entry was written; a time in the future counts as very long ago."""
    try:
        age = datetime.now(UTC) - datetime.fromisoformat(entry.time)
    except (ValueError, TypeError):
        return timedelta.max
    return age if age >= timedelta(0) else timedelta.max


def _matched(late: LateAnswer) -> list[tuple[str | None, Result | None, str]]:
    """Match results to calls: (call id, its result, the problem) for each call and each unmatched result.

    A device can put any call id into a result, so only the ids in `late.call_ids`, which the console asked
    for, are accepted.
    """
    unmatched = list(late.results)
    matches: list[tuple[str | None, Result | None, str]] = []
    for call_id in late.call_ids:
        result = next((other for other in unmatched if other.call_id == call_id), None)
        if result is not None:
            unmatched.remove(result)
        matches.append((call_id, result, late.problem))
    if len(matches) == 1 and matches[0][1] is None and unmatched:
        # The frame held no other call, so this is its answer, whatever call id it carries.
        matches[0] = (matches[0][0], unmatched.pop(0), matches[0][2])
    matches += [
        (None, other, f"it names call {(other.call_id or 'none')[:_LONGEST_CALL_ID]}") for other in unmatched
    ]
    return matches
