"""The saved pairing of a device that dials, read again for each attempt, and the second pin of its console.

A console that is to get another certificate announces it over the living link, which the present pin
authenticates (`NextPin`). From then on the device accepts both certificates. Once the console has accepted a
registration over a link with the next certificate, the earlier pin is dropped.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from core.aip.extensions import NextPin
from core.aip.pairing import Pairing
from core.changes import ChangeKind, SignedChange, next_certificate_change
from core.device.config import PinnedOperator
from core.device.credentials import CredentialStore, SecondPin
from core.errors import BadInput, ErrorCode, Refused
from core.log import Logger
from core.statements import verify_signature
from core.tokens import token_digest

log = Logger(__name__)


class ConsolePins:
    """The console of a saved pairing: where it is, and the certificates by which this device knows it."""

    def __init__(self, trust: CredentialStore, operators: Sequence[PinnedOperator] = ()) -> None:
        """`operators`: if there are any, only a certificate that one of them signed is taken."""
        self._trust = trust
        self._operators = operators

    def pairing(self) -> Pairing | None:
        """The pairing as it is saved now; None if it was forgotten.

        Raises:
            BadInput: the file exists but cannot be used.
        """
        return self._trust.pairing()

    def fingerprints(self, pairing: Pairing) -> tuple[str, ...]:
        """The certificates that are accepted for this pairing, the paired one first; none without TLS."""
        if not pairing.fingerprint:
            return ()
        second = self._second(pairing)
        more = (second.fingerprint,) if second is not None and second.fingerprint else ()
        return (pairing.fingerprint, *more)

    def take(self, parameters: Mapping[str, Any], pairing: Pairing, seen: str) -> None:
        """Take the console's next certificate. `seen` is the fingerprint of the present link's.

        Raises:
            BadInput: the announcement is malformed, or it cannot be saved.
            Refused: it does not follow the certificate of this link, is an earlier one, or no pinned operator
                has signed it.
        """
        try:
            offer = NextPin.model_validate(parameters)
        except ValidationError as error:
            raise BadInput("The announcement of a certificate cannot be read.") from error
        if not hmac.compare_digest(offer.before, seen):
            raise _refused("The announced certificate follows another one than this link's")
        second = self._second(pairing)
        if second is not None and offer.number <= second.number:
            if (offer.number, offer.fingerprint) == (second.number, second.fingerprint):
                return
            raise _refused("An announcement at least as new was taken before")
        if self._operators:
            self._check_signed(offer)
        self._trust.save_second_pin(
            pairing, SecondPin(token_digest(pairing.token), offer.fingerprint, offer.number)
        )
        log.info("the console's next certificate is accepted as well", fingerprint=offer.fingerprint)

    def used(self, pairing: Pairing, seen: str) -> Pairing:
        """Drop the earlier pin if a link with the second one was registered; returns the pairing from now on.

        Raises:
            BadInput: it cannot be saved.
        """
        second = self._second(pairing)
        if second is None or not second.fingerprint or second.fingerprint != seen:
            return pairing
        renewed = Pairing(pairing.url, pairing.name, pairing.token, seen)
        # In this order: after a crash in between, the second pin is the paired one, which does no harm. The
        # number stays, against an earlier announcement.
        self._trust.renew_pairing(pairing, renewed)
        self._trust.save_second_pin(renewed, SecondPin(second.paired, "", second.number))
        log.info("the console showed its next certificate; the earlier one is dropped", fingerprint=seen)
        return renewed

    def _second(self, pairing: Pairing) -> SecondPin | None:
        """The second pin, if it is of this pairing."""
        second = self._trust.second_pin()
        return second if second is not None and second.paired == token_digest(pairing.token) else None

    def _check_signed(self, offer: NextPin) -> None:
        try:
            signed = SignedChange.model_validate(offer.approval)
        except ValidationError as error:
            raise _refused("No operator's signature came with the announced certificate") from error
        statement = signed.statement
        known = any(
            operator.name == statement.approver
            and verify_signature(statement, signed.signature, operator.public_key)
            for operator in self._operators
        )
        if not known:
            raise _refused("The announced certificate is signed by none of this device's pinned operators")
        change = statement.change
        if change.kind is not ChangeKind.CERTIFICATE or change != next_certificate_change(
            offer.before, offer.fingerprint
        ):
            raise _refused("What the operator signed is another certificate")


def _refused(words: str) -> Refused:
    return Refused(f"{words}; it is not taken.", ErrorCode.DENIED_BY_DEVICE)
