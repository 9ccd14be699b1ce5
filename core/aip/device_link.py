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

from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.protocol import State

from core.aip.binary_frames import PendingBinaryFrames
from core.aip.chunks import CHUNK_MARK, LEAST_PART, FrameAssembler, IncomingFrame
from core.aip.connection import peer_of, why_closed
from core.aip.extensions import (
    CANCEL_COMMAND,
    FEATURE_BINARY,
    FEATURE_CANCEL,
    FEATURE_CHUNKS,
    FEATURE_METRICS,
    FEATURE_NEXT_PIN,
    FEATURE_PROGRESS,
    FEATURE_RECALL,
    FEATURE_STREAMED,
    FEATURE_TERMS,
    FEATURE_TOOLS_CHANGED,
    NEXT_PIN_COMMAND,
    RECALL_COMMAND,
    CommandProof,
    NextPin,
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
    read_error_text,
    read_extra_frame,
    refuse_nan,
    terms_of,
)
from core.aip.limits import LinkLimits, frame_tokens
from core.aip.link_events import Heartbeat, LateAnswer, RefusedAttempt
from core.aip.measured_connection import MeasuredConnection
from core.aip.messages import ClientMessage, Command, Result, ResultStatus, read_client_frame
from core.aip.paced_sender import FrameAbandoned, PacedSender, Transfer
from core.aip.pending_requests import LinkLost, PendingRequests
from core.aip.recall import TooMuchAtOnce, late_answers, read_recalled
from core.aip.streamed_output import StreamedOutput
from core.aip.transfers import TransferReports, TransferState
from core.errors import BadInput, DeviceError, ErrorCode, Refused
from core.ids import new_uuid
from core.log import Logger
from core.tasks import TaskGroupOwner
from core.text import escape_hidden, sentences, shorten_middle
from core.token_bucket import TokenBucket


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

    def next_seq(self, call_id: str) -> int:
        """The number of a call's next progress frame."""
        call = self._calls.get(call_id)
        return 0 if call is None else call.next_seq

    def admit(self, progress: Progress, size: int) -> bool:
        """Whether to pass this frame on; frames that are not passed on are counted in `dropped`."""
        call = self._calls.get(progress.call_id)
        if call is None or progress.seq < call.next_seq or not call.allowance.spend(frame_tokens(size)):
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
                "nothing was sent.",
                ErrorCode.TIMEOUT,
            )
        self.waiting += 1
        try:
            async with asyncio.timeout(self._limits.queue_s):
                await self._lock.acquire()
        except TimeoutError:
            raise Refused(
                f"{name} takes one command at a time and was busy for {self._limits.queue_s:g} s; "
                "nothing was sent.",
                ErrorCode.TIMEOUT,
            ) from None
        finally:
            self.waiting -= 1

    def give(self) -> None:
        """Free the device for the next waiting command."""
        self._lock.release()


__all__ = ["DeviceLink", "LinkLimits"]

log = Logger(__name__)
_CHECKED_HERE = 1024 * 1024
# A blob's head is shorter than 2^16 bytes, so its frame begins with a zero byte; a JSON text never does.
_BLOB_START = b"\0"
# A device without `chunks` sends a large frame whole: so many bytes that are no frame yet belong to one.
_PART_OF_LARGE_FRAME = 64 * 1024
# How many seconds a device has to begin its answer, when it is asked for the output of a late answer.
_OUTPUT_BEGINS_S = 30.0


@dataclass(slots=True)
class _Wait:
    """The wait for one answer: its time-out, which moves while the answer's bytes come."""

    time_out: asyncio.Timeout
    began_at: float
    seconds: float
    call_ids: Sequence[str | None]


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
        # Whether neither end closed the link on purpose; known once it has ended.
        self.broke = False
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
        self._streamed = StreamedOutput(limits)
        self._tasks = TaskGroupOwner(f"link of {name}")
        self._answers = PendingRequests(
            name,
            lambda late: events.on_late(self, late),
            blobs,
            self._streamed if FEATURE_STREAMED in self.features else None,
            lambda call_ids: self._tasks.spawn("late output", self._recall_late(call_ids)),
        )
        self._sender = PacedSender(connection)
        self._sender.chunked = FEATURE_CHUNKS in self.features
        self._parts = FrameAssembler(limits.max_incoming_bytes, limits.held_bytes)
        self._reports = TransferReports(
            lambda progress: events.on_progress(self, progress), limits.transfer_report_s
        )
        self._waits: dict[str, _Wait] = {}
        self._received_whole = 0
        if not self._sender.chunked:
            connection.on_received = self._note_received
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
            "streamed": len(self._streamed),
            "streamed_bytes": self._streamed.bytes_held,
            "parts": len(self._parts.open),
            "part_bytes": self._parts.bytes_held,
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

    @property
    def received_bytes(self) -> int:
        """How many bytes have come since the link began."""
        return self._connection.received_bytes

    @property
    def transfers(self) -> list[TransferState]:
        """The large frames that are under way now, in both directions."""
        now = asyncio.get_running_loop().time()
        sent = [
            self._state(True, transfer.sent, transfer.total, transfer.began_at, now)
            for transfer in self._sender.transfers
        ]
        coming = [
            self._state(False, len(frame.data), frame.total, frame.began_at, now)
            for frame in self._parts.open.values()
        ]
        return sent + coming

    def _state(self, outgoing: bool, done: int, total: int, began_at: float, now: float) -> TransferState:
        rate = done / (now - began_at) if now > began_at else 0.0
        return TransferState(outgoing, done, total, rate)

    async def is_alive(self, seconds: float) -> bool:
        """Whether the device answers a ping, or sends anything else, within so many seconds."""
        before = self._connection.received_bytes
        try:
            await self.ping(seconds)
        except DeviceError:
            return self.is_open and self._connection.received_bytes != before
        return True

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
        self, commands: Sequence[Command], timeout: float, grounds: Sequence[CommandProof] = ()
    ) -> list[Result]:
        """Send one command frame and wait for its results, in the order of `commands`.

        Nothing is ever sent twice. If the caller is cancelled, the device continues its work. A device
        without our features takes one frame at a time. `timeout` starts when the whole frame is sent, and
        does not end the wait for an answer whose bytes come, at `LinkLimits.slowest_per_s` or more. A device
        with `terms` keeps `timeout` itself; its answer is waited for a little longer.
        `grounds` are the proofs of the commands, in the same order; only a device with `terms` receives them.

        Raises:
            BadInput: the frame is larger than a device accepts; nothing was sent (code `too_large`).
            Refused: the device's queue was full or too slow, or it did not take the whole frame in time, and
                ran nothing (code `timeout`).
            LinkLost: the link was lost after sending began (code `outcome_unknown`).
            OutputMissing: the answer came without all of the output, which `recall` brings (code
                `outcome_unknown`).
            DeviceError: `device_offline`: nothing was sent; `cancelled`: `cancel` came before it was sent
                whole, and nothing was run; `outcome_unknown`: `timeout` seconds passed after
                sending began; `bad_result`: the answer does not fit the commands, or the device could not
                read the frame.
        """
        return await self._send_commands(commands, timeout, grounds)

    async def _send_commands(
        self,
        commands: Sequence[Command],
        timeout: float,
        grounds: Sequence[CommandProof] = (),
        recalls: Sequence[str] = (),
    ) -> list[Result]:
        """`recalls`: the calls that a recall asks for, whose progress the transfer then is."""
        response_id = new_uuid()
        terms = terms_of(len(commands), grounds, timeout) if FEATURE_TERMS in self.features else ()
        frame = command_frame(commands, self.agent_name, self.session_id, response_id, terms)
        if len(frame) > self._limits.max_outgoing_bytes:
            raise BadInput(
                f"The command frame has {len(frame)} bytes; at most {self._limits.max_outgoing_bytes}.",
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
        loop = asyncio.get_running_loop()
        sent, about = False, recalls or call_ids
        pending = self._answers.expect(response_id, call_ids, recalls)
        if FEATURE_PROGRESS in self.features:
            self._progress.expect(call_ids)
        if FEATURE_STREAMED in self.features:
            self._streamed.expect(call_ids)
        try:
            async with asyncio.timeout(timeout + len(frame) / self._limits.slowest_per_s) as time_out:
                await self._sender.send(
                    frame,
                    text=True,
                    subject=response_id,
                    on_part=lambda transfer: self._note_sent(transfer, about),
                )
                sent = True
                now = loop.time()
                patience = timeout + self._grace(call_ids)
                time_out.reschedule(now + patience)
                self._waits[response_id] = _Wait(time_out, now, patience, about)
                return await pending.answer
        except FrameAbandoned:
            raise DeviceError(
                f"It was cancelled before {self.name} had the whole command; nothing was run.",
                ErrorCode.CANCELLED,
            ) from None
        except TimeoutError:
            if not sent and self._sender.chunked:
                raise Refused(
                    f"{self.name} did not take the whole command in time; nothing was run.", ErrorCode.TIMEOUT
                ) from None
            raise DeviceError(
                f"{self.name} did not answer within {timeout:g} s.", ErrorCode.OUTCOME_UNKNOWN
            ) from None
        except ConnectionClosed:
            # Part of the frame may have been sent, so the device may have seen the command.
            raise LinkLost(f"The link to {self.name} was lost while sending.") from None
        finally:
            self._waits.pop(response_id, None)
            self._answers.leave(response_id, pending)
            self._progress.forget(call_ids)
            self._streamed.forget(call_ids)
            self._reports.forget(about)

    def _grace(self, call_ids: Sequence[str | None]) -> float:
        """How many seconds longer than a command's timeout its answer is waited for.

        A device with `terms` keeps the timeout itself, from the arrival of the command to its end, and then
        still answers.
        """
        if FEATURE_TERMS not in self.features or all(call_id is None for call_id in call_ids):
            return 0.0
        return self._limits.answer_grace_s + 2 * self.latency_s

    def _check_open(self) -> None:
        if not self.is_open:
            why = self._ended or self._close_reason or "its link is closing"
            raise DeviceError(sentences(f"{self.name} is offline: {why}"))

    async def cancel(self, call_id: str) -> bool:
        """Ask the device to stop the command with this call id; the command's result is then `cancelled`.

        Returns False if the call is not pending here, the device lacks `cancel`, does not answer, or could
        not stop the command.
        """
        response_id = self._answers.frame_of(call_id)
        if response_id is not None and self._sender.abandon(response_id):
            return True
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
            raise DeviceError(f"{self.name} keeps no results.", ErrorCode.PROTOCOL_ERROR)
        ask = Command(
            tool_name=RECALL_COMMAND, tool_type="data_collection", parameters={"call_ids": list(call_ids)}
        )
        [answer] = await self._send_commands([ask], timeout, recalls=call_ids)
        self._answers.report_not_asked_for(call_ids, answer)
        try:
            return read_recalled(self.name, call_ids, answer)
        except TooMuchAtOnce:
            each = [await self.recall([call_id], timeout) for call_id in call_ids]
            return {call_id: result for results in each for call_id, result in results.items()}

    async def _recall_late(self, call_ids: list[str]) -> None:
        """Report late answers that came without all of their output."""
        try:
            recalled = await self.recall(call_ids, _OUTPUT_BEGINS_S)
        except DeviceError as error:
            # Calls whose outcome is unknown are asked about again over the next link.
            log.warning("late output not recalled", device=self.name, reason=error.message)
            return
        for late in late_answers(recalled):
            self._events.on_late(self, late)

    async def announce_pin(self, pin: NextPin) -> None:
        """Have the device accept the console's next certificate as well, by the link that pins the present.

        Raises:
            DeviceError: as `send_commands`; `protocol_error`: the device takes none; `denied_by_device`: it
                refuses this one, with its reason.
        """
        if FEATURE_NEXT_PIN not in self.features:
            raise DeviceError(f"{self.name} takes no certificate over its link.", ErrorCode.PROTOCOL_ERROR)
        ask = Command(
            tool_name=NEXT_PIN_COMMAND, tool_type="data_collection", parameters=pin.model_dump(mode="json")
        )
        [answer] = await self.send_commands([ask], self._limits.cancel_s)
        if answer.status is not ResultStatus.SUCCESS or answer.result != {"taken": True}:
            fault = read_error_text(answer.error or "no reason given")
            raise DeviceError(f"{self.name} refuses it: {fault.message}", ErrorCode.DENIED_BY_DEVICE)

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
        self._streamed.clear()

    def follow(self, previous: DeviceLink) -> None:
        """Take over the abandoned calls of the device's earlier link: it may answer them over this link."""
        self._answers.inherit(previous._answers)

    async def listen(self) -> str:
        """Serve incoming frames until the link ends; returns the reason."""
        try:
            while True:
                data = await self._connection.recv(decode=False)
                self._received_whole = self._connection.received_bytes
                await self._receive(data)
        except ConnectionClosed as closed:
            self.broke = closed.rcvd is None and self._close_reason is None
            if closed.sent is not None and closed.sent.code == CloseCode.MESSAGE_TOO_BIG:
                self._report("it sent a frame larger than a device may")
            # The device wrote this text: the operator sees it, and the journal stores it.
            return self._close_reason or escape_hidden(why_closed(closed), keep_lines=False)

    async def _receive(self, data: bytes) -> None:
        if data[:1] == CHUNK_MARK and self._sender.chunked:
            whole = await self._take_part(data)
            if whole is None:
                return
            data = whole
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

    async def _take_part(self, part: bytes) -> bytes | None:
        """Add a part to its frame; returns the frame with its last part."""
        try:
            frame = self._parts.take(part, asyncio.get_running_loop().time())
        except DeviceError as fault:
            # Which bytes belong together is no longer known. Lost answers are recalled over the next link.
            self._close_reason = self._close_reason or fault.message
            self._report(fault.message)
            await self._connection.close(CloseCode.PROTOCOL_ERROR, fault.message[:100])
            return None
        # Frames that need no parts, and frames without an end, cost as much time as other small frames.
        is_cheap = frame is not None and frame.total >= LEAST_PART
        if not (is_cheap or await self._within_allowance(len(part))) or frame is None:
            return None
        self._note_arriving(frame)
        return bytes(frame.data) if frame.is_whole else None

    def _note_arriving(self, frame: IncomingFrame) -> None:
        """Wait longer for an answer whose bytes come, and report how much of it has come."""
        wait = self._waits.get(frame.subject)
        if wait is None:
            return
        now = asyncio.get_running_loop().time()
        self._wait_longer(wait, frame.total, now)
        state = self._state(False, len(frame.data), frame.total, frame.began_at, now)
        self._reports.note(wait.call_ids, state, frame.began_at, now, self._progress.next_seq)

    def _wait_longer(self, wait: _Wait, size: int, now: float) -> None:
        latest = wait.began_at + wait.seconds + size / self._limits.slowest_per_s
        until = min(now + self._limits.ping_s + self._limits.pong_s, latest)
        if not wait.time_out.expired() and until > (wait.time_out.when() or until):
            wait.time_out.reschedule(until)

    def _note_received(self) -> None:
        """Wait longer while a device without `chunks` sends a large frame: it is most likely the answer."""
        size = self._connection.received_bytes - self._received_whole
        if size < _PART_OF_LARGE_FRAME:
            return
        now = asyncio.get_running_loop().time()
        for wait in self._waits.values():
            self._wait_longer(wait, size, now)

    def _note_sent(self, transfer: Transfer, call_ids: Sequence[str | None]) -> None:
        now = asyncio.get_running_loop().time()
        state = self._state(True, transfer.sent, transfer.total, transfer.began_at, now)
        self._reports.note(call_ids, state, transfer.began_at, now, self._progress.next_seq)

    async def _take_extra(self, data: bytes) -> bool:
        """Serve a frame of Quarterdeck's extensions; returns False for any other frame."""
        frame = read_extra_frame(data)
        if isinstance(frame, Progress) and FEATURE_PROGRESS in self.features:
            # What is not passed on is kept all the same: the result may refer to it.
            self._streamed.keep(frame)
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
        if self._allowance.spend(frame_tokens(size)):
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
