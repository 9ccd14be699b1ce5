"""The streamable HTTP transport: connects to an MCP server at an address, with bounded answers.

The SDK reports an HTTP error status without its details. This transport turns the status into a JSON-RPC
error with the server's message and a code that says whether the call can have run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.streamable_http import streamable_http_client

from core.broken_text import mended_json
from core.device.mcp.config import ServerConfig

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_CONNECT_S = 15.0
_CLOSE_S = 1.0

# Codes of this transport. Nothing ran, because the server was not reached, has lost the session, denied
# access, or rejected the request.
NOT_SENT, SESSION_GONE, ACCESS_DENIED, REJECTED = -32098, -32097, -32096, -32095
# The server or the connection failed; it is unknown whether the call ran.
CONNECTION_BROKEN = -32094
_ACCESS_STATUSES = frozenset({401, 403, 404, 407, 410})
_SESSION = "mcp-session-id"
# Unknown method, invalid arguments: a server that reports these has found the session.
_REQUEST_ERRORS = frozenset({-32601, -32602})
_MOST_TEXT = 300
_LARGE = 512 * 1024
_MOST_ERROR, _ERROR_S = 256 * 1024, 5.0


class AnswerTooLarge(httpx2.StreamError):
    """An answer that is larger than this device accepts, or compressed, so that its size is unknown."""


class AnswerIncomplete(httpx2.StreamError):
    """An answer that ended before it was complete."""


class _BoundedStream(httpx2.AsyncByteStream):
    """The bytes of an answer, `most` at most (None for no limit), with U+FFFD in place of broken text.

    A broken stream of `notifications` is reported as ended. The SDK reopens a stream that ended, but gives it
    up for ever after two breaks, even a week apart, or after a read time-out on a silent server.
    """

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        most: int | None,
        longest_line: int,
        compressed: bool,
        notifications: bool,
    ) -> None:
        self._stream = stream
        self._most = most
        self._longest_line = longest_line
        self._compressed = compressed
        self._notifications = notifications

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        if self._compressed:
            # A small compressed answer may expand to any size. The request asked for uncompressed ones.
            raise AnswerTooLarge("it is compressed, which was not asked for")
        size = 0
        # The beginning of a line. Neither JSON nor an event has a line break within a text, so what is broken
        # stands whole in a line.
        line: list[bytes] = []
        line_size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if self._most is not None and size > self._most:
                    raise AnswerTooLarge(f"it is larger than {self._most} bytes")
                lines, end, rest = chunk.rpartition(b"\n")
                if end:
                    yield await _mended(b"".join([*line, lines, end]))
                    line, line_size = [], 0
                line.append(rest)
                line_size += len(rest)
                if line_size > self._longest_line:
                    # More than the SDK accepts for an event; it says so.
                    yield b"".join(line)
                    line, line_size = [], 0
            if line_size:
                yield await _mended(b"".join(line))
        except httpx2.TransportError as error:
            if not self._notifications:
                raise AnswerIncomplete(f"it broke off: {error or type(error).__name__}") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _mended(data: bytes) -> bytes:
    # A megabyte takes some milliseconds, which would block the event loop.
    return mended_json(data) if len(data) <= _LARGE else await asyncio.to_thread(mended_json, data)


class _BufferedStream(httpx2.AsyncByteStream):
    """A replacement for an answer that was read; closing it closes the original stream."""

    def __init__(self, body: bytes, original: httpx2.AsyncByteStream) -> None:
        self._body = body
        self._original = original

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    async def aclose(self) -> None:
        await self._original.aclose()


class _Client(httpx2.AsyncClient):
    """An HTTP client that answers a failed POST with a JSON-RPC error.

    An exception in one request would make the SDK end all others.
    """

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            return await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            message, code = str(error) or type(error).__name__, CONNECTION_BROKEN
            if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
                message, code = f"It cannot be reached: {message}", NOT_SENT
            elif isinstance(error, httpx2.PoolTimeout):
                message, code = "Too much is under way with it already", REJECTED
            return httpx2.Response(503, json=_failure(code, message), request=request)


def _failure(code: int, message: str, data: Any = None) -> dict[str, Any]:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": None, "error": error}


async def _describe_error(response: httpx2.Response) -> None:
    """Replace the body of an error response by a JSON-RPC error that describes it."""
    stream = response.stream
    assert isinstance(stream, _BoundedStream)
    body = b""
    with contextlib.suppress(httpx2.StreamError, httpx2.TransportError, TimeoutError):
        async with asyncio.timeout(_ERROR_S), contextlib.aclosing(stream.__aiter__()) as parts:
            async for part in parts:
                body += part
                if len(body) > _MOST_ERROR:
                    break
    error = _error_in(body)
    in_session = _SESSION in response.request.headers
    status = response.status_code
    message = f"It answers {status} {response.reason_phrase}".rstrip()
    if details := error.get("message") or _plain_text(response, body):
        message = f"{message}: {details}"
    of_session = status == 404 or (status == 400 and b"session" in body.lower())
    if in_session and of_session and error.get("code") not in _REQUEST_ERRORS:
        # Servers use both statuses, with various error codes, for a session that they have lost.
        replacement = _failure(SESSION_GONE, message)
    elif error:
        # The server's own JSON-RPC error; some servers omit its id.
        replacement = _failure(error["code"], error["message"], error.get("data"))
    else:
        code = (
            ACCESS_DENIED if status in _ACCESS_STATUSES else REJECTED if status < 500 else CONNECTION_BROKEN
        )
        replacement = _failure(code, message)
    response.headers.pop("content-encoding", None)
    response.headers["content-type"] = "application/json"
    response.stream = _BufferedStream(json.dumps(replacement).encode(), stream)


def _error_in(body: bytes) -> dict[str, Any]:
    """The JSON-RPC error in a body; empty where there is none."""
    try:
        response = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    error = response.get("error") if isinstance(response, dict) else None
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        return {}
    return error if isinstance(error.get("message"), str) else {}


def _plain_text(response: httpx2.Response, body: bytes) -> str:
    """The beginning of a plain-text error body; empty for an HTML page."""
    if "html" in response.headers.get("content-type", "").lower():
        return ""
    return " ".join(body[: 4 * _MOST_TEXT].decode("utf-8", "replace").split())[:_MOST_TEXT]


@contextlib.asynccontextmanager
async def open_http(
    server: ServerConfig, most: int, longest_s: float, on_gap: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of a session with a server at an HTTP address.

    `most` bounds an answer, in bytes; `longest_s` bounds the wait between parts of it, in seconds. `on_gap`
    is called when the notification stream reopens, because notifications may have been missed meanwhile.
    """
    notification_streams = 0

    async def bound_response(response: httpx2.Response) -> None:
        compressed = response.headers.get("content-encoding", "identity").lower() != "identity"
        # An event stream is not bounded as a whole; the SDK bounds each event.
        events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        nonlocal notification_streams
        refused = response.is_error and response.request.method == "POST"
        notifications = events and not response.is_error and response.request.method == "GET"
        response.stream = _BoundedStream(
            response.stream, None if events and not refused else most, most, compressed, notifications
        )
        if refused:
            await _describe_error(response)
        if notifications:
            notification_streams += 1
            if notification_streams > 1:
                on_gap()

    async def bound_delete(request: httpx2.Request) -> None:
        if request.method == "DELETE":
            # The DELETE at a session's end is optional and must not delay the caller.
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), _CLOSE_S)

    client = _Client(
        headers={**server.headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(_CONNECT_S, read=longest_s),
        event_hooks={"request": [bound_delete], "response": [bound_response]},
        # Connections within this machine must not use a proxy from the environment.
        trust_env=urlsplit(server.url).hostname not in _LOOPBACK,
    )
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=most) as streams,
    ):
        yield streams
