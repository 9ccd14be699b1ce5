"""Writes the console's frames, and reads error texts, extension frames and heartbeats of devices.

AIP's `Result.error` and `error` frames carry a plain sentence. Quarterdeck begins it with an error code of
`core.errors` and a colon: a stock peer shows the whole text, and Quarterdeck's console reads the code back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import orjson
from pydantic import Discriminator, TypeAdapter, ValidationError
from pydantic_core import to_json

from core import __version__
from core.aip.extensions import (
    CommandProof,
    Metrics,
    Progress,
    ToolsChanged,
    Welcome,
)
from core.aip.link_events import Heartbeat
from core.aip.messages import ClientMessage, Command, FrameStatus, ServerMessage
from core.broken_text import mended_json
from core.errors import DeviceError, ErrorCode, ErrorInfo, QuarterdeckError
from core.ids import new_uuid, now_stamp
from core.json_walk import refuse_constant
from core.next_steps import DENIED_BY_PEER
from core.text import sentences

_CODES = frozenset(ErrorCode)


def error_text(error: QuarterdeckError) -> str:
    """Format an error for `Result.error`."""
    return f"{error.code.value}: {error.message}"


def read_error_text(text: str, default: ErrorCode = ErrorCode.TOOL_FAILED) -> ErrorInfo:
    """Read a peer's `Result.error`; a text without a known code gets the code `default`."""
    word, colon, rest = text.partition(": ")
    if colon and word in _CODES:
        code = ErrorCode(word)
        return ErrorInfo.of(code, rest, DENIED_BY_PEER.person if code is ErrorCode.DENIED_BY_POLICY else "")
    return ErrorInfo.of(default, text)


_CONTINUE = FrameStatus.CONTINUE.value
_LONGEST_DEADLINE = 86_400.0
_SNIFFED = 4096
_OURS = b'"quarterdeck.'
_EXTRA_FRAME: TypeAdapter[Progress | ToolsChanged] = TypeAdapter(
    Annotated[Progress | ToolsChanged, Discriminator("type")]
)


def acknowledgement(features: Sequence[str] = (), heartbeat_s: float = 20.0) -> str:
    """The frame that accepts a registration or answers a heartbeat.

    `features` are the features agreed with the device; without them the frame is plain AIP.
    """
    result = None
    if features:
        welcome = Welcome(version=__version__, features=sorted(features), heartbeat_s=heartbeat_s)
        result = {"quarterdeck": welcome.model_dump()}
    return ServerMessage(
        type="heartbeat",
        status=FrameStatus.OK,
        timestamp=now_stamp(),
        response_id=new_uuid(),
        result=result,
    ).model_dump_json()


def error_frame(error: QuarterdeckError) -> str:
    """The frame that reports an error in a device's frame."""
    return ServerMessage(
        type="error",
        status=FrameStatus.ERROR,
        error=error_text(error),
        timestamp=now_stamp(),
        response_id=new_uuid(),
    ).model_dump_json()


def command_frame(
    commands: Sequence[Command],
    agent_name: str,
    session_id: str,
    response_id: str,
    terms: Sequence[dict[str, Any]] = (),
) -> bytes:
    """The frame that carries commands, as a stock server would write it.

    `terms` are the options of each command, in order, for a device with the feature `terms` (`terms_of`).
    """
    actions: list[dict[str, Any]] = [
        {
            "tool_name": command.tool_name,
            "parameters": command.parameters,
            "tool_type": command.tool_type,
            "call_id": command.call_id,
        }
        for command in commands
    ]
    if terms:
        for action, one in zip(actions, terms, strict=True):
            action["quarterdeck"] = one
    # The members of a `ServerMessage`, written without the model for speed: a run may send 1,000 frames.
    frame = {
        "type": "command",
        "status": _CONTINUE,
        "user_request": None,
        "agent_name": agent_name,
        "process_name": "",
        "root_name": "",
        "actions": actions,
        "messages": None,
        "error": None,
        "session_id": session_id,
        "task_name": session_id,
        "timestamp": now_stamp(),
        "response_id": response_id,
        "result": None,
    }
    try:
        return orjson.dumps(frame)
    except orjson.JSONEncodeError:
        # orjson refuses integers beyond 64 bits; pydantic writes any.
        return to_json(frame)


def terms_of(count: int, grounds: Sequence[CommandProof], timeout: float) -> list[dict[str, Any]]:
    """The options of `count` commands: proofs, and a deadline slightly before the console's own timeout."""
    deadline = min(timeout - min(1.0, timeout / 10), _LONGEST_DEADLINE)
    known = (
        grounds if len(grounds) == count else [*grounds[:count], *[CommandProof()] * (count - len(grounds))]
    )
    return [{"deadline_s": deadline, "digest": why.digest, "approval": why.approval} for why in known]


def read_extra_frame(data: bytes) -> Progress | ToolsChanged | None:
    """Read an extension frame; None when it is another or a malformed frame."""
    if data.find(_OURS, 0, _SNIFFED) < 0:
        return None
    try:
        return _EXTRA_FRAME.validate_json(data)
    except ValidationError:
        return None


def name_mismatch(message: ClientMessage, name: str) -> str | None:
    """Describe how a frame's client id or type contradicts the registration of `name`; None if they agree."""
    if message.client_id is not None and message.client_id != name:
        return "client_id does not match the registered connection"
    if message.client_type not in {None, "device"}:
        return "client_type does not match the registered connection"
    return None


def refuse_nan(data: bytes) -> None:
    """Refuse NaN and infinities, which are not JSON but are accepted by Python's parsers.

    Raises:
        DeviceError: the frame contains NaN or an infinity outside of texts (code `protocol_error`).
    """
    if b"NaN" not in data and b"Infinity" not in data:
        return

    try:
        json.loads(mended_json(data), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DeviceError(sentences(f"Not an AIP frame: {error}"), ErrorCode.PROTOCOL_ERROR) from error


def heartbeat_of(
    message: ClientMessage, received: datetime, round_trip_s: float, with_metrics: bool
) -> Heartbeat:
    """Read a device's heartbeat; its metrics only if the feature `metrics` was agreed."""
    return Heartbeat(
        clock_offset_ms=clock_offset_ms(message.timestamp, received, round_trip_s),
        metrics=metrics_of(message.metadata) if with_metrics else None,
    )


def clock_offset_ms(timestamp: str | None, received: datetime, round_trip_s: float) -> float | None:
    """How many milliseconds a device's clock is ahead of the console's; None without a usable timestamp.

    The frame is assumed to have taken half a round trip.
    """
    if not timestamp or len(timestamp) > 64:
        return None
    try:
        there = datetime.fromisoformat(timestamp)
        if there.tzinfo is None:
            return None
        offset = (there - received).total_seconds() + round_trip_s / 2
    except (ValueError, OverflowError):
        return None
    return round(offset * 1000, 1) if math.isfinite(offset) else None


def metrics_of(metadata: dict[str, Any] | None) -> Metrics | None:
    """The metrics in a heartbeat's metadata; None when they are missing or malformed."""
    ours = (metadata or {}).get("quarterdeck")
    told = ours.get("metrics") if isinstance(ours, dict) else None
    if not isinstance(told, dict):
        return None
    try:
        return Metrics.model_validate(told)
    except ValidationError:
        return None
