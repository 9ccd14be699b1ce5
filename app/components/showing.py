"""Showing a widget that may have no parent yet."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget


def show_or_hide(widget: QWidget, shown: bool) -> None:
    """Like `setVisible`, but a widget without a parent is left to appear with its parent later.

    `setVisible(True)` would make it a window of its own until then, which takes the activation from ours.
    """
    if shown and widget.parentWidget() is None and not widget.isVisible():
        widget.setAttribute(Qt.WidgetAttribute.WA_WState_ExplicitShowHide, False)
    else:
        widget.setVisible(shown)
