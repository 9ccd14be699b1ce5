"""The client of the extension `io.modelcontextprotocol/tasks`: it takes a task and polls it to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.types import CallToolResult, Request, RequestParams, Result
from pydantic import ConfigDict, Field

from core.gateway.tasks import EXTENSION


class Task(Result):
    """A task as it is created, and as `tasks/get` tells of it."""

    model_config = ConfigDict(extra="allow")

    result_type: Literal["task"] = Field(alias="resultType", default="task")
    task_id: str = Field(alias="taskId")
    status: str


class Standing(Result):
    """The answer of `tasks/get`."""

    model_config = ConfigDict(extra="allow")

    result_type: str = Field(alias="resultType", default="complete")
    status: str = ""
    result: dict[str, Any] | None = None


class TaskParams(RequestParams):
    """The parameters of each request about a task."""

    task_id: str = Field(alias="taskId")
    input_responses: dict[str, Any] | None = Field(alias="inputResponses", default=None)


class TaskRequest(Request[TaskParams, str]):
    """A request about a task."""

    name_param: ClassVar[str | None] = "taskId"


class TasksExtension(ClientExtension):
    """A client that takes tasks; each that it got is in `seen`."""

    identifier = EXTENSION

    def __init__(self) -> None:
        self.seen: list[Task] = []
        self.created = asyncio.Event()

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Task, resolve=self._resolve)]

    async def _resolve(self, task: Task, context: ClaimContext) -> CallToolResult:
        self.seen.append(task)
        self.created.set()
        while True:
            standing = await context.session.send_request(request("tasks/get", task.task_id), Standing)
            if standing.result is not None:
                return CallToolResult.model_validate(standing.result)
            assert standing.status == "working"
            await asyncio.sleep(0.05)


def request(method: str, task_id: str, **more: Any) -> TaskRequest:
    """A request about a task."""
    return TaskRequest(method=method, params=TaskParams.model_validate({"taskId": task_id, **more}))


async def about(client: Client, method: str, task_id: str, **more: Any) -> Standing:
    """Send a request about a task."""
    return await client.session.send_request(request(method, task_id, **more), Standing)
