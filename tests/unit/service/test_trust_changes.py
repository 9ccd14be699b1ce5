"""Trust in a device that changes while something else about it is still on its way, or cannot be written."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from core.audit.entries import Entry, Kind, NewEntry
from core.errors import BadInput, ErrorCode, Refused
from core.fleet.models import DeviceSettings
from core.models.devices import Health
from core.service.console import Console
from core.service.service import Service
from tests.fakes.full_disk import full_disk_for
from tests.fakes.lab_device import AWAY, FEATURES, pair
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import stands
from tests.fakes.scripted_device import scripted

FARM = DeviceSettings(tags=["farm"])


class SlowDisk:
    """The journal's disk, slow with entries of one kind; tells when another change asks for a turn."""

    def __init__(self, service: Service, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.goes_on = asyncio.Event(), asyncio.Event()
        self._kind = kind
        self._append = service.journal.append
        monkeypatch.setattr(service.journal, "append", self._slowly)
        self.another_asks = asyncio.Event()
        self._turn = service.registry.turn
        monkeypatch.setattr(service.registry, "turn", self._asked_for_turn)

    def _asked_for_turn(self, name: str) -> asyncio.Lock:
        if self.asked.is_set():
            self.another_asks.set()
        return self._turn(name)

    async def _slowly(self, entry: NewEntry) -> Entry:
        if entry.kind is self._kind:
            self.asked.set()
            await self.goes_on.wait()
        return await self._append(entry)


async def while_written(disk: SlowDisk, slow: asyncio.Task[object], other: asyncio.Task[object]) -> None:
    """`other` up to its end or its wait for a turn, while the entry of `slow` is written; then both end."""
    other.add_done_callback(lambda _: disk.another_asks.set())
    async with asyncio.timeout(PATIENCE_S):
        await disk.another_asks.wait()
        disk.goes_on.set()
        await asyncio.wait({slow, other})


async def test_a_device_that_is_revoked_while_its_tags_are_written_stays_revoked(
    service: Service, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = await pair(console)
    disk = SlowDisk(service, Kind.DEVICE_SET, monkeypatch)
    setting = service.tasks.spawn("set", console.devices.update("lab-1", FARM))
    async with asyncio.timeout(PATIENCE_S):
        await disk.asked.wait()
    await while_written(disk, setting, service.tasks.spawn("revoke", console.devices.revoke("lab-1")))
    found = service.registry.owner_of(token)
    assert found is None or not found.paired
    assert not service.registry.get("lab-1").paired
    assert service.registry.get("lab-1").tags == ["farm"]


async def test_a_device_that_is_forgotten_while_its_tags_are_written_does_not_come_back(
    service: Service, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = await pair(console)
    disk = SlowDisk(service, Kind.DEVICE_SET, monkeypatch)
    setting = service.tasks.spawn("set", console.devices.update("lab-1", FARM))
    async with asyncio.timeout(PATIENCE_S):
        await disk.asked.wait()
    await while_written(disk, setting, service.tasks.spawn("forget", console.devices.forget("lab-1")))
    assert service.registry.owner_of(token) is None
    assert service.registry.find("lab-1") is None
    assert "lab-1" not in [one.name for one in service.fleet.devices()]


async def test_a_device_is_not_paired_anew_while_its_tags_are_written_which_are_not_lost(
    service: Service, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, old = await pair(console)
    disk = SlowDisk(service, Kind.DEVICE_SET, monkeypatch)
    setting = service.tasks.spawn("set", console.devices.update("lab-1", FARM))
    async with asyncio.timeout(PATIENCE_S):
        await disk.asked.wait()
    pairing = service.tasks.spawn("pair", pair(console))
    await while_written(disk, setting, pairing)
    # What was signed was a pairing without these tags.
    assert isinstance(pairing.exception(), Refused)
    assert service.registry.owner_of(old) is not None
    _, new = await pair(console)
    assert service.registry.owner_of(old) is None
    assert service.registry.owner_of(new) is not None
    assert service.registry.get("lab-1").tags == ["farm"]


async def test_a_device_that_is_paired_anew_while_it_is_forgotten_is_known_whole(
    service: Service, console: Console
) -> None:
    url, token = await pair(console)
    async with scripted(url, token, "lab-1", features=FEATURES) as device:
        await stands(console, "lab-1", Health.ONLINE)
        # It does not answer the close yet, so forgetting it takes its time.
        device.connection.transport.pause_reading()
        forgetting = service.tasks.spawn("forget", console.devices.forget("lab-1"))
        await asyncio.sleep(0)
        pairing = service.tasks.spawn("pair", pair(console))
        # As far as pairing comes meanwhile.
        await asyncio.wait({pairing}, timeout=0.5)
        assert not forgetting.done()
        device.connection.transport.resume_reading()
        url, fresh = await pairing
        await forgetting
    assert service.registry.owner_of(fresh) is not None
    async with scripted(url, fresh, "lab-1", features=FEATURES):
        online = await stands(console, "lab-1", Health.ONLINE)
    assert online.tool_count == 1


class TestWithoutRoomOnTheDisk:
    async def test_a_revoked_device_is_shut_out_at_once(self, service: Service, console: Console) -> None:
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            await stands(console, "lab-1", Health.ONLINE)
            # The journal has it, so that the copy may be behind.
            with full_disk_for(service.home.devices):
                await console.devices.revoke("lab-1")
                async with asyncio.timeout(PATIENCE_S):
                    await device.connection.wait_closed()
                await stands(console, "lab-1", *AWAY, reason="revoked")
        owner = service.registry.owner_of(token)
        assert owner is not None
        assert not owner.paired
        assert (await console.journal.entries("kind:device_revoked device:lab-1")).entries
        await console.devices.revoke("lab-1")
        assert '"revoked_at"' in service.home.devices.read_text()

    async def test_a_forgotten_device_is_shut_out_at_once(self, service: Service, console: Console) -> None:
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            await stands(console, "lab-1", Health.ONLINE)
            with full_disk_for(service.home.devices):
                await console.devices.forget("lab-1")
                async with asyncio.timeout(PATIENCE_S):
                    await device.connection.wait_closed()
        assert service.registry.owner_of(token) is None
        assert "lab-1" not in [one.name for one in service.fleet.devices()]
        assert (await console.journal.entries("kind:device_forgotten device:lab-1")).entries
        with pytest.raises(BadInput) as caught:
            await console.devices.forget("lab-1")
        assert caught.value.code is ErrorCode.UNKNOWN_DEVICE
        await pair(console)
        assert len(service.home.devices.read_text().splitlines()) == 3

    async def test_a_token_for_dialling_that_cannot_be_deleted_keeps_no_link_alive(
        self, service: Service, console: Console, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        url, token = await pair(console)

        def fails(path: Path, missing_ok: bool = False) -> None:
            raise PermissionError(13, "Permission denied")

        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            await stands(console, "lab-1", Health.ONLINE)
            with monkeypatch.context() as patched:
                patched.setattr("core.fleet.known_devices.Path.unlink", fails)
                with pytest.raises(BadInput, match="Permission denied"):
                    await console.devices.revoke("lab-1")
            with pytest.raises(ConnectionClosed):
                async with asyncio.timeout(PATIENCE_S):
                    await device.connection.recv()
        await stands(console, "lab-1", *AWAY, reason="revoked")
