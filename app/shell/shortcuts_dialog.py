"""F1: the keys of the screen in front, and those that hold everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QWidget

from app.screens.screen import Shortcut
from app.widgets.action import Action, chord_words
from app.widgets.dialog import Dialog
from app.widgets.labels import Label
from app.widgets.shortcut_label import ShortcutLabel

EVERYWHERE: tuple[tuple[str, str], ...] = (
    ("Ctrl+K", "Find devices, tools, runs, entries, commands"),
    ("Alt+1", "First screen, up to Alt+8"),
    ("Ctrl+B", "Narrow or wide navigation"),
    ("Ctrl+F", "Filter of this screen"),
    ("F6", "Next pane"),
    ("Esc", "Close the innermost"),
    ("F1", "These keys"),
    ("Ctrl+Shift+X", "Stop all, at once"),
)


class ShortcutsDialog(Dialog):
    """Lists keys in two columns."""

    def __init__(self, window: QWidget, title: str, shortcuts: Sequence[Shortcut | Action]) -> None:
        super().__init__(window, "Keys", width=640)
        holder = QWidget()
        grid = QGridLayout(holder)
        grid.setContentsMargins(0, 4, 0, 0)
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(6)
        self._fill(grid, 0, title, [(one.keys, one.words) for one in shortcuts])
        self._fill(grid, 3, "Everywhere", EVERYWHERE)
        grid.setColumnStretch(1, 1)
        grid.setColumnMinimumWidth(2, 12)
        grid.setColumnStretch(4, 1)
        self.add(holder)
        self.add_answer("close", "Close", primary=True)

    @staticmethod
    def _fill(grid: QGridLayout, column: int, title: str, keys: Sequence[tuple[str, str]]) -> None:
        grid.addWidget(Label(title, "label", "text3"), 0, column, 1, 2)
        top = Qt.AlignmentFlag.AlignTop
        for row, (chord, what) in enumerate(keys, 1):
            grid.addWidget(ShortcutLabel(chord_words(chord)), row, column, top)
            grid.addWidget(Label(what, tone="text2", wrap=True), row, column + 1, top)
        if not keys:
            grid.addWidget(Label("This screen has no keys of its own.", tone="text2"), 1, column, 1, 2)
        grid.setRowStretch(max(grid.rowCount(), len(keys) + 1), 1)
