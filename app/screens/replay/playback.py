"""Moves the playhead by itself, at a speed, with idle time shortened."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

DelayS = Callable[[float], float | None]


class Playback(QObject):
    """A clock for the playhead.

    Signals:
        due: the playhead goes on to the next moment.
        changed(playing): it plays now, or it stopped.
    """

    due = Signal()
    changed = Signal(bool)

    def __init__(self, delay: DelayS, parent: QObject | None = None) -> None:
        """`delay` gives the seconds to the next moment at a speed, None at the end."""
        super().__init__(parent)
        self._delay = delay
        self._speed = 1.0
        self._playing = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._go_on)

    @property
    def playing(self) -> bool:
        """Whether the playhead moves by itself."""
        return self._playing

    def set_speed(self, speed: float) -> None:
        """Play faster or slower from now on; 1.0 is how it happened."""
        self._speed = speed
        if self._playing:
            self._wait()

    def play(self) -> None:
        """Begin, unless there is nothing to go on to."""
        self._set_playing(True)
        self._wait()

    def pause(self) -> None:
        """Stop where it is."""
        self._timer.stop()
        self._set_playing(False)

    def _wait(self) -> None:
        seconds = self._delay(self._speed)
        if seconds is None:
            self.pause()
        else:
            self._timer.start(round(seconds * 1000))

    def _go_on(self) -> None:
        self.due.emit()
        if self._playing:
            self._wait()

    def _set_playing(self, playing: bool) -> None:
        if playing != self._playing:
            self._playing = playing
            self.changed.emit(playing)
