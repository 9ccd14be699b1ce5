"""Software must not press Approve: no action on the screen of the computer that the console runs on.

Whoever can click there can answer the console's own cards, so that an approval would prove nothing. That
holds for every way a device can be that computer: the device client of the service itself, one that was
paired like any other, and a stock client that gives our host's name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from core.controls import programs_named
from core.dispatch.command_request import Prepared
from core.errors import Refused

# Ours, and what stock clients and MCP servers that drive a screen call the same.
UI_ACTIONS = frozenset(
    {
        "click_element",
        "click_point",
        "type_text",
        "press_key",
        "scroll",
        "click",
        "click_input",
        "click_on_coordinates",
        "computer",
        "double_click",
        "drag",
        "drag_on_coordinates",
        "hotkey",
        "key_press",
        "keyboard_input",
        "left_click",
        "left_click_drag",
        "middle_click",
        "mouse_click",
        "mouse_move",
        "move_mouse",
        "right_click",
        "send_keys",
        "set_edit_text",
        "swipe",
        "tap",
        "triple_click",
        "type",
        "type_keys",
        "wheel_mouse_input",
    }
)
SETTING = "ui_actions_on_this_computer"
_CLOSES = "close_application"
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NUMBER = re.compile(r"_\d+$")
_OUR_PROGRAMS = ("core.service", "core.device", "app.main", "quarterdeck")


def check_own_screen(prepared: Prepared, allowed: bool) -> None:
    """Refuse what would act on the screen where the operator answers. `allowed`: settings.toml says so.

    Raises:
        Refused: it would; says why, and what allows it.
    """
    if allowed or not prepared.target.device.own_computer:
        return
    device, tool = prepared.order.device, prepared.tool.tool_name
    # Whether it is an action is what its server says of it, and a server may say that a click only reads.
    if _bare(tool, prepared.tool.namespace) in UI_ACTIONS:
        raise Refused(
            f"{device} is the computer that this console runs on: {tool} could press Approve in its window. "
            f"So it is refused. For tests, {SETTING} = true in settings.toml allows it."
        )
    if tool == _CLOSES and _closes_us(prepared.order.parameters):
        raise Refused(f"{tool} would close this console itself, where its operators answer.")


def _bare(tool: str, namespace: str | None) -> str:
    """What a tool is called by its own server, where its device put that server's name before it."""
    server = _NO_NAME.sub("_", namespace or "")
    return _NUMBER.sub("", tool.removeprefix(f"{server}_")).lower().replace("-", "_")


def _closes_us(parameters: dict[str, Any]) -> bool:
    # Each name that it gives, also where a call that gives two of them is refused later.
    names = {name.lower() for name in programs_named(parameters) if isinstance(name, str)}
    pid = parameters.get("pid")
    return any(number == pid or called.lower() in names for number, called in _our_processes())


def _our_processes() -> Iterator[tuple[int, str]]:
    """The numbers and names of the service, the windows and the device clients on this computer."""
    # Only this one tool on this one computer needs to know what runs here.
    import psutil

    for process in psutil.process_iter(["pid", "name", "cmdline"]):
        found = process.info
        line = found["cmdline"] or []
        ours = any(
            word in _OUR_PROGRAMS or os.path.basename(word).startswith("quarterdeck") for word in line[:6]
        )
        if ours or found["pid"] == os.getpid():
            yield found["pid"], found["name"] or ""
