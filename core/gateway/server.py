"""The MCP server of the gateway: one server for every transport, which finds the agent of each request.

It serves the protocol versions of the SDK: those with a handshake up to 2025-11-25, and 2026-07-28.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from core.errors import BadInput, ErrorCode, ErrorInfo, QuarterdeckError, error_from, faults_of
from core.gateway import resources, tasks
from core.gateway.agent_session import AgentSession
from core.gateway.answers import error_answer
from core.gateway.calls import RunStanding, ToolCalls
from core.gateway.greeting import INSTRUCTIONS, SERVER_INFO
from core.gateway.tools import BY_NAME, TOOLS, Arguments, ToolDefinition
from core.log import Logger
from core.similar import did_you_mean
from core.text import sentences

_MOST_FAULTS = 5
_LONGEST_FAULT = 300

log = Logger(__name__)

Context = ServerRequestContext[Any, Any]
SessionOf = Callable[[Context], AgentSession]


def make_server(find_session: SessionOf) -> Server[Any]:
    """The MCP server; `find_session` returns the session of the agent that sent a request."""

    async def session_of(context: Context) -> AgentSession:
        session, client = find_session(context), context.session.client_params
        if client is None:
            return session
        return await session.used_by(client.client_info.name, client.client_info.version)

    async def list_tools(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool.listed()) for tool in TOOLS])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
        async def report(done: float, total: float, words: str) -> None:
            await context.session.report_progress(done, total, words)

        may_be_task = tasks.is_declared(context) and params.name in tasks.TOOLS

        async def calls() -> ToolCalls:
            return ToolCalls(await session_of(context), report)

        return await _answer(calls, params, may_be_task)

    async def list_resources(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return await resources.listed(await session_of(context))

    async def list_templates(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resources.TEMPLATES)

    async def read_resource(
        context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            return await resources.read(await session_of(context), str(params.uri))
        except QuarterdeckError as error:
            code = types.INVALID_PARAMS if isinstance(error, BadInput) else types.INTERNAL_ERROR
            raise MCPError(code, error.message) from error

    server: Server[Any] = Server(
        SERVER_INFO["name"],
        version=SERVER_INFO["version"],
        title=SERVER_INFO["title"],
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )

    async def calls_of(context: Context) -> ToolCalls:
        return ToolCalls(await session_of(context))

    tasks.serve(server, calls_of)
    return server


async def _answer(
    calls: Callable[[], Awaitable[ToolCalls]], params: types.CallToolRequestParams, may_be_task: bool
) -> Any:
    """The answer to a call, also to one that fails. A run that goes on is a task if `may_be_task`."""
    try:
        outcome = await (await calls()).call(_arguments(params))
    except QuarterdeckError as error:
        return error_answer(error)
    # Outermost handler: a fault in one call must not end the connection.
    except Exception as error:
        log.exception("a tool of the gateway failed", tool=params.name)
        fault = ErrorInfo.of(ErrorCode.INTERNAL, f"{params.name} failed: {type(error).__name__}.")
        return error_answer(error_from(fault))
    if not isinstance(outcome, RunStanding):
        return outcome
    return tasks.created(outcome) if may_be_task and not outcome.run.state.ended else outcome.answer()


def _arguments(params: types.CallToolRequestParams) -> Arguments:
    """The checked arguments of a call.

    Raises:
        BadInput: there is no such tool, or its arguments are wrong; names the argument.
    """
    tool = BY_NAME.get(params.name)
    if tool is None:
        hint = did_you_mean(params.name, BY_NAME) or "A tool of a device is run by run_commands."
        raise BadInput(sentences(f"There is no tool {params.name[:100]!r}", hint), ErrorCode.UNKNOWN_TOOL)
    try:
        return tool.arguments.model_validate(params.arguments or {})
    except ValidationError as error:
        first, *others = [fault[:_LONGEST_FAULT] for fault in _faults(tool, params, error)[:_MOST_FAULTS]]
        raise BadInput(sentences(f"{params.name}: {first}", *others)) from error


def _faults(tool: ToolDefinition, params: types.CallToolRequestParams, error: ValidationError) -> list[str]:
    """Each fault in the arguments of a call, worded like those in the arguments of devices' tools."""
    # Imported here: most agents make no such fault.
    from core.schema_forms.validator import Validator

    found = Validator(tool.arguments.model_json_schema()).errors(params.arguments or {})
    # The schema does not bound every text.
    return [fault.message for fault in found] or faults_of(error)
