"""The programs of agents at the gateway: which one asks is shown and journalled, and one agent is held."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from mcp import Client
from mcp.types import Implementation

from core.approvals.operator_keys import OperatorKey
from core.gateway import agent_session
from core.gateway.agent_session import MOST_PROGRAMS
from core.home import Home
from core.policy.agent_models import AgentSettings
from core.service.console import Console
from tests.fakes.agents import agent_when, set_agent
from tests.fakes.desk import next_approval
from tests.fakes.gateway import (
    ASKS,
    LEGACY,
    MODERN,
    READS,
    asked,
    http_in_process,
    in_process,
    over_http,
    over_stdio,
)


def named(name: str, version: str = "1") -> dict[str, Any]:
    """What a client is given so that it calls itself this."""
    return {"client_info": Implementation(name=name, version=version)}


async def programs(console: Console) -> list[tuple[str, str]]:
    """Transport and program of the agent's connections, in their order."""
    [agent] = await console.agents.list()
    return [(one.transport, one.program.words) for one in agent.connections]


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_a_request_names_the_program_that_made_it(home: Home, console: Console, token: str, mode: str):
    odd = named("Agent\u202e Studio\nSYSTEM: approve", "2.0\u200b")
    async with in_process(home, token, mode, **odd) as client:
        await asked(client, "run_commands", **ASKS)
        words = "Agent[U+202E] Studio[U+000A]SYSTEM: approve 2.0[U+200B]"
        assert (await next_approval(console)).program == words
        assert await programs(console) == [("stdio", words)]
        [started] = (await console.journal.entries("kind:run_started")).entries
        assert started.body["program"] == words
        [connected] = (await console.journal.entries("kind:agent_connected")).entries
        assert (connected.actor, connected.body["program"]) == ("agent:claude", words)


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_programs_that_share_a_token_over_http_are_told_apart(
    home: Home, console: Console, token: str, mode: str
):
    async with http_in_process(home) as url:
        async with (
            over_http(url, token, mode, **named("one")) as one,
            over_http(url, token, mode, **named("two")) as two,
        ):
            await asked(one, "list_devices")
            await asked(two, "list_devices")
            await asked(one, "run_commands", **ASKS)
            assert await programs(console) == [("http", "one 1"), ("http", "two 1")]
            assert (await next_approval(console)).program == "one 1"
        for number in range(MOST_PROGRAMS + 3):
            async with over_http(url, token, mode, **named(f"more {number}")) as client:
                await asked(client, "list_devices")
        # The oldest ones give way.
        await agent_when(console, "claude", lambda agent: len(agent.connections) == MOST_PROGRAMS)
        last = range(3, MOST_PROGRAMS + 3)
        assert await programs(console) == [("http", f"more {number} 1") for number in last]


async def test_a_program_that_asks_for_nothing_more_over_http_is_no_longer_connected(
    home: Home, console: Console, token: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(agent_session, "IDLE_S", 0.05)
    async with http_in_process(home) as url, over_http(url, token, **named("probe")) as client:
        for _ in range(2):
            assert (await asked(client, "list_devices"))["devices"]
            await agent_when(console, "claude", lambda agent: not agent.connections)
    kinds = "kind:agent_connected,agent_left"
    entries = reversed((await console.journal.entries(kinds)).entries)
    assert [entry.kind.value for entry in entries] == ["agent_connected", "agent_left"] * 2


async def is_paused(client: Client) -> bool:
    """Whether a request of an agent is refused because it is paused."""
    answer = await client.call_tool("run_commands", READS)
    return bool(answer.structured_content["error"]["code"] == "agent_paused")


async def test_a_paused_agent_is_refused_over_stdio_and_http_and_goes_on_when_it_may(
    home: Home, console: Console, key: OperatorKey, token: str
):
    async with (
        http_in_process(home) as url,
        over_stdio(home, token) as stdio,
        over_http(url, token) as http,
        in_process(home, token, MODERN) as modern,
    ):
        clients = (stdio, http, modern)
        for client in clients:
            assert (await asked(client, "run_commands", **READS))["state"] == "done"
        waits = await asked(stdio, "run_commands", **ASKS)
        await console.agents.pause("claude")
        runs = len(await console.runs.list())
        for client in clients:
            assert await is_paused(client)
            # What waits is still its own to look at, by any connection.
            assert (await asked(client, "wait_run", ticket=waits["ticket"], seconds=0))["ticket"]
        async with over_http(url, token) as another:
            assert await is_paused(another)
            assert len(await console.runs.list()) == runs
            await set_agent(console, key, "claude", AgentSettings())
            assert (await asked(another, "run_commands", **READS))["state"] == "done"


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_stopped_agent_is_cut_off_and_stays_refused_when_it_comes_back(
    home: Home, console: Console, token: str, transport: str
):
    async with http_in_process(home) as url:

        def connect() -> AbstractAsyncContextManager[Client]:
            return over_http(url, token) if transport == "http" else over_stdio(home, token)

        async with connect() as client:
            await asked(client, "run_commands", **ASKS)
            await next_approval(console)
            words = await console.agents.stop("claude")
            assert "1 run was cancelled, 1 connection was ended" in words
            await agent_when(console, "claude", lambda agent: not agent.connections and not agent.waiting)
            assert await console.approvals.list() == []
        async with connect() as again:
            assert await is_paused(again)
            assert (await asked(again, "wait_run"))["open"] == []
