"""The list of steps: chosen and marked, moved by key and by pointer, with tools dropped into it.

Dragging is done with plain pointer events, not with Qt's drags: those run a loop of their own, in which the
window's tasks could not go on.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QPoint, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QListView, QStyle, QStyleOptionViewItem, QWidget

from app.items.item_view import ItemDelegate, ItemView
from app.items.keyed_model import Index
from app.screens.batch.steps_model import StepRow, StepsModel
from app.screens.batch.text import counted, outcome_look
from app.theme.icons import paint_icon
from app.theme.shapes import paint_glyph
from app.theme.state_looks import risk_look
from app.theme.theme import Theme, theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting
from app.widgets.action import Action
from app.widgets.action_buttons import ActionMenu
from app.widgets.shortcut_label import paint_key_cap

SCROLL_EDGE = 28
SCROLL_STEP = 14
SCROLL_EVERY_MS = 30


class StepsView(ItemView, QListView):
    """Cards of steps.

    Signals:
        chosen(current, marked): another step is open (0: none), or others are marked (a frozenset of keys).
        move_wanted(keys, place): put these steps before what stands at `place`.
        delete_wanted: for the marked steps.
        add_wanted: the row at the end was clicked.
        opened: Enter: go on into the form.
    """

    chosen = Signal(int, object)
    move_wanted = Signal(object, int)
    delete_wanted = Signal()
    add_wanted = Signal()
    opened = Signal()

    def __init__(self, acts: Sequence[Action], parent: QWidget | None = None) -> None:
        """`acts` are those of the screen that its menu offers for the marked steps."""
        """`double` is the screen's act for the marked steps."""
        super().__init__("Steps", parent, multiple=True)
        self._acts = acts
        self.steps = StepsModel(self)
        self._silent = False
        self._pressed_at: QPoint | None = None
        self._drop_place: int | None = None
        self._dragging = False
        self.setModel(self.steps)
        self.setItemDelegate(StepDelegate(self))
        self.selectionModel().selectionChanged.connect(lambda *_: self._tell())
        self.selectionModel().currentChanged.connect(lambda *_: self._tell())
        self._scroll_timer = QTimer(self)
        self._scroll_timer.setInterval(SCROLL_EVERY_MS)
        self._scroll_timer.timeout.connect(self._scroll_on)

    # What the delegate asks

    def hovered_row(self) -> int:
        """The row under the pointer; -1 when it is elsewhere."""
        return -1 if self._dragging else self._hovered

    def end_is_hot(self) -> bool:
        """Whether a tool would be put at the end now, or the pointer is over the row there."""
        at_end = self._drop_place == len(self.steps.items)
        return at_end if self._drop_place is not None else self._hovered == len(self.steps.items)

    # Choosing

    def current_key(self) -> int:
        """The key of the open step; 0 when there is none."""
        row = self.steps.item(self.currentIndex().row())
        return row.step.key if row else 0

    def marked_keys(self) -> frozenset[int]:
        """The keys of the marked steps."""
        rows = (self.steps.item(index.row()) for index in self.selectionModel().selectedIndexes())
        return frozenset(row.step.key for row in rows if row)

    def show_chosen(self, current: int, marked: frozenset[int]) -> None:
        """Show which step is open and which are marked, without `chosen`."""
        if self.current_key() == current and self.marked_keys() == marked:
            return
        self._silent = True
        flags = QItemSelectionModel.SelectionFlag
        selection = QItemSelection()
        for key in marked:
            index = self.steps.index_of(key)
            if index.isValid():
                selection.select(index, index)
        model, at = self.selectionModel(), self.steps.index_of(current)
        model.setCurrentIndex(at, flags.NoUpdate)
        model.select(selection, flags.ClearAndSelect)
        self._silent = False
        if at.isValid():
            self.scrollTo(at)
        self.viewport().update()

    def _tell(self) -> None:
        if not self._silent:
            self.chosen.emit(self.current_key(), self.marked_keys())

    # Keys

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Delete takes the marked steps out; Enter goes on into the form."""
        plain = event.modifiers() in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
        acts = {
            Qt.Key.Key_Delete: self.delete_wanted,
            Qt.Key.Key_Return: self.opened,
            Qt.Key.Key_Enter: self.opened,
        }
        act = acts.get(Qt.Key(event.key())) if plain else None
        if act is not None and self.current_key():
            if not event.isAutoRepeat():
                act.emit()
            return
        if event.key() == Qt.Key.Key_Escape:
            event.ignore()
            return
        self._ring = True
        super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """What can be done with the marked steps."""
        if not self.current_key():
            return
        menu = ActionMenu("What can be done with the marked steps", self)
        menu.addActions(self._acts)
        menu.addAction("Delete\tDel").triggered.connect(lambda _on=False: self.delete_wanted.emit())
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(event.globalPos())

    # The pointer

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose a card; from here it can be dragged."""
        self._ring = False
        index = self.indexAt(event.position().toPoint())
        left = event.button() == Qt.MouseButton.LeftButton and index.isValid()
        if left and index.row() == len(self.steps.items):
            self.add_wanted.emit()
            return
        self._pressed_at = event.position().toPoint() if left else None
        row = self.steps.item(index.row())
        plain = event.modifiers() == Qt.KeyboardModifier.NoModifier
        # A press on one of several marked cards may begin to drag them all.
        if plain and row and row.step.key in self.marked_keys() and len(self.marked_keys()) > 1:
            return
        super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drag the marked cards, once the pointer is far enough from where it was pressed."""
        at = event.position().toPoint()
        if self._pressed_at is None or not event.buttons() & Qt.MouseButton.LeftButton:
            super().mouseMoveEvent(event)
            return
        far = (at - self._pressed_at).manhattanLength() >= QApplication.startDragDistance()
        if far and not self._dragging:
            self._dragging = True
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
        if self._dragging:
            self._show_drop(self.place_at(at), at)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Drop what is dragged."""
        dragged, place, pressed = self._dragging, self._drop_place, self._pressed_at
        self.stop_dragging()
        if dragged and place is not None:
            self.move_wanted.emit(set(self.marked_keys()), place)
            return
        if pressed is not None and len(self.marked_keys()) > 1 and not event.modifiers():
            self.setCurrentIndex(self.indexAt(pressed))
        super().mouseReleaseEvent(event)

    def stop_dragging(self) -> bool:
        """Forget what is dragged; False when nothing is."""
        was = self._dragging or self._drop_place is not None
        self._pressed_at, self._drop_place, self._dragging = None, None, False
        self._scroll_timer.stop()
        self.unsetCursor()
        self.viewport().update()
        return was

    def place_at(self, at: QPoint) -> int:
        """Before which step something dropped at this point of the viewport would go."""
        for place in range(len(self.steps.items)):
            rect = self.visualRect(self.steps.index(place, 0))
            if at.y() < rect.center().y():
                return place
        return len(self.steps.items)

    def _show_drop(self, place: int, at: QPoint) -> None:
        self._drop_place = place
        near = at.y() < SCROLL_EDGE or at.y() > self.viewport().height() - SCROLL_EDGE
        self._scroll_by = -SCROLL_STEP if at.y() < SCROLL_EDGE else SCROLL_STEP
        if near and not self._scroll_timer.isActive():
            self._scroll_timer.start()
        elif not near:
            self._scroll_timer.stop()
        self.viewport().update()

    def _scroll_on(self) -> None:
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + self._scroll_by)

    # Tools dragged here from their list

    def tool_over(self, where: QPoint) -> None:
        """A tool is dragged over this point of the screen: show where it would go, if it is here."""
        at = self.viewport().mapFromGlobal(where)
        if self.viewport().rect().contains(at):
            self._show_drop(self.place_at(at), at)
        else:
            self.stop_dragging()

    def tool_dropped(self, where: QPoint) -> int | None:
        """Where a tool that is let go here goes; None when this is not the list."""
        at = self.viewport().mapFromGlobal(where)
        inside = self.viewport().rect().contains(at)
        self.stop_dragging()
        return self.place_at(at) if inside else None

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the cards, and the line where something would be dropped."""
        super().paintEvent(event)
        if self._drop_place is None or self._drop_place >= len(self.steps.items):
            return
        rect = self.visualRect(self.steps.index(self._drop_place, 0))
        painter = QPainter(self.viewport())
        line = QRectF(SIDE, rect.y() - GAP / 2 - 1, self.viewport().width() - 2 * SIDE, 2)
        painter.fillRect(line, theme_of(self).color("accent"))
        painter.end()


SIDE = 12
GAP = 6
GROUP_HEAD = 22
INDENT = 16
FLOW_LINE = 17
LOW_CARD, CARD = 46, 50
END_ROW = 40


class StepDelegate(ItemDelegate):
    """Paints the rows of a `StepsView`."""

    _view: StepsView

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """A card with its lines; the first of a group or a recovery has the head of that above it."""
        row = self._view.steps.item(index.row())
        if row is None:
            return QSize(100, END_ROW)
        return QSize(100, card_height(theme_of(self._view), row) + GAP + head_height(row))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw a card, or the row at the end."""
        theme = theme_of(self._view)
        row = self._view.steps.item(index.row())
        whole = QRectF(option.rect)
        painter.save()
        if row is None:
            _paint_end(painter, whole, theme, self._view.end_is_hot())
        else:
            if row.bracket:
                _paint_bracket(painter, whole, row, theme)
            if row.branch:
                _paint_branch(painter, whole, row, theme)
            card = card_rect(whole, row, theme)
            self._paint_card(painter, card, row, option.state, index.row(), theme)
        painter.restore()

    def _paint_card(
        self,
        painter: QPainter,
        card: QRectF,
        row: StepRow,
        state: QStyle.StateFlag,
        place: int,
        theme: Theme,
    ) -> None:
        marked = bool(state & QStyle.StateFlag.State_Selected)
        open_here = place == self._view.currentIndex().row()
        fill = self._view.row_fill(marked, place)
        edge = "accent" if marked and open_here else "border2" if fill else "border"
        painting.box(painter, card, RADIUS.card, theme.color(fill or "raised"), theme.color(edge))
        if marked and open_here and self._view.shows_ring():
            painting.ring(painter, card, RADIUS.card, theme.color("accent"))
        _paint_first_line(painter, card, row, theme)
        _paint_second_line(painter, card, row, theme)
        _paint_flow(painter, card, row, theme)


def card_height(theme: Theme, row: StepRow) -> int:
    """The height of a card in the current density."""
    return (LOW_CARD if theme.density == "compact" else CARD) + FLOW_LINE * len(row.note.flow)


def head_height(row: StepRow) -> int:
    """The height of the words above a card: that a group begins, or a recovery."""
    return GROUP_HEAD if row.bracket == "first" or row.branch in ("first", "only") else 0


def card_rect(whole: QRectF, row: StepRow, theme: Theme) -> QRectF:
    """Where the card lies within its row."""
    head = head_height(row)
    left = SIDE + (INDENT if row.bracket else 0) + (INDENT if row.branch else 0)
    height = float(card_height(theme, row))
    return QRectF(whole.x() + left, whole.y() + head, whole.width() - left - SIDE, height)


def _paint_bracket(painter: QPainter, whole: QRectF, row: StepRow, theme: Theme) -> None:
    x = whole.x() + SIDE + 5
    top = whole.y() if row.bracket != "first" else whole.y() + 2
    bottom = whole.bottom() - (GAP if row.bracket == "last" else 0)
    painter.fillRect(QRectF(x, top, 2, bottom - top), theme.color("border2"))
    if row.bracket != "first":
        return
    line = QRectF(whole.x() + SIDE + INDENT, whole.y(), whole.width() - 2 * SIDE - INDENT, GROUP_HEAD - 4)
    paint_icon(painter, QRectF(line.x(), line.y(), 16, line.height()), "parallel", theme.color("text2"))
    words = line.adjusted(22, 0, 0, 0)
    painting.text(painter, words, "In parallel", theme, "badge", "text2")
    painting.text(painter, line, row.bracket_note, theme, "meta", "text3", Qt.AlignmentFlag.AlignRight)


def _paint_branch(painter: QPainter, whole: QRectF, row: StepRow, theme: Theme) -> None:
    """Draw the line from the step that failed to what recovers it."""
    x = whole.x() + SIDE + (INDENT if row.bracket else 0) + 5
    card = card_rect(whole, row, theme)
    turn = card.y() + 15
    opens = row.branch in ("first", "only")
    top = whole.y() - (GAP if opens else 0)
    bottom = turn if row.branch in ("last", "only") else whole.bottom()
    tone = theme.color("warn")
    painter.fillRect(QRectF(x, top, 2, bottom - top), tone)
    painter.fillRect(QRectF(x, turn - 1, card.x() - x, 2), tone)
    if opens:
        words = QRectF(card.x(), whole.y(), card.width(), GROUP_HEAD - 4)
        painting.text(painter, words, f"If {row.recovers} fails", theme, "badge", "warn")


def _paint_first_line(painter: QPainter, card: QRectF, row: StepRow, theme: Theme) -> None:
    step, note = row.step, row.note
    line = QRectF(card.x(), card.y() + 5, card.width(), 20)
    paint_icon(painter, QRectF(card.x() + 4, line.y(), 16, 20), "drag", theme.color("text3"))
    number = QRectF(card.x() + 16, line.y(), 20, 20)
    painting.text(painter, number, str(row.number), theme, "body", "text2", Qt.AlignmentFlag.AlignRight)
    look = risk_look(note.risk) if note.risk else None
    shape = QRectF(card.x() + 44, line.y() + 5, 10, 10)
    if step.is_approval:
        paint_icon(painter, QRectF(card.x() + 41, line.y(), 16, 20), "approvals", theme.color("waiting"))
    else:
        paint_glyph(
            painter, shape, look.glyph if look else "dot", theme.color(look.color if look else "text3")
        )
    right = _paint_counts(painter, line, row, theme)
    x = card.x() + 62
    tone = "text" if step.enabled else "text3"
    room = QRectF(x, line.y(), max(20.0, right - x), 20)
    x += painting.text(painter, room, step.id or "no id", theme, "head", tone if step.id else "fail") + 8
    if right - x > 24:
        rest = QRectF(x, line.y(), right - x, 20)
        words = "approval" if step.is_approval else note.title or step.tool
        painting.text(painter, rest, words, theme, "mono_small", "text2" if step.enabled else "text3")


def _paint_counts(painter: QPainter, line: QRectF, row: StepRow, theme: Theme) -> float:
    """Draw what the plan says at the right end; returns where it begins."""
    right = line.right() - 10
    if not row.step.enabled:
        width = painting.text_width("off", theme, "meta")
        painting.text(painter, QRectF(right - width, line.y(), width + 1, 20), "off", theme, "meta", "text3")
        return right - width - 10
    for outcome, number in reversed(list(row.note.counts.items())):
        look = outcome_look(outcome)
        words = str(number)
        width = painting.text_width(words, theme, "meta_strong")
        right -= width
        place = QRectF(right, line.y(), width + 1, 20)
        painting.text(painter, place, words, theme, "meta_strong", look.word_color)
        right -= 17
        paint_glyph(painter, QRectF(right, line.y() + 3.5, 13, 13), look.glyph, theme.color(look.color))
        right -= 8
    return right - 4


def _paint_second_line(painter: QPainter, card: QRectF, row: StepRow, theme: Theme) -> None:
    line = QRectF(card.x() + 62, card.y() + 25, card.width() - 72, 18)
    if row.note.problem and row.step.enabled:
        paint_glyph(painter, QRectF(line.x(), line.y() + 3, 12, 12), "cross_octagon", theme.color("fail"))
        painting.text(painter, line.adjusted(17, 0, 0, 0), row.note.problem, theme, "meta", "fail")
        return
    tone = "text2" if row.step.enabled else "text3"
    nothing = "no question yet" if row.step.is_approval else "no arguments"
    painting.text(painter, line, row.note.summary or nothing, theme, "meta", tone)


def _paint_flow(painter: QPainter, card: QRectF, row: StepRow, theme: Theme) -> None:
    """Draw a line for each thing that is not as usual."""
    for number, words in enumerate(row.note.flow):
        line = QRectF(card.x() + 62, card.y() + 42 + FLOW_LINE * number, card.width() - 72, FLOW_LINE)
        painting.text(painter, line, words, theme, "meta", "text2" if row.step.enabled else "text3")


def _paint_end(painter: QPainter, whole: QRectF, theme: Theme, hot: bool) -> None:
    box = QRectF(whole.x() + SIDE, whole.y(), whole.width() - 2 * SIDE, END_ROW - 8)
    edge = theme.color("accent" if hot else "border2")
    painting.box(painter, box, RADIUS.card, theme.color("hover") if hot else None, edge, dashed=True)
    words = "Drop a tool here, or press"
    width = 22 + painting.text_width(words, theme) + 8 + 20
    x = box.x() + (box.width() - width) / 2
    paint_icon(painter, QRectF(x, box.y(), 16, box.height()), "add", theme.color("text3"))
    x += 22
    room = QRectF(x, box.y(), box.right() - x, box.height())
    x += painting.text(painter, room, words, theme, "body", "text3") + 8
    paint_key_cap(painter, QRectF(x, box.y() + (box.height() - 18) / 2, 20, 18), "A")


def counts_words(row: StepRow) -> str:
    """The plan's counts of a card in words."""
    return ", ".join(f"{number} {counted(outcome)}" for outcome, number in row.note.counts.items())
