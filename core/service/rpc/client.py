"""The console client: a `Console` whose calls go over the control socket to the service of a home.

Its counterpart is `core.service.rpc.server`; `core.service.rpc.protocol` describes the frames.

Large answers and event frames are validated in slices, between which the loop runs other tasks. Validating a
thousand devices or cells takes some ten milliseconds in the window's own thread, which would visibly freeze
it. The result and its order are the same as without slices.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import typing
import weakref
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage
from websockets.frames import CloseCode

from core import __version__
from core.errors import (
    ErrorCode,
    ErrorInfo,
    QuarterdeckError,
    ServiceError,
    error_from,
)
from core.home import Home
from core.log import Logger
from core.service.api.interface import Console
from core.service.api.methods import ApiMethod
from core.service.api.version import API_VERSION
from core.service.rpc import protocol
from core.service.rpc.transport import dial
from core.tasks import TaskGroupOwner, in_turns
from core.text import sentences

if TYPE_CHECKING:
    from core.service.api.events import Event
    from core.service.rpc.remote_events import RemoteEvents

log = Logger(__name__)

CONNECT_TIMEOUT = 5.0
REQUEST_TIMEOUT = 30.0
WAIT_SLACK = 5.0


class RemoteConsole(Console):
    """The console API of a service in another process; created by `connect`.

    `closed` is set when the connection has ended, and `closed_reason` then holds the reason. Every later call
    raises ServiceError (`service_unavailable`). `cut_off` is True if the service has ended the connection
    because of this client: an agent that was stopped or revoked.
    """

    def __init__(self, connection: ClientConnection, welcome: protocol.Welcome, timeout: float) -> None:
        super().__init__()
        self._connection = connection
        self._timeout = timeout
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._methods: dict[int, protocol.Method] = {}
        self._streams: weakref.WeakValueDictionary[int, RemoteEvents] = weakref.WeakValueDictionary()
        self._unsent: list[bytes] = []
        self._tasks = TaskGroupOwner("remote console")
        self.welcome = welcome
        self.closed = asyncio.Event()
        self.closed_reason = ""
        self.cut_off = False

    @classmethod
    async def connect(
        cls,
        home: Home,
        client: protocol.Client,
        actor: str,
        timeout: float = CONNECT_TIMEOUT,
        request_timeout: float = REQUEST_TIMEOUT,
        *,
        token: str = "",
    ) -> RemoteConsole:
        """Attach to the service that owns `home` within `timeout` seconds.

        `request_timeout`, in seconds, bounds each later call that declares no other time. `token` proves
        which agent an agent is.

        Raises:
            ServiceError: no service answers (`service_unavailable`), or it refuses this client (`home_busy`).
            BadInput: `actor` is malformed.
            Refused: the token is not the agent's (`agent_unknown`).
        """
        try:
            async with asyncio.timeout(timeout):
                connection = await dial(home, timeout, protocol.MAX_FRAME)
                try:
                    welcome = await _say_hello(connection, client, actor, token)
                except BaseException:
                    connection.transport.abort()
                    raise
        except (OSError, TimeoutError, EOFError, InvalidMessage, ConnectionClosed) as error:
            raise ServiceError(f"No service answers for {home.path}.") from error
        except InvalidHandshake as error:
            raise ServiceError(
                sentences(f"The service of {home.path} refused this program: {error}"), ErrorCode.HOME_BUSY
            ) from error
        console = cls(connection, welcome, request_timeout)
        console._tasks.spawn("read the socket", console._read())
        return console

    @property
    def busy(self) -> bool:
        """Whether a call waits for its answer."""
        return bool(self._waiting)

    def gone(self) -> ServiceError:
        """The error that every call raises once the connection has ended."""
        return ServiceError(self.closed_reason or "The connection to the service is closed.")

    def events(self) -> AsyncIterator[Event]:
        # Imported here: many clients follow no events, and do without the models of all of them.
        from core.service.rpc.remote_events import RemoteEvents

        number = next(self._numbers)
        stream = RemoteEvents(self, number)
        self._streams[number] = stream
        self._send_soon({"subscribe": number})
        return stream

    def unsubscribe(self, number: int) -> None:
        """End an event stream; called by the stream itself."""
        self._streams.pop(number, None)
        self._send_soon({"unsubscribe": number})

    async def invoke(self, method: ApiMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Send a call and wait for its answer.

        Raises:
            BadInput: the arguments do not fit the method, or have no JSON form.
            QuarterdeckError: the error with which the service answered.
            ServiceError: the socket dropped, or no answer came in time; the call may have taken effect.
        """
        form = protocol.wire_form(method)
        return await self._request(form, form.encode_arguments(args, kwargs))

    async def _request(self, method: protocol.Method, params: dict[str, Any]) -> Any:
        number = next(self._numbers)
        frame = protocol.encode({"id": number, "method": method.name, "params": params})
        if self.closed.is_set():
            raise self.gone()
        answer = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._methods[number] = method
        allowed = self._time_for(method, params)
        try:
            async with asyncio.timeout(allowed):
                await self._send(frame)
                return await answer
        except TimeoutError:
            self._send_soon({"forget": number})
            raise ServiceError(
                f"The service did not answer {method.name} within {allowed:g} s.", ErrorCode.SERVICE_SILENT
            ) from None
        except asyncio.CancelledError:
            self._send_soon({"forget": number})
            raise
        finally:
            self._waiting.pop(number, None)
            self._methods.pop(number, None)

    def _time_for(self, method: protocol.Method, params: dict[str, Any]) -> float:
        if method.name == "wait_run":
            return float(params["timeout"]) + WAIT_SLACK
        return method.api.answer_within or self._timeout

    async def close(self) -> None:
        await self._connection.close()
        await self._end("This program has closed the connection.")

    async def _send(self, frame: bytes) -> None:
        # Frames keep their order: a subscription is sent before the call whose snapshot it continues.
        frames, self._unsent = [*self._unsent, frame], []
        try:
            for waiting in frames:
                await self._connection.send(waiting, text=True)
        except ConnectionClosed as error:
            raise self.gone() from error

    def _send_soon(self, frame: dict[str, Any]) -> None:
        if not self.closed.is_set():
            self._unsent.append(protocol.encode(frame))
            self._tasks.spawn("send", self._flush())

    async def _flush(self) -> None:
        if self._unsent:
            frame = self._unsent.pop()
            try:
                await self._send(frame)
            except ServiceError:
                log.debug("the socket dropped before a frame was sent")

    async def _read(self) -> None:
        try:
            while True:
                await self._take(await self._connection.recv())
                # `recv` returns frames that have already arrived without suspending; other tasks must run.
                await asyncio.sleep(0)
        except ConnectionClosed as closed:
            reason = closed.rcvd.reason if closed.rcvd and closed.rcvd.reason else ""
            self.cut_off = closed.rcvd is not None and closed.rcvd.code == CloseCode.POLICY_VIOLATION
            await self._end(reason or "The connection to the service was lost.")
        except (QuarterdeckError, ValueError, KeyError, TypeError) as error:
            await self._connection.close(1002)
            await self._end(f"The service sent a frame that cannot be read: {error}")

    async def _take(self, data: str | bytes) -> None:
        if isinstance(data, bytes):
            number = int.from_bytes(data[: protocol.ID_BYTES], "big")
            await self._settle(number, data[protocol.ID_BYTES :], None)
            return
        frame = protocol.decode(data)
        if "stream" in frame:
            if stream := self._streams.get(frame["stream"]):
                await stream.read(frame["events"])
            else:
                # The reader was dropped without closing the stream.
                self._send_soon({"unsubscribe": frame["stream"]})
        elif "error" in frame:
            await self._settle(frame.get("id"), None, error_from(ErrorInfo.model_validate(frame["error"])))
        else:
            await self._settle(frame["id"], frame["result"], None)

    async def _settle(self, number: int | None, value: Any, error: QuarterdeckError | None) -> None:
        answer = self._waiting.get(number) if number is not None else None
        if number is None or answer is None or answer.done():
            return
        method = self._methods[number]
        if error is None and not method.gives_bytes:
            try:
                value = await read_result(method, value)
            except ValueError as problem:
                error = QuarterdeckError(
                    sentences(f"The answer to {method.name} cannot be read: {problem}"), ErrorCode.INTERNAL
                )
        if answer.done():
            return  # the caller was cancelled while the result was validated
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)

    async def _end(self, reason: str) -> None:
        if self.closed.is_set():
            return
        self.closed_reason = reason
        self.closed.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self.gone())
        for stream in list(self._streams.values()):
            stream.wake()
        await self._tasks.close()


async def _say_hello(
    connection: ClientConnection, client: protocol.Client, actor: str, token: str
) -> protocol.Welcome:
    hello = {"api_version": API_VERSION, "client": client, "actor": actor, "version": __version__}
    if token:
        hello["token"] = token
    await connection.send(protocol.encode({"hello": hello}), text=True)
    frame = protocol.decode(await connection.recv())
    if "error" in frame:
        raise error_from(ErrorInfo.model_validate(frame["error"]))
    return protocol.Welcome.model_validate(frame.get("welcome"))


async def read_result(method: protocol.Method, value: Any) -> Any:
    """Validate an answer's JSON data as `method.result`, long lists in pages.

    Raises:
        ValidationError: the data do not fit the method's result type.
    """
    if isinstance(value, list):
        if len(value) > protocol.PAGE and (element := _model_in(method.result_type)) is not None:
            value = await _in_pages(_list_of(element).validate_python, value)
    elif isinstance(value, dict):
        for key, element in _lists_of(method.result_type).items():
            if isinstance(part := value.get(key), list) and len(part) > protocol.PAGE:
                built = await _in_pages(_list_of(element).validate_python, part)
                value = {**value, key: built}
    # Accepts the models that are already built unchanged.
    return method.result.validate_python(value)


async def _in_pages(build: Callable[[list[Any]], list[Any]], values: list[Any]) -> list[Any]:
    built: list[Any] = []
    async for page in in_turns(protocol.pages_of(values)):
        built += build(page)
    return built


@cache
def _list_of(element: type[BaseModel]) -> TypeAdapter[list[Any]]:
    return TypeAdapter(list[element])  # type: ignore[valid-type]  # known only at run time


@cache
def _lists_of(annotation: Any) -> dict[str, type[BaseModel]]:
    """The keys of a model's fields that are lists of models; empty if the type is not a model."""
    if not (inspect.isclass(annotation) and issubclass(annotation, BaseModel)):
        return {}
    listed = {
        field.alias or name: _model_in(field.annotation) for name, field in annotation.model_fields.items()
    }
    return {key: element for key, element in listed.items() if element is not None}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The element type of a `list[Model]`; None for any other type."""
    if typing.get_origin(annotation) is not list:
        return None
    (element,) = typing.get_args(annotation)
    return element if inspect.isclass(element) and issubclass(element, BaseModel) else None
