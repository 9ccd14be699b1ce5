"""The desktop tools: reading and pressing controls, listing windows, clicking, typing, keys, scrolling."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from core.controls import program_of
from core.device.desktop.interface import Need
from core.device.desktop.ui_reading import UiReading
from core.device.desktop.ui_tools import UiTools
from core.device.tool import (
    OBSERVES,
    Contract,
    Tool,
    ToolCall,
    Unavailable,
    nullable,
    number,
    object_schema,
    text,
    whole_number,
    yes_or_no,
)
from core.device.tool_context import ToolContext
from core.device.tools.ui_trees import TREE, TREE_ARGUMENTS, WAIT_ARGUMENTS, WAITED
from core.models.tools import ToolType
from core.secret_rule import SECRET_IF

Run = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
# The effect of a click or key depends on the program that receives it.
_ACTS = Contract("change", "high", reversible=False, idempotent=False, open_world=True)
_SCROLLS = Contract("change", "low", reversible=True, idempotent=False)
_RAISES = Contract("change", "low", reversible=True, idempotent=True)

_BOX = object_schema(
    {
        "x": whole_number("Left edge on the screen."),
        "y": whole_number("Top edge on the screen."),
        "width": whole_number("Pixels."),
        "height": whole_number("Pixels."),
    }
)
_MAYBE_BOX = {"oneOf": [_BOX, {"type": "null"}]}
_WORDS = {"type": "array", "items": {"type": "string"}}
_PROCESS_ID = nullable(whole_number("The process that it belongs to."))
WINDOW_ROW = object_schema(
    {
        "id": text("For get_ui_tree and screenshot."),
        "title": text("Its title."),
        "process_id": _PROCESS_ID,
        "process_name": text("The program."),
        "box": _BOX,
        "active": yes_or_no("Whether keys go to it."),
        "visible": yes_or_no("Whether it is mapped: not minimized, and on the workspace that is shown."),
        "minimized": yes_or_no("Whether it is an icon; activate_window brings it back."),
        "workspace": nullable(whole_number("From 1; null where it is on every workspace.")),
    }
)
ALSO_PROGRAM = text("The same as process_name, as UFO's agents name it; give one of them.", minLength=1)
_WINDOW_ID = text("A window's id from list_windows.", minLength=1)
_CONTROL_ID = text("A control's id from get_ui_tree.", minLength=1)
_ONLY_THERE = {
    "window_id": text(
        "Only in this window, which is brought forward first: its id from list_windows.", minLength=1
    ),
    "process_name": text(
        "Only in this program's window, which is brought forward first; if it has several, the active one.",
        minLength=1,
    ),
    "app_root_name": ALSO_PROGRAM,
}
# What an action reached, so that a caller need not guess where it went.
_A_WINDOW = object_schema(
    {
        "window_id": text("Its id."),
        "title": text("Its title."),
        "process_name": text("The program."),
    }
)
_WINDOW = nullable(_A_WINDOW)
_CONTROL = nullable(
    object_schema(
        {
            "role": text("What it is."),
            "name": text("What it is called."),
            "control_id": text("Its id."),
        }
    )
)
# What was looked at again after a press, so that a caller need not guess whether it worked.
_SEEN = object_schema(
    {
        "control": {"enum": ["there", "not showing", "gone", "not answering"]},
        "gained": {**_WORDS, "description": "States of the control that it did not have before."},
        "lost": {**_WORDS, "description": "States that it has no more."},
        "opened": {"type": "array", "items": _A_WINDOW},
        "closed": {"type": "array", "items": _A_WINDOW},
        "popup": yes_or_no("Whether a menu or a list opened."),
    }
)
_BUTTON = {"enum": ["left", "middle", "right"], "default": "left", "description": "Which button."}
_CLICKED = object_schema(
    {
        "clicked": yes_or_no("Always true; what could not be clicked is an error."),
        "control_name": text("The control, or the window under the pixel."),
        "box": _MAYBE_BOX,
        "method": {"enum": ["accessibility", "pointer"]},
        "scale": number("Picture pixels for each screen pixel; 1 where no picture was named."),
        "screen": nullable(whole_number("The monitor.")),
        "process_id": _PROCESS_ID,
        "process_name": text("The program."),
        "window": _WINDOW,
        "control": _CONTROL,
    }
)


def offer(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
    """The desktop tools that this machine can serve now, and for the others the reason why not."""
    use = UiTools(workshop.desktop, workshop.observations)
    lacks = {need: workshop.desktop.lack(need) for need in _NEEDS}
    offered, missing = [], []
    for tool, needs in _tools(use):
        lack = next((found for need in needs if (found := lacks[need]) is not None), None)
        # Text can be typed through controls or keys, so either is enough.
        is_either = tool.name == "type_text" and any(lacks[need] is None for need in needs)
        if lack is None or is_either:
            offered.append(tool)
        else:
            missing.append(Unavailable(tool.name, lack.reason, lack.how_to_fix))
    return offered, missing


_NEEDS: tuple[Need, ...] = ("controls", "input", "windows")


def _tools(use: UiTools) -> list[tuple[Tool, tuple[Need, ...]]]:
    return [
        (_ui_tree(use), ("controls",)),
        (_accessibility_tree(use), ("controls",)),
        (_wait_for_element(use), ("controls",)),
        (_list_windows(use), ("windows",)),
        (_activate_window(use), ("windows",)),
        (_click_element(use), ("controls",)),
        (_click_point(use), ("input",)),
        (_type_text(use), ("controls", "input")),
        (_press_key(use), ("input",)),
        (_scroll(use), ("input",)),
    ]


def _ui_tree(use: UiTools) -> Tool:
    async def run(given: dict[str, Any]) -> dict[str, Any]:
        return await UiReading(use.desktop).tree(given, program_of(given))

    return _observation(
        "get_ui_tree",
        "Read what programs show",
        "The controls on the screen as a tree, or only those that role, name or control_id name. Short by "
        "default: what was left out is counted, with the argument that returns it. Values of password fields "
        "are not read.",
        object_schema(
            {
                "process_name": text("Only this program.", minLength=1),
                "app_root_name": ALSO_PROGRAM,
                **TREE_ARGUMENTS,
            },
            required=(),
        ),
        TREE,
        run,
    )


def _accessibility_tree(use: UiTools) -> Tool:
    async def run(given: dict[str, Any]) -> dict[str, Any]:
        return await UiReading(use.desktop).tree(given, given.get("app_name"))

    return _observation(
        "get_accessibility_tree",
        "Read what an application shows",
        "The same as get_ui_tree, by the application's name.",
        object_schema(
            {"app_name": text("Only this application.", minLength=1), **TREE_ARGUMENTS}, required=()
        ),
        TREE,
        run,
    )


def _wait_for_element(use: UiTools) -> Tool:
    async def serve(call: ToolCall) -> dict[str, Any]:
        return await UiReading(use.desktop).wait(call.arguments, call.until)

    return Tool(
        name="wait_for_element",
        title="Wait for a control",
        tool_type="data_collection",
        description="Waits until a control of a role, a name or both is on the screen, or until none is. "
        "Fails when the time is over, and then lists the nearest.",
        input_schema=object_schema(
            {
                "process_name": text("Only in this program, which may still have to start.", minLength=1),
                "app_root_name": ALSO_PROGRAM,
                **WAIT_ARGUMENTS,
            },
            required=(),
        ),
        output_schema=WAITED,
        contract=OBSERVES,
        run=serve,
        stops_with_task=True,
        keeps_deadline=True,
    )


def _list_windows(use: UiTools) -> Tool:
    async def run(given: dict[str, Any]) -> dict[str, Any]:
        return await use.windows(program_of(given), given.get("title"))

    return _observation(
        "list_windows",
        "List windows",
        "The windows at the top level, the topmost first.",
        object_schema(
            {
                "process_name": text("Only windows of this program.", minLength=1),
                "app_root_name": ALSO_PROGRAM,
                "title": text("Only windows whose title has this in it.", minLength=1),
            },
            required=(),
        ),
        object_schema({"windows": {"type": "array", "items": WINDOW_ROW}}),
        run,
    )


def _activate_window(use: UiTools) -> Tool:
    return _tool(
        "activate_window",
        "Bring a window forward",
        "Raises a window and gives it the keyboard: from behind others, from its icon, and from another "
        "workspace, which is then shown. By id, or by program if it has one window.",
        object_schema(
            {
                "window_id": _WINDOW_ID,
                "process_name": text("The program, if it has one window.", minLength=1),
                "app_root_name": ALSO_PROGRAM,
            },
            required=(),
        ),
        object_schema(
            {
                "active": yes_or_no("Always true; a window that does not come forward is an error."),
                "window": _WINDOW,
                "before": _WINDOW,
            }
        ),
        use.activate_window,
        _RAISES,
    )


def _click_element(use: UiTools) -> Tool:
    return _tool(
        "click_element",
        "Press a control",
        "Presses a control through its accessibility action, or with the pointer where there is none or its "
        "program takes only the pointer rightly, and says what was seen then. "
        "By id, or by program or window with role, name or both when just one control fits.",
        object_schema(
            {
                "control_id": _CONTROL_ID,
                "process_name": text("The program.", minLength=1),
                "app_root_name": ALSO_PROGRAM,
                "window_id": text("Only in this window: its id from list_windows.", minLength=1),
                "role": text("The control's role.", minLength=1),
                "name": text("The control's name; empty for a control without a name."),
                "double_click": yes_or_no("Twice, with the pointer.", default=False),
                "button": _BUTTON,
            },
            required=(),
        ),
        object_schema({**_CLICKED["properties"], "seen": _SEEN}),
        use.click_element,
        _ACTS,
    )


def _click_point(use: UiTools) -> Tool:
    async def run(given: dict[str, Any]) -> dict[str, Any]:
        button = given.get("button", "left")
        return await use.click_point(given["x"], given["y"], given["observation"], button)

    return _tool(
        "click_point",
        "Click a pixel of a picture",
        "Clicks where a pixel of a picture is on the screen. The picture's ref is good for one click within "
        "30 seconds.",
        object_schema(
            {
                "x": number("From the picture's left edge, in its own pixels.", minimum=0),
                "y": number("From the picture's top edge, in its own pixels.", minimum=0),
                "observation": text("The ref that the picture came with.", minLength=1),
                "button": _BUTTON,
            },
            required=("x", "y", "observation"),
        ),
        _CLICKED,
        run,
        _ACTS,
    )


def _type_text(use: UiTools) -> Tool:
    return _tool(
        "type_text",
        "Type text",
        "Inserts text at the caret, in place of a selection: into a control, or into what has the focus, but "
        "not into a menu or a button. Through accessibility where the control takes text so, else by keys. "
        "A line end presses Enter: a new paragraph in a text, and in a field of one line what Enter does "
        "there; a tab presses Tab. The field is read afterwards, and text that did not arrive as it was "
        "typed is an error. A secret text is in no journal, result or picture.",
        object_schema(
            {
                # The console redacts this argument when the named argument (`secret`) is true.
                "text": text("What to type.", **{SECRET_IF: "secret"}),
                "control_id": _CONTROL_ID,
                **_ONLY_THERE,
                "secret": yes_or_no("Whether the text must not be seen.", default=False),
            },
            required=("text",),
        ),
        object_schema(
            {
                "typed": whole_number("Characters."),
                "method": {"enum": ["accessibility", "keys"]},
                "process_id": _PROCESS_ID,
                "window": _WINDOW,
                "control": _CONTROL,
                "text_there": {
                    "type": ["string", "null"],
                    "description": "What stands in the field afterwards, 2,000 characters at most; null "
                    "where it cannot be read, in a password field, and for a secret text.",
                },
            }
        ),
        use.type_text,
        _ACTS,
    )


def _press_key(use: UiTools) -> Tool:
    return _tool(
        "press_key",
        "Press a key",
        "Presses one key, with modifiers if wanted, in whatever has the focus, or only in the window or "
        "program that is named.",
        object_schema(
            {
                "key": text("Such as Enter, F5, ctrl+shift+t, or one character.", minLength=1),
                **_ONLY_THERE,
            },
            required=("key",),
        ),
        object_schema(
            {
                "pressed": text("The key as it was understood."),
                "window": _WINDOW,
                "control": _CONTROL,
            }
        ),
        use.press_key,
        _ACTS,
    )


def _scroll(use: UiTools) -> Tool:
    return _tool(
        "scroll",
        "Turn the wheel",
        "Turns the wheel over a control, over the window or program that is named, or where the pointer is. "
        "A control that is off the screen is scrolled to first.",
        object_schema(
            {
                "direction": {"enum": ["up", "down", "left", "right"], "description": "Which way."},
                "amount": whole_number(
                    "Notches. Without it 3, or as many as show a control that is off the screen.",
                    minimum=1,
                    maximum=100,
                ),
                "control_id": _CONTROL_ID,
                **_ONLY_THERE,
            },
            required=("direction",),
        ),
        object_schema(
            {
                "scrolled": whole_number("Notches."),
                "direction": text("Which way."),
                "window": _WINDOW,
                "control": _CONTROL,
            }
        ),
        use.scroll,
        _SCROLLS,
    )


def _observation(
    name: str, title: str, description: str, takes: dict[str, Any], gives: dict[str, Any], run: Run
) -> Tool:
    return _tool(name, title, description, takes, gives, run, OBSERVES, "data_collection")


def _tool(
    name: str,
    title: str,
    description: str,
    takes: dict[str, Any],
    gives: dict[str, Any],
    run: Run,
    contract: Contract,
    tool_type: ToolType = "action",
) -> Tool:
    async def serve(call: ToolCall) -> dict[str, Any]:
        return await run(call.arguments)

    return Tool(
        name=name,
        title=title,
        tool_type=tool_type,
        description=description,
        input_schema=takes,
        output_schema=gives,
        contract=contract,
        run=serve,
        # Typing can stop between two keys; each other action is a single event.
        stops_with_task=name == "type_text",
    )
