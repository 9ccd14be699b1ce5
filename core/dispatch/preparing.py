"""Stage 1: binds an order to one device and one contract, as a `Request`. Pure."""

from __future__ import annotations

from core.dispatch.arguments import CheckedArguments, RedactedArguments
from core.dispatch.command_request import Bound, CommandRequest, Prepared, Target
from core.errors import BadInput, DeviceError, ErrorCode, Refused
from core.fleet.models import OTHERWISE, Tool
from core.statements import make_request

_LONGEST_NAME = 200


def tool_of(order: CommandRequest, target: Target) -> Tool:
    """The tool that an order names, as its device offers it now.

    Raises:
        DeviceError: the device is offline and is not known to have this tool.
        BadInput: the device has no such tool.
        Refused: the tool differs from its trusted definition.
    """
    tool = target.tools.get(order.tool)
    if tool is None and target.channel is None:
        raise DeviceError(
            f"{order.device} is {target.device.health.value}: {target.device.reason or 'not connected'}.",
            ErrorCode.DEVICE_OFFLINE,
        )
    if tool is None:
        raise BadInput(_unknown_tool(order, target), ErrorCode.UNKNOWN_TOOL)
    if tool.changed:
        raise Refused(
            f"{tool.tool_name} on {order.device} is not what was trusted: it {tool.change or OTHERWISE}.",
            ErrorCode.CONTRACT_CHANGED,
        )
    return tool


def bind(
    order: CommandRequest, target: Target, tool: Tool, arguments: RedactedArguments | CheckedArguments
) -> Bound:
    """Bind redacted arguments to a tool; the result's `request` may be written and shown.

    Raises:
        BadInput: the arguments have no canonical form.
    """
    request = make_request(
        device=order.device,
        contract=tool.contract.digest,
        tool_key=tool.tool_key,
        tool_name=tool.tool_name,
        tool_type=tool.tool_type,
        namespace=tool.namespace,
        parameters=arguments.shown,
        call_id=order.call_id,
    )
    return Bound(order, target, tool, request)


def prepare(bound: Bound, arguments: CheckedArguments) -> Prepared:
    """Combine a bound command with its checked arguments.

    Raises:
        Refused: the arguments were checked against another contract, or differ from those in the request.
    """
    request = bound.request
    if arguments.contract != request.contract or arguments.shown != request.parameters:
        raise Refused(f"What was checked of {request.tool_name} is not what is asked for.")
    return Prepared(*bound, arguments, [], [])


def check_bound(prepared: Prepared, now: Target) -> None:
    """Check that the tool still has the contract that was judged.

    Raises:
        DeviceError: the device is offline.
        Refused: the tool is gone or has changed.
    """
    tool = now.tools.get(prepared.order.tool)
    if now.channel is None:
        raise gone_offline(prepared.order.device)
    if tool is None or tool.changed or tool.contract.digest != prepared.request.contract:
        raise Refused(
            f"{prepared.request.tool_name} changed between the decision and the sending.",
            ErrorCode.CONTRACT_CHANGED,
        )


def gone_offline(device: str) -> DeviceError:
    """The error for a device that went offline before its command was sent."""
    return DeviceError(f"{device} went offline before it was sent.", ErrorCode.DEVICE_OFFLINE)


def _unknown_tool(order: CommandRequest, target: Target) -> str:
    import difflib

    # The caller chooses the name, so its length is bounded before it is compared and quoted.
    wanted = order.tool[:_LONGEST_NAME]
    # Tools of hosted servers that have this name at their own server.
    own = sorted(name for name, tool in target.tools.items() if tool.own_name == wanted)
    near = own[:3] or difflib.get_close_matches(wanted, target.tools, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{order.device} has no tool {wanted!r}.{hint}"
