"""Small things of the decision bar: why not, the code both sides show, slots, errors, the guard line."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QTextLayout, QTextOption
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.screens.approvals.words import one_line
from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.theme.tokens import SPACE, TYPE
from app.widgets import painting
from app.widgets.banner import Notice
from app.widgets.labels import ElidedLabel, plain_tip, surface
from core.approvals.models import Approval
from core.approvals.operator_keys import valid_seconds
from core.statements import short_code

_SLOT = 14
MOST_LINES = 3
NARROWEST = 120


class Hint(ElidedLabel):
    """Why an answer is not possible now: whole, in up to three lines where the bar is narrow."""

    def __init__(self) -> None:
        super().__init__("", "body", "text3")

    def sizeHint(self) -> QSize:
        """As wide as its words on one line, as high as three."""
        return QSize(super().sizeHint().width(), MOST_LINES * TYPE["body"].line)

    def minimumSizeHint(self) -> QSize:
        """Some words a line."""
        return QSize(min(NARROWEST, self.sizeHint().width()), self.sizeHint().height())

    def lines(self) -> list[str]:
        """What stands on each line at the width it has; what is beyond the last one is cut there."""
        layout = QTextLayout(self.text(), theme_of(self).font("body"))
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WordWrap)
        layout.setTextOption(option)
        layout.beginLayout()
        found: list[str] = []
        while (line := layout.createLine()).isValid():
            line.setLineWidth(self.width())
            words = self.text()[line.textStart() : line.textStart() + line.textLength()]
            if len(found) == MOST_LINES:
                found[-1] += words
            else:
                found.append(words)
        layout.endLayout()
        return [words.rstrip() for words in found]

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the lines, in the middle."""
        theme, lines, high = theme_of(self), self.lines(), TYPE["body"].line
        painter = QPainter(self)
        top = (self.height() - high * len(lines)) / 2
        for number, words in enumerate(lines):
            place = QRectF(0, top + number * high, self.width(), high)
            painting.text(painter, place, words, theme, "body", "text3")
        painter.end()
        cut = any(painting.text_width(words, theme) > self.width() for words in lines)
        self.setToolTip(plain_tip(self.text()) if cut else "")


class CodeWords(QWidget):
    """`code on device 9f3c e210`, and how long the signature is worth anything."""

    def __init__(self) -> None:
        super().__init__()
        self._code, self._below = "", ""
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_request(self, approval: Approval, count: int) -> None:
        """Show the code of a request; several requests have one each, on their devices' list."""
        self._code = short_code(approval.request.digest) if count == 1 else ""
        self._above = "code on device" if count == 1 else f"{count} signatures, one each"
        self._below = f"valid {valid_seconds(approval):.0f} s, used once"
        self.setAccessibleName(f"{self._above} {self._code}, {self._below}")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Two lines."""
        theme = theme_of(self)
        above = painting.text_width("code on device", theme, "meta") + 6
        wide = above + painting.text_width(self._code, theme, "code") if self._code else 156.0
        return QSize(round(max(wide, painting.text_width(self._below, theme, "meta"))) + 2, 38)

    def minimumSizeHint(self) -> QSize:
        """It is never cut."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw both lines, at the right."""
        theme = theme_of(self)
        painter = QPainter(self)
        right = Qt.AlignmentFlag.AlignRight
        first = QRectF(0, 0, self.width(), 20)
        if self._code:
            code = painting.text_width(self._code, theme, "code")
            painting.text(painter, first, self._code, theme, "code", "text", right)
            first.setWidth(self.width() - code - 6)
        if self._below:
            painting.text(painter, first, self._above, theme, "meta", "text3", right)
            painting.text(
                painter, QRectF(0, 20, self.width(), 17), self._below, theme, "meta", "text3", right
            )
        painter.end()


class Slots(QWidget):
    """One mark for each operator who must approve, filled for those who have, and words."""

    def __init__(self) -> None:
        super().__init__()
        self._given, self._wanted, self._words = 0, 1, ""
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_request(self, approval: Approval) -> None:
        """Show how many have approved."""
        self._given, self._wanted = len(approval.approved_by), approval.approvers
        self._words = slot_words(approval)
        names = ", ".join(map(one_line, approval.approved_by))
        self.setAccessibleName(f"{self._words}. Approved by {names}." if names else self._words)
        self.setToolTip(f"Approved by {names}" if names else "")
        self.updateGeometry()
        self.update()

    def words(self) -> str:
        """What it says."""
        return self._words

    def sizeHint(self) -> QSize:
        """Marks and words."""
        words = painting.text_width(self._words, theme_of(self), "name")
        return QSize(round(self._wanted * (_SLOT + 4) + 4 + words) + 2, 24)

    def minimumSizeHint(self) -> QSize:
        """It is never cut."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw marks and words."""
        theme = theme_of(self)
        painter = QPainter(self)
        top = (self.height() - _SLOT) / 2
        for number in range(self._wanted):
            place = QRectF(number * (_SLOT + 4), top, _SLOT, _SLOT)
            if number < self._given:
                paint_glyph(painter, place, "check_disc", theme.color("ok"))
            else:
                painting.box(painter, place.adjusted(1, 1, -1, -1), 6, None, theme.color("waiting"), 1.5)
        left = self._wanted * (_SLOT + 4) + 4
        room = QRectF(left, 0, self.width() - left, self.height())
        painting.text(painter, room, self._words, theme, "name", "waiting")
        painter.end()


def slot_words(approval: Approval) -> str:
    """`1 of 2, needs another operator`."""
    given, wanted = len(approval.approved_by), approval.approvers
    if given >= wanted:
        return f"{given} of {wanted}"
    rest = "needs another operator" if wanted - given == 1 and given else f"needs {wanted - given} operators"
    return f"{given} of {wanted}, {rest}"


class AnswerError(QWidget):
    """What went wrong with an answer and what to do, whole, until it is closed or another card comes."""

    def __init__(self) -> None:
        super().__init__()
        surface(self, "base")
        self._notice = Notice("fail", "", "", "Close")
        column = QVBoxLayout(self)
        column.setContentsMargins(SPACE.pane, SPACE.small, SPACE.pane, SPACE.small)
        column.addWidget(self._notice)
        self._notice.acted.connect(self.hide)
        self.hide()

    def tell(self, fact: str, detail: str) -> None:
        """Say it."""
        self._notice.say("fail", fact, detail, "Close")
        self.show()

    def words(self) -> str:
        """What it says."""
        return self._notice.accessibleName()


class GuardLine(QWidget):
    """Two pixels at the bar's top: a border, filling with accent while the card is new."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._part = 0.0
        self.setFixedHeight(2)

    def fill(self, part: float) -> None:
        """Fill this part of the width, 0 to 1."""
        self._part = float(part)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the line."""
        theme = theme_of(self)
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.color("raised"))
        painter.fillRect(0, 0, self.width(), 1, theme.color("border"))
        if self._part > 0:
            painter.fillRect(0, 0, round(self.width() * self._part), 2, theme.color("accent"))
        painter.end()
