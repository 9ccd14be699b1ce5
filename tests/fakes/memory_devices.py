"""The part of the small door in memory that is about devices: one device, counted questions."""

from __future__ import annotations

from collections import Counter

from core.changes import SignedChange
from core.errors import BadInput, ErrorCode
from core.fleet.models import (
    Check,
    CheckState,
    Device,
    DeviceDetails,
    DeviceSettings,
    Health,
    Listening,
    Pairing,
    Refusal,
)
from tests.fakes.deciding_door import DecidingDoor

TIME = "2026-01-01T00:00:00.000000Z"


class MemoryDevices(DecidingDoor):
    def __init__(self, asked: Counter[str]) -> None:
        super().__init__()
        self.asked = asked

    async def on_listening(self) -> Listening:
        return Listening(address="127.0.0.1:5000", url="ws://127.0.0.1:5000/ws")

    async def on_listen(self, address: str, signed: SignedChange | None = None) -> Listening:
        self.asked[f"listen {address}"] += 1
        return Listening(address=address, url=f"ws://{address}/ws")

    async def on_pair(
        self, name: str, settings: DeviceSettings, signed: SignedChange | None = None
    ) -> Pairing:
        self.asked[f"pair {name}"] += 1
        url = "ws://127.0.0.1:5000/ws"
        return Pairing(
            name=name, string="qd1.x", url=url, stock_url=f"{url}?token=x", command="quarterdeck-device"
        )

    async def on_pair_listening(
        self, name: str, string: str, settings: DeviceSettings, signed: SignedChange | None = None
    ) -> Device:
        self.asked[f"pair_listening {name}"] += 1
        return Device(name=name, health=Health.RECONNECTING, since=TIME, tags=settings.tags or [])

    async def on_set_device(
        self, name: str, settings: DeviceSettings, signed: SignedChange | None = None
    ) -> Device:
        return await self._only_device(name, "set_device")

    async def on_revoke(self, name: str) -> Device:
        return await self._only_device(name, "revoke")

    async def on_forget(self, name: str) -> None:
        await self._only_device(name, "forget")

    async def on_reconnect(self, name: str) -> Device:
        return await self._only_device(name, "reconnect")

    async def on_device_details(self, name: str) -> DeviceDetails:
        return DeviceDetails(device=await self._only_device(name, "device_details"))

    async def on_refusals(self) -> list[Refusal]:
        return [Refusal(at=TIME, peer="127.0.0.1:1", reason="The token is not known here.")]

    async def on_doctor(self, name: str) -> list[Check]:
        await self._only_device(name, "doctor")
        return [Check(name="reach", state=CheckState.PASSED, found="It answers.")]

    async def _only_device(self, name: str, asked: str) -> Device:
        self.asked[asked] += 1
        for device in (await self.service.state()).devices:
            if device.name == name:
                return device
        raise BadInput(f"There is no device {name!r}.", ErrorCode.UNKNOWN_DEVICE)
