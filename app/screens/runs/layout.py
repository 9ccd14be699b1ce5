"""Where the parts of the screen stand: list, head, matrix and drawer, and what is said without a run."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.screens.runs.cell_details import CellDetails
from app.screens.runs.run_views import RunViews
from app.theme.tokens import SPACE
from app.widgets.empty_state import EmptyState, Offer
from app.widgets.labels import Link, separator
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.master_detail import MasterDetail
from app.widgets.util import debounce

LIST_WIDTH = 228
CLOSED = "The drawer is closed. Enter opens it for the chosen cell."


class RunsLayout(QStackedWidget):
    """The run with its list, or what is true while there is none.

    Signals:
        divided(share): the operator moved the line above the drawer; the matrix has this share now.
    """

    divided = Signal(float)

    def __init__(
        self, runs: QWidget, above: list[QWidget], counts: QWidget, views: RunViews, drawer: CellDetails
    ) -> None:
        """`above` stand over the counts, from top to bottom."""
        super().__init__()
        self._counts, self._views, self._matrix = counts, views, views.matrix
        self._share, self._narrow = 0.0, False
        self.message = EmptyState()
        self.message.hide()
        self.hint = Link(CLOSED)
        self.split = MasterDetail(views, drawer, (1, 1), orientation=Qt.Orientation.Vertical)
        self.split.splitterMoved.connect(self._moved)
        drawer.setMinimumHeight(150)
        views.setMinimumHeight(90)
        self._right = right = QWidget()
        self._paint_soon = debounce(self, 0, lambda: right.setUpdatesEnabled(True))
        column = vbox(*above, counts, separator(), (self.message, 1), (self.split, 1), parent=right)
        self._hint_row = _hint_row(self.hint)
        column.addWidget(self._hint_row)
        self.across = MasterDetail(runs, right, (LIST_WIDTH, 1000), right)
        runs.setMinimumWidth(180)
        self.empty = EmptyState(
            "Nothing has run yet.",
            "Build a batch and run it, or call one tool of a device: both appear here, cell by cell.",
            ("batch", "Build a batch", "batch"),
        )
        self.reading = EmptyState("Reading the runs…", "They are shown as soon as the service answers.")
        for page in (self.across, self.empty, self.reading):
            self.addWidget(page)
        self.setCurrentWidget(self.reading)
        drawer.hide()

    def choose(self, known: bool, nothing: bool) -> None:
        """Show the page that is true: the runs are not `known` yet, there is `nothing`, or there are some."""
        waited, page = self.currentWidget() is self.reading, self.empty if nothing else self.across
        # Asked before the page goes: hidden, it hands the keyboard on to whatever comes next in the window.
        focused = self.window().focusWidget()
        waits = focused is not None and (focused.isAncestorOf(self) or self.isAncestorOf(focused))
        self.setCurrentWidget(page if known else self.reading)
        if waited and known and not nothing and waits:
            # There was nothing that could take the keyboard; what the operator went to since keeps it.
            self._views.take_keyboard()

    def show_hint(self, shown: bool) -> None:
        """Say how the drawer is opened, where it is closed."""
        self._hint_row.setVisible(shown)

    def say(self, heading: str, sentence: str = "", offer: Offer | None = None) -> None:
        """Say why there is no matrix; without a heading show the matrix."""
        self.message.say(heading, sentence, offer)
        self.message.setVisible(bool(heading))
        self._counts.setVisible(not heading)
        self.split.setVisible(not heading)

    def uncover(self) -> None:
        """Show the matrix, from its cursor on, and the drawer: all is put in place now, and painted next."""
        # In a turn of the loop of its own: to lay out and paint so much at once would hold the window.
        self._right.setUpdatesEnabled(False)
        self.say("")
        self.divide()
        # While it was covered it had another height.
        self._matrix.scrollToTop()
        self._matrix.scrollTo(self._matrix.currentIndex())
        self._paint_soon.start()

    def set_share(self, share: float) -> None:
        """Give the matrix the share that the operator chose; 0 for none."""
        self._share = share

    def set_narrow(self, narrow: bool) -> None:
        """Where there is little room the drawer gets 45 %."""
        self._narrow = narrow
        self.divide()

    def divide(self) -> None:
        """The drawer gets its half, and what a short matrix does not need; unless the operator moved it."""
        height = self.split.height()
        most = 0.55 if self._narrow else 0.5
        needed = self._matrix.needed_height() if self._views.shows_matrix else height
        matrix = height * self._share if self._share else min(height * most, needed)
        self.split.setSizes([round(matrix), round(height - matrix)])

    def _moved(self, *_: int) -> None:
        self._share = round(self._views.height() / max(1, self.split.height()), 3)
        self.divided.emit(self._share)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Divide the new height as before."""
        super().resizeEvent(event)
        if event.oldSize().height() != event.size().height():
            self.divide()


def _hint_row(hint: Link) -> QWidget:
    holder = QWidget()
    hbox(
        hint, STRETCH, parent=holder, margins=(SPACE.pane, SPACE.small, SPACE.pane, SPACE.small), spacing=None
    )
    holder.hide()
    return holder
