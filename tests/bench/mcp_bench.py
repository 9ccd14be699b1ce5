"""Public MCP servers behind our router, as users will have them: what they list and send, what a call costs.

They come from the npm registry (and one from Python's) into a temporary folder, by name only. Where npm or
the network is missing, they are left out, in words. The peer of each latency is a bare echo of our own.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
import venv
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.aip.messages import Command, Result, ResultStatus
from core.commands.live_secrets import Redaction
from core.device import DeviceConfig, Router, build_router
from core.device.mcp.config import parse_servers
from core.device.mcp.host import McpHost
from core.dispatch.result_sanitizer import UnusableAnswer, take_evidence
from tests.bench.figures import Figure, Figures, Note, Peer, Scale, p95
from tests.fakes.mcp_server import rogue

EVERYTHING = "@modelcontextprotocol/server-everything"
FILES = "@modelcontextprotocol/server-filesystem"
CLOCK = "mcp-server-time"
CALLS = 300
_INSTALL_S = 180.0
_START_S = 60.0


def run(scale: Scale) -> Figures:
    """Install the servers and call them; the smallest run has our own only, and needs no network."""
    with tempfile.TemporaryDirectory(prefix="mcp-bench-") as folder:
        place = Path(folder)
        problem = "the smallest run has our own server only" if scale.smallest else _install(place)
        clock = None if problem else _install_clock(place)
        lines = asyncio.run(_measure(place, None if problem else Public(place, clock), scale.of(CALLS, 5)))
        return [*([Note("public MCP servers", f"left out: {problem}")] if problem else []), *lines]


@dataclass(frozen=True, slots=True)
class Public:
    """The installed public servers; `clock` is the program of the one in Python, if that was installed."""

    place: Path
    clock: str | None

    def program(self, name: str) -> str:
        """The program of a server written in JavaScript."""
        return str(self.place / "node_modules" / ".bin" / name)


def _install(place: Path) -> str:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return "npm and node are not installed"
    command = [
        npm,
        "install",
        "--prefix",
        str(place),
        "--no-audit",
        "--no-fund",
        "--silent",
        EVERYTHING,
        FILES,
    ]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=_INSTALL_S, check=False, cwd=place)
    except subprocess.TimeoutExpired:
        return "npm did not end in time"
    return "" if ended.returncode == 0 else "npm cannot reach its registry"


def _install_clock(place: Path) -> str | None:
    """A server written in Python, in an environment of its own; None when it cannot be had."""
    venv.create(place / "venv", with_pip=True)
    python = place / "venv" / "bin" / "python"
    try:
        ended = subprocess.run(
            [python, "-m", "pip", "install", "--quiet", CLOCK],
            capture_output=True,
            timeout=_INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return str(place / "venv" / "bin" / CLOCK) if ended.returncode == 0 else None


async def _measure(place: Path, public: Public | None, calls: int) -> Figures:
    root = place / "root"
    root.mkdir()
    servers: dict[str, Any] = {**rogue("echo", tools=["say"])}
    async with AsyncExitStack() as stack:
        if public is not None:
            everything = public.program("mcp-server-everything")
            servers["everything"] = {"command": everything}
            servers["files"] = {"command": public.program("mcp-server-filesystem"), "args": [str(root)]}
            if public.clock is not None:
                servers["clock"] = {"command": public.clock}
            port = await stack.enter_async_context(_http(everything))
            servers["web"] = {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"}
        config = DeviceConfig(roots=(root,))
        router = build_router(config, place / "state", "bench")
        stack.push_async_callback(router.close)
        router.hosted = McpHost(parse_servers(servers, "bench"), router, config, router.children)
        router.hosted.start()
        await router.hosted.settled(_START_S)
        return await _lines(_Caller(router, calls), router.hosted, root, public)


@asynccontextmanager
async def _http(program: str) -> AsyncIterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        program,
        "streamableHttp",
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield port
    finally:
        process.kill()
        await process.wait()


class _Nowhere:
    """Keeps no evidence."""

    async def put_blob(self, data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()


class _Caller:
    """Calls tools by server and their own name, and keeps count."""

    def __init__(self, router: Router, rounds: int) -> None:
        self._router, self._rounds = router, rounds
        self.calls = 0
        self.failed: list[str] = []
        self.kinds: Counter[str] = Counter()
        self.progress = 0

    def names(self, server: str) -> list[str]:
        return [info.tool_name for info in self._router.tools() if info.namespace == server]

    async def __call__(self, server: str, tool: str, **given: Any) -> Result:
        infos = [info for info in self._router.tools() if info.namespace == server]
        info = next(info for info in infos if info.tool_name in {tool, f"{server}_{tool}"})
        command = Command(tool_name=info.tool_name, tool_type=info.tool_type, parameters=given, call_id="b")
        result = await self._router.run(command, 30, report=self._report)
        self.calls += 1
        try:
            # What a device sends is worth something once a console takes it.
            await take_evidence(result.result, _Nowhere(), Redaction())
        except UnusableAnswer as error:
            self.failed.append(f"{server}.{tool}: {error.message}")
            return result
        if result.status is ResultStatus.SUCCESS:
            self.kinds.update(block["type"] for block in result.result["content"])
            self.kinds.update(["structured"] if "structured" in result.result else [])
        else:
            self.failed.append(f"{server}.{tool}: {result.error}")
        return result

    def _report(self, text: str = "", **more: Any) -> None:
        self.progress += 1

    async def latency(self, words: str, peer: Peer | None, server: str, tool: str, **given: Any) -> Figure:
        """The median of some calls."""
        times = []
        for _ in range(self._rounds):
            began = time.perf_counter()
            await self(server, tool, **given)
            times.append((time.perf_counter() - began) * 1000)
        return Figure(words, statistics.median(times), "ms", peer, f"p95 {p95(times):.2f} ms")


async def _lines(call: _Caller, host: McpHost, root: Path, public: Public | None) -> Figures:
    lines: Figures = [
        Note(
            f"{state.name} ({state.kind})",
            f"{state.state.value}, {state.tools} tools {state.reason}".rstrip(),
        )
        for state in host.states()
    ]
    text = {"content": [{"type": "text", "text": "Echo: x"}]}
    own = await call.latency("our bare echo over stdio", None, "echo", "say", answer=text)
    lines.append(own)
    if public is not None:
        lines += await _public(call, root, public, Peer("our bare echo", own.value))
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(call.kinds.items()))
    return [
        *lines,
        Note("content received", f"{kinds}; {call.progress} progress reports"),
        Figure("calls made", call.calls, "calls"),
        Figure("calls failed", len(call.failed), "calls", remark="; ".join(call.failed)[:200]),
    ]


async def _public(call: _Caller, root: Path, public: Public, peer: Peer) -> Figures:
    for server in ("everything", "web"):
        await _every_kind(call, server)
    await _files(call, root)
    stdio, http = "everything: echo over stdio", "everything: echo over streamable HTTP"
    lines: Figures = [
        await call.latency(stdio, peer, "everything", "echo", message="x"),
        await call.latency(http, peer, "web", "echo", message="x"),
        await call.latency(
            "filesystem: list_directory over stdio", peer, "files", "list_directory", path=str(root)
        ),
    ]
    if public.clock is not None:
        words = "time: get_current_time over stdio"
        lines.append(await call.latency(words, peer, "clock", "get_current_time", timezone="UTC"))
    return lines


async def _every_kind(call: _Caller, server: str) -> None:
    await call(server, "echo", message="hello")
    await call(server, "get-sum", a=0, b=0)
    await call(server, "get-structured-content", location="New York")
    await call(server, "get-annotated-message", messageType="error", includeImage=True)
    await call(server, "get-resource-links", count=2)
    await call(server, "get-resource-reference", resourceType="Blob", resourceId=1)
    await call(server, "get-resource-reference", resourceType="Text", resourceId=1)
    picture = await call(server, "get-tiny-image")
    for block in picture.result["content"]:
        if block["type"] == "image":
            assert base64.b64decode(block["data_base64"]).startswith(b"\x89PNG")
    await call(server, "trigger-long-running-operation", duration=1, steps=4)


async def _files(call: _Caller, root: Path) -> None:
    path = str(root / "note.txt")
    await call("files", "create_directory", path=str(root / "folder"))
    await call("files", "write_file", path=path, content="")
    await call("files", "read_text_file", path=path)
    await call("files", "edit_file", path=path, edits=[], dryRun=True)
    await call("files", "list_directory", path=str(root))
    await call("files", "get_file_info", path=path)
    await call("files", "directory_tree", path=str(root))
