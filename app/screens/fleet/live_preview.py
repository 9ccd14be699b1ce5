"""The Live switch of the wall: while it is on, the service keeps pictures of the tiles in sight fresh.

It is the operator's wish for this window and this session. The wish is a lease: it is renewed while tiles are
in sight, and ended when none is (another screen, a table, a page, a window that is minimised).
"""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.widgets.util import debounce
from core.errors import ErrorCode, QuarterdeckError
from core.service.console import LivePicture, LiveState

RENEW_MS = 5_000
# While first pictures are on their way, so that tiles soon say that they are live.
SOON_MS = 1_000
# A wheel turns by many small steps; no picture is looked at for so short a time.
SETTLE_MS = 150
MOST_SEEN = 120

_HIDING = (QEvent.Type.Hide, QEvent.Type.WindowStateChange)
_MOVING = (QEvent.Type.Paint, QEvent.Type.Resize, QEvent.Type.Show)


class Tiles(Protocol):
    """The wall, as far as this needs it."""

    def seen_keys(self) -> list[str]:
        """The devices whose tiles are in sight."""
        ...


class LivePreview(QObject):
    """Says which devices are seen, and hears how their pictures stand.

    Signals:
        changed: it was turned on or off, or a picture stands otherwise than before.
    """

    changed = Signal()

    def __init__(self, wall: QAbstractScrollArea, tiles: Tiles, parent: QObject | None = None) -> None:
        """`wall` and `tiles` are one and the same widget, as what is watched and as what is asked."""
        super().__init__(parent)
        self._wall, self._tiles = wall, tiles
        self._window: QWidget | None = None
        self._link: ConsoleLink | None = None
        self._on = self._anew = False
        self._asking = self._again = False
        self._wished: list[str] = []
        self._standing: dict[str, LivePicture] = {}
        self._renew = QTimer(self)
        self._renew.timeout.connect(self._wish)
        self._settle = debounce(self, SETTLE_MS, self._look)
        wall.installEventFilter(self)
        wall.viewport().installEventFilter(self)

    def bind(self, link: ConsoleLink, nav: Navigator) -> None:
        """Wishes can be made from now on."""
        self._link, self._nav = link, nav
        # A service that was started again knows nothing of the lease.
        link.attached.connect(self._attached)

    @property
    def on(self) -> bool:
        """Whether the operator wants it."""
        return self._on

    def standing(self, device: str) -> LivePicture | None:
        """How the live picture of a device stands; None where none is wished for."""
        return self._standing.get(device) if self._on else None

    def turn(self, on: bool) -> None:
        """Turn it on or off. On means again: what was refused before is tried once more."""
        if on == self._on:
            return
        self._on = self._anew = on
        self._standing = {}
        if on:
            self._renew.start(RENEW_MS)
        else:
            self._renew.stop()
        self._look()
        self.changed.emit()

    def seen(self) -> list[str]:
        """The devices that are looked at now, from the top, as many as one lease may have."""
        if not self._on or self._wall.window().isMinimized():
            return []
        return self._tiles.seen_keys()[:MOST_SEEN]

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Whatever moves tiles paints them; what hides them ends the lease at once."""
        if self._on and event.type() in _HIDING:
            self._settle.start(0)
        elif self._on and event.type() in _MOVING:
            self._follow_window()
            if not self._settle.isActive():
                self._settle.start(SETTLE_MS)
        return super().eventFilter(watched, event)

    def _follow_window(self) -> None:
        window = self._wall.window()
        if window is not self._window:
            self._window = window
            window.installEventFilter(self)

    def _attached(self) -> None:
        self._asking = self._again = False
        self._wished = []
        self._look()

    def _look(self) -> None:
        self._follow_window()
        if self._anew or self.seen() != self._wished:
            self._wish()

    def _wish(self) -> None:
        devices = self.seen()
        if self._link is None or (not devices and not self._wished):
            return
        if self._asking:
            # The newest sight counts, once the service has answered.
            self._again = True
            return
        anew = self._anew and bool(devices)
        self._anew = self._anew and not anew
        self._asking, self._wished = True, devices
        self._link.ask(
            lambda console: console.devices.watch(devices, anew),
            self._answered,
            self._failed,
            what="watch the screens",
        )

    def _answered(self, stands: list[LivePicture]) -> None:
        self._asking = False
        found = {one.device: one for one in stands}
        if found != self._standing:
            self._standing = found
            self.changed.emit()
        if self._on:
            coming = any(one.state is LiveState.WAITING and not one.why for one in stands)
            self._renew.start(min(SOON_MS, RENEW_MS) if coming else RENEW_MS)
        self._go_on()

    def _failed(self, error: QuarterdeckError) -> None:
        self._asking = False
        self._wished = []
        self._standing = {}
        if error.code is ErrorCode.SERVICE_UNAVAILABLE or not self._on:
            # The window says itself that the service is gone; the next round tries again.
            self.changed.emit()
            return
        self._again = False
        self.turn(False)
        self._nav.fail("Live pictures were turned off.", error.info.sentences)

    def _go_on(self) -> None:
        if self._again:
            self._again = False
            self._look()
