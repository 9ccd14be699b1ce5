"""Decision: what the policy said and why, who answered, and the arguments it was about."""

from __future__ import annotations

from typing import Any

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.records.asker import Quote
from app.records.command import Command
from app.records.decision import DecisionView
from app.theme.tokens import SPACE
from app.widgets.empty_state import EmptyState
from app.widgets.json_view import JsonView
from app.widgets.labels import set_surface
from app.widgets.layouts import vbox
from app.widgets.property_list import Property, PropertyList
from app.widgets.section import Section
from app.widgets.util import ScrollArea
from core.commitments import readable


class DecisionTab(ScrollArea):
    """The very decision that was enforced, as the journal has it.

    Dozens of labels are made for it, so they are made when the tab comes to be seen, and not before.
    """

    def __init__(self) -> None:
        super().__init__(name="Decision")
        self._known: Command | None = None
        self._missing = ""
        self._shown: tuple[Command | None, str] | None = None

    def show_known(self, known: Command | None, missing: str) -> None:
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
        column = vbox(
            parent=inside, margins=(SPACE.pane, SPACE.medium, SPACE.pane, SPACE.medium), spacing=SPACE.section
        )
        if known is None or known.decision is None:
            line = missing or "This command was not judged, or its entries were not read."
            column.addWidget(EmptyState("No decision is in the journal.", line), 1)
        else:
            view = DecisionView()
            view.show_decision(known.decision)
            column.addWidget(view)
        if known is not None:
            self._add_answer(column, known)
            self._add_request(column, known)
        column.addStretch(1)
        self.setWidget(inside)

    def _add_answer(self, column: QVBoxLayout, known: Command) -> None:
        answered, edited = known.answered, known.edited
        lines = [Property("Arguments", edited.sentence())] if edited is not None else []
        if answered is not None:
            lines.append(Property("Answer", answered.sentence()))
        if answered is not None and answered.reason:
            lines.append(Property("Reason", answered.reason))
        if lines:
            facts = PropertyList(96, "Answer")
            facts.show_facts(lines)
            column.addWidget(_section("Answer", facts))

    def _add_request(self, column: QVBoxLayout, known: Command) -> None:
        if known.said:
            quote = Quote()
            quote.show_said(known.said, known.asker)
            column.addWidget(quote)
        edited = known.edited is not None
        if known.parameters:
            column.addWidget(_arguments("Arguments as edited" if edited else "Arguments", known.parameters))
        if edited and known.asked_first:
            column.addWidget(_arguments("Arguments as asked for first, never sent", known.asked_first))


def _arguments(title: str, value: Any) -> Section:
    tree = JsonView()
    tree.setAccessibleName(title)
    tree.set_value(readable(value))
    tree.setMinimumHeight(140)
    return _section(title, tree)


def _section(title: str, content: QWidget) -> Section:
    section = Section(title)
    section.add(content)
    return section
