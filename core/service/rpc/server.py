"""The console server: the service's end of the control socket.

Each client has its own `Console`, and no client can stall another. The counterpart is
`core.service.rpc.client`; `core.service.rpc.protocol` describes the frames.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from core import __version__
from core.errors import BadInput, ErrorCode, ErrorInfo, QuarterdeckError
from core.home import Home
from core.log import Logger
from core.service.api.events import Event
from core.service.api.interface import Console, api_methods
from core.service.api.version import API_VERSION
from core.service.event_hub import Pending
from core.service.rpc import protocol
from core.service.rpc.transport import HAS_UNIX_SOCKETS, Endpoint, peer_user
from core.tasks import TaskGroupOwner
from core.user import user_name

log = Logger(__name__)

MAX_CONCURRENT = 64
MAX_STREAMS = 16
FLUSH_EVERY = 1 / 30
# Four thousand events, as many as may wait, take 40 ms to encode.
EVENTS_A_FRAME = 500
STUCK_AFTER = 30.0
HELLO_WITHIN = 10.0
WRITE_LIMIT = 256 * 1024


class Host(Protocol):
    """The part of the service that the server uses: a console per client."""

    def console(self, actor: str) -> Console:
        """A console for this person."""
        ...

    def agent_console(self, actor: str, token: str, end: Callable[[str], None]) -> Console:
        """A console for an agent; raises `Refused` (code `agent_unknown`) if the token is not its own.

        `end` ends the agent's connection, for the reason that it is given.
        """
        ...


class ControlServer:
    """Listens for the clients of one home; the caller holds the home's lock.

    Exactly one of the events `attached` and `unattended` is set.
    """

    def __init__(
        self, host: Host, home: Home, unix: bool = HAS_UNIX_SOCKETS, stuck_after: float = STUCK_AFTER
    ) -> None:
        self._host = host
        self._home = home
        self._unix = unix
        self._stuck_after = stuck_after
        self._tasks = TaskGroupOwner("control server")
        self._clients: set[_Client] = set()
        self._endpoint: Endpoint | None = None
        self._server: Server | None = None
        self.attached = asyncio.Event()
        self.unattended = asyncio.Event()
        self.unattended.set()

    @property
    def clients(self) -> int:
        """The number of attached clients, that is those whose hello was accepted."""
        return len(self._clients)

    async def open(self) -> None:
        """Accept clients from now on.

        Raises:
            ServiceError: the socket cannot be made.
        """
        self._endpoint = Endpoint.open(self._home, self._unix)
        # Not `unix_serve`: from Python 3.13 on it looks up, and later removes, what is then at the socket's
        # address. That has the number of a folder that is closed again, which may be another file's.
        self._server = await serve(
            self._serve,
            sock=self._endpoint.sock,
            process_request=self._endpoint.refuse,
            compression=None,
            max_size=protocol.MAX_FRAME,
            # Clients are on the same machine: a hanging client is detected by its full buffer, not by pings.
            ping_interval=None,
            write_limit=WRITE_LIMIT,
            server_header=None,
            open_timeout=HELLO_WITHIN,
            close_timeout=2,
        )

    async def close(self, reason: str = "The service has ended.") -> None:
        """Accept no more clients, send the answers that are under way, and close every connection."""
        if self._server is None or self._endpoint is None:
            return
        self._endpoint.remove()
        self._server.close(close_connections=False)
        await asyncio.gather(*(client.finish() for client in list(self._clients)))
        await self._tasks.close()
        for connection in list(self._server.connections):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await connection.close(1001, reason)
        await self._server.wait_closed()
        # Ends the clean-up tasks that closing the connections has spawned.
        await self._tasks.close()
        self._server = None

    async def _serve(self, connection: ServerConnection) -> None:
        def end(reason: str) -> None:
            self._tasks.spawn("end a connection", connection.close(1008, reason))

        accepted = await _greet(connection, self._host, end)
        if accepted is None:
            return
        hello, actor, console = accepted
        client = _Client(connection, hello, actor, console, self._tasks, self._stuck_after)
        self._clients.add(client)
        self._count()
        log.info("client attached", client=hello.client, actor=hello.actor, version=hello.version)
        try:
            await client.serve()
        finally:
            self._clients.discard(client)
            self._count()
            log.info("client left", client=hello.client, actor=hello.actor)
            # Not awaited here: when the server closes, this task may be being cancelled.
            self._tasks.spawn("clean up after a client", client.clean_up())

    def _count(self) -> None:
        now, other = (self.attached, self.unattended) if self._clients else (self.unattended, self.attached)
        other.clear()
        now.set()


async def _greet(
    connection: ServerConnection, host: Host, end: Callable[[str], None]
) -> tuple[protocol.Hello, str, Console] | None:
    """Read a client's hello and send the welcome; returns the hello, the client's actor and its console.

    None if the hello is refused or does not arrive.
    """
    console: Console | None = None
    try:
        async with asyncio.timeout(HELLO_WITHIN):
            hello = protocol.read_hello(await connection.recv())
            actor = hello.known_as(user_name(peer_user(connection)))
            console = host.agent_console(actor, hello.token, end) if hello.is_agent else host.console(actor)
            welcome = protocol.Welcome(api_version=API_VERSION, version=__version__, pid=os.getpid())
            await connection.send(protocol.encode({"welcome": welcome.model_dump()}), text=True)
            return hello, actor, console
    except QuarterdeckError as error:
        with contextlib.suppress(ConnectionClosed):
            await connection.send(protocol.encode_error(None, error.info), text=True)
            await connection.close(1008, "The hello was refused.")
    except (TimeoutError, ConnectionClosed):
        if console is not None:
            await console.close()
    return None


class _Client:
    """An attached client: its calls, its event streams and their release when it disconnects."""

    def __init__(
        self,
        connection: ServerConnection,
        hello: protocol.Hello,
        actor: str,
        console: Console,
        tasks: TaskGroupOwner,
        stuck_after: float,
    ) -> None:
        self._connection = connection
        self._hello = hello
        self._actor = actor
        self._console = console
        self._tasks = tasks
        self._stuck_after = stuck_after
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._calls: set[asyncio.Task[Any]] = set()
        self._waits: dict[int, asyncio.Task[Any]] = {}
        self._streams: dict[int, _Stream] = {}

    async def serve(self) -> None:
        """Read frames until the client disconnects."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                data = await self._connection.recv()
                number: int | None = None
                try:
                    if isinstance(data, bytes):
                        raise BadInput("A client's frames are text.")
                    frame = protocol.decode(data)
                    if "id" in frame:
                        number = protocol.number_in(frame, "id")
                    await self._take(frame)
                except QuarterdeckError as error:
                    await self._send(protocol.encode_error(number, error.info))

    async def _take(self, frame: dict[str, Any]) -> None:
        if "method" in frame:
            number, name = protocol.number_in(frame, "id"), frame["method"]
            if not isinstance(name, str):
                raise BadInput("'method' must be the name of one.")
            # The reader waits here: beyond MAX_CONCURRENT calls, further frames stay in the client's socket.
            await self._slots.acquire()
            task = self._tasks.spawn(f"call {name:.40}", self._call(number, name, frame))
            task.add_done_callback(lambda _: self._slots.release())
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
            method = api_methods().get(name)
            if method is not None and method.only_waits:
                self._waits[number] = task
                task.add_done_callback(lambda _: self._waits.pop(number, None))
        elif "subscribe" in frame:
            self._subscribe(protocol.number_in(frame, "subscribe"))
        elif "unsubscribe" in frame:
            if stream := self._streams.pop(protocol.number_in(frame, "unsubscribe"), None):
                stream.close()
        elif "forget" in frame:
            if wait := self._waits.get(protocol.number_in(frame, "forget")):
                wait.cancel()
        else:
            raise BadInput("The frame has none of method, subscribe, unsubscribe, forget.")

    async def _call(self, number: int, name: str, frame: dict[str, Any]) -> None:
        binary = gone = False
        try:
            method = self._allowed(name)
            arguments = method.decode_arguments(frame.get("params", {}))
            value = await self._console.invoke(method.api, (), arguments)
            answer, binary = await protocol.encode_result(number, method, value), method.gives_bytes
        except QuarterdeckError as error:
            answer = protocol.encode_error(number, error.info)
            gone = error.code is ErrorCode.AGENT_UNKNOWN
        # Outermost handler: a fault in one call must not end the connection or the service.
        except Exception as error:
            log.exception("a call failed", method=name)
            fault = ErrorInfo.of(ErrorCode.INTERNAL, f"{name} failed: {type(error).__name__}.")
            answer = protocol.encode_error(number, fault)
        await self._send(answer, text=not binary)
        if gone:
            # A revoked agent; it learns at its next connection that its token is worthless.
            await self._connection.close(1008, "The agent was revoked.")

    def _allowed(self, name: str) -> protocol.Method:
        method = api_methods().get(name)
        if method is None:
            raise BadInput(f"There is no method {name!r:.80}.")
        # Checked here too, so that a refused call's arguments are not even looked at.
        method.check_caller(self._actor)
        return protocol.wire_form(method)

    def _subscribe(self, number: int) -> None:
        if number in self._streams:
            raise BadInput(f"There is a stream {number} already.")
        if len(self._streams) >= MAX_STREAMS:
            raise BadInput(f"One client may have {MAX_STREAMS} streams of events.")
        # Subscribed without awaiting, so that the stream has every change that is later than the snapshot
        # which the client's next call returns.
        self._streams[number] = _Stream(number, self._console.events(), self._send, self._tasks)

    async def _send(self, data: bytes, text: bool = True) -> None:
        try:
            async with asyncio.timeout(self._stuck_after):
                await self._connection.send(data, text=text)
        except ConnectionClosed:
            pass
        except TimeoutError:
            log.warning("a client does not read; it is cut off", actor=self._hello.actor)
            # Abort: a close frame would queue behind the data that the client does not read.
            self._connection.transport.abort()

    async def finish(self) -> None:
        """Cancel waiting calls, and give the other calls up to 2 seconds to send their answers."""
        for task in self._waits.values():
            task.cancel()
        if self._calls:
            await asyncio.wait(set(self._calls), timeout=2)

    async def clean_up(self) -> None:
        """Release this client's resources. Calls with an effect run to their end without it."""
        for task in self._waits.values():
            task.cancel()
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()
        # Also ends the pauses of the cards that this client was reading.
        await self._console.close()


class _Send(Protocol):
    async def __call__(self, data: bytes, text: bool = True) -> None: ...


class _Stream:
    """Sends one event stream to the socket: at most 30 times a second, no faster than the client reads."""

    def __init__(self, number: int, events: AsyncIterator[Event], send: _Send, tasks: TaskGroupOwner) -> None:
        self._number = number
        self._events = events
        self._send = send
        self._pending = Pending()
        self._running = [
            tasks.spawn("collect events", self._collect()),
            tasks.spawn("send events", self._flush()),
        ]

    async def _collect(self) -> None:
        async for event in self._events:
            self._pending.add(event)

    async def _flush(self) -> None:
        while True:
            await self._pending.ready.wait()
            await self._send(protocol.encode_events(self._number, self._pending.take(EVENTS_A_FRAME)))
            await asyncio.sleep(0 if len(self._pending) >= EVENTS_A_FRAME else FLUSH_EVERY)

    def close(self) -> None:
        """End the stream and its subscription."""
        for task in self._running:
            task.cancel()
        if close := getattr(self._events, "close", None):
            close()
