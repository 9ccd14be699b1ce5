"""Stage 1: a wish becomes one request, bound to one device and one contract. Pure."""

from __future__ import annotations

from core.dispatch.order import InOrder, Order, Prepared, Target
from core.dispatch.secrets import Masker
from core.errors import BadInput, DeviceError, ErrorCode, Refused
from core.fleet.models import OTHERWISE
from core.quick import changed
from core.statements import make_request

_LONGEST_NAME = 200


def bind(order: Order, target: Target, masker: Masker | None, key: InOrder | None = None) -> Prepared:
    """Bind an order to the tool that its device offers now.

    Without a masker its arguments, `key`, were found in order before: none of them is secret.

    Raises:
        DeviceError: the device is away and what it offers is not known.
        BadInput: it has no such tool.
        Refused: the tool is not the trusted one.
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
    request = make_request(
        device=order.device,
        contract=tool.contract.digest,
        tool_key=tool.tool_key,
        tool_name=tool.tool_name,
        tool_type=tool.tool_type,
        namespace=tool.namespace,
        parameters=order.parameters,
        call_id=order.call_id,
        # What was found in order before was found to be of these types, too.
        checked=masker is None,
    )
    shown = request
    if masker is not None:
        masked = masker.mask(order.parameters, tool.input_schema)
        shown = request if masked == order.parameters else changed(request, parameters=masked)
    return Prepared(order, target, tool, request, shown, [], [], key, masker is None)


def check_bound(prepared: Prepared, now: Target) -> None:
    """That the tool is still the one that was judged.

    Raises:
        DeviceError: the device has gone.
        Refused: it is not.
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
    """What is said of a device that went before its command left."""
    return DeviceError(f"{device} went offline before it was sent.", ErrorCode.DEVICE_OFFLINE)


def _unknown_tool(order: Order, target: Target) -> str:
    import difflib

    # Whoever asks chooses the name: it is neither compared nor repeated at any length.
    wanted = order.tool[:_LONGEST_NAME]
    near = difflib.get_close_matches(wanted, target.tools, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{order.device} has no tool {wanted!r}.{hint}"
