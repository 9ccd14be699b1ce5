"""What loosens is signed: one way from what the operator wishes to the signature under exactly that.

    mutation.carry(
        lambda: self.nav.signing.carry_out(
            pairing_change(name, settings),
            lambda console, signed: console.devices.pair(name, settings, signed),
        )
    )

The service says what a wish would come to; it is compared with the wish, shown in a sheet, and signed there.
A change that only tightens needs no signature and is not asked about. Each signature is for one act.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.qt_loop import ended
from app.query import Declined
from app.service_client import ConsoleLink
from app.signing.press_guard import PressGuard
from app.signing.signing_session import SigningSession
from app.state import AppState
from app.widgets.text_diff import FileDiff, diff_of
from core.canonical_json import sha256_hex
from core.changes import Change, ChangeKind, Proposal, SignedChange, check_proposal
from core.errors import ErrorCode, Refused
from core.service.console import Console

Answer = TypeVar("Answer")


class NotSigned(Declined):
    """The operator did not sign; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("It was not signed; nothing was changed.", ErrorCode.SIGNATURE_REQUIRED)


class ChangeSigning(QObject):
    """Asks the operator for the signature under a change, in a sheet of the window."""

    def __init__(
        self, window: QWidget, state: AppState, link: ConsoleLink, keys: SigningSession, by_hand: PressGuard
    ) -> None:
        super().__init__(window)
        self._window, self._state, self._link, self._keys = window, state, link, keys
        self._by_hand = by_hand

    async def carry_out(
        self,
        wish: Change,
        act: Callable[[Console, SignedChange | None], Awaitable[Answer]],
        text: str = "",
        words: str = "",
    ) -> Answer:
        """Have a change signed where it has to be, then make it with `act`; the work of a `Mutation`.

        Raises:
            Declined: the operator did not sign.
            QuarterdeckError: as `sign_change`, and what the service answers to `act`.
        """
        signed = await self.sign_change(wish, text, words)
        return await self._link.perform(lambda console: act(console, signed))

    async def sign_change(self, wish: Change, text: str = "", words: str = "") -> SignedChange | None:
        """The signature under a change, good for that one act; None where the change loosens nothing.

        `text` is the policy's text, or the string of a device that listens, where the wish is about one.
        `words` say what follows from the change, where the service does not.

        Raises:
            NotSigned: the operator did not sign.
            Refused: the service proposes something else than `wish`; nothing was signed.
            QuarterdeckError: the wish cannot be carried out.
        """
        proposal = await self._link.perform(lambda console: console.service.propose(wish, text))
        check_proposal(wish, proposal)
        if not proposal.needs_signature:
            return None
        diff = await self._difference(proposal, text) if wish.kind is ChangeKind.POLICY else None
        from app.signing.sign_dialog import SIGNED, SignDialog  # with the difference view, so not at start-up

        sheet = SignDialog(
            self._window, proposal, self._keys, self._state, self._link, self._by_hand, words, diff
        )
        sheet.begin()
        if await ended(sheet.finished) != SIGNED or sheet.signed is None:
            raise NotSigned
        return sheet.signed

    async def _difference(self, proposal: Proposal, text: str) -> FileDiff:
        """The lines that differ between the accepted policy and `text`, which are what is signed.

        Raises:
            Refused: another policy has been accepted since the change was proposed.
        """
        found = await self._link.perform(lambda console: console.policy.text())
        if proposal.change.before.get("sha256") != sha256_hex(found.accepted.encode()):
            raise Refused("Another policy was accepted meanwhile; look again.", ErrorCode.APPROVAL_INVALID)
        return await asyncio.to_thread(diff_of, found.accepted, text)
