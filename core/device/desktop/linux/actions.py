"""Acts on a control over the accessibility bus: performs its action, focuses it, inserts text."""

from __future__ import annotations

import asyncio

from core.device.desktop.interface import Control
from core.device.desktop.linux.atspi import AccessibilityBus, Gone, NotSupported, Ref
from core.device.desktop.linux.atspi_constants import (
    ACCESSIBLE,
    ACTION,
    APPLICATION,
    COMPONENT,
    EDITABLE_TEXT,
    MOST_ACTIONS,
    ROOT,
    TEXT,
)

# Actions equivalent to a user's click, the best first, by their untranslated names. Toolkits differ in upper
# and lower case. Browsers name an action by what it does to this control now: `check`, `uncheck`, `select`.
_PRESSING = (
    "press",
    "click",
    "activate",
    "toggle",
    "check",
    "uncheck",
    "select",
    "jump",
    "open",
    "expand or contract",
    "expand",
    "collapse",
)
# For these roles, `activate` is Enter or a double click in GTK, and `toggle` selects nothing in Qt: it would
# submit a form, open a row, or do nothing. They are clicked with the pointer instead.
_POINTED_AT = (
    "text",
    "entry",
    "password text",
    "spin button",
    "table cell",
    "list item",
    "tree item",
    "terminal",
)
_PLAIN = ("press", "click", "jump")
# Some programs answer a press only after the dialog that it opened has been closed.
_ACTION_S = 3.0


async def perform(bus: AccessibilityBus, ref: Ref, control: Control) -> str | None:
    """Perform the action equivalent to a click; returns its name, or None where the control has none."""
    names = [name.lower() for name in await action_names(bus, ref)]
    wanted = _PLAIN if control.role in _POINTED_AT else _PRESSING
    index = next((names.index(name) for name in wanted if name in names), None)
    if index is None:
        return None
    (done,) = await bus.call(ref, ACTION, "DoAction", "i", (index,), seconds=_ACTION_S)
    return names[index] if done else None


async def action_names(bus: AccessibilityBus, ref: Ref) -> list[str]:
    """The untranslated names of a control's actions, by their index; empty where it has none.

    `GetActions` has translated names, which Chromium leaves empty and WebKit's pages do not answer.

    Raises:
        Silent: its program hangs.
        Gone: it does not exist.
    """
    try:
        count = min(int(await bus.get(ref, ACTION, "NActions")), MOST_ACTIONS)
        asked = (bus.call(ref, ACTION, "GetName", "i", (at,)) for at in range(count))
        return [str(name) for (name,) in await asyncio.gather(*asked)]
    except NotSupported:
        return []


async def focus(bus: AccessibilityBus, ref: Ref) -> bool:
    """Ask the program to focus a control."""
    try:
        (done,) = await bus.call(ref, COMPONENT, "GrabFocus")
    except NotSupported:
        return False
    return bool(done)


async def insert_text(bus: AccessibilityBus, ref: Ref, text: str) -> bool:
    """Insert text at the caret, replacing a selection; returns False where the control cannot do that."""
    try:
        at = int(await bus.get(ref, TEXT, "CaretOffset"))
        (selections,) = await bus.call(ref, TEXT, "GetNSelections")
        if int(selections) > 0:
            start, end = await bus.call(ref, TEXT, "GetSelection", "i", (0,))
            if int(end) > int(start) >= 0:
                (done,) = await bus.call(ref, EDITABLE_TEXT, "DeleteText", "ii", (int(start), int(end)))
                if not done:
                    return False
                at = int(start)
        if at < 0:
            at = int(await bus.get(ref, TEXT, "CharacterCount"))
        is_qt = await _is_qt(bus, ref)
        # Each toolkit measures the length in its own unit and cuts the text there.
        length = _utf16(text) if is_qt else len(text.encode())
        (done,) = await bus.call(ref, EDITABLE_TEXT, "InsertText", "isi", (at, text, length))
        if done:
            after = at + (_utf16(text) if is_qt else len(text))
            await bus.call(ref, TEXT, "SetCaretOffset", "i", (after,))
    except NotSupported:
        return False
    return bool(done)


async def _is_qt(bus: AccessibilityBus, ref: Ref) -> bool:
    try:
        toolkit = str(await bus.get(Ref(ref.bus, ROOT), APPLICATION, "ToolkitName"))
    except (NotSupported, Gone):
        return False
    return toolkit.lower().startswith("qt")


def _utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


async def has_focus(bus: AccessibilityBus, ref: Ref) -> bool:
    """Whether a control reports that it has the focus."""
    (bits,) = await bus.call(ref, ACCESSIBLE, "GetState")
    return bool(int(bits[0]) >> 12 & 1)
