"""The part of the door that is about devices: where they dial in, which are known, why one cannot be reached.

What widens trust (pairing, listening) is in the journal before it counts. What narrows it (revoking) counts
at once, whatever state the journal is in, and is recorded as soon as it can be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.aip.dialler import DialAddress
from core.aip.pairing import Pairing as Line
from core.aip.pairing import decode_pairing, encode_pairing
from core.audit.entries import Kind, NewEntry
from core.changes import SignedChange
from core.errors import BadInput, ErrorCode, JournalUnavailable, Refused
from core.fleet.models import (
    Check,
    Device,
    DeviceDetails,
    DeviceSettings,
    Listening,
    Pairing,
    Refusal,
)
from core.fleet.registry import THIS_COMPUTER, Known, with_settings
from core.ids import new_id
from core.service import proposals
from core.service.console import Console, DeviceForgotten, LivePicture
from core.service.proposals import Wanted
from core.service.remembering import changes_before
from core.service.service import Service

# The longest name of a host has 253.
_LONGEST_ADDRESS = 300


class DeviceDoor(Console):
    """What of one client's door is about devices."""

    def __init__(self, service: Service, actor: str) -> None:
        self._service = service
        self._actor = actor
        self._reader = new_id()
        # Proved by a signature over the challenge of this connection; empty until then.
        self._operator = ""
        self._challenge = new_id()

    async def listening(self) -> Listening:
        return self._service.links.listening()

    async def listen(self, address: str, signed: SignedChange | None = None) -> Listening:
        self._only_people("choose where to listen")
        service = self._service
        if len(address) > _LONGEST_ADDRESS:
            # The journal tells what was tried, and need not hold whatever is pasted by mistake.
            raise BadInput(f"An address to listen at has at most {_LONGEST_ADDRESS} characters.")
        service.home.settings()
        before = service.links.listening().address
        told: dict[str, Any] = {"from": before, "to": address.strip()}
        try:
            await service.links.check_listening(address)
        except BadInput as error:
            # What cannot become so is one entry, not a change and its undoing.
            await self._record(Kind.LISTENING_CHANGED, None, {**told, "problem": error.message})
            raise
        told |= await self._signed(proposals.listening(service, address), signed)
        await self._record(Kind.LISTENING_CHANGED, None, told)
        if "signed" in told:
            service.accepted_settings["listen"] = address.strip()
        try:
            found = await service.links.listen(address)
        except BadInput as error:
            back = {"from": address.strip(), "to": before, "problem": error.message}
            await self._record(Kind.LISTENING_CHANGED, None, back)
            raise
        # Only what could be listened at is what the next start shall try.
        try:
            service.home.set_listen(address)
        except BadInput as error:
            raise BadInput(
                f"It listens at {address.strip()} until it ends, not after: {error.message}"
            ) from error
        return found

    async def pair(self, name: str, settings: DeviceSettings, signed: SignedChange | None = None) -> Pairing:
        self._only_people("pair a device")
        service = self._service
        known = proposals.paired_as(service, name, settings)
        heard_at = service.links.listening()
        if not heard_at.url:
            raise BadInput(
                f"This console listens nowhere, so no device can dial in: {heard_at.problem} "
                "Choose an address with quarterdeck devices listen HOST:PORT, or in Settings."
            )
        async with service.registry.turn(name):
            proof = await self._signed(proposals.pairing(service, name, settings), signed)
            await self._record(Kind.DEVICE_PAIRED, name, {"direction": "in", **_shown(known), **proof})
            # Looked at anew: what is known of it may have changed while this was written.
            token = service.registry.pair(proposals.paired_as(service, name, settings))
            await service.links.hang_up(name, "it was paired anew")
            service.links.know(name)
        line = encode_pairing(Line(heard_at.url, name, token, heard_at.fingerprint))
        return Pairing(
            name=name,
            string=line,
            url=heard_at.url,
            stock_url=f"{heard_at.url}?token={token}",
            command="quarterdeck-device --pair -",
            fingerprint=heard_at.fingerprint,
        )

    async def pair_listening(
        self, name: str, string: str, settings: DeviceSettings, signed: SignedChange | None = None
    ) -> Device:
        self._only_people("pair a device")
        service = self._service
        wanted = proposals.pairing_listening(service, name, string, settings)
        line = decode_pairing(string)
        known = proposals.paired_as(service, name, settings)
        address = DialAddress(name, line.url, line.token, line.fingerprint)
        address.check()
        body = {"direction": "out", "url": address.shown, "fingerprint": line.fingerprint, **_shown(known)}
        async with service.registry.turn(name):
            body |= await self._signed(wanted, signed)
            await self._record(Kind.DEVICE_PAIRED, name, body)
            known = proposals.paired_as(service, name, settings)
            service.registry.pair_listening(known, line.url, line.token, line.fingerprint)
            await service.links.hang_up(name, "it was paired anew")
            service.links.know(name)
            service.links.dial(name)
        return service.fleet.get(name)

    async def set_device(
        self, name: str, settings: DeviceSettings, signed: SignedChange | None = None
    ) -> Device:
        self._only_people("change a device")
        service = self._service
        known = service.registry.get(proposals.remote(name))
        if with_settings(known, settings) != known:
            proof = await self._signed(proposals.device_settings(service, name, settings), signed)
            body = {**settings.model_dump(mode="json", exclude_none=True), **proof}
            await self._record(Kind.DEVICE_SET, name, body)
            # It may have been revoked, paired anew or forgotten while this was written, and stays that.
            known = service.registry.get(name)
            changed = with_settings(known, settings)
            service.registry.put(changed)
            service.links.know(name)
            if changed.agent != known.agent:
                service.links.introduce_again(name)
        return service.fleet.get(name)

    async def revoke(self, name: str) -> Device:
        self._only_people("revoke a device")
        service = self._service
        service.registry.get(proposals.remote(name))
        unwritten = _shut_out(service.registry.revoke, name)
        await service.links.hang_up(name, "it was revoked")
        # Whoever forgot it meanwhile has shut it out, too.
        if service.registry.find(name) is not None:
            service.links.know(name)
        await self._record_late(Kind.DEVICE_REVOKED, name)
        if unwritten is not None:
            raise unwritten
        return service.fleet.get(name)

    async def forget(self, name: str) -> None:
        self._only_people("forget a device")
        service = self._service
        unwritten = _shut_out(service.registry.forget, proposals.remote(name))
        if unwritten is not None and unwritten.code is ErrorCode.UNKNOWN_DEVICE:
            # Perhaps only shown any more: what could not be written when it was forgotten has been since.
            service.fleet.get(name)
            unwritten = None
        async with service.registry.turn(name):
            if service.registry.find(name) is not None:
                # Somebody who had begun before us has paired it meanwhile.
                unwritten = _shut_out(service.registry.forget, name)
            await service.links.hang_up(name, "it was forgotten")
            service.links.forget(name)
            if unwritten is None:
                await service.fleet.forget(name)
        if unwritten is None:
            service.hub.publish(DeviceForgotten(name=name))
        await self._record_late(Kind.DEVICE_FORGOTTEN, name)
        if unwritten is not None:
            raise unwritten

    async def reconnect(self, name: str) -> Device:
        self._only_people("reconnect a device")
        service = self._service
        service.fleet.get(name)
        if name == THIS_COMPUTER:
            await service.fleet.relist(name)
        else:
            await service.links.reconnect(name)
        return service.fleet.get(name)

    async def device_details(self, name: str) -> DeviceDetails:
        service = self._service
        device = service.fleet.get(name)
        known = service.registry.find(name)
        await service.journal.settle()
        earlier = await changes_before(service.journal, name, service.started_at)
        fingerprint = ""
        if known is not None:
            dialled = known.direction == "out"
            fingerprint = known.fingerprint if dialled else service.links.listening().fingerprint
        return DeviceDetails(
            device=device,
            history=[*earlier, *service.fleet.history(name)],
            refusals=service.links.refusals.of(name),
            fingerprint=fingerprint,
            paired_at=known.paired_at if known and known.paired else None,
        )

    async def refusals(self) -> list[Refusal]:
        return self._service.links.refusals.newest()

    async def doctor(self, name: str) -> list[Check]:
        self._service.fleet.get(name)
        return await self._service.links.doctor(name)

    async def watch_pictures(self, devices: list[str], anew: bool = False) -> list[LivePicture]:
        self._only_people("watch screens")
        return self._service.live_pictures.watch(self._reader, self._actor, devices, anew)

    async def _signed(self, wanted: Wanted, signed: SignedChange | None) -> dict[str, Any]:
        """The signature under a change that loosens, as its entry has to hold it; nothing for another one.

        Raises:
            Refused: it has to be signed, and is not; a signature that does not count is journalled.
        """
        if not wanted.loosens:
            return {}
        try:
            return self._service.gate.check(wanted.change, signed)
        except Refused as error:
            if signed is not None:
                body = {"change": wanted.change.model_dump(mode="json"), "problem": error.message}
                body["signed"] = signed.model_dump(mode="json")
                await self._record(Kind.CHANGE_REFUSED, None, body)
            raise

    async def _record(self, kind: Kind, device: str | None, body: dict[str, Any]) -> None:
        await self._service.journal.append(NewEntry(kind=kind, actor=self._actor, device=device, body=body))

    async def _record_late(self, kind: Kind, device: str) -> None:
        """Record what has happened already; it waits where the journal cannot be written now."""
        entry = NewEntry(kind=kind, actor=self._actor, device=device)
        try:
            await self._service.journal.append(entry)
        except JournalUnavailable:
            self._service.dispatcher.keep([entry])

    def _only_people(self, what: str) -> None:
        if self._actor.startswith("agent:"):
            raise Refused(f"An agent may not {what}.")


def _shut_out(narrow: Callable[[str], object], name: str) -> BadInput | None:
    """Trust a device less. It counts also where it cannot be written; gives what is wrong then."""
    try:
        narrow(name)
    except BadInput as error:
        return error
    return None


def _shown(known: Known) -> dict[str, Any]:
    """What of a device may stand in the journal: nothing that proves who it is."""
    told = {"tags": known.tags, "production": known.production, "agent": known.agent}
    return {key: value for key, value in told.items() if value not in (None, "", [])}
