"""The arguments and results of the tools that read controls."""

from __future__ import annotations

from typing import Any

from core.device.desktop.outline import MOST_BYTES
from core.device.desktop.ui_reading import DEPTH, LONGEST_WAIT_S, NODES, WAIT_S
from core.device.tool import number, object_schema, text, whole_number, yes_or_no

_WORDS = {"type": "array", "items": {"type": "string"}}
_BOX = object_schema(
    {
        "x": whole_number("Left edge on the screen."),
        "y": whole_number("Top edge on the screen."),
        "width": whole_number("Pixels."),
        "height": whole_number("Pixels."),
    }
)
_MAYBE_BOX = {"oneOf": [_BOX, {"type": "null"}]}
_NODE = object_schema(
    {
        "id": text("Holds for the life of the control."),
        "role": text("What it is."),
        "name": text(
            "What it is called: by its program, else by its label, its placeholder, its tool tip, or the "
            "label to the left of it."
        ),
        "value": {
            "type": ["string", "number", "null"],
            "description": "null where protected. Brief: left out where it is empty or the name, and cut "
            "after 200 characters.",
        },
        "states": {
            **_WORDS,
            "description": "Brief: without the usual ones (enabled, sensitive, visible, showing, focusable), "
            "but with disabled and not showing.",
        },
        "box": {**_MAYBE_BOX, "description": "Full only."},
        "at": {
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 4,
            "maxItems": 4,
            "description": "Brief: x, y, width and height on the screen.",
        },
        "actions": {**_WORDS, "description": "Full only."},
        "process_id": whole_number("The process that shows it. Brief: where it is not its parent's."),
        "children": {"type": "array", "items": {"$ref": "#/$defs/control"}},
        "truncated": yes_or_no("Not everything below it was read."),
        "not_showing": whole_number(
            "How many of its children are left out because they are not on the screen."
        ),
        "left_out": whole_number("How many of its children are left out to keep the answer short."),
    },
    required=("id", "role", "name"),
)
_DEFINITIONS = {"$defs": {"control": _NODE}}
_CONTROLS = {"type": "array", "items": {"$ref": "#/$defs/control"}}
TREE = {
    **object_schema(
        {
            "tree": {
                **_CONTROLS,
                "description": "The programs with their controls, in the order of the screen; of a search, "
                "the controls that fit.",
            },
            "nodes": whole_number("How many controls there are in it."),
            "truncated": yes_or_no("A bound was reached, or a program did not answer."),
            "not_answering": {**_WORDS, "description": "Programs that could not be read."},
            "left_out": {
                "type": "array",
                "items": object_schema(
                    {
                        "count": whole_number("How many."),
                        "what": text("What was left out."),
                        "how": text("The argument that returns it."),
                    }
                ),
            },
            "nearest": {**_CONTROLS, "description": "Of a search that found nothing: what is most like it."},
        },
        required=("tree", "nodes", "truncated", "not_answering", "left_out"),
    ),
    **_DEFINITIONS,
}
WAITED = {
    **object_schema(
        {
            "until": {"enum": ["appears", "disappears"]},
            "waited_s": number("Seconds."),
            "controls": {
                **_CONTROLS,
                "description": "What fits on the screen; empty when it has disappeared.",
            },
        }
    ),
    **_DEFINITIONS,
}
_WINDOW_ID = text("Only this window: its id from list_windows.", minLength=1)
_BELOW = text("Only what is below this control: its id.", minLength=1)
_ROLE = text("Only controls of this role: a search.", minLength=1)
_NAME = text(
    "Only controls of this name, without regard to case and white space: a search. Empty for controls "
    "without a name; such as B2 for a cell of a spreadsheet, also of one that is not on the screen."
)
TREE_ARGUMENTS: dict[str, Any] = {
    "window_id": _WINDOW_ID,
    "below": _BELOW,
    "control_id": text("Only this control, alone, with everything that is known about it.", minLength=1),
    "role": _ROLE,
    "name": _NAME,
    "row": whole_number("With column and below: the cell of that table, counted from 1.", minimum=1),
    "column": whole_number("The column of that cell, counted from 1.", minimum=1),
    "showing": yes_or_no(
        "Only what is on the screen. A search takes the rest where nothing there fits.", default=True
    ),
    "detail": {
        "enum": ["brief", "full"],
        "default": "brief",
        "description": "full: every control with every property. A search is always full.",
    },
    "depth": whole_number("Levels below the program.", minimum=1, maximum=100, default=DEPTH),
    "max_nodes": whole_number("Controls to read at most.", minimum=1, maximum=10_000, default=NODES),
    "max_bytes": whole_number(
        "About how long the answer may be; the longest lists of controls are shortened.",
        minimum=1_000,
        maximum=10_000_000,
        default=MOST_BYTES,
    ),
}
WAIT_ARGUMENTS: dict[str, Any] = {
    "window_id": _WINDOW_ID,
    "below": _BELOW,
    "role": text("The control's role.", minLength=1),
    "name": text("The control's name."),
    "until": {
        "enum": ["appears", "disappears"],
        "default": "appears",
        "description": "disappears: until no such control is on the screen.",
    },
    "timeout": number("Seconds to wait at most.", minimum=0, maximum=LONGEST_WAIT_S, default=WAIT_S),
}
