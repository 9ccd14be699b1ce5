"""What stands in the place of the devices while none is shown: why, and what to do next."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.components.empty_state import EmptyState
from app.components.label import surface
from app.look.theme import theme_of
from app.shell.words import plural


class NoDevices(QWidget):
    """Lies over the list below its heads, so that the list goes on to follow what changes.

    Signals:
        acted(key): `pair`: pair a device; `clear`: take the filter away.
    """

    acted = Signal(str)

    def __init__(self, listing: QWidget) -> None:
        super().__init__(listing)
        surface(self, "base")
        self._listing = listing
        self._key = ""
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._state: EmptyState | None = None
        listing.installEventFilter(self)
        self.hide()

    def words(self) -> str:
        """What it says; empty while it is not shown."""
        return self._state.accessibleName() if self._state is not None and not self.isHidden() else ""

    def show_for(self, loaded: bool, shown: int, total: int) -> None:
        """Say why no device is shown; go when one is."""
        key = "" if shown or not loaded else "clear" if total else "pair"
        if key and (key != self._key or self._state is None):
            self._say(key)
        if key == "clear" and self._state is not None:
            them = "The one device is" if total == 1 else f"All {plural(total, 'device')} are"
            self._state.say("No device matches this filter.", f"{them} hidden by it. Esc takes it away.")
        self._key = key
        if key:
            self._place()
            self.raise_()
        self.setVisible(bool(key))

    def _say(self, key: str) -> None:
        if self._state is not None:
            self._column.removeWidget(self._state)
            self._state.deleteLater()
        if key == "pair":
            line = "A device gets a name here, and a string to paste there. It dials in, or is dialled."
            self._state = EmptyState("No device is known yet.", line, ("pair", "Pair a device…", "add"))
        else:
            self._state = EmptyState("", "", ("clear", "Clear the filter", "clear"))
        self._state.acted.connect(self.acted)
        self._column.addWidget(self._state)

    def _place(self) -> None:
        head = theme_of(self).metrics.table_head
        self.setGeometry(self._listing.rect().adjusted(0, head, 0, 0))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the list."""
        if event.type() == QEvent.Type.Resize and not self.isHidden():
            self._place()
        return super().eventFilter(watched, event)
