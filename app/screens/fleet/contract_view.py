"""A tool's contract, fact by fact with who says so and why, and its definition as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QPlainTextEdit, QWidget

from app.records.tool_facts import SOURCES, fact_name, fact_words
from app.theme.theme import theme_of
from app.widgets.badges import Chip
from app.widgets.labels import Label, escaped_tooltip
from app.widgets.line_breaks import breakable
from app.widgets.property_list import short_digest
from core.fleet.models import ToolScope
from core.models.tools import Contract, Fact, Source, Tool
from core.text import escape_hidden, left_to_right, without_override

MOST_LINES = 12
LONG_VALUE = 16


@dataclass(frozen=True, slots=True)
class FactLine:
    """One fact as it is shown; `was` is its value before the tool changed, where that is another."""

    key: str
    name: str
    value: str
    source: Source
    why: str
    was: str = ""


def contract_lines(contract: Contract, before: Contract | None = None) -> list[FactLine]:
    """The facts of a contract in their order; `before` is the contract that was trusted."""
    return _lines_of(contract, before)


def _lines_of(facts: Contract | ToolScope, before: Contract | ToolScope | None = None) -> list[FactLine]:
    lines = []
    for key in type(facts).model_fields:
        fact = getattr(facts, key)
        if not isinstance(fact, Fact):
            continue
        value = fact_words(fact.value)
        old = fact_words(getattr(before, key).value) if before is not None else value
        why = escape_hidden(fact.why, keep_lines=False)
        lines.append(FactLine(key, fact_name(key), value, fact.source, why, old if old != value else ""))
    return lines


class FactsView(QWidget):
    """Facts, one below the other, each with who says so and why."""

    def __init__(self, keys: list[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnMinimumWidth(0, 112)
        self._grid.setColumnStretch(1, 1)
        self._rows: dict[str, _FactRow] = {}
        for place, key in enumerate(keys):
            row = self._rows[key] = _FactRow()
            self._grid.addWidget(row.name, place * 2, 0)
            self._grid.addWidget(row.line, place * 2, 1)
            self._grid.addWidget(row.why, place * 2 + 1, 1)

    def show_lines(self, lines: list[FactLine]) -> None:
        """Show these facts in their rows."""
        for line in lines:
            self._rows[line.key].show_line(line)

    def words(self) -> list[str]:
        """Each fact as it is read aloud."""
        return [row.line.accessibleName() for row in self._rows.values()]


class ContractFacts(FactsView):
    """The facts of a contract; what an operator set is marked."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__([key for key in Contract.model_fields if key != "digest"], parent)
        self.setAccessibleName("Contract")
        self._digest = Label("", "mono_small", "text2", selectable=True)
        end = 2 * len(self._rows)
        self._grid.addWidget(Label("Contract", tone="text3"), end, 0)
        self._grid.addWidget(self._digest, end, 1)

    def show_contract(self, tool: Tool, before: Contract | None = None) -> None:
        """Show the contract of a tool; beside each fact that changed what it was in `before`."""
        self.show_lines(contract_lines(tool.contract, before))
        self._digest.setText(short_digest(tool.contract.digest))
        self._digest.setToolTip(escaped_tooltip(tool.contract.digest))


class ScopeFacts(FactsView):
    """What a tool needs and reaches besides its contract; hidden until it is known."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(list(ToolScope.model_fields), parent)
        self.setAccessibleName("Scope")
        self.hide()

    def show_scope(self, scope: ToolScope | None) -> None:
        """Show a scope; None hides the last one."""
        self.setVisible(scope is not None)
        if scope is not None:
            self.show_lines(_lines_of(scope))


class _FactRow:
    """The widgets of one fact."""

    def __init__(self) -> None:
        self.name = Label("", tone="text3")
        self.value = Label("", "name")
        self.source = Chip("")
        self.was = Label("", "meta_strong", "warn")
        self.why = Label("", "meta", "text3", wrap=True)
        self.line = QWidget()
        self._row = row = QHBoxLayout(self.line)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.value)
        row.addWidget(self.source)
        row.addWidget(self.was)
        row.addStretch(1)

    def show_line(self, line: FactLine) -> None:
        """Show one fact."""
        self.name.setText(line.name)
        # A sentence is broken into lines; a word keeps who says so beside it.
        long = len(line.value) > LONG_VALUE
        self.value.setWordWrap(long)
        self._row.setStretch(0, int(long))
        self._row.setStretch(3, int(not long))
        self.value.setText(breakable(line.value))
        self.source.set_words(SOURCES[line.source])
        # Whatever the device or our own tables say, this is what a person decided.
        self.source.set_tone("accent" if line.source is Source.OPERATOR else "text3")
        self.was.setText(f"was {line.was}" if line.was else "")
        self.was.setVisible(bool(line.was))
        self.why.setText(breakable(line.why))
        was = f", was {line.was}" if line.was else ""
        self.line.setAccessibleName(f"{line.name}: {line.value}{was}, {SOURCES[line.source]}. {line.why}")


class DefinitionBox(QPlainTextEdit):
    """JSON as plain text, as high as it needs up to some lines."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setProperty("code", "true")
        self.setAccessibleName(name)
        self.setFont(theme_of(self).font("mono_small"))
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        self.setTabChangesFocus(True)

    def show_json(self, value: Any) -> None:
        """Show a value, keys in the order in which they came."""
        text = json_text(value)
        if text == without_override(self.toPlainText()):
            return
        self.setPlainText(left_to_right(text))
        lines = min(MOST_LINES, text.count("\n") + 1)
        self.setFixedHeight(QFontMetrics(self.font()).lineSpacing() * lines + 14)


def json_text(value: Any) -> str:
    """A value as people read JSON; what cannot be seen is written by its name."""
    return escape_hidden(json.dumps(value, indent=2, ensure_ascii=False))
