"""A server behind an address: streamable HTTP, with answers no larger than this device takes.

Of an HTTP status that is an error the SDK tells no more than that there was one. Here it becomes a JSON-RPC
error that says which, in the server's words, and by its code whether anything can have run.
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

# Codes of our own. Nothing ran: it was not reached, has forgotten our session, does not let us in, or did not
# take this request.
NOT_SENT, SESSION_GONE, SHUT_OUT, NOT_TAKEN = -32098, -32097, -32096, -32095
# Something between it and us failed, or it did: whether it ran, nobody says.
BROKEN = -32094
_SHUT = frozenset({401, 403, 404, 407, 410})
_SESSION = "mcp-session-id"
# No such method, no such arguments: whoever says so has found the session.
_OF_THE_REQUEST = frozenset({-32601, -32602})
_MOST_SAID = 300
_MOST_ERROR, _ERROR_S = 256 * 1024, 5.0


class AnswerTooLarge(httpx2.StreamError):
    """An answer that is larger than this device takes, or is packed so that its size cannot be known."""


class AnswerBrokenOff(httpx2.StreamError):
    """An answer of which only the beginning came."""


class _Counted(httpx2.AsyncByteStream):
    """The bytes of an answer, as long as they are no more than `most`; None stands for any number.

    A stream of `news` that breaks off has ended, no more: the SDK opens one again that ended, but gives it up
    for ever where it broke off twice, be it in a week, or where a server had nothing to say for some time.
    """

    def __init__(self, stream: httpx2.AsyncByteStream, most: int | None, packed: bool, news: bool) -> None:
        self._stream = stream
        self._most = most
        self._packed = packed
        self._news = news

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        if self._packed:
            # A small packed answer may unpack to any size. We asked for plain ones.
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
    """An answer that was read, and put in other words; closing it closes the one that was read."""

    def __init__(self, body: bytes, read: httpx2.AsyncByteStream) -> None:
        self._body = body
        self._read = read

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    async def aclose(self) -> None:
        await self._read.aclose()


class _Client(httpx2.AsyncClient):
    """Where no answer comes to a request, one of our own: for the SDK that would be the end of all others."""

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
    """Have a refusal say what it is."""
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
        # Both are in use for a session that the server has forgotten, with various codes beside them.
        told = _failure(SESSION_GONE, words)
    elif said:
        # An answer like any other, though some leave its id out.
        told = _failure(said["code"], said["message"], said.get("data"))
    else:
        code = SHUT_OUT if status in _SHUT else NOT_TAKEN if status < 500 else BROKEN
        told = _failure(code, words)
    response.headers.pop("content-encoding", None)
    response.headers["content-type"] = "application/json"
    response.stream = _Said(json.dumps(told).encode(), stream)


def _error_in(body: bytes) -> dict[str, Any]:
    """The JSON-RPC error that a body is; empty where it is none."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    error = said.get("error") if isinstance(said, dict) else None
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        return {}
    return error if isinstance(error.get("message"), str) else {}


def _shown(response: httpx2.Response, body: bytes) -> str:
    """The beginning of what a server says to people; pages are none of it."""
    if "html" in response.headers.get("content-type", "").lower():
        return ""
    return " ".join(body[: 4 * _MOST_SAID].decode("utf-8", "replace").split())[:_MOST_SAID]


@contextlib.asynccontextmanager
async def open_web(
    server: ServerConfig, most: int, longest_s: float, on_gap: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of a session with a server that is reached by HTTP.

    `most` bounds one answer, in bytes; `longest_s` is how long one may keep silent. `on_gap` is called when
    news are heard again after some time in which nobody heard them.
    """
    streams_of_news = 0

    async def bound(response: httpx2.Response) -> None:
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        # A stream of events has no end; the SDK bounds each event.
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
            # The courtesy at a session's end does not hold up whoever ends it.
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), _CLOSE_S)

    client = _Client(
        headers={**server.headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(_CONNECT_S, read=longest_s),
        event_hooks={"request": [hurry], "response": [bound]},
        # A proxy from the environment has no business between two ends on one machine.
        trust_env=urlsplit(server.url).hostname not in _LOOPBACK,
    )
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=most) as streams,
    ):
        yield streams
