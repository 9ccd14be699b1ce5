"""What assistive technology is told of drop-downs.

On Linux, Qt gives a combo box the chosen words as its name, and leaves the label to a relation that it finds
only between widgets of one parent. Here the name is the one that the program gave, the chosen words are the
value, and the label is found where the program knows it. In all else this is as Qt's own interface: the list
of choices is a child, and so is the field of one that can be searched.
"""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QAccessibleWidget, QComboBox, QLabel, QWidget

from app.widgets.accessible_interfaces import install_factory

SHOW_MENU, PRESS = "ShowMenu", "Press"
_PROPERTY = "quarterdeck_combo_access"
_LABEL = "quarterdeck_label"
_ALL = QAccessible.RelationFlag.AllRelations


class ComboInterface(QAccessibleWidget):
    """A drop-down: named by its label, its value is what is chosen."""

    def __init__(self, combo: QComboBox) -> None:
        super().__init__(combo, QAccessible.Role.ComboBox, "")

    @property
    def _combo(self) -> QComboBox:
        return cast(QComboBox, self.object())

    def text(self, which: QAccessible.Text) -> str:
        """The name that it was given; as the value, what is chosen."""
        return self._combo.currentText() if which == QAccessible.Text.Value else super().text(which)

    def state(self) -> QAccessible.State:
        """Qt's own, and whether its list is open."""
        state = super().state()
        state.expandable = True
        state.expanded = self._combo.view().isVisible()
        state.editable = self._combo.isEditable()
        return state

    def relations(
        self, match: QAccessible.RelationFlag = _ALL
    ) -> list[tuple[QAccessibleInterface, QAccessible.RelationFlag]]:
        """Qt's own, and the label that `label_combo` gave."""
        found = list(super().relations(match))
        label = self._combo.property(_LABEL)
        by_label = QAccessible.RelationFlag.Label
        if isinstance(label, QLabel) and match & by_label:
            found.append((QAccessible.queryAccessibleInterface(label), by_label))
        return found

    def _parts(self) -> list[QWidget]:
        field = self._combo.lineEdit()
        return [self._combo.view(), *((field,) if field is not None else ())]

    def childCount(self) -> int:
        """The list, and the field for searching."""
        return len(self._parts())

    def child(self, index: int) -> QAccessibleInterface | None:  # type: ignore[override]  # Qt takes none
        """The list first; None where there is none."""
        parts = self._parts()
        return QAccessible.queryAccessibleInterface(parts[index]) if 0 <= index < len(parts) else None

    def indexOfChild(self, child: QAccessibleInterface) -> int:
        """Where a child is; -1 for what is none."""
        wanted = child.object()
        return next((place for place, part in enumerate(self._parts()) if part is wanted), -1)

    def actionNames(self) -> list[str]:
        """Its list can be opened and closed, unless it is off."""
        return [*((SHOW_MENU, PRESS) if self._combo.isEnabled() else ()), *super().actionNames()]

    def doAction(self, name: str) -> None:
        """Open or close the list, or do what any widget can be told to."""
        if name not in (SHOW_MENU, PRESS):
            super().doAction(name)
        elif self._combo.view().isVisible():
            self._combo.hidePopup()
        elif self._combo.isEnabled():
            self._combo.showPopup()


def _interface_of(thing: QObject) -> QAccessibleInterface | None:
    return ComboInterface(thing) if isinstance(thing, QComboBox) else None


def show_combos_by_name() -> None:
    """Give assistive technology this view of drop-downs; once for an application."""
    install_factory(_PROPERTY, _interface_of)


def label_combo(combo: QComboBox, label: QLabel) -> None:
    """`label` says what is chosen in `combo`, although another widget holds it."""
    combo.setProperty(_LABEL, label)
