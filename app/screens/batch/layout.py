"""Where the panes of the batch lie: four columns above the plan, or two and a pop-up in narrow windows."""

from __future__ import annotations

from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtWidgets import QSplitter, QWidget

from app.screens.batch.plan_panel import HEAD, PlanPanel
from app.screens.batch.step_form import StepForm
from app.screens.batch.step_source import StepSource
from app.screens.batch.steps_panel import StepsPanel
from app.screens.batch.tools_panel import ToolsPanel
from app.widgets.banner import Notice
from app.widgets.layouts import vbox

TOOLS, STEPS, TEXT = 204, 376, 312
LEAST_FORM = 260
LEAST_COLUMNS = 160
POPUP = (280, 420)
UNBOUNDED = 16_777_215


class BatchLayout(QObject):
    """Splitters, the pop-up of tools, the height of the plan."""

    def __init__(
        self,
        screen: QWidget,
        tools: ToolsPanel,
        steps: StepsPanel,
        step: StepForm,
        text: StepSource,
        dock: PlanPanel,
    ) -> None:
        super().__init__(screen)
        self._screen, self._tools, self._steps = screen, tools, steps
        self._step, self._text, self._dock = step, text, dock
        self.narrow = self._low = False
        self._height_is_chosen = False
        self.columns = QSplitter(Qt.Orientation.Horizontal)
        self.rows = QSplitter(Qt.Orientation.Vertical)
        for splitter in (self.columns, self.rows):
            splitter.setChildrenCollapsible(False)
            splitter.setHandleWidth(1)
        for pane, least in ((tools, 170), (steps, 300), (step, LEAST_FORM), (text, 220)):
            pane.setMinimumWidth(least)
            self.columns.addWidget(pane)
        self.columns.setStretchFactor(2, 1)
        self.columns.setSizes([TOOLS, STEPS, 372, TEXT])
        self.columns.setMinimumHeight(LEAST_COLUMNS)
        self.rows.addWidget(self.columns)
        self.rows.addWidget(dock)
        self.rows.setStretchFactor(0, 1)
        self.rows.setStretchFactor(1, 0)
        dock.setMinimumHeight(HEAD + 1)
        dock.folded.connect(lambda _folded: self.fit())
        self.rows.splitterMoved.connect(lambda *_: self._dragged())

    def set_compact(self, narrow: bool, low: bool) -> None:
        """Tools become a pop-up, the text a page of the form; the plan is 140 high."""
        self._low = low
        self._height_is_chosen = False
        if narrow != self.narrow:
            self.narrow = narrow
            self._steps.set_compact(narrow)
            if narrow:
                self._tools.setParent(self._screen)
                self._tools.hide()
                self._step.set_compact_text(self._text)
            else:
                self._step.set_compact_text(None)
                self.columns.insertWidget(0, self._tools)
                self.columns.addWidget(self._text)
                self._tools.show()
                self._text.show()
                rest = max(LEAST_FORM, self._screen.width() - TOOLS - STEPS - TEXT)
                self.columns.setSizes([TOOLS, STEPS, rest, TEXT])
            self._tools.set_floating(narrow)
        self.fit()

    def fit(self) -> None:
        """Keep pop-up and plan in their places; a height that was dragged stays."""
        if self.narrow:
            corner = self._steps.mapTo(self._screen, QPoint(8, 36))
            height = min(POPUP[1], self._screen.height() - corner.y() - 8)
            self._tools.setGeometry(corner.x(), corner.y(), POPUP[0], height)
        folded = self._dock.is_folded
        self._dock.setMaximumHeight(HEAD + 1 if folded else UNBOUNDED)
        if self._height_is_chosen and not folded:
            return
        room = self.rows.height()
        wanted = min(self._dock.wanted_height(self._low), max(HEAD + 1, room - LEAST_FORM))
        self.rows.setSizes([max(LEAST_COLUMNS, room - wanted - 1), wanted])

    def _dragged(self) -> None:
        self._height_is_chosen = not self._dock.is_folded

    def show_tools(self) -> None:
        """Bring the tools up where they are a pop-up, and begin to search in them."""
        if self.narrow:
            self.fit()
            self._tools.show()
            self._tools.raise_()
        self._tools.focus_search()

    def close_tools(self) -> bool:
        """Put the pop-up away; False when there is none."""
        if not self.narrow or not self._tools.isVisible():
            return False
        self._tools.hide()
        return True


class NoticeBox(QWidget):
    """What became of a wish, whole, and what to do; closed by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.notice = Notice("fail", "", "", "Close")
        self.notice.acted.connect(self.hide)
        vbox(self.notice, parent=self, margins=(16, 0, 16, 8), spacing=None)
        self.hide()

    def say(self, what: str, how: str, look: str = "fail") -> None:
        """Show what happened and what to do."""
        self.notice.say(look, what, how, "Close")
        self.show()
