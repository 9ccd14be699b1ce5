"""A client of the service: the actor of its calls, and how its changes are checked and recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.actors import is_person
from core.audit.entries import Entry
from core.audit.events import ChangeRefused, Event
from core.changes import SignedChange
from core.errors import BadInput, ErrorCode, JournalUnavailable, Refused
from core.ids import new_id
from core.models.devices import Device
from core.policy.agents import no_device
from core.service.agent_connections import Attachment
from core.service.proposals import PlannedChange
from core.service.reserve import Kept
from core.service.service import Service
from core.similar import meant_or_known
from core.text import sentences


def no_such_run(run: str, latest: Sequence[str] = ()) -> BadInput:
    """The error for a run that does not exist, or not for this client; it names the `latest` ones."""
    known = meant_or_known(run, latest, "The latest") if latest else ""
    return BadInput(sentences(f"There is no run {run[:100]}.", known), ErrorCode.NOT_FOUND)


class Client:
    """The state that the API objects of one client share."""

    def __init__(
        self, service: Service, actor: str, credential: str = "", attachment: Attachment | None = None
    ) -> None:
        """`credential` is the digest of the token by which an agent proved itself; empty for people.

        `attachment` is an agent's connection.
        """
        self.service = service
        self.actor = actor
        self._credential = credential
        self.attachment = attachment
        # Identifies the client where it keeps something going: a paused card, live pictures.
        self.reader = new_id()
        # The operator who has signed this connection's challenge (`identify`); empty until then.
        self.operator = ""
        self.challenge = new_id()

    @property
    def is_agent(self) -> bool:
        """Whether this client is an agent, which sees only what is its own."""
        return not is_person(self.actor)

    @property
    def program(self) -> str:
        """The name that an agent's program gives itself; empty for people."""
        return self.attachment.program.words if self.attachment is not None else ""

    def check_standing(self) -> None:
        """Check that an agent was not revoked, and has no new token, since it proved itself.

        Raises:
            Refused: it was (code `agent_unknown`).
        """
        if self._credential:
            self.service.agents.check_credential(self.actor, self._credential)

    def sees(self, device: Device) -> bool:
        """Whether this device exists for this client."""
        return self.service.agents.sees(self.actor, device)

    def device(self, name: str) -> Device:
        """A device that exists for this client.

        Raises:
            BadInput: there is none of that name (code `unknown_device`).
        """
        if not self.is_agent:
            return self.service.fleet.get(name)
        devices = self.service.fleet.devices()
        for device in devices:
            if device.name == name and self.sees(device):
                return device
        seen = [device.name for device in devices if self.sees(device)]
        raise BadInput(no_device(name, seen), ErrorCode.UNKNOWN_DEVICE)

    def check_own(self, actor: str, run: str) -> None:
        """Check that a run of this actor exists for this client: an agent has only its own runs.

        Raises:
            BadInput: it does not; the message is the one of a run that is not known.
        """
        if self.is_agent and actor != self.actor:
            raise no_such_run(run)

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

    def record_stop(self, event: Event, words: str) -> None:
        """Record under this client's actor what `words` say, which holds already.

        Raises:
            JournalUnavailable: neither the journal nor the home's reserve can be written.
        """
        kept = self.service.record_stop(event.entry(self.actor))
        if kept is Kept.NOWHERE:
            raise JournalUnavailable(sentences(f"{words} {kept}"))


class ClientApi:
    """Base of the service's implementations of the API's interfaces; one object per client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._service = client.service
