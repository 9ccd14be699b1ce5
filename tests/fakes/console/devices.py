"""What the fake console answers about devices: tools, connections, pairing, the doctor."""

from __future__ import annotations

import hashlib
from typing import Any

from core.aip.pairing import Pairing as Line
from core.aip.pairing import encode_pairing
from core.changes import SignedChange
from core.errors import BadInput, DeviceError, ErrorCode, Refused
from core.fleet.models import (
    Certificates,
    Check,
    CheckState,
    DeviceDetails,
    DeviceSettings,
    Listening,
    Pairing,
    Refusal,
    ToolDescription,
    ToolHit,
)
from core.fleet.tool_scope import scope_of, undo_of
from core.fleet.tool_search import Offer, ToolIndex
from core.models.device_filter import parse_filter
from core.models.devices import Device, Health
from core.models.tools import Tool
from core.service import proposals
from core.service.console import DeviceForgotten, LivePicture, LiveState
from core.tokens import token_digest
from tests.fakes.console.changes import TOKEN, Changes
from tests.fakes.fleet_data import (
    CERTIFICATE_ENDS,
    FINGERPRINT,
    NEXT_CERTIFICATE_ENDS,
    NEXT_FINGERPRINT,
    ago,
    history_of,
    refusals_of,
)


class DeviceAnswers(Changes):
    """`console.devices`: pairs invented devices; `arrive` lets one that was paired connect."""

    @property
    def watched(self) -> list[tuple[list[str], bool]]:
        """Every request for live pictures as it came: the devices, and whether anew."""
        return [(call["devices"], call["anew"]) for call in self.calls_of("watch_pictures")]

    def arrive(self, name: str) -> None:
        """A device that was paired connects."""
        self.change_device(
            name,
            health=Health.ONLINE,
            since=ago(0),
            reason="",
            last_heard=ago(0),
            platform="linux",
            address="10.4.7.19:40112",
            secure=True,
        )

    def matched(self, targets: str) -> list[Device]:
        """The devices that a filter means."""
        wanted = parse_filter(targets)
        return [device for device in self.fleet.values() if wanted.matches(device)]

    # Tools

    def on_tools(self, device: str) -> list[Tool]:
        if self.device(device).health is Health.OFFLINE:
            raise DeviceError(f"{device} is offline.")
        return self.tools_of[device]

    async def on_search_tools(self, words: str, targets: str, limit: int) -> list[ToolHit]:
        index = ToolIndex()
        await index.follow(
            Offer(name, device.tags, device.health, {tool.tool_name: tool for tool in self.tools_of[name]})
            for name, device in self.fleet.items()
        )
        return index.search(words, {device.name for device in self.matched(targets)}, limit, {})

    def on_describe_tool(self, device: str, tool: str) -> ToolDescription:
        described, there = self.tool_named(device, tool), self.device(device)
        return ToolDescription(
            tool=described, scope=scope_of(described, there), undo=undo_of(described), health=there.health
        )

    def on_match_devices(self, targets: str) -> list[Device]:
        return self.matched(targets)

    async def on_review_contract(
        self, device: str, tool_key: str, digest: str, signed: SignedChange | None
    ) -> Tool:
        tools = self.tools_of[self.device(device).name]
        planned = await proposals.contract(self.service_seen(), device, tool_key, digest)
        self.check_signed(planned, signed)
        for place, tool in enumerate(tools):
            if tool.tool_key == tool_key and tool.contract.digest == digest:
                tools[place] = tool.model_copy(update={"changed": False})
                left = [key for key in self.fleet[device].changed_tools if key != tool_key]
                self.change_device(device, changed_tools=left)
                return tools[place]
        raise Refused("The tool's definition is another one by now.", ErrorCode.CONTRACT_CHANGED)

    # Connections

    def on_listening(self) -> Listening:
        return self.listens

    def on_listen(self, address: str, signed: SignedChange | None) -> Listening:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise BadInput(f"{address!r} is not an address. Write host:port, such as 127.0.0.1:5000.")
        self.check_signed(proposals.listening(self.service_seen(), address), signed)
        local = host in ("127.0.0.1", "localhost", "[::1]")
        # A service that listens at port 0 gets one from the system.
        port = port if int(port) else "5000"
        self.listens = Listening(
            address=address,
            url=f"{'ws' if local else 'wss'}://{host}:{port}/ws",
            secure=not local,
            fingerprint="" if local else FINGERPRINT,
            refused=self.listens.refused,
        )
        return self.listens

    def on_certificates(self) -> Certificates:
        present, announced = self.listens.fingerprint, self.next_certificate
        return Certificates(
            present=present,
            present_until=CERTIFICATE_ENDS if present else "",
            next=announced,
            next_until=NEXT_CERTIFICATE_ENDS if announced else "",
            devices=[
                row.model_copy(
                    update={
                        "takes_next": bool(announced) and row.takes_present and not row.why,
                        "why": row.why if announced else "",
                    }
                )
                for row in self.certificate_rows
            ],
        )

    def on_renew_certificate(self, signed: SignedChange | None) -> Certificates:
        if not self.next_certificate:
            self.check_signed(proposals.certificate(self.service_seen(), NEXT_FINGERPRINT), signed)
            self.next_certificate = NEXT_FINGERPRINT
        return self.on_certificates()

    def on_switch_certificate(self, anyway: bool) -> Certificates:
        if not self.next_certificate:
            raise BadInput("There is no next certificate: quarterdeck devices certificate renew.")
        without = [row for row in self.certificate_rows if row.why]
        if without and not anyway:
            raise BadInput(f"{len(without)} devices have not taken the next certificate.")
        self.listens = self.listens.model_copy(update={"fingerprint": self.next_certificate})
        self.next_certificate = ""
        return self.on_certificates()

    def on_pair(self, name: str, settings: DeviceSettings, signed: SignedChange | None) -> Pairing:
        if name in self.fleet and self.fleet[name].health is not Health.OFFLINE:
            raise BadInput(f"{name} is connected; revoke it first, or choose another name.")
        planned = proposals.pairing(self.service_seen(), name, settings, token_digest(TOKEN))
        self.check_signed(planned, signed)
        self._take_in(name, settings, "in", "It was paired and has not connected yet.")
        url = self.listens.url
        return Pairing(
            name=name,
            string=encode_pairing(Line(url, name, TOKEN, self.listens.fingerprint)),
            url=url,
            stock_url=f"{url}?token={TOKEN}",
            command="quarterdeck-device --pair -",
            fingerprint=self.listens.fingerprint,
        )

    def on_pair_listening(
        self, name: str, string: str, settings: DeviceSettings, signed: SignedChange | None
    ) -> Device:
        planned = proposals.pairing_listening(self.service_seen(), name, string, settings)
        self.check_signed(planned, signed)
        return self._take_in(name, settings, "out", "Dialling for the first time.", Health.RECONNECTING)

    def _take_in(
        self,
        name: str,
        settings: DeviceSettings,
        direction: Any,
        reason: str,
        health: Health = Health.OFFLINE,
    ) -> Device:
        self.tools_of.setdefault(name, [])
        return self.put_device(
            Device(
                name=name,
                health=health,
                since=ago(0),
                reason=reason,
                tags=settings.tags or [],
                production=bool(settings.production),
                agent=settings.agent or "",
                channel="websocket",
                direction=direction,
            )
        )

    async def on_set_device(self, name: str, settings: DeviceSettings, signed: SignedChange | None) -> Device:
        self.check_signed(await proposals.device_settings(self.service_seen(), name, settings), signed)
        return self.change_device(name, **settings.model_dump(exclude_none=True))

    def on_accept_machine(self, name: str, identity: str, signed: SignedChange | None) -> Device:
        planned = proposals.machine(self.service_seen(), name, identity)
        self.check_signed(planned, signed)
        return self.change_device(name, machine=planned.change.after, other_machine=None)

    def on_revoke(self, name: str) -> Device:
        self.device(name)
        return self.change_device(
            name, paired=False, health=Health.OFFLINE, since=ago(0), reason="Its token was revoked."
        )

    def on_forget(self, name: str) -> None:
        del self.fleet[self.device(name).name]
        self.emit(DeviceForgotten(name=name))

    def on_reconnect(self, name: str) -> Device:
        return self.device(name)

    # What is known of a device

    def on_watch_pictures(self, devices: list[str]) -> list[LivePicture]:
        return [self._live(name) for name in devices]

    def _live(self, name: str) -> LivePicture:
        if why := self.unwatchable.get(name):
            return LivePicture(device=name, state=LiveState.REFUSED, why=why)
        device = self.device(name)
        if device.health in (Health.ONLINE, Health.BUSY):
            return LivePicture(device=name, state=LiveState.LIVE)
        return LivePicture(device=name, state=LiveState.WAITING, why=device.reason)

    def on_device_details(self, name: str) -> DeviceDetails:
        device = self.device(name)
        return DeviceDetails(
            device=device,
            history=history_of(device),
            refusals=refusals_of(device),
            fingerprint=hashlib.sha256(name.encode()).hexdigest() if device.secure else "",
            paired_at=ago(86_400 * 12) if device.direction != "local" and device.paired else None,
        )

    def on_refusals(self) -> list[Refusal]:
        known = [one for device in self.fleet.values() for one in refusals_of(device)]
        strangers = [
            Refusal(at=ago(95), peer="10.4.9.77:61244", reason="The token is not known here.", count=4),
            Refusal(
                at=ago(5200), peer="127.0.0.1:38120", reason="A browser's Origin: http://localhost:8000."
            ),
        ]
        return sorted([*known, *strangers], key=lambda one: one.at, reverse=True)

    def on_doctor(self, name: str) -> list[Check]:
        device = self.device(name)
        if self.checks is not None:
            return self.checks
        passed, skipped = CheckState.PASSED, CheckState.SKIPPED
        first = [
            Check(name="dns", state=passed, found=f"{device.name}.lan is 10.4.7.19.", took_ms=3.1),
            Check(name="reach", state=passed, found="Port 5000 answers.", took_ms=9.4),
        ]
        if device.health in (Health.ONLINE, Health.BUSY):
            return [
                *first,
                Check(name="tls", state=passed, found="The certificate is the pinned one.", took_ms=14.0),
                Check(name="token", state=passed, found="Accepted.", took_ms=2.2),
                Check(name="protocol", state=passed, found="AIP, with 7 extensions.", took_ms=1.8),
            ]
        return [
            *first,
            Check(
                name="tls",
                state=CheckState.FAILED,
                found="The device showed another certificate than the pinned one.",
                next="If its certificate was renewed, pair it again; if not, somebody stands between.",
                took_ms=21.0,
            ),
            Check(name="token", state=skipped, found="Not tried, because TLS failed."),
            Check(name="protocol", state=skipped, found="Not tried, because TLS failed."),
        ]
