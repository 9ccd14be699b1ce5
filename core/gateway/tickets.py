"""Tickets: opaque names of an agent's runs, which hold as long as the agent's token and the journal.

A ticket is derived from the run and the agent's token, so that it survives restarts, is stored nowhere, and
is of no use to another agent. The service checks in addition that the run is the agent's own.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from hashlib import sha256

from core.errors import BadInput, ErrorCode

_PREFIX = "t-"
_MAC_BYTES = 12
_LONGEST = 200


class Tickets:
    """Makes and checks the tickets of one agent."""

    def __init__(self, token: str) -> None:
        self._key = sha256(b"quarterdeck.ticket/1\0" + token.encode()).digest()

    def of(self, run: str) -> str:
        """The ticket of a run; always the same one."""
        data = self._mac(run) + run.encode()
        return _PREFIX + base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    def run(self, ticket: str) -> str:
        """The run of a ticket.

        Raises:
            BadInput: it is not a ticket of this agent (code `not_found`).
        """
        try:
            if not ticket.startswith(_PREFIX) or len(ticket) > _LONGEST:
                raise ValueError
            text = ticket.removeprefix(_PREFIX)
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            run = data[_MAC_BYTES:].decode()
            if not hmac.compare_digest(data[:_MAC_BYTES], self._mac(run)) or self.of(run) != ticket:
                raise ValueError
        except (ValueError, binascii.Error) as error:
            raise BadInput(
                "This is not a ticket of yours. Call wait_run without a ticket to list your runs.",
                ErrorCode.NOT_FOUND,
            ) from error
        return run

    def _mac(self, run: str) -> bytes:
        return hmac.new(self._key, run.encode(), sha256).digest()[:_MAC_BYTES]
