"""The calls about devices: listening address, pairing, settings, review, revocation and diagnosis.

Changes that extend trust (pairing, listening) are written to the journal before they take effect. Changes
that reduce trust (revoking) take effect at once, even if the journal cannot be written, and are recorded as
soon as it can be.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from core.aip.connector import DialAddress
from core.aip.pairing import Pairing as Line
from core.aip.pairing import decode_pairing, encode_pairing
from core.audit.events import (
    CertificateMade,
    CertificateSwitched,
    DeviceBound,
    DevicePaired,
    DeviceRevoked,
    DeviceSet,
    ListeningChanged,
)
from core.audit.events import DeviceForgotten as DeviceForgottenEvent
from core.changes import SignedChange
from core.errors import BadInput, JournalUnavailable
from core.fleet.known_devices import THIS_COMPUTER, KnownDevice, paired_by, with_settings
from core.fleet.models import (
    Certificates,
    Check,
    ContractChange,
    DeviceDetails,
    DeviceSettings,
    Listening,
    Pairing,
    Refusal,
    ToolDescription,
    ToolHit,
)
from core.fleet.tool_scope import scope_of, undo_of
from core.log import Logger
from core.models.device_filter import parse_filter
from core.models.devices import Device, Machine
from core.models.tool_lookup import missing_tool, tool_named
from core.models.tools import Tool
from core.service import proposals
from core.service.api.client import Client, ClientApi
from core.service.api.events import DeviceForgotten
from core.service.api.models import LivePicture
from core.service.console import DevicesApi
from core.service.device_history import changes_before, past_calls, past_results
from core.settings import set_listen
from core.text import plural
from core.tokens import token_digest

log = Logger(__name__)

# Characters. A host name has at most 253.
_LONGEST_ADDRESS = 300
_MOST_NAMED = 20


class LocalDevices(ClientApi, DevicesApi):
    """Implements `DevicesApi` in the service."""

    async def tools(self, device: str) -> list[Tool]:
        self._client.device(device)
        return self._service.fleet.tools(device)

    async def search(self, words: str, targets: str = "", limit: int = 20) -> list[ToolHit]:
        service = self._service
        # None is every device, which only people see.
        narrowed = targets.strip() or self._client.is_agent
        among = {device.name for device in matching_devices(self._client, targets)} if narrowed else None
        if not service.fleet.knows_results:
            service.fleet.remember_results(await past_results(service.journal))
        return await service.fleet.search(words, among, limit)

    async def describe(self, device: str, tool: str) -> ToolDescription:
        service = self._service
        there, people = self._client.device(device), not self._client.is_agent
        tools = service.fleet.tools(device)
        if (offered := tool_named(tool, tools)) is None:
            raise missing_tool(there, tool, tools)
        return ToolDescription(
            tool=offered,
            scope=scope_of(offered, there),
            undo=undo_of(offered),
            health=there.health,
            reason=there.reason,
            # An agent learns nothing of what others asked for.
            calls=await past_calls(service.journal, device, offered.tool_name) if people else [],
        )

    async def match(self, targets: str) -> list[Device]:
        return matching_devices(self._client, targets)

    async def details(self, name: str) -> DeviceDetails:
        service = self._service
        device = service.fleet.get(name)
        known = service.registry.find(name)
        await service.journal.settle()
        earlier = await changes_before(service.journal, name, service.started_at)
        accepted: list[str] = []
        fingerprint = ""
        if known is not None:
            dialled = known.direction == "out"
            fingerprint = known.fingerprint if dialled else service.links.certificates.present
            accepted = [] if dialled else service.links.certificates.accepted_by(name)
        return DeviceDetails(
            device=device,
            history=[*earlier, *service.fleet.history(name)],
            refusals=service.links.refusals.of(name),
            fingerprint=fingerprint,
            accepted=accepted,
            paired_at=known.paired_at if known and known.paired else None,
        )

    async def rejected_connections(self) -> list[Refusal]:
        return self._service.links.refusals.newest()

    async def diagnose(self, name: str) -> list[Check]:
        self._service.fleet.get(name)
        return await self._service.links.doctor(name)

    async def tool_change(self, device: str, tool_key: str) -> ContractChange:
        return await self._service.fleet.change(device, tool_key)

    async def review_tool(
        self, device: str, tool_key: str, digest: str, signed: SignedChange | None = None
    ) -> Tool:
        service = self._service
        planned = await proposals.contract(service, device, tool_key, digest)
        proof = await self._client.signed(planned, signed)
        return await service.fleet.review(device, tool_key, digest, self._client.actor, proof)

    async def listening(self) -> Listening:
        return self._service.links.listening()

    async def listen(self, address: str, signed: SignedChange | None = None) -> Listening:
        service = self._service
        if len(address) > _LONGEST_ADDRESS:
            # Every attempt is recorded; the limit keeps text that was pasted by mistake out of the journal.
            raise BadInput(f"An address to listen at has at most {_LONGEST_ADDRESS} characters.")
        service.written_settings()
        before = service.links.listening().address
        change = partial(ListeningChanged, from_=before, to=address.strip())
        try:
            await service.links.check_listening(address)
        except BadInput as error:
            # An impossible change is recorded as one entry, not as a change and its reversal.
            await self._client.record(change(problem=error.message))
            raise
        proof = await self._client.signed(proposals.listening(service, address), signed)
        await self._client.record(change(**proof))
        if proof:
            service.accepted_settings["listen"] = address.strip()
        try:
            listening = await service.links.listen(address)
        except BadInput as error:
            await self._client.record(
                ListeningChanged(from_=address.strip(), to=before, problem=error.message)
            )
            raise
        # Written only after listening has succeeded, so that the next start uses a working address.
        try:
            set_listen(service.home.settings, address)
        except BadInput as error:
            raise BadInput(
                f"It listens at {address.strip()} until it ends, not after: {error.message}"
            ) from error
        return listening

    async def certificates(self) -> Certificates:
        return self._service.links.certificates.status()

    async def renew_certificate(self, signed: SignedChange | None = None) -> Certificates:
        service = self._service
        certificates = service.links.certificates
        async with service.certificates_changing:
            if certificates.pending() is None:
                wanted = _signed_value(signed, "certificate_sha256")
                identity = await asyncio.to_thread(certificates.take_offered, wanted)
                planned = proposals.certificate(service, identity.fingerprint)
                proof = await self._client.signed(planned, signed)
                await asyncio.to_thread(certificates.keep, identity)
                made = CertificateMade(fingerprint=identity.fingerprint, **proof)
                certificates.made(await self._client.record(made), planned.change)
            await service.links.announce_certificate()
            return certificates.status()

    async def switch_certificate(self, anyway: bool = False) -> Certificates:
        service = self._service
        async with service.certificates_changing:
            found = service.links.certificates.status()
            if not found.next:
                raise BadInput("There is no next certificate: quarterdeck devices certificate renew.")
            without = [row for row in found.devices if not row.takes_next]
            if without and not anyway:
                rows = "; ".join(f"{row.device}: {row.why}" for row in without[:_MOST_NAMED])
                more = f"; and {len(without) - _MOST_NAMED} more" if len(without) > _MOST_NAMED else ""
                raise BadInput(
                    f"{plural(len(without), 'device')} would have to be paired again, because they have not "
                    f"taken the next certificate ({rows}{more}). Wait until they have, or switch with "
                    "--anyway."
                )
            names = [row.device for row in without]
            await self._client.record(CertificateSwitched(from_=found.present, to=found.next, without=names))
            await service.links.switch_certificate(found.next)
            return service.links.certificates.status()

    async def pair(self, name: str, settings: DeviceSettings, signed: SignedChange | None = None) -> Pairing:
        service = self._service
        proposals.paired_as(service, name, settings)
        heard_at = service.links.listening()
        if not heard_at.url:
            raise BadInput(
                f"This console listens nowhere, so no device can dial in: {heard_at.problem} "
                "Choose an address with quarterdeck devices listen HOST:PORT, or in Settings."
            )
        async with service.registry.turn(name):
            await self._catch_up()
            token = service.registry.take_offered(_signed_value(signed, "token_sha256"))
            planned = proposals.pairing(service, name, settings, token_digest(token))
            known = proposals.paired_as(service, name, settings)
            event = DevicePaired(
                direction="in",
                token_sha256=token_digest(token),
                certificate_sha256=planned.change.after.get("certificate_sha256", ""),
                **_settings(known),
                **await self._client.signed(planned, signed),
            )
            service.registry.pair(paired_by(await self._client.record(event, name)))
            service.links.machines.forget(name)
            await service.links.disconnect(name, "it was paired again")
            service.links.know(name)
            self._drop_dial_token(name)
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
        service = self._service
        proposals.pairing_listening(service, name, string, settings)
        line = decode_pairing(string)
        address = DialAddress(name, line.url, line.token, line.fingerprint)
        address.check()
        registry = service.registry
        async with registry.turn(name):
            await self._catch_up()
            planned = proposals.pairing_listening(service, name, string, settings)
            event = DevicePaired(
                direction="out",
                url=address.shown,
                fingerprint=line.fingerprint,
                dial_token_sha256=token_digest(line.token),
                **_settings(proposals.paired_as(service, name, settings)),
                **await self._client.signed(planned, signed),
            )
            with registry.staged_dial_token(name, line.token) as put_in_place:
                registry.pair(paired_by(await self._client.record(event, name)))
                service.links.machines.forget(name)
                await service.links.disconnect(name, "it was paired again")
                service.links.know(name)
                put_in_place()
            service.links.dial(name)
        return service.fleet.get(name)

    async def update(self, name: str, settings: DeviceSettings, signed: SignedChange | None = None) -> Device:
        service = self._service
        registry = service.registry
        async with registry.turn(proposals.remote(name)):
            known = registry.get(name)
            if with_settings(known, settings) != known:
                planned = await proposals.device_settings(service, name, settings)
                proof = await self._client.signed(planned, signed)
                await self._client.record(DeviceSet(**settings.model_dump(mode="json"), **proof), name)
                # Read again: the device may have been revoked or forgotten while the entry was written.
                known = registry.get(name)
                changed = with_settings(known, settings)
                registry.put(changed)
                service.links.know(name)
                if changed.agent != known.agent:
                    service.links.introduce_again(name)
        return service.fleet.get(name)

    async def accept_machine(self, name: str, identity: str, signed: SignedChange | None = None) -> Device:
        service = self._service
        registry = service.registry
        async with registry.turn(proposals.remote(name)):
            planned = proposals.machine(service, name, identity)
            proof = await self._client.signed(planned, signed)
            paired_at = registry.get(name).paired_at
            machine = Machine.model_validate(planned.change.after)
            bound = DeviceBound(machine=machine.identity, host=machine.host, paired_at=paired_at, **proof)
            entry = await self._client.record(bound, name)
            if registry.get(name).paired_at == paired_at:
                why = f"{machine.words} was accepted as {name} by {entry.actor}"
                void = f"{why}; what waited for the earlier machine is void."
                service.approvals.withdraw(void, device=name)
                await service.links.accept_machine(name, machine, f"{why}; waits for it to connect")
        return service.fleet.get(name)

    async def revoke(self, name: str) -> Device:
        service = self._service
        revoked = service.registry.revoke(proposals.remote(name))
        left_over = self._drop_dial_token(name)
        await service.links.disconnect(name, "it was revoked")
        # Another client may have forgotten the device meanwhile, which also locks it out.
        if service.registry.find(name) is not None:
            service.links.know(name)
        await self._record_end(DeviceRevoked, revoked)
        if left_over is not None:
            raise left_over
        return service.fleet.get(name)

    async def forget(self, name: str) -> None:
        service = self._service
        registry = service.registry
        forgotten = registry.forget(proposals.remote(name))
        async with registry.turn(name):
            if registry.find(name) is not None:
                # Another client, whose pairing was already under way, has registered the device again.
                forgotten = registry.forget(name)
            left_over = self._drop_dial_token(name)
            await service.links.disconnect(name, "it was forgotten")
            service.links.forget(name)
            await service.fleet.forget(name)
        service.hub.publish(DeviceForgotten(name=name))
        await self._record_end(DeviceForgottenEvent, forgotten)
        if left_over is not None:
            raise left_over

    async def reconnect(self, name: str) -> Device:
        service = self._service
        service.fleet.get(name)
        if name == THIS_COMPUTER:
            await service.fleet.relist(name)
        else:
            await service.links.reconnect(name)
        return service.fleet.get(name)

    async def watch(self, devices: list[str], anew: bool = False) -> list[LivePicture]:
        return self._service.live_pictures.watch(self._client.reader, self._client.actor, devices, anew)

    async def _catch_up(self) -> None:
        """Write delayed entries about ended trust now: in the journal an end must not follow a new pairing.

        Raises:
            JournalUnavailable: the journal cannot be written.
        """
        if not await self._service.journal.flush_late():
            raise JournalUnavailable("The journal cannot be written; no device is paired until it can.")

    async def _record_end(
        self, event: type[DeviceRevoked] | type[DeviceForgottenEvent], known: KnownDevice
    ) -> None:
        """Record that trust in a device has ended, which is already in effect.

        If the journal cannot be written now, the entry is written later; until then the registry's file holds
        the fact. `paired_at` in the entry identifies the pairing that ended, as the device may be paired
        again meanwhile.

        Raises:
            BadInput: neither the journal nor the registry's file can be written.
        """
        service = self._service
        ended = event(paired_at=known.paired_at, revoked_at=known.revoked_at)
        entry = ended.entry(self._client.actor, device=known.name)
        try:
            await service.journal.append(entry)
        except JournalUnavailable:
            service.journal.note_late([entry])
            if service.registry.problem:
                raise BadInput(
                    f"{service.registry.problem} The journal cannot be written either: "
                    "it counts until then, but a restart before that would undo it."
                ) from None
        else:
            if event is DeviceForgottenEvent:
                service.registry.left(known.name)

    def _drop_dial_token(self, name: str) -> BadInput | None:
        """Delete the token with which this console dials a device; returns the error if that fails."""
        try:
            self._service.registry.drop_dial_token(name)
        except BadInput as error:
            log.warning("a token for dialling is left over", device=name, problem=error.message)
            return error
        return None


def matching_devices(client: Client, targets: str) -> list[Device]:
    """The devices that match a filter now, and exist for this client.

    Raises:
        BadInput: the filter is malformed.
    """
    device_filter = parse_filter(targets)
    devices = client.service.fleet.devices()
    return [device for device in devices if device_filter.matches(device) and client.sees(device)]


def _signed_value(signed: SignedChange | None, name: str) -> str:
    """The digest of what the service offered, in a signed change; empty if there is none."""
    digest = signed.statement.change.after.get(name) if signed is not None else None
    return digest if isinstance(digest, str) else ""


def _settings(known: KnownDevice) -> dict[str, Any]:
    """The settings of a device that may be recorded in the journal; no credentials."""
    return {"tags": known.tags, "production": known.production, "agent": known.agent}
