"""A server behind an address: streamable HTTP, with answers no larger than this device takes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.streamable_http import streamable_http_client

from core.device.mcp.config import ServerConfig

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_CONNECT_S = 15.0
_CLOSE_S = 1.0


class AnswerTooLarge(httpx2.StreamError):
    """An answer that is larger than this device takes, or is packed so that its size cannot be known."""


class _Counted(httpx2.AsyncByteStream):
    """The bytes of an answer, as long as they are no more than `most`; None stands for any number."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int | None, packed: bool) -> None:
        self._stream = stream
        self._most = most
        self._packed = packed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._packed:
            # A small packed answer may unpack to any size. We asked for plain ones.
            raise AnswerTooLarge("it is compressed, which was not asked for")
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if self._most is not None and size > self._most:
                raise AnswerTooLarge(f"it is larger than {self._most} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextlib.asynccontextmanager
async def open_web(server: ServerConfig, most: int, longest_s: float) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of a session with a server that is reached by HTTP.

    `most` bounds one answer, in bytes; `longest_s` is how long one may keep silent.
    """

    async def bound(response: httpx2.Response) -> None:
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        # A stream of events has no end; the SDK bounds each event.
        events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Counted(response.stream, None if events else most, packed)

    async def hurry(request: httpx2.Request) -> None:
        if request.method == "DELETE":
            # The courtesy at a session's end does not hold up whoever ends it.
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), _CLOSE_S)

    client = httpx2.AsyncClient(
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
