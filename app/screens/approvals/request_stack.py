"""What stands beside the queue: the open card, or what is true while none is open."""

from __future__ import annotations

from PySide6.QtWidgets import QStackedWidget

from app.screens.approvals.decision_history import NothingWaits
from app.screens.approvals.request_controller import RequestController
from app.text import plural
from app.widgets.empty_state import EmptyState
from app.widgets.labels import set_surface

_CLEAR = ("all", "Clear the filter", "clear")


class NothingOpen(EmptyState):
    """No card is open while a filter narrows the queue: what is shown, what else waits, the way back.

    Signals (as `EmptyState`): acted("all"): the operator wants to see all again.
    """

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")

    def show_counts(self, shown: int, hidden: int) -> None:
        """Say how many are shown, and how many wait that are not."""
        rest = f"{plural(hidden, 'request')} wait{'s' if hidden == 1 else ''} that the filter leaves out."
        if not shown:
            self.say("No request matches this filter.", rest, _CLEAR)
            return
        matches = f"{plural(shown, 'request')} match{'es' if shown == 1 else ''} this filter."
        self.say(matches, f"↓ opens the first. {rest}" if hidden else "↓ opens the first.", _CLEAR)


class RequestStack(QStackedWidget):
    """One of three pages. That nothing waits is only said when nothing does."""

    def __init__(self, pane: RequestController) -> None:
        super().__init__()
        self._pane = pane
        self.nothing, self.narrowed = NothingWaits(), NothingOpen()
        for page in (self.nothing, pane, self.narrowed):
            self.addWidget(page)
        self.setMinimumWidth(480)

    def show_card(self) -> None:
        """A card is open."""
        self.setCurrentWidget(self._pane)

    def show_rest(self, narrows: bool, shown: int, hidden: int) -> None:
        """No card is open: so many are shown in the queue, which a filter `narrows`, and so many are not."""
        self.narrowed.show_counts(shown, hidden)
        self.setCurrentWidget(self.narrowed if narrows and shown + hidden else self.nothing)
