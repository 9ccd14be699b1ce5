"""The part of the fake door that is about devices: pairing, listening, refused attempts, the doctor."""

from __future__ import annotations

import hashlib
from typing import Any

from core.audit.entries import Entry, Kind
from core.changes import SignedChange
from core.errors import BadInput
from core.fleet.models import (
    Check,
    CheckState,
    Device,
    DeviceDetails,
    DeviceSettings,
    Health,
    HealthChange,
    Listening,
    Pairing,
    Refusal,
    Tool,
)
from core.service import proposals
from core.service.console import DeviceChanged, DeviceForgotten, LivePicture, LiveState
from core.tokens import token_digest
from tests.fakes.changes_door import TOKEN
from tests.fakes.fleet_data import ago
from tests.fakes.rules_door import RulesDoor

FINGERPRINT = hashlib.sha256(b"the console's certificate").hexdigest()


def fingerprint_of(device: str) -> str:
    """The certificate of an invented device."""
    return hashlib.sha256(device.encode()).hexdigest()


def history_of(device: Device) -> list[HealthChange]:
    """An hour in which the line was lost twice; ends in what the device is now."""
    seed = sum(map(ord, device.name))
    lost = 2400 - seed % 600
    changes = [
        HealthChange(at=ago(3600), health=Health.ONLINE),
        HealthChange(at=ago(lost), health=Health.STALE, reason="No heartbeat for 40 s."),
        HealthChange(at=ago(lost - 40), health=Health.RECONNECTING, reason="The line was lost."),
        HealthChange(at=ago(lost - 90), health=Health.ONLINE),
        HealthChange(at=ago(1100), health=Health.BUSY),
        HealthChange(at=ago(700), health=Health.ONLINE),
    ]
    if device.health is not Health.ONLINE:
        changes.append(HealthChange(at=device.since, health=device.health, reason=device.reason))
    return sorted(changes, key=lambda one: one.at)


def refusals_of(device: Device) -> list[Refusal]:
    """As many attempts as the device says were refused in its name."""
    if not device.refused:
        return []
    newest = Refusal(
        at=ago(640), peer="10.4.9.31:51022", name=device.name, reason="This token was revoked.", count=1
    )
    if device.refused == 1:
        return [newest]
    older = Refusal(
        at=ago(4000),
        peer="10.4.9.31:50871",
        name=device.name,
        reason=f"{device.name} is connected already.",
        count=device.refused - 1,
    )
    return [older, newest]


class DevicesDoor(RulesDoor):
    """Pairs invented devices; `arrive` lets one that was paired connect."""

    fleet: dict[str, Device]
    tools_of: dict[str, list[Tool]]
    listens = Listening(
        address="0.0.0.0:5000",
        url="wss://harbour.lan:5000/ws",
        secure=True,
        fingerprint=FINGERPRINT,
        refused=14,
    )
    checks: list[Check] | None = None
    # Every wish for live pictures as it came, and of devices that give none why.
    watched: list[tuple[list[str], bool]]
    unwatchable: dict[str, str]

    def write(self, kind: Kind, actor: str, **fields: Any) -> Entry:
        """Add a journal entry and tell everybody."""
        raise NotImplementedError

    def _device(self, name: str) -> Device:
        raise NotImplementedError

    def change_device(self, name: str, **changes: Any) -> Device:
        """Change fields of a device and tell everybody."""
        raise NotImplementedError

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

    async def on_listening(self) -> Listening:
        await self._step("listening")
        return self.listens

    def _listening(self) -> Listening:
        return self.listens

    async def on_listen(self, address: str, signed: SignedChange | None = None) -> Listening:
        await self._step("listen")
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise BadInput(f"{address!r} is no address. Write host:port, such as 127.0.0.1:5000.")
        self._signed(proposals.listening(self._service(), address), signed)
        local = host in ("127.0.0.1", "localhost", "[::1]")
        self.listens = Listening(
            address=address,
            url=f"{'ws' if local else 'wss'}://{address}/ws",
            secure=not local,
            fingerprint="" if local else FINGERPRINT,
            refused=self.listens.refused,
        )
        return self.listens

    async def on_pair(
        self, name: str, settings: DeviceSettings, signed: SignedChange | None = None
    ) -> Pairing:
        await self._step("pair")
        if name in self.fleet and self.fleet[name].health is not Health.OFFLINE:
            raise BadInput(f"{name} is connected; revoke it first, or choose another name.")
        self._signed(proposals.pairing(self._service(), name, settings, token_digest(TOKEN)), signed)
        self._take_in(name, settings, "in", "It was paired and has not connected yet.")
        string = f"qd1.{name}.{TOKEN}.{FINGERPRINT[:32]}"
        url = self.listens.url
        return Pairing(
            name=name,
            string=string,
            url=url,
            stock_url=f"{url}?token={TOKEN}",
            command="quarterdeck-device --pair -",
            fingerprint=self.listens.fingerprint,
        )

    async def on_pair_listening(
        self, name: str, string: str, settings: DeviceSettings, signed: SignedChange | None = None
    ) -> Device:
        await self._step("pair_listening")
        self._signed(proposals.pairing_listening(self._service(), name, string, settings), signed)
        return self._take_in(name, settings, "out", "Dialling for the first time.", Health.RECONNECTING)

    def _take_in(
        self,
        name: str,
        settings: DeviceSettings,
        direction: Any,
        reason: str,
        health: Health = Health.OFFLINE,
    ) -> Device:
        device = Device(
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
        self.fleet[name] = device
        self.tools_of.setdefault(name, [])
        self.emit(DeviceChanged(device=device))
        return device

    async def on_watch_pictures(self, devices: list[str], anew: bool = False) -> list[LivePicture]:
        await self._step("watch_pictures")
        self.watched.append((list(devices), anew))
        return [self._live(name) for name in devices]

    def _live(self, name: str) -> LivePicture:
        if why := self.unwatchable.get(name):
            return LivePicture(device=name, state=LiveState.REFUSED, why=why)
        device = self._device(name)
        if device.health in (Health.ONLINE, Health.BUSY):
            return LivePicture(device=name, state=LiveState.LIVE)
        return LivePicture(device=name, state=LiveState.WAITING, why=device.reason)

    async def on_set_device(
        self, name: str, settings: DeviceSettings, signed: SignedChange | None = None
    ) -> Device:
        await self._step("set_device")
        self._device(name)
        self._signed(proposals.device_settings(self._service(), name, settings), signed)
        return self.change_device(name, **settings.model_dump(exclude_none=True))

    async def on_revoke(self, name: str) -> Device:
        await self._step("revoke")
        self._device(name)
        return self.change_device(
            name, paired=False, health=Health.OFFLINE, since=ago(0), reason="Its token was revoked."
        )

    async def on_forget(self, name: str) -> None:
        await self._step("forget")
        self._device(name)
        del self.fleet[name]
        self.emit(DeviceForgotten(name=name))

    async def on_reconnect(self, name: str) -> Device:
        await self._step("reconnect")
        return self._device(name)

    async def on_device_details(self, name: str) -> DeviceDetails:
        await self._step("device_details")
        device = self._device(name)
        secure = device.secure
        return DeviceDetails(
            device=device,
            history=history_of(device),
            refusals=refusals_of(device),
            fingerprint=fingerprint_of(name) if secure else "",
            paired_at=ago(86_400 * 12) if device.direction != "local" and device.paired else None,
        )

    async def on_refusals(self) -> list[Refusal]:
        await self._step("refusals")
        known = [one for device in self.fleet.values() for one in refusals_of(device)]
        strangers = [
            Refusal(at=ago(95), peer="10.4.9.77:61244", reason="The token is not known here.", count=4),
            Refusal(
                at=ago(5200), peer="127.0.0.1:38120", reason="A browser's Origin: http://localhost:8000."
            ),
        ]
        return sorted([*known, *strangers], key=lambda one: one.at, reverse=True)

    async def on_doctor(self, name: str) -> list[Check]:
        await self._step("doctor")
        device = self._device(name)
        if self.checks is not None:
            return self.checks
        well = device.health in (Health.ONLINE, Health.BUSY)
        passed, skipped = CheckState.PASSED, CheckState.SKIPPED
        first = [
            Check(name="dns", state=passed, found=f"{device.name}.lan is 10.4.7.19.", took_ms=3.1),
            Check(name="reach", state=passed, found="Port 5000 answers.", took_ms=9.4),
        ]
        if well:
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
