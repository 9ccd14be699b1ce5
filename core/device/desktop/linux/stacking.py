"""The windows on an X server in their stacking order, and which of them surely hide what lies below them.

The order is the server's own. A window counts as hiding only where nothing can be seen through it: no
compositing manager runs, it is an ordinary window without a shape, as deep as the screen, and it is inside
each of its parents. Menus and similar windows, which no window manager lists, do not count.
"""

from __future__ import annotations

from typing import Any

from Xlib import X
from Xlib import error as xerror

from core.device.desktop.interface import Box, StackedWindow, Stacking
from core.device.desktop.linux import x11_windows

_MOST_WINDOWS = 200
_LEVELS = 16
# Pixels at a window's edge that do not count: positions of controls are rounded.
_EDGE = 2


def read_stacking(display: Any) -> Stacking | None:
    """The windows on the screen, the topmost last; None where windows may be transparent."""
    name = f"_NET_WM_CM_S{display.get_default_screen()}"
    if display.get_selection_owner(display.intern_atom(name)) != X.NONE:
        return None
    if not display.has_extension("SHAPE"):
        return None
    screen = display.screen()
    order = [child.id for child in screen.root.query_tree().children]
    found = []
    for window in x11_windows.shown_windows(display)[-_MOST_WINDOWS:]:
        chain = _parents(display, screen.root, int(window.id, 16))
        if chain is None or chain[-1].id not in order:
            continue
        place = order.index(chain[-1].id)
        hides = None if window.is_popup else _opaque_part(chain, screen, window.shadow)
        found.append((place, StackedWindow(window.id, window.process_id, place, hides)))
    return Stacking(tuple(window for _, window in sorted(found, key=lambda one: one[0])))


def _parents(display: Any, root: Any, number: int) -> list[Any] | None:
    """A window and its parents below the root window; None if they cannot be read."""
    chain = [display.create_resource_object("window", number)]
    try:
        for _ in range(_LEVELS):
            parent = chain[-1].query_tree().parent
            if isinstance(parent, int):
                return None
            if parent.id == root.id:
                return chain
            chain.append(parent)
    except xerror.XError:
        # The window was closed meanwhile.
        pass
    return None


def _opaque_part(chain: list[Any], screen: Any, shadow: Box) -> Box | None:
    """The part of the screen that a window surely hides; None if there is none."""
    part: Box | None = None
    try:
        for window in chain:
            attributes, at = window.get_attributes(), window.get_geometry()
            is_plain = attributes.map_state == X.IsViewable and attributes.win_class == X.InputOutput
            if not is_plain or at.depth != screen.root_depth or window.shape_query_extents().bounding_shaped:
                return None
            corner = screen.root.translate_coords(window, 0, 0)
            box = Box(int(corner.x), int(corner.y), int(at.width), int(at.height))
            if part is None:
                box = _within(box, shadow)
            part = box if part is None else part.shared_with(box)
            if part is None:
                return None
    except xerror.XError:
        return None
    return part and _within(part, Box(_EDGE, _EDGE, 2 * _EDGE, 2 * _EDGE))


def _within(box: Box, rim: Box) -> Box:
    """A box without its rim, whose sizes are those of both sides together."""
    return Box(box.x + rim.x, box.y + rim.y, max(0, box.width - rim.width), max(0, box.height - rim.height))
