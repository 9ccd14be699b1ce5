"""How long a device has for one command.

A tool that limits itself by an argument gets a little longer than that limit, so that its answer still
counts; but only where it is known that the argument is such a limit, and in which unit. Real tools mean
seconds, milliseconds and minutes by `timeout`, and say so in the argument's name or description, or nowhere.
"""

from __future__ import annotations

import math
import re

from core.dispatch.channel import DEFAULT_TIMEOUT
from core.dispatch.command_request import Order
from core.fleet.models import BUILT_IN_NAMESPACE, Device, Tool
from core.policy.analysis.arguments import snake
from core.policy.analysis.shell.tool_arguments import SHELL_ARGUMENTS

GRACE = 10.0
MOST_TIMEOUT = 86_400.0
# What a tool that the console did not write may lengthen its own deadline to.
MOST_FOREIGN = 3_600.0

_LIMIT = re.compile(r"time_?out(?:_(?P<unit>[a-z]+))?")
_UNITS: tuple[tuple[float, re.Pattern[str]], ...] = (
    (0.001, re.compile(r"\b(?:ms|msecs?|millis|milli-?seconds?)\b", re.IGNORECASE)),
    (1.0, re.compile(r"\b(?:secs?|seconds?)\b|\((?:in )?s\)|\bin s\b|^s$", re.IGNORECASE)),
    (60.0, re.compile(r"\b(?:mins?|minutes?)\b", re.IGNORECASE)),
    (3600.0, re.compile(r"\b(?:hrs?|hours?)\b", re.IGNORECASE)),
)


def deadline_of(order: Order, tool: Tool, *, stock: bool) -> float:
    """How many seconds a device has for an order: as ordered, else as its tool limits itself, else a minute.

    `stock`: the device takes one command at a time. No argument of one command makes the others wait for
    longer than the default then; only the order itself does.
    """
    if order.timeout is not None:
        return min(order.timeout, MOST_TIMEOUT)
    own = _own_limit(order, tool)
    if own is None:
        return DEFAULT_TIMEOUT
    if tool.namespace == BUILT_IN_NAMESPACE and not stock:
        return min(own + GRACE, MOST_TIMEOUT)
    # What else a stranger's tool does before and after its own limit is not known.
    return min(max(own + GRACE, DEFAULT_TIMEOUT), DEFAULT_TIMEOUT if stock else MOST_FOREIGN)


def is_stock(device: Device) -> bool:
    """Whether a device has none of our extensions: it takes one command at a time and cannot cancel."""
    return device.direction != "local" and not device.features


def _own_limit(order: Order, tool: Tool) -> float | None:
    """The seconds to which a call limits itself; None where that is not known."""
    limits = []
    for name, value in order.parameters.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        seconds = _seconds_in(tool, name)
        if seconds is not None and math.isfinite(value) and value > 0:
            limits.append(value * seconds)
    return max(limits, default=None)


def _seconds_in(tool: Tool, name: str) -> float | None:
    """How many seconds the unit of an argument has; None where it is no limit, or its unit is not said."""
    found = _LIMIT.fullmatch(snake(name))
    if found is None:
        return None
    if found["unit"]:
        return _unit_in(found["unit"])
    if tool.namespace == BUILT_IN_NAMESPACE and tool.tool_name in SHELL_ARGUMENTS:
        return 1.0
    properties = tool.input_schema.get("properties")
    schema = properties.get(name) if isinstance(properties, dict) else None
    if not isinstance(schema, dict):
        return None
    return _unit_in(
        " ".join(text for key in ("title", "description") if isinstance(text := schema.get(key), str))
    )


def _unit_in(words: str) -> float | None:
    """The unit that is named; none where several are, as it is not known then which of them is meant."""
    units = [seconds for seconds, pattern in _UNITS if pattern.search(words)]
    return units[0] if len(units) == 1 else None
