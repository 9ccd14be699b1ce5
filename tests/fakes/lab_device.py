"""The remote device `lab-1` of a real service: paired, and waited for."""

from __future__ import annotations

import asyncio

from core.aip.pairing import decode_pairing
from core.fleet.models import DeviceSettings
from core.models.devices import Device, Health
from core.service.console import Console, DeviceChanged
from tests.fakes.patience import PATIENCE_S

FEATURES = ["progress", "metrics", "tools_changed", "terms", "cancel"]
AWAY = (Health.OFFLINE, Health.RECONNECTING)


async def pair(console: Console, **settings: object) -> tuple[str, str]:
    pairing = await console.devices.pair("lab-1", DeviceSettings.model_validate(settings))
    return pairing.url, decode_pairing(pairing.string).token


async def device_when(console: Console, wanted: str) -> Device:
    """The device as soon as `wanted`, an expression over it, is true."""
    async with asyncio.timeout(PATIENCE_S):
        events = console.events()
        device = next(one for one in (await console.service.state()).devices if one.name == "lab-1")
        while not eval(wanted, {"Health": Health}, {"device": device}):
            event = await anext(events)
            if isinstance(event, DeviceChanged) and event.device.name == "lab-1":
                device = event.device
        return device
