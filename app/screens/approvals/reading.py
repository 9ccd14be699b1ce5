"""Tells the service which card is being read, so that its clock stands still meanwhile."""

from __future__ import annotations

from app.link import ConsoleLink
from app.state import AppState


class Reading:
    """At most one request is read at a time."""

    def __init__(self, state: AppState, link: ConsoleLink) -> None:
        self._state, self._link = state, link
        self._held = ""

    def read(self, approval: str) -> None:
        """From now on this request is being read; empty for none."""
        if approval == self._held:
            return
        before, self._held = self._held, approval
        if before in self._state.approvals:
            self._tell(before, reading=False)
        if approval:
            self._tell(approval, reading=True)

    def forget(self) -> None:
        """After a new connection the service knows nothing of what was being read."""
        self._held = ""

    def _tell(self, approval: str, reading: bool) -> None:
        self._link.ask(
            lambda console: console.hold(approval, reading),
            on_error=lambda error: None,  # the card shows whether the clock stands, as the service says it
            what="say that the card is read",
        )
