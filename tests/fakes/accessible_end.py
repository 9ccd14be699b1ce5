"""A program that assistive technology looks at and that then ends: `python -m tests.fakes.accessible_end`."""

from __future__ import annotations

import gc
import weakref

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget

from app.theme.theme import Theme
from app.widgets.buttons import Button
from app.widgets.fields import DropDown


def looked_at(count: int) -> list[QWidget]:
    """Windows with a button and a drop-down each, every one of which was looked at."""
    windows = []
    for number in range(count):
        window = QWidget()
        rows = QVBoxLayout(window)
        for part in (Button(f"press {number}"), DropDown(f"choice {number}")):
            rows.addWidget(part)
            assert QAccessible.queryAccessibleInterface(part).isValid()
        windows.append(window)
    return windows


if __name__ == "__main__":
    application = QApplication([])
    theme = Theme("dark", "comfortable", True, parent=application)
    theme.apply(application)
    QAccessible.setActive(True)
    gone = looked_at(1)
    button = weakref.ref(gone[0].findChild(Button))
    gone.pop().deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()
    print("let go" if button() is None else "kept", flush=True)
    # As a program ends, some windows are to be deleted and are not yet.
    for window in looked_at(20):
        window.deleteLater()
