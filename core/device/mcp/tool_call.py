"""Calls an MCP server's tool and reports the outcome, including an unknown one."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.shared.dispatcher import ProgressFnT
from pydantic import ValidationError
from pydantic_core import to_json

from core.device.mcp.config import ServerConfig
from core.device.mcp.http_transport import ACCESS_DENIED, NOT_SENT, REJECTED, SESSION_GONE
from core.device.mcp.parse_faults import fault_in
from core.device.mcp.results import error_text, has_pictures, identify_pictures, result_of
from core.device.mcp.session import Session, is_unanswered
from core.device.mcp.stdio_transport import ANSWER_TOO_LARGE
from core.device.mcp.tool_listing import Definition
from core.device.progress import Report
from core.device.tool import FailedWithResult, ToolCall
from core.errors import DeviceError, ErrorCode, QuarterdeckError
from core.text import clause, sentences

_PROGRESS_EACH_S = 0.05
_MOST_PROGRESS_TEXT = 2000
_MOST_WORDS = 2000
# Marks a parser's message, which is in terms of the parser's own classes.
_BY_PARSER = "validation error"


class NotRun(DeviceError):
    """The server did not run the call, so it may be sent again in another session."""


async def call(
    session: Session, server: ServerConfig, definition: Definition, request: ToolCall, most: int
) -> dict[str, Any]:
    """Call a tool and return its result.

    Raises:
        DeviceError: the call failed. Without an answer the outcome is unknown, even if the server declares
            the tool read-only, because that claim may be wrong.
    """
    name = definition.name
    try:
        answer = await session.request(
            "tools/call", {"name": name, "arguments": request.arguments}, _progress(request.report, server)
        )
        return await _read_answer(answer, server, definition, most)
    except MCPError as error:
        raise _protocol_error(error, server, name) from error
    except ValidationError as error:
        # In the newest protocol the SDK validates answers itself.
        raise DeviceError(
            f"{name} ended, but its answer cannot be used: it is not what MCP allows.", ErrorCode.BAD_RESULT
        ) from error
    except asyncio.CancelledError:
        # The server was asked to stop and does not report whether it did, or it had answered already.
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        raise DeviceError(
            f"{name} was told to stop before its answer was taken; it may have happened, or may go on.",
            ErrorCode.OUTCOME_UNKNOWN,
        ) from None


async def _read_answer(
    answer: dict[str, Any], server: ServerConfig, definition: Definition, most: int
) -> dict[str, Any]:
    if answer.get("resultType", "complete") != "complete":
        raise DeviceError(
            f"{definition.name} asks for input in the middle of a call, which this device does not give.",
            ErrorCode.TOOL_FAILED,
        )
    if answer.get("isError") is True:
        raise await _tool_error(answer, server, most)
    result = await _result(answer, most)
    # A number that JSON cannot say is no fault of the answer's form, and a schema judges only JSON.
    if definition.output is not None and "note" not in result:
        try:
            # In a thread: the server controls both the schema and the answer, so validation may be slow.
            await asyncio.to_thread(definition.check_result, answer)
        except DeviceError as error:
            # The tool has run, so the operator must see its result.
            raise FailedWithResult(error.message, error.code, result) from error
    return result


async def _result(answer: dict[str, Any], most: int) -> dict[str, Any]:
    result = result_of(answer, most)
    if has_pictures(result):
        await asyncio.to_thread(identify_pictures, result)
    return result


async def _tool_error(answer: dict[str, Any], server: ServerConfig, most: int) -> DeviceError:
    message = server.redact(error_text(answer))
    try:
        shown = await _result(answer, most)
    except QuarterdeckError as error:
        return DeviceError(
            f"{message} (not shown: {clause(server.redact(error.message))}).", ErrorCode.TOOL_FAILED
        )
    return FailedWithResult(message, ErrorCode.TOOL_FAILED, shown)


def _protocol_error(error: MCPError, server: ServerConfig, name: str) -> DeviceError:
    message = server.redact(_error_message(error))[:_MOST_WORDS]
    if error.code in {ANSWER_TOO_LARGE, types.PARSE_ERROR}:
        return DeviceError(
            sentences(f"{name} ended, but its answer cannot be used: {message}"), ErrorCode.BAD_RESULT
        )
    if server.kind == "http" and error.code in {NOT_SENT, SESSION_GONE}:
        return NotRun(sentences(f"The server of {name} did not run it", message), ErrorCode.TOOL_FAILED)
    if server.kind == "http" and error.code in {ACCESS_DENIED, REJECTED}:
        return DeviceError(sentences(f"The server of {name} did not run it", message), ErrorCode.TOOL_FAILED)
    if not is_unanswered(error):
        return DeviceError(sentences(f"{name}: {message}"), ErrorCode.TOOL_FAILED)
    return DeviceError(
        f"The server of {name} was lost before it answered ({message}); it may have happened.",
        ErrorCode.OUTCOME_UNKNOWN,
    )


def _error_message(error: MCPError) -> str:
    """An error's message and data; the data may contain an address that the operator has to open."""
    if error.code == types.PARSE_ERROR and _BY_PARSER in error.message:
        return f"it {fault_in(error.message) or 'is not a message of MCP'}"
    words = error.message.strip() or f"it did not say why (error {error.code})"
    if error.data in (None, "", {}, []):
        return words
    return f"{words} {to_json(error.data, inf_nan_mode='constants').decode()}"


def _progress(report: Report, server: ServerConfig) -> ProgressFnT:
    last = -math.inf

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        nonlocal last
        now = time.monotonic()
        finished = total is not None and progress >= total
        if not math.isfinite(progress) or (now - last < _PROGRESS_EACH_S and not finished):
            return
        last = now
        whole = total if total is not None and math.isfinite(total) else None
        report(server.redact(message or "")[:_MOST_PROGRESS_TEXT], done=progress, total=whole)

    return tell
