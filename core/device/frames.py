"""Reads the console's frames so that every command in them can be answered, the malformed ones included.

Stock devices drop a whole frame over one bad action and leave the console waiting for hours.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from core.aip.messages import Command, FrameStatus, ServerMessage, read_server_frame
from core.errors import DeviceError, ErrorCode


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a frame: a command, or why it is none."""

    call_id: str | None
    command: Command | None
    fault: DeviceError | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A frame and, when it carries commands, its steps in order."""

    message: ServerMessage
    steps: list[Step]


def read_frame(data: str | bytes) -> Received:
    """Read one frame.

    Raises:
        DeviceError: it is so malformed that no command in it could be answered (code `protocol_error`).
    """
    try:
        message = read_server_frame(data)
    except DeviceError as error:
        return _salvage(data, error)
    return Received(message, [Step(command.call_id, command) for command in message.actions or []])


def _salvage(data: str | bytes, error: DeviceError) -> Received:
    try:
        frame = json.loads(data)
    except (ValueError, RecursionError):
        raise error from None
    if not isinstance(frame, dict) or frame.get("type") != "command":
        raise error
    message = ServerMessage(
        type="command",
        status=FrameStatus.CONTINUE,
        session_id=_text(frame.get("session_id")),
        response_id=_text(frame.get("response_id")),
    )
    actions = frame.get("actions") or []
    if not isinstance(actions, list):
        raise error
    sound = _is_sound_without_actions(frame)
    return Received(message, [_step(action, None if sound else error) for action in actions])


def _is_sound_without_actions(frame: dict[str, Any]) -> bool:
    try:
        ServerMessage.model_validate({**frame, "actions": None})
    except ValidationError:
        return False
    return True


def _step(action: Any, frame_fault: DeviceError | None) -> Step:
    call_id = _text(action.get("call_id")) if isinstance(action, dict) else None
    if frame_fault is not None:
        return Step(call_id, None, frame_fault)
    try:
        return Step(call_id, Command.model_validate(action))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "action"
        return Step(
            call_id, None, DeviceError(f"Not a command: {place}: {first['msg']}", ErrorCode.PROTOCOL_ERROR)
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
