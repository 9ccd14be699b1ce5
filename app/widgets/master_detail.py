"""A list beside its details, or any two panes, with a line between them that can be moved."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QWidget


class MasterDetail(QSplitter):
    """Two panes with a hairline between them. `Screen.remember` keeps where the operator leaves it."""

    def __init__(
        self,
        master: QWidget,
        detail: QWidget,
        sizes: tuple[int, int],
        grows: QWidget | None = None,
        orientation: Qt.Orientation = Qt.Orientation.Horizontal,
    ) -> None:
        """`sizes` are those of the start; `grows` is the pane that takes more room, both without it."""
        super().__init__(orientation)
        self.setChildrenCollapsible(False)
        self.setHandleWidth(1)  # Qt makes thin handles easier to grab than they look
        self.setAccessibleName("Panes")
        for pane in (master, detail):
            self.addWidget(pane)
            if grows is not None:
                self.setStretchFactor(self.count() - 1, int(pane is grows))
        self.setSizes(sizes)

    def set_size(self, pane: QWidget, size: int) -> None:
        """Give one pane this size, and the rest to the other; nothing before they are laid out."""
        if (rest := sum(self.sizes()) - size) > 0:
            self.setSizes([size, rest] if self.widget(0) is pane else [rest, size])
