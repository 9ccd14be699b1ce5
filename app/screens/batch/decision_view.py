"""What the policy would say of the open step on one device: answer, risk, findings, reasons."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.screens.batch.text import one_line
from app.theme.shapes import paint_glyph
from app.theme.status_styles import plan_look, risk_look
from app.theme.theme import theme_of
from app.widgets.badges import RiskBadge, StateBadge
from app.widgets.labels import Label
from app.widgets.section import Card
from core.policy.models import Answer, Decision, Finding

MOST_FINDINGS = 12
_LOOKS = {Answer.ALLOW: "runs", Answer.ASK: "asks", Answer.DENY: "denied"}


class _Shape(QWidget):
    """The risk's shape before a finding."""

    def __init__(self, risk: str) -> None:
        super().__init__()
        self._risk = risk
        self.setFixedSize(QSize(12, 18))

    def paintEvent(self, event: QPaintEvent) -> None:
        look = risk_look(self._risk)
        painter = QPainter(self)
        paint_glyph(painter, QRectF(0, 4, 10, 10), look.glyph, theme_of(self).color(look.color))
        painter.end()


class DecisionView(QWidget):
    """A small card below the form, or one line while there is nothing to judge."""

    def __init__(self) -> None:
        super().__init__()
        self.decision: Decision | None = None
        self._quiet = Label("", "meta", "text3", wrap=True)
        self._card = Card()
        self._answer = StateBadge(plan_look("runs"), "Policy", role="head")
        self._risk = RiskBadge("low", boxed=False)
        self._where = Label("", "meta", "text3", wrap=True)
        self._summary = Label("", "body", wrap=True)
        self._findings = QVBoxLayout()
        self._findings.setSpacing(2)
        self._reasons = Label("", "meta", "text2", wrap=True)
        head = QHBoxLayout()
        head.setSpacing(12)
        head.addWidget(self._answer)
        head.addWidget(self._risk)
        head.addStretch(1)
        self._card.body.addLayout(head)
        self._card.add(self._summary)
        self._card.body.addLayout(self._findings)
        self._card.add(self._reasons)
        self._card.add(self._where)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self._quiet)
        column.addWidget(self._card)
        self.say("")

    def text(self) -> str:
        """Everything on show, as read aloud."""
        return self.accessibleName()

    def say(self, words: str) -> None:
        """Show one quiet line: why nothing is judged yet."""
        self.decision = None
        self._card.hide()
        self._quiet.setText(words)
        self._quiet.setVisible(bool(words))
        self.setAccessibleName(words)

    def show_decision(self, decision: Decision, where: str) -> None:
        """Show what the policy said; `where` says of which device."""
        self.decision = decision
        self._quiet.hide()
        self._answer.set_look(plan_look(_LOOKS[decision.answer]))
        self._risk.set_risk(decision.risk.value)
        self._summary.setText(one_line(decision.summary))
        findings = [one for one in decision.findings if one.text != decision.summary or one.detail]
        self._show_findings(findings)
        reasons = [f"{one_line(one.text)} ({one_line(one.origin)})" for one in decision.reasons]
        self._reasons.setText("\n".join(reasons))
        self._where.setText(where)
        said = [self._answer.accessibleName(), self._risk.accessibleName(), decision.summary]
        said += [one.text for one in findings] + reasons + [where]
        self.setAccessibleName(". ".join(said))
        self._card.show()

    def _show_findings(self, findings: list[Finding]) -> None:
        while (item := self._findings.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        for finding in findings[:MOST_FINDINGS]:
            line = QWidget()
            row = QHBoxLayout(line)
            row.setContentsMargins(0, 0, 0, 0)
            row.setSpacing(6)
            row.addWidget(_Shape(finding.risk.value), 0, Qt.AlignmentFlag.AlignTop)
            words = one_line(finding.text)
            if finding.detail and one_line(finding.detail) not in words:
                words += f": {one_line(finding.detail)}"
            row.addWidget(Label(words, "meta", finding.risk.value, wrap=True), 1)
            self._findings.addWidget(line)
        if len(findings) > MOST_FINDINGS:
            more = Label(f"and {len(findings) - MOST_FINDINGS} more", "meta", "text3")
            self._findings.addWidget(more)
