"""The clock of one command whose timeout its device keeps: ends the wait for the answer when none can come.

    sent ─► arrived ─► the command's time ─► answered
                             │                  ▲
                             └─► its answer, or an answer before it, is arriving

The time of a command is counted on the device, from the arrival of the command to its end. This clock gives
the device `grace_s` more for its answer, and then waits as long as bytes of an answer arrive.
"""

from __future__ import annotations

import asyncio

from core.aip.limits import LinkLimits
from core.aip.measured_connection import MeasuredConnection
from core.aip.pending_requests import PendingRequest
from core.errors import DeviceError, ErrorCode

# Fewer bytes in `stall_s` are heartbeats and pongs, not an answer.
_LEAST_BYTES = 1024


class AnswerClock:
    """Fails a pending request when its time is over and no bytes of an answer arrive.

    `announced`: the device has said that the command has ended and that its answer follows.
    """

    def __init__(
        self,
        name: str,
        connection: MeasuredConnection,
        pending: PendingRequest,
        timeout: float,
        limits: LinkLimits,
    ) -> None:
        """`timeout` is in seconds. The link's own requests have no call id, and get no grace."""
        self.announced = False
        self._name = name
        self._connection = connection
        self._pending = pending
        self._timeout = timeout
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._received = 0

    def start(self) -> None:
        """Begin to count: the command is on the device, or will be in no time."""
        grace = 0.0
        if any(call_id is not None for call_id in self._pending.call_ids):
            grace = self._limits.answer_grace_s + 2 * self._connection.latency
        self._timer = self._loop.call_later(self._timeout + grace, self._look)

    def stop(self) -> None:
        """Stop counting."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self._pending.answer.done():
            return
        moves = self._connection.received_bytes - self._received >= _LEAST_BYTES
        if moves and (self.announced or self._connection.is_receiving):
            # The first look finds all bytes of the link, and so waits for a message that has begun.
            self._received = self._connection.received_bytes
            self._timer = self._loop.call_later(self._limits.stall_s, self._look)
            return
        why = f"did not answer within {self._timeout:g} s"
        if self.announced:
            why = f"ended it, and its answer stopped arriving for {self._limits.stall_s:g} s"
        self._pending.answer.set_exception(DeviceError(f"{self._name} {why}", ErrorCode.OUTCOME_UNKNOWN))
