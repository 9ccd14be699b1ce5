"""The plan as a matrix: a row a device, a column a step, and why something does not run."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QStyleOptionViewItem

from app.items.item_view import ItemDelegate
from app.items.keyed_model import NO_PARENT, Index
from app.items.matrix import MatrixModel, MatrixView
from app.screens.batch.text import count_outcomes, outcome_look, why_not
from app.theme.theme import Theme, theme_of
from app.widgets import painting
from app.widgets.badges import paint_state
from app.widgets.labels import escaped_tooltip
from app.widgets.util import debounce
from core.batch.models import Plan, PlannedCell

COLUMN = 132
LEAST_COLUMN = 92
WHY = 240
BESIDE_WORD = 8 + 13 + 7 + 6 + 2
ROW = 24


class PlanModel(MatrixModel[PlannedCell]):
    """Cells of a plan; the last column says why not."""

    def __init__(self) -> None:
        super().__init__()
        self.plan: Plan | None = None
        self._why: list[str] = []
        self.is_production = lambda device: self.plan is not None and device in self.plan.production

    def show(self, plan: Plan | None) -> None:
        """Show a plan, or none."""
        self.beginResetModel()
        self.plan = plan
        self._cells = {(cell.device, cell.step): cell for cell in (plan.cells if plan else [])}
        self._set_heads(plan.devices if plan else (), plan.steps if plan else ())
        of: dict[str, list[PlannedCell]] = {}
        for cell in plan.cells if plan else []:
            of.setdefault(cell.device, []).append(cell)
        self._why = [why_not(of.get(device, [])) for device in self.devices]
        self.endResetModel()

    def columnCount(self, parent: Index = NO_PARENT) -> int:
        """Steps, and the column of reasons."""
        return super().columnCount(parent) + (self.plan is not None and not parent.isValid())

    def why(self, row: int) -> str:
        """Why a device does not run everything."""
        return self._why[row]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Ready words."""
        if self.plan is None or not index.isValid():
            return None
        cell = self.cell_at(index)
        words = outcome_look(cell.outcome).word if cell else self._why[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return words
        if role == Qt.ItemDataRole.AccessibleTextRole:
            where = self.devices[index.row()]
            production = ", production" if self.is_production(where) else ""
            if cell is not None and cell.outcome in ("not_known", "skipped", "recovers") and cell.why:
                words = f"{words}, {cell.why}"
            return f"{where}{production}, {cell.step if cell else 'why not'}: {words or 'nothing'}"
        if role == Qt.ItemDataRole.ToolTipRole:
            said = [cell.summary, cell.why] if cell else [words]
            return escaped_tooltip("\n".join(part for part in said if part)) or None
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """As of every matrix; above the last column what it is."""
        at_why = orientation == Qt.Orientation.Horizontal and section == len(self.steps)
        if at_why and self.plan is not None and role == Qt.ItemDataRole.DisplayRole:
            return "Why not"
        return super().headerData(section, orientation, role)


class PlanDelegate(ItemDelegate):
    """Draws what a step would do on a device, or why it does not."""

    _view: PlanMatrix

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw one cell."""
        theme = theme_of(self._view)
        rect = QRectF(option.rect)
        cell = self._view.plan_model.cell_at(index)
        if cell and index.column() == self._view.shown_step:
            painter.fillRect(rect, theme.color("selected"))
        painter.fillRect(QRectF(rect.x(), rect.bottom() - 1, rect.width(), 1), theme.color("border"))
        inner = rect.adjusted(8, 0, -6, -1)
        if cell:
            painter.fillRect(QRectF(rect.right() - 1, rect.y(), 1, rect.height()), theme.color("border"))
            paint_state(painter, inner, outcome_look(cell.outcome), theme, 13)
        else:
            painting.text(painter, inner, self._view.plan_model.why(index.row()), theme, "body", "text2")
        if self._view.hasFocus() and index == self._view.currentIndex():
            painting.ring(painter, rect.adjusted(1, 1, -1, -2), 3, theme.color("accent"))


class PlanMatrix(MatrixView):
    """The matrix; arrow keys go from cell to cell.

    Signals:
        step_chosen(place): a cell or head of this step was chosen.
    """

    step_chosen = Signal(int)

    least_names, beside_name = 150, 32
    lines_down = False

    def __init__(self) -> None:
        self.plan_model = PlanModel()
        self.shown_step = -1
        name = "Plan: what each step would do on each device"
        super().__init__(self.plan_model, name, "Steps of the plan", "Devices of the plan")
        self.plan_model.setParent(self)
        self.setItemDelegate(PlanDelegate(self))
        self.horizontalHeader().setSectionsClickable(True)
        self.names.setDefaultSectionSize(ROW)
        self.selectionModel().currentChanged.connect(self._moved)
        self.horizontalHeader().sectionClicked.connect(self._head_clicked)
        self._fit_soon = debounce(self, 0, self.spread)

    def head_fill(self, step: int) -> str:
        """The open step is marked."""
        return "selected" if self._is_open(step) else "raised"

    def paint_step(self, painter: QPainter, rect: QRectF, step: int, title: str, theme: Theme) -> None:
        """Draw number and id."""
        tone = "text" if self._is_open(step) else "text3"
        painting.text(painter, rect.adjusted(8, 0, -4, -1), title, theme, "label", tone)

    def _is_open(self, step: int) -> bool:
        return step == self.shown_step and step < len(self.plan_model.steps)

    def show_plan(self, plan: Plan | None) -> None:
        """Show a plan; the place of cursor and scroll bars stays where it can."""
        at, x, y = self.currentIndex(), self.horizontalScrollBar().value(), self.verticalScrollBar().value()
        row, column = at.row(), at.column()
        self.plan_model.show(plan)
        self.measure_now()
        if row >= 0:
            self.selectionModel().blockSignals(True)
            index = self.plan_model.index(row, column)
            self.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.NoUpdate)
            self.selectionModel().blockSignals(False)
        self.horizontalScrollBar().setValue(x)
        self.verticalScrollBar().setValue(y)

    def show_step(self, place: int) -> None:
        """Mark the column of the open step and bring it into sight."""
        if place == self.shown_step:
            return
        self.shown_step = place
        if 0 <= place < len(self.plan_model.steps) and self.plan_model.rowCount():
            row = max(0, self.rowAt(0))
            self.scrollTo(self.plan_model.index(row, place), QAbstractItemView.ScrollHint.EnsureVisible)
        self.viewport().update()
        self.horizontalHeader().viewport().update()

    def _moved(self, now: QModelIndex) -> None:
        if now.isValid() and self.hasFocus() and now.column() < len(self.plan_model.steps):
            self.step_chosen.emit(now.column())
        self.viewport().update()

    def _head_clicked(self, column: int) -> None:
        if column < len(self.plan_model.steps):
            self.step_chosen.emit(column)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Share the width among the steps."""
        super().resizeEvent(event)
        self._fit_soon.start()

    def spread(self) -> None:
        """Share the width among the steps, and leave the reasons what they need."""
        model, steps = self.plan_model, len(self.plan_model.steps)
        self.corner.setVisible(steps > 0)
        if not steps:
            return
        room, theme = self.viewport().width(), theme_of(self)
        plan = self.plan_model.plan
        words = [outcome_look(outcome).word for outcome in count_outcomes(plan.cells if plan else ())]
        widest = max((round(painting.text_width(word, theme)) for word in words), default=0) + BESIDE_WORD
        each = max(LEAST_COLUMN, min(COLUMN, max(widest, (room - WHY) // steps)))
        for step in range(min(steps, 60)):
            title = str(model.headerData(step, Qt.Orientation.Horizontal))
            wide = round(painting.text_width(title, theme, "label")) + 16
            self.setColumnWidth(step, max(each, min(wide, 220)))
        taken = sum(self.columnWidth(step) for step in range(steps))
        reasons = (model.why(row) for row in range(min(model.rowCount(), 60)))
        wanted = max((round(painting.text_width(why, theme)) for why in reasons), default=0) + 24
        self.setColumnWidth(steps, max(room - taken, wanted, 120))
