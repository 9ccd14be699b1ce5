"""One registered link between this device and a console, dialled by either of them."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Self

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from websockets.exceptions import ConnectionClosed

from core import __version__
from core.aip.chunks import CHUNK_MARK, LEAST_PART, FrameAssembler
from core.aip.extensions import (
    FEATURE_BINARY,
    FEATURE_CHUNKS,
    FEATURE_METRICS,
    FEATURE_NEXT_PIN,
    FEATURE_PROGRESS,
    FEATURE_RECALL,
    FEATURE_STREAMED,
    FEATURE_TERMS,
    FEATURE_TOOLS_CHANGED,
    FEATURES,
    RECALL_COMMAND,
    RecalledResult,
    StreamedField,
    ToolsChanged,
    Welcome,
)
from core.aip.frames import error_text, read_error_text
from core.aip.limits import LinkLimits, frame_tokens
from core.aip.measured_connection import MeasuredConnection
from core.aip.messages import (
    ClientMessage,
    FrameStatus,
    Result,
    ServerMessage,
    read_server_frame,
)
from core.aip.paced_sender import FrameAbandoned, PacedSender
from core.broken_text import valid_text, with_valid_text
from core.device.binary_values import BinaryResult, for_binary_peer, is_ready_for_binary_peer, plain
from core.device.call_log import MOST_BLOBS
from core.device.call_records import Facts
from core.device.config import Link
from core.device.frame_runner import MOST_STEPS, Asker, Frame
from core.device.frames import Received, Step, read_frame
from core.device.fs.safe_path import shown
from core.device.metrics import LoadMeter
from core.device.progress_sender import CallProgress
from core.device.router import failure
from core.device.runtime import DeviceRuntime
from core.device.sent_output import SentOutput, without_sent_output
from core.device.stall_detector import StallDetector
from core.device.system_info import registration
from core.device.tool import Unavailable
from core.errors import DeviceError, ErrorCode, QuarterdeckError, Refused
from core.ids import new_uuid, now_stamp
from core.log import Logger
from core.machine_id import machine_identity, machine_mark
from core.token_bucket import TokenBucket


def is_recall(steps: Sequence[Step]) -> bool:
    """Whether a frame only recalls earlier calls."""
    return len(steps) == 1 and steps[0].command is not None and steps[0].command.tool_name == RECALL_COMMAND


def recalled_by(steps: Sequence[Step]) -> str | None:
    """The call that a frame recalls, if it is a recall of a single one."""
    if not is_recall(steps) or (command := steps[0].command) is None:
        return None
    asked = (command.parameters or {}).get("call_ids")
    if not isinstance(asked, list) or len(asked) != 1 or not isinstance(asked[0], str):
        return None
    return asked[0]


def shortened(answer: Result, call_id: str, why: str) -> Result:
    """The answer to a recall with only the facts of the result; `why` it is left out."""
    found = answer.result.get(call_id) if isinstance(answer.result, dict) else None
    try:
        told = RecalledResult.model_validate(found)
        facts = Facts.of(Result.model_validate(told.result)).result(call_id, why)
    except ValidationError:
        # It is no result, and so was not long.
        return answer
    short = told.model_copy(update={"result": facts.model_dump(mode="json")})
    # Without the answer's binary frames.
    return Result(
        status=answer.status,
        error=answer.error,
        result={call_id: short.model_dump()},
        namespace=answer.namespace,
        call_id=answer.call_id,
    )


log = Logger(__name__)

# The features that this device announces: the AIP extensions, and properties of its tools.
ANNOUNCED = (*sorted(FEATURES), "typed_errors", "parallel_observations", "observation_refs", "undo")
# The limit of invalid frames and frames without commands; more of them end the link.
_FAULTS_AT_ONCE = 100.0
_FAULTS_PER_S = 20.0
_SETTLE_S = 0.1
# Answers to recalls that are sent at the same time; each has up to 30 MiB of results.
_MOST_RECALLS = 4
_MOST_WAITING_RECALLS = 256
_NOTHING_SENT: Mapping[str, SentOutput] = MappingProxyType({})
_LEFT_OUT = "it had ended, and was cancelled while its answer was being sent"


@dataclass(frozen=True, slots=True)
class Timing:
    """Times in seconds.

    `connect` bounds each stage of opening a connection (look-up, TCP, TLS, upgrade), `register` the wait for
    the console's answer to the registration. A link's heartbeats come at the shorter of `heartbeat` and what
    the console asks for. `back_off` is the range of the wait between two attempts to connect.

    A link that lasted `good` seconds resets this wait. `probe` is how long a connected console has to answer
    a ping when another console wants to connect.
    """

    connect: float = 10.0
    register: float = 10.0
    heartbeat: float = 600.0
    ping: float = 20.0
    probe: float = 3.0
    good: float = 30.0
    back_off: tuple[float, float] = (0.2, 10.0)
    max_frame_bytes: int = 64 * 1024 * 1024

    @classmethod
    def of(cls, link: Link) -> Self:
        """The times that device.toml sets."""
        seconds = link.connect_timeout_s
        return cls(connect=seconds, register=seconds, heartbeat=link.heartbeat_s)

    @property
    def link_limits(self) -> LinkLimits:
        """These times and sizes as the limits of a connection."""
        return LinkLimits(
            register_s=self.register,
            ping_s=self.ping,
            pong_s=self.ping,
            max_incoming_bytes=self.max_frame_bytes,
        )


class Session:
    """A link from its registration to its end. `features` are those agreed with this console."""

    def __init__(
        self,
        connection: MeasuredConnection,
        desk: DeviceRuntime,
        timing: Timing,
        take_pin: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        """`take_pin` takes the announcement of the console's next certificate, if this link pins one."""
        self.features: frozenset[str] = frozenset()
        self._take_pin = take_pin
        self._connection = connection
        self._desk = desk
        self._timing = timing
        self._heartbeat_s = timing.heartbeat
        self._meter = _meter()
        self._faults = TokenBucket(_FAULTS_AT_ONCE, _FAULTS_PER_S)
        self._asker = Asker()
        self._announcing: asyncio.Task[None] | None = None
        self._registered_with: list[Unavailable] = []
        self._sender = PacedSender(connection)
        self._parts = FrameAssembler(timing.max_frame_bytes, 2 * timing.max_frame_bytes)
        # The calls whose answers are being sent, with the response ids of their frames.
        # The frames in which the result of a call is being sent: its own answer, and recalls of it.
        self._answering: dict[str, list[str]] = {}
        self._recalls = asyncio.Semaphore(_MOST_RECALLS)
        self._waiting_recalls = asyncio.Semaphore(_MOST_WAITING_RECALLS)

    async def register(self) -> None:
        """Register with the console and wait for its answer.

        Raises:
            Refused: the console refused the registration for good.
            DeviceError: it refused for now, or (code `protocol_error`) sent no valid answer.
        """
        self._registered_with = list(self._desk.router.unavailable)
        await self._connection.send(self._hello().model_dump_json())
        try:
            async with asyncio.timeout(self._timing.register):
                answer = read_server_frame(await self._connection.recv())
        except TimeoutError:
            raise DeviceError(
                "The console did not answer the registration.", ErrorCode.PROTOCOL_ERROR
            ) from None
        if answer.status is not FrameStatus.OK:
            said = read_error_text(answer.error or "no reason given", ErrorCode.DEVICE_OFFLINE)
            if said.code is ErrorCode.INVALID_ARGUMENTS:
                raise Refused(
                    said.message,
                    next_step="Correct what is named in device.toml, then start the client again.",
                )
            raise DeviceError(f"The console refused the registration: {said.message}", said.code)
        self._agree(answer)

    def _hello(self) -> ClientMessage:
        """The registration: what this machine is, and what its client can do."""
        router = self._desk.router
        features = ["cli", "file_system"]
        if any(info.tool_name == "screenshot" for info in router.tools()):
            features.append("gui")
        try:
            info = {"system_info": registration(self._desk.name, features)}
        except OSError as error:
            # As on stock devices: a machine whose facts cannot be read can still serve commands.
            log.warning("what this machine is cannot be read", reason=str(error))
            info = {}
        return ClientMessage(
            type="register",
            status=FrameStatus.OK,
            client_id=self._desk.name,
            timestamp=now_stamp(),
            # A host's name and the reasons of unavailable tools may hold any bytes.
            metadata=with_valid_text(
                {
                    **info,
                    "registration_time": now_stamp(),
                    "platform": platform.system().lower(),
                    "quarterdeck": {
                        "version": __version__,
                        "features": self._announced(),
                        # How many operators must have signed for an action; 0 where no approval is required.
                        "requires_approval": router.approvers,
                        "machine": machine_mark(),
                        # Consoles hold another machine that shows this one's pairing.
                        "identity": machine_identity(),
                        # A console checks symlinks in arguments against these only for a client that it
                        # started.
                        "roots": [shown(str(root)) for root in router.roots],
                        "unavailable": [asdict(missing) for missing in router.unavailable],
                    },
                }
            ),
        )

    def _announced(self) -> list[str]:
        return [name for name in ANNOUNCED if name != FEATURE_NEXT_PIN or self._take_pin is not None]

    def _agree(self, answer: ServerMessage) -> None:
        ours = answer.result.get("quarterdeck") if isinstance(answer.result, dict) else None
        if ours is None:
            return
        try:
            welcome = Welcome.model_validate(ours)
        except ValidationError:
            log.warning("the console's welcome cannot be read; it gets plain AIP", name=self._desk.name)
            return
        self.features = FEATURES.intersection(welcome.features, self._announced())
        self._heartbeat_s = min(welcome.heartbeat_s, self._timing.heartbeat)
        self._sender.chunked = FEATURE_CHUNKS in self.features
        progress_of = self._progress_of if FEATURE_PROGRESS in self.features else None
        self._asker = Asker(self.features, progress_of, self._shorten, self._take_pin)

    async def serve(self) -> None:
        """Serve the console's frames until the link ends.

        Raises:
            ConnectionClosed: the link broke, or was closed because the console violated the protocol.
        """
        heartbeat = self._desk.tasks.spawn("heartbeat", self._heartbeat())
        pulse = StallDetector(asyncio.get_running_loop())
        try:
            await self._desk.begin(self)
            if self._desk.router.unavailable != self._registered_with:
                # A hosted server failed or became available during the registration.
                self.announce_tools()
            async for data in self._connection:
                arrived = pulse.arrival()
                if not isinstance(data, bytes) or data[:1] != CHUNK_MARK or not self._sender.chunked:
                    await self._receive(data, arrived)
                elif whole := await self._take_part(data):
                    await self._receive(whole, arrived)
        finally:
            self._desk.end(self)
            heartbeat.cancel()
            pulse.stop()

    async def say(self, text: str, *, bulk: bool = False) -> None:
        """Send a frame that may be lost if the link has ended; `bulk`: one of many."""
        try:
            await self._sender.send(text, bulk=bulk)
        except ConnectionClosed:
            return

    def announce_tools(self) -> None:
        """Announce changed tools to the console after `_SETTLE_S`; changes within it are announced once."""
        if FEATURE_TOOLS_CHANGED not in self.features:
            return
        if self._announcing is None or self._announcing.done():
            self._announcing = self._desk.tasks.spawn("tools changed", self._announce())

    async def _announce(self) -> None:
        await asyncio.sleep(_SETTLE_S)
        rows = with_valid_text([asdict(missing) for missing in self._desk.router.unavailable])
        await self.say(ToolsChanged(unavailable=rows).model_dump_json())

    def _progress_of(self, call_id: str) -> CallProgress:
        # What is sent in vain can be asked for by `recall` only.
        streamed = {FEATURE_STREAMED, FEATURE_RECALL} <= self.features
        return CallProgress(
            call_id,
            self._tell_progress,
            self._desk.tasks,
            takes_s=self._sender.takes_s,
            round_trip_s=lambda: self._sender.round_trip_s,
            streamed=streamed,
        )

    async def _tell_progress(self, frame: str) -> bool:
        # The newest link of all gets progress, and this one the answer.
        return await self._desk.tell_progress(frame) is self

    async def _heartbeat(self) -> None:
        measures = FEATURE_METRICS in self.features and self._meter is not None
        # A console with `metrics` gets the load at once; a stock console expects no early heartbeat.
        wait = min(1.0, self._heartbeat_s) if measures else self._heartbeat_s
        while True:
            await asyncio.sleep(wait)
            wait = self._heartbeat_s
            metadata: dict[str, Any] | None = None
            if measures:
                metadata = await asyncio.to_thread(_load, self._meter)
            beat = ClientMessage(
                type="heartbeat",
                status=FrameStatus.OK,
                client_id=self._desk.name,
                timestamp=now_stamp(),
                metadata=metadata,
            )
            await self.say(beat.model_dump_json())

    async def _take_part(self, part: bytes) -> bytes:
        """Add a part to its frame; returns the frame with its last part, and nothing before."""
        try:
            frame = self._parts.take(part, asyncio.get_running_loop().time())
        except DeviceError as fault:
            # Which bytes belong together is no longer known; the console sees why, and asks what was run.
            log.warning("link ended", reason=fault.message)
            await self._connection.close(1002, fault.message[:100])
            return b""
        if (frame is None or frame.total < LEAST_PART) and not self._faults.spend(frame_tokens(len(part))):
            await self._too_many()
            return b""
        return bytes(frame.data) if frame is not None and frame.is_whole else b""

    async def _receive(self, data: str | bytes, arrived: float) -> None:
        try:
            received = read_frame(data, FEATURE_TERMS in self.features)
        except DeviceError as error:
            await self._complain(error, None, len(data))
            return
        message = received.message
        if message.type == "command":
            await self._take_commands(received, arrived, len(data))
        elif message.type == "heartbeat":
            return
        elif message.type in {"task", "error", "task_end"} and not self._faults.spend(
            frame_tokens(len(data))
        ):
            await self._too_many()
        elif message.type == "task":
            await self._ask_for_session(message)
        elif message.type in {"error", "task_end"}:
            log.info("console says", type=message.type, status=message.status.value, error=message.error)
        else:
            unserved = DeviceError(f"This device does not serve {message.type}.", ErrorCode.PROTOCOL_ERROR)
            await self._complain(unserved, message.response_id, len(data))

    async def _take_commands(self, received: Received, arrived: float, size: int) -> None:
        batches = self._desk.batches
        stood = asyncio.get_running_loop().time() - arrived
        steps = [_in_time(step, stood) for step in received.steps]
        if len(steps) > MOST_STEPS:
            fault = DeviceError(f"A frame has at most {MOST_STEPS} commands.", ErrorCode.TOO_LARGE)
            await self._complain(fault, received.message.response_id, 0)
            return
        refusal = batches.refusal(received.message.response_id, steps, self._asker, size)
        if refusal is not None:
            results = [failure(refusal, step.call_id) for step in steps]
            await self._answer(received.message, results)
            return
        instant = batches.is_instant(steps)
        frame = batches.admit(steps, self._asker, arrived, size)
        if is_recall(steps):
            # Its results may be large, and further frames, a cancel among them, are taken meanwhile.
            await self._waiting_recalls.acquire()
            self._desk.spawn(self._serve_recall(received.message, frame))
            return
        serving = self._serve(received.message, frame)
        if instant:
            await serving
        else:
            self._desk.spawn(serving)

    async def _serve_recall(self, message: ServerMessage, frame: Frame) -> None:
        try:
            async with self._recalls:
                await self._serve(message, frame)
        finally:
            self._waiting_recalls.release()

    async def _serve(self, message: ServerMessage, frame: Frame) -> None:
        results = await self._desk.batches.serve(frame)
        try:
            await self._answer(message, results, recalled_by(frame.steps), frame.sent)
        except ConnectionClosed:
            # A console with `recall` asks for them later. Any other treats their outcome as unknown, and
            # does not expect them on the next link.
            log.warning("results not sent, the link is gone", results=len(results))

    async def _answer(
        self,
        message: ServerMessage,
        results: list[Result],
        recalled: str | None = None,
        sent: Mapping[str, SentOutput] = _NOTHING_SENT,
    ) -> None:
        """Send the results of a frame without the output that was `sent`.

        `recalled` is the only call that it asks for, if it is a recall.
        """
        response_id = message.response_id or ""
        call_id = recalled or (results[0].call_id if len(results) == 1 else None)
        if call_id is None or not response_id:
            await self._send_answer(message, results, sent)
            return
        self._answering.setdefault(call_id, []).append(response_id)
        try:
            await self._send_answer(message, results, sent)
        except FrameAbandoned:
            [result] = results
            short = Facts.of(result).result(call_id, _LEFT_OUT)
            await self._send_answer(message, [shortened(result, call_id, _LEFT_OUT) if recalled else short])
        finally:
            self._answering[call_id].remove(response_id)
            if not self._answering[call_id]:
                del self._answering[call_id]

    def _shorten(self, call_id: str) -> bool:
        """Leave out the rest of an answer that is being sent, as its caller cancelled the call."""
        stopped = [self._sender.abandon(response_id) for response_id in self._answering.get(call_id, ())]
        return any(stopped)

    async def _send_answer(
        self, message: ServerMessage, results: list[Result], sent: Mapping[str, SentOutput] = _NOTHING_SENT
    ) -> None:
        subject = message.response_id or ""
        lacking: list[StreamedField] = []
        if sent:
            results, lacking = await asyncio.to_thread(without_sent_output, results, sent)
        results = [await self._ready(result, subject) for result in results]
        answer = ClientMessage(
            type="command_results",
            status=message.status,
            session_id=message.session_id,
            client_id=self._desk.name,
            action_results=results,
            timestamp=now_stamp(),
            request_id=new_uuid(),
            prev_response_id=message.response_id,
            metadata=_streamed(lacking),
        )
        try:
            said = answer.model_dump_json()
        except PydanticSerializationError:
            # Only ids sent by the console can be invalid Unicode, and no command with such an id has run.
            fault = DeviceError("An id in this frame is not Unicode text.", ErrorCode.PROTOCOL_ERROR)
            await self._complain(fault, message.response_id, 0)
            return
        await self._sender.send(said, subject=subject)

    async def _ready(self, result: Result, subject: str) -> Result:
        """A result in the form for this console; sends its binary frames first."""
        if FEATURE_BINARY not in self.features:
            return plain(result)
        if isinstance(result, BinaryResult) and len(result.blobs) > MOST_BLOBS:
            result = plain(result)
        if not is_ready_for_binary_peer(result):
            # In a thread: hashing megabytes would block the loop.
            result = await asyncio.to_thread(for_binary_peer, result, MOST_BLOBS)
        if isinstance(result, BinaryResult):
            for frame in result.blobs.values():
                await self._sender.send(frame, subject=subject)
        return result

    async def _ask_for_session(self, message: ServerMessage) -> None:
        """Answer a task like stock devices: send it back, which opens a session on a stock server."""
        asked = ClientMessage(
            type="task",
            status=FrameStatus.CONTINUE,
            client_id=self._desk.name,
            request=message.user_request,
            task_name=message.task_name or new_uuid(),
            request_id=new_uuid(),
            timestamp=now_stamp(),
            metadata={"platform": platform.system().lower()},
        )
        await self._connection.send(asked.model_dump_json())

    async def _too_many(self) -> None:
        log.warning("too many frames that hold no command", name=self._desk.name)
        await self._connection.close(1008, "too many frames")

    async def _complain(self, error: QuarterdeckError, response_id: str | None, size: int) -> None:
        if not self._faults.spend(frame_tokens(size)):
            await self._too_many()
            return
        log.warning("frame not served", reason=error.message)
        told = ClientMessage(
            type="error",
            status=FrameStatus.ERROR,
            client_id=self._desk.name,
            error=valid_text(error_text(error)),
            prev_response_id=response_id if _is_unicode(response_id) else None,
            timestamp=now_stamp(),
        )
        await self._connection.send(told.model_dump_json())


def _streamed(lacking: Sequence[StreamedField]) -> dict[str, Any] | None:
    """The metadata of results from which streamed output was left out."""
    if not lacking:
        return None
    return {"quarterdeck": {"streamed": [one.model_dump() for one in lacking]}}


def _in_time(step: Step, stood: float) -> Step:
    """The step, or a fault if its deadline passed in the `stood` seconds before this device read it."""
    if step.terms is None or step.terms.deadline_s > stood:
        return step
    seconds = step.terms.deadline_s
    late = DeviceError(
        f"It came while this device stood still, and was not started within {seconds:g} s.", ErrorCode.TIMEOUT
    )
    return Step(step.call_id, None, late)


def _meter() -> LoadMeter | None:
    """A meter of this machine's load; None where its counters cannot be read, as with a restricted /proc."""
    try:
        return LoadMeter()
    except OSError:
        return None


def _load(meter: LoadMeter | None) -> dict[str, Any] | None:
    """The load as a heartbeat's metadata; None if it cannot be read, so that the heartbeat is still sent."""
    try:
        return None if meter is None else {"quarterdeck": {"metrics": meter.read().model_dump()}}
    except OSError:
        return None


def _is_unicode(text: str | None) -> bool:
    """Whether a frame can hold a text: a leniently read text may contain a lone surrogate."""
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        return False
    return True
