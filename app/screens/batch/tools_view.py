"""The list of tools: heads of groups, tools with risk shape and name; added by key, plus or drag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import QApplication, QListView, QStyle, QStyleOptionViewItem

from app.items.item_view import ENTER, ItemDelegate, ItemView
from app.items.keyed_model import ITEM_ROLE, Index, KeyedModel
from app.screens.batch.text import EFFECT_GROUPS, one_line
from app.screens.batch.tool_catalog import CatalogState, ToolEntry
from app.theme.icons import paint_icon
from app.theme.shapes import paint_glyph
from app.theme.state_looks import risk_look
from app.theme.theme import theme_of
from app.widgets import painting
from app.widgets.labels import escaped_tooltip
from core.fleet.models import ToolHit
from core.models.tools import OTHERWISE

LONGEST_TIP = 600
PLUS = 24
LEAST_REASON = 40


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A head of a group, or a tool with a count where it is not on all devices.

    `reason` says why a search found it.
    """

    words: str
    offered: ToolEntry | None = None
    some: str = ""
    reason: str = ""


class ToolsModel(KeyedModel[ToolRow]):
    """Heads and tools, or what a search found, best first."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(
            lambda row: row.offered.tool.tool_key if row.offered else row.words,
            {
                Qt.ItemDataRole.DisplayRole: lambda row: row.words,
                Qt.ItemDataRole.AccessibleTextRole: spoken_tool,
                Qt.ItemDataRole.ToolTipRole: lambda row: escaped_tooltip(_tip(row)) if row.offered else None,
            },
            parent,
        )

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Heads cannot be chosen."""
        row = self.item(index.row())
        if row is None or row.offered is None:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable

    def show(self, offer: CatalogState, hits: Sequence[ToolHit] | None = None) -> None:
        """Show all tools by their effect, or those that a search found."""
        rows: list[ToolRow] = []
        for group in EFFECT_GROUPS if hits is None else ():
            found = [one for one in offer.tools if one.group == group]
            if found:
                rows.append(ToolRow(group))
                rows += [ToolRow(one.title, one, _some(one, offer)) for one in found]
        reasons: dict[str, str] = {}
        for hit in hits or ():
            reasons.setdefault(hit.tool, "; ".join(hit.reasons))
        for name, reason in reasons.items():
            if (one := offer.find(name)) is not None:
                rows.append(ToolRow(one.title, one, _some(one, offer), reason))
        if rows != self.items:
            self.reset(rows)

    def first(self) -> int:
        """The place of the first tool; -1 when there is none."""
        return self.step_from(-1)

    def step_from(self, row: int) -> int:
        """The place of the next tool below a row; the row itself where there is none."""
        below = (place for place in range(row + 1, len(self.items)) if self.items[place].offered)
        return next(below, row)


def spoken_tool(row: ToolRow) -> str | None:
    """A tool as it is read aloud; a head is only its words."""
    if row.offered is None:
        return None
    risk = risk_look(row.offered.tool.contract.risk.value.value).word
    return ", ".join(filter(None, (row.words, f"risk {risk}", row.some, one_line(row.reason))))


def _some(one: ToolEntry, offer: CatalogState) -> str:
    return "" if len(one.devices) == offer.asked else f"on {len(one.devices)} of {offer.asked}"


def _tip(row: ToolRow) -> str:
    assert row.offered is not None
    tool = row.offered.tool
    said = tool.description.strip() or "The device gives no description."
    said = said if len(said) <= LONGEST_TIP else f"{said[:LONGEST_TIP]}…"
    lines = [f"{row.words}", said, f"{tool.contract.effect.value.value}: {tool.contract.effect.why}"]
    if tool.changed:
        lines.append(f"It {tool.change or OTHERWISE}; calls are blocked until it is reviewed in Fleet.")
    if row.reason:
        lines.append(f"Found by {one_line(row.reason)}")
    if row.some:
        lines.append(f"Only {row.some}: " + ", ".join(row.offered.devices[:8]))
    return "\n".join(lines)


class ToolDelegate(ItemDelegate):
    """Paints heads and tools."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """24 a tool; a head has some air above it."""
        row: ToolRow = index.data(ITEM_ROLE)
        height = theme_of(self._view).metrics.tree_row
        return QSize(80, height if row.offered else height + (2 if index.row() == 0 else 6))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw one row."""
        theme = theme_of(self._view)
        row: ToolRow = index.data(ITEM_ROLE)
        rect = QRectF(option.rect)
        if row.offered is None:
            room = QRectF(rect.x() + 12, rect.bottom() - 22, rect.width() - 16, 20)
            painting.text(painter, room, row.words, theme, "label", "text3")
            return
        marked = bool(option.state & QStyle.StateFlag.State_Selected)
        if fill := self._view.row_fill(marked, index.row()):
            painter.fillRect(rect, theme.color(fill))
        if marked and self._view.hasFocus():
            painter.fillRect(QRectF(rect.x(), rect.y(), 2, rect.height()), theme.color("accent"))
        risk = risk_look(row.offered.tool.contract.risk.value.value)
        shape = QRectF(rect.x() + 14, rect.y() + (rect.height() - 10) / 2, 10, 10)
        paint_glyph(painter, shape, risk.glyph, theme.color(risk.color))
        right = rect.right() - 8
        if fill:
            place = QRectF(rect.right() - PLUS, rect.y(), 16, rect.height())
            paint_icon(painter, place, "add", theme.color("text2"))
            right -= PLUS - 4
        if row.some:
            words = row.some.removeprefix("on ")
            width = painting.text_width(words, theme, "hint")
            right -= width
            room = QRectF(right, rect.y(), width + 1, rect.height())
            painting.text(painter, room, words, theme, "hint", "text3")
            right -= 6
        room = QRectF(rect.x() + 31, rect.y(), right - rect.x() - 31, rect.height())
        tone = "text3" if row.offered.tool.changed else "text"
        taken = painting.text(painter, room, row.words, theme, "mono_small", tone) + 8
        if row.reason and room.width() - taken > LEAST_REASON:
            why = room.adjusted(taken, 0, 0, 0)
            painting.text(painter, why, one_line(row.reason), theme, "hint", "text3")


class ToolsView(ItemView, QListView):
    """The list.

    Signals:
        add_wanted(tool_name): its plus or a double click.
        typed(tool_name): Enter, Space or the plus key.
        dragged(tool_name, point): a tool is dragged over this point of the screen.
        dropped(tool_name, point): it was let go there.
        drag_ended: it was not let go, or is over.
    """

    add_wanted = Signal(str)
    typed = Signal(str)
    dragged = Signal(str, QPoint)
    dropped = Signal(str, QPoint)
    drag_ended = Signal()

    def __init__(self) -> None:
        super().__init__("Tools")
        self.tools = ToolsModel(self)
        self._pressed: tuple[QPoint, ToolEntry] | None = None
        self._dragging = ""
        self.setModel(self.tools)
        self.setItemDelegate(ToolDelegate(self))

    def current(self) -> ToolEntry | None:
        """The tool under the cursor."""
        return self._tool_in(self.currentIndex().row())

    def _tool_in(self, row: int) -> ToolEntry | None:
        item = self.tools.item(row)
        return item.offered if item is not None else None

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter and plus add the tool under the cursor."""
        if event.key() in (*ENTER, Qt.Key.Key_Plus, Qt.Key.Key_Space):
            if event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier & ~Qt.KeyboardModifier.ShiftModifier:
                event.ignore()
            elif (one := self.current()) is not None and not event.isAutoRepeat():
                self.typed.emit(one.tool.tool_name)
            return
        super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Begin at the first tool."""
        super().focusInEvent(event)
        if self.current() is None and (first := self.tools.first()) >= 0:
            self.setCurrentIndex(self.tools.index(first, 0))

    # The pointer

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """The plus adds; elsewhere a drag may begin."""
        at = event.position().toPoint()
        one = self._tool_in(self.row_under(at))
        if one is not None and event.button() == Qt.MouseButton.LeftButton:
            if at.x() >= self.viewport().width() - PLUS:
                self.add_wanted.emit(one.tool.tool_name)
                return
            self._pressed = (at, one)
        super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drag a tool, once the pointer is far enough."""
        at = event.position().toPoint()
        if self._pressed is None or not event.buttons() & Qt.MouseButton.LeftButton:
            super().mouseMoveEvent(event)
            return
        far = (at - self._pressed[0]).manhattanLength() >= QApplication.startDragDistance()
        if far and not self._dragging:
            self._dragging = self._pressed[1].tool.tool_name
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
        if self._dragging:
            self.dragged.emit(self._dragging, event.globalPosition().toPoint())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Let go what is dragged."""
        name = self._dragging
        self.stop_dragging()
        if name:
            self.dropped.emit(name, event.globalPosition().toPoint())
        else:
            super().mouseReleaseEvent(event)

    def stop_dragging(self) -> bool:
        """Forget what is dragged; False when nothing is."""
        was = bool(self._dragging)
        self._pressed, self._dragging = None, ""
        self.unsetCursor()
        if was:
            self.drag_ended.emit()
        return was

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Add the tool."""
        at = event.position().toPoint()
        one = self._tool_in(self.row_under(at))
        if one is not None and at.x() < self.viewport().width() - PLUS:
            self.add_wanted.emit(one.tool.tool_name)
