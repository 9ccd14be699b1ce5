"""MCP servers for tests, as processes: a proper one made with the SDK, and a rogue that does as it is told.

`python mcp_server.py rogue|stdio|http [OPTIONS]`. The rogue knows no SDK, so it starts at once and can break
every rule; what it does is chosen by the tool that is called.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRIPT = str(Path(__file__).resolve())
PAGE = 100
NO_ARGUMENTS = {"type": "object", "properties": {}}
ANY_ARGUMENTS = {"type": "object"}


def rogue(name: str = "rogue", env: dict[str, str] | None = None, **options: Any) -> dict[str, Any]:
    """An entry of `mcpServers` for a rogue. Options: `tools` (names to list), `count`, `fifo`, `dead`,
    `begin` (what it writes first)."""
    args = ["-P", SCRIPT, "rogue", json.dumps(options)]
    return {name: {"command": sys.executable, "args": args, "env": env or {}}}


def proper(name: str = "proper") -> dict[str, Any]:
    """An entry of `mcpServers` for the server made with the SDK, over stdio."""
    return {name: {"command": sys.executable, "args": ["-P", SCRIPT, "stdio"]}}


class Rogue:
    """Reads requests and answers them, or does not."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.cancelled: list[Any] = []
        self.extra: list[str] = []
        self.waiting: Any = None
        self.version = 0

    def run(self) -> None:
        os.write(1, self.options.get("begin", "").encode())
        if self.options.get("dead"):
            sys.exit(f"cannot go on: {os.environ.get('TOKEN', '')}\nsee the log")
        if fifo := self.options.get("fifo"):
            Path(fifo).read_text()
        while line := sys.stdin.readline():
            message = json.loads(line)
            method, params = message.get("method"), message.get("params", {})
            if method == "notifications/cancelled":
                self.cancelled.append(params["requestId"])
            elif method is None and self.waiting is not None:
                self.answer(self.waiting, text(json.dumps(message)))
            elif "id" in message:
                self.serve(message["id"], method, params)

    def serve(self, number: Any, method: str, params: dict[str, Any]) -> None:
        if method == "initialize":
            info = {"name": "rogue", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            version = params["protocolVersion"]
            self.answer(
                number, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
            )
        elif method == "tools/list":
            self.answer(number, self.page(params.get("cursor")))
        elif method == "ping":
            self.answer(number, {})
        elif method == "tools/call":
            getattr(self, f"do_{params['name']}", self.do_nothing)(number, params.get("arguments", {}))
        else:
            self.send(
                {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no such method"}}
            )

    def page(self, cursor: str | None) -> dict[str, Any]:
        own = [name[3:] for name in dir(self) if name.startswith("do_")]
        names = [*self.options.get("tools", own), *self.extra]
        names += [f"tool_{index}" for index in range(self.options.get("count", 0))]
        start = int(cursor or 0)
        listed = [definition(name) for name in names[start : start + PAGE]]
        for said in listed:
            if said["name"] == "versioned" and self.version:
                said["description"] = f"Does versioned, version {self.version}."
        page: dict[str, Any] = {"tools": listed}
        if start + PAGE < len(names):
            page["nextCursor"] = str(start + PAGE)
        return page

    def answer(self, number: Any, result: dict[str, Any]) -> None:
        self.send({"jsonrpc": "2.0", "id": number, "result": result})

    def send(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def do_say(self, number: Any, given: dict[str, Any]) -> None:
        self.answer(number, given["answer"])

    do_say_typed = do_say

    def do_nothing(self, number: Any, given: dict[str, Any]) -> None:
        self.answer(number, text("nothing"))

    def do_refuse(self, number: Any, given: dict[str, Any]) -> None:
        words = f"refused with {os.environ.get('TOKEN', '')}"
        self.send({"jsonrpc": "2.0", "id": number, "error": {"code": -32000, "message": words}})

    def do_die(self, number: Any, given: dict[str, Any]) -> None:
        os._exit(3)

    def do_die_reading(self, number: Any, given: dict[str, Any]) -> None:
        os._exit(3)

    def do_hang(self, number: Any, given: dict[str, Any]) -> None:
        if "fifo" in given:
            Path(given["fifo"]).write_text("x")

    do_hang_reading = do_hang

    def do_cancelled(self, number: Any, given: dict[str, Any]) -> None:
        self.answer(number, {"content": [], "structuredContent": {"cancelled": self.cancelled}})

    def do_huge(self, number: Any, given: dict[str, Any]) -> None:
        result = json.dumps(text("x" * given["size"]))
        form = (
            '{"result":%s,"jsonrpc":"2.0","id":%s}'
            if given.get("id_last")
            else ('{"jsonrpc":"2.0","result":%s,"id":%s}')
        )
        sys.stdout.write(form % (result, number) + "\n")
        sys.stdout.flush()

    def do_noise(self, number: Any, given: dict[str, Any]) -> None:
        for index in range(given.get("lines", 5)):
            sys.stderr.write(f"noise {index} {os.environ.get('TOKEN', '')}\n")
        sys.stderr.write("y" * 200_000 + "\n")
        sys.stderr.flush()
        sys.stdout.write(f"not json {os.environ.get('TOKEN', '')}\n\n[1,\n{{}}\nnull\n")
        sys.stdout.buffer.flush()
        sys.stdout.flush()
        os.write(1, b"\xff\xfe broken\n")
        self.answer(number, text("said it all"))

    def do_grow(self, number: Any, given: dict[str, Any]) -> None:
        self.extra = given["names"]
        self.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        self.answer(number, text("grown"))

    def do_versioned(self, number: Any, given: dict[str, Any]) -> None:
        Path(given["ran"]).write_text(f"version {self.version}")
        self.answer(number, text("done"))

    def do_redefine(self, number: Any, given: dict[str, Any]) -> None:
        """Means something else by `versioned` from now on."""
        self.version += 1
        self.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        self.answer(number, text("redefined"))

    def do_ask_back(self, number: Any, given: dict[str, Any]) -> None:
        self.waiting = number
        ask = {"sampling/createMessage": {"messages": [], "maxTokens": 1}}.get(given["method"], {})
        self.send({"jsonrpc": "2.0", "id": 77, "method": given["method"], "params": ask})

    def do_progress(self, number: Any, given: dict[str, Any]) -> None:
        self.answer(number, text("done"))

    def do_environment(self, number: Any, given: dict[str, Any]) -> None:
        self.answer(number, {"content": [], "structuredContent": dict(os.environ)})

    def do_child(self, number: Any, given: dict[str, Any]) -> None:
        child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
        self.answer(number, {"content": [], "structuredContent": {"pid": child.pid, "own": os.getpid()}})

    def do_babble(self, number: Any, given: dict[str, Any]) -> None:
        """Answers, and then says the same line for ever."""
        self.answer(number, text("and now"))
        lines = given["line"].encode() * (65_536 // len(given["line"]))
        while True:
            os.write(given["to"], lines)

    def do_broken(self, number: Any, given: dict[str, Any]) -> None:
        """Answers with a text that is no JSON."""
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{number},"result":{given["result"]}}}\n')
        sys.stdout.flush()

    def do_deaf(self, number: Any, given: dict[str, Any]) -> None:
        """Never reads its input again, nor ends when it closes."""
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.answer(number, {"content": [], "structuredContent": {"own": os.getpid()}})
        while True:
            signal.pause()


READS = {"say_typed", "die_reading", "hang_reading", "cancelled", "environment"}


def definition(name: str) -> dict[str, Any]:
    said: dict[str, Any] = {"name": name, "description": f"Does {name}.", "inputSchema": ANY_ARGUMENTS}
    if name in READS:
        said["annotations"] = {"readOnlyHint": True, "somebodyElses": [1, None]}
    if name == "say_typed":
        said["outputSchema"] = {
            "type": "object",
            "properties": {"count": {"type": "integer"}},
            "required": ["count"],
        }
    if name == "remote":
        said["inputSchema"] = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}}
    if name == "bad_schema":
        said["inputSchema"] = {"type": "no such type"}
    if name == "wordy":
        said["description"] = "w" * 1_000_000
    if name == "long":
        said["description"] = "w" * 100_000
    return said


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def every_kind(picture: str) -> list[Any]:
    import mcp_types as types

    blob = types.BlobResourceContents(uri="x:blob", mime_type="application/zip", blob="UEsDBA==")
    words = types.TextResourceContents(uri="x:text", mime_type="text/plain", text="")
    return [
        types.TextContent(type="text", text=""),
        types.ImageContent(type="image", data=picture, mime_type="image/png"),
        types.AudioContent(type="audio", data="UklGRg==", mime_type="audio/wav"),
        types.EmbeddedResource(type="resource", resource=words),
        types.EmbeddedResource(type="resource", resource=blob),
        types.ResourceLink(type="resource_link", uri="x:link", name="link", size=0),
    ]


def proper_server() -> Any:
    """Every kind of content, progress, a changing list, and a tool that waits; made with the SDK."""
    import anyio
    import mcp_types as types
    from mcp.server.lowlevel import NotificationOptions, Server

    listed = ["kinds", "steps", "wait", "fail", "grow", "end", "waited"]
    state = {"waited": 0}

    async def on_list_tools(context: Any, params: Any) -> types.ListToolsResult:
        reads = types.ToolAnnotations(read_only_hint=True)
        tools = [
            types.Tool(
                name=name,
                title=f"To {name}",
                input_schema=ANY_ARGUMENTS,
                annotations=reads if name in {"kinds", "waited"} else None,
            )
            for name in listed
        ]
        return types.ListToolsResult(tools=tools)

    async def on_call_tool(context: Any, params: Any) -> types.CallToolResult:
        given = params.arguments or {}
        content: list[Any] = []
        structured: Any = None
        if params.name == "kinds":
            content = every_kind(given["picture"])
            structured = {"zero": 0, "no": False, "empty": "", "list": [], "nothing": None}
        elif params.name == "steps":
            for done in range(1, 4):
                await context.session.report_progress(done, 3, f"step {done}")
                # So far apart that a busy machine does not bring two of them close enough to be one.
                await anyio.sleep(0.2)
        elif params.name == "wait":
            state["waited"] += 1
            await anyio.Path(given["fifo"]).write_text("x")
            try:
                await anyio.sleep_forever()
            finally:
                state["waited"] -= 1
        elif params.name == "waited":
            structured = dict(state)
        elif params.name == "fail":
            failure = [types.TextContent(type="text", text="it went wrong")]
            return types.CallToolResult(content=failure, is_error=True)
        elif params.name == "grow":
            listed.append("grown")
            await context.session.send_tool_list_changed()
        elif params.name == "end":
            os._exit(4)
        return types.CallToolResult(content=content, structured_content=structured)

    server: Any = Server("proper", on_list_tools=on_list_tools, on_call_tool=on_call_tool)
    server.notification_options = NotificationOptions(tools_changed=True)
    return server


def serve_stdio() -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        server = proper_server()
        async with stdio_server() as (incoming, outgoing):
            await server.run(
                incoming, outgoing, server.create_initialization_options(server.notification_options)
            )

    anyio.run(serve)


def serve_http(options: dict[str, Any]) -> None:
    """Prints the port it listens on. With `token`, every request needs it."""
    import asyncio
    import socket

    import uvicorn

    app = proper_server().streamable_http_app(json_response=options.get("json", False))

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", []))
        wanted = options.get("token")
        if scope["type"] == "http" and wanted and headers.get(b"authorization") != wanted.encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you"})
            return
        await app(scope, receive, send)

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    # Whoever hears of the port may call at once, before the server is up: such a call waits.
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    server = uvicorn.Server(uvicorn.Config(guarded, log_level="error", lifespan="on"))
    asyncio.run(server.serve(sockets=[listener]))


if __name__ == "__main__":
    options = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    serve: dict[str, Callable[[], object]] = {
        "rogue": lambda: Rogue(options).run(),
        "stdio": serve_stdio,
        "http": lambda: serve_http(options),
    }
    serve[sys.argv[1]]()
