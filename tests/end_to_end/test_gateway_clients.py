"""MCP clients of each kind at the gateway: the official one in each version of its handshake, and plain HTTP.

Each does what every client does: it lists, reads, asks, is denied or approved, and goes on. Those that write
lines at standard input themselves are in `test_raw_clients.py`, the official one's newest generation in
`test_gateway.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import session
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from core.approvals.operator_keys import OperatorKey
from core.home import Home
from core.service.console import Console
from tests.fakes.desk import approve, deny, next_approval
from tests.fakes.gateway import (
    ASKS,
    READS,
    asked,
    asks_and_collects,
    http_gateway,
    over_http,
    over_stdio,
    touch,
)
from tests.fakes.patience import PATIENCE_S


@pytest.mark.parametrize("line", ["stdio", "http"])
@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_the_official_client_works_in_each_version_of_its_handshake(
    home: Home,
    console: Console,
    key: OperatorKey,
    token: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    line: str,
) -> None:
    # As that client's older releases ask; it takes the version that the gateway agrees to.
    monkeypatch.setattr(session, "LATEST_HANDSHAKE_VERSION", version)
    if line == "stdio":
        async with over_stdio(home, token) as client:
            assert client.protocol_version == version
            await asks_and_collects(client, console, key, tmp_path / "made")
    else:
        async with http_gateway(home) as url, over_http(url, token) as client:
            assert client.protocol_version == version
            await asks_and_collects(client, console, key, tmp_path / "made")
    assert (tmp_path / "made").exists()


class PlainHttp:
    """A program that posts JSON-RPC by itself and reads each answer, be it JSON or a stream of events."""

    def __init__(self, http: httpx2.AsyncClient, url: str, accepts: str) -> None:
        self._http, self._url = http, url
        self.headers = {"Accept": accepts, "Content-Type": "application/json"}
        self._last = 0

    async def post(self, message: dict[str, Any] | list[Any]) -> httpx2.Response:
        """The answer to a message, whatever it is."""
        return await self._http.post(self._url, json=message, headers=self.headers)

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of a request."""
        self._last += 1
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params or {}}
        answer = await self.post(message)
        assert answer.status_code == 200, answer.text
        if method == "initialize" and (number := answer.headers.get("mcp-session-id")):
            self.headers["mcp-session-id"] = number
        for said in _messages(answer):
            if said.get("id") == self._last:
                return dict(said["result"])
        raise AssertionError(f"no answer to {method} in {answer.text}")

    async def greet(self, version: str) -> None:
        """The handshake."""
        about = {"name": "plain", "version": "1"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": about}
        agreed = (await self.request("initialize", params))["protocolVersion"]
        assert agreed == version
        self.headers["mcp-protocol-version"] = agreed
        assert (await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})).is_success

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The structured answer of a tool."""
        result = await self.request("tools/call", {"name": tool, "arguments": arguments})
        return dict(result["structuredContent"])


def _messages(answer: httpx2.Response) -> list[dict[str, Any]]:
    if answer.headers["content-type"].startswith("text/event-stream"):
        data = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith("data:")]
        return [json.loads(text) for text in data if text.strip()]
    return [answer.json()]


@asynccontextmanager
async def plain_http(home: Home, token: str) -> AsyncIterator[PlainHttp]:
    timeout = PATIENCE_S * 3
    async with (
        http_gateway(home) as url,
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=timeout) as http,
    ):
        yield PlainHttp(http, url, "application/json, text/event-stream")


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
async def test_a_program_that_posts_by_itself_lists_reads_asks_is_denied_and_goes_on(
    home: Home, console: Console, key: OperatorKey, token: str, version: str
) -> None:
    async with plain_http(home, token) as client:
        await client.greet(version)
        names = [tool["name"] for tool in (await client.request("tools/list"))["tools"]]
        assert names[:2] == ["list_devices", "search_tools"]
        assert (await client.call("run_commands", READS))["state"] == "done"
        asked = await client.call("run_commands", ASKS)
        await deny(console, await next_approval(console), key, "Not today")
        ended = await client.call("wait_run", {"ticket": asked["ticket"], "seconds": 45})
        assert "Not today" in json.dumps(ended["results"])
        assert (await client.call("run_commands", READS))["state"] == "done"


async def test_a_program_that_forgets_its_session_is_told_and_goes_on_with_a_new_one(
    home: Home, console: Console, token: str
) -> None:
    async with plain_http(home, token) as client:
        await client.greet("2025-06-18")
        known = client.headers.pop("mcp-session-id")
        listing = {"jsonrpc": "2.0", "id": 99, "method": "tools/list"}
        refused = await client.post(listing)
        assert refused.is_client_error, refused.text
        client.headers["mcp-session-id"] = known + "0"
        unknown = await client.post(listing)
        assert unknown.status_code in (400, 404), unknown.text
        del client.headers["mcp-session-id"], client.headers["mcp-protocol-version"]
        await client.greet("2025-06-18")
        assert (await client.call("run_commands", READS))["state"] == "done"


async def test_a_batch_of_messages_is_refused_and_the_messages_are_taken_by_themselves(
    home: Home, console: Console, token: str
) -> None:
    # Only 2025-03-26 had batches; the SDK takes none, and says so.
    async with plain_http(home, token) as client:
        await client.greet("2025-03-26")
        listing = {"jsonrpc": "2.0", "id": 98, "method": "tools/list"}
        refused = await client.post([listing, {**listing, "id": 99}])
        assert refused.status_code == 400, refused.text
        assert (await client.call("run_commands", READS))["state"] == "done"


async def test_a_program_that_goes_away_in_a_call_finds_the_run_when_it_comes_back(
    home: Home, console: Console, key: OperatorKey, token: str, tmp_path: Path
) -> None:
    wanted = touch(tmp_path / "made") | {"request_id": "once"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "app", "gateway", "--as", "claude", "--home", str(home.path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        env={**os.environ, "QUARTERDECK_TOKEN": token},
    )
    assert process.stdin is not None
    about = {"name": "gone", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
    for message in (
        {"id": 1, "method": "initialize", "params": params},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "run_commands", "arguments": wanted}},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    waiting = await next_approval(console)
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    await approve(console, waiting, key)
    async with over_stdio(home, token) as client:
        told = await asked(client, "run_commands", **wanted)
        if told["state"] != "done":
            told = await asked(client, "wait_run", ticket=told["ticket"], seconds=45)
        assert told["state"] == "done"
    assert (tmp_path / "made").exists()


async def test_a_wait_that_is_given_up_leaves_the_connection_and_the_request_as_they_are(
    home: Home, console: Console, key: OperatorKey, token: str
) -> None:
    async with over_stdio(home, token) as client:
        ticket = (await asked(client, "run_commands", **ASKS))["ticket"]
        waiting = await next_approval(console)
        with anyio.CancelScope() as call:

            async def give_up(*_progress: object) -> None:
                call.cancel()

            wait = {"ticket": ticket, "seconds": 45}
            await client.call_tool("wait_run", wait, progress_callback=give_up)
        assert call.cancelled_caught
        assert (await asked(client, "run_commands", **READS))["state"] == "done"
        await deny(console, waiting, key, "Not today")
        ended = await asked(client, "wait_run", ticket=ticket, seconds=45)
        assert "Not today" in json.dumps(ended["results"])
