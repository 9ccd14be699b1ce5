"""Decision: what the policy said and why, who answered, and the arguments it was about."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app.screens.runs.command_record import CommandRecordView
from app.text import one_line
from app.theme.tokens import SPACE
from app.widgets.badges import RiskBadge
from app.widgets.empty_state import EmptyState
from app.widgets.json_view import JsonView
from app.widgets.labels import Label, set_surface
from app.widgets.property_list import Property, PropertyList
from app.widgets.section import Card, Section
from core.policy.models import Answer, Decision
from core.text import escape_hidden

_ANSWERS = {
    Answer.ALLOW: "The policy let it run.",
    Answer.ASK: "The policy asked an operator.",
    Answer.DENY: "The policy said no; nothing was sent.",
}
MOST_SAID = 2000


class DecisionTab(QScrollArea):
    """The very decision that was enforced, as the journal has it.

    Dozens of labels are made for it, so they are made when the tab comes to be seen, and not before.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Decision")
        self._known: CommandRecordView | None = None
        self._missing = ""
        self._shown: tuple[CommandRecordView | None, str] | None = None

    def show_known(self, known: CommandRecordView | None, missing: str) -> None:
        """Show what is known; without a decision, `missing` says why there is none."""
        self._known, self._missing = known, missing
        if self.isVisible():
            self._build()

    def showEvent(self, event: QShowEvent) -> None:
        """Make what is to be seen."""
        self._build()
        super().showEvent(event)

    def _build(self) -> None:
        known, missing = self._known, self._missing
        if (known, missing) == self._shown:
            return
        self._shown = (known, missing)
        inside = set_surface(QWidget(), "base")
        column = QVBoxLayout(inside)
        column.setContentsMargins(SPACE.pane, SPACE.medium, SPACE.pane, SPACE.medium)
        column.setSpacing(SPACE.section)
        decision = known.decision if known else None
        if decision is None:
            line = missing or "This command was not judged, or its entries were not read."
            column.addWidget(EmptyState("No decision is in the journal.", line), 1)
        else:
            self._add_decision(column, decision)
        if known is not None:
            self._add_answer(column, known)
            self._add_request(column, known)
        column.addStretch(1)
        self.setWidget(inside)

    def _add_decision(self, column: QVBoxLayout, decision: Decision) -> None:
        first = QHBoxLayout()
        first.setSpacing(SPACE.small)
        first.addWidget(RiskBadge(decision.risk.value))
        first.addWidget(Label(_ANSWERS[decision.answer], "head"))
        first.addStretch(1)
        column.addLayout(first)
        column.addWidget(Label(one_line(decision.summary), "large", wrap=True, selectable=True))
        why = Section("Why", f"profile {decision.profile.value}, effect {decision.effect.value}")
        for reason in decision.reasons:
            why.add(_pair(one_line(reason.text), one_line(reason.origin)))
        column.addWidget(why)
        if decision.findings:
            found = Section("What it would do")
            for finding in decision.findings:
                line = QWidget()
                row = QHBoxLayout(line)
                row.setContentsMargins(0, 0, 0, 0)
                row.setSpacing(SPACE.small)
                row.addWidget(RiskBadge(finding.risk.value, boxed=False), 0, Qt.AlignmentFlag.AlignTop)
                words, detail = one_line(finding.text), one_line(finding.detail)
                words += f". {detail}" if detail and detail not in words else ""
                row.addWidget(Label(words, wrap=True, selectable=True), 1)
                found.add(line)
            column.addWidget(found)
        undo = "It can be undone." if decision.reversible else "It cannot be undone from here."
        column.addWidget(Label(one_line(decision.undo) or undo, tone="text2", wrap=True))

    def _add_answer(self, column: QVBoxLayout, known: CommandRecordView) -> None:
        answered, edited = known.answered, known.edited
        if answered is None and edited is None:
            return
        section = Section("Answer")
        facts = PropertyList(96, "Answer")
        lines = [Property("Arguments", edited.sentence())] if edited is not None else []
        if answered is not None:
            lines.append(Property("Answer", answered.sentence()))
        if answered is not None and answered.reason:
            lines.append(Property("Reason", answered.reason))
        facts.show_facts(lines)
        section.add(facts)
        column.addWidget(section)

    def _add_request(self, column: QVBoxLayout, known: CommandRecordView) -> None:
        if known.said:
            quote = Card("quote")
            quote.add(Label("The asker says (not checked)", "label", "text3"))
            said = escape_hidden(known.said[:MOST_SAID])
            more = " …" if len(known.said) > MOST_SAID else ""
            quote.add(Label(f"“{said}{more}”", "quote", "text2", wrap=True, selectable=True))
            column.addWidget(quote)
        edited = known.edited is not None
        if known.parameters:
            column.addWidget(_arguments("Arguments as edited" if edited else "Arguments", known.parameters))
        if edited and known.asked_first:
            column.addWidget(_arguments("Arguments as asked for first, never sent", known.asked_first))


def _arguments(title: str, value: Any) -> Section:
    section = Section(title)
    tree = JsonView()
    tree.setAccessibleName(title)
    tree.set_value(value)
    tree.setMinimumHeight(140)
    section.add(tree)
    return section


def _pair(text: str, origin: str) -> QWidget:
    line = QWidget()
    row = QHBoxLayout(line)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(SPACE.medium)
    row.addWidget(Label(text, wrap=True, selectable=True), 1)
    row.addWidget(Label(origin, "mono_small", "text3"), 0, Qt.AlignmentFlag.AlignTop)
    return line
