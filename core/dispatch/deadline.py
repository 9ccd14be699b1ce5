"""Command deadlines: how long a device has for one command.

If a tool limits itself by an argument, its deadline is a little longer than that limit, so that its answer
still counts. This applies only if the argument is known to be such a limit and its unit is known: real tools
take `timeout` in seconds, milliseconds or minutes, and state the unit in the argument's name or description,
or nowhere.
"""

from __future__ import annotations

import math
import re

from core.commands.channel import DEFAULT_TIMEOUT
from core.commands.request import CommandRequest
from core.models.devices import Device
from core.models.tools import BUILT_IN_NAMESPACE, Tool
from core.policy.analysis.arguments import snake
from core.policy.analysis.built_in_tools import SHELL_ARGUMENTS

GRACE = 10.0
MOST_TIMEOUT = 86_400.0
# The longest deadline, in seconds, that an argument of a tool which is not built in can set.
MOST_FOREIGN = 3_600.0

_LIMIT = re.compile(r"time_?out(?:_(?P<unit>[a-z]+))?")
_UNITS: tuple[tuple[float, re.Pattern[str]], ...] = (
    (0.001, re.compile(r"\b(?:ms|msecs?|millis|milli-?seconds?)\b", re.IGNORECASE)),
    (1.0, re.compile(r"\b(?:secs?|seconds?)\b|\((?:in )?s\)|\bin s\b|^s$", re.IGNORECASE)),
    (60.0, re.compile(r"\b(?:mins?|minutes?)\b", re.IGNORECASE)),
    (3600.0, re.compile(r"\b(?:hrs?|hours?)\b", re.IGNORECASE)),
)


def deadline_of(request: CommandRequest, tool: Tool, *, stock: bool) -> float:
    """The deadline of a request in seconds: the request's timeout, else the tool's own limit, else a minute.

    `stock`: the device takes one command at a time. Then no argument may make other commands wait longer than
    the default; only the request's timeout may.
    """
    if request.timeout is not None:
        return min(request.timeout, MOST_TIMEOUT)
    own = _own_limit(request, tool)
    if own is None:
        return DEFAULT_TIMEOUT
    if tool.namespace == BUILT_IN_NAMESPACE and not stock:
        return min(own + GRACE, MOST_TIMEOUT)
    # A foreign tool may need time before and after its own limit, so it gets at least the default.
    return min(max(own + GRACE, DEFAULT_TIMEOUT), DEFAULT_TIMEOUT if stock else MOST_FOREIGN)


def is_stock(device: Device) -> bool:
    """Whether a device has no Quarterdeck extensions: it takes one command at a time and cannot cancel."""
    return device.direction != "local" and not device.features


def _own_limit(request: CommandRequest, tool: Tool) -> float | None:
    """The seconds to which a call limits itself; None if unknown."""
    limits = []
    for name, value in request.parameters.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        seconds = _seconds_in(tool, name)
        if seconds is not None and math.isfinite(value) and value > 0:
            limits.append(value * seconds)
    return max(limits, default=None)


def _seconds_in(tool: Tool, name: str) -> float | None:
    """The unit of an argument in seconds; None if the argument is no limit or its unit is unknown."""
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
    """The unit, in seconds, that `words` name; None if they name no unit, or several."""
    units = [seconds for seconds, pattern in _UNITS if pattern.search(words)]
    return units[0] if len(units) == 1 else None
