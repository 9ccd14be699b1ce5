"""A tool's contract, fact by fact with who says so and why, and its definition as JSON."""

from __future__ import annotations

import json
from typing import Any

from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QGridLayout, QPlainTextEdit, QWidget

from app.components.facts import short_digest
from app.components.label import Label, plain_tip
from app.look.theme import theme_of
from core.fleet.models import Contract, Tool

MOST_LINES = 12


def contract_lines(contract: Contract) -> list[tuple[str, str, str, str]]:
    """(what, value, source, why) of each fact."""

    def yes(value: bool) -> str:
        return "yes" if value else "no"

    return [
        ("Effect", contract.effect.value.value, contract.effect.source.value, contract.effect.why),
        ("Risk", contract.risk.value.value, contract.risk.source.value, contract.risk.why),
        (
            "Can be undone",
            yes(contract.reversible.value),
            contract.reversible.source.value,
            contract.reversible.why,
        ),
        (
            "Twice is as once",
            yes(contract.idempotent.value),
            contract.idempotent.source.value,
            contract.idempotent.why,
        ),
        (
            "Reaches outside",
            yes(contract.open_world.value),
            contract.open_world.source.value,
            contract.open_world.why,
        ),
    ]


class ContractFacts(QWidget):
    """The facts of a contract, one below the other."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Contract")
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnMinimumWidth(0, 104)
        self._grid.setColumnStretch(1, 1)
        self._labels: list[tuple[Label, Label, Label]] = []
        for row in range(5):
            name, value, why = Label("", tone="text3"), Label(""), Label("", "meta", "text3", wrap=True)
            self._grid.addWidget(name, row * 2, 0)
            self._grid.addWidget(value, row * 2, 1)
            self._grid.addWidget(why, row * 2 + 1, 1)
            self._labels.append((name, value, why))
        self._digest = Label("", "mono_small", "text2", selectable=True)
        self._grid.addWidget(Label("Contract", tone="text3"), 10, 0)
        self._grid.addWidget(self._digest, 10, 1)

    def show_contract(self, tool: Tool) -> None:
        """Show the contract of a tool."""
        for (name, value, why), (what, fact, source, words) in zip(
            self._labels, contract_lines(tool.contract), strict=True
        ):
            name.setText(what)
            value.setText(f"{fact}, {source}")
            why.setText(words)
        self._digest.setText(short_digest(tool.contract.digest))
        self._digest.setToolTip(plain_tip(tool.contract.digest))


class DefinitionBox(QPlainTextEdit):
    """JSON as plain text, as high as it needs up to some lines."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setAccessibleName(name)
        self.setFont(theme_of(self).font("mono_small"))
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        self.setTabChangesFocus(True)

    def show_json(self, value: Any) -> None:
        """Show a value, keys in the order in which they came."""
        text = json.dumps(value, indent=2, ensure_ascii=False)
        if text == self.toPlainText():
            return
        self.setPlainText(text)
        lines = min(MOST_LINES, text.count("\n") + 1)
        self.setFixedHeight(QFontMetrics(self.font()).lineSpacing() * lines + 14)
