"""A program whose widgets and models raise what C code raises: `python -m tests.fakes.broken_overrides`.

Says what was told of each fault, a line each, and whether any override lost references by it; then what came
of a fault in a method that only Python calls, which overrides of the window's own classes nothing guards, and
at last `alive`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from types import TracebackType

from PySide6.QtCore import QAbstractListModel, QEvent, QModelIndex, QSize, Qt
from PySide6.QtGui import QKeyEvent, QPaintEvent
from PySide6.QtWidgets import QApplication, QListView, QWidget
from shiboken6 import Shiboken

import app.main  # as a window does before it has a class of its own
from app.overrides import is_guarded, overrides

_NONE = QModelIndex()


class KeyMixin:
    """Takes keys, for whatever widget it is mixed into."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Fail on a missing attribute."""
        event.no_such_thing()  # type: ignore[attr-defined]


class Widget(KeyMixin, QWidget):
    """Fails to paint, to say how large it is, and to take a key."""

    def paintEvent(self, event: QPaintEvent) -> None:
        """Fail on an index out of range."""
        [][len(self.objectName())]

    def update(self) -> None:  # type: ignore[override]  # no virtual method, so Qt never calls it
        """Fail, for whoever calls it."""
        raise ValueError("not now")

    def sizeHint(self) -> QSize:
        """Fail on a wrong type."""
        return QSize(len(self), 1)  # type: ignore[arg-type]


class Model(QAbstractListModel):
    """One row that may not be looked at."""

    def rowCount(self, parent: QModelIndex = _NONE) -> int:
        """One."""
        return 1

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Fail on a row that is not there."""
        return ["first"][index.row() + 1]


def told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say it on one line, with where it was."""
    print(kind.__name__, error, *error.__notes__)


def all_below(cls: type) -> Iterator[type]:
    """Every class that comes of `cls`."""
    for one in type.__subclasses__(cls):
        yield one
        yield from all_below(one)


def unguarded() -> set[str]:
    """The overrides of the window's classes whose errors would end it."""
    for module in pkgutil.walk_packages(app.__path__, "app."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    ours = [cls for cls in all_below(Shiboken.Object) if cls.__module__.startswith("app.")]
    return {
        f"{owner.__qualname__}.{name}"
        for cls in ours
        for owner, name, method in overrides(cls)
        if not is_guarded(method)
    }


def main() -> None:
    """Provoke each fault as Qt would."""
    sys.excepthook = told
    program = QApplication([])
    widget, view, model = Widget(), QListView(), Model()
    view.setModel(model)
    widget.resize(40, 40)
    kept = [sys.getrefcount(method) for method in vars(Model).values()]
    key = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_A, Qt.KeyboardModifier.NoModifier)
    for _ in range(20):
        widget.show()
        widget.repaint()
        widget.adjustSize()
        view.show()
        view.repaint()
        view.doItemsLayout()
        program.postEvent(widget, QKeyEvent(key))
        program.processEvents()
        view.hide()
    print("references lost:", [sys.getrefcount(method) for method in vars(Model).values()] != kept)
    try:
        widget.update()
    except ValueError as error:
        print("raised:", error)
    print("unguarded:", sorted(unguarded()))
    print("alive", flush=True)


if __name__ == "__main__":
    main()
