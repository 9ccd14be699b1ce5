"""A decision of the policy: its words, and the widgets that draw it wherever one is shown.

A screen takes `DecisionView` (whole), `DecisionCard` (small), `decision_properties` (lines among others), or
lays out the sections itself, as the card of a request does. What a decision demands besides its answer is in
`conditions_text`, which all of them show.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from PySide6.QtCore import QEvent, QRectF, Qt, Signal
from PySide6.QtGui import QEnterEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app.text import one_line
from app.theme.state_looks import StateLook, plan_look
from app.theme.theme import theme_of
from app.theme.tokens import SPACE
from app.widgets import painting
from app.widgets.badges import RiskBadge, StateBadge
from app.widgets.banner import Notice
from app.widgets.code_view import paint_finding_number
from app.widgets.icon_label import IconLabel
from app.widgets.labels import ElidedLabel, Label, Link, separator
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.property_list import Property
from app.widgets.section import Card, Section
from app.widgets.util import clear_layout
from core.models.tools import Effect
from core.policy.models import Answer, Decision, Finding, Reason

MOST_FINDINGS = 12
_PLANNED = {Answer.ALLOW: "runs", Answer.ASK: "asks", Answer.DENY: "denied"}
_PAST = {Answer.ALLOW: "allowed", Answer.ASK: "asked", Answer.DENY: "denied"}
_WAS = {
    Answer.ALLOW: "The policy let it run.",
    Answer.ASK: "The policy asked an operator.",
    Answer.DENY: "The policy said no; nothing was sent.",
}
_WOULD = {
    Answer.ALLOW: "It would run without asking.",
    Answer.ASK: "It would wait for an operator.",
    Answer.DENY: "It would be denied.",
}
_LINE = re.compile(r"policy\.toml line (\d+)")


def plan_word(answer: Answer) -> str:
    """The plan's word for an answer, a key of `state_looks.PLANS`: runs, asks, denied."""
    return _PLANNED[answer]


def answer_look(answer: Answer) -> StateLook:
    """The look of an answer before anything runs."""
    return plan_look(_PLANNED[answer])


def past_answer(decision: Decision | None) -> str:
    """The answer afterwards: allowed, asked, denied; empty without a decision."""
    return _PAST[decision.answer] if decision is not None else ""


def conditions_text(decision: Decision, approvers: int = 0) -> str:
    """What the decision demands besides its answer, as sentences; empty when that is nothing.

    `approvers`: how many operators must approve the request that it is about, where there is one.
    """
    approvers = approvers or decision.approvers
    evidence = " and ".join(moment.value for moment in decision.evidence)
    sentences = [f"{approvers} operators have to approve it."] if approvers > 1 else []
    if evidence:
        sentences.append(f"Pictures are taken {evidence} it.")
    return " ".join(sentences)


def reason_text(reason: Reason) -> str:
    """A reason on one line, with its origin where the words do not name it."""
    text, origin = one_line(reason.text).rstrip("."), one_line(reason.origin)
    return text if origin.casefold() in text.casefold() else f"{text} ({origin})"


def finding_words(finding: Finding) -> tuple[str, str]:
    """What a finding means, and its detail; a path that the words name already would only take their room."""
    words, detail = one_line(finding.text), one_line(finding.detail)
    return words, "" if detail in words else detail


def undo_words(decision: Decision) -> tuple[str, str]:
    """Whether it can be undone, and what the contract says of it."""
    start, colon, rest = decision.undo.partition(": ")
    said = rest[:1].upper() + rest[1:] if colon and start.endswith("be undone") else decision.undo
    if decision.reversible:
        return "Can be undone.", said
    if decision.effect is Effect.OBSERVE:
        return "Nothing to undo.", said
    return ("Cannot be undone.", said) if decision.undo else ("No undo is recorded.", "")


def decision_properties(decision: Decision) -> list[Property]:
    """A decision as lines of a property list."""
    facts = {
        "What": one_line(decision.summary),
        "Rule": "; ".join(map(reason_text, decision.reasons)) or "—",
        "Conditions": conditions_text(decision),
    }
    return [Property(label, value) for label, value in facts.items() if value]


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
        words, detail = finding_words(finding)
        row = hbox(parent=self, margins=(24, 3, SPACE.small, 4), spacing=SPACE.small)
        risk = RiskBadge(finding.risk.value, boxed=False)
        risk.setFixedWidth(76)
        row.addWidget(risk, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(Label(words, "body", wrap=True), 1)
        if detail:
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

    def show_findings(self, findings: Sequence[Finding], placed: Collection[int] = ()) -> None:
        """Show another decision's findings; `placed` are the numbers that the bytes beside them show."""
        count = len(findings)
        hint = f"from the arguments, {count} {'finding' if count == 1 else 'findings'}"
        self.head.set_hint(hint if count else "")
        clear_layout(self.body)
        if not findings:
            self.add(Label("Nothing in the arguments raises the risk.", "body", "text2"))
        else:
            self.add(separator())
        for number, finding in enumerate(findings, 1):
            line = FindingRow(number, finding, number in placed)
            line.pressed.connect(self.pressed)
            self.add(line)


class ReasonRow(QWidget):
    """A reason with where it comes from below it, and perhaps a link to that at the right."""

    def __init__(self, reason: Reason, icon: str = "", link: Link | None = None) -> None:
        super().__init__()
        text, origin = one_line(reason.text), one_line(reason.origin)
        row = hbox(parent=self, spacing=SPACE.small)
        if icon:
            row.addWidget(IconLabel(icon), 0, Qt.AlignmentFlag.AlignTop)
        words = QVBoxLayout()
        words.setSpacing(0)
        label = Label(text, wrap=True, selectable=True)
        label.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        words.addWidget(label)
        if origin:
            words.addWidget(Label(origin, "meta", "text3", wrap=True))
        row.addLayout(words, 1)
        if link is not None:
            row.addWidget(link, 0, Qt.AlignmentFlag.AlignTop)
        self.setAccessibleName(f"{text}, {origin}" if origin else text)


class ReasonsSection(Section):
    """Why the policy answers so, each reason with where it comes from, and what it demands besides.

    Signals:
        line_wanted(line): the operator followed the link to a line of policy.toml.
    """

    line_wanted = Signal(int)

    def __init__(self, title: str = "Why", linked: bool = False) -> None:
        """With `linked`, a reason that names a line of policy.toml has a link to it."""
        super().__init__(title)
        self._linked = linked

    def show_reasons(self, decision: Decision, more: Sequence[Reason] = (), approvers: int = 0) -> None:
        """Show another decision's reasons, and some `more` that are not the policy's.

        `approvers`: as for `conditions_text`.
        """
        clear_layout(self.body)
        for number, reason in enumerate([*decision.reasons, *more]):
            line = _LINE.search(reason.origin) if self._linked else None
            link = line_link(int(line[1]), self.line_wanted.emit) if line else None
            self.add(ReasonRow(reason, _reason_icon(reason, number), link))
        if conditions := conditions_text(decision, approvers):
            self.add(Label(conditions, tone="text2", wrap=True))


def line_link(line: int, follow: Callable[[int], object]) -> Link:
    """A link to a line of policy.toml."""
    link = Link(f"line {line}")
    link.clicked.connect(lambda *_: follow(line))
    return link


def _reason_icon(reason: Reason, number: int) -> str:
    words = reason.text.lower()
    if words.startswith(("grant", "no grant")):
        return "grant"
    return "rule" if number == 0 or words.startswith("rule") else "info"


class UndoBox(Notice):
    """What could be taken back, and how."""

    def __init__(self) -> None:
        super().__init__("no_undo", "No undo is recorded.")

    def show_undo(self, decision: Decision, way: str = "") -> None:
        """Show another decision's undo; `way` are the words of a link to where it is done, if it can be."""
        fact, detail = undo_words(decision)
        look = "can_undo" if decision.reversible else "no_undo"
        if not decision.reversible and decision.effect is not Effect.OBSERVE and decision.undo:
            look = "cannot_undo"
        self.say(look, fact, one_line(detail), way if look == "can_undo" else "")


class DecisionView(QWidget):
    """A whole decision: answer, risk, what it is about, why, what the arguments would do, what can be undone.

    Signals:
        line_wanted(line): as `ReasonsSection`; only beforehand, when the line is still the one that decides.
    """

    line_wanted = Signal(int)

    def __init__(self, beforehand: bool = False) -> None:
        """`beforehand`: of a call that is not made; else the decision was enforced."""
        super().__init__()
        self.risk = RiskBadge()
        self.badge = StateBadge(plan_look("not_known"), "Policy", role="head") if beforehand else None
        self.answer = Label("", tone="text2") if beforehand else Label("", "head")
        self.summary = Label("", "head" if beforehand else "large", wrap=True, selectable=True)
        self.reasons = ReasonsSection(linked=beforehand)
        self.reasons.line_wanted.connect(self.line_wanted)
        self.findings = FindingsSection()
        self.undo = UndoBox()
        head = QHBoxLayout()
        head.setSpacing(SPACE.medium)
        for widget in (self.badge, self.risk) if self.badge else (self.risk, self.answer):
            head.addWidget(widget)
        head.addStretch(1)
        column = vbox(head, self.summary, parent=self, spacing=SPACE.small)
        if beforehand:
            column.addWidget(self.answer)
        for part in (self.reasons, self.findings, self.undo):
            column.addSpacing(SPACE.snug)
            column.addWidget(part)

    def show_decision(self, decision: Decision) -> None:
        """Show another decision."""
        if self.badge is not None:
            self.badge.set_look(answer_look(decision.answer))
        self.risk.set_risk(decision.risk.value)
        self.answer.setText((_WAS if self.badge is None else _WOULD)[decision.answer])
        self.summary.setText(one_line(decision.summary))
        self.reasons.head.set_hint(f"profile {decision.profile.value}, effect {decision.effect.value}")
        self.reasons.show_reasons(decision)
        self.findings.setVisible(bool(decision.findings))
        self.findings.show_findings(decision.findings)
        self.undo.show_undo(decision)


class DecisionCard(QWidget):
    """A decision beforehand in a small card, or one line while there is nothing to judge."""

    def __init__(self) -> None:
        super().__init__()
        self.decision: Decision | None = None
        self._quiet = Label("", "meta", "text3", wrap=True)
        self._card = Card()
        self._answer = StateBadge(plan_look("runs"), "Policy", role="head")
        self._risk = RiskBadge("low", boxed=False)
        self._summary = Label("", "body", wrap=True)
        self._findings = QVBoxLayout()
        self._findings.setSpacing(SPACE.hair)
        self._reasons = Label("", "meta", "text2", wrap=True)
        self._where = Label("", "meta", "text3", wrap=True)
        head = hbox(self._answer, self._risk, STRETCH, spacing=SPACE.medium)
        self._card.body.addLayout(head)
        self._card.add(self._summary)
        self._card.body.addLayout(self._findings)
        self._card.add(self._reasons)
        self._card.add(self._where)
        vbox(self._quiet, self._card, parent=self, spacing=None)
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
        self._answer.set_look(answer_look(decision.answer))
        self._risk.set_risk(decision.risk.value)
        self._summary.setText(one_line(decision.summary))
        findings = [one for one in decision.findings if one.text != decision.summary or one.detail]
        lines = [": ".join(filter(None, finding_words(one))) for one in findings]
        reasons = [*map(reason_text, decision.reasons), *filter(None, [conditions_text(decision)])]
        self._show_findings(findings, lines)
        self._reasons.setText("\n".join(reasons))
        self._where.setText(where)
        said = [self._answer.accessibleName(), self._risk.accessibleName(), self._summary.text()]
        self.setAccessibleName(". ".join([*said, *lines, *reasons, where]))
        self._card.show()

    def _show_findings(self, findings: Sequence[Finding], lines: Sequence[str]) -> None:
        clear_layout(self._findings)
        for finding, words in zip(findings[:MOST_FINDINGS], lines, strict=False):
            self._findings.addWidget(Label(words, "meta", finding.risk.value, wrap=True))
        if len(findings) > MOST_FINDINGS:
            self._findings.addWidget(Label(f"and {len(findings) - MOST_FINDINGS} more", "meta", "text3"))
