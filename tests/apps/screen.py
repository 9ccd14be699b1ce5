"""What is on the screen, read and changed outside the product: windows by the X server, the clipboard."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from Xlib import X
from Xlib.display import Display
from Xlib.error import BadWindow
from Xlib.protocol.event import ClientMessage, SelectionNotify

from tests.fakes.patience import PATIENCE_S

_ICONIC = 3
_LOOK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Window:
    """A window as the window manager lists it."""

    id: int
    title: str
    process_id: int
    workspace: int
    minimised: bool

    @property
    def window_id(self) -> str:
        """Its id as `list_windows` gives it."""
        return f"0x{self.id:x}"


class Screen:
    """One connection to the X server of the session."""

    def __init__(self, display: str) -> None:
        self._display = Display(display)
        self._root = self._display.screen().root

    def close(self) -> None:
        """End the connection."""
        self._display.close()

    def windows(self) -> list[Window]:
        """The windows that the window manager manages, the topmost last."""
        found = []
        for number in self._numbers(self._root, "_NET_CLIENT_LIST_STACKING"):
            try:
                found.append(self._window(number))
            except BadWindow:
                # It was closed in between.
                continue
        return found

    def titles(self) -> list[str]:
        """The titles of all windows, the topmost last."""
        return [window.title for window in self.windows()]

    def active(self) -> Window | None:
        """The window that has the keyboard."""
        number = next(iter(self._numbers(self._root, "_NET_ACTIVE_WINDOW")), 0)
        return next((window for window in self.windows() if window.id == number), None)

    def is_managed(self) -> bool:
        """Whether a window manager runs."""
        return bool(self._numbers(self._root, "_NET_SUPPORTING_WM_CHECK"))

    def raise_window(self, window: Window) -> None:
        """Bring a window forward, as a taskbar does."""
        # 2: a pager asks, whom the window manager obeys.
        self._ask(window, "_NET_ACTIVE_WINDOW", 2, X.CurrentTime)

    def minimise(self, window: Window) -> None:
        """Make a window an icon."""
        self._ask(window, "WM_CHANGE_STATE", _ICONIC)

    def move_to_workspace(self, window: Window, workspace: int) -> None:
        """Put a window on another workspace."""
        self._ask(window, "_NET_WM_DESKTOP", workspace, 2)

    def show_workspace(self, workspace: int) -> None:
        """Show another workspace."""
        self._send(self._root, "_NET_CURRENT_DESKTOP", workspace)

    def place(self, window: Window, x: int, y: int, width: int, height: int) -> None:
        """Move and resize a window."""
        target = self._display.create_resource_object("window", window.id)
        target.configure(x=x, y=y, width=width, height=height)
        self._display.sync()

    def clipboard(self) -> str | None:
        """The text in the clipboard; None where its owner gives none."""
        atom = self._display.intern_atom
        holder = self._root.create_window(0, 0, 1, 1, 0, X.CopyFromParent)
        try:
            target, place = atom("UTF8_STRING"), atom("QUARTERDECK_TEST")
            holder.convert_selection(atom("CLIPBOARD"), target, place, X.CurrentTime)
            ends = time.monotonic() + PATIENCE_S
            while time.monotonic() < ends:
                while self._display.pending_events():
                    event = self._display.next_event()
                    if isinstance(event, SelectionNotify) and event.requestor == holder:
                        return self._text(holder, place) if event.property else None
                time.sleep(_LOOK_AGAIN_S / 5)
            return None
        finally:
            holder.destroy()
            self._display.sync()

    def _text(self, holder: Any, place: int) -> str:
        found = holder.get_full_property(place, X.AnyPropertyType)
        return bytes(found.value).decode() if found else ""

    def _window(self, number: int) -> Window:
        window = self._display.create_resource_object("window", number)
        title = window.get_full_property(self._atom("_NET_WM_NAME"), X.AnyPropertyType)
        text = bytes(title.value).decode(errors="replace") if title else str(window.get_wm_name() or "")
        state = window.get_full_property(self._atom("WM_STATE"), X.AnyPropertyType)
        return Window(
            number,
            text,
            next(iter(self._numbers(window, "_NET_WM_PID")), 0),
            next(iter(self._numbers(window, "_NET_WM_DESKTOP")), 0),
            bool(state and state.value and state.value[0] == _ICONIC),
        )

    def _numbers(self, window: Any, name: str) -> list[int]:
        found = window.get_full_property(self._atom(name), X.AnyPropertyType)
        return [int(number) for number in found.value] if found else []

    def _atom(self, name: str) -> int:
        return int(self._display.intern_atom(name))

    def _ask(self, window: Window, name: str, *values: int) -> None:
        self._send(self._display.create_resource_object("window", window.id), name, *values)

    def _send(self, target: Any, name: str, *values: int) -> None:
        data = (32, [*values, 0, 0, 0, 0, 0][:5])
        message = ClientMessage(window=target, client_type=self._atom(name), data=data)
        self._root.send_event(message, X.SubstructureRedirectMask | X.SubstructureNotifyMask)
        self._display.sync()


async def until(seen: Any, what: str) -> Any:
    """What `seen()`, which may be async, answers as soon as that is true; `what` says what did not come."""
    ends = time.monotonic() + PATIENCE_S
    while True:
        found = seen()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < ends, f"{what}: {found!r}"
        # A program of others tells nobody when it has done something.
        await asyncio.sleep(_LOOK_AGAIN_S)


@asynccontextmanager
async def window_manager(environment: dict[str, str], screen: Screen) -> AsyncIterator[None]:
    """openbox on the session's display; nothing is done before it manages windows."""
    process = await asyncio.create_subprocess_exec(
        "openbox", "--sm-disable", env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until(screen.is_managed, "openbox manages the display")
        yield
    finally:
        process.terminate()
        await process.wait()
