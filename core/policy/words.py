"""Words for people, made from a call's arguments alone: never from what an agent says about them.

The words know the built-in tools by name; a tool of the same name on another device is described by the same
arguments, and one that is not known only by how many arguments it gets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from core.fleet.models import Effect, Risk, Tool
from core.policy.models import Finding
from core.policy.shell_findings import judge_line
from core.policy.shell_words import system_folder
from core.text import escape_hidden, hidden_characters, shorten_middle

SHELL_ARGUMENTS = {"shell_execute": "command", "EXEC_CLI": "command", "shell_execute_read": "command"}
"""The tools that run a shell line, and the argument that holds it."""

_WRITES_FILES = frozenset({"write_file", "restore_file", "create_file", "delete_file", "move_file"})
_PATH_NAME = re.compile(r"(?:^|_)(?:path|file|folder|directory|dir|destination|target)(?:$|_)", re.IGNORECASE)
_MOST_HIDDEN = 8

Parameters = Mapping[str, Any]


def summary_of(tool: Tool, parameters: Parameters) -> str:
    """The effect of a call in one sentence of one line, for the head of a card."""
    words = _SUMMARIES.get(tool.tool_name)
    said = words(parameters) if words else ""
    if said:
        return said
    count = len(parameters)
    amount = "no arguments" if count == 0 else "1 argument" if count == 1 else f"{count} arguments"
    return f"Calls {_short(tool.tool_name)} with {amount}"


def findings_of(tool: Tool, parameters: Parameters) -> list[Finding]:
    """What the arguments would do that raises the risk; never anything that lowers it.

    Shell lines are parsed, paths of tools that change something are looked at, and every text is searched for
    characters that are not seen, also inside lists and objects. The time is proportional to the arguments:
    a line over the parser's limits (`core.policy.shell`) is a finding instead of being parsed.
    """
    found: list[Finding] = []
    line_name = SHELL_ARGUMENTS.get(tool.tool_name)
    for name, value in parameters.items():
        if name == line_name and isinstance(value, str):
            found.extend(judge_line(value, name))
        elif isinstance(value, str) and _is_path(tool, name):
            found.extend(_path_findings(tool, name, value))
        for text in _texts(value):
            found.extend(_hidden_findings(name, text, inside=text is not value))
    if line_name and not isinstance(parameters.get(line_name), str):
        found.append(Finding(text="There is no shell line to judge", risk=Risk.HIGH, argument=line_name))
    return found


def undo_words(tool: Tool, parameters: Parameters) -> tuple[bool, str]:
    """Whether a call can be undone, and one sentence how or why not.

    A contract that is not reversible is never promised to be; the built-in tools are described in full.
    """
    if tool.contract.effect.value is Effect.OBSERVE:
        return False, "It changes nothing, so there is nothing to undo."
    if not tool.contract.reversible.value:
        if tool.tool_name in SHELL_ARGUMENTS:
            return False, "Cannot be undone: what a shell line changes is not recorded."
        return False, "Cannot be undone by the console."
    if tool.tool_name == "write_file":
        path = _short(parameters.get("file_path"))
        if parameters.get("mode", "create") == "create":
            return True, f"Can be undone: {path} is removed again."
        return True, f"Can be undone: the device keeps what {path} contains now."
    if tool.tool_name == "restore_file":
        return True, "Can be undone: the device keeps the file as it is now."
    return True, "Can be undone: the device records the inverse."


def size_words(count: int) -> str:
    """A number of bytes as people read it: `812 bytes`, `1.2 kB`, `3.4 MB` (powers of 1000)."""
    if count == 1:
        return "1 byte"
    if count < 1000:
        return f"{count} bytes"
    size = float(count)
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.95 or unit == "GB":
            return f"{size:.1f} {unit}"
    raise AssertionError("unreachable")


def _short(value: object, limit: int = 80) -> str:
    return escape_hidden(shorten_middle(str(value), limit), keep_lines=False)


def _write_file(parameters: Parameters) -> str:
    path, content = parameters.get("file_path"), parameters.get("content")
    if not isinstance(path, str) or not isinstance(content, str):
        return ""
    size = size_words(len(content.encode("utf-8", "replace")))
    match parameters.get("mode", "create"):
        case "create":
            return f"Creates {_short(path)}, {size}"
        case "overwrite":
            return f"Replaces the content of {_short(path)} with {size}"
        case "append":
            return f"Appends {size} to {_short(path)}"
    return ""


def _shell(parameters: Parameters) -> str:
    line = parameters.get("command")
    if not isinstance(line, str):
        return ""
    lines = [one for one in line.splitlines() if one.strip()]
    if not lines:
        return "Runs an empty shell line"
    more = f" and {len(lines) - 1} more {'line' if len(lines) == 2 else 'lines'}" if len(lines) > 1 else ""
    folder = parameters.get("working_directory")
    where = f" in {_short(folder, 40)}" if isinstance(folder, str) and folder else ""
    return f"Runs a shell line: “{_short(lines[0].strip(), 100)}”{more}{where}"


def _read_file(parameters: Parameters) -> str:
    return f"Reads {_short(parameters['file_path'])}" if "file_path" in parameters else ""


def _restore_file(parameters: Parameters) -> str:
    mark = parameters.get("undo_id")
    return f"Puts a file back as it was before change {_short(mark, 40)}" if mark else ""


def _screenshot(parameters: Parameters) -> str:
    region = parameters.get("region", "fullscreen")
    if isinstance(region, dict):
        width, height = region.get("width"), region.get("height")
        return f"Takes a picture of {_short(width, 10)} × {_short(height, 10)} pixels of the screen"
    if isinstance(region, str) and region.startswith("window:"):
        return f"Takes a picture of the window {_short(region[7:], 40)}"
    return "Takes a picture of the screen" if region == "fullscreen" else ""


def _system_info(parameters: Parameters) -> str:
    kind = parameters.get("info_type")
    return (
        f"Reads the machine's {_short(kind, 20)} information" if kind else "Reads information on the machine"
    )


_SUMMARIES: dict[str, Callable[[Parameters], str]] = {
    "write_file": _write_file,
    "shell_execute": _shell,
    "EXEC_CLI": _shell,
    "shell_execute_read": _shell,
    "read_file": _read_file,
    "restore_file": _restore_file,
    "screenshot": _screenshot,
    "get_system_info": _system_info,
    "SYS_INFO": _system_info,
    "list_tools": lambda _: "Lists the device's tools",
    "get_mcp_tools": lambda _: "Lists the device's tools",
}


def _is_path(tool: Tool, name: str) -> bool:
    return tool.tool_type == "action" and bool(_PATH_NAME.search(name))


def _path_findings(tool: Tool, name: str, path: str) -> Iterator[Finding]:
    def finding(text: str, risk: Risk) -> Finding:
        return Finding(text=text, risk=risk, detail=_short(path), argument=name, start=0, end=len(path))

    folder = system_folder(path)
    if folder:
        verb = "Writes under" if tool.tool_name in _WRITES_FILES else "Works under"
        yield finding(f"{verb} {folder}", Risk.HIGH)
    if ".." in re.split(r"[/\\]", path):
        yield finding("Goes up out of a folder with “..”", Risk.MEDIUM)
    if re.search(
        r"(?:^|[/\\])\.(?:ssh|gnupg|aws|kube|bashrc|profile|bash_profile|zshrc|config)(?:$|[/\\])", path
    ):
        yield finding("Touches settings or keys of a person", Risk.HIGH)


def _hidden_findings(name: str, text: str, inside: bool) -> Iterator[Finding]:
    found = hidden_characters(text)
    for offset, called in found[:_MOST_HIDDEN]:
        # Offsets mean the argument's own text; inside a list or object there is no such text.
        start, end = (None, None) if inside else (offset, offset + 1)
        alike = called.endswith("(in a Latin word)")
        said = f"Contains a lookalike letter: {called}" if alike else f"Contains a hidden character: {called}"
        yield Finding(text=said, risk=Risk.HIGH, argument=name, start=start, end=end)
    if len(found) > _MOST_HIDDEN:
        rest = len(found) - _MOST_HIDDEN
        yield Finding(text=f"Contains {rest:,} more hidden characters", risk=Risk.HIGH, argument=name)


def _texts(value: object) -> Iterator[str]:
    """Every text in a JSON value, names of members too, without recursion."""
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            stack.extend(one.keys())
            stack.extend(one.values())
        elif isinstance(one, list | tuple):
            stack.extend(one)
