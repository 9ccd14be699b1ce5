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
from core.audit.models import Page
from core.dispatch.live_secrets import LiveSecrets, Redaction
from core.dispatch.models import Evidence
from core.dispatch.outcome import failure_in
from core.dispatch.result_sanitizer import Blobs, UnusableAnswer, take_evidence
from core.errors import QuarterdeckError
from core.tasks import TaskGroupOwner

_LONGEST_NAME = 200


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
        self._one = asyncio.Lock()
        self._under_way: set[asyncio.Task[None]] = set()

    def take(self, device: str, late: LateAnswer) -> None:
        """Start recording an answer in the background."""
        task = self._tasks.spawn(f"record a late answer of {device}", self._record(device, late))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def done(self) -> None:
        """Wait until all answers so far are recorded, or queued for recording."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def _record(self, device: str, late: LateAnswer) -> None:
        async with self._one:
            entries = [
                await self._entry(device, call_id, result, problem)
                for call_id, result, problem in _matched(late)
            ]
            self._journal.note_late(entries)

    async def _entry(self, device: str, call_id: str | None, result: Result | None, problem: str) -> NewEntry:
        body: dict[str, Any] = {}
        evidence: list[Evidence] = []
        sent = await self._sent(call_id)
        redaction = self._live_secrets.redaction(device, sent.run if sent else None)
        status = None
        if result is not None:
            status = result.status
            if status is ResultStatus.SUCCESS and (failure := failure_in(result.result)) is not None:
                # The same judgement as for an answer that comes in time.
                status, problem = ResultStatus.FAILURE, "; ".join(filter(None, (problem, failure)))
            problem, evidence = await self._made_safe(result, problem, body, redaction)
        if problem:
            body["problem"] = (await take_evidence(problem, self._journal, redaction))[0]
        return NewEntry(
            kind=Kind.LATE_ANSWER_RECEIVED,
            actor=f"device:{device}",
            run=sent.run if sent else None,
            step=sent.step if sent else None,
            device=device,
            call_id=call_id,
            tool=sent.tool if sent else None,
            status=status.value if status is not None else None,
            body=body,
            blobs=[one.blob for one in evidence],
        )

    async def _made_safe(
        self, result: Result, problem: str, body: dict[str, Any], redaction: Redaction
    ) -> tuple[str, list[Evidence]]:
        """Put a sanitized result into an entry's body; returns its problem and the stored evidence."""
        told = {"result": result.result, "error": result.error}
        try:
            clean, evidence = await take_evidence(told, self._journal, redaction)
        except UnusableAnswer as error:
            clean, evidence = {}, error.evidence
            problem = "; ".join(filter(None, (problem, error.message)))
        except QuarterdeckError as error:
            # The blob store is unreachable: still record that an answer came.
            clean, evidence = {}, []
            problem = "; ".join(filter(None, (problem, f"what it said could not be kept: {error.message}")))
        body.update({key: value for key, value in clean.items() if value is not None})
        if evidence:
            body["evidence"] = [one.model_dump(mode="json", exclude_none=True) for one in evidence]
        return problem, evidence

    async def _sent(self, call_id: str | None) -> Entry | None:
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
    left = list(late.results)
    found: list[tuple[str | None, Result | None, str]] = []
    for call_id in late.call_ids:
        result = next((one for one in left if one.call_id == call_id), None)
        if result is not None:
            left.remove(result)
        found.append((call_id, result, late.problem))
    if len(found) == 1 and found[0][1] is None and left:
        # The frame held no other call, so this is its answer, whatever call id it carries.
        found[0] = (found[0][0], left.pop(0), found[0][2])
    found += [(None, one, f"it names call {(one.call_id or 'none')[:_LONGEST_NAME]}") for one in left]
    return found
