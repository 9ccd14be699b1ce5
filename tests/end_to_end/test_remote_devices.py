"""Devices at the other end of real links: the service's process, the device client's, nobody in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from core.aip.pairing import decode_pairing
from core.batch.models import Batch
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.fleet.models import CheckState, DeviceSettings
from core.home import Home
from core.ids import new_id
from core.models.devices import Health
from core.service.console import Console, DeviceForgotten
from core.service.rpc.client import RemoteConsole
from core.settings import Settings
from tests.fakes.agents import add_agent
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home, on_one_machine, paired, stands
from tests.fakes.service_process import ServiceProcess, service_process
from tests.fakes.signing import anna

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = (Health.ONLINE, Health.BUSY)
AWAY = (Health.OFFLINE, Health.RECONNECTING)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServiceProcess]:
    """One service for the file; each test has devices of its own."""
    async with service_process(make_listening_home(tmp_path_factory.mktemp("remote") / "home")) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def console(service: ServiceProcess) -> RemoteConsole:
    return await service.console()


@pytest.fixture
def name() -> str:
    """A device that no other test pairs."""
    return f"lab-{new_id().lower()}"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """The home of a test that has a service of its own."""
    return make_listening_home(tmp_path / "home")


@pytest_asyncio.fixture(loop_scope="module")
async def own_service(home: Home) -> AsyncIterator[ServiceProcess]:
    """For a test that ends its service, changes where it listens or reads its files."""
    async with service_process(home) as service:
        yield service


async def kinds_of(console: Console, query: str) -> list[str]:
    return [entry.kind.value for entry in (await console.journal.entries(query)).entries]


async def refused_at(url: str, token: str, **headers: str) -> int:
    """The HTTP status with which an upgrade is refused."""
    with pytest.raises(InvalidStatus) as caught:
        async with connect(url, additional_headers={"Authorization": f"Bearer {token}", **headers}):
            pass
    return caught.value.response.status_code


class TestDiallingIn:
    async def test_a_paired_device_comes_online_and_answers(self, console, name, tmp_path):
        pairing = await console.devices.pair(name, DeviceSettings(tags=["here"], production=True))
        async with paired(tmp_path / "d", pairing.string):
            device = await stands(console, name, *HERE)
            assert (device.direction, device.tags, device.production) == ("in", ["here"], True)
            assert device.client.startswith("quarterdeck-device")
            assert device.tool_count > 5
            assert device.platform == "linux"
            assert abs(device.clock_offset_ms) < 2000
            assert "get_system_info" in {tool.tool_name for tool in await console.devices.tools(name)}
            run = await console.runs.call(name, "get_system_info", {"info_type": "memory"})
            ended = await console.runs.wait(run.summary.id, PATIENCE_S)
            assert ended.cells[0].result.verdict.value == "confirmed"
            assert [one.name for one in await console.devices.match("os:linux tag:here")] == [name]
            assert {check.state for check in await console.devices.diagnose(name)} == {CheckState.PASSED}
        lost = await stands(console, name, *AWAY)
        assert lost.reason
        assert lost.platform == "linux"
        details = await console.devices.details(name)
        assert [one.health for one in details.history[-2:]] in (
            [Health.ONLINE, Health.RECONNECTING],
            [Health.ONLINE, Health.OFFLINE],
        )
        assert details.paired_at

    async def test_a_plan_says_which_paths_the_device_will_refuse(self, console, name, tmp_path):
        pairing = await console.devices.pair(name, DeviceSettings())
        async with paired(tmp_path / "d", pairing.string):
            device = await stands(console, name, *HERE)
            root = f"{tmp_path}/d/root"
            assert device.roots == [root]
            steps = [
                {"id": one, "tool": "read_file", "with": {"file_path": path}}
                for one, path in (("in", f"{root}/a"), ("out", "/etc/hostname"))
            ]
            batch = Batch.model_validate({"name": "x", "targets": f"name:{name}", "steps": steps})
            inside, outside = (await console.runs.plan(batch)).cells
            will = f"{name} will refuse it: file_path is outside its allowed roots: {root}."
            assert will in outside.why
            assert "will refuse" not in inside.why
            # The claim changes no decision, and the device decides.
            assert (outside.outcome, outside.risk) == (inside.outcome, inside.risk)
            run = await console.runs.call(name, "read_file", {"file_path": "/etc/hostname"})
            ended = await console.runs.wait(run.summary.id, PATIENCE_S)
            assert ended.cells[0].result.error.code is ErrorCode.PATH_NOT_ALLOWED

    async def test_its_token_stands_in_no_file_of_the_home(self, own_service, home, tmp_path):
        console = await own_service.console()
        pairing = await console.devices.pair("lab-1", DeviceSettings())
        token = decode_pairing(pairing.string).token
        async with paired(tmp_path / "d", pairing.string):
            await stands(console, "lab-1", *HERE)
            assert await refused_at(pairing.url, token + "x") == 403
            assert await refused_at(f"{pairing.url}?token={token}x", token + "y") == 403
        await console.devices.revoke("lab-1")
        assert await refused_at(pairing.url, token) == 403
        assert token not in str((await console.journal.entries("", limit=200)).entries)
        await own_service.leave()
        own_service.process.terminate()
        await own_service.ends()
        for path in home.path.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                assert token.encode() not in data, path
                assert pairing.string.encode() not in data, path

    async def test_a_wrong_token_is_refused_told_and_harms_nobody_else(self, console, name, tmp_path):
        good = await console.devices.pair(name, DeviceSettings())
        bad = await console.devices.pair(f"{name}-b", DeviceSettings())
        await console.devices.pair(f"{name}-b", DeviceSettings())
        async with paired(tmp_path / "good", good.string):
            await stands(console, name, *HERE)
            async with paired(tmp_path / "bad", bad.string) as device:
                assert await device.ended() == 3
            run = await console.runs.call(name, "get_system_info", {"info_type": "memory"})
            assert (await console.runs.wait(run.summary.id, PATIENCE_S)).cells[0].result.error is None
        assert any("token" in one.reason for one in await console.devices.rejected_connections())
        assert (await console.devices.listening()).refused >= 1
        assert "device_refused" in await kinds_of(console, "kind:device_refused")
        checks = {check.name: check for check in await console.devices.diagnose(f"{name}-b")}
        assert checks["token"].state is CheckState.FAILED
        assert f"Pair {name}-b again" in checks["token"].next

    async def test_revoking_ends_the_link_at_once_and_for_good(self, console, name, tmp_path):
        pairing = await console.devices.pair(name, DeviceSettings())
        async with paired(tmp_path / "d", pairing.string) as device:
            await stands(console, name, *HERE)
            revoked = await console.devices.revoke(name)
            assert (revoked.health, revoked.reason, revoked.paired) == (Health.OFFLINE, "revoked", False)
            assert await device.ended() == 3
        run = await console.runs.call(name, "get_system_info", {"info_type": "memory"})
        ended = await console.runs.wait(run.summary.id, PATIENCE_S)
        assert ended.cells[0].result.error.code is ErrorCode.DEVICE_OFFLINE
        assert "device_revoked" in await kinds_of(console, f"device:{name}")
        refusals = (await console.devices.details(name)).refusals
        assert "revoked" in refusals[-1].reason
        [check] = await console.devices.diagnose(name)
        assert (check.name, check.state) == ("pairing", CheckState.FAILED)

    async def test_pairing_a_name_again_ends_the_link_of_the_old_token(self, console, name, tmp_path):
        first = await console.devices.pair(name, DeviceSettings(tags=["kept"]))
        async with paired(tmp_path / "old", first.string) as old:
            await stands(console, name, *HERE)
            second = await console.devices.pair(name, DeviceSettings())
            assert await old.ended() == 3
            async with paired(tmp_path / "new", second.string):
                assert (await stands(console, name, *HERE)).tags == ["kept"]

    async def test_a_second_client_under_the_same_name_is_refused_and_the_first_stays(
        self, console, name, tmp_path
    ):
        pairing = await console.devices.pair(name, DeviceSettings())
        async with paired(tmp_path / "one", pairing.string):
            await stands(console, name, *HERE)
            on_one_machine(tmp_path / "one", tmp_path / "two")
            async with paired(tmp_path / "two", pairing.string):
                events = console.events()
                async with asyncio.timeout(PATIENCE_S):
                    while not (await console.devices.details(name)).refusals:
                        await anext(events)
            [refusal] = (await console.devices.details(name)).refusals
            assert "already registered" in refusal.reason
            run = await console.runs.call(name, "get_system_info", {"info_type": "memory"})
            assert (await console.runs.wait(run.summary.id, PATIENCE_S)).cells[0].result.error is None

    async def test_a_forgotten_device_is_gone_for_everybody(self, console, service, name, tmp_path):
        pairing = await console.devices.pair(name, DeviceSettings())
        other = await service.console("operator:ben")
        events = other.events()
        async with paired(tmp_path / "d", pairing.string) as device:
            await stands(console, name, *HERE)
            await console.devices.forget(name)
            assert await device.ended() == 3
        async with asyncio.timeout(PATIENCE_S):
            while not (isinstance(event := await anext(events), DeviceForgotten) and event.name == name):
                pass
        assert name not in [one.name for one in (await other.service.state()).devices]
        with pytest.raises(BadInput) as caught:
            await console.devices.details(name)
        assert caught.value.code is ErrorCode.UNKNOWN_DEVICE
        assert "device_forgotten" in await kinds_of(console, f"device:{name}")

    async def test_after_a_restart_it_is_known_and_comes_back(self, own_service, home, tmp_path):
        console = await own_service.console()
        port = (
            decode_pairing((await console.devices.pair("x", DeviceSettings())).string)
            .url.split(":")[2]
            .split("/")[0]
        )
        await console.devices.listen(f"127.0.0.1:{port}")
        pairing = await console.devices.pair("lab-1", DeviceSettings(tags=["lab"]))
        async with paired(tmp_path / "d", pairing.string) as device:
            online = await stands(console, "lab-1", *HERE)
            await own_service.kill()
            async with service_process(home) as again:
                there = await again.console()
                back = await stands(there, "lab-1", *HERE)
                assert back.tags == ["lab"]
                await device.stop()
                await stands(there, "lab-1", *AWAY)
        async with service_process(home) as third:
            there = await third.console()
            away = await stands(there, "lab-1", Health.OFFLINE)
            async with asyncio.timeout(PATIENCE_S):
                events = there.events()
                while not (
                    away := next(d for d in (await there.service.state()).devices if d.name == "lab-1")
                ).system:
                    await anext(events)
            assert away.system == online.system
            assert away.last_heard
            history = (await there.devices.details("lab-1")).history
            assert Health.ONLINE in {one.health for one in history}


class TestListening:
    async def test_a_taken_port_is_told_and_the_service_works_all_the_same(self, console, tmp_path):
        taken = (await console.devices.listening()).url.removeprefix("ws://").removesuffix("/ws")
        async with service_process(make_listening_home(tmp_path / "second", taken)) as second:
            there = await second.console()
            found = await there.devices.listening()
            assert "taken by another program" in found.problem
            assert found.url == ""
            with pytest.raises(BadInput, match="listens nowhere"):
                await there.devices.pair("lab-1", DeviceSettings())
            assert (await there.service.state()).devices[0].health in HERE
            with pytest.raises(BadInput, match="taken"):
                await there.devices.listen(taken)
            moved = await there.devices.listen("127.0.0.1:0")
            assert moved.url
            assert not moved.problem
            assert (await there.devices.pair("lab-1", DeviceSettings())).url == moved.url
            assert await kinds_of(there, "kind:listening_changed")

    async def test_a_new_address_holds_after_a_restart(self, own_service, home):
        console = await own_service.console()
        await console.devices.listen("localhost:0")
        assert Settings.read(home.settings).listen == "localhost:0"
        assert Settings.read(home.settings).this_computer == "in-process"

    @pytest.mark.parametrize(
        "address", ["nonsense", "127.0.0.1", "127.0.0.1:70000", "203.0.113.9:0", ":5000"]
    )
    async def test_an_address_that_cannot_be_leaves_the_old_one(self, console, service, address):
        before = await console.devices.listening()
        with pytest.raises(BadInput):
            await console.devices.listen(address)
        after = await console.devices.listening()
        assert after.address == before.address
        assert after.url
        assert not after.problem
        assert Settings.read(service.home.settings).listen == before.address

    async def test_beyond_loopback_only_tls_is_spoken_and_the_certificate_is_pinned(
        self, own_service, tmp_path
    ):
        console = await own_service.console()
        found = await console.devices.listen("0.0.0.0:0")
        assert found.secure
        assert len(found.fingerprint) == 64
        pairing = await console.devices.pair("lab-1", DeviceSettings())
        assert pairing.url.startswith("wss://")
        assert pairing.fingerprint == found.fingerprint
        async with paired(tmp_path / "d", pairing.string):
            device = await stands(console, "lab-1", *HERE)
            assert device.secure
            run = await console.runs.call("lab-1", "get_system_info", {"info_type": "memory"})
            assert (await console.runs.wait(run.summary.id, PATIENCE_S)).cells[0].result.error is None
        plain = pairing.url.replace("wss://", "ws://")
        with pytest.raises((InvalidStatus, OSError, EOFError)):
            async with connect(f"{plain}?token=x"):
                pass
        assert any("TLS" in one.reason for one in await console.devices.rejected_connections())


WISHES = [
    ("listen", ("0.0.0.0:0",)),
    ("pair", ("mine", DeviceSettings())),
    ("pair_listening", ("mine", "qd1.x.y", DeviceSettings())),
    ("update", ("lab-1", DeviceSettings(tags=["prod"]))),
    ("revoke", ("lab-1",)),
    ("forget", ("lab-1",)),
    ("reconnect", ("lab-1",)),
]


@pytest.mark.parametrize("client", ["agent", "window"])
async def test_an_agent_changes_nothing_about_devices(own_service, home, client):
    console = await own_service.console()
    await console.devices.pair("lab-1", DeviceSettings(tags=["lab"]))
    before = (home.path / "devices.json").read_bytes()
    token = await add_agent(console, anna(home))
    agent = await RemoteConsole.connect(home, client, "agent:claude", token=token)
    try:
        for method, arguments in WISHES:
            with pytest.raises(Refused):
                pytest.fail(f"{method} gave {await getattr(agent.devices, method)(*arguments)}")
            assert [device.name for device in await agent.devices.match("name:lab-1")] == ["lab-1"], method
            assert (home.path / "devices.json").read_bytes() == before, method
            assert Settings.read(home.settings).listen == "127.0.0.1:0", method
    finally:
        await agent.close()


async def test_this_computer_is_nobodys_to_pair_revoke_or_forget(console):
    for wish in (
        console.devices.pair("this-computer", DeviceSettings()),
        console.devices.revoke("this-computer"),
        console.devices.forget("this-computer"),
        console.devices.update("this-computer", DeviceSettings(tags=["x"])),
    ):
        with pytest.raises(QuarterdeckError):
            await wish
    assert (await console.devices.reconnect("this-computer")).health in HERE


async def test_a_damaged_device_list_is_named_and_written_anew(home):
    (home.path / "devices.json").write_text('{"devices": [')
    async with service_process(home) as service:
        notes = (await (await service.console()).service.state()).policy.notes
    assert any("devices.json" in note for note in notes)
    assert json.loads((home.path / "devices.json").read_text()) == {"devices": []}
