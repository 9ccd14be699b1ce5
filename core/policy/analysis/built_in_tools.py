"""The table of the built-in tools: the facts about them that the console needs.

A new built-in tool is described here, in one row: the facts of its contract, the arguments that are paths or
a shell line, its target on the screen, and the functions that describe a call and its undo. The modules of
the console take these facts from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from core.models.tool_names import (
    CLOSE_APPLICATION,
    LIST_DIRECTORY,
    LIST_MCP_SERVERS,
    LIST_PROCESSES,
    LIST_WINDOWS,
    READ_FILE,
    READ_SHELL,
    RESTORE_FILE,
    SCREENSHOT,
    UI_TREE,
    WRITE_FILE,
)
from core.models.tools import Effect, Risk, ToolType
from core.policy.analysis import summaries
from core.policy.analysis.summaries import Parameters


class ScreenTarget(StrEnum):
    """The target of a tool that uses the pointer or the keyboard."""

    POINT = "point"
    """A pixel of a screenshot: `x`, `y`, `observation`."""
    CONTROL = "control"
    """A control, by `control_id`, or by its program with role and name."""
    CONTROL_IF_NAMED = "control if named"
    """The control `control_id`; without it, the control that has the focus or is under the pointer."""
    FOCUS = "focus"
    """The control that has the focus."""
    WINDOW = "window"
    """A window: `window_id`, or the window of `process_name`."""


@dataclass(frozen=True, slots=True)
class BuiltInTool:
    """One row of the table.

    `tool_type` to `evidence` are the facts of its contract (`core.models.tools.Contract`); `why` gives the
    reason for effect and risk. `paths` and `shell_line` name arguments; `target` is its target on the screen.
    `one_of` are sets of arguments that its schema does not require, of each of which a call needs one.
    `opens_or_closes`: it opens or closes windows. `summary` describes a call in one sentence, and `undo` how
    the call is undone; both are functions of the arguments.
    """

    tool_type: ToolType
    effect: Effect
    risk: Risk
    why: str
    reversible: bool = False
    idempotent: bool = False
    open_world: bool = False
    evidence: str = ""
    paths: tuple[str, ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()
    shell_line: str = ""
    writes_files: bool = False
    target: ScreenTarget | None = None
    opens_or_closes: bool = False
    summary: Callable[[Parameters], str] | None = None
    undo: Callable[[Parameters], str] | None = None


_NO_TRACE = "It leaves nothing behind to look at; a picture taken afterwards shows what came of it."


def _read_tool(
    why: str,
    summary: Callable[[Parameters], str] | None = None,
    paths: tuple[str, ...] = (),
    shell_line: str = "",
    one_of: tuple[tuple[str, ...], ...] = (),
) -> BuiltInTool:
    return BuiltInTool(
        "data_collection",
        Effect.OBSERVE,
        Risk.LOW,
        why,
        reversible=True,
        idempotent=True,
        evidence="What it read is the result itself.",
        paths=paths,
        one_of=one_of,
        shell_line=shell_line,
        summary=summary,
    )


_SHELL = BuiltInTool(
    "action",
    Effect.UNKNOWN,
    Risk.HIGH,
    "A shell line can do whatever its user can; only its text tells.",
    open_world=True,
    evidence="The exit code and what it printed; of what it changed there is no other record.",
    paths=("working_directory",),
    shell_line="command",
    summary=summaries.shell,
)
_SYSTEM_INFO = _read_tool("Reads counters of the operating system.", summaries.system_info)
_LIST_TOOLS = _read_tool("Lists what the device offers.", summaries.list_tools)
_TREE = _read_tool("Reads what programs show; password fields are left out.")


def _ui_action(
    why: str,
    target: ScreenTarget,
    summary: Callable[[Parameters], str],
    one_of: tuple[tuple[str, ...], ...] = (),
) -> BuiltInTool:
    return BuiltInTool(
        "action",
        Effect.UNKNOWN,
        Risk.HIGH,
        why,
        open_world=True,
        evidence=_NO_TRACE,
        target=target,
        one_of=one_of,
        summary=summary,
    )


def _mcp_server(
    why: str,
    risk: Risk,
    summary: Callable[[Parameters], str],
    reversible: bool = True,
    open_world: bool = True,
) -> BuiltInTool:
    return BuiltInTool(
        "action",
        Effect.CHANGE,
        risk,
        why,
        reversible=reversible,
        open_world=open_world,
        evidence="The state of the server afterwards is in the result; the list of servers shows it.",
        summary=summary,
        undo=summaries.undo_of_mcp_servers if reversible else None,
    )


BUILT_IN_TOOLS: dict[str, BuiltInTool] = {
    SCREENSHOT: _read_tool("Takes a picture of the screen and changes nothing.", summaries.screenshot),
    "get_system_info": _SYSTEM_INFO,
    "SYS_INFO": _SYSTEM_INFO,
    READ_FILE: _read_tool("Reads one file below the allowed roots.", summaries.read_file, ("file_path",)),
    LIST_DIRECTORY: _read_tool("Lists names below the allowed roots.", paths=("path",)),
    LIST_WINDOWS: _read_tool("Lists windows."),
    LIST_PROCESSES: _read_tool("Lists processes."),
    "list_tools": _LIST_TOOLS,
    "get_mcp_tools": _LIST_TOOLS,
    "shell_execute": _SHELL,
    "EXEC_CLI": _SHELL,
    READ_SHELL: _read_tool(
        "The kernel forbids its command to change anything or use a network.",
        summaries.shell,
        ("working_directory",),
        "command",
    ),
    WRITE_FILE: BuiltInTool(
        "action",
        Effect.CHANGE,
        Risk.MEDIUM,
        "Changes one file; the device keeps the old content for undo.",
        reversible=True,
        evidence="The SHA-256 of the whole file afterwards is in the result.",
        paths=("file_path",),
        writes_files=True,
        summary=summaries.write_file,
        undo=summaries.undo_of_write_file,
    ),
    RESTORE_FILE: BuiltInTool(
        "action",
        Effect.CHANGE,
        Risk.MEDIUM,
        "Puts one file back as it was; refused when it changed since.",
        evidence="The result names the file and what it contains again.",
        writes_files=True,
        summary=summaries.restore_file,
        undo=summaries.undo_of_restore_file,
    ),
    "undo": BuiltInTool(
        "action",
        Effect.CHANGE,
        Risk.MEDIUM,
        "Runs the inverse that the device recorded; refused when the thing changed since.",
        evidence="The result names what was undone, and what the inverse says it did.",
        summary=summaries.undo,
    ),
    "launch_application": BuiltInTool(
        "action",
        Effect.CHANGE,
        Risk.HIGH,
        "Starts a program that does whatever its user can, and goes on.",
        open_world=True,
        evidence="The process number is in the result; the list of processes shows it.",
        opens_or_closes=True,
        summary=summaries.launch,
    ),
    CLOSE_APPLICATION: BuiltInTool(
        "action",
        Effect.DESTROY,
        Risk.HIGH,
        "Ends programs; what they had not saved is lost.",
        idempotent=True,
        evidence="The process numbers that ended are in the result; the list of processes lacks them.",
        opens_or_closes=True,
        one_of=(("process_name", "app_root_name", "pid"),),
        summary=summaries.close,
    ),
    LIST_MCP_SERVERS: _read_tool("Lists the MCP servers that the device hosts.", summaries.list_mcp_servers),
    "restart_mcp_server": BuiltInTool(
        "action",
        Effect.CHANGE,
        Risk.MEDIUM,
        "Ends a server's program and starts it again; what runs on it is cut off.",
        idempotent=True,
        evidence="The server's state afterwards is in the result.",
        summary=summaries.restart_mcp_server,
    ),
    "try_mcp_server": _mcp_server(
        "Starts a program, or calls an address, and ends it again.",
        Risk.HIGH,
        summaries.try_mcp_server,
        reversible=False,
    ),
    "add_mcp_server": _mcp_server(
        "Starts a program, or calls an address, now and whenever the device starts, and offers its tools.",
        Risk.HIGH,
        summaries.add_mcp_server,
    ),
    "switch_mcp_server": _mcp_server(
        "Starts or ends a server that an operator added.", Risk.MEDIUM, summaries.switch_mcp_server
    ),
    "remove_mcp_server": _mcp_server(
        "Ends a server and forgets its entry.", Risk.MEDIUM, summaries.remove_mcp_server, open_world=False
    ),
    UI_TREE: _TREE,
    "get_accessibility_tree": _TREE,
    "wait_for_element": _read_tool(
        "Reads again and again what programs show, for a bounded time.", one_of=(("role", "name"),)
    ),
    "activate_window": BuiltInTool(
        "action",
        Effect.CHANGE,
        Risk.LOW,
        "Moves a window to the front, and the keyboard to it; keys of a user at the device go there, too.",
        reversible=True,
        idempotent=True,
        evidence="The window that is active afterwards is in the result, and the one that was before.",
        target=ScreenTarget.WINDOW,
        one_of=(("window_id", "process_name", "app_root_name"),),
        summary=summaries.activate_window,
    ),
    "click_element": _ui_action(
        "What a press does is up to the program whose control it is.",
        ScreenTarget.CONTROL,
        summaries.click_element,
        (
            ("control_id", "process_name", "app_root_name", "window_id"),
            ("control_id", "name", "role"),
        ),
    ),
    "click_point": _ui_action(
        "Whatever is under that pixel is pressed, whether a program names it or not.",
        ScreenTarget.POINT,
        summaries.click_point,
    ),
    "type_text": _ui_action(
        "What typed text does is up to the program that gets it; in a terminal it runs.",
        ScreenTarget.CONTROL_IF_NAMED,
        summaries.type_text,
    ),
    "press_key": _ui_action(
        "What a key does is up to the program that has the focus.", ScreenTarget.FOCUS, summaries.press_key
    ),
    "scroll": BuiltInTool(
        "action",
        Effect.CHANGE,
        Risk.LOW,
        "Moves what is shown; a wheel over a number or a choice may change it.",
        reversible=True,
        evidence=_NO_TRACE,
        target=ScreenTarget.CONTROL_IF_NAMED,
        summary=summaries.scroll,
    ),
}

PATH_ARGUMENTS = frozenset(path for tool in BUILT_IN_TOOLS.values() for path in tool.paths)
SHELL_ARGUMENTS = {name: tool.shell_line for name, tool in BUILT_IN_TOOLS.items() if tool.shell_line}
"""The tools that run a shell line, with the argument that contains the line."""
SCREEN_TARGETS = {name: tool.target for name, tool in BUILT_IN_TOOLS.items() if tool.target is not None}
"""The tools that use the pointer or the keyboard, with their targets."""


def summary_function(tool_name: str) -> Callable[[Parameters], str] | None:
    """The function that describes a call of a tool; None if there is none for this name."""
    tool = BUILT_IN_TOOLS.get(tool_name)
    return tool.summary if tool is not None else None
