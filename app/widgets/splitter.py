"""A splitter that remembers where it was left, for each screen."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSettings, Qt
from PySide6.QtWidgets import QSplitter, QWidget


class Splitter(QSplitter):
    """Panes with a hairline between them; sizes are kept in the settings under `key`."""

    def __init__(
        self,
        key: str,
        orientation: Qt.Orientation = Qt.Orientation.Horizontal,
        settings: QSettings | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(orientation, parent)
        self._key, self._settings = f"{key}/split", settings
        self.setChildrenCollapsible(False)
        self.setHandleWidth(1)  # Qt makes thin handles easier to grab than they look
        self.setAccessibleName("Panes")
        self.splitterMoved.connect(lambda *_: self.save())

    def add_panes(self, panes: Sequence[tuple[QWidget, int, int]]) -> None:
        """Add (pane, first size, stretch factor), then take back the remembered sizes."""
        for number, (pane, _, stretch) in enumerate(panes):
            self.addWidget(pane)
            self.setStretchFactor(number, stretch)
        self.setSizes([size for _, size, _ in panes])
        self.restore()

    def save(self) -> None:
        """Keep the sizes."""
        if self._settings is not None:
            self._settings.setValue(self._key, self.saveState())

    def restore(self) -> bool:
        """Take back the sizes; False when none are kept."""
        kept = self._settings.value(self._key) if self._settings is not None else None
        return self.restoreState(kept) if kept is not None else False
