"""A real Qt program for the desktop tools to use; run as a process, it tells on stdout what happened to it.

`python -m tests.fakes.desktop_app` prints one JSON object a line; the first says that the window is shown.
`hang N` blocks its thread for N seconds, `anew` puts a new window in the place of this one, which is said as
at first, `quit` ends it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import shiboken6
from PySide6.QtCore import QObject, QPoint, QRect, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QLineEdit,
    QListWidget,
    QPlainTextEdit,
    QPushButton,
    QTableWidget,
    QVBoxLayout,
    QWidget,
)

TITLE = "Desktop under test"


def tell(what: str, **more: Any) -> None:
    """Say one thing that happened."""
    print(json.dumps({"event": what, **more}), flush=True)


class Canvas(QWidget):
    """Paints and takes clicks and keys; to accessibility it is a blank."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(120)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def paintEvent(self, event: QPaintEvent) -> None:
        """A blue field."""
        QPainter(self).fillRect(self.rect(), QColor("#2060c0"))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Tell where, on the screen."""
        at = event.globalPosition().toPoint()
        tell("canvas", x=at.x(), y=at.y(), button=event.button().name)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Tell that it was one."""
        tell("double", button=event.button().name)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Tell which way."""
        tell("wheel", x=event.angleDelta().x(), y=event.angleDelta().y())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Tell key and modifiers."""
        tell("key", key=Qt.Key(event.key()).name, held=event.modifiers().value, text=event.text())


class Form(QWidget):
    """The window."""

    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle(TITLE)
        self.button = QPushButton("Count up")
        self.button.clicked.connect(lambda: tell("pressed"))
        twins = [QPushButton("Twin"), QPushButton("Twin")]
        off = QPushButton("Out of order")
        off.setEnabled(False)
        self.check = QCheckBox("Remember")
        self.check.toggled.connect(self._toggled)
        self.line = self._line("Your name", QLineEdit.EchoMode.Normal)
        self.line.textChanged.connect(lambda now: tell("line", text=now))
        self.password = self._line("Your password", QLineEdit.EchoMode.Password)
        self.password.textChanged.connect(lambda now: tell("password", text=now))
        self.code = self._line("Your code", QLineEdit.EchoMode.Normal)
        notes = QPlainTextEdit()
        notes.setAccessibleName("Notes")
        notes.setFixedHeight(50)
        notes.textChanged.connect(lambda: tell("notes", text=notes.toPlainText()))
        items = QListWidget()
        items.setAccessibleName("Colours")
        items.addItems(["red", "green", "blue"])
        items.setFixedHeight(70)
        table = QTableWidget(400, 5)
        table.setAccessibleName("Large table")
        table.setFixedHeight(70)
        self.canvas = Canvas()
        layout = QVBoxLayout(self)
        shown = (
            self.button,
            *twins,
            off,
            self.check,
            self.line,
            self.password,
            self.code,
            notes,
            items,
            table,
        )
        for widget in (*shown, self.canvas):
            layout.addWidget(widget)
        self.resize(420, 760)
        self.move(100, 10)

    def _toggled(self, on: bool) -> None:
        # Told once it is on the screen: what follows may take a picture of it.
        self.check.repaint()
        QApplication.sync()
        tell("toggled", on=on)

    def _line(self, name: str, mode: QLineEdit.EchoMode) -> QLineEdit:
        line = QLineEdit()
        line.setAccessibleName(name)
        line.setEchoMode(mode)
        return line


class Orders(QObject):
    """Brings what is read on stdin to the window's thread."""

    came = Signal(str)

    def __init__(self, form: Form) -> None:
        super().__init__()
        self._form = form
        self.came.connect(self._obey)

    def read(self) -> None:
        """Until stdin ends."""
        for line in sys.stdin:
            self.came.emit(line.strip())
        self.came.emit("quit")

    def _obey(self, order: str) -> None:
        word, _, rest = order.partition(" ")
        if word == "quit":
            QApplication.quit()
        elif word == "hang":
            tell("hanging")
            time.sleep(float(rest))
            tell("awake")
        elif word == "remove":
            self._form.button.deleteLater()
            self._form.button.destroyed.connect(lambda: tell("removed"))
        elif word == "focus":
            self._form.activateWindow()
            getattr(self._form, rest).setFocus()
            tell("focused", on=rest)
        elif word == "fill":
            self._form.password.setText(rest)
        elif word == "anew":
            shiboken6.delete(self._form)
            self._form = shown()


def place(widget: QWidget) -> dict[str, int]:
    """Where a widget is on the screen."""
    box = QRect(widget.mapToGlobal(QPoint(0, 0)), widget.size())
    return {"x": box.x(), "y": box.y(), "width": box.width(), "height": box.height()}


def shown() -> Form:
    """A new window, of which is said where everything is."""
    form = Form()
    form.show()
    form.windowHandle().requestActivate()
    QApplication.processEvents()
    boxes = {name: place(getattr(form, name)) for name in ("button", "line", "password", "code", "canvas")}
    tell("shown", **boxes)
    return form


def main() -> None:
    """Show the window until told to end."""
    application = QApplication(sys.argv)
    application.setApplicationName("desktop-under-test")
    orders = Orders(shown())
    threading.Thread(target=orders.read, daemon=True).start()
    application.exec()


if __name__ == "__main__":
    main()
