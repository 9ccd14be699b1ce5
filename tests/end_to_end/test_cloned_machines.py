"""A copy of a device on another machine: real device clients with copied state, and what runs where."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from core.approvals.models import Approval, ApprovalState
from core.approvals.operator_keys import statement_for
from core.errors import ErrorCode, Refused
from core.fleet.models import CheckState, DeviceSettings
from core.home import Home
from core.models.devices import Health
from core.service.console import Console
from core.service.rpc.client import RemoteConsole
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import run
from tests.fakes.remote_device import copied, make_listening_home, paired, running, stands
from tests.fakes.service_process import ServiceProcess, service_process, until
from tests.fakes.signing import anna

HERE = (Health.ONLINE, Health.BUSY)
AWAY = (Health.OFFLINE, Health.RECONNECTING)
ANOTHER = "another machine answers as lab-1"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_listening_home(tmp_path / "home")


@pytest_asyncio.fixture
async def service(home: Home) -> AsyncIterator[ServiceProcess]:
    async with service_process(home) as service:
        yield service


@pytest_asyncio.fixture
async def console(service: ServiceProcess) -> RemoteConsole:
    return await service.console()


async def asked(console: Console, file: Path) -> Approval:
    """The request to write a file on lab-1, once it waits for operators."""
    events = console.events()
    run = await console.runs.call("lab-1", "write_file", {"file_path": str(file), "content": "x"})

    async def waits() -> list[Approval]:
        return [one for one in (await console.service.state()).approvals if one.run == run.summary.id]

    await until(console, waits, events)
    return (await waits())[0]


async def approve(console: Console, home: Home, approval: Approval) -> Approval:
    return await console.approvals.decide(anna(home).sign(statement_for(approval, "approve", "anna", "")))


async def ended_with(console: Console, approval: Approval) -> ErrorCode | None:
    """The error of the run that a request belongs to, once it has ended."""
    assert approval.run is not None
    result = (await console.runs.wait(approval.run, PATIENCE_S)).cells[0].result
    assert result is not None
    return result.error.code if result.error else None


async def checks_of(console: Console) -> dict[str, CheckState]:
    return {check.name: check.state for check in await console.devices.diagnose("lab-1")}


async def test_what_was_approved_for_a_machine_runs_on_no_copy_of_it(service, console, home, tmp_path):
    pairing = await console.devices.pair("lab-1", DeviceSettings())
    first, second = tmp_path / "first", tmp_path / "second"
    async with paired(first, pairing.string):
        bound = (await stands(console, "lab-1", *HERE)).machine
        assert bound.identity
        assert bound.host
        early = await asked(console, first / "root" / "early")
        late = await asked(console, first / "root" / "late")
    await stands(console, "lab-1", *AWAY)
    async with running(copied(first, second)):
        held = await stands(console, "lab-1", Health.OFFLINE, reason=ANOTHER)
        assert held.other_machine is not None
        assert held.other_machine.identity != bound.identity
        assert (await checks_of(console))["machine"] is CheckState.FAILED
        # Approved while the copy is held.
        await approve(console, home, early)
        assert await ended_with(console, early) is ErrorCode.DEVICE_OFFLINE
        await console.devices.accept_machine("lab-1", held.other_machine.identity)
        # Approved once the copy has taken the machine's place.
        with pytest.raises(Refused, match="withdrawn"):
            await approve(console, home, late)
        assert (await console.approvals.get(late.id)).state is ApprovalState.WITHDRAWN
        assert (await stands(console, "lab-1", *HERE)).machine.identity == held.other_machine.identity
        assert await ended_with(console, late) is not None
    assert not (first / "root" / "early").exists()
    assert not (first / "root" / "late").exists()
    sent = await console.journal.entries("kind:command_sent tool:write_file")
    assert sent.entries == []


async def test_a_copy_beside_its_machine_is_refused_and_the_doctor_says_so(console, tmp_path):
    pairing = await console.devices.pair("lab-1", DeviceSettings())
    async with paired(tmp_path / "first", pairing.string):
        await stands(console, "lab-1", *HERE)
        assert (await checks_of(console))["machine"] is CheckState.PASSED
        events = console.events()
        async with running(copied(tmp_path / "first", tmp_path / "second")):

            async def refused() -> bool:
                return any(ANOTHER in one.reason for one in await console.devices.rejected_connections())

            await until(console, refused, events)
        device = await stands(console, "lab-1", *HERE)
        assert device.other_machine is not None
        [check] = [one for one in await console.devices.diagnose("lab-1") if one.name == "machine"]
        assert check.state is CheckState.FAILED
        assert "Two machines use this pairing" in check.found
        assert "quarterdeck devices accept lab-1" in check.next


async def test_which_machine_a_device_is_stands_after_kill_9_and_is_shown(service, console, home, tmp_path):
    pairing = await console.devices.pair("lab-1", DeviceSettings())
    async with paired(tmp_path / "first", pairing.string):
        bound = (await stands(console, "lab-1", *HERE)).machine
        [entry] = (await console.journal.entries("kind:device_bound device:lab-1")).entries
        assert (entry.body["machine"], entry.body["host"]) == (bound.identity, bound.host)
    port = (await console.devices.listening()).url.split(":")[2].split("/")[0]
    await service.kill()
    (home.path / "settings.toml").write_text(
        f'this_computer = "in-process"\nlisten = "127.0.0.1:{port}"\n', "utf-8"
    )
    async with service_process(home) as again:
        console = await again.console()
        async with running(copied(tmp_path / "first", tmp_path / "second")):
            held = await stands(console, "lab-1", Health.OFFLINE, reason=ANOTHER)
            shown = run(home, "devices", "show", "lab-1").out
            assert "is held" in shown
            assert bound.host in shown
            accepted = run(home, "devices", "accept", "lab-1")
            assert accepted.code == 0, accepted.err
            assert held.other_machine is not None
            assert (await stands(console, "lab-1", *HERE)).machine.identity == held.other_machine.identity
        await again.kill()
    async with service_process(home) as third:
        console = await third.console()
        async with running(tmp_path / "first"):
            # The signed acceptance of the copy holds over a restart: now the first is another machine.
            await stands(console, "lab-1", Health.OFFLINE, reason=ANOTHER)
        details = await console.devices.details("lab-1")
        assert any("was accepted by" in change.reason for change in details.history)
        assert [change for change in details.history if "bound to host" in change.reason]


async def test_another_machine_is_accepted_by_signature_only(service, console, home, tmp_path):
    pairing = await console.devices.pair("lab-1", DeviceSettings())
    async with paired(tmp_path / "first", pairing.string):
        await stands(console, "lab-1", *HERE)
    async with running(copied(tmp_path / "first", tmp_path / "second")):
        held = await stands(console, "lab-1", Health.OFFLINE, reason=ANOTHER)
        assert held.other_machine is not None
        plain = await RemoteConsole.connect(home, "window", "operator:anna")
        try:
            with pytest.raises(Refused) as caught:
                await plain.devices.accept_machine("lab-1", held.other_machine.identity)
            assert caught.value.code is ErrorCode.SIGNATURE_REQUIRED
        finally:
            await plain.close()
        assert (await stands(console, "lab-1", Health.OFFLINE)).machine != held.other_machine


async def test_pairing_again_binds_to_the_machine_that_comes_next(console, tmp_path):
    pairing = await console.devices.pair("lab-1", DeviceSettings())
    async with paired(tmp_path / "first", pairing.string):
        first = (await stands(console, "lab-1", *HERE)).machine
    await stands(console, "lab-1", *AWAY)
    again = await console.devices.pair("lab-1", DeviceSettings())
    async with paired(tmp_path / "second", again.string):
        assert (await stands(console, "lab-1", *HERE)).machine.identity not in ("", first.identity)
