"""A command on its way through the stages: one record, whose fields are filled as it goes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from core.commands.arguments import Arguments, PreparedCall
from core.commands.request import CommandRequest, Target
from core.commands.results import CommandStage
from core.errors import DeviceError, ErrorCode, Refused
from core.models.tool_lookup import missing_tool
from core.models.tools import OTHERWISE, Tool
from core.next_steps import ADVICE
from core.policy.models import Decision
from core.policy.real_paths import ResolvedPaths
from core.statements import Request, make_request


@dataclass(slots=True, eq=False, repr=False)
class DispatchedCommand:
    """One command on its way: the record that all stages take, each of which fills in what it finds.

    An operator's edit begins another one. What a stage fills in cannot be read before. It holds secrets, so
    that its text, which a log might quote, shows no field.
    """

    request: CommandRequest
    # Seconds of `time.perf_counter`; an edited request counts from the first of its commands.
    started: float = field(default_factory=time.perf_counter)
    stage: CommandStage = CommandStage.PREPARE

    # By `bind`. `shown` is the redacted request with its digest, which may be written and shown; operators
    # sign it.
    is_bound: bool = field(default=False, init=False)
    target: Target = field(init=False)
    tool: Tool = field(init=False)
    arguments: Arguments = field(init=False)
    shown: Request = field(init=False)

    # By the first three stages. `leads` are the real paths of its path arguments on a shared disk; None if
    # there are none to follow. `undone` is the file that it writes without naming it
    # (`core.dispatch.undone_path`).
    leads: ResolvedPaths | None = field(default=None, init=False)
    undone: str | None = field(default=None, init=False)

    # By the fourth: the decision, and whether the entries of the request and the decision are written.
    decision: Decision | None = field(default=None, init=False)
    is_recorded: bool = field(default=False, init=False)

    @property
    def took_ms(self) -> float:
        """Milliseconds since the request was dispatched."""
        return (time.perf_counter() - self.started) * 1000

    @property
    def call(self) -> PreparedCall:
        """Its arguments, which were checked for its contract.

        Raises:
            Refused: they were not, or for another one.
        """
        call = self.arguments
        if not isinstance(call, PreparedCall) or call.contract != self.shown.contract:
            raise Refused(
                f"What was checked of {self.shown.tool_name} is not what is requested.",
                next_step=ADVICE[ErrorCode.INTERNAL].person,
            )
        return call

    def bind(self, target: Target, tool: Tool, arguments: Arguments) -> None:
        """Bind the request to a tool, by its redacted arguments.

        Raises:
            BadInput: the arguments have no canonical form.
        """
        shown = make_request(
            device=self.request.device,
            contract=tool.contract.digest,
            tool_key=tool.tool_key,
            tool_name=tool.tool_name,
            tool_type=tool.tool_type,
            namespace=tool.namespace,
            parameters=arguments.shown,
            call_id=self.request.call_id,
            encoded=arguments.shown_json,
        )
        self.target, self.tool, self.arguments, self.shown = target, tool, arguments, shown
        self.leads = self.undone = None
        self.is_bound = True

    def prepare(self, call: PreparedCall) -> None:
        """Take the arguments as they were checked.

        Raises:
            Refused: they were checked for another contract, or are others.
        """
        if call.contract != self.shown.contract or call.sent is not self.arguments.sent:
            raise Refused(
                f"What was checked of {self.shown.tool_name} is not what is requested.",
                next_step=ADVICE[ErrorCode.INTERNAL].person,
            )
        self.arguments = call

    def take_over(self, waiting: DispatchedCommand) -> None:
        """Go on in the place of the command that waited, whose request is the same."""
        self.started, self.is_recorded = waiting.started, waiting.is_recorded


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


def check_bound(command: DispatchedCommand, now: Target) -> None:
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
