"""Acts on a control over the accessibility bus: performs its action, focuses it, inserts text."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from core.device.desktop.interface import Control
from core.device.desktop.linux.atspi import AccessibilityBus, Gone, NotSupported, Ref, Silent
from core.device.desktop.linux.atspi_constants import (
    ACCESSIBLE,
    ACTION,
    COMPONENT,
    MOST_ACTIONS,
    ROOT,
    role_word,
    state_words,
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
_IN_MENUS = ("menu item", "check menu item", "radio menu item", "menu")
# Roles whose actions GTK 2 and GTK 3 perform otherwise than a click, and Qt those in menus.
_POINTER_IN_TOOLKITS = (
    "push button",
    "toggle button",
    "check box",
    "radio button",
    "combo box",
    *_IN_MENUS,
)
_MENUS = 8
# The type of `ScrollTo` that moves as little as needed.
_ANYWHERE = 6
_PLAIN = ("press", "click", "jump")
# Some programs answer a press only after the dialog that it opened has been closed.
_ACTION_S = 3.0


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a control, by its number and its untranslated name."""

    index: int
    name: str


async def pressing_action(bus: AccessibilityBus, ref: Ref, control: Control) -> Action | None:
    """The action equivalent to a click; None where the control has none.

    Raises:
        Silent: its program hangs.
        Gone: it does not exist.
    """
    names = [name.lower() for name in await action_names(bus, ref)]
    wanted = _PLAIN if control.role in _POINTED_AT else _PRESSING
    return next((Action(names.index(name), name) for name in wanted if name in names), None)


async def do(bus: AccessibilityBus, ref: Ref, action: Action) -> bool:
    """Perform an action; False where the program refuses.

    Raises:
        Silent: no answer in time, which is not to say that it was not performed.
        Gone: the control does not exist, or ended with its program meanwhile.
    """
    (done,) = await bus.call(ref, ACTION, "DoAction", "i", (action.index,), seconds=_ACTION_S)
    return bool(done)


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


async def prefers_pointer(bus: AccessibilityBus, ref: Ref, control: Control) -> bool:
    """Whether the pointer is better than the control's action.

    GTK 3 runs the dialog that an action opens inside the action: its program is deaf until the dialog is
    closed. GTK 2 arms a button and may not release it. Qt leaves the menu open whose item it has triggered,
    and the menu takes the keys that follow.
    """
    if control.role not in _POINTER_IN_TOOLKITS:
        return False
    toolkit = await bus.toolkit(Ref(ref.bus, ROOT))
    if toolkit.name.startswith("qt"):
        return control.role in _IN_MENUS and "showing" in control.states
    return toolkit.is_gtk(3) or toolkit.is_gtk(2) or toolkit.name == "gail"


async def states(bus: AccessibilityBus, ref: Ref) -> tuple[str, ...]:
    """The states of a control, in one call.

    Raises:
        Silent: its program hangs.
        Gone: it does not exist.
    """
    (bits,) = await bus.call(ref, ACCESSIBLE, "GetState")
    words = state_words(list(bits))
    toolkit = await bus.toolkit(Ref(ref.bus, ROOT))
    # GTK 4 says of windows only that they are showing.
    return (*words, "showing") if toolkit.is_gtk(4) and "visible" in words else words


async def menus_above(bus: AccessibilityBus, ref: Ref) -> list[Ref]:
    """The menus that hold a menu item, the outermost first.

    Raises:
        Silent: its program hangs.
        Gone: it does not exist.
    """
    found: list[Ref] = []
    while len(found) < _MENUS:
        name, path = await bus.get(ref, ACCESSIBLE, "Parent")
        ref = Ref(str(name), str(path))
        (role,) = await bus.call(ref, ACCESSIBLE, "GetRole")
        if role_word(int(role)) != "menu":
            break
        found.insert(0, ref)
    return found


async def scroll_to(bus: AccessibilityBus, ref: Ref, control: Control) -> bool:
    """Ask a program to scroll to a control; returns False where it cannot.

    Toolkits without `ScrollTo` scroll to what gets the focus.
    """
    with contextlib.suppress(NotSupported, Gone, Silent):
        (done,) = await bus.call(ref, COMPONENT, "ScrollTo", "u", (_ANYWHERE,))
        if done:
            return True
    if "focusable" not in control.states:
        return False
    try:
        return await focus(bus, ref)
    except (Gone, Silent):
        return False


async def focus(bus: AccessibilityBus, ref: Ref) -> bool:
    """Ask the program to focus a control."""
    try:
        (done,) = await bus.call(ref, COMPONENT, "GrabFocus")
    except NotSupported:
        return False
    return bool(done)


async def has_focus(bus: AccessibilityBus, ref: Ref) -> bool:
    """Whether a control reports that it has the focus."""
    (bits,) = await bus.call(ref, ACCESSIBLE, "GetState")
    return bool(int(bits[0]) >> 12 & 1)
