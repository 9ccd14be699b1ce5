"""The parts of the replay's screen and where they stand; what they do is `screen`'s."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSplitter, QStackedWidget, QVBoxLayout, QWidget

from app.screens.replay.chooser import RunChooser
from app.screens.replay.details import Details
from app.screens.replay.film import FilmStrip
from app.screens.replay.lanes import Lanes
from app.screens.replay.pictures import PicturePane
from app.screens.replay.shelf import PictureShelf
from app.screens.replay.source import TimelineSource
from app.screens.replay.transport import ReplayHead, Transport
from app.screens.screen import Screen
from app.service_client import ConsoleLink
from app.state import AppState
from app.widgets.empty_state import EmptyState
from app.widgets.labels import rule, surface

# As wide as title, state, transport, search and the choice of times are together.
LEAST_SHARED = 1190
NOTHING_YET = "Nothing has run yet."
NOTHING_LINE = (
    "After the first run you step through it here: every entry in order, the pictures before and after, "
    "what changed between them, who approved what, and the proof of each entry."
)
NOT_KNOWN = "What has run is not known."
NOT_KNOWN_LINE = "The service is not connected. Runs are shown as soon as it answers."


class ReplayParts(Screen):
    """Head, transport, film, lanes, pictures and details, in a wide, a narrow or a low window."""

    def __init__(self) -> None:
        super().__init__()
        surface(self, "base")
        self._low = self._shared = False

    def build(self, state: AppState, link: ConsoleLink) -> None:
        """Make the parts; once, from `bind`."""
        self.source = TimelineSource(link, self)
        self.shelf = PictureShelf(link, self)
        self.head = ReplayHead()
        self.transport = Transport()
        self.film = FilmStrip()
        self.film.set_shelf(self.shelf)
        self.lanes = Lanes()
        self.pictures = PicturePane(self.shelf)
        self.details = Details(link)
        self.chooser = RunChooser(state, link, self)
        self._place_parts()

    def _place_parts(self) -> None:
        self.split = QSplitter(Qt.Orientation.Horizontal)
        self.split.setChildrenCollapsible(False)
        self.split.setHandleWidth(1)
        self.split.addWidget(self.pictures)
        self.split.addWidget(self.details)
        self.split.setStretchFactor(0, 1)
        self.split.setStretchFactor(1, 0)
        self.split.setSizes([900, 346])
        work = QWidget()
        column = self._work = QVBoxLayout(work)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self._below_transport = rule()
        for part in (self.transport, self._below_transport, self.film, rule(), self.lanes, rule()):
            column.addWidget(part)
        column.addWidget(self.split, 1)
        self.empty = EmptyState(NOT_KNOWN, NOT_KNOWN_LINE)
        self.pages = QStackedWidget()
        self.pages.addWidget(work)
        self.pages.addWidget(self.empty)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(self.head)
        whole.addWidget(rule())
        whole.addWidget(self.pages, 1)

    def primary_filter(self) -> QWidget:
        """Search in time."""
        return self.head.search

    def home_of_keyboard(self) -> QWidget:
        """The film; until there is one, the screen itself."""
        return self if self.pages.currentIndex() else self.film

    def panes(self) -> list[QWidget]:
        """Film, lanes, pictures, details."""
        if self.pages.currentIndex():
            return [self.head]
        return [self.film, self.lanes, self.pictures, self.details]

    def set_compact(self, narrow: bool, low: bool) -> None:
        """Film, lanes and pictures give way."""
        self._low = low
        self._share_row()
        self.film.set_compact(low)
        self.lanes.set_compact(low)
        self.pictures.set_compact(narrow)
        self.details.setMinimumWidth(300 if narrow else 320)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Head and transport share a row where it is low and wide enough."""
        super().resizeEvent(event)
        self._share_row()

    def _share_row(self) -> None:
        share = self._low and self.width() >= LEAST_SHARED
        if share == self._shared:
            return
        self._shared = share
        self.head.set_shared(self.transport if share else None)
        self.transport.set_shared(share)
        self._below_transport.setVisible(not share)
        if not share:
            self._work.insertWidget(0, self.transport)
        self.transport.show()
