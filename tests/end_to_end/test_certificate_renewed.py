"""A certificate is renewed under a fleet: real services with TLS, real device processes."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from core.aip.pairing import decode_pairing, encode_pairing
from core.errors import BadInput, ErrorCode, Refused
from core.fleet.models import Certificates, CheckState, DeviceSettings
from core.home import Home
from core.models.devices import Health
from core.service.rpc.client import RemoteConsole
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port
from tests.fakes.program import run as quarterdeck
from tests.fakes.remote_device import make_listening_home, paired, running, stands, told
from tests.fakes.service_process import ServiceProcess, service_process, until
from tests.fakes.signing import accepted

HERE = (Health.ONLINE, Health.BUSY)
AWAY = (Health.OFFLINE, Health.RECONNECTING)


@pytest_asyncio.fixture
async def home(tmp_path: Path) -> Home:
    home = make_listening_home(tmp_path / "home", f"0.0.0.0:{free_port()}")
    await accepted(home)
    return home


@pytest_asyncio.fixture
async def service(home: Home) -> AsyncIterator[ServiceProcess]:
    async with service_process(home) as service:
        yield service


@pytest_asyncio.fixture
async def console(service: ServiceProcess) -> RemoteConsole:
    return await service.console()


async def has(console: RemoteConsole, wanted: Callable[[Certificates], bool]) -> Certificates:
    """The certificates, once they are as wanted."""
    events = console.events()

    async def there() -> bool:
        return wanted(await console.devices.certificates())

    await until(console, there, events)
    return await console.devices.certificates()


def local(string: str) -> str:
    """The pairing line, with loopback's address in place of this host's name."""
    line = decode_pairing(string)
    port = line.url.rpartition(":")[2]
    return encode_pairing(type(line)(f"wss://127.0.0.1:{port}", line.name, line.token, line.fingerprint))


async def line_for(console: RemoteConsole, name: str) -> str:
    return local((await console.devices.pair(name, DeviceSettings())).string)


def pinned(state: Path) -> str:
    """The certificate that the device is paired with now."""
    return decode_pairing((state / "trust" / "pairing").read_text()).fingerprint


async def works(console: RemoteConsole, name: str) -> None:
    run = await console.runs.call(name, "get_system_info", {"info_type": "memory"})
    assert (await console.runs.wait(run.summary.id, PATIENCE_S)).cells[0].result.error is None


async def test_devices_take_the_next_certificate_over_their_link_and_drop_the_earlier(console, tmp_path):
    first = (await console.devices.certificates()).present
    async with paired(tmp_path / "a", await line_for(console, "lab-1")):
        await stands(console, "lab-1", *HERE)
        renewed = await console.devices.renew_certificate()
        assert (renewed.present, [row.accepted for row in renewed.devices]) == (
            first,
            [[first, renewed.next]],
        )
        assert pinned(tmp_path / "a") == first
        assert datetime.fromisoformat(renewed.next_until) >= datetime.fromisoformat(renewed.present_until)
        assert datetime.fromisoformat(renewed.present_until) > datetime.now(UTC)
        switched = await console.devices.switch_certificate()
        assert (switched.present, switched.next) == (renewed.next, "")
        await has(console, lambda found: found.devices[0].accepted == [renewed.next])
        await stands(console, "lab-1", *HERE)
        await works(console, "lab-1")
    assert pinned(tmp_path / "a") == renewed.next
    kinds = [
        (entry.kind, entry.device)
        for entry in (await console.journal.entries("kind:certificate_made,certificate_taken")).entries
    ]
    assert sorted(kinds) == [
        ("certificate_made", None),
        ("certificate_taken", "lab-1"),
        ("certificate_taken", "lab-1"),
    ]


async def test_a_switch_names_who_has_not_taken_it_and_one_that_comes_later_takes_it(console, tmp_path):
    line = await line_for(console, "lab-1")
    async with paired(tmp_path / "a", line):
        await stands(console, "lab-1", *HERE)
    await stands(console, "lab-1", *AWAY)
    await console.devices.renew_certificate()
    with pytest.raises(BadInput, match=r"1 device would have to be paired again.*lab-1: not told yet"):
        await console.devices.switch_certificate()
    async with running(tmp_path / "a"):
        await has(console, lambda found: found.devices[0].takes_next)
        switched = (await console.devices.switch_certificate()).present
        await has(console, lambda found: found.devices[0].accepted == [switched])
        await stands(console, "lab-1", *HERE)
        await works(console, "lab-1")


async def test_it_outlives_a_restart_of_both_and_is_announced_once(home, tmp_path):
    async with service_process(home) as service:
        console = await service.console()
        first = (await console.devices.certificates()).present
        async with paired(tmp_path / "a", await line_for(console, "lab-1")):
            await stands(console, "lab-1", *HERE)
            found = await console.devices.renew_certificate()
    async with service_process(home) as service:
        console = await service.console()
        assert await console.devices.certificates() == found
        again = await console.devices.renew_certificate()
        assert (again.present, again.next) == (first, found.next)
        await console.devices.switch_certificate()
    async with service_process(home) as service:
        console = await service.console()
        after = await console.devices.certificates()
        assert (after.present, after.next) == (found.next, "")
        assert not (home.tls / found.next).exists()
    entries = (tmp_path / "a" / "trust" / "second-pin.json").read_text()
    assert json.loads(entries)["fingerprint"] == found.next


async def test_a_switch_that_a_crash_cut_off_is_completed_at_the_next_start(home, tmp_path):
    async with service_process(home) as service:
        console = await service.console()
        found = await console.devices.renew_certificate()
        shutil.copytree(home.tls, tmp_path / "before")
        await console.devices.switch_certificate(anyway=True)
    shutil.rmtree(home.tls)
    shutil.copytree(tmp_path / "before", home.tls)
    async with service_process(home) as service:
        console = await service.console()
        assert (await console.devices.certificates()).present == found.next
        assert not (home.tls / found.next).exists()


async def test_an_exchanged_next_certificate_is_not_announced(home, tmp_path):
    async with service_process(home) as service:
        console = await service.console()
        found = await console.devices.renew_certificate()
    folder = home.tls / found.next
    for name in ("link-certificate.pem", "link-key.pem"):
        shutil.copy(home.tls / name, folder / name)
    async with service_process(home) as service:
        console = await service.console()
        assert (await console.devices.certificates()).next == ""
        async with paired(tmp_path / "a", await line_for(console, "lab-1")):
            await stands(console, "lab-1", *HERE)
            assert not (tmp_path / "a" / "trust" / "second-pin.json").exists()


async def test_who_was_too_late_is_told_both_certificates_everywhere(home, tmp_path):
    state = tmp_path / "a"
    async with service_process(home) as service:
        console = await service.console()
        first = (await console.devices.certificates()).present
        async with paired(state, await line_for(console, "lab-1")):
            await stands(console, "lab-1", *HERE)
    shutil.rmtree(home.tls)
    async with running(state), service_process(home) as service:
        console = await service.console()
        listening = await console.devices.listening()
        second = listening.fingerprint
        said = f"paired with certificate {first[:8]}…, this console shows {second[:8]}…: pair it again"
        device = await stands(console, "lab-1", Health.OFFLINE, reason=said)
        assert "quarterdeck pair lab-1" in device.reason
        assert "lab-1" in listening.warning
        events = console.events()

        async def closed() -> bool:
            refusals = await console.devices.rejected_connections()
            return any("closed during its TLS handshake" in one.reason for one in refusals)

        await until(console, closed, events)
        [check] = [one for one in await console.devices.diagnose("lab-1") if one.name == "tls"]
        assert check.state is CheckState.FAILED
        assert said in check.found
        assert "closed during its TLS handshake" in check.found
        details = await console.devices.details("lab-1")
        assert (details.fingerprint, details.accepted) == (second, [first])
        # Paired again while its client runs: it is taken without a restart.
        answer = await told(state, "--pair", "-", stdin=await line_for(console, "lab-1"))
        assert "the client that runs here connects there" in answer
        await stands(console, "lab-1", *HERE)
        assert (await console.devices.listening()).warning == ""


async def test_another_name_is_taken_without_a_restart(console, tmp_path):
    state = tmp_path / "a"
    async with paired(state, await line_for(console, "lab-1")):
        await stands(console, "lab-1", *HERE)
        await told(state, "--pair", "-", stdin=await line_for(console, "lab-2"))
        await console.devices.forget("lab-1")
        await stands(console, "lab-2", *HERE)
        await works(console, "lab-2")


async def test_it_is_signed_and_shown_on_the_command_line(home, console, tmp_path):
    async with paired(tmp_path / "a", await line_for(console, "lab-1")):
        await stands(console, "lab-1", *HERE)
        ended = await asyncio.to_thread(quarterdeck, home, "devices", "certificate", "renew")
        assert ended.code == 0, ended.err
        assert "both" in ended.out
        ended = await asyncio.to_thread(quarterdeck, home, "devices", "certificate", "switch", "--json")
        assert ended.code == 0, ended.err
        assert json.loads(ended.out)["next"] == ""
    [entry] = (await console.journal.entries("kind:certificate_made")).entries
    assert entry.body["signed"]["statement"]["approver"] == "anna"


async def test_without_a_signature_there_is_none(home, service):
    await service.console()
    plain = await RemoteConsole.connect(home, "window", "operator:anna")
    with pytest.raises(Refused) as refused:
        await plain.devices.renew_certificate()
    assert refused.value.code is ErrorCode.SIGNATURE_REQUIRED
    assert (await plain.devices.certificates()).next == ""
    await plain.close()
