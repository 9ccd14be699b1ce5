"""Where timelines come from: read through the door, and read again, not too often, while a run goes on."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.query import Query
from app.screens.targets import OpenReplay
from app.service_client import ConsoleLink
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
        self._target = OpenReplay()
        self._timeline = Query(self, link, self._show, self.failed.emit, "read the timeline")

    def read(self, target: OpenReplay) -> None:
        """Read a run, or the entries around one, now."""
        self._target = target
        self._timeline.load(lambda console: console.journal.timeline(run=target.run, around=target.around))

    def read_again_soon(self) -> None:
        """What was read has changed; many changes lead to one reading."""
        self._timeline.refresh_within(RELOAD_MS)

    def rest(self) -> None:
        """Read nothing again until it is asked for."""
        self._timeline.stop_refreshing()

    def _show(self, timeline: Timeline) -> None:
        target = self._target
        # Only the first answer leads to the entry that was asked for: the playhead may have moved since.
        self._target = replace(target, at=None)
        self.came.emit(target, timeline)
