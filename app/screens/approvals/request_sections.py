"""The parts of a card's two columns: the bytes, the findings, why it asks, what the asker says, the facts."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, Qt, Signal
from PySide6.QtGui import QEnterEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app.screens.approvals.request_payload import Part
from app.screens.approvals.text import asker_words, is_agent, quoted, said_title, unproved_words
from app.text import one_line
from app.theme.theme import theme_of
from app.theme.tokens import SPACE
from app.widgets import painting
from app.widgets.badges import RiskBadge
from app.widgets.banner import Notice
from app.widgets.code_view import CodeView, Highlight, paint_finding_number
from app.widgets.icon_label import IconLabel
from app.widgets.labels import ElidedLabel, Label, Link, separator
from app.widgets.property_list import short_digest
from app.widgets.section import Card, Section
from core.approvals.models import Approval
from core.canonical_json import sha256_hex
from core.fleet.models import Effect
from core.policy.analysis.summaries import size_words
from core.policy.models import Decision, Finding, Reason
from core.text import hidden_characters


class BytesSection(Section):
    """The bytes box with its head and the line of facts below it.

    Signals:
        end_seen: the last byte was on the screen.
        copied: the bytes are on the clipboard.
    """

    end_seen = Signal()
    copied = Signal()

    def __init__(self, title: str, exact: bool = True) -> None:
        """`exact`: the box holds the very bytes; else a list made for reading, which nobody would copy."""
        super().__init__(title)
        self._exact = exact
        self.box = CodeView(title, numbers=exact)
        self.add(self.box)
        # Whole, on a second line where one is too short: how old what was compared with is must be readable.
        self.facts = Label("", "meta", "text3", wrap=True)
        self.alike = Label("", "meta", "warn")
        self._seen_mark = IconLabel("check", "text3", painted=True, size=12)
        self.seen = Label("", "meta", "text2")
        self._copy_mark = IconLabel("copy", "accent", 14)
        self.copy = Link("Copy bytes", "meta_strong")
        row = self.line = QHBoxLayout()
        row.setSpacing(SPACE.small)
        row.addWidget(self.facts, 1)
        row.addWidget(self.alike)
        row.addWidget(self._seen_mark)
        row.addWidget(self.seen)
        row.addSpacing(SPACE.tight)
        row.addWidget(self._copy_mark)
        row.addWidget(self.copy)
        self.body.addLayout(row)
        self.body.setSpacing(2)
        self.copy.clicked.connect(lambda *_: self._copy())
        self.box.end_seen.connect(self._mark_seen)

    def show_part(self, part: Part, masked: int = 0) -> None:
        """Show bytes from their beginning; their end counts as not seen."""
        self.head.set_hint(part.name)
        highlights = [Highlight(one.start, one.end, one.risk, one.number) for one in part.places]
        self.box.show_bytes(part.data, highlights)
        text = part.data.decode("utf-8", "replace")
        # A masked secret is not here: what is shown is then not the bytes, and has no digest worth comparing.
        whole = self._exact and not masked
        lines = self.box.shown.lines
        words = (
            [f"{size_words(len(part.data))}, {lines} {'line' if lines == 1 else 'lines'}"] if whole else []
        )
        if whole:
            words.append(short_digest(sha256_hex(part.data)))
        words.append(self.box.shown.describe_hidden())
        self.copy.setVisible(whole)
        self._copy_mark.setVisible(whole)
        if masked:
            words.append(f"{masked} {'secret' if masked == 1 else 'secrets'} masked")
        self.facts.setText("   ".join(words))
        alike = sum(name.endswith("(in a Latin word)") for _, name in hidden_characters(text))
        self.alike.setText(
            f"{alike} {'letter' if alike == 1 else 'letters'} of another script in Latin words"
        )
        self.alike.setVisible(alike > 0)
        self._show_seen(False)

    @property
    def end_was_seen(self) -> bool:
        """True when all of it was on the screen."""
        return self.box.end_was_seen

    def _mark_seen(self) -> None:
        self._show_seen(True)
        self.end_seen.emit()

    def _show_seen(self, seen: bool) -> None:
        self._seen_mark.set_icon("check" if seen else "dot", "ok" if seen else "text3")
        self.seen.setText("end seen" if seen else "end not seen")

    def _copy(self) -> None:
        self.box.copy_bytes()
        self.copied.emit()


class FindingRow(QWidget):
    """One finding: its number in the bytes, its risk, what it means, a detail.

    Signals:
        pressed(number): the operator wants to see it in the bytes.
    """

    pressed = Signal(int)

    def __init__(self, number: int, finding: Finding, placed: bool) -> None:
        super().__init__()
        self._number, self._risk, self._placed = number, finding.risk.value, placed
        self.setMinimumHeight(theme_of(self).metrics.finding_row)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        words, detail = one_line(finding.text), one_line(finding.detail)
        row = QHBoxLayout(self)
        row.setContentsMargins(24, 3, SPACE.small, 4)
        row.setSpacing(SPACE.small)
        risk = RiskBadge(finding.risk.value, boxed=False)
        risk.setFixedWidth(76)
        row.addWidget(risk, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(Label(words, "body", wrap=True), 1)
        # A path that the words name already would only take their room.
        if detail and detail not in words:
            side = ElidedLabel(detail, "body", "text3", Qt.TextElideMode.ElideMiddle)
            side.setMaximumWidth(280)
            row.addWidget(side)
        self.setAccessibleName(f"Finding {number}, {self._risk}: {words} {detail}".strip())
        if placed:
            self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            self.setCursor(Qt.CursorShape.PointingHandCursor)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Show where it is."""
        if self._placed:
            self.pressed.emit(self._number)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter and Space show where it is."""
        if self._placed and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.pressed.emit(self._number)
            return
        super().keyPressEvent(event)

    def enterEvent(self, event: QEnterEvent) -> None:
        """Repaint the hovered row."""
        self.update()
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        """Repaint the row without hover."""
        self.update()
        super().leaveEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the number and the line below."""
        theme = theme_of(self)
        painter = QPainter(self)
        if self._placed and self.underMouse():
            painter.fillRect(self.rect(), theme.color("hover"))
        painter.fillRect(0, self.height() - 1, self.width(), 1, theme.color("border"))
        mark = QRectF(0, 5, 16, 16)
        if self._placed:
            paint_finding_number(painter, mark, self._number, self._risk, theme)
        else:
            painting.text(
                painter, mark, str(self._number), theme, "label", "text3", Qt.AlignmentFlag.AlignHCenter
            )
        painter.end()


class FindingsSection(Section):
    """What it would do.

    Signals:
        pressed(number): the operator wants to see this finding in the bytes.
    """

    pressed = Signal(int)

    def __init__(self) -> None:
        super().__init__("What it would do")
        self.body.setSpacing(0)
        self._rows: list[QWidget] = []

    def show_findings(self, findings: list[Finding], placed: set[int]) -> None:
        """Show another request's findings; `placed` are the numbers that the bytes show."""
        count = len(findings)
        hint = f"from the arguments, {count} {'finding' if count == 1 else 'findings'}"
        self.head.set_hint(hint if count else "")
        _clear(self._rows)
        if not findings:
            self._rows.append(Label("Nothing in the arguments raises the risk.", "body", "text2"))
        for number, finding in enumerate(findings, 1):
            line = FindingRow(number, finding, number in placed)
            line.pressed.connect(self.pressed)
            self._rows.append(line)
        if findings:
            self._rows.insert(0, separator())
        for row in self._rows:
            self.add(row)


class ReasonsSection(Section):
    """Why the console asks, each reason with where it comes from."""

    def __init__(self) -> None:
        super().__init__("Why you are asked")
        self.body.setSpacing(SPACE.small)
        self._rows: list[QWidget] = []

    def show_reasons(self, approval: Approval) -> None:
        """Show another request's reasons, and why more operators must approve than the policy wants."""
        _clear(self._rows)
        reasons = list(approval.decision.reasons)
        if more := unproved_words(approval):
            reasons.append(Reason(text=more, origin=f"the policy wants {approval.decision.approvers}"))
        for number, reason in enumerate(reasons):
            row = QWidget()
            line = QHBoxLayout(row)
            line.setContentsMargins(0, 0, 0, 0)
            line.setSpacing(SPACE.small)
            line.addWidget(IconLabel(_reason_icon(reason, number)), 0, Qt.AlignmentFlag.AlignTop)
            words = QVBoxLayout()
            words.setSpacing(0)
            text, origin = one_line(reason.text), one_line(reason.origin)
            words.addWidget(Label(text, "body", wrap=True))
            words.addWidget(Label(origin, "meta", "text3", wrap=True))
            line.addLayout(words, 1)
            row.setAccessibleName(f"{text}, {origin}")
            self._rows.append(row)
            self.add(row)


def _reason_icon(reason: Reason, number: int) -> str:
    words = reason.text.lower()
    if words.startswith(("grant", "no grant")):
        return "grant"
    return "rule" if number == 0 or words.startswith("rule") else "info"


class Quote(Card):
    """What the asker says about the request: a quotation, never a fact."""

    def __init__(self) -> None:
        super().__init__("quote")
        head = QHBoxLayout()
        head.setSpacing(SPACE.snug)
        self._icon = IconLabel("agent")
        self.title = Label("", "badge", "text2")
        head.addWidget(self._icon)
        head.addWidget(self.title)
        head.addStretch(1)
        self.body.addLayout(head)
        self.words = Label("", "quote", "text2", wrap=True, selectable=True)
        self.words.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.who = Label("", "meta", "text3", wrap=True)
        self.add(self.words)
        self.add(self.who)

    def show_said(self, approval: Approval) -> None:
        """Show the words; hidden when there are none."""
        self.setVisible(bool(approval.said.strip()))
        self.title.setText(said_title(approval.actor))
        self._icon.set_icon("agent" if is_agent(approval.actor) else "operator")
        self.words.setText(quoted(approval.said))
        self.who.setText(asker_words(approval.actor))
        self.setAccessibleName(f"{self.title.text()}: {self.words.text()}")


class UndoBox(Notice):
    """What could be taken back, and how."""

    def __init__(self) -> None:
        super().__init__("no_undo", "No undo is recorded.")

    def show_undo(self, decision: Decision) -> None:
        """Show another request's undo."""
        fact, detail = undo_fact(decision)
        look = "can_undo" if decision.reversible else "no_undo"
        if not decision.reversible and decision.effect is not Effect.OBSERVE and decision.undo:
            look = "cannot_undo"
        self.say(look, fact, one_line(detail))


def undo_fact(decision: Decision) -> tuple[str, str]:
    """The bold words and the rest."""
    start, colon, rest = decision.undo.partition(": ")
    said = rest[:1].upper() + rest[1:] if colon and start.endswith("be undone") else decision.undo
    if decision.reversible:
        return "Can be undone.", said
    if decision.effect is Effect.OBSERVE:
        return "Nothing to undo.", said
    return ("Cannot be undone.", said) if decision.undo else ("No undo is recorded.", "")


def _clear(rows: list[QWidget]) -> None:
    for row in rows:
        row.hide()
        row.setParent(None)
        row.deleteLater()
    rows.clear()
