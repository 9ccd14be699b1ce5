"""Remote devices in a real service, over real sockets, with device ends that a test writes by hand."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from core.aip.resumable_link import ResumableLink
from core.errors import DeviceError, ErrorCode
from core.fleet.connections import COMES_BACK_WITHIN_S
from core.fleet.models import DeviceSettings
from core.models.devices import Health
from core.models.tools import Risk
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.desk import approve, next_approval
from tests.fakes.lab_device import AWAY, FEATURES, device_when, pair
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home, stands
from tests.fakes.scripted_device import ScriptedDevice, scripted, tool
from tests.fakes.signing import anna, signing


async def ask(service: Service, console: Console, device: ScriptedDevice) -> str:
    """A run whose one command the device has and has not answered."""
    run = await console.runs.call("lab-1", device.tools[0]["tool_name"], {})
    await approve_if_asked(service, console)
    await device.command()
    return run.summary.id


async def approve_if_asked(service: Service, console: Console) -> None:
    key = anna(service.home)
    await console.approvals.register_operator(key.operator)
    await approve(console, await next_approval(console), key)


class TestExtensions:
    async def test_load_and_clock_come_with_the_heartbeat(self, console):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            online = await stands(console, "lab-1", Health.ONLINE)
            assert set(FEATURES) >= set(online.features) >= {"metrics", "progress"}
            await device.beat({"cpu_percent": 12.34, "memory_percent": 56.78})
            told = await device_when(console, "device.cpu_percents")
            assert (told.cpu_percents, told.memory_percents) == ([12.3], [56.8])
            assert abs(told.clock_offset_ms) < 2000

    async def test_changed_tools_are_listed_again_and_blocked_until_reviewed(self, console):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            await stands(console, "lab-1", Health.ONLINE)
            device.tools = [tool("poke", "Does something else now."), tool("fresh")]
            await device.say(type="quarterdeck.tools_changed")
            changed = await device_when(console, "device.changed_tools")
            assert changed.changed_tools == ["action::poke"]
            assert {one.tool_name: one.changed for one in await console.devices.tools("lab-1")} == {
                "poke": True,
                "fresh": False,
            }
            [entry] = (await console.journal.entries("kind:contract_changed device:lab-1")).entries
            assert list(entry.body["tools"]) == ["action::poke"]

    async def test_a_risk_that_a_device_claims_no_more_is_blocked_also_when_it_dials_in_anew(self, console):
        url, token = await pair(console)
        poke = tool("poke")
        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            device.tools = [{**poke, "meta": {"quarterdeck": {"risk": "critical"}}}]
            await stands(console, "lab-1", Health.ONLINE)
            assert [one.contract.risk.value for one in await console.devices.tools("lab-1")] == [
                Risk.CRITICAL
            ]
        await stands(console, "lab-1", *AWAY)
        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            device.tools = [poke]
            await device_when(console, "device.changed_tools == ['action::poke']")
            change = await console.devices.tool_change("lab-1", "action::poke")
            assert change.changed == ["claimed_risk"]
            run = await console.runs.call("lab-1", "poke", {})
            [cell] = (await console.runs.wait(run.summary.id, PATIENCE_S)).cells
            assert cell.result is not None
            assert cell.result.error is not None
            assert cell.result.error.code is ErrorCode.CONTRACT_CHANGED
            assert device.commands.empty()

    async def test_a_flood_of_changes_is_a_few_listings(self, console):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            await stands(console, "lab-1", Health.ONLINE)
            for _ in range(15):
                await device.say(type="quarterdeck.tools_changed")
            device.tools = [tool("last")]
            await device.say(type="quarterdeck.tools_changed")
            events = console.events()
            async with asyncio.timeout(PATIENCE_S):
                while [one.tool_name for one in await console.devices.tools("lab-1")] != ["last"]:
                    await anext(events)
            assert device.listed <= 17

    async def test_changes_without_end_are_listings_at_a_bounded_pace(self, service, console):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            await stands(console, "lab-1", Health.ONLINE)

            async def change() -> None:
                """One as soon as the one before was listed, so that none falls together with another."""
                wanted = device.listed + 1
                await device.say(type="quarterdeck.tools_changed")
                while device.listed < wanted:
                    await device.has_listed.wait()

            async with asyncio.timeout(PATIENCE_S):
                while device.listed <= 2:
                    await change()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    while device.listed < 60:
                        await change()
            assert device.listed <= 12

    async def test_a_tool_of_a_stranger_is_high_risk_whatever_it_says_of_itself(self, console):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            device.tools = [{**tool("poke"), "annotations": {"readOnlyHint": True}}]
            await stands(console, "lab-1", Health.ONLINE)
            [found] = await console.devices.tools("lab-1")
            assert found.contract.risk.value is Risk.HIGH


class TestHealth:
    async def test_a_silent_device_is_stale_since_it_was_heard_and_well_again_when_it_is(
        self, service, console
    ):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            online = await stands(console, "lab-1", Health.ONLINE)
            clock = asyncio.get_running_loop().time()
            # Counted from then, and not from now: on a busy machine that may be seconds ago.
            heard = datetime.fromisoformat(str(service.fleet.get("lab-1").last_heard))
            service.links.look(heard + timedelta(seconds=14), clock)
            assert service.fleet.get("lab-1").health is Health.ONLINE
            service.links.look(heard + timedelta(seconds=16), clock)
            stale = service.fleet.get("lab-1")
            assert stale.health is Health.STALE
            assert stale.since <= datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            assert stale.since >= online.since[:19]
            assert "nothing was heard for 15 s" in stale.reason
            await device.beat()
            assert (await stands(console, "lab-1", Health.ONLINE)).reason == ""
        history = [one.health for one in (await console.devices.details("lab-1")).history]
        assert Health.STALE in history

    async def test_a_stock_client_is_given_its_two_minutes(self, service, console):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1"):
            await stands(console, "lab-1", Health.ONLINE)
            clock = asyncio.get_running_loop().time()
            service.links.look(datetime.now(UTC) + timedelta(seconds=290), clock)
            assert service.fleet.get("lab-1").health is Health.ONLINE
            service.links.look(datetime.now(UTC) + timedelta(seconds=310), clock)
            assert service.fleet.get("lab-1").health is Health.STALE

    async def test_one_that_does_not_come_back_is_offline_after_a_while(self, service, console):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1"):
            await stands(console, "lab-1", Health.ONLINE)
        lost = await stands(console, "lab-1", *AWAY)
        assert lost.health is Health.RECONNECTING
        loop = asyncio.get_running_loop()
        service.links.look(datetime.now(UTC), loop.time() + COMES_BACK_WITHIN_S + 1)
        gone = service.fleet.get("lab-1")
        assert (gone.health, gone.reason) == (Health.OFFLINE, lost.reason)
        with pytest.raises(DeviceError, match="dials in by itself"):
            await console.devices.reconnect("lab-1")


class TestTrustThatEndsWhileADeviceRegisters:
    async def test_a_good_token_of_another_connection_does_not_let_it_in(self, console):
        url, old = await pair(console)
        async with scripted(url, old, "lab-1", register=False) as device:
            _, new = await pair(console)
            async with scripted(url, new, "lab-1", register=False):
                await device.say(type="register", client_type="device", client_id="lab-1", status="ok")
                await asyncio.wait_for(device.connection.wait_closed(), PATIENCE_S)
        assert device.listed == 0
        assert "while it registered" in (await console.devices.rejected_connections())[0].reason

    @pytest.mark.parametrize("end", ["revoke", "forget", "pair"])
    async def test_it_is_not_let_in(self, console, end):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", register=False) as device:
            if end == "pair":
                await pair(console)
            else:
                await getattr(console.devices, end)("lab-1")
            # Its connection was let in while its token was good; now it says who it is.
            await device.say(type="register", client_type="device", client_id="lab-1", status="ok")
            await asyncio.wait_for(device.connection.wait_closed(), PATIENCE_S)
            assert device.listed == 0
        assert "while it registered" in (await console.devices.rejected_connections())[0].reason
        names = {one.name: one.health for one in (await console.service.state()).devices}
        assert names.get("lab-1", Health.OFFLINE) is Health.OFFLINE
        assert not (await console.journal.entries("kind:device_connected device:lab-1")).entries


async def test_a_command_on_its_way_to_a_device_that_is_forgotten_ends_as_unknown(service, console):
    url, token = await pair(console)
    async with scripted(url, token, "lab-1", features=FEATURES) as device:
        device.tools = [tool("look", tool_type="data_collection")]
        await stands(console, "lab-1", Health.ONLINE)
        run = await ask(service, console, device)
        await console.devices.forget("lab-1")
        ended = await console.runs.wait(run, PATIENCE_S)
        assert ended.cells[0].result is not None
        assert ended.cells[0].result.error is not None


async def test_progress_reaches_the_cell_the_device_and_at_a_bounded_rate_the_journal(service, console):
    url, token = await pair(console)
    async with scripted(url, token, "lab-1", features=FEATURES) as device:
        await stands(console, "lab-1", Health.ONLINE)
        run = await console.runs.call("lab-1", "poke", {})
        await approve_if_asked(service, console)
        frame = await device.command()
        call_id = frame["actions"][0]["call_id"]
        for seq in range(50):
            await device.say(
                type="quarterdeck.progress",
                call_id=call_id,
                seq=seq,
                stream="stdout",
                text=f"line {seq}\n",
                done=seq + 1,
                total=50,
                unit="files",
            )
        told = await device_when(console, "device.progress == '50 of 50 files'")
        assert told.health is Health.BUSY
        [cell] = (await console.runs.get(run.summary.id)).cells
        assert cell.progress == "50 of 50 files"
        assert cell.output_tail.endswith("line 48\nline 49\n")
        await device.answer(frame, {"done": True})
        ended = await console.runs.wait(run.summary.id, PATIENCE_S)
        assert ended.cells[0].result is not None
        assert (await device_when(console, "device.health is Health.ONLINE")).progress == ""
        entries = (await console.journal.entries(f"kind:progress_reported run:{run.summary.id}")).entries
        assert 1 <= len(entries) <= 5
        assert {entry.call_id for entry in entries} == {call_id}
        assert {entry.actor for entry in entries} == {"device:lab-1"}


async def test_a_command_that_a_device_has_when_it_is_revoked_ends_at_once_as_unknown(
    service, console, monkeypatch: pytest.MonkeyPatch
):
    # A lost answer waits for a device that may come back: here longer than this test.
    monkeypatch.setattr(ResumableLink.__init__, "__defaults__", (10 * PATIENCE_S,))
    url, token = await pair(console)
    async with scripted(url, token, "lab-1", features=[*FEATURES, "recall"]) as device:
        await stands(console, "lab-1", Health.ONLINE)
        run = await ask(service, console, device)
        await console.devices.revoke("lab-1")
        ended = await console.runs.wait(run, PATIENCE_S)
        assert ended.cells[0].result is not None
        assert ended.cells[0].result.verdict.value == "unknown"


async def test_changing_tags_does_not_touch_why_a_device_is_away(console):
    url, token = await pair(console)
    async with scripted(url, token, "lab-1"):
        await stands(console, "lab-1", Health.ONLINE)
    lost = await stands(console, "lab-1", *AWAY)
    changed = await console.devices.update("lab-1", DeviceSettings(tags=["prod"]))
    assert (changed.health, changed.reason, changed.since) == (lost.health, lost.reason, lost.since)
    assert changed.production
    assert not (await console.devices.update("lab-1", DeviceSettings(production=False))).production


async def test_what_a_command_on_this_computer_prints_is_seen_while_it_runs(tmp_path):
    home = make_listening_home(tmp_path / "home")
    (home.path / "settings.toml").write_text('this_computer = "process"\nlisten = "127.0.0.1:0"\n')
    service = await Service.open(home)
    try:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        await stands(console, "this-computer", Health.ONLINE)
        gate = tmp_path / "gate"
        line = f"echo first; while [ ! -e {gate} ]; do sleep 0.05; done; echo last"
        run = (await console.runs.call("this-computer", "shell_execute", {"command": line})).summary.id
        events = console.events()
        await approve_if_asked(service, console)
        async with asyncio.timeout(PATIENCE_S):
            while not (await console.runs.get(run)).cells[0].output_tail:
                await anext(events)
        assert (await console.runs.get(run)).cells[0].output_tail == "first\n"
        gate.touch()
        ended = await console.runs.wait(run, PATIENCE_S)
        assert ended.cells[0].result is not None
        assert ended.cells[0].result.error is None
        assert (await console.journal.entries(f"kind:progress_reported run:{run}")).entries
    finally:
        await service.close()
