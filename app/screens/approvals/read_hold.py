"""Tells the service which card is being read, so that its requests' clocks stand still meanwhile."""

from __future__ import annotations

from app.service_client import ConsoleLink
from app.state import AppState


class ReadHold:
    """At most one card is read at a time; a group's card holds every request on it."""

    def __init__(self, state: AppState, link: ConsoleLink) -> None:
        self._state, self._link = state, link
        self._held: tuple[str, ...] = ()

    def read(self, *approvals: str) -> None:
        """From now on these requests are being read, and no others."""
        wanted = tuple(approvals)
        if wanted == self._held:
            return
        before, self._held = self._held, wanted
        for gone in before:
            if gone not in wanted and gone in self._state.approvals:
                self._tell(gone, reading=False)
        for come in wanted:
            if come not in before:
                self._tell(come, reading=True)

    def forget(self) -> None:
        """After a new connection the service knows nothing of what was being read."""
        self._held = ()

    def _tell(self, approval: str, reading: bool) -> None:
        self._link.ask(
            lambda console: console.approvals.hold(approval, reading),
            on_error=lambda error: None,  # the card shows whether the clock stands, as the service says it
            what="say that the card is read",
        )
