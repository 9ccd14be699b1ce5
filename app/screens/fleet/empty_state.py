"""What stands in the place of the devices while none is shown: why, and what to do next."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QWidget

from app.text import plural
from app.theme.theme import theme_of
from app.widgets.action import Action
from app.widgets.empty_state import EmptyState
from app.widgets.labels import set_surface


class NoDevices(EmptyState):
    """Lies over the list below its heads, so that the list goes on to follow what changes.

    Signals (as `EmptyState`): acted("clear"): take the filter away.
    """

    def __init__(self, listing: QWidget, pair: Action) -> None:
        super().__init__(parent=listing)
        self._pair = pair
        set_surface(self, "base")
        self._listing = listing
        listing.installEventFilter(self)
        self.hide()

    def show_for(self, loaded: bool, shown: int, total: int) -> None:
        """Say why no device is shown; go when one is."""
        if not loaded:
            self.say("Reading the devices…", "They are shown as soon as the service answers.")
        elif total:
            them = "The one device is" if total == 1 else f"All {plural(total, 'device')} are"
            line = f"{them} hidden by it. Esc takes it away."
            self.say("No device matches this filter.", line, ("clear", "Clear the filter", "clear"))
        else:
            line = "A device gets a name here, and a string to paste there. It dials in, or is dialled."
            self.say("No device is known yet.", line, (self._pair, "Pair a device…", "add"))
        if not shown:
            self._cover()
            self.raise_()
        self.setVisible(not shown)

    def _cover(self) -> None:
        head = theme_of(self).metrics.table_head
        self.setGeometry(self._listing.rect().adjusted(0, head, 0, 0))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the list."""
        if event.type() == QEvent.Type.Resize and not self.isHidden():
            self._cover()
        return super().eventFilter(watched, event)
