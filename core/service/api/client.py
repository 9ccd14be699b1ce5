"""A client of the service: the actor of its calls, and how its changes are checked and recorded."""

from __future__ import annotations

from typing import Any

from core.audit.entries import Entry
from core.audit.events import ChangeRefused, Event
from core.changes import SignedChange
from core.errors import Refused
from core.ids import new_id
from core.service.proposals import PlannedChange
from core.service.service import Service


class Client:
    """What the API objects of one client share."""

    def __init__(self, service: Service, actor: str) -> None:
        self.service = service
        self.actor = actor
        # Identifies the client where it keeps something going: a paused card, live pictures.
        self.reader = new_id()
        # The operator who has signed this connection's challenge (`identify`); empty until then.
        self.operator = ""
        self.challenge = new_id()

    async def signed(self, planned: PlannedChange, signed: SignedChange | None) -> dict[str, Any]:
        """Check the signature of a change that loosens security; returns the proof for its journal entry.

        The proof is empty for a change that loosens nothing.

        Raises:
            Refused: a signature is needed and is missing or invalid; an invalid signature is recorded.
        """
        if not planned.loosens:
            return {}
        try:
            return self.service.gate.check(planned.change, signed)
        except Refused as error:
            if signed is not None:
                refused = ChangeRefused(
                    change=planned.change.model_dump(mode="json"),
                    problem=error.message,
                    signed=signed.model_dump(mode="json"),
                )
                await self.record(refused)
            raise

    async def record(self, event: Event, device: str | None = None) -> Entry:
        """Write an entry under this client's actor.

        Raises:
            JournalUnavailable: the journal cannot be written.
        """
        return await self.service.journal.append(event.entry(self.actor, device=device))


class ClientApi:
    """Base of the service's implementations of the API's interfaces; one object per client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._service = client.service
