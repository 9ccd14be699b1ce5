"""AIP's messages, field by field as stock UFO clients and servers send them.

The console always sends `ServerMessage`, the device always `ClientMessage`; each is one JSON object per text
frame, without an envelope or version field. Unknown fields are ignored, as stock peers do.
Source: microsoft/UFO `aip/messages.py`, observed on the wire.
"""

from __future__ import annotations

import gc
from enum import StrEnum
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.aip.frame_limits import check_frame_parts
from core.broken_text import mended_json
from core.errors import DeviceError, ErrorCode, first_fault
from core.models.tools import ToolType
from core.text import sentences


class ResultStatus(StrEnum):
    """AIP's status of one command's result."""

    SUCCESS = "success"
    FAILURE = "failure"
    SKIPPED = "skipped"
    NONE = "none"


class FrameStatus(StrEnum):
    """AIP's status of a frame; every frame has one."""

    CONTINUE = "continue"
    COMPLETED = "completed"
    FAILED = "failed"
    OK = "ok"
    ERROR = "error"


class AipModel(BaseModel):
    """Base of AIP's models: unknown fields are ignored, because stock peers add some."""

    model_config = ConfigDict(extra="ignore", defer_build=True)


class Command(AipModel):
    """One call of one tool."""

    tool_name: str
    parameters: dict[str, Any] | None = None
    tool_type: ToolType
    call_id: str | None = None
    # Quarterdeck's extension (`CommandOptions`); omitted for peers that have not announced `terms`.
    quarterdeck: dict[str, Any] | None = Field(default=None, exclude_if=lambda value: value is None)


class Result(AipModel):
    """A device's result of one command. `result` is any JSON value."""

    status: ResultStatus
    error: str | None = None
    result: Any = None
    namespace: str | None = None
    call_id: str | None = None


class ToolInfo(AipModel):
    """A tool as a device lists it, in MCP's terms."""

    tool_key: str
    tool_name: str
    title: str | None = None
    namespace: str | None = None
    tool_type: ToolType
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class ServerMessage(AipModel):
    """A frame from the console (AIP's server) to a device."""

    type: Literal[
        "task", "heartbeat", "task_end", "command", "error", "device_info_request", "device_info_response"
    ]
    status: FrameStatus
    user_request: str | None = None
    agent_name: str | None = None
    process_name: str | None = None
    root_name: str | None = None
    actions: list[Command] | None = None
    messages: list[str] | None = None
    error: str | None = None
    session_id: str | None = None
    task_name: str | None = None
    timestamp: str | None = None
    response_id: str | None = None
    result: Any = None


class ClientMessage(AipModel):
    """A frame from a device to the console."""

    type: Literal[
        "task",
        "heartbeat",
        "command_results",
        "error",
        "register",
        "task_end",
        "device_info_request",
        "device_info_response",
    ]
    status: FrameStatus
    client_type: Literal["device", "constellation"] | None = "device"
    session_id: str | None = None
    task_name: str | None = None
    client_id: str | None = None
    target_id: str | None = None
    request: str | None = None
    action_results: list[Result] | None = None
    timestamp: str | None = None
    request_id: str | None = None
    prev_response_id: str | None = None
    error: str | None = None
    metadata: dict[str, Any] | None = Field(default=None)


Message = TypeVar("Message", bound=AipModel)

# Frames up to this size make too few objects for the garbage collector to matter.
_SMALL = 64 * 1024
# Searching more for broken text takes longer than 50 ms, in which the loop serves no other link.
_LARGEST_MENDED = 4 * 1024 * 1024


def read_client_frame(data: str | bytes) -> ClientMessage:
    """Read a device's frame; U+FFFD takes the place of text that is not valid Unicode.

    Raises:
        DeviceError: it is not a JSON object of AIP's client shape (code `protocol_error`).
    """
    try:
        return _read(ClientMessage, data)
    except DeviceError:
        if len(data) > _LARGEST_MENDED:
            raise
        given = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        # The usual frame is not searched: that would cost as much as parsing it.
        if (mended := mended_json(given)) is given:
            raise
        return _read(ClientMessage, mended)


def read_server_frame(data: str | bytes) -> ServerMessage:
    """Read a console's frame; JSON in a binary frame is accepted, as stock clients do.

    Text that is not valid Unicode is refused: arguments must not be changed.

    Raises:
        DeviceError: it is not a JSON object of AIP's server shape (code `protocol_error`).
    """
    return _read(ServerMessage, data)


def _read(model: type[Message], data: str | bytes) -> Message:
    if len(data) <= _SMALL:
        return _validated(model, data)
    check_frame_parts(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
    collects = gc.isenabled()
    # The new objects are not garbage yet; repeated collections would take most of the parsing time.
    gc.disable()
    try:
        return _validated(model, data)
    finally:
        if collects:
            gc.enable()


def _validated(model: type[Message], data: str | bytes) -> Message:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise DeviceError(
            sentences(f"Not an AIP frame: {first_fault(error, 'frame')}"), ErrorCode.PROTOCOL_ERROR
        ) from error
