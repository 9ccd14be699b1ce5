"""Refuses UI actions on the computer that the console runs on, so that no software can press Approve.

A tool that can click there can answer the console's own approval cards, so an approval would prove nothing.
This covers every device that is that computer: the service's own device client, a paired device client, and a
stock client that reports this computer's host name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from core.controls import programs_named
from core.dispatch.command import DispatchedCommand
from core.errors import Refused
from core.models.tool_names import CLOSE_APPLICATION
from core.next_steps import CLOSES_THE_CONSOLE, FOR_A_PERSON_HERE
from core.policy.analysis.built_in_tools import SCREEN_TARGETS

# Our own tools, and the names of the same tools in stock clients and in MCP servers that drive a screen.
UI_ACTIONS = frozenset(SCREEN_TARGETS) | frozenset(
    {
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
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NUMBER = re.compile(r"_\d+$")
_OUR_PROGRAMS = ("core.service", "core.device", "app.main", "quarterdeck")


def check_own_screen(command: DispatchedCommand, allowed: bool) -> None:
    """Refuse a command that would act on the operator's own screen, unless `allowed` by settings.toml.

    Raises:
        Refused: it would; names the reason and the setting that allows it.
    """
    if allowed or not command.target.device.own_computer:
        return
    device, tool = command.request.device, command.tool.tool_name
    # The tool's type does not count: its server sets it, and may claim that a click only reads.
    if _bare(tool, command.tool.namespace) in UI_ACTIONS:
        raise Refused(
            f"{device} is the computer that this console runs on: {tool} could press Approve in its window. "
            f"So it is refused. For tests, {SETTING} = true in settings.toml allows it.",
            next_step=FOR_A_PERSON_HERE.person,
        )
    if tool == CLOSE_APPLICATION and _closes_us(command.arguments.sent):
        raise Refused(
            f"{tool} would close this console itself, where its operators answer.",
            next_step=CLOSES_THE_CONSOLE.person,
        )


def _bare(tool: str, namespace: str | None) -> str:
    """A tool's name at its own server, without the server's name that its device put in front."""
    server = _NO_NAME.sub("_", namespace or "")
    return _NUMBER.sub("", tool.removeprefix(f"{server}_")).lower().replace("-", "_")


def _closes_us(parameters: dict[str, Any]) -> bool:
    # All names in the call; a call with two of them is refused elsewhere.
    names = {name.lower() for name in programs_named(parameters) if isinstance(name, str)}
    pid = parameters.get("pid")
    return any(number == pid or called.lower() in names for number, called in _our_processes())


def _our_processes() -> Iterator[tuple[int, str]]:
    """PIDs and names of the processes of the service, the windows and the device clients on this computer."""
    # Imported here: only `close_application` on this computer needs it.
    import psutil

    for process in psutil.process_iter(["pid", "name", "cmdline"]):
        found = process.info
        line = found["cmdline"] or []
        ours = any(
            word in _OUR_PROGRAMS or os.path.basename(word).startswith("quarterdeck") for word in line[:6]
        )
        if ours or found["pid"] == os.getpid():
            yield found["pid"], found["name"] or ""
