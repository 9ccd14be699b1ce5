"""Agents with official SDK clients, by the gateway, at a device: asked, approved, denied, collected later."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp.client.extension import advertise

from core.approvals.operator_keys import OperatorKey
from core.gateway.tasks import EXTENSION
from core.home import Home
from core.service.console import Console
from tests.fakes.agents import add_agent
from tests.fakes.desk import approve, choose_channel, next_approval
from tests.fakes.gateway import (
    LEGACY,
    MODERN,
    Connect,
    asked,
    asks_and_collects,
    http_gateway,
    over_http,
    over_stdio,
    touch,
)
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import run
from tests.fakes.service_process import ServiceProcess, service_process, until_online
from tests.fakes.signing import anna
from tests.fakes.tasks_client import TasksExtension, about


@pytest.fixture(params=["stdio", "http"])
async def connect(request: pytest.FixtureRequest, home: Home, console: Console) -> AsyncIterator[Connect]:
    """Connects an agent program with a token: `connect(token, mode)`."""
    if request.param == "stdio":
        yield lambda token, mode=LEGACY, **more: over_stdio(home, token, mode, **more)
        return
    async with http_gateway(home) as url:
        yield lambda token, mode=LEGACY, **more: over_http(url, token, mode, **more)


@pytest.mark.story
@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_an_agent_lists_reads_asks_and_collects(
    connect: Connect, console: Console, key: OperatorKey, token: str, tmp_path: Path, mode: str
):
    async with connect(token, mode) as client:
        await asks_and_collects(client, console, key, tmp_path / "made")
    assert (tmp_path / "made").exists()


async def test_a_client_of_tasks_gets_its_task_done(
    connect: Connect, console: Console, key: OperatorKey, token: str, tmp_path: Path
):
    tasks = TasksExtension()
    async with connect(token, MODERN, extensions=[tasks]) as client, asyncio.TaskGroup() as group:
        call = group.create_task(client.call_tool("run_commands", touch(tmp_path / "made")))
        await approve(console, await next_approval(console), key)
        answer = await call
    assert [task.status for task in tasks.seen] == ["working"]
    assert answer.structured_content["state"] == "done"
    assert (tmp_path / "made").exists()


async def test_a_result_is_collected_by_another_connection_and_after_a_restart_of_the_service(
    home: Home, key: OperatorKey, service: ServiceProcess, console: Console, token: str, tmp_path: Path
):
    ask = touch(tmp_path / "made") | {"request_id": "one"}
    async with over_stdio(home, token) as client:
        ticket = (await asked(client, "run_commands", **ask))["ticket"]
    # The program is gone; its request is not.
    await approve(console, await next_approval(console), key)
    async with over_stdio(home, token) as client:
        assert (await asked(client, "wait_run", seconds=45, ticket=ticket))["state"] == "done"
        await service.kill()
        async with service_process(home) as again:
            await until_online(await again.console())
            assert (await asked(client, "wait_run", seconds=45, ticket=ticket))["state"] == "done"
            assert (await asked(client, "run_commands", **ask))["ticket"] == ticket
            changed = await client.call_tool(
                "run_commands", touch(tmp_path / "other") | {"request_id": "one"}
            )
            assert changed.is_error
            assert changed.structured_content["error"]["code"] == "invalid_arguments"
    assert not (tmp_path / "other").exists()


async def test_the_same_request_is_the_same_before_the_service_knows_the_tools_again(
    home: Home, tmp_path: Path
):
    """The tool has arguments with defaults, which the service knows only while it knows the tool."""
    home.create()
    choose_channel(home, "process")
    log = tmp_path / "log"
    command = {"tool": "shell_execute", "arguments": {"command": f"echo x >> {log}"}}
    ask = {"devices": "this-computer", "commands": [command], "request_id": "one"}
    async with service_process(home) as process:
        console = await process.console()
        await console.approvals.register_operator(anna(home).operator)
        await until_online(console)
        token = await add_agent(console, anna(home))
        async with over_stdio(home, token) as client:
            ticket = (await asked(client, "run_commands", **ask))["ticket"]
            await approve(console, await next_approval(console), anna(home))
            assert (await asked(client, "wait_run", ticket=ticket, seconds=60))["state"] == "done"
            await process.kill()
            async with service_process(home) as again:
                console = await again.console()
                assert (await asked(client, "run_commands", **ask))["ticket"] == ticket
                await until_online(console)
                assert (await asked(client, "run_commands", **ask))["ticket"] == ticket
    assert log.read_text() == "x\n"


async def test_a_session_over_http_outlives_the_service(
    home: Home, service: ServiceProcess, console: Console, token: str
):
    async with http_gateway(home) as url, over_http(url, token) as client:
        assert (await asked(client, "list_devices"))["devices"]
        await service.kill()
        async with service_process(home) as again:
            await until_online(await again.console())
            assert (await asked(client, "list_devices"))["devices"]


async def test_what_waits_when_the_service_ends_is_interrupted_and_is_asked_for_anew(
    home: Home, key: OperatorKey, service: ServiceProcess, console: Console, token: str, tmp_path: Path
):
    ask = touch(tmp_path / "made")
    async with over_stdio(home, token) as client, asyncio.TaskGroup() as group:
        ticket = (await asked(client, "run_commands", **ask, request_id="one"))["ticket"]
        assert await console.approvals.list()
        # The agent waits while the service dies: it is told, and may wait again.
        waits = group.create_task(client.call_tool("wait_run", {"ticket": ticket, "seconds": 45}))
        await asked(client, "list_devices")
        await service.kill()
        lost = await waits
        assert lost.is_error
        error = lost.structured_content["error"]
        assert (error["code"], error["retryable"]) == ("service_unavailable", True)
        async with service_process(home) as again:
            fresh = await again.console()
            await until_online(fresh)
            ended = await client.call_tool("wait_run", {"ticket": ticket, "seconds": 45})
            told = ended.structured_content
            assert (ended.is_error, told["state"]) == (True, "interrupted")
            [result] = told["results"]
            assert "before it was sent" in result["error"]["message"]
            assert "another request_id" in told["next"]
            assert not await fresh.approvals.list()
            # The same to a client of tasks, over a connection of its own.
            async with over_stdio(home, token, MODERN, extensions=[advertise(EXTENSION)]) as other:
                task = await about(other, "tasks/get", ticket)
                assert (task.status, (task.result or {})["isError"]) == ("completed", True)
                assert task.result is not None
                assert "another request_id" in task.result["structuredContent"]["next"]
            # The same request_id is the same request, which is over; another one asks anew.
            assert (await client.call_tool("run_commands", ask | {"request_id": "one"})).structured_content[
                "ticket"
            ] == ticket
            anew = await asked(client, "run_commands", **ask, request_id="two")
            assert (anew["state"], anew["ticket"] != ticket) == ("waiting", True)
            await approve(fresh, await next_approval(fresh), key)
            assert (await asked(client, "wait_run", seconds=45, ticket=anew["ticket"]))["state"] == "done"
    assert (tmp_path / "made").exists()


async def test_an_agent_that_dies_while_it_waits_finds_its_request_again(
    connect: Connect, console: Console, key: OperatorKey, token: str, tmp_path: Path
):
    async with connect(token) as client, asyncio.TaskGroup() as group:
        ticket = (await asked(client, "run_commands", **touch(tmp_path / "made")))["ticket"]
        waits = group.create_task(client.call_tool("wait_run", {"ticket": ticket, "seconds": 45}))
        await asked(client, "list_devices")
        waits.cancel()
    # It has lost its ticket with its memory.
    async with connect(token) as client:
        assert [one["ticket"] for one in (await asked(client, "wait_run"))["open"]] == [ticket]
        await approve(console, await next_approval(console), key)
        assert (await asked(client, "wait_run", seconds=45, ticket=ticket))["state"] == "done"
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize("word", ["approve", "deny"])
async def test_what_a_person_decides_at_a_terminal_ends_the_agents_wait(
    home: Home, console: Console, key: OperatorKey, token: str, tmp_path: Path, word: str
):
    async with over_stdio(home, token) as client, asyncio.TaskGroup() as group:
        ticket = (await asked(client, "run_commands", **touch(tmp_path / "made")))["ticket"]
        waits = group.create_task(client.call_tool("wait_run", {"ticket": ticket, "seconds": 45}))
        listed = await asyncio.to_thread(run, home, "--json", "approvals", "list")
        [request] = listed.json["approvals"]
        decided = await asyncio.to_thread(
            run, home, "approvals", word, request["id"], "--operator", "anna", "--reason", "It is Friday"
        )
        assert decided.code == 0, decided
        ended = (await waits).structured_content
    if word == "approve":
        assert ended["state"] == "done"
    else:
        assert "It is Friday" in ended["results"][0]["error"]["message"]
    assert (tmp_path / "made").exists() is (word == "approve")


async def test_a_token_that_is_worthless_ends_the_program_once_the_client_has_the_tools(
    home: Home, console: Console, token: str
):
    """The first answers are the same for every agent; no tool can be called."""
    await console.agents.revoke("claude")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "list_devices"}},
    ]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "app", "gateway", "--as", "claude", "--home", str(home.path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "QUARTERDECK_TOKEN": token},
    )
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    out, err = await asyncio.wait_for(process.communicate(lines.encode()), PATIENCE_S * 3)
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 2]
    assert process.returncode not in (None, 0)
    assert "not the token of an agent" in err.decode()
