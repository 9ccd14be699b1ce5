"""Hand-written MCP clients at the gateway's standard input: each lists, reads, asks, is denied, and goes on.

The official SDK's clients are in `test_gateway.py`; these write the lines themselves, as other programs do.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from core.home import Home
from tests.fakes.agents import add_agent
from tests.fakes.desk import choose_channel, deny, next_approval
from tests.fakes.gateway import ASKS, READS
from tests.fakes.patience import PATIENCE_S
from tests.fakes.service_process import service_process, until_online
from tests.fakes.signing import anna

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18")


class RawClient:
    """A program that writes JSON-RPC lines, ended by `end`, and reads answers by their ids."""

    def __init__(self, process: asyncio.subprocess.Process, end: bytes) -> None:
        self._process, self._end, self._last = process, end, 0

    def write(self, *messages: dict[str, Any]) -> None:
        """Write messages without waiting for an answer to any."""
        assert self._process.stdin is not None
        lines = (json.dumps({"jsonrpc": "2.0", **message}).encode() + self._end for message in messages)
        self._process.stdin.write(b"".join(lines))

    async def answer(self, identity: int) -> dict[str, Any]:
        """The result for an id; notifications are ignored."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S * 3):
            while line := await self._process.stdout.readline():
                message = json.loads(line)
                if message.get("id") == identity:
                    return dict(message["result"])
        raise AssertionError(f"standard output ended before the answer to {identity}")

    def hello(self, version: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """`initialize`, with id 1, and the notification that follows it."""
        params = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        self._last = 1
        first = {"id": 1, "method": "initialize", "params": params}
        return first, {"method": "notifications/initialized"}

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The structured answer of a tool."""
        self._last += 1
        params = {"name": tool, "arguments": arguments}
        self.write({"id": self._last, "method": "tools/call", "params": params})
        return dict((await self.answer(self._last))["structuredContent"])

    async def listed(self) -> list[str]:
        """The names of the tools."""
        self._last += 1
        self.write({"id": self._last, "method": "tools/list"})
        return [tool["name"] for tool in (await self.answer(self._last))["tools"]]


@asynccontextmanager
async def raw_client(home: Home, token: str, end: bytes) -> AsyncIterator[RawClient]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "app", "gateway", "--as", "claude", "--home", str(home.path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "QUARTERDECK_TOKEN": token},
        limit=1 << 20,
    )
    try:
        yield RawClient(process, end)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("pipelines", [False, True], ids=["in turn", "pipelined"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_raw_client_lists_reads_asks_is_denied_and_goes_on(
    home: Home, version: str, pipelines: bool, end: bytes
):
    home.create()
    choose_channel(home, "in-process")
    async with service_process(home) as service:
        console = await service.console()
        await console.approvals.register_operator(anna(home).operator)
        await until_online(console)
        token = await add_agent(console, anna(home), "claude")
        async with raw_client(home, token, end) as client:
            first, then = client.hello(version)
            client.write(first)
            if pipelines:
                client.write(then)
                names = client.listed()
            else:
                assert (await client.answer(1))["protocolVersion"] == version
                client.write(then)
                names = client.listed()
            assert (await names)[:2] == ["list_devices", "search_tools"]
            assert (await client.call("run_commands", READS))["state"] == "done"
            asked = await client.call("run_commands", ASKS)
            assert asked["state"] == "waiting"
            await deny(console, await next_approval(console), anna(home), "Not today")
            ended = await client.call("wait_run", {"ticket": asked["ticket"], "seconds": 45})
            assert "Not today" in json.dumps(ended["results"])
            assert (await client.call("run_commands", READS))["state"] == "done"
