"""Words that are longer than a panel is wide: broken into lines, so that nothing beside them is out of sight.

A device says what system it has and how its tools are called, and may say it without a single space.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLabel, QMenu

from app.widgets.line_breaks import breakable, whole
from app.widgets.property_list import Fact, Facts


def show_facts(facts: Facts, wanted: Iterable[Fact]) -> None:
    """Show facts whose values may be long words."""
    facts.show_facts(_breakable_fact(fact) for fact in wanted)
    for label in facts.findChildren(QLabel):
        copies_whole(label)


def _breakable_fact(fact: Fact) -> Fact:
    value = breakable(fact.value)
    return fact if value == fact.value else replace(fact, value=value, full=fact.full or fact.value)


def copies_whole(label: QLabel) -> None:
    """Let what is copied of a label be without the places where its lines may end."""
    label.installEventFilter(_copying(label))


def _copying(label: QLabel) -> _Copying:
    return label.findChild(_Copying) or _Copying(label)


class _Copying(QObject):
    """Copies by key and by menu."""

    def __init__(self, label: QLabel) -> None:
        super().__init__(label)
        self._label = label

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take Ctrl+C and the menu from the label."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.matches(QKeySequence.StandardKey.Copy):
                self._copy()
                return True
        elif isinstance(event, QContextMenuEvent) and self._label.textInteractionFlags():
            menu = QMenu(self._label)
            menu.addAction("Copy", self._copy).setEnabled(self._label.hasSelectedText())
            menu.addAction("Copy all", lambda: self._put(self._label.text()))
            menu.aboutToHide.connect(menu.deleteLater)
            menu.popup(event.globalPos())
            return True
        return super().eventFilter(watched, event)

    def _copy(self) -> None:
        if self._label.hasSelectedText():
            self._put(self._label.selectedText())

    @staticmethod
    def _put(text: str) -> None:
        QGuiApplication.clipboard().setText(whole(text))
