"""The lines of a file's change, painted: numbers, signs, changed words in boxes, folds that open."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShowEvent,
    QTextLayout,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QSizePolicy

from app.theme.theme import Theme, theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting
from app.widgets.diff_layout import LINE, Row, ShownLine, pairs, shown_line, spoken, spots, wrapped
from app.widgets.end_watch import EndWatch
from app.widgets.text_diff import FileDiff, Kind, Line

NUMBERS = 34
SIGN = 24
MOST_LINES = 16
_PAD = 4
_TINTS = {Kind.REMOVED: "fail_tint", Kind.ADDED: "ok_tint"}
_INKS = {Kind.REMOVED: "fail", Kind.ADDED: "ok"}
_SIGNS = {Kind.REMOVED: "-", Kind.ADDED: "+", Kind.SAME: "", Kind.FOLD: ""}


class DiffView(QAbstractScrollArea):
    """Shows a change, in one column or two. Long lines wrap. Folds open on a click or Enter.

    Signals:
        end_seen: the last line was on the screen; once for each `show_diff`.
    """

    end_seen = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._lines: tuple[Line, ...] = ()
        self._rows: list[Row] = []
        self._two = False
        self._fold = -1
        self._layouts: dict[tuple[int, int], QTextLayout | None] = {}
        self._texts: dict[int, ShownLine] = {}
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        self._watch = EndWatch(self, self._end)
        self._watch.seen.connect(self.end_seen)
        self.verticalScrollBar().valueChanged.connect(lambda _: self.viewport().update())

    # What it shows

    def show_diff(self, diff: FileDiff) -> None:
        """Show another change from its beginning."""
        self._lines = diff.lines
        self._watch.start()
        self._fold = -1
        self.setAccessibleName(f"What would change: {diff.words()}")
        self.setAccessibleDescription(spoken(diff, theme_of(self).font("mono")))
        self._make_rows()
        self.verticalScrollBar().setValue(0)

    def set_two(self, two: bool) -> None:
        """Old and new side by side, or one below the other."""
        if two != self._two:
            self._two = two
            self._make_rows()

    @property
    def end_was_seen(self) -> bool:
        """True after `end_seen`."""
        return self._watch.was_seen

    @property
    def shown(self) -> list[Line]:
        """The lines, folds as they stand now."""
        return list(self._lines)

    def open_fold(self, number: int) -> None:
        """Show the lines behind the fold with this number, counted from the top."""
        folds = [at for at, line in enumerate(self._lines) if line.kind is Kind.FOLD]
        if 0 <= number < len(folds):
            at = folds[number]
            self._lines = (*self._lines[:at], *self._lines[at].hidden, *self._lines[at + 1 :])
            self._fold = -1
            self._make_rows()

    def _make_rows(self) -> None:
        self._layouts.clear()
        self._texts.clear()
        self._rows = pairs(self._lines) if self._two else [Row(line, None) for line in self._lines]
        self._measure()
        self.viewport().update()
        self._look_soon()

    def _text_of(self, line: Line) -> ShownLine:
        known = self._texts.get(id(line))
        if known is None:
            known = self._texts[id(line)] = shown_line(line, theme_of(self).font("mono"))
        return known

    # Measures

    def _columns(self) -> list[tuple[float, float]]:
        """Left edge and width of each column."""
        width = float(self.viewport().width())
        return [(0.0, width / 2), (width / 2, width / 2)] if self._two else [(0.0, width)]

    def _text_left(self) -> float:
        return NUMBERS + SIGN if self._two else 2 * NUMBERS + SIGN

    def _room(self) -> float:
        return max(40.0, self._columns()[0][1] - self._text_left() - 8)

    def _layout_of(self, line: Line, room: float) -> QTextLayout | None:
        """A layout for a line that has to wrap; None for one that fits, which is most."""
        key = (id(line), round(room))
        if key not in self._layouts:
            text = self._text_of(line).text
            wide = painting.metrics_of(theme_of(self), "mono").horizontalAdvance("m") * len(text)
            fits = text.isascii() and wide <= room
            self._layouts[key] = None if fits else wrapped(text, room, theme_of(self))
        return self._layouts[key]

    def _measure(self) -> None:
        room, top = self._room(), 0
        for row in self._rows:
            count = 1
            for line in (row.left, row.right):
                if line is not None and line.kind is not Kind.FOLD:
                    layout = self._layout_of(line, room)
                    count = max(count, layout.lineCount() if layout is not None else 1)
            row.top, row.lines = top, count
            top += count
        height = min(max(1, top), MOST_LINES) * LINE + 2 * _PAD
        if self.height() != height or self.maximumHeight() != height:
            self.setFixedHeight(height)
        view = self.viewport().height()
        self.verticalScrollBar().setRange(0, max(0, top * LINE + 2 * _PAD - view))
        self.verticalScrollBar().setSingleStep(LINE)
        self.verticalScrollBar().setPageStep(max(LINE, view - LINE))

    def sizeHint(self) -> QSize:
        """As high as its lines, up to sixteen."""
        return QSize(480, self.maximumHeight())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Other wraps."""
        super().resizeEvent(event)
        self._layouts.clear()
        self._measure()
        self._look_soon()

    def showEvent(self, event: QShowEvent) -> None:
        """What is short is seen as soon as it is shown."""
        super().showEvent(event)
        self._look_soon()

    # The end

    def _look_soon(self) -> None:
        self.viewport().update()
        self._watch.look_soon()

    def _end(self) -> QPoint | None:
        if not self._rows:
            return None
        last = self._rows[-1]
        bottom = (last.top + last.lines) * LINE + _PAD - self.verticalScrollBar().value() - LINE // 2
        return QPoint(self.viewport().width() // 2, bottom)

    # Keys and pointer

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens the chosen fold; Space goes from fold to fold; arrows scroll."""
        folds = [row for row in self._rows if row.left is not None and row.left.kind is Kind.FOLD]
        key, bar = event.key(), self.verticalScrollBar()
        plain = event.modifiers() in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and plain and folds:
            self.open_fold(max(0, self._fold))
        elif key == Qt.Key.Key_Space and folds:
            self._fold = (self._fold + 1) % len(folds)
            bar.setValue(folds[self._fold].top * LINE - self.viewport().height() // 2)
            self.viewport().update()
        elif key in (Qt.Key.Key_Down, Qt.Key.Key_Up):
            bar.setValue(bar.value() + (LINE if key == Qt.Key.Key_Down else -LINE))
        elif key in (Qt.Key.Key_PageDown, Qt.Key.Key_PageUp):
            bar.setValue(bar.value() + (bar.pageStep() if key == Qt.Key.Key_PageDown else -bar.pageStep()))
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            bar.setValue(bar.minimum() if key == Qt.Key.Key_Home else bar.maximum())
        else:
            event.ignore()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A click on a fold opens it."""
        at = (event.position().y() - _PAD + self.verticalScrollBar().value()) / LINE
        number = -1
        for row in self._rows:
            if row.left is None or row.left.kind is not Kind.FOLD:
                continue
            number += 1
            if row.top <= at < row.top + 1:
                self.open_fold(number)
                return

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the rows in sight."""
        theme = theme_of(self)
        painter = QPainter(self.viewport())
        offset, height = self.verticalScrollBar().value() - _PAD, self.viewport().height()
        whole = self.viewport().rect().toRectF()
        painting.box(painter, whole, RADIUS.control, theme.color("sunken"))
        fold = -1
        for row in self._rows:
            is_fold = row.left is not None and row.left.kind is Kind.FOLD
            fold += is_fold
            top = row.top * LINE - offset
            if top > height:
                break
            if top + row.lines * LINE < 0:
                continue
            if is_fold and row.left is not None:
                self._paint_fold(painter, row.left, top, fold == self._fold and self.hasFocus(), theme)
                continue
            for (x, width), line in zip(self._columns(), (row.left, row.right), strict=False):
                if line is not None:
                    self._paint_line(painter, QRectF(x, top, width, row.lines * LINE), line, theme)
        painting.box(painter, whole, RADIUS.control, None, theme.color("border2"))
        painter.end()

    def _paint_fold(self, painter: QPainter, line: Line, top: float, chosen: bool, theme: Theme) -> None:
        rect = QRectF(0, top, self.viewport().width(), LINE)
        painter.fillRect(rect, theme.color("sel_idle" if chosen else "raised"))
        words = f"@@ {len(line.hidden)} unchanged lines{' to the end' if line.at_end else ''} @@"
        left = rect.adjusted(self._text_left() - 12, 0, 0, 0)
        painting.text(painter, left, words, theme, "mono", "text2")

    def _paint_line(self, painter: QPainter, rect: QRectF, line: Line, theme: Theme) -> None:
        tint = _TINTS.get(line.kind)
        if tint is not None:
            painter.fillRect(rect, theme.color(tint))
        first = QRectF(rect.x(), rect.y(), NUMBERS - 8, LINE)
        right = Qt.AlignmentFlag.AlignRight
        numbers = [line.old, line.new]
        if self._two:
            numbers = [line.old if line.kind is Kind.REMOVED or rect.x() == 0 else line.new]
        for place, number in enumerate(numbers):
            if number is not None:
                where = first.translated(place * NUMBERS, 0)
                painting.text(painter, where, str(number), theme, "mono_small", "text3", right)
        sign = QRectF(rect.x() + self._text_left() - SIGN, rect.y(), SIGN - 4, LINE)
        ink = _INKS.get(line.kind, "text")
        middle = Qt.AlignmentFlag.AlignHCenter
        painting.text(painter, sign, _SIGNS[line.kind], theme, "mono_strong", ink, middle)
        self._paint_text(painter, rect, line, theme)

    def _paint_text(self, painter: QPainter, rect: QRectF, line: Line, theme: Theme) -> None:
        shown, layout = self._text_of(line), self._layout_of(line, self._room())
        left, top = rect.x() + self._text_left(), rect.y()
        metrics = painting.metrics_of(theme, "mono")

        def spot(start: int, end: int) -> list[tuple[QRectF, str]]:
            if layout is None:
                x = metrics.horizontalAdvance(shown.text[:start])
                width = metrics.horizontalAdvance(shown.text[start:end])
                return [(QRectF(left + x, top, width, LINE), shown.text[start:end])]
            return spots(layout, start, end, left, top)

        if layout is None:
            painting.text(
                painter, QRectF(left, top, 1e6, LINE), shown.text, theme, "mono",
                elide=Qt.TextElideMode.ElideNone,
            )  # fmt: skip
        else:
            painter.setPen(theme.color("text"))
            for number in range(layout.lineCount()):
                part = layout.lineAt(number)
                part.draw(painter, QRectF(left, top + number * LINE + 2, 0, 0).topLeft())
        self._paint_boxes(painter, shown, line, spot, theme)
        if line.no_end:
            end = spot(max(0, len(shown.text) - 1), len(shown.text))
            at = end[-1][0].right() if end else left
            note = QRectF(at + 10, top, 200, LINE)
            painting.text(painter, note, "no line end", theme, "hint", "text3")

    def _paint_boxes(
        self,
        painter: QPainter,
        shown: ShownLine,
        line: Line,
        spot: Callable[[int, int], list[tuple[QRectF, str]]],
        theme: Theme,
    ) -> None:
        for start, end in shown.changed:
            for place, words in spot(start, end):
                around = place.adjusted(-1.5, 1, 1.5, -2)
                painting.box(painter, around, 3, theme.color("base"), theme.color(_INKS[line.kind]))
                painting.text(
                    painter, place.adjusted(0, 0, 40, 0), words, theme, "mono_strong",
                    elide=Qt.TextElideMode.ElideNone,
                )  # fmt: skip
        for mark in shown.marks:
            for place, words in spot(mark.start, mark.end):
                painting.box(
                    painter,
                    place.adjusted(0.5, 2, -0.5, -2),
                    3,
                    theme.color("warn_tint"),
                    theme.color("warn"),
                )
                painting.text(
                    painter, place, words, theme, "mono", "warn", elide=Qt.TextElideMode.ElideNone
                )  # fmt: skip
