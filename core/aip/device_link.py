"""The live link to one registered device: sends command frames, receives results and other frames.

`DeviceLink` is the link, `LinkEvents` what it reports to its owner. `RequestQueue` sends one frame at a time
to stock devices, which read the next frame only after they answered the last. `ProgressGate` passes on
progress frames of pending calls, in order and limited in rate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import structlog
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.protocol import State

from core.aip.answer_clock import AnswerClock
from core.aip.binary_frames import PendingBinaryFrames
from core.aip.connection import peer_of, why_closed
from core.aip.extensions import (
    CANCEL_COMMAND,
    FEATURE_ANSWERING,
    FEATURE_BINARY,
    FEATURE_CANCEL,
    FEATURE_METRICS,
    FEATURE_PROGRESS,
    FEATURE_RECALL,
    FEATURE_TERMS,
    FEATURE_TOOLS_CHANGED,
    RECALL_COMMAND,
    Answering,
    CommandProof,
    Progress,
    RecalledResult,
    ToolsChanged,
    agreed_features,
    unpack_blob,
)
from core.aip.frames import (
    acknowledgement,
    command_frame,
    error_frame,
    heartbeat_of,
    name_mismatch,
    read_extra_frame,
    refuse_nan,
    terms_of,
)
from core.aip.limits import LinkLimits, TokenBucket
from core.aip.link_events import Heartbeat, LateAnswer, RefusedAttempt
from core.aip.measured_connection import MeasuredConnection
from core.aip.messages import ClientMessage, Command, Result, read_client_frame
from core.aip.pending_requests import LinkLost, PendingRequest, PendingRequests
from core.aip.recall import TooMuchAtOnce, read_recalled
from core.errors import BadInput, DeviceError, ErrorCode, Refused
from core.ids import new_uuid
from core.text import escape_hidden, shorten_middle


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class LinkEvents:
    """Callbacks to a link's owner, called in the event loop; they must not block.

    `admit` gets a device's name and the metadata of its registration before the link is registered; it raises
    a `QuarterdeckError` to refuse the device.
    `on_late` receives answers that came after their caller had given up, once for each command frame.
    `on_progress` is called only for pending calls, in order, and within the limits of `LinkLimits`.
    """

    admit: Callable[[str, Mapping[str, Any]], None] = _ignore
    on_connected: Callable[[DeviceLink], None] = _ignore
    on_lost: Callable[[DeviceLink, str], None] = _ignore
    on_refused: Callable[[RefusedAttempt], None] = _ignore
    on_late: Callable[[DeviceLink, LateAnswer], None] = _ignore
    on_progress: Callable[[DeviceLink, Progress], None] = _ignore
    on_heartbeat: Callable[[DeviceLink, Heartbeat], None] = _ignore
    on_tools_changed: Callable[[DeviceLink], None] = _ignore


@dataclass(slots=True)
class _Call:
    allowance: TokenBucket
    next_seq: int = 0


class ProgressGate:
    """Filters the progress frames of one link. Its memory is bounded by the number of pending calls."""

    def __init__(self, limits: LinkLimits) -> None:
        self._limits = limits
        self._calls: dict[str, _Call] = {}
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._calls)

    def expect(self, call_ids: Iterable[str | None]) -> None:
        """Pass on progress of these calls from now on."""
        for call_id in call_ids:
            if call_id is not None:
                allowance = TokenBucket(self._limits.progress_burst, self._limits.progress_per_s)
                self._calls[call_id] = _Call(allowance)

    def forget(self, call_ids: Iterable[str | None]) -> None:
        """Drop further progress of these calls."""
        for call_id in call_ids:
            if call_id is not None:
                self._calls.pop(call_id, None)

    def note(self, call_id: str, text: str) -> Progress | None:
        """The console's own note on a call, as progress; None if the call is not expected to report any."""
        call = self._calls.get(call_id)
        return None if call is None else Progress(call_id=call_id, seq=call.next_seq, text=text)

    def admit(self, progress: Progress, size: int) -> bool:
        """Whether to pass this frame on; frames that are not passed on are counted in `dropped`."""
        call = self._calls.get(progress.call_id)
        if call is None or progress.seq < call.next_seq or not call.allowance.spend(size):
            self.dropped += 1
            return False
        # A device may omit frames under load, so a gap is allowed; a repeated or lower number is not.
        call.next_seq = progress.seq + 1
        return True


class RequestQueue:
    """The queue of commands for one device: first in, first out, bounded in length and in time."""

    def __init__(self, limits: LinkLimits) -> None:
        self._limits = limits
        self._lock = asyncio.Lock()
        self.waiting = 0

    async def take(self, name: str) -> None:
        """Wait until the device `name` is free, and reserve it until `give`.

        Raises:
            Refused: too many commands wait already, or the device was not free in time (code `timeout`).
        """
        if not self._lock.locked() and not self.waiting:
            await self._lock.acquire()
            return
        if self.waiting >= self._limits.queue_most:
            raise Refused(
                f"{self.waiting} commands wait for {name} already, which takes one at a time; "
                "nothing was sent",
                ErrorCode.TIMEOUT,
            )
        self.waiting += 1
        try:
            async with asyncio.timeout(self._limits.queue_s):
                await self._lock.acquire()
        except TimeoutError:
            raise Refused(
                f"{name} takes one command at a time and was busy for {self._limits.queue_s:g} s; "
                "nothing was sent",
                ErrorCode.TIMEOUT,
            ) from None
        finally:
            self.waiting -= 1

    def give(self) -> None:
        """Free the device for the next waiting command."""
        self._lock.release()


__all__ = ["DeviceLink", "LinkLimits"]

log = structlog.get_logger(__name__)
_CHECKED_HERE = 1024 * 1024
# Bytes. The way of a smaller frame is much shorter than the grace that its answer has.
_ARRIVES_AT_ONCE = 16 * 1024
# A blob's head is shorter than 2^16 bytes, so its frame begins with a zero byte; a JSON text never does.
_BLOB_START = b"\0"


class DeviceLink:
    """A live link to one device; works the same whichever side dialled.

    `agent_name` is the agent that commands are addressed to; it may be set. `features` are the agreed
    features, empty for a stock device. `direction` says which side dialled: the device (`in`) or the console
    (`out`). `token_sha256` is the SHA-256 of the token of a device that dialled.
    """

    def __init__(
        self,
        connection: MeasuredConnection,
        name: str,
        metadata: dict[str, Any],
        *,
        agent_name: str,
        limits: LinkLimits,
        events: LinkEvents = LinkEvents(),
        direction: Literal["in", "out"] = "in",
    ) -> None:
        self.name = name
        self.metadata = metadata
        self.agent_name = agent_name
        self.direction = direction
        self.token_sha256 = ""
        self.features = agreed_features(metadata)
        self.session_id = new_uuid()
        self.connected_at = datetime.now(UTC)
        self.clock_offset_ms: float | None = None
        self._connection = connection
        self._limits = limits
        self._events = events
        self._allowance = TokenBucket(limits.flood_burst, limits.flood_per_s)
        self._blobs, self._progress, self._turns = (
            PendingBinaryFrames(limits),
            ProgressGate(limits),
            RequestQueue(limits),
        )
        blobs = self._blobs if FEATURE_BINARY in self.features else None
        # By response id: the clocks of the frames whose commands the device stops by itself.
        self._clocks: dict[str, AnswerClock] = {}
        self._answers = PendingRequests(name, lambda late: events.on_late(self, late), blobs)
        self._close_reason: str | None = None
        self._ended: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether a command can be sent now."""
        return self._ended is None and self._connection.state is State.OPEN

    @property
    def waiting(self) -> int:
        """The number of command frames that wait for their answer or in the queue."""
        return len(self._answers) + self._turns.waiting

    @property
    def last_heard(self) -> datetime:
        """When bytes arrived last, by the system clock; may be set after the clock was."""
        return self._connection.last_heard

    @last_heard.setter
    def last_heard(self, at: datetime) -> None:
        self._connection.last_heard = at

    @property
    def held(self) -> dict[str, int]:
        """The sizes of this link's buffers, each bounded; for tests and for the doctor."""
        return {
            "answers": len(self._answers),
            "given_up": self._answers.given_up,
            "blobs": len(self._blobs),
            "blob_bytes": self._blobs.bytes_held,
            "progress": len(self._progress),
            "queue": self._turns.waiting,
        }

    @property
    def progress_dropped(self) -> int:
        """The number of progress frames that were not passed on."""
        return self._progress.dropped

    @property
    def secure(self) -> bool:
        """Whether the link is encrypted."""
        return self._connection.transport.get_extra_info("ssl_object") is not None

    @property
    def peer(self) -> str:
        """The peer's address as `host:port`."""
        return peer_of(self._connection)

    @property
    def latency_s(self) -> float:
        """The round-trip time of the last keepalive ping in seconds; 0 before the first."""
        return self._connection.latency

    async def ping(self, timeout: float = 5.0) -> float:
        """Measure the round-trip time of a WebSocket ping in seconds.

        Raises:
            DeviceError: the link has ended, or the device did not answer in time.
        """
        try:
            async with asyncio.timeout(timeout):
                return float(await (await self._connection.ping()))
        except (ConnectionClosed, TimeoutError) as error:
            raise DeviceError(f"{self.name} does not answer a ping.", ErrorCode.DEVICE_OFFLINE) from error

    async def send_commands(
        self,
        commands: Sequence[Command],
        timeout: float,
        grounds: Sequence[CommandProof] = (),
        *,
        recalls: Sequence[str] = (),
    ) -> list[Result]:
        """Send one command frame and wait for its results, in the order of `commands`.

        Nothing is ever sent twice. If the caller is cancelled, the device continues its work. A device
        without our features takes one frame at a time; `timeout` starts when this frame is sent, and is the
        time until its answer is here. A device with `terms` counts `timeout` itself, from the arrival of the
        frame to the end of its commands; how long both are on their way is bounded by `LinkLimits`.
        `grounds` are the proofs of the commands, in the same order; only a device with `terms` receives them.
        `recalls` are the calls that a recall asks for.

        Raises:
            BadInput: the frame is larger than a device accepts; nothing was sent (code `too_large`).
            Refused: the device's queue was full or too slow; nothing was sent (code `timeout`).
            LinkLost: the link was lost after sending began (code `outcome_unknown`).
            DeviceError: `device_offline`: nothing was sent; `outcome_unknown`: `timeout` seconds passed after
                sending began; `bad_result`: the answer does not fit the commands, or the device could not
                read the frame.
        """
        response_id = new_uuid()
        terms = terms_of(len(commands), grounds, timeout) if FEATURE_TERMS in self.features else ()
        frame = command_frame(commands, self.agent_name, self.session_id, response_id, terms)
        if len(frame) > self._limits.max_outgoing_bytes:
            raise BadInput(
                f"The command frame has {len(frame)} bytes; a device takes {self._limits.max_outgoing_bytes}",
                ErrorCode.TOO_LARGE,
            )
        call_ids = [command.call_id for command in commands]
        if self.features:
            return await self._exchange(frame, response_id, call_ids, timeout, recalls)
        self._check_open()
        await self._turns.take(self.name)
        try:
            return await self._exchange(frame, response_id, call_ids, timeout)
        finally:
            self._turns.give()

    async def _exchange(
        self,
        frame: bytes,
        response_id: str,
        call_ids: list[str | None],
        timeout: float,
        recalls: Sequence[str] = (),
    ) -> list[Result]:
        self._check_open()
        pending = self._answers.expect(response_id, call_ids, recalls)
        if FEATURE_PROGRESS in self.features:
            self._progress.expect(call_ids)
        # A device with `terms` keeps the time of its commands itself; for any other, the console does.
        clock = None
        if FEATURE_TERMS in self.features:
            clock = AnswerClock(self.name, self._connection, pending, timeout, self._limits)
            self._clocks[response_id] = clock
            timeout += self._limits.transfer_s
        try:
            async with asyncio.timeout(timeout):
                # Frames of one iteration of the event loop are sent together in the next, which costs a run a
                # tenth less CPU time. Later frames to this device yield too, so the order is unchanged.
                await asyncio.sleep(0)
                self._check_open()
                await self._connection.send(frame, text=True)
                if clock is not None:
                    await self._arrival(len(frame), pending)
                    clock.start()
                return await pending.answer
        except TimeoutError:
            raise DeviceError(
                f"{self.name} did not answer within {timeout:g} s", ErrorCode.OUTCOME_UNKNOWN
            ) from None
        except ConnectionClosed:
            # Part of the frame may have been sent, so the device may have seen the command.
            raise LinkLost(f"The link to {self.name} was lost while sending") from None
        finally:
            if clock is not None:
                clock.stop()
                del self._clocks[response_id]
            self._answers.leave(response_id, pending)
            self._progress.forget(call_ids)

    async def _arrival(self, size: int, pending: PendingRequest) -> None:
        """Wait until a frame that was sent is on the device, if its way can take long.

        The device answers a ping that follows a frame when it has received the frame.
        """
        if size < _ARRIVES_AT_ONCE and not self._connection.transport.get_write_buffer_size():
            return
        pong = await self._connection.ping()
        assert isinstance(pong, asyncio.Future)
        await asyncio.wait({pong, pending.answer}, return_when=asyncio.FIRST_COMPLETED)

    def _check_open(self) -> None:
        if not self.is_open:
            why = self._ended or self._close_reason or "its link is closing"
            raise DeviceError(f"{self.name} is offline: {why}")

    async def cancel(self, call_id: str) -> bool:
        """Ask the device to stop the command with this call id; the command's result is then `cancelled`.

        Returns False if the call is not pending here, the device lacks `cancel`, does not answer, or could
        not stop the command.
        """
        return self._answers.has_call(call_id) and await self.ask_to_cancel(call_id)

    async def ask_to_cancel(self, call_id: str) -> bool:
        """Like `cancel`, for a call that may have been sent over an earlier link."""
        if FEATURE_CANCEL not in self.features:
            return False
        ask = Command(tool_name=CANCEL_COMMAND, tool_type="data_collection", parameters={"call_id": call_id})
        try:
            [answer] = await self.send_commands([ask], self._limits.cancel_s)
        except DeviceError as error:
            log.warning("cancel not answered", device=self.name, reason=error.message)
            return False
        return isinstance(answer.result, dict) and answer.result.get("cancelled") is True

    async def recall(self, call_ids: Sequence[str], timeout: float) -> dict[str, RecalledResult]:
        """Ask for the state of earlier calls; from then on the device refuses to run those it never saw.

        What the device says after `timeout` seconds is reported as late answers.

        Raises:
            DeviceError: as `send_commands`; `protocol_error`: the device has no `recall`; `bad_result`: it
                does not answer for each call.
        """
        if FEATURE_RECALL not in self.features:
            raise DeviceError(f"{self.name} keeps no results", ErrorCode.PROTOCOL_ERROR)
        ask = Command(
            tool_name=RECALL_COMMAND, tool_type="data_collection", parameters={"call_ids": list(call_ids)}
        )
        [answer] = await self.send_commands([ask], timeout, recalls=call_ids)
        self._answers.report_not_asked_for(call_ids, answer)
        try:
            return read_recalled(self.name, call_ids, answer)
        except TooMuchAtOnce:
            each = [await self.recall([call_id], timeout) for call_id in call_ids]
            return {call_id: result for results in each for call_id, result in results.items()}

    async def close(self, reason: str) -> None:
        """Close the link; pending commands fail with an unknown outcome. `on_lost` receives `reason`."""
        self._close_reason = self._close_reason or reason
        await self._connection.close(1000)
        self.end(reason)

    def end(self, reason: str) -> None:
        """Fail the pending requests; called when the connection has closed."""
        self._ended = self._ended or reason
        self._answers.end(reason)
        self._blobs.clear()

    def follow(self, previous: DeviceLink) -> None:
        """Take over the abandoned calls of the device's earlier link: it may answer them over this link."""
        self._answers.inherit(previous._answers)

    async def listen(self) -> str:
        """Serve incoming frames until the link ends; returns the reason."""
        try:
            while True:
                data = await self._connection.recv(decode=False)
                await self._receive(data)
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code == CloseCode.MESSAGE_TOO_BIG:
                self._report("it sent a frame larger than a device may")
            # The device wrote this text: the operator sees it, and the journal stores it.
            return self._close_reason or escape_hidden(why_closed(closed), keep_lines=False)

    async def _receive(self, data: bytes) -> None:
        if data[:1] == _BLOB_START and FEATURE_BINARY in self.features:
            await self._take_blob(data)
            return
        if self.features and await self._take_extra(data):
            return
        try:
            message = read_client_frame(data)
            if message.type == "command_results":
                refuse_nan(data)
        except DeviceError as fault:
            if await self._within_allowance(len(data)):
                self._answers.fail_malformed(data, fault)
                await self._complain(fault)
            return
        answers = message.type == "command_results" and name_mismatch(message, self.name) is None
        if answers and self._answers.take(message, data):
            return
        if await self._within_allowance(len(data)):
            wrong = await self._take_unasked(message)
            if wrong is not None:
                await self._complain(DeviceError(wrong, ErrorCode.PROTOCOL_ERROR))

    async def _take_extra(self, data: bytes) -> bool:
        """Serve a frame of Quarterdeck's extensions; returns False for any other frame."""
        frame = read_extra_frame(data)
        if isinstance(frame, Answering) and FEATURE_ANSWERING in self.features:
            if await self._within_allowance(len(data)):
                self._note_answering(frame)
            return True
        if isinstance(frame, Progress) and FEATURE_PROGRESS in self.features:
            # Excess progress is dropped and counted, not a reason to close: output must not cost the link.
            if self._progress.admit(frame, len(data)):
                self._events.on_progress(self, frame)
            return True
        if frame is not None and FEATURE_TOOLS_CHANGED in self.features:
            if await self._within_allowance(len(data)):
                # `unavailable` is stored as long as the link lives, so the registration's limit applies.
                if len(data) <= self._limits.register_bytes:
                    self._note_unavailable(frame)
                self._events.on_tools_changed(self)
            return True
        return False

    def _note_answering(self, frame: Answering) -> None:
        """Wait for the answers of these calls as long as bytes come, and say so."""
        called = set(frame.call_ids)
        for response_id in self._answers.with_calls(called):
            if (clock := self._clocks.get(response_id)) is not None:
                clock.announced = True
        for call_id in called:
            text = f"it ran; its answer is arriving ({frame.size:,} bytes)"
            if (progress := self._progress.note(call_id, text)) is not None:
                self._events.on_progress(self, progress)

    def _note_unavailable(self, frame: object) -> None:
        """Replace `unavailable` of the registration by the device's new list."""
        if isinstance(frame, ToolsChanged) and frame.unavailable is not None:
            ours = self.metadata.get("quarterdeck")
            known = ours if isinstance(ours, dict) else {}
            self.metadata = {
                **self.metadata,
                "quarterdeck": {**known, "unavailable": frame.unavailable},
            }

    async def _take_blob(self, data: bytes) -> None:
        """Store a binary frame for the result that will name it; the result may be late."""
        awaited = len(self._answers) > 0
        if not awaited and not await self._within_allowance(len(data)):
            return
        if not (awaited or self._answers.given_up) or not self._blobs.has_room(len(data)):
            if awaited:  # The frame still counts; its result will fail because the bytes are missing.
                await self._within_allowance(len(data))
            log.warning("binary frame dropped", device=self.name, size=len(data))
            return
        try:
            if len(data) > _CHECKED_HERE:
                head, blob = await asyncio.to_thread(unpack_blob, data)
            else:
                head, blob = unpack_blob(data)
        except DeviceError as fault:
            if await self._within_allowance(len(data)):
                await self._complain(fault)
            return
        if len(self._answers) + self._answers.given_up > 0:
            self._blobs.keep(head, blob)

    async def _take_unasked(self, message: ClientMessage) -> str | None:
        """Serve a frame that answers no command; returns what is wrong with the frame, or None."""
        wrong = name_mismatch(message, self.name)
        if wrong is not None:
            self._report(wrong)
            return wrong
        if message.type == "heartbeat":
            await self._connection.send(acknowledgement())
            beat = heartbeat_of(message, self.last_heard, self.latency_s, FEATURE_METRICS in self.features)
            if beat.clock_offset_ms is not None:
                self.clock_offset_ms = beat.clock_offset_ms
            self._events.on_heartbeat(self, beat)
            return None
        if message.type == "error":
            log.warning(
                "device reports an error", device=self.name, error=shorten_middle(message.error or "", 500)
            )
            self._answers.take_error(message)
            return None
        if message.type == "command_results":
            return "These results answer no command of this link"
        if message.type == "register":
            return "This connection is registered already"
        return f"Frames of type {message.type} are not served here"

    async def _within_allowance(self, size: int) -> bool:
        if self._allowance.spend(size):
            return True
        self._close_reason = self._close_reason or "it sent more frames than a device may"
        self._report(self._close_reason)
        await self._connection.close(CloseCode.POLICY_VIOLATION, "too many frames")
        return False

    def _report(self, reason: str) -> None:
        self._events.on_refused(RefusedAttempt(reason, self.peer, self.name))

    async def _complain(self, fault: DeviceError) -> None:
        log.warning("bad frame", device=self.name, reason=fault.message)
        await self._connection.send(error_frame(fault))
