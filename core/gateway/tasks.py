"""The extension `io.modelcontextprotocol/tasks` of the protocol version 2026-07-28.

A run that is not over at once is a task to a client that declares the extension; the task's id is the
ticket. While an operator decides, the task is `working`: the agent is never asked to decide. The SDK has no
runtime for tasks, so that its requests are handled here, as the extension's specification defines them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from core.batch.models import RunState
from core.errors import ErrorCode, QuarterdeckError
from core.gateway.answers import next_step
from core.gateway.calls import RunStanding, ToolCalls
from core.ids import now_utc

EXTENSION = "io.modelcontextprotocol/tasks"
TOOLS = frozenset({"run_commands", "run_batch"})
POLL_EVERY_MS = 5_000

Context = ServerRequestContext[Any, Any]
CallsOf = Callable[[Context], Awaitable[ToolCalls]]
Status = Literal["working", "completed", "cancelled"]


class TaskParams(types.RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str = Field(alias="taskId", max_length=200)


class TaskUpdateParams(TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any] = Field(default_factory=dict, alias="inputResponses")


def is_declared(context: Context) -> bool:
    """Whether the client declares the extension with this request."""
    capabilities = context.session.client_capabilities
    extensions = capabilities.extensions if capabilities is not None else None
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS and EXTENSION in (extensions or {})


def created(standing: RunStanding) -> dict[str, Any]:
    """The result of a tool call in place of an answer: the task has begun."""
    return {"resultType": "task", **_task(standing)}


def serve(server: Server[Any], calls_of: CallsOf) -> None:
    """Let a server handle the requests of the extension."""

    async def get(context: Context, params: TaskParams) -> dict[str, Any]:
        _check_declared(context)
        standing = await _found((await calls_of(context)).standing(params.task_id))
        task = _task(standing)
        if task["status"] == "completed":
            task["result"] = standing.answer().model_dump(mode="json", by_alias=True, exclude_none=True)
        return task

    async def update(context: Context, params: TaskUpdateParams) -> dict[str, Any]:
        # No task ever asks its client, so that no response can be for one: it decides nothing.
        _check_declared(context)
        await _found((await calls_of(context)).standing(params.task_id))
        return {}

    async def cancel(context: Context, params: TaskParams) -> dict[str, Any]:
        _check_declared(context)
        await _found((await calls_of(context)).cancel(params.task_id))
        return {}

    server.extensions[EXTENSION] = {}
    server.add_request_handler("tasks/get", TaskParams, get)
    server.add_request_handler("tasks/update", TaskUpdateParams, update)
    server.add_request_handler("tasks/cancel", TaskParams, cancel)


async def _found(standing: Any) -> RunStanding:
    try:
        found: RunStanding = await standing
    except QuarterdeckError as error:
        if error.code is ErrorCode.NOT_FOUND:
            # The message does not tell another agent's task from one that never was.
            raise MCPError(types.INVALID_PARAMS, f"Unknown task: {error.message}") from error
        # The task goes on, whether or not it can be asked for now.
        raise MCPError(types.INTERNAL_ERROR, error.info.sentences) from error
    return found


def _check_declared(context: Context) -> None:
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(types.METHOD_NOT_FOUND, "Tasks are an extension of the protocol version 2026-07-28.")
    if not is_declared(context):
        required: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", required
        )


def _task(standing: RunStanding) -> dict[str, Any]:
    summary = standing.run
    return {
        "taskId": standing.ticket,
        "status": _status(summary.state),
        "statusMessage": next_step(summary.state, standing.ticket) or summary.state.value,
        "createdAt": summary.started_at,
        "lastUpdatedAt": summary.ended_at or now_utc(),
        "ttlMs": None,
        "pollIntervalMs": POLL_EVERY_MS,
    }


def _status(state: RunState) -> Status:
    if not state.ended:
        return "working"
    return "cancelled" if state is RunState.CANCELLED else "completed"
