"""Timers that fire once after a pause: asked again meanwhile, they begin to wait anew."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer


def once(owner: QObject, pause_ms: int, act: Callable[[], object]) -> QTimer:
    """A timer of `owner` that calls `act` once, `pause_ms` milliseconds after the last `start()`."""
    timer = QTimer(owner)
    timer.setSingleShot(True)
    timer.setInterval(pause_ms)
    timer.timeout.connect(act)
    return timer
