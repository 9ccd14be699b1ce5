"""A device's end of a link: registers, keeps the heartbeat, and answers every command frame once."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import random
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from enum import IntEnum
from urllib.parse import urlsplit
from uuid import uuid4

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from core import __version__
from core.aip.error_text import error_text, read_error_text
from core.aip.extras import FEATURE_CANCEL
from core.aip.messages import (
    ClientMessage,
    FrameStatus,
    Result,
    ServerMessage,
    now_stamp,
    read_server_frame,
)
from core.device.batches import BatchRunner
from core.device.config import DeviceConfig
from core.device.frames import Received, read_frame
from core.device.router import Router, failure
from core.device.system_info import registration
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError
from core.tasks import TaskGroupOwner

log = structlog.get_logger(__name__)

FEATURES = (FEATURE_CANCEL, "typed_errors", "parallel_observations", "observation_refs", "undo")
_LAST_WORDS_S = 2.0
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class Ending(IntEnum):
    """Why the client ended; the process's exit code."""

    DONE = 0
    LOST = 1
    BAD_INPUT = 2
    REFUSED = 3


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. `back_off` is the range of the wait between two attempts."""

    register: float = 10.0
    heartbeat: float = 20.0
    ping: float = 20.0
    back_off: tuple[float, float] = (0.2, 10.0)
    max_frame_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """How one attempt ended: whether the console took us, and why it never will."""

    registered: bool
    refused: str | None = None


class DeviceClient:
    """One device and its link to one console."""

    def __init__(
        self,
        url: str,
        name: str,
        router: Router,
        config: DeviceConfig,
        token: str | None = None,
        timing: Timing = Timing(),
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"ws", "wss"} or not parts.hostname:
            raise BadInput("--connect takes a ws:// or wss:// address")
        self._url = url
        # The query may hold a token, so it is never shown.
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self._loopback = parts.hostname in _LOOPBACK
        self._name = name
        self._router = router
        self._token = token
        self._timing = timing
        self._tasks = TaskGroupOwner(f"device {name}")
        self._batches = BatchRunner(router, config.limits)
        self._serving: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self.on_registered: Callable[[], None] | None = None

    def stop(self) -> None:
        """End the link and `run`; may be called from a signal handler."""
        self._stopping.set()

    async def run(self, once: bool = False) -> Ending:
        """Keep a link until stopped; with `once`, for one registration at most."""
        attempt = 0
        stopped = self._tasks.spawn("stop", self._stopping.wait())
        try:
            while not self._stopping.is_set():
                link = self._tasks.spawn("link", self._one_link())
                await asyncio.wait({link, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if self._stopping.is_set():
                    break
                end = link.result()
                if end.refused is not None:
                    log.error("refused for good", console=self._shown, reason=end.refused)
                    return Ending.REFUSED
                if once:
                    return Ending.DONE if end.registered else Ending.LOST
                attempt = 0 if end.registered else attempt + 1
                await self._wait_a_little(attempt)
            return Ending.DONE
        finally:
            await self._router.close()
            if self._serving:
                # What was just cancelled still has its answer to give; a dead link gives up at once.
                await asyncio.wait(self._serving, timeout=_LAST_WORDS_S)
            await self._tasks.close()

    async def _wait_a_little(self, attempt: int) -> None:
        low, high = self._timing.back_off
        # Jitter keeps a hundred devices from coming back in the same instant.
        seconds = min(high, low * 2 ** min(attempt, 16)) * random.uniform(0.5, 1.0)
        log.info("will try again", console=self._shown, seconds=round(seconds, 2))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _one_link(self) -> LinkEnd:
        """Connect, register and serve until the link ends."""
        registered = False
        try:
            async with self._connection() as connection:
                refused = await self._register(connection)
                if refused is not None:
                    return LinkEnd(False, refused)
                registered = True
                log.info("registered", console=self._shown, name=self._name)
                if self.on_registered is not None:
                    self.on_registered()
                heartbeat = self._tasks.spawn("heartbeat", self._heartbeat(connection))
                try:
                    async for data in connection:
                        await self._receive(connection, data)
                finally:
                    heartbeat.cancel()
        except InvalidStatus as error:
            status = error.response.status_code
            if status in {401, 403}:
                return LinkEnd(False, f"HTTP {status}: the token is not accepted")
            log.warning("no link", console=self._shown, reason=f"HTTP {status}")
        except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed, DeviceError) as error:
            log.warning("no link", console=self._shown, reason=str(error) or type(error).__name__)
        return LinkEnd(registered)

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[ClientConnection]:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else None
        secure = ssl.create_default_context() if self._url.startswith("wss:") else None
        connection = await connect(
            self._url,
            additional_headers=headers,
            ssl=secure,
            # A proxy from the environment has no business between two ends on one machine.
            proxy=None if self._loopback else True,
            compression=None if self._loopback else "deflate",
            max_size=self._timing.max_frame_bytes,
            open_timeout=self._timing.register,
            ping_interval=self._timing.ping,
            ping_timeout=self._timing.ping,
            close_timeout=2.0,
        )
        try:
            yield connection
        finally:
            await connection.close(1001 if self._stopping.is_set() else 1000)

    async def _register(self, connection: ClientConnection) -> str | None:
        """Introduce ourselves; returns why the console will never have us, or None when it has.

        Raises:
            DeviceError: not now, but perhaps later.
        """
        features = ["cli", "file_system"]
        if any(info.tool_name == "screenshot" for info in self._router.tools()):
            features.append("gui")
        info = registration(self._name, features)
        hello = ClientMessage(
            type="register",
            status=FrameStatus.OK,
            client_id=self._name,
            timestamp=now_stamp(),
            metadata={
                "system_info": info,
                "registration_time": now_stamp(),
                "platform": info["platform"],
                "quarterdeck": {
                    "version": __version__,
                    "features": list(FEATURES),
                    "unavailable": [asdict(missing) for missing in self._router.unavailable],
                },
            },
        )
        await connection.send(hello.model_dump_json())
        try:
            async with asyncio.timeout(self._timing.register):
                answer = read_server_frame(await connection.recv())
        except TimeoutError:
            raise DeviceError("The console did not answer the registration") from None
        if answer.status is not FrameStatus.OK:
            said = read_error_text(answer.error or "no reason given", ErrorCode.DEVICE_OFFLINE)
            if said.code is ErrorCode.INVALID_ARGUMENTS:
                return said.message
            raise DeviceError(f"The console refused the registration: {said.message}")
        return None

    async def _heartbeat(self, connection: ClientConnection) -> None:
        while True:
            await asyncio.sleep(self._timing.heartbeat)
            beat = ClientMessage(
                type="heartbeat", status=FrameStatus.OK, client_id=self._name, timestamp=now_stamp()
            )
            try:
                await connection.send(beat.model_dump_json())
            except ConnectionClosed:
                return

    async def _receive(self, connection: ClientConnection, data: str | bytes) -> None:
        try:
            received = read_frame(data)
        except DeviceError as error:
            await self._send_error(connection, error, None)
            return
        message = received.message
        if message.type == "command":
            refusal = self._batches.refusal(message.response_id)
            if refusal is None and self._batches.is_instant(received.steps):
                await self._serve(connection, received)
            elif refusal is None:
                serving = self._tasks.spawn("commands", self._serve(connection, received))
                self._serving.add(serving)
                serving.add_done_callback(self._serving.discard)
            else:
                results = [failure(refusal, step.call_id) for step in received.steps]
                await self._answer(connection, message, results)
        elif message.type == "task":
            await self._ask_for_session(connection, message)
        elif message.type in {"error", "task_end"}:
            log.info("console says", type=message.type, status=message.status.value, error=message.error)
        elif message.type != "heartbeat":
            unserved = DeviceError(f"This device does not serve {message.type}", ErrorCode.PROTOCOL_ERROR)
            await self._send_error(connection, unserved, message.response_id)

    async def _serve(self, connection: ClientConnection, received: Received) -> None:
        results = await self._batches.run(received.steps)
        try:
            await self._answer(connection, received.message, results)
        except ConnectionClosed:
            # The console holds these for unknown; sending them over the next link would confuse it.
            log.warning("results lost with the link", results=len(results))

    async def _answer(
        self, connection: ClientConnection, message: ServerMessage, results: list[Result]
    ) -> None:
        answer = ClientMessage(
            type="command_results",
            status=message.status,
            session_id=message.session_id,
            client_id=self._name,
            action_results=results,
            timestamp=now_stamp(),
            request_id=str(uuid4()),
            prev_response_id=message.response_id,
        )
        await connection.send(answer.model_dump_json())

    async def _ask_for_session(self, connection: ClientConnection, message: ServerMessage) -> None:
        """Answer a task as stock devices do: send it back, which opens a session on a stock server."""
        asked = ClientMessage(
            type="task",
            status=FrameStatus.CONTINUE,
            client_id=self._name,
            request=message.user_request,
            task_name=message.task_name or str(uuid4()),
            request_id=str(uuid4()),
            timestamp=now_stamp(),
            metadata={"platform": platform.system().lower()},
        )
        await connection.send(asked.model_dump_json())

    async def _send_error(
        self, connection: ClientConnection, error: QuarterdeckError, response_id: str | None
    ) -> None:
        log.warning("frame not served", reason=error.message)
        told = ClientMessage(
            type="error",
            status=FrameStatus.ERROR,
            client_id=self._name,
            error=error_text(error),
            prev_response_id=response_id,
            timestamp=now_stamp(),
        )
        await connection.send(told.model_dump_json())
