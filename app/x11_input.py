"""The origin of input on an X11 display, for the window, and a filter for events that a program sent."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QAbstractNativeEventFilter, QByteArray, QObject, QSocketNotifier, Qt
from PySide6.QtGui import QGuiApplication

from app.input_origin import (
    MADE_BY_PROGRAM,
    NOT_TOLD_APART,
    BlindSource,
    InputOrigin,
    InputSource,
    Stroke,
)
from core.log import Logger
from core.tasks import TaskGroupOwner

if TYPE_CHECKING:
    from app.x11_watch import XWatch

log = Logger(__name__)

Answer = TypeVar("Answer")

_XCB_EVENT = b"xcb_generic_event_t"
_SENT = 0x80  # the bit of an event's code that XSendEvent sets
_KEY_PRESS, _BUTTON_RELEASE = 2, 5  # key release and button press are between them


class SentInputFilter(QAbstractNativeEventFilter):
    """Drops keys and clicks that another client sent with XSendEvent, as xterm does.

    Their sender writes the time, the key and the place, and Qt takes them for input.
    """

    def nativeEventFilter(self, kind: QByteArray | bytes, message: int) -> tuple[bool, int]:  # type: ignore[override]
        """Look at the code in the first byte of an X event."""
        if bytes(kind) != _XCB_EVENT:  # type: ignore[arg-type]
            return False, 0
        code: int = ctypes.c_uint8.from_address(int(message)).value
        return bool(code & _SENT) and _KEY_PRESS <= code & ~_SENT <= _BUTTON_RELEASE, 0


class X11Source(QObject):
    """The `InputSource` of a window on X11.

    Every press is synthetic before the watch has begun, and after the server was lost.
    """

    def __init__(self, open_watch: Callable[[], XWatch] | None = None) -> None:
        """`open_watch` connects to the server, in a thread; without it, to the one in `DISPLAY`."""
        super().__init__()
        self._open = open_watch
        self._watch: XWatch | None = None
        self._ended = False
        # Below `REAL` where the server is Xwayland, whose devices repeat the compositor's virtual input.
        self._most = InputOrigin.REAL
        self._about = ""
        self._notifiers: list[QSocketNotifier] = []
        self._tasks = TaskGroupOwner("input")
        self._filter = SentInputFilter()
        _application().installNativeEventFilter(self._filter)

    async def begin(self) -> None:
        """Connect in a thread: python-xlib takes long to import, and waits for the server."""
        watch = await asyncio.to_thread(self._open_watch)
        if watch is None:
            return
        if watch.is_xwayland:
            from app.wayland_input import NOT_REPORTED, about_virtual_input, virtual_input

            means = await virtual_input()
            self._most = InputOrigin.SYNTHETIC if means else InputOrigin.UNKNOWN
            self._about = about_virtual_input(means) if means else NOT_REPORTED
        self._watch = watch
        for socket in watch.sockets():
            notifier = QSocketNotifier(socket, QSocketNotifier.Type.Read, self)
            notifier.activated.connect(self._read)
            self._notifiers.append(notifier)
        app = _application()
        app.applicationStateChanged.connect(self._follow_focus)
        self._follow_focus(app.applicationState())

    def _open_watch(self) -> XWatch | None:
        """Runs in a thread, which goes on when the window ends meanwhile."""
        from app.x11_watch import Unwatched, XWatch

        try:
            watch = (self._open or XWatch)()
        except Unwatched as error:
            log.warning("input is synthetic", problem=str(error))
            return None
        if self._ended:
            watch.close()
            return None
        return watch

    async def end(self) -> None:
        """Leave the server."""
        self._ended = True
        _application().removeNativeEventFilter(self._filter)
        await self._tasks.close()
        self._leave()

    @property
    def is_watching(self) -> bool:
        """Whether the server reports the origin of input."""
        return self._watch is not None

    @property
    def about(self) -> str:
        """See `InputSource`."""
        if self._watch is None:
            return "The X server does not say where input comes from: high risk asks for the passphrase."
        return self._about or (
            "The X server tells keys and clicks of a device from those that a program makes; the latter need "
            "the passphrase as well, for high risk and for whatever lets more run."
        )

    @property
    def doubt(self) -> str:
        """See `InputSource`."""
        return MADE_BY_PROGRAM if self._most is InputOrigin.REAL else NOT_TOLD_APART

    def hand_of(self, stroke: Stroke) -> InputOrigin:
        """The origin of one event; asks the server, and waits for it at most `x11_watch.LATEST_S`."""
        watch = self._watch
        caught_up = self._with(lambda watch: watch.catch_up())
        if watch is None or not caught_up:
            return InputOrigin.SYNTHETIC
        return min(self._most, watch.hand_of(stroke))

    def _read(self) -> None:
        self._with(lambda watch: watch.read())

    def _follow_focus(self, state: Qt.ApplicationState) -> None:
        """Follow keys only while they are meant for this program."""
        self._with(lambda watch: watch.watch_keys(state == Qt.ApplicationState.ApplicationActive))

    def _with(self, act: Callable[[XWatch], Answer]) -> Answer | None:
        """Do something with the watch, if there is one; an error ends it."""
        watch = self._watch
        if watch is None:
            return None
        try:
            answer = act(watch)
        except Exception as error:
            # The edge: python-xlib raises errors of many kinds for a server that is lost or sends nonsense.
            log.warning("the X server is lost: input is synthetic", exc_info=error)
            self._leave()
            return None
        if watch.devices_changed:
            watch.devices_changed = False
            self._tasks.spawn("ask which devices are real", self._ask_devices(watch))
        return answer

    async def _ask_devices(self, watch: XWatch) -> None:
        real = await asyncio.to_thread(_real_devices)
        # After another change the next answer counts.
        if not watch.devices_changed:
            watch.know_devices(real)

    def _leave(self) -> None:
        watch, self._watch = self._watch, None
        for notifier in self._notifiers:
            notifier.setEnabled(False)
            notifier.deleteLater()
        self._notifiers = []
        if watch is not None:
            _application().applicationStateChanged.disconnect(self._follow_focus)
            watch.close()


def _application() -> QGuiApplication:
    app = QGuiApplication.instance()
    if not isinstance(app, QGuiApplication):
        raise RuntimeError("There is no application.")
    return app


def _real_devices() -> frozenset[int]:
    from app.x11_watch import LOST, real_devices_of

    try:
        return real_devices_of()
    except LOST as error:
        log.warning("the input devices are not known", problem=str(error))
        return frozenset()


def platform_source() -> InputSource:
    """The source for the window system that Qt uses."""
    match QGuiApplication.platformName():
        case "xcb":
            return X11Source()
        case "wayland" | "wayland-egl":
            # Its D-Bus library exists on Linux only.
            from app.wayland_input import WaylandSource

            return WaylandSource()
        case _:
            return BlindSource()
