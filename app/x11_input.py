"""Who makes input on an X11 display, for the window: XInput's word for each press, and no sent events."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import structlog
from PySide6.QtCore import QAbstractNativeEventFilter, QByteArray, QObject, QSocketNotifier, Qt
from PySide6.QtGui import QGuiApplication

from app.hand import Hand, Stroke
from core.tasks import TaskGroupOwner

if TYPE_CHECKING:
    from app.x11_watch import XWatch

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")

_XCB_EVENT = b"xcb_generic_event_t"
_SENT = 0x80
_KEY_PRESS, _BUTTON_RELEASE = 2, 5  # with key releases and button presses between


class SentInputFilter(QAbstractNativeEventFilter):
    """Drops keys and clicks that another client sent with XSendEvent, as xterm does.

    Qt would take them for input: they carry whatever time, key and place their sender likes.
    """

    def nativeEventFilter(self, kind: QByteArray | bytes, message: int) -> tuple[bool, int]:  # type: ignore[override]
        """Look at the first byte of an X event: its code, and whether it was sent."""
        if bytes(kind) != _XCB_EVENT:  # type: ignore[arg-type]
            return False, 0
        code: int = ctypes.c_uint8.from_address(int(message)).value
        return bool(code & _SENT) and _KEY_PRESS <= code & ~_SENT <= _BUTTON_RELEASE, 0


class X11Source(QObject):
    """The `InputSource` of a window on X11.

    Until the watch has begun, and after the server was lost, every press counts as made by a program.
    """

    def __init__(self, open_watch: Callable[[], XWatch] | None = None) -> None:
        """`open_watch` connects to the server, in a thread; else it is the one of `DISPLAY`."""
        super().__init__()
        self._open = open_watch
        self._watch: XWatch | None = None
        self._ended = False
        self._notifiers: list[QSocketNotifier] = []
        self._tasks = TaskGroupOwner("input")
        self._filter = SentInputFilter()
        _application().installNativeEventFilter(self._filter)

    async def begin(self) -> None:
        """Connect in a thread: python-xlib takes its time to be imported, and waits for the server."""
        watch = await asyncio.to_thread(self._open_watch)
        if watch is None:
            return
        self._watch = watch
        for socket in watch.sockets():
            notifier = QSocketNotifier(socket, QSocketNotifier.Type.Read, self)
            notifier.activated.connect(self._read)
            self._notifiers.append(notifier)
        app = _application()
        app.applicationStateChanged.connect(self._follow_focus)
        self._follow_focus(app.applicationState())

    def _open_watch(self) -> XWatch | None:
        """In a thread, which goes on when the window ends meanwhile."""
        from app.x11_watch import Unwatched, XWatch

        try:
            watch = (self._open or XWatch)()
        except Unwatched as error:
            log.warning("every press counts as made by a program", problem=str(error))
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
        """Whether the server tells who makes input."""
        return self._watch is not None

    def hand_of(self, stroke: Stroke) -> Hand:
        """By whom this event was made; asks the server, and waits for it at most `x11_watch.LATEST_S`."""
        watch = self._watch
        told_all = self._with(lambda watch: watch.catch_up())
        return watch.hand_of(stroke) if watch is not None and told_all else Hand.SYNTHETIC

    def _read(self) -> None:
        self._with(lambda watch: watch.read())

    def _follow_focus(self, state: Qt.ApplicationState) -> None:
        """The keys of other programs' windows are nothing to us."""
        self._with(lambda watch: watch.watch_keys(state == Qt.ApplicationState.ApplicationActive))

    def _with(self, act: Callable[[XWatch], Answer]) -> Answer | None:
        """Do something with the watch, if there is one; whatever goes wrong, there is none afterwards."""
        watch = self._watch
        if watch is None:
            return None
        try:
            answer = act(watch)
        except Exception as error:
            # The edge: python-xlib has errors of many kinds for a server that is lost, or talks nonsense.
            log.warning("the X server is lost: every press counts as made by a program", exc_info=error)
            self._leave()
            return None
        self._know_devices()
        return answer

    # Devices that come and go

    def _know_devices(self) -> None:
        if self._watch is not None and self._watch.devices_changed:
            self._watch.devices_changed = False
            self._tasks.spawn("ask which devices are real", self._ask_devices(self._watch))

    async def _ask_devices(self, watch: XWatch) -> None:
        real = await asyncio.to_thread(_real_devices)
        # When they have changed once more, the next answer counts.
        if not watch.devices_changed:
            watch.know_devices(real)

    # The end

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
