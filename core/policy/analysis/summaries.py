"""Sentences about calls of the built-in tools, made from their arguments alone: their effect and their undo.

A function returns an empty text if an argument that it needs is missing. The table
`core.policy.analysis.built_in_tools` assigns the functions to the tools.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from core.controls import programs_named
from core.errors import BadInput
from core.policy.analysis.masking import MaskedText
from core.text import escape_hidden, shorten_middle
from core.text_encodings import UTF_8, encoded
from core.token_formats import MASK

Parameters = Mapping[str, Any]


def size_words(count: int) -> str:
    """A number of bytes in a readable unit: `812 bytes`, `1.2 kB`, `3.4 MB` (powers of 1000)."""
    if count == 1:
        return "1 byte"
    if count < 1000:
        return f"{count} bytes"
    if count >= 10**15:
        return f"{count // 10**9} GB"
    size = float(count)
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.95 or unit == "GB":
            return f"{size:.1f} {unit}"
    raise AssertionError("unreachable")


def short(value: object, limit: int = 80) -> str:
    """A value on one line of at most `limit` characters, with hidden characters made visible."""
    return escape_hidden(shorten_middle(str(value), limit), keep_lines=False)


def _bytes_in(content: str, parameters: Parameters) -> int:
    """The size of a text in the file, in bytes; its size in UTF-8 if the device would refuse to write it."""
    encoding = parameters.get("encoding", UTF_8)
    try:
        if encoding == "base64":
            return len(base64.b64decode(content, validate=True))
        return len(encoded(content, str(encoding)))
    except (BadInput, ValueError):
        return len(content.encode(UTF_8, "replace"))


def write_file(parameters: Parameters) -> str:
    """`write_file`: the size of the content and the path."""
    path, content = parameters.get("file_path"), parameters.get("content")
    if not isinstance(path, str) or not isinstance(content, str):
        return ""
    # Its size would be a hint.
    size = "a secret" if isinstance(content, MaskedText) else size_words(_bytes_in(content, parameters))
    match parameters.get("mode"):
        case None:
            return f"Writes {size} to {short(path)}, in place of what may be there"
        case "create":
            return f"Creates {short(path)}, {size}"
        case "overwrite":
            return f"Replaces the content of {short(path)} with {size}"
        case "append":
            return f"Appends {size} to {short(path)}"
    return ""


def shell(parameters: Parameters) -> str:
    """The tools that run a shell line: its first non-empty line and the working directory."""
    line = parameters.get("command")
    if not isinstance(line, str):
        return ""
    lines = [text for text in line.splitlines() if text.strip()]
    if not lines:
        return "Runs an empty shell line"
    more = f" and {len(lines) - 1} more {'line' if len(lines) == 2 else 'lines'}" if len(lines) > 1 else ""
    folder = parameters.get("working_directory")
    where = f" in {short(folder, 40)}" if isinstance(folder, str) and folder else ""
    return f"Runs a shell line: “{short(lines[0].strip(), 100)}”{more}{where}"


def read_file(parameters: Parameters) -> str:
    """`read_file`."""
    return f"Reads {short(parameters['file_path'])}" if "file_path" in parameters else ""


def restore_file(parameters: Parameters, path: str = "") -> str:
    """`restore_file`; `path` is the file, which its arguments do not name, if the journal has it."""
    mark = parameters.get("undo_id")
    file = short(path) if path else "a file"
    return f"Puts {file} back as it was before change {short(mark, 40)}" if mark else ""


def screenshot(parameters: Parameters) -> str:
    """`screenshot`."""
    region = parameters.get("region", "fullscreen")
    if isinstance(region, dict):
        width, height = region.get("width"), region.get("height")
        return f"Takes a picture of {short(width, 10)} × {short(height, 10)} pixels of the screen"
    if isinstance(region, str) and region.startswith("window:"):
        return f"Takes a picture of the window {short(region[7:], 40)}"
    return "Takes a picture of the screen" if region == "fullscreen" else ""


def system_info(parameters: Parameters) -> str:
    """`get_system_info`, and `SYS_INFO` of LinuxAgent."""
    kind = parameters.get("info_type")
    return (
        f"Reads the machine's {short(kind, 20)} information" if kind else "Reads information on the machine"
    )


def _program_names(parameters: Parameters) -> str:
    """Every program that a call names, also if it names several and the device will refuse it."""
    return " and ".join(str(name) for name in programs_named(parameters) if name)


def _only_there(parameters: Parameters) -> str:
    """The window or program that a call is limited to, as the end of a sentence."""
    window, program = parameters.get("window_id"), _program_names(parameters)
    if window:
        return f" in the window {short(window, 20)}" + (f" of {short(program, 40)}" if program else "")
    return f" in {short(program, 40)}" if program else ""


def activate_window(parameters: Parameters) -> str:
    """`activate_window`."""
    window, program = parameters.get("window_id"), _program_names(parameters)
    of = f" of {short(program, 40)}" if program else ""
    if window:
        return f"Brings the window {short(window, 20)}{of} to the front"
    return f"Brings the window{of} to the front" if program else ""


def click_element(parameters: Parameters) -> str:
    """`click_element`."""
    control = parameters.get("control_id")
    name, role = parameters.get("name"), parameters.get("role")
    verb = "Double-clicks" if parameters.get("double_click") is True else "Clicks"
    place = _only_there(parameters)
    if name or role:
        label = f" “{short(name, 60)}”" if name else ""
        return f"{verb} the {short(role or 'control', 30)}{label}{place}"
    return f"{verb} the control {short(control, 40)}{place}" if control else ""


def click_point(parameters: Parameters) -> str:
    """`click_point`."""
    x, y = parameters.get("x"), parameters.get("y")
    if x is None or y is None:
        return ""
    button = parameters.get("button", "left")
    with_button = "" if button == "left" else f" with the {short(button, 10)} button"
    return f"Clicks at {short(x, 10)}, {short(y, 10)} of the picture{with_button}"


def type_text(parameters: Parameters) -> str:
    """`type_text`; a secret is not quoted."""
    text, control = parameters.get("text"), parameters.get("control_id")
    only = _only_there(parameters)
    place = f" into the control {short(control, 40)}{only}" if control else only or " where the keyboard is"
    if not isinstance(text, str) or (isinstance(text, MaskedText) and text == MASK):
        return f"Types a secret{place}" if text is not None else ""
    return f"Types “{short(text, 60)}”{place}"


def press_key(parameters: Parameters) -> str:
    """`press_key`."""
    key = parameters.get("key")
    return f"Presses {short(key, 40)}{_only_there(parameters)}" if key else ""


def scroll(parameters: Parameters) -> str:
    """`scroll`."""
    direction = parameters.get("direction")
    return f"Scrolls {short(direction, 10)}{_only_there(parameters)}" if direction else ""


def launch(parameters: Parameters) -> str:
    """`launch_application`."""
    name, arguments = parameters.get("app_name"), parameters.get("args")
    if not name:
        return ""
    count = len(arguments) if isinstance(arguments, list) else 0
    return f"Starts {short(name, 60)}" + (
        f" with {count} argument{'s' if count > 1 else ''}" if count else ""
    )


def close(parameters: Parameters) -> str:
    """`close_application`: the program or process that is closed, and whether by force."""
    how = "by force when it does not" if parameters.get("force") is True else "asking it first"
    name, pid = _program_names(parameters), parameters.get("pid")
    process = short(f"process {pid}", 60) if pid is not None else ""
    if name and process:
        return f"Closes {short(name, 60)}, {process}, {how}"
    if name:
        # Which one is looked up before it is asked.
        return f"Closes the program of this user called {short(name, 60)}, if there is exactly one, {how}"
    return f"Closes {process}, {how}" if process else ""


def undo(parameters: Parameters) -> str:
    """`undo`."""
    mark = parameters.get("undo_id")
    return f"Takes back change {short(mark, 40)}" if mark else ""


def list_tools(_: Parameters) -> str:
    """`list_tools`, and `get_mcp_tools` of LinuxAgent."""
    return "Lists the device's tools"


def undo_of_write_file(parameters: Parameters) -> str:
    """How a `write_file` is undone."""
    path = short(parameters.get("file_path"))
    if parameters.get("mode") == "create":
        return f"Can be undone: {path} is removed again."
    return f"Can be undone: the device keeps what {path} contains now."


def undo_of_restore_file(_: Parameters) -> str:
    """How a `restore_file` is undone."""
    return "Can be undone: the device keeps the file as it is now."


def list_mcp_servers(_: Parameters) -> str:
    """`list_mcp_servers`."""
    return "Lists the MCP servers that the device hosts"


def restart_mcp_server(parameters: Parameters) -> str:
    """`restart_mcp_server`."""
    name = parameters.get("name")
    return f"Restarts the MCP server {short(name, 64)}" if name else ""


def try_mcp_server(parameters: Parameters) -> str:
    """`try_mcp_server`: the server and what it starts or calls."""
    return _with_entry("Starts once and ends", parameters)


def add_mcp_server(parameters: Parameters) -> str:
    """`add_mcp_server`: the server and what it starts or calls."""
    return _with_entry("Hosts from now on", parameters)


def _with_entry(verb: str, parameters: Parameters) -> str:
    name, entry = parameters.get("name"), parameters.get("entry")
    if not name or not isinstance(entry, dict):
        return ""
    what = entry.get("command") or entry.get("url")
    arguments = entry.get("args")
    count = len(arguments) if isinstance(arguments, list) else 0
    with_arguments = f" with {count} argument{'s' if count > 1 else ''}" if count else ""
    return f"{verb} the MCP server {short(name, 64)}: {short(what, 60)}{with_arguments}" if what else ""


def switch_mcp_server(parameters: Parameters) -> str:
    """`switch_mcp_server`."""
    name, on = parameters.get("name"), parameters.get("on")
    if not name or not isinstance(on, bool):
        return ""
    return f"Switches the MCP server {short(name, 64)} {'on' if on else 'off'}"


def remove_mcp_server(parameters: Parameters) -> str:
    """`remove_mcp_server`."""
    name = parameters.get("name")
    return f"Removes the MCP server {short(name, 64)}" if name else ""


def undo_of_mcp_servers(_: Parameters) -> str:
    """How a change of the hosted servers is undone."""
    return "Can be undone: the device keeps its list of added servers as it is now."
