"""One command on its way, with its argument marked: few names, and no way back to a file that it has left.

A real service, its control socket, a link over a real socket and a device client, all in this process, so
that each function that ever holds the argument is seen.
"""

from __future__ import annotations

from pathlib import Path

from core.aip.pairing import decode_pairing
from core.batch.models import Batch, CellState, Step
from core.device.build import build_router
from core.device.client import DeviceClient
from core.device.config import DeviceConfig
from core.fleet.models import DeviceSettings
from core.models.devices import Health
from core.service.local_console import LocalConsoles
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from core.service.service import Service
from tests.fakes.link_console import QUICK, running
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home, stands
from tests.fakes.signing import accepted, signing
from tests.fakes.value_trace import ValueTrace, tracing

MARK = "argument-followed-through-the-house"
NAME = "lab-1"
ALLOWED = """profile = "trusted"
[[rule]]
id = "shell"
decision = "allow"
tool = "shell_execute"
risk = "<=critical"
"""

# What is reached; wanted are 25 returns.
MOST_NAMES = 40
MOST_RETURNS = 51
# The fiftieth holds how POSIX starts a shell: each system has a file of its own for that.
MOST_FILES = 50


async def traced(folder: Path) -> ValueTrace:
    """Run `true # MARK` on a device that dials in, allowed by a rule."""
    home = make_listening_home(folder / "home")
    await accepted(home, ALLOWED)
    with tracing(MARK) as trace:
        service = await Service.open(home)
        control = ControlServer(LocalConsoles(service), home)
        await control.open()
        console = signing(await RemoteConsole.connect(home, "test", "operator:anna"), home)
        try:
            pairing = await console.devices.pair(NAME, DeviceSettings())
            (root := folder / "root").mkdir()
            config = DeviceConfig(roots=(root,), tools_off=frozenset({"shell_execute_read"}))
            router = build_router(config, folder / "state", NAME)
            client = DeviceClient(
                pairing.url,
                *(NAME, router, config, decode_pairing(pairing.string).token, QUICK),
                fingerprint=pairing.fingerprint,
                state_dir=folder / "state",
            )
            async with running(client):
                await stands(console, NAME, Health.ONLINE)
                step = Step(id="mark", tool="shell_execute", parameters={"command": f"true # {MARK}"})
                trace.is_recording = True
                run = await console.runs.start(Batch(name="marked", targets=f"name:{NAME}", steps=[step]))
                run = await console.runs.wait(run.summary.id, PATIENCE_S)
                trace.is_recording = False
            await router.close()
            [cell] = run.cells
            assert cell.state is CellState.DONE, cell.result
        finally:
            await console.close()
            await control.close()
            await service.close()
    return trace


async def test_one_argument_has_few_names_and_does_not_come_back(tmp_path: Path) -> None:
    trace = await traced(tmp_path)
    assert any("commands/arguments.py" in file for file in trace.files), trace.report()
    assert any("shell.py" in file for file in trace.files), trace.report()
    assert len(trace.names) <= MOST_NAMES, trace.report()
    assert len(trace.returns) <= MOST_RETURNS, trace.report()
    assert len(trace.files) <= MOST_FILES, trace.report()
