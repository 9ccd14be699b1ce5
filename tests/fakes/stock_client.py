"""A stand-in for a stock UFO device client: a real WebSocket client with its ways, and with its silences.

It speaks first, takes exactly one frame for the acknowledgement, runs one batch after the other with a pause
after each action, echoes the status, and says nothing at all about a batch that it cannot make sense of.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from core.tasks import TaskGroupOwner

API_KEY = "the-key-of-the-tools"
ALLOWED = {"echo", "cat", "ls", "tail", "test", "uname"}
LONGEST_S = 120
STATUSES = {"continue", "completed", "failed", "ok", "error"}
TYPES = {"action", "data_collection"}
KNOWN_FRAMES = {
    "task", "heartbeat", "task_end", "command", "error", "device_info_request", "device_info_response",
}  # fmt: skip
Run = Callable[..., Awaitable[Any]]


class Silent(Exception):
    """The client logs something, drops the whole frame, and never answers it."""


class ToolError(Exception):
    """An MCP call that failed: the one thing that becomes `failure`. One without words raises `Silent`."""


@dataclass(frozen=True)
class StockTool:
    """A tool of one of the client's MCP servers. A falsy value of `run` arrives as null."""

    run: Run
    properties: dict[str, Any]
    required: tuple[str, ...] = ()
    description: str | None = "What it does."


@dataclass(frozen=True)
class Server:
    """An MCP server of one agent, under one tool type."""

    namespace: str
    tools: dict[str, StockTool]


Agents = dict[str, dict[str, Server]]


async def execute_command(command: str, api_key: str, timeout: int = 30, cwd: str | None = None) -> Any:
    if api_key != API_KEY:
        return {"success": False, "error": "Authentication failed. Invalid or missing API key."}
    words = shlex.split(command)
    if not words or words[0] not in ALLOWED:
        why = "Command blocked by security policy. Only allow-listed commands may be executed."
        return {"success": False, "error": why}
    timeout = min(max(timeout, 1), LONGEST_S)
    process = await asyncio.create_subprocess_exec(
        *words, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), timeout)
    except TimeoutError:
        return {"success": False, "error": f"Timeout after {timeout}s."}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    texts = {"stdout": out.decode("utf-8", "replace"), "stderr": err.decode("utf-8", "replace")}
    return {"success": process.returncode == 0, "exit_code": process.returncode, **texts}


async def get_system_info(api_key: str) -> Any:
    if api_key != API_KEY:
        return {"error": "Authentication failed. Invalid or missing API key."}
    return {"uname": "Linux bench", "uptime": "up 8 min", "memory": "Mem: 23Gi", "disk": "/ 28%"}


async def read_sensor(name: str = "temperature") -> Any:
    return 0 if name == "zero" else {"name": name, "value": 21.5}


async def press_button(seconds: float = 0.0) -> Any:
    await asyncio.sleep(seconds)
    return ""


KEY = {"api_key": {"type": "string"}}
TEXT: dict[str, Any] = {"type": "string"}


def linux_agent() -> dict[str, Server]:
    """LinuxAgent has actions only, both of which want a key as a parameter."""
    run = StockTool(
        execute_command,
        {"command": TEXT, **KEY, "timeout": {"type": "integer"}, "cwd": TEXT},
        ("command", "api_key"),
    )
    info = StockTool(get_system_info, dict(KEY), ("api_key",))
    return {"action": Server("BashExecutor", {"execute_command": run, "get_system_info": info})}


def hardware_agent() -> dict[str, Server]:
    """HardwareAgent has one server, configured for both types: each of its tools is listed twice."""
    tools = {
        "read_sensor": StockTool(read_sensor, {"name": TEXT}),
        "press_button": StockTool(press_button, {"seconds": {"type": "number"}}),
    }
    return {
        "data_collection": Server("HardwareCollector", tools),
        "action": Server("HardwareExecutor", tools),
    }


@dataclass
class StockClient:
    """One client. `pause_s` is the sleep after each action: 0.1 in a real one. `start_s` is what an agent
    takes to reach its servers, at its first command."""

    url: str
    name: str
    agents: Agents = field(default_factory=lambda: {"LinuxAgent": linux_agent()})
    heartbeat_s: float = 120.0
    pause_s: float = 0.1
    start_s: float = 0.0
    started: set[str] = field(default_factory=set)
    ran: list[str] = field(default_factory=list)
    heard: list[dict[str, Any]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    lost: list[dict[str, Any]] = field(default_factory=list)
    registered: asyncio.Event = field(default_factory=asyncio.Event)
    running: asyncio.Event = field(default_factory=asyncio.Event)
    socket: ClientConnection | None = None

    async def run(self) -> None:
        """Connect once, register, and serve until the link ends."""
        tasks = TaskGroupOwner("stock client", lambda name, error: None)
        async with connect(self.url, proxy=None, max_size=100 * 2**20, close_timeout=1) as socket:
            self.socket = socket
            await self._say("register", "ok", metadata=self._metadata())
            # One frame, of whatever known type: it counts when its status is ok.
            first = json.loads(await socket.recv())
            self.heard.append(first)
            if first.get("type") not in KNOWN_FRAMES or first.get("status") != "ok":
                return
            self.registered.set()
            tasks.spawn("heartbeat", self._beat())
            try:
                async for data in socket:
                    await self._receive(data)
            except ConnectionClosed:
                return
            finally:
                await tasks.close()

    def _metadata(self) -> dict[str, Any]:
        system = {
            "device_id": self.name,
            "platform": "linux",
            "os_version": "#1 SMP",
            "cpu_count": 2,
            "memory_total_gb": 23.54,
            "hostname": "bench",
            "ip_address": "192.0.2.2",
            "supported_features": ["gui", "cli", "browser", "file_system", "office", "linux_apps"],
            "platform_type": "computer",
            "schema_version": "1.0",
            "custom_metadata": {},
        }
        return {"system_info": system, "registration_time": _now(), "platform": "linux"}

    async def _say(self, kind: str, status: str, **more: Any) -> None:
        frame: dict[str, Any] = {
            "type": kind,
            "status": status,
            "client_type": "device",
            **dict.fromkeys(("session_id", "task_name")),
            "client_id": self.name,
            **dict.fromkeys(("target_id", "request", "action_results")),
            "timestamp": _now(),
            **dict.fromkeys(("request_id", "prev_response_id", "error", "metadata")),
        }
        assert self.socket is not None
        await self.socket.send(json.dumps({**frame, **more}))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.heartbeat_s)
            try:
                await self._say("heartbeat", "ok")
            except ConnectionClosed:
                return

    async def _receive(self, data: str | bytes) -> None:
        """Read one frame, and do not read the next one before this one is done with."""
        try:
            frame = json.loads(data)
        except ValueError:
            self.dropped.append("malformed")
            return
        self.heard.append(frame)
        known = isinstance(frame, dict) and frame.get("type") in KNOWN_FRAMES
        if not known or frame.get("status") not in STATUSES:
            self.dropped.append("not a frame")
        elif not all(map(_is_action, frame.get("actions") or [])):
            # Read as a whole: one bad action, and those before it do not run either.
            self.dropped.append("bad action")
        elif frame["type"] == "command":
            await self._command(frame)

    async def _command(self, frame: dict[str, Any]) -> None:
        try:
            results = await self._batch(frame)
        except Silent as reason:
            self.dropped.append(str(reason))
            return
        answer = {
            "session_id": frame.get("session_id"),
            "action_results": results,
            "request_id": str(uuid4()),
            "prev_response_id": frame.get("response_id"),
        }
        try:
            await self._say("command_results", frame["status"], **answer)
        except ConnectionClosed:
            self.lost.append(answer)

    async def _batch(self, frame: dict[str, Any]) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        if not frame.get("actions"):
            return results
        agent = await self._agent(frame.get("agent_name") or "")
        failed = False
        for action in frame["actions"]:
            call_id = action.get("call_id")
            if action["tool_name"] == "":
                results.append(_result("success", "", "No action taken.", None, call_id))
                continue
            if failed:
                why = "Skipped due to previous failure (early_exit=True)."
                results.append(_result("skipped", why, None, None, call_id))
                continue
            result = await self._action(agent, action)
            failed = result["status"] == "failure"
            results.append(result)
            await asyncio.sleep(self.pause_s)
        return results

    async def _agent(self, name: str) -> dict[str, Server]:
        """The agent, whose tools are all taken in before its first command, whatever that is."""
        agent = self.agents.get(name)
        if agent is None:
            raise Silent("unknown agent")
        if any(tool.description is None for server in agent.values() for tool in server.tools.values()):
            raise Silent("a tool without a description")
        if name not in self.started:
            self.started.add(name)
            await asyncio.sleep(self.start_s)
        return agent

    async def _action(self, agent: dict[str, Server], action: dict[str, Any]) -> dict[str, Any]:
        parameters, call_id = action.get("parameters") or {}, action.get("call_id")
        server = agent.get(action["tool_type"])
        if server is None:
            raise Silent("the agent has nothing of this type")
        if action["tool_name"] == "list_tools":
            listed = _listing(agent, parameters)
            return _result("success", None, listed or None, server.namespace, call_id)
        tool = server.tools.get(action["tool_name"])
        if tool is None:
            raise Silent("unknown tool")
        self.ran.append(action["tool_name"])
        self.running.set()
        try:
            value = await _call(tool, parameters)
        except ToolError as error:
            return _result("failure", str(error), None, server.namespace, call_id)
        finally:
            self.running.clear()
        return _result("success", None, value or None, server.namespace, call_id)


async def _call(tool: StockTool, parameters: dict[str, Any]) -> Any:
    for name in tool.required:
        if name not in parameters:
            raise ToolError(f"Input validation error: '{name}' is a required property")
    for name in parameters:
        if name not in tool.properties:
            raise ToolError(f"Error calling tool: {name}: Unexpected keyword argument")
    return await tool.run(**parameters)


def _is_action(action: Any) -> bool:
    return (
        isinstance(action, dict)
        and isinstance(action.get("tool_name"), str)
        and action.get("tool_type") in TYPES
        and isinstance(action.get("parameters"), (dict, type(None)))
        and isinstance(action.get("call_id"), (str, type(None)))
    )


def _listing(agent: dict[str, Server], parameters: dict[str, Any]) -> list[dict[str, Any]]:
    if not set(parameters) <= {"tool_type", "namespace", "remove_meta"}:
        raise Silent("list_tools with a parameter it does not have")
    if not parameters.get("remove_meta", True):
        raise Silent("meta tools do not encode")
    listed: list[dict[str, Any]] = []
    for tool_type, server in agent.items():
        if parameters.get("tool_type") not in {None, tool_type}:
            continue
        if parameters.get("namespace") not in {None, server.namespace}:
            continue
        for name, tool in server.tools.items():
            schema = {"properties": tool.properties, "required": list(tool.required), "type": "object"}
            listed.append(
                {
                    "tool_key": f"{tool_type}::{name}",
                    "tool_name": name,
                    "title": None,
                    "namespace": server.namespace,
                    "tool_type": tool_type,
                    "description": tool.description,
                    "input_schema": schema,
                    "output_schema": {"additionalProperties": True, "type": "object"},
                    "meta": {"_fastmcp": {"tags": []}},
                    "annotations": None,
                }
            )
    return listed


def _result(
    status: str, error: str | None, result: Any, namespace: str | None, call_id: Any
) -> dict[str, Any]:
    return {"status": status, "error": error, "result": result, "namespace": namespace, "call_id": call_id}


def _now() -> str:
    return datetime.now(UTC).isoformat()


@asynccontextmanager
async def stock_client(url: str, name: str, **more: Any) -> AsyncIterator[StockClient]:
    """A stock client that runs beside the test; give it an address with `?token=`."""
    client = StockClient(url, name, **more)
    tasks = TaskGroupOwner("stock", lambda name, error: None)
    running = tasks.spawn("client", client.run())
    try:
        yield client
    finally:
        if client.socket is not None:
            await client.socket.close()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await running
        await tasks.close()
