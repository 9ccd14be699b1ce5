"""Proves to the service which operator is at this window, on each connection.

Until a registered key is unlocked the service knows the window by its user only, as `window:USER`. A proof
holds for one connection and cannot be taken back there, so when the key is locked, or another one unlocked,
the window opens a new connection.
"""

from __future__ import annotations

import asyncio
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.service_client import ConsoleLink
from app.signing.signing_session import SigningSession
from app.state import AppState, Link
from core.approvals.models import Operator
from core.service.console import Console


class Identity(QObject):
    """Follows the unlocked key, the registered operators and the connection.

    Signals:
        changed: `proved` is another operator, or none.
    """

    changed = Signal()

    def __init__(
        self, state: AppState, link: ConsoleLink, keys: SigningSession, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._state, self._link, self._keys = state, link, keys
        self._proved = ""
        self._connection = 0
        self._asking = False
        # While a new connection is being opened.
        self._leaving: asyncio.Future[Any] | None = None
        link.attached.connect(self._attached)
        state.service_changed.connect(self._forget_lost)
        keys.changed.connect(self._follow)
        state.control_changed.connect(self._follow)

    @property
    def proved(self) -> str:
        """The operator that this connection is proved to be; empty where none is."""
        return self._proved

    def _attached(self) -> None:
        self._connection += 1
        self._asking, self._leaving = False, None
        self._take("")
        self._follow()

    def _forget_lost(self) -> None:
        if self._state.service.link is Link.LOST:
            self._take("")

    def _take(self, name: str) -> None:
        if name != self._proved:
            self._proved = name
            self.changed.emit()

    def _wanted(self) -> str:
        """The operator whose key is unlocked, where exactly this key is registered."""
        known = {operator.name: operator.public_key for operator in self._state.operators}
        operator = self._keys.operator
        fits = operator is not None and known.get(operator.name) == operator.public_key
        return operator.name if operator is not None and fits else ""

    def _follow(self) -> None:
        wanted = self._wanted()
        if wanted == self._proved or self._asking or self._leaving or not self._link.connected:
            return
        if self._proved:
            self._leaving = self._link.reattach()
            if self._leaving is not None:
                self._leaving.add_done_callback(self._left)
        elif self._state.home_key:
            self._prove(wanted)

    def _left(self, door: asyncio.Future[Any]) -> None:
        # Where no new connection could be opened the next change of the key tries again. Where one is open,
        # `attached` ends the wait: until its state is read, what is proved here is still the old one's.
        opened = not door.cancelled() and door.exception() is None and door.result()
        if door is self._leaving and not opened:
            self._leaving = None

    def _prove(self, wanted: str) -> None:
        connection, home_key = self._connection, self._state.home_key
        self._asking = True

        async def prove(console: Console) -> Operator:
            challenge = await console.service.challenge()
            return await console.service.identify(self._keys.sign_identity(home_key, challenge))

        def done(operator: Operator) -> None:
            if connection == self._connection:
                self._asking = False
                self._take(operator.name)
                self._follow()

        def failed(error: Any) -> None:
            if connection == self._connection:
                self._asking = False
                # Locked again meanwhile: there is nothing to prove, and nothing went wrong.
                if self._wanted() == wanted:
                    self._link.tell(None, f"prove that {wanted} is at this window", error)

        self._link.ask(prove, done, failed)
