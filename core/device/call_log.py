"""The log of calls and their results: no call runs twice, and a console can ask for a lost result.

A call is `waiting`, `running`, `done` or `gone`. `gone`: the console asked about it before it arrived, and it
is refused since. The latest results are kept in memory, limited in bytes; call ids are kept much longer.
Actions are also on disk (`Ledger`), so that a client that was killed neither runs an action again nor reports
it as never seen.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog
from pydantic import ValidationError

from core.aip.extensions import CommandOptions, RecalledResult
from core.aip.messages import Command, Result, ResultStatus
from core.device.binary_values import BinaryResult, Blobs, marked
from core.device.ledger import Ledger
from core.device.ledger_lines import EXPIRY_S, KEPT_ANYWAY, Line
from core.device.router import failure
from core.errors import DeviceError, ErrorCode

log = structlog.get_logger(__name__)

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

    `other` is the ledger line of an ended client about this call, taken over while the call waited here.
    """

    call_id: str
    what: str
    state: State
    at: float
    action: bool = False
    result: Result | None = None
    size: int = 0
    withdrawn: bool = False
    other: Line | None = None
    ended: asyncio.Future[None] | None = field(default=None, repr=False)


class CallLog:
    """The calls of one device over all its links. Without a ledger they are lost when the process ends."""

    def __init__(self, ledger: Ledger | None = None, clock: Callable[[], float] | None = None) -> None:
        self._ledger = ledger
        self._clock = clock or _steady()
        self._calls: OrderedDict[str, Call] = OrderedDict()
        self._with_result: OrderedDict[str, None] = OrderedDict()
        self._bytes = 0
        # Until this time, an unknown id may be that of an action whose record was dropped.
        self._forgetful_until = 0.0
        if ledger is not None:
            self._learn(ledger.open())

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
                f"A call_id has at most {_LONGEST_ID} characters on this device", ErrorCode.PROTOCOL_ERROR
            )
        call = Call(command.call_id, what_of(command, terms), "waiting", self._clock(), action)
        self._calls[call.call_id] = call
        self._make_room()
        return call

    def begin(self, call: Call) -> None:
        """Record that a call runs from now on; for an action, on disk before this returns.

        Raises:
            DeviceError: the call must not run: this cannot be recorded, or another client with this state
                folder has already begun it or reported it as never seen.
        """
        if call.other is not None:
            # Its line is in this client's file by now and must stay the newest about this call.
            raise _had_by(call.other)
        if call.action and self._ledger is not None:
            self._ledger.write(Line(call.call_id, "started", call.what, call.at))
            if (other := self._ledger.elsewhere([call.call_id]).get(call.call_id)) is not None:
                self._note(Line(call.call_id, "gone", call.what, call.at))
                raise _had_by(other)
        call.state = "running"

    def finish(self, call: Call, result: Result, size: int) -> None:
        """Store a call's result, of about `size` bytes, and wake the tasks that wait for it."""
        ran = call.state == "running"
        call.state, call.result, call.size = "done", result, size
        self._bytes += size
        self._with_result[call.call_id] = None
        if call.ended is not None and not call.ended.done():
            call.ended.set_result(None)
        if ran and call.action:
            kept = None if isinstance(result, BinaryResult) else result.model_dump(mode="json")
            self._note(Line(call.call_id, "done", call.what, call.at, kept))
        self._make_room()

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
            if (other := self._beside([call.call_id]).get(call.call_id)) is not None:
                return failure(_had_by(other), call.call_id)
            fault = DeviceError(
                "The console asked about this call before it came, and was told that it never would",
                ErrorCode.CANCELLED,
            )
            return failure(fault, call.call_id)
        return call.result or failure(
            DeviceError("It ended, but its result is not kept any more", ErrorCode.OUTCOME_UNKNOWN),
            call.call_id,
        )

    def recall(self, call_ids: list[str], room: int) -> tuple[dict[str, Any], Blobs]:
        """The state of each call, and the blobs of their results; unknown calls are `gone` from now on.

        Raises:
            DeviceError: the results together exceed `room` bytes or `MOST_BLOBS` blobs; nothing has changed.
        """
        if self._ledger is not None and any(call_id not in self._calls for call_id in call_ids):
            self.adopt()
        known = {call_id: self._calls.get(call_id) for call_id in call_ids}
        size = sum(call.size for call in known.values() if call is not None)
        held = [call.result for call in known.values() if call is not None]
        pictures = sum(len(result.blobs) for result in held if isinstance(result, BinaryResult))
        if (size > room or pictures > MOST_BLOBS) and len(known) > 1:
            raise DeviceError(
                f"These {len(known)} results have {size} bytes together; ask for fewer at once",
                ErrorCode.TOO_LARGE,
            )
        # A call that this client refused because another client had it is `gone` here, but not there.
        beside = self._beside([call_id for call_id, call in known.items() if call and call.state == "gone"])
        beside |= self._bury([call_id for call_id, call in known.items() if call is None])
        blobs: Blobs = {}
        return {
            call_id: _told(beside[call_id]) if call_id in beside else self._recalled(call_id, blobs)
            for call_id in known
        }, blobs

    def adopt(self) -> None:
        """Take over the calls of ended clients with the same state folder."""
        if self._ledger is not None:
            self._learn(self._ledger.adopt())

    def close(self) -> None:
        """Close the ledger."""
        if self._ledger is not None:
            self._ledger.close()

    def _recalled(self, call_id: str, blobs: Blobs) -> dict[str, Any]:
        call = self._calls[call_id]
        if call.state == "gone":
            return RecalledResult(state="never_seen").model_dump()
        if call.state != "done":
            return RecalledResult(state="running").model_dump()
        result = marked(self.result_of(call))
        blobs.update(result.blobs)
        return RecalledResult(state="done", result=result.model_dump(mode="json")).model_dump()

    def _bury(self, call_ids: list[str]) -> dict[str, Line]:
        """Mark calls as `gone`: they never run, and the console is told that they were never seen.

        Returns the lines of calls that another client with this state folder has begun; these are not marked.
        """
        now = self._clock()
        beside = self._beside(call_ids)
        unknown = [call_id for call_id in call_ids if call_id not in beside]
        if now < self._forgetful_until:
            # An unknown call may have run and lost its record, so `never_seen` could be wrong: its outcome is
            # reported as unknown instead.
            for call_id in unknown:
                self._calls[call_id] = Call(call_id, "", "done", now, action=True)
            self._make_room()
            return beside
        if unknown:
            self._note(*(Line(call_id, "gone", "", now) for call_id in unknown))
            # Looked at again after the write: the other client may have begun a call in between. From now on
            # it sees the `gone` line and begins none of them.
            beside |= self._beside(unknown)
        for call_id in unknown:
            if call_id not in beside:
                self._calls[call_id] = Call(call_id, "", "gone", now)
        self._make_room()
        return beside

    def _beside(self, call_ids: list[str]) -> dict[str, Line]:
        """The lines of those calls that another client with this state folder has begun."""
        found = self._ledger.elsewhere(call_ids) if self._ledger is not None and call_ids else {}
        return {call_id: line for call_id, line in found.items() if line.state != "gone"}

    def _note(self, *lines: Line) -> None:
        if self._ledger is None:
            return
        try:
            self._ledger.write(*lines)
            if self._ledger.is_full:
                self._ledger.rewrite(self._lines())
        except (DeviceError, OSError) as error:
            # The action has run, so this is not an error of the call; after a restart its outcome is reported
            # as unknown.
            log.warning("not noted", reason=str(error))

    def _lines(self) -> Iterable[Line]:
        for call in self._calls.values():
            if call.state == "gone":
                yield Line(call.call_id, "gone", call.what, call.at)
            elif call.action and call.state == "done":
                small = call.result is not None and not isinstance(call.result, BinaryResult)
                kept = call.result.model_dump(mode="json") if call.result is not None and small else None
                yield Line(call.call_id, "done", call.what, call.at, kept)
            elif call.action and call.state == "running":
                yield Line(call.call_id, "started", call.what, call.at)

    def _learn(self, lines: list[Line]) -> None:
        if self._ledger is not None and self._ledger.doubtful:
            self._ledger.doubtful = False
            self._forgetful_until = self._clock() + EXPIRY_S
        for line in lines:
            known = self._calls.get(line.call_id)
            if known is not None and not (known.state == "gone" and line.state != "gone"):
                if known.state == "waiting":
                    known.other = line
                continue
            state: State = "gone" if line.state == "gone" else "done"
            call = Call(line.call_id, line.what, state, line.at, action=state == "done")
            if line.state == "started":
                call.result = failure(_INTERRUPTED, line.call_id)
            elif line.result is not None:
                call.result = _read_result(line.result)
            self._calls[line.call_id] = call
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


_INTERRUPTED = DeviceError("It was running when the device client ended", ErrorCode.OUTCOME_UNKNOWN)


def _steady() -> Callable[[], float]:
    """A monotonic clock that starts at the time of day and is not affected when that is set."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset


def what_of(command: Command, terms: CommandOptions | None) -> str:
    """Identifies a command: its tool, a hash of its arguments, and the permitted request's digest if given.

    The digest alone is not enough: the console may send any digest, or none.
    """
    given = json.dumps(command.parameters or {}, sort_keys=True).encode()
    arguments = hashlib.sha256(given).hexdigest()[:16]
    permitted = f" {terms.digest[:80]}" if terms and terms.digest else ""
    return f"{command.tool_type}::{command.tool_name[:200]} {arguments}{permitted}"


def _had_by(other: Line) -> DeviceError:
    """The error for a call that another client has begun or has reported as never seen."""
    if other.state == "gone":
        return DeviceError(
            "The console asked another client of this device about this call, and was told it never came",
            ErrorCode.CANCELLED,
        )
    return DeviceError(
        "Another client of this device had this call; it was not run again", ErrorCode.OUTCOME_UNKNOWN
    )


def _told(line: Line) -> dict[str, Any]:
    """Another client's line about a call, as a recalled result."""
    if line.state == "started":
        return RecalledResult(state="running").model_dump()
    lost = DeviceError("It ended, but its result is not kept any more", ErrorCode.OUTCOME_UNKNOWN)
    result = failure(lost, line.call_id) if line.result is None else _read_result(line.result)
    return RecalledResult(state="done", result=marked(result).model_dump(mode="json")).model_dump()


def _read_result(found: dict[str, Any]) -> Result:
    try:
        return Result.model_validate(found)
    except ValidationError:
        return Result(status=ResultStatus.FAILURE, error="outcome_unknown: Its record cannot be read")
