"""The plan as a matrix: a row a device, a column a step, and why something does not run."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QRectF,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app.screens.batch.text import outcome_look, why_not
from app.theme.theme import Theme, theme_of
from app.widgets import painting
from app.widgets.badges import paint_production_band, paint_state
from app.widgets.labels import escaped_tooltip
from core.batch.models import Plan, PlannedCell

Index = QModelIndex | QPersistentModelIndex
_NO_PARENT = QModelIndex()
COLUMN = 132
LEAST_COLUMN = 92
WHY = 240
ROW = 24


class PlanModel(QAbstractTableModel):
    """Cells of a plan; the last column says why not."""

    def __init__(self) -> None:
        super().__init__()
        self.plan: Plan | None = None
        self.titles: list[str] = []
        self._cells: dict[tuple[str, str], PlannedCell] = {}
        self._why: list[str] = []

    def show(self, plan: Plan | None) -> None:
        """Show a plan, or none."""
        self.beginResetModel()
        self.plan = plan
        cells = plan.cells if plan else []
        self._cells = {(cell.device, cell.step): cell for cell in cells}
        of: dict[str, list[PlannedCell]] = {}
        for cell in cells:
            of.setdefault(cell.device, []).append(cell)
        self._why = [why_not(of.get(device, [])) for device in (plan.devices if plan else [])]
        self.titles = [f"{place} {step}" for place, step in enumerate(plan.steps, 1)] if plan else []
        self.endResetModel()

    def rowCount(self, parent: Index = _NO_PARENT) -> int:
        """Number of devices."""
        return 0 if parent.isValid() or self.plan is None else len(self.plan.devices)

    def columnCount(self, parent: Index = _NO_PARENT) -> int:
        """Steps, and the column of reasons."""
        return 0 if parent.isValid() or self.plan is None else len(self.plan.steps) + 1

    def cell(self, row: int, column: int) -> PlannedCell | None:
        """The cell in this place; None in the column of reasons."""
        if self.plan is None or column >= len(self.plan.steps):
            return None
        return self._cells.get((self.plan.devices[row], self.plan.steps[column]))

    def why(self, row: int) -> str:
        """Why a device does not run everything."""
        return self._why[row]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Ready words."""
        if self.plan is None or not index.isValid():
            return None
        cell = self.cell(index.row(), index.column())
        words = outcome_look(cell.outcome).word if cell else self._why[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return words
        if role == Qt.ItemDataRole.AccessibleTextRole:
            where = self.plan.devices[index.row()]
            production = ", production" if where in self.plan.production else ""
            return f"{where}{production}, {cell.step if cell else 'why not'}: {words or 'nothing'}"
        if role == Qt.ItemDataRole.ToolTipRole:
            said = [cell.summary, cell.why] if cell else [words]
            return escaped_tooltip("\n".join(part for part in said if part)) or None
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Devices at the left, steps above."""
        if self.plan is None or role != Qt.ItemDataRole.DisplayRole:
            return None
        if orientation == Qt.Orientation.Vertical:
            return self.plan.devices[section] if section < len(self.plan.devices) else None
        return self.titles[section] if section < len(self.titles) else "Why not"


class _CellDelegate(QStyledItemDelegate):
    def __init__(self, view: PlanMatrix) -> None:
        super().__init__(view)
        self._view = view

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        theme = theme_of(self._view)
        rect = QRectF(option.rect)
        cell = self._view.plan_model.cell(index.row(), index.column())
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


class _StepHead(QHeaderView):
    def __init__(self, view: PlanMatrix) -> None:
        super().__init__(Qt.Orientation.Horizontal, view)
        self._view = view
        self.setSectionsClickable(True)
        self.setAccessibleName("Steps of the plan")

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), theme_of(self).metrics.table_head)

    def paintSection(self, painter: QPainter, rect: QRect, logical: int) -> None:
        theme = theme_of(self)
        whole = QRectF(rect)
        here = logical == self._view.shown_step and logical < len(self._view.plan_model.titles)
        painter.save()
        painter.fillRect(whole, theme.color("selected" if here else "raised"))
        painter.fillRect(QRectF(whole.x(), whole.bottom() - 1, whole.width(), 1), theme.color("border"))
        words = str(self._view.plan_model.headerData(logical, Qt.Orientation.Horizontal) or "")
        room = whole.adjusted(8, 0, -4, -1)
        painting.text(painter, room, words, theme, "label", "text" if here else "text3")
        painter.restore()


class _DeviceHead(QHeaderView):
    """The names of the devices: always in sight, never cut."""

    def __init__(self, view: PlanMatrix) -> None:
        super().__init__(Qt.Orientation.Vertical, view)
        self._view = view
        self.setAccessibleName("Devices of the plan")
        self.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.setMinimumSectionSize(1)
        self.setDefaultSectionSize(ROW)

    def sizeHint(self) -> QSize:
        plan, theme = self._view.plan_model.plan, theme_of(self)
        widest = max(
            (painting.text_width(name, theme, "name") for name in (plan.devices if plan else [])), default=0.0
        )
        return QSize(max(150, round(widest) + 32), 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Below the last name is the table's own ground, not a head's."""
        super().paintEvent(event)
        painter = QPainter(self.viewport())
        below = self.viewport().rect().adjusted(0, self.length() - self.offset(), 0, 0)
        painter.fillRect(below, theme_of(self).color("base"))
        painter.end()

    def paintSection(self, painter: QPainter, rect: QRect, logical: int) -> None:
        plan, theme = self._view.plan_model.plan, theme_of(self)
        if plan is None or logical >= len(plan.devices):
            return
        whole = QRectF(rect)
        name = plan.devices[logical]
        painter.save()
        painter.fillRect(whole, theme.color("base"))
        painter.fillRect(QRectF(whole.x(), whole.bottom() - 1, whole.width(), 1), theme.color("border"))
        if name in plan.production:
            paint_production_band(painter, QRectF(3, whole.y() + 1, 5, whole.height() - 3), theme)
        room = whole.adjusted(16, 0, -4, -1)
        painting.text(painter, room, name, theme, "name", "text", elide=Qt.TextElideMode.ElideNone)
        painter.restore()


class _Corner(QWidget):
    def __init__(self, view: PlanMatrix) -> None:
        super().__init__(view)

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        painter.fillRect(rect, theme.color("raised"))
        painter.fillRect(QRectF(0, rect.height() - 1, rect.width(), 1), theme.color("border"))
        painting.text(painter, rect.adjusted(16, 0, 0, -1), "Device", theme, "label", "text3")
        painter.end()


class PlanMatrix(QTableView):
    """The matrix; arrow keys go from cell to cell.

    Signals:
        step_chosen(place): a cell or head of this step was chosen.
    """

    step_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.plan_model = PlanModel()
        self.shown_step = -1
        self.setAccessibleName("Plan: what each step would do on each device")
        self.setModel(self.plan_model)
        self.setItemDelegate(_CellDelegate(self))
        self.setHorizontalHeader(_StepHead(self))
        self.setVerticalHeader(_DeviceHead(self))
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self._corner = _Corner(self)
        self.selectionModel().currentChanged.connect(self._moved)
        self.horizontalHeader().sectionClicked.connect(self._head_clicked)
        self._fit_soon = QTimer(self)
        self._fit_soon.setSingleShot(True)
        self._fit_soon.setInterval(0)
        self._fit_soon.timeout.connect(self._fit)

    def show_plan(self, plan: Plan | None) -> None:
        """Show a plan; the place of cursor and scroll bars stays where it can."""
        at, x, y = self.currentIndex(), self.horizontalScrollBar().value(), self.verticalScrollBar().value()
        row, column = at.row(), at.column()
        self.plan_model.show(plan)
        self.verticalHeader().updateGeometry()
        self._fit()
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
        if 0 <= place < len(self.plan_model.titles) and self.plan_model.rowCount():
            row = max(0, self.rowAt(0))
            self.scrollTo(self.plan_model.index(row, place), QAbstractItemView.ScrollHint.EnsureVisible)
        self.viewport().update()
        self.horizontalHeader().viewport().update()

    def _moved(self, now: QModelIndex) -> None:
        if now.isValid() and self.hasFocus() and now.column() < len(self.plan_model.titles):
            self.step_chosen.emit(now.column())
        self.viewport().update()

    def _head_clicked(self, column: int) -> None:
        if column < len(self.plan_model.titles):
            self.step_chosen.emit(column)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Letters are keys of the screen."""
        if event.text() and event.text().isprintable():
            event.ignore()
            return
        super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Share the width among the steps."""
        super().resizeEvent(event)
        self._fit_soon.start()

    def _fit(self) -> None:
        steps = len(self.plan_model.titles)
        head = self.horizontalHeader()
        if not steps:
            self._corner.hide()
            return
        room = self.viewport().width()
        theme = theme_of(self)
        each = max(LEAST_COLUMN, min(COLUMN, (room - WHY) // steps))
        for place, title in enumerate(self.plan_model.titles[:60]):
            wide = round(painting.text_width(title, theme, "label")) + 16
            self.setColumnWidth(place, max(each, min(wide, 220)))
        taken = sum(self.columnWidth(place) for place in range(steps))
        reasons = [self.plan_model.why(row) for row in range(min(self.plan_model.rowCount(), 60))]
        wanted = max((round(painting.text_width(why, theme)) for why in reasons), default=0) + 24
        self.setColumnWidth(steps, max(room - taken, wanted, 120))
        self._corner.show()
        self._corner.setGeometry(0, 0, self.verticalHeader().width(), head.height())
        self._corner.raise_()


def head_height(theme: Theme) -> int:
    """The height of the matrix's head."""
    return theme.metrics.table_head
