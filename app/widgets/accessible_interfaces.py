"""Accessible interfaces that are written in Python, and what keeps them from crashing the program's end.

PySide (6.8 to 6.12) holds every interface that a factory returned until the application ends, and deletes
those that are left then, although Qt's cache goes on to use them: a program that assistive technology had
looked at crashed as it ended. So Qt forgets them before that. For the same reason an interface keeps no
widget: with it, every button would live as long as the program.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from weakref import WeakSet

import shiboken6
from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QApplication

_made: WeakSet[QAccessibleInterface] = WeakSet()


def install_factory(name: str, make: Callable[[QObject], QAccessibleInterface | None]) -> None:
    """Let `make` give objects their interface (None: Qt's own); once for an application, known by `name`."""

    def interface_of(_key: str, thing: QObject) -> QAccessibleInterface | None:
        interface = make(thing)
        if interface is not None:
            _made.add(interface)
        return interface

    app = QApplication.instance()
    if app is not None and not app.property(name):
        app.setProperty(name, True)
        QAccessible.installFactory(interface_of)


def forget_interfaces() -> None:
    """Let Qt forget every interface of ours; it asks for another when it needs one."""
    for interface in list(_made):
        if shiboken6.isValid(interface):
            QAccessible.deleteAccessibleInterface(QAccessible.uniqueId(interface))


# Later than PySide's own end of the application, and so called before it.
atexit.register(forget_interfaces)
