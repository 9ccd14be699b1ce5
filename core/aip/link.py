"""One registered device: commands out, results in, and an honest word about everything in between."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import structlog
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from core.aip.error_text import error_text, read_error_text
from core.aip.extras import CANCEL_COMMAND, FEATURE_CANCEL, features_of
from core.aip.messages import (
    ClientMessage,
    Command,
    FrameStatus,
    Result,
    ServerMessage,
    now_stamp,
    read_client_frame,
)
from core.errors import BadInput, DeviceError, ErrorCode

log = structlog.get_logger(__name__)

_MEBIBYTE = 1024 * 1024
_FORGOTTEN_KEPT = 1024
_BYTES_OF_ONE_FRAME = 256 * 1024


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """Times in seconds, sizes in bytes.

    `flood_burst` and `flood_per_s` bound the frames that nobody asked for; answers to commands are free.
    A large frame counts as many. `max_outgoing_bytes` is what a device is known to take.
    """

    register_s: float = 10.0
    ping_s: float = 20.0
    pong_s: float = 20.0
    close_s: float = 2.0
    cancel_s: float = 5.0
    max_incoming_bytes: int = 32 * _MEBIBYTE
    max_outgoing_bytes: int = 60 * _MEBIBYTE
    flood_burst: float = 100.0
    flood_per_s: float = 20.0


@dataclass(slots=True)
class _Allowance:
    """A token bucket over unasked frames."""

    limits: LinkLimits
    left: float = field(init=False)
    at: float = field(init=False)

    def __post_init__(self) -> None:
        self.left, self.at = self.limits.flood_burst, time.monotonic()

    def spend(self, size: int) -> bool:
        """Take one frame of `size` bytes; false when the sender has used its allowance up."""
        now = time.monotonic()
        self.left = min(self.limits.flood_burst, self.left + (now - self.at) * self.limits.flood_per_s)
        self.at = now
        self.left -= 1 + size // _BYTES_OF_ONE_FRAME
        return self.left >= 0


@dataclass(frozen=True, slots=True)
class _Pending:
    call_ids: list[str | None]
    answer: asyncio.Future[list[Result]]


class DeviceLink:
    """A live link to one device. It does not know which side dialled."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        metadata: dict[str, Any],
        *,
        agent_name: str,
        limits: LinkLimits,
        on_late: Callable[[list[Result]], None],
    ) -> None:
        self.name = name
        self.metadata = metadata
        self.features = features_of(metadata)
        self.session_id = str(uuid4())
        self.connected_at = datetime.now(UTC)
        self.last_heard = self.connected_at
        self._connection = connection
        self._agent_name = agent_name
        self._limits = limits
        self._on_late = on_late
        self._allowance = _Allowance(limits)
        self._pending: dict[str, _Pending] = {}
        self._given_up: OrderedDict[str, None] = OrderedDict()
        self._close_reason: str | None = None
        self._ended: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether a command can be sent now."""
        return self._ended is None and self._connection.state is State.OPEN

    @property
    def waiting(self) -> int:
        """How many command frames await their answer."""
        return len(self._pending)

    @property
    def peer(self) -> str:
        """The far address as `host:port`."""
        address = self._connection.remote_address
        return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "unknown")

    @property
    def latency_s(self) -> float:
        """Seconds that the last keepalive ping took there and back; 0 before the first."""
        return self._connection.latency

    async def ping(self, timeout: float = 5.0) -> float:
        """Measure how many seconds a WebSocket ping takes there and back.

        Raises:
            DeviceError: the link has ended, or no answer came in time.
        """
        try:
            async with asyncio.timeout(timeout):
                return float(await (await self._connection.ping()))
        except (ConnectionClosed, TimeoutError) as error:
            raise DeviceError(f"{self.name} does not answer a ping.", ErrorCode.DEVICE_OFFLINE) from error

    async def send_commands(self, commands: Sequence[Command], timeout: float) -> list[Result]:
        """Send one command frame and wait for its results, in the order of `commands`.

        Nothing is ever sent twice. Cancelling the caller leaves the device at work.

        Raises:
            BadInput: the frame is larger than a device takes; nothing was sent (code `too_large`).
            DeviceError: `device_offline`: nothing was sent; `outcome_unknown`: the link was lost, or
                `timeout` seconds passed, after sending began; `bad_result`: the answer does not fit the
                commands; `protocol_error`: the device could not read the frame.
        """
        response_id = str(uuid4())
        frame = self._frame(commands, response_id)
        if not self.is_open:
            raise DeviceError(f"{self.name} is offline: {self._ended or 'its link is closing'}")
        pending = _Pending(
            [command.call_id for command in commands], asyncio.get_running_loop().create_future()
        )
        self._pending[response_id] = pending
        try:
            async with asyncio.timeout(timeout):
                await self._connection.send(frame, text=True)
                return await pending.answer
        except TimeoutError:
            raise DeviceError(
                f"{self.name} did not answer within {timeout:g} s", ErrorCode.OUTCOME_UNKNOWN
            ) from None
        except ConnectionClosed:
            # Part of the frame may have left, so nobody can say that the device has not seen it.
            raise DeviceError(
                f"The link to {self.name} was lost while sending", ErrorCode.OUTCOME_UNKNOWN
            ) from None
        finally:
            if self._pending.pop(response_id, None) is not None:
                self._give_up(response_id)
            if pending.answer.done() and not pending.answer.cancelled():
                # Retrieved here too, so that an error which nobody awaited is not reported as lost.
                pending.answer.exception()

    async def cancel(self, call_id: str) -> bool:
        """Ask the device to stop the command with this call id; its own answer then says `cancelled`.

        False when the device cannot be asked, does not answer, or could not stop it.
        """
        asked = any(call_id in pending.call_ids for pending in self._pending.values())
        if not asked or FEATURE_CANCEL not in self.features:
            return False
        ask = Command(tool_name=CANCEL_COMMAND, tool_type="data_collection", parameters={"call_id": call_id})
        try:
            [answer] = await self.send_commands([ask], self._limits.cancel_s)
        except DeviceError as error:
            log.warning("cancel not answered", device=self.name, reason=error.message)
            return False
        return isinstance(answer.result, dict) and answer.result.get("cancelled") is True

    def _frame(self, commands: Sequence[Command], response_id: str) -> bytes:
        frame = (
            ServerMessage(
                type="command",
                status=FrameStatus.CONTINUE,
                agent_name=self._agent_name,
                process_name="",
                root_name="",
                actions=list(commands),
                session_id=self.session_id,
                task_name=self.session_id,
                timestamp=now_stamp(),
                response_id=response_id,
            )
            .model_dump_json()
            .encode()
        )
        if len(frame) > self._limits.max_outgoing_bytes:
            raise BadInput(
                f"The command frame has {len(frame)} bytes; a device takes {self._limits.max_outgoing_bytes}",
                ErrorCode.TOO_LARGE,
            )
        return frame

    def _give_up(self, response_id: str) -> None:
        self._given_up[response_id] = None
        if len(self._given_up) > _FORGOTTEN_KEPT:
            self._given_up.popitem(last=False)

    async def close(self, reason: str) -> None:
        """Close the link; what is pending fails with an unknown outcome. `reason` reaches `on_lost`."""
        self._close_reason = self._close_reason or reason
        await self._connection.close(1000)
        self.end(reason)

    def end(self, reason: str) -> None:
        """Fail whatever still waits; called when the connection is gone."""
        self._ended = self._ended or reason
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(
                    DeviceError(
                        f"The link to {self.name} was lost: {reason}; the command may have run",
                        ErrorCode.OUTCOME_UNKNOWN,
                    )
                )

    async def listen(self) -> str:
        """Serve incoming frames until the link ends; returns why it did."""
        try:
            while True:
                data = await self._connection.recv(decode=False)
                self.last_heard = datetime.now(UTC)
                await self._receive(data)
        except ConnectionClosed as closed:
            return self._close_reason or _why(closed)

    async def _receive(self, data: bytes) -> None:
        try:
            message = read_client_frame(data)
            if message.type == "command_results":
                _refuse_nan(data)
        except DeviceError as error:
            fault = error
        else:
            if message.type == "command_results" and self._take_results(message):
                return
            fault_or_none = await self._take_unasked(message, len(data))
            if fault_or_none is None:
                return
            fault = fault_or_none
            await self._complain(fault)
            return
        if await self._within_allowance(len(data)):
            self._fail_correlated(data, fault)
            await self._complain(fault)

    async def _take_unasked(self, message: ClientMessage, size: int) -> DeviceError | None:
        """Serve a frame that answers no command; returns what is wrong with it."""
        if not await self._within_allowance(size):
            return None
        wrong = self._spoofed(message)
        if wrong is not None:
            return DeviceError(wrong, ErrorCode.PROTOCOL_ERROR)
        if message.type == "heartbeat":
            await self._say(ServerMessage(type="heartbeat", status=FrameStatus.OK))
            return None
        if message.type == "error":
            self._take_error(message)
            return None
        if message.type == "command_results":
            return DeviceError("These results answer no command of this link", ErrorCode.PROTOCOL_ERROR)
        if message.type == "register":
            return DeviceError("This connection is registered already", ErrorCode.PROTOCOL_ERROR)
        return DeviceError(f"Frames of type {message.type} are not served here", ErrorCode.PROTOCOL_ERROR)

    def _spoofed(self, message: ClientMessage) -> str | None:
        if message.client_id is not None and message.client_id != self.name:
            return "client_id does not match the registered connection"
        if message.client_type not in {None, "device"}:
            return "client_type does not match the registered connection"
        return None

    def _take_results(self, message: ClientMessage) -> bool:
        """Hand results to whoever waits for them; false when nobody ever asked."""
        if self._spoofed(message) is not None:
            return False
        response_id = message.prev_response_id or ""
        results = message.action_results or []
        pending = self._pending.pop(response_id, None)
        if pending is None:
            if response_id in self._given_up:
                del self._given_up[response_id]
                log.warning("late results", device=self.name, results=len(results))
                self._on_late(results)
                return True
            return False
        if pending.answer.done():
            return True
        wrong = _mismatch(pending.call_ids, results)
        if wrong is None:
            pending.answer.set_result(results)
        else:
            pending.answer.set_exception(
                DeviceError(f"{self.name} answered wrongly: {wrong}", ErrorCode.BAD_RESULT)
            )
        return True

    def _take_error(self, message: ClientMessage) -> None:
        log.warning("device reports an error", device=self.name, error=message.error)
        pending = self._pending.get(message.prev_response_id or "")
        if pending is not None and not pending.answer.done():
            told = read_error_text(message.error or "no reason given", ErrorCode.PROTOCOL_ERROR)
            pending.answer.set_exception(
                DeviceError(f"{self.name} could not serve the frame: {told.message}", ErrorCode.BAD_RESULT)
            )

    def _fail_correlated(self, data: bytes, fault: DeviceError) -> None:
        """Where malformed results still say which command they answer, end that wait now."""
        try:
            frame = json.loads(data)
        except (ValueError, RecursionError):
            return
        response_id = frame.get("prev_response_id") if isinstance(frame, dict) else None
        pending = self._pending.get(response_id) if isinstance(response_id, str) else None
        if pending is not None and not pending.answer.done():
            pending.answer.set_exception(
                DeviceError(
                    f"{self.name} sent a result that is not AIP: {fault.message}", ErrorCode.BAD_RESULT
                )
            )

    async def _within_allowance(self, size: int) -> bool:
        if self._allowance.spend(size):
            return True
        self._close_reason = self._close_reason or "it sent more frames than a device may"
        await self._connection.close(1008, "too many frames")
        return False

    async def _complain(self, fault: DeviceError) -> None:
        log.warning("bad frame", device=self.name, reason=fault.message)
        await self._say(ServerMessage(type="error", status=FrameStatus.ERROR, error=error_text(fault)))

    async def _say(self, message: ServerMessage) -> None:
        message.timestamp = now_stamp()
        message.response_id = str(uuid4())
        await self._connection.send(message.model_dump_json())


def _mismatch(call_ids: list[str | None], results: list[Result]) -> str | None:
    if len(results) != len(call_ids):
        return f"{len(results)} results for {len(call_ids)} commands"
    for wanted, result in zip(call_ids, results, strict=True):
        if result.call_id != wanted:
            return f"a result for call {result.call_id}, where {wanted} was next"
    return None


def _refuse_nan(data: bytes) -> None:
    """Refuse NaN and infinities, which Python's parsers take for JSON and nobody else does."""
    if b"NaN" not in data and b"Infinity" not in data:
        return

    def refuse(word: str) -> None:
        raise DeviceError(f"Not an AIP frame: {word} is not JSON", ErrorCode.PROTOCOL_ERROR)

    try:
        json.loads(data, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise DeviceError(f"Not an AIP frame: {error}", ErrorCode.PROTOCOL_ERROR) from error


def _why(closed: ConnectionClosed) -> str:
    if closed.rcvd is not None:
        return f"the device closed it ({closed.rcvd.code} {closed.rcvd.reason})".replace(" )", ")")
    if closed.sent is not None:
        return f"closed with {closed.sent.code} {closed.sent.reason}".rstrip()
    return "the connection broke"
