"""A program whose widgets and models raise what C code raises: `python -m tests.fakes.broken_overrides`.

Prints each error that was reported, a line each, and whether any override lost references by it; then what
came of an error in a method that only Python calls, which overrides are unguarded, and at last `alive`. With
the argument `unguarded`, nothing guards the overrides.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from types import TracebackType

from PySide6.QtCore import QAbstractListModel, QEvent, QModelIndex, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QKeyEvent, QPaintEvent
from PySide6.QtWidgets import QApplication, QListView, QWidget
from shiboken6 import Shiboken

import app.main  # its classes are made before they are guarded
from app.overrides import CALLED_BY_PYTHON, guard_package, is_guarded, is_of, overrides, subclasses

_NONE = QModelIndex()
_printed: set[str] = set()


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
        """Fail, in the code that called it."""
        raise ValueError("not now")

    def sizeHint(self) -> QSize:
        """Fail on a wrong type."""
        return QSize(len(self), 1)  # type: ignore[arg-type]


class Model(QAbstractListModel):
    """One row that may not be looked at."""

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = _NONE) -> int:
        """One."""
        return 1

    def data(
        self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """Fail on a row that is not there."""
        return ["first"][index.row() + 1]


class Foreign(QWidget):
    """A class of another package."""

    __module__ = "application"  # begins as `app` does

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint nothing."""


def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a new error on one line, with where it was."""
    line = " ".join([kind.__name__, str(error), *getattr(error, "__notes__", ())])
    if line not in _printed:
        _printed.add(line)
        print(line)


def overrides_of_the_window() -> Iterator[tuple[type, str, Callable[..., object]]]:
    """The overrides of the window's classes."""
    for module in pkgutil.walk_packages(app.__path__, "app."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for cls in subclasses(Shiboken.Object):
        if is_of(cls, "app"):
            yield from overrides(cls)


def unguarded() -> set[str]:
    """The overrides of the window's classes whose errors could end it."""
    return {
        f"{owner.__qualname__}.{name}"
        for owner, name, method in overrides_of_the_window()
        if name not in CALLED_BY_PYTHON and not is_guarded(method)
    }


def attempt(call: Callable[[], object]) -> None:
    """Call Qt; without the guard it may raise what an override raised."""
    try:
        call()
    except Exception as error:  # noqa: BLE001
        report(type(error), error, None)


def main() -> None:
    """Provoke each error as Qt would."""
    sys.excepthook = report
    if "unguarded" not in sys.argv:
        guard_package("app")
        guard_package("__main__")
    program = QApplication([])
    widget, view, model = Widget(), QListView(), Model()
    view.setModel(model)
    widget.resize(40, 40)
    kept = [sys.getrefcount(method) for method in vars(Model).values()]
    key = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_A, Qt.KeyboardModifier.NoModifier)
    for _ in range(20):
        program.postEvent(widget, QKeyEvent(key))
        for call in (widget.show, widget.repaint, widget.adjustSize, view.show, view.repaint):
            attempt(call)
        for call in (view.doItemsLayout, program.processEvents, view.hide):
            attempt(call)
    print("references lost:", [sys.getrefcount(method) for method in vars(Model).values()] != kept)
    try:
        widget.update()
    except ValueError as error:
        print("raised:", error)
    print("unguarded:", sorted(unguarded()))
    print("foreign guarded:", is_guarded(Foreign.paintEvent))
    print("alive", flush=True)


if __name__ == "__main__":
    main()
