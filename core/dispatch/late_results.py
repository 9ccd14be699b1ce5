"""Records answers that came after the console had given up on them. They change no verdict.

The command's outcome stays as it was at the timeout. The late answer gets an entry of its own, sanitized like
any result.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from core.aip.link_events import LateAnswer
from core.aip.messages import Result, ResultStatus
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.events import LateAnswerReceived
from core.audit.models import Page
from core.dispatch.live_secrets import LiveSecrets, Redaction
from core.dispatch.models import Evidence
from core.dispatch.outcome import failure_in
from core.dispatch.result_sanitizer import Blobs, UnusableAnswer, take_evidence
from core.errors import QuarterdeckError
from core.tasks import TaskGroupOwner

_LONGEST_CALL_ID = 200


class Journal(Blobs, Protocol):
    """The part of the journal that `LateResults` needs."""

    async def settle(self) -> None: ...
    async def query(self, query: str, *, limit: int = ...) -> Page: ...
    def note_late(self, entries: list[NewEntry]) -> None: ...


class LateResults:
    """Records late answers, each under its command's run and step."""

    def __init__(self, journal: Journal, tasks: TaskGroupOwner, live_secrets: LiveSecrets) -> None:
        self._journal = journal
        self._live_secrets = live_secrets
        self._tasks = tasks
        # One at a time: late answers may be large and are not urgent.
        self._serial = asyncio.Lock()
        self._recordings: set[asyncio.Task[None]] = set()

    def take(self, device: str, late: LateAnswer) -> None:
        """Start recording an answer in the background."""
        task = self._tasks.spawn(f"record a late answer of {device}", self._record(device, late))
        self._recordings.add(task)
        task.add_done_callback(self._recordings.discard)

    async def done(self) -> None:
        """Wait until all answers so far are recorded, or queued for recording."""
        if self._recordings:
            await asyncio.wait(self._recordings)

    async def _record(self, device: str, late: LateAnswer) -> None:
        async with self._serial:
            entries = [
                await self._entry(device, call_id, result, problem)
                for call_id, result, problem in _matched(late)
            ]
            self._journal.note_late(entries)

    async def _entry(self, device: str, call_id: str | None, result: Result | None, problem: str) -> NewEntry:
        sent_entry = await self._sent_entry(call_id)
        redaction = self._live_secrets.redaction(device, sent_entry.run if sent_entry else None)
        status = None
        answer: dict[str, Any] = {}
        evidence: list[Evidence] = []
        if result is not None:
            status = result.status
            if status is ResultStatus.SUCCESS and (failure := failure_in(result.result)) is not None:
                # Judged like an answer that comes in time.
                status, problem = ResultStatus.FAILURE, "; ".join(filter(None, (problem, failure)))
            answer, evidence, problem = await self._sanitized(result, problem, redaction)
        event = LateAnswerReceived(
            result=answer.get("result"),
            error=answer.get("error"),
            evidence=[item.model_dump(mode="json", exclude_none=True) for item in evidence],
            problem=(await take_evidence(problem, self._journal, redaction))[0] if problem else None,
        )
        return event.entry(
            f"device:{device}",
            run=sent_entry.run if sent_entry else None,
            step=sent_entry.step if sent_entry else None,
            device=device,
            call_id=call_id,
            tool=sent_entry.tool if sent_entry else None,
            status=status.value if status is not None else None,
            blobs=[item.blob for item in evidence],
        )

    async def _sanitized(
        self, result: Result, problem: str, redaction: Redaction
    ) -> tuple[dict[str, Any], list[Evidence], str]:
        """The sanitized `result` and `error` of an answer, the stored evidence, and what is wrong with it."""
        answer = {"result": result.result, "error": result.error}
        try:
            return (*await take_evidence(answer, self._journal, redaction), problem)
        except UnusableAnswer as error:
            return {}, error.evidence, "; ".join(filter(None, (problem, error.message)))
        except QuarterdeckError as error:
            # The blob store is unreachable: still record that an answer came.
            unkept = f"what it said could not be kept: {error.message}"
            return {}, [], "; ".join(filter(None, (problem, unkept)))

    async def _sent_entry(self, call_id: str | None) -> Entry | None:
        """The `COMMAND_SENT` entry of a call, which names its run; None if there is none."""
        if call_id is None or '"' in call_id:
            return None
        try:
            await self._journal.settle()
            page = await self._journal.query(f'call:"{call_id}" kind:{Kind.COMMAND_SENT}', limit=1)
        except QuarterdeckError:
            return None
        return page.entries[0] if page.entries else None


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
