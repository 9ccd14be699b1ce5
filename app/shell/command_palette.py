"""Ctrl+K: find anything and open it, or do what the window can do.

The palette opens forms and screens and triggers the window's own actions. It sends no command to a device; of
the actions only Stop all reaches the service at once, and Enter meets it only typed whole or walked to.
"""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.shell.palette_matcher import Match, find
from app.shell.palette_providers import Providers
from app.shell.shell_window import ShellWindow
from app.shell.top_bar import PLACEHOLDER
from app.state import AppState
from app.text import plural
from app.theme.icons import paint_icon
from app.theme.legible import legible
from app.theme.state_looks import StateLook, cell_look, health_look, plan_look
from app.theme.theme import Theme, theme_of
from app.widgets import painting
from app.widgets.action import Action
from app.widgets.badges import paint_production_tag, paint_risk, paint_state
from app.widgets.dialog import DialogCard, Overlay
from app.widgets.icon_label import IconLabel
from app.widgets.labels import Label, separator
from app.widgets.layouts import hbox, vbox
from app.widgets.shortcut_label import ShortcutLabel
from app.widgets.util import debounce

WIDTH, NARROW_WIDTH = 640, 600
TOP = 48
ROW, HEAD, LINE = 36, 27, 46
MOST_HEIGHT = 420
BESIDE_RISK = 76  # the widest of what stands right of a risk: an answer of the policy, or the time left
PAUSE_MS = 25
Line = str | Match
Index = QModelIndex | QPersistentModelIndex
_NO_PARENT = QModelIndex()


class ResultsModel(QAbstractListModel):
    """Found lines with a heading before each group."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.lines: list[Line] = []

    def show_found(self, found: list[Match]) -> None:
        """Replace the lines."""
        lines: list[Line] = []
        group = ""
        for one in found:
            if one.hit.group != group:
                group = one.hit.group
                lines.append(group)
            lines.append(one)
        self.beginResetModel()
        self.lines = lines
        self.endResetModel()

    def rowCount(self, parent: Index = _NO_PARENT) -> int:
        """Lines, headings included."""
        return 0 if parent.isValid() else len(self.lines)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Headings cannot be chosen, nor what a click was on that brought other lines."""
        if not index.isValid():
            return Qt.ItemFlag.NoItemFlags
        if isinstance(self.lines[index.row()], str):
            return Qt.ItemFlag.ItemIsEnabled
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Words for assistive technology; the delegate reads the lines themselves."""
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return None
        line = self.lines[index.row()]
        if isinstance(line, str):
            return line
        hit = line.hit
        parts = [
            hit.title,
            hit.detail,
            line.reason,
            "production" if hit.production else "",
            hit.risk,
            hit.state,
            hit.note,
        ]
        return ", ".join(part for part in parts if part)


class ResultsDelegate(QStyledItemDelegate):
    """Paints headings and lines; matched letters are accent and bold."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """Headings are lower than lines."""
        model = index.model()
        assert isinstance(model, ResultsModel)
        return QSize(10, HEAD if isinstance(model.lines[index.row()], str) else ROW)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw one line."""
        model = index.model()
        assert isinstance(model, ResultsModel)
        theme = theme_of()
        rect = QRectF(option.rect)
        line = model.lines[index.row()]
        painter.save()
        if isinstance(line, str):
            painting.text(painter, rect.adjusted(14, 4, 0, 0), line, theme, "label", "text3")
        else:
            chosen = bool(option.state & QStyle.StateFlag.State_Selected)
            if chosen:
                painter.fillRect(rect, theme.color("selected"))
                painter.fillRect(QRectF(rect.x(), rect.y(), 2, rect.height()), theme.color("accent"))
            self._paint_hit(painter, rect, line, theme)
        painter.restore()

    def _paint_hit(self, painter: QPainter, rect: QRectF, found: Match, theme: Theme) -> None:
        hit = found.hit
        right = self.paint_right(painter, rect.adjusted(0, 0, -14, 0), found, theme)
        ink = "text3" if hit.off else "text2"
        paint_icon(painter, QRectF(rect.x() + 15, rect.y() + 10, 16, 16), hit.icon, theme.color(ink))
        room = QRectF(rect.x() + 41, rect.y(), right - rect.x() - 53, rect.height())
        role = "mono" if hit.mono else "name"
        taken = marked_text(
            painter, room, hit.title, found.title_marks, theme, role, "text3" if hit.off else "text"
        )
        rest = room.adjusted(taken + 10, 0, 0, 0)
        if rest.width() > 24:
            words = ", ".join(part for part in (hit.detail, found.reason) if part)
            marked_text(painter, rest, words, found.detail_marks, theme, "meta", "text3")

    def paint_right(self, painter: QPainter, rect: QRectF, found: Match, theme: Theme) -> float:
        """Draw from the right end: what the policy would say or how it is, risk, production."""
        hit = found.hit
        x = rect.right()
        if hit.note:
            x -= painting.text_width(hit.note, theme, "meta")
            room = QRectF(x, rect.y(), rect.right() - x + 2, rect.height())
            painting.text(painter, room, hit.note, theme, "meta", "text2")
            x -= 14
        if hit.state:
            look = state_look(hit.state, hit.state_of)
            x -= painting.text_width(look.word, theme) + 20
            paint_state(painter, QRectF(x, rect.y(), rect.right() - x, rect.height()), look, theme)
            x -= 12
        if hit.risk:
            # One column, also where the answer is not known (yet): else the lines jump when it comes.
            x = min(x, rect.right() - BESIDE_RISK) - 76
            paint_risk(painter, QRectF(x, rect.y(), 80, rect.height()), hit.risk, theme, boxed=False)
            x -= 10
        if hit.production:
            x -= 66
            place = QRectF(x, rect.y() + (rect.height() - 16) / 2, 66, 16)
            paint_production_tag(painter, place, "Production", theme)
            x -= 8
        return x


def state_look(state: str, of: str) -> StateLook:
    """The look of a state word by what it is the state of."""
    if of == "health":
        return health_look(state)
    return plan_look(state) if of == "plan" else cell_look(state)


def marked_text(
    painter: QPainter,
    room: QRectF,
    text: str,
    marks: tuple[tuple[int, int], ...],
    theme: Theme,
    role: str,
    color: str,
) -> float:
    """Draw one line with some letters in accent and bold; returns the width taken."""
    plain, bold = theme.font(role), theme.font(role)
    bold = type(bold)(bold)
    bold.setWeight(bold.Weight.Bold)
    runs: list[tuple[str, bool]] = []
    at = 0
    for start, end in marks:
        runs += [(text[at:start], False), (text[start:end], True)]
        at = end
    runs.append((text[at:], False))
    x = room.x()
    base = round(room.y() + (room.height() + QFontMetricsF(plain).capHeight()) / 2)
    for words, strong in runs:
        if not words or x >= room.right():
            continue
        font = bold if strong else plain
        metrics = QFontMetricsF(font)
        shown = metrics.elidedText(legible(words, font), Qt.TextElideMode.ElideRight, room.right() - x)
        painter.setFont(font)
        painter.setPen(theme.color("accent" if strong else color))
        painter.drawText(int(x), base, shown)
        x += metrics.horizontalAdvance(shown)
    return min(x, room.right()) - room.x()


def _actions_of(window: ShellWindow) -> list[Action]:
    """What the window can do, then the screen in front; of the same words the screen's, which has the key."""
    actions = [*window.actions(), *window.screen_actions()]
    return list({one.words: one for one in actions if isinstance(one, Action)}.values())


class CommandPalette(Overlay):
    """The overlay itself; one per window, made when it is first opened."""

    def __init__(self, window: ShellWindow, nav: Navigator, state: AppState, link: ConsoleLink) -> None:
        super().__init__(window)
        self.setObjectName("palette")
        self.setAccessibleName("Palette")
        self._nav = nav
        self._group = ""
        self._moved = False
        self._sources = Providers(state, link, partial(_actions_of, window), self._refresh_soon, self)
        self._model = ResultsModel(self)
        self._pause = debounce(self, PAUSE_MS, self._refresh)
        self.dismissed.connect(self._escape)
        self._build()

    @classmethod
    def open_in(
        cls, window: ShellWindow, nav: Navigator, state: AppState, link: ConsoleLink, query: str = ""
    ) -> CommandPalette:
        """Bring the window's palette up, with something typed already."""
        palette = window.findChild(CommandPalette) or cls(window, nav, state, link)
        palette.start(query)
        return palette

    def _build(self) -> None:
        self.field = QLineEdit()
        self.field.setProperty("bare", "true")
        self.field.setFont(theme_of(self).font("large"))
        self.field.setPlaceholderText(PLACEHOLDER)
        self.field.setAccessibleName("Find")
        self.field.textChanged.connect(self._typed)
        self.field.installEventFilter(self)
        self.count = Label("", tone="text3")
        top = hbox(
            IconLabel("search", "accent"),
            (self.field, 1),
            self.count,
            ShortcutLabel("Esc"),
            margins=(14, 0, 14, 0),
            spacing=10,
        )
        self.view = QListView()
        self.view.setModel(self._model)
        self.view.setItemDelegate(ResultsDelegate(self.view))
        self.view.setAccessibleName("Found")
        self.view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.view.setUniformItemSizes(False)
        self.view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.view.viewport().setAutoFillBackground(False)
        self.view.setStyleSheet("QListView { background: transparent; }")
        self.view.clicked.connect(lambda index: self._open(index.row()))
        bottom = hbox(margins=(14, 0, 14, 0), spacing=14)
        for keys, words in (("↑+↓", "move"), ("Enter", "open"), ("Tab", "narrow to this kind")):
            bottom.addWidget(ShortcutLabel(keys, words))
        bottom.addStretch(1)
        bottom.addWidget(Label("Nothing is sent, except Stop all.", "meta", "text3"))
        self.card = DialogCard(self)
        column = vbox(parent=self.card, margins=1)
        for part in (top, bottom):
            holder = QWidget()
            holder.setFixedHeight(LINE if part is top else 36)
            holder.setLayout(part)
            column.addWidget(holder)
        column.insertWidget(1, separator())
        column.insertWidget(2, self.view)
        column.insertWidget(3, separator())

    # Opening and closing

    def start(self, query: str = "") -> None:
        """Come up with `query` typed."""
        self._group, self._moved = "", False
        self.cover()
        self.field.setText(query)
        self.field.selectAll()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._sources.start()
        self._refresh()

    def uncover(self) -> None:
        """Go away, without lines: Qt tells assistive technology of those in a hidden list as shown."""
        super().uncover()
        self._model.show_found([])

    def _escape(self) -> None:
        if self._group:
            self._group = ""
            self._refresh()
        else:
            self.uncover()

    # Finding

    def _typed(self) -> None:
        self._moved = False
        self._pause.start()

    def _refresh_soon(self) -> None:
        if self.isVisible() and not self._pause.isActive():
            self._pause.start()

    def _refresh(self) -> None:
        query = self.field.text()
        # Lines that come late must not move the cursor off a line that the operator went to.
        kept = self.chosen() if self._moved else None
        found = find(self._sources.hits(query), query, group=self._group)
        self._model.show_found(found)
        self._choose(kept.hit.key if kept else "")
        words = f"{plural(len(found), 'hit')}" if self._group else f"{len(found)} found"
        self.count.setText(f"{self._group}: {words}" if self._group else words)
        self._place()
        self._sources.want(query, found)

    def _place(self) -> None:
        heights = (HEAD if isinstance(line, str) else ROW for line in self._model.lines)
        room = min(MOST_HEIGHT, self.height() - TOP - LINE - 36 - 40)
        self.view.setFixedHeight(max(ROW, min(sum(heights), room)))
        width = NARROW_WIDTH if self.width() < 1360 else WIDTH
        height = LINE + self.view.height() + 36 + 4
        self.card.setGeometry((self.width() - width) // 2 - 3, TOP, width, height)

    def chosen(self) -> Match | None:
        """The line under the cursor."""
        row = self.view.currentIndex().row()
        line = self._model.lines[row] if 0 <= row < len(self._model.lines) else None
        return line if isinstance(line, Match) else None

    def _choose(self, key: str) -> None:
        places = [row for row, line in enumerate(self._model.lines) if isinstance(line, Match)]
        same = [row for row in places if self._key_at(row) == key]
        row = same[0] if same else self._first_of(places)
        self.view.setCurrentIndex(self._model.index(row) if row is not None else QModelIndex())

    def _first_of(self, places: list[int]) -> int | None:
        """The first line that Enter may meet without being walked to."""
        typed = self.field.text().strip().casefold()
        for row in places:
            line = self._model.lines[row]
            if isinstance(line, Match) and (not line.hit.careful or line.hit.title.casefold() == typed):
                return row
        return None

    def _key_at(self, row: int) -> str:
        line = self._model.lines[row]
        return line.hit.key if isinstance(line, Match) else ""

    def _move(self, step: int) -> None:
        places = [row for row, line in enumerate(self._model.lines) if isinstance(line, Match)]
        if not places:
            return
        row = self.view.currentIndex().row()
        at = places.index(row) if row in places else -1 if step > 0 else 0
        self._moved = True
        self.view.setCurrentIndex(self._model.index(places[(at + step) % len(places)]))

    def _open(self, row: int) -> None:
        line = self._model.lines[row] if 0 <= row < len(self._model.lines) else None
        if not isinstance(line, Match) or line.hit.off:
            return  # why it is off stands beside it
        self.uncover()
        if line.hit.act is not None:
            line.hit.act()
        else:
            self._nav.open(line.hit.screen, line.hit.target)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrows move, Enter opens, Tab narrows; the field passes on what it does not take."""
        match event.key():
            case Qt.Key.Key_Down:
                self._move(1)
            case Qt.Key.Key_Up:
                self._move(-1)
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self._open(self.view.currentIndex().row())
            case _:
                super().keyPressEvent(event)

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Tab narrows to the kind under the cursor, or widens again; the focus stays in the field."""
        # Qt asks as well when the focus is in what has just been put away: Tab was not pressed then.
        chosen = self.chosen() if self.isVisible() else None
        if forward and chosen is not None:
            self._group = "" if self._group else chosen.hit.group
            self._refresh()
        return True
