"""Lists the windows of an X server with their positions and processes, raises windows, and closes them.

Windows are closed with WM_DELETE_WINDOW, as a window manager does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from Xlib import X, Xatom, Xutil, display
from Xlib import error as xerror
from Xlib.error import DisplayError, XError
from Xlib.ext import res
from Xlib.protocol import event
from Xlib.protocol import event as xevent

from core.device.desktop.interface import Box, Layer, Window, stale
from core.device.desktop.linux.tree_reader import process_name
from core.log import Logger

_MOST_WINDOWS = 500
_MENU_TYPES = ("MENU", "POPUP_MENU", "DROPDOWN_MENU")
# The number of the workspace of a window that is on every workspace.
_EVERYWHERE = 0xFFFFFFFF
# The source of a request to the window manager that is made for a user.
_FROM_PAGER = 2


@dataclass(frozen=True, slots=True)
class _Session:
    """The state that windows share: the active one, the shown workspace, and the hints of the manager."""

    active: int | None = None
    workspace: int | None = None
    supported: tuple[int, ...] = ()


def list_windows(display: Any) -> list[Window]:
    """The top-level windows, the topmost last, from the window manager or, without one, the X server."""
    root = display.screen().root
    session = _session(display, root)
    managed = _told_by_manager(display, root, "_NET_CLIENT_LIST_STACKING")
    # With a window manager, an empty list is true: the server's list has the manager's own windows.
    ids = managed if managed is not None else [window.id for window in root.query_tree().children]
    found = (_read(display, root, int(one), session) for one in ids[-_MOST_WINDOWS:])
    # Without a window manager, the server's list includes helper windows that programs never show.
    return [window for window in found if window is not None and (managed is not None or window.visible)]


def shown_windows(display: Any) -> list[Window]:
    """The visible windows, including menus and similar ones, which a window manager does not list."""
    found = {window.id: window for window in list_windows(display) if window.visible}
    root = display.screen().root
    for child in root.query_tree().children[-_MOST_WINDOWS:]:
        if f"0x{child.id:x}" not in found and _is_unmanaged(child):
            window = _read(display, root, child.id, _Session())
            if window is not None and window.visible:
                found[window.id] = window
    return list(found.values())


def is_menu_open(display: Any, process_id: int | None) -> bool:
    """Whether a process shows a menu, as the type of one of its windows says."""
    kinds = {display.intern_atom(f"_NET_WM_WINDOW_TYPE_{name}") for name in _MENU_TYPES}
    return any(
        kinds & set(_longs(display, child, "_NET_WM_WINDOW_TYPE")) and _owner_of(display, child) == process_id
        for child in display.screen().root.query_tree().children[-_MOST_WINDOWS:]
        if _is_unmanaged(child)
    )


def layers(display: Any) -> list[Layer]:
    """The root's children on the screen, the topmost first, including a window manager's frames."""
    found = []
    for child in reversed(display.screen().root.query_tree().children):
        try:
            if child.get_attributes().map_state != X.IsViewable:
                continue
            at = child.get_geometry()
        except xerror.XError:
            continue
        rim = 2 * int(at.border_width)
        found.append(Layer(f"0x{child.id:x}", Box(at.x, at.y, at.width + rim, at.height + rim)))
    return found


def layer_at(display: Any, x: int, y: int) -> str | None:
    """The id of the layer that a click at a pixel would reach; None for the root window."""
    root = display.screen().root
    child = root.translate_coords(root, x, y).child
    return None if isinstance(child, int) else f"0x{child.id:x}"


def window_of_id(display: Any, window_id: str) -> Window:
    """A window's current state.

    Raises:
        DeviceError: no window has the id (code `stale_observation`).
    """
    try:
        number = int(window_id, 16)
    except ValueError:
        raise stale(f"The window {window_id[:60]}") from None
    root = display.screen().root
    found = _read(display, root, number, _session(display, root)) if 0 < number < 1 << 32 else None
    if found is None:
        raise stale(f"The window {window_id[:60]}")
    return found


def active_window(display: Any) -> int | None:
    """The window that keys go to; without a window manager, the root's child that contains the focus."""
    root = display.screen().root
    told = _told_by_manager(display, root, "_NET_ACTIVE_WINDOW")
    if told and told[0]:
        return int(told[0])
    focus = display.get_input_focus().focus
    if focus == X.PointerRoot:
        # In this mode keys go to the window under the pointer.
        under = root.query_pointer().child
        return None if isinstance(under, int) else int(_client_below(display, root, under).id)
    if isinstance(focus, int):
        return None
    number = _top_level(root, focus)
    # A window manager keeps the keyboard in a hidden window of its own while no other window has it.
    return number if told is None or number is None or _is_on_screen(display, root, number) else None


def owner_at(display: Any, x: int, y: int) -> Window | None:
    """The topmost window at a pixel."""
    root = display.screen().root
    child = root.translate_coords(root, x, y).child
    if isinstance(child, int):
        return None
    chosen = _client_below(display, root, child, (x, y))
    return _read(display, root, chosen.id, _session(display, root))


def bring_forward(display: Any, number: int) -> None:
    """Raise and focus a window, through the window manager where there is one.

    The manager shows the window's workspace and brings it back from its icon.
    """
    root = display.screen().root
    window = display.create_resource_object("window", number)
    session = _session(display, root)
    workspace = _longs(display, window, "_NET_WM_DESKTOP")
    if workspace and workspace[0] != _EVERYWHERE and session.workspace not in (None, workspace[0]):
        _tell_manager(display, root, root, "_NET_CURRENT_DESKTOP", [workspace[0], X.CurrentTime])
    if _is_minimized(display, window, session.supported):
        # Mapping a window is how the window's own program brings it back, and works with any manager.
        window.map()
    if display.get_atom("_NET_ACTIVE_WINDOW") in session.supported:
        _tell_manager(display, root, window, "_NET_ACTIVE_WINDOW", [_FROM_PAGER, X.CurrentTime, 0])
    else:
        window.configure(stack_mode=X.Above)
        window.set_input_focus(X.RevertToParent, X.CurrentTime)
    display.sync()


def _tell_manager(display: Any, root: Any, window: Any, name: str, values: list[int]) -> None:
    data = (32, [*values, 0, 0, 0, 0, 0][:5])
    told = xevent.ClientMessage(window=window, client_type=display.get_atom(name), data=data)
    root.send_event(told, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)


def _session(display: Any, root: Any) -> _Session:
    current = _told_by_manager(display, root, "_NET_CURRENT_DESKTOP")
    supported = _told_by_manager(display, root, "_NET_SUPPORTED") or []
    return _Session(active_window(display), current[0] if current else None, tuple(supported))


def _is_minimized(display: Any, window: Any, supported: tuple[int, ...]) -> bool:
    hidden = display.get_atom("_NET_WM_STATE_HIDDEN")
    if hidden in supported:
        return hidden in _longs(display, window, "_NET_WM_STATE")
    # Window managers set this state for windows of other workspaces, too.
    return _longs(display, window, "WM_STATE")[:1] == [Xutil.IconicState]


def _is_on_screen(display: Any, root: Any, number: int) -> bool:
    found, screen = _read(display, root, number, _Session()), display.screen()
    whole = Box(0, 0, screen.width_in_pixels, screen.height_in_pixels)
    return found is not None and found.box.shared_with(whole) is not None


def _read(display: Any, root: Any, number: int, session: _Session) -> Window | None:
    window = display.create_resource_object("window", number)
    try:
        attributes = window.get_attributes()
        if attributes.win_class != X.InputOutput:
            return None
        geometry = window.get_geometry()
        corner = root.translate_coords(window, 0, 0)
        title = _text(display, window, "_NET_WM_NAME") or str(window.get_wm_name() or "")
        process_id = _owner_of(display, window)
        shadow = _longs(display, window, "_GTK_FRAME_EXTENTS")
        owners = _longs(display, window, "WM_TRANSIENT_FOR")
        visible = attributes.map_state == X.IsViewable
        is_minimized = not visible and _is_minimized(display, window, session.supported)
        workspace = (_longs(display, window, "_NET_WM_DESKTOP") or [_EVERYWHERE])[0]
    except xerror.XError:
        # The window was closed meanwhile.
        return None
    return Window(
        id=f"0x{number:x}",
        title=title,
        process_id=process_id,
        process_name=process_name(process_id),
        box=Box(int(corner.x), int(corner.y), int(geometry.width), int(geometry.height)),
        active=number == session.active,
        visible=visible,
        is_popup=bool(attributes.override_redirect),
        shadow=_inset(*shadow) if len(shadow) == 4 else Box(0, 0, 0, 0),
        minimized=is_minimized,
        workspace=workspace + 1 if workspace != _EVERYWHERE else None,
        on_this_workspace=session.workspace in (None, workspace) or workspace == _EVERYWHERE,
        dialog_of=f"0x{owners[0]:x}" if owners and owners[0] else None,
    )


def _owner_of(display: Any, window: Any) -> int | None:
    owner = _longs(display, window, "_NET_WM_PID")
    return int(owner[0]) if owner else _process_of(display, window.id)


def _inset(left: int, right: int, top: int, bottom: int) -> Box:
    return Box(left, top, left + right, top + bottom)


def _process_of(display: Any, number: int) -> int | None:
    """A window's process id from the X server; many programs, such as Tk's, do not set it themselves."""
    if not display.has_extension("X-Resource"):
        return None
    asked = [{"client": number, "mask": res.LocalClientPIDMask}]
    for told in display.res_query_client_ids(asked).ids:
        if told.value and told.value[0]:
            return int(told.value[0])
    return None


def _client_below(display: Any, root: Any, top: Any, at: tuple[int, int] | None = None) -> Any:
    """A program's window within a window manager's frame, at a pixel or at the pointer."""
    inner = top
    for _ in range(8):
        if _is_client(display, inner):
            return inner
        try:
            below = inner.translate_coords(root, *at).child if at else inner.query_pointer().child
        except xerror.XError:
            break
        if isinstance(below, int):
            break
        inner = below
    return inner if _is_client(display, inner) else top


def _is_unmanaged(window: Any) -> bool:
    try:
        attributes = window.get_attributes()
    except xerror.XError:
        return False
    return bool(attributes.override_redirect) and attributes.map_state == X.IsViewable


def _told_by_manager(display: Any, root: Any, name: str) -> list[int] | None:
    """A property that the window manager sets on the root window; ignored if the manager has died.

    None where there is no manager, or none that sets it.
    """
    sign = _longs(display, root, "_NET_SUPPORTING_WM_CHECK")
    if sign:
        window = display.create_resource_object("window", sign[0])
        if _longs(display, window, "_NET_SUPPORTING_WM_CHECK") != sign:
            return None
    return _numbers(display, root, name)


def _top_level(root: Any, window: Any) -> int | None:
    try:
        for _ in range(16):
            parent = window.query_tree().parent
            if isinstance(parent, int) or parent.id == root.id:
                return int(window.id)
            window = parent
    except xerror.XError:
        return None
    return None


def _is_client(display: Any, window: Any) -> bool:
    try:
        return bool(_longs(display, window, "_NET_WM_PID")) or window.get_wm_class() is not None
    except xerror.XError:
        return False


def _longs(display: Any, window: Any, name: str) -> list[int]:
    return _numbers(display, window, name) or []


def _numbers(display: Any, window: Any, name: str) -> list[int] | None:
    """A property of 32-bit numbers; None where it is not set."""
    try:
        found = window.get_full_property(display.get_atom(name), X.AnyPropertyType)
    except xerror.XError:
        return None
    return list(found.value) if found is not None and found.format == 32 else None


def _text(display: Any, window: Any, name: str) -> str:
    found = window.get_full_property(display.get_atom(name), X.AnyPropertyType)
    if found is None or found.format != 8:
        return ""
    value = found.value
    raw = value if isinstance(value, bytes) else bytes(value)
    return raw.decode("latin-1" if found.property_type == Xatom.STRING else "utf-8", "replace")


log = Logger(__name__)

# The greatest depth of a program's windows: below the root and below a window manager's frame.
_DEPTH = 3


def ask_to_close(pids: set[int]) -> set[int]:
    """Send WM_DELETE_WINDOW to the windows of these processes; returns those that had such a window."""
    try:
        screen = display.Display()
    except (DisplayError, OSError) as error:
        log.info("no X server to ask", reason=str(error))
        return set()
    try:
        return _ask(screen, pids)
    except XError as error:
        log.warning("windows could not be asked", reason=str(error))
        return set()
    finally:
        screen.close()


def _ask(screen: Any, pids: set[int]) -> set[int]:
    names = ("_NET_WM_PID", "WM_PROTOCOLS", "WM_DELETE_WINDOW")
    owner, protocols, delete = (screen.intern_atom(name) for name in names)
    asked = set()
    for window in _windows(screen.screen().root, _DEPTH):
        try:
            pid = window.get_full_property(owner, X.AnyPropertyType)
            if pid is None or int(pid.value[0]) not in pids:
                continue
            offered = window.get_full_property(protocols, X.AnyPropertyType)
            if offered is None or delete not in list(offered.value):
                continue
        except XError:
            # The window was closed meanwhile.
            continue
        told = event.ClientMessage(
            window=window, client_type=protocols, data=(32, [delete, X.CurrentTime, 0, 0, 0])
        )
        window.send_event(told)
        asked.add(int(pid.value[0]))
    screen.sync()
    return asked


def _windows(parent: Any, depth: int) -> Iterator[Any]:
    try:
        children = parent.query_tree().children
    except XError:
        return
    for window in children:
        yield window
        if depth > 1:
            yield from _windows(window, depth - 1)
