"""Where timelines come from: read through the door, and read again, not too often, while a run goes on."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.screens.targets import OpenReplay
from app.service_client import ConsoleLink
from core.errors import QuarterdeckError
from core.replay.models import Timeline

# A run that is under way changes often; its timeline is read again at most this often.
RELOAD_MS = 400


class TimelineSource(QObject):
    """Reads one timeline at a time; a newer wish takes the place of an older one.

    Signals:
        came(target, timeline): what was asked for.
        failed(error): it cannot be read; a `QuarterdeckError`.
    """

    came = Signal(object, object)
    failed = Signal(object)

    def __init__(self, link: ConsoleLink, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._target: OpenReplay | None = None
        self._reading: asyncio.Future[Any] | None = None
        self._again = False
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(RELOAD_MS)
        self._pause.timeout.connect(self._reload)

    def read(self, target: OpenReplay) -> None:
        """Read a run, or the entries around one, now."""
        if self._reading is not None:
            self._reading.cancel()
        self._target = target
        self._reading = self._link.ask(
            lambda console: console.journal.timeline(run=target.run, around=target.around),
            partial(self._done, target),
            self._fail,
            what="read the timeline",
        )

    def read_again_soon(self) -> None:
        """What was read has changed; many changes lead to one reading."""
        if not self._pause.isActive():
            self._pause.start()

    def rest(self) -> None:
        """Read nothing again until somebody asks."""
        self._pause.stop()

    def _reload(self) -> None:
        if self._reading is not None:
            # It may have been read before the change; once it is here, it is read once more.
            self._again = True
        elif self._target is not None:
            self.read(OpenReplay(run=self._target.run, around=self._target.around))

    def _done(self, target: OpenReplay, timeline: Timeline) -> None:
        self._ended()
        self.came.emit(target, timeline)

    def _fail(self, error: QuarterdeckError) -> None:
        self._ended()
        self.failed.emit(error)

    def _ended(self) -> None:
        self._reading = None
        if self._again:
            self._again = False
            self.read_again_soon()
