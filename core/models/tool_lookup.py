"""Finds a tool of a device by its name, and says why the device has none of that name."""

from __future__ import annotations

from collections.abc import Iterable

from core.errors import BadInput, ErrorCode
from core.models.devices import Device, Health
from core.models.tools import Tool
from core.similar import most_like
from core.text import sentences

# In characters. The caller chooses the name, so it is bounded before it is compared and quoted.
_LONGEST_NAME = 200
_MOST_HINTS = 3


def tool_named(wanted: str, tools: Iterable[Tool]) -> Tool | None:
    """The tool with this name or key, None if there is none."""
    return next((tool for tool in tools if wanted in (tool.tool_name, tool.tool_key)), None)


def missing_tool(device: Device, wanted: str, tools: Iterable[Tool] = ()) -> BadInput:
    """The error (`unknown_tool`) for a device without a tool of this name; `tools` are those that it has.

    It has the device's own reason where it could offer the tool, tools of similar names, and the device's
    health where it takes no commands.
    """
    name = wanted[:_LONGEST_NAME]
    near = _similar(name, device, list(tools))
    hint = f"Did you mean {' or '.join(near)}?" if near else ""
    away = "" if device.health in (Health.ONLINE, Health.BUSY) else f"It is {device.health.value}."
    return BadInput(" ".join(filter(None, (lacks(device, name), hint, away))), ErrorCode.UNKNOWN_TOOL)


def lacks(device: Device, tool: str) -> str:
    """The sentence that a device has no tool of this name: with its own reason where it could offer it."""
    missing = next((one for one in device.unavailable if one.tool == tool), None)
    if missing is None:
        return f"{device.name} has no tool {tool!r}."
    return sentences(f"{device.name} does not offer {tool}: {missing.reason}", missing.how_to_fix)


def _similar(name: str, device: Device, tools: list[Tool]) -> list[str]:
    """Tools of hosted servers that have this name at their own server, or else tools of similar names."""
    own = sorted(tool.tool_name for tool in tools if tool.own_name == name)
    if own or any(missing.tool == name for missing in device.unavailable):
        return own[:_MOST_HINTS]
    return most_like(name, (tool.tool_name for tool in tools), _MOST_HINTS)
