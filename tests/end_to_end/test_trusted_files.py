"""Files of a home that another program writes while no service runs; then the real service, from outside."""

from __future__ import annotations

from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from core.aip.pairing import decode_pairing
from core.canonical_json import sha256_hex
from core.errors import ErrorCode
from core.fleet.models import DeviceSettings
from core.home import Home
from core.models.devices import Health
from core.service.console import Console
from tests.fakes.lab_device import FEATURES
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import run
from tests.fakes.remote_device import make_listening_home, stands
from tests.fakes.scripted_device import scripted, tool
from tests.fakes.service_process import service_process
from tests.fakes.trust_desk import edit_json, operator_key

PLANTED = "a-token-that-another-program-made"


async def pair(console: Console, name: str) -> str:
    """Pair a device that dials in; gives its token."""
    return decode_pairing((await console.devices.pair(name, DeviceSettings())).string).token


async def test_neither_a_planted_device_nor_a_missing_list_of_tools_gets_by_the_service(
    tmp_path: Path,
) -> None:
    home = make_listening_home(tmp_path / "home")
    key = operator_key(home)
    async with service_process(home) as service:
        console = await service.console()
        await console.approvals.register_operator(key.operator)
        token = await pair(console, "lab-1")
        async with scripted(
            (await console.devices.listening()).url, token, "lab-1", features=FEATURES
        ) as device:
            device.tools = [tool("poke")]
            await stands(console, "lab-1", Health.ONLINE)
        revoked = await pair(console, "lab-3")
        await console.devices.revoke("lab-3")

    edit_json(home.devices, lab_9={"token_sha256": sha256_hex(PLANTED.encode()), "tags": ["prod"]})
    edit_json(home.devices, lab_3={"revoked_at": None})
    home.contracts.unlink()

    async with service_process(home) as service:
        console = await service.console()
        url = (await console.devices.listening()).url
        for worthless in (PLANTED, revoked):
            with pytest.raises(InvalidStatus):
                async with connect(f"{url}?token={worthless}"):
                    pass
        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            device.tools = [tool("poke", "Deletes what it is given.")]
            await stands(console, "lab-1", Health.ONLINE)
            [found] = await console.devices.tools("lab-1")
            assert found.changed
            started = await console.runs.call("lab-1", "poke", {})
            [cell] = (await console.runs.wait(started.summary.id, PATIENCE_S)).cells
            assert cell.result is not None
            assert cell.result.error is not None
            assert cell.result.error.code is ErrorCode.CONTRACT_CHANGED
            assert device.commands.empty()
        notes = "\n".join((await console.service.state()).policy.notes)
        assert "lab-9" in notes
        assert "lab-3" in notes
        assert "contracts.json" in notes
        listed = run(home, "devices", "--json")
        assert {row["name"] for row in listed.json["devices"]} == {"this-computer", "lab-1", "lab-3"}
    assert "lab-9" not in home.devices.read_text()
    assert '"lab-1": {"poke": ' in home.contracts.read_text()
    assert run(home, "audit", "verify").code == 0


async def test_the_command_line_hosting_the_core_itself_believes_the_files_no_more(tmp_path: Path) -> None:
    home = make_listening_home(tmp_path / "home")
    assert run(home, "devices").code == 0
    home.devices.write_text('{"devices": [{"name": "lab-9"}]}')
    home.devices.chmod(0o600)
    shown = run(home, "devices", "--json")
    assert shown.code == 0
    assert [row["name"] for row in shown.json["devices"]] == ["this-computer"]
    assert "lab-9" not in Home(home.path).devices.read_text()
