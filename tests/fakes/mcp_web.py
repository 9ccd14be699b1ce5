"""An MCP server over HTTP on the test's own loop: a proper one, but for what a test has it answer."""

from __future__ import annotations

import asyncio
import http
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port

Reply = tuple[int, dict[str, str], bytes]


def as_json(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    return status, {"content-type": "application/json", **(headers or {})}, json.dumps(body).encode()


def refusal(code: int, words: str, status: int = 200, **more: Any) -> Reply:
    """A JSON-RPC error; `id` is null unless `more` has it."""
    said = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": words}} | more
    return as_json(said, status)


@dataclass
class Web:
    """`answers` gives the reply to a message in the place of the proper one, or None; status 0 hangs up.

    `say` reads and `act` acts. `done` has the arguments of each call that was run; `gate` holds calls back,
    and pings, `greets` the handshake. With `tells`, it has a stream of news, which `cut` breaks off.
    """

    answers: Callable[[dict[str, Any], dict[str, str]], Reply | None] = lambda message, headers: None
    session: str = "first"
    port: int = 0
    description: str = ""
    done: list[dict[str, Any]] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    tells: bool = False
    names: list[str] = field(default_factory=lambda: ["say", "act"])
    streams: list[asyncio.StreamWriter] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    lines: set[asyncio.StreamWriter] = field(default_factory=set)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    greets: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()
        self.greets.set()

    @property
    def entry(self) -> dict[str, Any]:
        return {"web": {"type": "http", "url": f"http://127.0.0.1:{self.port}/mcp"}}

    async def hears(self, method: str, times: int = 1) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.heard.count(method) < times:
                self.news.clear()
                await self.news.wait()

    async def _reply(self, headers: dict[str, str], message: dict[str, Any]) -> Reply:
        method, number = message["method"], message.get("id")
        self.heard.append(method)
        self.news.set()
        if (own := self.answers(message, headers)) is not None:
            return own
        if number is None:
            return 202, {}, b""
        more: dict[str, str] = {}
        result: dict[str, Any] = {}
        if method == "initialize":
            await self.greets.wait()
            more["mcp-session-id"] = self.session
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "web", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": [self._tool(name, name == "say") for name in self.names]}
        elif method == "ping":
            await self.gate.wait()
        elif method == "tools/call":
            await self.gate.wait()
            self.done.append(message["params"]["arguments"])
            result = {"content": [{"type": "text", "text": "done"}]}
        return as_json({"jsonrpc": "2.0", "id": number, "result": result}, headers=more)

    def _tool(self, name: str, reads: bool) -> dict[str, Any]:
        said = {"name": name, "description": self.description, "inputSchema": {"type": "object"}}
        return said | {"annotations": {"readOnlyHint": reads}}

    async def _tell(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keep a stream of news open until it is cut, or nobody hears it any more."""
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        # Whoever is cut off shall come again at once.
        writer.write(f"{head}a\r\nretry: 1\n\n\r\n".encode())
        self.streams.append(writer)
        self.heard.append("GET")
        self.news.set()
        await reader.read()

    def cut(self) -> None:
        """Break the stream of news off in the middle."""
        self.streams.pop().close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {
                    key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if self.tells and first.startswith("GET"):
                    await self._tell(reader, writer)
                    break
                if first.startswith("POST"):
                    status, more, answer = await self._reply(headers, json.loads(body))
                else:
                    status, more, answer = 405, {}, b""
                if status == 0:
                    break
                more = {"content-length": str(len(answer))} | more
                head = f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n"
                head += "".join(f"{key}: {value}\r\n" for key, value in more.items())
                writer.write(head.encode() + b"\r\n" + answer)
                await writer.drain()
                if more.get("connection") == "close":
                    break
        writer.close()
        self.lines.discard(writer)


@asynccontextmanager
async def web_server(web: Web | None = None) -> AsyncIterator[Web]:
    """The server, until the context ends; at the port it has, if it has one."""
    web = web or Web()
    server = await asyncio.start_server(web.serve, "127.0.0.1", web.port or free_port())
    web.port = server.sockets[0].getsockname()[1]
    try:
        yield web
    finally:
        server.close()
        for line in web.lines:
            line.close()
        web.lines.clear()
