"""Clients that declare the tasks extension: a task is a ticket, and works while a person decides."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from mcp import MCPError
from mcp.client.extension import advertise

from core.approvals.operator_keys import OperatorKey
from core.errors import ServiceError
from core.gateway.agent_session import AgentSession
from core.gateway.tasks import EXTENSION
from core.service.console import Console
from core.service.rpc.client import RemoteConsole
from tests.fakes.agents import add_agent
from tests.fakes.desk import approve, deny, next_approval
from tests.fakes.gateway import LEGACY, MODERN, READS, Connect, asked, touch
from tests.fakes.tasks_client import TasksExtension, about


async def test_a_run_that_asks_is_a_task_whose_id_is_its_ticket(
    connect: Connect, console: Console, key: OperatorKey, token: str, tmp_path: Path
):
    tasks = TasksExtension()
    async with connect(token, MODERN, extensions=[tasks]) as client, asyncio.TaskGroup() as group:
        call = group.create_task(client.call_tool("run_commands", touch(tmp_path / "made")))
        await tasks.created.wait()
        assert tasks.seen[0].status == "working"
        assert (await asked(client, "wait_run"))["open"][0]["ticket"] == tasks.seen[0].task_id
        await approve(console, await next_approval(console), key)
        answer = await call
    assert not answer.is_error
    assert answer.structured_content["state"] == "done"
    assert (tmp_path / "made").exists()


async def test_the_gateway_says_that_it_knows_tasks_and_serves_both_generations(connect: Connect, token: str):
    async with connect(token, "auto") as client:
        assert client.protocol_version == MODERN
        assert EXTENSION in (client.server_capabilities.extensions or {})
    async with connect(token, LEGACY) as client:
        assert client.protocol_version == "2025-11-25"


async def test_a_denied_task_is_completed_with_the_operators_reason(
    connect: Connect, console: Console, key: OperatorKey, token: str, tmp_path: Path
):
    tasks = TasksExtension()
    async with connect(token, MODERN, extensions=[tasks]) as client, asyncio.TaskGroup() as group:
        call = group.create_task(client.call_tool("run_commands", touch(tmp_path / "made")))
        # A run that is denied sooner than the gateway looks at it has ended, and is no task.
        await tasks.created.wait()
        await deny(console, await next_approval(console), key, "Not today.")
        answer = await call
        assert answer.is_error
        assert "Not today." in answer.structured_content["results"][0]["error"]["message"]
        assert (await about(client, "tasks/get", tasks.seen[0].task_id)).status == "completed"


async def test_a_task_is_not_unknown_because_the_service_does_not_answer(
    connect: Connect, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with (
        connect(token, MODERN) as plain,
        connect(token, MODERN, extensions=[advertise(EXTENSION)]) as client,
    ):
        ticket = (await asked(plain, "run_commands", **touch(tmp_path / "made")))["ticket"]

        async def unreachable(session: AgentSession) -> RemoteConsole:
            raise ServiceError("The service ended.")

        with monkeypatch.context() as patch:
            patch.setattr(AgentSession, "console", unreachable)
            for method in ("tasks/get", "tasks/cancel"):
                with pytest.raises(MCPError, match="The service ended") as lost:
                    await about(client, method, ticket)
                assert lost.value.code == -32603
        assert (await about(client, "tasks/get", ticket)).status == "working"


async def test_what_ends_at_once_is_no_task(connect: Connect, token: str):
    tasks = TasksExtension()
    async with connect(token, MODERN, extensions=[tasks]) as client:
        assert (await asked(client, "run_commands", **READS))["state"] == "done"
    assert not tasks.seen


async def test_an_update_decides_nothing_and_another_agents_task_is_unknown(
    connect: Connect, console: Console, key: OperatorKey, token: str, tmp_path: Path
):
    other = await add_agent(console, key, "other")
    extension = advertise(EXTENSION)
    async with (
        connect(token, MODERN) as plain,
        connect(token, MODERN, extensions=[extension]) as client,
        connect(other, MODERN, extensions=[extension]) as stranger,
    ):
        ticket = (await asked(plain, "run_commands", **touch(tmp_path / "made")))["ticket"]
        approval = await next_approval(console)
        said = {approval.id: {"action": "accept", "content": {"approve": True}}}
        assert (await about(client, "tasks/update", ticket, inputResponses=said)).status == ""
        assert (await about(client, "tasks/get", ticket)).status == "working"
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(MCPError, match="Unknown task") as unknown:
                await about(stranger, method, ticket)
            assert unknown.value.code == -32602
            with pytest.raises(MCPError) as undeclared:
                await about(plain, method, ticket)
            assert undeclared.value.code == -32021
        await about(client, "tasks/cancel", ticket)
        assert (await about(client, "tasks/get", ticket)).status == "cancelled"
    assert not await console.approvals.list()
    assert not (tmp_path / "made").exists()
