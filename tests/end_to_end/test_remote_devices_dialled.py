"""Devices that listen: the console dials them, knows them by their certificate, and says why it cannot."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from core.aip.pairing import Pairing, decode_pairing, encode_pairing
from core.errors import BadInput
from core.fleet.known_devices import KnownDevice
from core.fleet.models import CheckState, DeviceSettings
from core.home import Home
from core.ids import new_id
from core.models.devices import Health
from core.service.rpc.client import RemoteConsole
from tests.fakes.known_devices import dialled, put_trusted
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port
from tests.fakes.remote_device import make_listening_home, running, stands, told
from tests.fakes.service_process import ServiceProcess, service_process

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = (Health.ONLINE, Health.BUSY)
AWAY = (Health.OFFLINE, Health.RECONNECTING)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServiceProcess]:
    """One service for the file; each test has a device of its own."""
    async with service_process(make_listening_home(tmp_path_factory.mktemp("dials") / "home")) as service:
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


async def string_of(state: Path, name: str, port: int, host: str = "127.0.0.1") -> str:
    words = ("--advertise", "127.0.0.1") if host == "0.0.0.0" else ()
    return (await told(state, "--listen", f"{host}:{port}", "--pair", "--name", name, *words)).strip()


async def failed_check(console: RemoteConsole, name: str) -> tuple[str, str, str]:
    """The first check of the doctor that fails: its name, what was found, what to do."""
    checks = await console.devices.diagnose(name)
    names = [check.name for check in checks]
    assert names == ["dns", "reach", "tls", "token", "protocol"]
    states = [check.state for check in checks]
    at = states.index(CheckState.FAILED)
    assert set(states[:at]) <= {CheckState.PASSED}
    assert set(states[at + 1 :]) <= {CheckState.SKIPPED}
    return checks[at].name, checks[at].found, checks[at].next


async def test_a_listening_device_is_dialled_and_works_and_comes_back(console, name, tmp_path):
    port = free_port()
    string = await string_of(tmp_path / "d", name, port)
    async with running(tmp_path / "d", "--name", name):
        await console.devices.pair_listening(name, string, DeviceSettings(tags=["lab"]))
        device = await stands(console, name, *HERE)
        assert (device.direction, device.tags, device.secure) == ("out", ["lab"], False)
        run = await console.runs.call(name, "get_system_info", {"info_type": "memory"})
        assert (await console.runs.wait(run.summary.id, PATIENCE_S)).cells[0].result.error is None
        assert {check.state for check in await console.devices.diagnose(name)} == {CheckState.PASSED}
    assert "attempt" in (await stands(console, name, Health.RECONNECTING, reason="reached")).reason
    check, found, then = await failed_check(console, name)
    assert check == "reach"
    assert "nothing listens" in found
    assert "Start" in then
    async with running(tmp_path / "d", "--name", name):
        events = console.events()
        async with asyncio.timeout(PATIENCE_S):
            while (await console.devices.reconnect(name)).health not in HERE:
                await anext(events)


async def test_with_tls_its_certificate_is_pinned(console, name, tmp_path):
    string = await string_of(tmp_path / "d", name, free_port(), "0.0.0.0")
    assert decode_pairing(string).url.startswith("wss://")
    async with running(tmp_path / "d", "--name", name):
        await console.devices.pair_listening(name, string, DeviceSettings())
        assert (await stands(console, name, *HERE)).secure
        details = await console.devices.details(name)
        assert details.fingerprint == decode_pairing(string).fingerprint
        await console.devices.revoke(name)
        assert (await stands(console, name, Health.OFFLINE)).reason == "revoked"


async def test_another_certificate_is_not_even_shown_the_token(console, name, tmp_path):
    string = await string_of(tmp_path / "d", name, free_port(), "0.0.0.0")
    line = decode_pairing(string)
    wrong = encode_pairing(dataclasses.replace(line, fingerprint="ab" * 32))
    async with running(tmp_path / "d", "--name", name):
        await console.devices.pair_listening(name, wrong, DeviceSettings())
        await stands(console, name, *AWAY, reason="certificate")
        check, found, then = await failed_check(console, name)
        assert check == "tls"
        assert line.fingerprint in found
        assert "ab" * 32 in found
        assert f"pair {name} again" in then


async def test_a_token_that_the_device_does_not_accept_is_told(console, name, tmp_path):
    string = await string_of(tmp_path / "d", name, free_port())
    line = decode_pairing(string)
    async with running(tmp_path / "d", "--name", name):
        await console.devices.pair_listening(
            name, encode_pairing(dataclasses.replace(line, token="wrong")), DeviceSettings()
        )
        await stands(console, name, *AWAY, reason="token")
        check, found, then = await failed_check(console, name)
        assert check == "token"
        assert "403" in found
        assert f"Pair {name} again" in then


async def test_after_a_restart_it_is_dialled_again(home, tmp_path):
    string = await string_of(tmp_path / "d", "lab-1", free_port())
    async with running(tmp_path / "d", "--name", "lab-1"):
        async with service_process(home) as first:
            console = await first.console()
            await console.devices.pair_listening("lab-1", string, DeviceSettings())
            await stands(console, "lab-1", *HERE)
        async with service_process(home) as second:
            await stands(await second.console(), "lab-1", *HERE)


async def test_a_string_of_another_device_or_of_nobody_is_refused(console, name, tmp_path):
    string = await string_of(tmp_path / "d", name, free_port())
    with pytest.raises(BadInput, match=rf"{name}\b(?!-b)"):
        await console.devices.pair_listening(f"{name}-b", string, DeviceSettings())
    with pytest.raises(BadInput):
        await console.devices.pair_listening(name, string[:-3] + "000", DeviceSettings())
    assert name not in [one.name for one in (await console.service.state()).devices]


async def test_the_token_for_dialling_stands_only_in_its_own_file(console, service, name, tmp_path):
    string = await string_of(tmp_path / "d", name, free_port())
    token = decode_pairing(string).token
    await console.devices.pair_listening(name, string, DeviceSettings())
    await stands(console, name, Health.RECONNECTING)
    with_it = {
        path
        for path in service.home.path.rglob("*")
        if path.is_file() and token.encode() in path.read_bytes()
    }
    assert with_it == {service.home.path / "keys" / "dial" / f"{name}.token"}


async def test_an_address_beyond_this_computer_without_a_certificate_to_pin_is_not_dialled(
    console, service, name
):
    line = Pairing("wss://lab.example:5001/ws", name, "a-token")
    with pytest.raises(BadInput, match="fingerprint"):
        await console.devices.pair_listening(name, encode_pairing(line), DeviceSettings())
    assert name not in [one.name for one in (await console.service.state()).devices]
    assert not (service.home.path / "keys" / "dial" / f"{name}.token").exists()


async def test_one_device_that_cannot_be_dialled_does_not_keep_the_service_from_starting(home):
    await put_trusted(
        home,
        dialled(KnownDevice(name="lab-1"), "wss://lab.example:5001/ws", "a-token", ""),
        dialled(KnownDevice(name="lab-2"), "ws://127.0.0.1:1/ws", "a-token", ""),
    )
    home.dial_tokens.mkdir(mode=0o700)
    (home.dial_tokens / "lab-1.token").write_text("a-token")
    async with service_process(home) as service:
        console = await service.console()
        assert "fingerprint" in (await stands(console, "lab-1", Health.OFFLINE)).reason
        assert "pair it again" in (await stands(console, "lab-2", Health.OFFLINE)).reason


async def test_a_listening_device_keeps_the_name_that_its_string_was_made_for(console, name, tmp_path):
    string = await string_of(tmp_path / "d", name, free_port())
    # As README says: what was set up with --pair needs no words.
    async with running(tmp_path / "d"):
        await console.devices.pair_listening(name, string, DeviceSettings())
        assert (await stands(console, name, *HERE)).name == name
