"""The log of calls and their results: no call runs twice, and a console can ask for a lost result.

A call is `waiting`, `running`, `done` or `gone`. `gone`: the console asked about it before it arrived, and it
is refused since. The latest results are kept in memory, limited in bytes, for consoles that come back late;
call ids are kept much longer. Actions are also in the device's store (`CallRecords`), without arguments and
results, so that a client that was killed neither runs an action again nor reports it as never seen.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from core.aip.extensions import CommandOptions, RecalledResult
from core.aip.messages import Command, Result
from core.device.binary_values import BinaryResult, Blobs, marked
from core.device.call_records import KEPT_ANYWAY, CallRecord, CallRecords, Facts
from core.device.device_store import EXPIRY_S, DeviceStore
from core.device.router import failure
from core.errors import DeviceError, ErrorCode, QuarterdeckError
from core.log import Logger

log = Logger(__name__)

State = Literal["waiting", "running", "done", "gone"]
MOST_RECALLED = 256
# A console stores at most 64 binary frames that no result has referred to yet.
MOST_BLOBS = 32
_LONGEST_ID = 200
_MOST_BYTES = 24 * 1024 * 1024
_MOST_RESULTS = 4096
_MOST_CALLS = 50_000


@dataclass(slots=True)
class Call:
    """One call and its state. `what` identifies the command: its id cannot be used for another command.

    `claimed`: the device's store may have a record that this client has begun it.
    """

    call_id: str
    what: str
    state: State
    at: float
    action: bool = False
    result: Result | None = None
    size: int = 0
    claimed: bool = False
    ended: asyncio.Future[None] | None = field(default=None, repr=False)


class CallLog:
    """The calls of one device over all its links. Without a store they are lost when the process ends."""

    def __init__(self, store: DeviceStore | None = None, clock: Callable[[], float] | None = None) -> None:
        """Take over the calls of ended clients.

        Raises:
            BadInput: the store cannot be used.
            DeviceError: it cannot be used now, but perhaps later.
        """
        self._records = None if store is None else CallRecords(store)
        self._clock = clock or _steady()
        self._calls: OrderedDict[str, Call] = OrderedDict()
        self._with_result: OrderedDict[str, None] = OrderedDict()
        self._bytes = 0
        # Until this time, an unknown id may be that of an action whose record was dropped.
        self._forgetful_until = 0.0
        # Since when every action, and every call that reads, is known.
        self._since = self._reads_since = self._clock()
        if self._records is not None:
            opened = self._records.open(self._clock())
            self._forgetful_until, self._since = opened.doubtful_until, opened.since
            self._learn(opened.known)

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def bytes_held(self) -> int:
        """The approximate size of the results in memory."""
        return self._bytes

    def find(self, call_id: str | None) -> Call | None:
        """The call with this id, if it is known."""
        return None if call_id is None else self._calls.get(call_id)

    def accept(self, command: Command, terms: CommandOptions | None, *, action: bool) -> Call:
        """Record a command with a new id as `waiting`.

        Raises:
            DeviceError: its id is longer than 200 characters.
        """
        assert command.call_id is not None, "calls without an id are not kept"
        if len(command.call_id) > _LONGEST_ID:
            raise DeviceError(
                f"A call_id has at most {_LONGEST_ID} characters on this device.", ErrorCode.PROTOCOL_ERROR
            )
        call = Call(command.call_id, what_of(command, terms), "waiting", self._clock(), action)
        self._calls[call.call_id] = call
        self._make_room()
        return call

    async def begin(self, call: Call) -> None:
        """Record that a call runs from now on; for an action, on the disk before this returns.

        Raises:
            DeviceError: the call must not run: this cannot be recorded, or another client with this state
                folder has already begun it or reported it as never seen.
        """
        if call.action and self._records is not None:
            call.claimed = True
            other = await self._records.claim(CallRecord(call.call_id, "started", call.what, call.at))
            if other is not None:
                call.claimed = False
                raise _had_by(other)
        call.state = "running"

    async def finish(self, call: Call, result: Result, size: int) -> None:
        """Store a call's result, of about `size` bytes, and wake the tasks that wait for it."""
        call.state, call.result, call.size = "done", result, size
        self._bytes += size
        self._with_result[call.call_id] = None
        if call.ended is not None and not call.ended.done():
            call.ended.set_result(None)
        self._make_room()
        if call.claimed and self._records is not None:
            ended = CallRecord(call.call_id, "done", call.what, call.at, Facts.of(result))
            try:
                await self._records.note(ended)
            except QuarterdeckError as error:
                # The action has run, so this is not an error of the call; after a restart its outcome is
                # reported as unknown.
                log.warning("not noted", reason=error.message)

    async def wait(self, call: Call) -> Result:
        """Wait for the end of a call that another frame brought; returns its result."""
        if call.state in {"waiting", "running"}:
            if call.ended is None:
                call.ended = asyncio.get_running_loop().create_future()
            await asyncio.shield(call.ended)
        return self.result_of(call)

    def result_of(self, call: Call) -> Result:
        """The result of a call that has ended, or a failure for a call that may never run."""
        if call.state == "gone":
            fault = DeviceError(
                "The console asked about this call before it came, and was told that it never would.",
                ErrorCode.CANCELLED,
            )
            return failure(fault, call.call_id)
        return call.result or failure(
            DeviceError("It ended, but its result is not kept any more.", ErrorCode.OUTCOME_UNKNOWN),
            call.call_id,
        )

    async def recall(self, call_ids: list[str], room: int) -> tuple[dict[str, Any], Blobs]:
        """The state of each call, and the blobs of their results; unknown calls are `gone` from now on.

        Raises:
            DeviceError: the results together exceed `room` bytes or `MOST_BLOBS` blobs, or the records cannot
                be read or written; the unknown calls are still unknown.
        """
        known = {call_id: self._calls[call_id] for call_id in call_ids if call_id in self._calls}
        size = sum(call.size for call in known.values())
        held = [call.result for call in known.values()]
        blobs = sum(len(result.blobs) for result in held if isinstance(result, BinaryResult))
        if (size > room or blobs > MOST_BLOBS) and len(call_ids) > 1:
            raise DeviceError(
                f"These {len(call_ids)} results have {size} bytes together; ask for fewer at once.",
                ErrorCode.TOO_LARGE,
            )
        beside = await self._look_up([call_id for call_id in call_ids if call_id not in known])
        taken: Blobs = {}
        return {
            call_id: self._told(beside[call_id])
            if call_id in beside
            else self._recalled(known.get(call_id) or self._calls[call_id], taken)
            for call_id in call_ids
        }, taken

    async def adopt(self) -> None:
        """Take over the calls of ended clients with the same state folder."""
        if self._records is None:
            return
        try:
            self._learn(await self._records.adopt())
        except QuarterdeckError as error:
            log.warning("other clients' records cannot be taken over", reason=error.message)

    def close(self) -> None:
        """Close the records."""
        if self._records is not None:
            self._records.close()

    def _recalled(self, call: Call, blobs: Blobs) -> dict[str, Any]:
        if call.state == "gone":
            return self._never_seen()
        if call.state != "done":
            return RecalledResult(state="running").model_dump()
        result = marked(self.result_of(call))
        blobs.update(result.blobs)
        return RecalledResult(state="done", result=result.model_dump(mode="json")).model_dump()

    def _told(self, record: CallRecord) -> dict[str, Any]:
        """Another client's record of a call, as a recalled result."""
        if record.state == "gone":
            return self._never_seen()
        if record.state == "started":
            return RecalledResult(state="running").model_dump()
        lost = DeviceError("It ended, but its result is not kept any more.", ErrorCode.OUTCOME_UNKNOWN)
        facts, call_id = record.facts, record.call_id
        result = failure(lost, call_id) if facts is None else facts.result(call_id)
        return RecalledResult(state="done", result=marked(result).model_dump(mode="json")).model_dump()

    def _never_seen(self) -> dict[str, Any]:
        now = self._clock()
        return RecalledResult(
            state="never_seen",
            known_for_s=max(0.0, now - self._since),
            reads_known_for_s=max(0.0, now - self._reads_since),
        ).model_dump()

    async def _look_up(self, call_ids: list[str]) -> dict[str, CallRecord]:
        """Make calls known that this client has not seen; those that no client has seen never run.

        Returns the records of calls that are another client's.
        """
        if not call_ids:
            return {}
        now = self._clock()
        doubtful = now < self._forgetful_until
        asked: dict[str, CallRecord | None] = {}
        if self._records is None:
            asked = {
                call_id: None if doubtful else CallRecord(call_id, "gone", "", now) for call_id in call_ids
            }
        else:
            answer = await self._records.look_up(call_ids, now, doubtful)
            self._learn(answer.adopted)
            asked = answer.asked
        beside: dict[str, CallRecord] = {}
        for call_id, record in asked.items():
            if record is None:
                # It may have run and lost its record, so `never_seen` could be wrong: its outcome is reported
                # as unknown instead.
                self._calls.setdefault(call_id, Call(call_id, "", "done", now, action=True))
            elif record.state == "gone":
                # A command that came meanwhile finds the record and does not run.
                self._calls.setdefault(call_id, Call(call_id, "", "gone", now))
                beside[call_id] = record
            elif call_id not in self._calls:
                beside[call_id] = record
        self._make_room()
        return beside

    def _learn(self, records: list[CallRecord]) -> None:
        for record in records:
            if record.call_id in self._calls:
                # If it waits here, its record keeps it from running.
                continue
            state: State = "gone" if record.state == "gone" else "done"
            call = Call(record.call_id, record.what, state, record.at, action=state == "done")
            call.result = None if record.facts is None else record.facts.result(record.call_id)
            self._calls[record.call_id] = call
        self._make_room()

    def _make_room(self) -> None:
        while self._with_result and (
            len(self._with_result) > _MOST_RESULTS
            or (self._bytes > _MOST_BYTES and len(self._with_result) > 1)
        ):
            oldest, _ = self._with_result.popitem(last=False)
            call = self._calls.get(oldest)
            if call is None:
                continue
            self._bytes -= call.size
            call.size = 0
            if call.action:
                call.result = None
            else:
                # An observation may run again.
                del self._calls[oldest]
                self._reads_since = self._clock()
        self._forget_old()

    def _forget_old(self) -> None:
        too_old = self._clock() - EXPIRY_S
        # Each turn removes a call or skips an unfinished one, of which there are few.
        for _ in range(len(self._calls)):
            call = next(iter(self._calls.values()))
            expired = call.at < too_old and len(self._calls) > KEPT_ANYWAY
            if not expired and len(self._calls) <= _MOST_CALLS:
                return
            if call.state in {"waiting", "running"}:
                self._calls.move_to_end(call.call_id)
                continue
            del self._calls[call.call_id]
            self._bytes -= call.size
            self._with_result.pop(call.call_id, None)
            if not expired and call.action:
                self._forgetful_until = self._clock() + EXPIRY_S
            elif call.state == "done" and not call.action:
                self._reads_since = self._clock()


def _steady() -> Callable[[], float]:
    """A monotonic clock that starts at the time of day and is not affected when that is set."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset


def what_of(command: Command, terms: CommandOptions | None) -> str:
    """Identifies a command: its tool, a hash of its arguments, and the permitted request's digest if given.

    The digest alone is not enough: the console may send any digest, or none. The hash is stored, so it is
    salted with the call id: equal arguments of two calls have different hashes.
    """
    given = json.dumps([command.call_id, command.parameters or {}], sort_keys=True).encode()
    arguments = hashlib.sha256(given).hexdigest()[:16]
    permitted = f" {terms.digest[:80]}" if terms and terms.digest else ""
    return f"{command.tool_type}::{command.tool_name[:200]} {arguments}{permitted}"


def _had_by(other: CallRecord) -> DeviceError:
    """The error for a call that another client has begun or has reported as never seen."""
    if other.state == "gone":
        return DeviceError(
            "The console asked another client of this device about this call, and was told it never came.",
            ErrorCode.CANCELLED,
        )
    return DeviceError(
        "Another client of this device had this call; it was not run again.", ErrorCode.OUTCOME_UNKNOWN
    )
