"""How the operator has been deciding: quiet lines in the queue's foot, a warning when cards are not read."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.query import Query, quietly
from app.service_client import ConsoleLink
from app.theme.tokens import SPACE
from app.widgets.labels import ElidedLabel, Label
from app.widgets.layouts import hbox, vbox
from core.approvals.models import Fatigue


class DecisionStats(QWidget):
    """Decided, approved, the usual time to decide; what was approved in under a second."""

    def __init__(self) -> None:
        super().__init__()
        self._session = (0, 0)
        self._known: Fatigue | None = None
        self._fatigue: Query[Fatigue | None] | None = None
        self.decided = ElidedLabel("", "meta", "text3")
        self.median = Label("", "meta", "text3")
        self.hasty = Label("", "meta", "text3")
        self.warning = Label("", "meta", "warn", wrap=True)
        row = hbox((self.decided, 1), self.median, spacing=SPACE.small)
        vbox(row, self.hasty, self.warning, parent=self, spacing=2)
        self._show()

    def show_session(self, count: int, approved: int) -> None:
        """What this window has decided since it was opened."""
        self._session = (count, approved)
        self._show()

    def read(self, link: ConsoleLink, operator: str | None) -> None:
        """Ask how the operator whose key is unlocked has been deciding; without one, nothing is known."""
        if self._fatigue is None:
            # It measures and warns; without it everything works.
            self._fatigue = Query(self, link, self.show_fatigue, quietly, "read how decisions were made")
        self._fatigue.cancel()
        if operator is None:
            self.show_fatigue(None)
        else:
            self._fatigue.load(lambda console: console.approvals.fatigue(operator))

    def show_fatigue(self, known: Fatigue | None) -> None:
        """How the unlocked operator has been deciding in the last hour; None when that is not known."""
        self._known = known
        self._show()

    def _show(self) -> None:
        known = self._known
        count, approved = self._session
        self.decided.set_text(f"This session: {count} decided, {approved} approved")
        if known is not None and known.decided:
            share = round(100 * known.approved / known.decided)
            self.decided.set_text(f"Last hour: {known.decided} decided, {share} % approved")
        self.median.setText(f"median {known.median_s:.0f} s" if known is not None and known.decided else "")
        hasty = known.hasty if known is not None else 0
        self.hasty.setText(f"{hasty} approved in under a second")
        self.hasty.setVisible(hasty > 0 and not (known is not None and known.warning))
        warning = known.warning if known is not None else ""
        self.warning.setText(f"{warning} Take your time." if warning else "")
        self.warning.setVisible(bool(warning))
        self.setAccessibleName(" ".join([self.decided.text(), self.median.text(), self.warning.text()]))
