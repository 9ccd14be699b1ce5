"""No agent and no other user locks the others out of the gateway over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2
import pytest

from core.approvals.operator_keys import OperatorKey
from core.gateway import http
from core.home import Home
from core.service.console import Console
from tests.fakes.agents import add_agent
from tests.fakes.gateway import http_in_process
from tests.fakes.patience import PATIENCE_S
from tests.fakes.plain_user import plain_user, why_there_is_none
from tests.unit.gateway.test_attacks import INITIALIZE

HEADERS = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
async def url(home: Home, console: Console) -> AsyncIterator[str]:
    async with http_in_process(home) as url:
        yield url


async def begins(url: str, token: str, session: str = "") -> httpx2.Response:
    """The answer to the first request of an MCP session, or to a later one of `session`."""
    headers = HEADERS | {"Authorization": f"Bearer {token}"}
    body = INITIALIZE
    if session:
        headers |= {"Mcp-Session-Id": session}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    async with httpx2.AsyncClient(timeout=PATIENCE_S, headers=headers) as client:
        return await client.post(url, json=body)


@dataclass
class Raw:
    """A connection on which bytes are sent as they are."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def sends(cls, url: str, data: bytes) -> Raw:
        """Open a connection and send this, and no more."""
        parts = urlsplit(url)
        raw = cls(*await asyncio.open_connection(parts.hostname, parts.port))
        raw.writer.write(data)
        await raw.writer.drain()
        return raw

    async def line(self) -> bytes:
        """The next line that comes."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readline()

    async def ended(self) -> bytes:
        """What came before the gateway closed the connection."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self.reader.read()
        except ConnectionResetError:
            return b""
        finally:
            self.writer.close()


async def test_an_agent_that_opens_all_its_sessions_leaves_the_others_theirs(
    url: str, console: Console, key: OperatorKey, token: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http, "MOST_OPEN_SESSIONS", 3)
    greedy = await add_agent(console, key, "greedy")
    statuses = [(await begins(url, greedy)).status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 503, 503]
    assert (await begins(url, token)).status_code == 200


@pytest.mark.parametrize("how", ["revoke", "stop", "a new token"])
async def test_the_sessions_of_an_agent_end_with_its_connection(
    url: str, console: Console, key: OperatorKey, token: str, how: str
):
    session = (await begins(url, token)).headers["Mcp-Session-Id"]
    assert (await begins(url, token, session)).status_code == 200
    if how == "revoke":
        await console.agents.revoke("claude")
    elif how == "stop":
        await console.agents.stop("claude")
    else:
        await add_agent(console, key, "claude")
    assert (await begins(url, token, session)).status_code == (404 if how == "stop" else 401)


@pytest.mark.parametrize("part", [b"", b"POST /mcp HTTP/1.1\r\nHost: 127", b"{token}"])
async def test_a_request_that_does_not_come_to_its_end_is_cut(
    url: str, token: str, part: bytes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http, "REQUEST_WITHIN", 0.05)
    if part == b"{token}":
        host = urlsplit(url).netloc
        part = (
            f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            "Content-Length: 100000\r\n\r\n{"
        ).encode()
    assert b"200 OK" not in await (await Raw.sends(url, part)).ended()


async def test_the_rest_of_a_second_request_is_not_waited_for_either(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http, "REQUEST_WITHIN", 0.05)
    reader = await Raw.sends(url, b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"HTTP/1.1 " in await reader.line()
    reader.writer.write(b"GET /other HTTP/1.1\r\nHo")
    await reader.ended()


async def test_connections_that_show_no_token_do_not_lock_an_agent_out(
    url: str, token: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http, "MOST_UNPROVEN", 5)
    silent = [await Raw.sends(url, b"POST /mcp HTTP/1.1\r\nHost: 127") for _ in range(12)]
    assert (await begins(url, token)).status_code == 200
    for reader in silent[:6]:
        assert await reader.ended() == b""
    for reader in silent[6:]:
        reader.writer.close()


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or bool(why_there_is_none()),
    reason="needs another user of this computer, which root can be",
)
async def test_another_users_connections_close_no_connection_of_this_user(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http, "MOST_UNPROVEN", 5)
    ours = await Raw.sends(url, b"GET /other HT")
    code = f"""
import socket
made = [socket.create_connection(("127.0.0.1", {urlsplit(url).port})) for _ in range(20)]
# The gateway has taken all of them once it has closed as many as are too many.
for one in made[:15]:
    try:
        one.recv(1)
    except OSError:
        pass
print("done")
"""
    with plain_user() as user:
        done = await asyncio.to_thread(user.run, code)
    assert done == "done\n"
    ours.writer.write(b"TP/1.1\r\nHost: x\r\n\r\n")
    assert b"HTTP/1.1 " in await ours.line()
    ours.writer.close()


async def test_one_agents_connections_are_limited_and_its_oldest_one_is_closed(
    url: str, token: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http, "MOST_OF_ONE_TOKEN", 3)
    body = json.dumps(INITIALIZE).encode()
    request = (
        f"POST /mcp HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    readers = []
    for _ in range(5):
        reader = await Raw.sends(url, request)
        assert b"200 OK" in await reader.line()
        readers.append(reader)
    for reader in readers[:2]:
        await reader.ended()
    for reader in readers[2:]:
        reader.writer.close()


async def test_an_upgrade_to_websockets_is_refused_and_is_no_fault(url: str):
    reader = await Raw.sends(
        url,
        f"GET /mcp HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode(),
    )
    assert b"401 Unauthorized" in await reader.line()
    reader.writer.close()


def test_answers_are_not_delayed_by_nagles_algorithm():
    """asyncio switches it off only where a socket says that it is TCP's."""
    with http._listen("127.0.0.1:0") as listening:
        assert listening.proto == socket.IPPROTO_TCP


async def test_an_accepted_connection_sends_a_small_answer_at_once(
    url: str, token: str, monkeypatch: pytest.MonkeyPatch
):
    """Else the answer waits for the client's delayed acknowledgement, some 40 ms (Nagle's algorithm)."""
    accepted: list[asyncio.Transport] = []
    made = http.Connection.connection_made

    def connection_made(self: http.Connection, transport: asyncio.Transport) -> None:
        accepted.append(transport)
        made(self, transport)

    monkeypatch.setattr(http.Connection, "connection_made", connection_made)
    assert (await begins(url, token)).status_code == 200
    [transport] = accepted
    assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
