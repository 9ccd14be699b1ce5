"""A connection to an X server, and whether that server is Xwayland.

Both ends need it: the device client takes pictures and makes input, the window asks where input comes from.
"""

from __future__ import annotations

from typing import Any

from Xlib import display, protocol


def connect(name: str | None = None) -> Any:
    """Connect to the display `name`, else to the one in DISPLAY; blocks until the server answers.

    python-xlib keeps the event codes of extensions in its class. Those of another server, where the same
    number is an event of another kind, would make the next connection fail.
    """
    protocol.display.Display.event_classes = protocol.event.event_class.copy()
    return display.Display(name)


def is_xwayland(server: Any) -> bool:
    """Whether the server is Xwayland, which has neither the screen nor the input of its Wayland session.

    The server is asked, since the environment is wrong in both directions: a compositor need not set
    XDG_SESSION_TYPE, and an X server of one's own can run inside a Wayland session. Xwayland has an extension
    of its name from 23.1 on; before, its outputs are named XWAYLAND0 and so on.
    """
    if server.query_extension("XWAYLAND") is not None:
        return True
    if server.query_extension("RANDR") is None:
        return False
    # `current`: the server does not ask its monitors again, which can take a second.
    screen = server.screen().root.xrandr_get_screen_resources_current()
    names = (server.xrandr_get_output_info(output, screen.config_timestamp).name for output in screen.outputs)
    return any(name.startswith("XWAYLAND") for name in names)
