"""Answers that came after the console had given up on them: recorded, and changing no verdict.

The command's own outcome stays what it was when its time was over. What the device said later stands in an
entry of its own, made safe like any result.
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
from core.errors import JournalUnavailable, QuarterdeckError
from core.tasks import TaskGroupOwner

_LONGEST_NAME = 200


class Journal(Blobs, Protocol):
    """The journal, as far as this needs it."""

    async def settle(self) -> None: ...
    async def query(self, query: str, *, limit: int = ...) -> Page: ...
    def note_all(self, entries: list[NewEntry]) -> None: ...


class Keeps(Protocol):
    """Who keeps what cannot be recorded now, until it can be."""

    def keep(self, entries: list[NewEntry]) -> None: ...


class LateAnswers:
    """Records late answers, each where its command belongs."""

    def __init__(
        self, journal: Journal, keeper: Keeps, tasks: TaskGroupOwner, live_secrets: LiveSecrets
    ) -> None:
        self._journal = journal
        self._live_secrets = live_secrets
        self._keeper = keeper
        self._tasks = tasks
        # One after another: what a device sends late may be large, and nobody is in a hurry for it.
        self._one = asyncio.Lock()
        self._under_way: set[asyncio.Task[None]] = set()

    def take(self, device: str, late: LateAnswer) -> None:
        """Have an answer recorded; it is on its way to the journal when this returns."""
        task = self._tasks.spawn(f"record a late answer of {device}", self._record(device, late))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def done(self) -> None:
        """Wait until all that came so far is recorded, or kept until it can be."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def _record(self, device: str, late: LateAnswer) -> None:
        async with self._one:
            entries = [
                await self._entry(device, call_id, result, problem)
                for call_id, result, problem in _matched(late)
            ]
            try:
                self._journal.note_all(entries)
            except JournalUnavailable:
                self._keeper.keep(entries)

    async def _entry(self, device: str, call_id: str | None, result: Result | None, problem: str) -> NewEntry:
        body: dict[str, Any] = {}
        evidence: list[Evidence] = []
        sent = await self._sent(call_id)
        redaction = self._live_secrets.redaction(device, sent.run if sent else None)
        status = None
        if result is not None:
            status = result.status
            if status is ResultStatus.SUCCESS and (failure := failure_in(result.result)) is not None:
                # Judged like an answer that comes in time.
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
        """Put what a result says into an entry's body; its problem, and what is kept as blobs."""
        told = {"result": result.result, "error": result.error}
        try:
            clean, evidence = await take_evidence(told, self._journal, redaction)
        except UnusableAnswer as error:
            clean, evidence = {}, error.evidence
            problem = "; ".join(filter(None, (problem, error.message)))
        except QuarterdeckError as error:
            # The blob store is out of reach: that an answer came is said all the same.
            clean, evidence = {}, []
            problem = "; ".join(filter(None, (problem, f"what it said could not be kept: {error.message}")))
        body.update({key: value for key, value in clean.items() if value is not None})
        if evidence:
            body["evidence"] = [one.model_dump(mode="json", exclude_none=True) for one in evidence]
        return problem, evidence

    async def _sent(self, call_id: str | None) -> Entry | None:
        """The entry that says when the command left, and for which run."""
        if call_id is None or '"' in call_id:
            return None
        try:
            await self._journal.settle()
            page = await self._journal.query(f'call:"{call_id}" kind:{Kind.COMMAND_SENT}', limit=1)
        except QuarterdeckError:
            return None
        return page.entries[0] if page.entries else None


def _matched(late: LateAnswer) -> list[tuple[str | None, Result | None, str]]:
    """Each call with the result that is meant for it, and what is wrong; no call is left without a word.

    A device names calls as it likes, so a result counts for a call only where the console asked for it.
    """
    left = list(late.results)
    found: list[tuple[str | None, Result | None, str]] = []
    for call_id in late.call_ids:
        result = next((one for one in left if one.call_id == call_id), None)
        if result is not None:
            left.remove(result)
        found.append((call_id, result, late.problem))
    if len(found) == 1 and found[0][1] is None and left:
        # Nothing else was asked in that frame, so it is this call's answer, under whatever name.
        found[0] = (found[0][0], left.pop(0), found[0][2])
    found += [(None, one, f"it names call {(one.call_id or 'none')[:_LONGEST_NAME]}") for one in left]
    return found
