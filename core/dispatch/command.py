"""A command on its way: bound to one device and one contract, prepared, and how far it has come."""

from __future__ import annotations

import time
from dataclasses import dataclass

from core.commands.arguments import Arguments, PreparedCall
from core.commands.request import CommandRequest, Target
from core.commands.results import CommandStage
from core.errors import ADVICE, DeviceError, ErrorCode, Refused
from core.models.tool_lookup import missing_tool
from core.models.tools import OTHERWISE, Tool
from core.policy.models import Decision
from core.policy.real_paths import ResolvedPaths
from core.statements import Request, make_request


@dataclass(frozen=True, slots=True)
class BoundCommand:
    """A request bound to one contract of one device.

    `shown` is the redacted request with its digest, which may be written and shown; operators sign it.
    """

    request: CommandRequest
    target: Target
    tool: Tool
    arguments: Arguments
    shown: Request


@dataclass(frozen=True, slots=True)
class PreparedCommand(BoundCommand):
    """A bound command whose arguments have passed the first three stages.

    `leads` are the real paths of its path arguments on a shared disk; None if there are none to follow.
    `undone` is the file that it writes without naming it (`core.dispatch.undone_path`).
    """

    call: PreparedCall
    leads: ResolvedPaths | None = None
    undone: str | None = None

    def __post_init__(self) -> None:
        """Check that the call was prepared for this contract and from these arguments.

        Raises:
            Refused: it was not.
        """
        if self.call.contract != self.shown.contract or self.call.arguments is not self.arguments:
            raise Refused(
                f"What was checked of {self.shown.tool_name} is not what is requested.",
                next_step=ADVICE[ErrorCode.INTERNAL].next_step,
            )

    @classmethod
    def of(
        cls, bound: BoundCommand, call: PreparedCall, leads: ResolvedPaths | None, undone: str | None = None
    ) -> PreparedCommand:
        """The bound command with its prepared call; see `__post_init__`."""
        return cls(bound.request, bound.target, bound.tool, bound.arguments, bound.shown, call, leads, undone)


@dataclass(slots=True)
class Attempt:
    """How far one request has come: what its result is made of if it ends before it is sent.

    An operator's edit begins another attempt.
    """

    request: CommandRequest
    # Seconds of `time.perf_counter`; an edited request counts from the first attempt.
    started: float
    stage: CommandStage = CommandStage.PREPARE
    bound: BoundCommand | None = None
    decision: Decision | None = None

    @property
    def took_ms(self) -> float:
        """Milliseconds since the request was dispatched."""
        return (time.perf_counter() - self.started) * 1000


def bind(request: CommandRequest, target: Target, tool: Tool, arguments: Arguments) -> BoundCommand:
    """Bind redacted arguments to a tool.

    Raises:
        BadInput: the arguments have no canonical form.
    """
    shown = make_request(
        device=request.device,
        contract=tool.contract.digest,
        tool_key=tool.tool_key,
        tool_name=tool.tool_name,
        tool_type=tool.tool_type,
        namespace=tool.namespace,
        parameters=arguments.shown,
        call_id=request.call_id,
    )
    return BoundCommand(request, target, tool, arguments, shown)


def tool_of(request: CommandRequest, target: Target) -> Tool:
    """The tool that a request names, as its device offers it now.

    Raises:
        DeviceError: the device is offline and is not known to have this tool.
        BadInput: the device has no such tool.
        Refused: the tool differs from its trusted definition.
    """
    tool = target.tools.get(request.tool)
    if tool is None and target.channel is None:
        raise DeviceError(
            f"{request.device} is {target.device.health.value}: {target.device.reason or 'not connected'}.",
            ErrorCode.DEVICE_OFFLINE,
        )
    if tool is None:
        raise missing_tool(target.device, request.tool, target.tools.values())
    if tool.changed:
        raise Refused(
            f"{tool.tool_name} on {request.device} is not what was trusted: it {tool.change or OTHERWISE}.",
            ErrorCode.CONTRACT_CHANGED,
        )
    return tool


def check_bound(command: BoundCommand, now: Target) -> None:
    """Check that the tool still has the contract that was judged; the device may have reconnected since.

    Raises:
        DeviceError: the device is offline.
        Refused: the tool is gone or has changed.
    """
    tool = now.tools.get(command.request.tool)
    if now.channel is None:
        raise gone_offline(command.request.device)
    if tool is None or tool.changed or tool.contract.digest != command.shown.contract:
        raise Refused(
            f"{command.shown.tool_name} changed between the decision and the sending.",
            ErrorCode.CONTRACT_CHANGED,
        )


def gone_offline(device: str) -> DeviceError:
    """The error for a device that went offline before its command was sent."""
    return DeviceError(f"{device} went offline before it was sent.", ErrorCode.DEVICE_OFFLINE)
