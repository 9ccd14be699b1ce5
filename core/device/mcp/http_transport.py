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

from core.device.mcp.config import ServerConfig

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_CONNECT_S = 15.0
_CLOSE_S = 1.0

# Codes of this transport. Nothing ran, because the server was not reached, has lost the session, denied
# access, or rejected the request.
NOT_SENT, SESSION_GONE, SHUT_OUT, NOT_TAKEN = -32098, -32097, -32096, -32095
# The server or the connection failed; it is unknown whether the call ran.
BROKEN = -32094
_SHUT = frozenset({401, 403, 404, 407, 410})
_SESSION = "mcp-session-id"
# Unknown method, invalid arguments: a server that reports these has found the session.
_OF_THE_REQUEST = frozenset({-32601, -32602})
_MOST_SAID = 300
_MOST_ERROR, _ERROR_S = 256 * 1024, 5.0


class AnswerTooLarge(httpx2.StreamError):
    """An answer that is larger than this device accepts, or compressed, so that its size is unknown."""


class AnswerBrokenOff(httpx2.StreamError):
    """An answer that ended before it was complete."""


class _Counted(httpx2.AsyncByteStream):
    """The bytes of an answer, `most` at most; None for no limit.

    A broken notification stream (`news`) is reported as ended. The SDK reopens a stream that ended, but gives
    it up for ever after two breaks, even a week apart, or after a read time-out on a silent server.
    """

    def __init__(self, stream: httpx2.AsyncByteStream, most: int | None, packed: bool, news: bool) -> None:
        self._stream = stream
        self._most = most
        self._packed = packed
        self._news = news

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        if self._packed:
            # A small compressed answer may expand to any size. The request asked for uncompressed ones.
            raise AnswerTooLarge("it is compressed, which was not asked for")
        size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if self._most is not None and size > self._most:
                    raise AnswerTooLarge(f"it is larger than {self._most} bytes")
                yield chunk
        except httpx2.TransportError as error:
            if not self._news:
                raise AnswerBrokenOff(f"it broke off: {error or type(error).__name__}") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Said(httpx2.AsyncByteStream):
    """A replacement for an answer that was read; closing it closes the original stream."""

    def __init__(self, body: bytes, read: httpx2.AsyncByteStream) -> None:
        self._body = body
        self._read = read

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    async def aclose(self) -> None:
        await self._read.aclose()


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
            words, code = str(error) or type(error).__name__, BROKEN
            if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
                words, code = f"It cannot be reached: {words}", NOT_SENT
            elif isinstance(error, httpx2.PoolTimeout):
                words, code = "Too much is under way with it already", NOT_TAKEN
            return httpx2.Response(503, json=_failure(code, words), request=request)


def _failure(code: int, words: str, data: Any = None) -> dict[str, Any]:
    error = {"code": code, "message": words} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": None, "error": error}


async def _put_in_words(response: httpx2.Response) -> None:
    """Replace the body of an error response by a JSON-RPC error that describes it."""
    stream = response.stream
    assert isinstance(stream, _Counted)
    body = b""
    with contextlib.suppress(httpx2.StreamError, httpx2.TransportError, TimeoutError):
        async with asyncio.timeout(_ERROR_S), contextlib.aclosing(stream.__aiter__()) as parts:
            async for part in parts:
                body += part
                if len(body) > _MOST_ERROR:
                    break
    said = _error_in(body)
    in_session = _SESSION in response.request.headers
    status = response.status_code
    words = f"It answers {status} {response.reason_phrase}".rstrip()
    if shown := said.get("message") or _shown(response, body):
        words = f"{words}: {shown}"
    of_session = status == 404 or (status == 400 and b"session" in body.lower())
    if in_session and of_session and said.get("code") not in _OF_THE_REQUEST:
        # Servers use both statuses, with various error codes, for a session that they have lost.
        told = _failure(SESSION_GONE, words)
    elif said:
        # The server's own JSON-RPC error; some servers omit its id.
        told = _failure(said["code"], said["message"], said.get("data"))
    else:
        code = SHUT_OUT if status in _SHUT else NOT_TAKEN if status < 500 else BROKEN
        told = _failure(code, words)
    response.headers.pop("content-encoding", None)
    response.headers["content-type"] = "application/json"
    response.stream = _Said(json.dumps(told).encode(), stream)


def _error_in(body: bytes) -> dict[str, Any]:
    """The JSON-RPC error in a body; empty where there is none."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    error = said.get("error") if isinstance(said, dict) else None
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        return {}
    return error if isinstance(error.get("message"), str) else {}


def _shown(response: httpx2.Response, body: bytes) -> str:
    """The beginning of a plain-text error body; empty for an HTML page."""
    if "html" in response.headers.get("content-type", "").lower():
        return ""
    return " ".join(body[: 4 * _MOST_SAID].decode("utf-8", "replace").split())[:_MOST_SAID]


@contextlib.asynccontextmanager
async def open_web(
    server: ServerConfig, most: int, longest_s: float, on_gap: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of a session with a server at an HTTP address.

    `most` bounds an answer, in bytes; `longest_s` bounds the wait between parts of it, in seconds. `on_gap`
    is called when the notification stream reopens, because notifications may have been missed meanwhile.
    """
    streams_of_news = 0

    async def bound(response: httpx2.Response) -> None:
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        # An event stream is not bounded as a whole; the SDK bounds each event.
        events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        nonlocal streams_of_news
        refused = response.is_error and response.request.method == "POST"
        news = events and not response.is_error and response.request.method == "GET"
        response.stream = _Counted(response.stream, None if events and not refused else most, packed, news)
        if refused:
            await _put_in_words(response)
        if news:
            streams_of_news += 1
            if streams_of_news > 1:
                on_gap()

    async def hurry(request: httpx2.Request) -> None:
        if request.method == "DELETE":
            # The DELETE at a session's end is optional and must not delay the caller.
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), _CLOSE_S)

    client = _Client(
        headers={**server.headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(_CONNECT_S, read=longest_s),
        event_hooks={"request": [hurry], "response": [bound]},
        # Connections within this machine must not use a proxy from the environment.
        trust_env=urlsplit(server.url).hostname not in _LOOPBACK,
    )
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=most) as streams,
    ):
        yield streams
