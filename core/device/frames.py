"""Reads the console's frames so that every command in them gets an answer, malformed commands included.

Stock devices drop a whole frame because of one bad action, and the console waits for hours.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from core.aip.extensions import CommandOptions
from core.aip.messages import Command, FrameStatus, ServerMessage, read_server_frame
from core.errors import DeviceError, ErrorCode, first_fault
from core.text import sentences


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a frame: a valid command, or the fault that makes it invalid."""

    call_id: str | None
    command: Command | None
    fault: DeviceError | None = None
    terms: CommandOptions | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A frame and, when it carries commands, its steps in order."""

    message: ServerMessage
    steps: list[Step]


def read_frame(data: str | bytes, with_terms: bool = False) -> Received:
    """Read one frame; `with_terms`: command options were agreed with this console, and are read.

    Raises:
        DeviceError: the frame is so malformed that no command in it can be answered (code `protocol_error`).
    """
    try:
        message = read_server_frame(data)
    except DeviceError as error:
        return _salvage(data, error, with_terms)
    return Received(message, [_with_terms(command, with_terms) for command in message.actions or []])


def _with_terms(command: Command, wanted: bool) -> Step:
    if not wanted or command.quarterdeck is None:
        return Step(command.call_id, command)
    try:
        return Step(command.call_id, command, terms=CommandOptions.model_validate(command.quarterdeck))
    except ValidationError as error:
        return Step(command.call_id, None, _not_a_command(error, "terms"))


def _salvage(data: str | bytes, error: DeviceError, with_terms: bool) -> Received:
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
    return Received(message, [_step(action, None if sound else error, with_terms) for action in actions])


def _is_sound_without_actions(frame: dict[str, Any]) -> bool:
    try:
        ServerMessage.model_validate({**frame, "actions": None})
    except ValidationError:
        return False
    return True


def _step(action: Any, frame_fault: DeviceError | None, with_terms: bool) -> Step:
    call_id = _text(action.get("call_id")) if isinstance(action, dict) else None
    if frame_fault is not None:
        return Step(call_id, None, frame_fault)
    try:
        return _with_terms(Command.model_validate(action), with_terms)
    except ValidationError as error:
        return Step(call_id, None, _not_a_command(error, "action"))


def _not_a_command(error: ValidationError, what: str) -> DeviceError:
    return DeviceError(sentences(f"Not a command: {first_fault(error, what)}"), ErrorCode.PROTOCOL_ERROR)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
