"""Properties: labels with values, broken into lines where a value is one long word, and copied whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QGridLayout, QLabel, QMenu, QWidget

from app.theme.tokens import SPACE
from app.widgets.labels import Label, Link, escaped_tooltip
from app.widgets.line_breaks import breakable, whole
from app.widgets.util import clear_layout


@dataclass(frozen=True, slots=True)
class Property:
    """One line. `tone` is a token name; `full` is shown as a tooltip when the value is shortened."""

    label: str
    value: str
    mono: bool = False
    tone: str = "text"
    full: str = ""
    link: str = ""


def short_digest(digest: str, name: str = "sha256") -> str:
    """A digest as people compare it: `sha256 9f3c … e210`."""
    plain = digest.removeprefix(f"{name}:")
    if len(plain) <= 12:
        return f"{name} {plain}".strip()
    return f"{name} {plain[:4]} … {plain[-4:]}".strip()


class PropertyList(QWidget):
    """A list of labels and values; values can be selected, and are never taken for markup."""

    def __init__(self, label_width: int = 104, name: str = "Facts", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label_width = label_width
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(SPACE.label_gap)
        self._grid.setVerticalSpacing(SPACE.tight)
        self._grid.setColumnMinimumWidth(0, label_width)
        self._grid.setColumnStretch(1, 1)
        self._values: dict[str, Label | Link] = {}
        self._shown: tuple[Property, ...] = ()
        self.setAccessibleName(name)

    def show_facts(self, facts: Iterable[Property]) -> None:
        """Show these facts; lines whose labels stay keep their widgets, and with them a selection."""
        wanted = tuple(facts)
        if wanted == self._shown:
            return
        if [(f.label, f.mono, bool(f.link)) for f in wanted] == [
            (f.label, f.mono, bool(f.link)) for f in self._shown
        ]:
            for fact in wanted:
                self._write(self._values[fact.label], fact)
        else:
            self._build(wanted)
        self._shown = wanted

    @property
    def facts(self) -> tuple[Property, ...]:
        """The lines that are shown."""
        return self._shown

    def value(self, label: str) -> Label | Link:
        """The widget that shows the value of `label`, for links to connect.

        Raises:
            KeyError: there is no such line.
        """
        return self._values[label]

    def _build(self, facts: tuple[Property, ...]) -> None:
        clear_layout(self._grid)
        self._values.clear()
        top = Qt.AlignmentFlag.AlignTop
        for number, fact in enumerate(facts):
            label = Label(fact.label, "body", "text3")
            label.setMinimumHeight(20)
            value: Label | Link
            if fact.link:
                value = Link(fact.value)
                label.setMinimumHeight(24)
                self._grid.addWidget(value, number, 1, top | Qt.AlignmentFlag.AlignLeft)
            else:
                value = Label("", "mono_small" if fact.mono else "body", wrap=True, selectable=True)
                value.setMinimumHeight(20)
                self._grid.addWidget(value, number, 1, top)
            self._write(value, fact)
            self._grid.addWidget(label, number, 0, top)
            self._values[fact.label] = value

    def _write(self, value: Label | Link, fact: Property) -> None:
        value.setText(fact.value)
        value.setAccessibleName(f"{fact.label}: {fact.full or fact.value}")
        value.setToolTip(escaped_tooltip(fact.full) if fact.full else "")
        if isinstance(value, Label):
            value.set_tone(fact.tone)


def show_facts(facts: PropertyList, wanted: Iterable[Property]) -> None:
    """Show facts whose values may be long words."""
    facts.show_facts(_breakable_fact(fact) for fact in wanted)
    for label in facts.findChildren(QLabel):
        copies_whole(label)


def _breakable_fact(fact: Property) -> Property:
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
